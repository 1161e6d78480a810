"""wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477), XLS-R (Babu et al. 2021, arXiv 2111.09296) and MMS (Pratap et
al. 2023, arXiv 2305.13516) in the language of its file, which name a character for each moment. UniSpeech (Wang et al.
2021, arXiv 2101.07597) and UniSpeech-SAT (Chen et al. 2021, arXiv 2110.05752) have its layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.audio.sound import (
    MomentClassifier,
    MomentLabels,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    plain_attention,
    positional_names,
)
from pyapp.nn.audio.speakers import SpeakerEncoder

from .loading.config import require
from .loading.sound_config import LARGEST, SpeakerConfig

MODEL_TYPES = ("wav2vec2", "unispeech", "unispeech-sat")
BASE: Mapping[str, str] = {kind: kind.replace("-", "_") for kind in MODEL_TYPES}
IGNORED = r"(quantizer|project_hid|project_q|speaker_proj|label_embeddings_concat)(\..*)?"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(SpeakerConfig):
    """The fields of config.json."""

    model_type = "wav2vec2"

    adapter_attn_dim: int | None = None
    kind: str = "wav2vec2"  # the model_type

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.adapter_attn_dim
        require(size is None or size <= LARGEST, f"adapter_attn_dim is {size}, expected at most {LARGEST}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        return super().from_dict({**values, "kind": values.get("model_type", MODEL_TYPES[0])})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        values = super().to_dict()
        return values | {"model_type": values.pop("kind")}

    @property
    def base(self) -> str:
        """The encoder's name in files."""
        return BASE[self.kind]

    @property
    def adapter_size(self) -> int | None:
        return self.adapter_attn_dim if self.do_stable_layer_norm else None


def encoder(config: Config) -> SoundEncoder:
    """The encoder of a configuration."""
    return SoundEncoder(config, SoundLayers(config, plain_attention))


class Wav2Vec2ForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.base, encoder(config))


class Wav2Vec2ForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.base, encoder(config))


class Wav2Vec2ForAudioFrameClassification(MomentLabels):
    """Scores of the labels of each moment."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.base, encoder(config))


class Wav2Vec2ForXVector(SpeakerEncoder):
    """Vectors of voices."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.base, encoder(config))


renamed = positional_names
TASKS = {
    "speech-recognition": Wav2Vec2ForCTC,
    "audio-classification": Wav2Vec2ForSequenceClassification,
    "audio-frame-classification": Wav2Vec2ForAudioFrameClassification,
    "audio-xvector": Wav2Vec2ForXVector,
}
