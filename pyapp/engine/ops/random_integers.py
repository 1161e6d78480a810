"""Random whole numbers, written into a tensor."""

from __future__ import annotations

from typing import Any

from ..declare import method
from ..tensor import Tensor
from .dtype_limits import finfo
from .random import Generator, limits_of, randint


@method("random_")
def _random_(x: Tensor, start: int = 0, to: Any = ..., *, generator: Generator | None = None) -> Tensor:
    """Writes integers start .. to - 1; random_(n): 0 .. n - 1; without an end (None) all from the start that the dtype
    holds exactly. ValueError where the dtype does not hold these.
    """
    if to is ...:
        start, to = (0, start) if start else (0, None)
    smallest, largest = limits_of(x.dtype)
    if to is None:
        kind = x.dtype
        most = largest if kind.category < 2 else 2 / finfo(kind).eps
        to = min(int(most), (1 << 63) - 1) + 1
    for number in (start, to - 1):
        if not smallest <= number <= largest:
            raise ValueError(f"random_: {number} is beyond the limits of {x.dtype}")
    return x.copy_(randint(start, to, x._shape, generator).to(x.dtype))
