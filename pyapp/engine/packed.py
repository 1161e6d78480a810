"""Attention in int8 to all of a sequence, where a model's weights are of few bits too (native/attention_q8.c).

Keys and values are packed once and read by any number of queries, in a quarter of the memory of float32. The result is
within a few per cent of `ops.attention`'s, as products with q8_0 weights are; there are no gradients.
"""

from __future__ import annotations

from math import sqrt

from . import dtype as _dtype
from .launch import KERNELS, launch, launch_all
from .op import describe
from .ops.base import dense
from .storage import Storage
from .tensor import Tensor, empty_contiguous

LARGEST_SIZE = 256  # of a head
_GROUP, _BLOCK = 8, 64  # keys packed side by side; keys whose values share scales


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def attends_in_int8(weight: Tensor, size: int) -> bool:
    """Whether attention with heads of `size` is computed in int8: where the weights that project into it are of few
    bits."""
    return weight.dtype.is_quantized and size <= LARGEST_SIZE


class PackedSequence:
    """Keys and values of `length` positions with `heads` heads of `size`, at most LARGEST_SIZE; empty until `write`."""

    def __init__(self, length: int, heads: int, size: int) -> None:
        if length < 1 or heads < 1 or not 1 <= size <= LARGEST_SIZE:
            raise ValueError(
                f"PackedSequence: {length} positions of {heads} heads of {size}; "
                f"heads are of 1 to {LARGEST_SIZE}, and there is at least one of each"
            )
        self.length, self.heads, self.size = length, heads, size
        self.keys = Storage(heads * _up(length, _GROUP) * (4 + _up(size, 4)))
        self.values = Storage(heads * _up(length, _BLOCK) // _BLOCK * _up(size, 8) * (4 + _BLOCK))

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Packs keys and values (length, heads, size) float32; Graphs go on reading the same memory."""
        shape = (self.length, self.heads, self.size)
        for x in (keys, values):
            if x.shape != shape or x.dtype is not _dtype.float32:
                raise ValueError(f"PackedSequence: takes float32{list(shape)}, got {describe(x)}")
        keys, values = _by_token(keys), _by_token(values)
        launch_all(
            keys.numel() >> 7,
            (KERNELS["pack_keys_q8"], self.keys.address, keys.address, *shape, keys.strides[0]),
            (KERNELS["pack_values_q8"], self.values.address, values.address, *shape, values.strides[0]),
        )

    def attention(self, q: Tensor, scale: float | None = None) -> Tensor:
        """softmax(q kᵀ scale) v of q (T, H, D), H a multiple of the heads, in float32 → (T, H, D). scale defaults to
        1 / sqrt(D)."""
        if q.ndim != 3 or q.shape[2] != self.size or q.shape[1] % self.heads or q.dtype is not _dtype.float32:
            raise ValueError(f"PackedSequence: {describe(q)} is not (T, {self.heads} n, {self.size}) in float32")
        q = _by_token(q)
        tokens, heads, size = q.shape
        y = empty_contiguous(q.shape)
        launch(
            KERNELS["attention_q8"], tokens * heads * size * self.length >> 10, y.address, q.address,
            self.keys.address, self.values.address, tokens, heads, self.heads, size, self.length,
            heads * size, q.strides[0], scale or 1 / sqrt(size),
        )  # fmt: skip
        return y


def _by_token(x: Tensor) -> Tensor:
    """x (T, H, D) itself where each token's heads lie densely, else a dense copy."""
    return x if x.strides[2] == 1 and x.strides[1] == x.shape[2] else dense(x)


__all__ = ["LARGEST_SIZE", "PackedSequence", "attends_in_int8"]
