"""DTensor: a tensor that the processes of a mesh have together, by torch.distributed.tensor's names.

Each process has a plain tensor, its part, and gradients are recorded there. Ops do not ask whether a tensor is a
DTensor. They read where its elements lie, which it does not have: that raises a NotDense, and `propagation` computes
the op from the parts instead.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from ...engine import Device, DType, Tensor, no_grad, ops
from ...engine.autograd import grad as autograd_grad
from ...engine.processes.collectives import broadcast
from ...engine.processes.differentiable import sum_of_gradients
from ...engine.processes.mesh import DeviceMesh
from ...engine.shape import Shape, normalize_dim
from ...engine.storage import Storage
from ...engine.tensor import set_attribute
from ...engine.thread_local import ThreadLocal
from ...engine.user_errors import NotDense, describe
from ...errors import ArgumentError
from ...nn.module import Module
from ...nn.part import Part
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import Placements, local_shape, parts_of, redistributed

__all__ = [
    "DTensor", "distribute_module", "distribute_tensor", "empty", "full", "implicit_replication", "ones", "rand",
    "randn", "zeros",
]  # fmt: skip

_NO_PLACE = frozenset(("address", "offset", "strides"))


class _Thread(ThreadLocal):
    """Whether plain tensors beside DTensors are taken as Replicate."""

    replicates = False


THREAD = _Thread()


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Inside, a plain tensor in an op with DTensors counts as one that all processes have."""
    before, THREAD.replicates = THREAD.replicates, True
    try:
        yield
    finally:
        THREAD.replicates = before


