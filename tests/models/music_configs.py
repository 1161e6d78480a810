"""Small configurations of models that make music, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.codec_configs import CONFIGS as CODECS
from tests.models.sequence_configs import CONFIGS as TEXTS

_CODEC = CODECS["encodec"] | {"target_bandwidths": [2.4], "use_causal_conv": False}  # three codebooks
_DECODER = {
    "model_type": "musicgen_decoder", "vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 2, "ffn_dim": 24, "num_codebooks": 3, "max_position_embeddings": 60, "pad_token_id": 16,
    "bos_token_id": 16,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "musicgen": {
        "model_type": "musicgen", "text_encoder": TEXTS["t5"], "audio_encoder": _CODEC,
        "decoder": _DECODER | {"hidden_size": 32, "ffn_dim": 64},
    },
    "musicgen-same-width": {
        "model_type": "musicgen", "text_encoder": TEXTS["flan_t5"], "audio_encoder": _CODEC, "decoder": _DECODER,
    },
    "musicgen_melody": {
        "model_type": "musicgen_melody", "text_encoder": TEXTS["t5"], "audio_encoder": _CODEC, "chroma_length": 8,
        "decoder": _DECODER | {
            "model_type": "musicgen_melody_decoder", "hidden_size": 24, "max_position_embeddings": 71,
        },
    },
}  # fmt: skip
# Those that the tests run with their weights in block types, and on another device.
QUANTISED = ["musicgen"]
OTHER_DEVICE = ["musicgen"]
IDS = [5, 17, 30, 8, 21, 12, 1]  # of a text
CODES = [[16, 3, 9, 15, 0], [16, 16, 7, 2, 11], [16, 16, 16, 4, 8]]  # of the codebooks
MELODY = [4, 0, 11, 7, 7]  # the notes of moments
MOMENTS = 12  # that are written
GUIDANCE = 3.0


def tune(rate: int) -> tuple[Any, int]:
    """Two seconds of notes with overtones, float32, and their rate."""
    times = np.arange(2 * rate) / rate
    pitch = np.where(times < 0.7, 262.0, np.where(times < 1.3, 392.0, 466.0))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    return (0.4 * np.sin(phase) + 0.2 * np.sin(3 * phase + 0.4)).astype(np.float32), rate
