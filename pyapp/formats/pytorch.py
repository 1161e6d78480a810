"""PyTorch's files (.pt, .pth, .bin), zip archives and the older stream of pickles, read lazily by byte range.

Weights only: `safe_pickle` builds tensors, NumPy's arrays and plain data, and refuses everything else by name. Of a
TorchScript program, an archive that has constants.pkl too, the weights are read; its code is not.

Source of the format: torch/serialization.py and torch/_utils.py of https://github.com/pytorch/pytorch (BSD). Zip:
PREFIX/data.pkl names the storages PREFIX/data/KEY. Older: pickles of a magic number, of the protocol (1001), of the
system, of the value and of the list of storage keys; then for each key its length (int64) and its elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NoReturn

from pyapp.dataclass import dataclass
from pyapp.engine.device import Device
from pyapp.engine.dtype import DTYPES, as_dtype
from pyapp.engine.shape import Size, contiguous_strides
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, make
from pyapp.errors import FileFormatError

from . import pickled_arrays
from .archive import Archive
from .block_rows import matrix_of_rows, tensor_of_rows
from .checkpoint import Checkpoint, TensorInfo
from .dense_tensors import read_storage
from .foreign_dtypes import read_foreign
from .row_major import as_tensor, read_strided
from .safe_pickle import OPERATIONS_LIMIT, Builder, Class, Cursor, Machine, Stateful, hashes_well, refuse
from .source import ByteSource, BytesSource

MAGIC_NUMBER, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
PICKLE_LIMIT = 64 << 20  # bytes
TENSORS_LIMIT = 1 << 17
VISITS_LIMIT, DEPTH_LIMIT, NAME_LIMIT = 3 * TENSORS_LIMIT, 64, 1000
VALUES_LIMIT = OPERATIONS_LIMIT  # of all containers: without values that occur again a pickle cannot have more
RANK_LIMIT = 64
NOTES_LIMIT = 1000  # numbers and texts beside the tensors
EXPANDED_LIMIT = 1 << 28  # bytes of a tensor that repeats its elements
BLOCKS = "pyapp blocks"  # the key of a dict that represents a block-quantised matrix
WRAPPERS = ("state_dict", "model_state_dict", "model")
HINT = "The file is damaged, or not PyTorch's: save its state_dict again, best as safetensors"

# By their names in pickles, which end in "Storage": the dtype of their elements.
STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip
_SIZES = {dtype.name: dtype.itemsize for dtype in DTYPES.values() if dtype.itemsize}
_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))
_SIZES |= dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1)


@dataclass(frozen=True, slots=True)
class _StorageType:
    dtype: str  # "" for bytes without a type


@dataclass(frozen=True, slots=True)
class _DType:
    name: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """A storage: `nbytes` bytes from byte `begin` of the storage called `key`."""

    key: str
    dtype: str
    nbytes: int
    begin: int = 0


@dataclass(frozen=True, slots=True)
class _Strided:
    """A tensor: a view of a storage; offset and strides count elements."""

    stored: _Stored
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool = False
    is_parameter: bool = False
    conjugated: bool = False  # the elements are the conjugates of what is stored
    negated: bool = False  # … its negatives


@dataclass(frozen=True, slots=True)
class _Sparse:
    """A sparse tensor: the parts by their names, indices first, and the values last."""

    layout: str
    parts: dict[str, _Strided]
    shape: tuple[int, ...]
    coalesced: bool
    requires_grad: bool = False
    is_parameter: bool = False


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A block-quantised matrix that pyapp saved (block_rows.py): its rows of bytes and the text that names its type."""

    rows: _Strided
    text: str
    dtype: str
    shape: tuple[int, int]
    is_parameter: bool


