"""`save` and `load`, as torch's: a zip archive of a pickle and of the storages (source of the format: pytorch.py).

torch.load reads these files with weights_only=True. `load` builds plain data and tensors, and never runs code.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections import Counter, OrderedDict
from typing import IO, Any

from pyapp.engine import ops
from pyapp.engine.device import Device, cpu
from pyapp.engine.dtype import DTYPES, as_dtype
from pyapp.engine.lazy import np
from pyapp.engine.shape import Size
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, check_device, make
from pyapp.errors import FileFormatError, OperationError

from .opening import open_checkpoint, sniff
from .pickle_writer import PickleWriter
from .pickled_arrays import PickledArray, PickledDType
from .pytorch import BLOCKS, DEPTH_LIMIT, PyTorchFile, _DType, _Sparse, _Strided, resolved
from .sink import AnySink, open_sink
from .source import AnySource, ByteSource, BytesSource, FileSource, opened_source, read_into

PIECE = 1 << 20  # bytes read at a time
DIFFERENTIABLE = frozenset(("float32", "float64", "float16", "bfloat16", "complex64", "complex128"))
ALIGNMENT = 64  # alignment of storages in the file, so that they can be mapped


def save(obj: Any, f: AnySink, *_: Any, **__: Any) -> None:
    """Writes numbers, texts, tensors, and dicts, lists and tuples of them (state_dict() of modules, optimizers and
    schedules) to a path, which appears complete or not at all, or into an open file. Tensors that share memory share
    it in the file, strides are kept.

    A block-quantised tensor is written as a dict of its type's name and its rows as uint8 (block_rows.py): `load`
    returns the tensor, torch.load the dict. TypeError for other values.
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
            _write(archive, f"{name}/data/{key}", _bytes_of(storage))
        _write(archive, f"{name}/version", b"3\n")


def _bytes_of(storage: Storage) -> Any:
    """All bytes of a storage, without a copy if they are in host memory."""
    if not storage.nbytes:
        return b""
    return storage.bytes_view() if storage.device.backend.host_visible else storage.read()


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Writes one member; an extra field pads its header so that its bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(name)
    begin = archive.start_dir + 30 + len(name.encode()) + 4
    info.extra = struct.pack("<2sH", b"FB", -begin % ALIGNMENT) + bytes(-begin % ALIGNMENT)
    info.file_size = len(data)
    with archive.open(info, "w") as member:
        member.write(data)