class DistributedArgument(NotDense):
    """Raised where the memory of a DTensor is read; `run` computes the operation from the parts."""

    def __init__(self, told: str | None = None) -> None:
        super().__init__(
            told or "a DTensor has no memory of its own here: use its to_local(), or the whole of it, full_tensor()"
        )

    def run(self, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
        return importlib.import_module(".propagation", __package__).run(self, name, args, kwargs)


class DTensor(Tensor):
    """A tensor of `shape`, which the processes of `device_mesh` have as `placements` say: one for each dim of the mesh.
    `distribute_tensor` and `DTensor.from_local` make it.

    Ops give DTensors. Where their placements fit, each process computes with its part; else the parts are exchanged
    before. An op that knows of no division computes with the whole, on every process. ArgumentError for a plain tensor
    beside a DTensor, unless it is one number, or inside `implicit_replication()`.
    """

    __slots__ = ()
    dense = False

    _local_tensor: Tensor
    _mesh: DeviceMesh
    _places: Placements

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("DTensor: distribute_tensor or DTensor.from_local makes it")

    def __getattr__(self, name: str) -> Any:
        if name in _NO_PLACE:
            raise DistributedArgument
        raise AttributeError(f"'DTensor' object has no attribute {name!r}")

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self._local_tensor.dtype

    @property
    def device(self) -> Device:  # type: ignore[override]
        return self._local_tensor.device

    @property
    def _storage(self) -> Storage:  # type: ignore[override]
        raise DistributedArgument

    # -- layouts

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._mesh

    @property
    def placements(self) -> Placements:
        """How they have it, by the dims of the mesh."""
        return self._places

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Sequence[int] | None = None, stride: Any = None,
    ) -> DTensor:  # fmt: skip
        """The tensor of which each process has `local_tensor`; gradients go through. By default all have the whole.

        `shape` is that of the whole; without it, parts of a Shard have equal sizes. `run_check`: the processes compare
        shapes, and take what is replicated from the first of them. `stride` has no effect.

        ArgumentError where this process's part has not the size that torch.chunk gives it.
        """
        if not isinstance(local_tensor, Tensor) or isinstance(local_tensor, DTensor) or not local_tensor.dense:
            raise TypeError(f"DTensor.from_local: takes a dense tensor, not {describe(local_tensor)}")
        chosen = checked(placements, device_mesh, local_tensor.ndim, "DTensor.from_local")
        sizes = list(local_tensor.shape)
        for group, placement in zip(device_mesh.get_all_groups(), chosen, strict=True):
            if isinstance(placement, Shard):
                sizes[placement.dim] *= group.size()
        whole = tuple(sizes) if shape is None else tuple(shape)
        expected = local_shape(whole, device_mesh, chosen) if len(whole) == local_tensor.ndim else whole
        if expected != tuple(local_tensor.shape):
            raise ArgumentError(
                f"DTensor.from_local: {describe(local_tensor)} is not the part of this process of a tensor of shape "
                f"{list(whole)} as {list(chosen)}: expected {list(expected)}"
            )
        if run_check:
            for group, placement in zip(device_mesh.get_all_groups(), chosen, strict=True):
                group.member().agree(f"DTensor.from_local of {list(whole)} as {list(chosen)}")
                if isinstance(placement, Replicate):
                    broadcast(local_tensor.detach(), group.ranks[0], group)
        return distributed(local_tensor, device_mesh, chosen, whole)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """What this process has. Its gradient is in the placements of the tensor; `grad_placements` says where each
        process computes only a summand of it instead: Partial() for Replicate().
        """
        local = self._local_tensor
        if grad_placements is not None:
            given = checked(grad_placements, self._mesh, self.ndim, "to_local")
            for group, own, other in zip(self._mesh.get_all_groups(), self._places, given, strict=True):
                if isinstance(other, Partial) and isinstance(own, Replicate):
                    local = sum_of_gradients(local, group) if local.requires_grad else local
                elif other != own and not (isinstance(own, Partial) and isinstance(other, Replicate)):
                    raise ArgumentError(f"to_local: the gradient of a tensor in {own} cannot come in {other}")
        return local

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        async_op: bool = False,
    ) -> DTensor:  # fmt: skip
        """The same tensor in other placements. All processes of the mesh call it; gradients go through. `async_op` has
        no effect. ArgumentError for another mesh, and for Partial(), unless it is in Partial() already.
        """
        if device_mesh is not None and device_mesh != self._mesh:
            raise ArgumentError(f"redistribute: the tensor is on {self._mesh!r}, and cannot go to {device_mesh!r}")
        if placements is None:
            raise ArgumentError("redistribute: needs placements, one for each dim of the mesh")
        wanted = checked(placements, self._mesh, self.ndim, "redistribute")
        local = redistributed(self._local_tensor, self.shape, self._mesh, self._places, wanted)
        return distributed(local, self._mesh, wanted, self.shape)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole, on every process. All processes of the mesh call it; gradients go through."""
        whole = self.redistribute(placements=[Replicate()] * self._mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    # -- what Tensor's own methods do not know

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """False: it has no memory of its own."""
        return False

    def view(self, *shape: Any, dtype: Any = None) -> Tensor:
        """reshape: whether a part is a view or a copy does not matter here."""
        if dtype is not None or (len(shape) == 1 and isinstance(shape[0], DType)):
            raise ArgumentError("view: the bytes of a DTensor are seen as another dtype by its to_local()")
        return self.reshape(*shape)

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def item(self) -> Any:
        return self.full_tensor().item()

    def numpy(self, *, force: bool = False) -> Any:
        return self.full_tensor().numpy(force=force)

    def __getitem__(self, index: Any) -> Tensor:
        return importlib.import_module(".propagation", __package__).indexed(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        importlib.import_module(".propagation", __package__).assign(self, index, value)

    def _beside(self, made: Tensor, random: bool = False) -> Tensor:
        whole = (Replicate(),) * self._mesh.ndim
        return (
            distribute_tensor(made, self._mesh, whole) if random else distributed(made, self._mesh, whole, made.shape)
        )

    def __repr__(self) -> str:
        name = "Parameter containing:\n" if self.is_parameter else ""
        return (
            f"{name}DTensor(local_tensor={self._local_tensor!r}, device_mesh={self._mesh!r}, placements={self._places})"
        )

    # -- gradients are those of the parts

    @property
    def node(self) -> Any:  # type: ignore[override]
        raise DistributedArgument("gradients of a DTensor are recorded by its parts: use backward(), or to_local()")

    @property
    def view_of(self) -> Any:  # type: ignore[override]
        raise DistributedArgument

    @property
    def grad_fn(self) -> Any:
        return self._local_tensor.grad_fn

    @property
    def is_leaf(self) -> bool:
        return self._local_tensor.is_leaf

    @property
    def requires_grad(self) -> bool:
        return self._local_tensor.requires_grad

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        self._local_tensor.requires_grad = on

    def requires_grad_(self, on: bool = True) -> DTensor:
        self._local_tensor.requires_grad_(on)
        return self

    @property
    def _requires_grad(self) -> bool:  # type: ignore[override]
        """False: ops record nothing for it, their parts do."""
        return False

    @property
    def _grad(self) -> Tensor | None:
        gradient = self._local_tensor.grad
        return None if gradient is None else distributed(gradient, self._mesh, self._gradients(), self.shape)

    @_grad.setter
    def _grad(self, gradient: Tensor | None) -> None:
        if gradient is not None and not isinstance(gradient, DTensor):
            raise ArgumentError(f"grad: the gradient of a DTensor is one, not {describe(gradient)}")
        found = None if gradient is None else gradient.redistribute(placements=self._gradients())
        self._local_tensor.grad = None if found is None else found._local_tensor

    @property
    def grad(self) -> Tensor | None:
        """The gradient, in the placements of the tensor; Replicate() for Partial()."""
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        self._grad = gradient

    def _gradients(self) -> Placements:
        return tuple(Replicate() if isinstance(place, Partial) else place for place in self._places)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """As Tensor's; all processes of the mesh call it. `gradient` is a DTensor."""
        if isinstance(inputs, DTensor):
            inputs = inputs._local_tensor
        elif inputs is not None and not isinstance(inputs, Tensor):
            inputs = [x._local_tensor if isinstance(x, DTensor) else x for x in inputs]
        if gradient is None:
            self.full_tensor().backward(None, retain_graph, create_graph, inputs)
            return
        if not isinstance(gradient, DTensor):
            raise ArgumentError(f"backward: the gradient of a DTensor is one, not {describe(gradient)}")
        given = gradient.redistribute(placements=self._gradients())._local_tensor
        self._local_tensor.backward(given, retain_graph, create_graph, inputs)

    @staticmethod
    def _gradients_of(outputs: Any, inputs: Any, grad_outputs: Any, settings: Any) -> tuple[Any, ...]:
        """autograd.grad where DTensors are among the inputs or outputs; all processes of the mesh call it."""
        roots, wanted = ([x] if isinstance(x, Tensor) else list(x) for x in (outputs, inputs))
        given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(roots))
        ends: list[Tensor] = []
        weights: list[Any] = []
        for root, weight in zip(roots, given, strict=True):
            if not isinstance(root, DTensor):
                ends.append(root)
                weights.append(weight)
            elif weight is None:
                ends.append(root.full_tensor())
                weights.append(None)
            elif isinstance(weight, DTensor):
                ends.append(root._local_tensor)
                weights.append(weight.redistribute(placements=root._gradients())._local_tensor)
            else:
                raise ArgumentError(f"grad: the gradient of a DTensor is one, not {describe(weight)}")
        parts = [x._local_tensor if isinstance(x, DTensor) else x for x in wanted]
        return tuple(
            distributed(found, x._mesh, x._gradients(), x.shape)
            if isinstance(x, DTensor) and found is not None
            else found
            for found, x in zip(autograd_grad(ends, parts, weights, **settings), wanted, strict=True)
        )

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """`hook(gradient)` gets the gradient as a DTensor, and may return another one."""

        def of_local(gradient: Tensor) -> Tensor | None:
            found = hook(distributed(gradient, self._mesh, self._gradients(), self.shape))
            return found.redistribute(placements=self._gradients())._local_tensor if found is not None else None

        return self._local_tensor.register_hook(of_local)

    def detach(self) -> DTensor:
        return distributed(self._local_tensor.detach(), self._mesh, self._places, self.shape)

    @property
    def data(self) -> DTensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, DTensor) or value.shape != self.shape:
            raise ArgumentError(f"data: a DTensor takes another one of its shape, not {describe(value)}")
        self._local_tensor.data = value.redistribute(self._mesh, self._places)._local_tensor

    @property
    def _own_part(self) -> Tensor:
        """The part of this process, which says of what it is one: for optimisers, norms and checkpoints."""
        local = self._local_tensor
        if any(isinstance(place, Partial) for place in self._places):
            raise ArgumentError(f"{describe(self)} in {self._places} is a sum, and cannot be trained")
        if local.part is None:
            groups = self._mesh.get_all_groups()
            part, sizes, divided = None, tuple(self.shape), []
            every = iter(parts_of(self.shape, self._mesh, self._places))
            for group, place in zip(groups, self._places, strict=True):
                if isinstance(place, Shard):
                    dim, first, count = next(every)
                    part = Part(sizes, dim, ((first, count),), part)
                    sizes = part.own_shape
                    divided.append(group)
            local.part, local.shard_groups = part, tuple(divided)
        return local

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        made = distributed(deepcopy(self._local_tensor, memo), self._mesh, self._places, self.shape)
        set_attribute(made, "is_parameter", self.is_parameter)
        return made

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a DTensor cannot be pickled: its processes are of this run; take full_tensor()")


