"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import UnsupportedValueError
from ..declare import function
from ..launch import constants
from ..lazy import np
from ..numpy_arrays import array_of, int64_tensor, tensor_of
from ..op import op, primitive
from ..tensor import Tensor
from ..user_errors import describe
from .view import narrow


def _d_pad(g: Tensor, _: Any, x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    for dim, (before, _after) in enumerate(widths):
        g = narrow(g, dim, before, x._shape[dim])
    return (g.contiguous(),)  # as in torch, whose users call view() of it


@primitive(vjp=_d_pad, saves="none", name="_pad")
def _pad(x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Tensor:
    return tensor_of(np.pad(array_of(x), widths, constant_values=value), x.dtype)


def _positions(mode: str, size: int, before: int, after: int) -> Tensor:
    """The index (int64) in a dim of each element of the padded dim."""
    at = np.arange(-before, size + after, dtype=np.int64)
    if mode == "replicate":
        return int64_tensor(np.clip(at, 0, size - 1))
    if mode == "circular":
        return int64_tensor(at % size)
    at = np.abs(at)
    return int64_tensor(np.where(at >= size, 2 * (size - 1) - at, at))


_MOST_KNOWN = 1 << 12  # elements of a dim of which the positions are kept
_known_positions = constants(32)(_positions)


@op()
def _pad_with_own(x: Tensor, widths: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    """Widens dims by elements of x: mode "reflect", "replicate" or "circular"."""
    for dim, (before, after) in enumerate(widths):
        if before or after:
            find, size = _known_positions, x._shape[dim] + before + after
            if size > _MOST_KNOWN:  # MemoryError before the positions are found, where there is no room for the result
                find = _positions
                x.new_empty((*x._shape[:dim], size, *x._shape[dim + 1 :]))
            x = x.index_select(dim, find(mode, x._shape[dim], before, after))
    return x


@function()
def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Widens dims by (before, after) pairs, the last dim's first; negative widths cut.

    mode: "constant" (with `value`, 0 by default), "reflect", "replicate" or "circular".
    """
    widths, given = [int(n) for n in pad], x
    if len(widths) % 2 or len(widths) > 2 * x.ndim:
        raise ValueError(f"pad: {tuple(widths)} does not name pairs for the dims of {describe(x)}")
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise UnsupportedValueError(f"pad: mode is constant, reflect, replicate or circular, not {mode!r}")
    pairs = [(0, 0)] * x.ndim
    for i in range(0, len(widths), 2):
        dim, before, after = x.ndim - 1 - i // 2, widths[i], widths[i + 1]
        ends = mode == "replicate" and min(before, after) < 0 < max(before, after)
        if ends and x._shape[dim] and before + after + x._shape[dim] >= 0:
            pairs[dim] = (
                before,
                after,
            )  # as in torch, more may be cut than the dim has
            continue
        if before < 0 or after < 0:
            kept = x._shape[dim] + min(before, 0) + min(after, 0)
            if kept < 0:
                raise ValueError(f"pad: {before} and {after} cut more than dim {dim} of {describe(x)} has")
            x = narrow(x, dim, max(-before, 0), kept)
            before, after = max(before, 0), max(after, 0)
        size = x._shape[dim]
        if mode != "constant":
            limit = {"reflect": size - 1, "circular": size, "replicate": before + after if size else 0}[mode]
            if (before or after) and max(before, after) > limit:
                raise ValueError(f"pad: {before} and {after} are too wide for mode {mode!r} on {describe(x)}")
        pairs[dim] = (before, after)
    if any(p != (0, 0) for p in pairs):
        if mode == "constant":
            return _pad(x, tuple(pairs), 0 if value is None else value)
        return _pad_with_own(x, tuple(pairs), mode)
    return x._row_major() if x._storage is given._storage else x


@function()
def constant_pad_nd(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """pad with a constant."""
    return _pad_any(x, list(pad), value=value)


_pad_any = pad
