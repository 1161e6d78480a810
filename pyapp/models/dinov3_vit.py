"""DINOv3 (Siméoni et al. 2025, arXiv 2508.10104): a Vision Transformer of general features, whose patches are turned by
their places, for pictures of any size.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.gated import GatedFeedForward, activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, LayerScale, as_sequence, check_pictures, token, with_tokens

from .loading.config import require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("dinov3_vit",)
IMAGE_PROCESSOR = "DINOv3ViT"  # of files that name none
BASE = ""
IGNORED = r"embeddings\.mask_token"  # of the training
MOST_REGISTERS = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    hidden_size: int = 384
    num_attention_heads: int = 6
    intermediate_size: int = 1536
    layer_norm_eps: float = 1e-5
    rope_theta: float = 100.0
    query_bias: bool = True
    key_bias: bool = False
    value_bias: bool = True
    proj_bias: bool = True
    mlp_bias: bool = True
    use_gated_mlp: bool = False
    num_register_tokens: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.hidden_size // self.num_attention_heads
        require(size % 4 == 0, f"a head has {size} numbers, expected a multiple of 4")
        require(1 < self.rope_theta < 1e9, f"rope_theta is {self.rope_theta}")
        count = self.num_register_tokens
        require(count <= MOST_REGISTERS, f"num_register_tokens is {count:,}, expected at most {MOST_REGISTERS:,}")


class Embeddings(Module):
    """The class token, the registers and the patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.register_tokens = new_parameter(ops.zeros, 1, config.num_register_tokens, width)
        self.patch_embeddings = Conv2d(config.num_channels, width, config.patch_size, config.patch_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + registers + patches, D)."""
        x = as_sequence(self.patch_embeddings(pixel_values))
        if self.register_tokens.shape[1]:
            x = ops.cat([self.register_tokens.expand(x.shape[0], *self.register_tokens.shape[1:]), x], 1)
        return with_tokens(x, self.cls_token)


class Attention(Module):
    """Attention whose queries and keys are turned by their places."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj = Linear(width, width, config.query_bias)
        self.k_proj = Linear(width, width, config.key_bias)
        self.v_proj = Linear(width, width, config.value_bias)
        self.o_proj = Linear(width, width, config.proj_bias)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), rotations (T, D / H / 2, 2) → (B, T, D)."""
        q, k, v = (
            layer(x).reshape(*x.shape[:2], self.heads, -1) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )  # (B, T, H, D / H) each
        q, k = (ops.rope(part, table, interleaved=False) for part in (q, k))
        return self.o_proj(attend(q, k, v, None))


class FeedForward(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.up_proj = Linear(config.hidden_size, config.intermediate_size, config.mlp_bias)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, config.mlp_bias)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.down_proj(self.activation(self.up_proj(x)))


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm1 = LayerNorm(width, config.layer_norm_eps)
        self.attention = Attention(config)
        self.layer_scale1 = LayerScale(width)
        self.norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp: Module = FeedForward(config)
        if config.use_gated_mlp:
            self.mlp = GatedFeedForward(width, config.intermediate_size, config.hidden_act, config.mlp_bias)
        self.layer_scale2 = LayerScale(width)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D), rotations (T, D / H / 2, 2) → (B, T, D)."""
        x = x + self.layer_scale1(self.attention(self.norm1(x), table))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class DinoV3(ImageModel):
    """The encoder. Pictures have any size from one patch on; what is beyond whole patches is left out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size alone

    def table(self, rows: int, columns: int) -> Tensor:
        """The rotations (1 + registers + rows * columns, D / H / 2, 2): those of the patches by their rows and columns
        from -1 to 1, none of the other tokens.
        """
        key = rows, columns, self.device
        if key not in self._tables:
            config = self.config
            size, before = config.hidden_size // config.num_attention_heads, 1 + config.num_register_tokens
            speeds = 2 * pi * config.rope_theta ** -np.arange(0, 1, 4 / size)
            down, along = (2 * (np.arange(count) + 0.5) / count - 1 for count in (rows, columns))
            angles = np.zeros((before + rows * columns, size // 2))
            angles[before:, : size // 4] = np.repeat(down, columns)[:, None] * speeds
            angles[before:, size // 4 :] = np.tile(along, rows)[:, None] * speeds
            table = np.stack([np.cos(angles), np.sin(angles)], 2).astype("float32")
            self._tables = {key: ops.from_numpy(table).to(self.device)}
        return self._tables[key]

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + registers + patches, D)."""
        high, wide = self.config.patch_size
        check_pictures("DINOv3", pixel_values, self.config.num_channels, least=max(high, wide))
        x = self.embeddings(pixel_values)
        table = self.table(int(pixel_values.shape[2]) // high, int(pixel_values.shape[3]) // wide)
        for layer in self.layer:
            x = layer(x, table)
        return self.norm(x)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return name.removeprefix("model.")


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": DinoV3}
