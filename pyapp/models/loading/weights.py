"""Fill a model's parameters from a file, tensor by tensor, in the type and on the device that are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, as_dtype, no_grad, quant
from pyapp.engine.blocks.layout import BLOCK_TYPES, READABLE, SHORTER
from pyapp.engine.device import as_device, cpu
from pyapp.engine.dtype import float16, float32
from pyapp.engine.ops import cat, tensor
from pyapp.engine.storage import release_memory
from pyapp.errors import ModelError, OperationError, OptionError
from pyapp.formats.checkpoint import UNQUANTISED, Checkpoint, TensorInfo
from pyapp.formats.mixtures import MIXTURES, Mixture
from pyapp.nn import Embedding, Linear, Module, Parameter, TransposedLinear
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.layers.experts import Experts
from pyapp.nn.layers.joined import JoinedLinear

if TYPE_CHECKING:
    from pyapp.engine.processes.group import ProcessGroup
    from pyapp.nn.part import Part

Progress = Callable[[int, int], None]

# Buffers of older files, which models compute themselves.
IGNORED = re.compile(
    r"(.*\.)?(rotary_emb\.inv_freq|rotary_emb\.(cos|sin)_cached|attn\.(bias|masked_bias)|attention\.(bias|masked_bias)"
    r"|position_ids|rope_freqs\.weight|rope_factors_(short|long)\.weight)"
)
# What files put before the names of a language model's tensors, and what they leave out.
PREFIXES = ("model.language_model.", "language_model.", "model.", "module.", "_orig_mod.")
FLOATS = ("float32", "float16", "bfloat16")  # types of matrices besides the block types and mixtures
SHOWN = 8  # names in an error
PIECE = 1 << 20  # bytes compared together
STATISTICS = ("running_mean", "running_var")  # buffers of a batch norm, without which it has no result


def ignored_by(module: Any, usual: re.Pattern[str] = IGNORED) -> re.Pattern[str]:
    """Names of files that are not parameters: the usual ones, and those of an architecture's module."""
    return re.compile(f"{usual.pattern}|{module.IGNORED}") if hasattr(module, "IGNORED") else usual


@dataclass(frozen=True)
class Stored:
    """How a file stores a parameter: under `name`, or in parts whose rows follow one another; with its rows in another
    order, or its values changed.

    rows: a function that brings the rows of the file's matrix, as (rows, bytes of a row) uint8, into the model's order.
    values: a function of the tensor as the file has it (its rows in order) that gives the parameter. join: a function
    of all parts that gives the parameter, where their rows do not follow one another. block: the values of a row that
    stay together in what it gives.
    """

    names: tuple[str, ...]
    rows: Callable[[Tensor], Tensor] | None = None
    values: Callable[[Tensor], Tensor] | None = None
    join: Callable[[Sequence[Tensor]], Tensor] | None = None
    block: int = 1


@dataclass(frozen=True)
class Slot:
    """A parameter of a model: every place that has it (a tied one has two) with its name there, and its shape."""

    names: tuple[str, ...]
    places: tuple[tuple[Module, str], ...]
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def only(self, names: Sequence[str]) -> Slot:
        """The places that have these names."""
        kept = [pair for pair in zip(self.names, self.places, strict=True) if pair[0] in names]
        return Slot(tuple(name for name, _ in kept), tuple(place for _, place in kept), self.shape)

    def without(self, name: str) -> Slot:
        """The places that have other names."""
        return self.only([own for own in self.names if own != name])

    @property
    def is_matrix(self) -> bool:
        """Whether this is the weight of a projection or an embedding, which may be quantised."""
        owner, attribute = self.places[0]
        return attribute == "weight" and isinstance(owner, Linear | Embedding | TransposedLinear)

    @property
    def is_filter(self) -> bool:
        """Whether this is the weight of a convolution that may be quantised."""
        owner, attribute = self.places[0]
        return attribute == "weight" and isinstance(owner, BlockConv2d)

    @property
    def is_stack(self) -> bool:
        """Whether this is the stack of matrices of all experts, which may be quantised."""
        owner, attribute = self.places[0]
        return isinstance(owner, Experts) and attribute in owner.STACKS

    @property
    def is_transposed(self) -> bool:
        """Whether the layer computes with the transposed matrix."""
        return self.is_matrix and isinstance(self.places[0][0], TransposedLinear)


