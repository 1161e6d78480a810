"""The CPU's fast kernels: which ops, dtypes and layouts the native library takes. Whatever is refused here runs by its
definition.

Each claim packs one launch record (see native/kernels.h for the order of arguments).
"""

from __future__ import annotations

from functools import wraps
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..blocks.layout import BLOCK_TYPES
from ..launch import KERNELS, launch, launch_all
from ..op import OPS
from ..ops.attention import check_cache
from ..ops.base import dense, is_plain
from ..ops.matmul import check_linear, matmul_shape
from ..quant import BANDED, activation_bytes
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous

_F32 = _dtype.float32
_I32 = _dtype.int32
K = KERNELS


def claims(name: str) -> Any:
    """Registers a CPU kernel of the op; a primitive's NumPy body stays behind it for what the kernel refuses."""
    op = OPS[name]
    body = op.kernels.get("cpu")

    def register(function: Any) -> Any:
        op.fast = function
        if body is None:
            op.kernels["cpu"] = function
            return function

        @wraps(body)  # whose parameters the op's are
        def kernel(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            return body(*args, **kwargs) if result is NotImplemented else result

        op.kernels["cpu"] = kernel
        return kernel

    return register


def rows_of(x: Tensor) -> tuple[Tensor, int, int, int]:
    """(x, rows, columns, row stride): x itself where its rows are dense and evenly apart, else a dense copy."""
    shape, strides = x.shape, x.strides
    columns = shape[-1]
    if len(shape) == 2 and strides[1] == 1:
        return x, shape[0], columns, strides[0]
    x = dense(x)
    return x, prod(shape[:-1]), columns, columns


# ---- linear, embedding

_LINEAR = {_F32: K["linear_f32"], _dtype.float16: K["linear_f16"], _dtype.bfloat16: K["linear_bf16"]}
# Of each block format: the kernel, and which type it is told.
_LINEAR_Q: dict[Any, tuple[Any, tuple[int, ...]]] = {
    kind: (K["linear_blocks"], (BLOCK_TYPES[name].code,)) for name, kind in _dtype.GGML.items()
}
_LINEAR_Q |= {_dtype.q8_0: (K["linear_q8_0"], ()), _dtype.q8_group: (K["linear_q8_group"], ())}
_QUANTIZE_ROWS = K["quantize_rows"]


@claims("_linear")
def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Any:
    if x.dtype is not _F32:
        return NotImplemented
    outputs, inputs = weight.shape if len(weight.shape) == 2 else (-1, -1)
    if not x.shape or x.shape[-1] != inputs:
        check_linear(x, weight)
    if bias is not None and (bias.shape != (outputs,) or not is_plain(bias)):
        return NotImplemented
    x, rows, columns, x_stride = rows_of(x)
    added, added_stride = 0, 0
    if residual is not None:
        if residual.dtype is not _F32 or residual.shape != x.shape[:-1] + (outputs,):
            return NotImplemented
        if bias is not None:  # the kernels add one of the two; this costs them little
            residual = OPS["add"].forward(dense(residual), bias)
        residual, _, _, added_stride = rows_of(residual)
        added = residual.address
    elif bias is not None:
        added = bias.address
    kind = weight.dtype
    work = rows * outputs * inputs >> 10
    sizes = (rows, outputs, inputs, outputs)
    quantized = _LINEAR_Q.get(kind)
    if quantized is None:
        kernel = _LINEAR.get(kind)
        if kernel is None or not weight.is_contiguous():
            return NotImplemented
        y = empty_contiguous(x.shape[:-1] + (outputs,))
        launch(kernel, work, y.address, x.address, weight.address, added, *sizes, x_stride, added_stride)
        return y
    y = empty_contiguous(x.shape[:-1] + (outputs,))
    scratch = Storage(activation_bytes(rows, columns))
    launch_all(
        work,
        (_QUANTIZE_ROWS, scratch.address, x.address, rows, columns, x_stride),
        (quantized[0], y.address, scratch.address, weight.address, added, *sizes, added_stride, *quantized[1]),
    )
    return y


_EMBEDDING: dict[Any, tuple[Any, tuple[int, ...]]] = {
    kind: (K["embedding_blocks"], (BLOCK_TYPES[name].code, name in BANDED)) for name, kind in _dtype.GGML.items()
}
_EMBEDDING |= {
    d: (K["embedding_" + n], ())
    for d, n in (
        (_F32, "f32"),
        (_dtype.float16, "f16"),
        (_dtype.bfloat16, "bf16"),
        (_dtype.q8_0, "q8_0"),
        (_dtype.q8_group, "q8_group"),
    )
}


@claims("_embedding")
def _embedding(weight: Tensor, ids: Tensor) -> Any:
    found = _EMBEDDING.get(weight.dtype)
    if found is None or ids.dtype is not _I32 or not ids.is_contiguous() or not weight.is_contiguous():
        return NotImplemented
    vocabulary, columns = weight.shape
    y = empty_contiguous((*ids.shape, columns))
    count = ids.numel()
    kernel, kind = found
    work = count * columns >> 10
    launch(kernel, work, y.address, weight.address, ids.address, count, columns, vocabulary, columns, *kind)
    return y


_MATMUL = K["matmul_f32"]


@claims("matmul")
def _matmul(a: Tensor, b: Tensor) -> Any:
    """As fast as NumPy's BLAS, and unlike it the same bits for any number of threads."""
    if a.dtype is not _F32 or getattr(b, "dtype", None) is not _F32:
        return NotImplemented
    a_shape, b_shape = a.shape, b.shape
    if len(a_shape) == 2 == len(b_shape) and a_shape[1] == b_shape[0]:
        m, k = a_shape
        n = b_shape[1]
        y = empty_contiguous((m, n))
        launch(
            _MATMUL, m * n * k >> 10, y.storage.address, a.storage.address + 4 * a.offset,
            b.storage.address + 4 * b.offset, 1, m, n, k,
            0, *a.strides, 0, *b.strides, 0, n,
        )  # fmt: skip
        return y
    if len(a_shape) < 2 or len(b_shape) < 2:
        return NotImplemented
    return _batched_matmul(a, b)


def _batched_matmul(a: Tensor, b: Tensor) -> Tensor:
    shape = matmul_shape(a, b)
    lead = shape[:-2]
    batch = prod(lead)
    a, b = (t.expand((*lead, *t.shape[-2:])) for t in (a, b))
    flat = [_batch_stride(t) for t in (a, b)]
    a, b = (t if s is not None else t.contiguous() for t, s in zip((a, b), flat, strict=True))
    a_batch, b_batch = (_batch_stride(t) or 0 for t in (a, b))
    m, n = shape[-2:]
    y = empty_contiguous(shape)
    launch(
        _MATMUL, batch * m * n * a.shape[-1] >> 10, y.address, a.address, b.address, batch, m, n, a.shape[-1],
        a_batch, *a.strides[-2:], b_batch, *b.strides[-2:], m * n, n,
    )  # fmt: skip
    return y


def _batch_stride(x: Tensor) -> int | None:
    """The one stride of all batch dims together, or None."""
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


# ---- norms

_RMS_NORM = K["rms_norm_f32"]


@claims("_rms_norm")
def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Any:
    if x.dtype is not _F32 or not is_plain(weight):
        return NotImplemented
    x, rows, columns, stride = rows_of(x)
    y = empty_contiguous(x.shape)
    launch(
        _RMS_NORM, rows * columns >> 10, y.address, x.address, weight.address, rows, columns, columns, stride, epsilon
    )
    return y


def _claim_softmax(name: str) -> None:
    kernel = K[name + "_f32"]

    @claims(name)
    def _(x: Tensor, dim: int = -1) -> Any:
        if x.dtype is not _F32 or not x.shape or dim not in (-1, len(x.shape) - 1):
            return NotImplemented
        x, rows, columns, stride = rows_of(x)
        y = empty_contiguous(x.shape)
        launch(kernel, rows * columns >> 7, y.address, x.address, rows, columns, columns, stride)
        return y


_claim_softmax("softmax")
_claim_softmax("log_softmax")


# ---- attention

_ROPE, _CACHE_WRITE, _ATTENTION = K["rope_f32"], K["cache_write_f32"], K["attention_f32"]


def _heads(x: Tensor) -> Tensor:
    """x (..., T, H, D) itself where each token's heads lie densely, else a dense copy."""
    return x if x.strides[-1] == 1 and x.strides[-2] == x.shape[-1] and len(x.shape) == 3 else dense(x)


@claims("_rope")
def _rope(x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Any:
    """x (T, H, D), or (B, T, H, D) with one record for each batch entry."""
    if x.dtype is not _F32 or len(x.shape) not in (3, 4):
        return NotImplemented
    if not is_plain(table) or (position is not None and position.dtype is not _I32):
        return NotImplemented
    if x.strides[-1] != 1 or x.strides[-2] != x.shape[-1]:
        x = dense(x)
    tokens, heads, size = x.shape[-3:]
    each, step = tokens * heads * size, x.strides[0]
    y = empty_contiguous(x.shape)
    for i in range(x.shape[0] if len(x.shape) == 4 else 1):
        launch(
            _ROPE,
            each >> 10,
            y.address + 4 * i * each,
            x.address + 4 * i * step,
            table.address,
            position.address if position is not None else 0,
            tokens,
            heads,
            size,
            heads * size,
            x.strides[-3],
            table.shape[0],
            int(interleaved),
        )
    return y


@claims("cache_write")
def _cache_write(cache: Tensor, x: Tensor, position: Tensor) -> Any:
    if not is_plain(cache) or x.dtype is not _F32 or position.dtype is not _I32:
        return NotImplemented
    check_cache(cache, x, position)
    x = _heads(x)
    tokens, heads, size = x.shape
    launch(
        _CACHE_WRITE,
        x.numel() >> 10,
        cache.address,
        x.address,
        position.address,
        tokens,
        heads,
        size,
        cache.shape[1],
        x.strides[0],
    )
    cache.storage.version += 1
    return cache


@claims("_cached_attention")
def _cached_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float) -> Any:
    if not (q.dtype is _F32 and is_plain(k_cache) and is_plain(v_cache) and position.dtype is _I32):
        return NotImplemented
    q = _heads(q)
    tokens, heads, size = q.shape
    kv_heads, capacity, _ = k_cache.shape
    y = empty_contiguous(q.shape)
    launch(
        _ATTENTION,
        tokens * heads * size * 256 >> 10,
        y.address,
        q.address,
        k_cache.address,
        v_cache.address,
        position.address,
        tokens,
        heads,
        kv_heads,
        size,
        capacity,
        heads * size,
        q.strides[0],
        1,
        scale,
    )
    return y


_constants: dict[int, Tensor] = {}


def _constant(value: int) -> Tensor:
    """An int32 that a kernel reads and nobody writes; records may point to it for ever."""
    found = _constants.get(value)
    if found is None:
        found = _constants[value] = empty_contiguous((1,), _I32)
        found.data_view()[0] = value
    return found


@claims("_cross_attention")
def _cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float) -> Any:
    """As attention over a cache that is full, in which every row sees all. More rows than keys: several records."""
    if not (q.dtype is _F32 and is_plain(keys) and is_plain(values)):
        return NotImplemented
    q = _heads(q)
    tokens, heads, size = q.shape
    kv_heads, length, _ = keys.shape
    y = empty_contiguous(q.shape)
    for first in range(0, tokens, length):
        count = min(length, tokens - first)
        launch(
            _ATTENTION, count * heads * size * length >> 9,
            y.address + 4 * first * heads * size, q.address + 4 * first * q.strides[0], keys.address, values.address,
            _constant(length - count).address, count, heads, kv_heads, size, length, heads * size, q.strides[0], 0,
            scale,
        )  # fmt: skip
    return y


