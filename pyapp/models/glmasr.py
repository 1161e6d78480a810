"""GLM-ASR (Zhipu AI 2025): an encoder as Whisper's with rotary positions hears stretches of 30 seconds, a projector
joins four of its vectors each to one, and these stand before a Llama, which writes what was said.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Conv1d, LayerNorm, Module, ModuleList
from pyapp.nn.audio.sound_text import WARM_UP, SoundTextModel, TwoLayerProjector
from pyapp.nn.decoders.decoder import RotaryTable
from pyapp.nn.encoders.rotary_encoder import RotaryAttention
from pyapp.nn.heads import Heads
from pyapp.nn.layers.feed_forward import FeedForward

from .loading import sound_text
from .loading.config import require, rope_parameters
from .loading.sound_text import EncoderConfig, SoundTextConfig

MODEL_TYPES = ("glmasr",)
BASE = ""
JOINED = 4  # vectors of the encoder that become one
ROTATED = 0.5  # the part of a head that is rotated, where a file does not say it
PROMPT = "<|user|>\n<|begin_of_audio|>{}<|end_of_audio|><|user|>\nPlease transcribe this audio into text<|assistant|>\n"
NAMES = {"max_position_embeddings": "max_source_positions", "hidden_act": "activation_function"}  # and those here


@dataclass(frozen=True, kw_only=True)
class AudioConfig(EncoderConfig):
    """The fields of audio_config. max_source_positions: half of the frames of a stretch."""

    num_key_value_heads: int | None = None
    rope_parameters: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        heads, shared = self.encoder_attention_heads, self.heads.kv_heads
        require(heads % shared == 0, f"num_key_value_heads {shared} does not divide num_attention_heads {heads}")
        width, joined = self.encoder_ffn_dim, JOINED * self.d_model
        require(width == joined, f"intermediate_size is {width:,}, expected {JOINED} times hidden_size: {joined:,}")
        require(
            self.max_source_positions % JOINED == 0,
            f"max_position_embeddings is {self.max_source_positions:,}, expected a multiple of {JOINED}",
        )
        assert self.rotary

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From an audio_config; other keys are ignored."""
        rotary = {"partial_rotary_factor": ROTATED} | rope_parameters(values)
        named = {NAMES.get(name, name): value for name, value in values.items()}
        return super().from_dict({**named, "rope_parameters": rotary})

    @property
    def heads(self) -> Heads:
        """The heads of attention."""
        count = self.encoder_attention_heads
        return Heads(count, self.num_key_value_heads or count, self.d_model // count)

    @property
    def rotary(self) -> RotaryTable:
        """A new table of rotary angles."""
        parameters = self.rope_parameters or {"partial_rotary_factor": ROTATED}
        return RotaryTable.of_heads(self.heads.head_dim, self.max_source_positions, parameters)


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    audio_class = AudioConfig
    token = ("audio_token_id", 59260)
    usual = {
        "vocab_size": 59264, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
    }  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, by which the head is the table of tokens unless it says otherwise."""
        return super().from_dict({"tie_word_embeddings": True, **values})


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        width = config.d_model
        self.self_attn = RotaryAttention(width, config.heads, bias=True, key_bias=False)
        self.mlp = FeedForward(width, config.encoder_ffn_dim, config.activation_function)
        self.input_layernorm = LayerNorm(width)
        self.post_attention_layernorm = LayerNorm(width)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn(self.input_layernorm(x), None, table, x)
        return self.mlp(self.post_attention_layernorm(x), x)


class Encoder(Module):
    """Two convolutions, of which the second halves the frames, and the layers."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        width = config.d_model
        self.size = (config.num_mel_bins, 2 * config.max_source_positions)
        self.conv1 = Conv1d(config.num_mel_bins, width, 3, padding=1)
        self.conv2 = Conv1d(width, width, 3, 2, padding=1)
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = LayerNorm(width)
        self.rotary = config.rotary

    def warm_up(self) -> None:
        """Runs a layer over some moments, so that the first recording starts sooner in a browser."""
        device = self.conv1.weight.device
        with no_grad():
            self.layers[0](ops.zeros(1, WARM_UP, self.conv1.out_channels, device=device), self._angles(WARM_UP, device))

    def _angles(self, moments: int, device: Any) -> Tensor:
        return self.rotary.upto(moments, device)

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, bins, frames) float32 → (B, frames / 2, D). ArgumentError for another size."""
        if mel.ndim != 3 or tuple(mel.shape[1:]) != self.size:
            raise ArgumentError(f"spectrograms are (B, {self.size[0]}, {self.size[1]}), not {describe(mel)}")
        x = ops.gelu(self.conv2(ops.gelu(self.conv1(mel)))).transpose(1, 2)  # (B, T, D)
        table = self._angles(x.shape[1], x.device)
        for layer in self.layers:
            x = layer(x, table)
        return self.norm(x)


class GlmAsrForConditionalGeneration(SoundTextModel):
    """Recordings and text to text."""

    placeholder = part = "<|pad|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        audio: Any = config.audio_config
        width = config.text_config.hidden_size
        self.audio_tower = Encoder(audio)
        self.multi_modal_projector = TwoLayerProjector(
            audio.encoder_ffn_dim, 2 * width, width, config.values.get("projector_hidden_act", "gelu")
        )

    def tokens_in_stretch(self, frames: int) -> int:
        return max(1, ((frames - 1) // 2 + 1) // JOINED)

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """As SoundTextModel's; silence that fills a stretch is heard."""
        x = self.audio_tower(pixel_values)  # (B, T, D)
        return self.multi_modal_projector(x.reshape(x.shape[0], -1, JOINED * x.shape[2]))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None], conversation: Any = None
    ) -> str:
        return PROMPT.format(sound)


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {
    "speech-recognition": GlmAsrForConditionalGeneration, sound_text.TASK: GlmAsrForConditionalGeneration,
}  # fmt: skip
