"""Small configurations of X-Codec and X-Codec 2, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import codec_weights, draw, sound_weights

_HEARS = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "conv_dim": [8, 8],
    "conv_stride": [5, 4], "conv_kernel": [8, 4], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
ACOUSTIC = {
    "model_type": "dac", "encoder_hidden_size": 4, "downsampling_ratios": [5, 4], "decoder_hidden_size": 16,
    "upsampling_ratios": [5, 4], "hidden_size": 10,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "hubert": {
        "model_type": "xcodec", "target_bandwidths": [0.5, 1], "sample_rate": 1600, "codebook_size": 16,
        "acoustic_model_config": ACOUSTIC, "semantic_model_config": _HEARS | {"model_type": "hubert"},
    },
    "xcodec2": {
        "model_type": "xcodec2", "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "encoder_hidden_size": 2,
        "downsampling_ratios": [4, 4, 4, 5], "quantization_dim": 48, "quantization_levels": [4, 5, 3, 8],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "semantic_model_config": {
            "model_type": "wav2vec2-bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
            "intermediate_size": 24, "feature_projection_input_dim": 20, "left_max_position_embeddings": 4,
            "right_max_position_embeddings": 2, "conv_depthwise_kernel_size": 5,
        },
    },
}  # fmt: skip
LENGTHS = {"hubert": (401, 330), "xcodec2": (1601, 960)}


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Those of codecs and of what hears; entries of codebooks are as large as vectors."""
    if name.endswith((".alpha", ".beta")) and len(shape) == 1:  # logarithms
        return draw(name, shape)
    if name.startswith(("semantic_model.", "semantic_encoder.")):
        return sound_weights(name, shape)
    if name.endswith(("inited", "cluster_size")):
        return np.ones(shape, np.float32)
    own = name.replace("acoustic_encoder", "encoder").replace("acoustic_decoder", "decoder")
    return codec_weights(own.replace("embed_avg", "embed"), shape)
