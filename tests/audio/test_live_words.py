"""Which words of a new decoding were final before. The text decides, or the time if the text is ambiguous."""

from __future__ import annotations

import pytest

from pyapp.audio.live_words import LiveWord, common, known, live_word, widened


def words(text: str, start: float = 0.0) -> list[LiveWord]:
    """Half a second each."""
    parts = text.split()
    return [LiveWord(f" {part}", start + n / 2, start + n / 2 + 0.5, 1.0) for n, part in enumerate(parts)]


@pytest.mark.parametrize(
    "final, again, count",
    [
        ("Turn left", "Turn left at the river.", 2),
        ("Turn left", "turn, left! At the river.", 2),  # case and marks are not a difference
        ("Turn left", "Turn right at the river.", 2),  # it thinks otherwise now: what was final stays
        ("We have twenty", "We have twenty five minutes left.", 3),
        ("and Anna", "and very cold.", 2),
        ("to Berlin leaves", "to Bern is late.", 3),
        ("no", "no no no", 1),  # said again
        ("no no", "no no no", 2),
        ("one two three", "one two", 2),
        ("one two three", "", 0),
        ("", "one two three", 0),
    ],
)
def test_words_are_found_again(final: str, again: str, count: int) -> None:
    for shift in (0.0, -0.2, 0.2):
        assert known(words(final), 0, words(again, shift)) == count


def test_words_that_were_missed_before_are_not_said_afterwards() -> None:
    final = words("the train arrives", 0.5)
    again = [
        LiveWord(" When", 0.1, 0.4, 1.0),
        LiveWord(" does", 0.4, 0.5, 1.0),
        *words("the train arrives today?", 0.5),
    ]
    assert known(final, 0, again) == 5


def test_words_that_are_not_held_need_not_be_there() -> None:
    final = words("five minutes left.")  # it ended at 1.5 s, where the sound begins now
    assert known(final, 3, words("Turn right.", 1.5)) == 0
    rest = [LiveWord(" left.", 1.5, 1.6, 1.0), *words("Turn right.", 1.6)]
    assert known(final, 3, rest) == 1
    assert known(final, 3, words("left again.", 1.5)) == 0  # too long for a rest
    assert known([*final, *words("Turn", 1.5)], 3, words("Turn right.", 1.5)) == 1


def test_words_of_segments_and_what_they_share() -> None:
    word = live_word({"word": " Hey,", "start": 0.5, "end": 1.0, "probability": 0.7}, 10.0)
    assert word == LiveWord(" Hey,", 10.5, 11.0, 0.7) and word.key == "hey"
    assert live_word({"word": " ...", "start": 0, "end": 0, "probability": 0}, 0.0).key == "..."
    assert common(words("a b c"), words("A, b d e")) == 2
    assert common(words("a b"), words("a b c")) == 2 and common([], words("a")) == 0


def test_words_without_room_take_it_from_those_before() -> None:
    def times(*pairs: tuple[float, float]) -> list[tuple[float, float]]:
        found = widened([{"start": start, "end": end} for start, end in pairs], 1.0, 0.1)
        return [(round(word["start"], 3), round(word["end"], 3)) for word in found]

    assert times((1.0, 1.3), (1.3, 1.8)) == [(1.0, 1.3), (1.3, 1.8)]
    assert times((1.0, 1.3), (1.75, 1.8), (1.8, 1.8)) == [(1.0, 1.3), (1.6, 1.7), (1.7, 1.8)]
    assert times((1.0, 1.1), (1.1, 1.15), (1.15, 1.15)) == [(1.0, 1.05), (1.05, 1.1), (1.1, 1.15)]
    assert times((1.0, 1.0)) == [(1.0, 1.0)] and times() == []  # there is no room at all
