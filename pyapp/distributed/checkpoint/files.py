"""Checkpoints of states that several processes divide: each writes what it has, and reads what it needs, so that
another number of processes, or one alone, can go on.

A checkpoint is a folder. Its tensors are in safetensors files; where a file has a part of a tensor, the entry
DCP_SHARDING_INFO of its metadata has the part's first index in each dim, as torch.distributed.checkpoint writes it for
Hugging Face's format (torch/distributed/checkpoint/hf_storage.py, _hf_utils.py), whose HuggingFaceStorageReader reads
these folders too. `checkpoint.json` names the files of the checkpoint, and has the values that are not tensors. It is
written last: until then the folder holds the checkpoint before.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from functools import partial
from math import isfinite, prod
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from pyapp.dataclass import dataclass

from ...engine import Tensor, no_grad
from ...engine.native import IN_BROWSER
from ...engine.processes.collectives import all_gather_object
from ...engine.processes.group import CALL_TIMEOUT, ProcessGroup, group_or_world, is_initialized
from ...engine.user_errors import describe
from ...errors import ArgumentError, FileFormatError, ProcessError
from ...formats.opening import open_checkpoint
from ...formats.safe_json import malformed, parse_json
from ...formats.safetensors import write_safetensors
from ...formats.sink import open_sink
from .torch_folders import METADATA, TorchFolder

T = TypeVar("T")
FORMAT = "pyapp checkpoint 1"
MANIFEST = "checkpoint.json"
SHARDING = "DCP_SHARDING_INFO"
SHOWN = 5  # names in an error
MOST = 1 << 62  # elements
_WRITING: list[Future[None]] = []  # by async_save


@dataclass(frozen=True)
class _Piece:
    """A box of a tensor of `shape`: from `offsets` on, of `sizes`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def boxes(name: str, tensor: Tensor) -> Iterator[tuple[_Piece, Tensor]]:
    """What this process has of a tensor, with the memory of each piece."""
    own, part = tensor.detach(), tensor.part
    if own.dtype.is_quantized:
        raise ArgumentError(f"{name}, {describe(tensor)}, is in blocks; checkpoints hold what is trained")
    if part is None:
        yield _Piece(name, own.dtype.name, tuple(own.shape), (0,) * own.ndim, tuple(own.shape)), own
        return
    for offsets, sizes, inside in part.boxes():
        piece = own if sizes else own.reshape(())  # a number, which one process has
        for dim, (first, size) in enumerate(zip(inside, sizes, strict=True)):
            piece = piece.narrow(dim, first, size)
        yield _Piece(name, own.dtype.name, part.whole_shape, offsets, sizes), piece


# -- states as flat names


def _has_parts(value: Any) -> bool:
    """Whether a list has tensors, dicts, or lists that have."""
    return isinstance(value, list) and any(isinstance(x, Tensor | Mapping) or _has_parts(x) for x in value)


def _flat(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """(name, value, how to replace it) of what is in a nested state; names are joined by dots. A list of numbers
    or texts is one value, as in torch."""
    entries = state.items() if isinstance(state, Mapping) else enumerate(state)
    for key, value in entries:
        if not isinstance(key, str | int):
            raise TypeError(f"{'.'.join(path) or 'the state'} has the key {key!r:.60}; keys are texts and numbers")
        own = (*path, str(key))
        if (isinstance(value, Mapping) and value) or _has_parts(value):
            yield from _flat(value, own)
        else:

            def put(new: Any, key: Any = key) -> None:
                if not isinstance(state, MutableMapping | list):
                    raise TypeError(f"{'.'.join(path)} cannot be changed: it is {describe(state)}")
                state[key] = new

            yield ".".join(own), value, put


def _named(state_dict: Mapping[str, Any]) -> dict[str, tuple[Any, Callable[[Any], None]]]:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"a checkpoint holds a dict of tensors and values, got {describe(state_dict)}")
    found: dict[str, tuple[Any, Callable[[Any], None]]] = {}
    for name, value, put in _flat(state_dict):
        if name in found:
            raise ArgumentError(f"two entries of the state have the name {name!r}")
        found[name] = value, put
    return found


