"""How a speech model is judged: known recordings, known mistakes, known figures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyapp.audio import SAMPLE_RATE
from pyapp.recipes.speech import evaluation
from pyapp.recipes.speech.evaluation import CONDITIONS, TIMES, clips, evaluate, recordings, time_errors, word_errors
from pyapp.recipes.speech.grammar.sentences import is_unseen
from pyapp.recipes.speech.windows import Phrase
from tests.recipes.speech.parts import hum


@pytest.fixture(autouse=True)
def _no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "speak", hum)


def test_clips_are_unseen_sentences_and_always_the_same() -> None:
    for condition in CONDITIONS:
        one, other = (list(clips(condition, 5)) for _ in range(2))
        for a, b in zip(one, other, strict=True):
            assert a.phrases == b.phrases and a.samples.tobytes() == b.samples.tobytes()
            assert len(a.phrases) == 1 and is_unseen(a.phrases[0].text)
    clean, noisy = (next(clips(condition, 1)) for condition in CONDITIONS[:2])
    assert np.abs(clean.samples[: SAMPLE_RATE // 5]).max() == 0 < np.abs(noisy.samples[: SAMPLE_RATE // 5]).max()


def test_recordings_hold_many_sentences_in_order() -> None:
    for recording in itertools.islice(recordings(CONDITIONS[0], 2), 2):
        times = [time for phrase in recording.phrases for time in (phrase.start, phrase.end)]
        assert len(recording.phrases) == 25 and times == sorted(times)
        assert times[-1] * SAMPLE_RATE < len(recording.samples)


def said(*texts: str) -> list[Phrase]:
    return [Phrase(float(number), number + 0.5, text) for number, text in enumerate(texts)]


def test_word_errors_are_counted_over_all_recordings() -> None:
    pytest.importorskip("jiwer")
    true = [said("Turn left."), said("Is it open?", "It is not.")]
    heard = [said("turn right"), said("is it open it is")]
    assert word_errors(true, true) == 0
    assert word_errors(true, heard) == pytest.approx(2 / 8)  # one replaced, one left out


def test_time_errors_are_those_of_recordings_with_all_phrases() -> None:
    late = [Phrase(0.0, 0.6, "One."), Phrase(1.0, 1.8, "Two.")]
    assert time_errors([said("One.", "Two."), said("One.")], [late, []]) == pytest.approx(0.2)


def test_every_figure_has_its_name() -> None:
    pytest.importorskip("jiwer")
    answers = iter([*itertools.chain.from_iterable(clips(condition, 2) for condition in CONDITIONS)])
    figures = dict(evaluate(lambda samples: next(answers).phrases if len(samples) < 10 * SAMPLE_RATE else [], None, 2))
    assert figures == {
        **{condition.name: 0.0 for condition in CONDITIONS},
        TIMES: 0.0,
        "long recordings, seen voices, clean": 1.0,
        "long recordings, unseen voices, noise and echo": 1.0,
    }
