"""Normalisations over the last dim, softmax, and their gradients."""

from __future__ import annotations

import struct
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..element_types import CODES
from ..launch import KERNELS as K
from ..launch import Part, launch_all
from ..native import get_num_threads
from ..op import claims
from ..operands import dense, is_half, is_plain
from ..shape import normalize_dim
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous
from .conversions import NARROWING, WIDENING
from .layouts import in_type, rows_of

_F32 = _dtype.float32
_FLOATS = (_F32, _dtype.float16, _dtype.bfloat16, _dtype.float64)

_RMS_NORM, _RMS_NORM_TYPED, _LAYER_NORM = K["rms_norm_f32"], K["rms_norm_typed"], K["layer_norm_f32"]
_LAYER_NORM_BACKWARD, _WEIGHTS_BACKWARD = K["layer_norm_backward_f32"], K["layer_norm_weights_backward_f32"]


def _widened(x: Tensor, weight: Tensor | None) -> Tensor | None:
    """A weight of 16 bits in float32 where x is float32, as in a model of 16-bit parameters."""
    if weight is None or x.dtype is not _F32 or weight.dtype not in WIDENING or not weight.is_contiguous():
        return weight
    wide = empty_contiguous(weight._shape, _F32, weight.device)
    WIDENING[weight.dtype].launch(weight.numel() >> 10, wide, weight, weight.numel())
    return wide


_PIECE = 1 << 16  # elements, which lie in a processor's cache as float32


