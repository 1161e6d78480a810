"""safetensors files, read lazily by byte range and written as the safetensors library writes them.

Source of the format: https://github.com/huggingface/safetensors (README, "Format"). A little-endian uint64 N; N bytes
of JSON, an object `{name: {"dtype", "shape", "data_offsets": [begin, end]}}` with an optional `__metadata__` of
strings, padded with spaces; then the data, little-endian and row-major. Keys are unique, and the tensors cover the data
without holes or overlaps.

This module reads files itself, because it must work on any ByteSource, and in the page, where the library has no wheel.
Natively, a file on disk must also pass the checks of the library, and the library writes files of up to LIBRARY_WRITES
bytes; `tests/formats/test_safetensors.py` compares the two. `FileSource` maps tensors: the library's interface for
NumPy copies them, and has no bfloat16.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NoReturn

from pyapp.dataclass import dataclass
from pyapp.engine.blocks.layout import BLOCK_TYPES, GgmlBlocks, block_bytes
from pyapp.engine.device import Device
from pyapp.engine.dtype import DTYPES
from pyapp.engine.lazy import np
from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

from .block_rows import matrix_of_rows, narrowed, rows_of_matrix, tensor_of_rows
from .block_tensors import read_blocks
from .checkpoint import Checkpoint, TensorInfo
from .dense_tensors import read_dense
from .foreign_dtypes import element_bits, read_foreign
from .safe_json import json_object, parse_json
from .sink import AnySink, Deferred, in_order, is_quantized, open_sink, plain, write_pieces
from .source import ByteSource, FileSource

HEADER_LIMIT = 100_000_000  # bytes, as in the library
OFFSET_LIMIT = 1 << 63
RANK_LIMIT = 64
LIBRARY_COPIES = 8 << 20  # bytes of a file that the library checks in memory, without NumPy
LIBRARY_WRITES = 64 << 20  # bytes of tensors that the library writes
HINT = "The file is damaged, or not a safetensors file: download it again"

# Names in the file, and in pyapp; in the library's sort order of tensors (it writes the last first).
NAMES = {
    "BOOL": "bool", "F4": "float4_e2m1fn", "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn", "U8": "uint8",
    "I8": "int8", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16",
    "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64",
    "F64": "float64", "I64": "int64", "U64": "uint64",
}  # fmt: skip
BITS = {name: element_bits(ours) for name, ours in NAMES.items()}
CODES = {ours: name for name, ours in NAMES.items()}
ORDER = {name: index for index, name in enumerate(NAMES)}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of the header; begin and end count from the start of the data."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile(Checkpoint):
    """A safetensors file. A JSON object `config` in `__metadata__` is the checkpoint's `config`.

    Types without a pyapp dtype (float8_e8m0fnu, float4_e2m1fn ...) are listed with their names and sizes, and read as
    float32 or bytes (foreign_dtypes.py). `read_bytes` gives the bytes in the file.

    A convention of pyapp, also of `write_safetensors`: if the metadata have the text "q8_0", "q4_K" … under the name of
    a uint8 tensor (rows, bytes of a row), the tensor holds the blocks of a matrix (block_rows.py) and is read as that
    type.
    """

    format = "safetensors"

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        header, self._start = _read_header(source)
        self.metadata = _metadata(header.pop("__metadata__", {}), source.name)
        self._entries = {name: _entry(name, value, source.name) for name, value in header.items()}
        _check_cover(list(self._entries.values()), source, self._start)
        for name, entry in sorted(self._entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            kind, shape = self._matrix_of_blocks(entry) or (NAMES[entry.code], entry.shape)
            self.tensors[name] = TensorInfo(name, kind, shape, entry.end - entry.begin)
        self.config = _config(self.metadata)
        if isinstance(source, FileSource) and sys.platform != "emscripten":
            _check_with_library(source)

    def _matrix_of_blocks(self, entry: _Entry) -> tuple[str, tuple[int, ...]] | None:
        """Type and shape of the matrix in a tensor of bytes; None if the metadata name no type."""
        text = self.metadata.get(entry.name, "")
        fits = entry.code == "U8" and len(entry.shape) > 0
        try:
            found = matrix_of_rows(text, entry.shape[-1] if fits else 0)
        except ValueError as error:
            _broken(f"tensor {entry.name[:100]!r}: {error}", self.source.name)
        if found is None:
            return None
        if not fits or (len(entry.shape) != 2 and text not in BLOCK_TYPES):
            _broken(
                f"the metadata call tensor {entry.name[:100]!r} {text}, but {NAMES[entry.code]} {entry.shape} "
                "does not fit that type",
                self.source.name,
            )
        return found[0], (*entry.shape[:-1], found[1])

    def read_bytes(self, name: str) -> bytes | memoryview:
        entry = self._entries[name]
        return self.source.read(self._start + entry.begin, entry.end - entry.begin)

    def _place(self, name: str) -> tuple[ByteSource, int, int]:
        entry = self._entries[name]
        return self.source, self._start + entry.begin, entry.end - entry.begin

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        if info.dtype not in DTYPES:
            return read_foreign(self.read_bytes(info.name), info, finite, device, self.source.name)
        entry = self._entries[info.name]
        begin = self._start + entry.begin
        if not DTYPES[info.dtype].is_quantized:
            return read_dense(self.source, begin, info, finite, device)
        if info.dtype in BLOCK_TYPES and (info.numel or len(info.shape) != 2):
            block = BLOCK_TYPES[info.dtype]
            whole = replace(info, shape=(*info.shape[:-1], entry.shape[-1] // block.nbytes * block.values))
            tensor = read_blocks(self.source, begin, whole, finite, device)
            return narrowed(tensor, info.shape[1]) if tensor.dtype.is_quantized else tensor
        rows = entry.shape[0], entry.shape[1]
        text = self.metadata[info.name]
        tensor = tensor_of_rows(self.read_bytes(info.name), text, rows, info.name, finite, self.source.name)
        return tensor if device is None else tensor.to(device)


def _broken(what: str, where: str) -> NoReturn:
    raise FileFormatError(what, where=where, hint=HINT)


def _read_header(source: ByteSource) -> tuple[dict[str, Any], int]:
    """The JSON object and the offset of the data."""
    where = source.name
    if source.size < 8:
        _broken(f"the file is truncated: the header's length has 8 bytes, {8 - source.size} are missing", where)
    length = int.from_bytes(source.read(0, 8), "little")
    if length > HEADER_LIMIT:
        _broken(f"the header's length is {length:,} bytes, expected at most {HEADER_LIMIT:,}", where)
    if 8 + length > source.size:
        _broken(
            f"the file is truncated: the header needs {length:,} bytes, {8 + length - source.size:,} are missing", where
        )
    raw = bytes(source.read(8, length))
    if raw[:1] != b"{":
        _broken(f"the header begins with {raw[:1]!r}, expected b'{{'", where)
    try:
        header = parse_json(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _broken(f"the header is not UTF-8 at byte {8 + error.start:,}", where)
    except ValueError as error:
        _broken(f"the header is not valid JSON: {error}", where)
    return header, 8 + length


def _check_with_library(source: FileSource) -> None:
    """FileFormatError if the safetensors library refuses the file."""
    import safetensors  # natively only: it has no wheel for Pyodide

    try:
        if source.size <= LIBRARY_COPIES:
            safetensors.deserialize(bytes(source.read(0, source.size)))
        else:
            safetensors.safe_open(source.path, framework="np")  # maps the file, and imports NumPy
    except safetensors.SafetensorError as error:
        _broken(f"the safetensors library refuses it: {str(error)[:200]}", source.name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:100]!r} appears twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _metadata(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        _broken("__metadata__ must map names to strings", where)
    return value


def _config(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that pyapp's training stores. Files of other programs may have anything under that name."""
    return json_object(metadata.get("config", "{}"))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < OFFSET_LIMIT


