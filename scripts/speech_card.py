"""Measures the embedded speech model and writes its word error rates into its card.

    python -m scripts.speech_card

Every recording is read twice: greedily, and by beam search, as the page and `pyapp transcribe` do unless they are told
otherwise. Needs espeak-ng, which speaks the sentences, and jiwer. The sentences and their sound are the
same each time.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

from pyapp.cli.transcribe import BEAM
from pyapp.models import load_speech_model
from pyapp.recipes.speech.evaluation import CLIPS, TIMES, evaluate, live_transcriber, transcriber
from scripts.embed_speech import FOLDER

CARD = FOLDER / "README.md"
_TABLE = re.compile(r"(\| condition \| greedily \| by beam search \|\n\| --- \| --- \| --- \|\n)(?:\|.*\n)+")
_CLIPS = re.compile(r"are \d+ clips of one sentence")
_TIMES = re.compile(r"(true and found ends of sentences was )[\d.]+")


def written(card: str, figures: Mapping[str, float], searched: Mapping[str, float], clips: int) -> str:
    """The card's text with these figures, and those of beam search, instead of the old ones."""
    rows = "".join(
        f"| {name} | {_percent(value)} | {_percent(searched.get(name))} |\n"
        for name, value in figures.items()
        if name != TIMES
    )
    for pattern, replacement in (
        (_TABLE, rf"\g<1>{rows}"),
        (_CLIPS, f"are {clips} clips of one sentence"),
        (_TIMES, rf"\g<1>{figures[TIMES]:.2f}"),
    ):
        card, count = pattern.subn(replacement, card)
        if count != 1:
            raise SystemExit(f"{CARD} has no place for {pattern.pattern!r}")
    return card


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the embedded speech model and write its card.")
    parser.add_argument("--clips", type=int, default=CLIPS, help="sentences for each condition")
    parser.add_argument("--model", default=str(FOLDER), help="another folder to measure; the card is left alone then")
    options = parser.parse_args()
    loaded = load_speech_model(options.model)
    found: list[dict[str, float]] = []
    for way, live in ((transcriber(loaded), live_transcriber(loaded)), (transcriber(loaded, beam_size=BEAM), None)):
        found.append({})
        for name, value in evaluate(way, live, options.clips):
            print(f"{'by beam search' if len(found) > 1 else 'greedily'}, {name}: {value:.4f}", flush=True)
            found[-1][name] = value
    if options.model == str(FOLDER):
        greedily, searched = found
        card = written(CARD.read_text(encoding="utf-8"), greedily, searched, options.clips)
        CARD.write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
