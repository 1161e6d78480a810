"""Weights in blocks of 4 or 8 bits (com.microsoft.MatMulNBits), packed once as the kernels read them."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops, quant
from pyapp.engine.lazy import np

from .operators.packed import codes_of_blocks, zeros_of_blocks
from .registry import internal
from .steps import Step
from .values import array_of, element_of


def packed_product(a: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """a (…, K) times a packed weight (N, K): activations become int8 within, as with any packed weight."""
    y = ops.linear(a.to("float32"), weight).to(a.dtype)
    return y if bias is None else y + bias


_OPERATOR = internal(packed_product)


def pack(step: Step, values: dict[str, Any], made: dict[int, Any]) -> tuple[Step, str, Tensor] | None:
    """The step that replaces a MatMulNBits, and the name and tensor of its weight; None where the weight is not in
    `values`, or not in blocks of 32 or a multiple. accuracy_level 1 asks for products in float32: those stay.

    `made`: packed weights by the identity of the tensor in the file, with that tensor.
    """
    names = [*step.inputs, *[""] * (6 - len(step.inputs))]
    settings = step.settings
    bits, block, n, k = settings.get("bits", 4), settings.get("block_size", 32), settings["N"], settings["K"]
    if settings.get("accuracy_level", 0) == 1 or bits not in (4, 8) or block < 32 or block % 32 or k % 32 or names[4]:
        return None
    if any(name and name not in values for name in names[1:4]):
        return None
    b, scales = values[names[1]], values[names[2]]
    zero = values[names[3]] if names[3] else None
    if element_of(b) != "uint8" or k < 1 or n < 1 or b.numel() != n * -(-k // block) * (block * bits // 8):
        return None
    if id(b) not in made:
        made[id(b)] = b, _packed(b, scales, zero, bits, block, n, k)
    key = f"{names[1]}/packed"
    inputs = [names[0], key, *([names[5]] if names[5] else [])]
    return Step(_OPERATOR, step.title, inputs, step.outputs[:1], {}, {}, []), key, made[id(b)][1]


def _packed(b: Tensor, scales: Tensor, zero: Any, bits: int, block: int, n: int, k: int) -> Tensor:
    """The weight (N, K) as q4_0, q4_1 (with zero points) or q8_0."""
    blocks = -(-k // block)
    codes = codes_of_blocks(b, bits, n, k).reshape(n, k // 32, 32)
    wide = np.repeat(array_of(scales).astype(np.float32).reshape(n, blocks), block // 32, 1)[:, : k // 32, None]
    offset = np.repeat(zeros_of_blocks(zero, bits, n, blocks), block // 32, 1)[:, : k // 32, None]
    if bits == 8:
        centred = codes.astype(np.float32) - offset
        if centred.min() >= -128 and centred.max() <= 127:
            rows = np.empty((n, k // 32, 34), np.uint8)
            rows[..., :2] = wide.astype("<f2").view(np.uint8)
            rows[..., 2:] = centred.astype(np.int8).view(np.uint8)
            return quant.from_blocks(rows.tobytes(), (n, k), "q8_0")
        return quant.quantize(_tensor((centred * wide).reshape(n, k)), "q8_0")
    nibbles = codes[..., :16] | codes[..., 16:] << 4
    if zero is None:
        rows = np.empty((n, k // 32, 18), np.uint8)
        rows[..., :2] = wide.astype("<f2").view(np.uint8)
        rows[..., 2:] = nibbles
        return quant.from_blocks(rows.tobytes(), (n, k), "q4_0")
    rows = np.empty((n, k // 32, 20), np.uint8)
    rows[..., :2] = wide.astype("<f2").view(np.uint8)
    rows[..., 2:4] = (-offset * wide).astype("<f2").view(np.uint8)
    rows[..., 4:] = nibbles
    return quant.from_blocks(rows.tobytes(), (n, k), "q4_1")


def _tensor(array: Any) -> Tensor:
    return Tensor.from_buffer(np.ascontiguousarray(array, np.float32).tobytes(), array.shape, "float32")