def _halves_by_rows(kernel: Any, x: Tensor, weights: tuple[Tensor, ...], epsilon: float) -> Any:
    """The rows of 16-bit floats, by a kernel of float32: widened, normalized and narrowed, a piece at a time."""
    if x.dtype not in WIDENING or x.numel() <= _PIECE or any(w._shape != x._shape[-1:] for w in weights):
        return NotImplemented
    own = [dense(in_type(w, _F32)) for w in weights]
    x, columns = dense(x), x._shape[-1]
    rows = x.numel() // columns
    y = empty_contiguous(x._shape, x.dtype, x.device)
    at_once = min(rows, max(1, _PIECE * get_num_threads() // columns))
    wide = empty_contiguous((at_once * columns,), _F32, x.device)
    for first in range(0, rows, at_once):
        n, at = min(at_once, rows - first), first * columns * x.dtype.itemsize
        count = n * columns
        launch_all(
            count >> 9, (WIDENING[x.dtype], wide, Part(x, at), count),
            (kernel, wide, wide, *own, n, columns, columns, columns, epsilon),
            (NARROWING[x.dtype], Part(y, at), wide, count),
        )  # fmt: skip
    return y


@claims("_rms_norm")
def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Any:
    as_it_is = weight.dtype in WIDENING and weight.is_contiguous() and _RMS_NORM_TYPED.name in x.device.backend.kernels
    if not as_it_is:
        weight = _widened(x, weight)  # type: ignore[assignment]
    if x.dtype in WIDENING and not as_it_is:
        return _halves_by_rows(_RMS_NORM, x, (weight,), epsilon)
    if x.dtype is not _F32 or not (as_it_is or is_plain(weight)):
        return _normalize(x, weight, None, epsilon)
    x, rows, columns, stride = rows_of(x)
    y = empty_contiguous(x._shape, _F32, x.device)
    sizes = rows, columns, columns, stride
    if as_it_is:
        _RMS_NORM_TYPED.launch(rows * columns >> 10, y, x, weight, *sizes, CODES[weight.dtype], epsilon, 0.0)
    else:
        _RMS_NORM.launch(rows * columns >> 10, y, x, weight, *sizes, epsilon)
    return y


@claims("_offset_rms_norm")
def _offset_rms_norm(x: Tensor, weight: Tensor, offset: float, epsilon: float) -> Any:
    if x.dtype is not _F32 or not _are_weights(x, weight) or weight._shape != x._shape[-1:]:
        return NotImplemented
    x, rows, columns, stride = rows_of(x)
    y = empty_contiguous(x._shape, _F32, x.device)
    _RMS_NORM_TYPED.launch(
        rows * columns >> 10, y, x, weight, rows, columns, columns, stride, CODES[weight.dtype], epsilon, offset
    )
    return y


def _are_weights(x: Tensor, *weights: Tensor) -> bool:
    """Whether a kernel of the device adds an offset to such weights of a norm of x."""
    return _RMS_NORM_TYPED.name in x.device.backend.kernels and all(
        (weight.dtype is _F32 or weight.dtype in WIDENING) and weight.is_contiguous() for weight in weights
    )


@claims("_normalized_heads")
def _normalized_heads(
    qkv: Tensor, query_weight: Tensor, key_weight: Tensor, heads: int, kv_heads: int, epsilon: float, offset: float
) -> Any:
    if qkv.dtype is not _F32 or not _are_weights(qkv, query_weight, key_weight):
        return NotImplemented
    size, rest = divmod(qkv._shape[-1], max(heads + 2 * kv_heads, 1))
    if rest or query_weight.dtype is not key_weight.dtype or not query_weight._shape == key_weight._shape == (size,):
        return NotImplemented
    qkv, rows, columns, stride = rows_of(qkv)
    y = empty_contiguous(qkv._shape, _F32, qkv.device)
    K["normalize_heads"].launch(
        rows * columns >> 10, y, qkv, query_weight, key_weight, rows, heads, kv_heads, size, stride,
        CODES[query_weight.dtype], epsilon, offset,
    )  # fmt: skip
    return y


def _lines(x: Tensor, dim: int, name: str) -> tuple[int, int, int]:
    """(outer, count, inner) of the lines along a dim."""
    dim = normalize_dim(dim, len(x._shape), name)
    return prod(x._shape[:dim]), x._shape[dim], prod(x._shape[dim + 1 :])


_SOFTMAX, _SOFTMAX_BACKWARD, _SOFTMAX_BACKWARD_F32 = K["softmax"], K["softmax_backward"], K["softmax_backward_f32"]


def _claim_softmax(name: str, log: int) -> None:
    kernel = K[name + "_f32"]

    @claims(name)
    def _(x: Tensor, dim: int = -1) -> Any:
        if x.dtype not in _FLOATS or not x._shape:
            return NotImplemented
        if x.dtype is _F32 and dim in (-1, len(x._shape) - 1):
            x, rows, columns, stride = rows_of(x)
            y = empty_contiguous(x._shape, _F32, x.device)
            kernel.launch(rows * columns >> 7, y, x, rows, columns, columns, stride)
            return y
        lines = _lines(x, dim, name)
        x = dense(x)
        y = empty_contiguous(x._shape, x.dtype, x.device)
        _SOFTMAX.launch(x.numel() >> 7, y, x, *lines, log, CODES[x.dtype])
        return y

    @claims(name + "_backward")
    def _(g: Tensor, y: Tensor, dim: int) -> Any:
        if y.dtype not in _FLOATS or g.dtype is not y.dtype or g._shape != y._shape or not y._shape:
            return NotImplemented
        lines, fast = _lines(y, dim, name), y.dtype is _F32
        if fast and (log or lines[2] != 1):
            return NotImplemented  # the definition is faster
        g, y = dense(g), dense(y)
        grad_x = empty_contiguous(y._shape, y.dtype, y.device)
        if fast:
            _SOFTMAX_BACKWARD_F32.launch(y.numel() >> 9, grad_x, y, g, *lines[:2])
        else:
            _SOFTMAX_BACKWARD.launch(y.numel() >> 8, grad_x, y, g, *lines, log, CODES[y.dtype])
        return grad_x


_claim_softmax("softmax", 0)
_claim_softmax("log_softmax", 1)

_NORMALIZE, _NORMALIZE_BACKWARD = K["normalize"], K["normalize_backward"]
_NORMALIZE_WEIGHTS_BACKWARD = K["normalize_weights_backward"]


def _takes_rows(x: Tensor, *weights: Tensor) -> bool:
    """Whether `normalize` supports the rows of x and these weights. 16-bit floats use the definition in float32, which
    is faster.
    """
    double = _dtype.float64
    return x.dtype is double and x.numel() > 0 and all(
        w.dtype is double and w._shape == x._shape[-1:] for w in weights
    )  # fmt: skip


def _in_two(epsilon: float) -> tuple[float, float]:
    """A number as a float32 and the remainder."""
    first = struct.unpack("f", struct.pack("f", epsilon))[0]
    return first, epsilon - first


def _row_dims(x: Tensor) -> tuple[int, ...]:
    columns = x._shape[-1]
    return x.numel() // columns, 1, columns, columns, 0, 1, 0, 0, 1


def _normalize(x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Any:
    """Layer norm, or RMS norm where there is no bias, of float64 rows."""
    if not _takes_rows(x, weight, *([] if bias is None else [bias])):
        return NotImplemented
    x, weight, bias = dense(x), dense(weight), bias if bias is None else dense(bias)
    y = empty_contiguous(x._shape, x.dtype, x.device)
    _NORMALIZE.launch(
        x.numel() >> 8, y, None, x, weight, bias,
        *_row_dims(x), int(bias is not None), CODES[x.dtype], CODES[weight.dtype], *_in_two(epsilon),
    )  # fmt: skip
    return y


def _normalize_backward(g: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Any:
    if g.dtype is not x.dtype or not _takes_rows(x, weight, *([] if bias is None else [bias])):
        return NotImplemented
    x, weight, g = dense(x), dense(weight), dense(g)
    grad_x, grad_weight = (
        empty_contiguous(x._shape, x.dtype, x.device),
        empty_contiguous(weight._shape, x.dtype, x.device),
    )
    grad_bias = None if bias is None else empty_contiguous(bias._shape, x.dtype, x.device)
    dims, centred, type_ = _row_dims(x), int(bias is not None), CODES[x.dtype]
    statistics = Storage(3 * x.dtype.itemsize * dims[0], x.device)
    kinds, epsilons = (centred, type_, CODES[weight.dtype]), _in_two(epsilon)
    launch_all(  # the first writes its result where the second writes the gradient
        x.numel() >> 7,
        (_NORMALIZE, grad_x, statistics, x, None, None, *dims, *kinds, *epsilons),
        (_NORMALIZE_BACKWARD, grad_x, x, statistics, weight, g, *dims, *kinds, *epsilons),
        (_NORMALIZE_WEIGHTS_BACKWARD, grad_weight, grad_bias, x, statistics, g, *dims, type_, weight.numel()),
    )
    return (grad_x, grad_weight) if bias is None else (grad_x, grad_weight, grad_bias)


def _in_float32(compute: Any, *given: Any) -> Any:
    """What `compute(*given)` gives of 16-bit floats, computed in float32: each in the dtype of the argument that it
    belongs to, after the first."""
    found = compute(*[in_type(x, _F32) if isinstance(x, Tensor) else x for x in given])
    if found is NotImplemented:
        return found
    return tuple([in_type(y, x.dtype) for y, x in zip(found, given[1:], strict=False)])


@claims("rms_norm_backward")
def _rms_norm_backward(g: Tensor, x: Tensor, weight: Tensor, epsilon: float) -> Any:
    if is_half(x):
        return _in_float32(_rms_norm_backward, g, x, weight, epsilon)
    if not (x.dtype is weight.dtype is g.dtype is _F32):
        return _normalize_backward(g, x, weight, None, epsilon)
    x, weight, g = dense(x), dense(weight), dense(g)
    grad_x, grad_weight = empty_contiguous(x._shape, _F32, x.device), empty_contiguous(weight._shape, _F32, x.device)
    columns = x._shape[-1]
    K["rms_norm_backward_f32"].launch(
        x.numel() >> 9,
        grad_x,
        grad_weight,
        x,
        weight,
        g,
        x.numel() // max(columns, 1),
        columns,
        epsilon,
    )
    return grad_x, grad_weight


def _takes_norm(x: Tensor, weight: Any, bias: Any) -> bool:
    if not (x.dtype is _F32 and is_plain(weight) and is_plain(bias)):
        return False
    return x._shape[-1:] == weight._shape == bias._shape


@claims("layer_norm")
def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Any:
    if x.dtype in WIDENING:
        return _halves_by_rows(_LAYER_NORM, x, (weight, bias), epsilon)
    weight, bias = _widened(x, weight), _widened(x, bias)  # type: ignore[assignment]
    if not _takes_norm(x, weight, bias):
        return _normalize(x, weight, bias, epsilon)
    x, rows, columns, stride = rows_of(x)
    y = empty_contiguous(x._shape, _F32, x.device)
    _LAYER_NORM.launch(rows * columns >> 9, y, x, weight, bias,
        rows, columns, columns, stride, epsilon,
    )  # fmt: skip
    return y


def _halves_backward_by_rows(g: Tensor, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Any:
    """The gradients of layer_norm of 16-bit floats, a piece at a time, as `_halves_by_rows`."""
    if g.dtype is not x.dtype or x.numel() <= _PIECE or not x._shape[-1:] == weight._shape == bias._shape:
        return NotImplemented
    own, x, g, columns = dense(in_type(weight, _F32)), dense(x), dense(g), x._shape[-1]
    rows = x.numel() // columns
    at_once = min(rows, max(1, _PIECE // 2 * get_num_threads() // columns))
    parts = -(-rows // at_once)
    wide_x, wide_g, made = (empty_contiguous((at_once, columns), _F32, x.device) for _ in range(3))
    of_weight, of_bias = (empty_contiguous((parts, columns), _F32, x.device) for _ in range(2))
    statistics, grad_x = Storage(8 * at_once, x.device), empty_contiguous(x._shape, x.dtype, x.device)
    widen, narrow = WIDENING[x.dtype], NARROWING[x.dtype]
    for part in range(parts):
        first, n = part * at_once, min(at_once, rows - part * at_once)
        at, row, count = first * columns * x.dtype.itemsize, 4 * part * columns, n * columns
        launch_all(
            count >> 8, (widen, wide_x, Part(x, at), count), (widen, wide_g, Part(g, at), count),
            (_LAYER_NORM_BACKWARD, made, statistics, wide_x, own, wide_g, n, columns, epsilon),
            (_WEIGHTS_BACKWARD, Part(of_weight, row), Part(of_bias, row), wide_x, statistics, wide_g, n, columns),
            (narrow, Part(grad_x, at), made, count),
        )  # fmt: skip
    sums = [empty_contiguous((columns,), _F32, x.device) for _ in range(2)]
    launch_all(parts * columns >> 10, *(
        (K["sum_columns_f32"], y, each, parts, columns, columns)
        for y, each in zip(sums, (of_weight, of_bias), strict=True)
    ))  # fmt: skip
    return grad_x, in_type(sums[0], weight.dtype), in_type(sums[1], bias.dtype)


@claims("layer_norm_backward")
def _layer_norm_backward(g: Tensor, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Any:
    if is_half(x):
        found = _halves_backward_by_rows(g, x, weight, bias, epsilon)
        return _in_float32(_layer_norm_backward, g, x, weight, bias, epsilon) if found is NotImplemented else found
    if g.dtype is not _F32 or not _takes_norm(x, weight, bias):
        return _normalize_backward(g, x, weight, bias, epsilon)
    x, g = dense(x), dense(g)
    columns = x._shape[-1]
    rows = x.numel() // max(columns, 1)
    grad_x, grad_weight, grad_bias = (empty_contiguous(t._shape, _F32, x.device) for t in (x, weight, bias))
    statistics = Storage(8 * rows, x.device)
    launch_all(
        x.numel() >> 8,
        (
            _LAYER_NORM_BACKWARD, grad_x, statistics, x, weight, g,
            rows, columns, epsilon,
        ),
        (
            _WEIGHTS_BACKWARD, grad_weight, grad_bias, x,
            statistics, g, rows, columns,
        ),
    )  # fmt: skip
    return grad_x, grad_weight, grad_bias
