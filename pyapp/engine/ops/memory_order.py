"""Tensors whose dims have another order in memory: torch's memory formats."""

from __future__ import annotations

from typing import Any

from ..memory_format import contiguous_format, order_of, preserve_format
from ..tensor import Tensor


def _copied(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """A copy with the dims in another order in memory."""
    back = [order.index(d) for d in range(len(order))]
    copied: Tensor = x.permute(order)._row_major().permute(back)
    return copied


def cloned(x: Tensor, memory_format: Any) -> Tensor:
    """A copy in a memory format."""
    order = order_of("clone", memory_format, x.ndim)
    if order is None:
        return x._row_major() if memory_format is contiguous_format else x.clone()
    return _copied(x, order)


def contiguous_in(x: Tensor, memory_format: Any) -> Tensor:
    """x in a memory format: itself where it is. RuntimeError for preserve_format, which is none."""
    if memory_format is preserve_format and not x.is_contiguous():
        raise RuntimeError("contiguous: takes channels_last or contiguous_format, not preserve_format")
    order = order_of("contiguous", memory_format, x.ndim)
    if order is None:
        return x.contiguous()
    return x if x.is_contiguous(memory_format) else _copied(x, order)


def in_format(name: str, x: Tensor, memory_format: Any) -> Tensor:
    """As contiguous_in; with preserve_format x itself."""
    order = order_of(name, memory_format, x.ndim)
    if order is None:
        return x.contiguous() if memory_format is contiguous_format else x
    return x if x.is_contiguous(memory_format) else _copied(x, order)
