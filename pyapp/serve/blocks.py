"""Blocks of a cache's memory: which are free, which texts use them, and what they hold.

A full block has a name: the hash of all tokens up to its end. A prompt that begins alike finds the blocks of its
beginning by their names, and several texts use them at once (Kwon et al. 2023, arXiv 2309.06180). Blocks that nobody
uses keep what they hold until memory is needed; the one that was used longest ago goes first.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b

START = b""  # the name of an empty beginning


def name_of(before: bytes, tokens: Sequence[int]) -> bytes:
    """The name of a block that holds `tokens`, after a block with the name `before`."""
    return blake2b(before + array("q", tokens).tobytes(), digest_size=16).digest()


class BlockPool:
    """The blocks first .. first + count - 1."""

    def __init__(self, count: int, first: int = 0) -> None:
        self.count = count
        self._free = list(range(first + count - 1, first - 1, -1))
        self._users: dict[int, int] = {}
        self._block_of: dict[bytes, int] = {}
        self._name_of: dict[int, bytes] = {}
        self._kept: OrderedDict[int, None] = OrderedDict()  # named ones that nobody uses; used longest ago first

    @property
    def available(self) -> int:
        """Blocks that `take` could give."""
        return len(self._free) + len(self._kept)

    @property
    def used(self) -> int:
        return len(self._users)

    @property
    def kept(self) -> int:
        return len(self._kept)

    def take(self) -> int | None:
        """A block for a text, with anything in it; None if there is none."""
        if self._free:
            block = self._free.pop()
        elif self._kept:
            block, _ = self._kept.popitem(last=False)
            del self._block_of[self._name_of.pop(block)]
        else:
            return None
        self._users[block] = 1
        return block

    def known(self, name: bytes) -> int | None:
        """The block with a name, without using it."""
        return self._block_of.get(name)

    def is_kept(self, block: int) -> bool:
        """Whether nobody uses a block that has a name."""
        return block in self._kept

    def share(self, name: bytes) -> int | None:
        """The block with a name, for one more text; None if there is none."""
        block = self._block_of.get(name)
        if block is not None:
            self._kept.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1
        return block

    def name(self, block: int, name: bytes) -> None:
        """Says what a block that is in use holds. If another one holds the same, that one keeps the name."""
        if name not in self._block_of and block not in self._name_of:
            self._block_of[name], self._name_of[block] = block, name

    def release(self, blocks: Iterable[int]) -> None:
        """A text needs its blocks no longer; of these, those at its end will go first."""
        for block in reversed(list(blocks)):
            self._users[block] -= 1
            if self._users[block]:
                continue
            del self._users[block]
            if block in self._name_of:
                self._kept[block] = None
            else:
                self._free.append(block)
