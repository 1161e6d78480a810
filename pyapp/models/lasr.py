"""LASR (Google's MedASR, https://huggingface.co/google/medasr): a Conformer with rotary positions, and a head that
names a piece of a word for each moment.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pyapp.audio.processors.banks import SlopedSpectrogramProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Conv1d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.fast_conformer import GatedConvolution
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.encoders import until, visible_keys
from pyapp.nn.encoders.rotary_encoder import RotaryAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward

from .loading.config import check_depth, check_fields, check_heads, object_of, read_config, require, rope_parameters
from .loading.fast_conformer_config import LARGEST

MODEL_TYPES = ("lasr_ctc",)
BASE = ""
PROCESSOR = SlopedSpectrogramProcessor
PIECES = True  # what it names are pieces of words
WEIGHTS = ("feed_forward_residual_weights", "conv_residual_weights")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields of encoder_config. The residual weights are those of what a part reads and of what it makes."""

    hidden_size: int = 512
    num_hidden_layers: int = 17
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    intermediate_size: int = 2048
    hidden_act: str = "silu"
    attention_bias: bool = False
    convolution_bias: bool = False
    conv_kernel_size: int = 32
    subsampling_conv_channels: int = 256
    subsampling_conv_kernel_size: int = 5
    subsampling_conv_stride: int = 2
    num_mel_bins: int = 128
    max_position_embeddings: int = 10000
    layer_norm_eps: float = 1e-6
    feed_forward_residual_weights: list[float] = (1.5, 0.5)  # type: ignore[assignment]
    conv_residual_weights: list[float] = (2.0, 1.0)  # type: ignore[assignment]
    rope_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_depth(self.num_hidden_layers)
        for name in ("hidden_size", "intermediate_size", "subsampling_conv_channels", "num_mel_bins"):
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name):,}, at most {LARGEST:,}")
        for name in ("conv_kernel_size", "subsampling_conv_kernel_size", "subsampling_conv_stride"):
            require(getattr(self, name) <= 1024, f"{name} is {getattr(self, name):,}, at most 1,024")
        for name in WEIGHTS:
            given = getattr(self, name)
            plausible = len(given) == 2 and all(type(n) in (int, float) and abs(n) <= 100 for n in given)
            require(plausible, f"{name} is {given!r:.60}, expected two numbers")
        heads = self.num_attention_heads
        check_heads(self.hidden_size, heads, self.heads.kv_heads, None, self.max_position_embeddings)
        assert self.rotary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of an encoder_config; other keys are ignored."""
        return read_config(cls, {**values, "rope_parameters": rope_parameters(values)})

    @property
    def heads(self) -> Heads:
        """The heads of attention."""
        count = self.num_attention_heads
        return Heads(count, self.num_key_value_heads or count, self.hidden_size // count)

    @property
    def rotary(self) -> RotaryTable:
        """A new table of rotary angles."""
        return RotaryTable.of_heads(self.heads.head_dim, self.max_position_embeddings, self.rope_parameters)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json. `pad_token_id` stands for nothing."""

    encoder: EncoderConfig
    vocab_size: int = 512
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        blank = self.pad_token_id
        require(0 <= blank < self.vocab_size, f"pad_token_id is {blank}, of {self.vocab_size:,} pieces")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored."""
        own = object_of(values, "encoder_config")
        return read_config(cls, {**values, "encoder": EncoderConfig.from_dict(own)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = asdict(self)
        return {**values, "model_type": MODEL_TYPES[0], "encoder_config": values.pop("encoder")}

    @property
    def blank(self) -> int:
        """The number that stands for nothing."""
        return self.pad_token_id

    @property
    def samples_per_moment(self) -> int:
        """The samples between two moments."""
        found: int = SlopedSpectrogramProcessor.hop * self.encoder.subsampling_conv_stride**2
        return found


class Subsampling(Module):
    """Two convolutions over frames, each of which leaves one of `stride`, between linear layers."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, channels = config.hidden_size, config.subsampling_conv_channels
        kernel, stride = config.subsampling_conv_kernel_size, config.subsampling_conv_stride
        self.dense_0 = Linear(config.num_mel_bins, width)
        self.conv_0 = Conv1d(width, width, kernel, stride)
        self.conv_1 = Conv1d(width, channels, kernel, stride)
        self.dense_1 = Linear(channels, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, F, bins) → (B, T, D)."""
        x = ops.relu(self.dense_0(x)).transpose(1, 2)
        x = ops.relu(self.conv_1(ops.relu(self.conv_0(x))))
        return self.dense_1(x.transpose(1, 2))


class Block(Module):
    """A feed-forward part, attention, a convolution, and another feed-forward part, each after a norm and added to what
    it reads with weights; then a norm.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        sizes, names = (width, config.intermediate_size, config.hidden_act), ("linear1", "linear2")
        self.weights = tuple(config.feed_forward_residual_weights), tuple(config.conv_residual_weights)
        self.feed_forward1 = FeedForward(*sizes, bias=bias, names=names)
        self.self_attn = RotaryAttention(width, config.heads, bias)
        self.conv = GatedConvolution(width, config.conv_kernel_size, config.hidden_act, config.convolution_bias)
        self.feed_forward2 = FeedForward(*sizes, bias=bias, names=names)
        for name in ("feed_forward1", "self_att", "conv", "feed_forward2", "out"):
            self.add_module(f"norm_{name}", LayerNorm(width, config.layer_norm_eps, bias=False))

    def forward(self, x: Tensor, heard: Tensor | None, table: Tensor) -> Tensor:
        """x (B, T, D), heard (B, T) → (B, T, D)."""
        (kept, made), (kept_around, made_around) = self.weights
        x = x * kept + self.feed_forward1(self.norm_feed_forward1(x)) * made
        x = self.self_attn(self.norm_self_att(x), visible_keys(heard), table, x)
        x = x * kept_around + self.conv(self.norm_conv(x), heard) * made_around
        x = x * kept + self.feed_forward2(self.norm_feed_forward2(x)) * made
        found: Tensor = self.norm_out(x)
        return found