def slots(model: Module) -> Iterator[tuple[str, Slot]]:
    """(name, slot) of every parameter, under each of its names."""
    places: dict[int, list[tuple[str, Module, str]]] = {}
    order: list[Tensor] = []
    for path, module in model._paths():
        for attribute, parameter in module._parameters.items():
            if id(parameter) not in places:
                order.append(parameter)
            found = places.setdefault(id(parameter), [])
            found.append((f"{path}.{attribute}" if path else attribute, module, attribute))
    for parameter in order:
        found = places[id(parameter)]
        names = tuple(name for name, _, _ in found)
        slot = Slot(names, tuple((module, name) for _, module, name in found), tuple(parameter.shape))
        yield from ((name, slot) for name in names)


def renaming(parts: Mapping[str, str]) -> Callable[[str], str]:
    """The parameter of a file's tensor, whose names have other parts: by the parts of the file's names, in order."""

    def renamed(name: str) -> str:
        for theirs, ours in parts.items():
            name = name.replace(theirs, ours)
        return name

    return renamed


def base_of(module: Any, settings: Mapping[str, Any]) -> str:
    """The name that files of a model_type give to what is below the head: the module's BASE, which may be one for each
    model_type.
    """
    found: str = module.BASE if isinstance(module.BASE, str) else module.BASE[settings["model_type"]]
    return found


def load_weights(
    model: Module,
    checkpoint: Checkpoint,
    *,
    stored: Mapping[str, Stored] | None = None,
    base: str = "",
    renames: Callable[[str], str] | None = None,
    ignored: re.Pattern[str] = IGNORED,
    dtype: str | None = None,
    device: Device | str | None = None,
    progress: Progress | None = None,
    config: Mapping[str, Any] | None = None,
    strict: bool = True,
    optional: Collection[str] = (),
    group: ProcessGroup | None = None,
) -> list[str]:
    """Replaces every parameter of `model` by the tensor of that name in a checkpoint; returns the names that were left
    over.

    stored: where a parameter has another name or form in the file. base: the first part of the model's names that a
    file may leave out ("model", "bert"); the prefixes in PREFIXES, which a file may have, are removed. renames: the
    model's name for a name of the file. ignored: names of the file that are not parameters.
    dtype: None keeps block types and 16-bit floats of the matrices and makes all else float32; else a float type, a
    block type ("q4_0", "q8_0" …) or a mixture ("Q4_K_M") of the matrices. `config` gives the mixture the numbers of
    heads and experts. progress(bytes done, bytes in all) follows each tensor. optional: names of parameters that keep
    their values where the file has no tensor of that shape. `group`: processes that compute the model together; each
    reads its part of the matrices (nn/tensor_parallel.py).

    Parameters get no gradients: call `requires_grad_()` to train. ModelError names all missing, misshapen and (with
    `strict`) unexpected tensors at once; NaN and infinite values; OptionError for an unknown dtype.
    """
    plans, left = plans_of(
        model, checkpoint, stored=stored, base=base, renames=renames, ignored=ignored, strict=strict, optional=optional
    )
    chosen = _types(plans, dtype, config or {})
    parts = {} if group is None else _divided(model, checkpoint, plans, chosen, group)
    total = sum(checkpoint.tensors[name].nbytes for _, plan in plans.values() for name in plan.names)
    done, joins = 0, _Joins(model)
    words = [key for key, (slot, _) in plans.items() if isinstance(slot.places[0][0], Embedding)]
    with no_grad():
        # Embeddings come last: they are large and are not joined, so that the peak is not theirs and a layer's parts.
        for key in [*(key for key in plans if key not in words), *words]:
            slot, plan = plans[key]
            if words and key == words[0]:
                release_memory(_place(device))
            part = parts.get(key)
            if slot.is_stack and plan.join is not None:
                value = _joined_stack(checkpoint, slot, plan, chosen.get(key), device)
                value = value if part is None else part.of(value)
            elif slot.is_stack:
                value = _stack(checkpoint, slot, plan, part, chosen.get(key), device)
            elif part is not None:
                value = _read_part_of(checkpoint, plan, part, device)
            else:
                value = read_plan(checkpoint, plan, device)
            shape = slot.shape if part is None else part.own_shape
            if tuple(value.shape) != shape and not (slot.is_stack and value.shape == _flat(shape)):
                raise ModelError(
                    f"{key!r} is {list(value.shape)} in the file, the configuration asks for {list(shape)}",
                    where=checkpoint.source.name,
                )
            read, value = value, value if slot.is_stack else _converted(value, slot, chosen.get(key))
            unused = [plan] if value.storage is not read.storage else []
            parameter = Parameter(value, requires_grad=False)
            del value, read
            for owner, attribute in dict.fromkeys(slot.places):  # a shared module is there under each of its names
                setattr(owner, attribute, parameter)
                unused += joins.loaded(owner, plan)
            for name in (name for part in unused for name in part.names):
                checkpoint.forget(name)
            done += sum(checkpoint.tensors[name].nbytes for name in plan.names)
            if progress is not None:
                progress(done, total)
        join(model)
        _move_buffers(model, device)
    return left


