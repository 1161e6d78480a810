"""torch.distributed.tensor.parallel: modules of one's own, whose layers several processes divide by a plan.

Models of this package have a plan of their own (nn.tensor_parallel.parallelize). Layers take plain tensors (the part of
this process where a layout is Shard, the whole where it is Replicate) or DTensors, which say their layout themselves.
They give plain tensors, with `use_local_output=False` DTensors; where its default is None, what they were given.
Parameters are plain parts, which know of what (`Tensor.part`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.processes.collectives import broadcast
from ...engine.processes.differentiable import share_of, sum_of_gradients, summed_gradient
from ...engine.processes.group import ProcessGroup, group_or_world
from ...engine.processes.mesh import DeviceMesh
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ...nn.layers.embedding import Embedding, EmbeddingBag
from ...nn.layers.linear import Linear
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...nn.part import Part
from .dtensor import DTensor, distributed, implicit_replication
from .placement_types import Partial, Placement, Replicate, Shard
from .redistribution import converted, whole_shape

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module",
]  # fmt: skip

Layouts = Placement | Sequence[Placement | None] | None


def _given(x: Any, layout: Placement, group: ProcessGroup) -> tuple[Any, Placement]:
    """What this process has of a tensor, and its layout: what a DTensor says, else `layout`."""
    if not isinstance(x, DTensor):
        return x, layout
    if x.device_mesh.get_all_groups() != [group]:
        raise ArgumentError(f"a DTensor on {x.device_mesh!r} meets a layer that other processes divide")
    return x.to_local(), x.placements[0]


def _brought(x: Any, layout: Placement, wanted: Placement, group: ProcessGroup) -> Tensor:
    """What this process has of a tensor in another layout."""
    local, own = _given(x, layout, group)
    return converted(local, own, wanted, group)


def _handed(x: Tensor, layout: Placement, mesh: DeviceMesh, local: bool) -> Tensor:
    """A result: plain, or a DTensor in a layout."""
    if local:
        return x
    layout = Shard(layout.dim % x.ndim) if isinstance(layout, Shard) else layout
    return distributed(x, mesh, (layout,), whole_shape(x, layout, mesh.get_group()))


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, targets of a cross_entropy of a DTensor may be plain tensors that all processes have. Logits whose
    classes the processes divide are never gathered for it, here and elsewhere.
    """
    with implicit_replication():
        yield


class ParallelStyle(ABC):
    """How the processes divide a module."""

    @abstractmethod
    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        """Divides the module, whose path is `name`."""


def _placement(name: str, value: Any, default: Placement) -> Placement:
    if value is None:
        return default
    if not isinstance(value, Placement):
        raise TypeError(f"{name} is a Placement, such as Shard(1) or Replicate(), got {describe(value)}")
    return value


class _Divides(ParallelStyle):
    """A layer whose parameters are divided."""

    dims: Mapping[type[Module], int] = {}  # along which dim of the weight

    def __init__(
        self, input_layouts: Any, output_layouts: Any, defaults: tuple[Placement, Placement], local: bool
    ) -> None:  # fmt: skip
        name, self.local = type(self).__name__, local
        self.input_layouts = _placement(f"{name}: input_layouts", input_layouts, defaults[0])
        self.output_layouts = _placement(f"{name}: output_layouts", output_layouts, defaults[1])

    def kind_of(self, name: str, module: Module) -> type[Module]:
        kind = next((kind for kind in self.dims if isinstance(module, kind)), None)
        if kind is None or isinstance(module, EmbeddingBag):
            known = " and ".join(kind.__name__ for kind in self.dims)
            raise ArgumentError(f"{type(self).__name__} divides {known}, but {name} is a {type(module).__name__}")
        for setting in ("max_norm", "scale_grad_by_freq"):  # which need whole rows, or the other ranks' ids
            if getattr(module, setting, None):
                raise ArgumentError(f"{type(self).__name__}: {name} is an Embedding with {setting}, and is not divided")
        return kind


