"""NumPy's .npy and .npz files, read lazily by byte range without NumPy, and written as NumPy writes them.

Source of the format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. "\\x93NUMPY", a version
(1, 2 or 3), the header's length as uint16 (version 1) or uint32, the header: a Python literal of a dict with descr
(type and byte order), fortran_order and shape; then the elements. An .npz file is a zip archive of NAME.npy.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from pyapp.dataclass import dataclass
from pyapp.engine.device import Device
from pyapp.engine.dtype import DTYPES
from pyapp.engine.lazy import np
from pyapp.engine.shape import contiguous_strides
from pyapp.engine.storage import Storage
from pyapp.engine.tensor import Tensor, adopt_array, empty_contiguous
from pyapp.errors import FileFormatError

from .archive import Archive, Member
from .checkpoint import Checkpoint, TensorInfo, require_size
from .row_major import as_tensor, read_strided, swap_bytes
from .sink import AnySink, in_order, open_sink, plain
from .source import ByteSource, FileSource

MAGIC = b"\x93NUMPY"
HEADER_LIMIT = 1 << 16  # bytes; NumPy's own limit is 10,000
RANK_LIMIT = 64
SIZE_LIMIT = 1 << 62
HINT = "The file is damaged, or not NumPy's: save it again, or download it again"
SINGLE = "array"  # the name of the only array of an .npy file

# NumPy's codes of dtypes, without the byte order: a letter, and the bytes of an element.
DTYPE_CODES = {
    "b1": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
    "u8": "uint64", "i8": "int64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip
_KINDS = {"O": "object", "U": "str", "S": "bytes", "a": "bytes", "V": "void", "M": "datetime64", "m": "timedelta64"}
_DESCRS = {name: ("|" if code[1:] == "1" else "<") + code for code, name in DTYPE_CODES.items()}
_FIELD = re.compile(
    r"\s*'(descr|fortran_order|shape)'\s*:\s*('[^'\\]{1,50}'|True|False|\((?:\s*\d{1,20}L?\s*(?:,|(?=\))))*\s*\))\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of an array in its file: its elements begin at byte `begin`. `itemsize` is 0 for elements without a
    dtype.
    """

    dtype: str
    shape: tuple[int, ...]
    fortran: bool
    big_endian: bool
    itemsize: int
    begin: int


def _broken(what: str, where: str) -> NoReturn:
    raise FileFormatError(what, where=where, hint=HINT)


def read_layout(source: ByteSource) -> _Layout:
    """The layout of an .npy file from its header. FileFormatError unless the file has exactly the bytes of
    its shape.
    """
    head = bytes(source.read(0, min(source.size, 256)))
    if len(head) < 12 or head[:6] != MAGIC:
        _broken("this is not an .npy file, or its header is truncated", source.name)
    if head[6] not in (1, 2, 3):
        _broken(f"the .npy version is {head[6]}.{head[7]}, expected 1, 2 or 3", source.name)
    start = 10 if head[6] == 1 else 12
    length = int.from_bytes(head[8:start], "little")
    if length > HEADER_LIMIT or start + length > source.size:
        _broken(f"the .npy header's length is {length:,} bytes, {source.size - start:,} are there", source.name)
    raw = head[start : start + length] if start + length <= len(head) else bytes(source.read(start, length))
    return _layout(raw.decode("latin-1"), start + length, source)


def _layout(text: str, begin: int, source: ByteSource) -> _Layout:
    fields = _fields(text, source.name)
    descr = fields["descr"][1:-1]
    shape = tuple(int(size.rstrip("L")) for size in re.findall(r"\d+L?", fields["shape"]))
    count = 1
    for size in shape:
        count *= size
    if len(shape) > RANK_LIMIT or count > SIZE_LIMIT or max(shape, default=0) > SIZE_LIMIT:
        _broken(f"the shape {str(shape)[:100]} is more than any array has", source.name)
    code = descr.lstrip("<>|=")
    fortran = fields["fortran_order"] == "True"
    known = code in DTYPE_CODES or code[:1] in _KINDS or code in ("f16", "c32")
    if len(descr) - len(code) != 1 or not known:
        _broken(f"the array's type is {descr!r}, which NumPy does not have", source.name)
    if code not in DTYPE_CODES:
        return _Layout(_KINDS.get(code[:1], "longdouble"), shape, fortran, False, 0, begin)
    itemsize = int(code[1:])
    require_size(source, begin + count * itemsize, f"an array of {DTYPE_CODES[code]} and shape {shape}"[:200])
    return _Layout(DTYPE_CODES[code], shape, fortran, descr[0] == ">", itemsize, begin)


