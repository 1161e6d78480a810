"""Pages whose text was corrected by hand: the words of changed lines, the lines of changed cells, the text of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .writers import Values, plain_text


def corrected(page: Values) -> dict[str, Any]:
    """A page (the values of an Item of tasks.read) in which the `text` of lines and of tables' cells may have been
    changed, with all that follows from them: the words of such lines, the lines of such cells, `text`. Where a line has
    as many words as before, they keep their places; else they share the line's width by their lengths. Confidence is 1
    where a hand wrote. Lines without text, and blocks without lines, are left out.
    """
    regions = [_region(region) for region in page["regions"]]
    regions = [region for region in regions if region["lines"] or region["kind"] == "table"]
    return dict(page) | {"regions": regions, "text": plain_text(regions)}


def _region(region: Values) -> dict[str, Any]:
    lines = [_line(line) for line in region["lines"] if line["text"].strip()]
    if region["kind"] != "table":
        return dict(region) | {"lines": lines}
    texts: dict[int, list[str]] = {}
    for line in lines:
        texts.setdefault(line["cell"], []).append(line["text"])
    changed = {
        number: cell for number, cell in enumerate(region["cells"])
        if " ".join(texts.get(number, ())) != cell["text"]
    }  # fmt: skip
    kept = [line for line in lines if line["cell"] not in changed]
    for number, cell in changed.items():  # its lines do not tell which of them the hand has changed
        place = {"box": cell["box"], "corners": cell["corners"], "cell": number}
        if cell["text"].strip():
            kept.append(_line({"text": cell["text"], "confidence": 1.0, "words": (), **place}))
    return dict(region) | {"lines": sorted(kept, key=lambda line: line["cell"]) if changed else kept}


def _line(line: Values) -> dict[str, Any]:
    """The line with the words of its text."""
    texts = line["text"].split()
    words = line["words"]
    if texts == " ".join(word["text"] for word in words).split():  # a word of a model such as TrOCR has spaces
        return dict(line)
    if len(texts) == len(words):
        renewed = [
            dict(word) if word["text"] == text else dict(word) | {"text": text, "confidence": 1.0}
            for word, text in zip(words, texts, strict=True)
        ]
    else:
        renewed = _spread(texts, line["corners"])
    return dict(line) | {"text": " ".join(texts), "confidence": 1.0, "words": renewed}


def _spread(texts: Sequence[str], corners: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """Words side by side between the corners of a line, each as wide as its share of the characters."""
    whole = len(" ".join(texts))
    words: list[dict[str, Any]] = []
    at = 0
    for text in texts:
        first, last = at / whole, (at + len(text)) / whole
        at += len(text) + 1
        top = [_between(corners[0], corners[1], share) for share in (first, last)]
        bottom = [_between(corners[3], corners[2], share) for share in (last, first)]
        words.append({"text": text, "confidence": 1.0, **_place([*top, *bottom])})
    return words


def _between(one: Sequence[float], other: Sequence[float], share: float) -> tuple[float, float]:
    return one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share


def _place(corners: Sequence[tuple[float, float]]) -> dict[str, Any]:
    xs, ys = [corner[0] for corner in corners], [corner[1] for corner in corners]
    return {"box": (min(xs), min(ys), max(xs), max(ys)), "corners": tuple(corners)}
