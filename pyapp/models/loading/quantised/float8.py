"""FP8 (Micikevicius et al. 2022, arXiv 2209.05433) with scales of blocks, rows or whole matrices.

Of a tensor NAME in float8_e4m3fn (…, N, K): NAME_scale_inv (…, N / 128, K / 128), as DeepSeek-V3 publishes it, or one
number; fbgemm and compressed-tensors call it NAME_scale. Each number is multiplied by its scale in float32 and becomes
the model's 16-bit type, as in transformers' integrations/finegrained_fp8.py (Fp8Dequantize). Scales of 8 bits are
powers of two (E8M0). Activations are not rounded to 8 bits. DeepSeek V4 calls the scales of LAYER.weight LAYER.scale
(Mistral LAYER.qscale_weight), and has experts of pairs of E2M1 numbers, int8 (N, K / 2), with scales (N, K / 32).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.formats.foreign_dtypes import code_table

from .checkpoint import Weight, expect, expect_tensor, flat_shape, floats, unread_of, whole_numbers
from .numbers import Floats, MxFloats

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
SCALES = ("float32", "bfloat16", "float16", "float8_e8m0fnu", "uint8")
ENDS = ("_scale_inv", "_scale")  # of the names of scales
BESIDE = (".scale", ".qscale_weight")  # in the place of .weight
GROUP = 32  # numbers of four bits that share a scale
# Scales of activations and of caches.
UNREAD = (
    "activation_scale", "input_scale", "output_scale", "k_scale", "v_scale", "q_scale", "input_scale_ub",
    "gate_up_proj_activation_scale", "down_proj_activation_scale",
)  # fmt: skip


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    form = given.get("fmt", "e4m3")
    return None if form in ("e4m3", "float8_e4m3fn") else f"fmt is {form!r:.40}, expected 'e4m3'"


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    size = given.get("weight_block_size")
    return [f"blocks of {' x '.join(map(str, size))}"] if isinstance(size, list) else []


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    block = given.get("weight_block_size")
    return weights_of(checkpoint, block, dtype), unread_of(checkpoint, UNREAD)


def weights_of(checkpoint: Checkpoint, block: Any, dtype: str) -> list[Weight]:
    """The matrices of 8-bit floats; `block` is the size of those that share a scale, or nothing."""
    found = []
    for name, info in checkpoint.tensors.items():
        scale = f"{name.removesuffix('.weight')}{BESIDE[0]}"
        if info.dtype == "int8" and len(info.shape) == 2 and name.endswith(".weight") and scale in checkpoint.tensors:
            found.append(_four_bits(checkpoint, name, scale, dtype))
        if info.dtype not in FLOAT8 or len(info.shape) < 2 or name.endswith((*ENDS, *BESIDE)):
            continue
        names = [*(name + end for end in ENDS), *(name.removesuffix(".weight") + end for end in BESIDE)]
        scale = next((one for one in names if one in checkpoint.tensors), names[0])
        expect_tensor(checkpoint, name, scale, SCALES)
        sizes = _block_of(checkpoint, name, scale, block)
        read = partial(_floats, checkpoint, name, scale, sizes)
        found.append(Weight(name, info.shape, dtype, (name, scale), read))
    return found


def _four_bits(checkpoint: Checkpoint, name: str, scale: str, dtype: str) -> Weight:
    """A matrix of pairs of E2M1 numbers, the first in the low half."""
    rows, pairs = checkpoint.tensors[name].shape
    expect(2 * pairs % GROUP == 0, checkpoint, name, f"are not rows of groups of {GROUP}")
    shape = rows, 2 * pairs
    expect_tensor(checkpoint, name, scale, ("float8_e8m0fnu", "uint8"), (rows, shape[1] // GROUP))

    def read() -> MxFloats:
        data = np.frombuffer(checkpoint.read_bytes(name), np.uint8).reshape(rows, pairs)
        exponents = np.frombuffer(checkpoint.read_bytes(scale), np.uint8).reshape(rows, -1)
        return MxFloats(
            shape, lambda first, count: data[first : first + count],
            lambda first, count: exponents[first : first + count],
        )  # fmt: skip

    return Weight(name, shape, dtype, (name, scale), read)


def _block_of(checkpoint: Checkpoint, name: str, scale: str, block: Any) -> tuple[int, int]:
    """The rows and columns that share a scale."""
    shape, of_scale = checkpoint.tensors[name].shape, checkpoint.tensors[scale].shape
    rows, columns = shape[-2:]
    if prod(of_scale) == 1:
        return prod(shape[:-1]), columns
    if len(of_scale) == 1 and len(shape) == 2:
        of_scale = (*of_scale, 1)
    if len(shape) == 3 and prod(of_scale) == shape[0]:  # one for each matrix of a stack
        of_scale = (shape[0], 1, 1)
    expect(len(of_scale) == len(shape) and of_scale[:-2] == shape[:-2], checkpoint, scale, f"fit no {list(shape)}")
    sizes = []
    given = block if isinstance(block, list | tuple) and len(block) == 2 else (None, None)
    for size, count, said in zip((rows, columns), of_scale[-2:], given, strict=True):
        if isinstance(said, int) and said > 0 and -(-size // said) == count:
            sizes.append(min(said, size))
        else:
            expect(count > 0 and size % count == 0, checkpoint, scale, f"fit no {list(shape)}")
            sizes.append(size // count)
    return sizes[0], sizes[1]


def scale_values(checkpoint: Checkpoint, name: str) -> Array:
    """Scales as float32. Bytes are exponents of two, with a bias of 127."""
    if checkpoint.tensors[name].dtype == "uint8":
        return code_table("float8_e8m0fnu")[whole_numbers(checkpoint, name)]
    return floats(checkpoint, name)


def _floats(checkpoint: Checkpoint, name: str, scale: str, block: tuple[int, int]) -> Floats:
    info = checkpoint.tensors[name]
    shape = flat_shape(info.shape)
    table = code_table(info.dtype)
    data = np.frombuffer(checkpoint.read_bytes(name), np.uint8).reshape(shape)
    scales = scale_values(checkpoint, scale)
    height, width = block
    each = info.shape[-2]  # rows of a matrix of a stack
    grid = scales.reshape(-1, -(-shape[1] // width))  # (matrices * rows of blocks, columns of blocks)
    above = -(-each // height)  # rows of blocks of a matrix
    single = scales.size == 1

    def rows(first: int, count: int) -> Array:
        values = table[data[first : first + count]]
        if single:
            return values * scales.reshape(-1)[0]
        row = np.arange(first, first + count)
        lines = grid[row // each * above + row % each // height]  # (rows, columns of blocks)
        return values * np.repeat(lines, width, 1)[:, : shape[1]]

    return Floats(shape, rows)
