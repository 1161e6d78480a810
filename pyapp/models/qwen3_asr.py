"""Qwen3-ASR (Shi et al. 2026, arXiv 2601.21337): filters make thirteen vectors of each second of a spectrogram, layers
attend within eight seconds, and what they give stands, projected, before a Qwen3, which writes the language and what
was said.

Parameters have the names of Hugging Face's library; those of its authors' files are read too (`renamed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from pyapp.audio.processors.spectrograms import WholeSpectrogramProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.sound_text import SoundTextModel, TwoLayerProjector
from pyapp.nn.encoders.encoders import until
from pyapp.nn.positions.sinusoids import sines_and_cosines
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import EncoderLayer, FixedPositions
from pyapp.text.languages import LANGUAGES

from .loading import sound_text
from .loading.config import require
from .loading.sound_text import EncoderConfig, SoundTextConfig

MODEL_TYPES = ("qwen3_asr",)
BASE = ""
PROCESSOR = WholeSpectrogramProcessor
TURNS = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
MARK = "<asr_text>"  # behind the language
THINKER = "thinker_config"  # which has all in the authors' config.json
# The names of the authors' files, and those of the library.
OLDER_NAMES = (
    (r"^thinker\.audio_tower\.proj([12])\.", r"multi_modal_projector.linear_\1."),
    (r"^thinker\.audio_tower\.", "audio_tower."), (r"^thinker\.model\.", "language_model.model."),
    (r"^thinker\.lm_head\.", "language_model.lm_head."),
)  # fmt: skip
LARGEST = 1 << 13


@dataclass(frozen=True, kw_only=True)
class AudioConfig(EncoderConfig):
    """The fields of audio_config. n_window: half of the frames that the filters see together, n_window_infer: the
    frames within which moments attend to each other.
    """

    d_model: int = 1024
    encoder_layers: int = 24
    encoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    n_window: int = 50
    n_window_infer: int = 800
    downsample_hidden_size: int = 480
    output_dim: int = 3584

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_window", "n_window_infer", "downsample_hidden_size"):
            value = getattr(self, name)
            require(value <= LARGEST, f"{name} is {value:,}, expected at most {LARGEST:,}")
        chunk, whole = self.chunk, self.n_window_infer
        require(whole % chunk == 0, f"n_window_infer is {whole}, expected a multiple of twice n_window {self.n_window}")
        require(
            self.d_model % 2 == 0 and self.d_model > 2, f"d_model is {self.d_model}, expected an even number from 4"
        )

    @property
    def chunk(self) -> int:
        """The frames that the filters see together."""
        return 2 * self.n_window

    @property
    def window(self) -> int:
        """The moments that attend to each other."""
        return halved(self.chunk) * (self.n_window_infer // self.chunk)


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    audio_class = AudioConfig
    text = "qwen3"
    token = ("audio_token_id", 151676)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, of the library or of the authors' files."""
        own = values.get(THINKER)
        if isinstance(own, Mapping):
            text = own.get("text_config")
            if isinstance(text, Mapping):  # angles of three directions, which are one in sound
                text = {name: value for name, value in text.items() if name not in ("rope_scaling", "model_type")}
            values = {**{name: value for name, value in values.items() if name != THINKER}, **own, "text_config": text}
        return super().from_dict({**values, "model_type": cls.model_type})

    def check(self) -> None:
        super().check()
        audio: Any = self.audio_config
        made, read = audio.output_dim, self.text_config.hidden_size
        require(made == read, f"output_dim is {made}, the language model's hidden_size {read}")


def halved(frames: int) -> int:
    """What three filters with stride 2 make of so many frames."""
    for _ in range(3):
        frames = (frames + 1) // 2
    return frames


