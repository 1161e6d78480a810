"""DINOv2 (Oquab et al. 2023, arXiv 2304.07193): a Vision Transformer of general features, with scaled layers, for
pictures of any size.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import first_token
from pyapp.nn.layers.gated import activation_named, gated
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision import (
    ImageHead,
    ImageModel,
    LayerScale,
    PatchAttention,
    PatchEmbeddings,
    check_pictures,
    resized_positions,
    token,
    with_tokens,
)

from .loading.config import require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("dinov2",)
BASE = "dinov2"  # the encoder's name in files with a head
IGNORED = r"(dinov2\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    patch = 14

    layer_norm_eps: float = 1e-6
    mlp_ratio: float = 4
    use_swiglu_ffn: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")

    @property
    def inner(self) -> int:
        """The width of the feed-forward part."""
        return int(self.hidden_size * self.mlp_ratio)


class Embeddings(Module):
    """The class token and the patches, with positions for any grid."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)
        self.config = config

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D)."""
        height, width = self.config.patch_size
        grid = pixel_values.shape[2] // height, pixel_values.shape[3] // width
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token)
        return x + resized_positions(self.position_embeddings, 1, 0, self.config.grid, grid)


class FeedForward(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.fc1 = Linear(config.hidden_size, config.inner)
        self.fc2 = Linear(config.inner, config.hidden_size)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.fc2(self.activation(self.fc1(x)))


class GatedFeedForward(Module):
    """SwiGLU with gate and up in one matrix; its width is two thirds of the other's, a multiple of 8."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner = (int(config.inner * 2 / 3) + 7) // 8 * 8
        self.weights_in = Linear(config.hidden_size, 2 * inner)
        self.weights_out = Linear(inner, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.weights_out(gated(self.weights_in(x), "silu"))


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm1 = LayerNorm(width, config.layer_norm_eps)
        self.attention = PatchAttention(width, config.num_attention_heads, config.qkv_bias)
        self.layer_scale1 = LayerScale(width)
        self.norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = GatedFeedForward(config) if config.use_swiglu_ffn else FeedForward(config)
        self.layer_scale2 = LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.layer_scale1(self.attention(self.norm1(x), None))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class Encoder(Module):
    """The layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layer:
            x = layer(x)
        return x


class Dinov2(ImageModel):
    """The encoder. Pictures have any size from one patch on; what is beyond whole patches is left out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("DINOv2", pixel_values, self.config.num_channels, least=max(self.config.patch_size))
        return self.layernorm(self.encoder(self.embeddings(pixel_values)))


def class_and_mean(x: Tensor) -> Tensor:
    """x (B, 1 + patches, D) → the class token beside the mean of the patches (B, 2 D)."""
    return ops.cat([first_token(x), x.narrow(1, 1, x.shape[1] - 1).mean(1)], 1)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the class token and the mean of the patches."""
    return ImageHead(BASE, Dinov2(config), 2 * config.hidden_size, len(config.labels), class_and_mean)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Dinov2,
    "image-classification": image_classification,
}
