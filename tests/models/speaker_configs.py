"""Small configurations of models that make a vector of a voice, in the form of config.json."""

from __future__ import annotations

from typing import Any

from tests.models.bank_sound_configs import CONFIGS as BANKS
from tests.models.bank_sound_configs import PLAIN
from tests.models.sound_configs import CONFIGS as ENCODERS

_DELAYS = {
    "tdnn_dim": [12, 20, 16], "tdnn_kernel": [3, 2, 1], "tdnn_dilation": [1, 3, 1], "xvector_output_dim": 10,
    "num_labels": 3,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "wavlm": ENCODERS["wavlm"] | _DELAYS,
    "wav2vec2-weighted": ENCODERS["wav2vec2-large"] | _DELAYS | {"use_weighted_layer_sum": True},
    "unispeech-sat": ENCODERS["unispeech-sat"] | _DELAYS,
    "wav2vec2-bert": BANKS["wav2vec2-bert"] | PLAIN | _DELAYS,
}
# With labels of each moment.
MOMENTS: dict[str, dict[str, Any]] = {
    "wavlm": ENCODERS["wavlm"] | {"num_labels": 3},
    "wav2vec2-weighted": ENCODERS["wav2vec2-large"] | {"num_labels": 2, "use_weighted_layer_sum": True},
    "wav2vec2-bert": BANKS["wav2vec2-bert"] | PLAIN | {"num_labels": 3},
    "conformer": ENCODERS["conformer"] | {"id2label": {"0": "Ada", "1": "Bob", "2": "Cleo"}},
}
CLASSES = {
    "wavlm": "WavLMForXVector", "wav2vec2-weighted": "Wav2Vec2ForXVector", "unispeech-sat": "UniSpeechSatForXVector",
    "wav2vec2-bert": "Wav2Vec2BertForXVector",
}  # fmt: skip
SAMPLES = (900, 640)  # of the two recordings of a batch
OF_BANKS = (7300, 4800)  # and where the model hears filter banks


def samples(name: str) -> tuple[int, int]:
    """Of the two recordings of a batch for a model."""
    return OF_BANKS if name in BANKS else SAMPLES
