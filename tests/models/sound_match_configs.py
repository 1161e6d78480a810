"""Small configurations of models of recordings and texts, in the form of config.json."""

from __future__ import annotations

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "clap": {
        "model_type": "clap", "projection_dim": 12,
        "text_config": {
            "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 24, "max_position_embeddings": 24,
        },
        "audio_config": {
            "window_size": 4, "num_mel_bins": 16, "spec_size": 64, "patch_size": 4, "patch_stride": [4, 4],
            "hidden_size": 32, "depths": [2, 2], "num_attention_heads": [2, 4], "patch_embeds_hidden_size": 16,
            "mlp_ratio": 2.0,
        },
    },
}  # fmt: skip
CONFIGS["clap-fused"] = CONFIGS["clap"] | {
    "audio_config": CONFIGS["clap"]["audio_config"] | {
        "num_mel_bins": 64, "spec_size": 128, "depths": [1, 1], "enable_fusion": True, "window_size": 4,
    },
}  # fmt: skip
SETTINGS = {"feature_size": 16, "max_length_s": 2, "frequency_min": 50, "truncation": "rand_trunc"}
FUSED = {"feature_size": 64, "max_length_s": 2, "frequency_min": 50, "truncation": "fusion"}
SAMPLES = (70000, 96000)  # of the recordings: one that is repeated, and one of the whole length
FUSED_SAMPLES = (70000, 150000)  # one that is repeated, and one that is longer
TEXTS = [[0, 5, 9, 33, 2], [0, 21, 2]]
# Those that the tests run with their weights in block types.
QUANTISED = ["clap"]
