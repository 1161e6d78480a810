"""What a decoded token launches on a card, counted without one: the CUDA device over a card that notes launches and has
no memory. `python -m bench.cuda --count` prints it.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyapp
from pyapp import nn
from pyapp.engine import quant
from pyapp.engine.device import register
from pyapp.engine.devices.cuda import Cuda
from pyapp.engine.dtype import as_dtype
from pyapp.engine.gpu.card import Card
from pyapp.models.llama2c import Config, Llama2c

DEVICE = "counted"
SLOTS = 132  # multiprocessors of an H100 or H200
Launch = tuple[str, int, int]  # a kernel, its blocks and their threads


class CountingCard(Card):
    """A card of sm_90 that runs nothing."""

    name, architecture, capability, compiler = "counting card", "counted", (9, 0), "none"
    total_memory, multiprocessors, most_blocks, most_shared = 1 << 50, SLOTS, SLOTS * 16, 232448
    slab, stream = 0, None

    def __init__(self) -> None:
        self.launched: list[Launch] = []
        self._next = itertools.count(1)
        self._word = ctypes.c_int32(0)

    def compile(self, source: str, text: str, headers: dict[str, str]) -> bytes:
        return b""

    def load(self, image: bytes) -> Any:
        return None

    def function(self, module: Any, name: str) -> Any:
        return name

    def launch(
        self, function: Any, blocks: int, threads: int, shared: int, arguments: Any, overlaps: bool = False
    ) -> None:
        self.launched.append((function, blocks, threads))

    def allocate(self, nbytes: int) -> int:
        return next(self._next) << 40

    def free(self, address: int) -> None: ...

    def write(self, address: int, source: int, nbytes: int) -> None: ...

    def read(self, target: int, address: int, nbytes: int) -> None:
        ctypes.memset(target, 0, nbytes)

    def copy(self, to: int, source: int, nbytes: int) -> None: ...

    def clear(self, address: int, nbytes: int) -> None: ...

    def shared_word(self) -> tuple[int, Any]:
        return self.allocate(64), self._word

    def synchronize(self) -> None: ...

    def wait_for_stream(self, stream: Any) -> None: ...

    def begin_capture(self) -> None:
        self.launched.clear()

    def end_capture(self) -> Any:
        return None

    def run_graph(self, graph: Any) -> None: ...


def _open(index: int | None) -> Cuda:
    return Cuda(CountingCard())


register(DEVICE, _open)


def _fill(model: Any, kind: str) -> None:
    """Weights of a type on the card, which keeps nothing: the host has 64 rows of them at a time."""
    made: dict[int, Any] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            old = module.weight
            if id(old) not in made:
                rows, columns = old.shape
                if as_dtype(kind).is_quantized:
                    part = quant.quantize(pyapp.rand(64, columns), kind).to(DEVICE)
                    weight = quant.concatenate([part] * (rows // 64))
                else:
                    weight = pyapp.empty(rows, columns, dtype=kind, device=DEVICE)
                made[id(old)] = old, nn.Parameter(weight, requires_grad=False)
            module.weight = made[id(old)][1]


def launches_of(config: Config, kind: str, capacity: int) -> list[Launch]:
    """The launches of a token at batch 1, with a float16 cache of so many tokens."""
    with tempfile.TemporaryDirectory() as folder, _cache_in(folder):
        return _launches_of(config, kind, capacity)


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """What the card compiles, which is nothing, is not kept among kernels."""
    before = os.environ.get("PYAPP_CUDA_CACHE")
    os.environ["PYAPP_CUDA_CACHE"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYAPP_CUDA_CACHE"]
        else:
            os.environ["PYAPP_CUDA_CACHE"] = before


def _launches_of(config: Config, kind: str, capacity: int) -> list[Launch]:
    with pyapp.device(DEVICE):
        model = Llama2c(config, initialize=False).requires_grad_(False).eval()
    _fill(model, kind)
    model.to(DEVICE)
    backend: Any = pyapp.device(DEVICE).backend
    cache = model.new_cache(capacity, "float16")
    tokens, position = (pyapp.zeros(1, dtype="int32", device=DEVICE) for _ in range(2))
    with pyapp.no_grad():
        model.forward_cached(tokens, position, cache)
        pyapp.capture(lambda: model.forward_cached(tokens, position, cache))
    return list(backend.card.launched)


def together(launches: Sequence[Launch]) -> dict[Launch, int]:
    """How often each of them comes, the most frequent first."""
    found: dict[Launch, int] = {}
    for launch in launches:
        found[launch] = found.get(launch, 0) + 1
    return dict(sorted(found.items(), key=lambda item: -item[1]))
