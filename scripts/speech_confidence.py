"""Measures how sure the embedded speech model is of texts that are right and of texts that are wrong.

    python -m scripts.speech_confidence [--clips 60]

The figures are the reason for `guess_limits` in its generation_config.json (pyapp/audio/confidence.py); its card has
them. Sentences of its grammar that it never saw, clean and noisy, against what it cannot know: other words and other
languages, in the same voices. Needs espeak-ng and jiwer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from pyapp.audio.confidence import GuessLimits
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import transcribe_events
from pyapp.cli.transcribe import BEAM
from pyapp.events import Segment
from pyapp.models import load_speech_model
from pyapp.recipes.speech.evaluation import CONDITIONS, clips, word_errors
from pyapp.recipes.speech.voices import Voice, speak
from pyapp.recipes.speech.windows import Phrase
from scripts.embed_speech import FOLDER

RIGHT, WRONG = 0.3, 0.5  # word error rates: at most, above
FOREIGN = {
    "en-us": [
        "The quick brown fox jumps over the lazy dog beside the river.",
        "Photosynthesis converts carbon dioxide into sugars within chloroplasts.",
        "My grandmother always insisted that gardening cures melancholy.",
        "Neural networks approximate functions by composing simple layers.",
    ],
    "en-gb": ["The committee postponed its verdict because several witnesses disappeared."],
    "de": ["Guten Morgen, ich möchte gerne ein Zimmer für zwei Nächte.", "Der Zug hat heute leider Verspätung."],
    "fr-fr": ["Bonjour, je voudrais une table pour deux personnes.", "Le chien court dans le jardin."],
    "es": ["Buenos días, quisiera comprar un billete.", "El gato duerme en la silla mientras llueve."],
}
VARIANTS = ("", "m3", "f2", "Andy")


def recordings(count: int) -> Iterator[tuple[Any, str]]:
    """(samples, the text)."""
    for condition in CONDITIONS:
        for clip in clips(condition, count):
            yield clip.samples, " ".join(phrase.text for phrase in clip.phrases)
    for accent, texts in FOREIGN.items():
        for variant in VARIANTS:
            for text in texts:
                yield speak(text, Voice(accent, variant, 150, 50)), text


def measure(loaded: Any, samples: Any, text: str, beam: int | None) -> tuple[float, float, float] | None:
    """(word error rate, mean probability of the words, mean log-probability); None without text."""
    options = TranscribeOptions(beam_size=beam, word_timestamps=True)
    segments = [event for event in transcribe_events(loaded, samples, options) if isinstance(event, Segment)]
    words = [word["probability"] for segment in segments for word in segment.words or ()]
    if not words:
        return None
    heard = " ".join(segment.text.strip() for segment in segments)
    errors = word_errors([[Phrase(0, 1, text)]], [[Phrase(0, 1, heard)]])
    letters = [len(segment.text) for segment in segments]
    logprob = float(np.average([segment.avg_logprob for segment in segments], weights=letters))
    return errors, float(np.mean(words)), logprob


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how sure the embedded speech model is.")
    parser.add_argument("--clips", type=int, default=60, help="sentences for each condition")
    loaded = load_speech_model(str(FOLDER))
    limits = GuessLimits.of(loaded.model)
    made = list(recordings(parser.parse_args().clips))
    for name, beam in (("greedily", None), ("by beam search", BEAM)):
        found = [row for samples, text in made if (row := measure(loaded, samples, text, beam)) is not None]
        for kind, rows in (
            ("right", [row for row in found if row[0] <= RIGHT]),
            ("wrong", [row for row in found if row[0] > WRONG]),
        ):
            words, logprobs = np.array([row[1:] for row in rows]).T
            low, unlikely = np.mean(words < limits.word_probability), np.mean(logprobs < limits.logprob)
            print(
                f"{name}, {kind}: {len(rows)} texts; words' probability {quantiles(words)},"
                f" {low:.1%} below {limits.word_probability};"
                f" log-probability {quantiles(logprobs)}, {unlikely:.1%} below {limits.logprob}"
            )


def quantiles(values: Any) -> str:
    """The 1st, 50th and 99th percentile."""
    return " / ".join(f"{value:.2f}" for value in np.percentile(values, (1, 50, 99)))


if __name__ == "__main__":
    main()
