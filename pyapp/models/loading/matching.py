"""Which tensors of a file are which parameters of a model; what is missing, left over or of another shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from pyapp.engine import no_grad
from pyapp.errors import ModelError
from pyapp.formats.checkpoint import UNQUANTISED, Checkpoint, TensorInfo
from pyapp.nn import Module

from .matrix_types import FLOATS
from .reading import flat_shape, read_plan
from .slots import Slot, slots
from .stored import IGNORED, PREFIXES, Stored, listed

PIECE = 1 << 20  # bytes compared together


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
        for candidate in possible_names(known, base):
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


def possible_names(name: str, base: str) -> Iterator[str]:
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
        flat = slot.is_stack and tuple(shape) == flat_shape(slot.shape)
        changed = plan.values is not None or plan.join is not None
        if len(plan.names) == 1 and not changed and tuple(shape) != slot.shape and not flat:
            misshapen.append(f"{key} is {list(shape)}, expected {list(slot.shape)}")
        elif slot.is_stack and len(plan.names) > 1 and plan.join is None:
            parts = [checkpoint.tensors[name].shape for name in plan.names]
            rows, columns = sum(prod(part[:-1]) for part in parts), {part[-1] for part in parts if part}
            if (rows, columns) != (flat_shape(slot.shape)[0], {slot.shape[2]}):
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
    text = "; ".join(f"{what}: {listed(wrong)}" for what, wrong in told if wrong)
    if text:
        raise ModelError(
            f"the tensors do not fit the configuration: {text}",
            where=checkpoint.source.name,
            hint="Give the config.json that belongs to the weights, and a model that was trained for this task",
        )