def plans_of(
    model: Module,
    checkpoint: Checkpoint,
    *,
    stored: Mapping[str, Stored] | None = None,
    base: str = "",
    renames: Callable[[str], str] | None = None,
    ignored: re.Pattern[str] = IGNORED,
    strict: bool = True,
    optional: Collection[str] = (),
) -> tuple[dict[str, tuple[Slot, Stored]], list[str]]:
    """How each parameter is read, by its name, and the names that are left over. Arguments and errors as those of
    load_weights.
    """
    found = dict(slots(model))
    names = _resolved(checkpoint.tensors, found, stored or {}, base, renames, ignored)
    plans = _plans(checkpoint, found, names, stored or {})
    for key in [key for key in plans if key in optional]:
        slot, plan = plans[key]
        if tuple(checkpoint.tensors[plan.names[0]].shape) != slot.shape:
            del plans[key]
    needed = {name: slot for name, slot in found.items() if name in plans or name not in optional}
    return plans, _check(checkpoint, needed, names, plans, strict)


def experts_apart(
    tensors: Mapping[str, TensorInfo], place: str, parts: tuple[str, ...], experts: int, layers: int,
    stacks: str = "mlp.experts", root: str = "model.layers",
) -> dict[str, Stored]:  # fmt: skip
    """How files that keep the matrices of each expert apart store the stacks of nn.layers.experts.Experts: `parts` are
    the names of gate (if there is one), up and down, as in model.layers.0.PLACE.3.GATE.weight (in `place`, {} may say
    where the number is); `stacks` is the path of the stacks in a layer, `root` that of the layers.
    """
    place = place if "{}" in place else f"{place}.{{}}"
    first = "gate_up_proj" if len(parts) == 3 else "up_proj"
    found: dict[str, Stored] = {}
    for layer in range(layers if experts else 0):
        before = f"{root}.{layer}."
        gate_up, down = (
            tuple(f"{before}{place.format(e)}.{part}.weight" for e in range(experts) for part in chosen)
            for chosen in (parts[:-1], parts[-1:])
        )
        if gate_up[0] not in tensors and gate_up[0].removeprefix("model.") not in tensors:
            continue
        found[f"{before}{stacks}.{first}"] = Stored(gate_up, values=_stacked(experts))
        found[f"{before}{stacks}.down_proj"] = Stored(down, values=_stacked(experts))
    return found


def _transposed(parts: Sequence[Tensor]) -> Tensor:
    """(E, K, N) → (E, N, K)."""
    return parts[0].transpose(1, 2).contiguous()


def experts_transposed(
    shapes: Mapping[str, Sequence[int]], place: str, layers: Iterable[int], hidden: int, inner: int
) -> dict[str, Stored]:
    """How files that have each matrix of the stacks of nn.layers.experts.Experts transposed, as their `shapes` say by
    the model's names, store them: `place` is the path of the stacks, with {} for the number of a layer. A square matrix
    is transposed where the other of its layer is.
    """
    found: dict[str, Stored] = {}
    for layer in layers:
        parts = (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner))
        names = [f"{place.format(layer)}.{part}" for part, *_ in parts]
        given = [tuple(shapes.get(name, ()))[1:] for name in names]
        turned = [shape == (columns, rows) for shape, (_, rows, columns) in zip(given, parts, strict=True)]
        if any(was and rows != columns for was, (_, rows, columns) in zip(turned, parts, strict=True)):
            found |= {name: Stored((name,), join=_transposed) for name, was in zip(names, turned, strict=True) if was}
    return found