def _divide(module: Module, name: str, dim: int, group: ProcessGroup) -> None:
    """Leaves this rank its part of a parameter of a module."""
    parameter = module._parameters[name]
    if parameter is None:
        return
    if parameter.part is not None:
        raise ArgumentError(f"the parameter {name} of this {type(module).__name__} is divided already")
    if parameter.dtype.is_quantized:
        raise ArgumentError(f"the parameter {name}, {describe(parameter)}, is in blocks, and not trained")
    part = Part(tuple(parameter.shape), dim, (share_of(parameter.shape[dim], group),))
    with no_grad():
        own = Parameter(part.of(parameter.detach()), requires_grad=parameter.requires_grad)
    own.shard_groups, own.part = (group,), part
    setattr(module, name, own)


def _first(name: str, args: tuple[Any, ...]) -> Any:
    if not args:
        raise ArgumentError(f"{name} is divided among processes, and takes its input by position, not by name")
    return args[0]


def _sum_gradient(parameter: Tensor | None, group: ProcessGroup) -> None:
    """The gradient of a parameter of which each rank computes a part."""
    if parameter is not None and parameter.requires_grad:
        parameter.register_hook(lambda gradient: summed_gradient(gradient, group))


class ColwiseParallel(_Divides):
    """A Linear of which each process has some outputs, or an Embedding of which each has some features.

    input_layouts: of what it is given (Replicate()); output_layouts: of what it gives (Shard(-1)).
    """

    dims = {Linear: 0, Embedding: 1}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(input_layouts, output_layouts, (Replicate(), Shard(-1)), use_local_output)

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        kind, group = self.kind_of(name, module), mesh.get_group()
        _divide(module, "weight", self.dims[kind], group)
        if kind is Linear:
            _divide(module, "bias", 0, group)

        def enter(_: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            x = _brought(_first(name, args), self.input_layouts, Replicate(), group)
            return (sum_of_gradients(x, group) if x.requires_grad else x, *args[1:])

        def leave(_: Module, args: Any, y: Tensor) -> Tensor:
            return _handed(converted(y, Shard(-1), self.output_layouts, group), self.output_layouts, mesh, self.local)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)


class RowwiseParallel(_Divides):
    """A Linear of which each process has some inputs, or an Embedding of which each has some rows: the whole is a sum.

    input_layouts: of what it is given (Shard(-1); Replicate() for an Embedding); output_layouts: of what it gives
    (Replicate()).
    """

    dims = {Linear: 1, Embedding: 0}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(input_layouts, output_layouts, (Shard(-1), Replicate()), use_local_output)

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        kind, group = self.kind_of(name, module), mesh.get_group()
        rows = module.weight.shape[0]
        _divide(module, "weight", self.dims[kind], group)
        if kind is Embedding:
            self._of_rows(module, rows, mesh)
            return
        bias, divided = module.bias, isinstance(self.output_layouts, Shard)
        if divided:  # each adds it to its part
            _sum_gradient(bias, group)

        def enter(_: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            x = _first(name, args)
            module._parameters["bias"] = None  # type: ignore[assignment]  # it is added once, after the sum
            return (_brought(x, self.input_layouts, Shard(-1), group), *args[1:])

        def leave(_: Module, args: Any, y: Tensor | None) -> Tensor | None:
            module._parameters["bias"] = bias
            if y is None:  # forward has failed
                return None
            y = converted(y, Partial(), self.output_layouts, group)
            y = y if bias is None else y + self._own_bias(bias, y.ndim, group)
            return _handed(y, self.output_layouts, mesh, self.local)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)

    def _own_bias(self, bias: Tensor, ndim: int, group: ProcessGroup) -> Tensor:
        """The bias of what the layer gives: its part where the features are divided."""
        layout = self.output_layouts
        if isinstance(layout, Shard) and layout.dim % ndim == ndim - 1:
            return bias.narrow(0, *share_of(bias.shape[0], group))
        return bias

    def _of_rows(self, module: Module, rows: int, mesh: DeviceMesh) -> None:
        group = mesh.get_group()
        first, count = share_of(rows, group)
        padding = module.padding_idx
        module.padding_idx = padding - first if padding is not None and first <= padding < first + count else None
        given = Replicate() if self.input_layouts == Shard(-1) else self.input_layouts
        look_up = module.forward

        def forward(input: Tensor) -> Tensor:
            """ids (...) → rows (..., dim): those of this process, and zeros, summed over the processes."""
            own = _brought(input, given, Replicate(), group) - first
            here = (own >= 0).logical_and(own < count)  # (...)
            if count:
                found = look_up(ops.where(here, own, 0).to(input.dtype)) * here.unsqueeze(-1)
            else:  # more processes than rows
                found = module.weight.new_zeros(*own.shape, module.embedding_dim) + module.weight.sum()
            y = converted(found, Partial(), self.output_layouts, group)
            return _handed(y, self.output_layouts, mesh, self.local)

        object.__setattr__(module, "forward", forward)


