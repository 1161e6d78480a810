"""Attention in int8 (native/attention_q8.c)."""

from __future__ import annotations

from .. import dtype as _dtype
from ..launch import KERNELS
from ..op import claims
from ..ops.int8_attention import by_token
from ..tensor import Tensor, empty_contiguous

_PACK_KEYS, _PACK_VALUES, _ATTENTION = KERNELS["pack_keys_q8"], KERNELS["pack_values_q8"], KERNELS["attention_q8"]


@claims("_pack_keys_int8")
def _pack_keys_int8(packed: Tensor, x: Tensor) -> Tensor:
    x = by_token(x)
    _PACK_KEYS.launch(x.numel() >> 8, packed, x, *x._shape, x.strides[0])
    packed._storage.version += 1
    return packed


@claims("_pack_values_int8")
def _pack_values_int8(packed: Tensor, x: Tensor) -> Tensor:
    x = by_token(x)
    _PACK_VALUES.launch(x.numel() >> 8, packed, x, *x._shape, x.strides[0])
    packed._storage.version += 1
    return packed


@claims("_int8_attention")
def _int8_attention(q: Tensor, keys: Tensor, values: Tensor, length: int, kv_heads: int, scale: float) -> Tensor:
    q = by_token(q)
    tokens, heads, size = q._shape
    y = empty_contiguous(q._shape, _dtype.float32, q.device)
    _ATTENTION.launch(tokens * heads * size * length >> 10, y, q, keys, values,
        tokens, heads, kv_heads, size, length, heads * size, q.strides[0], scale,
    )  # fmt: skip
    return y
