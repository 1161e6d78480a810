"""Small configurations of X-Codec, in the form of config.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.seeded import codec_weights, sound_weights

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
}  # fmt: skip
LENGTHS = (401, 330)


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Those of codecs and of what hears; entries of codebooks are as large as vectors."""
    if name.startswith("semantic_model."):
        return sound_weights(name, shape)
    if name.endswith(("inited", "cluster_size")):
        return np.ones(shape, np.float32)
    own = name.replace("acoustic_encoder", "encoder").replace("acoustic_decoder", "decoder")
    return codec_weights(own.replace("embed_avg", "embed"), shape)
