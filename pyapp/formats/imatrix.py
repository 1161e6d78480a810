"""Read importance matrices of llama.cpp's imatrix tool: for each weight, by name, the mean squared input of each
column.

Source of the formats: https://github.com/ggml-org/llama.cpp/tree/master/tools/imatrix. Today's is a GGUF file with
`<name>.in_sum2` (matrices, columns) and `<name>.counts` (matrices, 1). The older `.dat`: int32 number of entries; for
each entry the length of its name, the name, the number of calls, the number of values, and the values as float32, the
means times the calls; then the last call and the data's name, which are not read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NoReturn

from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError

from .gguf import GgufFile
from .source import AnySource, ByteSource, opened_source

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array

ENTRIES_LIMIT, NAME_LIMIT, VALUES_LIMIT = 1 << 17, 1 << 10, 1 << 26
HINT = "It is damaged, or not an imatrix file: make it again with llama.cpp's llama-imatrix"


def read_imatrix(source: AnySource) -> dict[str, Array]:
    """Importance (matrices, columns), float32, by the weight's name; matrices is 1 except for a layer's experts.

    FileFormatError for other and for broken files, and for values that are negative or not finite.
    """
    with opened_source(source) as opened:
        if bytes(opened.read(0, min(4, opened.size))) == b"GGUF":
            found = _of_gguf(GgufFile(opened), opened.name)
        else:
            found = _of_dat(opened)
        for name, values in found.items():
            if not (np.isfinite(values).all() and (values >= 0).all()):
                _broken(f"{name[:100]!r} has an importance that is negative or not finite", opened.name)
        return found


def _broken(what: str, where: str) -> NoReturn:
    raise FileFormatError(what, where=where, hint=HINT)


def _of_gguf(file: GgufFile, where: str) -> dict[str, Array]:
    found = {}
    for name in file.tensors:
        if not name.endswith(".in_sum2"):
            continue
        base = name.removesuffix(".in_sum2")
        counts_name = f"{base}.counts"
        if counts_name not in file.tensors:
            _broken(f"{base[:100]!r} has sums but no counts", where)
        sums, counts = _matrix(file, name), _matrix(file, counts_name)
        if counts.shape != (len(sums), 1):
            _broken(f"{base[:100]!r} has sums {sums.shape} and counts {counts.shape}", where)
        found[base] = sums / np.maximum(counts, 1)
    if not found:
        _broken("this GGUF file has no tensor that ends in .in_sum2", where)
    return found


def _matrix(file: GgufFile, name: str) -> Array:
    info = file.tensors[name]
    if info.dtype != "float32" or len(info.shape) not in (1, 2) or 0 in info.shape:
        _broken(f"{name[:100]!r} is {info.dtype} {list(info.shape)}, expected a matrix of float32", file.source.name)
    array: Any = file.read(name).numpy()
    return array.reshape(-1, info.shape[-1])


def _of_dat(source: ByteSource) -> dict[str, Array]:
    reader = _Dat(source)
    found = {}
    for _ in range(reader.count("entries", ENTRIES_LIMIT)):
        name = bytes(reader.take(reader.count("bytes of a name", NAME_LIMIT))).decode("utf-8", "replace")
        calls = reader.count("calls", 1 << 31)
        values = np.frombuffer(reader.take(4 * reader.count("values", VALUES_LIMIT)), "<f4").astype(np.float32)
        found[name] = values.reshape(1, -1) / np.float32(max(calls, 1))
    return found


class _Dat:
    """Reads the older format from its beginning."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.position = 0

    def take(self, length: int) -> bytes | memoryview:
        missing = self.position + length - self.source.size
        if missing > 0:
            _broken(f"the file is truncated: {missing:,} bytes are missing", self.source.name)
        self.position += length
        return self.source.read(self.position - length, length)

    def count(self, what: str, limit: int) -> int:
        (value,) = struct.unpack("<i", self.take(4))
        if not 0 <= value <= limit:
            _broken(f"there are {value:,} {what}, expected 0 to {limit:,}", self.source.name)
        return int(value)
