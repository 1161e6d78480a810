"""Small models of timm's library, by name: the architecture and the arguments with which timm makes it, or the blocks
of a network for small devices (models/mobilenet_v3.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SMALL_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
_STAGES = {"depths": [1, 2, 1, 1], "dims": [8, 12, 16, 8]}

CONFIGS: dict[str, dict[str, Any]] = {
    "resnet": {"model_type": "resnet", "timm": ["resnet18", {"layers": [1, 2, 1, 1], "channels": [4, 6, 8, 8]}]},
    "resnet_bottleneck": {
        "model_type": "resnet", "timm": ["resnet50", {"layers": [1, 1, 1, 1], "channels": [4, 6, 4, 4]}],
    },
    "vit": {"model_type": "vit", "timm": ["vit_tiny_patch16_224", _SMALL_VIT]},
    "densenet": {
        "model_type": "densenet", "timm": ["densenet121", {"growth_rate": 4, "block_config": [2, 1, 2, 1]}],
    },
    "vit_clip": {"model_type": "vit", "timm": ["vit_base_patch16_clip_quickgelu_224", _SMALL_VIT]},
    "dinov2": {"model_type": "dinov2", "timm": ["vit_small_patch14_dinov2", _SMALL_VIT]},
    "dinov2_registers": {
        "model_type": "dinov2_with_registers", "timm": ["vit_small_patch14_reg4_dinov2", _SMALL_VIT],
    },
    "convnext": {"model_type": "convnext", "timm": ["convnext_tiny", _STAGES]},
    "convnext_filters": {"model_type": "convnext", "timm": ["convnext_atto", _STAGES]},
    "convnextv2": {"model_type": "convnextv2", "timm": ["convnextv2_atto", _STAGES]},
    "swin": {
        "model_type": "swin",
        "timm": ["swin_tiny_patch4_window7_224", {
            "img_size": 32, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2,
        }],
    },
    "mobilenetv3": {
        "model_type": "mobilenet_v3", "head": "after", "hidden_act": "hardswish", "stem_size": 8, "head_size": 32,
        "blocks": [
            ["ds_r1_k3_s2_c8_se0.25_nre"], ["ir_r1_k3_s2_e4.5_c16_nre", "ir_r1_k5_s1_e3.67_c16_se0.25"],
            ["cn_r1_k1_s1_c24"],
        ],
    },
    "mobilenetv3_tensorflow": {
        "model_type": "mobilenet_v3", "head": "after", "hidden_act": "relu", "stem_size": 8, "head_size": 20,
        "tf_padding": True, "layer_norm_eps": 0.001, "blocks": [["ds_r1_k3_s2_c8"], ["ir_r2_k5_s2_e4_c16"]],
    },
    "mobilenetv4": {
        "model_type": "mobilenet_v3", "head": "normed", "hidden_act": "gelu", "stem_size": 8, "head_size": 20,
        "layer_scale": True,
        "blocks": [
            ["er_r1_k3_s2_e4_c8"], ["uir_r1_a3_k5_s2_e4_c16", "uir_r1_a3_k0_s1_e2_c16", "uir_r1_a0_k0_s1_e2_c16"],
            ["mqa_r1_k3_h4_s1_v2_d6_c16", "uir_r1_a0_k3_s1_e2_c16", "mqa_r1_k3_h2_s1_d8_c16"],
            ["cn_r1_k1_s1_c24"],
        ],
    },
    "efficientnet": {
        "model_type": "mobilenet_v3", "head": "before", "hidden_act": "silu", "hard_squeeze": False, "stem_size": 8,
        "head_size": 20,
        "blocks": [["cn_r2_k3_s1_c8_skip"], ["er_r2_k3_s2_e4_c16"], ["ir_r2_k5_s2_e6_c16_se0.25"],
                   ["ds_r1_k3_s1_c8_se0.25_noskip"]],
    },
}  # fmt: skip
CONFIGS |= {
    name: {
        "model_type": "vgg", "layers": [[4, 6], [8], [4]], "has_norms": norms, "head_size": 32, "inner_size": 40,
    }
    for name, norms in (("vgg", False), ("vgg_norms", True))
}  # fmt: skip
CONFIGS |= {
    "repvgg": {
        "model_type": "repvgg", "blocks": [
            ["rep_r1_k3_s2_c8_se0.25"], ["rep_r1_k3_s2_c16_se0.25", "rep_r1_k3_s1_g4_c16_se0.25"],
            ["rep_r2_k3_s2_c24_se0.25"],
        ],
    },
    "mobileone": {
        "model_type": "repvgg", "blocks": [
            ["one_r1_k3_s2_c8"], ["one_r1_k3_s2_each_b2_c8", "one_r1_k1_s1_b2_c16"],
            ["one_r1_k3_s1_each_b2_c16", "one_r1_k1_s1_b2_c16"],
        ],
    },
    "convmixer": {
        "model_type": "convmixer", "hidden_size": 12, "num_hidden_layers": 2, "kernel_size": 5, "patch_size": 4,
    },
    **{name: {
        "model_type": "efficientvit",
        "timm": [size, {"widths": [4, 6, 8, 8, 16], "depths": [1, 1, 2, 1, 1], "head_dim": 4, "head_widths": [12, 20]}],
    } for name, size in (("efficientvit", "efficientvit_b0"), ("efficientvit_large", "efficientvit_l1"))},
    "efficientvit_msra": {
        "model_type": "efficientvit_msra", "timm": ["efficientvit_m1", {
            "img_size": 96, "embed_dim": [16, 24], "depth": [1, 1], "num_heads": [2, 3], "window_size": [4, 2],
        }],
    },
    "tiny_vit": {
        "model_type": "tiny_vit", "timm": ["tiny_vit_5m_224", {
            "embed_dims": [8, 8, 16, 24], "depths": [1, 1, 2, 1], "num_heads": [2, 2, 4, 3],
            "window_sizes": [4, 4, 3, 2],
        }],
    },
    "dinov3": {"model_type": "dinov3_vit", "timm": ["vit_small_patch16_dinov3", _SMALL_VIT]},
    "beit": {"model_type": "beit", "timm": ["beit_base_patch16_224", _SMALL_VIT]},
    **{name: {
        "model_type": "hiera",
        "timm": [size, {"img_size": 32, "embed_dim": 4, "num_heads": 2, "stages": [1, 1, 2, 1], "patch_stride": [2, 2],
                        **more}],
    } for name, size, more in (("hiera", "hiera_tiny_224", {}),
                               ("hiera_windows", "hiera_small_abswin_256", {"global_pos_size": [7, 7]}))},
    "eva02": {"model_type": "eva02", "timm": ["eva02_base_patch14_224", _SMALL_VIT]},
    "eva02_packed": {"model_type": "eva02", "timm": ["eva02_tiny_patch14_224", _SMALL_VIT]},
    "fastvit": {
        "model_type": "fastvit",
        "timm": ["fastvit_sa12", {"layers": [1, 1, 1, 2], "embed_dims": [8, 8, 16, 64], "mlp_ratios": [2, 2, 2, 2]}],
    },
    "fastvit_large": {
        "model_type": "fastvit", "timm": ["fastvit_mci3", {
            "layers": [1, 1, 1, 1, 1], "embed_dims": [4, 4, 8, 32, 32], "mlp_ratios": [2, 2, 2, 2, 2],
        }],
    },
}  # fmt: skip
LABELS = ("no", "perhaps", "yes")
SIZE = 32  # pixels of a side, unless the arguments say another
QUANTISED = ("mobilenetv3", "vgg")  # run with weights in block types
OTHER_DEVICE = (
    "tiny_vit",
    "eva02",
    "hiera",
    "efficientvit",
    "fastvit",
    "repvgg",
    "mobileone",
    "convmixer",
    "vgg",
    "mobilenetv3",
    "mobilenetv4",
    "efficientnet",
)  # run on another device
FEATURES = ("dinov2", "dinov2_registers", "dinov3")  # compared without a head


def side_of(name: str) -> int:
    """The pixels of a side of the pictures that a model is shown."""
    _, arguments = CONFIGS[name].get("timm", ("", {}))
    found: int = arguments.get("img_size", SIZE)
    return found


def seeded_picture(height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8."""
    return np.random.Generator(np.random.Philox(key=7)).integers(0, 256, (height, width, 3), np.uint8)


# pretrained_cfg of pictures, and their sizes (height, width).
PREPARED: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({"input_size": [3, 24, 24], "crop_pct": 0.875, "interpolation": "bicubic"}, (41, 67)),
    ({"input_size": [3, 24, 24], "crop_pct": 0.9, "interpolation": "bilinear", "mean": [0.5, 0.4, 0.3]}, (70, 33)),
    ({"input_size": [3, 32, 32], "crop_pct": 1.0, "crop_mode": "squash", "std": [0.5, 0.5, 0.25]}, (20, 51)),
    ({"input_size": [3, 24, 16], "crop_pct": 0.8, "crop_mode": "squash", "interpolation": "bicubic"}, (50, 51)),
    ({"input_size": [3, 20, 20], "crop_pct": 0.95, "interpolation": "bicubic"}, (29, 23)),
]
