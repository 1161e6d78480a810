"""Small models that write by masked diffusion, and the settings of the texts that golden_denoising.json has of them."""

from __future__ import annotations

from typing import Any

SMALL = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "mask_token_id": 95, "rope_theta": 10000.0,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "llada": SMALL | {"model_type": "llada", "num_key_value_heads": 4, "rms_norm_eps": 1e-6},
    "dream": SMALL | {"model_type": "Dream", "num_key_value_heads": 2},
}
PROMPT = [3, 17, 5, 60, 8, 44]
# (model, new tokens, settings of denoising)
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("llada", 24, {"steps": 24, "block_length": 8}),
    ("llada", 24, {"steps": 9, "block_length": 8}),
    ("llada", 20, {"steps": 6, "block_length": 20}),
    ("llada", 16, {"steps": 8, "block_length": 8, "guidance_scale": 2.5}),
    ("dream", 24, {"steps": 24, "remasking": "entropy"}),
    ("dream", 24, {"steps": 7, "remasking": "entropy"}),
    ("dream", 24, {"steps": 40, "remasking": "maskgit_plus"}),
    ("dream", 24, {"steps": 10, "remasking": "topk_margin"}),
]
