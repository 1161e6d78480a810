"""FastSpeech 2 (Ren et al. 2021, arXiv 2006.04558) with Conformers, as ESPnet has it (Guo et al. 2021, arXiv
2010.13956): a Conformer reads phonemes; how long each sounds, how high and how loud is found for all at once, and a
second Conformer writes all frames of a spectrogram, of which HiFi-GAN makes sound.

Parameters have the names of Hugging Face's files, whose vocoder may lie beside the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.fast_conformer import LINEAR_NAMES, DistanceAttention, GatedConvolution
from pyapp.nn.audio.postnet import Postnet
from pyapp.nn.positions.sinusoids import interleaved_sinusoids

from .loading.architectures import architecture
from .loading.config import FileConfig, check_depth, object_of, read_config, require
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("fastspeech2_conformer", "fastspeech2_conformer_with_hifigan")
SPEAKS = "durations"  # in pyapp.models.loading.voice
BASE = ""
SAMPLE_RATE = 22050  # of LJ Speech, where config.json does not say another
VOCODER = "speecht5_hifigan"  # the architecture
LARGEST, MOST_FRAMES = 1 << 13, 1 << 15
PREDICTORS = ("duration_predictor", "pitch_predictor", "energy_predictor")


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json. vocoder: the object of the vocoder in the same file; None: it has none."""

    model_type = MODEL_TYPES[0]

    vocab_size: int = 78
    hidden_size: int = 384
    num_mel_bins: int = 80
    encoder_num_attention_heads: int = 2
    encoder_layers: int = 4
    encoder_linear_units: int = 1536
    encoder_kernel_size: int = 7
    encoder_normalize_before: bool = False
    encoder_concat_after: bool = False
    decoder_num_attention_heads: int = 2
    decoder_layers: int = 4
    decoder_linear_units: int = 1536
    decoder_kernel_size: int = 31
    decoder_normalize_before: bool = False
    decoder_concat_after: bool = False
    positionwise_conv_kernel_size: int = 3
    use_macaron_style_in_conformer: bool = True
    use_cnn_in_conformer: bool = True
    convolution_bias: bool = True
    reduction_factor: int = 1
    speech_decoder_postnet_layers: int = 5
    speech_decoder_postnet_units: int = 256
    speech_decoder_postnet_kernel: int = 5
    duration_predictor_layers: int = 2
    duration_predictor_channels: int = 256
    duration_predictor_kernel_size: int = 3
    pitch_predictor_layers: int = 5
    pitch_predictor_channels: int = 256
    pitch_predictor_kernel_size: int = 5
    pitch_embed_kernel_size: int = 1
    energy_predictor_layers: int = 2
    energy_predictor_channels: int = 256
    energy_predictor_kernel_size: int = 3
    energy_embed_kernel_size: int = 1
    speaking_speed: float = 1.0
    num_speakers: int | None = None
    num_languages: int | None = None
    speaker_embed_dim: int | None = None
    sampling_rate: int = SAMPLE_RATE
    vocoder: dict[str, Any] | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, with a vocoder or without. ModelError for what no model has."""
        if values.get("model_type") != MODEL_TYPES[1]:
            return read_config(cls, {**values, "vocoder": None})
        sound = object_of(values, "vocoder_config")
        told = {"sampling_rate": SAMPLE_RATE} | {name: value for name, value in sound.items() if value is not None}
        return read_config(cls, object_of(values, "model_config") | {"vocoder": told})

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in ("encoder", "decoder"):
            check_depth(getattr(self, f"{part}_layers"))
            heads = getattr(self, f"{part}_num_attention_heads")
            require(self.hidden_size % heads == 0, f"{part}_num_attention_heads {heads} do not divide hidden_size")
            require(not getattr(self, f"{part}_concat_after"), f"{part}_concat_after is not supported")
        require(self.hidden_size % 2 == 0, f"hidden_size is {self.hidden_size}, expected an even number")
        require(self.use_cnn_in_conformer, "use_cnn_in_conformer is false, which is not supported")
        require((self.num_languages or 1) == 1, f"num_languages is {self.num_languages}, which is not supported")
        require(not self.speaker_embed_dim, f"speaker_embed_dim is {self.speaker_embed_dim}, which is not supported")
        for name in (name for name in vars(self) if name.endswith(("kernel_size", "postnet_kernel"))):
            taps = getattr(self, name)
            require(taps % 2 == 1 and taps <= LARGEST, f"{name} is {taps:,}, expected an odd number up to {LARGEST:,}")
        wide = ("hidden_size", "num_mel_bins", "linear_units", "channels", "postnet_units")
        for name in (name for name in vars(self) if name.endswith(wide)):
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, at most {LARGEST:,}")
        for name in (*(f"{name}_layers" for name in PREDICTORS), "speech_decoder_postnet_layers", "reduction_factor"):
            require(getattr(self, name) <= 64, f"{name} is {getattr(self, name)}, at most 64")
        require((self.num_speakers or 1) <= 1 << 16, f"num_speakers is {self.num_speakers}")
        require(0 < self.speaking_speed <= 100, f"speaking_speed is {self.speaking_speed}")
        require(100 <= self.sampling_rate <= 1_536_000, f"sampling_rate is {self.sampling_rate} Hz")
        if self.vocoder is not None:
            reads = self.sound.model_in_dim
            require(reads == self.num_mel_bins, f"the vocoder reads {reads} bins, the model writes {self.num_mel_bins}")

    @property
    def sound(self) -> Any:
        """The configuration of the vocoder."""
        return architecture(VOCODER).Config.from_dict(self.vocoder)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, of the model without the vocoder."""
        return {**super().to_dict(), "vocoder": None}


