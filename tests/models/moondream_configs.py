"""A small Moondream, and the text that it reads."""

from __future__ import annotations

from typing import Any

import numpy as np

CONFIGS: dict[str, dict[str, Any]] = {
    "moondream": {
        "model_type": "moondream1",
        "text_config": {
            "model_type": "phi", "vocab_size": 258, "hidden_size": 32, "intermediate_size": 128,
            "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128,
        },
        "vision_config": {
            "image_size": 28, "patch_size": 14, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
            "num_attention_heads": 3,
        },
    },
}  # fmt: skip
QUESTION = "Why?"
# The tokens of a conversation before its picture, and after it: bytes.
BEGIN, BEHIND = [256], list(f"\n\nQuestion: {QUESTION}\n\nAnswer:".encode())


def photo() -> np.ndarray:
    """(28, 28, 3) uint8."""
    return np.random.Generator(np.random.Philox(key=28)).integers(0, 256, (28, 28, 3), np.uint8)


def prepared() -> np.ndarray:
    """The photo as the model sees it: (1, 3, 28, 28) float32."""
    return (photo().astype(np.float32).transpose(2, 0, 1)[None] / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
