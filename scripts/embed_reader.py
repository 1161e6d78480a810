"""Puts a trained reader of printed lines into the site with a picture to try it with, and its sizes and hashes into
pyapp/registry.json.

pyapp train reader --out-dir runs/reader
python -m scripts.embed_reader runs/reader
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageDraw

from pyapp.recipes.reader.fonts import installed, opened
from pyapp.recipes.reader.language import LANGUAGE_FILE
from scripts.embedded_files import MODELS, embed

FILES = ("model.safetensors", "config.json", LANGUAGE_FILE)
FAMILY = "Liberation Serif"
TITLE = "Bakery Sonnenschein"
LINES = [
    "Rosenweg 12, 80331 München",
    "",
    "Invoice 2026-1147 for the Café Müller, 14 March 2026",
    "",
    "Thank you for your order. The bread was baked in the morning,",
    "and a bicycle brought it to your door at half past six.",
]
CELLS = [
    ["Item", "Count", "Price", "Total"],
    ["Rye bread", "4", "3.80", "15.20"],
    ["Croissant", "20", "1.45", "29.00"],
    ["Apple cake", "2", "18.50", "37.00"],
    ["Total in Euro", "", "", "81.20"],
]
LAST = "Please pay within 14 days: DE02 1203 0000 0000 2020 51"
COLUMNS, ROW = (70, 440, 590, 760, 930), 52  # pixels: where columns begin and end, the height of a row
PAPER, INK = 246, 30


def write_samples(folder: Path) -> None:
    """Draws a bill with a ruled table, a little askew."""
    image = Image.new("L", (1000, 820), PAPER)
    draw = ImageDraw.Draw(image)
    font = next(one for one in installed()[FAMILY] if one.style == "Regular")
    title, face = (opened(font.file, font.index, size, ligatures=False) for size in (42, 25))
    draw.text((70, 50), TITLE, INK, title)
    for i, line in enumerate(LINES):
        draw.text((70, 130 + 36 * i), line, INK, face)
    for row, texts in enumerate(CELLS):
        top = 380 + ROW * row
        for left, right, text in zip(COLUMNS, COLUMNS[1:], texts, strict=False):
            draw.rectangle((left, top, right, top + ROW), outline=INK, width=2)
            draw.text((left + 12, top + 8), text, INK, face)
    draw.text((70, 690), LAST, INK, face)
    folder.mkdir(parents=True, exist_ok=True)
    turned = image.rotate(-0.8, Image.Resampling.BICUBIC, expand=True, fillcolor=PAPER)
    turned.quantize(16).save(folder / "bill.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put a trained reader of printed lines into the site.")
    parser.add_argument("folder", type=Path, help="what `pyapp train reader` wrote")
    embed(parser.parse_args().folder, MODELS / "reader", FILES)
    write_samples(MODELS / "reader" / "samples")


if __name__ == "__main__":
    main()
