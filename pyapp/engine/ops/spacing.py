"""Numbers at equal distances between two ends."""

from __future__ import annotations

from operator import index
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..dtype import DType, as_dtype, complex_of
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..tensor import Tensor
from .create import finish


@function(factory=True)
def linspace(
    start: float, end: float, steps: int, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` values from start to end, both included; integers go from int(start) to int(end), as in torch."""
    kind = _kind_between("linspace", start, end, dtype)
    if kind.name not in ("float32", "float64"):
        return finish(tensor_of(_equally_spaced("linspace", start, end, steps, kind), kind), device, requires_grad)
    first, last = _numbers("linspace", start, end)
    with np.errstate(all="ignore"):
        return finish(tensor_of(_from_both_ends(first, last, steps, kind.name), kind), device, requires_grad)


def _from_both_ends(start: Any, end: Any, steps: int, kind: str) -> Any:
    """torch's numbers, in float32 to the last bit: steps of that dtype from the nearer end, each place rounded once."""
    steps = index(steps)
    if steps < 0:
        raise ValueError(f"linspace: steps is 0 or more, not {steps}")
    first, last = np.asarray([start, end], kind)
    step = np.float64((last - first) / np.asarray(max(steps - 1, 1), kind))
    half = steps // 2 if steps != 1 else 1
    places = np.arange(steps, dtype=np.float64)
    places[half:] -= steps - 1
    places *= step
    places[:half] += first
    places[half:] += last
    return places.astype(kind, copy=False)


def _kind_between(name: str, start: Any, end: Any, dtype: Any) -> DType:
    """The dtype of numbers from start to end: the default one, complex where an end is."""
    for limit in (start, end):
        if isinstance(limit, complex) or (isinstance(limit, Tensor) and limit.dtype.is_complex):
            kind = as_dtype(dtype or complex_of(_dtype.Default.dtype))
            if not kind.is_complex:
                raise TypeError(f"{name}: {start} .. {end} are complex numbers, which {kind} does not hold")
            return kind
    return as_dtype(dtype or _dtype.Default.dtype)


def _numbers(name: str, start: Any, end: Any) -> tuple[Any, Any]:
    for end_of in (start, end):
        if isinstance(end_of, Tensor) and end_of.ndim:
            raise ValueError(f"{name}: start and end are numbers or tensors without dims, not of {end_of.shape}")
    return tuple(v.item() if isinstance(v, Tensor) else v for v in (start, end))


def _equally_spaced(name: str, start: Any, end: Any, steps: int, kind: DType) -> Any:
    start, end = _numbers(name, start, end)
    if kind.category == 1:
        start, end = int(start), int(end)
    return np.linspace(start, end, steps)


@function(factory=True)
def logspace(start: float, end: float, steps: int, base: float = 10.0, dtype: Any = None) -> Tensor:
    """base^start … base^end."""
    with np.errstate(over="ignore"):
        kind = _kind_between("logspace", start, end, dtype)
        return tensor_of(base ** _equally_spaced("logspace", start, end, steps, kind), kind)
