"""A small configuration of a model that names characters for moments of filter banks, in the form of config.json."""

from __future__ import annotations

from typing import Any

CONFIGS: dict[str, dict[str, Any]] = {
    "wav2vec2-bert": {
        "model_type": "wav2vec2-bert", "vocab_size": 14, "hidden_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": 24, "feature_projection_input_dim": 20, "add_adapter": True,
        "output_hidden_size": 20, "use_intermediate_ffn_before_adapter": True, "left_max_position_embeddings": 4,
        "right_max_position_embeddings": 2, "conv_depthwise_kernel_size": 5,
    },
}  # fmt: skip
# The same without an adapter, which heads for labels and vectors do not have.
PLAIN = {"add_adapter": False, "output_hidden_size": None, "use_intermediate_ffn_before_adapter": False}
SETTINGS = {"feature_size": 10, "num_mel_bins": 10, "stride": 2, "sampling_rate": 16000, "padding_value": 1}
SAMPLES = (7300, 4800)  # of the two recordings of a batch: an even number of frames each
LABELS = [7, 4, 5]
