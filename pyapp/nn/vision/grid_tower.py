"""The common parts of towers for pictures of any size, whose patches have rotary positions of rows and columns (Wang et
al. 2024, arXiv 2409.12191).
"""

from __future__ import annotations

from collections.abc import Callable

from ...engine import Tensor, ops
from ..layers.linear import Linear, ResidualLinear
from ..module import Module
from ..parameter import new_parameter
from ..positions.rotary import grid_rotations

THETA = 10000.0  # of the rotary positions


class FramePatches(Module):
    """Patches of a picture, which is each of the frames that a patch has, or of so many frames of a video."""

    def __init__(self, channels: int, width: int, side: int, frames: int, bias: bool) -> None:
        super().__init__()
        self.proj = Module()
        self.proj.weight = new_parameter(ops.zeros, width, channels, frames, side, side)
        self.proj.bias = new_parameter(ops.zeros, width) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W), or frames (B, F, C, H, W) → (B, rows, columns, width)."""
        if x.ndim == 5:
            weight = self.proj.weight.transpose(1, 2).flatten(1, 2)  # (width, F * C, side, side)
            x = x.flatten(1, 2)
        else:
            weight = self.proj.weight.sum(2)  # (width, C, side, side)
        return ops.conv2d(x, weight, self.proj.bias, weight.shape[-1]).permute(0, 2, 3, 1)


class GridAttention(Module):
    """Attention of patches to each other, or to those of their window. `norm` makes the norms of each head's queries
    and keys, of its number of features; None: there are none. kv_heads: heads of keys and values; None: `heads`.
    """

    def __init__(
        self, width: int, heads: int, window: int | None, bias: bool, output_bias: bool,
        norm: Callable[[int], Module] | None = None, kv_heads: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        self.counts, self.size, self.window = (heads, kv_heads, kv_heads), width // heads, window
        self.q_norm = None if norm is None else norm(width // heads)
        self.k_norm = None if norm is None else norm(width // heads)
        self.qkv = Linear(width, sum(self.counts) * self.size, bias=bias)
        self.proj = ResidualLinear(width, width, bias=output_bias)

    def forward(self, x: Tensor, residual: Tensor, table: Tensor) -> Tensor:
        """x and residual (B, rows, columns, D), table (rows * columns, …) → (B, rows, columns, D)."""
        count, rows, columns, _ = x.shape
        q, k, v = self.qkv(x).reshape(count, rows * columns, -1, self.size).split(self.counts, 2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = (ops.rope(part, table, interleaved=False) for part in (q, k))
        joined = ops.cat([q, k, v], 2).reshape(count, rows, columns, -1)  # (B, rows, columns, (H + 2 KV) * d)
        return self.proj(self._within(joined).to(x.dtype), residual)

    def _within(self, x: Tensor) -> Tensor:
        """[q, k, v] (B, rows, columns, …) → (B, rows, columns, D). Windows of one size are computed together."""
        rows, columns = x.shape[1:3]
        side = max(rows, columns) if self.window is None else self.window
        found = []
        for top, high in _cuts(rows, side):
            parts = [
                self._attend(x.narrow(1, top, high).narrow(2, left, wide), min(side, high), min(side, wide))
                for left, wide in _cuts(columns, side)
            ]
            found.append(ops.cat(parts, 2))
        return ops.cat(found, 1)

    def _attend(self, x: Tensor, high: int, wide: int) -> Tensor:
        """[q, k, v] (B, rows, columns, …) in windows of (high, wide) → (B, rows, columns, D)."""
        count, rows, columns, width = x.shape
        down, across = rows // high, columns // wide
        x = x.reshape(count, down, high, across, wide, width).transpose(2, 3)
        q, k, v = x.reshape(count * down * across, high * wide, -1, self.size).split(self.counts, 2)
        y = ops.attention(q, k, v, causal=False)
        y = y.reshape(count, down, across, high, wide, -1).transpose(2, 3)
        return y.reshape(count, rows, columns, -1)


def _cuts(size: int, side: int) -> list[tuple[int, int]]:
    """(first, length) of what has whole windows, and of the rest."""
    most = size // side * side
    return [cut for cut in ((0, most), (most, size - most)) if cut[1]]


class GridBlock(Module):
    """Attention and a feed-forward part, each with a norm before it, which `norm` makes, and a residual around it.
    head_norm, kv_heads: as GridAttention's.
    """

    def __init__(
        self, width: int, heads: int, norm: Callable[[], Module], mlp: Module, window: int | None = None,
        bias: bool = True, output_bias: bool = True, head_norm: Callable[[int], Module] | None = None,
        kv_heads: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm1, self.norm2 = norm(), norm()
        self.attn = GridAttention(width, heads, window, bias, output_bias, head_norm, kv_heads)
        self.mlp = mlp

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, rows, columns, D) → (B, rows, columns, D)."""
        x = self.attn(self.norm1(x), x, table)
        found: Tensor = self.mlp(self.norm2(x), x)
        return found


def grid_angles(x: Tensor, heads: int) -> Tensor:
    """The angles (rows * columns, head / 2, 2) of patches x (B, rows, columns, D): half the pairs turn by the row, half
    by the column.
    """
    quarter = x.shape[3] // heads // 4
    steps = tuple(THETA ** (-i / quarter) for i in range(quarter))
    return grid_rotations(x.shape[1], x.shape[2], steps, steps).to(x.device)
