"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..op import op
from ..tensor import Tensor, empty_contiguous
from ..user_errors import describe
from .stacking import cat, stack


@function()
def rope_table(positions: int, head_dim: int, theta: float = 10000.0) -> Tensor:
    """cos and sin of the rotary angles (Su et al. 2021, arXiv 2104.09864): (positions, head_dim / 2, 2)."""
    from math import cos, sin

    half = head_dim // 2
    table = empty_contiguous((positions, half, 2), _dtype.float32)
    view = table.data_view()
    steps = [theta ** (-2.0 * i / head_dim) for i in range(half)]
    at = 0
    for position in range(positions):
        for step in steps:
            angle = position * step
            view[at] = cos(angle)
            view[at + 1] = sin(angle)
            at += 2
    return table


@op()
def _rope(x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Tensor:
    """Rotates pairs of features of x (..., T, H, D) by the angles of their positions."""
    start = 0 if position is None else int(position.item())
    tokens, half = x.shape[-3], x.shape[-1] // 2
    if start < 0 or start + tokens > table.shape[0]:
        raise IndexError(f"rope: positions {start} .. {start + tokens - 1} are outside the table of {table.shape[0]}")
    angles = table[start : start + tokens].unsqueeze(1)  # (T, 1, D / 2, 2)
    cos, sin = angles[..., 0], angles[..., 1]
    if interleaved:
        pairs = x.reshape(*x.shape[:-1], half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    return cat([a * cos - b * sin, a * sin + b * cos], -1)


@_rope.gradient
def _d_rope(g: Tensor, _: Any, x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Any:
    """The gradient of a rotation is the inverse rotation."""
    back = table.detach().clone()
    back[..., 1] = -table.detach()[..., 1]
    return (_rope(g, back, position, interleaved),)


@function()
def rope(x: Tensor, table: Tensor, position: Tensor | None = None, interleaved: bool = True) -> Tensor:
    """Rotary position embedding of x (..., T, H, D) with `table` from rope_table; row t has the position position[0] +
    t.

    interleaved: pairs are neighbours (Meta's and llama2.c's layout), else halves (Hugging Face's).
    """
    _check_table(table)
    if x.ndim < 3 or x.shape[-1] != 2 * table.shape[1]:
        raise ValueError(f"rope: {describe(x)} is not (..., T, H, {2 * table.shape[1]}) as the table asks")
    if position is not None:
        _check_position(position)
    return _rope(x, table, position, interleaved)


def _check_position(position: Tensor) -> None:
    if position.shape != (1,) or position.dtype.category != 1:
        raise ValueError(f"the position is one integer, (1,), not {describe(position)}")


def _check_table(table: Tensor) -> None:
    if table.ndim != 3 or table.shape[2] != 2:
        raise ValueError(f"a table is (P, D / 2, 2), not {describe(table)}")
