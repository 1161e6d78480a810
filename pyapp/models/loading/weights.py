"""Fill a model's parameters from a file, tensor by tensor, in the type and on the device that are asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from pyapp.engine import Device, no_grad
from pyapp.engine.blocks.layout import READABLE
from pyapp.engine.storage import release_memory
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import Checkpoint
from pyapp.nn import Embedding, Module, Parameter

from .joining import Joins, join
from .matching import plans_of, possible_names
from .matrix_types import chosen_types, converted
from .reading import flat_shape, place_of, read_joined_stack, read_plan, read_share, read_stack
from .slots import Slot
from .stored import IGNORED, Stored, listed

if TYPE_CHECKING:
    from pyapp.engine.processes.group import ProcessGroup
    from pyapp.nn.part import Part

Progress = Callable[[int, int], None]
STATISTICS = ("running_mean", "running_var")  # buffers of a batch norm, without which it has no result


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
    chosen = chosen_types(plans, dtype, config or {})
    parts = {} if group is None else _divided(model, checkpoint, plans, chosen, group)
    total = sum(checkpoint.tensors[name].nbytes for _, plan in plans.values() for name in plan.names)
    done, joins = 0, Joins(model)
    words = [key for key, (slot, _) in plans.items() if isinstance(slot.places[0][0], Embedding)]
    with no_grad():
        # Embeddings come last: they are large and are not joined, so that the peak is not theirs and a layer's parts.
        for key in [*(key for key in plans if key not in words), *words]:
            slot, plan = plans[key]
            if words and key == words[0]:
                release_memory(place_of(device))
            part = parts.get(key)
            if slot.is_stack and plan.join is not None:
                value = read_joined_stack(checkpoint, slot, plan, chosen.get(key), device)
                value = value if part is None else part.of(value)
            elif slot.is_stack:
                value = read_stack(checkpoint, slot, plan, part, chosen.get(key), device)
            elif part is not None:
                value = read_share(checkpoint, plan, part, device)
            else:
                value = read_plan(checkpoint, plan, device)
            shape = slot.shape if part is None else part.own_shape
            if tuple(value.shape) != shape and not (slot.is_stack and value.shape == flat_shape(shape)):
                raise ModelError(
                    f"{key!r} is {list(value.shape)} in the file, the configuration asks for {list(shape)}",
                    where=checkpoint.source.name,
                )
            read, value = value, value if slot.is_stack else converted(value, slot, chosen.get(key))
            unused = [plan] if value._storage is not read._storage else []
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
        candidates = possible_names(name if renames is None else renames(name), base)
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
            f"buffers such as the statistics of batch norms are missing: {listed(missing)}",
            where=checkpoint.source.name,
            hint="Give the file as it was saved: its buffers belong to the weights",
        )
    return left


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
