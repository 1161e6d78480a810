"""safetensors files, read lazily by byte range and written as the safetensors library writes them.

Source of the format: https://github.com/huggingface/safetensors (README, "Format"). A little-endian uint64 N; N bytes
of JSON, an object `{name: {"dtype", "shape", "data_offsets": [begin, end]}}` with an optional `__metadata__` of
strings, padded with spaces; then the data, little-endian and row-major. Keys are unique, and the tensors cover the data
without holes or overlaps.

The reader is our own because it must work on any ByteSource, without NumPy, where the library has no wheel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from pyapp.errors import FileFormatError

from .block_tensors import read_blocks
from .checkpoint import Checkpoint, TensorInfo, check_finite, read_tensor
from .nesting import json_object, parse_json
from .sink import AnySink, Deferred, open_sink, plain, write_pieces
from .source import ByteSource

if TYPE_CHECKING:
    from pyapp.engine.tensor import Tensor

HEADER_LIMIT = 100_000_000  # bytes, as in the library
OFFSET_LIMIT = 1 << 63
RANK_LIMIT = 64
Q8_0_BYTES, Q8_0_COLUMNS = 34, 32  # of a block
HINT = "The file is damaged, or not a safetensors file: download it again"

# In the order in which the library sorts tensors (it writes the last first): the name in the file, bits of an element,
# name here.
_TYPES: tuple[tuple[str, int, str], ...] = (
    ("BOOL", 8, "bool"),
    ("F4", 4, "float4_e2m1fn"),
    ("F6_E2M3", 6, "float6_e2m3fn"),
    ("F6_E3M2", 6, "float6_e3m2fn"),
    ("U8", 8, "uint8"),
    ("I8", 8, "int8"),
    ("F8_E5M2", 8, "float8_e5m2"),
    ("F8_E4M3", 8, "float8_e4m3fn"),
    ("F8_E8M0", 8, "float8_e8m0fnu"),
    ("F8_E4M3FNUZ", 8, "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", 8, "float8_e5m2fnuz"),
    ("I16", 16, "int16"),
    ("U16", 16, "uint16"),
    ("F16", 16, "float16"),
    ("BF16", 16, "bfloat16"),
    ("I32", 32, "int32"),
    ("U32", 32, "uint32"),
    ("F32", 32, "float32"),
    ("C64", 64, "complex64"),
    ("F64", 64, "float64"),
    ("I64", 64, "int64"),
    ("U64", 64, "uint64"),
)
BITS = {name: bits for name, bits, _ in _TYPES}
NAMES = {name: ours for name, _, ours in _TYPES}
CODES = {ours: name for name, _, ours in _TYPES}
ORDER = {name: index for index, (name, _, _) in enumerate(_TYPES)}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of the header; begin and end count from the start of the data."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class SafetensorsFile(Checkpoint):
    """A safetensors file. Where `__metadata__` has a `config` that is a JSON object, it is the checkpoint's `config`.

    Types that pyapp has no dtype for (complex64, float8_e8m0fnu, float4_e2m1fn ...) are listed with their names and
    sizes, and read as foreign.py tells: pairs, float32 or bytes; `read_bytes` gives them as they lie there.

    A convention of our own: a uint8 tensor (rows, columns / 32 * 34) that the metadata call "q8_0" by its name holds
    GGML's blocks of a matrix (rows, columns), and is read as such.
    """

    format = "safetensors"

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        header, self._start = _read_header(source)
        self.metadata = _metadata(header.pop("__metadata__", {}), source.name)
        self._entries = {name: _entry(name, value, source.name) for name, value in header.items()}
        _check_cover(list(self._entries.values()), source, self._start)
        for name, entry in sorted(self._entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            kind, shape = NAMES[entry.code], entry.shape
            if self.metadata.get(name) == "q8_0":
                kind, shape = "q8_0", self._matrix_of_blocks(entry)
            self.tensors[name] = TensorInfo(name, kind, shape, entry.end - entry.begin)
        self.config = _config(self.metadata)

    def _matrix_of_blocks(self, entry: _Entry) -> tuple[int, int]:
        if entry.code != "U8" or len(entry.shape) != 2 or entry.shape[1] % Q8_0_BYTES:
            _broken(
                f"tensor {entry.name!r} is called q8_0, but {NAMES[entry.code]} {entry.shape} are no such blocks",
                self.source.name,
            )
        return entry.shape[0], entry.shape[1] // Q8_0_BYTES * Q8_0_COLUMNS

    def read_bytes(self, name: str) -> bytes | memoryview:
        entry = self._entries[name]
        return self.source.read(self._start + entry.begin, entry.end - entry.begin)

    def _read(self, info: TensorInfo, finite: bool) -> Tensor:
        from pyapp.engine.dtype import DTYPES

        if info.dtype not in DTYPES:
            from .foreign import read_as_own

            return read_as_own(self.read_bytes(info.name), info, finite, self.source.name)
        entry = self._entries[info.name]
        if info.dtype == "q8_0":
            return read_blocks(self.source, self._start + entry.begin, info, finite)
        tensor = read_tensor(self.source, self._start + entry.begin, entry.shape, info.dtype)
        if finite and info.nbytes:
            check_finite(tensor.storage.bytes_view()[: info.nbytes], info.dtype, info.name, self.source.name)
        return tensor


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
    """The configuration that our own training stores; other writers' metadata may hold anything under that name."""
    return json_object(metadata.get("config", "{}"))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < OFFSET_LIMIT


