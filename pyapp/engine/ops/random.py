"""Seeded random numbers: Philox4x32-10 (Salmon et al. 2011), a counter-based generator; the same bits on every
platform.
"""

from __future__ import annotations

import os
from typing import Any

from .. import dtype as _dtype
from ..launch import KERNELS, launch
from ..lazy import np
from ..shape import as_shape
from ..tensor import Tensor, check_device, empty_contiguous
from .base import array_of, computed, tensor_of

_UNIFORM = KERNELS["random_uniform"]
_NORMAL = KERNELS["random_normal"]


class Generator:
    """A seed and how many blocks of four words have been drawn from it."""

    def __init__(self, seed: int | None = None, device: Any = None) -> None:
        check_device(device)
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1 if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Starts the sequence of `seed` (64 bits) again."""
        self.seed = int(seed) & 0xFFFFFFFFFFFFFFFF
        self.offset = 0
        return self

    def initial_seed(self) -> int:
        return self.seed

    def get_state(self) -> tuple[int, int]:
        """(seed, offset): all there is."""
        return self.seed, self.offset

    def set_state(self, state: tuple[int, int]) -> None:
        self.seed, self.offset = int(state[0]), int(state[1])

    def fill(self, kernel: Any, target: Tensor) -> Tensor:
        """Fills a dense float32 tensor and moves on."""
        count = target.numel()
        signed = self.seed - (1 << 64) if self.seed >> 63 else self.seed
        launch(kernel, count >> 8, target.address, count, signed, self.offset)
        self.offset += (count + 3) // 4
        return target


default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator."""
    return default_generator.manual_seed(seed)


def _finish(x: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if dtype is not None or device is not None:
        x = x.to(dtype=dtype, device=device)
    return x.requires_grad_() if requires_grad else x


def _float(dtype: Any) -> Any:
    """What the numbers, drawn in float32, are converted to; None: nothing."""
    return _dtype.Default.dtype if dtype is None and _dtype.Default.dtype is not _dtype.float32 else dtype


def _draw(kernel: Any, size: Any, generator: Generator | None) -> Tensor:
    computed("random numbers")
    return (generator or default_generator).fill(kernel, empty_contiguous(as_shape(size), _dtype.float32))


def rand(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1)."""
    return _finish(_draw(_UNIFORM, sizes if size is None else size, generator), _float(dtype), device, requires_grad)


def randn(
    *sizes: Any, size: Any = None, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal."""
    return _finish(_draw(_NORMAL, sizes if size is None else size, generator), _float(dtype), device, requires_grad)


def _like(draw: Any, what: str) -> Any:
    def like(
        input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        kind = dtype or input.dtype
        return draw(
            input.shape, generator=generator, dtype=kind, device=device or input.device, requires_grad=requires_grad
        )

    like.__name__ = like.__qualname__ = f"{draw.__name__}_like"
    like.__doc__ = f"{what}, in the shape and dtype of the input."
    return like


rand_like, randn_like = _like(rand, "Uniform in [0, 1)"), _like(randn, "Standard normal")


def _words(count: int, generator: Generator | None) -> Any:
    """48 random bits for each of `count` integers, as float64 in [0, 1)."""
    pairs = array_of(rand((count, 2), generator=generator)).astype("float64")
    return pairs[:, 0] + pairs[:, 1] * 2.0**-24


def randint(
    low: int = 0, high: Any = None, size: Any = (), generator: Generator | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers low .. high - 1 (int64); randint(high, size) begins at 0."""
    if isinstance(high, (tuple, list)):
        high, size = None, high
    if high is None:
        low, high = 0, low
    if high <= low:
        raise ValueError(f"randint: there is no integer from {low} up to and excluding {high}")
    shape = as_shape((size,))
    count = int(np.prod(shape, dtype="int64"))
    values = np.floor(_words(count, generator) * (high - low)).astype("int64") + low
    return _finish(tensor_of(values.reshape(shape), _dtype.as_dtype(dtype or "int64")), None, device, requires_grad)


def randperm(n: int, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """0 .. n - 1 in random order (int64)."""
    return _finish(tensor_of(np.argsort(_words(n, generator), kind="stable"), _dtype.int64), dtype, device, False)


def multinomial(
    weights: Tensor, num_samples: int, replacement: bool = False, generator: Generator | None = None
) -> Tensor:
    """Indices (int64) drawn by weight: (C,) → (num_samples,), (R, C) → (R, num_samples)."""
    rows = array_of(weights).astype("float64").reshape(-1, weights.shape[-1])
    if not np.isfinite(rows).all() or (rows < 0).any() or (rows.sum(-1) <= 0).any():
        raise ValueError("multinomial: weights must be finite, not negative, and not all zero in a row")
    if not replacement and ((rows > 0).sum(-1) < num_samples).any():
        raise ValueError(f"multinomial: cannot draw {num_samples} different indices where fewer weights are above zero")
    if replacement:
        mass = np.cumsum(rows / rows.sum(-1, keepdims=True), -1)
        draws = _words(len(rows) * num_samples, generator).reshape(len(rows), num_samples)
        picked = np.stack([np.searchsorted(m, d, side="right") for m, d in zip(mass, draws, strict=True)])
        picked = np.minimum(picked, rows.shape[-1] - 1)
    else:  # exponential races: the first num_samples arrivals (Efraimidis & Spirakis 2006)
        draws = _words(rows.size, generator).reshape(rows.shape)
        with np.errstate(divide="ignore"):
            arrival = -np.log1p(-draws) / rows
        picked = np.argsort(arrival, -1, kind="stable")[:, :num_samples]
    return tensor_of(picked.reshape(*weights.shape[:-1], num_samples), _dtype.int64)


def _uniform_in_place(x: Tensor, low: float = 0.0, high: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Writes numbers from [low, high)."""
    if low > high:
        raise ValueError(f"uniform_: {low} is above {high}")
    return x.copy_(_draw(_UNIFORM, x.shape, generator) * (high - low) + low)


def _normal_in_place(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the normal distribution."""
    if not std >= 0:
        raise ValueError(f"normal_: the standard deviation is not negative, got {std}")
    return x.copy_(_draw(_NORMAL, x.shape, generator) * std + mean)


def _uniform_by_name(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """torch calls the limits `from`, which is no name in Python, and `to`."""
    names = {"from": "low", "to": "high"}
    return _uniform_in_place(x, *args, **{names.get(name, name): value for name, value in kwargs.items()})


Tensor.uniform_ = _uniform_by_name  # type: ignore[attr-defined]
Tensor.normal_ = _normal_in_place  # type: ignore[attr-defined]
