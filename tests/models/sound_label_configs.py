"""Small configurations of models that name what a recording is of, in the form of config.json."""

from __future__ import annotations

from typing import Any

from tests.models.bank_sound_configs import CONFIGS as BANKS
from tests.models.bank_sound_configs import PLAIN
from tests.models.sound_configs import CONFIGS as ENCODERS

_LABELS = {"id2label": {"0": "a dog", "1": "rain", "2": "music"}, "classifier_proj_size": 20}
CONFIGS: dict[str, dict[str, Any]] = {
    "wav2vec2": ENCODERS["wav2vec2"] | _LABELS,
    "hubert-weighted": ENCODERS["hubert-large"] | _LABELS | {"use_weighted_layer_sum": True},
    "wavlm-weighted": ENCODERS["wavlm"] | _LABELS | {"use_weighted_layer_sum": True},
    "conformer-weighted": ENCODERS["conformer"] | _LABELS | {"use_weighted_layer_sum": True},
    "sew": ENCODERS["sew"] | _LABELS,
    "wav2vec2-bert-weighted": BANKS["wav2vec2-bert"] | PLAIN | _LABELS | {"use_weighted_layer_sum": True},
    "spectrogram": {
        "model_type": "audio-spectrogram-transformer", "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 4, "intermediate_size": 24, "patch_size": 8, "frequency_stride": 6, "time_stride": 5,
        "max_length": 50, "num_mel_bins": 24, "id2label": _LABELS["id2label"],
    },
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["hubert-weighted"]
OTHER_DEVICE = ["spectrogram", "wavlm-weighted"]
CLASSES = {
    "wav2vec2": "Wav2Vec2ForSequenceClassification", "hubert-weighted": "HubertForSequenceClassification",
    "wavlm-weighted": "WavLMForSequenceClassification", "sew": "SEWForSequenceClassification",
    "conformer-weighted": "Wav2Vec2ConformerForSequenceClassification",
    "wav2vec2-bert-weighted": "Wav2Vec2BertForSequenceClassification",
    "spectrogram": "ASTForAudioClassification",
}  # fmt: skip
SAMPLES = (9000, 6400)  # of the two recordings of a batch
LABEL = 1  # of the loss