def _entry(name: str, value: Any, where: str) -> _Entry:
    """One tensor's entry, checked: types of the fields, a known dtype, and a byte range of the size that the shape
    needs."""
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
    """Writes pyapp Tensors, arrays, or Deferred tensors, which are made in their turn, to a path or a binary file, in
    the library's order: widest type first, then by name.

    Raises ValueError for a block-quantised tensor, a type without a code, a reserved name; TypeError for metadata that
    are not strings.
    """
    if metadata is not None and not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raise TypeError("safetensors metadata must map str to str")
    if "__metadata__" in tensors:
        raise ValueError("a tensor cannot be called __metadata__: the format reserves that name")
    values = {name: _stored(name, tensor) for name, tensor in tensors.items()}
    order = sorted(values, key=lambda name: (-ORDER[values[name][0]], name.encode("utf-8")))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    at = 0
    for name in order:
        code, shape, nbytes, _ = values[name]
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [at, at + nbytes]}
        at += nbytes
    packed = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    packed += b" " * (-len(packed) % 8)
    if len(packed) > HEADER_LIMIT:
        raise ValueError(f"the header would have {len(packed):,} bytes, the format allows {HEADER_LIMIT:,}")
    with open_sink(target) as file:
        file.write(len(packed).to_bytes(8, "little"))
        file.write(packed)
        for name in order:
            _, _, nbytes, pieces = values[name]
            write_pieces(file, name, pieces(), nbytes)


def _stored(name: str, tensor: Any) -> tuple[str, tuple[int, ...], int, Callable[[], Iterator[bytes | memoryview]]]:
    """Type's name in the file, shape, number of bytes, and what gives them, of a tensor."""
    if isinstance(tensor, Deferred):
        dtype, shape, pieces = tensor.dtype, tuple(tensor.shape), tensor.pieces
        nbytes = prod(shape) * BITS.get(CODES.get(dtype, ""), 0) // 8
    else:
        dtype, shape, data = plain(name, tensor)
        nbytes = len(data)

        def pieces() -> Iterator[bytes | memoryview]:
            yield data

    if dtype not in CODES:
        raise ValueError(f"{name!r} is {dtype}, which safetensors cannot store")
    return CODES[dtype], shape, nbytes, pieces
