"""data2vec of speech (Baevski et al. 2022, arXiv 2202.03555): wav2vec 2.0's encoder, trained otherwise, whose positions
come from several convolutions.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Conv1d, LayerNorm, Module, ModuleList
from pyapp.nn.audio.sound import (
    MomentClassifier,
    MomentLabels,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    plain_attention,
)
from pyapp.nn.audio.speakers import SpeakerEncoder
from pyapp.nn.layers.gated import activation_named

from .loading.config import require
from .loading.sound_config import LARGEST, MOST_LAYERS, SpeakerConfig

MODEL_TYPES = ("data2vec-audio",)
BASE = "data2vec_audio"


@dataclass(frozen=True, kw_only=True)
class Config(SpeakerConfig):
    """The fields of config.json. num_conv_pos_embeddings: the convolutions; conv_pos_kernel_size: their moments."""

    model_type = MODEL_TYPES[0]

    num_conv_pos_embeddings: int = 5
    conv_pos_kernel_size: int = 19
    feat_extract_norm: str = "layer"

    def __post_init__(self) -> None:
        super().__post_init__()
        count, width = self.num_conv_pos_embeddings, self.conv_pos_kernel_size
        require(count <= MOST_LAYERS, f"num_conv_pos_embeddings is {count}, expected at most {MOST_LAYERS}")
        require(width <= LARGEST, f"conv_pos_kernel_size is {width}, expected at most {LARGEST}")


class Places(Module):
    """A convolution over moments, in groups of channels, a norm without parameters and an activation."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, self.width = config.hidden_size, config.conv_pos_kernel_size
        self.conv = Conv1d(
            size, size, self.width, padding=self.width // 2, groups=config.num_conv_pos_embedding_groups
        )  # fmt: skip
        self.layer_norm = LayerNorm(size, elementwise_affine=False)
        self.activation = activation_named(config.feat_extract_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        y = self.conv(x.transpose(1, 2))
        y = y.narrow(2, 0, y.shape[2] - (self.width + 1) % 2).transpose(1, 2)
        return self.activation(self.layer_norm(y))


class PositionalConvolutions(Module):
    """The convolutions, one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = ModuleList(Places(config) for _ in range(config.num_conv_pos_embeddings))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layers:
            x = layer(x)
        return x


class Layers(SoundLayers):
    """The layers, with those positions."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, plain_attention)
        self.pos_conv_embed = PositionalConvolutions(config)


def encoder(config: Config) -> SoundEncoder:
    """The encoder of a configuration."""
    return SoundEncoder(config, Layers(config))


class Data2VecAudioForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


class Data2VecAudioForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


class Data2VecAudioForAudioFrameClassification(MomentLabels):
    """Scores of the labels of each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


class Data2VecAudioForXVector(SpeakerEncoder):
    """Vectors of voices."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


TASKS = {
    "speech-recognition": Data2VecAudioForCTC,
    "audio-classification": Data2VecAudioForSequenceClassification,
    "audio-frame-classification": Data2VecAudioForAudioFrameClassification,
    "audio-xvector": Data2VecAudioForXVector,
}