def with_experts_transposed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by the names of a model's parameters with each matrix of the experts' stacks transposed: (E, inputs,
    outputs). Those in blocks stay as they are.
    """
    return {
        name: value.transpose(1, 2).contiguous() if value.ndim == 3 and ".experts." in name else value
        for name, value in tensors.items()
    }


def gated_experts_apart(config: Any, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """`experts_apart` of a configuration with `num_experts`, under the names that most published files have."""
    parts = "gate_proj", "up_proj", "down_proj"
    return experts_apart(tensors, "mlp.experts", parts, config.num_experts, config.num_hidden_layers)


def rows_of(value: Tensor, first: int, count: int) -> Tensor:
    """`count` rows of a matrix, or as many elements of a vector, from `first` on."""
    return value.narrow(0, first, count).contiguous()


def cut_apart(source: str, parts: Sequence[str], rows: int) -> dict[str, Stored]:
    """The parameters `parts`, of `rows` rows each, which a file has in one matrix or vector, `source`."""
    return {
        part: Stored((source,), values=partial(rows_of, first=i * rows, count=rows)) for i, part in enumerate(parts)
    }


def _stacked(experts: int) -> Callable[[Tensor], Tensor]:
    """(E N, K) → (E, N, K)."""

    def stack(value: Tensor) -> Tensor:
        dense = quant.dequantize(value).to(float32)
        return dense.reshape(experts, dense.shape[0] // experts, dense.shape[1])

    return stack


class _Joins:
    """Joins the projections of a layer as soon as it is loaded. Their own memory is then free for the next layer's."""

    def __init__(self, model: Module) -> None:
        self._groups: dict[int, _Group] = {}  # by the id of a projection
        for module in model.modules():
            for value in vars(module).values():
                if isinstance(value, JoinedLinear):
                    parts = [module._modules[name] for name in value.names]
                    parameters = [parameter for part in parts if part for parameter in part._parameters.values()]
                    count = sum(parameter is not None for parameter in parameters)
                    group = _Group(value, module, count)
                    self._groups |= {id(part): group for part in parts}

    def loaded(self, owner: Module, plan: Stored) -> list[Stored]:
        """Notes that a parameter of `owner` is loaded; returns the plans of those that were joined now."""
        group = self._groups.get(id(owner))
        if group is None:
            return []
        group.plans.append(plan)
        if len(group.plans) != group.count:
            return []
        return group.plans if group.joined.join(group.owner) else []


@dataclass
class _Group:
    """Projections that are computed together, the number of their parameters, and those that are loaded."""

    joined: JoinedLinear
    owner: Module
    count: int
    plans: list[Stored] = field(default_factory=list)


def join(model: Module) -> None:
    """Joins the projections of every layer that computes some together. Embeddings give float32 rows from now on."""
    for module in model.modules():
        if isinstance(module, Embedding):
            module.float32_rows = True
        for value in vars(module).values():
            if isinstance(value, JoinedLinear):
                value.join(module)


def _move_buffers(model: Module, device: Device | str | None) -> None:
    if device is not None:
        for buffer in model.buffers():
            buffer.data = buffer.data.to(device)


def load_buffers(
    model: Module,
    checkpoint: Checkpoint,
    names: Sequence[str],
    base: str = "",
    renames: Callable[[str], str] | None = None,
    device: Device | str | None = None,
) -> list[str]:
    """Fills the saved buffers of `model` from the tensors `names` of a checkpoint, which load_weights left over.
    Returns those that are none. ModelError for buffers of another shape and for batch norms without their statistics.
    """
    saved = set(model.state_dict())
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    there: set[str] = set()
    left = []
    for name in names:
        candidates = _candidates(name if renames is None else renames(name), base)
        known = next((candidate for candidate in candidates if candidate in buffers), None)
        if known is None:
            left.append(name)
            continue
        buffer = buffers[known]
        given = checkpoint.tensors[name].shape
        if tuple(given) != tuple(buffer.shape):
            raise ModelError(
                f"{name!r} is {list(given)} in the file, the configuration asks for {list(buffer.shape)}",
                where=checkpoint.source.name,
            )
        owner, _, attribute = known.rpartition(".")
        setattr(
            model.get_submodule(owner), attribute, checkpoint.read(name, finite=True, device=device).to(buffer.dtype)
        )
        there.add(known)
    needed = (*STATISTICS, "weight", "bias", "tid2eid")  # also those of frozen batch norms, and tables of experts
    missing = [name for name in buffers if name not in there and name.rpartition(".")[2] in needed]
    if missing:
        raise ModelError(
            f"buffers such as the statistics of batch norms are missing: {_listed(missing)}",
            where=checkpoint.source.name,
            hint="Give the file as it was saved: its buffers belong to the weights",
        )
    return left


def _resolved(
    tensors: Mapping[str, TensorInfo],
    found: Mapping[str, Slot],
    stored: Mapping[str, Stored],
    base: str,
    renames: Callable[[str], str] | None,
    ignored: re.Pattern[str],
) -> dict[str, str]:
    """The file's name of each name that the model or `stored` knows; names that it does not know stay as they are."""
    wanted = set(found) | {name for key, plan in stored.items() if key in found for name in plan.names}
    names: dict[str, str] = {}
    for name in tensors:
        known = name if renames is None else renames(name)
        for candidate in _candidates(known, base):
            if candidate in wanted:
                known = candidate
                break
        else:
            if ignored.fullmatch(name):
                continue
        if known in names and names[known] != name:
            raise ModelError(f"the tensors {names[known]!r} and {name!r} are both {known!r}")
        names[known] = name
    return names


