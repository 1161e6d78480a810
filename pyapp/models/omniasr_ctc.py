"""Omnilingual ASR with a head over characters (Omnilingual ASR team 2025, arXiv 2511.09690): the encoder of wav2vec 2.0
for 1,600 languages.

The weights of the convolution for positions are whole in Hugging Face's files; parameters have the names of wav2vec
2.0's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pyapp.audio.processors.samples import SampleProcessor
from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn.audio.sound import MomentClassifier, SoundEncoder, SoundLayers, plain_attention

from .loading.config import object_of, read_config, require
from .loading.sound_config import SoundConfig
from .loading.stored import Stored

MODEL_TYPES = ("omniasr_ctc",)
BASE = ""
PIECES = True  # what it names are pieces of a tokenizer
EPSILON = 1e-5  # added to the variance of samples
USUAL = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
NAMES = (
    (r"^model\.audio_tower\.", "audio_tower."), (r"^ctc_head\.", "lm_head."),
    (r"^audio_tower\.subsampling\.conv_layers\.", "audio_tower.feature_extractor.conv_layers."),
    (r"^audio_tower\.subsampling\.", "audio_tower.feature_projection."),
    (r"^audio_tower\.encode_positions\.", "audio_tower.encoder.pos_conv_embed."),
    (r"^audio_tower\.(layers|layer_norm)\.", r"audio_tower.encoder.\1."),
)  # fmt: skip
POSITIONS = "audio_tower.encoder.pos_conv_embed.conv"


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return name


class NormalizedSampleProcessor(SampleProcessor):
    """As SampleProcessor, always with masks."""

    epsilon = EPSILON

    @classmethod
    def from_fields(cls, settings: Mapping[str, Any], where: str) -> Self:
        return cls(super().from_fields(settings, where).normalize, True)


PROCESSOR = NormalizedSampleProcessor


@dataclass(frozen=True, kw_only=True)
class Config(SoundConfig):
    """The fields of audio_config, and those of the head."""

    model_type = MODEL_TYPES[0]

    blank_token_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.blank < self.vocab_size, f"blank_token_id is {self.blank}, of {self.vocab_size:,} pieces")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        audio = object_of(values, "audio_config")
        head = {name: values.get(name, usual) for name, usual in (("vocab_size", 10288), ("blank_token_id", 0))}
        form = {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "mask_time_prob": 0.0}
        told = {**USUAL, "conv_bias": True, **audio}
        act = told.get("hidden_act", "gelu")
        return read_config(cls, {**told, **head, **form, "feat_extract_activation": act})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        head = {name: own.pop(name) for name in ("vocab_size", "blank_token_id", "model_type")}
        return {**head, "audio_config": own | {"model_type": "omniasr_audio"}}

    @property
    def blank(self) -> int:
        """The number that stands for nothing."""
        return self.blank_token_id


class OmniASRForCTC(MomentClassifier):
    """Scores of characters."""

    def __init__(self, config: Config) -> None:
        super().__init__("audio_tower", SoundEncoder(config, SoundLayers(config, plain_attention)))


def _lengths(parts: Sequence[Tensor]) -> Tensor:
    """The lengths (1, 1, K) of the columns of a weight (N, C, K)."""
    weight = parts[0].to("float32")
    return (weight * weight).sum((0, 1), keepdim=True).sqrt()


def stored(config: Config, tensors: Mapping[str, Any]) -> dict[str, Stored]:
    """How files store the weight of the convolution for positions: whole, not by lengths and directions."""
    source, own = (f"{POSITIONS}.weight",), f"{POSITIONS}.parametrizations.weight.original"
    return {f"{own}0": Stored(source, join=_lengths), f"{own}1": Stored(source)}


TASKS: Mapping[str, Any] = {"speech-recognition": OmniASRForCTC}
