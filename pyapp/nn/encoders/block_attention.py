"""Attention in blocks (BigBird, Zaheer et al. 2020, arXiv 2007.14062): a block of a long text attends to its
neighbours, to the first and the last block, and to some others.

The other blocks are random while a model is trained; afterwards transformers takes the first block for each of them,
and so does this module.
"""

from __future__ import annotations

from math import log

from ...engine import Tensor, ops
from .encoders import SelfAttention, attend, attend_joined

# Blocks that a block attends to: the first, itself with its neighbours, and the last.
SEEN = 5


def longest_whole(size: int, others: int) -> int:
    """The largest number of tokens of a text that attends to itself whole, by a block's size and the number of others
    that it attends to.
    """
    return (SEEN + 2 * others) * size


def in_whole_blocks(x: Tensor, mask: Tensor | None, size: int) -> tuple[Tensor, Tensor | None]:
    """x (B, T, D) and mask (B, 1, 1, T) bool, None: all are seen → both with T in multiples of `size`; what is added is
    hidden from all others.
    """
    batch, tokens, width = x.shape
    more = -tokens % size
    if not more:
        return x, mask
    seen = ops.ones(batch, 1, 1, tokens, dtype="bool", device=x.device) if mask is None else mask
    mask = ops.cat([seen, ops.zeros(batch, 1, 1, more, dtype="bool", device=x.device)], 3)
    return ops.pad(x, (0, 0, 0, more)), mask


class BlockAttention(SelfAttention):
    """Self-attention of whole texts, or of those with more than `whole` tokens in blocks of `size`."""

    def __init__(self, width: int, heads: int, size: int, others: int, whole: int, bias: bool) -> None:
        super().__init__(width, heads, bias)
        self.block, self.whole = size, whole
        self.weight = log(1 + others)  # the first block counts as often as it is taken

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, 1, T) → (B, T, D). T is a multiple of the block's size where it exceeds `whole`."""
        qkv = self.joined(self, x)
        if x.shape[1] <= self.whole:
            return attend_joined(qkv, self.heads, mask)
        batch, tokens, width = x.shape
        size, count = self.block, tokens // self.block
        parts = qkv.reshape(batch, count, size, 3 * self.heads, width // self.heads)
        q, k, v = (parts.narrow(3, i * self.heads, self.heads) for i in range(3))  # (B, N, S, H, D / H)
        keys = ops.zeros(batch, 1, 1, tokens, device=x.device)
        if mask is not None:
            keys = ops.where(mask, keys, float("-inf"))
        # The first and the last block attend to everything.
        ends = ops.cat([q.narrow(1, 0, 1), q.narrow(1, count - 1, 1)], 1).reshape(batch, 2 * size, *q.shape[3:])
        whole = [part.reshape(batch, tokens, *part.shape[3:]) for part in (k, v)]  # (B, T, H, D / H)
        outer = attend(ends, whole[0], whole[1], keys).reshape(batch, 2, size, width)
        # The others attend to SEEN blocks; the neighbours of the second and of the last but one are seen already.
        inner, hidden = count - 2, float("-inf")
        places = [[0, i - 1, i, i + 1, count - 1] for i in range(1, count - 1)]
        bias = [[self.weight, hidden if i == 1 else 0.0, 0.0, hidden if i == count - 2 else 0.0, 0.0]
                for i in range(1, count - 1)]  # fmt: skip
        index = ops.tensor(places, device=x.device)  # (N - 2, SEEN)
        rows = batch * inner
        near = [part[:, index].reshape(rows, SEEN * size, *part.shape[3:]) for part in (k, v)]
        shown = keys.reshape(batch, count, size)[:, index] + ops.tensor(bias, device=x.device).unsqueeze(-1)
        own = q.narrow(1, 1, inner).reshape(rows, size, *q.shape[3:])
        y = attend(own, near[0], near[1], shown.reshape(rows, 1, 1, SEEN * size))
        y = y.reshape(batch, inner, size, width)
        return ops.cat([outer.narrow(1, 0, 1), y, outer.narrow(1, 1, 1)], 1).reshape(batch, tokens, width)
