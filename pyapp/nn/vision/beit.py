"""The parts of BEiT (Bao et al. 2021, arXiv 2106.08254): a Vision Transformer whose attention knows the distances of
patches, with scaled layers. `config` is a BeitConfig of models/loading/pictures_config.py.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..encoders.encoders import Intermediate, first_token
from ..layers.containers import ModuleList
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import (
    ImageModel,
    PatchAttention,
    PatchEmbeddings,
    check_pictures,
    resized_positions,
    token,
    with_tokens,
)
from .windows import bias_of_pairs, pair_distances


class BeitEmbeddings(Module):
    """The class token and the patches."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        absolute = config.use_absolute_position_embeddings
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width) if absolute else None
        self.config = config

    def forward(self, pixel_values: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
        """pixel_values (B, C, H, W) of a grid of patches → (B, 1 + patches, D)."""
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token)
        if self.position_embeddings is None:
            return x
        return x + resized_positions(self.position_embeddings, 1, 0, self.config.grid, grid or self.config.grid)


def distance_index(rows: int, columns: int) -> Tensor:
    """The row of the table of biases for each pair of tokens, int64 (T, T): patches by their distance in rows and
    columns, and three more for the class token to others, others to it, and itself.
    """
    distances = (2 * rows - 1) * (2 * columns - 1)
    index = np.empty((rows * columns + 1,) * 2, "int64")
    index[1:, 1:] = pair_distances(rows, columns)
    index[0], index[:, 0], index[0, 0] = distances, distances + 1, distances + 2
    return ops.tensor(index)


class RelativePositionBias(Module):
    """A bias for each head and distance. Distances of other grids are between those of the training."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        rows, columns = self.grid = config.grid
        self.relative_position_bias_table = new_parameter(
            ops.zeros, (2 * rows - 1) * (2 * columns - 1) + 3, config.num_attention_heads
        )
        self._index: tuple[tuple[int, int], Tensor] | None = None  # of the last grid

    def forward(self, grid: tuple[int, int] | None = None) -> Tensor:
        """The biases (1, H, T, T) of a grid of patches."""
        table, grid = self.relative_position_bias_table, grid or self.grid
        if self._index is None or self._index[0] != grid or self._index[1].device is not table.device:
            self._index = grid, distance_index(*grid).to(table.device)
        if grid != self.grid:
            high, wide = (2 * side - 1 for side in self.grid)
            old = table[: high * wide].reshape(1, high, wide, -1).permute(0, 3, 1, 2)  # (1, H, 2 R - 1, 2 C - 1)
            size = tuple(2 * side - 1 for side in grid)
            new = ops.interpolate(old, size=size, mode="bilinear", align_corners=False)
            table = ops.cat([new.permute(0, 2, 3, 1).reshape(-1, table.shape[1]), table[high * wide :]])
        return bias_of_pairs(table, self._index[1])


class BeitLayer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = PatchAttention(width, config.num_attention_heads, True, key_bias=False)
        if config.use_relative_position_bias:
            self.attention.attention.relative_position_bias = RelativePositionBias(config)
        self.intermediate = Intermediate(width, config.intermediate_size, config.hidden_act)
        self.output = Module()
        self.output.dense = Linear(config.intermediate_size, width)
        self.layernorm_before = LayerNorm(width, config.layer_norm_eps)
        self.layernorm_after = LayerNorm(width, config.layer_norm_eps)
        scaled = config.layer_scale_init_value > 0
        self.lambda_1 = new_parameter(ops.ones, width) if scaled else None
        self.lambda_2 = new_parameter(ops.ones, width) if scaled else None

    def forward(self, x: Tensor, shared: Tensor | None, grid: tuple[int, int] | None = None) -> Tensor:
        """x (B, T, D) of a grid of patches, biases (1, H, T, T) that all layers share → (B, T, D)."""
        own = getattr(self.attention.attention, "relative_position_bias", None)
        bias = shared if own is None else own(grid) if shared is None else own(grid) + shared
        y = self.attention(self.layernorm_before(x), None, bias)
        x = x + (y if self.lambda_1 is None else y * self.lambda_1)
        y = self.output.dense(self.intermediate(self.layernorm_after(x)))
        return x + (y if self.lambda_2 is None else y * self.lambda_2)


class BeitEncoder(Module):
    """The layers, and the biases that they share."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layer = ModuleList(BeitLayer(config) for _ in range(config.num_hidden_layers))
        shared = config.use_shared_relative_position_bias
        self.relative_position_bias = RelativePositionBias(config) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.states(x)[-1]

    def states(self, x: Tensor, grid: tuple[int, int] | None = None) -> list[Tensor]:
        """x (B, T, D) of a grid of patches → x, and what each layer makes of it."""
        shared = None if self.relative_position_bias is None else self.relative_position_bias(grid)
        found = [x]
        for layer in self.layer:
            found.append(layer(found[-1], shared, grid))
        return found


class MeanPooler(Module):
    """The norm of the mean of the patches."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1 + patches, D) → (B, D)."""
        return self.layernorm(x.narrow(1, 1, x.shape[1] - 1).mean(1))


class Beit(ImageModel):
    """The encoder; the last norm is that of the patches' mean, unless the configuration says the class token's."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BeitEmbeddings(config)
        self.encoder = BeitEncoder(config)
        mean = config.use_mean_pooling
        self.layernorm = None if mean else LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler: Any = MeanPooler(config) if mean else None

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.image_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("BEiT", pixel_values, self.config.num_channels, self.pixels)
        x = self.encoder(self.embeddings(pixel_values))
        return x if self.layernorm is None else self.layernorm(x)

    def pooled(self, x: Tensor) -> Tensor:
        """The features (B, D) of a picture's hidden states (B, T, D)."""
        found: Tensor = first_token(x) if self.pooler is None else self.pooler(x)
        return found
