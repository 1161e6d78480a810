"""TimeSformer (Bertasius et al. 2021, arXiv 2102.05095): a Vision Transformer whose layers attend to the same place of
all frames, then to all places of a frame; or, if asked, to all places of all frames at once.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import Intermediate, attend_joined
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.video import VideoHead, VideoModel
from pyapp.nn.vision.vision import PatchEmbeddings, token, with_tokens

from .loading.config import require
from .loading.video_config import VideoConfig

MODEL_TYPES = ("timesformer",)
IMAGE_PROCESSOR = "VideoMAE"  # of files that name none
BASE = "timesformer"  # the encoder's name in files with a head
KINDS = ("divided_space_time", "joint_space_time")


@dataclass(frozen=True, kw_only=True)
class Config(VideoConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    num_frames: int = 8
    layer_norm_eps: float = 1e-6
    attention_type: str = KINDS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        known = " and ".join(KINDS)
        require(self.attention_type in KINDS, f"attention_type {self.attention_type!r:.40}: only {known} are supported")


class PlacedFrames(Module):
    """The class token and the patches of all frames, with their positions in space and time."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)
        self.time_embeddings = new_parameter(ops.zeros, 1, config.num_frames, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, F, C, H, W) → (B, 1 + patches * F, D): of each place all frames."""
        batch, frames = pixel_values.shape[:2]
        x = self.patch_embeddings(pixel_values.reshape(batch * frames, *pixel_values.shape[2:]))  # (B F, P, D)
        count, width = x.shape[1:]
        x = x + self.position_embeddings.narrow(1, 1, count)
        x = x.reshape(batch, frames, count, width).transpose(1, 2) + self.time_embeddings  # (B, P, F, D)
        first = self.cls_token + self.position_embeddings.narrow(1, 0, 1)
        return with_tokens(x.reshape(batch, count * frames, width), first)


class Attention(Module):
    """Self-attention and its output projection."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.attention = Module()
        self.attention.qkv = Linear(config.hidden_size, 3 * config.hidden_size, config.qkv_bias)
        self.output = Module()
        self.output.dense = ResidualLinear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """x (B', T, D) → attention (B', T, D), plus the residual if there is one."""
        return self.output.dense(attend_joined(self.attention.qkv(x), self.heads, None), residual)


class Layer(Module):
    """Attention in time, attention in space, and a feed-forward part; each with a norm before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.frames, self.divided = config.num_frames, config.attention_type == KINDS[0]
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.attention = Attention(config)
        self.intermediate = Intermediate(width, config.intermediate_size, config.hidden_act)
        self.output = Module()
        self.output.dense = ResidualLinear(config.intermediate_size, width)
        self.layernorm_before = LayerNorm(width, epsilon)
        self.layernorm_after = LayerNorm(width, epsilon)
        if self.divided:
            self.temporal_layernorm = LayerNorm(width, epsilon)
            self.temporal_attention = Attention(config)
            self.temporal_dense = Linear(width, width)

    def _divided(self, x: Tensor) -> Tensor:
        """x (B, 1 + P * F, D) → x with both kinds of attention added."""
        batch, tokens, width = x.shape
        count, frames = (tokens - 1) // self.frames, self.frames
        first, rest = x.narrow(1, 0, 1), x.narrow(1, 1, tokens - 1)
        seen = self.temporal_attention(self.temporal_layernorm(rest.reshape(batch * count, frames, width)))
        rest = rest + self.temporal_dense(seen).reshape(batch, tokens - 1, width)
        places = rest.reshape(batch, count, frames, width).transpose(1, 2)  # (B, F, P, D)
        each = ops.cat([first.unsqueeze(1).expand(batch, frames, 1, width), places], 2)  # (B, F, 1 + P, D)
        seen = self.attention(self.layernorm_before(each.reshape(batch * frames, 1 + count, width)))
        seen = seen.reshape(batch, frames, 1 + count, width)
        first = first + seen.narrow(2, 0, 1).mean(1)
        rest = rest + seen.narrow(2, 1, count).transpose(1, 2).reshape(batch, tokens - 1, width)
        return ops.cat([first, rest], 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1 + P * F, D) → (B, 1 + P * F, D)."""
        x = self._divided(x) if self.divided else self.attention(self.layernorm_before(x), x)
        return self.output.dense(self.intermediate(self.layernorm_after(x)), x)


class TimeSformer(VideoModel):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PlacedFrames(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, frames, C, H, W) → hidden states (B, 1 + patches * frames, D)."""
        self.check(pixel_values)
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layer:
            x = layer(x)
        return self.layernorm(x)


def video_classification(config: Config) -> VideoHead:
    """Scores of the labels of a video, read at the class token."""
    return VideoHead(BASE, TimeSformer(config), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {"video-classification": video_classification}
