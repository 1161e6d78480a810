"""Keys and values of the tokens so far, for one layer: all, in memory that grows or is fixed, or only the last."""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad
from ..engine.op import describe
from ..engine.ops import arange, cat, zeros
from ..errors import ArgumentError


class _Cache:
    """What is kept of keys and values (T, KV, D) as (KV, tokens, D); `length` counts all tokens that came."""

    def __init__(self) -> None:
        self.length = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Takes the next tokens' (T, KV, D) twice; the keys and values to attend to, (KV, S, D) each."""
        if keys.ndim != 3 or keys.shape != values.shape:
            raise ArgumentError(
                f"{type(self).__name__}: takes keys and values (T, KV, D), got {describe(keys)}, {describe(values)}"
            )
        with no_grad():
            found = self._append(*(t.detach().transpose(0, 1) for t in (keys, values)))
        self.length += keys.shape[0]
        return found

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def reset(self) -> None:
        """Forgets everything."""
        self.length = 0


class GrowingCache(_Cache):
    """Joins what comes to what is there."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: tuple[Tensor, Tensor] | None = None

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self._kept is None:
            self._kept = keys.contiguous(), values.contiguous()
        else:
            old_keys, old_values = self._kept
            self._kept = cat([old_keys, keys], 1), cat([old_values, values], 1)
        return self._kept

    def reset(self) -> None:
        super().reset()
        self._kept = None


class FixedCache(_Cache):
    """Memory for `capacity` tokens from the start; what append gives are views of it. IndexError when it is full."""

    def __init__(self, capacity: int, kv_heads: int, head_dim: int, dtype: Any = "float32") -> None:
        super().__init__()
        if min(capacity, kv_heads, head_dim) < 1:
            raise ArgumentError(f"{type(self).__name__}: {capacity} tokens of {kv_heads} x {head_dim} are none")
        self.capacity = capacity
        self.keys, self.values = (zeros(kv_heads, capacity, head_dim, dtype=dtype) for _ in range(2))

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        end = self.length + keys.shape[1]
        if end > self.capacity:
            raise IndexError(f"FixedCache: {end} tokens do not fit into {self.capacity}")
        self.keys[:, self.length : end].copy_(keys)
        self.values[:, self.length : end].copy_(values)
        return self.keys[:, :end], self.values[:, :end]

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes


class RotatingCache(FixedCache):
    """The last `capacity` tokens, in a ring: for attention that looks no further back. `positions` tells where in the
    text the columns of the last append's keys stand; `mask(tokens)` what the last tokens may see of them.
    """

    def __init__(self, capacity: int, kv_heads: int, head_dim: int, dtype: Any = "float32") -> None:
        super().__init__(capacity, kv_heads, head_dim, dtype)
        self.positions = arange(0)

    def _ring(self) -> Tensor:
        """The position that each slot of the ring holds (negative: none yet), for `length` tokens."""
        slots = arange(self.capacity)
        last = self.length - 1
        return last - (last - slots).remainder(self.capacity)

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        count = keys.shape[1]
        if count == 1:  # in place: views in the ring's order
            slot = self.length % self.capacity
            self.keys[:, slot : slot + 1].copy_(keys)
            self.values[:, slot : slot + 1].copy_(values)
            self.length += 1
            filled = min(self.length, self.capacity)
            self.positions = self._ring()[:filled]
            self.length -= 1
            return self.keys[:, :filled], self.values[:, :filled]
        known = min(self.length, self.capacity)  # several: each still sees what the later ones push out
        order = (arange(known) + (self.length - known)).remainder(self.capacity)
        seen = [cat([t.index_select(1, order), n], 1) for t, n in ((self.keys, keys), (self.values, values))]
        self.positions = arange(self.length - known, self.length + count)
        kept = min(known + count, self.capacity)
        slots = (arange(kept) + (self.length + count - kept)).remainder(self.capacity)
        for ring, every in zip((self.keys, self.values), seen, strict=True):
            ring[:, slots] = every[:, known + count - kept :]
        return seen[0], seen[1]

    def mask(self, tokens: int) -> Tensor:
        """(tokens, S) bool: whether each of the last `tokens` tokens may look at a key: not later, and not more than
        `capacity` - 1 before.
        """
        own = arange(self.length - tokens, self.length).unsqueeze(1)
        apart = own - self.positions
        return (apart >= 0).logical_and(apart < self.capacity)
