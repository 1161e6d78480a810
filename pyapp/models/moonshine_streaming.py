"""Moonshine's models for streams (Moonshine v2: Kudlur et al. 2026, arXiv 2602.12241): an encoder without positions
whose moments hear a window around them, and Moonshine's decoder.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv1d, Embedding, Linear, Module, ModuleList
from pyapp.nn.audio.speech_writer import Attention, Decoder, SampleEncoder, SpeechWriter
from pyapp.nn.encoders.encoders import visible_keys
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter

from .loading.config import check_fields, read_config, require
from .loading.sound_config import LARGEST, WriterConfig

MODEL_TYPES = ("moonshine_streaming",)
BASE = "model"
KERNEL, STRIDE = 5, 2  # of both convolutions
FRAME_EPSILON = 1e-6  # added to the variance of a frame
NORM_EPSILON = 1e-5
WINDOWS = ((16, 4), (16, 4), (16, 0), (16, 0), (16, 4), (16, 4))


@dataclass(frozen=True)
class EncoderConfig:
    """The encoder's hyper-parameters. sliding_windows: of each layer, how many moments a moment hears up to itself, and
    one more than those after it (0: none).
    """

    hidden_size: int = 320
    intermediate_size: int = 1280
    hidden_act: str = "gelu"
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    attention_bias: bool = False
    sample_rate: int = 16000
    frame_ms: float = 5.0
    sliding_windows: list[list[int]] = WINDOWS  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_fields(self)
        heads = self.num_attention_heads
        require(
            self.num_key_value_heads in (None, heads),
            f"num_key_value_heads is {self.num_key_value_heads}, expected the {heads} of num_attention_heads",
        )
        windows = self.sliding_windows
        plausible = len(windows) == self.num_hidden_layers and all(
            isinstance(window, list | tuple) and len(window) == 2
            and all(type(n) is int and 0 <= n <= LARGEST for n in window)
            and window[0] > 0
            for window in windows
        )  # fmt: skip
        require(plausible, f"sliding_windows is {windows!r:.80}, expected two numbers for each of the layers")
        require(self.sample_rate == 16000, f"sample_rate is {self.sample_rate}, expected 16000")
        require(1 <= self.frame <= LARGEST, f"frame_ms is {self.frame_ms}, expected a few milliseconds")

    @property
    def frame(self) -> int:
        """The samples of a frame."""
        return round(self.sample_rate * self.frame_ms / 1000)

    @property
    def head_size(self) -> int:
        """The features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads


@dataclass(frozen=True)
class Config(WriterConfig):
    """The hyper-parameters, by the names of config.json; encoder_config has those of the encoder."""

    model_type = "moonshine_streaming"

    rotated = 0.8

    hidden_size: int = 320
    intermediate_size: int = 1280
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 4096
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = False
    encoder_config: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.num_attention_heads
        require(
            self.num_key_value_heads in (None, heads),
            f"num_key_value_heads is {self.num_key_value_heads}, expected the {heads} of num_attention_heads",
        )
        self.check(heads, self.encoder.num_hidden_layers, self.num_hidden_layers)

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder's hyper-parameters."""
        return read_config(EncoderConfig, self.encoder_config or {})


class GammaNorm(Module):
    """Mean and variance norm over the last dim, times 1 + gamma."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = new_parameter(ops.zeros, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return ops.layer_norm(x, self.gamma + 1.0, ops.zeros(x.shape[-1], device=x.device), NORM_EPSILON)


class Compression(Module):
    """asinh(k x)."""

    def __init__(self) -> None:
        super().__init__()
        self.log_k = new_parameter(ops.zeros)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., frame) → the same shape."""
        return (x * self.log_k.exp()).asinh()


