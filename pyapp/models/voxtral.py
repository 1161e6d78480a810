"""Voxtral (Liu et al. 2025, arXiv 2507.13264): Whisper's encoder hears stretches of 30 seconds, a projector joins four
of its vectors each to one, and these stand before a language model, which writes what was said or answers questions.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn.audio.sound_text import SoundTextModel, SpectrogramEncoder, TwoLayerProjector

from .loading import sound_text
from .loading.config import require
from .loading.sound_text import SoundTextConfig

MODEL_TYPES = ("voxtral",)
BASE = ""


@dataclass(frozen=True)
class Config(SoundTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    token = ("audio_token_id", 24)
    usual = {
        "vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
        "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1e8,
        "head_dim": 128,
    }  # fmt: skip

    def check(self) -> None:
        super().check()
        audio = self.audio_config
        numbers = audio.max_source_positions * audio.d_model
        require(
            numbers % audio.encoder_ffn_dim == 0,
            f"vectors of {audio.d_model} numbers at {audio.max_source_positions} positions cannot be joined to "
            f"vectors of {audio.encoder_ffn_dim}",
        )


class VoxtralForConditionalGeneration(SoundTextModel):
    """Recordings and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.audio_tower = SpectrogramEncoder(config.audio_config)
        width = config.text_config.hidden_size
        self.multi_modal_projector = TwoLayerProjector(
            config.audio_config.encoder_ffn_dim, width, width, config.values.get("projector_hidden_act", "gelu"), False
        )

    def tokens_in_stretch(self, frames: int) -> int:
        audio = self.config.audio_config
        found: int = audio.max_source_positions * audio.d_model // audio.encoder_ffn_dim
        return found

    def picture_features(self, pixel_values: Tensor, frames: Sequence[int] | None = None) -> Tensor:
        """As SoundTextModel's; silence that fills a stretch is heard."""
        x = self.audio_tower(pixel_values)  # (B, T, D)
        return self.multi_modal_projector(x.reshape(x.shape[0], self.picture_tokens, -1))

    def transcription_prompt(
        self, sound: str, language: str | None, ends: Collection[str | None], conversation: Any = None
    ) -> str:
        told = "" if language is None else f"lang:{language}"
        return f"<s>[INST][BEGIN_AUDIO]{sound}[/INST]{told}[TRANSCRIBE]"


renamed = sound_text.renamed
TASKS: Mapping[str, Any] = {
    "speech-recognition": VoxtralForConditionalGeneration, sound_text.TASK: VoxtralForConditionalGeneration,
}  # fmt: skip
