"""Block-quantised weight matrices, in the layouts that the kernels read (native/kernels.h).

GGML's types (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) keep their names. The types in BANDED are
packed in bands of 8 rows; the others are stored row by row, as in files. q8_group is the type of llama2.c's version 2:
`group` columns share an f32 scale. Matrices whose group is not a multiple of 32 columns are stored as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtype as _dtype
from .blocks.layout import BLOCK_TYPES, FILE_TYPES, READ_AS, GgmlBlocks, block_bytes
from .device import Device, cpu
from .dtype import DType, as_dtype
from .launch import KERNELS, Part
from .lazy import np
from .native import BANDED
from .storage import Storage
from .tensor import Tensor, adopt_array, empty_contiguous, make

BAND = 8  # rows that are packed together
QUANTIZED_TOGETHER = 1 << 20  # values
BLOCK = 32  # columns that share a scale in q8_0 and q8_group


def _matrix(shape: Sequence[int], name: str) -> tuple[int, int]:
    if len(shape) != 2 or any(size < 0 for size in shape):
        raise ValueError(f"{name}: block formats store matrices (outputs, inputs), not the shape {tuple(shape)}")
    return int(shape[0]), int(shape[1])


_PARTIAL = ("q8_0", "q8_group")  # whose last block of a row may be a part of one


def packed_bytes(shape: Sequence[int], dtype: DType | str) -> int:
    """Bytes of a matrix in a block format. ValueError if a row is not a whole number of blocks."""
    kind = as_dtype(dtype)
    rows, columns = _matrix(shape, "packed_bytes")
    if kind.name not in BANDED:
        return block_bytes(kind.name, (rows, columns))
    if columns % kind.block and kind.name not in _PARTIAL:
        raise ValueError(f"{kind} needs rows of whole blocks of {kind.block} values, not {columns}")
    return -(-rows // BAND) * -(-columns // kind.block) * BANDED[kind.name]


def activation_bytes(rows: int, columns: int) -> int:
    """Bytes of activations that quantize_rows has quantised: 32 int8, a scale and a sum for each block."""
    return rows * -(-columns // BLOCK) * (BLOCK + 8)


def empty(shape: Sequence[int], dtype: DType | str, device: Device = cpu) -> Tensor:
    """An uninitialised matrix in a block format. ValueError if a row is not a whole number of blocks."""
    storage = Storage(packed_bytes(shape, dtype), device)
    return make(storage, (int(shape[0]), int(shape[1])), (int(shape[1]), 1), as_dtype(dtype))


def is_transposed(x: Tensor) -> bool:
    """Whether a block-quantised tensor is a transposed view (K, N) of a matrix (N, K), such as `q.T`."""
    return x.strides != (x._shape[1], 1)


def transposed(x: Tensor) -> Tensor:
    """The transposed view of a block-quantised matrix, in the same memory. For a transposed view, the matrix."""
    return make(x._storage, x._shape[::-1], x.strides[::-1], x.dtype)


def check_not_transposed(x: Tensor, name: str) -> None:
    """TypeError for a transposed view: its blocks are along dim 0, not along the rows."""
    if is_transposed(x):
        raise TypeError(
            f"{name}: the {x.dtype} tensor of shape {tuple(x.shape)} is a transposed view: its blocks are along dim 0. "
            "Use the matrix itself (.T), or convert it with .to(float32)"
        )


def clone(x: Tensor) -> Tensor:
    """A copy of the matrix. For a transposed view, a transposed view of a copy."""
    matrix = transposed(x) if is_transposed(x) else x
    result = empty(matrix._shape, x.dtype, x.device)
    copy_blocks(result, matrix)
    return result if matrix is x else transposed(result)


def copy_blocks(result: Tensor, x: Tensor) -> None:
    """Copies the blocks of x to `result`. Both have the same shape, type and device, and neither is transposed."""
    size = packed_bytes(x._shape, x.dtype)
    KERNELS["copy_bytes"].launch(size >> 10, result, x, size)


def _on_device(data: Any, device: Device) -> Tensor:
    """Copies a bytes-like object to a uint8 tensor on a device."""
    view = memoryview(data).cast("B")
    return make(Storage.of_bytes(view, device), (len(view),), (1,), _dtype.uint8)


def from_blocks(data: Any, shape: Sequence[int], dtype: DType | str, device: Device = cpu) -> Tensor:
    """Packs GGML blocks, stored row by row, as a matrix for linear and embedding. Blocks of a type that only files have
    ("iq2_xxs" ...) become a matrix of the type in layout.READ_AS. ValueError if the number of bytes does not fit the
    shape."""
    rows, columns = _matrix(shape, "from_blocks")
    if isinstance(dtype, str) and dtype in FILE_TYPES:
        from .blocks.conversion import convert_blocks  # late: few files have such types

        data = convert_blocks(GgmlBlocks(dtype, (rows, columns), data).data, dtype)
        dtype = READ_AS[dtype]
    kind = as_dtype(dtype)
    if kind.name not in BLOCK_TYPES or columns % kind.block:
        raise ValueError(f"from_blocks: a matrix of {columns} columns is not in whole {kind} blocks")
    expected = block_bytes(kind.name, (rows, columns))
    if memoryview(data).nbytes != expected:
        raise ValueError(
            f"from_blocks: a {kind} matrix of shape {tuple(shape)} needs {expected} bytes, the buffer has "
            f"{memoryview(data).nbytes}"
        )
    if kind.name not in BANDED:
        return make(Storage.of_bytes(memoryview(data).cast("B"), device), (rows, columns), (columns, 1), kind)
    result = empty(shape, kind, device)
    pack_rows(result, 0, _on_device(data, device), rows)
    return result


def pack_rows(result: Tensor, first: int, blocks: Tensor, rows: int) -> None:
    """Packs `rows` rows of GGML's blocks, whose bytes are in `blocks` (uint8), into a banded matrix. `first`, a
    multiple of BAND, is the row at which they begin."""
    kind, columns = result.dtype, result._shape[1]
    target = Part(result, packed_bytes((first, columns), kind))
    work = rows * columns >> 10
    if kind is _dtype.q8_0:
        KERNELS["pack_q8_0"].launch(work, target, blocks, rows, columns)
    else:
        KERNELS["pack_blocks"].launch(work, target, blocks, rows, columns, BLOCK_TYPES[kind.name].code)


def to_blocks(x: Tensor) -> GgmlBlocks:
    """GGML's blocks of a matrix, bit for bit as they were given to `from_blocks`; write_gguf stores them. ValueError
    for q8_group, and for q8_0 with a partial block at the end of a row. TypeError for transposed views."""
    if x.dtype.is_quantized:
        check_not_transposed(x, "to_blocks")
    if x.dtype.name not in BLOCK_TYPES or x._shape[1] % x.dtype.block:
        raise ValueError(f"to_blocks: {x.dtype} of shape {tuple(x.shape)} is not in GGML's blocks")
    (rows, columns), name = x._shape, x.dtype.name
    size, blocks = block_bytes(name, (rows, columns)), x.to(cpu)  # the result is bytes of the host
    if name in BANDED:
        packed, blocks = blocks, empty_contiguous((size,), _dtype.uint8)
        KERNELS["unpack_bands"].launch(rows * columns >> 10, blocks, packed, rows, columns, BLOCK_TYPES[name].code)
    return GgmlBlocks(name, (rows, columns), bytes(blocks._storage.read(0, size)))


def from_groups(quants: Any, scales: Any, shape: Sequence[int], group: int, device: Device = cpu) -> Tensor:
    """Packs int8 values and float32 scales, one for each `group` columns, as a q8_group matrix.

    If a group is not a multiple of 32 columns, or continues in the next row, the result is a float32 tensor.
    """
    rows, columns = _matrix(shape, "from_groups")
    count = rows * columns
    if group < 1 or memoryview(quants).nbytes != count or memoryview(scales).nbytes * group != 4 * count:
        raise ValueError(
            f"from_groups: a matrix of shape {tuple(shape)} in groups of {group} needs {count} int8 values and "
            f"{count // max(group, 1)} scales, not {memoryview(quants).nbytes} and {memoryview(scales).nbytes // 4}"
        )
    if group % BLOCK or columns % group:
        values = np.frombuffer(quants, np.int8).reshape(-1, group).astype(np.float32)
        values *= np.frombuffer(scales, np.float32)[:, None]
        return adopt_array(values.reshape(rows, columns)).to(device=device)
    result = empty(shape, _dtype.q8_group, device)
    packed = (_on_device(quants, device), _on_device(scales, device))
    KERNELS["pack_q8_group"].launch(count >> 10, result, *packed, rows, columns, group)
    return result


def pack_int8(values: Tensor) -> Tensor:
    """Packs int8 values (N, K) as a q8_group matrix whose scales are all 1, for `int8_linear`."""
    rows, columns = _matrix(values._shape, "pack_int8")
    if values.dtype is not _dtype.int8:
        raise TypeError(f"pack_int8: takes int8, not {values.dtype}")
    result = empty((rows, columns), _dtype.q8_group, values.device)
    scale = _on_device(np.ones(1, np.float32), values.device)
    KERNELS["pack_q8_group"].launch(
        rows * columns >> 10, result, values.contiguous(), scale, rows, columns, max(rows * columns, 1)
    )
    return result


def quantize(x: Tensor, dtype: DType | str = "q8_0", importance: Any = None) -> Tensor:
    """Quantises a matrix to one of GGML's block types, some rows at a time. `importance` (columns,) weights the errors
    of the columns (llama.cpp's imatrix). ValueError for other types and shapes, and for NaN and infinite values, which
    only q8_0 accepts."""
    kind = as_dtype(dtype)
    rows, columns = _matrix(x._shape, "quantize")
    if kind.name not in BLOCK_TYPES:
        raise ValueError(f"quantize: cannot write {kind}; use one of {', '.join(BLOCK_TYPES)}")
    x = x.detach()
    result = empty(x._shape, kind, x.device)
    step = max(1, QUANTIZED_TOGETHER // max(columns, 1) // BAND) * BAND
    for first in range(0, rows, step):
        count = min(step, rows - first)
        part = x.narrow(0, first, count) if not x.dtype.is_quantized else dequantize(rows_of(x, first, count))
        _quantize_rows(result, first, part.to(_dtype.float32).contiguous(), importance)
    return result


def _quantize_rows(result: Tensor, first: int, x: Tensor, importance: Any) -> None:
    """Quantises x, dense float32, to the rows of a matrix from `first` on, a multiple of BAND."""
    kind, (count, columns) = result.dtype, x._shape
    begin = packed_bytes((first, columns), kind)
    if kind is _dtype.q8_0:
        KERNELS["quantize_q8_0"].launch(count * columns >> 9, Part(result, begin), x, count, columns, columns)
        return
    from .blocks.writing import quantize_blocks  # late: models are rarely quantised in the page

    blocks = quantize_blocks(x.numpy(), kind.name, importance).data
    if kind.name in BANDED:
        pack_rows(result, first, _on_device(blocks, x.device), count)
    else:
        result._storage.write(begin, memoryview(blocks).cast("B"))


def dequantize(x: Tensor) -> Tensor:
    """A block-quantised matrix as float32. The result of a transposed view is a transposed view; other tensors are
    returned unchanged."""
    if not x.dtype.is_quantized:
        return x
    if is_transposed(x):
        values = dequantize(transposed(x))
        return make(values._storage, values._shape[::-1], values.strides[::-1], values.dtype)
    rows, columns = x._shape
    result = empty_contiguous((rows, columns), _dtype.float32, x.device)
    kernel = KERNELS.get("unpack_" + x.dtype.name)
    kind = () if kernel else (BLOCK_TYPES[x.dtype.name].code,)
    (kernel or KERNELS["unpack_blocks"]).launch(rows * columns >> 10, result, x, rows, columns, *kind)
    return result


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Concatenates matrices along dim 0: (N1, K), (N2, K) … → (N1 + N2 + …, K). Blocks are copied.

    The result is float32 if the formats differ, if a part is transposed, or if a part of a banded format has a number
    of rows that is not a multiple of 8.
    """
    kind = parts[0].dtype
    partial_band = kind.name in BANDED and any(p._shape[0] % BAND for p in parts)
    if partial_band or any(p.dtype is not kind or (kind.is_quantized and is_transposed(p)) for p in parts):
        parts = [dequantize(p).to(_dtype.float32) for p in parts]
        kind = _dtype.float32
    shape = (sum(p._shape[0] for p in parts), parts[0]._shape[1])
    device = parts[0].device
    result = empty(shape, kind, device) if kind.is_quantized else empty_contiguous(shape, kind, device)
    start = 0
    for part in parts:
        part = part if kind.is_quantized else part.contiguous()
        size = packed_bytes(part._shape, kind) if kind.is_quantized else part.numel() * kind.itemsize
        KERNELS["copy_bytes"].launch(size >> 10, Part(result, start), part, size)
        start += size
    return result


def rows_of(x: Tensor, first: int, count: int) -> Tensor:
    """A view of rows of a matrix (N, K) → (count, K). A block-quantised view has a storage of its own, because its
    bytes have no strides. ValueError for a banded matrix if `first`, or the end before the last row, is within a band.
    """
    if not x.dtype.is_quantized:
        return x.narrow(0, first, count)
    check_not_transposed(x, "rows_of")
    if not whole_bands(x, first, count):
        raise ValueError(f"rows_of: {first} and {count} of {x.dtype} are not multiples of {BAND}")
    columns = x._shape[1]
    begin, size = (packed_bytes((height, columns), x.dtype) for height in (first, count))
    owner = (x._storage,)  # not the storage itself: Tensor.data takes that for the same memory, from its start
    place = Storage.adopt(x._storage.address + begin, size, owner, x.device)
    return make(place, (count, columns), (columns, 1), x.dtype)


def whole_bands(x: Tensor, first: int, count: int) -> bool:
    """Whether these rows of a block-quantised matrix can be viewed alone."""
    last = first + count
    return x.dtype.name not in BANDED or (first % BAND == 0 and (last % BAND == 0 or last == x._shape[0]))


def words(x: Tensor, count: int) -> Tensor:
    """The bytes of `count` matrices (N, K) that lie one below the other in a block-quantised matrix (count * N, K), as
    a view (count, words) of whole numbers. ValueError if the matrices do not begin with whole bands.
    """
    rows = x._shape[0] // count
    if x._shape[0] % count or not whole_bands(x, rows, rows):
        raise ValueError(f"words: {tuple(x.shape)} of {x.dtype} is not {count} matrices of whole bands")
    size = packed_bytes((rows, x._shape[1]), x.dtype)
    kind = _dtype.int64 if size % 8 == 0 else _dtype.uint8
    return make(x._storage, (count, size // kind.itemsize), (size // kind.itemsize, 1), kind)


def from_words(data: Tensor, shape: Sequence[int], dtype: DType | str) -> Tensor:
    """The block-quantised matrix with these packed bytes, in the same memory."""
    return make(data._storage, (int(shape[0]), int(shape[1])), (int(shape[1]), 1), as_dtype(dtype))


def copied_rows(x: Tensor, first: int, count: int) -> Tensor:
    """A copy of rows of a matrix or vector, in its type; in float32 if its bands cannot be divided there."""
    if not x.dtype.is_quantized:
        return x.narrow(0, first, count).contiguous().clone()
    if not whole_bands(x, first, count):
        return dequantize(x).narrow(0, first, count).contiguous().clone()
    return clone(rows_of(x, first, count))
