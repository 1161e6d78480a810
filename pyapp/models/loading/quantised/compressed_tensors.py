"""compressed-tensors, as LLM Compressor writes it for vLLM.

The tensors of a layer say its format: `weight_packed` int32 (N, K bits / 32), of which the numbers of a row follow one
another, with an offset of half their range ("pack-quantized"); `weight` int8 ("int-quantized") or float8_e4m3fn
("float-quantized", "mxfp8-quantized"); `weight_packed` uint8 (N, K / 2) of E2M1, the first of two in the low half,
with `weight_scale` in float8_e4m3fn of 16 numbers and a `weight_global_scale` that divides them ("nvfp4-pack-
quantized"), or in E8M0 of 32 ("mxfp4-pack-quantized"). `weight_scale` is (N, G), (N, 1) or one number, and
`weight_zero_point` of packed numbers is packed along N. Source: compressed_tensors/compressors, 0.20.1. Activations
are not rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.formats.foreign_dtypes import code_table

from .checkpoint import Weight, expect, expect_tensor, floats, unread_of, whole_numbers
from .float8 import UNREAD, weights_of
from .numbers import Floats, Integers, MxFloats, numbers_in

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

FORMATS = (
    "dense", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
)  # fmt: skip
SCALES = ("float32", "bfloat16", "float16")
NV_GROUP, MX_GROUP = 16, 32  # numbers that share a scale


def _groups(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The groups of layers."""
    groups = given.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping):
            yield group


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    forms = [given.get("format"), *(group.get("format") for group in _groups(given))]
    for form in forms:
        if form is not None and form not in FORMATS:
            return f"format is {form!r:.40}, expected one of {', '.join(FORMATS)}"
    sparse = given.get("sparsity_config")
    if isinstance(sparse, Mapping) and sparse.get("format", "dense") != "dense":
        return f"sparsity_config has the format {sparse['format']!r:.40}, expected 'dense'"
    transforms = given.get("transform_config")
    if isinstance(transforms, Mapping) and transforms.get("config_groups"):
        return "transform_config asks for rotations"
    return None


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    found = [str(given["format"])] if given.get("format") else []
    for group in _groups(given):
        numbers = group.get("weights")
        if isinstance(numbers, Mapping):
            bits, size = f"{numbers.get('num_bits')} bits", numbers.get("group_size")
            found += [bits] + ([f"groups of {size}"] if isinstance(size, int) and size > 0 else [])
    return list(dict.fromkeys(found))


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found = []
    for name, info in checkpoint.tensors.items():
        layer = name.removesuffix(".weight_packed")
        if layer != name and info.dtype == "uint8":
            found.append(_four_bit_floats(checkpoint, layer, dtype))
        elif layer != name:
            found.append(_packed(checkpoint, layer, dtype))
        elif name.endswith(".weight") and info.dtype == "int8" and f"{name}_scale" in checkpoint.tensors:
            found.append(_bytes(checkpoint, name.removesuffix(".weight"), dtype))
    blocks = (group["weights"].get("block_structure") for group in _groups(given)
              if isinstance(group.get("weights"), Mapping))  # fmt: skip
    found += weights_of(checkpoint, next(filter(None, blocks), None), dtype)
    used = {part for weight in found for part in weight.parts}
    symmetric = [name for name in unread_of(checkpoint, ("weight_zero_point",)) if name not in used]
    more = (*UNREAD, "input_global_scale", "input_zero_point", "output_zero_point")
    return found, [*symmetric, *unread_of(checkpoint, more)]


def _scales(checkpoint: Checkpoint, layer: str, outputs: int, of: str) -> tuple[str, int]:
    """The name of a layer's scales, and how many a row has."""
    name = expect_tensor(checkpoint, of, f"{layer}.weight_scale", SCALES)
    shape = checkpoint.tensors[name].shape
    groups = shape[1] if len(shape) == 2 else 1
    fits = prod(shape) in (1, outputs * groups) and groups > 0
    expect(fits, checkpoint, name, f"are neither ({outputs}, G) nor one number")
    return name, groups


