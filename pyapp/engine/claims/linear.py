"""Products with weights of any format, and products of matrices."""

from __future__ import annotations

from functools import lru_cache
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
from ..operands import dense
from ..ops.linalg.products import check_linear, matmul_shape
from ..ops.view import expanded, reshaped
from ..quant import activation_bytes, dequantize, is_transposed, transposed
from ..shape import Shape, broadcast_shapes
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .conversions import WIDENING
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


@claims("_linear")
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Any:
    dtype = x.dtype
    if dtype not in _QUANTIZE_ROWS:
        return NotImplemented
    outputs, inputs = weight._shape if len(weight._shape) == 2 else (-1, -1)
    if not x._shape or x._shape[-1] != inputs:
        check_linear(x, weight)
    if bias is not None:
        if bias._shape != (outputs,) or bias.dtype is not dtype:
            return NotImplemented
        bias = dense(bias)
    x, rows, columns, x_stride = rows_of(x)
    added: Tensor | None = bias
    added_stride = 0
    if residual is not None:
        if residual.dtype is not dtype or residual._shape != x._shape[:-1] + (outputs,):
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
        y = empty_contiguous(x._shape[:-1] + (outputs,), dtype, x.device)
        kernel.launch(work, y, x, weight, added, *sizes, x_stride, added_stride)
        return y
    if weight.strides[0] != inputs or weight.strides[1] != 1:  # transposed
        return NotImplemented
    y = empty_contiguous(x._shape[:-1] + (outputs,), dtype, x.device)
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
    if kernel is None or len(weight._shape) != 2 or not weight.is_contiguous() or not x._shape:
        return NotImplemented
    outputs, inputs = weight._shape
    if x._shape[-1] != inputs:
        check_linear(x, weight)
    if bias is not None:
        if bias._shape != (outputs,) or bias.dtype is not dtype:
            return NotImplemented
        bias = dense(bias)
    x, rows, _, x_stride = rows_of(x)
    y = empty_contiguous(x._shape[:-1] + (outputs,), dtype, x.device)
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
        (WIDENING[y.dtype], sums, y, rows * columns),
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

_SHORT = 1 << 12  # elements of a vector and the other operand, for which a call of NumPy costs more than it saves


@claims("matmul")
def _matmul(a: Tensor, b: Tensor) -> Any:
    """The product by kernels: as fast as NumPy's BLAS in float32, with the same bits for any number of threads."""
    dtype = a.dtype
    if getattr(b, "dtype", None) is not dtype or dtype not in _MATMUL:
        if dtype is _dtype.bool_ is getattr(b, "dtype", None) and a.device.backend.host_helps:  # cards: by counts
            return OPS["matmul"].forward(a.to(_dtype.int32), b.to(_dtype.int32)) != 0
        return _matmul_of_blocks(a, b)
    if dtype is _dtype.float64 and a.device is cpu and not IN_BROWSER and not capturing():
        return NotImplemented  # NumPy's BLAS takes two thirds of the kernel's time
    a_shape, b_shape = a._shape, b._shape
    if len(a_shape) == 2 == len(b_shape) and a_shape[1] == b_shape[0]:
        m, k = a_shape
        n = b_shape[1]
        kernel, more = _MATMUL[dtype]
        y = empty_contiguous((m, n), dtype, a.device)
        if n == 1 and not a.device.backend.own_workspaces:
            _turned(y, a, b, 1, m, k, 0, a.strides[0], a.strides[1], 0, b.strides[0])
            return y
        kernel.launch(m * n * k >> 10, y, a,
            b, 1, m, n, k,
            0, *a.strides, 0, *b.strides, 0, n, *more,
        )  # fmt: skip
        return y
    if len(a_shape) > 1 < len(b_shape):
        return _batched_matmul(a, b)
    if a.device is cpu and len(b_shape) == 1 and len(a_shape) == 2 and a_shape[1] == b_shape[0]:
        y = empty_contiguous(a_shape[:1], dtype, cpu)
        _turned(y, a, b, 1, a_shape[0], a_shape[1], 0, a.strides[0], a.strides[1], 0, b.strides[0])
        return y
    if not a_shape or not b_shape or (a.device is cpu and a.numel() + b.numel() > _SHORT and not capturing()):
        return NotImplemented
    if a.device is cpu and len(a_shape) == 1 and a_shape == b_shape:
        kernel, more = _MATMUL[dtype]
        y = empty_contiguous((), dtype, cpu)
        kernel.launch(0, y, a, b, 1, 1, 1, a_shape[0], 0, 0, *a.strides, 0, *b.strides, 0, 0, 1, *more)
        return y
    shape = matmul_shape(a, b)
    if len(a_shape) == 1:
        a = make(a._storage, (1, *a_shape), (0, *a.strides), dtype, a.offset)
    if len(b_shape) == 1:
        b = make(b._storage, (*b_shape, 1), (*b.strides, 0), dtype, b.offset)
    return reshaped(_batched_matmul(a, b), shape)


