"""GPTQ (Frantar et al. 2022, arXiv 2210.17323) as AutoGPTQ and GPTQModel write it.

Of a layer with K inputs and N outputs: qweight (K bits / 32, N) int32, of which the numbers of a column follow one
another; qzeros (G, N bits / 32) int32, of which those of a row do; scales (G, N); and g_idx (K,), the group of each
input, whose order is not that of the inputs where the quantiser went through these by their activations (`desc_act`).
Source: `pack` of auto_gptq/nn_modules/qlinear/qlinear_cuda.py, 0.7.1. Zero points are stored less one, except in
`checkpoint_format` "gptq_v2" (gptqmodel/utils/model.py, convert_gptq_v1_to_v2_format).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np

from .checkpoint import Weight, expect, expect_tensor, floats, packed_layers, whole_numbers
from .numbers import Integers, numbers_in

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

BITS = (2, 3, 4, 8)
FORMATS = ("gptq", "gptq_v2")


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    if given.get("bits", 4) not in BITS:
        return f"bits is {given['bits']!r:.20}, expected one of {BITS}"
    form = given.get("checkpoint_format", "gptq")
    return None if form in FORMATS else f"checkpoint_format is {form!r:.40}, expected one of {FORMATS}"


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    size = given.get("group_size", 128)
    found = [f"{given.get('bits', 4)} bits", "whole rows" if size == -1 else f"groups of {size}"]
    return found + (["in the order of activations"] if given.get("desc_act") else [])


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found = []
    for name, layer, (height, outputs), scales in packed_layers(checkpoint):
        kind, shape = checkpoint.tensors[scales].dtype, checkpoint.tensors[scales].shape
        expect(shape[1] == outputs, checkpoint, scales, f"are no (G, {outputs})")
        bits, zeros, order = int(given.get("bits", 4)), f"{layer}.qzeros", f"{layer}.g_idx"
        parts = [name, scales]
        if zeros in checkpoint.tensors:
            of_zeros = checkpoint.tensors[zeros].shape
            bits = 32 * of_zeros[-1] // outputs if len(of_zeros) == 2 else bits  # layers may differ
            expect(bits in BITS, checkpoint, zeros, f"are not integers of {BITS} bits")
            words = -(-outputs * bits // 32)
            parts.append(expect_tensor(checkpoint, name, zeros, ("int32",), (shape[0], words)))
        inputs = height * 32 // bits
        if order in checkpoint.tensors:
            parts.append(expect_tensor(checkpoint, name, order, ("int32", "int64"), (inputs,)))
        expect(inputs >= shape[0], checkpoint, name, f"have {inputs} inputs and {shape[0]} groups of them")
        plus = 0 if given.get("checkpoint_format") == "gptq_v2" else 1
        read = partial(_integers, checkpoint, layer, (outputs, inputs), bits, plus, given.get("group_size", 128))
        kind = kind if kind != "float32" else dtype
        found.append(Weight(f"{layer}.weight", (outputs, inputs), kind, tuple(parts), read))
    return found, []


def _integers(checkpoint: Checkpoint, layer: str, shape: tuple[int, int], bits: int, plus: int, size: Any) -> Integers:
    outputs, inputs = shape
    words = whole_numbers(checkpoint, f"{layer}.qweight")  # (K bits / 32, N)
    scales = np.ascontiguousarray(floats(checkpoint, f"{layer}.scales").T)  # (N, G)
    count = scales.shape[1]
    zeros: Any = 1 << bits - 1
    if f"{layer}.qzeros" in checkpoint.tensors:
        packed = whole_numbers(checkpoint, f"{layer}.qzeros")
        zeros = (numbers_in(packed, bits, outputs).astype(np.int16) + plus).T  # (N, G)
    size = size if isinstance(size, int) and size > 0 and -(-inputs // size) == count else -(-inputs // count)
    groups: Array | None = None
    if f"{layer}.g_idx" in checkpoint.tensors:
        name = f"{layer}.g_idx"
        groups = whole_numbers(checkpoint, name)
        expect(0 <= groups.min() and groups.max() < count, checkpoint, name, f"name no groups of 0 … {count - 1}")
        if np.array_equal(groups, np.arange(inputs) // size):
            groups = None

    def codes(first: int, rows: int) -> Array:
        return numbers_in(words[:, first : first + rows].T, bits, inputs)

    return Integers(shape, codes, 0, (1 << bits) - 1, scales, zeros, size, groups)
