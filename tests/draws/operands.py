"""Draws of operands: values, dtypes and memory layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor

SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65)
LARGE = (97, 100, 127, 128, 129, 160, 192, 255, 256, 257, 300, 384, 513)
FLOATS = ("float32",) * 6 + ("float16",) * 2 + ("bfloat16",) * 2 + ("float64",)
GAP = 0x55  # what integers between the elements of an operand are


class Source:
    """Memory that operands are views of: values between their elements are NaN."""

    open = False  # to further operands

    def __init__(self, values: np.ndarray, dtype: str) -> None:
        self.dtype = dtype
        self.used = np.zeros(values.size, bool)
        self.fill(values)

    def fill(self, values: np.ndarray) -> None:
        """Takes values (N,), rounded to the dtype."""
        if self.floats:
            rounded = pyapp.from_numpy(np.asarray(values, np.float64)).to(self.dtype)
            self.values: np.ndarray = rounded.double().numpy().copy()
        else:
            self.values = np.asarray(values, np.bool_ if self.dtype == "bool" else self.dtype)

    @property
    def floats(self) -> bool:
        return "float" in self.dtype

    def host_tensor(self, adopts: bool = False) -> Tensor:
        """(N,) in its dtype on the CPU, with gaps. `adopts`: in NumPy's memory, whose ends sanitizers know."""
        values = self.values.copy()
        if self.floats:
            values[~self.used] = np.nan
        elif self.dtype != "bool":
            values[~self.used] = GAP
        if adopts and self.dtype != "bfloat16":
            return pyapp.from_numpy(values.astype(self.dtype))
        return pyapp.from_numpy(values).to(self.dtype).clone()


class Operand:
    """A view of a source: `steps` lead from its memory (N,) to the view."""

    def __init__(self, source: Source, steps: list[tuple[Any, ...]]) -> None:
        self.source, self.steps = source, steps
        self.index: np.ndarray = view_of(np.arange(source.values.size), steps)
        source.used[self.index.reshape(-1)] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape

    @property
    def values(self) -> np.ndarray:
        return self.source.values[self.index]

    def __repr__(self) -> str:
        steps = " ".join(f"{name}{args}" for name, *args in self.steps)
        return f"{self.source.dtype}{list(self.shape)} = memory[{self.source.values.size}] {steps}"


def view_of(x: Any, steps: list[tuple[Any, ...]]) -> Any:
    """The view of an array or tensor after these steps."""
    host = isinstance(x, np.ndarray)
    for name, *args in steps:
        if name == "permute":
            x = x.transpose(args[0]) if host else x.permute(*args[0])
        elif name == "index":
            x = x[tuple(args[0])]
        elif name == "expand":
            x = np.broadcast_to(x, args[0]) if host else x.expand(*args[0])
        elif name == "reshape":
            x = x.reshape(args[0])
        elif name == "strided":
            shape, strides, offset = args
            if host:
                x = np.lib.stride_tricks.as_strided(x[offset:], shape, [n * x.itemsize for n in strides])
            else:
                x = x.as_strided(shape, strides, offset)
    return x


