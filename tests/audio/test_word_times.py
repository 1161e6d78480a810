"""Word times: the path through the attention, and the treatment of words and pauses."""

from __future__ import annotations

import numpy as np
import pytest

from pyapp.audio.hallucinations import first_made_up, is_odd, oddness
from pyapp.audio.word_times import (
    Draft,
    WordTime,
    align,
    cheapest_path,
    fit,
    median_filter,
    merge_punctuation,
    shorten_at_sentence_ends,
)

from .tone_model import ToneModel, speech


def plain_path(cost: np.ndarray) -> tuple[list[int], list[int], float]:
    """Dynamic time warping cell by cell, and the sum along its path."""
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    for i in range(rows):
        for j in range(columns):
            total[i + 1, j + 1] = cost[i, j] + min(total[i, j], total[i, j + 1], total[i + 1, j])
    return [], [], float(total[rows, columns])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 30), (30, 7), (12, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_the_path_is_the_cheapest(shape: tuple[int, int], seed: int) -> None:
    cost = np.random.RandomState(seed).standard_normal(shape).astype(np.float32)
    rows, columns = cheapest_path(cost)
    assert (rows[0], columns[0]) == (0, 0) and (rows[-1], columns[-1]) == (shape[0] - 1, shape[1] - 1)
    steps = np.stack([np.diff(rows), np.diff(columns)])
    assert ((steps == 0) | (steps == 1)).all() and steps.sum(axis=0).min(initial=1) >= 1
    assert cost[rows, columns].sum() == pytest.approx(plain_path(cost)[2], abs=1e-4)


def test_equal_costs_stay_in_the_row_as_long_as_they_can() -> None:
    rows, columns = cheapest_path(np.zeros((3, 5), np.float32))
    assert columns.tolist()[-1] == 4 and rows.tolist() == sorted(rows.tolist())


@pytest.mark.parametrize("length", [3, 4, 5, 20])
def test_median_of_seven(length: int) -> None:
    x = np.random.RandomState(length).standard_normal((5, length)).astype(np.float32)
    if length <= 3:
        assert median_filter(x) is x
        return
    padded = np.pad(x, ((0, 0), (3, 3)), mode="reflect")
    expected = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7, axis=1), axis=-1)
    assert (median_filter(x) == expected).all()


def test_words_are_where_they_were_said() -> None:
    model = ToneModel()
    samples, spoken = speech([-1.0, 3, 1, -0.8, 7, 0, 2])
    from pyapp.audio.windows import MelWindows
    from pyapp.engine.ops import from_numpy

    frames = len(samples) // 160
    mel = np.zeros((1, 80, 3000), np.float32)
    mel[0, :, :frames] = MelWindows(samples, 80).read(0, frames)
    audio = model.encode(from_numpy(mel))
    tokens = [token for word, _, _ in spoken for token in model.tokenizer.encode(" " + word)]
    words = align(model, model.tokenizer, tokens, audio, frames, "en")
    assert [word.word.strip() for word in words] == [word for word, _, _ in spoken]
    for word, (_, start, end) in zip(words[1:], spoken[1:], strict=True):
        # the attention says when a word is heard; the silence between belongs to one of its neighbours
        assert word.start <= start + 0.1 and word.end >= end - 0.1 and word.probability > 0.9
    assert align(model, model.tokenizer, [], audio, frames, "en") == []
    assert align(model, model.tokenizer, tokens, audio, 1, "en") == []


def words_of(*texts: str, length: float = 0.5) -> list[WordTime]:
    return [WordTime(text, [i], i * length, (i + 1) * length, 0.9) for i, text in enumerate(texts)]


def test_punctuation_goes_with_its_word() -> None:
    words = words_of(" (", "so", ",", " “", "yes", "”", ".", " -", " no")
    merge_punctuation(words, "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、")
    assert [word.word for word in words if word.word] == [" (so,", " “yes”.", " - no"]
    assert [token for word in words for token in word.tokens] == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_long_words_around_a_full_stop_hold_a_pause() -> None:
    words = [WordTime(" so", [1], 0, 0.4, 1), WordTime(".", [2], 0.4, 3.0, 1), WordTime(" and", [3], 3.0, 6.0, 1)]
    shorten_at_sentence_ends(words, 0.8)
    assert [(word.start, word.end) for word in words] == [
        (0, 0.4),
        (0.4, pytest.approx(1.2)),
        (pytest.approx(5.2), 6.0),
    ]


def test_a_long_first_word_behind_a_pause_is_cut() -> None:
    draft = Draft(0, 5.0, 7.0, "", [], [WordTime(" so", [1], 5.0, 9.0, 1), WordTime(" it", [2], 9.0, 9.2, 1)])
    fit(draft, 0.3, 0.0)
    assert draft.words[0].start == pytest.approx(8.4) and draft.start == pytest.approx(8.4)
    assert draft.end == 9.2  # the last word is short: it decides


def test_times_of_the_model_win_against_words_that_are_too_long() -> None:
    draft = Draft(0, 3.0, 5.0, "", [], [WordTime(" so", [1], 1.0, 3.4, 1), WordTime(" it", [2], 4.0, 8.0, 1)])
    fit(draft, 0.3, 3.0)
    assert draft.words[0].start == 3.0 and draft.start == 3.0
    assert draft.words[1].end == 5.0 and draft.end == 5.0


def test_what_was_made_up() -> None:
    said = WordTime(" yes", [1], 1.0, 1.4, 0.9)
    odd = WordTime(" hm", [2], 1.0, 1.05, 0.01)
    assert (
        oddness(said) == 0
        and oddness(odd) == pytest.approx(1 + 0.083 * 15)
        and oddness(WordTime(" long", [3], 0, 4.5, 0.9)) == pytest.approx(2.5)
    )

    def draft(start: float, word: WordTime, count: int = 3) -> Draft:
        words = [WordTime(word.word, [1], start + i, start + i + word.duration, word.probability) for i in range(count)]
        return Draft(0, start, start + count, "", [], words)

    assert (
        is_odd(draft(0, odd)) and not is_odd(draft(0, said)) and not is_odd(None) and not is_odd(Draft(0, 0, 1, "", []))
    )
    window = (0.0, 30.0, 30.0)
    assert first_made_up([draft(3, said), draft(12, odd), draft(20, said)], window, 0.0, 2.0) == 1
    assert first_made_up([draft(3, said), draft(6.5, odd), draft(10, said)], window, 0.0, 2.0) is None
    assert first_made_up([draft(3, said), draft(20, said)], window, 0.0, 2.0) is None
