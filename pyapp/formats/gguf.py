"""GGUF files (llama.cpp's), versions 1 to 3: read lazily by byte range.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. "GGUF"; uint32 version; counts of
tensors and of metadata; for each metadata its key, type and value; for each tensor its name, sizes (the innermost
first), type and offset; zeros up to a multiple of `general.alignment` (32); then the data, each tensor at such a
multiple. Counts, lengths and sizes are uint64, in version 1 uint32. Little-endian; version 3 has a big-endian form,
which is refused. `gguf_writer.py` writes version 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from pyapp.errors import FileFormatError

from .block_tensors import read_blocks
from .checkpoint import Checkpoint, TensorInfo, check_finite, read_tensor
from .ggml_blocks import BLOCK_TYPES, dequantize_blocks
from .gguf_header import TENSORS_LIMIT, HeaderReader
from .nesting import json_object
from .source import ByteSource

if TYPE_CHECKING:
    from pyapp.engine.tensor import Tensor

RANK_LIMIT = 4  # as in ggml
SIZE_LIMIT = 1 << 63
ALIGNMENT = 32
ALIGNMENT_LIMIT = 1 << 20
PIECE = 1 << 20  # bytes of blocks read and dequantised together

# Type codes: the name here, values in a block, bytes of a block.
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("float32", 1, 4),
    1: ("float16", 1, 2),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    24: ("int8", 1, 1),
    25: ("int16", 1, 2),
    26: ("int32", 1, 4),
    27: ("int64", 1, 8),
    28: ("float64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bfloat16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    40: ("nvfp4", 64, 36),
    41: ("q1_0", 128, 18),
}
BLOCK_CODES = {name: block.code for name, block in BLOCK_TYPES.items()}
TENSOR_TYPES |= {code: (name, BLOCK_TYPES[name].values, BLOCK_TYPES[name].nbytes) for name, code in BLOCK_CODES.items()}
DENSE_CODES = {name: code for code, (name, values, _) in TENSOR_TYPES.items() if values == 1}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of the header; `begin` counts from the start of the data, `nbytes` is None for an unknown type."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    nbytes: int | None


class GgufFile(Checkpoint):
    """A GGUF file. `values` has the metadata as Python values (bool, int, float, str, lists), `types` their types'
    names ("uint32", "array of string" ...), `metadata` their texts (long arrays as their length), `config` the
    architecture as `model_type` and its hyper-parameters without their prefix (or what `pyapp.config` says).

    Shapes are row-major: (rows, columns). A matrix in blocks is read as a tensor of that block format (pyapp.q4_K …),
    other shapes of blocks become float32. A tensor of a type that cannot be read (iq2_xxs, a code of the future as
    "ggml_type_99") is listed; `read_bytes` gives its bytes (of an unknown code: those up to the next tensor), `read`
    raises FileFormatError.
    """

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        reader = HeaderReader(source)
        self.version = reader.version
        self.format = f"GGUF v{self.version}"
        self.values: dict[str, Any] = {}
        self.types: dict[str, str] = {}
        for _ in range(reader.metadata_count):
            key, kind, value = reader.key_value()
            if key in self.values:
                reader.broken(f"the key {key[:100]!r} appears twice")
            self.values[key], self.types[key] = value, kind
        self.alignment = _alignment(self.values, self.types, reader)
        entries = _entries(reader, self.alignment)
        self._start = -(-reader.position // self.alignment) * self.alignment
        self._begins = _check_extents(entries, self._start, source, reader)
        for entry in entries:
            nbytes = self._begins[entry.name][1]
            self.tensors[entry.name] = TensorInfo(entry.name, entry.dtype, entry.shape, nbytes)
        self.metadata = {key: _text(value) for key, value in self.values.items()}
        self.config = _config(self.values)

    def read_bytes(self, name: str) -> bytes | memoryview:
        begin, nbytes = self._begins[name]
        return self.source.read(self._start + begin, nbytes)

    def _read(self, info: TensorInfo, finite: bool) -> Tensor:
        from pyapp.engine.dtype import DTYPES

        where = self.source.name
        if info.dtype in BLOCK_TYPES:
            if len(info.shape) == 2 and info.numel:
                return self._read_blocks(info, finite)
            tensor = self._read_dequantized(info)
            dtype, nbytes = "float32", 4 * info.numel
        elif info.dtype in DTYPES:
            tensor = read_tensor(self.source, self._start + self._begins[info.name][0], info.shape, info.dtype)
            dtype, nbytes = info.dtype, info.nbytes
        else:
            raise FileFormatError(
                f"tensor {info.name[:100]!r} is {info.dtype}, which pyapp cannot read",
                where=where,
                hint=f"Use a file in another quantisation: {', '.join(BLOCK_TYPES)}",
            )
        if finite and nbytes:
            check_finite(tensor.storage.bytes_view()[:nbytes], dtype, info.name, where)
        return tensor

    def _read_blocks(self, info: TensorInfo, finite: bool) -> Tensor:
        """Without NumPy: the page's way to the first token."""
        return read_blocks(self.source, self._start + self._begins[info.name][0], info, finite)

    def _read_dequantized(self, info: TensorInfo) -> Tensor:
        from pyapp.engine.dtype import float32
        from pyapp.engine.tensor import empty_contiguous

        tensor = empty_contiguous(info.shape, float32)
        if not info.numel:
            return tensor
        block = BLOCK_TYPES[info.dtype]
        out = tensor.array().reshape(-1)
        step = PIECE // block.nbytes
        begin = self._start + self._begins[info.name][0]
        for first in range(0, info.numel // block.values, step):
            count = min(step, info.numel // block.values - first)
            data = self.source.read(begin + first * block.nbytes, count * block.nbytes)
            dequantize_blocks(data, info.dtype, out[first * block.values : (first + count) * block.values])
        return tensor


def _alignment(values: Mapping[str, Any], types: Mapping[str, str], reader: HeaderReader) -> int:
    value = values.get("general.alignment", ALIGNMENT)
    kind = types.get("general.alignment", "uint32")
    if kind != "uint32" or not 0 < value <= ALIGNMENT_LIMIT or value & (value - 1):
        reader.broken(
            f"general.alignment is {_text(value)[:50]} ({kind}), expected a uint32, a power of two up to "
            f"{ALIGNMENT_LIMIT:,}"
        )
    return int(value)


def _entries(reader: HeaderReader, alignment: int) -> list[_Entry]:
    if reader.tensor_count > TENSORS_LIMIT:
        reader.broken(f"there are {reader.tensor_count:,} tensors, expected at most {TENSORS_LIMIT:,}")
    entries: dict[str, _Entry] = {}
    for _ in range(reader.tensor_count):
        entry = _entry(reader, alignment)
        if entry.name in entries:
            reader.broken(f"the tensor {entry.name[:100]!r} appears twice")
        entries[entry.name] = entry
    return list(entries.values())


def _entry(reader: HeaderReader, alignment: int) -> _Entry:
    """One tensor's entry, checked: whole blocks in a row, an aligned offset, a size that no machine overflows at."""
    name = reader.name("a tensor's name")
    shown = repr(name[:100])
    rank = reader.uint32()
    if rank > RANK_LIMIT:
        reader.broken(f"tensor {shown} has {rank:,} dimensions, expected at most {RANK_LIMIT}")
    shape = tuple(reversed([reader.size() for _ in range(rank)]))
    code, begin = reader.uint32(), reader.uint64()
    dtype, values, block_bytes = TENSOR_TYPES.get(code, (f"ggml_type_{code}", 1, 0))
    count = 1
    for size in shape:
        count *= max(size, 1)
    if count * max(block_bytes, 1) >= SIZE_LIMIT or begin >= SIZE_LIMIT:
        reader.broken(f"tensor {shown} of shape {list(shape)} at byte {begin:,} is larger than any file")
    if begin % alignment:
        reader.broken(f"tensor {shown} begins at byte {begin:,} of the data, expected a multiple of {alignment}")
    if (shape[-1] if shape else 1) % values:
        reader.broken(f"tensor {shown} of {dtype} has rows of {shape[-1] if shape else 1:,} values, not whole blocks")
    if 0 in shape:
        count = 0
    return _Entry(name, dtype, shape, begin, count // values * block_bytes if block_bytes else None)


def _check_extents(
    entries: list[_Entry], start: int, source: ByteSource, reader: HeaderReader
) -> dict[str, tuple[int, int]]:
    """(begin, bytes) by name: inside the file, without overlaps. What has an unknown type goes up to the next one."""
    found: dict[str, tuple[int, int]] = {}
    ordered = sorted(entries, key=lambda entry: (entry.begin, entry.nbytes or 0))
    room = max(source.size - start, 0)
    end = 0
    for index, entry in enumerate(ordered):
        following = ordered[index + 1].begin if index + 1 < len(ordered) else room
        nbytes = max(min(following, room) - entry.begin, 0) if entry.nbytes is None else entry.nbytes
        if entry.begin < end and nbytes:
            reader.broken(
                f"tensor {entry.name[:100]!r} begins at byte {entry.begin:,} of the data and overlaps the one before it"
            )
        missing = entry.begin + nbytes - room
        if missing > 0:
            reader.broken(
                f"the file is truncated: tensor {entry.name[:100]!r} ends at byte {start + entry.begin + nbytes:,}, "
                f"{missing:,} bytes are missing"
            )
        found[entry.name] = entry.begin, nbytes
        end = max(end, entry.begin + nbytes)
    return found


LISTED = 16  # an array's elements that metadata and config show


def _text(value: Any) -> str:
    """What people read: a string as it is, a long array as its length."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if len(value) > LISTED or any(isinstance(item, list) for item in value):
            return f"{len(value):,} elements"
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


CONFIG_KEY = "pyapp.config"  # a whole configuration as JSON, in files that pyapp makes of other formats


def _config(values: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(stored := values.get(CONFIG_KEY), str):
        return json_object(stored)
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        return {}
    config: dict[str, Any] = {"model_type": _text(architecture)}
    for key, value in values.items():
        if key.startswith(f"{architecture}.") and _is_plain(value):
            config.setdefault(key[len(architecture) + 1 :], value)
    return config


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold it, and a reader wants to see it."""
    if isinstance(value, list):
        return len(value) <= 1024 and all(not isinstance(item, list) and _is_plain(item) for item in value)
    if isinstance(value, str):
        return value.isascii() or _text(value) == value
    return not isinstance(value, float) or isfinite(value)
