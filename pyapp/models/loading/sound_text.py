"""What the language models that hear share: their configuration, whose language model is another architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from pyapp.dataclass import dataclass

from . import picture_text
from .config import check_divides, check_fields, read_config, require

TASK = "audio-text-to-text"
MOST_POSITIONS = 1 << 15  # of an encoder
# The names of fields of audio_config in some files, and those here.
NAMES = {
    "hidden_size": "d_model", "num_hidden_layers": "encoder_layers", "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}  # fmt: skip


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return picture_text.renamed(re.sub(r"^model\.audio_tower\.", "audio_tower.", name))


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The fields of audio_config: those of Whisper's encoder."""

    num_mel_bins: int = 128
    max_source_positions: int = 1500
    d_model: int = 1280
    encoder_layers: int = 32
    encoder_attention_heads: int = 20
    encoder_ffn_dim: int = 5120
    activation_function: str = "gelu"

    def __post_init__(self) -> None:
        check_fields(self)
        check_divides(self, "encoder_attention_heads", "d_model")
        positions = self.max_source_positions
        require(positions <= MOST_POSITIONS, f"max_source_positions is {positions:,}, at most {MOST_POSITIONS:,}")
        require(self.encoder_layers <= 1 << 10, f"encoder_layers is {self.encoder_layers:,}")
        require(self.num_mel_bins <= 201, f"num_mel_bins is {self.num_mel_bins}, at most 201")
        require(self.encoder_ffn_dim <= 1 << 20, f"encoder_ffn_dim is {self.encoder_ffn_dim:,}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From an audio_config; other keys are ignored."""
        return read_config(cls, {NAMES.get(name, name): value for name, value in values.items()})


@dataclass(frozen=True)
class SoundTextConfig(picture_text.MixedTextConfig):
    """The configurations of both parts."""

    model_type: ClassVar[str]
    audio_class: ClassVar[type[EncoderConfig]] = EncoderConfig

    audio_config: EncoderConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        text, audio = cls.parts(values, "audio_config")
        made = cls(text, dict(values), cls.audio_class.from_dict(audio))
        made.check()
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {"model_type": self.model_type, "text_config": self.text_config.to_dict()}
        return {**self.values, **own, "audio_config": asdict(self.audio_config)}
