"""Small configurations of models with a head over pieces of words for each moment, in the form of config.json."""

from __future__ import annotations

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "omniasr": {
        "model_type": "omniasr_ctc", "vocab_size": 12, "blank_token_id": 2, "audio_config": {
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
            "conv_dim": [16, 16, 24], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 2], "num_conv_pos_embeddings": 8,
            "num_conv_pos_embedding_groups": 4,
        },
    },
    "lasr": {
        "model_type": "lasr_ctc", "vocab_size": 12, "pad_token_id": 2, "encoder_config": {
            "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
            "conv_kernel_size": 4, "subsampling_conv_channels": 6, "num_mel_bins": 8, "max_position_embeddings": 100,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
    },
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "omniasr": {"sampling_rate": 16000, "do_normalize": True}, "lasr": {"sampling_rate": 16000, "feature_size": 8},
}  # fmt: skip
SAMPLES = {"omniasr": (900, 640), "lasr": (7300, 5000)}  # of the two recordings of a batch
# Those that the tests run with their weights in block types.
QUANTISED = ["omniasr", "lasr"]
