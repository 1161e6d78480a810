"""Idefics2 (Laurençon et al. 2024, arXiv 2405.02246): SigLIP's tower sees a picture of any size, or its quarters and
the whole, a few vectors ask for all of it (Jaegle et al. 2021, arXiv 2103.03206), and Mistral writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.layers.gated import GatedFeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.any_size import AnySizeTower
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import FileConfig, optional_object, read_config, require
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import WIDEST
from .loading.towers_config import SiglipVisionConfig

MODEL_TYPES = ("idefics2",)
IMAGE_PROCESSOR = "Idefics2"  # of files that name none
KINDS = ("idefics2", "idefics2_vision", "siglip_vision_model")


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return picture_text.renamed(re.sub(r"^(model\.)?connector\.", "multi_modal_projector.", name))


@dataclass(frozen=True, kw_only=True)
class TowerConfig(SiglipVisionConfig):
    """The fields of vision_config."""

    model_type = "idefics2_vision"
    patch = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        require(max(self.patch_size) <= 256, f"patch_size is {self.patch_size}, expected at most 256")


@dataclass(frozen=True, kw_only=True)
class ResamplerConfig(FileConfig):
    """The fields of perceiver_config."""

    model_type = "idefics2_perceiver"

    hidden_act: str = "silu"
    hidden_size: int = 4096
    rms_norm_eps: float = 1e-6
    resampler_n_latents: int = 64
    resampler_depth: int = 3
    resampler_n_heads: int = 16
    resampler_head_dim: int = 96
    num_key_value_heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, kv = self.resampler_n_heads, self.num_key_value_heads
        require(heads % kv == 0, f"num_key_value_heads {kv} does not divide resampler_n_heads {heads}")
        require(heads * self.resampler_head_dim <= WIDEST, f"{heads:,} heads of {self.resampler_head_dim:,} columns")
        require(self.resampler_depth <= 1 << 10, f"a resampler of {self.resampler_depth:,} layers")
        require(self.resampler_n_latents <= 1 << 14, f"resampler_n_latents is {self.resampler_n_latents:,}")


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "idefics2"
    text = "mistral"
    tower = "idefics2_vision"
    towers = dict.fromkeys(KINDS, TowerConfig)
    token = ("image_token_id", 32_001)

    def check(self) -> None:
        super().check()
        assert self.resampler

    @property
    def resampler(self) -> ResamplerConfig:
        """The configuration of what asks, which is as wide as the text."""
        found: ResamplerConfig = read_config(ResamplerConfig, optional_object(self.values, "perceiver_config"))
        text = self.text_config
        if found.hidden_size != text.hidden_size:
            own = {"hidden_size": text.hidden_size, "rms_norm_eps": text.rms_norm_eps}
            found = read_config(ResamplerConfig, found.to_dict() | own)
        return found


class Projection(GatedFeedForward):
    """A gated layer from the tower's size to the text's."""

    def __init__(self, width: int, inner: int, made: int, activation: str) -> None:
        super().__init__(width, inner, activation)
        self.down_proj = ResidualLinear(inner, made, bias=False)


class ResamplerAttention(Module):
    """Attention of the asking vectors to a picture and to each other."""

    def __init__(self, config: ResamplerConfig) -> None:
        super().__init__()
        width, heads, kv = config.hidden_size, config.resampler_n_heads, config.num_key_value_heads
        self.size = config.resampler_head_dim
        self.q_proj = Linear(width, heads * self.size, bias=False)
        self.k_proj, self.v_proj = (Linear(width, kv * self.size, bias=False) for _ in range(2))
        self.o_proj = ResidualLinear(heads * self.size, width, bias=False)

    def forward(self, x: Tensor, source: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, N, D), source (B, S, D) → residual + attention (B, N, D)."""
        both = ops.cat([source, x], 1)  # (B, S + N, D)
        q, k, v = (
            layer(y).reshape(*y.shape[:2], -1, self.size)
            for layer, y in ((self.q_proj, x), (self.k_proj, both), (self.v_proj, both))
        )  # (B, N or S + N, H or KV, size)
        y = ops.attention(q, k, v, causal=False)
        return self.o_proj(y.reshape(*x.shape[:2], -1), residual)


class ResamplerLayer(Module):
    """Attention and a gated part, each with norms before it and a residual around it."""

    def __init__(self, config: ResamplerConfig) -> None:
        super().__init__()
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.input_latents_norm, self.input_context_norm = RMSNorm(width, epsilon), RMSNorm(width, epsilon)
        self.self_attn = ResamplerAttention(config)
        self.post_attention_layernorm = RMSNorm(width, epsilon)
        self.mlp = GatedFeedForward(width, 4 * width, config.hidden_act)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """x (B, N, D), source (B, S, D) → (B, N, D)."""
        x = self.self_attn(self.input_latents_norm(x), self.input_context_norm(source), x)
        found: Tensor = self.mlp(self.post_attention_layernorm(x), x)
        return found


class Resampler(Module):
    """A few learned vectors that ask for a picture, layer by layer."""

    def __init__(self, config: ResamplerConfig) -> None:
        super().__init__()
        self.latents = new_parameter(ops.ones, config.resampler_n_latents, config.hidden_size)
        self.layers = ModuleList(ResamplerLayer(config) for _ in range(config.resampler_depth))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, source: Tensor) -> Tensor:
        """source (B, S, D) → (B, N, D)."""
        x = self.latents.unsqueeze(0).expand(source.shape[0], *self.latents.shape)
        for layer in self.layers:
            x = layer(x, source)
        return self.norm(x)


class Connector(Module):
    """As many vectors of the text's size for each picture."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        text, width = config.text_config, config.vision_config.hidden_size
        self.modality_projection = Projection(width, text.intermediate_size, text.hidden_size, text.hidden_act)
        self.perceiver_resampler = Resampler(config.resampler)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, N, D)."""
        found: Tensor = self.perceiver_resampler(self.modality_projection(x))
        return found


class Idefics2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    behind = " "

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = AnySizeTower(config.vision_config, "Idefics2")
        self.multi_modal_projector = Connector(config)

    @property
    def pixels(self) -> Any:
        """Any size."""
        return None

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.resampler.resampler_n_latents
        return found

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        edge, tokens = "<fake_token_around_image>", self.part * self.picture_tokens
        return edge + f"{tokens}{edge}" * (rows * columns + 1)


TASKS: Mapping[str, Any] = {picture_text.TASK: Idefics2ForConditionalGeneration}
