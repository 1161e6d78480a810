"""EoMT, the encoder-only mask transformer (Kerssies et al. 2025, arXiv 2503.19108): the last layers of a Vision
Transformer read queries beside the patches, and each query gets a label and a mask.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.nn import Conv2d, ConvTranspose2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.masks import labels_of_places
from pyapp.nn.vision.scaled_vision import GatedFeedForward
from pyapp.nn.vision.vision import (
    ImageModel,
    LayerScale,
    PatchEmbeddings,
    as_map,
    check_pictures,
    over_channels,
    token,
    with_tokens,
)

from .loading.config import require
from .loading.pictures_config import ScaledConfig, check_numbers

MODEL_TYPES = ("eomt",)
IMAGE_PROCESSOR = "Eomt"  # of files that name none
BASE = ""
IGNORED = r"criterion\.empty_weight"  # of the training
MOST_QUERIES = 1 << 14
SCALE_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class Config(ScaledConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    image, patch = 640, 16

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    num_upscale_blocks: int = 2
    num_blocks: int = 4
    num_queries: int = 200
    num_register_tokens: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("num_register_tokens", [self.num_register_tokens], 1 << 10)
        require(self.num_queries <= MOST_QUERIES, f"num_queries is {self.num_queries:,}, at most {MOST_QUERIES:,}")
        require(self.num_upscale_blocks <= 6, f"num_upscale_blocks is {self.num_upscale_blocks}, expected at most 6")
        blocks, layers = self.num_blocks, self.num_hidden_layers
        require(blocks <= layers, f"num_blocks is {blocks}, of {layers} layers")


class Embeddings(Module):
    """The class token, the registers, and the patches with their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.register_tokens = new_parameter(ops.zeros, 1, config.num_register_tokens, width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = Embedding(config.patches, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + registers + patches, D)."""
        x = self.patch_embeddings(pixel_values)
        x = x + self.position_embeddings(ops.arange(x.shape[1], device=x.device))
        return with_tokens(
            ops.cat([self.register_tokens.expand(x.shape[0], *self.register_tokens.shape[1:]), x], 1), self.cls_token
        )


class Attention(Module):
    """Attention of all tokens to those that a mask shows."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, T, T) bool, None: all are shown → (B, T, D)."""
        q, k, v = (
            layer(x).reshape(*x.shape[:2], self.heads, -1) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )  # (B, T, H, D / H) each
        return self.out_proj(attend(q, k, v, mask))


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm1, self.norm2 = (LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.attention = Attention(width, config.num_attention_heads)
        self.layer_scale1, self.layer_scale2 = LayerScale(width), LayerScale(width)
        self.mlp = (
            GatedFeedForward(config) if config.use_swiglu_ffn else FeedForward(width, config.inner, config.hidden_act)
        )

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D), mask as Attention's → (B, T, D)."""
        x = x + self.layer_scale1(self.attention(self.norm1(x), mask))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class ScaleLayer(Module):
    """Makes a map twice as large."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.conv1 = ConvTranspose2d(width, width, 2, stride=2)
        self.conv2 = Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.layernorm2d = LayerNorm(width, SCALE_EPSILON)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) → (B, D, 2 H, 2 W)."""
        return over_channels(self.conv2(self.activation(self.conv1(x))), self.layernorm2d)


class MaskHead(Module):
    """Three layers with an activation between them."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (Linear(width, width) for _ in range(3))
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, Q, D) → (B, Q, D)."""
        return self.fc3(self.activation(self.fc2(self.activation(self.fc1(x)))))


class Eomt(ImageModel):
    """The labels of the places of pictures of one size. attn_mask_probs (blocks,): above 0 where the queries of one of
    the last layers see only the places of their masks; training brings these numbers to 0.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.embeddings = Embeddings(config)
        self.layernorm = LayerNorm(width, config.layer_norm_eps)
        self.query = Embedding(config.num_queries, width)
        self.layers = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.upscale_block = Module()
        self.upscale_block.block = ModuleList(
            ScaleLayer(width, config.hidden_act) for _ in range(config.num_upscale_blocks)
        )
        self.mask_head = MaskHead(width, config.hidden_act)
        self.class_predictor = Linear(width, len(config.labels) + 1)
        self.register_buffer("attn_mask_probs", ops.ones(config.num_blocks))

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.image_size

    def masks(self, x: Tensor) -> Tensor:
        """x (B, T, D), normalised, which begins with the queries → the logits of their masks (B, Q, H, W)."""
        count, before = self.config.num_queries, self.config.num_queries + 1 + self.config.num_register_tokens
        features = as_map(x.narrow(1, before, x.shape[1] - before), *self.config.grid)
        for layer in self.upscale_block.block:
            features = layer(features)
        found = self.mask_head(x.narrow(1, 0, count)) @ features.flatten(2)
        return found.reshape(x.shape[0], count, *features.shape[2:])

    def shown(self, x: Tensor) -> Tensor:
        """x (B, T, D) → what each token sees (B, 1, T, T) bool: a query the places of its mask, queries and tokens, the
        others all.
        """
        batch, tokens, count = x.shape[0], x.shape[1], self.config.num_queries
        with no_grad():
            small = ops.interpolate(
                self.masks(self.layernorm(x)).detach(), size=self.config.grid, mode="bilinear", align_corners=False
            )
            inside = (small > 0).flatten(2)  # (B, Q, places)
            before = ops.ones(batch, count, tokens - inside.shape[2], dtype="bool", device=x.device)
            others = ops.ones(batch, tokens - count, tokens, dtype="bool", device=x.device)
            return ops.cat([ops.cat([before, inside], 2), others], 1).unsqueeze(1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → scores (B, labels, H', W') of places, from 0: of all queries, how surely they
        have a label and hold a place.
        """
        config = self.config
        check_pictures("EoMT", pixel_values, config.num_channels, config.image_size)
        x = self.embeddings(pixel_values)
        first, chances = len(self.layers) - config.num_blocks, self.attn_mask_probs.tolist()
        mask: Tensor | None = None
        for i, layer in enumerate(self.layers):
            if i == first:
                queries = self.query(ops.arange(config.num_queries, device=x.device)).unsqueeze(0)
                x = ops.cat([queries.expand(x.shape[0], *queries.shape[1:]), x], 1)
            if i >= first and chances[i - first] > 0:
                mask = self.shown(x)
            x = layer(x, mask)
        x = self.layernorm(x)
        return labels_of_places(self.class_predictor(x.narrow(1, 0, config.num_queries)), self.masks(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {"semantic-segmentation": Eomt}
