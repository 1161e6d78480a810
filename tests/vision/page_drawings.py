"""Drawn pages and tables for the tests of layouts: grey pictures, and what is in them. By Pillow, with its own font."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pyapp.recipes.chooser import Chooser

PAPER = 244
WORDS = (
    "river stone Paper light seven Garden winter music table north 1024 38.50 2026-03-01 A17 Total 99% yes no"
).split()


@dataclass(frozen=True)
class DrawnTable:
    """A page uint8 (H, W) and its cells: (row, column, row span, column span, text)."""

    pixels: np.ndarray
    cells: list[tuple[int, int, int, int, str]]


def text_of(chooser: Chooser, words: int) -> str:
    return " ".join(chooser.choose(WORDS) for _ in range(words))


def font(size: int) -> Any:
    return ImageFont.load_default(size)


def finished(chooser: Chooser, image: Image.Image, angle: float, noise: float) -> np.ndarray:
    """The page turned by an angle in degrees, with noise of a standard deviation."""
    if angle:
        image = image.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=PAPER)
    pixels = np.asarray(image, np.float32)
    random = np.random.default_rng(int(chooser.random() * 2**32))
    return np.clip(pixels + random.standard_normal(pixels.shape) * noise, 0, 255).astype(np.uint8)


def spans_of(chooser: Chooser, rows: int, columns: int, share: float) -> list[tuple[int, int, int, int]]:
    """Cells (row, column, row span, column span) that fill a grid; some span several."""
    taken = np.zeros((rows, columns), bool)
    cells = []
    for row in range(rows):
        for column in range(columns):
            if taken[row, column]:
                continue
            down = across = 1
            if chooser.chance(share):
                down = 1 + int(chooser.random() * min(2, rows - row))
                across = 1 + int(chooser.random() * min(3, columns - column))
                while across > 1 and taken[row, column : column + across].any():
                    across -= 1
            taken[row : row + down, column : column + across] = True
            cells.append((row, column, down, across))
    return cells


def draw_table(chooser: Chooser, angle: float = 0.0, noise: float = 0.0, share: float = 0.15) -> DrawnTable:
    """A ruled table with spans, thin or thick rules, texts of a line or two, and text above and below it."""
    size = int(chooser.between(14, 26))
    rows, columns = 2 + int(chooser.random() * 7), 2 + int(chooser.random() * 5)
    heights = [round(size * chooser.between(1.7, 3.4)) for _ in range(rows)]
    widths = [round(size * chooser.between(4, 10)) for _ in range(columns)]
    left, top = 60, 90
    xs, ys = np.cumsum([left, *widths]).tolist(), np.cumsum([top, *heights]).tolist()
    image = Image.new("L", (xs[-1] + 60, ys[-1] + 90), PAPER)
    draw = ImageDraw.Draw(image)
    face, ink = font(size), int(chooser.between(0, 70))
    thick, outer = 1 + int(chooser.random() * 3), 1 + int(chooser.random() * 5)
    draw.text((left, 30), "A table of things", ink, face)
    draw.text((left, ys[-1] + 40), "Text below the table", ink, face)
    cells = []
    for row, column, down, across in spans_of(chooser, rows, columns, share):
        x0, y0, x1, y1 = xs[column], ys[row], xs[column + across], ys[row + down]
        draw.line((x0, y0, x1, y0, x1, y1, x0, y1, x0, y0), ink, thick)
        text = "" if chooser.chance(0.1) else text_of(chooser, 1 if across == 1 else 2)
        while face.getlength(text) > x1 - x0 - 12:
            text = text[:-1].strip()
        draw.text(((x0 + x1) / 2, (y0 + y1) / 2), text, ink, face, anchor="mm")
        cells.append((row, column, down, across, text))
    draw.rectangle((xs[0], ys[0], xs[-1], ys[-1]), outline=ink, width=outer)
    return DrawnTable(finished(chooser, image, angle, noise), cells)


def draw_lines(
    chooser: Chooser, texts: Sequence[Sequence[str]], size: int = 20, angle: float = 0.0, noise: float = 0.0,
    inverse: bool = False,
) -> np.ndarray:  # fmt: skip
    """Columns of lines beside one another."""
    face = font(size)
    width = max(int(max(face.getlength(text) for text in column)) for column in texts) + 3 * size
    height = max(map(len, texts)) * round(1.6 * size) + 6 * size
    image = Image.new("L", (width * len(texts) + 4 * size, height), PAPER)
    draw = ImageDraw.Draw(image)
    for i, column in enumerate(texts):
        for k, text in enumerate(column):
            draw.text((3 * size + i * width, 3 * size + k * round(1.6 * size)), text, 25, face)
    pixels = finished(chooser, image, angle, noise)
    return 255 - pixels if inverse else pixels