class SequenceParallel(ParallelStyle):
    """A module that computes token by token (LayerNorm, RMSNorm, Dropout), of a text whose tokens the processes divide
    along `sequence_dim`. Each has the whole parameters. Korthikanti et al. 2022, arXiv 2205.05198.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool | None = None) -> None:
        self.sequence_dim, self.local = sequence_dim, use_local_output

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        group, tokens = mesh.get_group(), Shard(self.sequence_dim)
        for parameter in module.parameters():
            _sum_gradient(parameter, group)
        came: list[bool] = []  # whether the inputs of the calls that are under way are DTensors

        def enter(_: Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            came.append(bool(args) and isinstance(args[0], DTensor))
            return (_brought(args[0], tokens, tokens, group), *args[1:]) if came[-1] else None

        def leave(_: Module, args: Any, y: Any) -> Any:
            local = not came.pop() if self.local is None else self.local
            return _handed(y, tokens, mesh, local) if isinstance(y, Tensor) else None

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)


def _several(layouts: Layouts) -> tuple[Placement | None, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _laid(x: Tensor, layout: Placement, wanted: Placement, mesh: DeviceMesh, local: bool | None) -> Tensor:
    """A tensor in the wanted layout; `local` None: plain as it came, or a DTensor."""
    found = _brought(x, layout, wanted, mesh.get_group())
    return _handed(found, wanted, mesh, not isinstance(x, DTensor) if local is None else local)


def _each(
    values: Sequence[Any], given: Layouts, wanted: Layouts, mesh: DeviceMesh, what: str, local: bool | None
) -> list[Any]:  # fmt: skip
    """The values in the wanted layouts; those without one as they are."""
    before, after = _several(given), _several(wanted)
    if len(before) != len(after) or len(before) > len(values):
        raise ArgumentError(
            f"{what}: {len(values)} values, {len(before)} layouts and {len(after)} wanted ones, expected as many"
        )
    found = list(values)
    for i, (one, other) in enumerate(zip(before, after, strict=True)):
        if one is not None and other is not None and isinstance(found[i], Tensor):
            found[i] = _laid(found[i], one, other, mesh, local)
    return found


class PrepareModuleInput(ParallelStyle):
    """Brings the inputs of a module from `input_layouts` into `desired_input_layouts`; None: as they are."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None, use_local_output: bool | None = None,
    ) -> None:  # fmt: skip
        self.given, self.wanted, self.local = input_layouts, desired_input_layouts, use_local_output
        self.named, self.wanted_named = dict(input_kwarg_layouts or {}), dict(desired_input_kwarg_layouts or {})
        if self.named.keys() != self.wanted_named.keys():
            raise ArgumentError("PrepareModuleInput: give each named input a layout, and a wanted one")

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        def enter(_: Module, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            values = _each(args, self.given, self.wanted, mesh, f"PrepareModuleInput of {name}", self.local)
            changed = dict(named)
            for key, layout in self.named.items():
                if isinstance(named.get(key), Tensor):
                    changed[key] = _laid(named[key], layout, self.wanted_named[key], mesh, self.local)
            return tuple(values), changed

        module.register_forward_pre_hook(enter, with_kwargs=True)


class PrepareModuleOutput(ParallelStyle):
    """Brings the outputs of a module from `output_layouts` into `desired_output_layouts`; None: as they are."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.given, self.wanted, self.local = output_layouts, desired_output_layouts, use_local_output

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        def leave(_: Module, args: Any, output: Any) -> Any:
            one = isinstance(output, Tensor)
            what = f"PrepareModuleOutput of {name}"
            found = _each([output] if one else output, self.given, self.wanted, mesh, what, self.local)
            return found[0] if one else type(output)(found)

        module.register_forward_hook(leave)


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput."""

    def __init__(
        self, *, input_layouts: Layouts = None, desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None, use_local_input: bool | None = None,
        output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True,
    ) -> None:  # fmt: skip
        self._parts = (
            PrepareModuleInput(
                input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
                input_kwarg_layouts=input_kwarg_layouts, desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            ),
            PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts),
        )  # fmt: skip

    def apply(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for part in self._parts:
            part.apply(name, module, mesh)


def parallelize_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None, *, src_data_rank: int | None = 0,
) -> Module:  # fmt: skip
    """Divides the layers of a module, which all processes have, by a plan; returns the module. Call it before the
    optimiser is made:

        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parallelize_module(model, mesh["tp"], {"w1": ColwiseParallel(), "w2": RowwiseParallel()})

    The plan has a ParallelStyle for each path of a module; `layers.*.w1` names several. The parameters of these layers
    begin as rank `src_data_rank` of the mesh has them; with None, as each rank has its own.

    ArgumentError for a path that names no module, a layer that a style does not divide, or one that shares a parameter.
    """
    if device_mesh is not None and not isinstance(device_mesh, DeviceMesh):
        raise TypeError(f"parallelize_module: device_mesh is a DeviceMesh, got {describe(device_mesh)}")
    mesh = DeviceMesh.from_group(group_or_world(None), "cpu") if device_mesh is None else device_mesh
    group = mesh.get_group()
    plan: Mapping[str, Any] = {"": parallelize_plan} if isinstance(parallelize_plan, ParallelStyle) else (
        parallelize_plan or {}
    )  # fmt: skip
    paths = [name for name, _ in module.named_modules()]
    chosen: list[tuple[str, ParallelStyle]] = []
    for path, style in plan.items():
        if not isinstance(style, ParallelStyle):
            raise TypeError(f"parallelize_module: the plan of {path!r} is a ParallelStyle, got {describe(style)}")
        if not isinstance(path, str):
            raise TypeError(f"parallelize_module: the plan has paths such as 'layers.*.w1', got {describe(path)}")
        found = [name for name in paths if _matches(name, path)]
        if not found:
            raise ArgumentError(f"parallelize_module: {path!r} names no module of {type(module).__name__}")
        chosen += [(name, style) for name in found]
    _check_not_shared(module, chosen)
    if src_data_rank is not None and not 0 <= src_data_rank < group.size():
        raise ArgumentError(f"parallelize_module: src_data_rank is {src_data_rank}, of {group.size()} ranks")
    if src_data_rank is not None and group.size() > 1:
        for name, _ in chosen:
            for parameter in module.get_submodule(name).parameters():
                if parameter.part is None:
                    broadcast(parameter.detach(), group.ranks[src_data_rank], group)
    for name, style in chosen:
        style.apply(name or type(module).__name__, module.get_submodule(name), mesh)
    return module


def _check_not_shared(module: Module, chosen: Sequence[tuple[str, ParallelStyle]]) -> None:
    """ArgumentError for a layer to divide whose parameter another layer has too: each would get a part of its own."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for name, style in chosen:
        if isinstance(style, _Divides):
            for parameter in module.get_submodule(name).parameters():
                if len(shared := names[id(parameter)]) > 1:
                    raise ArgumentError(f"parallelize_module: {' and '.join(shared)} are one parameter, not divided")


def _matches(name: str, path: str) -> bool:
    """Whether a pattern, whose `*` stands for a part of one name between dots, names a module."""
    names, patterns = name.split("."), path.split(".")
    return len(names) == len(patterns) and all(map(fnmatch, names, patterns))
