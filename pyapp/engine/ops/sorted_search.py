"""Places in ascending rows: searchsorted, bucketize."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .. import dtype as _dtype
from ..declare import function
from ..device import cpu
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..operands import moved, refuse_complex, same_device
from ..tensor import Tensor
from ..user_errors import describe

_Function = TypeVar("_Function", bound=Callable[..., Any])


def by_the_host(function: _Function) -> _Function:
    """NumPy computes the function from copies of the tensors; its results lie where the tensors do."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        device = same_device(function.__name__, *tensors) if tensors else cpu
        found = function(*args, **kwargs)
        return found if device is cpu else moved(found, device)

    return call  # type: ignore[return-value]


@function()
@by_the_host
def searchsorted(
    sorted_sequence: Tensor, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where values would go into ascending rows: before equals, or after them with `right` (int64). `sorter`: the order
    that makes rows ascend, as argsort gives it.
    """
    refuse_complex("searchsorted", sorted_sequence, values)
    if side not in (None, "left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    way: Any = "right" if right or side == "right" else "left"
    rows, wanted = array_of(sorted_sequence), array_of(values)
    if sorter is not None:
        if sorter._shape != sorted_sequence._shape or sorter.dtype.category != 1:
            raise ValueError(f"searchsorted: the sorter {describe(sorter)} does not fit {describe(sorted_sequence)}")
        order = sorter.array().astype(np.int64)
        if order.size and (order.min() < 0 or order.max() >= rows.shape[-1]):
            raise IndexError(f"searchsorted: the sorter holds indices outside 0 .. {rows.shape[-1] - 1}")
        rows = np.take_along_axis(rows, order, -1)
    if rows.ndim == 1:
        found = np.searchsorted(rows, wanted, way)
    else:
        if rows.shape[:-1] != wanted.shape[:-1]:
            raise ValueError(
                f"searchsorted: {describe(sorted_sequence)} and {describe(values)} differ before the last dim"
            )
        found = np.empty(wanted.shape, np.int64)
        for place in np.ndindex(rows.shape[:-1]):
            found[place] = np.searchsorted(rows[place], wanted[place], way)
    return tensor_of(np.asarray(found), _dtype.int32 if out_int32 else _dtype.int64)


@function()
def bucketize(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """searchsorted with the arguments swapped."""
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)
