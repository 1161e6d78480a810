"""RepVGG, MobileOne, ConvMixer, FastViT, EfficientViT, TinyViT and Hiera as timm's library names them, described as
models/ reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

CHANNELS = (64, 128, 256, 512)  # of the stages of RepVGG and MobileOne, times the factors below
# RepVGG's factors of the channels (Ding et al. 2021, table 2); "a" and "b" name its depths.
REPVGG = {
    "a0": (0.75, 0.75, 0.75, 2.5), "a1": (1, 1, 1, 2.5), "a2": (1.5, 1.5, 1.5, 2.75), "b0": (1, 1, 1, 2.5),
    "b1": (2, 2, 2, 4), "b2": (2.5, 2.5, 2.5, 5), "b3": (3, 3, 3, 5), "d2": (2.5, 2.5, 2.5, 5),
}  # fmt: skip
REPVGG_DEPTHS = {"a": (2, 4, 14, 1), "b": (4, 6, 16, 1), "d": (8, 14, 24, 1)}
# MobileOne's factors of the channels, the large filters of a block, and the pairs of blocks with squeezed attention at
# the ends of the stages (Vasu et al. 2022, tables 2 and 9).
MOBILEONE = {
    "s0": ((0.75, 1, 1, 2), 4, (0, 0, 0, 0)), "s1": ((1.5, 1.5, 2, 2.5), 1, (0, 0, 0, 0)),
    "s2": ((1.5, 2, 2.5, 4), 1, (0, 0, 0, 0)), "s3": ((2, 2.5, 3, 4), 1, (0, 0, 0, 0)),
    "s4": ((3, 3.5, 3.5, 4), 1, (0, 0, 5, 1)),
}  # fmt: skip
MOBILEONE_DEPTHS = (2, 8, 10, 1)
# FastViT's depths, the channels of the first stage, the factor of those inside of feed-forward parts, and whether the
# last stage attends (Vasu et al. 2023, table 2).
FASTVIT = {
    "t8": ((2, 2, 4, 2), 48, 3, False), "t12": ((2, 2, 6, 2), 64, 3, False), "s12": ((2, 2, 6, 2), 64, 4, False),
    "sa12": ((2, 2, 6, 2), 64, 4, True), "sa24": ((4, 4, 12, 4), 64, 4, True), "sa36": ((6, 6, 18, 6), 64, 4, True),
    "ma36": ((6, 6, 18, 6), 76, 4, True), "mci0": ((2, 6, 10, 2), 64, 3, True), "mci1": ((4, 12, 20, 4), 64, 3, True),
    "mci2": ((4, 12, 24, 4), 80, 3, True), "mci3": ((2, 12, 24, 4, 2), 96, 4, True),
    "mci4": ((2, 12, 24, 4, 4), 128, 4, True),
}  # fmt: skip

# EfficientViT's channels and blocks of the stem and the stages, the channels of a head, those of the last two layers
# (Cai et al. 2022).
EFFICIENTVIT = {
    "b0": ((8, 16, 32, 64, 128), (1, 2, 2, 2, 2), 16, (1024, 1280)),
    "b1": ((16, 32, 64, 128, 256), (1, 2, 3, 3, 4), 16, (1536, 1600)),
    "b2": ((24, 48, 96, 192, 384), (1, 3, 4, 4, 6), 32, (2304, 2560)),
    "b3": ((32, 64, 128, 256, 512), (1, 4, 6, 6, 9), 32, (2304, 2560)),
    "l1": ((32, 64, 128, 256, 512), (1, 1, 1, 6, 6), 32, (3072, 3200)),
    "l2": ((32, 64, 128, 256, 512), (1, 2, 2, 8, 8), 32, (3072, 3200)),
    "l3": ((64, 128, 256, 512, 1024), (1, 2, 2, 8, 8), 32, (6144, 6400)),
}

# Microsoft's EfficientViT's channels, depths, heads, and sides of the filters of a head's queries (Liu et al. 2023,
# table 1).
EFFICIENTVIT_MSRA = {
    "0": ((64, 128, 192), (1, 2, 3), (4, 4, 4), (5, 5, 5, 5)),
    "1": ((128, 144, 192), (1, 2, 3), (2, 3, 3), (7, 5, 3, 3)),
    "2": ((128, 192, 224), (1, 2, 3), (4, 3, 2), (7, 5, 3, 3)),
    "3": ((128, 240, 320), (1, 2, 3), (4, 3, 4), (5, 5, 5, 5)),
    "4": ((128, 256, 384), (1, 2, 3), (4, 4, 4), (7, 5, 3, 3)),
    "5": ((192, 288, 384), (1, 3, 4), (3, 3, 4), (7, 5, 3, 3)),
}

# TinyViT's channels and heads (Wu et al. 2022, table 1), and the sides of the windows of the second stage.
TINY_VIT = {
    "5m": ((64, 128, 160, 320), (2, 4, 5, 10)), "11m": ((64, 128, 256, 448), (2, 4, 8, 14)),
    "21m": ((96, 192, 384, 576), (3, 6, 12, 18)),
}  # fmt: skip
TINY_VIT_WINDOWS = {"224": 7, "384": 12, "512": 16}

# Hiera's channels, heads and depths (Ryali et al. 2023, table 2).
HIERA = {
    "tiny": (96, 1, (1, 2, 7, 2)), "small": (96, 1, (1, 2, 11, 2)), "base": (96, 1, (2, 3, 16, 3)),
    "base_plus": (112, 2, (2, 3, 16, 3)), "large": (144, 2, (2, 6, 36, 4)), "huge": (256, 4, (2, 6, 36, 4)),
}  # fmt: skip


def repvgg(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/repvgg.py's configuration of a RepVGG."""
    name = match["size"]
    if name not in REPVGG or bool(match["squeezed"]) != (name == "d2"):
        return None
    factors, groups, end = REPVGG[name], int(match["groups"] or 1), "_se0.0625" if match["squeezed"] else ""
    stages = [[f"rep_r1_k3_s2_c{min(64, int(64 * factors[0]))}{end}"]]
    for channels, factor, depth in zip(CHANNELS, factors, REPVGG_DEPTHS[name[0]], strict=True):
        width = int(channels * factor)
        stages.append([
            f"rep_r1_k3_s{1 if i else 2}{f'_g{groups}' if groups > 1 and i % 2 else ''}_c{width}{end}"
            for i in range(depth)
        ])  # fmt: skip
    return {"model_type": "repvgg", "blocks": stages}


