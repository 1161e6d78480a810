"""Image processors and the pictures that they prepare, for the golden file and the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

SIZES = ((30, 41), (64, 23))  # of the pictures


def square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


# The name without "ImageProcessor", and the settings of a preprocessor_config.json.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViT", {"size": square(24)}),
    "vit_plain": ("ViT", {"size": square(20), "do_normalize": False, "resample": 0}),
    "levit": ("Levit", {"size": {"shortest_edge": 24}, "crop_size": square(24)}),
    "mobilevit": ("MobileViT", {"size": {"shortest_edge": 28}, "crop_size": square(24), "resample": 0}),
    "pvt": ("Pvt", {"size": square(24)}),
    "perceiver": ("Perceiver", {"size": square(20), "crop_size": square(24)}),
    "pix2struct": ("Pix2Struct", {"max_patches": 20, "patch_size": square(4)}),
    "sam3": ("Sam3", {"size": square(26)}),
    "poolformer": ("PoolFormer", {"size": {"shortest_edge": 24}, "crop_size": square(22), "crop_pct": 0.85}),
    "videomae": ("VideoMAE", {"size": {"shortest_edge": 24}, "crop_size": square(20)}),
    "vivit": ("Vivit", {"size": {"shortest_edge": 26}, "crop_size": {"height": 20, "width": 24}}),
    "deit": ("DeiT", {"size": square(32), "crop_size": {"height": 24, "width": 20}}),
    "beit": ("Beit", {"size": {"height": 20, "width": 33}, "do_rescale": False}),
    "dinov2": ("Bit", {"size": {"shortest_edge": 28}, "crop_size": square(25)}),
    "clip": ("CLIP", {"size": {"shortest_edge": 24}, "crop_size": square(40)}),
    "siglip": ("Siglip", {"size": square(24), "resample": 1}),
    "siglip2": ("Siglip2", {"patch_size": 3, "max_num_patches": 40}),
    "chinese_clip": ("ChineseCLIP", {"size": {"height": 20, "width": 26}, "crop_size": square(18)}),
    "owlvit": ("OwlViT", {"size": square(20)}),
    "owlv2_unresized": ("Owlv2", {"do_resize": False, "image_mean": [0.5, 0.4, 0.3]}),
    "depth_pro_nearest": ("DepthPro", {"size": square(25), "resample": 0}),
    "depth_pro_bicubic": ("DepthPro", {"size": {"height": 30, "width": 21}, "resample": 3}),
    "zoedepth_bicubic": ("ZoeDepth", {"size": square(24), "ensure_multiple_of": 4, "resample": 3}),
    "owlv2": ("Owlv2", {"size": {"height": 24, "width": 40}}),
    "blip": ("Blip", {"size": square(24)}),
    "convnext": ("ConvNext", {"size": {"shortest_edge": 24}, "crop_pct": 0.8}),
    "convnext_large": ("ConvNext", {"size": {"shortest_edge": 384}}),
    "mobilenet_v1": ("MobileNetV1", {"size": {"shortest_edge": 26}, "crop_size": square(20)}),
    "mobilenet_v2": ("MobileNetV2", {"size": {"shortest_edge": 30}, "crop_size": square(24)}),
    "efficientnet": ("EfficientNet", {"size": square(24), "rescale_factor": 1 / 127.5, "rescale_offset": True}),
    "donut": ("Donut", {"size": {"height": 40, "width": 30}, "do_align_long_axis": True}),
    "nougat": ("Nougat", {"size": {"height": 40, "width": 30}}),
    "donut_wide": ("Donut", {"size": {"height": 20, "width": 60}}),
    "detr": ("Detr", {"size": {"shortest_edge": 24, "longest_edge": 40}}),
    "yolos": ("Yolos", {"size": {"shortest_edge": 40, "longest_edge": 80}}),
    "grounding_dino": ("GroundingDino", {"size": {"shortest_edge": 24, "longest_edge": 40}}),
    "mask2former": ("Mask2Former", {"size": {"shortest_edge": 24, "longest_edge": 40}, "size_divisor": 16}),
    "eomt": ("Eomt", {"size": {"shortest_edge": 24, "longest_edge": 24}, "do_pad": True}),
    "eomt_split": ("Eomt", {"size": {"shortest_edge": 20, "longest_edge": None}, "do_split_image": True}),
    "maskformer": ("MaskFormer", {"size": {"shortest_edge": 20, "longest_edge": 34}, "size_divisor": 8}),
    "oneformer": ("OneFormer", {"size": {"shortest_edge": 20, "longest_edge": 34}}),
    "superpoint": ("SuperPoint", {"size": {"height": 24, "width": 32}}),
    "superpoint_grey": ("SuperPoint", {"size": {"height": 24, "width": 32}, "do_grayscale": True}),
    "vilt": ("Vilt", {"size": {"shortest_edge": 20}, "size_divisor": 4}),
    "rt_detr": ("RTDetr", {"size": square(32)}),
    "segformer": ("Segformer", {"size": square(28), "resample": 4}),
    "llava": ("Llava", {"size": {"shortest_edge": 24}, "crop_size": square(24), "do_pad": True}),
    "gemma3": ("Gemma3", {"size": square(24)}),
    "gemma3_crops": ("Gemma3", {
        "size": square(24), "do_pan_and_scan": True, "pan_and_scan_min_crop_size": 8, "pan_and_scan_max_num_crops": 3,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    }),
    "idefics3": ("Idefics3", {"size": {"longest_edge": 50}, "max_image_size": {"longest_edge": 14}}),
    "idefics3_whole": (
        "Idefics3",
        {"size": {"longest_edge": 50}, "max_image_size": {"longest_edge": 26}, "do_image_splitting": False},
    ),
    "smolvlm": ("SmolVLM", {"size": {"longest_edge": 31}, "max_image_size": {"longest_edge": 32}}),
    "cohere2_vision": ("Cohere2Vision", {"size": square(14), "max_patches": 7}),
    "gemma4": ("Gemma4", {"patch_size": 3, "pooling_kernel_size": 2, "max_soft_tokens": 70}),
    "qwen2_vl": ("Qwen2VL", {"min_pixels": 400, "max_pixels": 800, "patch_size": 5}),
    "qwen2_vl_small": ("Qwen2VL", {"size": {"shortest_edge": 4000, "longest_edge": 9000}, "patch_size": 3}),
    "paddleocr_vl": ("PaddleOCRVL", {"min_pixels": 400, "max_pixels": 3000, "patch_size": 15}),
    "glm4v": ("Glm4v", {"size": {"shortest_edge": 900, "longest_edge": 2400}, "patch_size": 5}),
    "glm4v_small": ("Glm4v", {"size": {"shortest_edge": 9000, "longest_edge": 90000}, "patch_size": 14}),
    "glm46v": ("Glm46V", {"size": {"shortest_edge": 900, "longest_edge": 2400}, "patch_size": 5}),
    "janus": ("Janus", {"size": square(24)}),
    "deepseek_vl": ("DeepseekVL", {"size": square(32), "min_size": 16, "image_mean": [0.5, 0.4, 0.3]}),
    "chameleon": ("Chameleon", {"size": {"shortest_edge": 28}, "crop_size": square(24)}),
    "ovis2": ("Ovis2", {"size": square(14), "crop_to_patches": True, "max_patches": 7}),
    "ovis2_shape": (
        "Ovis2", {"size": square(14), "crop_to_patches": True, "max_patches": 5, "use_covering_area_grid": False},
    ),
    "aria": ("Aria", {"max_image_size": 490, "min_image_size": 200}),
    "fuyu": ("Fuyu", {"size": {"height": 24, "width": 36}, "patch_size": {"height": 6, "width": 6}}),
    "pixtral": ("Pixtral", {"size": {"longest_edge": 37}, "patch_size": 6}),
    "llava_next": ("LlavaNext", {
        "size": {"shortest_edge": 14}, "crop_size": square(14), "image_grid_pinpoints": [[14, 28], [28, 14], [28, 28]],
    }),
    "llava_onevision": ("LlavaOnevision", {
        "size": square(14), "image_grid_pinpoints": [[14, 28], [28, 14], [28, 28]],
    }),
    "internvl": ("GotOcr2", {"size": square(14), "crop_to_patches": True, "min_patches": 2, "max_patches": 6}),
    "internvl_whole": ("GotOcr2", {"size": square(20)}),
    "idefics2": ("Idefics2", {"size": {"shortest_edge": 20, "longest_edge": 37}}),
    "idefics2_quarters": ("Idefics2", {"size": {"shortest_edge": 9, "longest_edge": 25}, "do_image_splitting": True}),
    "lfm2_vl": ("Lfm2Vl", {
        "tile_size": 16, "encoder_patch_size": 4, "max_tiles": 6, "min_image_tokens": 4, "max_image_tokens": 9,
    }),
    "lfm2_vl_whole": ("Lfm2Vl", {
        "do_image_splitting": False, "encoder_patch_size": 4, "min_image_tokens": 40, "max_image_tokens": 64,
    }),
    "llama4": ("Llama4", {"size": square(14), "max_patches": 6}),
    "mllama": ("Mllama", {"size": square(14), "max_image_tiles": 4}),
    "dpt": ("DPT", {"size": {"height": 23, "width": 38}, "ensure_multiple_of": 4}),
    "prompt_depth": ("PromptDepthAnything", {"size": square(37), "keep_aspect_ratio": True, "ensure_multiple_of": 7}),
    "dpt_scaled": ("DPT", {"size": square(37), "keep_aspect_ratio": True, "ensure_multiple_of": 7}),
    "zoedepth": ("ZoeDepth", {"size": square(24), "ensure_multiple_of": 4, "do_pad": True}),
    "glpn": ("GLPN", {"size_divisor": 8}),
    "depth_pro": ("DepthPro", {"size": square(25)}),
    "swin2sr": ("Swin2SR", {"pad_size": 32}),
    "sam": ("Sam", {"size": {"longest_edge": 32}, "pad_size": square(32)}),
}  # fmt: skip
TOGETHER = ("detr", "yolos")  # prepared as one batch, and padded


MARGINS = ("nougat",)


def pictures(name: str = "") -> list[np.ndarray]:
    """uint8 (H, W, 3): smooth colours with noise; for the case `name` with white around them, if it is of MARGINS."""
    found = []
    for height, width in SIZES:
        generator = np.random.Generator(np.random.Philox(key=height))
        y, x = np.mgrid[:height, :width]
        waves = [120 + 100 * np.sin(x / (4 + i)) * np.cos(y / (7 - i)) for i in range(3)]
        noise = generator.normal(0, 30, (height, width, 3))
        found.append(np.clip(np.stack(waves, 2) + noise, 0, 255).astype("uint8"))
    if name in MARGINS:
        return [np.pad(picture, ((5, 9), (12, 3), (0, 0)), constant_values=255) for picture in found]
    return found
