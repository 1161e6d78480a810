"""The answers of /v1/responses that are kept, so that the next request can go on from them: as JSON, in a memory of
fixed size; those that were used longest ago make place for new ones.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from pyapp.dataclass import dataclass

from .problems import Problem

_encode = json.JSONEncoder(ensure_ascii=False).encode
ENTRY_BYTES = 512  # of an entry's objects, about


def encoded(value: Mapping[str, Any]) -> bytes:
    """JSON. Halves of surrogate pairs, which JSON may have and UTF-8 may not, become question marks."""
    return _encode(value).encode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class Item:
    """An item of a conversation: its id, and its JSON. Answers that go on from one another share their items. `named`:
    its id was made here. Only then may a request refer to it: others may choose the ids of theirs alike.
    """

    id: str
    data: bytes
    named: bool = True

    @classmethod
    def of(cls, item: Mapping[str, Any], named: bool = True) -> Item:
        return cls(item["id"], _encode(item).encode("utf-8", "surrogatepass"), named)  # as it is read again

    @property
    def value(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.data)
        return found

    @property
    def nbytes(self) -> int:
        return len(self.data) + len(self.id) + ENTRY_BYTES


@dataclass(frozen=True, eq=False)
class Stored:
    """An answer: its JSON, the items that the model read, and those that it wrote."""

    data: bytes
    read: tuple[Item, ...]
    written: tuple[Item, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return self.read + self.written

    @property
    def nbytes(self) -> int:
        """The size of the response without its items."""
        return len(self.data) + sys.getsizeof(self.read) + sys.getsizeof(self.written) + ENTRY_BYTES


class ResponseStore:
    """The answers by id. `most`: bytes of all of them together; an item of several answers counts once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: OrderedDict[str, Stored] = OrderedDict()
        self._uses: dict[Item, int] = {}  # how many answers have an item
        self._by_id: dict[str, Item] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, response: Mapping[str, Any], read: Iterable[Item], written: Iterable[Item]) -> None:
        """Keeps an answer, unless it alone is too large."""
        stored = Stored(encoded(response), tuple(read), tuple(written))
        if stored.nbytes + sum(item.nbytes for item in stored.items) > self._most:
            return
        self._answers[response["id"]] = stored
        self.nbytes += stored.nbytes
        for item in stored.items:
            self.nbytes += 0 if item in self._uses else item.nbytes
            self._uses[item] = self._uses.get(item, 0) + 1
            if item.named:
                self._by_id[item.id] = item
        while self.nbytes > self._most:
            self._drop(next(iter(self._answers)))

    def find(self, id: str, param: str, code: str = "response_not_found") -> Stored:
        """The answer with an id. Problem 404, which names the field `param`, if it is not here."""
        found = self._answers.get(id)
        if found is None:
            raise _missing(f"the response {id!r:.80}", param, code)
        self._answers.move_to_end(id)
        return found

    def item(self, id: str, param: str) -> Item:
        """The item to which this id was given here, of any answer. Problem 404 if there is none."""
        found = self._by_id.get(id)
        if found is None:
            raise _missing(f"the item {id!r:.80}", param, "item_not_found")
        return found

    def delete(self, id: str, param: str) -> None:
        self.find(id, param)
        self._drop(id)

    def _drop(self, id: str) -> None:
        stored = self._answers.pop(id)
        self.nbytes -= stored.nbytes
        for item in stored.items:
            self._uses[item] -= 1
            if not self._uses[item]:
                del self._uses[item]
                self.nbytes -= item.nbytes
                if item.named:
                    del self._by_id[item.id]


def _missing(what: str, param: str, code: str) -> Problem:
    return Problem(
        f"{param}: {what} is not kept here. Only this server process has what it answered, in its memory, while there "
        "is room for it (--response-memory) and if `store` was not false; send the whole conversation as input",
        status=404, param=param, code=code,
    )  # fmt: skip
