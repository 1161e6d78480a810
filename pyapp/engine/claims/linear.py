"""Products with weights of any format, and products of matrices."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..blocks.layout import BLOCK_TYPES
from ..device import cpu
from ..element_types import CODES, opcodes
from ..launch import KERNELS as K
from ..launch import capturing, launch_all
from ..native import IN_BROWSER
from ..op import OPS, claims
from ..ops.linalg.products import check_linear, matmul_shape
from ..ops.view import expanded, reshaped
from ..quant import activation_bytes, dequantize, is_transposed, transposed
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous
from .layouts import rows_of

_F32, _F16, _BF16 = _dtype.float32, _dtype.float16, _dtype.bfloat16

# By the dtypes of x and of the weight; the result has the dtype of x.
_LINEAR = {
    (_F32, _F32): K["linear_f32"],
    (_F32, _F16): K["linear_f16"],
    (_F32, _BF16): K["linear_bf16"],
    (_F16, _F16): K["linear_f16_f16"],
    (_BF16, _BF16): K["linear_bf16_bf16"],
}
# By block format: the kernel, and its type number.
_LINEAR_Q: dict[Any, tuple[Any, tuple[int, ...]]] = {
    kind: (K["linear_blocks"], (BLOCK_TYPES[name].code,)) for name, kind in _dtype.GGML.items()
}
_LINEAR_Q |= {_dtype.q8_0: (K["linear_q8_0"], ()), _dtype.q8_group: (K["linear_q8_group"], ())}
_QUANTIZE_ROWS = {_F32: K["quantize_rows"], _F16: K["quantize_rows_f16"], _BF16: K["quantize_rows_bf16"]}
_ADD_ROWS = {_F16: K["add_rows_f16"], _BF16: K["add_rows_bf16"]}
_WIDEN = {_F16: K["f16_to_f32"], _BF16: K["bf16_to_f32"]}


@claims("_linear")
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Any:
    dtype = x.dtype
    if dtype not in _QUANTIZE_ROWS:
        return NotImplemented
    outputs, inputs = weight.shape if len(weight.shape) == 2 else (-1, -1)
    if not x.shape or x.shape[-1] != inputs:
        check_linear(x, weight)
    if bias is not None and (bias.shape != (outputs,) or bias.dtype is not dtype or not bias.is_contiguous()):
        return NotImplemented
    x, rows, columns, x_stride = rows_of(x)
    added: Tensor | None = bias
    added_stride = 0
    if residual is not None:
        if residual.dtype is not dtype or residual.shape != x.shape[:-1] + (outputs,):
            return NotImplemented
        if bias is not None and dtype is not _F32:
            return _add_halves(_linear(x, weight, bias), residual)
        if bias is not None:  # the kernels add only one of the two; the other addition is cheap
            residual = OPS["add"].forward(residual.contiguous(), bias)
        residual, _, _, added_stride = rows_of(residual)
        added = residual
    kind = weight.dtype
    work = rows * outputs * inputs >> 10
    sizes = (rows, outputs, inputs, outputs)
    quantized = _LINEAR_Q.get(kind)
    if quantized is None:
        kernel = _LINEAR.get((dtype, kind))
        if kernel is None or not weight.is_contiguous():
            return NotImplemented
        y = empty_contiguous(x.shape[:-1] + (outputs,), dtype, x.device)
        kernel.launch(work, y, x, weight, added, *sizes, x_stride, added_stride)
        return y
    if weight.strides[0] != inputs or weight.strides[1] != 1:  # transposed
        return NotImplemented
    y = empty_contiguous(x.shape[:-1] + (outputs,), dtype, x.device)
    scratch = Storage(activation_bytes(rows, columns), x.device)
    quantize = (_QUANTIZE_ROWS[dtype], scratch, x, rows, columns, x_stride)
    if dtype is _F32:
        launch_all(work, quantize, (quantized[0], y, scratch, weight, added, *sizes, added_stride, *quantized[1]))
        return y
    sums = Storage(4 * rows * outputs, x.device)  # float32 (rows, outputs)
    launch_all(
        work,
        quantize,
        (quantized[0], sums, scratch, weight, None, *sizes, 0, *quantized[1]),
        (_ADD_ROWS[dtype], y, sums, added, rows, outputs, added_stride),
    )
    return y


@claims("_linear_activated")
def _linear_activated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Any:
    """Two records, the second in the memory of the first: a device may run them as one."""
    dtype = x.dtype
    kernel = _LINEAR.get((dtype, weight.dtype))
    if kernel is None or len(weight.shape) != 2 or not weight.is_contiguous() or not x.shape:
        return NotImplemented
    outputs, inputs = weight.shape
    if x.shape[-1] != inputs:
        check_linear(x, weight)
    if bias is not None and (bias.shape != (outputs,) or bias.dtype is not dtype or not bias.is_contiguous()):
        return NotImplemented
    x, rows, _, x_stride = rows_of(x)
    y = empty_contiguous(x.shape[:-1] + (outputs,), dtype, x.device)
    launch_all(
        rows * outputs * inputs >> 10,
        (kernel, y, x, weight, bias, rows, outputs, inputs, outputs, x_stride, 0),
        (K["unary"], y, y, opcodes("unary")[activation][0], CODES[dtype], rows * outputs, 0, 0),
    )
    return y


def _add_halves(y: Any, residual: Tensor) -> Any:
    """y + residual (..., N), dense y of 16 bits, in place; NotImplemented where y is."""
    if y is NotImplemented:
        return y
    residual, rows, columns, stride = rows_of(residual)
    sums = Storage(4 * rows * columns, y.device)  # y in float32
    launch_all(
        rows * columns >> 10,
        (_WIDEN[y.dtype], sums, y, rows * columns),
        (_ADD_ROWS[y.dtype], y, sums, residual, rows, columns, stride),
    )
    return y


# By dtype: the kernel, and its arguments besides the shapes.
_MATMUL: dict[Any, tuple[Any, tuple[int, ...]]] = {
    _F32: (K["matmul_f32"], ()),
    _F16: (K["matmul_f16"], ()),
    _BF16: (K["matmul_bf16"], ()),
    _dtype.float64: (K["matmul_f64"], ()),
}
_MATMUL |= {
    kind: (K["matmul_integer"], (kind.itemsize,))
    for kind in (_dtype.int8, _dtype.uint8, _dtype.int16, _dtype.int32, _dtype.int64)
}


@claims("matmul")
def _matmul(a: Tensor, b: Tensor) -> Any:
    """The product by kernels: as fast as NumPy's BLAS in float32, with the same bits for any number of threads."""
    dtype = a.dtype
    if getattr(b, "dtype", None) is not dtype or dtype not in _MATMUL:
        return _matmul_of_blocks(a, b)
    if dtype is _dtype.float64 and a.device is cpu and not IN_BROWSER and not capturing():
        return NotImplemented  # NumPy's BLAS takes two thirds of the kernel's time
    a_shape, b_shape = a.shape, b.shape
    if len(a_shape) == 2 == len(b_shape) and a_shape[1] == b_shape[0]:
        m, k = a_shape
        n = b_shape[1]
        kernel, more = _MATMUL[dtype]
        y = empty_contiguous((m, n), dtype, a.device)
        kernel.launch(m * n * k >> 10, y, a,
            b, 1, m, n, k,
            0, *a.strides, 0, *b.strides, 0, n, *more,
        )  # fmt: skip
        return y
    if not a_shape or not b_shape or (a.device is cpu and not (len(a_shape) > 1 < len(b_shape))):
        return NotImplemented
    shape = matmul_shape(a, b)
    y = _batched_matmul(a if len(a_shape) > 1 else a[None], b if len(b_shape) > 1 else b[:, None])
    return y if y.shape == shape else reshaped(y, shape)


