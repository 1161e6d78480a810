"""Read IDX files, the format of MNIST's pictures and labels.

Big-endian: two zero bytes, the element's type (8: uint8), the number of dims, the dims as uint32, then the elements
row by row. Source: the description beside the files at yann.lecun.com/exdb/mnist.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

from pyapp.engine.tensor import Tensor
from pyapp.errors import FileFormatError

DIM_LIMIT = 1 << 24
BYTES_LIMIT = 1 << 31
HINT = "Download the file again"


def read_idx(path: Path, dims: tuple[int | None, ...]) -> Tensor:
    """The uint8 tensor of a file, gzipped or not; `dims` are the expected sizes, None for any. FileFormatError."""

    def refuse(what: str) -> FileFormatError:
        return FileFormatError(what, where=str(path), hint=HINT)

    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            head = file.read(4 + 4 * len(dims))
            if len(head) < 4 + 4 * len(dims) or head[:4] != bytes((0, 0, 8, len(dims))):
                raise refuse(f"this is not an IDX file of uint8 with {len(dims)} dims")
            shape = struct.unpack_from(f">{len(dims)}I", head, 4)
            if any(known not in (None, size) for known, size in zip(dims, shape, strict=True)):
                raise refuse(f"the shape is {shape}, expected {dims} (None: any)")
            count = prod(shape)
            if max(shape) > DIM_LIMIT or count > BYTES_LIMIT:
                raise refuse(f"the shape is {shape}")
            if not packed and raw.seek(0, 2) != len(head) + count:
                raise refuse(f"the file has {raw.tell():,} bytes, a tensor {shape} needs {len(head) + count:,}")
            if not packed:
                raw.seek(len(head))
            data = bytearray()
            while len(data) < count and (piece := file.read(min(1 << 20, count - len(data)))):
                data += piece
            if len(data) < count or file.read(1):
                much = "fewer" if len(data) < count else "more"
                raise refuse(f"a tensor {shape} needs {count:,} bytes, the file has {much}")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise refuse(f"the compressed data is damaged ({error})") from error
    return Tensor.from_buffer(data, shape, "uint8")
