"""Parameters in several processes: each keeps some rows of every parameter, and of its gradient and the optimiser's
state (ZeRO stage 3: Rajbhandari et al. 2020, arXiv 1910.02054). By the names of torch.distributed.fsdp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from typing import Any

from pyapp.dataclass import dataclass

from ..engine import Tensor, no_grad
from ..engine.autograd_function import Function
from ..engine.dtype import DType, as_dtype
from ..engine.launch import capturing
from ..engine.ops import cat, empty, zeros
from ..engine.ops.view import as_strided
from ..engine.processes.collectives import all_gather_into_tensor, all_reduce, reduce_scatter_tensor
from ..engine.processes.communicator import ReduceOp
from ..engine.processes.group import ProcessGroup, group_or_world
from ..engine.processes.mesh import DeviceMesh
from ..engine.saved_tensors import saved_tensors_hooks
from ..engine.thread_local import ThreadLocal
from ..engine.user_errors import describe
from ..errors import ArgumentError
from .checkpointing import Recomputed, blocks_of
from .distributed_data_parallel import check_same_parameters
from .layers.joined import forget_joined
from .module import Module
from .part import Part, whole_of
from .state import IncompatibleKeys

__all__ = [
    "MixedPrecisionPolicy", "full_state_dict", "fully_shard", "load_full_state_dict", "register_fsdp_forward_method",
]  # fmt: skip

_WHOLE: dict[int, tuple[_Unit, int]] = {}  # by the id of a storage: whose whole parameter lies in it now


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The types in which fully_shard's modules compute; the parameters stay as they are, for the optimiser.

    param_dtype: that of the whole parameters, in forward and its gradient, and of what is sent to gather them; None:
    their own. reduce_dtype: in which gradients are averaged; None: the type in which they are computed. output_dtype:
    of the module's floating-point outputs; None: as they come. cast_forward_inputs: floating-point inputs become
    param_dtype.
    """

    param_dtype: DType | str | None = None
    reduce_dtype: DType | str | None = None
    output_dtype: DType | str | None = None
    cast_forward_inputs: bool = True