@claims("_cached_self_attention")
def _cached_self_attention(
    qkv: Tensor, table: Tensor, position: Tensor, keys: Tensor, values: Tensor, interleaved: bool, scale: float
) -> Any:
    """Four records in one call: rotate q and k where they lie, write k and v into the cache, attend."""
    if not (qkv.dtype is _F32 and is_plain(keys) and is_plain(values) and position.dtype is _I32 and is_plain(table)):
        return NotImplemented
    qkv, tokens, width, stride = rows_of(qkv)
    kv_heads, capacity, size = keys.shape
    heads = width // size - 2 * kv_heads
    at, place, q_bytes, k_bytes = qkv.address, position.address, heads * size * 4, kv_heads * size * 4
    y = empty_contiguous((tokens, heads * size))
    launch_all(
        tokens * heads * size >> 2,
        (
            _ROPE,
            at,
            at,
            table.address,
            place,
            tokens,
            heads + kv_heads,
            size,
            stride,
            stride,
            table.shape[0],
            int(interleaved),
        ),
        (_CACHE_WRITE, keys.address, at + q_bytes, place, tokens, kv_heads, size, capacity, stride),
        (_CACHE_WRITE, values.address, at + q_bytes + k_bytes, place, tokens, kv_heads, size, capacity, stride),
        (
            _ATTENTION,
            y.address,
            at,
            keys.address,
            values.address,
            place,
            tokens,
            heads,
            kv_heads,
            size,
            capacity,
            heads * size,
            stride,
            1,
            scale,
        ),
    )
    qkv.storage.version += 1
    keys.storage.version += 1
    values.storage.version += 1
    return y
