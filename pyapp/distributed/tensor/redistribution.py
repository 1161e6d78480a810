"""From one layout of a tensor to another one, with the communication that this takes and its gradient.

The gradient of what a process has is in the layout of the tensor itself: a part of the whole gradient for Shard, the
whole for Replicate, and for Partial the whole, too, as each process's summand counts fully.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Tensor, no_grad, ops
from ...engine.processes.differentiable import (
    gather_parts,
    own_part,
    share_of,
    sum_of_part,
    sum_over_ranks,
    summed_gradient,
)
from ...engine.processes.group import ProcessGroup
from ...engine.processes.mesh import DeviceMesh
from ...engine.shape import normalize_dim
from ...errors import ArgumentError
from .placement_types import Partial, Placement, Replicate, Shard

Placements = tuple[Placement, ...]


def converted(
    x: Tensor, given: Placement, wanted: Placement, group: ProcessGroup, total: int | None = None
) -> Tensor:  # fmt: skip
    """A tensor that the ranks have in one layout, in another one; gradients come back in the first. `total`: the size
    of the divided dim of the whole, which the ranks ask one another for otherwise.
    """
    for layout in (given, wanted):
        if isinstance(layout, Shard):
            normalize_dim(layout.dim, x.ndim, f"a tensor in the layout {layout}")
    match given, wanted:
        case (Shard(dim), Shard(other)) if dim % x.ndim == other % x.ndim:
            return x
        case (Replicate(), Replicate()):
            return x
        case (Partial(), Partial()) if given == wanted:
            return x
        case (Partial("sum"), Replicate()):
            return sum_over_ranks(x, group)
        case (Partial("sum"), Shard(dim)):
            return sum_of_part(x, group, dim)
        case (Partial("avg"), Replicate() | Shard()):
            return converted(x, Partial(), wanted, group) / group.size()
        case (Partial(how), Replicate()):
            every = gather_parts(x.unsqueeze(0), group, 0, group.size())  # (ranks, …)
            return every.amax(0) if how == "max" else every.amin(0) if how == "min" else every.prod(0)
        case (Partial(), Shard(dim)):
            return own_part(converted(x, given, Replicate(), group), group, dim)
        case (Shard(dim), Replicate()):
            return gather_parts(x, group, dim, _total(x, dim, group) if total is None else total)
        case (Replicate(), Shard(dim)):
            return own_part(x, group, dim)
        case (Shard(dim), Shard(other)):
            whole = gather_parts(x, group, dim, _total(x, dim, group) if total is None else total)
            return own_part(whole, group, other)
    raise ArgumentError(f"a tensor cannot go from {given} to {wanted}")


def _total(x: Tensor, dim: int, group: ProcessGroup) -> int:
    """How many rows all ranks have of a dim along which x is divided."""
    with no_grad():
        return int(summed_gradient(ops.tensor([x.shape[dim]]), group).item())


def whole_shape(x: Tensor, layout: Placement, group: ProcessGroup) -> tuple[int, ...]:
    """The shape of the whole of which a rank has x. All ranks of the group call it."""
    if not isinstance(layout, Shard):
        return tuple(x.shape)
    return (*x.shape[: layout.dim], _total(x, layout.dim, group), *x.shape[layout.dim + 1 :])


def parts_of(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> list[tuple[int, int, int]]:
    """What this process has of a tensor of this shape: for each dim of the mesh that divides it (dim of the tensor,
    first, count), of what the dims of the mesh before it leave.
    """
    sizes, found = list(shape), []
    for group, placement in zip(mesh.get_all_groups(), placements, strict=True):
        if isinstance(placement, Shard):
            first, count = share_of(sizes[placement.dim], group)
            found.append((placement.dim, first, count))
            sizes[placement.dim] = count
    return found


def local_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[int, ...]:
    """The shape of what this process has of a tensor."""
    sizes = list(shape)
    for dim, _, count in parts_of(shape, mesh, placements):
        sizes[dim] = count
    return tuple(sizes)


def _size_before(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], at: int, dim: int) -> int:
    """The size of a dim of the tensor where dim `at` of the mesh divides it."""
    return local_shape(shape, mesh, [*placements[:at], *[Replicate()] * (mesh.ndim - at)])[dim]


def redistributed(
    local: Tensor, shape: Sequence[int], mesh: DeviceMesh, given: Placements, wanted: Placements
) -> Tensor:  # fmt: skip
    """What this process has of a tensor of this shape in other placements. All processes of the mesh call it."""
    groups, now = mesh.get_all_groups(), list(given)
    for at in range(mesh.ndim - 1, -1, -1):  # the last dim of the mesh divides the smallest parts
        own, goal = now[at], wanted[at]
        touched = {
            layout.dim for i in range(at) if given[i] != wanted[i] for layout in (given[i], wanted[i])
            if isinstance(layout, Shard)
        }  # fmt: skip  # whose parts change before this dim of the mesh divides them again
        if own == goal and not (isinstance(own, Shard) and own.dim in touched):
            continue
        if isinstance(own, Shard):
            total = _size_before(shape, mesh, now, at, own.dim)
            local = converted(local, own, Replicate(), groups[at], total)
            now[at] = Replicate()
        elif isinstance(own, Partial):
            direct = isinstance(goal, Shard) and goal.dim not in touched and all(
                not (isinstance(later, Shard) and later.dim == goal.dim) for later in now[at + 1 :]
            )  # fmt: skip
            now[at] = goal if direct else Replicate()
            local = converted(local, own, now[at], groups[at])
    for at in range(mesh.ndim):
        if now[at] != wanted[at]:
            if isinstance(wanted[at], Partial):
                raise ArgumentError(
                    f"redistribute: a tensor cannot go from {given[at]} to {wanted[at]}, which only results have"
                )
            local = converted(local, now[at], wanted[at], groups[at])
    return local
