"""The tokens that an automaton over bytes may read next, for text of a given form
(pyapp/text/structured_output/structured.py)."""

from __future__ import annotations

from .. import dtype as _dtype
from ..declare import function
from ..launch import refuse_capture
from ..op import op
from ..tensor import Tensor, empty_contiguous
from ..user_errors import describe
from .create import full
from .elementwise.select import where


@op()
def _token_mask(
    mask: Tensor, table: Tensor, columns_of: Tensor, distance: Tensor, bytes_: Tensor, offsets: Tensor,
    state: int, budget: int,
) -> Tensor:  # fmt: skip
    """Writes into `mask` (V,) bool whether each token may be read, byte after byte for all tokens; returns it."""
    starts = offsets[:-1].to(_dtype.int64)
    lengths = offsets[1:].to(_dtype.int64) - starts
    states, columns = table._shape
    # Row `states` is the state of refused bytes.
    rows = full((states + 1, columns), states, dtype=_dtype.int64, device=mask.device)
    rows[:states] = where((table < 0).logical_or(table >= states), states, table).to(_dtype.int64)
    ends = full((states + 1,), -1, dtype=_dtype.int64, device=mask.device)
    ends[:states] = distance.to(_dtype.int64)
    now = full((mask._shape[0],), state, dtype=_dtype.int64, device=mask.device)
    for place in range(int(lengths.max())):
        here = (starts + place).clamp(0, bytes_._shape[0] - 1)
        column = columns_of[bytes_[here].to(_dtype.int64)].to(_dtype.int64)
        now = where(lengths > place, rows[now, column], now)
    left = ends[now]
    return mask.copy_((lengths > 0).logical_and(left >= 0).logical_and(left <= budget))


@function()
def token_mask(
    table: Tensor, columns_of: Tensor, distance: Tensor, bytes_: Tensor, offsets: Tensor, state: int, budget: int
) -> Tensor:
    """Which tokens an automaton in `state` may read: (V,) bool.

    Token i is the bytes `bytes_[offsets[i] : offsets[i + 1]]` (uint8 (N,), int32 (V + 1,)). `table` (states, columns)
    int32 gives the next state, or -1, for the column `columns_of` (256,) uint8 of a byte. A token may be read if every
    byte has a next state, and the last state has a `distance` (states,) int32 from 0 to `budget`. Tokens without bytes
    may not be read. All tensors are on one device.
    """
    refuse_capture("token_mask")
    kinds = (_dtype.int32, _dtype.uint8, _dtype.int32, _dtype.uint8, _dtype.int32)
    given = (table, columns_of, distance, bytes_, offsets)
    shapes = (2, (256,), table._shape[:1], 1, 1)
    for tensor, kind, shape in zip(given, kinds, shapes, strict=True):
        fits = len(tensor._shape) == shape if isinstance(shape, int) else tensor._shape == shape
        if tensor.dtype is not kind or not fits or not tensor.is_contiguous():
            raise ValueError(
                "token_mask: takes table int32 (S, C), columns_of uint8 (256,), distance int32 (S,), "
                f"bytes_ uint8 (N,), offsets int32 (V + 1,), all dense; got {describe(tensor)}"
            )
    if offsets._shape[0] < 2 or not 0 <= state < table._shape[0]:
        raise ValueError(f"token_mask: state {state} of {table.shape[0]}, {offsets.shape[0] - 1} tokens")
    mask = empty_contiguous((offsets._shape[0] - 1,), _dtype.bool_, table.device)
    _token_mask(mask, table, columns_of, distance, bytes_, offsets, state, budget)
    return mask