def _fields(text: str, where: str) -> dict[str, str]:
    """The texts of the three entries of the header."""
    inner = text.strip()
    if inner[:1] != "{" or inner[-1:] != "}":
        _broken(f"the .npy header {inner[:50]!r} is not a dict", where)
    inner = inner[1:-1].rstrip()
    if re.search(r"'descr'\s*:\s*\[", inner):
        raise FileFormatError(
            "this is a structured array (records), not numbers of one type", where=where,
            hint="Save each field as an array of its own, in an .npz file",
        )  # fmt: skip
    fields: dict[str, str] = {}
    at = 0
    while at < len(inner):
        found = _FIELD.match(inner, at)
        if not found or found[1] in fields:
            _broken(f"the .npy header cannot be understood at {inner[at : at + 50]!r}", where)
        fields[found[1]] = found[2]
        at = found.end()
    first = {"descr": "'", "fortran_order": "TF", "shape": "("}
    if set(fields) != set(first) or any(value[0] not in first[key] for key, value in fields.items()):
        _broken(f"the .npy header must have exactly descr, fortran_order and shape, not {inner[:100]!r}", where)
    return fields


class _NumpyFile(Checkpoint):
    """Base of the readers of .npy and .npz.

    Complex arrays are read as pairs (foreign_dtypes.py). Arrays of objects (pickles), strings and dates are listed;
    `read` and `read_bytes` refuse them.
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._layouts: dict[str, _Layout] = {}

    def _open(self, name: str) -> ByteSource:
        raise NotImplementedError

    def _add(self, name: str, member: ByteSource) -> None:
        layout = self._layouts[name] = read_layout(member)
        self.tensors[name] = TensorInfo(name, layout.dtype, layout.shape, member.size - layout.begin)

    def _storage(self, name: str) -> Storage:
        layout, member = self._layouts[name], self._open(name)
        if not layout.itemsize:
            _refuse_kind(name, layout.dtype, self.source.name)
        seen = _Summed(member, layout.begin) if isinstance(member, Member) else member
        reverse = tuple(reversed(contiguous_strides(tuple(reversed(layout.shape)))))
        strides = reverse if layout.fortran else contiguous_strides(layout.shape)
        storage = read_strided(seen, layout.begin, layout.shape, strides, layout.itemsize)
        unit = layout.itemsize // 2 if layout.dtype.startswith("complex") else layout.itemsize
        if layout.big_endian and unit > 1 and storage.nbytes:
            swap_bytes(storage.bytes_view(), unit)
        return storage

    def read_pieces(self, name: str, size: int) -> Iterator[bytes | memoryview]:
        layout, member = self._layouts[name], self._open(name)
        if not layout.itemsize or layout.fortran or layout.big_endian or not isinstance(member, Member):
            yield from super().read_pieces(name, size)
            return
        yield from member.pieces(layout.begin, size)

    def _place(self, name: str) -> tuple[ByteSource, int, int] | None:
        layout = self._layouts[name]
        if not layout.itemsize or layout.fortran or layout.big_endian:
            return None
        return self._open(name), layout.begin, self.tensors[name].nbytes

    def read_bytes(self, name: str) -> bytes | memoryview:
        storage = self._storage(name)
        return bytes(storage.bytes_view()) if storage.nbytes else b""

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        return as_tensor(self._storage(info.name), info, finite, device, self.source.name)


def _refuse_kind(name: str, kind: str, where: str) -> NoReturn:
    what = "Python objects (a pickle, which could run anything)" if kind == "object" else f"elements of {kind}"
    raise FileFormatError(f"array {name!r} holds {what}, not numbers", where=where, hint="Save it as numbers")


class _Summed:
    """A member whose checksum is checked when its elements are read: in one read, from `begin` on."""

    def __init__(self, member: Member, begin: int) -> None:
        self.name, self.size = member.name, member.size
        self._member = member
        self._begin = begin

    def read(self, offset: int, length: int) -> bytes | memoryview:
        return self._member.read(offset, length)

    def read_into(self, offset: int, view: memoryview) -> None:
        self._member.read_into(offset, view)
        if offset == self._begin and offset + len(view) == self.size:
            self._member.check(zlib.crc32(view, zlib.crc32(self._member.read(0, offset))))


class NpyFile(_NumpyFile):
    """One array, called "array". An array of objects, strings or dates is refused when it is opened."""

    format = "npy"

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._add(SINGLE, source)
        if not self._layouts[SINGLE].itemsize:
            _refuse_kind(SINGLE, self._layouts[SINGLE].dtype, source.name)

    def _open(self, name: str) -> ByteSource:
        return self.source


class NpzFile(_NumpyFile):
    """Several arrays in a zip archive, stored or deflated, by the names under which they were saved. A read checks the
    member's checksum.
    """

    format = "npz"

    def __init__(self, source: ByteSource, archive: Archive | None = None) -> None:
        super().__init__(source)
        self._archive = archive or Archive(source)
        for name in self._archive.names:
            if name.endswith(".npy"):
                self._add(name[: -len(".npy")], self._archive.open(name))

    def _open(self, name: str) -> ByteSource:
        return self._archive.open(f"{name}.npy")


# -- writing


def _npy(name: str, tensor: Any) -> tuple[bytes, memoryview]:
    """The header and the elements of an .npy file."""
    dtype, shape, data = plain(name, tensor)
    if dtype not in _DESCRS:
        raise ValueError(f"{name!r} is {dtype}, which NumPy's files cannot store: convert it to float32")
    shown = f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
    text = f"{{'descr': '{_DESCRS[dtype]}', 'fortran_order': False, 'shape': {shown}, }}"
    if shape:  # NumPy pads the header so that an array can grow in place
        text += " " * (21 - len(str(shape[0])))
    text += " " * (-(len(MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin-1"), data


def map_npy(path: str | os.PathLike[str]) -> Tensor:
    """The array of an .npy file as a tensor over the mapped file, as numpy.load with mmap_mode "c". Pages are read on
    first access. Writes to the tensor stay in memory; the file is never changed.

    FileFormatError as for open_checkpoint, and for an array that is not little-endian.
    """
    import mmap  # natively only

    with FileSource(path) as source:
        layout = read_layout(source)
        if layout.dtype not in DTYPES or layout.big_endian or not layout.itemsize:
            _broken(f"an array of {layout.dtype}{' (big-endian)' * layout.big_endian} cannot be mapped", source.name)
        kind = DTYPES[layout.dtype]
        if 0 in layout.shape:
            return empty_contiguous(layout.shape, kind)
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    array = np.ndarray(
        layout.shape, kind.numpy_name, buffer=memory, offset=layout.begin, order="F" if layout.fortran else "C"
    )
    if layout.begin % layout.itemsize:  # not written by NumPy, which pads headers to 64 bytes
        array = array.copy()
    return adopt_array(array, kind)


def write_npy(target: AnySink, tensor: Any) -> None:
    """Writes a pyapp Tensor, or an array, to a path or a binary file, byte for byte as numpy.save.

    Raises ValueError for bfloat16 and block-quantised tensors, TypeError for arrays of objects or strings.
    """
    header, data = _npy(SINGLE, tensor)
    with open_sink(target) as file:
        file.write(header)
        file.write(data)


def write_npz(target: AnySink, tensors: Mapping[str, Any], *, compressed: bool = False) -> None:
    """Writes tensors by name as numpy.savez does (`compressed`: as savez_compressed), the same bytes for the same
    tensors.

    Raises ValueError and TypeError as `write_npy`, and ValueError for a name that is a path out of a folder.
    """
    import zipfile  # late: few write such files

    target, tensors = in_order(target, tensors, "write_npz")
    for name in tensors:
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in f"{name}.npy".split("/") or name[1:2] == ":":
            raise ValueError(f"an array in an .npz file cannot be called {name!r}")
    packed = {name: _npy(name, tensor) for name, tensor in tensors.items()}
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with open_sink(target) as file, zipfile.ZipFile(file, "w", method) as archive:
        for name, (header, data) in packed.items():
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with archive.open(info, "w", force_zip64=True) as member:
                member.write(header)
                member.write(data)