def _kind(checkpoint: Checkpoint, scales: str, dtype: str) -> str:
    """The 16-bit type of a matrix: that of its scales, as compressed-tensors computes it, if they have one."""
    found = checkpoint.tensors[scales].dtype
    return found if found in ("float16", "bfloat16") else dtype


def _packed(checkpoint: Checkpoint, layer: str, dtype: str) -> Weight:
    name = f"{layer}.weight_packed"
    info = checkpoint.tensors[name]
    expect(info.dtype == "int32" and len(info.shape) == 2, checkpoint, name, "are not int32 (N, K bits / 32)")
    outputs, words = info.shape
    sizes = expect_tensor(checkpoint, name, f"{layer}.weight_shape", ("int64", "int32"), (2,))
    rows, inputs = (int(size) for size in whole_numbers(checkpoint, sizes))
    fits = rows == outputs and 0 < inputs <= 32 * words
    expect(fits, checkpoint, sizes, f"say {rows} x {inputs}, which {name!r:.120} {list(info.shape)} is not")
    bits = next((bits for bits in range(1, 9) if -(-inputs * bits // 32) == words), 0)
    expect(bits > 0, checkpoint, name, f"are not rows of {inputs} numbers of 1 to 8 bits")
    scales, groups = _scales(checkpoint, layer, outputs, name)
    expect(inputs >= groups, checkpoint, scales, f"are too many for {inputs} inputs")
    parts, zeros, order = [name, sizes, scales], f"{layer}.weight_zero_point", f"{layer}.weight_g_idx"
    if zeros in checkpoint.tensors and checkpoint.tensors[zeros].dtype == "int32":
        shape = -(-outputs * bits // 32), groups
        parts.append(expect_tensor(checkpoint, name, zeros, ("int32",), shape))
    if order in checkpoint.tensors:
        parts.append(expect_tensor(checkpoint, name, order, ("int32", "int64"), (inputs,)))
    read = partial(_of_words, checkpoint, layer, (outputs, inputs), bits, groups)
    return Weight(f"{layer}.weight", (outputs, inputs), _kind(checkpoint, scales, dtype), tuple(parts), read)


def _of_words(checkpoint: Checkpoint, layer: str, shape: tuple[int, int], bits: int, groups: int) -> Integers:
    outputs, inputs = shape
    words = whole_numbers(checkpoint, f"{layer}.weight_packed")
    size, order = -(-inputs // groups), None
    zeros: Any = 1 << bits - 1
    name = f"{layer}.weight_zero_point"
    if name in checkpoint.tensors and checkpoint.tensors[name].dtype == "int32":
        zeros = numbers_in(whole_numbers(checkpoint, name).T, bits, outputs).T  # (N, G); both have the same offset
    name = f"{layer}.weight_g_idx"
    if name in checkpoint.tensors:
        order = whole_numbers(checkpoint, name)
        if (order == -1).all() or np.array_equal(order, np.arange(inputs) // size):
            order = None
        else:
            expect(0 <= order.min() and order.max() < groups, checkpoint, name, f"name no groups of 0 … {groups - 1}")
    scales = np.broadcast_to(floats(checkpoint, f"{layer}.weight_scale").reshape(-1, groups), (outputs, groups))

    def codes(first: int, count: int) -> Array:
        return numbers_in(words[first : first + count], bits, inputs)

    return Integers(shape, codes, 0, (1 << bits) - 1, scales, zeros, size, order)


def _bytes(checkpoint: Checkpoint, layer: str, dtype: str) -> Weight:
    name = f"{layer}.weight"
    shape = checkpoint.tensors[name].shape
    expect(len(shape) == 2, checkpoint, name, "are not a matrix")
    scales, groups = _scales(checkpoint, layer, shape[0], name)
    expect(shape[1] % groups == 0, checkpoint, scales, f"are not whole groups of {shape[1]} inputs")
    parts, zeros = [name, scales], f"{layer}.weight_zero_point"
    if zeros in checkpoint.tensors:
        of_scales = checkpoint.tensors[scales].shape
        parts.append(expect_tensor(checkpoint, name, zeros, ("int8",), of_scales))
    read = partial(_of_bytes, checkpoint, layer, (shape[0], shape[1]), groups)
    return Weight(name, shape, _kind(checkpoint, scales, dtype), tuple(parts), read)


def _of_bytes(checkpoint: Checkpoint, layer: str, shape: tuple[int, int], groups: int) -> Integers:
    numbers = whole_numbers(checkpoint, f"{layer}.weight")
    each, zeros = (shape[0], groups), np.zeros((1, 1), np.int8)
    if f"{layer}.weight_zero_point" in checkpoint.tensors:
        zeros = whole_numbers(checkpoint, f"{layer}.weight_zero_point").reshape(-1, groups)
    scales = floats(checkpoint, f"{layer}.weight_scale").reshape(-1, groups)
    return Integers(
        shape, lambda first, count: numbers[first : first + count], -128, 127, np.broadcast_to(scales, each),
        np.broadcast_to(zeros, each), shape[1] // groups,
    )  # fmt: skip


def _four_bit_floats(checkpoint: Checkpoint, layer: str, dtype: str) -> Weight:
    name, own = f"{layer}.weight_packed", f"{layer}.weight"
    divisor = f"{layer}.weight_global_scale"
    if divisor in checkpoint.tensors:
        return nv_weight(checkpoint, name, own, divisor, dtype, divides=True)
    outputs, inputs = _pairs_of(checkpoint, name, MX_GROUP)
    kinds = ("uint8", "float8_e8m0fnu")
    scales = expect_tensor(checkpoint, name, f"{own}_scale", kinds, (outputs, inputs // MX_GROUP))
    read = partial(_mx_floats, checkpoint, layer, (outputs, inputs))
    return Weight(own, (outputs, inputs), dtype, (name, scales), read)


def nv_weight(checkpoint: Checkpoint, name: str, own: str, factor: str, dtype: str, *, divides: bool = False) -> Weight:
    """The weight `own` in NVFP4: pairs of numbers `name`, its scales, and one number `factor` that multiplies these, or
    divides them.
    """
    outputs, inputs = _pairs_of(checkpoint, name, NV_GROUP)
    expect_tensor(checkpoint, name, factor, ("float32",), (1,), ())
    groups = outputs, inputs // NV_GROUP
    scales = expect_tensor(checkpoint, name, f"{own}_scale", ("float8_e4m3fn",), groups)
    read = partial(_nv_floats, checkpoint, name, scales, factor, divides)
    return Weight(own, (outputs, inputs), dtype, (name, scales, factor), read)


def _pairs_of(checkpoint: Checkpoint, name: str, group: int) -> tuple[int, int]:
    """The shape (N, K) of the matrix with two numbers in each byte of (N, K / 2)."""
    shape = checkpoint.tensors[name].shape
    expect(len(shape) == 2 and 2 * shape[1] % group == 0, checkpoint, name, f"are not rows of groups of {group}")
    return shape[0], 2 * shape[1]


def _mx_floats(checkpoint: Checkpoint, layer: str, shape: tuple[int, int]) -> MxFloats:
    pairs = whole_numbers(checkpoint, f"{layer}.weight_packed")
    data = checkpoint.read_bytes(f"{layer}.weight_scale")
    exponents = np.frombuffer(data, np.uint8).reshape(shape[0], -1)
    return MxFloats(
        shape, lambda first, count: pairs[first : first + count], lambda first, count: exponents[first : first + count]
    )


def _nv_floats(checkpoint: Checkpoint, name: str, scale: str, factor: str, divides: bool) -> Floats:
    pairs = whole_numbers(checkpoint, name)
    scales, number = floats(checkpoint, scale), floats(checkpoint, factor).reshape(-1)[0]
    scales = scales / number if divides else scales * number  # (N, K / 16)
    width = 2 * pairs.shape[1]
    table = code_table("float4_e2m1fn")
    table = np.stack(np.broadcast_arrays(table, table[:, None]), -1).reshape(256, 2)  # of each byte

    def rows(first: int, count: int) -> Array:
        values = table[pairs[first : first + count]].reshape(count, -1, NV_GROUP)
        return (values * scales[first : first + count, :, None]).reshape(count, width)

    return Floats((len(pairs), width), rows)
