"""Launches of a Graph that one kernel can do: a decoded token has some two hundred, each of which costs a card two or
three microseconds beside its work.

The kernel that stands for several writes all that they write, with the same bits, so nothing need be known of who reads
it. They are

- a root-mean-square norm, or a gated activation, and the quantisation of its result after it;
- such a norm and the addition of its result to a residual;
- of a single row that, or the quantisation alone, and the linear layer after it;
- the norm of a single row, the linear layer with weights in floats after it, and the gated activation after that; or,
  where the layer makes queries, keys and values, their rotation and the writes to a cache of floats that is not in
  blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pyapp.dataclass import dataclass

from ..dtype import bfloat16, float16, float32
from ..element_types import CODES
from ..native import DIMS, FLOATS, POINTERS, RECORD, RECORD_BYTES, SIGNATURES

_NAMES = list(SIGNATURES)
_SLOTS = {name: [part.replace("?", "").split() for part in text.split("|")] for name, text in SIGNATURES.items()}
_NORMS = ("rms_norm_f32", "rms_norm_typed")
_LINEAR = {"linear_f32": float32, "linear_f16": float16, "linear_bf16": bfloat16}
_IN_BLOCKS = {"linear_q8_0": "quantize_linear_q8_0", "linear_blocks": "quantize_linear_blocks"}
_BEFORE = {"quantize_rows": 0, "rms_norm_quantize_rows": 1, "silu_mul_quantize_rows": 2}  # native/cuda/int8_rows.h
_MOST_OWN = 32768  # inputs of quantize_linear_*
_FLOATS = tuple(CODES[kind] for kind in (float32, float16, bfloat16))  # of caches that rms_norm_linear_rotate writes
_BLOCK, _ACTIVATIONS_BYTES = 32, 40  # columns of a block of quantize_rows, and its bytes
_ALIGNMENT = 16  # bytes, of the rows of rms_norm_linear
_FEWEST, _MOST = 513, 8192  # its inputs: native/cuda/linear.cu


@dataclass(frozen=True)
class _Record:
    """A launch: its pointers, dims and floats by their names in kernels.h."""

    name: str
    values_of: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.values_of[name]

    def packed(self) -> bytes:
        pointers, dims, floats = ([self.values_of.get(slot) or 0 for slot in slots] for slots in _SLOTS[self.name])
        return RECORD.pack(
            _NAMES.index(self.name), 0, *pointers, *[0] * (POINTERS - len(pointers)), *dims,
            *[0] * (DIMS - len(dims)), *floats, *[0.0] * (FLOATS - len(floats)),
        )  # fmt: skip


def _read(records: bytes | bytearray, at: int) -> _Record:
    index, _, *numbers = RECORD.unpack_from(records, at)
    pointers, dims, floats = _SLOTS[_NAMES[index]]
    parts = numbers[:POINTERS], numbers[POINTERS : POINTERS + DIMS], numbers[POINTERS + DIMS :]
    found = {
        slot: value
        for slots, values in zip((pointers, dims, floats), parts, strict=True)
        for slot, value in zip(slots, values, strict=False)
    }
    return _Record(_NAMES[index], found)


def _apart(written: dict[int, int], read: dict[int, int]) -> bool:
    """Whether no memory (address: bytes) is both written and read, or written twice."""
    spans = [(at, at + size, True) for at, size in written.items()] + [
        (at, at + size, False) for at, size in read.items()
    ]
    return all(
        a[1] <= b[0] or b[1] <= a[0]
        for i, a in enumerate(spans)
        for b in spans[i + 1 :]
        if a[2] or b[2]
    )  # fmt: skip


def _rows_bytes(rows: int, columns: int, stride: int) -> int:
    return 4 * ((rows - 1) * stride + columns) if rows > 0 else 0


def _norm_weight(norm: _Record) -> int:
    """The code of the type of its weight."""
    return int(norm.values_of.get("type", CODES[float32]))


def _weight_bytes(code: int) -> int:
    return 4 if code == CODES[float32] else 2


def _quantized(first: _Record, second: _Record) -> _Record | None:
    """A norm or a gated activation, and quantize_rows."""
    if first.name not in (*_NORMS, "silu_mul_f32") or second.name != "quantize_rows":
        return None
    rows, columns = first.rows, first.columns
    if (second.x, second.rows, second.columns) != (first.y, rows, columns):
        return None
    if second.x_stride != first.y_stride and rows > 1:
        return None
    wide = columns * (2 if first.name == "silu_mul_f32" else 1)
    read = {first.x: _rows_bytes(rows, wide, first.x_stride)}
    if first.name in _NORMS:
        read[first.weight] = columns * _weight_bytes(_norm_weight(first))
    quantized = rows * math.ceil(columns / _BLOCK) * _ACTIVATIONS_BYTES
    if not _apart({first.y: _rows_bytes(rows, columns, first.y_stride), second.xq: quantized}, read):
        return None
    if first.name == "silu_mul_f32":
        return _Record("silu_mul_quantize_rows", {**first.values_of, "xq": second.xq})
    more = {"xq": second.xq, "type": _norm_weight(first), "offset": first.values_of.get("offset", 0.0)}
    return _Record("rms_norm_quantize_rows", {**first.values_of, **more})


def _added(first: _Record, second: _Record) -> _Record | None:
    """A norm, and its result plus a residual."""
    if first.name not in _NORMS or second.name != "add_f32":
        return None
    count, columns = first.rows * first.columns, first.columns
    if (second.count, second.a_period, second.b_period) != (count, count, count) or first.y_stride != columns:
        return None
    if max(second.a_repeat, second.b_repeat) > 1 or not count or not (second.a and second.b):
        return None
    if second.a == second.b or first.y not in (second.a, second.b):
        return None
    residual = second.b if second.a == first.y else second.a
    read = {first.x: _rows_bytes(first.rows, columns, first.x_stride), residual: 4 * count}
    read[first.weight] = columns * _weight_bytes(_norm_weight(first))
    if len(read) < (2 if residual == first.x and first.x_stride == columns else 3):
        return None  # what lies at one address has one size in `read`
    # The sum of a row is written where its residual, or the row itself, lies: these have been read by then.
    same = {residual} | ({first.x} if first.x_stride == columns else set())
    others = {at: size for at, size in read.items() if at != second.y or at not in same}
    if not _apart({first.y: 4 * count}, read) or not _apart({first.y: 4 * count, second.y: 4 * count}, others):
        return None
    more = {"residual": residual, "sum": second.y, "type": _norm_weight(first)}
    return _Record("rms_norm_add", {**first.values_of, **more})


def _normed_linear(first: _Record, second: _Record) -> _Record | None:
    """The norm of a row, and a linear layer."""
    if first.name not in _NORMS or second.name not in _LINEAR or first.values_of.get("offset"):
        return None
    inputs, outputs = second.inputs, second.outputs
    if (first.rows, second.rows, second.x, second.residual) != (1, 1, first.y, 0) or first.columns != inputs:
        return None
    if not _FEWEST <= inputs <= _MOST or inputs % 8 or outputs <= 0:
        return None
    if any(pointer % _ALIGNMENT for pointer in (first.x, first.weight, first.y, second.w)):
        return None
    kind, weight_type = CODES[_LINEAR[second.name]], _norm_weight(first)
    written = {second.y: 4 * outputs, first.y: 4 * inputs}
    read = {
        first.x: 4 * inputs,
        first.weight: inputs * _weight_bytes(weight_type),
        second.w: inputs * outputs * _weight_bytes(kind),
    }
    if not _apart(written, read):
        return None
    return _Record(
        "rms_norm_linear",
        {
            "y": second.y, "x": first.x, "weight": first.weight, "w": second.w, "normed": first.y, "gated": 0,
            "outputs": outputs, "inputs": inputs, "weight_type": weight_type, "type": kind, "epsilon": first.epsilon,
        },
    )  # fmt: skip


def _gated_linear(first: _Record, second: _Record) -> _Record | None:
    """The two before, and a gated activation."""
    if first.name != "rms_norm_linear" or second.name != "silu_mul_f32" or first.gated:
        return None
    if (second.rows, second.x, 2 * second.columns) != (1, first.y, first.outputs):
        return None
    read = {first.x: 4 * first.inputs, first.weight: first.inputs * _weight_bytes(first.weight_type)}
    read[first.w] = first.inputs * first.outputs * _weight_bytes(first.type)
    written = {first.y: 4 * first.outputs, first.normed: 4 * first.inputs, second.y: 4 * second.columns}
    if not _apart(written, read):
        return None
    return _Record("rms_norm_linear", {**first.values_of, "activated": second.y, "gated": 1})


def _rotated_linear(first: _Record, second: _Record) -> _Record | None:
    """The norm of a row, and a linear layer for queries, keys and values, which are rotated and written to a cache."""
    if first.name != "rms_norm_linear" or second.name != "rotate_and_write" or first.gated:
        return None
    if (second.texts, second.tokens, second.qkv, second.block_table, second.blocks) != (1, 1, first.y, 0, 0):
        return None
    size, rotated = second.head_dim, second.rotated
    if second.type not in _FLOATS or size <= 0 or size % 2 or not 0 <= rotated <= size or rotated % 2:
        return None
    if (second.heads + 2 * second.kv_heads) * size != first.outputs or (rotated and not second.table):
        return None
    cache = second.kv_heads * second.capacity * size * _weight_bytes(second.type)
    written = {first.y: 4 * first.outputs, first.normed: 4 * first.inputs, second.keys: cache, second.values: cache}
    read = {first.x: 4 * first.inputs, first.weight: first.inputs * _weight_bytes(first.weight_type)}
    read[first.w] = first.inputs * first.outputs * _weight_bytes(first.type)
    read[second.position] = 4
    if rotated:
        read[second.table] = 4 * second.positions * rotated
    if len(written) != 4 or not _apart(written, read):
        return None
    same = "table position keys heads kv_heads head_dim capacity rotated positions interleaved".split()
    more = {name: second.values_of[name] for name in same}
    after = second.values - second.keys
    return _Record(
        "rms_norm_linear_rotate", {**first.values_of, **more, "cache_type": second.type, "values_after": after}
    )


def _quantized_linear(first: _Record, second: _Record) -> _Record | None:
    """The quantisation of a row, and what is before it, and a linear layer with weights in blocks."""
    before = _BEFORE.get(first.name)
    if before is None or second.name not in _IN_BLOCKS or first.rows != 1 or second.rows != 1:
        return None
    inputs, outputs = second.inputs, second.outputs
    if (first.xq, first.columns) != (second.xq, inputs) or not 0 < inputs <= _MOST_OWN or outputs <= 0:
        return None
    normed = before == _BEFORE["rms_norm_quantize_rows"]
    if normed and first.values_of.get("offset"):
        return None
    if normed and (not _FEWEST <= inputs <= _MOST or inputs % 4 or first.x % _ALIGNMENT or first.weight % _ALIGNMENT):
        return None
    made = first.values_of.get("y", 0)
    written = {first.xq: math.ceil(inputs / _BLOCK) * _ACTIVATIONS_BYTES, second.y: 4 * outputs}
    if made:
        written[made] = 4 * inputs
    # Their first byte stands for the weights: a Graph keeps them, and writes its results elsewhere.
    read = {first.x: 4 * inputs * (2 if first.name == "silu_mul_quantize_rows" else 1), second.w: 1}
    if normed:
        read[first.weight] = inputs * _weight_bytes(first.type)
    if second.residual and second.residual != second.y:  # an output is read where it is written
        read[second.residual] = 4 * outputs
    if not _apart(written, read):
        return None
    values = {
        "y": second.y, "x": first.x, "w": second.w, "residual": second.residual, "made": made, "xq": first.xq,
        "outputs": outputs, "inputs": inputs, "before": before, "type": second.values_of.get("type", 0),
    }  # fmt: skip
    if normed:
        values |= {"weight": first.weight, "weight_type": first.type, "epsilon": first.epsilon}
    return _Record(_IN_BLOCKS[second.name], values)


_PAIRS = (_quantized, _added, _quantized_linear, _normed_linear, _gated_linear, _rotated_linear)


def _each(records: bytes | bytearray, count: int) -> Iterator[bytes]:
    for at in range(0, count * RECORD_BYTES, RECORD_BYTES):
        yield bytes(records[at : at + RECORD_BYTES])


def fuse(records: bytes | bytearray, count: int) -> bytearray:
    """The `count` records of a Graph, with those that follow one another joined where one kernel can do their work."""
    done: list[bytes] = []
    for packed in _each(records, count):
        joined = None
        if done:
            first, second = _read(done[-1], 0), _read(packed, 0)
            joined = next((found for pair in _PAIRS if (found := pair(first, second)) is not None), None)
        if joined is None:
            done.append(packed)
        else:
            done[-1] = joined.packed()
    return bytearray(b"".join(done))
