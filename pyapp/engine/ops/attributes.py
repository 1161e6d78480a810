"""What Tensor has in torch beside its ops: questions about where and what it is, more random numbers in place."""

from __future__ import annotations

from typing import Any

from ..op import describe
from ..tensor import Tensor
from .random import Generator, rand, randint


def _matrix_transposed(x: Tensor) -> Tensor:
    if x.ndim not in (0, 2):
        raise RuntimeError(f"H: takes a matrix, not {describe(x)}; see mH")
    return x.mT if x.ndim else x


def _type(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The dtype's name, or x converted."""
    return f"pyapp.{x.dtype.name}" if dtype is None else x.to(dtype)


def _sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Adds up the dims along which `size` would be broadcast to x's shape."""
    target = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    extra = x.ndim - len(target)
    kept = (1,) * extra + tuple(target)
    if extra < 0 or any(n not in (1, m) for n, m in zip(kept, x.shape, strict=True)):
        raise RuntimeError(f"sum_to_size: {target} is not broadcast to {describe(x)}")
    dims = [d for d, (n, m) in enumerate(zip(kept, x.shape, strict=True)) if n != m or d < extra]
    return x.sum(dims, True).reshape(target) if dims else x.reshape(target)


def _exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Writes numbers of the exponential distribution with rate `lambd`."""
    if not lambd > 0:
        raise ValueError(f"exponential_: the rate must be above 0, not {lambd}")
    return x.copy_((-rand(x.shape, generator=generator)).log1p() * (-1 / lambd))


def _random_(x: Tensor, start: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Writes integers start .. to - 1; random_(n): 0 .. n - 1; without limits all that the dtype holds exactly."""
    if to is None:
        start, to = (0, start) if start else (0, _LIMITS.get(x.dtype.name, 1 << 31))
    return x.copy_(randint(start, to, x.shape, generator).to(x.dtype))


_LIMITS = {
    "bool": 2, "uint8": 256, "int8": 128, "int16": 1 << 15, "float16": (1 << 11) + 1, "bfloat16": (1 << 8) + 1,
    "float32": (1 << 24) + 1,
}  # fmt: skip
ATTRIBUTES: dict[str, Any] = {
    "H": property(_matrix_transposed),
    "mH": property(lambda x: x.mT),
    "is_cpu": property(lambda x: x.device.type == "cpu"),
    "is_cuda": property(lambda x: x.device.type == "cuda"),
    "itemsize": property(lambda x: x.element_size()),
    "get_device": lambda x: -1 if x.device.type == "cpu" else x.device.index,
    "type": _type,
    "sum_to_size": _sum_to_size,
    "exponential_": _exponential_,
    "random_": _random_,
}
for _name, _found in ATTRIBUTES.items():
    setattr(Tensor, _name, _found)
