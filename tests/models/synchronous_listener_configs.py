"""Small configurations of models that hear a moment with each token that they write, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.codec_configs import CONFIGS as CODECS
from tests.models.seeded import frame_weights, sound_weights

PADDING = 32  # the token that says nothing, of Voxtral Realtime
CONFIGS: dict[str, dict[str, Any]] = {
    "kyutai": {
        "model_type": "kyutai_speech_to_text", "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "ffn_dim": 96, "sliding_window": 7,
        "max_position_embeddings": 256, "num_codebooks": 3, "codebook_vocab_size": 17, "audio_bos_token_id": 16,
        "audio_pad_token_id": 91, "pad_token_id": 3, "bos_token_id": 39, "rms_norm_eps": 1e-8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "codec_config": CODECS["mimi"] | {"num_quantizers": 3},
    },
    "voxtral": {
        "model_type": "voxtral_realtime", "default_num_delay_tokens": 3, "downsample_factor": 2,
        "audio_length_per_tok": 4,
        "text_config": {
            "model_type": "voxtral_realtime_text", "vocab_size": 400, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
            "max_position_embeddings": 192, "sliding_window": 9, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "audio_config": {
            "model_type": "voxtral_realtime_encoder", "hidden_size": 24, "intermediate_size": 40,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_mel_bins": 8, "head_dim": 8, "sliding_window": 6,
            "max_position_embeddings": 100, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
}  # fmt: skip
# Of preprocessor_config.json.
SETTINGS: dict[str, dict[str, Any]] = {
    "kyutai": {
        "sampling_rate": CODECS["mimi"]["sampling_rate"], "audio_silence_prefix_seconds": 0.02,
        "audio_delay_seconds": 0.1,
    },
    "voxtral": {"feature_size": 8, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "win_length": 400},
}  # fmt: skip
SAMPLES = 25000  # of the recording, at 16 kHz
AT_CODEC = 900  # and at the codec's rate
TOKENS = 7  # of a text that is read whole: transformers does not limit what Kyutai's model then attends to
# Those that the tests run with their weights in block types.
QUANTISED = ["voxtral", "kyutai"]


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """As `frame_weights`, or `sound_weights`; tokens count as much as what is heard."""
    if "audio_tower." in name or "multi_modal_projector." in name:
        return sound_weights(name, shape) * np.float32(3 if "multi_modal" in name else 1)
    return frame_weights(name, shape) * np.float32(2 if name.startswith("model.embed_tokens") else 1)
