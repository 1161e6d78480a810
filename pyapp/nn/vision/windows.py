"""The parts of Swin (Liu et al. 2021, arXiv 2103.14030): attention within windows of a picture's patches, which every
second layer shifts by half a window, and stages that halve the picture's sides.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any, ClassVar

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..encoders.encoders import Intermediate, SelfAttention, attend_joined
from ..layers.activation import ReLU
from ..layers.containers import ModuleList, Sequential
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import ImageModel, PatchEmbeddings, as_map, check_pictures, norms_of_stages, resized_positions

OF_DISTANCES = 512  # inner features of the network that gives Swin V2's biases
HIDDEN = -100.0  # added to the score of a place that is not a neighbour of the other


def pair_distances(rows: int, columns: int) -> Any:
    """A number for each pair of places in a grid, by their distances in rows and in columns: int64 array (T, T) of
    numbers below (2 * rows - 1) * (2 * columns - 1).
    """
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")).reshape(2, -1)  # (2, T)
    apart = places[:, :, None] - places[:, None, :] + np.array([rows - 1, columns - 1])[:, None, None]
    return (apart[0] * (2 * columns - 1) + apart[1]).astype("int64")


def bias_of_pairs(table: Tensor, index: Tensor) -> Tensor:
    """table (pairs, H), index (T, T) → the biases of the scores (1, H, T, T)."""
    tokens = index.shape[0]
    found = table.index_select(0, index.reshape(-1))  # (T * T, H)
    return found.transpose(0, 1).reshape(1, table.shape[1], tokens, tokens)


def seams(window: int, shift: int, hide: float = HIDDEN) -> list[list[Any]]:
    """What the scores of a shifted picture's windows hide by adding `hide`, float32 (T, T) or None: [row][column], of
    the windows in the last row or column and of those before. The picture was rolled, so a last window has places from
    both ends of it.
    """
    late = np.arange(window) >= window - shift
    rows, columns = np.repeat(late, window), np.tile(late, window)  # (T,) each

    def hidden(part: Any) -> Any:
        return np.where(part[:, None] != part[None, :], hide, 0).astype("float32")

    both = np.where((rows[:, None] != rows) | (columns[:, None] != columns), hide, 0).astype("float32")
    return [[None, hidden(columns)], [hidden(rows), both]]


def in_windows(x: Tensor, window: int) -> Tensor:
    """x (B, R * window, C * window, D) → (B, R, C, window², D)."""
    batch, rows, columns, width = x.shape[0], x.shape[1] // window, x.shape[2] // window, x.shape[3]
    x = x.reshape(batch, rows, window, columns, window, width).transpose(2, 3)
    return x.reshape(batch, rows, columns, window * window, width)


def out_of_windows(x: Tensor, window: int) -> Tensor:
    """x (B, R, C, window², D) → (B, R * window, C * window, D)."""
    batch, rows, columns, _, width = x.shape
    x = x.reshape(batch, rows, columns, window, window, width).transpose(2, 3)
    return x.reshape(batch, rows * window, columns * window, width)


class WindowAttention(SelfAttention):
    """Self-attention within each window, with a bias for each head and distance."""

    scale: float | None = None  # of the scores; None: 1 / sqrt(features of a head)
    key_bias: bool | None = None  # whether keys have a bias, where queries have; None: as they
    hidden = HIDDEN  # added to the score of a place that is not a neighbour

    def __init__(self, width: int, heads: int, window: int, bias: bool) -> None:
        super().__init__(width, heads, bias, self.key_bias)
        self.window = window
        self.make_distances()
        self._index: Tensor | None = None  # made at the first use

    def make_distances(self) -> None:
        """Makes the parameters of the biases."""
        self.relative_position_bias_table = new_parameter(ops.zeros, (2 * self.window - 1) ** 2, self.heads)

    def distances(self) -> Tensor:
        """The biases ((2 window - 1)², H) by distance."""
        found: Tensor = self.relative_position_bias_table
        return found

    def biases(self) -> Tensor:
        """(1, H, T, T) of the window² places of a window."""
        table = self.distances()
        if self._index is None or self._index.device is not table.device:
            self._index = ops.tensor(pair_distances(self.window, self.window)).to(table.device)
        return bias_of_pairs(table, self._index)

    def projected(self, x: Tensor) -> Tensor:
        """x (..., D) → queries, keys and values (..., 3 * D)."""
        return self.joined(self, x)

    def of_windows(self, x: Tensor, shift: int) -> Tensor:
        """x (B, R, C, T, D): R x C windows of T places, of a picture that was rolled by `shift` → (B, R, C, T, D)."""
        batch, rows, columns, tokens, width = x.shape
        qkv, biases = self.projected(x), self.biases()  # (B, R, C, T, 3 * D)
        if not shift:
            y = attend_joined(qkv.reshape(batch * rows * columns, tokens, 3 * width), self.heads, biases, self.scale)
            return y.reshape(batch, rows, columns, tokens, width)
        hidden, found = seams(self.window, shift, self.hidden), []
        for row, (top, high) in enumerate(((0, rows - 1), (rows - 1, 1))):
            line = []
            for column, (left, wide) in enumerate(((0, columns - 1), (columns - 1, 1))):
                if not high * wide:
                    continue
                part = qkv.narrow(1, top, high).narrow(2, left, wide).reshape(batch * high * wide, tokens, 3 * width)
                seam = hidden[row][column]
                mask = biases if seam is None else biases + ops.tensor(seam, device=x.device)
                y = attend_joined(part, self.heads, mask, self.scale)
                line.append(y.reshape(batch, high, wide, tokens, width))
            found += [ops.cat(line, 2)] if line else []
        return ops.cat(found, 1)


class CosineWindowAttention(WindowAttention):
    """That of Swin V2 (Liu et al. 2021, arXiv 2111.09883): the scores are cosines times a factor of each head, and a
    small network gives the bias of a distance.
    """

    scale = 1.0
    key_bias = False
    hidden = 2 * HIDDEN  # transformers adds it twice
    trained = 0  # the window of the first training, in whose distances others are told; 0: the same

    def make_distances(self) -> None:
        self.logit_scale = new_parameter(ops.zeros, self.heads, 1, 1)
        self.continuous_position_bias_mlp = Sequential(
            Linear(2, OF_DISTANCES), ReLU(), Linear(OF_DISTANCES, self.heads, bias=False)
        )

    def distances(self) -> Tensor:
        most = max((self.trained or self.window) - 1, 1)
        span = np.arange(1 - self.window, self.window, dtype="float32") * np.float32(8 / most)
        steps = np.sign(span) * np.log2(np.abs(span) + 1) / np.float32(3)  # log2(8)
        pairs = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2).astype("float32")
        found = self.continuous_position_bias_mlp(ops.tensor(pairs, device=self.logit_scale.device))
        return found.sigmoid() * 16

    def projected(self, x: Tensor) -> Tensor:
        qkv = self.joined(self, x)
        parts = qkv.reshape(*qkv.shape[:-1], 3 * self.heads, -1)  # (..., 3 H, d)
        q, k, v = (parts.narrow(-2, i * self.heads, self.heads) for i in range(3))
        factors = self.logit_scale.clamp(max=log(100.0)).exp().reshape(self.heads, 1)
        q = ops.normalize(q, dim=-1) * factors
        return ops.cat([q, ops.normalize(k, dim=-1), v], -2).reshape(qkv.shape)


class WindowLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    kind: type[WindowAttention] = WindowAttention

    def __init__(self, config: Any, width: int, heads: int, shifted: bool) -> None:
        super().__init__()
        inner = int(config.mlp_ratio * width)
        self.window, self.shift = config.window_size, config.window_size // 2 if shifted else 0
        self.layernorm_before = LayerNorm(width, config.layer_norm_eps)
        self.attention = Module()
        self.attention.add_module("self", self.kind(width, heads, config.window_size, config.qkv_bias))
        self.attention.output = Module()
        self.attention.output.dense = Linear(width, width)
        self.layernorm_after = LayerNorm(width, config.layer_norm_eps)
        self.intermediate = Intermediate(width, inner, config.hidden_act)
        self.output = Module()
        self.output.dense = ResidualLinear(inner, width)

    def attended(self, x: Tensor, size: tuple[int, int], shift: int) -> Tensor:
        """The attention of x (B, H * W, D) of (H, W) places → (B, H * W, D)."""
        window, (high, wide) = self.window, size
        y = x.reshape(x.shape[0], high, wide, x.shape[2])
        below, right = -high % window, -wide % window
        if below or right:
            y = ops.pad(y, [0, 0, 0, right, 0, below])
        if shift:
            y = y.roll((-shift, -shift), (1, 2))
        y = self.attention.output.dense(self.attention._modules["self"].of_windows(in_windows(y, window), shift))
        y = out_of_windows(y, window)  # (B, H', W', D)
        if shift:
            y = y.roll((shift, shift), (1, 2))
        return y[:, :high, :wide].reshape(x.shape)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) of (H, W) places → (B, H * W, D)."""
        shift = self.shift if min(size) > self.window else 0  # one window has all rows or columns
        x = x + self.attended(self.layernorm_before(x), size, shift)
        return self.output.dense(self.intermediate(self.layernorm_after(x)), x)