def _turned(
    y: Tensor, a: Tensor, b: Tensor, batch: int, m: int, k: int, a_batch: int, row: int, column: int, b_batch: int,
    b_row: int,
) -> None:  # fmt: skip
    """y (batch, M, 1) = a (batch, M, K) @ b (batch, K, 1) as bᵀ @ aᵀ: the kernel is made for few rows, not for few
    columns."""
    kernel, more = _MATMUL[a.dtype]
    kernel.launch(batch * m * k >> 10, y, b, a, batch, 1, m, k,
        b_batch, 0, b_row, a_batch, column, row, m, m, *more,
    )  # fmt: skip


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
    if a._shape[-1] != b._shape[-2]:
        matmul_shape(a, b)  # which says so
    a_strides, b_strides = a.strides, b.strides
    shape, batch, a_batch, b_batch = _batches(a._shape, a_strides, b._shape, b_strides)
    if a_batch is None or b_batch is None:
        a, b = (dense(expanded(x, shape[:-2] + x._shape[-2:])) for x in (a, b))
        a_strides, b_strides = a.strides, b.strides
        a_batch, b_batch = a._shape[-2] * a._shape[-1], b._shape[-2] * b._shape[-1]
    y = empty_contiguous(shape, a.dtype, a.device)
    (m, n), k = shape[-2:], a._shape[-1]
    row, column = a_strides[-2:]
    if m == 1:
        row = a_batch
    if b_batch == 0 and a_batch == m * row:  # one matrix for all rows
        batch, m = 1, batch * m
    if n == 1 and not a.device.backend.own_workspaces:
        _turned(y, a, b, batch, m, k, a_batch, row, column, b_batch, b_strides[-2])
        return y
    kernel, more = _MATMUL[a.dtype]
    kernel.launch(batch * m * n * k >> 10, y, a, b, batch, m, n, k,
        a_batch, row, column, b_batch, *b_strides[-2:], m * n, n, *more,
    )  # fmt: skip
    return y


@lru_cache(4096)
def _batches(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape) -> tuple[Shape, int, int | None, int | None]:
    """(shape of the product, batches, the stride of each operand from one to the next: None where they have none)."""
    lead = broadcast_shapes(a[:-2], b[:-2], op="matmul")
    shape = (*lead, a[-2], b[-1])
    return shape, prod(lead), _batch_stride(a, a_strides, lead), _batch_stride(b, b_strides, lead)


def _batch_stride(shape: Shape, strides: Shape, lead: Shape) -> int | None:
    """The common stride of the batch dims of an operand, which are broadcast to `lead`; or None."""
    step: int | None = None
    size = 1
    own = len(shape) - 2
    for at, n in enumerate(reversed(lead), 1):
        if n == 1:
            continue
        stride = strides[own - at] if at <= own and shape[own - at] != 1 else 0
        if step is None:
            step = stride
        elif stride != step * size:
            return None
        size *= n
    return step or 0