class _Saved(PyTorchFile):
    """Builds the value that was saved in a file, with its tensors on `device`."""

    def __init__(self, source: Any, device: Device) -> None:
        super(PyTorchFile, self).__init__(source)
        self._device = device
        self.value = self._open(None)
        self._made: dict[int, Any] = {}  # containers and tensors, by the id of their representation in `value`
        self._storages: dict[str, Storage] = {}

    def build(self, value: Any, depth: int = 0) -> Any:
        """The value with its tensors. An object that occurs twice is built once and shared."""
        if depth > DEPTH_LIMIT:  # how much there is, the operations of the pickle have limited
            self._broken("its containers are nested too deeply")
        if type(value) is _DType:
            return as_dtype(value.name)
        if type(value) not in (_Strided, _Sparse, PickledArray, dict, list, tuple, Counter):
            return self._plain(value)
        known = self._made.get(id(value))
        if known is not None:
            return known
        is_matrix = type(value) is dict and BLOCKS in value
        if is_matrix or type(value) in (_Strided, _Sparse, PickledArray, tuple, Counter):
            made: Any = value
            if is_matrix:
                made = self._matrix(value)
            elif type(value) is _Strided:
                made = self._tensor(value)
            elif type(value) is _Sparse:
                made = self._sparse(value)
            elif type(value) is PickledArray:
                made = self._array(value)
            elif type(value) is tuple:
                made = tuple(self.build(inner, depth + 1) for inner in value)
            self._made[id(value)] = made
            return made
        _, versions = self._versions.get(id(value), (None, None))
        made = self._made[id(value)] = type(value)() if versions is None else OrderedDict()
        if versions is not None:
            made._metadata = OrderedDict(self._plain_dict(versions, depth + 1))
        if type(value) is dict:
            made.update((key, self.build(inner, depth + 1)) for key, inner in value.items())
        else:
            made.extend(self.build(inner, depth + 1) for inner in value)
        return made

    def _plain_dict(self, value: Any, depth: int) -> dict[Any, Any]:
        if type(value) is not dict:
            self._broken("the versions of a state are not in a dict")
        found: dict[Any, Any] = self.build(value, depth)
        return found

    def _plain(self, value: Any) -> Any:
        """A number, a text or bytes. FileFormatError for names of classes and functions."""
        if value is None or type(value) in (bool, int, float, complex, str, bytes, bytearray, set, Size):
            return value
        if type(value) is PickledDType and value.name:
            return np.dtype(value.name)
        what = getattr(value, "name", None) or type(value).__name__.lstrip("_")
        self._broken(f"it holds {str(what)[:50]!r}, which is neither a tensor nor plain data")

    def _array(self, value: PickledArray) -> Any:
        """A NumPy array, as it was saved."""
        if not value.dtype:
            self._broken("it holds an array of objects, strings or records")
        order: Any = "F" if value.fortran else "C"
        return np.frombuffer(value.data, value.dtype).reshape(value.shape, order=order).copy(order)

    def _matrix(self, value: dict[Any, Any]) -> Tensor:
        blocks = self._blocks(value)
        rows = self._tensor(blocks.rows)
        data = rows._storage.read(rows.offset, rows.numel())
        tensor = self._read_matrix("tensor", blocks, data, False).to(self._device)
        tensor.is_parameter = blocks.is_parameter
        return tensor

    def _sparse(self, value: _Sparse) -> Tensor:
        parts = [self.build(part) for part in value.parts.values()]
        if any(part.dtype.category != 1 for part in parts[:-1]):
            self._broken("a sparse tensor has indices that are not integers")
        make = ops.declared(f"{value.layout}_tensor").public
        flags = {"is_coalesced": value.coalesced} if value.layout == "sparse_coo" else {}
        try:
            tensor: Tensor = make(*parts, value.shape, **flags, check_invariants=True)
            tensor.is_parameter = value.is_parameter
            return tensor.requires_grad_(value.requires_grad)
        except OperationError as error:
            self._broken(f"a sparse tensor does not fit together: {error.what}")

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
            storage = self._storages[place] = Storage(value.stored.nbytes, self._device)
            for at in range(0, storage.nbytes, PIECE):
                count = min(PIECE, storage.nbytes - at)
                if self._device is cpu:
                    read_into(source, begin + value.stored.begin + at, storage.bytes_view()[at : at + count])
                else:
                    storage.write(at, source.read(begin + value.stored.begin + at, count))
        if value.requires_grad and value.dtype not in DIFFERENTIABLE:
            self._broken(f"it says that a tensor of {value.dtype} requires a gradient")
        tensor = resolved(make(storage, value.shape, value.strides, as_dtype(value.dtype), value.offset), value)
        tensor.is_parameter = value.is_parameter
        return tensor.requires_grad_(value.requires_grad)


def load(f: AnySource | IO[bytes], map_location: Any = None, *_: Any, weights_only: bool = True, **__: Any) -> Any:
    """Reads a file of save() or torch.save from a path, bytes or an open file: numbers, texts, containers, NumPy
    arrays, and tensors, which share memory as they did when saved. Tensors are placed on the device `map_location`, by
    default on the CPU. Other files of tensors (safetensors, GGUF, npz …) give a dict of tensors by name.

    Code in the file is never run, not even with `weights_only=False`: FileFormatError names the function.
    """
    named = map_location is not None and not callable(map_location) and not isinstance(map_location, dict)
    device = check_device(map_location) if named else cpu
    taken: Any = f
    if callable(getattr(f, "read", None)) and (hasattr(f, "seek") or not hasattr(f, "size")):
        # an open file, not a ByteSource
        taken = BytesSource(taken.read(), str(getattr(f, "name", "<file>")))
    with opened_source(taken) as source:
        if (kind := sniff(source)) != "pytorch":
            return _load_tensors(source, kind, device)
        saved = _Saved(source, device)
        return saved.build(saved.value)


def _load_tensors(source: ByteSource, kind: str, device: Device) -> dict[str, Tensor]:
    """The tensors of a file of another format by name. FileFormatError for an .npz whose arrays are not numbers."""
    if kind == "index.json" and not isinstance(source, FileSource):
        raise FileFormatError("this is an index of shards", where=source.name, hint="Give its path, or each shard")
    checkpoint = open_checkpoint(source)
    try:
        return {name: checkpoint.read(name, device=device) for name in checkpoint.tensors}
    finally:
        if isinstance(source, FileSource):
            checkpoint.close()  # the shards, too


__top_level__ = ["load", "save"]
