"""GGUF files (llama.cpp's), versions 1 to 3: read lazily by byte range.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. "GGUF"; uint32 version; counts of
tensors and of metadata; for each metadata its key, type and value; for each tensor its name, sizes (the innermost
first), type and offset; zeros up to a multiple of `general.alignment` (32); then the data, each tensor at such a
multiple. Counts, lengths and sizes are uint64, in version 1 uint32. Little-endian; version 3 has a big-endian form,
which is refused. `gguf_writer.py` writes version 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pyapp.dataclass import dataclass

from .checkpoint import TensorInfo
from .ggml_file import RANK_LIMIT, TENSOR_TYPES, GgmlFile
from .gguf_header import TENSORS_LIMIT, HeaderReader
from .safe_json import json_object
from .source import ByteSource

SIZE_LIMIT = 1 << 63
ALIGNMENT = 32
ALIGNMENT_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of the header; `begin` counts from the start of the data, `nbytes` is None for an unknown type."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    nbytes: int | None


class GgufFile(GgmlFile):
    """A GGUF file. `values` has the metadata as Python values (bool, int, float, str, lists), `types` the names of
    their types ("uint32", "array of string" ...), `metadata` their texts (long arrays as their length), `config` the
    architecture as `model_type` and its hyper-parameters without their prefix (or the content of `pyapp.config`).

    Shapes are row-major: (rows, columns). A matrix in blocks is read as a tensor of that block format (pyapp.q4_K …),
    or of a near one if only files have the format (iq2_xxs as pyapp.q8_0: layout.READ_AS); other tensors in blocks
    become float32. A tensor of an unsupported type (an unknown code as "ggml_type_99") is listed; `read_bytes` gives
    its bytes (those up to the next tensor), `read` raises FileFormatError.
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
    """One tensor's entry, checked: rows of whole blocks, an aligned offset, a size below the limit."""
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
    """(begin, bytes) by name: inside the file, without overlaps. A tensor of unknown type extends to the
    next tensor.
    """
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


LISTED = 16  # elements of an array shown in metadata and config


def _text(value: Any) -> str:
    """The text for display: a string unchanged, a long array as its length."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        if len(value) > LISTED or any(isinstance(item, list) for item in value):
            return f"{len(value):,} elements"
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


CONFIG_KEY = "pyapp.config"  # the configuration as JSON, in files that pyapp converted from other formats


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
    """Whether a value can be JSON and is short enough for display."""
    if isinstance(value, list):
        return len(value) <= 1024 and all(not isinstance(item, list) and _is_plain(item) for item in value)
    if isinstance(value, str):
        return value.isascii() or _text(value) == value
    return not isinstance(value, float) or isfinite(value)
