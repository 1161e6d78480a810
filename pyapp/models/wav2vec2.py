"""wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477), XLS-R (Babu et al. 2021, arXiv 2111.09296) and MMS (Pratap et
al. 2023, arXiv 2305.13516) in the language of its file, which name a character for each moment.
"""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn.sound import (
    MomentClassifier,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    plain_attention,
    positional_names,
)

from .loading.config import require
from .loading.sound_config import LARGEST, SoundConfig

MODEL_TYPES = ("wav2vec2",)
BASE = "wav2vec2"
IGNORED = r"(quantizer|project_hid|project_q)\..*"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(SoundConfig):
    """The fields of config.json."""

    model_type = "wav2vec2"

    adapter_attn_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.adapter_attn_dim
        require(size is None or size <= LARGEST, f"adapter_attn_dim is {size}, expected at most {LARGEST}")

    @property
    def adapter_size(self) -> int | None:
        return self.adapter_attn_dim if self.do_stable_layer_norm else None


def encoder(config: Config) -> SoundEncoder:
    """The encoder of a configuration."""
    return SoundEncoder(config, SoundLayers(config, plain_attention))


class Wav2Vec2ForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


class Wav2Vec2ForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


renamed = positional_names
TASKS = {"speech-recognition": Wav2Vec2ForCTC, "audio-classification": Wav2Vec2ForSequenceClassification}