class PostNormWindowLayer(WindowLayer):
    """That of Swin V2: the norms are after the parts, and every picture is shifted, whatever its size."""

    kind = CosineWindowAttention

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        x = x + self.layernorm_before(self.attended(x, size, self.shift))
        return x + self.layernorm_after(self.output.dense(self.intermediate(x)))


class PatchMerging(Module):
    """Four neighbouring places become one of twice the width; the norm is before that, or after it."""

    def __init__(self, width: int, post_norm: bool = False) -> None:
        super().__init__()
        self.post_norm = post_norm
        self.reduction = Linear(4 * width, 2 * width, bias=False)
        self.norm = LayerNorm(2 * width if post_norm else 4 * width)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H / 2 * W / 2, 2 * D), both rounded up."""
        batch, _, width = x.shape
        x = x.reshape(batch, *size, width)
        if size[0] % 2 or size[1] % 2:
            x = ops.pad(x, [0, 0, 0, size[1] % 2, 0, size[0] % 2])
        rows, columns = x.shape[1] // 2, x.shape[2] // 2
        x = x.reshape(batch, rows, 2, columns, 2, width).permute(0, 1, 3, 4, 2, 5)  # (B, H / 2, W / 2, 2, 2, D)
        x = x.reshape(batch, rows * columns, 4 * width)
        return self.norm(self.reduction(x)) if self.post_norm else self.reduction(self.norm(x))


class WindowStage(Module):
    """Layers of one width; merging follows, unless it is the last stage."""

    def __init__(self, config: Any, stage: int) -> None:
        super().__init__()
        width, heads = config.embed_dim << stage, config.num_heads[stage]
        kind, shifts, trained = WindowLayer, True, 0
        if config.post_norm:  # the windows are not larger than the map
            kind, side, trained = PostNormWindowLayer, config.grid[0] >> stage, config.trained_window(stage)
            config, shifts = replace(config, window_size=min(side, config.window_size)), side > config.window_size
        layers = [kind(config, width, heads, shifts and i % 2 > 0) for i in range(config.depths[stage])]
        for layer in layers if trained else ():
            layer.attention._modules["self"].trained = trained
        self.blocks = ModuleList(layers)
        self.downsample = PatchMerging(width, config.post_norm) if stage + 1 < len(config.depths) else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> tuple[Tensor, tuple[int, int]]:
        """x (B, H * W, D) of (H, W) places → the same after the stage."""
        for layer in self.blocks:
            x = layer(x, size)
        if self.downsample is None:
            return x, size
        return self.downsample(x, size), ((size[0] + 1) // 2, (size[1] + 1) // 2)


class WindowEmbeddings(Module):
    """Patches and their norm, with positions if the configuration says so."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.patch_embeddings = PatchEmbeddings(config.num_channels, config.embed_dim, config.patch_size)
        absolute, patches = config.use_absolute_embeddings, config.grid[0] * config.grid[1]
        self.position_embeddings = new_parameter(ops.zeros, 1, patches, config.embed_dim) if absolute else None
        self.norm = LayerNorm(config.embed_dim)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """pixel_values (B, C, H, W) → (B, rows * columns, D), and (rows, columns): patches at the right and the bottom
        may go beyond the picture.
        """
        high, wide = self.config.patch_size
        below, right = -pixel_values.shape[2] % high, -pixel_values.shape[3] % wide
        if below or right:
            pixel_values = ops.pad(pixel_values, [0, right, 0, below])
        size = pixel_values.shape[2] // high, pixel_values.shape[3] // wide
        x = self.norm(self.patch_embeddings(pixel_values))
        if self.position_embeddings is not None:
            x = x + resized_positions(self.position_embeddings, 0, 0, self.config.grid, size)
        return x, size