def _candidates(name: str, base: str) -> Iterator[str]:
    """The names that a file's name may stand for."""
    heads = [name, *(name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix))]
    for head in heads:
        yield head
        if base:
            yield f"{base}.{head}"
            if head.startswith(f"{base}."):
                yield head.removeprefix(f"{base}.")


def _plans(
    checkpoint: Checkpoint, found: Mapping[str, Slot], names: Mapping[str, str], stored: Mapping[str, Stored]
) -> dict[str, tuple[Slot, Stored]]:
    """How each parameter that the file has is read, by its name. A tied one is read once, by its first name that is
    there; but a place for which the file has other values gets a parameter of its own, whatever the configuration says.
    ModelError for other values of a layer that the model has once, under several names; of values that are the same in
    another form, those with the most bits are read.
    """
    plans: dict[str, tuple[Slot, Stored]] = {}
    firsts: dict[str, str] = {}  # by the first name of a slot: the name by which it is read
    for name, slot in found.items():
        plan = stored.get(name, Stored((name,)))
        if not all(part in names for part in plan.names):
            continue
        read = replace(plan, names=tuple(names[part] for part in plan.names))
        first = firsts.setdefault(slot.name, name)
        if first == name:
            plans[name] = slot, read
        elif not _same_tensors(checkpoint, read.names, plans[first][1].names):
            shared, alone = plans[first][0].without(name), slot.only([name])
            if not {*alone.places}.isdisjoint(shared.places):
                finer = _finer(checkpoint, plans[first][1], read)
                if finer is not None:
                    plans[first] = plans[first][0], finer
                    continue
                raise ModelError(
                    f"{plans[first][1].names[0]!r} and {read.names[0]!r} have different values, and the model has one "
                    "layer for both",
                    where=checkpoint.source.name, hint="Give the file as the model was trained and saved",
                )  # fmt: skip
            plans[first] = shared, plans[first][1]
            plans[name] = alone, read
    return plans


