"""AWQ (Lin et al. 2023, arXiv 2306.00978) as AutoAWQ writes it, in its version "gemm".

Of a layer with K inputs and N outputs: qweight (K, N / 8) int32, of which a word has the outputs 0, 2, 4, 6, 1, 3, 5
and 7 of eight, beginning with its lowest bits; qzeros (G, N / 8) in the same order; and scales (G, N). Source:
WQLinear_GEMM.from_linear of awq/modules/linear/gemm.py, 0.2.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np

from .checkpoint import Weight, expect, expect_tensor, floats, packed_layers, whole_numbers
from .numbers import Integers

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

BITS, EACH = 4, 8  # bits of a number, numbers of a word
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the output of each four bits of a word


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    bits, version = given.get("bits", given.get("w_bit", BITS)), str(given.get("version", "gemm")).lower()
    if bits != BITS:
        return f"bits is {bits!r:.20}, expected {BITS}"
    return None if version == "gemm" else f"version is {version!r:.40}, expected 'gemm'"


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    return [f"{BITS} bits", f"groups of {given.get('group_size', given.get('q_group_size', 128))}"]


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found = []
    for name, layer, (inputs, words), scales in packed_layers(checkpoint):
        kind, shape = checkpoint.tensors[scales].dtype, checkpoint.tensors[scales].shape
        fits = shape[1] == EACH * words and inputs % shape[0] == 0
        expect(fits, checkpoint, scales, f"are no (G, {EACH * words}) with a whole number of {inputs} inputs each")
        parts, zeros = [name, scales], f"{layer}.qzeros"
        if zeros in checkpoint.tensors:
            parts.append(expect_tensor(checkpoint, name, zeros, ("int32",), (shape[0], words)))
        size = EACH * words, inputs
        read = partial(_integers, checkpoint, layer, size, shape[0])
        found.append(Weight(f"{layer}.weight", size, kind if kind != "float32" else dtype, tuple(parts), read))
    return found, []


def _in_order(words: Array) -> Array:
    """Words (rows, W) int32 → the numbers of their columns (8 W, rows) uint8."""
    columns = np.ascontiguousarray(words.T).view(np.uint8).reshape(words.shape[1], -1, 4)  # (W, rows, 4)
    found = np.empty((words.shape[1], EACH, len(words)), np.uint8)
    for place, column in enumerate(ORDER):
        np.bitwise_and(columns[..., place // 2] >> np.uint8(4 * (place % 2)), 15, out=found[:, column])
    return found.reshape(-1, len(words))


def _integers(checkpoint: Checkpoint, layer: str, shape: tuple[int, int], groups: int) -> Integers:
    words = whole_numbers(checkpoint, f"{layer}.qweight")  # (K, N / 8)
    scales = np.ascontiguousarray(floats(checkpoint, f"{layer}.scales").T)  # (N, G)
    zeros: Any = 1 << BITS - 1
    if f"{layer}.qzeros" in checkpoint.tensors:
        zeros = _in_order(whole_numbers(checkpoint, f"{layer}.qzeros")).astype(np.int16)  # (N, G)

    def codes(first: int, rows: int) -> Array:
        begin = first // EACH
        found = _in_order(words[:, begin : -(-(first + rows) // EACH)])
        return found[first - begin * EACH :][:rows]

    return Integers(shape, codes, 0, (1 << BITS) - 1, scales, zeros, shape[1] // groups)
