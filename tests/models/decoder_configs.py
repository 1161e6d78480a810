"""Small configurations of every decoder, in the form of config.json."""

from __future__ import annotations

from typing import Any

SMALL = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "llama": SMALL | {"model_type": "llama"},
    "llama-tied": SMALL | {"model_type": "llama", "tie_word_embeddings": True, "attention_bias": True, "head_dim": 12},
}
