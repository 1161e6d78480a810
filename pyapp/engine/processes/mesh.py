"""The processes as a grid: torch.distributed.device_mesh."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from ...errors import OptionError, ProcessError
from ..ops import tensor
from ..tensor import Tensor
from .group import ProcessGroup, new_group, world

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The ranks in a grid of some dims, each with a group of this process: the ranks that differ from it only there.
    `mesh["tp"]` and `mesh["dp", "tp"]` are its dims by their names.

        mesh = DeviceMesh("cpu", [[0, 2], [1, 3]], mesh_dim_names=("dp", "tp"))

    `mesh` has each rank once, and may leave out some; init_device_mesh has all, in their order. All processes call it,
    also those that are not in it. OptionError for a grid that is none.
    """

    def __init__(
        self, device_type: str, mesh: Tensor | Sequence[Any], *, mesh_dim_names: Sequence[str] | None = None
    ) -> None:  # fmt: skip
        grid = mesh if isinstance(mesh, Tensor) else tensor(mesh)
        ranks, everyone = grid.reshape(-1).tolist(), world()
        if not grid.ndim or grid.dtype.category != 1 or len(set(ranks)) < len(ranks) or not ranks:
            raise OptionError(f"is {mesh!r:.100}, expected a grid of different ranks", where="mesh")
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and (len(names) != grid.ndim or len(set(names)) < len(names)):
            raise OptionError(f"are {names}, expected {grid.ndim} different ones", where="mesh_dim_names")
        groups = []
        for dim in range(grid.ndim):
            for row in grid.movedim(dim, -1).reshape(-1, grid._shape[dim]).tolist():
                whole = row == [*range(everyone.size())]
                made = everyone if whole else new_group(row)  # all ranks make all groups, in one order
                if made.rank() >= 0:
                    groups.append(made)
        self._set(str(device_type), tuple(grid._shape), ranks, names, groups)

    def _set(
        self, device_type: str, shape: Sequence[int], ranks: Sequence[int], names: Sequence[str] | None,
        groups: Sequence[ProcessGroup],
    ) -> None:  # fmt: skip
        self.device_type, self.shape = device_type, tuple(shape)
        self.mesh_dim_names = None if names is None else tuple(names)
        self._ranks, self._groups = tuple(ranks), tuple(groups)

    @staticmethod
    def from_group(
        group: ProcessGroup | Sequence[ProcessGroup], device_type: str, mesh: Tensor | Sequence[Any] | None = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """The mesh of groups that are there: of one, or of this process's groups along each dim of the grid `mesh`.
        OptionError where they do not fit."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        grid = tensor(groups[0].ranks) if mesh is None and len(groups) == 1 else mesh
        if grid is None:
            raise OptionError(f"is needed for {len(groups)} groups: the ranks in their grid", where="mesh")
        grid = grid if isinstance(grid, Tensor) else tensor(grid)
        if tuple(grid._shape) != tuple(each.size() for each in groups):
            sizes = [each.size() for each in groups]
            raise OptionError(f"has the shape {list(grid.shape)}, the groups are of {sizes} ranks", where="mesh")
        return _of_groups(device_type, grid._shape, grid.reshape(-1).tolist(), mesh_dim_names, groups)

    @property
    def mesh(self) -> Tensor:
        """The ranks, in the shape of the grid, int32."""
        return tensor(self._ranks, dtype="int32").reshape(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks of a dim; of all without one."""
        return prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """The number of this process among all."""
        return world().rank()

    def get_coordinate(self) -> list[int] | None:
        """The place of this process in the grid; None if it is not in it."""
        found = [group.rank() for group in self._groups]
        return found if len(found) == self.ndim and -1 not in found else None

    def _dim(self, mesh_dim: int | str | None, what: str) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise OptionError(f"a mesh with {self.ndim} dims needs to know which", where=what)
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise OptionError(f"has no dim {mesh_dim!r:.50}, but {self._told()}", where="DeviceMesh")
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise OptionError(f"has no dim {mesh_dim}, but {self.ndim}", where="DeviceMesh")
        return mesh_dim % self.ndim

    def _told(self) -> str:
        return "none with a name" if self.mesh_dim_names is None else ", ".join(map(repr, self.mesh_dim_names))

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process along a dim, by its number or name."""
        return self._groups[self._dim(mesh_dim, "get_group")]

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this process, by the dims."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The number of this process in its group along a dim."""
        return self._groups[self._dim(mesh_dim, "get_local_rank")].rank()

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dims, in which this process is."""
        wanted = [self._dim(name, "DeviceMesh") for name in ((names,) if isinstance(names, str) else names)]
        if wanted != sorted(set(wanted)):
            raise OptionError(f"dims are named once, in their order {self._told()}", where="DeviceMesh")
        own = self.get_coordinate()
        if own is None:
            raise ProcessError("this process is not in the mesh", where="DeviceMesh")
        ranks = []
        for place in product(*(range(self.shape[dim]) for dim in wanted)):
            at = list(own)
            for dim, value in zip(wanted, place, strict=True):
                at[dim] = value
            ranks.append(self._ranks[_flat(at, self.shape)])
        every = self.mesh_dim_names or ()
        return _of_groups(
            self.device_type, [self.shape[dim] for dim in wanted], ranks, [every[dim] for dim in wanted],
            [self._groups[dim] for dim in wanted],
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Whether it is the same grid of the same groups."""
        return isinstance(other, DeviceMesh) and (self.shape, self._groups) == (other.shape, other._groups)

    def __hash__(self) -> int:
        return hash((self.shape, self._ranks))

    def __repr__(self) -> str:
        names = self.mesh_dim_names or [str(i) for i in range(self.ndim)]
        dims = ", ".join(f"{name}={size}" for name, size in zip(names, self.shape, strict=True))
        return f"DeviceMesh({self.device_type!r}, {dims})"


def _of_groups(
    device_type: str, shape: Sequence[int], ranks: Sequence[int], names: Sequence[str] | None,
    groups: Sequence[ProcessGroup],
) -> DeviceMesh:  # fmt: skip
    """A mesh of groups that are there."""
    made = object.__new__(DeviceMesh)
    made._set(device_type, shape, ranks, names, groups)
    return made


def _flat(place: Sequence[int], shape: Sequence[int]) -> int:
    at = 0
    for value, size in zip(place, shape, strict=True):
        at = at * size + value
    return at


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """A mesh of all ranks, which all call it: `init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))`.
    `device_type` is "cpu" or "cuda". OptionError where the shape has not as many places as there are ranks.
    """
    shape, everyone = tuple(mesh_shape), world()
    if any(not isinstance(size, int) or size < 1 for size in shape) or prod(shape) != everyone.size():
        raise OptionError(f"is {shape}, but there are {everyone.size()} ranks", where="mesh_shape",
                          hint=f"Start as many with pyapp run -n {max(1, prod(shape))}")  # fmt: skip
    return DeviceMesh(device_type, tensor(range(everyone.size())).reshape(shape), mesh_dim_names=mesh_dim_names)
