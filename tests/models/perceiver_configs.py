"""Small configurations of Perceiver, by the class of transformers."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "model_type": "perceiver", "num_latents": 5, "d_latents": 16, "d_model": 24, "num_self_attends_per_block": 2,
    "num_self_attention_heads": 4, "num_cross_attention_heads": 2, "max_position_embeddings": 9,
    "id2label": {"0": "no", "1": "perhaps", "2": "yes"},
}  # fmt: skip
# By the class: (the task, the configuration, the rows and columns of pictures).
CONFIGS: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "MaskedLM": ("masked-lm", _SIZES | {"num_blocks": 2, "qk_channels": 8, "v_channels": 16}, (0, 0)),
    "SequenceClassification": (
        "sequence-classification", _SIZES | {"self_attention_widening_factor": 2, "use_query_residual": False}, (0, 0),
    ),
    "ImageClassificationLearned": ("image-classification", _SIZES | {"image_size": 9}, (9, 9)),
    "ImageClassificationFourier": (
        "image-classification", _SIZES | {"cross_attention_shape_for_attention": "q", "num_cross_attention_heads": 1},
        (8, 11),
    ),
    "ImageClassificationConvProcessing": (
        "image-classification", _SIZES | {"num_cross_attention_heads": 1, "cross_attention_widening_factor": 3},
        (19, 30),
    ),
}  # fmt: skip
IDS = [[4, 70, 80, 3, 200, 5], [4, 90, 100, 5, 0, 0]]  # two texts, of which one has padding
