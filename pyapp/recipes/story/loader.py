"""Batches of stories: every row begins with a whole story and is filled with the beginning of the next one.

Stories are made when they are needed: none is used twice, and the number of the next story is the loader's whole state.
Rows begin where stories begin. So the model never has to guess a name whose introduction was cut off, and the start of
a generated story is like that of a row in training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pyapp.recipes.story.grammar.stories import story


class TextEncoder(Protocol):
    """The part of a tokenizer that the loader uses."""

    def encode(self, text: str) -> list[int]: ...


class StoryLoader:
    """Batches of `rows` rows, each of `length` + 1 token ids: inputs are all but the last, targets all but the first.

    `position` is the number of the next story of `seed`; set it to continue elsewhere. Stories in `excluded` (the
    held-out ones) are left out.
    """

    def __init__(
        self,
        tokenizer: TextEncoder,
        length: int,
        seed: int,
        excluded: Sequence[str] = (),
        *,
        rows: int = 1,
        position: int = 0,
    ) -> None:
        self.position = position
        self._rows = rows
        self._tokenizer = tokenizer
        self._length = length
        self._seed = seed
        self._excluded = frozenset(excluded)

    def row(self) -> list[int]:
        """The next row. Every story in it begins with the beginning-of-text token."""
        ids: list[int] = []
        while len(ids) <= self._length:
            text = story(self._seed, self.position)
            self.position += 1
            if text not in self._excluded:
                ids += self._tokenizer.encode(text)
        return ids[: self._length + 1]

    def batch(self) -> list[list[int]]:
        """The next rows."""
        return [self.row() for _ in range(self._rows)]


def story_rows(tokenizer: TextEncoder, texts: Sequence[str], length: int) -> Iterator[list[int]]:
    """One row of ids for each text, for evaluation: the text between two beginning-of-text tokens.

    Rows are cut after `length` + 1 ids.
    """
    for text in texts:
        ids = tokenizer.encode(text)
        yield [*ids, ids[0]][: length + 1]