def _stored_value(name: str, value: Any) -> Any:
    """A value for JSON. Tuples become lists; NaN and infinity objects."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else {"float": repr(value)}
    if isinstance(value, list | tuple):
        return [_stored_value(name, x) for x in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _stored_value(name, x) for key, x in value.items()}}
    raise TypeError(f"{name} is {describe(value)}; a checkpoint holds tensors, numbers, texts, lists and dicts of them")


def _loaded_value(value: Any, like: Any) -> Any:
    """A value from JSON; tuples where `like`, what it replaces, has tuples. ValueError for another form."""
    if isinstance(value, dict):
        if value.get("float") in ("nan", "inf", "-inf"):
            return float(value["float"])
        if not isinstance(value.get("dict"), dict):
            raise ValueError(f"{value!r:.80} is no value")
        likes = like if isinstance(like, Mapping) else {}
        return {key: _loaded_value(x, likes.get(key)) for key, x in value["dict"].items()}
    if isinstance(value, list):
        others = like if isinstance(like, list | tuple) else ()
        items = [_loaded_value(x, others[i] if i < len(others) else None) for i, x in enumerate(value)]
        return tuple(items) if isinstance(like, tuple) else items
    return value


# -- the same end on every rank


class _Ranks:
    """The processes of a group; one alone where there is none."""

    def __init__(self, group: ProcessGroup | None) -> None:
        self.group = group_or_world(group) if group is not None or is_initialized() else None
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()

    def everyones(self, own: T) -> list[T]:
        """The value of every rank."""
        if self.group is None:
            return [own]
        found: list[Any] = [None] * self.size
        all_gather_object(found, own, self.group)
        return found

    def together(self, what: str, call: Callable[[], T]) -> T:
        """The result of a call on this rank. Where it fails on one, all raise: its error there, a ProcessError with its
        text elsewhere."""
        failure: Exception | None = None
        result: Any = None
        try:
            result = call()
        except Exception as error:
            failure = error
        told = self.everyones("" if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        for rank, text in enumerate(told):
            if text:
                raise ProcessError(f"{what} failed on rank {rank}: {text}", where=what)
        return result


# -- writing


def save(
    state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: ProcessGroup | None = None
) -> None:
    """Writes a state into the folder `checkpoint_id`, which all processes reach by this path; all call it.

    `state_dict` is a dict, or dicts in it, of tensors, numbers, texts, lists and tuples, as get_state_dict makes it. Of
    a tensor that the processes divide each writes its part; others, and values, the first process that has them writes.
    An older checkpoint there stays whole until the new one is, and then goes. Without a group of processes one writes
    all.

    OSError, on all processes, where the disk is full or may not be written; ArgumentError where the parts are not the
    whole, or differ in shape or dtype; TypeError for other values.
    """
    ranks = _Ranks(process_group)
    plan = _planned(state_dict, Path(checkpoint_id), ranks)
    try:
        files = ranks.together("save", plan.write)
        names = [name for own in ranks.everyones(files) for name in own]
        before = ranks.together("save", lambda: plan.commit(names) if ranks.rank == 0 else set())
    except BaseException:
        plan.discard()
        raise
    ranks.together("save", lambda: _remove(plan.folder, before))


def async_save(
    state_dict: Mapping[str, Any], *, checkpoint_id: str | os.PathLike[str], process_group: ProcessGroup | None = None
) -> Future[None]:
    """As `save`, but returns when this process has a copy of what it writes; a thread writes it, while the training
    goes on. The Future's result() waits until the checkpoint is whole, and raises the errors of any process. One
    checkpoint is written at a time: the next call of this, `save` or `load` waits for it. So does the end of the
    program.
    """
    ranks = _Ranks(process_group)
    plan = _planned(state_dict, Path(checkpoint_id), ranks)
    with no_grad():
        plan.pieces = [(piece, own.detach().to("cpu", copy=True)) for piece, own in plan.pieces]
    if IN_BROWSER:  # which has no threads
        done: Future[None] = Future()
        try:
            plan.write_alone(ranks.size)
            done.set_result(None)
        except Exception as error:
            done.set_exception(error)
        return done
    writer = ThreadPoolExecutor(1, "checkpoint")
    _WRITING.append(writer.submit(plan.write_alone, ranks.size))
    writer.shutdown(wait=False)
    return _WRITING[0]


@dataclass
class _Plan:
    """What this process writes of a checkpoint, and what all write together. `token` begins the names of its files."""

    folder: Path
    token: str
    rank: int
    pieces: list[tuple[_Piece, Tensor]]
    shapes: dict[str, list[int]]
    values: dict[str, Any]

    def write(self) -> list[str]:
        """Writes the pieces; returns the names of the files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.rank == 0:  # what calls of async_save before have left
            names = [path.name for path in self.folder.glob("*.failed")]
            _remove(self.folder, [name for name in names if not name.startswith(self.token)])
        return _write(self.folder, f"{self.token}-{self.rank:05d}", self.pieces)

    def commit(self, names: list[str]) -> set[str]:
        """Makes these files the checkpoint; returns those of the one before."""
        return _commit(self.folder, names, self.shapes, self.values)

    def discard(self) -> None:
        """Removes what was written."""
        _remove(self.folder, [path.name for path in self.folder.glob(f"{self.token}-{self.rank:05d}-*.safetensors")])

    def write_alone(self, size: int) -> None:
        """Writes the checkpoint with the other processes, without a call of theirs: each notes in a file which files it
        has written, and the first one makes the checkpoint of them.
        """
        mine, before = self._note(self.rank, "written"), set[str]()
        try:
            names = self.write()
            with open_sink(mine) as file:
                file.write(json.dumps(names).encode())
            if self.rank == 0:
                notes = [self._note(rank, "written") for rank in range(size)]
                self._wait(lambda: all(path.exists() for path in notes))
                before = self.commit([name for path in notes for name in json.loads(path.read_text())])
            else:
                self._wait(lambda: any(name.startswith(self.token) for name in _files_in(self.folder)))
        except BaseException as error:
            self.discard()
            with suppress(OSError):
                self._tell_failure(f"{type(error).__name__}: {error}")
            raise
        finally:
            with suppress(OSError):
                mine.unlink()
        _remove(self.folder, before)  # a failure here leaves the new checkpoint whole

    def _tell_failure(self, text: str) -> None:
        """Tells the others, who find the whole text or no file."""
        note = self._note(self.rank, "failed")
        try:
            with open_sink(note) as file:
                file.write(text.encode())
        except OSError:
            note.touch()  # a full disk has room for a name, at least

    def _note(self, rank: int, ending: str) -> Path:
        """The file by which a rank tells the others something."""
        return self.folder / f"{self.token}-{rank:05d}.{ending}"

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Waits for the others. ProcessError where one has failed, or after CALL_TIMEOUT seconds."""
        end, pause = monotonic() + CALL_TIMEOUT, 0.005
        while not is_done():
            failed = next(iter(self.folder.glob(f"{self.token}-*.failed")), None)
            if failed is not None:
                rank = int(failed.stem.split("-")[1])
                raise ProcessError(f"async_save failed on rank {rank}: {failed.read_text()}", where="async_save")
            if monotonic() > end:
                raise ProcessError(f"the others have written nothing for {CALL_TIMEOUT:g} s", where="async_save")
            sleep(pause)
            pause = min(2 * pause, 0.5)


def _files_in(folder: Path) -> list[str]:
    """The files of the checkpoint that is in a folder now."""
    return _manifest(folder).files if (folder / MANIFEST).is_file() else []


def _wait_for_writing() -> None:
    """Waits for the checkpoint that a thread of this process writes. Its errors are those of its own Future."""
    while _WRITING:
        wait([_WRITING.pop()])


def _planned(state_dict: Mapping[str, Any], folder: Path, ranks: _Ranks) -> _Plan:
    """What each process writes of a state."""
    _wait_for_writing()
    named = ranks.together("save", lambda: _named(state_dict))
    tensors = {name: value for name, (value, _) in named.items() if isinstance(value, Tensor)}
    pieces = ranks.together("save", lambda: [box for name, x in tensors.items() for box in boxes(name, x)])
    every = ranks.everyones([piece for piece, _ in pieces])
    mine = ranks.together("save", lambda: _owned(every, ranks.rank))
    values = ranks.together(
        "save", lambda: {n: _stored_value(n, v) for n, (v, _) in named.items() if not isinstance(v, Tensor)}
    )
    token = ranks.everyones(secrets.token_hex(4))[0]
    shapes = {piece.name: list(piece.shape) for own in every for piece in own}
    return _Plan(folder, token, ranks.rank, [pair for pair in pieces if pair[0] in mine], shapes, values)


def _owned(every: list[list[_Piece]], rank: int) -> set[_Piece]:
    """The pieces that a rank writes: those that no rank before it has. ArgumentError if they are not whole tensors."""
    owner: dict[_Piece, int] = {}
    for i, pieces in enumerate(every):
        for piece in pieces:
            owner.setdefault(piece, i)
    kinds: dict[str, _Piece] = {}
    elements: dict[str, int] = {}
    for piece in owner:
        first = kinds.setdefault(piece.name, piece)
        if (first.dtype, first.shape) != (piece.dtype, piece.shape):
            raise ArgumentError(
                f"{piece.name} is {first.dtype} {list(first.shape)} on rank {owner[first]}, but {piece.dtype} "
                f"{list(piece.shape)} on rank {owner[piece]}"
            )
        elements[piece.name] = elements.get(piece.name, 0) + prod(piece.sizes)
    for name, count in elements.items():
        if count != prod(kinds[name].shape):
            raise ArgumentError(
                f"the processes have {count:,} elements of {name}, which has {prod(kinds[name].shape):,}: call it in "
                "the group that divides it"
            )
    return {piece for piece, i in owner.items() if i == rank}


def _write(folder: Path, stem: str, pieces: list[tuple[_Piece, Tensor]]) -> list[str]:
    """Writes pieces; a file has one piece of a tensor at most. Returns the names of the files."""
    files: list[dict[str, tuple[_Piece, Tensor]]] = []
    for piece, own in pieces:
        place = next((file for file in files if piece.name not in file), None)
        if place is None:
            files.append(place := {})
        place[piece.name] = piece, own
    names = []
    for i, file in enumerate(files):
        name = f"{stem}-{i}.safetensors"
        offsets = {key: {"saved_offsets": list(piece.offsets)} for key, (piece, _) in file.items()}
        write_safetensors(
            folder / name, {key: own.contiguous() for key, (_, own) in file.items()},
            {"format": "pt", "DCP_VERSION": "1.0", SHARDING: json.dumps(offsets)},
        )  # fmt: skip
        names.append(name)
    return names


def _remove(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _commit(folder: Path, files: list[str], shapes: Mapping[str, list[int]], values: Mapping[str, Any]) -> set[str]:
    """Makes these files the checkpoint of the folder; returns those of the one before."""
    before = _files_in(folder)
    index = {"format": FORMAT, "files": files, "shapes": shapes, "values": values}
    text = json.dumps(index, indent=1, allow_nan=False)
    with open_sink(folder / MANIFEST) as file:
        file.write(text.encode())
    return set(before) - set(files)


# -- reading


@dataclass(frozen=True)
class _Manifest:
    """What checkpoint.json says: the files, the shapes of the tensors, and the values."""

    files: list[str]
    shapes: dict[str, tuple[int, ...]]
    values: dict[str, Any]


def _manifest(folder: Path) -> _Manifest:
    """FileFormatError for another file."""
    path = folder / MANIFEST
    try:
        found = parse_json(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise FileFormatError(f"is not JSON: {error!s:.100}", where=str(path)) from None
    parts = [found.get(key) for key in ("files", "shapes", "values")] if isinstance(found, dict) else [None] * 3
    files, shapes, values = parts
    known = isinstance(found, dict) and found.get("format") == FORMAT
    if not (known and isinstance(files, list) and isinstance(shapes, dict) and isinstance(values, dict)):
        raise FileFormatError(f"is not the index of a checkpoint: expected {FORMAT!r}", where=str(path))
    for name in files:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise FileFormatError(f"names {name!r:.80}, expected safetensors files beside it", where=str(path))
    for name, shape in shapes.items():
        if not isinstance(shape, list) or not all(isinstance(x, int) and 0 <= x < MOST for x in shape):
            raise FileFormatError(f"says that {name!r:.80} has the shape {shape!r:.80}", where=str(path))
    return _Manifest(files, {name: tuple(shape) for name, shape in shapes.items()}, values)


class _Stored:
    """The files of a checkpoint: where the pieces of each tensor are, each with what reads it, and the values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pieces: dict[str, list[tuple[_Piece, Callable[[], Tensor]]]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.files: list[Any] = []
        self._torch: TorchFolder | None = None
        self._values: Mapping[str, Any] = {}
        try:
            if (folder / MANIFEST).is_file():
                index = _manifest(folder)
            elif (folder / METADATA).is_file():
                self._add_torch_s(TorchFolder(folder))
                return
            else:
                index = _Manifest(sorted(path.name for path in folder.glob("*.safetensors")), {}, {})
            if not index.files and not index.values:
                raise FileFormatError(
                    "there is no checkpoint", where=str(folder),
                    hint=f"Expected a folder with {MANIFEST}, torch's {METADATA}, or safetensors",
                )  # fmt: skip
            self._values, self.shapes = index.values, dict(index.shapes)
            for name in index.files:
                self._add(folder / name, index)
        except BaseException:
            self.close()
            raise

    def has_value(self, name: str) -> bool:
        return name in (self._values if self._torch is None else self._torch.values)

    def value(self, name: str, like: Any) -> Any:
        """A value, in the form of what it replaces."""
        if self._torch is not None:
            return self._torch.value(name)
        try:
            return _loaded_value(self._values[name], like)
        except ValueError as error:
            raise FileFormatError(f"says that {name!r:.80} is {error}", where=str(self.folder / MANIFEST)) from None

    def _add_torch_s(self, found: TorchFolder) -> None:
        self._torch = found
        self.files.append(found)
        self.shapes = found.shapes
        for name, records in found.records.items():
            for record in records:
                piece = _Piece(name, "", (), record.offsets, record.sizes)
                self.pieces.setdefault(name, []).append((piece, partial(found.read, record)))

    def _add(self, path: Path, index: _Manifest) -> None:
        file = open_checkpoint(path)
        self.files.append(file)
        told = getattr(file, "metadata", {}).get(SHARDING)
        try:
            offsets = {name: entry["saved_offsets"] for name, entry in parse_json(told).items()} if told else {}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise malformed(SHARDING, error, str(path)) from None
        for name, info in file.tensors.items():
            first = offsets.get(name, [0] * len(info.shape))
            whole = self.shapes.setdefault(name, info.shape)
            if (
                not isinstance(first, list) or not len(first) == len(info.shape) == len(whole)
                or not all(isinstance(x, int) and 0 <= x < MOST for x in first)
            ):  # fmt: skip
                raise FileFormatError(f"the part of {name!r:.80} begins at {first!r:.80}", where=str(path))
            last = tuple(a + b for a, b in zip(first, info.shape, strict=True))
            if name not in index.shapes:  # as large as its parts say
                self.shapes[name] = tuple(map(max, last, whole))
            elif any(a > b for a, b in zip(last, whole, strict=True)):
                raise FileFormatError(f"a part of {name!r:.80} ends at {last}, outside {whole}", where=str(path))
            piece = _Piece(name, info.dtype, (), tuple(first), info.shape)
            self.pieces.setdefault(name, []).append((piece, partial(file.read, name)))

    def find(self, own: Tensor, wanted: _Piece) -> Callable[[], None]:
        """A function that writes a box of a tensor, whose memory is `own`. FileFormatError where the files lack a part
        of it, or have one twice."""
        found = []
        for piece, read in self.pieces[wanted.name]:
            first = tuple(map(max, piece.offsets, wanted.offsets))
            last = tuple(map(min, _ends(piece), _ends(wanted)))
            if all(a < b for a, b in zip(first, last, strict=True)):
                found.append((first, last, piece, read))
        covered = sum(prod(b - a for a, b in zip(first, last, strict=True)) for first, last, _, _ in found)
        if covered != prod(wanted.sizes) or _overlap([(first, last) for first, last, _, _ in found]):
            raise FileFormatError(
                f"the files have {covered:,} elements of a part of {wanted.name} that has {prod(wanted.sizes):,}",
                where=str(self.folder), hint="The checkpoint is not complete",
            )  # fmt: skip

        def write() -> None:
            for first, last, piece, read in found:
                source, target = read(), own
                for dim, (a, b) in enumerate(zip(first, last, strict=True)):
                    source = source.narrow(dim, a - piece.offsets[dim], b - a)
                    target = target.narrow(dim, a - wanted.offsets[dim], b - a)
                target.copy_(source.to(target.device))

        return write

    def close(self) -> None:
        for file in self.files:
            file.close()


def _ends(piece: _Piece) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(piece.offsets, piece.sizes, strict=True))