class Encoder(Module):
    """The Conformer."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config, self.rotary = config, config.rotary
        self.subsampler = Subsampling(config)
        self.layers = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.out_norm = LayerNorm(config.hidden_size, config.layer_norm_eps, bias=False)

    def left(self, frames: int) -> int:
        """How many moments so many frames have."""
        kernel, stride = self.config.subsampling_conv_kernel_size, self.config.subsampling_conv_stride
        for _ in range(2):
            frames = (frames - kernel) // stride + 1 if frames >= kernel else 0
        return frames

    def moments(self, samples: int) -> int:
        """The moments T of `samples` samples; 0 if they are too few for one."""
        return self.left(SlopedSpectrogramProcessor.frames_of(samples))

    def warm_up(self) -> None:
        """Hears some silence, so that the first recording starts sooner."""
        with no_grad():
            self(ops.zeros(1, 64, self.config.num_mel_bins, device=self.out_norm.weight.device))

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), attention_mask (B, F) → (B, T, D). ArgumentError for another shape."""
        bins = self.config.num_mel_bins
        if input_features.ndim != 3 or input_features.shape[2] != bins or not self.left(input_features.shape[1]):
            raise ArgumentError(f"spectrograms are (B, F, {bins}), of a moment or more, not {describe(input_features)}")
        x, heard = self.subsampler(input_features), None
        if attention_mask is not None:
            if attention_mask.shape != input_features.shape[:2]:
                raise ArgumentError(f"attention_mask is {describe(attention_mask)}")
            ends = [self.left(int(count)) for count in attention_mask.to("int32").sum(1).tolist()]
            heard = until(ends, x.shape[1], x.device)
        table = self.rotary.upto(x.shape[1], x.device)
        for layer in self.layers:
            x = layer(x, heard, table)
        return self.out_norm(x)


class LasrForCTC(Module):
    """Scores of pieces of words for each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.encoder)
        self.ctc_head = Conv1d(config.encoder.hidden_size, config.vocab_size, 1)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.ctc_head.weight.device

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), attention_mask (B, F) → logits (B, T, V)."""
        x = self.encoder(input_features, attention_mask)  # (B, T, D)
        return self.ctc_head(x.transpose(1, 2)).transpose(1, 2)


TASKS: Mapping[str, Any] = {"speech-recognition": LasrForCTC}
