"""The page's threads: the allocator of their memory, results on any number of workers, and what happens when one fails.

tests/mirror runs every op and whole models on the pool. A fake pool stands for the worker's where there is no browser.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

import pyapp
from pyapp.engine import capture
from pyapp.engine.devices.pool import Ranges, Threads
from pyapp.engine.native import SIGNATURE
from pyapp.errors import KernelError
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn import quantize
from pyapp.text.generation.generate import Session

in_the_page = pytest.mark.skipif(sys.platform != "emscripten", reason="only a page has the pool")


class Memory:
    """Memory that grows to a limit."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit

    def grow(self, size: int) -> bool:
        if size <= self.limit:
            self.size = max(size, self.size)
        return size <= self.limit


def test_ranges_hand_out_memory_that_nobody_else_has() -> None:
    memory, draw = Memory(1 << 16, 1 << 28), random.Random(0)
    ranges = Ranges(100, memory.size, memory.grow)
    taken: dict[int, int] = {}
    for _ in range(2000):
        if taken and draw.random() < 0.48:
            address = draw.choice(list(taken))
            ranges.give(address)
            del taken[address]
        else:
            size = draw.randrange(1, 1 << draw.randrange(1, 22))
            address = ranges.take(size) or 0
            assert address >= 100 and address % 64 == 0 and address + size <= memory.size
            taken[address] = size
    places = sorted(taken.items())
    assert all(a + n <= b for (a, n), (b, _) in zip(places, places[1:], strict=False))
    for address in taken:
        ranges.give(address)
    assert ranges.allocated == 0 and len(ranges._starts) == 1, "neighbours are not joined"
    before = memory.size
    assert ranges.take(before // 2) is not None and memory.size == before, "free memory is not used again"


def test_full_memory_is_told() -> None:
    memory = Memory(0, 100 << 20)
    ranges = Ranges(0, 0, memory.grow)
    first = ranges.take(60 << 20)
    assert first is not None and ranges.take(60 << 20) is None
    assert ranges.take(30 << 20) is not None, "the rest of the memory is not used"
    ranges.give(first)
    assert ranges.take(60 << 20) == first


def test_kernels_of_another_version_are_refused() -> None:
    class Pool:
        signature = SIGNATURE[::-1] + "0"

    with pytest.raises(KernelError, match=r"another kernels\.h"):
        Threads(Pool())


@pytest.mark.skipif(sys.platform == "emscripten", reason="there the device may be there")
def test_there_is_no_pool_outside_a_page() -> None:
    with pytest.raises(ValueError, match="only a page"):
        pyapp.zeros(3, device="pool")


def small_model(kind: str | None) -> Llama2c:
    pyapp.manual_seed(0)
    model = Llama2c(Config(dim=96, hidden_dim=256, n_layers=2, n_heads=6, n_kv_heads=3, vocab_size=320, max_seq_len=64))
    model.requires_grad_(False)
    if kind is not None:
        quantize(model, kind)
    return model


def worker_pool() -> Any:
    """The worker's pool, a JavaScript object."""
    backend = pyapp.device("pool").backend
    assert isinstance(backend, Threads)
    return backend._pool


@in_the_page
@pytest.mark.parametrize("kind", [None, "q8_0", "q4_0"])
def test_results_are_the_same_on_any_number_of_workers(kind: str | None) -> None:
    """Work is cut into as many parts as for so many workers, though not all of them are there."""
    pool, found = worker_pool(), []
    usual = pool.threads
    try:
        for workers in (1, 2, 3, 8):
            pool.threads = workers
            session = Session(small_model(kind).to("pool"))
            logits = [session.feed(list(range(3, 40))).read_values()]
            logits += [list(session.step(token).read_values()) for token in (5, 80, 33, 9, 200, 310)]
            found.append([list(row) for row in logits])
    finally:
        pool.threads = usual
    assert found[0] == found[1] == found[2] == found[3]


@in_the_page
def test_many_models_in_a_row_use_the_same_memory() -> None:
    backend: Any = pyapp.device("pool").backend
    sizes = []
    for _ in range(20):
        model = small_model("q8_0").to("pool")
        session = Session(model)
        session.feed([1, 2, 3])
        session.step(4)
        del model, session
        sizes.append(worker_pool().size)
    assert len(set(sizes[10:])) == 1 and sizes[-1] < 1 << 26 and backend.allocated < 1 << 28


@in_the_page
def test_too_much_memory_is_an_error() -> None:
    with pytest.raises(MemoryError, match=r"cannot allocate .* bytes"):
        pyapp.engine.storage.Storage(5 << 30, pyapp.device("pool"))
    assert pyapp.ones(4, device="pool").tolist() == [1.0] * 4


@in_the_page
def test_what_the_pages_libraries_lack_is_said() -> None:
    """A transform of Fourier's, which took all memory."""
    with pytest.raises(NotImplementedError, match="pool has no kernel for 'dft'"):
        pyapp.fft.fft(pyapp.ones(6, dtype="complex64").to("pool"))


@in_the_page
def test_an_index_out_of_range_is_an_error_also_in_a_helper() -> None:
    table = pyapp.zeros(50, 512).to("pool")
    ids = pyapp.zeros(4096, dtype="int32", device="pool")
    graph = capture(lambda: pyapp.embedding(table, ids))
    ids.assign([0] * 4000 + [50] * 96)
    for _ in range(3):
        with pytest.raises(IndexError, match="out of range"):
            graph.replay()
    ids.assign([1] * 4096)
    assert graph.replay().sum().item() == 0
