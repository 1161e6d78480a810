"""Calls of a group of processes that gradients go through. As in `collectives`, all ranks of the group make the same
calls in the same order, in the backward pass too; these return new tensors.

Two kinds of gradients have to be told apart. Where every rank goes on with the same values and computes the same loss,
each has the whole gradient already (sum_over_ranks, gather_parts, own_part). Where each goes on with its part of the
work, a gradient is the sum of those of all ranks (sum_of_gradients, sum_of_part, all_reduce …).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError
from ..autograd import no_grad
from ..autograd_function import Function
from ..ops import cat, empty, zeros_like
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from . import collectives
from .communicator import ReduceOp
from .group import ProcessGroup, group_or_world

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather_parts", "own_part", "reduce",
    "reduce_scatter", "share_of", "sum_of_gradients", "sum_of_part", "sum_over_ranks", "summed_gradient",
]  # fmt: skip


def share_of(total: int, group: ProcessGroup, most: int | None = None) -> tuple[int, int]:
    """(first, count) of `total` rows that this rank has: `most` each (None: as torch.chunk divides), so that the last
    ranks may have fewer or none."""
    most = -(-total // group.size()) if most is None else most
    first = min(group.rank() * most, total)
    return first, min(most, total - first)


# -- the calls, without gradients


def _summed(x: Tensor, group: ProcessGroup, op: ReduceOp = ReduceOp.SUM) -> Tensor:
    y = x._row_major() if x.is_contiguous() else x.contiguous()
    if group.size() > 1 or op is not ReduceOp.SUM:
        collectives.all_reduce(y, op, group)
    return y


def _gathered(x: Tensor, group: ProcessGroup, dim: int, total: int, most: int | None) -> Tensor:
    """The parts of all ranks along a dim, which share_of says → the whole (…, total, …)."""
    size = group.size()
    most = -(-total // size) if most is None else most
    if size == 1:
        return x._row_major()
    sent = x.movedim(dim, 0)  # (own rows, …)
    if sent._shape[0] < most:
        sent = cat([sent, sent.new_zeros(most - sent._shape[0], *sent._shape[1:])])
    every = empty(size * most, *sent._shape[1:], dtype=x.dtype, device=x.device)  # (ranks * rows, …)
    collectives.all_gather_into_tensor(every, sent.contiguous(), group)
    return every.narrow(0, 0, total).movedim(0, dim).contiguous()


def _part_of_sum(x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
    """This rank's part along a dim of the sum of all ranks' tensors."""
    size, total = group.size(), x._shape[dim]
    most = -(-total // size)
    if size == 1:
        return x._row_major()
    rows = x.movedim(dim, 0)
    if size * most > total:
        rows = cat([rows, rows.new_zeros(size * most - total, *rows._shape[1:])])
    own = empty(most, *rows._shape[1:], dtype=x.dtype, device=x.device)  # (rows of a rank, …)
    collectives.reduce_scatter_tensor(own, rows.contiguous(), ReduceOp.SUM, group)
    return own.narrow(0, 0, share_of(total, group)[1]).movedim(0, dim).contiguous()


# -- of tensors that are the same on every rank, or parts of one


class _SumOverRanks(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return _summed(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return sum_of_gradients(gradient, ctx.group), None


class _SumOfGradients(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return sum_over_ranks(gradient, ctx.group), None


class _GatherParts(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, dim: int, total: int, most: int | None) -> Tensor:
        ctx.given = group, dim, most
        return _gathered(x, group, dim, total, most)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _OwnPart.apply(gradient, *ctx.given), None, None, None, None


class _OwnPart(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, dim: int, most: int | None) -> Tensor:
        ctx.given = group, dim, x._shape[dim], most
        return x.narrow(dim, *share_of(x._shape[dim], group, most)).contiguous()._row_major()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _GatherParts.apply(gradient, *ctx.given), None, None, None


class _SumOfPart(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
        ctx.given = group, dim, x._shape[dim]
        return _part_of_sum(x, group, dim)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _GatherForParts.apply(gradient, *ctx.given), None, None


class _GatherForParts(Function):
    """As _GatherParts, but each rank computes a part of what follows: the gradient is the rank's part of a sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup, dim: int, total: int) -> Tensor:
        ctx.given = group, dim
        return _gathered(x, group, dim, total, None)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _SumOfPart.apply(gradient, *ctx.given), None, None, None


