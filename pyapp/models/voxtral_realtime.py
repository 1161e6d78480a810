"""Voxtral Realtime (Mistral AI 2026, https://mistral.ai/news/voxtral-transcribe-2): an encoder that hears what came
before each moment, whose vectors are added, four of them joined, to the tokens that a decoder of Mistral's form writes.
How many moments later it writes what was said, each of its layers is told.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from math import log
from typing import Any

from pyapp.audio.mel import FFT_SIZE
from pyapp.audio.processors.spectrograms import SteadySpectrogramProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError, ModelError
from pyapp.nn import Conv1d, Linear, Module, ModuleList, ResidualLinear, RMSNorm
from pyapp.nn.audio.sound_text import TwoLayerProjector
from pyapp.nn.audio.synchronous import SynchronousModel
from pyapp.nn.decoders.decoder import GroupedQueryAttention, RotaryTable, Text, WholeText
from pyapp.nn.decoders.decoder_blocks import PreNormBlock, RotaryLanguageModel
from pyapp.nn.heads import Heads
from pyapp.nn.layers.gated import GatedFeedForward

from .loading import sound_text
from .loading.config import check_heads, require, rope_parameters, stated
from .loading.sound_text import EncoderConfig, SoundTextConfig

MODEL_TYPES = ("voxtral_realtime",)
BASE = ""
PROCESSOR = SteadySpectrogramProcessor
HALVED = 2  # frames of a vector of the encoder
BEFORE, BEHIND = 32, 11  # tokens of silence before a recording, and behind it besides the delay, as in training
PADDING = "[STREAMING_PAD]"
RANK, THETA = 32, 10000.0  # of what tells the layers the delay
MOST_DELAY = 1 << 10  # tokens


@dataclass(frozen=True, kw_only=True)
class AudioConfig(EncoderConfig):
    """The fields of audio_config. sliding_window: how many vectors, itself included, each one attends to."""

    encoder_attention_heads: int = 32
    hidden_act: str = "silu"
    max_position_embeddings: int = 1500
    rms_norm_eps: float = 1e-5
    rope_parameters: dict[str, Any] | None = None
    sliding_window: int = 750
    head_dim: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        heads = self.encoder_attention_heads
        check_heads(self.d_model, heads, heads, self.head_dim, self.max_position_embeddings)
        assert self.rotary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From an audio_config; other keys are ignored."""
        return super().from_dict({**values, "rope_parameters": rope_parameters(values)})

    @property
    def heads(self) -> Heads:
        """The heads of attention."""
        count = self.encoder_attention_heads
        return Heads(count, count, self.head_dim, window=self.sliding_window)

    @property
    def rotary(self) -> RotaryTable:
        """A new table of rotary angles."""
        return RotaryTable.of_heads(self.head_dim, self.max_position_embeddings, self.rope_parameters)


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    audio_class = AudioConfig
    text = "mistral"
    usual = {
        "vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 1e6, "head_dim": 128, "sliding_window": 8192,
    }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        text = values.get("text_config")
        text = {**text, "model_type": cls.text} if isinstance(text, dict) else text
        return super().from_dict({"tie_word_embeddings": True, **values, "text_config": text})

    def check(self) -> None:
        """ModelError for values that cannot be."""
        for name, usual, most in (
            ("downsample_factor", 4, 64), ("audio_length_per_tok", 8, 128), ("default_num_delay_tokens", 6, MOST_DELAY),
        ):  # fmt: skip
            given = self.values.get(name, usual)
            plausible = type(given) is int and 1 <= given <= most
            require(plausible, f"{name} is {given!r:.60}, expected a whole number up to {most:,}")
        frames, joined = self.frames, self.joined
        require(frames == HALVED * joined, f"audio_length_per_tok is {frames}, expected {HALVED} times {joined}")
        require(self.text_config.hidden_size % 2 == 0, f"hidden_size is {self.text_config.hidden_size}, an odd number")

    def to_dict(self) -> dict[str, Any]:
        own = {"text_config": {**self.text_config.to_dict(), "model_type": "voxtral_realtime_text"}}
        return {**super().to_dict(), **own, "audio_config": asdict(self.audio_config)}

    joined = stated("downsample_factor", 4)  # the encoder's vectors that become one
    frames = stated("audio_length_per_tok", 8)  # the frames of a token
    delay = stated("default_num_delay_tokens", 6)  # how many tokens later something is written than it was said


