"""Small configurations of language models that write the codes of moments, in the form of config.json."""

from __future__ import annotations

from typing import Any

from tests.models.codec_configs import CONFIGS as CODECS

_DECODER = {
    "num_codebooks": 3, "vocab_size": 19, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "rms_norm_eps": 1e-5, "head_dim": 8,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "csm": {
        "model_type": "csm", **_DECODER, "hidden_size": 32, "max_position_embeddings": 64, "text_vocab_size": 40,
        "codebook_pad_token_id": 18, "codebook_eos_token_id": 0, "pad_token_id": 3, "bos_token_id": 1,
        "audio_token_id": 4, "audio_eos_token_id": 5, "codec_config": CODECS["mimi"] | {"num_quantizers": 3},
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "depth_decoder_config": {
            **_DECODER, "model_type": "csm_depth_decoder_model", "hidden_size": 24, "backbone_hidden_size": 32,
            "max_position_embeddings": 5, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        },
    },
}  # fmt: skip
IDS = ([1, 9, 20, 31, 2], [1, 7, 33, 2])  # of two turns
SAMPLES = 300  # of the first
MOMENTS = 6  # that are written
# Those that the tests run with their weights in block types.
QUANTISED = ["csm"]
