"""Functions of rows, computed in pieces of rows: intermediate values need the memory of one piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .autograd import _SERIAL, STATE, Described, Edge, Node, edge_of, gradients_at
from .device import Device
from .ops.stacking import cat
from .recompute import checkpoint, inputs_of
from .tensor import Tensor, make

PIECE = {"cpu": 64 << 20}  # bytes of what a function makes of a piece
PIECE_OF_CARDS = 512 << 20  # whose products need more rows to be fast


def rows_at_once(width: int, device: Device) -> int:
    """How many rows of `width` float32 numbers make a piece on a device."""
    return max(1, PIECE.get(device.type, PIECE_OF_CARDS) // (4 * max(width, 1)))


class _Known(Node):
    """One node for all pieces of a sum, whose gradients were computed with it. Backward multiplies them by its own."""

    __slots__ = ("known",)

    known: list[tuple[Edge, Tensor]] | None

    def gradients(self, gradient: Tensor, create_graph: bool) -> Iterable[tuple[Edge, Tensor | None]]:
        if self.known is None:
            raise self._freed()
        if create_graph:
            raise RuntimeError(
                f"backward: '{self.op.name}' has no second derivatives, because its gradients are computed in pieces; "
                "compute it in one piece"
            )
        return [(edge, (known * gradient).to(known.dtype)) for edge, known in self.known]

    def release(self) -> bool:
        self.drop()
        return False

    def drop(self) -> None:
        super().drop()
        self.known = None


def _pieces(rows: Tensor, others: tuple[Tensor, ...], size: int) -> Iterable[tuple[Tensor, tuple[Tensor, ...]]]:
    for first in range(0, rows._shape[0], size):
        count = min(size, rows._shape[0] - first)
        yield rows.narrow(0, first, count), tuple(other.narrow(0, first, count) for other in others)


def sum_of_pieces(function: Callable[..., Tensor], size: int, rows: Tensor, *others: Tensor) -> Tensor:
    """The sum of `function(rows, *others)` over pieces of `size` rows: each call gets a piece of rows (N, ...) and of
    every one of the others (N, ...), and returns a scalar.

    The gradients are computed at once, piece by piece, of `rows` and of tensors that the function uses without getting
    them, and kept until backward: `rows` costs its own size, nothing is computed twice. `others` get no gradients.
    """
    if rows._shape[0] <= size:
        return function(rows, *others)
    start = _SERIAL()
    total: Any = None
    of_rows: list[Tensor] = []
    known: dict[int, tuple[Edge, Tensor]] = {}
    for piece, parts in _pieces(rows.detach(), others, size):
        if STATE.enabled:
            piece.requires_grad_(rows.requires_grad)
        value = function(piece, *parts)
        if value.requires_grad:
            edges = inputs_of([value], start)
            stop = frozenset(id(edge) for edge in edges if isinstance(edge, Node))
            # What autocast keeps for all pieces is a part of each one's graph.
            found = gradients_at(edges, [value], [None], True, False, stop)
            for edge in edges:
                gradient = found.get(id(edge))
                if gradient is None:
                    continue
                if edge is piece:
                    of_rows.append(gradient)
                else:
                    before = known.get(id(edge))
                    known[id(edge)] = edge, gradient if before is None else before[1] + gradient
        total = value.detach() if total is None else total + value.detach()
    if of_rows:
        known[id(rows)] = edge_of(rows), cat(of_rows)
    if not known:
        return total
    result = make(total._storage, total._shape, total.strides, total.dtype, total.offset)
    result._requires_grad = True
    node = _Known(Described(getattr(function, "__name__", "sum_of_pieces"), None), (), total)  # type: ignore[arg-type]
    node.known = list(known.values())
    node.edges = tuple(edge for edge, _ in node.known)
    result.node = node
    return result


def rows_of_pieces(function: Callable[..., Tensor], size: int, rows: Tensor, *others: Tensor) -> Tensor:
    """`function(rows, *others)`, a number for each row (N,), over pieces of `size` rows. Backward computes each piece
    again.
    """
    if rows._shape[0] <= size:
        return function(rows, *others)
    return cat([checkpoint(function, piece, *parts) for piece, parts in _pieces(rows, others, size)])


__all__ = ["rows_at_once", "rows_of_pieces", "sum_of_pieces"]
