"""Adapters to compare with those of peft: a configuration of decoder_configs.py, and the settings of LoraConfig."""

from __future__ import annotations

from typing import Any

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"r": 4, "lora_alpha": 12, "target_modules": ["q_proj", "v_proj"]}),
    "llama-dora": (
        "llama-tied",
        {"r": 2, "use_dora": True, "target_modules": r".*\.(q_proj|down_proj)", "modules_to_save": ["norm"]},
    ),
    "llama-tied-head": (
        "llama-tied",
        {"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
    ),
    "llama-embedding": (
        "llama",
        {"r": 3, "target_modules": ["embed_tokens", "o_proj"], "modules_to_save": ["lm_head"]},
    ),
    "qwen2-rslora": ("qwen2", {"r": 4, "use_rslora": True, "bias": "lora_only", "target_modules": "all-linear"}),
    "qwen3-ranks": (
        "qwen3",
        {
            "r": 2,
            "rank_pattern": {"layers.0.self_attn.q_proj": 4, "gate_proj": 3},
            "alpha_pattern": {"down_proj": 5},
            "target_modules": ["q_proj", "gate_proj", "down_proj"],
            "layers_to_transform": [0, 1],
            "exclude_modules": ["layers.1.self_attn.q_proj"],
        },
    ),
    "gpt2": ("gpt2", {"r": 4, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True, "lora_bias": True}),
    "gpt_neox": ("gpt_neox", {"r": 2, "bias": "all", "target_modules": ["query_key_value"]}),
    "falcon": ("falcon", {"r": 2, "target_modules": "all-linear"}),
    "mixtral-experts": (
        "mixtral",
        {
            "r": 2,
            "target_modules": ["q_proj"],
            "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
            "rank_pattern": {"experts.down_proj": 3},
        },
    ),
    "qwen3_moe-experts": (
        "qwen3_moe",
        {"r": 3, "lora_alpha": 6, "target_modules": [], "target_parameters": ["experts.down_proj"]},
    ),  # fmt: skip
    "phi3": ("phi3", {"r": 2, "target_modules": ["qkv_proj", "gate_up_proj"]}),
}
TEXT = [3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]
