"""Makes tests/vision/golden_page.npz, which is read natively and in Pyodide: a page with two lines and a table.

python -m tests.vision.make_golden_page
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from tests.vision.page_drawings import PAPER, font

FILE = Path(__file__).with_name("golden_page.npz")
LINES = ("Bread and cheese for 12.50 Euro", "Order A17, ready at 9:30")
CELLS = (("Name", "Amount"), ("Apples", "17"), ("Pears", "208"))


def drawn() -> np.ndarray:
    image = Image.new("L", (420, 260), PAPER)
    draw = ImageDraw.Draw(image)
    for number, text in enumerate(LINES):
        draw.text((20, 20 + 36 * number), text, 20, font(22))
    for row, texts in enumerate(CELLS):
        for column, text in enumerate(texts):
            left, top = 20 + 150 * column, 110 + 44 * row
            draw.rectangle((left, top, left + 150, top + 44), fill=50 if row == 0 else None, outline=20, width=2)
            draw.text((left + 14, top + 9), text, 240 if row == 0 else 20, font(20))
    turned = image.rotate(1.0, Image.Resampling.BICUBIC, fillcolor=PAPER)
    noise = np.random.default_rng(1).standard_normal((260, 420)) * 3
    return np.clip(np.asarray(turned) + noise, 0, 255).astype(np.uint8) & 0xF8  # fewer bits: a small file


if __name__ == "__main__":
    np.savez_compressed(FILE, page=drawn())
    print(FILE, FILE.stat().st_size)
