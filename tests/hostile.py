"""Makes damaged and hostile documents, for tests that readers answer them with clear errors only."""

from __future__ import annotations

import copy
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyapp.errors import PyappError
from tests.together import IN_BROWSER, examples

# Replacements for values of a document.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 255, 2**31 - 1, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308,
    float("inf"), float("nan"), "", "a", "0", "\0", "\ud800", "▁", "x" * 5000, "../../etc", "(a|aa)*b", "(" * 300, [],
    [[]], [0], [None] * 3, ["a", "b"], [["a", 0.0]] * 3, {}, {"type": "Sequence"}, {"": ""}, {"content": 1}, [{}] * 3,
)  # fmt: skip

SECONDS = 30.0 if IN_BROWSER else 5.0


@contextmanager
def peak_memory(limit: int) -> Iterator[None]:
    """Fails when Python allocates more than `limit` bytes at once. Counting them doubles the time, so that a browser,
    where the same Python runs, does not.
    """
    if IN_BROWSER:
        yield
        return
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= limit, f"{peak:,} bytes were allocated, allowed are {limit:,}"


def survives(read: Callable[..., Any], *arguments: Any) -> bool:
    """Whether `read(*arguments)` accepts them in time. Errors other than clear ones fail the test."""
    start = time.perf_counter()
    try:
        read(*arguments)
    except PyappError as error:
        assert 5 < len(str(error)) < 1000, str(error)[:2000]
        return False
    finally:
        assert time.perf_counter() - start < SECONDS
    return True


def damaged_texts(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """The text cut off, with bits flipped, and with other bytes in it; brackets without end, other encodings."""
    chance = random.Random(seed)
    for _ in range(examples(count)):
        yield data[: chance.randrange(len(data))]
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        yield bytes(damaged)
        at = chance.randrange(len(data))
        damaged[at : at + chance.choice((0, 1, 4, 100))] = chance.choice((b"", b'"', b"{", b"}", b"]", b"\0", b"1e999"))
        yield bytes(damaged)
    for opening in (b"[", b'{"model":', b'{"":[', b"[[],"):
        yield opening * 100_000
    yield b"1" * 100_000
    yield b"\xef\xbb\xbf" + data
    yield data.decode("utf-8", "replace").encode("utf-16")


def hostile_documents(document: Any, count: int, seed: int = 0) -> Iterator[Any]:
    """The document with values, keys and lists that do not belong there, one to three at a time."""
    chance = random.Random(seed)
    for _ in range(examples(count)):
        changed = {"": copy.deepcopy(document)}
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _change(changed, chance)
        yield changed[""]


def _change(holder: Any, chance: random.Random) -> None:
    """Descends a random path from a container, and changes the value there."""
    key: Any = ""
    while True:
        value = holder[key]
        if not isinstance(value, (dict, list)) or not value or chance.random() < 0.15:
            break
        holder, key = value, chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    kind = chance.randrange(8)
    if kind == 0 and key != "":
        del holder[key]
    elif kind == 1 and isinstance(holder, dict) and key != "":
        holder[chance.choice(("", "type", "content", key + "x"))] = holder.pop(key)
    elif kind == 2:
        small = len(repr(holder[key])) < 1000
        holder[key] = [copy.deepcopy(holder[key]) for _ in range(chance.choice((1, 2, 100)) if small else 1)]
    elif kind == 3:
        for _ in range(chance.choice((1, 5, 150))):
            deep = [holder[key]]
            wrapped = ({"type": "Sequence", "decoders": deep}, {"type": "Sequence", "processors": deep}, deep)
            holder[key] = chance.choice(wrapped)
    else:
        holder[key] = copy.deepcopy(chance.choice(VALUES))


def written(document: Any) -> bytes:
    """JSON as Python writes it: NaN, Infinity and lone surrogates too."""
    return json.dumps(document).encode()