def _cast(value: Any, kind: DType) -> Any:
    """A value whose floating-point tensors have this type."""
    if isinstance(value, Tensor):
        return value.to(kind) if value.dtype.is_floating_point else value
    if isinstance(value, list | tuple):
        items = [_cast(x, kind) for x in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return {key: _cast(x, kind) for key, x in value.items()} if isinstance(value, dict) else value


class _Place:
    """A parameter of a unit, and where it is found: `rows` of each process, of a whole of `shape`."""

    def __init__(self, parameter: Tensor, name: str, ranks: int) -> None:
        self.parameter, self.name = parameter, name
        self.outer: Part | None = parameter.part  # of what nn.tensor_parallel has divided before
        self.outer_groups = parameter.shard_groups
        self.owners: list[tuple[Module, str]] = []
        self.shape = tuple(parameter.shape)
        self.rest = self.shape[1:]
        self.count = self.shape[0] if self.shape else 1  # rows of the whole; a number is one
        self.rows = -(-self.count // ranks)
        self.size = self.rows * prod(self.rest)  # elements of a full part
        self.met = False  # whether a gradient of this process has met it, since that was asked

    def show(self, value: Tensor) -> None:
        """Gives the parameter's owners the whole, or its rows again."""
        for owner, name in self.owners:
            object.__setattr__(owner, name, value)
            owner._parameters[name] = value

    def part(self, rank: int) -> Part:
        """What a rank has."""
        first = min(rank * self.rows, self.count)
        return Part(self.shape, 0, ((first, min(self.rows, self.count - first)),), self.outer, gathered=True)


class _Ahead:
    """The whole parameters of a unit, which are gathered while something else is computed: by calls that are waited for
    later, in another stream of a device that has several.
    """

    def __init__(self, unit: _Unit) -> None:
        self._unit = unit
        self._backend = unit.places[0].parameter.device.backend
        self._wholes: list[Tensor] | None = None
        if unit.stream is None:
            unit.stream = self._backend.new_stream()
        if unit.stream is not None:  # after what has written the rows, and what has read the memory that is free now
            self._backend.wait_for_streams(unit.stream.number, [self._backend.chosen])
        with self._beside():
            self._calls = unit.begin_gather(True)
            if all(work.is_completed() for _, _, work in self._calls):  # on a card: in the order of the stream
                self._wholes = unit.end_gather(self._calls)

    def take(self) -> list[Tensor]:
        if self._wholes is None:
            with self._beside():
                self._wholes = self._unit.end_gather(self._calls)
        self.go_first()
        return self._wholes

    def go_first(self) -> None:
        """What is launched from here on waits for the calls, so that a group's calls have one order on every rank."""
        if self._unit.stream is not None:
            self._backend.wait_for_streams(self._backend.stream, [self._unit.stream])

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """What is launched here goes to the unit's stream."""
        backend, stream = self._backend, self._unit.stream
        with no_grad():
            if stream is None:
                yield
                return
            before = backend.chosen
            backend.chosen = stream
            try:
                yield
            finally:
                backend.chosen = before


class _Pass:
    """A forward pass of the outermost of several units. `known`: the units that the pass before has met, in their
    order; as long as this one meets the same, the next of them is gathered ahead.
    """

    def __init__(self, known: list[_Unit]) -> None:
        self._known = known
        self.seen: list[_Unit] = []
        self._next: tuple[_Unit, _Ahead] | None = None

    def whole(self, unit: _Unit) -> list[Tensor]:
        """The parameters of the unit whose turn it is."""
        begun, self._next = self._next, None
        wholes = None if begun is None else begun[1].take()
        if begun is None or begun[0] is not unit or wholes is None:
            wholes = unit.gather()
        self.seen.append(unit)
        turn = len(self.seen)
        following = self._known[turn] if turn < len(self._known) else None
        if following is not None and following.places and not capturing() and all(map(_same, self.seen, self._known)):
            self._next = following, _Ahead(following)
        return wholes

    def end(self) -> None:
        if self._next is not None:  # a pass that has met less than the one before
            self._next[1].take()
            self._next = None
        first, *others = self.seen
        # The gradient meets them in the other direction. The outermost keeps its parameters from its end to its
        # beginning.
        first.earlier = others[-1] if others else None
        for i, unit in enumerate(others):
            unit.earlier = others[i - 1] if i else None


def _same(a: object, b: object) -> bool:
    return a is b


class _Thread(ThreadLocal):
    """The forward pass of units that this thread is in."""

    forward: _Pass | None = None


_THREAD = _Thread()


class _Unit:
    """The parameters of a module that are gathered together, before its forward pass and again in its gradient."""

    def __init__(
        self, module: Module, group: ProcessGroup, replicas: ProcessGroup | None, again: bool,
        policy: MixedPrecisionPolicy, ignored: set[int],
    ) -> None:  # fmt: skip
        self.group, self.replicas, self.again = group, replicas, again
        self.computes, self.reduces, self.gives = (
            None if kind is None else as_dtype(kind)
            for kind in (policy.param_dtype, policy.reduce_dtype, policy.output_dtype)
        )
        for kind in (self.computes, self.reduces, self.gives):
            if kind is not None and not kind.is_floating_point:
                raise ArgumentError(f"fully_shard: MixedPrecisionPolicy takes types of floating point, not {kind.name}")
        self.casts = self.computes if policy.cast_forward_inputs else None
        self.places = _places(module, group.size(), ignored)
        self.stream: Any = None  # in which it is gathered ahead; None: the device has no other
        self.earlier: _Unit | None = None  # whose gradient comes after this one's
        self._inner: list[_Unit] = []  # in the last pass in which this one was the outermost: which units, in order
        self._kept: list[Tensor] | None = None  # the whole parameters, for the gradient
        self._ahead: _Ahead | None = None  # of what will be kept
        self._entered: list[Any] = []
        self._are_whole = False  # within whole_parameters
        for every in (group, *(() if replicas is None else (replicas,))):
            check_same_parameters("fully_shard", ((place.name, place.parameter) for place in self.places), every)
        rank = group.rank()
        with no_grad():
            for place in self.places:
                part = place.part(rank)
                place.parameter.data = replace(part, outer=None).of(place.parameter.detach())
                place.parameter.shard_groups, place.parameter.part = (*place.outer_groups, group), part
        module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._after, always_call=True)

    # ---- the whole

    def gather(self) -> list[Tensor]:
        """The whole parameters from every rank's rows, as the module computes with them; one call for each dtype."""
        return self.end_gather(self.begin_gather(False))

    def stored(self) -> list[Tensor]:
        """The same in the parameters' own types, for a state."""
        return self.end_gather(self.begin_gather(False, computes=False))

    def begin_gather(self, async_op: bool, computes: bool = True) -> list[tuple[list[int], Tensor, Any]]:
        """The calls: the numbers of the parameters of each, where their rows come, and what to wait for."""
        calls = []
        for chosen in self._by_dtype():
            own = cat([_padded(self.places[i]).reshape(-1) for i in chosen])  # (elements of a rank,)
            own = _cast(own, self.computes) if computes and self.computes is not None else own
            every = empty(self.group.size(), own.numel(), dtype=own.dtype, device=own.device)  # (ranks, of a rank)
            calls.append((chosen, every, all_gather_into_tensor(every, own, self.group, async_op)))
        return calls

    @contextmanager
    def opened(self, module: Module, wholes: Sequence[Tensor]) -> Iterator[None]:
        """Inside, the unit's module has these whole parameters, and gathers none."""
        rows = [place.parameter.detach() for place in self.places]
        parts = [place.parameter.part for place in self.places]
        for place, whole in zip(self.places, wholes, strict=True):
            place.parameter.data = whole
            place.parameter.part, place.parameter.shard_groups = place.outer, place.outer_groups
        self._are_whole = True
        try:
            yield
        finally:
            self._are_whole = False
            for place, own, part in zip(self.places, rows, parts, strict=True):
                place.parameter.data = own
                place.parameter.part, place.parameter.shard_groups = part, (*place.outer_groups, self.group)
            for _, own_module in _own_modules(module):
                forget_joined(own_module)

    def end_gather(self, calls: list[tuple[list[int], Tensor, Any]]) -> list[Tensor]:
        found: list[Tensor | None] = [None] * len(self.places)
        size = self.group.size()
        for chosen, every, work in calls:
            if work is not None:
                work.wait()
            at = 0
            for i in chosen:
                place = self.places[i]
                rows = every[:, at : at + place.size].reshape(size * place.rows, *place.rest)
                found[i] = rows[: place.count].reshape(place.shape).clone()
                at += place.size
        return [x for x in found if x is not None]

    def scatter(self, gradients: Sequence[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
        """This rank's rows of the mean gradients of all ranks."""
        found: list[Tensor | None] = [None] * len(gradients)
        size = self.group.size()
        if self.earlier is not None and self.earlier._ahead is not None:
            self.earlier._ahead.go_first()
        for every in self._by_dtype():
            chosen = [i for i in every if wanted[i]]
            if not chosen:
                continue
            like = self.places[chosen[0]].parameter
            total = sum(self.places[i].size for i in chosen)
            kind = self.reduces or self.computes if like.dtype.is_floating_point else None
            kind = kind or like.dtype
            whole = zeros(size, total, dtype=kind, device=like.device)  # (ranks, elements of a rank)
            at = 0
            for i in chosen:
                place, gradient = self.places[i], gradients[i]
                if gradient is not None:
                    place.met = True
                    rows = gradient.detach().reshape(place.count, *place.rest)
                    full = cat([rows, rows.new_zeros(size * place.rows - place.count, *place.rest)])
                    whole[:, at : at + place.size].copy_(full.reshape(size, place.size))
                at += place.size
            own = empty(total, dtype=kind, device=like.device)
            reduce_scatter_tensor(own, whole, ReduceOp.AVG, self.group)
            if self.replicas is not None:
                all_reduce(own, ReduceOp.AVG, self.replicas)
            own = own.to(like.dtype)
            at = 0
            for i in chosen:
                place = self.places[i]
                count = place.parameter.shape[0]
                rows = own[at : at + place.size].reshape(place.rows, *place.rest)
                found[i] = rows[:count].clone().reshape(place.parameter.shape)
                at += place.size
        return found

    def _by_dtype(self) -> list[list[int]]:
        """The numbers of the parameters of each dtype and device."""
        groups: dict[Any, list[int]] = {}
        for i, place in enumerate(self.places):
            groups.setdefault((place.parameter.dtype, place.parameter.device), []).append(i)
        return list(groups.values())

    # ---- around forward

    def _before(self, module: Module, args: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if isinstance(vars(module).get("forward"), Recomputed) or self._are_whole:
            return None  # it gathers itself, each time that it computes; or nothing is to be gathered
        return self._enter(args, named)

    def _enter(self, args: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if self._entered:  # a method of the module calls it
            self._entered.append(None)
            return None if self.casts is None else (_cast(args, self.casts), _cast(named, self.casts))
        self.forget()
        outermost = _THREAD.forward is None
        if outermost:
            _THREAD.forward = _Pass(self._inner)
        parameters = [place.parameter for place in self.places]
        try:
            wholes = _Gather.apply(self, *parameters)
        except BaseException:
            if outermost:
                _THREAD.forward = None
            raise
        wholes = wholes if isinstance(wholes, tuple) else (wholes,)
        context = saved_tensors_hooks(_pack, _unpack) if self.again else None
        for i, (place, whole) in enumerate(zip(self.places, wholes, strict=True)):
            place.show(whole)
            if context is not None:
                _WHOLE[id(whole._storage)] = self, i
        storages = [whole._storage for whole in wholes]  # joined.py may give a tensor another one
        if context is not None:
            context.__enter__()
        self._entered.append((context, storages, outermost))
        return None if self.casts is None else (_cast(args, self.casts), _cast(named, self.casts))

    def _after(self, module: Module, args: Any, output: Any) -> Any:
        if not self._entered:  # gathering failed
            return None
        entered = self._entered.pop()
        if entered is None:
            return None if self.gives is None or output is None else _cast(output, self.gives)
        context, storages, outermost = entered
        if context is not None:
            context.__exit__(None, None, None)
        for place, storage in zip(self.places, storages, strict=True):
            _WHOLE.pop(id(storage), None)
            place.show(place.parameter)

        if outermost and (forward := _THREAD.forward) is not None:
            _THREAD.forward = None
            forward.end()
            self._inner = forward.seen
        return None if self.gives is None or output is None else _cast(output, self.gives)

    def call(self, module: Module, method: Callable[..., Any], args: Any, named: dict[str, Any]) -> Any:
        """What a method of the module returns, with whole parameters as in forward."""
        if self._are_whole:
            return method(*args, **named)
        output = None
        try:
            args, named = self._enter(args, named) or (args, named)
            output = method(*args, **named)
        finally:
            changed = self._after(module, args, output)
        return output if changed is None else changed

    # ---- in the gradient

    def whole_again(self, i: int) -> Tensor:
        if self._kept is None:
            ahead, self._ahead = self._ahead, None
            with no_grad():
                self._kept = self.gather() if ahead is None else ahead.take()
            other = self.earlier
            if other is not None and other.again and other._kept is None and other._ahead is None and not capturing():
                other._ahead = _Ahead(other)
        return self._kept[i]

    def forget(self) -> None:
        if self._ahead is not None:  # nothing has asked for it
            self._ahead.take()
        self._kept = self._ahead = None

    def whole(self) -> list[Tensor]:
        """The whole parameters for forward: those that the pass has gathered ahead, where it has."""
        return self.gather() if _THREAD.forward is None else _THREAD.forward.whole(self)


class _Gather(Function):
    """Rows of each rank → whole parameters; the gradient is the mean over the ranks, in rows again."""

    @staticmethod
    def forward(ctx: Any, unit: _Unit, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.unit = unit
        ctx.set_materialize_grads(False)
        return tuple(unit.whole())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        ctx.unit.forget()
        with no_grad():
            return (None, *ctx.unit.scatter(gradients, ctx.needs_input_grad[1:]))


def _pack(x: Tensor) -> Any:
    """What is saved of a whole parameter: which one, and which view of it."""
    known = _WHOLE.get(id(x._storage))
    return x if known is None else (*known, tuple(x.shape), tuple(x.strides), x.offset)


def _unpack(kept: Any) -> Tensor:
    if isinstance(kept, Tensor):
        return kept
    unit, i, shape, strides, offset = kept
    return as_strided(unit.whole_again(i), shape, strides, offset)


def _padded(place: _Place) -> Tensor:
    """A rank's rows, and zeros for those that it has fewer than others."""
    rows = place.parameter.detach()
    missing = place.rows - rows.shape[0]
    return cat([rows, rows.new_zeros(missing, *place.rest)]) if missing else rows


def _places(module: Module, ranks: int, ignored: set[int]) -> list[_Place]:
    """The parameters of a module that no unit inside it has, but for the ignored ones."""
    found: dict[int, _Place] = {}
    for path, owner in _own_modules(module):
        for name, parameter in owner._parameters.items():
            if id(parameter) in ignored:
                continue
            full_name = f"{path}.{name}" if path else name
            if parameter.part is not None and parameter.part.gathered:
                raise ArgumentError(
                    f"fully_shard: {full_name} is a part of another module that is sharded already: shard the smallest "
                    "module that has both"
                )
            if parameter.dtype.is_quantized:
                raise ArgumentError(f"fully_shard: {full_name}, {describe(parameter)}, is in blocks, and not trained")
            place = found.setdefault(id(parameter), _Place(parameter, full_name, ranks))
            place.owners.append((owner, name))
    return list(found.values())


def _own_modules(module: Module, path: str = "") -> Iterator[tuple[str, Module]]:
    """The module and those inside it, by their paths, but for those that are units."""
    yield path, module
    for name, child in module._modules.items():
        if child is not None and "_sharded_unit" not in vars(child):
            yield from _own_modules(child, f"{path}.{name}" if path else name)


def fully_shard(
    module: Module, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | None = None,
    mp_policy: MixedPrecisionPolicy | None = None, ignored_params: Iterable[Tensor] | None = None,
    process_group: ProcessGroup | None = None,
) -> Module:  # fmt: skip
    """Divides the parameters of a module among the processes, by their first dim; returns the module. Call it for each
    block of a model, then for the whole, before the optimiser is made:

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)

    Each call of the module gathers what it needs; its gradients are averaged over the processes, of which each keeps
    its rows. So optimisers that compute element by element (Adam, SGD …) work as they are; Muon, Adafactor and LBFGS,
    which need whole matrices, refuse. `nn.utils.clip_grad_norm_` sums over the processes. With `reshard_after_forward`
    the whole parameters are freed after forward, and gathered once more for the gradient. From the second pass on, the
    parameters of the block that comes next are gathered while one computes, if the whole model is sharded too: on cards
    in another stream. `parameters()` and
    `state_dict()` have this process's rows; `full_state_dict` has the whole.

    `mesh` or `process_group` says among which processes; by default all. A mesh of two dims divides along the second;
    along the first it has replicas, each with its part of the batch. `mp_policy`: the types in which the module
    computes, such as MixedPrecisionPolicy(param_dtype="bfloat16", reduce_dtype="float32"). Every process keeps the
    whole of `ignored_params`, whose gradients are its own.

    A model that nn.tensor_parallel.parallelize(…, training=True) or parallelize_module has divided is sharded along
    the other dim of a mesh: `fully_shard(model, mesh=mesh["dp"])`.

    All processes make the same calls. ArgumentError where they have different parameters; where a parameter is shared
    with a module that is divided already; for weights in blocks.
    """
    if not isinstance(module, Module):
        raise TypeError(f"fully_shard: takes a Module, not {describe(module)}")
    if "_sharded_unit" in vars(module):
        raise ArgumentError(f"fully_shard: this {type(module).__name__} is sharded already")
    if mesh is not None and (not isinstance(mesh, DeviceMesh) or mesh.ndim > 2 or process_group is not None):
        raise ArgumentError(f"fully_shard: takes a mesh of one or two dims, or a process_group, not {mesh!r:.100}")
    group = group_or_world(process_group) if mesh is None else mesh.get_all_groups()[-1]
    replicas = mesh.get_group(0) if mesh is not None and mesh.ndim == 2 else None
    ignored = {id(parameter) for parameter in ignored_params or ()}
    policy = MixedPrecisionPolicy() if mp_policy is None else mp_policy
    if not isinstance(policy, MixedPrecisionPolicy):
        raise TypeError(f"fully_shard: mp_policy is a MixedPrecisionPolicy, not {describe(policy)}")
    unit = _Unit(module, group, replicas, reshard_after_forward is not False, policy, ignored)
    object.__setattr__(module, "_sharded_unit", unit)
    return module


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Makes a method of a sharded module, such as "generate", compute with whole parameters, as a call of the module
    does. A module that is not sharded stays as it is. AttributeError for a method that it has not.
    """
    method, unit = getattr(module, method_name), vars(module).get("_sharded_unit")
    if unit is not None:
        object.__setattr__(module, method_name, lambda *args, **named: unit.call(module, method, args, named))


def run_sharded(module: Module, function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns that computes with the parameters of a module by other ways than its call: inside, those
    of a sharded module are whole, as in its forward pass. Those of its blocks are still gathered by their own calls.
    """
    unit = vars(module).get("_sharded_unit")
    return function(*args) if unit is None else unit.call(module, function, args, {})


@contextmanager
def whole_parameters(module: Module, rank: int) -> Iterator[None]:
    """Inside, the parameters of a sharded module and of all inside it are whole in the process of this rank, which
    computes with them alone; what is written to them is lost. All processes call it.
    """
    with ExitStack() as stack:
        for each in module.modules():
            unit = vars(each).get("_sharded_unit")
            if unit is None:
                continue
            with no_grad():
                wholes = unit.stored()
            if unit.group.rank() == rank:
                stack.enter_context(unit.opened(each, wholes))
            del wholes
        yield


def take_met(module: Module) -> set[int]:
    """The ids of the parameters of a sharded module that the gradients of this process have met since the last call:
    those that none has met have zeros as their gradients.
    """
    places = [place for unit in _every_unit(module) for place in unit.places]
    met = {id(place.parameter) for place in places if place.met}
    for place in places:
        place.met = False
    return met


def shard_blocks(module: Module, group: ProcessGroup) -> None:
    """Shards each block of a model (the elements of its outermost lists of modules), before it those modules that
    several blocks have in common, and then what is left of the model.
    """
    blocks = blocks_of(module)
    users: dict[Module, set[int]] = {}
    for number, block in enumerate(blocks):
        for inner in block.modules():
            users.setdefault(inner, set()).add(number)
    common = {inner for inner, numbers in users.items() if len(numbers) > 1}
    parts = {part for inner in common for part in inner.modules() if part is not inner}
    for each in (*(inner for inner in users if inner in common - parts), *blocks, module):
        fully_shard(each, process_group=group)


class _IsSharded(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Module) and "_sharded_unit" in vars(value)


class FSDPModule(metaclass=_IsSharded):
    """What fully_shard makes of a module, for isinstance."""


def _every_unit(module: Module) -> Iterator[_Unit]:
    """The units of a module and of all inside it."""
    for each in module.modules():
        unit = vars(each).get("_sharded_unit")
        if unit is not None:
            yield unit


def _places_of(module: Module) -> dict[int, tuple[_Unit, int]]:
    """The unit of each parameter and its place there, by the parameter's id."""
    return {id(place.parameter): (unit, i) for unit in _every_unit(module) for i, place in enumerate(unit.places)}


def full_state_dict(module: Module, *, device: Any = "cpu", keep: bool = True) -> dict[str, Any]:
    """The state with whole parameters, on every process, on this device (None: its own): of modules that
    fully_shard or nn.tensor_parallel.parallelize has divided. All processes call it; one that does not `keep` it gets
    an empty one.
    """
    places, state = _places_of(module), module.state_dict(keep_vars=True)
    wholes: dict[int, list[Tensor]] = {}
    with no_grad():
        for name, value in list(state.items()):
            value = value._own_part if isinstance(value, Tensor) else value
            if isinstance(value, Tensor) and id(value) in places:
                unit, i = places[id(value)]
                if id(unit) not in wholes:
                    wholes.clear()  # one unit's at a time
                    wholes[id(unit)] = unit.stored()
                whole, place = wholes[id(unit)][i], unit.places[i]
                whole = whole if place.outer is None else whole_of(whole, place.outer, place.outer_groups)
            elif isinstance(value, Tensor) and value.part is not None:  # nn.tensor_parallel
                whole = whole_of(value, value.part, value.shard_groups)
            elif isinstance(value, Tensor):
                whole = value.detach()
            else:
                continue
            state[name] = None if not keep else whole if device is None else whole.to(device)
    return state if keep else {}


def load_full_state_dict(module: Module, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
    """Reads a state with whole parameters, of which each process keeps its rows. StateError as load_state_dict."""
    state = dict(state_dict)
    for name, value in module.state_dict(keep_vars=True).items():
        given = state.get(name)
        if not isinstance(value, Tensor) or value.part is None or not isinstance(given, Tensor):
            continue
        shape = value.part.whole_shape
        if tuple(given.shape) != shape:
            raise ArgumentError(f"load_full_state_dict: {name} has the shape {list(shape)}, given {describe(given)}")
        state[name] = value.part.of(given.detach())
    return module.load_state_dict(state, strict=strict)