class Encoder(Module):
    """The filters, and layers of moments."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        self.config = config
        width, filters = config.d_model, config.downsample_hidden_size
        self.conv2d1, self.conv2d2, self.conv2d3 = (
            Conv2d(before, filters, 3, 2, padding=1) for before in (1, filters, filters)
        )
        self.conv_out = Linear(filters * halved(config.num_mel_bins), width, bias=False)
        self.positions = FixedPositions(partial(sines_and_cosines, halved(config.chunk), width))
        self.layers = ModuleList(
            EncoderLayer(
                width, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                norm_first=True,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.ln_post = LayerNorm(width)

    def warm_up(self) -> None:
        """Hears a second of silence, so that the first recording starts sooner in a browser."""
        with no_grad():
            self(ops.zeros(1, self.config.num_mel_bins, self.config.chunk, device=self.conv_out.weight.device), None)

    def forward(self, mel: Tensor, frames: Sequence[int] | None) -> Tensor:
        """mel (B, bins, T), whole seconds, `frames`: how many of each recording's are sound (None: all) → (B, M, D), of
        which the first of each recording count.
        """
        config = self.config
        if mel.ndim != 3 or mel.shape[1] != config.num_mel_bins or not mel.shape[2] or mel.shape[2] % config.chunk:
            raise InputError(
                f"Qwen3-ASR: spectrograms are (B, {config.num_mel_bins}, a multiple of {config.chunk}), not "
                f"{describe(mel)}"
            )
        batch, bins, length = mel.shape
        count = length // config.chunk
        x = mel.reshape(batch, bins, count, config.chunk).transpose(1, 2).reshape(-1, 1, bins, config.chunk)
        for layer in (self.conv2d1, self.conv2d2, self.conv2d3):
            x = ops.gelu(layer(x))  # (B * count, C, F', M')
        x = x.permute(0, 3, 1, 2).reshape(x.shape[0], x.shape[3], -1)
        x = self.conv_out(x) + self.positions(ops.arange(x.shape[1], dtype="int32", device=x.device))
        x = x.reshape(batch, -1, x.shape[2])  # (B, M, D)
        moments, window = x.shape[1], config.window
        more = -moments % window
        if more:
            x = ops.pad(x, (0, 0, 0, more))
        ends = [moments] * batch if frames is None else [self.moments(number) for number in frames]
        heard = until(ends, moments + more, x.device).reshape(-1, window)  # (B * windows, window)
        heard = heard.logical_or(heard.any(1, keepdim=True).logical_not())  # one of silence alone sees itself
        x = x.reshape(-1, window, x.shape[2])
        mask = heard.reshape(-1, 1, 1, window)
        for layer in self.layers:
            x = layer(x, mask)
        return self.ln_post(x).reshape(batch, moments + more, -1)

    def moments(self, frames: int) -> int:
        """The vectors of so many frames."""
        whole, rest = divmod(frames, self.config.chunk)
        return whole * halved(self.config.chunk) + halved(rest)


class Qwen3ASRForConditionalGeneration(SoundTextModel):
    """Recordings and text to text. A recording is heard in one piece; its size is (bins, frames)."""

    placeholder = part = "<|audio_pad|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        audio: Any = config.audio_config
        self.audio_tower = Encoder(audio)
        width = audio.d_model
        self.multi_modal_projector = TwoLayerProjector(width, width, audio.output_dim, audio.activation_function)

    def stretches(self, frames: int) -> list[int]:
        return [frames]

    def tokens_in_stretch(self, frames: int) -> int:
        found: int = self.audio_tower.moments(frames)
        return found

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        return self.multi_modal_projector(self.audio_tower(pixel_values, frames))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        told = "" if language is None else f"language {LANGUAGES.get(language, language).title()}{MARK}"
        return TURNS.format(f"<|audio_start|>{sound}<|audio_end|>") + told

    def said(self, text: str) -> str:
        return text.rsplit(MARK, 1)[-1]


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in OLDER_NAMES:
        name = re.sub(old, new, name)
    return sound_text.renamed(name)


TASKS: Mapping[str, Any] = {
    "speech-recognition": Qwen3ASRForConditionalGeneration, sound_text.TASK: Qwen3ASRForConditionalGeneration,
}  # fmt: skip
