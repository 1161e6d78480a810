"""Batches of stories: every row begins with a whole story and is filled up with the beginning of the next.

Stories are made as they are needed, so that none is seen twice and the loader's whole state is the number of the next
story. Rows begin where stories begin: a model then never has to guess the name of somebody whose introduction was cut
off, and generating a story looks like what it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pyapp.train.stories import story


class TextEncoder(Protocol):
    """What the loader needs of a tokenizer."""

    def encode(self, text: str, bos: bool = True) -> list[int]: ...


class StoryLoader:
    """Rows of `length` + 1 token ids: inputs are all but the last, targets all but the first.

    `position` is the number of the next story of `seed`; set it to continue elsewhere. Stories in `excluded` (the
    held-out ones) are left out.
    """

    def __init__(
        self, tokenizer: TextEncoder, length: int, seed: int, excluded: Sequence[str] = (), position: int = 0
    ) -> None:
        self.position = position
        self._tokenizer = tokenizer
        self._length = length
        self._seed = seed
        self._excluded = frozenset(excluded)

    def row(self) -> list[int]:
        """The next row; it begins with the beginning-of-text token, as every story in it does."""
        ids: list[int] = []
        while len(ids) <= self._length:
            text = story(self._seed, self.position)
            self.position += 1
            if text not in self._excluded:
                ids += self._tokenizer.encode(text)
        return ids[: self._length + 1]

    def batch(self, rows: int) -> list[list[int]]:
        """The next `rows` rows."""
        return [self.row() for _ in range(rows)]


def story_rows(tokenizer: TextEncoder, texts: Sequence[str], length: int) -> Iterator[list[int]]:
    """One row of ids for each text, for evaluation: the text from its beginning-of-text token on to the one that ends
    it, cut after `length` + 1 ids.
    """
    for text in texts:
        ids = tokenizer.encode(text)
        yield [*ids, ids[0]][: length + 1]