class Draw:
    """What a seed gives."""

    def __init__(self, seed: int, floats: tuple[str, ...] = FLOATS) -> None:
        self.random = np.random.RandomState(seed % (1 << 32))
        self.floats = floats
        self.kind = str(self.pick(floats))
        self.operands: list[Operand] = []
        self.plain = self.chance(0.08)  # dense operands
        self.large = self.chance(0.06)

    def chance(self, share: float) -> bool:
        return bool(self.random.rand() < share)

    def pick(self, values: Any) -> Any:
        return values[self.random.randint(len(values))]

    def below(self, count: int) -> int:
        return int(self.random.randint(count))

    def size(self, most: int = 65) -> int:
        if self.large and most >= 33 and self.chance(0.5):
            return int(self.pick(LARGE))
        return int(self.pick([n for n in SIZES if n <= most]))

    def shape(self, rank: int, most: int = 3000, empty: bool = True) -> tuple[int, ...]:
        """Sizes whose product is at most about `most`."""
        sizes: list[int] = []
        most *= 20 if self.large else 1
        for _ in range(rank):
            sizes.append(min(self.size(max(1, most)), max(most, 1)))
            most //= sizes[-1]
        if empty and rank and self.chance(0.015):
            sizes[self.below(rank)] = 0
        return tuple(sizes[i] for i in self.random.permutation(rank))

    def layout(self, shape: tuple[int, ...], expands: bool = True) -> tuple[list[tuple[Any, ...]], tuple[int, ...]]:
        """(steps, the shape of the memory that they start from)."""
        steps: list[tuple[Any, ...]] = []
        rank = len(shape)
        if self.plain or self.chance(0.15):
            return steps, shape
        if expands and rank and self.chance(0.2):
            steps.insert(0, ("expand", shape))
            shape = tuple(1 if self.chance(0.4) and n else n for n in shape)
        if rank and self.chance(0.45):
            index, wide = [], []
            for n in shape:
                step = int(self.pick((1, 1, 1, 2, 3)))
                start, rest = (int(self.pick((0, 0, 1, 2, 4))) for _ in range(2)) if self.chance(0.6) else (0, 0)
                wide.append(start + max(n - 1, 0) * step + (n > 0) + rest)
                index.append(slice(start, start + n * step if n else start, step))
            if self.chance(0.5):  # only one dim
                keep = self.below(rank)
                index = [s if i == keep else slice(None) for i, s in enumerate(index)]
                wide = [w if i == keep else shape[i] for i, w in enumerate(wide)]
            steps.insert(0, ("index", index))
            shape = tuple(wide)
        if rank >= 2 and self.chance(0.5):
            order = [int(i) for i in self.random.permutation(rank)]
            if self.chance(0.5):  # two dims
                order = list(range(rank))
                i, j = self.below(rank), self.below(rank)
                order[i], order[j] = order[j], order[i]
            steps.insert(0, ("permute", tuple(order)))
            back = [order.index(i) for i in range(rank)]
            shape = tuple(shape[i] for i in back)
        if self.chance(0.12):  # one of several
            at, count, chosen = self.below(len(shape) + 1), 3, self.below(3)
            steps.insert(0, ("index", [*[slice(None)] * at, chosen]))
            shape = (*shape[:at], count, *shape[at:])
        return steps, shape

    def operand(
        self, shape: tuple[int, ...], kind: str | None = None, low: float | None = None, high: float | None = None,
        expands: bool = True, joins: bool = True,
    ) -> Operand:  # fmt: skip
        """Normal numbers, uniform ones between low and high, or integers below high."""
        kind = kind or self.kind
        shape = tuple(int(n) for n in shape)
        if kind == "bool":
            values: Any = lambda n: self.random.rand(n) < (high or 0.6)  # noqa: E731
        elif "float" not in kind:
            first = int(low or 0)
            last = int(high if high is not None else 10)
            values = lambda n: self.random.randint(first, max(last, first + 1), n)  # noqa: E731
        elif low is not None:
            values = lambda n: self.random.uniform(low, high, n)  # noqa: E731
        else:
            values = self.random.randn
        steps, begin = self.layout(shape, expands)
        count = int(np.prod(begin))
        joined = joins and low is None and high is None and self.chance(0.2)
        same = [x.source for x in self.operands if x.source.dtype == kind and x.source.open]
        if joined and same and not self.plain:  # two views of one memory
            source = same[self.below(len(same))]
            if source.values.size >= count:
                offset = self.below(source.values.size - count + 1)
                steps = [("index", [slice(offset, offset + count)]), ("reshape", begin), *steps]
                found = Operand(source, steps)
                self.operands.append(found)
                return found
        ahead, behind = (int(self.pick((0, 0, 1, 3, 4))) for _ in range(2)) if not self.plain else (0, 0)
        if joined:
            behind += self.below(200)
        source = Source(values(ahead + count + behind), kind)
        source.open = joins and low is None and high is None
        steps = [("index", [slice(ahead, ahead + count)]), ("reshape", begin), *steps]
        found = Operand(source, steps)
        self.operands.append(found)
        return found