class Embedder(Module):
    """Frames of samples, normalised and compressed, and two convolutions over the frames so far."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, self.frame = config.hidden_size, config.frame
        self.comp = Compression()
        self.conv1 = Conv1d(width, 2 * width, KERNEL, STRIDE)
        self.conv2 = Conv1d(2 * width, width, KERNEL, STRIDE)
        self.linear = Linear(config.frame, width, bias=False)

    def frames(self, mask: Tensor) -> Tensor:
        """mask (B, N) → (B,) int32: the frames that are whole."""
        return ops.floor_divide(mask.to("int32").sum(1).to("int32"), self.frame)

    def forward(self, samples: Tensor, frames: Tensor | None) -> Tensor:
        """samples (B, N), frames (B,) → (B, T, D)."""
        batch, count = samples.shape
        lacking = -count % self.frame
        if lacking:
            samples = ops.cat([samples, ops.zeros(batch, lacking, dtype=samples.dtype, device=samples.device)], 1)
        x = samples.reshape(batch, -1, self.frame)
        x = x - x.mean(-1, True)
        x = x * (x.square().mean(-1, True) + FRAME_EPSILON).rsqrt()
        x = ops.silu(self.linear(self.comp(x)))  # (B, frames, D)
        x = x.transpose(1, 2)
        for number, layer in enumerate((self.conv1, self.conv2)):
            if frames is not None:
                x = x * before(frames, x.shape[2]).unsqueeze(1).to(x.dtype)
                frames = through(frames)
            x = layer(ops.pad(x, (KERNEL - 1, 0)))
            x = x if number else ops.silu(x)
        if frames is not None:
            x = x * before(frames, x.shape[2]).unsqueeze(1).to(x.dtype)
        return x.transpose(1, 2)


def before(ends: Tensor, places: int) -> Tensor:
    """ends (B,) → (B, places) bool: the places before the ends."""
    return ops.arange(places, dtype="int32", device=ends.device).unsqueeze(0) < ends.unsqueeze(1)


def through(frames: Tensor) -> Tensor:
    """(B,): the places of a convolution that hear some of the frames before an end."""
    return ops.floor_divide(frames + (KERNEL - 1 + STRIDE - 1), STRIDE) * (frames > 0).to(frames.dtype)


class EncoderLayer(Module):
    """Attention and a feed-forward part, each after a norm and with a residual."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        self.self_attn = Attention(width, config.num_attention_heads, config.head_size, bias, bias)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.input_layernorm = GammaNorm(width)
        self.post_attention_layernorm = GammaNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn.encode(self.input_layernorm(x), x, mask)
        return self.mlp(self.post_attention_layernorm(x), x)


class Encoder(SampleEncoder):
    """The embedder and the layers."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.windows, self.shortest = [tuple(window) for window in config.sliding_windows], config.frame
        self.embedder = Embedder(config)
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = GammaNorm(config.hidden_size)

    def moments(self, samples: int) -> int:
        frames = -(-samples // self.embedder.frame)
        for _ in range(2):
            frames = (frames - 1) // STRIDE + 1 if frames else 0
        return frames

    def heard(self, mask: Tensor | None, moments: int) -> Tensor | None:
        return None if mask is None else before(through(through(self.embedder.frames(mask))), moments)

    def forward(self, samples: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embedder(samples, None if mask is None else self.embedder.frames(mask))
        keys = visible_keys(self.heard(mask, x.shape[1]))
        masks = {window: self.visible(x, window, keys) for window in {*self.windows}}
        for layer, window in zip(self.layers, self.windows, strict=True):
            x = layer(x, masks[window])
        return self.final_norm(x)

    def visible(self, x: Tensor, window: tuple[int, ...], keys: Tensor | None) -> Tensor:
        """What the moments of x (B, T, D) hear: (B or 1, 1, T, T) bool."""
        places = ops.arange(x.shape[1], dtype="int32", device=x.device)
        back = places.unsqueeze(1) - places.unsqueeze(0)  # (T, T)
        past, coming = (back >= 0).logical_and(back < window[0]), (back < 0).logical_and(back > -window[1])
        found = past.logical_or(coming).reshape(1, 1, *back.shape)
        return found if keys is None else found.logical_and(keys)


class StreamDecoder(Decoder):
    """The decoder, with positions of what was heard, and its projection if the encoder has another width."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        inner = config.encoder.hidden_size
        self.pos_emb = Embedding(config.max_position_embeddings, inner)
        self.proj = Linear(inner, config.hidden_size, bias=False) if inner != config.hidden_size else None

    def placed(self, encoded: Tensor) -> Tensor:
        """encoded (B, S, inner) → (B, S, D)."""
        require(
            encoded.shape[1] <= self.most,
            f"the recording has {encoded.shape[1]:,} moments, the model hears at most {self.most:,} together",
            "Give shorter parts of it",
        )
        x = encoded + self.pos_emb(ops.arange(encoded.shape[1], dtype="int32", device=encoded.device))
        return x if self.proj is None else self.proj(x)


class MoonshineStreaming(SpeechWriter):
    """The model with its head over words."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Encoder(config.encoder), StreamDecoder(config))

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.decoder.placed(self.encoder(ids, attention_mask))
        return found


TASKS: Mapping[str, Callable[[Config], Module]] = {"speech-recognition": MoonshineStreaming}