def sum_over_ranks(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of all ranks' tensors, with which all go on alike. The gradient passes unchanged."""
    return _SumOverRanks.apply(x, group)


def sum_of_gradients(x: Tensor, group: ProcessGroup) -> Tensor:
    """x, the same on every rank, of which each computes a part of what follows. The gradient is the sum over the
    ranks."""
    return _SumOfGradients.apply(x, group)


def gather_parts(x: Tensor, group: ProcessGroup, dim: int, total: int | None = None, most: int | None = None) -> Tensor:
    """The parts of all ranks along a dim, one after the other (…, total, …), with which all go on alike: `total` rows
    as share_of divides them (None: all ranks have as many as this one). The gradient is this rank's part of it."""
    dim = normalize_dim(dim, x.ndim, "gather_parts")
    return _GatherParts.apply(x, group, dim, x._shape[dim] * group.size() if total is None else total, most)


def own_part(x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
    """This rank's part along a dim of a tensor that all have; the gradients of the parts are gathered."""
    return _OwnPart.apply(x, group, normalize_dim(dim, x.ndim, "own_part"), None)


def sum_of_part(x: Tensor, group: ProcessGroup, dim: int) -> Tensor:
    """This rank's part along a dim of the sum of all ranks' tensors; the gradients of the parts are gathered."""
    return _SumOfPart.apply(x, group, normalize_dim(dim, x.ndim, "sum_of_part"))


# -- torch.distributed.nn.functional


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, op: ReduceOp, group: ProcessGroup) -> Tensor:
        ctx.given = op, group
        return _summed(x, group, op)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _AllReduce.apply(gradient, *ctx.given), None, None


class _AllToAll(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, outputs: Sequence[int] | None, inputs: Sequence[int] | None, group: ProcessGroup
    ) -> Tensor:
        ctx.given = inputs, outputs, group
        rows = x._shape[0] if outputs is None else sum(outputs)
        y = empty(rows, *x._shape[1:], dtype=x.dtype, device=x.device)
        collectives.all_to_all_single(y, x.contiguous(), outputs, inputs, group)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _AllToAll.apply(gradient, *ctx.given), None, None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, src: int, group: ProcessGroup) -> Tensor:
        ctx.given = src, group
        y = x.contiguous()._row_major()
        collectives.broadcast(y, src, group)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _Reduce.apply(gradient, ctx.given[0], ReduceOp.SUM, ctx.given[1]), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dst: int, op: ReduceOp, group: ProcessGroup) -> Tensor:
        ctx.given = dst, group
        y = x.contiguous()._row_major()
        collectives.reduce(y, dst, op, group)
        return y if group.index_of(dst) == group.rank() else zeros_like(y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return _Broadcast.apply(gradient, *ctx.given), None, None, None


def _summable(name: str, op: ReduceOp) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(f"{name}: there are gradients for ReduceOp.SUM and AVG, got {describe(op)}")


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The sum (or mean) of all ranks' tensors. Its gradient is that of the gradients of all ranks."""
    _summable("all_reduce", op)
    return _AllReduce.apply(tensor, op, group_or_world(group))


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, which have one shape. The gradient of each is the sum of those of all ranks."""
    group = group_or_world(group)
    whole = _GatherForParts.apply(tensor.unsqueeze(0), group, 0, group.size())  # (ranks, …)
    return tuple(whole.unbind(0))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The sum (or mean) over the ranks of input_list[i], at rank i; `output` only says its shape, as in torch."""
    _summable("reduce_scatter", op)
    group = group_or_world(group)
    if len(input_list) != group.size() or any(x._shape != output._shape for x in input_list):
        raise ArgumentError(
            f"reduce_scatter takes a list of {group.size()} tensors with the shape {list(output.shape)} of the output"
        )
    stacked = cat([x.unsqueeze(0) for x in input_list])  # (ranks, …)
    y = _SumOfPart.apply(stacked, group, 0).squeeze(0)
    return y if op is ReduceOp.SUM else y / group.size()


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: ProcessGroup | None = None,
) -> Tensor:  # fmt: skip
    """Part j along the first dim of each rank's input goes to rank j; `output` is not written, as in torch."""
    return _AllToAll.apply(input, output_split_sizes or None, input_split_sizes or None, group_or_world(group))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """Tensor j of each rank's inputs goes to rank j. `output_tensor_list` says the shapes of what comes."""
    group = group_or_world(group)
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != group.size():
            raise ArgumentError(f"all_to_all takes lists of {group.size()} tensors, one for each rank")
    sent = cat([x.reshape(-1) for x in input_tensor_list])
    sizes = [x.numel() for x in output_tensor_list]
    found = _AllToAll.apply(sent, sizes, [x.numel() for x in input_tensor_list], group)
    return tuple(x.reshape(like._shape) for x, like in zip(found.split(sizes), output_tensor_list, strict=True))


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """The tensor of rank `src`, whose gradient there is the sum of those of all ranks."""
    return _Broadcast.apply(tensor, src, group_or_world(group))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The sum of all ranks' tensors at rank `dst`, zeros elsewhere. Each gets the gradient of that rank."""
    if op is not ReduceOp.SUM:
        raise NotImplementedError(f"reduce: there are gradients for ReduceOp.SUM, got {describe(op)}")
    return _Reduce.apply(tensor, dst, op, group_or_world(group))


def summed_gradient(x: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of all ranks' tensors, outside of any graph: for hooks on gradients of parameters."""
    with no_grad():
        return _summed(x.detach(), group)
