"""Writes GGUF files, version 3, byte for byte as the `gguf` package does.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, TypeAlias

from pyapp.engine import quant
from pyapp.engine.blocks.layout import GgmlBlocks
from pyapp.engine.tensor import Tensor

from .ggml_file import RANK_LIMIT, TENSOR_TYPES, TYPE_CODES
from .gguf import ALIGNMENT, ALIGNMENT_LIMIT
from .gguf_header import ARRAY, NAME_LIMIT, NAMES, NESTING_LIMIT, SCALARS, STRING, STRING_LIMIT
from .sink import AnySink, Deferred, in_order, is_quantized, open_sink, plain, write_pieces

CODES = {name: code for code, name in NAMES.items()}


def write_gguf(
    target: AnySink,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors and metadata, in the given order, to a path or a binary file. The first two arguments may be given
    in either order.

    `tensors`: pyapp Tensors (block-quantised ones too), arrays, GgmlBlocks (from quantize_blocks, or another file's
    `read_bytes`), or Deferred tensors, which are computed when they are written. `metadata` values are bool, int,
    float, str, or lists of these. `types` names types other than the defaults (uint32, int32 for negative numbers, 64
    bits for larger ones, float32), as in {"a.key": "uint64", "b.key": "array of int8"}.

    `general.alignment` in the metadata sets the alignment. Raises ValueError for values that the format cannot store,
    TypeError for values of other kinds.
    """
    target, tensors = in_order(target, tensors, "write_gguf")
    values = dict(metadata or {})
    wanted = dict(types or {})
    alignment = values.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= ALIGNMENT_LIMIT or alignment & (alignment - 1):
        raise ValueError(f"general.alignment must be a power of two up to {ALIGNMENT_LIMIT:,}, not {alignment!r}")
    unknown = set(wanted) - set(values)
    if unknown:
        raise ValueError(f"types names {sorted(unknown)[0]!r}, which is not among the metadata")
    header = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)))
    for key, value in values.items():
        header += _string(key, NAME_LIMIT) + _typed(key, value, wanted.get(key) or _natural(key, value))
    stored = {name: _stored(name, tensor) for name, tensor in tensors.items()}
    begin = 0
    for name, (code, shape, nbytes, _) in stored.items():
        header += _string(name, NAME_LIMIT) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        header += struct.pack("<IQ", code, begin)
        begin += nbytes + -nbytes % alignment
    header += bytes(-len(header) % alignment)
    with open_sink(target) as file:
        file.write(header)
        for name, (_, _, nbytes, pieces) in stored.items():
            write_pieces(file, name, pieces(), nbytes)
            file.write(bytes(-nbytes % alignment))


_Stored: TypeAlias = "tuple[int, tuple[int, ...], int, Callable[[], Iterator[bytes | memoryview]]]"


def _stored(name: str, tensor: Any) -> _Stored:
    """Type code, shape, number of bytes, and the function that yields the bytes of a tensor."""
    if is_quantized(tensor):
        tensor = _blocks_of(name, tensor)
    if isinstance(tensor, GgmlBlocks):
        code, shape, data = TYPE_CODES[tensor.kind], tuple(tensor.shape), memoryview(tensor.data).cast("B")
    elif isinstance(tensor, Deferred):
        code, values, block_bytes = _type_code(name, tensor.dtype)
        shape = tuple(tensor.shape)
        if (shape[-1] if shape else 1) % values:
            raise ValueError(f"{name!r} of {tensor.dtype} has rows of {shape[-1]:,} values, not whole blocks")
        return code, _checked(name, shape), prod(shape) // values * block_bytes, tensor.pieces
    else:
        dtype, shape, data = plain(name, tensor)
        code = _type_code(name, dtype)[0]
    return code, _checked(name, shape), len(data), lambda: iter([data])


