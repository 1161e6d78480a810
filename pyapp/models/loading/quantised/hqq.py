"""HQQ (Badri and Shaji 2023, https://mobiusml.github.io/hqq_blog): codes less a zero point that is not a whole number.

Of a layer with the weight (N, K): its numbers in rows (R, C), which are groups of `group_size` (`axis` 1) or have a
number of each group (0); W_q (R / n, C), of which row i + k R / n is in the k-th highest bits of row i, n numbers in a
byte, or of 3 bits ten in 32; and scale and zero of each group. A number is (code - zero) scale, each step rounded to
the type of the scales. Source: Quantizer.dequantize of hqq/core/quantize.py and bitpack.py, 0.2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from pyapp.engine.lazy import np
from pyapp.engine.tensor import adopt_array

from .checkpoint import Weight, expect, expect_tensor, floats, whole_numbers
from .numbers import Floats

if TYPE_CHECKING:
    from pyapp.engine.blocks.layout import Array
    from pyapp.formats import Checkpoint

BITS = (1, 2, 3, 4, 8)
HALVES = ("float16", "bfloat16")
# What a layer stores beside W_q, scale, zero, shape, nbits and axis.
FIELDS = (
    "group_size", "packing", "unpack_view_dtype", "view_as_float", "quant_scale", "quant_zero", "compute_dtype",
    "offload_meta", "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero",
)  # fmt: skip


def _numbers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of weights; empty where layers have their own."""
    found = given.get("quant_config")
    found = found.get("weight_quant_params") if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def problem(given: Mapping[str, Any]) -> str | None:
    """What in the configuration is not read."""
    config = given.get("quant_config")
    for name in ("scale_quant_params", "zero_quant_params"):
        if isinstance(config, Mapping) and config.get(name):
            return f"{name} asks for quantised scales"
    bits = _numbers(given).get("nbits", BITS[0])
    return None if bits in BITS else f"nbits is {bits!r:.20}, expected one of {BITS}"


def details(given: Mapping[str, Any]) -> list[str]:
    """The configuration in words."""
    found = _numbers(given)
    return [f"{found['nbits']} bits", f"groups of {found.get('group_size')}"] if "nbits" in found else []


def weights(checkpoint: Checkpoint, given: Mapping[str, Any], dtype: str) -> tuple[list[Weight], list[str]]:
    """The quantised matrices, and the tensors that are not read."""
    found, unread = [], []
    for name, info in checkpoint.tensors.items():
        if not name.endswith(".W_q"):
            continue
        layer = name.removesuffix(".W_q")
        sizes = expect_tensor(checkpoint, name, f"{layer}.shape", ("int64", "int32"), (2,))
        bits, axis = (expect_tensor(checkpoint, name, f"{layer}.{part}", ("int32", "int64"), (), (1,))
                      for part in ("nbits", "axis"))  # fmt: skip
        rows, columns = (int(size) for size in whole_numbers(checkpoint, sizes))
        number, of_axis = (int(whole_numbers(checkpoint, part).reshape(-1)[0]) for part in (bits, axis))
        expect(number in BITS, checkpoint, bits, f"are none of {BITS}")
        expect(of_axis in (0, 1), checkpoint, axis, "are neither 0 nor 1")
        expect(
            rows > 0 and columns > 0 and len(info.shape) == 2 and info.numel > 0, checkpoint, sizes, "name no matrix"
        )
        scale = expect_tensor(checkpoint, name, f"{layer}.scale", HALVES)
        shape = tuple(checkpoint.tensors[scale].shape)
        zero = expect_tensor(checkpoint, name, f"{layer}.zero", HALVES, shape)
        groups = prod(shape)
        expect(groups > 0 and rows * columns % groups == 0, checkpoint, scale, f"fit no {rows} x {columns}")
        height, width = (groups, rows * columns // groups) if of_axis else (rows * columns // groups, groups)
        each, size = (10, 4) if number == 3 else (8 // number, 1)
        fits = info.nbytes == -(-height // each) * width * size
        expect(fits, checkpoint, name, f"are not {height} x {width} numbers")
        kind = checkpoint.tensors[scale].dtype
        read = partial(_floats, checkpoint, layer, (rows, columns), (height, width), number, of_axis, kind)
        found.append(Weight(f"{layer}.weight", (rows, columns), kind, (name, sizes, bits, axis, scale, zero), read))
        unread += [f"{layer}.{field}" for field in FIELDS if f"{layer}.{field}" in checkpoint.tensors]
    return found, unread


def _floats(
    checkpoint: Checkpoint, layer: str, shape: tuple[int, int], grid: tuple[int, int], bits: int, axis: int, kind: str
) -> Floats:
    height, width = grid
    each, word = (10, "<i4") if bits == 3 else (8 // bits, "u1")
    packed = np.frombuffer(checkpoint.read_bytes(f"{layer}.W_q"), word).reshape(-1, width)
    ends = (-1, 1) if axis else (1, -1)
    scale, zero = (floats(checkpoint, f"{layer}.{part}").reshape(ends) for part in ("scale", "zero"))

    def rows(first: int, count: int) -> Array:
        begin, end = first * shape[1], (first + count) * shape[1]
        top, bottom = begin // width, -(-end // width)
        place, row = np.divmod(np.arange(top, bottom), len(packed))
        shifts = (bits * (each - 1 - place)).astype(packed.dtype)
        codes = packed[row] >> shifts[:, None] & packed.dtype.type((1 << bits) - 1)
        own = slice(top, bottom) if axis else slice(None)
        differences = adopt_array(codes.astype(np.float32) - zero[own]).to(kind).float().numpy()
        return (differences * scale[own]).reshape(-1)[begin - top * width :][: end - begin].reshape(count, shape[1])

    return Floats(shape, rows)
