"""WavLM (Chen et al. 2021, arXiv 2110.13900): wav2vec 2.0's encoder with a bias of the attention by the distance of two
moments, times a gate that each moment sets.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.engine.ops import ones
from pyapp.nn import Embedding, Linear
from pyapp.nn.audio.sound import (
    MomentClassifier,
    MomentLabels,
    SoundAttention,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    positional_names,
)
from pyapp.nn.audio.speakers import SpeakerEncoder
from pyapp.nn.encoders.encoders import as_bias, attend_joined
from pyapp.nn.parameter import new_parameter
from pyapp.nn.positions.relative_positions import distance_bias, distance_buckets

from .loading.config import require
from .loading.sound_config import SpeakerConfig

MODEL_TYPES = ("wavlm",)
BASE = "wavlm"
GATES, PARTS = 2, 4  # of a head, and the numbers whose sum each gate is
MOST_BUCKETS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Config(SpeakerConfig):
    """The fields of config.json."""

    model_type = "wavlm"

    num_buckets: int = 320
    max_bucket_distance: int = 800

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            4 <= self.num_buckets <= MOST_BUCKETS, f"num_buckets is {self.num_buckets}, expected 4 to {MOST_BUCKETS}"
        )


class Attention(SoundAttention):
    """Attention with the gated bias. The first layer has the table of biases of all layers."""

    def __init__(self, config: Config, layer: int) -> None:
        heads = config.num_attention_heads
        super().__init__(config.hidden_size, heads)
        self.gru_rel_pos_const = new_parameter(ones, 1, heads, 1, 1)
        self.gru_rel_pos_linear = Linear(config.hidden_size // heads, GATES * PARTS)
        self.rel_attn_embed = Embedding(config.num_buckets, heads) if layer == 0 else None

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T), bias (1, H, T, T) → (B, T, D)."""
        assert bias is not None
        by_head = x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, D / H)
        gates = self.gru_rel_pos_linear(by_head).reshape(*by_head.shape[:3], GATES, PARTS).sum(-1).sigmoid()
        a, b = (gates.narrow(3, i, 1) for i in range(GATES))  # (B, H, T, 1)
        gated = (a * (b * self.gru_rel_pos_const - 1.0) + 2.0) * bias
        return self.out_proj(attend_joined(self.qkv(self, x), self.heads, as_bias(mask, gated)), residual)


class Layers(SoundLayers):
    """The layers, with the biases of the first one."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Attention)
        self.buckets = config.num_buckets, config.max_bucket_distance

    def bias(self, moments: int) -> Tensor:
        table: Any = self.layers[0].attention.rel_attn_embed
        return distance_bias(table.weight, distance_buckets(moments, moments, *self.buckets))


class WavLMForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


class WavLMForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


class WavLMForAudioFrameClassification(MomentLabels):
    """Scores of the labels of each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


class WavLMForXVector(SpeakerEncoder):
    """Vectors of voices."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, SoundEncoder(config, Layers(config)))


renamed = positional_names
TASKS = {
    "speech-recognition": WavLMForCTC,
    "audio-classification": WavLMForSequenceClassification,
    "audio-frame-classification": WavLMForAudioFrameClassification,
    "audio-xvector": WavLMForXVector,
}
