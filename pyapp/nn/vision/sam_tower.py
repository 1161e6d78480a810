"""The Vision Transformer of Segment Anything (Kirillov et al. 2023, arXiv 2304.02643), by which GOT-OCR 2.0 sees too:
attention within windows, and in some layers to the whole picture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...engine import Tensor, ops
from ..encoders.encoders import attend
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import ImageModel, PatchEmbeddings, check_pictures, over_channels
from .windows import in_windows, out_of_windows

EPSILON = 1e-6  # of the norms of maps


class SamFeedForward(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.lin1 = Linear(width, inner)
        self.lin2 = ResidualLinear(inner, width)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., D) → (..., D)."""
        return self.lin2(self.activation(self.lin1(x)), residual)


class DistanceAttention(Module):
    """Attention of the places of a map, with vectors for the distances in rows and in columns (Li et al. 2021, arXiv
    2112.01526).
    """

    def __init__(self, config: Any, side: int) -> None:
        super().__init__()
        width, self.heads, self.side = config.hidden_size, config.num_attention_heads, side
        self.qkv = Linear(width, 3 * width, config.qkv_bias)
        self.proj = Linear(width, width)
        size = width // self.heads
        self.rel_pos_h = new_parameter(ops.zeros, 2 * side - 1, size) if config.use_rel_pos else None
        self.rel_pos_w = new_parameter(ops.zeros, 2 * side - 1, size) if config.use_rel_pos else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side², D) → (B, side², D)."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = (qkv.select(2, i) for i in range(3))  # (B, T, H, d)
        scale = (width // self.heads) ** -0.5
        if self.rel_pos_h is not None and self.rel_pos_w is not None:
            q, k, scale = self._with_distances(q, k, scale)
        return self.proj(attend(q, k, v, None, scale))

    def _with_distances(self, q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, float]:
        """Queries and keys (B, T, H, d + 2 * side) whose products are the scores with the biases of distances: a query
        has its bias for each row and column, a key says its own row and column. No matrix of biases is needed.
        """
        side, device = self.side, q.device
        batch, tokens, heads, size = q.shape
        places = ops.arange(side, device=device)
        apart = (places.reshape(side, 1) - places.reshape(1, side) + (side - 1)).reshape(-1)  # (side²,)
        grid = q.reshape(batch, side, side, heads, size)
        rows, columns = (
            table.index_select(0, apart).reshape(side, side, size)
            for table in (self.rel_pos_h, self.rel_pos_w)
            if table is not None
        )
        down = ops.einsum("brchd,rkd->brchk", grid, rows).reshape(batch, tokens, heads, side)
        along = ops.einsum("brchd,ckd->brchk", grid, columns).reshape(batch, tokens, heads, side)
        one = ops.eye(side, dtype=q.dtype, device=device)
        row_of = one.reshape(side, 1, side).expand(side, side, side).reshape(1, tokens, 1, side)
        column_of = one.reshape(1, side, side).expand(side, side, side).reshape(1, tokens, 1, side)
        parts = [part.expand(batch, tokens, heads, side) for part in (row_of, column_of)]
        return ops.cat([q * scale, down, along], 3), ops.cat([k, *parts], 3), 1.0


class SamLayer(Module):
    """Attention, within windows if `window` is not 0, and a feed-forward part, each with a norm before it."""

    def __init__(self, config: Any, window: int) -> None:
        super().__init__()
        self.window = window
        self.layer_norm1 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attn = DistanceAttention(config, window or config.grid[0])
        self.layer_norm2 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = SamFeedForward(config.hidden_size, config.inner, config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side, side, D) → (B, side, side, D)."""
        y, (batch, high, wide, width) = self.layer_norm1(x), x.shape
        if self.window:
            below, right = -high % self.window, -wide % self.window
            y = in_windows(ops.pad(y, [0, 0, 0, right, 0, below]), self.window)  # (B, R, C, T, D)
            shape = y.shape
            y = self.attn(y.reshape(-1, shape[3], width)).reshape(*shape)
            y = out_of_windows(y, self.window)[:, :high, :wide]
        else:
            y = self.attn(y.reshape(batch, high * wide, width)).reshape(x.shape)
        x = x + y
        return self.mlp(self.layer_norm2(x), x)


class Neck(Module):
    """The map that other parts read."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.output_channels
        self.conv1 = Conv2d(config.hidden_size, width, 1, bias=False)
        self.layer_norm1 = LayerNorm(width, EPSILON)
        self.conv2 = Conv2d(width, width, 3, padding=1, bias=False)
        self.layer_norm2 = LayerNorm(width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side, side, D) → (B, C, side, side)."""
        x = over_channels(self.conv1(x.permute(0, 3, 1, 2)), self.layer_norm1)
        return over_channels(self.conv2(x), self.layer_norm2)


class SamTower(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbeddings(config.num_channels, config.hidden_size, config.patch_size)
        absolute = config.use_abs_pos
        self.pos_embed = new_parameter(ops.zeros, 1, *config.grid, config.hidden_size) if absolute else None
        self.layers = ModuleList(
            SamLayer(config, 0 if i in config.global_attn_indexes else config.window_size)
            for i in range(config.num_hidden_layers)
        )
        self.neck = Neck(config)

    def steps(
        self, pixel_values: Tensor, whole: list[Tensor] | None = None
    ) -> Generator[tuple[int, int], None, Tensor]:  # fmt: skip
        """As `forward`; yields how many layers are done, and how many there are. `whole` receives the maps (B, rows,
        columns, D) after layers that attend to the whole picture.
        """
        check_pictures("SAM", pixel_values, self.config.num_channels, self.config.image_size)
        rows, columns = self.config.grid
        x = self.patch_embed(pixel_values).reshape(pixel_values.shape[0], rows, columns, self.config.hidden_size)
        if self.pos_embed is not None:
            x = x + self.pos_embed
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if whole is not None and i in self.config.global_attn_indexes:
                whole.append(x)
            yield i + 1, len(self.layers)
        return self.neck(x)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, side, side)."""
        steps = self.steps(pixel_values)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: Tensor = end.value
                return found
