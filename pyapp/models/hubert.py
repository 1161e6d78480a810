"""HuBERT (Hsu et al. 2021, arXiv 2106.07447): wav2vec 2.0's encoder, trained otherwise."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.nn.audio.sound import (
    MomentClassifier,
    SoundClassifier,
    SoundEncoder,
    SoundLayers,
    plain_attention,
    positional_names,
)

from .loading.sound_config import SoundConfig

MODEL_TYPES = ("hubert",)
BASE = "hubert"


@dataclass(frozen=True, kw_only=True)
class Config(SoundConfig):
    """The fields of config.json."""

    model_type = "hubert"

    feat_proj_layer_norm: bool = True
    conv_pos_batch_norm: bool = False


def encoder(config: Config) -> SoundEncoder:
    """The encoder of a configuration."""
    layers = SoundLayers(config, plain_attention, config.conv_pos_batch_norm)
    return SoundEncoder(config, layers, config.feat_proj_layer_norm)


class HubertForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


class HubertForSequenceClassification(SoundClassifier):
    """Scores of the labels of recordings."""

    def __init__(self, config: Config) -> None:
        super().__init__(BASE, encoder(config))


renamed = positional_names
TASKS = {"speech-recognition": HubertForCTC, "audio-classification": HubertForSequenceClassification}