class FeedForward(Module):
    """Two convolutions over moments with a ReLU between them."""

    def __init__(self, width: int, inner: int, taps: int) -> None:
        super().__init__()
        self.conv1 = Conv1d(width, inner, taps, padding=taps // 2)
        self.conv2 = Conv1d(inner, width, taps, padding=taps // 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.conv2(ops.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)


class Layer(Module):
    """A Conformer's layer: half of a feed-forward part, attention, a convolution, and the other half, each with a
    residual and a norm before or after it; then a norm.
    """

    def __init__(self, config: Config, part: str) -> None:
        super().__init__()
        width, taps = config.hidden_size, config.positionwise_conv_kernel_size
        told = {
            name: getattr(config, f"{part}_{name}") for name in ("num_attention_heads", "linear_units", "kernel_size")
        }
        self.before = getattr(config, f"{part}_normalize_before")
        self.self_attn = DistanceAttention(width, told["num_attention_heads"], True, LINEAR_NAMES)
        self.feed_forward = FeedForward(width, told["linear_units"], taps)
        self.conv_module = GatedConvolution(width, told["kernel_size"], "silu", config.convolution_bias)
        halves = config.use_macaron_style_in_conformer
        self.feed_forward_macaron = FeedForward(width, told["linear_units"], taps) if halves else None
        self.ff_macaron_layer_norm = LayerNorm(width) if halves else None
        for name in ("conv", "final", "ff", "self_attn"):
            self.add_module(f"{name}_layer_norm", LayerNorm(width))

    def _added(self, x: Tensor, norm: Any, part: Callable[[Tensor], Tensor]) -> Tensor:
        return x + part(norm(x)) if self.before else norm(x + part(x))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """x (B, T, D), places (2 T - 1, D) → (B, T, D)."""
        share = 1.0
        if self.feed_forward_macaron is not None:
            share, first = 0.5, self.feed_forward_macaron
            x = self._added(x, self.ff_macaron_layer_norm, lambda x: first(x) * share)
        norms: Any = self._modules
        if self.before:
            x = self.self_attn(norms["self_attn_layer_norm"](x), x, None, places)
        else:
            x = norms["self_attn_layer_norm"](self.self_attn(x, x, None, places))
        x = self._added(x, norms["conv_layer_norm"], lambda x: self.conv_module(x, None))
        x = self._added(x, norms["ff_layer_norm"], lambda x: self.feed_forward(x) * share)
        found: Tensor = norms["final_layer_norm"](x)
        return found


class Conformer(Module):
    """The layers; the `encoder` has a table of phonemes, too."""

    def __init__(self, config: Config, part: str) -> None:
        super().__init__()
        self.scale = sqrt(config.hidden_size)
        self.embed = Embedding(config.vocab_size, config.hidden_size) if part == "encoder" else None
        self.conformer_layers = ModuleList(Layer(config, part) for _ in range(getattr(config, f"{part}_layers")))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D), or numbers (B, T) of phonemes → (B, T, D)."""
        x = (x if self.embed is None else self.embed(x)) * self.scale
        far = np.arange(x.shape[1] - 1, -x.shape[1], -1)  # the distances, from the largest on
        places = interleaved_sinusoids(far, x.shape[2]).to(x.device)  # (2 T - 1, D)
        for layer in self.conformer_layers:
            x = layer(x, places)
        return x


class PredictorLayer(Module):
    """A convolution, a ReLU and a norm."""

    def __init__(self, inputs: int, width: int, taps: int) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, width, taps, padding=taps // 2)
        self.layer_norm = LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, W)."""
        return self.layer_norm(ops.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))