class WindowEncoder(Module):
    """The stages."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layers = ModuleList(WindowStage(config, stage) for stage in range(len(config.depths)))

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) of (H, W) places → (B, H' * W', D')."""
        for stage in self.layers:
            x, size = stage(x, size)
        return x


class WindowModel(ImageModel):
    """The encoder with a norm behind it. `title`: what errors call it."""

    title: ClassVar[str]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = WindowEmbeddings(config)
        self.encoder = WindowEncoder(config)
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, patches, D)."""
        check_pictures(self.title, pixel_values, self.config.num_channels)
        return self.layernorm(self.encoder(*self.embeddings(pixel_values)))


class WindowMaps(Module):
    """An encoder that gives the maps of stages, before they are made smaller: of all, or of those whose numbers from 0
    are given.
    """

    def __init__(self, config: Any, stages: Sequence[int] | None = None) -> None:
        super().__init__()
        self.embeddings, self.encoder = WindowEmbeddings(config), WindowEncoder(config)
        stages = range(len(config.depths)) if stages is None else stages
        self.hidden_states_norms = norms_of_stages({i: config.embed_dim << i for i in stages}, 1e-5)

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, 3, H, W) → maps (B, C, H', W')."""
        x, size = self.embeddings(pixel_values)  # (B, H' * W', C)
        found = []
        norms = self.hidden_states_norms
        for i, stage in enumerate(self.encoder.layers, 1):
            for layer in stage.blocks:
                x = layer(x, size)
            if f"stage{i}" in norms:
                found.append(as_map(norms[f"stage{i}"](x), *size))
            if stage.downsample is not None:
                x, size = stage.downsample(x, size), ((size[0] + 1) // 2, (size[1] + 1) // 2)
        return found
