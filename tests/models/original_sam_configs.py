"""Small models of Segment Anything as its authors' library and MobileSAM's make them."""

from __future__ import annotations

from typing import Any

_PROMPTS = {"hidden_size": 32, "mask_input_channels": 4}
_MASKS = {
    "hidden_size": 32, "mlp_dim": 24, "num_hidden_layers": 2, "attention_downsample_rate": 2,
    "num_multimask_outputs": 3, "iou_head_depth": 3, "iou_head_hidden_dim": 16,
}  # fmt: skip
# What the tensors of a file say.
CONFIGS: dict[str, dict[str, Any]] = {
    "sam": {
        "model_type": "sam",
        "vision_config": {
            "model_type": "sam_vision_model", "image_size": 24, "patch_size": 4, "num_channels": 3, "hidden_size": 16,
            "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 64, "qkv_bias": True, "window_size": 4,
            "global_attn_indexes": [1], "output_channels": 32, "num_pos_feats": 16,
        },
        "prompt_encoder_config": _PROMPTS, "mask_decoder_config": _MASKS,
    },
    "mobile_sam": {
        "model_type": "mobile_sam",
        "vision_config": {
            "model_type": "tiny_vit", "num_channels": 3, "embed_dims": [8, 8, 12, 320], "depths": [2, 1, 2, 1],
            "num_heads": [1, 2, 3, 10], "window_sizes": [1, 3, 3, 2], "strides": [2, 2, 1], "output_channels": 32,
            "num_pos_feats": 16,
        },
        "prompt_encoder_config": _PROMPTS, "mask_decoder_config": _MASKS,
    },
}  # fmt: skip
SIDES = {"sam": 24, "mobile_sam": 64}  # pixels of the pictures
POINTS, LABELS = [[3.0, 7.5], [14.0, 2.0]], [1, 0]
BOX = [2.0, 3.0, 17.0, 20.0]
