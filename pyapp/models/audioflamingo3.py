"""Audio Flamingo 3 (Goel et al. 2025, arXiv 2507.08128): Whisper's encoder hears stretches of 30 seconds of speech,
sounds or music, each two of its vectors become their mean, and these stand, projected, before a Qwen2.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn.audio.sound_text import MeanEncoder, SoundTextModel, TwoLayerProjector, moments_in

from .loading import sound_text
from .loading.sound_text import SoundTextConfig

MODEL_TYPES = ("audioflamingo3",)
BASE = ""
TASK = "Transcribe the input speech."  # as in training
TURNS = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n"
    "<|im_start|>assistant\n"
)  # where the files have no chat template
# What the model says before a transcript, which it puts into quotes.
BEFORE = (
    "The spoken content of the audio is", "The transcription of the audio is", "The content of the input audio is",
)  # fmt: skip
QUOTES = ("'", '"')


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text = "qwen2"
    token = ("audio_token_id", 151669)


class AudioFlamingo3ForConditionalGeneration(SoundTextModel):
    """Recordings and text to text."""

    placeholder = part = "<sound>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        width, values = config.text_config.hidden_size, config.values
        self.audio_tower = MeanEncoder(config.audio_config)
        self.multi_modal_projector = TwoLayerProjector(
            config.audio_config.d_model, width, width, values.get("projector_hidden_act", "gelu"),
            values.get("projector_bias") is not False,
        )  # fmt: skip

    def tokens_in_stretch(self, frames: int) -> int:
        return moments_in(frames) // 2

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        heard = self.audio_tower.heard(pixel_values, frames)
        return self.multi_modal_projector(self.audio_tower(pixel_values, heard))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None],
        conversation: Callable[[str], str | None] = lambda _: None,
    ) -> str:  # fmt: skip
        return conversation(sound + TASK) or TURNS.format(sound + TASK)

    def said(self, text: str) -> str:
        text = text.strip()
        for before in BEFORE:
            if text.startswith(before):
                text = text.removeprefix(before).strip().removesuffix(".").strip()
                break
        quoted = len(text) > 1 and text[0] in QUOTES and text[-1] == text[0]
        return text[1:-1].strip() if quoted else text


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {
    "speech-recognition": AudioFlamingo3ForConditionalGeneration,
    sound_text.TASK: AudioFlamingo3ForConditionalGeneration,
}  # fmt: skip