def mobileone(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/repvgg.py's configuration of a MobileOne."""
    factors, branches, squeezed = MOBILEONE[match["size"]]
    before = min(64, int(CHANNELS[0] * factors[0]))
    stages = [[f"one_r1_k3_s2_c{before}"]]
    for channels, factor, depth, last in zip(CHANNELS, factors, MOBILEONE_DEPTHS, squeezed, strict=True):
        blocks = []
        for i in range(depth):
            width, end = int(channels * factor), "_se0.0625" if i >= depth - last else ""
            blocks.append(f"one_r1_k3_s{1 if i else 2}_each_b{branches}_c{before}{end}")
            blocks.append(f"one_r1_k1_s1_b{branches}_c{width}{end}")
            before = width
        stages.append(blocks)
    return {"model_type": "repvgg", "blocks": stages}


def convmixer(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/convmixer.py's configuration."""
    width = int(match["width"])
    return {
        "model_type": "convmixer", "hidden_size": width, "num_hidden_layers": int(match["depth"]),
        "kernel_size": 7 if width == 768 else 9, "patch_size": int(match["patch"] or 7),
        "hidden_act": "relu" if width == 768 else "gelu",
    }  # fmt: skip


def fastvit(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/fastvit.py's configuration."""
    depths, widths, ratio, attends = FASTVIT[match["size"]]
    of_clip, count = match["size"].startswith("mci"), len(depths)  # Vasu et al. 2023, arXiv 2311.17049
    large = count == 5  # Faghri et al. 2025, arXiv 2508.20691
    squeezed = of_clip and not large
    return {
        "model_type": "fastvit", "depths": given.get("layers", depths),
        "hidden_sizes": given.get("embed_dims", [widths << i for i in range(count)]),
        "mlp_ratios": given.get("mlp_ratios", [ratio] * count), "attends": [False] * 3 + [attends] * (count - 3),
        "squeezes": [False, False, squeezed, squeezed] + [False] * (count - 4), "large_act": of_clip,
        "plain_stem": large, "channel_norms": large,
    }  # fmt: skip


def efficientvit(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/efficientvit.py's configuration."""
    large = match["size"][0] == "l"
    names = ("widths", "depths", "head_dim", "head_widths")
    found = {name: given.get(name, usual) for name, usual in zip(names, EFFICIENTVIT[match["size"]], strict=True)}
    return found | {
        "model_type": "efficientvit", "large": large, "layer_norm_eps": 1e-7 if large else 1e-5,
        "hidden_act": "gelu_pytorch_tanh" if large else "hardswish",
    }  # fmt: skip


def efficientvit_msra(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/efficientvit_msra.py's configuration."""
    widths, depths, heads, kernels = EFFICIENTVIT_MSRA[match["size"]]
    return {
        "model_type": "efficientvit_msra", "image_size": given.get("img_size") or 224,
        "embed_dims": given.get("embed_dim", widths), "depths": given.get("depth", depths),
        "num_heads": given.get("num_heads", heads), "window_sizes": given.get("window_size", (7, 7, 7)),
        "kernels": given.get("kernels", kernels),
    }  # fmt: skip


def tiny_vit(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/tiny_vit.py's configuration."""
    widths, heads = TINY_VIT[match["size"]]
    window = TINY_VIT_WINDOWS[match["side"]]
    return {
        "model_type": "tiny_vit", "embed_dims": given.get("embed_dims", widths),
        "depths": given.get("depths", (2, 2, 6, 2)), "num_heads": given.get("num_heads", heads),
        "window_sizes": given.get("window_sizes", (window, window, 2 * window, window)),
    }  # fmt: skip


def hiera(match: re.Match[str], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of models/hiera.py's configuration. None for sizes that have no positions of windows."""
    size, windows = match["size"], bool(match["windows"])
    if windows and size not in ("small", "base"):
        return None
    width, heads, depths = HIERA[size]
    found = {
        "model_type": "hiera", "image_size": given.get("img_size") or int(match["side"]),
        "embed_dim": given.get("embed_dim", width), "num_heads": given.get("num_heads", heads),
        "depths": given.get("stages", depths), "patch_stride": _one(given.get("patch_stride", 4)),
    }  # fmt: skip
    if windows:
        own = (16, 16) if size == "small" else (14, 14)
        found |= {
            "position_size": given.get("global_pos_size", own), "projects": size != "small", "layer_scale": True,
        }  # fmt: skip
    return found


def _one(sides: Any) -> Any:
    """The side of a square of which both are given."""
    return sides[0] if isinstance(sides, list | tuple) and len(set(map(str, sides))) == 1 else sides
