"""bitsandbytes: 4 bits (Dettmers et al. 2023, arXiv 2305.14314) and 8 bits (Dettmers et al. 2022, arXiv 2208.07339).

4 bits, of a matrix NAME (N, K): NAME has two numbers a byte, the first in its high half; each is a place in
NAME.quant_map (16,), times NAME.absmax of its `blocksize` numbers. With double quantisation these are 8-bit places in
NAME.nested_quant_map (256,), times NAME.nested_absmax, plus an offset. NAME.quant_state.bitsandbytes__nf4 (or __fp4)
has the other fields as JSON. Source: QuantState.as_dict of bitsandbytes/functional.py, 0.50.

8 bits, of a layer: weight (N, K) int8 and SCB (N,), the largest number of each row, which 127 stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.formats.safe_json import json_object

from .checkpoint import Weight, expect, expect_tensor, flat_shape, floats, unread_of, whole_numbers
from .numbers import Floats, Integers

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

STATE = ".quant_state.bitsandbytes__"
STATE_LIMIT = 4096  # bytes of its JSON
STEP = 7.874015718698502e-3  # 1 / 127, as bitsandbytes has it
UNREAD = ("weight_format",)  # of 8 bits: 0, rows as they are


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    return None


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    if not given.get("load_in_4bit"):
        return ["8 bits"]
    doubly = ["scales quantised too"] if given.get("bnb_4bit_use_double_quant") else []
    return [f"{given.get('bnb_4bit_quant_type', 'fp4')}", *doubly]


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found = []
    for name, info in checkpoint.tensors.items():
        layer = name.removesuffix(".SCB")
        if STATE in name:
            found.append(_four_bits(checkpoint, name, dtype))
        elif layer != name:
            weight = expect_tensor(checkpoint, name, f"{layer}.weight", ("int8",))
            rows, columns = flat_shape(checkpoint.tensors[weight].shape)
            expect(info.numel == rows, checkpoint, name, f"are not {rows} numbers")
            _expect_rows(checkpoint, f"{layer}.weight_format")
            read = partial(_eight_bits, checkpoint, weight, name, (rows, columns))
            found.append(Weight(weight, (rows, columns), dtype, (weight, name), read))
    return found, unread_of(checkpoint, UNREAD)


def _expect_rows(checkpoint: Checkpoint, name: str) -> None:
    """ModelError for a matrix in an order for old cards."""
    if name in checkpoint.tensors:
        expect(not whole_numbers(checkpoint, name).any(), checkpoint, name, "say an order of cards, not of rows")


def _eight_bits(checkpoint: Checkpoint, name: str, scales: str, shape: tuple[int, int]) -> Integers:
    numbers = whole_numbers(checkpoint, name).reshape(shape)
    each = floats(checkpoint, scales).reshape(-1, 1) * np.float32(STEP)
    return Integers(shape, lambda first, count: numbers[first : first + count], -128, 127, each, 0, shape[1])


def _four_bits(checkpoint: Checkpoint, state: str, dtype: str) -> Weight:
    name = state.partition(STATE)[0]
    info = checkpoint.tensors.get(name)
    expect(info is not None, checkpoint, state, f"come without {name!r:.120}")
    assert info is not None
    expect(checkpoint.tensors[state].nbytes <= STATE_LIMIT, checkpoint, state, "are too long")
    fields = json_object(bytes(checkpoint.read_bytes(state)).decode("utf-8", "replace")) or {}
    shape, size = fields.get("shape"), fields.get("blocksize")
    counts = isinstance(shape, list) and len(shape) > 1 and all(type(n) is int and n > 0 for n in shape)
    expect(counts and type(size) is int and size > 0, checkpoint, state, "say no shape and blocksize")
    assert isinstance(shape, list) and isinstance(size, int)
    count = prod(shape)
    expect(info.nbytes == -(-count // 2), checkpoint, name, f"have no {count:,} numbers of 4 bits, as {shape} asks for")
    blocks = (-(-count // size),)
    table = expect_tensor(checkpoint, name, f"{name}.quant_map", ("float32",), (16,))
    doubly = f"{name}.nested_absmax" in checkpoint.tensors
    scales = expect_tensor(checkpoint, name, f"{name}.absmax", ("uint8",) if doubly else ("float32",), blocks)
    parts = [name, state, table, scales]
    if doubly:
        nested, offset = fields.get("nested_blocksize"), fields.get("nested_offset")
        said = type(nested) is int and nested > 0 and isinstance(offset, float | int)
        expect(said, checkpoint, state, "say no nested_blocksize and nested_offset")
        assert isinstance(nested, int)
        parts.append(expect_tensor(checkpoint, name, f"{name}.nested_quant_map", ("float32",), (256,)))
        of_blocks = (-(-blocks[0] // nested),)
        parts.append(expect_tensor(checkpoint, name, f"{name}.nested_absmax", ("float32",), of_blocks))
    kind = fields.get("dtype")
    read = partial(_places, checkpoint, name, tuple(shape), fields)
    return Weight(name, tuple(shape), kind if kind in ("float16", "bfloat16") else dtype, tuple(parts), read)


def _places(checkpoint: Checkpoint, name: str, shape: tuple[int, ...], fields: Mapping[str, Any]) -> Floats:
    flat, size = flat_shape(shape), fields["blocksize"]
    data = np.frombuffer(checkpoint.read_bytes(name), np.uint8)
    values = floats(checkpoint, f"{name}.quant_map")
    pairs = np.stack(np.broadcast_arrays(values[:, None], values), -1).reshape(256, 2)  # of each byte
    if f"{name}.nested_absmax" in checkpoint.tensors:
        codes = whole_numbers(checkpoint, f"{name}.absmax")
        outer = floats(checkpoint, f"{name}.nested_absmax")
        scales = floats(checkpoint, f"{name}.nested_quant_map")[codes]
        scales = scales * outer[np.arange(len(scales)) // fields["nested_blocksize"]]
        scales += np.float32(fields["nested_offset"])
    else:
        scales = floats(checkpoint, f"{name}.absmax")

    def rows(first: int, count: int) -> Array:
        begin, end = first * flat[1], (first + count) * flat[1]
        found = pairs[data[begin // 2 : -(-end // 2)]].reshape(-1)[begin % 2 :][: end - begin]
        if begin % size == 0 and end % size == 0:
            each = scales[begin // size : end // size]
            return (found.reshape(-1, size) * each[:, None]).reshape(count, flat[1])
        return (found * scales[np.arange(begin, end) // size]).reshape(count, flat[1])

    return Floats(flat, rows)