class Predictor(Module):
    """A number of each phoneme."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__()
        layers, width, taps = (getattr(config, f"{name}_{what}") for what in ("layers", "channels", "kernel_size"))
        self.conv_layers = ModuleList(
            PredictorLayer(width if i else config.hidden_size, width, taps) for i in range(layers)
        )
        self.linear = Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, 1)."""
        for layer in self.conv_layers:
            x = layer(x)
        return self.linear(x)


class NumberEmbedding(Module):
    """A number of each phoneme, and of its neighbours, as a vector."""

    def __init__(self, width: int, taps: int) -> None:
        super().__init__()
        self.conv = Conv1d(1, width, taps, padding=taps // 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, 1) → (B, T, D)."""
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


class FastSpeech2Conformer(Module):
    """The model; `vocoder` is None where the file has none."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        several = (config.num_speakers or 1) > 1
        self.speaker_id_embedding = Embedding(config.num_speakers or 1, width) if several else None
        self.encoder, self.decoder = Conformer(config, "encoder"), Conformer(config, "decoder")
        self.duration_predictor, self.pitch_predictor, self.energy_predictor = (
            Predictor(config, name) for name in PREDICTORS
        )
        self.pitch_embed = NumberEmbedding(width, config.pitch_embed_kernel_size)
        self.energy_embed = NumberEmbedding(width, config.energy_embed_kernel_size)
        self.speech_decoder_postnet = Postnet(config)
        self.vocoder = None if config.vocoder is None else architecture(VOCODER).TASKS["vocoder"](config.sound)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.duration_predictor.linear.weight.device

    def read(self, ids: Tensor, speaker: int = 0) -> tuple[Tensor, Tensor]:
        """The numbers (1, T) of phonemes → what is known of each (1, T, D), and its frames (T,) at the usual rate."""
        x = self.encoder(ids)
        if self.speaker_id_embedding is not None:
            x = x + self.speaker_id_embedding(ops.tensor([[speaker]], dtype="int64", device=ids.device))
        pitch, energy = self.pitch_predictor(x), self.energy_predictor(x)
        frames = (self.duration_predictor(x)[0, :, 0].exp() - 1.0).round().clamp(min=0)
        return x + self.energy_embed(energy) + self.pitch_embed(pitch), frames

    def spectrogram(self, x: Tensor, counts: Tensor) -> Tensor:
        """What is known of phonemes (1, T, D), and the frames (T,) int64 of each → the spectrogram (1, F * r, bins)."""
        x = x.repeat_interleave(counts, dim=1)
        return self.speech_decoder_postnet.refined(self.speech_decoder_postnet.plain(self.decoder(x)))


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights: those of the vocoder may have norms."""
    return normed_weights(tensors, "")


TASKS: Mapping[str, Callable[[Config], Module]] = {"text-to-speech": FastSpeech2Conformer}
