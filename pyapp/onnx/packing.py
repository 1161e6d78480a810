"""Quantised weights, packed once as the kernels read them: blocks of 4 or 8 bits (com.microsoft.MatMulNBits), and the
products and LSTMs of models that onnxruntime quantised dynamically.
"""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops, quant
from pyapp.engine.lazy import np

from .operators.packed import centred_columns, codes_of_blocks, zeros_of_blocks
from .operators.recurrent import lstm
from .registry import find, internal
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
    if not _fits_half(array_of(scales)):
        return None
    if id(b) not in made:
        made[id(b)] = b, _packed(b, scales, zero, bits, block, n, k).to(b.device)
    key = f"{names[1]}/packed"
    inputs = [names[0], key, *([names[5]] if names[5] else [])]
    return Step(_OPERATOR, step.title, inputs, step.outputs[:1], {}, {}, []), key, made[id(b)][1]


def _fits_half(scales: Any) -> bool:
    """Whether scales keep their value in float16, up to rounding: small ones lose no more than the largest does."""
    largest = float(np.abs(scales.astype(np.float32)).max(initial=0.0))
    return largest == 0 or 6.2e-5 < largest < 65504


def pack_dynamic(
    steps: list[Step], product: Step, values: dict[str, Any], outputs: set[str], made: dict[int, Any]
) -> tuple[list[Step], Step, str, Tensor] | None:
    """The steps that a MatMulInteger or ConvInteger with the steps around it is: x quantised to uint8, the product, and
    its scales:

        q, s, z = DynamicQuantizeLinear(x);  y = Cast(MatMulInteger(q, W, z, zero)) * (s * scale)

    With them, the step that replaces the last one, and the name and tensor of its weight: packed, of a convolution in
    float32. None for another product, or a weight that is not in `values`.
    """
    users: dict[str, list[Step]] = {}
    for step in steps:
        for name in {*step.inputs, *step.captures}:
            users.setdefault(name, []).append(step)
    maker = {name: step for step in steps for name in step.outputs if name}

    def only_user(step: Step, op: str) -> Step | None:
        name = step.outputs[0]
        found = users.get(name, [])
        return found[0] if len(found) == 1 and name not in outputs and found[0].operator.name == op else None

    names = [*product.inputs, "", ""][:4]
    source = maker.get(names[0])
    if source is None or source.operator.name != "DynamicQuantizeLinear" or [names[0], names[2]] != source.outputs[::2]:
        return None
    cast = only_user(product, "Cast")
    last = None if cast is None or cast.settings.get("to") != 1 else only_user(cast, "Mul")
    if cast is None or last is None or names[1] not in values or (names[3] and names[3] not in values):
        return None
    factor = maker.get(next(iter({*last.inputs} - {cast.outputs[0]}), ""))
    if factor is None or factor.operator.name != "Mul" or source.outputs[1] not in factor.inputs:
        return None
    scale = next(iter({*factor.inputs} - {source.outputs[1]}), "")
    if scale not in values or element_of(values[scale]) != "float32":
        return None
    weight, scales = values[names[1]], array_of(values[scale]).reshape(-1)
    convolves = product.operator.name == "ConvInteger"
    if convolves:
        operator, rows, settings = find("", "Conv", product.operator.since), array_of(weight), product.settings
    else:
        operator, rows, settings = _OPERATOR, array_of(weight).T, {}
    if operator is None or rows.ndim < 2 or scales.size not in (1, len(rows)):
        return None
    column = [-1, *[1] * (rows.ndim - 1)]
    centred = rows.astype(np.int32)
    if names[3]:
        centred = centred - array_of(values[names[3]]).astype(np.int32).reshape(column)
    if not convolves and (rows.ndim != 2 or not _fits_blocks(centred, scales)):
        return None
    if id(weight) not in made:
        matrix = _tensor(centred * scales.reshape(column)) if convolves else _eight_bits(centred, scales)
        made[id(weight)] = weight, matrix.to(weight.device)
    key = f"{names[1]}/packed"
    new = Step(operator, product.title, [source.inputs[0], key], last.outputs, settings, {}, [])
    gone = [product, cast, last, *([factor] if len(users[factor.outputs[0]]) == 1 else [])]
    return gone, new, key, made[id(weight)][1]


def _fits_blocks(rows: Any, scales: Any) -> bool:
    """Whether whole numbers (N, K) and their scales can be packed as q8_0."""
    return rows.shape[1] % 32 == 0 and _fits_half(scales) and -128 <= rows.min() and rows.max() <= 127


def _eight_bits(centred: Any, scales: Any) -> Tensor:
    """Whole numbers of -128 to 127 (N, K), with a scale for all or for each row, as q8_0."""
    n, k = centred.shape
    rows = np.empty((n, k // 32, 34), np.uint8)
    rows[..., :2] = np.broadcast_to(scales.reshape(-1, 1, 1), (n, k // 32, 1)).astype("<f2").view(np.uint8)
    rows[..., 2:] = np.ascontiguousarray(centred).astype(np.int8).reshape(n, k // 32, 32).view(np.uint8)
    return quant.from_blocks(rows.tobytes(), (n, k), "q8_0")


def packed_lstm(
    x: Tensor, bias: Any, lengths: Any, initial_h: Any, initial_c: Any, peepholes: Any, *matrices: Tensor,
    **settings: Any,
) -> Any:  # fmt: skip
    """An LSTM with the matrices W of each direction, then R of each."""
    half = len(matrices) // 2
    return lstm(x, matrices[:half], matrices[half:], bias, lengths, initial_h, initial_c, peepholes, **settings)


_LSTM = internal(packed_lstm)


def pack_lstm(step: Step, values: dict[str, Any], made: dict[int, Any]) -> tuple[Step, dict[str, Tensor]] | None:
    """The step that replaces a DynamicQuantizeLSTM, and its weights by name: packed, or in float32 where they do not
    fit into blocks. None where a weight, scale or zero point is not in `values`. `made` is that of `pack`.
    """
    names = [*step.inputs, *[""] * (12 - len(step.inputs))]
    if any(name not in values for name in (names[1], names[2], names[8], names[10])):
        return None
    if any(name and name not in values for name in (names[9], names[11])):
        return None
    weights: dict[str, Tensor] = {}
    for at, scale, zero in ((1, 8, 9), (2, 10, 11)):
        codes = values[names[at]]
        if id(codes) not in made:
            parts = (
                centred_columns(codes, values[names[scale]], values.get(names[zero]), direction)
                for direction in range(codes.shape[0])
            )
            made[id(codes)] = codes, [_matrix(rows, scales).to(codes.device) for rows, scales in parts]
        weights |= {f"{names[at]}/packed/{d}": matrix for d, matrix in enumerate(made[id(codes)][1])}
    inputs = [names[0], *names[3:8], *weights]
    return Step(_LSTM, step.title, inputs, step.outputs, step.settings, {}, []), weights


def _matrix(rows: Any, scales: Any) -> Tensor:
    return _eight_bits(rows, scales) if _fits_blocks(rows, scales) else _tensor(rows * scales[:, None])


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