def _matmul_of_blocks(a: Tensor, b: Any) -> Any:
    """With block-quantised matrices: a @ q.T is linear(a, q), any other product unpacks them. NotImplemented where
    neither is block-quantised, or the other is not of floats."""
    if not isinstance(b, Tensor) or not (a.dtype.is_quantized or b.dtype.is_quantized):
        return NotImplemented
    matmul_shape(a, b)
    if a.dtype in _QUANTIZE_ROWS and is_transposed(b):
        return OPS["_linear"].forward(a, transposed(b))
    kinds = [t.dtype for t in (a, b) if not t.dtype.is_quantized] or [_F32]
    if not kinds[0].is_floating_point:
        return NotImplemented
    return OPS["matmul"].forward(*(dequantize(t).to(kinds[0]) if t.dtype.is_quantized else t for t in (a, b)))


def _batched_matmul(a: Tensor, b: Tensor) -> Tensor:
    shape = matmul_shape(a, b)
    lead = shape[:-2]
    batch = prod(lead)
    a, b = (expanded(t, (*lead, *t.shape[-2:])) for t in (a, b))
    flat = [_batch_stride(t) for t in (a, b)]
    a, b = (t if s is not None else t.contiguous() for t, s in zip((a, b), flat, strict=True))
    a_batch, b_batch = (_batch_stride(t) or 0 for t in (a, b))
    m, n = shape[-2:]
    kernel, more = _MATMUL[a.dtype]
    y = empty_contiguous(shape, a.dtype, a.device)
    kernel.launch(batch * m * n * a.shape[-1] >> 10, y, a, b, batch, m, n, a.shape[-1],
        a_batch, *a.strides[-2:], b_batch, *b.strides[-2:], m * n, n, *more,
    )  # fmt: skip
    return y


def _batch_stride(x: Tensor) -> int | None:
    """The common stride of all batch dims, or None."""
    step: int | None = None
    size = 1
    for n, stride in zip(reversed(x.shape[:-2]), reversed(x.strides[:-2]), strict=True):
        if n == 1:
            continue
        if step is None:
            step = stride
        elif stride != step * size:
            return None
        size *= n
    return step or 0
