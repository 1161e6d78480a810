"""Small configurations of models that speak dialogues, in the form of config.json."""

from __future__ import annotations

from typing import Any

from tests.models.codec_configs import CONFIGS as CODECS

CODEC = CODECS["dac"]  # of three codebooks with 16 entries
_SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 6}
CONFIGS: dict[str, dict[str, Any]] = {
    "dia": {
        "model_type": "dia", "delay_pattern": [0, 2, 3],
        "encoder_config": _SIZES | {
            "num_key_value_heads": 4, "hidden_size": 20, "intermediate_size": 40, "max_position_embeddings": 128,
        },
        "decoder_config": _SIZES | {
            "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64,
            "cross_num_attention_heads": 4, "cross_head_dim": 8, "cross_num_key_value_heads": 4,
            "cross_hidden_size": 20, "vocab_size": 20, "num_channels": 3, "eos_token_id": 16, "pad_token_id": 17,
            "bos_token_id": 18,
        },
    },
}  # fmt: skip
TEXT = "[S1] It is so. [S2] (laughs) Ä?"
# Two texts with padding at the end.
TEXTS, SHOWN = [[1, 32, 73, 116, 2, 40], [2, 99, 7, 0, 0, 0]], [[1] * 6, [1, 1, 1, 0, 0, 0]]
CODES = [[18, 3, 9, 15, 0], [18, 18, 18, 2, 11], [18, 18, 18, 18, 8]]  # of the codebooks
HEARD, SAMPLES = "[S1] On.", 200  # what was said, and its samples
GENERATION = {"max_length": 24, "guidance_scale": 3.0, "temperature": 1.8, "top_k": 5, "top_p": 0.9, "do_sample": True}
# Those that the tests run with their weights in block types.
QUANTISED = ["dia"]
