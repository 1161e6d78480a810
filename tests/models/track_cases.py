"""A small Segment Anything 2 with a memory, as config.json has it, and what is followed through a small video."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.diffusion_cases import numbers
from tests.models.picture_configs import CONFIGS

_OWN = CONFIGS["sam2"]
WIDTH, FRAMES, FIRST = 128, 7, 3
RAISED = 0.72  # what the bias of the score has more, so that objects are there in some frames
CONFIG: dict[str, Any] = _OWN | {
    "model_type": "sam2_video", "image_size": 32, "num_maskmem": 3, "max_object_pointers_in_encoder": 4,
    "vision_config": _OWN["vision_config"] | {"fpn_hidden_size": WIDTH},
    "prompt_encoder_config": _OWN["prompt_encoder_config"] | {"hidden_size": WIDTH},
    "mask_decoder_config": _OWN["mask_decoder_config"] | {"hidden_size": WIDTH},
    "memory_attention_hidden_size": WIDTH, "memory_attention_num_layers": 2,
    "memory_attention_feed_forward_hidden_size": 24, "memory_attention_rope_feat_sizes": [2, 2],
    "memory_encoder_hidden_size": WIDTH, "mask_downsampler_embed_dim": WIDTH, "memory_fuser_embed_dim": WIDTH,
    "memory_fuser_num_layers": 1, "memory_fuser_intermediate_dim": 20, "memory_fuser_kernel_size": 3,
    "memory_fuser_padding": 1,
}  # fmt: skip
PLAIN = {  # without what newer files add
    "enable_temporal_pos_encoding_for_object_pointers": False, "enable_occlusion_spatial_embedding": False,
    "multimask_output_for_tracking": False,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {"newer": CONFIG, "older": CONFIG | PLAIN}
# Of each object: points with labels, and a box, in pixels of the model.
OBJECTS: list[tuple[list[list[float]], list[int], list[float] | None]] = [
    ([[5, 9]], [1], None), ([[20, 11], [3, 30]], [1, 0], [8, 4, 28, 26]), ([], [], [2, 3, 20, 30]),
]  # fmt: skip


def video() -> np.ndarray:
    """The frames (T, 3, 32, 32), as the model reads them."""
    return numbers(40, FRAMES, 3, 32, 32)
