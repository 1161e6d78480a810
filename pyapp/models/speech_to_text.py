"""Speech2Text (Wang et al. 2020, arXiv 2010.05171): filter banks through convolutions and an encoder, and a decoder
that writes what was said, or its translation into the language of a token at the beginning.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.audio.filter_banks import frames_of
from pyapp.audio.mel import FFT_SIZE
from pyapp.audio.processors.banks import CentredBankProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Conv1d, LayerNorm, Module, ModuleList
from pyapp.nn.encoders.encoders import Words, visible_keys
from pyapp.nn.positions.sinusoids import padded_sinusoids
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import (
    Decoder,
    EncoderLayer,
    FixedPositions,
    Memory,
    SequenceToSequence,
)

from .loading.config import require
from .loading.sequence_config import SequenceToSequenceConfig

MODEL_TYPES = ("speech_to_text",)
BASE = "model"
IGNORED = r"(model\.)?(encoder|decoder)\.embed_positions\.weights"  # which the model computes
PROCESSOR = CentredBankProcessor
STRIDE = 2  # of each convolution
# What a config.json leaves out.
USUAL = {
    "vocab_size": 10000, "d_model": 256, "encoder_layers": 12, "encoder_ffn_dim": 2048, "encoder_attention_heads": 4,
    "decoder_layers": 6, "decoder_ffn_dim": 2048, "decoder_attention_heads": 4, "activation_function": "relu",
    "scale_embedding": True, "max_target_positions": 1024, "conv_kernel_sizes": [5, 5],
}  # fmt: skip
MOST_CONVOLUTIONS, WIDEST, LONGEST = 8, 1 << 15, 1 << 8  # of the convolutions: their channels and kernels


@dataclass(frozen=True, kw_only=True)
class Config(SequenceToSequenceConfig):
    """The hyper-parameters, by the names of config.json. max_source_positions: moments of a recording."""

    model_type = "speech_to_text"

    max_source_positions: int = 6000
    conv_kernel_sizes: list[int]
    conv_channels: int = 1024
    input_feat_per_channel: int = 80
    input_channels: int = 1
    bos_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        kernels: Any = self.conv_kernel_sizes
        plausible = 0 < len(kernels) <= MOST_CONVOLUTIONS and all(
            type(size) is int and 0 < size <= LONGEST and size % 2 for size in kernels
        )
        require(plausible, f"conv_kernel_sizes is {kernels!r:.60}, expected a few odd numbers up to {LONGEST}")
        for name, value in (
            ("conv_channels", self.conv_channels), ("input_feat_per_channel", self.input_feat_per_channel),
            ("input_channels", self.input_channels), ("max_source_positions", self.max_source_positions),
        ):  # fmt: skip
            require(value <= WIDEST, f"{name} is {value:,}, expected at most {WIDEST:,}")
        require(self.conv_channels % 2 == 0, f"conv_channels is {self.conv_channels}, expected an even number")
        width = self.d_model
        require(width % 2 == 0 and width > 2, f"d_model is {width}, expected an even number from 4")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        values = {**USUAL, **values}
        return super().from_dict({**values, "max_position_embeddings": values["max_target_positions"]})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        more = {"max_target_positions": values.pop("max_position_embeddings")}
        return values | more | {"num_conv_layers": len(self.conv_kernel_sizes)}

    @property
    def inputs(self) -> int:
        """The numbers of a frame."""
        return self.input_feat_per_channel * self.input_channels


class GatedConvolutions(Module):
    """Convolutions, each of which halves the moments; half of its channels gate the others (arXiv 1612.08083)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        kernels, between = config.conv_kernel_sizes, config.conv_channels
        last = len(kernels) - 1
        self.conv_layers = ModuleList(
            Conv1d(
                between // 2 if i else config.inputs, between if i < last else 2 * config.d_model, size, STRIDE,
                padding=size // 2,
            )
            for i, size in enumerate(kernels)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, F, bins) → (B, T, D)."""
        x = x.transpose(1, 2)
        for layer in self.conv_layers:
            x = ops.glu(layer(x), 1)
        return x.transpose(1, 2)


class Encoder(Module):
    """The convolutions, positions, and layers."""

    shortest = FFT_SIZE  # samples of a moment

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, padding = config.d_model, config.pad_token_id
        self.most, self.bins, self.offset = config.max_source_positions, config.inputs, padding + 1
        self.scale = width**0.5 if config.scale_embedding else 1.0
        self.conv = GatedConvolutions(config)
        self.embed_positions = FixedPositions(partial(padded_sinusoids, self.most, width, padding))
        self.layers = ModuleList(
            EncoderLayer(
                width, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                norm_first=True,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.layer_norm = LayerNorm(width)

    def moments(self, samples: int) -> int:
        """The moments of so many samples; 0 if they are too few for one."""
        return self.after_convolutions(frames_of(samples))

    def after_convolutions(self, frames: int) -> int:
        """The moments of so many frames."""
        for _ in self.conv.conv_layers:
            frames = (frames + 1) // STRIDE
        return frames

    def heard(self, mask: Tensor | None) -> Tensor | None:
        """mask (B, F), 0 for padding at the end → (B, T), 0 for moments of padding."""
        return None if mask is None else mask[:, :: STRIDE ** len(self.conv.conv_layers)]

    def warm_up(self) -> None:
        """Hears two moments of silence, so that the first recording starts sooner in a browser."""
        device = self.layer_norm.weight.device
        with no_grad():
            self(ops.zeros(1, 2 * STRIDE ** len(self.conv.conv_layers), self.bins, device=device))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, F, bins), mask (B, F) → (B, T, D)."""
        x = self.conv(x) * self.scale
        x = x + self.embed_positions(ops.arange(x.shape[1], dtype="int32", device=x.device) + self.offset)
        keys = visible_keys(self.heard(mask))
        for layer in self.layers:
            x = layer(x, keys)
        return self.layer_norm(x)