def _entry(name: str, value: Any, where: str) -> _Entry:
    """One tensor's entry, checked: types of the fields, a known dtype, and a byte range of the size that the shape
    needs.
    """
    shown = name[:100]
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        _broken(f"the name {shown!r} is not valid Unicode", where)
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        _broken(f"tensor {shown!r} must have exactly dtype, shape and data_offsets", where)
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in BITS:
        _broken(f"tensor {shown!r} has the dtype {str(code)[:50]!r}, expected one of {', '.join(BITS)}", where)
    if not isinstance(shape, list) or len(shape) > RANK_LIMIT or not all(map(_is_count, shape)):
        _broken(
            f"tensor {shown!r} has the shape {str(shape)[:100]}, expected at most {RANK_LIMIT} sizes of 0 or more",
            where,
        )
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(map(_is_count, offsets))
        or offsets[0] > offsets[1]
    ):
        _broken(
            f"tensor {shown!r} has the data_offsets {str(offsets)[:100]}, expected [begin, end] with begin <= end",
            where,
        )
    bits = BITS[code]
    for size in shape:
        bits *= size
    begin, end = offsets
    if bits % 8 or bits // 8 != end - begin:
        need = f"{bits / 8:,.3f}".rstrip("0").rstrip(".") if bits % 8 else f"{bits // 8:,}"
        _broken(
            f"tensor {shown!r} of {code} and shape {shape} needs {need} bytes, its data_offsets hold {end - begin:,}",
            where,
        )
    return _Entry(name, code, tuple(shape), begin, end)


def _check_cover(entries: list[_Entry], source: ByteSource, start: int) -> None:
    """The tensors must follow one another without holes or overlaps, from the data's first byte to the file's last."""
    at = 0
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin != at:
            what = "overlaps the tensor before it" if entry.begin < at else "leaves a hole before it"
            _broken(
                f"tensor {entry.name[:100]!r} begins at byte {entry.begin:,} of the data and {what}, expected {at:,}",
                source.name,
            )
        at = entry.end
    missing = start + at - source.size
    if missing > 0:
        _broken(
            f"the file is truncated: its tensors need {at:,} bytes, {missing:,} are missing at the end", source.name
        )
    if missing < 0:
        _broken(
            f"the file is too long: its tensors need {at:,} bytes, {-missing:,} follow that belong to none", source.name
        )


