"""Qwen2-Audio (Chu et al. 2024, arXiv 2407.10759): Whisper's encoder hears up to 30 seconds, each two of its vectors
become their mean, and these stand, projected, before a language model, which writes what was said or answers questions.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.audio.sound_text import MeanEncoder, SoundTextModel, moments_in

from .loading import sound_text
from .loading.sound_text import SoundTextConfig

MODEL_TYPES = ("qwen2_audio",)
BASE = ""
TURN = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nAudio 1: {}<|im_end|>\n"
ANSWER = "<|im_start|>assistant\n"
TASK = "Detect the language and recognize the speech:"  # as in training


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text = "qwen2"
    token = ("audio_token_index", 151646)


class Projector(Module):
    """A linear layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear = Linear(config.audio_config.d_model, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.linear(x)


class Qwen2AudioForConditionalGeneration(SoundTextModel):
    """Recordings and text to text."""

    placeholder = part = "<|AUDIO|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.audio_tower = MeanEncoder(config.audio_config)
        self.multi_modal_projector = Projector(config)

    def tokens_in_stretch(self, frames: int) -> int:
        return moments_in(frames) // 2

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        heard = self.audio_tower.heard(pixel_values, frames)
        return self.multi_modal_projector(self.audio_tower(pixel_values, heard))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None], conversation: Any = None
    ) -> str:
        heard = f"<|audio_bos|>{sound}<|audio_eos|>"
        if "<|im_end|>" in ends:  # the model for conversations
            return TURN.format(f"{heard}\n{TASK}") + ANSWER
        return f"{heard}{TASK}" + ("" if language is None else f" <|{language}|>")


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {
    "speech-recognition": Qwen2AudioForConditionalGeneration, sound_text.TASK: Qwen2AudioForConditionalGeneration,
}  # fmt: skip
