"""save and load of values with tensors in them, by torch's names and in its format: a zip archive of a pickle and of
the storages (`pytorch` reads it; source of the format there).

What is written, torch.load reads with weights_only=True. What is read is plain data and tensors, never programs.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections import Counter
from typing import IO, Any

from pyapp.engine.dtype import DTYPES, as_dtype
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, check_device, make
from pyapp.errors import FileFormatError

from .pickle_writer import PickleWriter
from .pytorch import DEPTH_LIMIT, VISITS_LIMIT, PyTorchFile, _DType, _Strided
from .sink import AnySink, open_sink
from .source import AnySource, BytesSource, close_source, open_source, read_into

ALIGNMENT = 64  # of storages in the file, so that they can be mapped


def save(obj: Any, f: AnySink, *_: Any, **__: Any) -> None:
    """Writes numbers, texts, tensors, and dicts, lists and tuples of them (state_dict() of modules, optimizers and
    schedules) to a path, which appears complete or not at all, or into an open file. Tensors that share memory share
    it in the file, strides are kept.

    TypeError for anything else, ValueError for block-quantised tensors.
    """
    writer = PickleWriter()
    pickle = writer.write(obj)
    name = os.path.splitext(os.path.basename(os.fspath(f)))[0] if isinstance(f, (str, os.PathLike)) else "archive"
    with open_sink(f) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{name}/data.pkl", pickle)
        _write(archive, f"{name}/.format_version", b"1")
        _write(archive, f"{name}/.storage_alignment", str(ALIGNMENT).encode())
        _write(archive, f"{name}/byteorder", b"little")
        for key, storage in enumerate(writer.storages):
            _write(archive, f"{name}/data/{key}", storage.bytes_view() if storage.nbytes else b"")
        _write(archive, f"{name}/version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """One member; its bytes begin at a multiple of 64, after an extra field that fills up."""
    info = zipfile.ZipInfo(name)
    begin = archive.start_dir + 30 + len(name.encode()) + 4
    info.extra = struct.pack("<2sH", b"FB", -begin % ALIGNMENT) + bytes(-begin % ALIGNMENT)
    info.file_size = len(data)
    with archive.open(info, "w") as member:
        member.write(data)


class _Saved(PyTorchFile):
    """A file as the value that was saved."""

    def __init__(self, source: Any) -> None:
        super(PyTorchFile, self).__init__(source)
        self.value = self._open(None)
        self._visits = 0
        self._made: dict[int, Any] = {}  # containers and tensors by the id of what stands for them in `value`
        self._storages: dict[str, Storage] = {}

    def build(self, value: Any, depth: int = 0) -> Any:
        """The value with tensors in it: what is there twice is there twice again."""
        self._visits += 1
        if depth > DEPTH_LIMIT or self._visits > VISITS_LIMIT:
            self._broken("its containers are nested too deeply, or hold too much")
        if type(value) is _DType:
            return as_dtype(value.name)
        if type(value) not in (_Strided, dict, list, tuple, Counter):
            return value
        known = self._made.get(id(value))
        if known is not None:
            return known
        if type(value) in (_Strided, tuple, Counter):
            made: Any = value
            if type(value) is _Strided:
                made = self._tensor(value)
            elif type(value) is tuple:
                made = tuple(self.build(inner, depth + 1) for inner in value)
            self._made[id(value)] = made
            return made
        made = self._made[id(value)] = type(value)()
        if type(value) is dict:
            made.update((key, self.build(inner, depth + 1)) for key, inner in value.items())
        else:
            made.extend(self.build(inner, depth + 1) for inner in value)
        return made

    def _tensor(self, value: _Strided) -> Tensor:
        if value.dtype not in DTYPES:
            raise FileFormatError(
                f"it holds a tensor of {value.dtype}, which pyapp cannot compute with", where=self.source.name,
                hint="Convert it to float32, float16 or bfloat16 before it is saved",
            )  # fmt: skip
        place = f"{value.stored.key} {value.stored.begin}"
        storage = self._storages.get(place)
        if storage is None:
            source, begin = self._places[value.stored.key]
            storage = self._storages[place] = Storage(value.stored.nbytes)
            if storage.nbytes:
                read_into(source, begin + value.stored.begin, storage.bytes_view())
        tensor = make(storage, value.shape, value.strides, as_dtype(value.dtype), value.offset)
        tensor.is_parameter = value.is_parameter
        return tensor.requires_grad_(value.requires_grad)


def load(f: AnySource | IO[bytes], map_location: Any = None, *_: Any, weights_only: bool = True, **__: Any) -> Any:
    """Reads what save() or torch.save wrote, from a path, bytes or an open file: numbers, texts, containers and
    tensors, which share memory as they did. `map_location` may name the CPU, where all tensors go in any case.

    Programs in the file are never run, with `weights_only=False` neither: FileFormatError names what it asks for.
    """
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        check_device(map_location)
    taken: Any = f
    if callable(getattr(f, "read", None)) and not hasattr(f, "size"):  # an open file, not a ByteSource
        taken = BytesSource(taken.read(), str(getattr(f, "name", "<file>")))
    source = open_source(taken)
    try:
        saved = _Saved(source)
        return saved.build(saved.value)
    finally:
        if source is not taken:
            close_source(source)
