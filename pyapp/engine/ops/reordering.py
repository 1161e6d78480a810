"""Reverse, roll and rotate along dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from ..declare import function, method
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..shape import as_shape, normalize_dim, normalize_dims
from ..tensor import Tensor
from ..user_errors import describe
from .view import reshape, transpose


@primitive(vjp=lambda g, _, x, dims: (g.flip(dims),), saves="none", name="_flip")
def _flip(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return (
        tensor_of(np.flip(x.array(), dims).copy(), x.dtype)
        if not x.dtype.is_bits
        else tensor_of(np.flip(array_of(x), dims), x.dtype)
    )


@function(method=True)
def flip(x: Tensor, *along: Any, dims: Any = None) -> Tensor:
    """Reverses the order along dims."""
    if dims is None and not along:
        raise TypeError("flip: missing 1 required positional argument: 'dims'")
    return _flip(x, normalize_dims(as_shape(along if dims is None else dims), x.ndim, "flip"))


def _d_roll(g: Tensor, _: Any, x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    return (_roll(g, tuple(-s for s in shifts), dims),)


@primitive(vjp=_d_roll, saves="none", name="_roll")
def _roll(x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    return tensor_of(np.roll(array_of(x), shifts, dims), x.dtype)


def _listed(given: Any) -> tuple[int, ...]:
    """A whole number, or several, as Python's: those of other types would wrap in computations."""
    return (
        tuple(map(index, given)) if isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0 else (index(given),)
    )


@function(method=True)
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Shifts elements along dims cyclically; without dims, along the flattened tensor."""
    by = _listed(shifts)
    if dims is None:
        if len(by) != 1:
            raise ValueError(f"roll: shifts {by} need dims for {describe(x)}")
        return reshape(_roll(reshape(x, -1), by, (0,)), x._shape)
    named = _listed(dims)
    if len(named) != len(by):
        raise ValueError(f"roll: shifts {by} and dims {named} differ in number")
    return _roll(x, by, tuple(normalize_dim(d, x.ndim, "roll") for d in named))


@method("__reversed__")
def _reversed(x: Tensor) -> Tensor:
    """The first dim in reverse."""
    return flip(x, 0) if x.ndim else x


@function(method=True)
def fliplr(x: Tensor) -> Tensor:
    """flip along dim 1."""
    return flip(x, 1)


@function(method=True)
def flipud(x: Tensor) -> Tensor:
    """flip along dim 0."""
    if not x.ndim:
        raise ValueError(f"flipud: {describe(x)} has no dims")
    return flip(x, 0)


@function(method=True)
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotates by k times 90 degrees, from the first of two dims to the second."""
    a, b = (normalize_dim(d, x.ndim, "rot90") for d in dims)
    if a == b:
        raise ValueError(f"rot90: dims {tuple(dims)} are the same")
    if k % 4 == 2:
        return flip(x, a, b)
    if k % 4 == 1:
        return transpose(flip(x, b), a, b)
    return x._row_major() if k % 4 == 0 else flip(transpose(x, a, b), b)