class EncoderLayer(Module):
    """Attention and a gated feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: AudioConfig, layer: int, rotary: RotaryTable) -> None:
        super().__init__()
        width, inner = config.d_model, config.encoder_ffn_dim
        self.self_attn = GroupedQueryAttention(layer, width, config.heads, rotary, bias=True)
        self.self_attn.k_proj = Linear(width, config.encoder_attention_heads * config.head_dim, bias=False)
        self.mlp = GatedFeedForward(width, inner, config.hidden_act)
        self.mlp.down_proj = ResidualLinear(inner, width)
        self.self_attn_layer_norm, self.final_layer_norm = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn(self.self_attn_layer_norm(x), text, x)
        return self.mlp(self.final_layer_norm(x), x)


class Encoder(Module):
    """Two convolutions over what came before, of which the second halves the frames, and layers."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        width = config.d_model
        self.config = config
        self.embedder = Module()
        self.embedder.conv1 = Conv1d(config.num_mel_bins, width, 3)
        self.embedder.conv2 = Conv1d(width, width, 3, HALVED)
        rotary = config.rotary
        self.layers = ModuleList(EncoderLayer(config, layer, rotary) for layer in range(config.encoder_layers))
        self.norm = RMSNorm(width, config.rms_norm_eps)

    def warm_up(self) -> None:
        """Hears some silence, so that the first recording starts sooner in a browser."""
        with no_grad():
            self(ops.zeros(1, self.config.num_mel_bins, 64, device=self.norm.weight.device))

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, bins, frames) float32 → (B, frames / 2, D)."""
        bins = self.config.num_mel_bins
        if mel.ndim != 3 or mel.shape[1] != bins or not mel.shape[2] or mel.shape[2] % HALVED:
            raise InputError(f"Voxtral Realtime: spectrograms are (B, {bins}, an even number), not {describe(mel)}")
        x = ops.gelu(self.embedder.conv1(ops.pad(mel, (2, 0))))
        x = ops.gelu(self.embedder.conv2(ops.pad(x, (1, 0)))).transpose(1, 2)
        text = WholeText(x.shape[1])
        for layer in self.layers:
            x = layer(x, text)
        return self.norm(x)


class DelayScale(Module):
    """What a layer multiplies its input of the feed-forward part with, for a delay."""

    def __init__(self, width: int, delay: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = Linear(width, RANK, bias=False), Linear(RANK, width, bias=False)
        angles = delay * np.exp(-log(THETA) * np.arange(width // 2, dtype=np.float32) / (width // 2))
        told = np.concatenate([np.cos(angles), np.sin(angles)]).astype(np.float32)
        self.register_buffer("told", ops.from_numpy(told), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        scale = self.linear2(ops.gelu(self.linear1(self.told.unsqueeze(0)))).reshape(-1)  # (D,)
        return x * (scale + 1.0).to(x.dtype)


class Block(PreNormBlock):
    """As Mistral's, with a scale after the second norm."""

    def __init__(self, config: Any, layer: int, rotary: RotaryTable, delay: int) -> None:
        size, epsilon = config.hidden_size, config.rms_norm_eps
        attention = GroupedQueryAttention(layer, size, config.heads(window=config.sliding_window), rotary)
        feed_forward = GatedFeedForward(size, config.intermediate_size, config.hidden_act)
        super().__init__(attention, feed_forward, RMSNorm(size, epsilon), RMSNorm(size, epsilon))
        self.ada_rms_norm = DelayScale(size, delay)

    def forward(self, x: Tensor, text: Text) -> Tensor:
        x = self.self_attn(self.input_layernorm(x), text, x)
        y: Tensor = self.mlp(self.ada_rms_norm(self.post_attention_layernorm(x)), x)
        return y


class VoxtralRealtime(SynchronousModel):
    """The model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.text_config
        audio: Any = config.audio_config
        self.config = config
        self.language_model = RotaryLanguageModel(
            own, partial(Block, delay=config.delay), RMSNorm(own.hidden_size, own.rms_norm_eps)
        )
        self.audio_tower = Encoder(audio)
        width = own.hidden_size
        self.multi_modal_projector = TwoLayerProjector(
            audio.d_model * config.joined, width, width, config.values.get("projector_hidden_act", "gelu"), False
        )

    @property
    def encoder(self) -> Module:
        """What hears, as models of speech name it."""
        return self.audio_tower

    def prepared(self, processor: Any, samples: Any) -> Tensor:
        """Samples (N,) with silence before and behind them → the spectrogram (1, bins, frames) of whole tokens."""
        step = self.config.frames * processor.hop
        behind = -len(samples) % step + (self.config.delay + BEHIND) * step
        found: Tensor = processor(np.pad(np.asarray(samples, np.float32), (BEFORE * step, behind)))
        return found

    def settled(self, processor: Any, count: int) -> int:
        step, hop = self.config.frames * processor.hop, processor.hop
        return max(0, BEFORE + (count - (step - hop + FFT_SIZE // 2)) // step + 1)

    def behind(self, processor: Any) -> int:
        found: int = (self.config.delay + BEHIND + 1) * self.config.frames * processor.hop
        return found

    def heard(self, values: Tensor) -> Tensor:
        """Spectrograms values (B, bins, frames) → (B, tokens, D)."""
        x = self.audio_tower(values)  # (B, frames / 2, W)
        if x.shape[1] % self.config.joined:
            raise InputError(f"Voxtral Realtime: {values.shape[2]} frames are not whole tokens of {self.config.frames}")
        return self.multi_modal_projector(x.reshape(x.shape[0], x.shape[1] // self.config.joined, -1))

    def prompt(self, tokenizer: Any, generation: Mapping[str, Any]) -> list[int]:
        found = tokenizer.encode_guarded(PADDING)
        if len(found) != 1 or tokenizer.bos_id is None:
            raise ModelError(f"its tokenizer has no token {PADDING}", hint="Give the one that belongs to the model")
        return [tokenizer.bos_id, *found * (BEFORE + self.config.delay)]


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {"speech-recognition": VoxtralRealtime}
