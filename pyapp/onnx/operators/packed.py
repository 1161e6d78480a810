"""com.microsoft: quantised weights and activations. Sources: the operators' descriptions in onnxruntime's
ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import MICROSOFT, operator
from ..values import array_of, axes_of, element_of, like, made_of
from .activations import leaky_relu, softmax
from .quantization import centred, dequantize_linear, dynamic, exact_product, quantize_linear
from .recurrent import lstm
from .windows import average_pool

operator("QuantizeLinear", domain=MICROSOFT)(quantize_linear)
operator("DequantizeLinear", domain=MICROSOFT)(dequantize_linear)


def codes_of_blocks(b: Tensor, bits: int, n: int, k: int) -> Any:
    """Packed weights (N, blocks, bytes) → their codes (N, K) uint8; the first code is in the lowest bits of a byte."""
    packed = array_of(b).reshape(n, -1).astype(np.uint8)
    if bits == 8:
        return packed[:, :k]
    if bits not in (2, 4):
        raise ValueError(f"weights of {bits} bits, expected 2, 4 or 8")
    parts = [packed >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(n, -1)[:, :k]


def zeros_of_blocks(zero: Any, bits: int, n: int, blocks: int) -> Any:
    """Zero points (N, blocks) in float32: numbers, or packed as the weights are; the middle of the range if absent."""
    if zero is None:
        return np.full((n, blocks), float(1 << (bits - 1)), np.float32)
    if element_of(zero) != "uint8":
        return array_of(zero).astype(np.float32).reshape(n, blocks)
    return codes_of_blocks(zero, bits, n, blocks).astype(np.float32)


def dequantized_blocks(b: Tensor, scales: Tensor, zero: Any, bits: int, block: int, n: int, k: int, groups: Any) -> Any:
    """The weight (N, K) in float32."""
    if n < 1 or k < 1 or block < 16:
        raise ValueError(f"a weight of {n} x {k} in blocks of {block}")
    blocks = -(-k // block)
    if b.numel() != n * blocks * (block * bits // 8) or scales.numel() != n * blocks:
        raise ValueError(
            f"{b.numel():,} bytes and {scales.numel():,} scales are not a weight of {n} x {k} with {bits} bits in "
            f"blocks of {block}"
        )
    codes = codes_of_blocks(b, bits, n, k).astype(np.float32)
    factor, offset = array_of(scales).astype(np.float32).reshape(n, blocks), zeros_of_blocks(zero, bits, n, blocks)
    index = np.arange(k) // block if groups is None else array_of(groups)[:k]
    return (codes - offset[:, index]) * factor[:, index]


@operator("MatMulNBits", domain=MICROSOFT)
def mat_mul_n_bits(
    a: Tensor, b: Tensor, scales: Tensor, zero: Any = None, groups: Any = None, bias: Any = None, *, K: int, N: int,
    bits: int = 4, block_size: int = 32, accuracy_level: int = 0, weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    """a (…, K) times a weight (N, K) in blocks of `bits`. Weights that are known are packed once: see
    pyapp/onnx/fusing.py."""
    weight = made_of(dequantized_blocks(b, scales, zero, bits, block_size, N, K, groups), a.dtype.name, a.device)
    return ops.linear(a, weight, bias)


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    data: Any, indices: Tensor, scales: Tensor, zero: Any = None, *, bits: int = 4, block_size: int = 128,
    gather_axis: int = 0, quantize_axis: int = 1,
) -> Tensor:  # fmt: skip
    """Entries of a table in blocks of 4 or 8 bits, in floating point."""
    packed = element_of(data) == "uint8" and bits < 8
    along, at = axes_of([quantize_axis], data.ndim)[0], axes_of([gather_axis], data.ndim)[0]
    if packed and along != data.ndim - 1:
        raise ValueError("packed blocks lie along the last axis")
    index = array_of(indices)
    size = data.shape[at]
    if index.size and not -size <= index.min() <= index.max() < size:
        raise IndexError(f"an index is outside of the {size} entries")

    def chosen(x: Any) -> Any:
        return np.take(array_of(x), index, at)

    codes, factor = chosen(data), chosen(scales).astype(np.float32)
    if packed:
        parts = [codes >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        codes = np.stack(parts, -1).reshape(*codes.shape[:-1], -1)
    axis = along if along < at else along + index.ndim - 1
    count = codes.shape[axis]
    if zero is not None:
        offset = chosen(zero)
        if packed:
            parts = [offset >> shift & ((1 << bits) - 1) for shift in range(0, 8, bits)]
            offset = np.stack(parts, -1).reshape(*offset.shape[:-1], -1)
            offset = offset[..., : factor.shape[-1]]
        offset = np.repeat(offset.astype(np.float32), block_size, axis).take(np.arange(count), axis)
    else:
        offset = float(1 << (bits - 1)) if packed or element_of(data) == "uint8" else 0.0
    wide = np.repeat(factor, block_size, axis).take(np.arange(count), axis)
    return made_of((codes.astype(np.float32) - offset) * wide, element_of(scales))


def _with_bias(y: Any, bias: Any) -> Tensor:
    return made_of((y if bias is None else y + array_of(bias)).astype(np.float32))


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def mat_mul_integer_to_float(
    a: Any, b: Any, a_scale: Tensor, b_scale: Tensor, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Tensor:
    """A product of whole numbers times its scales, plus bias."""
    found = exact_product(centred(a, a_zero, -2), centred(b, b_zero, -1)).astype(np.float32)
    return _with_bias(found * (array_of(a_scale) * array_of(b_scale)), bias)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_mat_mul(a: Tensor, b: Any, b_scale: Tensor, b_zero: Any = None, bias: Any = None) -> Tensor:
    """The same for floating-point a, which is quantised to uint8 first."""
    quantized, scale, zero = dynamic(array_of(a))
    return mat_mul_integer_to_float(quantized, b, scale, b_scale, zero, b_zero, bias)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    x: Tensor, w: Any, r: Any, bias: Any = None, lengths: Any = None, initial_h: Any = None, initial_c: Any = None,
    peepholes: Any = None, w_scale: Any = None, w_zero: Any = None, r_scale: Any = None, r_zero: Any = None, *,
    activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
    direction: bytes = b"forward", hidden_size: int | None = None, input_forget: int = 0,
) -> Any:  # fmt: skip
    """An LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8 bits. What they are multiplied with stays in float32. Weights
    that are known are packed once: see pyapp/onnx/packing.py."""
    matrices: list[list[Tensor]] = []
    for codes, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero)):
        if scale is None:
            raise ValueError("the scale of W or R is missing")
        found = [centred_columns(codes, scale, zero, d) for d in range(codes.shape[0])]
        matrices.append([made_of(rows.astype(np.float32) * scales[:, None], None, x.device) for rows, scales in found])
    return lstm(
        x, matrices[0], matrices[1], bias, lengths, initial_h, initial_c, peepholes, activations=activations,
        activation_alpha=activation_alpha, activation_beta=activation_beta, clip=clip, direction=direction,
        hidden_size=hidden_size, input_forget=input_forget,
    )  # fmt: skip


def centred_columns(codes: Any, scale: Any, zero: Any, direction: int) -> tuple[Any, Any]:
    """A direction's weight of 8 bits (D, columns, rows), with a scale and zero point for all or for each row →
    (rows, columns) int32 around 0, and the scale of each row in float32.
    """
    if codes.ndim != 3 or element_of(codes) not in ("int8", "uint8"):
        raise ValueError(f"a weight of {element_of(codes)} {tuple(codes.shape)}, expected int8 or uint8 with 3 dims")
    rows = array_of(codes)[direction].T.astype(np.int32)
    scales = array_of(scale).astype(np.float32).reshape(codes.shape[0], -1)[direction]
    if scales.size not in (1, len(rows)):
        raise ValueError(f"{scales.size} scales for {len(rows)} rows")
    if zero is not None:
        rows = rows - array_of(zero).astype(np.int32).reshape(codes.shape[0], -1)[direction][:, None]
    return rows, np.broadcast_to(scales, len(rows))


def _requantized(y: Tensor, scale: Any, zero: Any, like_x: Any) -> Any:
    return quantize_linear(y, scale, like(like_x, np.zeros((), array_of(like_x).dtype)) if zero is None else zero)


def _elementwise(function: Any) -> Any:
    def run(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c_scale: Any, c_zero: Any = None
    ) -> Any:
        y = function(dequantize_linear(a, a_scale, a_zero), dequantize_linear(b, b_scale, b_zero))
        return _requantized(y, c_scale, c_zero, a)

    return run


operator("QLinearAdd", domain=MICROSOFT)(_elementwise(ops.add))
operator("QLinearMul", domain=MICROSOFT)(_elementwise(ops.mul))


@operator("QLinearSigmoid", domain=MICROSOFT)
def q_linear_sigmoid(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
    return _requantized(ops.sigmoid(dequantize_linear(x, x_scale, x_zero)), y_scale, y_zero, x)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def q_linear_leaky_relu(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, alpha: float = 0.01
) -> Any:
    return _requantized(leaky_relu(dequantize_linear(x, x_scale, x_zero), alpha=alpha), y_scale, y_zero, x)


@operator("QLinearSoftmax", domain=MICROSOFT)
def q_linear_softmax(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, axis: int = -1, opset: int = 13
) -> Any:
    y = dequantize_linear(x, x_scale, x_zero)
    if opset >= 13:
        return _requantized(softmax(y, axis=axis), y_scale, y_zero, x)
    rows = int(np.prod(x.shape[: axes_of([axis], x.ndim)[0]]))
    return _requantized(ops.softmax(y.reshape(rows, -1), 1).reshape(x.shape), y_scale, y_zero, x)


@operator("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(y_scale: Any, y_zero: Any, *inputs: Any, axis: int) -> Any:
    """Triples of a tensor, its scale and its zero point, joined."""
    if len(inputs) % 3:
        raise ValueError(f"{len(inputs)} inputs are not triples of a tensor, a scale and a zero point")
    parts = [dequantize_linear(*inputs[at : at + 3]) for at in range(0, len(inputs), 3)]
    return quantize_linear(ops.cat(parts, axes_of([axis], parts[0].ndim)[0]), y_scale, y_zero)


@operator("QLinearWhere", domain=MICROSOFT)
def q_linear_where(
    condition: Tensor, x: Any, x_scale: Any, x_zero: Any, y: Any, y_scale: Any, y_zero: Any, z_scale: Any, z_zero: Any
) -> Any:
    found = ops.where(condition, dequantize_linear(x, x_scale, x_zero), dequantize_linear(y, y_scale, y_zero))
    return quantize_linear(found, z_scale, z_zero)


@operator("QLinearReduceMean", domain=MICROSOFT)
def q_linear_reduce_mean(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, axes: list[int], keepdims: int = 1
) -> Any:
    y = dequantize_linear(x, x_scale, x_zero).mean(tuple(axes), bool(keepdims))
    return _requantized(y, y_scale, y_zero, x)


def _channels_first(x: Tensor, last: int) -> Tensor:
    return x.movedim(-1, 1) if last else x


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def q_linear_global_average_pool(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, channels_last: int = 0
) -> Any:
    y = dequantize_linear(x, x_scale, x_zero)
    dims = tuple(range(1, y.ndim - 1)) if channels_last else tuple(range(2, y.ndim))
    return quantize_linear(y.mean(dims, True), y_scale, y_zero)


@operator("QLinearAveragePool", domain=MICROSOFT)
def q_linear_average_pool(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, kernel_shape: list[int],
    auto_pad: bytes = b"NOTSET", ceil_mode: int = 0, channels_last: int = 0, count_include_pad: int = 0,
        pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    y = average_pool(
        _channels_first(dequantize_linear(x, x_scale, x_zero), channels_last), kernel_shape=kernel_shape,
        auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad, pads=pads, strides=strides,
    )  # fmt: skip
    return _requantized(y.movedim(1, -1) if channels_last else y, y_scale, y_zero, x)


@operator("QGemm", domain=MICROSOFT)
def q_gemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None, y_scale: Any = None,
    y_zero: Any = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    """alpha A B + C of whole numbers: in floating point, or quantised with `y_scale`."""
    x, w = centred(a, a_zero, 0), centred(b, b_zero, 0 if transB else 1)
    found = exact_product(x.T if transA else x, w.T if transB else w)
    found = found if c is None else found + array_of(c).astype(np.int64)
    y = made_of((found * (alpha * array_of(a_scale) * array_of(b_scale))).astype(np.float32))
    return y if y_scale is None else quantize_linear(y, y_scale, y_zero)