# -- writing


def write_safetensors(target: AnySink, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Writes pyapp Tensors, arrays, or Deferred tensors, which are computed when they are written, to a path or a
    binary file, in the library's order: widest type first, then by name. The first two arguments may be given in either
    order.

    A block-quantised tensor is written as bytes, with its type in the metadata (block_rows.py); pyapp reads it back as
    the same tensor, other programs read uint8. Raises ValueError for a type without a code and for a reserved name;
    TypeError for metadata that are not strings.
    """
    target, tensors = in_order(target, tensors, "write_safetensors")
    if metadata is not None and not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raise TypeError("safetensors metadata must map str to str")
    if "__metadata__" in tensors:
        raise ValueError("a tensor cannot be called __metadata__: the format reserves that name")
    values = {name: _stored(name, tensor) for name, tensor in tensors.items()}
    blocks = {name: stored.blocks for name, stored in values.items() if stored.blocks}
    if taken := sorted(set(blocks) & set(metadata or {})):
        raise ValueError(f"the metadata have the key {taken[0]!r}, which must name the type of that tensor's blocks")
    if blocks:
        metadata = dict(metadata or {}) | blocks
    order = sorted(values, key=lambda name: (-ORDER[values[name].code], name.encode("utf-8")))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    at = 0
    for name in order:
        code, shape, nbytes = values[name].code, values[name].shape, values[name].nbytes
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [at, at + nbytes]}
        at += nbytes
    packed = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    packed += b" " * (-len(packed) % 8)
    if len(packed) > HEADER_LIMIT:
        raise ValueError(f"the header would have {len(packed):,} bytes, the format allows {HEADER_LIMIT:,}")
    if _fits_library(values, metadata):
        with open_sink(target) as file:
            file.write(_serialize(values, metadata))
        return
    with open_sink(target) as file:
        file.write(len(packed).to_bytes(8, "little"))
        file.write(packed)
        for name in order:
            write_pieces(file, name, values[name].pieces(), values[name].nbytes)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A tensor to be written: `blocks` is its text in the metadata if it holds blocks; `data` its bytes, or None if
    `pieces` computes them later.
    """

    code: str
    shape: tuple[int, ...]
    nbytes: int
    pieces: Callable[[], Iterator[bytes | memoryview]]
    data: bytes | memoryview | None = None
    blocks: str = ""


def _stored(name: str, tensor: Any) -> _Stored:
    if is_quantized(tensor):
        text, matrix, packed = rows_of_matrix(tensor)
        return _Stored("U8", matrix, len(packed), lambda: iter([packed]), packed, text)
    if isinstance(tensor, GgmlBlocks):
        shape = (
            *tensor.shape[:-1],
            tensor.shape[-1] // BLOCK_TYPES[tensor.kind].values * BLOCK_TYPES[tensor.kind].nbytes,
        )
        kept = memoryview(tensor.data).cast("B")
        return _Stored("U8", shape, len(kept), lambda: iter([kept]), kept, tensor.kind)
    if isinstance(tensor, Deferred):
        dtype, shape = tensor.dtype, tuple(tensor.shape)
        if dtype in BLOCK_TYPES:
            rows = (*shape[:-1], block_bytes(dtype, shape[-1:]))
            return _Stored("U8", rows, prod(rows), tensor.pieces, None, dtype)
        code = _code(name, dtype)
        return _Stored(code, shape, prod(shape) * BITS[code] // 8, tensor.pieces)
    dtype, dense_shape, data = plain(name, tensor)
    return _Stored(_code(name, dtype), dense_shape, len(data), lambda: iter([data]), data)


def _code(name: str, dtype: str) -> str:
    if dtype not in CODES:
        raise ValueError(f"{name!r} is {dtype}, which safetensors cannot store")
    return CODES[dtype]


def _fits_library(values: Mapping[str, _Stored], metadata: Mapping[str, str] | None) -> bool:
    """Whether the library writes the file. Otherwise this module writes the same bytes, tensor by tensor. The library
    needs all tensors and the file in memory (or leaves a temporary file behind when it is killed), and writes several
    entries of metadata in a random order, whereas the same tensors must give the same file.
    """
    return (
        sys.platform != "emscripten"
        and len(metadata or {}) < 2
        and all(stored.data is not None for stored in values.values())
        and sum(stored.nbytes for stored in values.values()) <= LIBRARY_WRITES
    )


def _serialize(values: Mapping[str, _Stored], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes of the file from the library."""
    import safetensors  # natively only

    specs = {}
    for name, stored in values.items():
        array = np.frombuffer(stored.data, np.uint8) if stored.nbytes else None  # type: ignore[arg-type]
        address = 0 if array is None else array.__array_interface__["data"][0]
        specs[name] = safetensors.TensorSpec(
            dtype=NAMES[stored.code], shape=stored.shape, data_ptr=address, data_len=stored.nbytes
        )
    return bytes(safetensors.serialize(specs, metadata=None if metadata is None else dict(metadata)))
