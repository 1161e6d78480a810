"""Measures the embedded reader on drawn lines in fonts that training has not seen, and writes its card's figures.

    python -m scripts.reader_card [--tesseract]

Each picture is a line with some paper around it; it goes through the layout as a page does. With --tesseract, the
program tesseract (Debian's packages tesseract-ocr and tesseract-ocr-script-latn) reads the same pictures. Needs
fontconfig, the fonts, the word lists, and jiwer. The pictures are the same each time with the same fonts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from pyapp.engine.ops import from_numpy
from pyapp.events import Item
from pyapp.models.loading.text_readers import load_reading_model
from pyapp.recipes.error_rates import error_rate
from pyapp.recipes.reader.evaluation import CONDITIONS, test_lines
from pyapp.tasks.reading import read_pages
from scripts.embedded_files import MODELS

CARD = MODELS / "reader" / "README.md"
LINES = 150  # of each condition
MARGIN = 0.5  # of a line's height is paper around it
FAILURES = 10  # of each condition
ALIKE = str.maketrans({"“": '"', "”": '"', "„": '"', "’": "'", "‘": "'", "‚": "'", "–": "-", "—": "-"})
_TABLE = re.compile(r"(\| lines \| reader \|.*\n\| ---.*\n)(?:\|.*\n)*")
_FAILURES = re.compile(r"(\| said \| read \| font \|\n\| --- \| --- \| --- \|\n)(?:\|.*\n)*")


def by_reader(model: str, pictures: Sequence[np.ndarray]) -> list[str]:
    loaded = load_reading_model(model)
    found = [""] * len(pictures)
    images = [from_numpy(picture).unsqueeze(2) for picture in pictures]
    for event in read_pages(loaded, images):
        if isinstance(event, Item):
            found[event.index] = " ".join(event.values["text"].split())
    return found


def by_tesseract(pictures: Sequence[np.ndarray]) -> list[str]:
    """As one line each (--psm 7), with the model of all languages in Latin script."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "line.png")
        for picture in pictures:
            Image.fromarray(picture).save(file)
            command = ["tesseract", str(file), "-", "--psm", "7", "--dpi", "200", "-l", "Latin"]
            environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
            run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found.append(" ".join(run.stdout.split()))
    return found


def _after(text: str, match: re.Match[str]) -> str:
    return match[1] + text


def escaped(text: str) -> str:
    return text.replace("|", "\\|") or " "


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the embedded reader and write its card.")
    parser.add_argument("--lines", type=int, default=LINES, help="of each condition")
    parser.add_argument("--model", default="reader", help="another folder to measure; the card is left alone then")
    parser.add_argument("--tesseract", action="store_true", help="also by tesseract")
    options = parser.parse_args()
    rows, failures = [], []
    for condition in CONDITIONS:
        lines = test_lines(replace(condition, how=replace(condition.how, margin=MARGIN)), options.lines)
        pictures, said = [line.pixels for line in lines], [line.text for line in lines]
        ways = {"reader": by_reader(options.model, pictures)}
        if options.tesseract:
            ways["tesseract"] = by_tesseract(pictures)
        row = [f"{len(lines)} {condition.name}"]
        for name, read in ways.items():
            exact = error_rate(said, read)
            loose = error_rate([text.translate(ALIKE) for text in said], [text.translate(ALIKE) for text in read])
            print(f"{condition.name}, {name}: {exact:.4f}, quotes and dashes alike: {loose:.4f}", flush=True)
            row += [f"{100 * exact:.2f} %", f"{100 * loose:.2f} %"]
        rows.append(row + [""] * (5 - len(row)))
        wrong = [
            (line, read) for line, read in zip(lines, ways["reader"], strict=True)
            if line.text.translate(ALIKE) != read.translate(ALIKE)
        ]  # fmt: skip
        step = max(1, len(wrong) // FAILURES)
        failures += [(line.text, read, line.family) for line, read in wrong[::step][:FAILURES]]
    if options.model == "reader":
        card = CARD.read_text(encoding="utf-8")
        for pattern, entries in ((_TABLE, rows), (_FAILURES, failures)):
            text = "".join("| " + " | ".join(map(escaped, entry)) + " |\n" for entry in entries)
            card, count = pattern.subn(partial(_after, text), card)
            if count != 1:
                raise SystemExit(f"{CARD} has no place for {pattern.pattern!r}")
        CARD.write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
