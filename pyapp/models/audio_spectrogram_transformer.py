"""The Audio Spectrogram Transformer (Gong et al. 2021, arXiv 2104.01778): the Vision Transformer over overlapping
patches of a log-mel spectrogram, which names what sounds.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Conv2d, LayerNorm, Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import VisionEncoder, as_sequence, token, with_tokens

from .loading.config import FileConfig, require
from .loading.labels import Labelled

MODEL_TYPES = ("audio-spectrogram-transformer",)
BASE = "audio_spectrogram_transformer"
LARGEST = 1 << 14  # frames and bins
PATCHES = 1 << 20  # of a spectrogram


@dataclass(frozen=True)
class Config(Labelled, FileConfig):
    """The hyper-parameters, by the names of config.json. max_length and num_mel_bins: the frames and bins of a
    spectrogram.
    """

    model_type = "audio-spectrogram-transformer"

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    patch_size: int = 16
    qkv_bias: bool = True
    frequency_stride: int = 10
    time_stride: int = 10
    max_length: int = 1024
    num_mel_bins: int = 128
    id2label: dict[str, str] | None = None
    num_labels: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        require(self.hidden_size % heads == 0, f"{heads} heads do not divide hidden_size {self.hidden_size}")
        for name in ("patch_size", "frequency_stride", "time_stride", "max_length", "num_mel_bins"):
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, expected at most {LARGEST:,}")
        smallest = min(self.max_length, self.num_mel_bins)
        require(self.patch_size <= smallest, f"patch_size {self.patch_size} is more than max_length or num_mel_bins")
        require(self.patches <= PATCHES, f"{self.patches:,} patches, expected at most {PATCHES:,}")

    @property
    def patches(self) -> int:
        """The patches of a spectrogram."""
        rows = (self.num_mel_bins - self.patch_size) // self.frequency_stride + 1
        return rows * ((self.max_length - self.patch_size) // self.time_stride + 1)


class PatchEmbeddings(Module):
    """Patches of a spectrogram, each as one vector."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        side, strides = config.patch_size, (config.frequency_stride, config.time_stride)
        self.projection = Conv2d(1, config.hidden_size, side, stride=strides)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, frames, bins) → (B, patches, D), those of a row of bins together."""
        return as_sequence(self.projection(x.transpose(1, 2).unsqueeze(1)))


class Embeddings(Module):
    """The class token, the token of distillation, and the patches, with their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.distillation_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 2, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, frames, bins) → (B, 2 + patches, D)."""
        return with_tokens(self.patch_embeddings(x), self.cls_token, self.distillation_token) + self.position_embeddings


class SpectrogramTransformer(VisionEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Embeddings(config), pooler=False)

    def forward(self, input_values: Tensor) -> Tensor:
        """input_values (B, frames, bins) → hidden states (B, 2 + patches, D)."""
        size = (self.config.max_length, self.config.num_mel_bins)
        if input_values.ndim != 3 or tuple(input_values.shape[1:]) != size:
            raise InputError(f"spectrograms are (B, {size[0]}, {size[1]}), not {describe(input_values)}")
        return self.layernorm(self.encoder(self.embeddings(input_values)))


class Classifier(Module):
    """The head: a norm and a linear layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dense = Linear(config.hidden_size, len(config.labels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D) → (B, labels)."""
        return self.dense(self.layernorm(x))


class ASTForAudioClassification(Module):
    """Scores of the labels of recordings, read at the first two tokens."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.audio_spectrogram_transformer = SpectrogramTransformer(config)
        self.classifier = Classifier(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.classifier.dense.weight.device

    def forward(self, input_values: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_values (B, frames, bins) → logits (B, labels). There is no padding to mask."""
        x = self.audio_spectrogram_transformer(input_values)
        return self.classifier((x[:, 0] + x[:, 1]) / 2)


TASKS: Mapping[str, Callable[[Config], Module]] = {"audio-classification": ASTForAudioClassification}