def _same_tensors(checkpoint: Checkpoint, names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether a file has the same bytes under these names as under the others."""
    infos = [[checkpoint.tensors[name] for name in part] for part in (names, others)]
    kinds = [[(info.dtype, info.shape) for info in part] for part in infos]
    return kinds[0] == kinds[1] and all(
        memoryview(a).cast("B") == memoryview(b).cast("B")
        for name, other in zip(names, others, strict=True) if name != other
        for a, b in zip(checkpoint.read_pieces(name, PIECE), checkpoint.read_pieces(other, PIECE), strict=True)
    )  # fmt: skip


def _finer(checkpoint: Checkpoint, one: Stored, other: Stored) -> Stored | None:
    """Of two forms of the same values the one with more bits; None for other values."""
    a, b = (read_plan(checkpoint, plan) for plan in (one, other))
    if a.shape != b.shape or not {a.dtype.name, b.dtype.name} <= {*FLOATS}:
        return None
    if a.dtype.itemsize < b.dtype.itemsize:
        a, b, one = b, a, other
    with no_grad():
        same = a.to(b.dtype) == b
        return one if bool((same | (a.isnan() & b.isnan())).all()) else None


def _check(
    checkpoint: Checkpoint,
    found: Mapping[str, Slot],
    names: Mapping[str, str],
    plans: Mapping[str, tuple[Slot, Stored]],
    strict: bool,
) -> list[str]:
    """The names of the file that are not read. ModelError for missing and misshapen tensors, and for these names."""
    there = {name for slot, _ in plans.values() for name in slot.names}
    missing = list(dict.fromkeys(slot.name for name, slot in found.items() if name not in there))
    misshapen = []
    for key, (slot, plan) in plans.items():
        shape = checkpoint.tensors[plan.names[0]].shape
        flat = slot.is_stack and tuple(shape) == _flat(slot.shape)
        changed = plan.values is not None or plan.join is not None
        if len(plan.names) == 1 and not changed and tuple(shape) != slot.shape and not flat:
            misshapen.append(f"{key} is {list(shape)}, expected {list(slot.shape)}")
        elif slot.is_stack and len(plan.names) > 1 and plan.join is None:
            parts = [checkpoint.tensors[name].shape for name in plan.names]
            rows, columns = sum(prod(part[:-1]) for part in parts), {part[-1] for part in parts if part}
            if (rows, columns) != (_flat(slot.shape)[0], {slot.shape[2]}):
                found_shape = f"{rows:,} rows of {' or '.join(map(str, sorted(columns)))}"
                misshapen.append(f"{key} has {found_shape}, expected {list(slot.shape)}")
    read = {name for _, plan in plans.values() for name in plan.names}
    numbers = {name for _, plan in plans.values() if plan.join is None for name in plan.names}
    kinds = {name: checkpoint.tensors[name].dtype for name in sorted(numbers)}
    whole = next((name for name, kind in kinds.items() if kind.startswith(("int", "uint", "bool"))), None)
    if whole is not None:
        raise ModelError(
            f"the weights of {whole!r:.120} are {kinds[whole]}: another library has quantised them",
            where=checkpoint.source.name, hint=UNQUANTISED,
        )  # fmt: skip
    left = [name for known, name in names.items() if name not in read and known not in there]
    check_left(checkpoint, left if strict else [], missing, misshapen)
    return left


def check_left(
    checkpoint: Checkpoint, left: Sequence[str], missing: Sequence[str] = (), misshapen: Sequence[str] = ()
) -> None:
    """ModelError for tensors of the file that no parameter and no buffer has taken, for missing and for misshapen
    ones.
    """
    told = [("missing", missing), ("of another shape", misshapen), ("left over", left)]
    text = "; ".join(f"{what}: {_listed(wrong)}" for what, wrong in told if wrong)
    if text:
        raise ModelError(
            f"the tensors do not fit the configuration: {text}",
            where=checkpoint.source.name,
            hint="Give the config.json that belongs to the weights, and a model that was trained for this task",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(name[:100] for name in names[:SHOWN]) + more


def _types(plans: Mapping[str, tuple[Slot, Stored]], dtype: str | None, config: Mapping[str, Any]) -> dict[str, str]:
    """The type of each matrix, by name; empty if the types of the file are kept."""
    if dtype is None:
        return {}
    return matrix_types({name: slot for name, (slot, _) in plans.items()}, dtype, config)


def matrix_types(found: Mapping[str, Slot], dtype: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The type that each matrix among the parameters gets by `dtype`, by name. OptionError for an unknown dtype."""
    matrices = [name for name, slot in found.items() if slot.is_matrix or slot.is_stack]
    if dtype in MIXTURES:
        called = {name: f"{name}.weight" if found[name].is_stack else name for name in matrices}
        stacks = [own for name, own in called.items() if found[name].is_stack]
        mixture = Mixture(dtype, called.values(), config, stacks=stacks)
        return {name: mixture.type_of(own) for name, own in called.items()}
    try:
        kind = as_dtype(dtype).name
        matrices += [name for name, slot in found.items() if slot.is_filter]
    except (TypeError, ValueError):
        kind = None
    if kind is None or kind not in (*FLOATS, *BLOCK_TYPES):
        raise OptionError(
            f"{dtype!r:.50} is not a type of weights", where="dtype",
            hint=f"Types: {', '.join((*FLOATS, *BLOCK_TYPES, *MIXTURES))}",
        )  # fmt: skip
    return dict.fromkeys(matrices, kind)


def convert_matrices(model: Module, dtype: str, config: Mapping[str, Any]) -> None:
    """Converts the matrices of a model to the type `dtype` in place; arguments and errors as those of load_weights."""
    found = dict(slots(model))
    for name, kind in matrix_types(found, dtype, config).items():
        slot = found[name]
        owner, attribute = slot.places[0]
        value = owner._parameters[attribute]
        if name == slot.name and value is not None:  # of a tied matrix, its first name
            with no_grad():
                parameter = Parameter(_converted(value.detach(), slot, kind), requires_grad=False)
            for other, called in slot.places:
                setattr(other, called, parameter)


def read_plan(checkpoint: Checkpoint, plan: Stored, device: Device | str | None = None) -> Tensor:
    """A parameter as the file stores it, its parts joined and its rows in the model's order. ModelError for tensors
    that cannot be joined and ordered so.
    """
    try:
        parts = [_read_part(checkpoint, name, plan.rows, device) for name in plan.names]
        if plan.join is not None or plan.values is not None or len({part.dtype for part in parts}) > 1:
            parts = [_as_listed(part, checkpoint.tensors[name]) for part, name in zip(parts, plan.names, strict=True)]
        if plan.join is not None:
            value = plan.join(parts)
        elif len(parts) == 1:
            value = parts[0]
        elif parts[0].ndim == 2:
            value = quant.concatenate(parts)
        else:
            value = cat(parts)
        return value if plan.values is None else plan.values(value)
    except OperationError as error:  # only the shapes in the file can be wrong here
        shapes = ", ".join(f"{name} {list(checkpoint.tensors[name].shape)}" for name in plan.names[:SHOWN])
        raise ModelError(
            f"the tensors do not fit the configuration: {shapes:.300}", where=checkpoint.source.name,
            hint="Give the config.json that belongs to the weights",
        ) from error  # fmt: skip


def _divided(
    model: Module, checkpoint: Checkpoint, plans: Mapping[str, tuple[Slot, Stored]], chosen: Mapping[str, str],
    group: ProcessGroup,
) -> dict[str, Part]:  # fmt: skip
    """Makes the model one that a group of processes computes together; what this process has of each parameter, by
    name.
    """
    from pyapp.nn.tensor_parallel import divide

    parameters = {key: id(slot.places[0][0]._parameters[slot.places[0][1]]) for key, (slot, _) in plans.items()}
    blocks = dict.fromkeys(parameters.values(), 1)
    for key, (_, plan) in plans.items():
        kinds = {checkpoint.tensors[name].dtype for name in plan.names} | {chosen.get(key, "")}
        own = (READABLE[kind].values for kind in kinds if kind in READABLE)
        blocks[parameters[key]] = lcm(blocks[parameters[key]], plan.block, *own)
    parts = divide(model, group, lambda parameter: blocks[id(parameter)])
    found = {key: parts[parameter] for key, parameter in parameters.items() if parameter in parts}
    vars(model)["divided"] = found
    return found


def whole_bytes(model: Module) -> int:
    """Bytes of the parameters; of a model that several processes compute together, those of all."""
    parts: Mapping[str, Part] = vars(model).get("divided", {})
    total = 0
    for name, parameter in model.named_parameters():
        part = parts.get(name)
        total += parameter.nbytes if part is None else parameter.nbytes * prod(part.shape) // prod(part.own_shape)
    return total


def _read_part_of(checkpoint: Checkpoint, plan: Stored, part: Part, device: Device | str | None) -> Tensor:
    """A process's part of a parameter. It alone is read, unless the file has other values."""
    from pyapp.formats.tensor_slices import read_part, runs_of

    if plan.values is not None or plan.join is not None:
        return part.of(read_plan(checkpoint, plan, device))
    columns = part.ranges[0] if part.dim == 1 else None
    wanted = part.ranges if part.dim == 0 else ((0, part.shape[0]),)
    found, start = [], 0
    for name in plan.names:
        height = checkpoint.tensors[name].shape[0]
        order: Any = range(height)
        if plan.rows is not None:  # which row of the file each row of the model is
            order = plan.rows(tensor([[row] for row in order], dtype="int64")).reshape(-1).tolist()
        rows = [
            order[row - start] for first, count in wanted
            for row in range(max(first, start), min(first + count, start + height))
        ]  # fmt: skip
        if rows:
            found.append(read_part(checkpoint, name, runs_of(rows), columns, finite=True, device=device))
        start += height
    if len(found) == 1:
        return found[0]
    return quant.concatenate(found) if found[0].ndim == 2 else cat(found)


def _flat(shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of the matrix of all rows of a stack (E, N, K)."""
    return shape[0] * shape[1], shape[2]


def _stack(
    checkpoint: Checkpoint, slot: Slot, plan: Stored, share: Part | None, kind: str | None, device: Device | str | None
) -> Tensor:
    """The matrices of all experts, or a process's `share` of each, in the type `kind`, or in that of the file: (E, N,
    K), of block types (E * N, K). The file has one stack, one for each part of the rows (the gates and the ups), or
    each matrix by itself.
    """
    experts, rows, _ = shape = slot.shape if share is None else share.own_shape
    parts, start = [], 0
    for name in plan.names:
        part = _stack_rows(checkpoint, name, share, start % slot.shape[1], device)
        parts.append(_in_type(part, kind) if rows % quant.BAND == 0 else quant.dequantize(part).to(float32))
        start += checkpoint.tensors[name].shape[-2]
    if len({part.dtype for part in parts}) > 1:
        parts = [_as_listed(part, checkpoint.tensors[name]) for part, name in zip(parts, plan.names, strict=True)]
    if len(parts) == 1:
        whole = parts[0]
    elif all(len(checkpoint.tensors[name].shape) == 3 for name in plan.names):
        heights = [part.shape[0] // experts for part in parts]
        if any(not quant.whole_bands(part, height, height) for part, height in zip(parts, heights, strict=True)):
            parts = [quant.dequantize(part) for part in parts]
        whole = quant.concatenate(
            [quant.rows_of(part, e * n, n) for e in range(experts) for part, n in zip(parts, heights, strict=True)]
        )
    else:
        whole = quant.concatenate(parts)
    return whole if whole.dtype.is_quantized else whole.reshape(shape)


def _joined_stack(
    checkpoint: Checkpoint, slot: Slot, plan: Stored, kind: str | None, device: Device | str | None
) -> Tensor:
    """As `_stack`, of a file that has the matrices in another form, which plan.join changes."""
    whole = read_plan(checkpoint, plan, device)
    whole = _in_type(whole if whole.dtype.is_quantized else whole.reshape(_flat(slot.shape)), kind)
    if slot.shape[1] % quant.BAND:
        whole = quant.dequantize(whole).to(float32)
    return whole if whole.dtype.is_quantized else whole.reshape(slot.shape)


def _stack_rows(
    checkpoint: Checkpoint, name: str, share: Part | None, start: int, device: Device | str | None
) -> Tensor:
    """The rows of a file's matrix or stack of matrices, of which those of each expert begin at row `start` of the
    model's; with a `share` those, and the columns, that a process has.
    """
    if share is None:
        part = checkpoint.read_rows(name, finite=True, device=device)
        return part if part.dtype.is_quantized or part.ndim == 2 else part.reshape(-1, part.shape[-1])
    from pyapp.formats.tensor_slices import read_part

    *lead, rows, _ = checkpoint.tensors[name].shape
    if share.dim == 2:
        return read_part(checkpoint, name, [(0, prod(lead) * rows)], share.ranges[0], finite=True, device=device)
    inside = [(max(first - start, 0), min(first + n - start, rows)) for first, n in share.ranges]
    taken = [(i * rows + first, end - first) for i in range(prod(lead)) for first, end in inside if first < end]
    return read_part(checkpoint, name, taken, finite=True, device=device)


def _read_part(
    checkpoint: Checkpoint, name: str, rows: Callable[[Tensor], Tensor] | None, device: Device | str | None
) -> Tensor:
    info = checkpoint.tensors[name]
    if rows is None or not info.numel:
        return checkpoint.read(name, finite=True, device=device)
    if info.dtype not in READABLE or len(info.shape) != 2:
        value = _as_listed(checkpoint.read(name, finite=True, device=device), info)
        return rows(value if value.ndim == 2 else value.unsqueeze(1)).reshape(info.shape)
    data = memoryview(checkpoint.read_bytes(name)).cast("B")
    matrix = Tensor.from_buffer(data, (info.shape[0], len(data) // info.shape[0]), "uint8")
    ordered = rows(matrix).contiguous()
    return quant.from_blocks(ordered.storage.bytes_view(), info.shape, info.dtype, _place(device))


def _as_listed(value: Tensor, info: TensorInfo) -> Tensor:
    """A tensor that may be in blocks though the file lists floats (loading.quantised), as these floats."""
    listed = value.dtype.is_quantized and info.dtype in FLOATS
    return quant.dequantize(value).to(info.dtype) if listed else value


def _place(device: Device | str | None) -> Device:
    return cpu if device is None else as_device(device)


def _converted(value: Tensor, slot: Slot, kind: str | None) -> Tensor:
    """The tensor in the type `kind`, or in a type that the model can compute with."""
    if slot.is_filter and kind is not None:
        matrix = _in_type(value.reshape(value.shape[0], -1), kind)
        return matrix if matrix.dtype.is_quantized else matrix.reshape(value.shape)
    if not slot.is_matrix:
        return quant.dequantize(value).to(float32) if value.dtype is not float32 else value
    if slot.is_transposed:  # the layer's matrix lies in memory as (out, in)
        matrix = value.T
        return _in_type(matrix if matrix.dtype.is_quantized else matrix.contiguous(), kind).T
    return _in_type(value, kind)


def _in_type(value: Tensor, kind: str | None) -> Tensor:
    if kind is None:
        kept = value.dtype.is_quantized or value.dtype in (float16, float32) or value.dtype.name == "bfloat16"
        return value if kept else value.to(float32)
    wanted = next((k for k in (kind, SHORTER.get(kind)) if k and _fits(k, value.shape[1])), "float32")
    if wanted == value.dtype.name:
        return value
    if wanted in BLOCK_TYPES:
        return quant.quantize(value, wanted)
    dense = quant.dequantize(value).to(float32) if value.dtype is not float32 else value
    return dense.to(wanted)


def _fits(kind: str, columns: int) -> bool:
    return kind not in BLOCK_TYPES or columns % BLOCK_TYPES[kind].values == 0
