"""Small configurations of Perceiver, by the class of transformers."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "model_type": "perceiver", "num_latents": 5, "d_latents": 16, "d_model": 24, "num_self_attends_per_block": 2,
    "num_self_attention_heads": 4, "num_cross_attention_heads": 2, "max_position_embeddings": 9,
    "id2label": {"0": "no", "1": "perhaps", "2": "yes"},
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "MaskedLM": _SIZES | {"num_blocks": 2, "qk_channels": 8, "v_channels": 16},
    "SequenceClassification": _SIZES | {"self_attention_widening_factor": 2, "use_query_residual": False},
    "ImageClassificationLearned": _SIZES | {"image_size": 9},
    "ImageClassificationFourier": _SIZES | {"cross_attention_shape_for_attention": "q", "num_cross_attention_heads": 1},
    "ImageClassificationConvProcessing": _SIZES | {
        "num_cross_attention_heads": 1, "cross_attention_widening_factor": 3,
    },
}  # fmt: skip
# The rows and columns of pictures; the others read texts.
PICTURES = {
    "ImageClassificationLearned": (9, 9), "ImageClassificationFourier": (8, 11),
    "ImageClassificationConvProcessing": (19, 30),
}  # fmt: skip
IDS = [[4, 70, 80, 3, 200, 5], [4, 90, 100, 5, 0, 0]]  # two texts, of which one has padding
