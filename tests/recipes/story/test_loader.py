"""Rows of stories."""

import pytest

from pyapp.recipes.story.grammar.stories import story
from pyapp.recipes.story.loader import StoryLoader, story_rows


class Letters:
    """A token per character; 1 begins a text."""

    def encode(self, text: str, bos: bool = True) -> list[int]:
        return [1] * bos + [ord(c) + 10 for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join("^" if i == 1 else chr(i - 10) for i in ids)


LETTERS = Letters()


def test_rows_begin_with_a_story_and_go_on_with_the_next() -> None:
    loader = StoryLoader(LETTERS, 1500, seed=3)
    row = loader.row()
    assert len(row) == 1501
    expected = "^" + story(3, 0) + "^" + story(3, 1) + "^" + story(3, 2)
    assert expected.startswith(LETTERS.decode(row))
    used = loader.position
    assert LETTERS.decode(loader.row()).startswith("^" + story(3, used))


def test_the_position_is_all_there_is() -> None:
    one = StoryLoader(LETTERS, 400, seed=3, rows=2)
    assert len(one.batch()) == 2
    other = StoryLoader(LETTERS, 400, seed=3, rows=2, position=one.position)
    assert one.batch() == other.batch()
    assert one.position == other.position


def test_held_out_stories_are_left_out() -> None:
    """Even a story that the seed of the training gives."""
    excluded = [story(3, 0), story(3, 2)]
    loader = StoryLoader(LETTERS, 2500, seed=3, excluded=excluded)
    expected = "".join("^" + story(3, index) for index in (1, 3, 4, 5, 6))
    assert expected.startswith(LETTERS.decode(loader.row()))


@pytest.mark.parametrize("length", [50, 5000])
def test_evaluation_rows_hold_one_story_and_its_end(length: int) -> None:
    texts = [story(4, 0), story(4, 1)]
    for text, row in zip(texts, story_rows(LETTERS, texts, length), strict=True):
        assert LETTERS.decode(row) == ("^" + text + "^")[: length + 1]
