"""Rotary position embedding."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..grad_mode import STATE
from ..op import op
from ..tensor import Tensor, empty_contiguous
from ..user_errors import describe
from .create import arange
from .stacking import cat, stack

_ROWS = 4096  # of a table that are computed at a time, in float64
_MOST = 1 << 40  # elements of a table


def rotation_table(positions: int, steps: Sequence[float], factor: float = 1.0) -> Tensor:
    """cos and sin of position * step, times `factor`: float32 (positions, len(steps), 2). Without NumPy."""
    table = empty_contiguous((positions, len(steps), 2), _dtype.float32)
    turns = Tensor.from_buffer(array("d", steps), (1, len(steps)), _dtype.float64)
    for first in range(0, positions, _ROWS):
        rows = min(positions - first, _ROWS)
        at = Tensor.from_buffer(array("d", range(first, first + rows)), (rows, 1), _dtype.float64)
        angles = at * turns  # (rows, R / 2) float64
        part = table.narrow(0, first, rows)
        for i, values in enumerate((angles.cos(), angles.sin())):
            part.narrow(2, i, 1).squeeze(2).copy_((values * factor).to(_dtype.float32))
    return table


@function()
def rope_table(positions: int, head_dim: int, theta: float = 10000.0) -> Tensor:
    """cos and sin of the rotary angles (Su et al. 2021, arXiv 2104.09864): (positions, head_dim / 2, 2). Other
    frequencies: nn.positions.rotary.
    """
    if not 0 <= positions * head_dim <= _MOST or not 0 <= head_dim <= _MOST:
        raise ValueError(f"rope_table: there is no table of {positions:,} positions for {head_dim:,} features")
    return rotation_table(positions, [theta ** (-2.0 * i / head_dim) for i in range(head_dim // 2)])


@op()
def _rope(x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Tensor:
    """Rotates pairs of the first R features of x (..., T, H, D) by the angles of their positions."""
    tokens, rotated = x._shape[-3], 2 * table._shape[1]
    if STATE.traced and position is not None:
        places = position if position._shape[-1] == tokens else position + arange(tokens, device=position.device)
        angles = table[places]  # (T, R / 2, 2) or (B, T, R / 2, 2)
    elif position is None or position.numel() == 1:
        start = 0 if position is None else int(position.item())
        if start < 0 or start + tokens > table._shape[0]:
            last = start + tokens - 1
            raise IndexError(f"rope: positions {start} .. {last} are outside the table of {table.shape[0]}")
        angles = table[start : start + tokens]  # (T, R / 2, 2)
    else:
        if position.numel() and not 0 <= int(position.min().item()) <= int(position.max().item()) < table._shape[0]:
            raise IndexError(f"rope: some positions are outside the table of {table.shape[0]}")
        angles = table[position]  # (T, R / 2, 2) or (B, T, R / 2, 2)
    angles = angles.unsqueeze(-3)  # (T, 1, R / 2, 2) or (B, T, 1, R / 2, 2)
    cos, sin = angles[..., 0], angles[..., 1]
    turned = x if rotated == x._shape[-1] else x[..., :rotated]
    if interleaved:
        pairs = turned.reshape(*x._shape[:-1], rotated // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        turned = stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(*x._shape[:-1], rotated)
    else:
        a, b = turned[..., : rotated // 2], turned[..., rotated // 2 :]
        turned = cat([a * cos - b * sin, a * sin + b * cos], -1)
    return turned if rotated == x._shape[-1] else cat([turned, x[..., rotated:]], -1)


@_rope.gradient
def _d_rope(g: Tensor, _: Any, x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Any:
    """The gradient of a rotation is the inverse rotation. (A table may scale too: the transposed matrix scales
    alike.)
    """
    back = table.detach()._row_major()
    back[..., 1] = -table.detach()[..., 1]
    return (_rope(g, back, position, interleaved),)


@function()
def rope(x: Tensor, table: Tensor, position: Tensor | None = None, interleaved: bool = True) -> Tensor:
    """Rotary position embedding (Su et al. 2021, arXiv 2104.09864) of x (..., T, H, D) by `table` (P, R / 2, 2) from
    rope_table: the first R of the D features are rotated, the others stay.

    position: None (row t has the position t), integers (1,) (position[0] + t), (T,) (one for each row), or (B, T) for x
    (B, T, H, D). IndexError outside the table. interleaved: pairs are neighbours (Meta's and llama2.c's layout), else
    the halves of the R features (Hugging Face's).
    """
    _check_table(table)
    if x.ndim < 3 or x._shape[-1] < 2 * table._shape[1]:
        raise ValueError(
            f"rope: {describe(x)} is not (..., T, H, D) with D at least {2 * table.shape[1]}, as the table asks"
        )
    if position is not None:
        tokens = x._shape[-3]
        whole = x.ndim == 4 and position._shape == (x._shape[0], tokens)
        if position.dtype.category != 1 or (position._shape not in ((1,), (tokens,)) and not whole):
            raise ValueError(
                f"rope: positions are integers, (1,), ({tokens},) or (B, {tokens}), not {describe(position)}"
            )
    return _rope(x, table, position, interleaved)


def _check_table(table: Tensor) -> None:
    if table.ndim != 3 or table._shape[2] != 2:
        raise ValueError(f"a table is (P, R / 2, 2), not {describe(table)}")
