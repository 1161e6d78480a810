"""SEW (Wu et al. 2021, arXiv 2109.06870): wav2vec 2.0 whose layers read the mean of a few moments each."""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.audio.sound import (
    MomentClassifier,
    PositionalConvolution,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    plain_attention,
    positional_names,
)
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.layers.gated import activation_named

from .loading.config import require
from .loading.sound_config import SoundConfig

MODEL_TYPES = ("sew",)
BASE = "sew"


@dataclass(frozen=True, kw_only=True)
class Config(SoundConfig):
    """The fields of config.json."""

    model_type = "sew"

    squeeze_factor: int = 2
    conv_dim: list[int] = (64, *(128,) * 4, *(256,) * 4, *(512,) * 4)  # type: ignore[assignment]
    conv_stride: list[int] = (5, *(2, 1) * 6)  # type: ignore[assignment]
    conv_kernel: list[int] = (10, *(3, 1) * 4, *(2, 1) * 2)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.squeeze_factor <= 64, f"squeeze_factor is {self.squeeze_factor}, expected at most 64")
        for name in ("do_stable_layer_norm", "use_weighted_layer_sum"):
            require(not getattr(self, name), f"{name} is true, which no SEW has")


class Upsampling(Module):
    """A linear layer that makes several moments of each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.projection = Linear(config.hidden_size, config.hidden_size * config.squeeze_factor)
        self.activation = activation_named(config.feat_extract_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T * squeeze_factor, D)."""
        return self.activation(self.projection(x)).reshape(x.shape[0], -1, x.shape[2])


class Layers(SoundLayers):
    """The layers between a mean of moments and their upsampling."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, plain_attention)
        self.factor = config.squeeze_factor
        self.pos_conv_embed = PositionalConvolution(config, stride=self.factor)
        self.upsample = Upsampling(config)

    def forward(self, x: Tensor, heard: Tensor | None, states: list[Tensor] | None = None) -> Tensor:
        """x (B, T, D), heard (B, T) bool → (B, T, D)."""
        batch, moments, width = x.shape
        if heard is not None:
            x = x * heard.unsqueeze(2).to(x.dtype)
        places = self.pos_conv_embed(x)  # (B, T', D)
        count = min(moments // self.factor, places.shape[1])
        whole = count * self.factor
        means = x.narrow(1, 0, whole).reshape(batch, count, self.factor, width).mean(2)
        y = self.layer_norm(means + places.narrow(1, 0, count))
        if heard is not None:
            heard = heard.narrow(1, 0, whole).reshape(batch, count, self.factor).any(2)
        mask = visible_keys(heard)
        for layer in self.layers:
            y = layer(y, mask, None)
        return ops.pad(self.upsample(y), (0, 0, 0, moments - whole))


class Encoder(SoundEncoder):
    """The encoder, whose projection has its norm beside it, and is not there where the sizes are the same."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Layers(config))
        inputs, width = config.conv_dim[-1], config.hidden_size
        self.layer_norm = LayerNorm(inputs, config.layer_norm_eps)
        self.feature_projection: Any = Linear(inputs, width) if inputs != width else None

    def projected(self, x: Tensor) -> Tensor:
        x = self.layer_norm(x)
        return x if self.feature_projection is None else self.feature_projection(x)


class SEWForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Encoder(config))


class SEWForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, Encoder(config))


renamed = positional_names
TASKS = {"speech-recognition": SEWForCTC, "audio-classification": SEWForSequenceClassification}
