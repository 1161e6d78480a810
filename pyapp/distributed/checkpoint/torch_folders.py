"""Checkpoints of torch.distributed.checkpoint: `.metadata`, a pickle that says which record has which part of a tensor,
and files `__RANK_N.distcp` of such records, each a file of torch.save.

Source of the format: torch/distributed/checkpoint/{metadata,filesystem}.py of https://github.com/pytorch/pytorch (BSD).
No code in the files is run: safe_pickle builds tensors and plain data, and keeps other objects' attributes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from pyapp.dataclass import dataclass

from ...engine import Tensor
from ...errors import FileFormatError
from ...formats.pytorch import PICKLE_LIMIT, PyTorchFile
from ...formats.pytorch_objects import AnyName, InertObject
from ...formats.safe_pickle import Cursor, Machine
from ...formats.source import BytesSource, FileSource, PartSource
from ...formats.torch_files import load

METADATA = ".metadata"
MOST = 1 << 62  # elements, bytes
_KNOWN = {"torch.Size": PyTorchFile.known["torch.Size"]}  # everything else is an object without a meaning here


class _Machine(Machine):
    """Its dicts may have objects as keys, which are compared by their identity."""

    def key(self, key: Any) -> Any:
        return key if type(key) is InertObject else super().key(key)


@dataclass(frozen=True)
class Record:
    """A part of a tensor, from `offsets` on, of `sizes`, or a value: `length` bytes of a file from `start` on."""

    file: str
    start: int
    length: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class TorchFolder:
    """A folder of torch's: `shapes` and `records` by the tensors' names, `values` by the names of what is no tensor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, FileSource] = {}
        path = folder / METADATA
        if path.stat().st_size > PICKLE_LIMIT:
            self._broken(f"{METADATA} has {path.stat().st_size:,} bytes, expected at most {PICKLE_LIMIT:,}")
        text = BytesSource(path.read_bytes(), str(path))
        found = _Machine(Cursor(text, 0, text.size), AnyName(_KNOWN), self._refuse, file_bytes=text.size).run()
        described = self._attribute(found, "state_dict_metadata", dict)
        stored = self._attribute(found, "storage_data", dict)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.records: dict[str, list[Record]] = {}
        self.values: dict[str, Record] = {}
        sizes: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
        for name, entry in described.items():
            if type(name) is str and type(entry) is InertObject and "chunks" in entry.attributes:
                self.shapes[name] = self._counts(entry.attributes.get("size"), name)
                for chunk in self._attribute(entry, "chunks", list):
                    offsets = self._counts(self._attribute(chunk, "offsets", tuple), name)
                    sizes[name, offsets] = self._counts(self._attribute(chunk, "sizes", tuple), name)
        for index, place in stored.items():
            self._add(index, place, sizes)

    def _broken(self, what: str) -> NoReturn:
        raise FileFormatError(what, where=str(self.folder), hint="The checkpoint is damaged, or not torch's")

    def _refuse(self, value: Any) -> NoReturn:
        self._broken(f"{METADATA} has a persistent id")

    def _attribute(self, value: Any, name: str, kind: type) -> Any:
        found = value.attributes.get(name) if type(value) is InertObject else None
        if not isinstance(found, kind):
            self._broken(f"{METADATA} has no {name}")
        return found

    def _counts(self, values: Any, name: str) -> tuple[int, ...]:
        if not isinstance(values, tuple) or not all(type(x) is int and 0 <= x < MOST for x in values):
            self._broken(f"{METADATA}: {name!r:.80} has the sizes {values!r:.80}")
        return tuple(values)

    def _add(self, index: Any, place: Any, sizes: dict[tuple[str, tuple[int, ...]], tuple[int, ...]]) -> None:
        name = self._attribute(index, "fqn", str)
        file = self._attribute(place, "relative_path", str)
        start, length = (self._attribute(place, key, int) for key in ("offset", "length"))
        if Path(file).name != file or not (0 <= start < MOST and 0 <= length < MOST):
            self._broken(f"{METADATA}: {name!r:.80} is in {file!r:.80} at {start}, {length} bytes")
        if name not in self.shapes:
            self.values[name] = Record(file, start, length, (), ())
            return
        shape = self.shapes[name]
        given = index.attributes.get("offset")
        offsets = (0,) * len(shape) if given is None else self._counts(given, name)
        found = sizes.get((name, offsets))
        if found is None or len(found) != len(shape) or any(map(_outside, offsets, found, shape)):
            self._broken(f"{METADATA}: the part of {name!r:.80} at {offsets} is not in its shape {shape}")
        self.records.setdefault(name, []).append(Record(file, start, length, offsets, found))

    def _source(self, record: Record) -> PartSource:
        file = self._files.get(record.file)
        if file is None:
            file = self._files[record.file] = FileSource(self.folder / record.file)
        if record.start + record.length > file.size:
            self._broken(f"{record.file} has {file.size:,} bytes, {record.start + record.length:,} are needed")
        return PartSource(file, record.start, record.length)

    def read(self, record: Record) -> Tensor:
        """The part of a tensor."""
        file = PyTorchFile(self._source(record))
        infos = list(file.tensors.values())
        if len(infos) != 1 or infos[0].shape != record.sizes:
            self._broken(f"{record.file}: a record is not one tensor of the shape {record.sizes}")
        return file.read(infos[0].name)

    def value(self, name: str) -> Any:
        """What is no tensor."""
        return load(self._source(self.values[name]))

    def close(self) -> None:
        """Closes the files."""
        for file in self._files.values():
            file.close()


def _outside(first: int, count: int, size: int) -> bool:
    return first + count > size
