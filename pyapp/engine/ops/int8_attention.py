"""Attention in int8 to every position of another sequence, for models with quantised weights.

Keys and values are packed once, into about a quarter of the memory of float32, and any number of queries reads them.
The result is within a few per cent of `attention`, like products with q8_0 weights. There are no gradients of packed
keys and values.

The layout of packed memory (native/kernels.h). Keys of each head: groups of 8 keys, each 8 float32 scales, then for
each 4 columns 4 bytes of key 0, of key 1, …, of key 7. Values of each head: blocks of 64 keys, each a float32 scale for
each column, then for each 4 keys 4 bytes of column 0, of column 1, …. A processor's kernels may add a constant to the
bytes of keys, so a device must pack and read with its kernels, or do both by the definitions here.
"""

from __future__ import annotations

import sys
from math import sqrt

from .. import dtype as _dtype
from ..autograd import STATE
from ..op import op
from ..operands import dense
from ..tensor import Tensor
from ..user_errors import describe
from .elementwise.select import where
from .full_attention import cross_attention
from .padding import pad
from .stacking import cat

LARGEST_HEAD = 256  # columns of a head
GROUP, BLOCK, COLUMNS = 8, 64, 8  # keys of a group; keys whose values share scales; columns of values are padded to 8
LEVELS = 127.0  # numbers are rounded to -127 .. 127


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def packed_bytes(length: int, heads: int, size: int) -> tuple[int, int]:
    """The bytes of the packed keys and values of `length` positions with `heads` heads of `size` columns.

    ValueError for sizes that kernels do not support, MemoryError for more bytes than can be addressed.
    """
    if length < 1 or heads < 1 or not 1 <= size <= LARGEST_HEAD:
        raise ValueError(
            f"int8 attention: {length:,} positions of {heads:,} heads of {size:,}; there must be at least one of each, "
            f"and heads are of 1 to {LARGEST_HEAD}"
        )
    keys = heads * _up(length, GROUP) * (4 + _up(size, 4))
    values = heads * (_up(length, BLOCK) // BLOCK) * _up(size, COLUMNS) * (4 + BLOCK)
    if keys + values > sys.maxsize:
        raise MemoryError(
            f"int8 attention: {length:,} positions of {heads:,} heads of {size} take {keys + values:,} bytes, "
            "more than can be addressed"
        )
    return keys, values


def by_token(x: Tensor) -> Tensor:
    """x (T, H, D) itself if the heads of each token are dense, else a dense copy."""
    return x if x.strides[2] == 1 and x.strides[1] == x._shape[2] else dense(x)


@op()
def _pack_keys_int8(packed: Tensor, x: Tensor) -> Tensor:
    """The mean of all keys is subtracted first, which does not change the softmax. Each key has one scale."""
    length, heads, size = x._shape
    x = x.detach()
    x = (x - x.mean(0, keepdim=True)).permute(1, 0, 2)  # (KV, S, D)
    x = pad(x, (0, -size % 4, 0, -length % GROUP))  # (KV, 8 g, 4 c)
    scale = x.abs().amax(-1) / LEVELS  # (KV, 8 g)
    whole = _rounded(x, scale.unsqueeze(-1))
    groups, columns = x._shape[1] // GROUP, x._shape[2] // 4
    whole = whole.reshape(heads, groups, GROUP, columns, 4).permute(0, 1, 3, 2, 4)  # (KV, g, c, 8, 4)
    scales = dense(scale).reshape(heads, groups, GROUP).view(_dtype.uint8)  # (KV, g, 32)
    packed.copy_(cat([scales, dense(whole).view(_dtype.uint8).reshape(heads, groups, -1)], -1).reshape(-1))
    return packed


@op()
def _pack_values_int8(packed: Tensor, x: Tensor) -> Tensor:
    """Each column of a block has one scale."""
    length, heads, size = x._shape
    x = pad(x.detach().permute(1, 0, 2), (0, -size % COLUMNS, 0, -length % BLOCK))  # (KV, 64 b, 8 c)
    blocks, columns = x._shape[1] // BLOCK, x._shape[2]
    x = x.reshape(heads, blocks, BLOCK, columns)
    scale = x.abs().amax(2) / LEVELS  # (KV, b, 8 c)
    whole = _rounded(x, scale.unsqueeze(2)).reshape(heads, blocks, BLOCK // 4, 4, columns)
    whole = dense(whole.permute(0, 1, 2, 4, 3)).view(_dtype.uint8)  # (KV, b, 16, 8 c, 4)
    packed.copy_(cat([dense(scale).view(_dtype.uint8), whole.reshape(heads, blocks, -1)], -1).reshape(-1))
    return packed


def _rounded(x: Tensor, scale: Tensor) -> Tensor:
    """x / scale as int8; 0 where the scale is 0."""
    return (x / where(scale == 0, 1.0, scale)).round().to(_dtype.int8)


def _unpacked_keys(packed: Tensor, length: int, heads: int, size: int) -> Tensor:
    """(KV, S, D) float32."""
    groups, columns = _up(length, GROUP) // GROUP, _up(size, 4) // 4
    rows = packed.reshape(heads, groups, -1)
    scale = dense(rows[..., : 4 * GROUP]).view(_dtype.float32)  # (KV, g, 8)
    whole = dense(rows[..., 4 * GROUP :]).view(_dtype.int8).reshape(heads, groups, columns, GROUP, 4)
    whole = whole.permute(0, 1, 3, 2, 4).reshape(heads, groups * GROUP, 4 * columns).to(_dtype.float32)
    return (whole * scale.reshape(heads, groups * GROUP, 1))[:, :length, :size]


def _unpacked_values(packed: Tensor, length: int, heads: int, size: int) -> Tensor:
    """(KV, S, D) float32."""
    blocks, columns = _up(length, BLOCK) // BLOCK, _up(size, COLUMNS)
    rows = packed.reshape(heads, blocks, -1)
    scale = dense(rows[..., : 4 * columns]).view(_dtype.float32).unsqueeze(2)  # (KV, b, 1, 8 c)
    whole = dense(rows[..., 4 * columns :]).view(_dtype.int8).reshape(heads, blocks, BLOCK // 4, columns, 4)
    whole = whole.permute(0, 1, 2, 4, 3).reshape(heads, blocks, BLOCK, columns).to(_dtype.float32)
    return (whole * scale).reshape(heads, blocks * BLOCK, columns)[:, :length, :size]


@op()
def _int8_attention(q: Tensor, keys: Tensor, values: Tensor, length: int, kv_heads: int, scale: float) -> Tensor:
    """Kernels also round the queries and the weights of the softmax; this does not."""
    sizes = (length, kv_heads, q._shape[2])
    return cross_attention(q, _unpacked_keys(keys, *sizes), _unpacked_values(values, *sizes), scale)


def _refuse_gradient(name: str, x: Tensor) -> None:
    if x.requires_grad and STATE.enabled:
        raise RuntimeError(f"{name}: attention in int8 has no gradient; call it inside no_grad(), or use attention()")


def _check_sequence(name: str, packed: Tensor, expected: int, x: Tensor) -> None:
    _refuse_gradient(name, x)
    if x.ndim != 3 or x.dtype is not _dtype.float32:
        raise ValueError(f"{name}: takes float32 (S, KV, D), got {describe(x)}")
    _check_memory(name, packed, expected)


def _check_memory(name: str, packed: Tensor, expected: int) -> None:
    if packed.dtype is not _dtype.uint8 or packed._shape != (expected,) or not packed.is_contiguous():
        raise ValueError(f"{name}: the packed memory must be dense uint8[{expected}], got {describe(packed)}")


def pack_keys_int8(packed: Tensor, keys: Tensor) -> Tensor:
    """Packs keys (S, KV, D) float32 into `packed`, uint8 of the size that `packed_bytes` gives; returns it."""
    _check_sequence("pack_keys_int8", packed, packed_bytes(*keys._shape)[0] if keys.ndim == 3 else 0, keys)
    return _pack_keys_int8(packed, keys)


def pack_values_int8(packed: Tensor, values: Tensor) -> Tensor:
    """Packs values (S, KV, D) float32 into `packed`, uint8 of the size that `packed_bytes` gives; returns it."""
    _check_sequence("pack_values_int8", packed, packed_bytes(*values._shape)[1] if values.ndim == 3 else 0, values)
    return _pack_values_int8(packed, values)


def int8_attention(
    q: Tensor, keys: Tensor, values: Tensor, length: int, kv_heads: int, scale: float | None = None
) -> Tensor:
    """softmax(q kᵀ scale) v of q (T, H, D) float32 over all `length` packed positions → (T, H, D).

    H is a multiple of `kv_heads`. scale defaults to 1 / sqrt(D).
    """
    _refuse_gradient("int8_attention", q)
    if q.ndim != 3 or q.dtype is not _dtype.float32 or q._shape[1] % kv_heads:
        raise ValueError(f"int8_attention: takes queries (T, {kv_heads} n, D) in float32, got {describe(q)}")
    sizes = packed_bytes(length, kv_heads, q._shape[2])
    _check_memory("int8_attention", keys, sizes[0])
    _check_memory("int8_attention", values, sizes[1])
    return _int8_attention(q, keys, values, length, kv_heads, scale or 1 / sqrt(q._shape[2]))


__all__ = ["LARGEST_HEAD", "int8_attention", "pack_keys_int8", "pack_values_int8", "packed_bytes"]