def _blocks_of(name: str, tensor: Tensor) -> GgmlBlocks:
    """A block-quantised tensor in GGML's blocks."""
    try:
        return quant.to_blocks(tensor)
    except ValueError as error:
        raise ValueError(
            f"{name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, which GGUF cannot store: write it with "
            'write_safetensors, or as quant.quantize(quant.dequantize(tensor), "q8_0")'
        ) from error


def _type_code(name: str, dtype: str) -> tuple[int, int, int]:
    """(code, values in a block, bytes of a block) of a type by its name."""
    code = TYPE_CODES.get(dtype)
    if code is None:
        raise ValueError(f"{name!r} is {dtype}, which GGUF cannot store")
    return code, *TENSOR_TYPES[code][1:]


def _checked(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) > RANK_LIMIT:
        raise ValueError(f"{name!r} has {len(shape)} dimensions, GGUF stores at most {RANK_LIMIT}")
    return shape


def _string(text: str, limit: int = STRING_LIMIT) -> bytes:
    """A string as bytes. Surrogate escapes become the bytes that the reader found."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > limit:
        raise ValueError(f"{text[:50]!r} ... has {len(raw):,} bytes, the limit is {limit:,}")
    return struct.pack("<Q", len(raw)) + raw


def _natural(key: str, value: Any) -> str:
    """The default type of a Python value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return _integer([value])
    if isinstance(value, float):
        return "float32"
    if isinstance(value, str):
        return "string"
    if not isinstance(value, list | tuple):
        raise TypeError(f"{key!r} is a {type(value).__name__}: metadata are bool, int, float, str and lists of these")
    if value and all(isinstance(item, list | tuple) for item in value):
        return f"array of {_natural(key, [inner for item in value for inner in item])}"
    if value and all(type(item) is int for item in value):
        return f"array of {_integer(value)}"
    kinds = {_natural(key, item) for item in value} or {"uint32"}
    if len(kinds) > 1:
        raise TypeError(f"{key!r} mixes {' and '.join(sorted(kinds))}: an array has elements of one type")
    return f"array of {kinds.pop()}"


def _integer(numbers: Any) -> str:
    low, high = min(numbers), max(numbers)
    if low < 0:
        return "int32" if -(1 << 31) <= low and high < 1 << 31 else "int64"
    return "uint32" if high < 1 << 32 else "uint64"


def _typed(key: str, value: Any, kind: str) -> bytes:
    """A value's type code and bytes."""
    if kind.startswith("array"):
        return struct.pack("<I", ARRAY) + _array(key, value, kind, 1)
    if kind not in CODES:
        raise ValueError(f"{key!r}: unknown type {kind!r}; known: {', '.join(CODES)}")
    return struct.pack("<I", CODES[kind]) + _elements(key, [value], kind)


def _array(key: str, value: Any, kind: str, depth: int) -> bytes:
    if depth > NESTING_LIMIT:
        raise ValueError(f"{key!r} is nested more than {NESTING_LIMIT} arrays deep")
    if not isinstance(value, list | tuple):
        raise TypeError(f"{key!r} is a {type(value).__name__}, {kind} needs a list")
    inner = kind.removeprefix("array of ")
    if inner.startswith("array"):
        head = struct.pack("<IQ", ARRAY, len(value))
        return head + b"".join(_array(key, item, inner, depth + 1) for item in value)
    if inner not in CODES:
        raise ValueError(f"{key!r}: unknown type {inner!r}; known: {', '.join(CODES)}")
    return struct.pack("<IQ", CODES[inner], len(value)) + _elements(key, value, inner)


def _elements(key: str, values: Any, kind: str) -> bytes:
    if CODES[kind] == STRING:
        if not all(isinstance(value, str) for value in values):
            raise TypeError(f"{key!r} must hold strings")
        return b"".join(map(_string, values))
    try:
        return struct.pack(f"<{len(values)}{SCALARS[CODES[kind]][1]}", *values)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{key!r} does not fit {kind}: {error}") from error