def _counts(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _tensor(stored: Any, offset: Any, shape: Any, strides: Any, dtype: str) -> _Strided:
    if type(stored) is not _Stored or not _counts((offset,)) or not _counts(shape) or not _counts(strides):
        raise ValueError("not a tensor's arguments")
    if len(shape) != len(strides) or len(shape) > RANK_LIMIT or dtype not in _SIZES:
        raise ValueError("not a tensor's shape")
    count, last = 1, offset
    for size, stride in zip(shape, strides, strict=True):
        count, last = count * size, last + (size - 1) * stride
    itemsize = _SIZES[dtype]
    if count and (last + 1) * itemsize > stored.nbytes:
        raise ValueError("the tensor reaches past its storage")
    if count * itemsize > max(stored.nbytes, EXPANDED_LIMIT):
        raise ValueError("the tensor repeats its elements too often")
    return _Strided(stored, dtype, offset, shape, strides)


def _rebuild(
    stored: Any, offset: Any, shape: Any, strides: Any, grad: Any = False, _: Any = None, notes: Any = None, *__: Any
) -> _Strided:
    found = _tensor(stored, offset, shape, strides, stored.dtype if type(stored) is _Stored else "")
    return _noted(found, grad, notes)


def _noted(found: _Strided, grad: Any, notes: Any) -> _Strided:
    """`notes`: None, or a dict in which "conj" and "neg" say what torch has left to do with the elements."""
    flags = notes if type(notes) is dict else {}
    return replace(
        found, requires_grad=grad is True, conjugated=flags.get("conj") is True, negated=flags.get("neg") is True
    )


def _rebuild_v3(
    stored: Any, offset: Any, shape: Any, strides: Any, grad: Any, _: Any, dtype: Any, notes: Any = None, *__: Any
) -> _Strided:
    found = _tensor(stored, offset, shape, strides, dtype.name if type(dtype) is _DType else "")
    return _noted(found, grad, notes)


def resolved(x: Tensor, view: _Strided) -> Tensor:
    """Stored elements as the tensor has them: conjugated, negated, or x itself."""
    x = x.conj() if view.conjugated else x
    return -x if view.negated else x


_SPARSE_PARTS = {
    "sparse_coo": ("indices", "values"), "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
}  # fmt: skip


def _layout(name: Any) -> str:
    if type(name) is not str or name.removeprefix("torch.") not in _SPARSE_PARTS:
        raise ValueError("not a layout that pyapp has")
    return name.removeprefix("torch.")


def _rebuild_sparse(layout: Any, data: Any) -> _Sparse:
    """(indices…, values, size[, whether it is coalesced])."""
    names = _SPARSE_PARTS.get(layout) if type(layout) is str else None
    if names is None or type(data) is not tuple or len(data) not in (len(names) + 1, len(names) + 2):
        raise ValueError("not a sparse tensor's arguments")
    parts, shape, rest = data[: len(names)], data[len(names)], data[len(names) + 1 :]
    if not all(type(part) is _Strided for part in parts) or not _counts(shape) or len(shape) > RANK_LIMIT:
        raise ValueError("not a sparse tensor's parts")
    return _Sparse(layout, dict(zip(names, parts, strict=True)), shape, rest[:1] == (True,))


def _parameter(data: Any, grad: Any = True, *_: Any) -> _Strided | _Sparse:
    if type(data) is _Sparse:
        return replace(data, requires_grad=grad is True, is_parameter=True)
    if type(data) is not _Strided:
        raise ValueError("not a parameter's data")
    return replace(data, requires_grad=grad is True, is_parameter=True)


def _ordered(pairs: Any = ()) -> dict[str, Any]:
    """An OrderedDict; Python 2 pickles its items as a list."""
    if type(pairs) not in (list, tuple) or not all(
        type(pair) in (list, tuple) and len(pair) == 2 and type(pair[0]) is str for pair in pairs
    ):
        raise ValueError("not pairs")
    return dict(pairs)


def _counter(counts: Any = ()) -> Counter[Any]:
    """A Counter; schedules keep their milestones in one."""
    if type(counts) not in (dict, tuple) or not all(type(key) in (int, str) and hashes_well(key) for key in counts):
        raise ValueError("not counts")
    return Counter(counts)


def _bytes(text: Any, encoding: Any) -> bytes:
    """Bytes as written by protocol 2."""
    if type(text) is not str or encoding != "latin1":
        raise ValueError("not bytes")
    return text.encode("latin1")


def _size(values: Any) -> Size:
    if not _counts(values):
        raise ValueError("not a size")
    return Size(values)


def _set(values: Any = ()) -> set[Any]:
    """A set of texts, bytes and numbers."""
    if type(values) not in (list, tuple) or not all(map(hashes_well, values)):
        raise ValueError("not plain data")
    return set(values)


def _device(kind: Any, index: Any = None) -> str:
    """A device's name."""
    if type(kind) is not str or len(kind) > 50 or type(index) not in (int, type(None)):
        raise ValueError("not a device")
    return kind if index is None else f"{kind}:{index}"


def _complex(real: Any = 0.0, imaginary: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imaginary) not in (int, float):
        raise ValueError("not two numbers")
    return complex(real, imaginary)


def _byte_array(text: Any = "", encoding: Any = "latin-1") -> bytearray:
    """A bytearray as written by protocol 2, or one of bytes."""
    if type(text) is bytes:
        return bytearray(text)
    if type(text) is not str or encoding != "latin-1":
        raise ValueError("not bytes")
    return bytearray(text.encode("latin1"))


_BUILTINS: dict[str, Callable[..., Any]] = {"set": _set, "complex": _complex, "bytearray": _byte_array}
_KNOWN: dict[str, Any] = {
    **{f"{m}.{name}": Builder(name, call) for m in ("builtins", "__builtin__") for name, call in _BUILTINS.items()},
    "collections.OrderedDict": Builder("OrderedDict", _ordered),
    "collections.Counter": Builder("Counter", _counter),
    "_codecs.encode": Builder("encode", _bytes),
    "torch._utils._rebuild_tensor": Builder("_rebuild_tensor", _rebuild),
    "torch._utils._rebuild_tensor_v2": Builder("_rebuild_tensor_v2", _rebuild),
    "torch._utils._rebuild_tensor_v3": Builder("_rebuild_tensor_v3", _rebuild_v3),
    "torch._utils._rebuild_sparse_tensor": Builder("_rebuild_sparse_tensor", _rebuild_sparse),
    "torch.serialization._get_layout": Builder("_get_layout", _layout),
    "torch._utils._rebuild_parameter": Builder("_rebuild_parameter", _parameter),
    "torch.Size": Builder("Size", _size),
    "torch.device": Builder("device", _device),
    "torch.storage.UntypedStorage": _StorageType(""),
    "torch.UntypedStorage": _StorageType(""),
    **pickled_arrays.KNOWN,
    **{f"torch.{name}": _DType(name) for name in _SIZES},
    **{f"torch{cuda}.{name}Storage": _StorageType(d) for name, d in STORAGES.items() for cuda in ("", ".cuda")},
}


class _ScriptObject(Stateful):
    """An object of a TorchScript program: the attributes that it was saved with."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}

    def set_state(self, state: Any) -> None:
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise ValueError("its attributes are not a dict of names")
        self.attributes = state


class _ScriptNames(dict[str, Any]):
    """_KNOWN, and what programs ask for: classes of their own, and lists of one type."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (type(name) is str and name.startswith("__torch__."))

    def __missing__(self, name: str) -> Class:
        return Class(name, _ScriptObject)


def _typed_list(values: Any) -> list[Any]:
    if type(values) is not list:
        raise ValueError("not a list")
    return values


def _typed(value: Any, kind: Any) -> Any:
    if type(value) not in (list, dict) or type(kind) is not str:
        raise ValueError("not a list or dict and its type")
    return value


_LISTS = ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist")
_SCRIPT_KNOWN = _ScriptNames(
    _KNOWN
    | {f"torch.jit._pickle.{name}": Builder(name, _typed_list) for name in _LISTS}
    | {"torch.jit._pickle.restore_type_tag": Builder("restore_type_tag", _typed)}
)


def _persistent(source: ByteSource, found: dict[str, int]) -> Callable[[Any], _Stored | Class]:
    """A function that makes storages of ('storage', type, key, location, count of elements[, (view key, offset,
    count)]); `found` collects their sizes in bytes. Older files of whole models have ('module', class, file, source)
    too, which is the class.
    """

    def make(value: Any) -> _Stored | Class:
        if type(value) is tuple and len(value) == 4 and value[0] == "module" and isinstance(value[1], Class):
            return value[1]
        fits = type(value) is tuple and len(value) in (5, 6) and value[0] == "storage"
        if not fits or type(value[1]) is not _StorageType or type(value[2]) is not str or not _counts((value[4],)):
            refuse("the pickle names a storage in a way that PyTorch does not", source)
        itemsize = _SIZES.get(value[1].dtype, 1)
        nbytes = value[4] * itemsize
        if found.setdefault(value[2], nbytes) != nbytes:
            refuse(f"the storage {value[2][:50]!r} has two sizes", source)
        stored = _Stored(value[2], value[1].dtype, nbytes)
        view = value[5] if len(value) == 6 else None
        if view is None:
            return stored
        if type(view) is not tuple or len(view) != 3 or not _counts(view[1:]) or view[1] + view[2] > value[4]:
            refuse(f"a view of the storage {value[2][:50]!r} reaches past its end", source)
        return _Stored(value[2], value[1].dtype, view[2] * itemsize, view[1] * itemsize)

    return make


class PyTorchFile(Checkpoint):
    """A torch.save file, or the weights of a TorchScript program. Nested containers are flattened to dotted names. If
    the value wraps a model ("state_dict", "model_state_dict" or "model", with no tensor beside it), only the model's
    tensors are listed; the numbers and texts beside it are `metadata`.

    Block-quantised matrices that pyapp saved are tensors of their type; the parts of a sparse tensor are tensors. A
    single tensor is called "tensor". NumPy's arrays of numbers are tensors too, its scalars numbers. Tensors that share
    a storage are read separately; those with a storage of their own are mapped, if they are dense and not compressed.
    """

    known: Mapping[str, Any] = _KNOWN  # what a pickle may ask for

    def __init__(self, source: ByteSource, archive: Archive | None = None) -> None:
        super().__init__(source)
        self._views: dict[str, _Strided] = {}
        self._users: Counter[str] = Counter()  # how many tensors a storage has
        self._matrices: dict[str, _Blocks] = {}
        value = self._unwrap(self._open(archive))
        self._visits = self._values = 0
        is_container = type(value) in (list, tuple) or (type(value) is dict and BLOCKS not in value)
        self._flatten("" if is_container else "tensor", value, 0)
        if not self._views:
            self._broken("there is no tensor in the file")

    def _broken(self, what: str) -> NoReturn:
        raise FileFormatError(what, where=self.source.name, hint=HINT)

    def _open(self, archive: Archive | None) -> Any:
        """The value, with the places of its tensors in the file."""
        source = self.source
        self._places: dict[str, tuple[ByteSource, int]] = {}  # places of storages: source, first byte
        self._versions: dict[int, tuple[Any, Any]] = {}  # of state_dicts: see Machine
        zipped = archive is not None or bytes(source.read(0, min(4, source.size)))[:2] == b"PK"
        self.format = "pytorch" if zipped else "pytorch (legacy)"
        return self._open_zip(archive or Archive(source)) if zipped else self._open_stream()

    def _open_zip(self, archive: Archive) -> Any:
        pickles = [name for name in archive.names if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            self._broken(f"the zip archive has {len(pickles)} members called data.pkl, expected one")
        prefix = pickles[0][: -len("data.pkl")]
        is_program = f"{prefix}constants.pkl" in archive
        order = archive.open(f"{prefix}byteorder") if f"{prefix}byteorder" in archive else None
        if order and bytes(order.read(0, min(order.size, 10))) != b"little":
            self._broken("the file was saved on a big-endian machine")
        member = archive.open(pickles[0])
        if member.size > PICKLE_LIMIT:
            self._broken(f"its pickle has {member.size:,} bytes, expected at most {PICKLE_LIMIT:,}")
        text = BytesSource(member.read(0, member.size), self.source.name)
        sizes: dict[str, int] = {}
        known = _SCRIPT_KNOWN if is_program else self.known
        make = _persistent(self.source, sizes)
        value = Machine(Cursor(text, 0, text.size), known, make, self._versions, self.source.size).run()
        if is_program:
            self.format = "torchscript"
            value = self._weights_of(value)
        for key, nbytes in sizes.items():
            name = f"{prefix}data/{key}"
            if name not in archive or archive.size(name) != nbytes:
                size = archive.size(name) if name in archive else 0
                self._broken(f"the storage {key[:50]!r} needs {nbytes:,} bytes, the archive has {size:,}")
            self._places[key] = archive.open(name), 0
        return value

    def _weights_of(self, program: Any) -> dict[str, _Strided]:
        """The tensors of a TorchScript program by the names that its state_dict has. Those of attributes that are no
        parameters or buffers are among them: only the program's code tells them apart.
        """
        found: dict[str, _Strided] = {}
        waiting, visits = [("", program, 0)], 1
        while waiting:
            name, value, depth = waiting.pop()
            if depth > DEPTH_LIMIT or visits > VISITS_LIMIT or len(name) > NAME_LIMIT:
                self._broken("its objects are nested too deeply, hold themselves, or have too many or too long names")
            if type(value) is _Strided:
                if name in found:
                    self._broken(f"two tensors are called {name[:100]!r}")
                found[name] = value
            elif type(value) in (_ScriptObject, dict, list, tuple):
                inner = value.attributes if type(value) is _ScriptObject else value
                visits += len(inner)
                pairs = inner.items() if type(inner) is dict else enumerate(inner)
                if visits <= VISITS_LIMIT:  # counted before they are listed: they may be the same ones each time
                    parts = [(f"{name}.{key}" if name else str(key), part, depth + 1) for key, part in pairs]
                    waiting += reversed(parts)
        if not found:
            raise FileFormatError(
                "this is a TorchScript program without weights of its own: they are constants of its code",
                where=self.source.name, hint="Save it before torch.jit.freeze, or export the model to ONNX",
            )  # fmt: skip
        return found

    def _open_stream(self) -> Any:
        cursor = Cursor(self.source, 0, self.source.size)
        sizes: dict[str, int] = {}
        make = _persistent(self.source, sizes)

        def load() -> Any:
            cursor.end = min(self.source.size, cursor.at + PICKLE_LIMIT)
            return Machine(cursor, self.known, make, self._versions, self.source.size).run()

        if load() != MAGIC_NUMBER or load() != PROTOCOL:
            self._broken("the file begins like PyTorch's, but has another magic number or protocol")
        system = load()
        if type(system) is not dict or system.get("little_endian") is not True:
            self._broken("the file was saved on a big-endian machine")
        value, keys = load(), load()
        if type(keys) is not list or not all(type(key) is str for key in keys) or sorted(keys) != sorted(sizes):
            self._broken("the list of storages is not that of the tensors")
        at = cursor.at
        for key in keys:
            nbytes = sizes[key]
            if at + 8 + nbytes > self.source.size:
                missing = at + 8 + nbytes - self.source.size
                self._broken(f"the file is truncated: {missing:,} bytes of the storage {key[:50]!r} are missing")
            count = int.from_bytes(self.source.read(at, 8), "little")
            if nbytes and (not count or nbytes % count or nbytes // count not in (1, 2, 4, 8, 16)):
                self._broken(f"the storage {key[:50]!r} has {count:,} elements in {nbytes:,} bytes")
            self._places[key] = self.source, at + 8
            at += 8 + nbytes
        if at != self.source.size:
            self._broken(f"the file is too long: {self.source.size - at:,} bytes belong to no storage")
        return value

    def _blocks(self, value: dict[Any, Any]) -> _Blocks:
        """The matrix that a dict with the key BLOCKS represents."""
        text, rows, is_parameter = (value.get(key) for key in (BLOCKS, "rows", "parameter"))
        if len(value) != 3 or type(text) is not str or type(rows) is not _Strided or type(is_parameter) is not bool:
            self._broken(f"a dict with the key {BLOCKS!r} is not as pyapp writes it")
        if rows.dtype != "uint8" or len(rows.shape) != 2 or rows.strides != contiguous_strides(rows.shape):
            self._broken(f"the rows of blocks are {rows.dtype} {rows.shape}, expected a matrix of uint8")
        try:
            found = matrix_of_rows(text, rows.shape[1])
        except ValueError as error:
            self._broken(str(error))
        if found is None:
            self._broken(f"the type of blocks {text[:50]!r} is not known")
        return _Blocks(rows, text, found[0], (rows.shape[0], found[1]), is_parameter)

    def _read_matrix(self, name: str, blocks: _Blocks, data: Any, finite: bool) -> Tensor:
        if not blocks.rows.shape[0] or not blocks.shape[1]:
            self._broken(f"the matrix of blocks {name[:100]!r} is empty")
        rows = blocks.rows.shape[0], blocks.rows.shape[1]
        return tensor_of_rows(data, blocks.text, rows, name, finite, self.source.name)

    def _unwrap(self, value: Any) -> Any:
        if type(value) is not dict or any(type(inner) is _Strided for inner in value.values()):
            return value
        for wrapper in WRAPPERS:
            if type(value.get(wrapper)) is dict:
                self._note("", {key: inner for key, inner in value.items() if key != wrapper})
                return value[wrapper]
        return value

    def _note(self, prefix: str, values: dict[Any, Any]) -> None:
        """Adds numbers and texts beside the tensors, and in dicts beside them (dims.n_mels), to the metadata."""
        for key, inner in values.items():
            if type(key) is not str or len(prefix + key) > NAME_LIMIT or len(self.metadata) >= NOTES_LIMIT:
                continue
            if type(inner) in (str, int, float, bool):
                self.metadata[prefix + key] = str(inner)[:NAME_LIMIT]
            elif type(inner) is dict and not prefix:
                self._note(f"{key}.", inner)

    def _flatten(self, name: str, value: Any, depth: int) -> None:
        self._visits += 1
        if depth > DEPTH_LIMIT or self._visits > VISITS_LIMIT or len(name) > NAME_LIMIT:
            self._broken("its containers are nested too deeply, hold themselves, or have too many or too long names")
        if type(value) is pickled_arrays.PickledArray:
            if not value.dtype:
                return  # of objects, strings or records
            value = self._of_array(value)
        if type(value) is _Sparse:
            value = value.parts
        matrix = self._blocks(value) if type(value) is dict and BLOCKS in value else None
        if matrix is not None:
            self._matrices[name], value = matrix, matrix.rows
        if type(value) is _Strided:
            if name in self._views or len(self._views) >= TENSORS_LIMIT:
                self._broken(f"two tensors are called {name[:100]!r}, or there are more than {TENSORS_LIMIT:,}")
            count = 1
            for size in value.shape:
                count *= size
            self._views[name] = value
            self._users[value.stored.key] += 1
            dtype, shape = (value.dtype, value.shape) if matrix is None else (matrix.dtype, matrix.shape)
            self.tensors[name] = TensorInfo(name, dtype, shape, count * _SIZES[value.dtype])
        elif type(value) in (dict, list, tuple):
            self._values += len(value)
            if self._values > VALUES_LIMIT:
                self._broken(f"its containers hold more than {VALUES_LIMIT:,} values")
            for key, inner in value.items() if type(value) is dict else enumerate(value):
                if type(inner) not in _PLAIN:  # a training's losses are many numbers
                    self._flatten(f"{name}.{key}" if name else str(key), inner, depth + 1)

    def _of_array(self, array: pickled_arrays.PickledArray) -> _Strided:
        """A NumPy array as a tensor over its bytes in the pickle."""
        key = f"numpy {len(self._places)}"
        self._places[key] = BytesSource(array.data, self.source.name), 0
        reverse = tuple(reversed(contiguous_strides(tuple(reversed(array.shape)))))
        strides = reverse if array.fortran else contiguous_strides(array.shape)
        return _Strided(_Stored(key, array.dtype, len(array.data)), array.dtype, 0, array.shape, strides)

    def _storage(self, name: str) -> Storage:
        view = self._views[name]
        source, begin = self._places[view.stored.key]
        itemsize = _SIZES[view.dtype]
        at = begin + view.stored.begin + view.offset * itemsize
        if view.conjugated or view.negated:
            return self._computed(read_strided(source, at, view.shape, view.strides, itemsize), view)
        if self._users[view.stored.key] == 1 and view.strides == contiguous_strides(view.shape):
            return read_storage(source, at, prod(view.shape) * itemsize, itemsize)
        return read_strided(source, at, view.shape, view.strides, itemsize)

    def _computed(self, storage: Storage, view: _Strided) -> Storage:
        """What torch has left to compute of row-major elements."""
        tensor = make(storage, view.shape, contiguous_strides(view.shape), as_dtype(view.dtype))
        return resolved(tensor, view).contiguous()._storage if prod(view.shape) else storage

    def _place(self, name: str) -> tuple[ByteSource, int, int] | None:
        view = self._views[name]
        if view.strides != contiguous_strides(view.shape) or view.conjugated or view.negated:
            return None
        source, begin = self._places[view.stored.key]
        return source, begin + view.stored.begin + view.offset * _SIZES[view.dtype], self.tensors[name].nbytes

    def read_bytes(self, name: str) -> bytes | memoryview:
        storage = self._storage(name)
        return bytes(storage.bytes_view()) if storage.nbytes else b""

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        if info.name in self._matrices:
            tensor = self._read_matrix(info.name, self._matrices[info.name], self.read_bytes(info.name), finite)
            return tensor if device is None else tensor.to(device)
        if info.dtype not in DTYPES:
            return read_foreign(self.read_bytes(info.name), info, finite, device, self.source.name)
        return as_tensor(self._storage(info.name), info, finite, device, self.source.name)
