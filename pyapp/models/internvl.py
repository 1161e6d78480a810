"""InternVL 3 (Zhu et al. 2025, arXiv 2504.10479) in the form of Hugging Face's files: InternViT sees tiles of a picture
and the whole, squares of neighbouring patches become one vector each, and a language model such as Qwen2 writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.nn.encoders.encoders import attend_joined
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.scaled_vision import ScaledEmbeddings
from pyapp.nn.vision.vision import ImageModel, check_pictures
from pyapp.nn.vision_language.picture_text import ANY, MergedTiles, Size, TwoLayers

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("internvl",)
IMAGE_PROCESSOR = "GotOcr2"  # of files that name none
IGNORED = r"(model\.)?vision_tower\.embeddings\.mask_token"  # of training
renamed = picture_text.renamed
NORMS: Mapping[str, Any] = {"layer_norm": LayerNorm, "rms_norm": RMSNorm}


@dataclass(frozen=True, kw_only=True)
class TowerConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "internvl_vision"
    image, patch = 448, 14
    registers = 0

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    layer_norm_eps: float = 1e-6
    attention_bias: bool = False
    use_qk_norm: bool = False
    norm_type: str = "layer_norm"
    use_absolute_position_embeddings: bool = True
    use_mean_pooling: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.norm_type in NORMS, f"norm_type is {self.norm_type!r:.60}, expected {' or '.join(NORMS)}")
        require(self.use_absolute_position_embeddings, "use_absolute_position_embeddings is false, expected true")


@dataclass(frozen=True)
class Config(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "internvl"
    text = "qwen2"
    tower = "internvl_vision"
    towers = {"internvl_vision": TowerConfig}
    token = ("image_token_id", 151667)
    layer = -1

    def check(self) -> None:
        super().check()
        require(len(self.counts) == 1, "vision_feature_layer has several layers, expected one")
        require(self.without_first, "vision_feature_select_strategy is 'full', expected 'default'")
        ratio, side = self.values.get("downsample_ratio", 0.5), self.vision_config.grid[0]
        plausible = type(ratio) in (int, float) and 0 < ratio <= 1 and side % self.merged == 0
        plausible = plausible and abs(self.merged * ratio - 1) < 1e-6
        require(plausible, f"downsample_ratio is {ratio!r:.60}, expected 1 / n of the tower's {side} rows of patches")

    @property
    def merged(self) -> int:
        """The rows, and columns, of patches that become one vector."""
        return max(1, round(1 / self.values.get("downsample_ratio", 0.5)))


class Attention(Module):
    """Attention of all patches to each other. The largest tower normalises queries and keys, all heads together."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        self.heads = config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj = (Linear(width, width, bias=bias) for _ in range(3))
        self.projection_layer = Linear(width, width)
        self.q_norm, self.k_norm = (RMSNorm(width, 1e-6) if config.use_qk_norm else None for _ in range(2))
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        qkv = self.qkv(self, x)
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = qkv.split(x.shape[2], -1)
            qkv = ops.cat([self.q_norm(q), self.k_norm(k), v], -1)
        return self.projection_layer(attend_joined(qkv, self.heads, None))


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width, norm = config.hidden_size, NORMS[config.norm_type]
        self.attention = Attention(config)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.layernorm_before, self.layernorm_after = (norm(width, config.layer_norm_eps) for _ in range(2))
        self.lambda_1, self.lambda_2 = (new_parameter(ops.ones, width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.attention(self.layernorm_before(x)) * self.lambda_1
        return x + self.mlp(self.layernorm_after(x)) * self.lambda_2


class Tower(ImageModel):
    """InternViT."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = ScaledEmbeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        pooled = config.use_mean_pooling
        self.layernorm = None if pooled else LayerNorm(config.hidden_size, config.layer_norm_eps)

    def states(self, pixel_values: Tensor, count: int) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D) after `count` layers; the norm is after all."""
        check_pictures("InternVL", pixel_values, self.config.num_channels, self.config.image_size)
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layer[:count]:
            x = layer(x)
        whole = count == len(self.encoder.layer)
        return x if self.layernorm is None or not whole else self.layernorm(x)


class Projector(TwoLayers):
    """A norm before the two layers."""

    def __init__(self, config: Config) -> None:
        width = config.vision_config.hidden_size * config.merged**2
        super().__init__(width, config.text_config.hidden_size, {**config.values, "multimodal_projector_bias": True})
        self.layer_norm = LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        return super().forward(self.layer_norm(x))


class InternVLForConditionalGeneration(MergedTiles):
    """Pictures and text to text."""

    placeholder = part = "<IMG_CONTEXT>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = Tower(config.vision_config)
        self.multi_modal_projector = Projector(config)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return f"<img>{self.part * self.tokens_in(rows, columns)}</img>"


TASKS: Mapping[str, Any] = {picture_text.TASK: InternVLForConditionalGeneration}
