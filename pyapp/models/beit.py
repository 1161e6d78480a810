"""BEiT (Bao et al. 2021, arXiv 2106.08254): a Vision Transformer whose attention knows the distances of patches, with
scaled layers. Features of a picture are the mean of its patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import LayerNorm, Module, ModuleList
from pyapp.nn.encoders import Intermediate, first_token
from pyapp.nn.layers.linear import Linear
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision import (
    ImageHead,
    ImageModel,
    PatchAttention,
    PatchEmbeddings,
    check_pictures,
    resized_positions,
    token,
    with_tokens,
)
from pyapp.nn.windows import bias_of_pairs, pair_distances

from .loading.config import require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("beit",)
IMAGE_PROCESSOR = "Beit"  # of files that name none
BASE = "beit"  # the encoder's name in files with a head
IGNORED = r"(beit\.)?embeddings\.mask_token|.*relative_position_index"  # of the first training; computed here


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    use_absolute_position_embeddings: bool = False
    use_relative_position_bias: bool = False
    use_shared_relative_position_bias: bool = False
    use_mean_pooling: bool = True
    layer_scale_init_value: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        biased = self.use_relative_position_bias or self.use_shared_relative_position_bias
        require(
            not biased or self.grid[0] == self.grid[1],
            f"BEiT with a grid of {self.grid[0]} x {self.grid[1]} patches and relative positions is not supported",
        )


class Embeddings(Module):
    """The class token and the patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        absolute = config.use_absolute_position_embeddings
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width) if absolute else None
        self.config = config

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D)."""
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token)
        if self.position_embeddings is None:
            return x
        return x + resized_positions(self.position_embeddings, 1, 0, self.config.grid, self.config.grid)


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
    """A bias for each head and distance."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        rows, columns = self.grid = config.grid
        self.relative_position_bias_table = new_parameter(
            ops.zeros, (2 * rows - 1) * (2 * columns - 1) + 3, config.num_attention_heads
        )
        self._index: Tensor | None = None  # made at the first use

    def forward(self) -> Tensor:
        """The biases (1, H, T, T)."""
        table = self.relative_position_bias_table
        if self._index is None or self._index.device is not table.device:
            self._index = distance_index(*self.grid).to(table.device)
        return bias_of_pairs(table, self._index)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Config) -> None:
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

    def forward(self, x: Tensor, shared: Tensor | None) -> Tensor:
        """x (B, T, D), biases (1, H, T, T) that all layers share → (B, T, D)."""
        own = getattr(self.attention.attention, "relative_position_bias", None)
        bias = shared if own is None else own() if shared is None else own() + shared
        y = self.attention(self.layernorm_before(x), None, bias)
        x = x + (y if self.lambda_1 is None else y * self.lambda_1)
        y = self.output.dense(self.intermediate(self.layernorm_after(x)))
        return x + (y if self.lambda_2 is None else y * self.lambda_2)


class Encoder(Module):
    """The layers, and the biases that they share."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        shared = config.use_shared_relative_position_bias
        self.relative_position_bias = RelativePositionBias(config) if shared else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        bias = None if self.relative_position_bias is None else self.relative_position_bias()
        for layer in self.layer:
            x = layer(x, bias)
        return x


class MeanPooler(Module):
    """The norm of the mean of the patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1 + patches, D) → (B, D)."""
        return self.layernorm(x.narrow(1, 1, x.shape[1] - 1).mean(1))


class Beit(ImageModel):
    """The encoder; the last norm is that of the patches' mean, unless the configuration says the class token's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
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


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    encoder = Beit(config)
    return ImageHead(BASE, encoder, config.hidden_size, len(config.labels), encoder.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Beit,
    "image-classification": image_classification,
}
