"""torch.distributed.tensor.experimental's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...engine import Tensor
from ...engine.processes.mesh import DeviceMesh
from ...engine.user_errors import describe
from ...errors import ArgumentError
from .dtensor import DTensor, implicit_replication
from .placement_types import Placement

__all__ = ["implicit_replication", "local_map"]

Layout = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any], out_placements: Layout | Sequence[Layout], in_placements: Sequence[Layout] | None = None,
    in_grad_placements: Sequence[Layout] | None = None, device_mesh: DeviceMesh | None = None, *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function of DTensors that computes with the parts of this process as `func` does, and gives DTensors in
    `out_placements`: one sequence for a single result, a tuple of them for several.

    `in_placements` has those that each argument must be in, None for what is no DTensor; others are an ArgumentError,
    or redistributed with `redistribute_inputs`. `in_grad_placements` says in what the gradients come (to_local).
    """

    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh, given = device_mesh, []
        if in_placements is not None and len(in_placements) != len(args):
            raise ArgumentError(f"local_map: in_placements has {len(in_placements)} entries for {len(args)} arguments")
        for i, value in enumerate(args):
            wanted = None if in_placements is None else in_placements[i]
            if not isinstance(value, DTensor):
                if wanted is not None:
                    raise ArgumentError(
                        f"local_map: argument {i} is {describe(value)}, expected a DTensor in {list(wanted)}"
                    )
                given.append(value)
                continue
            mesh = value.device_mesh if mesh is None else mesh
            if wanted is not None and tuple(wanted) != value.placements:
                if not redistribute_inputs:
                    raise ArgumentError(
                        f"local_map: argument {i} is in {list(value.placements)}, expected {list(wanted)}; "
                        "redistribute_inputs=True brings it there"
                    )
                value = value.redistribute(placements=wanted)
            gradients = None if in_grad_placements is None else in_grad_placements[i]
            given.append(value.to_local(grad_placements=gradients))
        found = func(*given, **kwargs)
        if mesh is None:
            raise ArgumentError("local_map: no argument is a DTensor: give it a device_mesh")
        if isinstance(found, Tensor):
            return DTensor.from_local(found, mesh, out_placements)  # type: ignore[arg-type]
        places = list(out_placements or ())
        if len(places) != len(found):
            raise ArgumentError(f"local_map: out_placements has {len(places)} entries for {len(found)} results")
        return type(found)(
            DTensor.from_local(x, mesh, place) if isinstance(x, Tensor) and place is not None else x  # type: ignore[arg-type]
            for x, place in zip(found, places, strict=True)
        )

    return mapped
