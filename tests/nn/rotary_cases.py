"""Configurations of rotary positions, for golden_rotary.json and its test: name to (configuration, length)."""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}


def _with(parameters: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {**BASE, "rope_parameters": {"rope_theta": 10000.0, **parameters}, **others}


_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_LONG = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 32,
    "short_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5],
    "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 12.0, 20.0, 30.0],
}

CASES: dict[str, tuple[dict[str, Any], int | None]] = {
    "default": (_with({"rope_type": "default"}), None),
    "theta": (_with({"rope_type": "default", "rope_theta": 5e5}, head_dim=24), None),
    "linear": (_with({"rope_type": "linear", "factor": 2.5}), None),
    "linear_partial": (_with({"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}), None),
    "dynamic": (_with({"rope_type": "dynamic", "factor": 2.0}), None),
    "dynamic_long": (_with({"rope_type": "dynamic", "factor": 2.0}), 300),
    "yarn": (_with(_YARN), None),
    "yarn_mscale": (
        _with({**_YARN, "mscale": 0.707, "mscale_all_dim": 1.2, "beta_fast": 16.0, "beta_slow": 2.0}),
        None,
    ),
    "yarn_attention_factor": (_with({**_YARN, "attention_factor": 1.25, "truncate": False}), None),
    "longrope_short": (_with(_LONG), None),
    "longrope_long": (_with(_LONG), 100),
    "longrope_factor": (_with({**_LONG, "factor": 16.0}), 100),
    "llama3": (_with({**_LLAMA3, "rope_theta": 5e5, "original_max_position_embeddings": 64}, head_dim=64), None),
}