def _new(name: str) -> Callable[..., Tensor]:
    def make(self: DTensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._beside(getattr(super(DTensor, self), name)(*args, **kwargs))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"As Tensor.{name}: what all processes have."
    return make


for _name in ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"):
    setattr(DTensor, _name, _new(_name))


def distributed(
    local: Tensor, mesh: DeviceMesh, placements: Placements, shape: Sequence[int]
) -> DTensor:  # fmt: skip
    """A DTensor of its parts, which the caller has checked."""
    made = object.__new__(DTensor)
    parts = {"_shape": tuple(shape), "_local_tensor": local, "_mesh": mesh, "_places": placements}
    for name, value in parts.items():
        set_attribute(made, name, value)
    return made


def checked(
    placements: Sequence[Placement] | Placement | None, mesh: DeviceMesh, ndim: int, what: str
) -> Placements:  # fmt: skip
    """One placement for each dim of a mesh, with dims from 0 on. Errors for others."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{what}: device_mesh is a DeviceMesh, got {describe(mesh)}")
    if mesh.get_coordinate() is None:
        raise ArgumentError(f"{what}: this process is not in {mesh!r}")
    given = [Replicate()] * mesh.ndim if placements is None else placements
    given = [given] if isinstance(given, Placement) else list(given)
    if len(given) != mesh.ndim:
        raise ArgumentError(f"{what}: {len(given)} placements for {mesh!r}, expected one for each of its dims")
    found = []
    for placement in given:
        if not isinstance(placement, Placement):
            raise TypeError(f"{what}: a placement is Shard(dim), Replicate() or Partial(), got {describe(placement)}")
        if isinstance(placement, Shard):
            placement = Shard(normalize_dim(placement.dim, ndim, f"{what}: {placement}"))
        found.append(placement)
    return tuple(found)


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A leaf tensor, which all processes have, as a DTensor: the elements are those of rank `src_data_rank` of each dim
    of the mesh; with None each process takes its part of its own. Parameters stay parameters.

    ArgumentError for Partial(), and for a tensor that was computed with gradients.
    """
    if not isinstance(tensor, Tensor) or not (tensor.dense or isinstance(tensor, DTensor)):
        raise TypeError(f"distribute_tensor: takes a dense tensor, not {describe(tensor)}")
    chosen = checked(placements, device_mesh, tensor.ndim, "distribute_tensor")
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != device_mesh or tensor.placements != chosen:
            raise ArgumentError(
                f"distribute_tensor: this tensor is on {tensor.device_mesh!r} as {list(tensor.placements)} already; "
                "use redistribute"
            )
        return tensor
    if any(isinstance(place, Partial) for place in chosen):
        raise ArgumentError("distribute_tensor: takes Shard(dim) and Replicate(); summands are made by from_local")
    if not tensor.is_leaf:
        raise ArgumentError("distribute_tensor: takes a leaf tensor; DTensor.from_local is for what was computed")
    if tensor.dtype.is_quantized:
        raise TypeError(f"distribute_tensor: {describe(tensor)} is in blocks, and is not divided so")
    with no_grad():
        own = tensor.detach().contiguous()
        if src_data_rank is not None:
            own = own.clone()
            for group in device_mesh.get_all_groups():
                if not 0 <= src_data_rank < group.size():
                    raise ArgumentError(f"distribute_tensor: src_data_rank is {src_data_rank}, of {group.size()} ranks")
                if group.size() > 1:
                    broadcast(own, group.ranks[src_data_rank], group)
        for dim, first, count in parts_of(tensor.shape, device_mesh, chosen):
            own = own.narrow(dim, first, count).contiguous()
        own = own.clone() if own._storage is tensor._storage else own
    own.requires_grad_(tensor.requires_grad)
    made = distributed(own, device_mesh, chosen, tensor.shape)
    if tensor.is_parameter:
        own.is_parameter = True
        set_attribute(made, "is_parameter", True)
    return made


def distribute_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Module:  # fmt: skip
    """Makes the parameters and buffers of a module DTensors; returns it. `partition_fn(name, module, mesh)` is called
    for each module inside and may replace parameters by DTensors; all others are replicated. `input_fn(module, inputs,
    mesh)` changes the inputs of forward, `output_fn(module, outputs, mesh)` its outputs.
    """
    if not isinstance(device_mesh, DeviceMesh):
        raise TypeError(f"distribute_module: device_mesh is a DeviceMesh, got {describe(device_mesh)}")
    mesh, made = device_mesh, dict[int, DTensor]()
    for path, each in [*module.named_modules()]:
        if partition_fn is not None:
            partition_fn(path, each, mesh)
        for members in (each._parameters, each._buffers):
            for name, value in list(members.items()):
                if value is None or isinstance(value, DTensor):
                    continue
                if id(value) not in made:  # a shared one stays so
                    made[id(value)] = distribute_tensor(value, mesh, None)
                members[name] = made[id(value)]
                object.__setattr__(each, name, members[name])
    if input_fn is not None:
        module.register_forward_pre_hook(lambda owner, inputs: input_fn(owner, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda owner, inputs, outputs: output_fn(owner, outputs, mesh))
    return module


# -- tensors of constants and of random numbers


def _sizes(name: str, size: tuple[Any, ...]) -> Shape:
    found = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if not all(isinstance(n, int) and n >= 0 for n in found):
        raise ArgumentError(f"{name}: the size is {found!r:.80}, expected integers from 0 on")
    return found


def _made(
    name: str, create: Callable[..., Tensor], size: tuple[Any, ...], mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None, requires_grad: bool, settings: dict[str, Any], random: bool = False,
) -> DTensor:  # fmt: skip
    sizes = _sizes(name, size)
    if mesh is None:
        raise TypeError(f"{name}: needs a device_mesh")
    chosen = checked(placements, mesh, len(sizes), name)
    if any(isinstance(place, Partial) for place in chosen):
        raise ArgumentError(f"{name}: makes Shard(dim) and Replicate(), not Partial()")
    device = mesh.device_type if mesh.device_type != "cpu" else None
    if random:  # the whole, as one process would draw it, so that all agree
        whole = create(*sizes, device=device, **settings)
        return distribute_tensor(whole, mesh, chosen).requires_grad_(requires_grad)
    local = create(*local_shape(sizes, mesh, chosen), device=device, **settings).requires_grad_(requires_grad)
    return distributed(local, mesh, chosen, sizes)


def _maker(name: str, random: bool = False) -> Callable[..., DTensor]:
    def make(
        *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
        device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
    ) -> DTensor:  # fmt: skip
        return _made(
            name, getattr(ops, name), size, device_mesh, placements, requires_grad, {"dtype": dtype}, random
        )  # fmt: skip

    make.__name__ = make.__qualname__ = name
    of = "random numbers, the same as in one process with the seed of the first" if random else "such elements"
    make.__doc__ = f"As pyapp.{name}, as a DTensor on `device_mesh` in `placements` (None: replicated), with {of}."
    return make


empty, ones, zeros = map(_maker, ("empty", "ones", "zeros"))
rand, randn = _maker("rand", True), _maker("randn", True)


def full(
    size: Sequence[int], fill_value: Any, *, requires_grad: bool = False, dtype: Any = None, layout: Any = None,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:  # fmt: skip
    """As pyapp.full, as a DTensor on `device_mesh` in `placements` (None: replicated)."""

    def create(*sizes: int, **settings: Any) -> Tensor:
        return ops.full(sizes, fill_value, **settings)

    return _made("full", create, (tuple(size),), device_mesh, placements, requires_grad, {"dtype": dtype})