class SpeechToText(SequenceToSequence):
    """The model with its head over words. Its source is filter banks (B, F, bins)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        self.model = Module()
        self.model.encoder = Encoder(config)
        places = FixedPositions(partial(padded_sinusoids, self.most, config.d_model, config.pad_token_id))
        self.model.decoder = Decoder(config, places, config.pad_token_id + 1, norm_embedding=False, norm_first=True)
        table = self.model.decoder.embed_tokens if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table, bias=False)

    @property
    def encoder(self) -> Encoder:
        """What hears."""
        found: Encoder = self.model.encoder
        return found

    @property
    def device(self) -> Device:
        found: Device = self.model.decoder.embed_tokens.weight.device
        return found

    usual_language: str | None = None  # of its texts, where a model writes several

    def language_token(self, language: str) -> str:
        """The token with which the text in a language begins, if the vocabulary has it."""
        return f"<lang:{language}>"

    def source_mask(self, mask: Tensor | None, source: Tensor, encoded: Tensor) -> Tensor | None:
        return self.encoder.heard(mask)

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Filter banks (B, F, bins) → (B, S, D). attention_mask (B, F): 0 for padding, which stands at the end."""
        return self.encoder(ids, attention_mask)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        return self.lm_head(self.model.decoder(tokens, memory))

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        encoder = self.encoder
        fits = ids.ndim == 3 and ids.dtype.is_floating_point and ids.shape[2] == encoder.bins
        if not fits or not 1 <= encoder.after_convolutions(ids.shape[1]) <= encoder.most:
            raise ArgumentError(
                f"SpeechToText: filter banks are (B, F, {encoder.bins}) of 1 to {encoder.most} moments, not "
                f"{describe(ids)}"
            )
        if mask is not None and mask.shape != ids.shape[:2]:
            raise ArgumentError(f"SpeechToText: attention_mask is {describe(mask)}, the filter banks {describe(ids)}")


TASKS: Mapping[str, Callable[[Config], Module]] = {"speech-recognition": SpeechToText}