def _overlap(boxes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Whether two boxes (first, last) have an element in common. They are cut apart along one dim after the other,
    where no box crosses the cut; only boxes that no cut divides are compared each with each."""
    waiting = [boxes]
    while waiting:
        group = waiting.pop()
        for dim in range(len(group[0][0]) if len(group) > 1 else 0):
            parts = _cut(group, dim)
            if len(parts) > 1:
                waiting += parts
                break
        else:
            if any(
                all(a < d and c < b for a, b, c, d in zip(first, last, other, end, strict=True))
                for i, (first, last) in enumerate(group) for other, end in group[:i]
            ):  # fmt: skip
                return True
    return False


def _cut(boxes: list[tuple[tuple[int, ...], tuple[int, ...]]], dim: int) -> list[Any]:
    """The boxes in groups, of which each ends along a dim where the next begins, or before."""
    groups: list[Any] = []
    end = -1
    for box in sorted(boxes, key=lambda box: box[0][dim]):
        if box[0][dim] >= end or not groups:
            groups.append([])
        groups[-1].append(box)
        end = max(end, box[1][dim])
    return groups


def load(
    state_dict: MutableMapping[str, Any], *, checkpoint_id: str | os.PathLike[str],
    process_group: ProcessGroup | None = None,
) -> None:  # fmt: skip
    """Reads a checkpoint into a state, whose tensors and values it replaces: each process reads its own parts, also
    those that other numbers of processes wrote. All call it. What else the checkpoint has stays there.

    It also reads folders that torch.distributed.checkpoint has written, and other folders of safetensors files.
    Nothing is changed where a name or a part is missing, or a shape is another one.

    KeyError for names that the checkpoint lacks; ArgumentError for other shapes; FileFormatError for damaged files.
    """
    _wait_for_writing()
    ranks = _Ranks(process_group)
    with ExitStack() as files:

        def find() -> list[Callable[[], None]]:
            folder = Path(checkpoint_id)
            if not folder.is_dir():
                raise FileNotFoundError(f"there is no folder {folder}")
            named = _named(state_dict)
            stored = files.enter_context(closing(_Stored(folder)))
            _check(named, stored, folder)
            tensors = {name: value for name, (value, _) in named.items() if isinstance(value, Tensor)}
            writes = [stored.find(own, piece) for name, x in tensors.items() for piece, own in boxes(name, x)]
            values = [(put, stored.value(name, x)) for name, (x, put) in named.items() if name not in tensors]
            return [*writes, *(partial(put, value) for put, value in values)]

        def write(writes: list[Callable[[], None]]) -> None:
            with no_grad():
                for each in writes:
                    each()

        found = ranks.together("load", find)
        ranks.together("load", lambda: write(found))


def _check(named: Mapping[str, tuple[Any, Any]], stored: _Stored, folder: Path) -> None:
    absent = [
        name for name, (value, _) in named.items()
        if not (name in stored.pieces if isinstance(value, Tensor) else stored.has_value(name))
    ]  # fmt: skip
    if absent:
        shown = ", ".join(absent[:SHOWN]) + (f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else "")
        raise KeyError(f"the checkpoint {folder} has not {shown}")
    for name, (value, _) in named.items():
        if isinstance(value, Tensor):
            shape = tuple(value.shape) if value.part is None else value.part.whole_shape
            if shape != stored.shapes[name]:
                raise ArgumentError(
                    f"{name} has the shape {list(shape)}, in the checkpoint {folder} {list(stored.shapes[name])}"
                )
