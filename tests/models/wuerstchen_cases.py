"""A small Würstchen, as its folders have it."""

from __future__ import annotations

from typing import Any

from tests.models.diffusion_cases import text_config

PRIOR_SETTINGS = {"latent_mean": 3.0, "latent_std": 0.5, "resolution_multiple": 8.0}
DECODER_SETTINGS = {"latent_dim_scale": 2.0}
PRIOR = {"c_in": 2, "c": 8, "c_cond": 12, "c_r": 6, "depth": 2, "nhead": 2}
DECODER: dict[str, Any] = {
    "c_hidden": [4, 8], "nhead": [-1, 2], "blocks": [1, 2], "level_config": ["CT", "CTA"], "c_cond": 6, "c_r": 5,
    "inject_effnet": [False, True], "effnet_embd": 2, "clip_embd": 10,
}  # fmt: skip
VQGAN = {"bottleneck_blocks": 2, "embed_dim": 8, "num_vq_embeddings": 4}
TEXTS = {"prior": text_config(12), "decoder": text_config(10)}
SCHEDULES = {"prior": {}, "decoder": {"scaler": 0.8}}
HEIGHT, WIDTH, STEPS, GUIDANCE = 64, 32, 2, 4.0
LAST = 0.125  # the size of the prior's last weights: it divides by numbers that are near 0 for larger ones
