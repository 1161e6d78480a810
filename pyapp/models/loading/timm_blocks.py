"""The networks for small devices that timm's library names, described as models/mobilenet_v3.py reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from typing import Any

from pyapp.nn.vision.vision import divisible

_V3_SMALL = (
    "ds_r1_k3_s2_c16_se0.25_nre", "ir_r1_k3_s2_e4.5_c24_nre ir_r1_k3_s1_e3.67_c24_nre",
    "ir_r1_k5_s2_e4_c40_se0.25 ir_r2_k5_s1_e6_c40_se0.25", "ir_r2_k5_s1_e3_c48_se0.25", "ir_r3_k5_s2_e6_c96_se0.25",
    "cn_r1_k1_s1_c576",
)  # fmt: skip
_V3_LARGE = (
    "ds_r1_k3_s1_c16_nre", "ir_r1_k3_s2_e4_c24_nre ir_r1_k3_s1_e3_c24_nre", "ir_r3_k5_s2_e3_c40_se0.25_nre",
    "ir_r1_k3_s2_e6_c80 ir_r1_k3_s1_e2.5_c80 ir_r2_k3_s1_e2.3_c80", "ir_r2_k3_s1_e6_c112_se0.25",
    "ir_r3_k5_s2_e6_c160_se0.25", "cn_r1_k1_s1_c960",
)  # fmt: skip
_MINIMAL = {  # of MobileNetV3: without squeezed attention, hard activations and large filters
    "small": (
        "ds_r1_k3_s2_c16", "ir_r1_k3_s2_e4.5_c24 ir_r1_k3_s1_e3.67_c24", "ir_r1_k3_s2_e4_c40 ir_r2_k3_s1_e6_c40",
        "ir_r2_k3_s1_e3_c48", "ir_r3_k3_s2_e6_c96", "cn_r1_k1_s1_c576",
    ),
    "large": (
        "ds_r1_k3_s1_c16", "ir_r1_k3_s2_e4_c24 ir_r1_k3_s1_e3_c24", "ir_r3_k3_s2_e3_c40",
        "ir_r1_k3_s2_e6_c80 ir_r1_k3_s1_e2.5_c80 ir_r2_k3_s1_e2.3_c80", "ir_r2_k3_s1_e6_c112", "ir_r3_k3_s2_e6_c160",
        "cn_r1_k1_s1_c960",
    ),
}  # fmt: skip
_ATTENTION = "mqa_r1_k3_h4_s1_v2_d64_c160", "mqa_r1_k3_h8_s1_v2_d48_c192"  # of MobileNetV4's third stages
_V4 = {  # the channels of the first filter, and the stages
    "conv_small": (32, (
        "cn_r1_k3_s2_c32 cn_r1_k1_s1_c32", "cn_r1_k3_s2_c96 cn_r1_k1_s1_c64",
        "uir_r1_a5_k5_s2_e3_c96 uir_r4_a0_k3_s1_e2_c96 uir_r1_a3_k0_s1_e4_c96",
        "uir_r1_a3_k3_s2_e6_c128 uir_r1_a5_k5_s1_e4_c128 uir_r1_a0_k5_s1_e4_c128 uir_r1_a0_k5_s1_e3_c128 "
        "uir_r2_a0_k3_s1_e4_c128",
        "cn_r1_k1_s1_c960",
    )),
    "conv_medium": (32, (
        "er_r1_k3_s2_e4_c48", "uir_r1_a3_k5_s2_e4_c80 uir_r1_a3_k3_s1_e2_c80",
        "uir_r1_a3_k5_s2_e6_c160 uir_r2_a3_k3_s1_e4_c160 uir_r1_a3_k5_s1_e4_c160 uir_r1_a3_k3_s1_e4_c160 "
        "uir_r1_a3_k0_s1_e4_c160 uir_r1_a0_k0_s1_e2_c160 uir_r1_a3_k0_s1_e4_c160",
        "uir_r1_a5_k5_s2_e6_c256 uir_r1_a5_k5_s1_e4_c256 uir_r2_a3_k5_s1_e4_c256 uir_r1_a0_k0_s1_e4_c256 "
        "uir_r1_a3_k0_s1_e4_c256 uir_r1_a3_k5_s1_e2_c256 uir_r1_a5_k5_s1_e4_c256 uir_r2_a0_k0_s1_e4_c256 "
        "uir_r1_a5_k0_s1_e2_c256",
        "cn_r1_k1_s1_c960",
    )),
    "conv_large": (24, (
        "er_r1_k3_s2_e4_c48", "uir_r1_a3_k5_s2_e4_c96 uir_r1_a3_k3_s1_e4_c96",
        "uir_r1_a3_k5_s2_e4_c192 uir_r3_a3_k3_s1_e4_c192 uir_r1_a3_k5_s1_e4_c192 uir_r5_a5_k3_s1_e4_c192 "
        "uir_r1_a3_k0_s1_e4_c192",
        "uir_r4_a5_k5_s2_e4_c512 uir_r1_a5_k0_s1_e4_c512 uir_r1_a5_k3_s1_e4_c512 uir_r2_a5_k0_s1_e4_c512 "
        "uir_r1_a5_k3_s1_e4_c512 uir_r1_a5_k5_s1_e4_c512 uir_r3_a5_k0_s1_e4_c512",
        "cn_r1_k1_s1_c960",
    )),
    "hybrid_medium": (32, (
        "er_r1_k3_s2_e4_c48", "uir_r1_a3_k5_s2_e4_c80 uir_r1_a3_k3_s1_e2_c80",
        "uir_r1_a3_k5_s2_e6_c160 uir_r1_a0_k0_s1_e2_c160 uir_r1_a3_k3_s1_e4_c160 uir_r1_a3_k5_s1_e4_c160 "
        f"{_ATTENTION[0]} uir_r1_a3_k3_s1_e4_c160 {_ATTENTION[0]} uir_r1_a3_k0_s1_e4_c160 {_ATTENTION[0]} "
        f"uir_r1_a3_k3_s1_e4_c160 {_ATTENTION[0]} uir_r1_a3_k0_s1_e4_c160",
        "uir_r1_a5_k5_s2_e6_c256 uir_r1_a5_k5_s1_e4_c256 uir_r2_a3_k5_s1_e4_c256 uir_r1_a0_k0_s1_e2_c256 "
        "uir_r1_a3_k5_s1_e2_c256 uir_r1_a0_k0_s1_e2_c256 uir_r1_a0_k0_s1_e4_c256 mqa_r1_k3_h4_s1_d64_c256 "
        "uir_r1_a3_k0_s1_e4_c256 mqa_r1_k3_h4_s1_d64_c256 uir_r1_a5_k5_s1_e4_c256 mqa_r1_k3_h4_s1_d64_c256 "
        "uir_r1_a5_k0_s1_e4_c256 mqa_r1_k3_h4_s1_d64_c256 uir_r1_a5_k0_s1_e4_c256",
        "cn_r1_k1_s1_c960",
    )),
    "hybrid_large": (24, (
        "er_r1_k3_s2_e4_c48", "uir_r1_a3_k5_s2_e4_c96 uir_r1_a3_k3_s1_e4_c96",
        "uir_r1_a3_k5_s2_e4_c192 uir_r3_a3_k3_s1_e4_c192 uir_r1_a3_k5_s1_e4_c192 uir_r2_a5_k3_s1_e4_c192 "
        f"{_ATTENTION[1]} uir_r1_a5_k3_s1_e4_c192 {_ATTENTION[1]} uir_r1_a5_k3_s1_e4_c192 {_ATTENTION[1]} "
        f"uir_r1_a5_k3_s1_e4_c192 {_ATTENTION[1]} uir_r1_a3_k0_s1_e4_c192",
        "uir_r4_a5_k5_s2_e4_c512 uir_r1_a5_k0_s1_e4_c512 uir_r1_a5_k3_s1_e4_c512 uir_r2_a5_k0_s1_e4_c512 "
        "uir_r1_a5_k3_s1_e4_c512 uir_r1_a5_k5_s1_e4_c512 mqa_r1_k3_h8_s1_d64_c512 uir_r1_a5_k0_s1_e4_c512 "
        "mqa_r1_k3_h8_s1_d64_c512 uir_r1_a5_k0_s1_e4_c512 mqa_r1_k3_h8_s1_d64_c512 uir_r1_a5_k0_s1_e4_c512 "
        "mqa_r1_k3_h8_s1_d64_c512 uir_r1_a5_k0_s1_e4_c512",
        "cn_r1_k1_s1_c960",
    )),
}  # fmt: skip
_V2 = (
    "ds_r1_k3_s1_c16", "ir_r2_k3_s2_e6_c24", "ir_r3_k3_s2_e6_c32", "ir_r4_k3_s2_e6_c64", "ir_r3_k3_s1_e6_c96",
    "ir_r3_k3_s2_e6_c160", "ir_r1_k3_s1_e6_c320",
)  # fmt: skip
_EFFICIENT = (
    "ds_r1_k3_s1_c16_se0.25", "ir_r2_k3_s2_e6_c24_se0.25", "ir_r2_k5_s2_e6_c40_se0.25", "ir_r3_k3_s2_e6_c80_se0.25",
    "ir_r3_k5_s1_e6_c112_se0.25", "ir_r4_k5_s2_e6_c192_se0.25", "ir_r1_k3_s1_e6_c320_se0.25",
)  # fmt: skip
# EfficientNet's factors of the channels and of the depth, and those of the "lite" ones and of V2's "b" ones.
_SCALES = {
    "b0": (1.0, 1.0), "b1": (1.0, 1.1), "b2": (1.1, 1.2), "b3": (1.2, 1.4), "b4": (1.4, 1.8), "b5": (1.6, 2.2),
    "b6": (1.8, 2.6), "b7": (2.0, 3.1), "b8": (2.2, 3.6), "l2": (4.3, 5.3),
    "lite0": (1.0, 1.0), "lite1": (1.0, 1.1), "lite2": (1.1, 1.2), "lite3": (1.2, 1.4), "lite4": (1.4, 1.8),
}  # fmt: skip
_EFFICIENT2_B = (
    "cn_r1_k3_s1_c16_skip", "er_r2_k3_s2_e4_c32", "er_r2_k3_s2_e4_c48", "ir_r3_k3_s2_e4_c96_se0.25",
    "ir_r5_k3_s1_e6_c112_se0.25", "ir_r8_k3_s2_e6_c192_se0.25",
)  # fmt: skip
_EFFICIENT2 = {  # of V2: the channels of the first filter, and the stages
    "s": (24, (
        "cn_r2_k3_s1_c24_skip", "er_r4_k3_s2_e4_c48", "er_r4_k3_s2_e4_c64", "ir_r6_k3_s2_e4_c128_se0.25",
        "ir_r9_k3_s1_e6_c160_se0.25", "ir_r15_k3_s2_e6_c256_se0.25",
    )),
    "m": (24, (
        "cn_r3_k3_s1_c24_skip", "er_r5_k3_s2_e4_c48", "er_r5_k3_s2_e4_c80", "ir_r7_k3_s2_e4_c160_se0.25",
        "ir_r14_k3_s1_e6_c176_se0.25", "ir_r18_k3_s2_e6_c304_se0.25", "ir_r5_k3_s1_e6_c512_se0.25",
    )),
    "l": (32, (
        "cn_r4_k3_s1_c32_skip", "er_r7_k3_s2_e4_c64", "er_r7_k3_s2_e4_c96", "ir_r10_k3_s2_e4_c192_se0.25",
        "ir_r19_k3_s1_e6_c224_se0.25", "ir_r25_k3_s2_e6_c384_se0.25", "ir_r7_k3_s1_e6_c640_se0.25",
    )),
    "xl": (32, (
        "cn_r4_k3_s1_c32_skip", "er_r8_k3_s2_e4_c64", "er_r8_k3_s2_e4_c96", "ir_r16_k3_s2_e4_c192_se0.25",
        "ir_r24_k3_s1_e6_c256_se0.25", "ir_r32_k3_s2_e6_c512_se0.25", "ir_r8_k3_s1_e6_c640_se0.25",
    )),
}  # fmt: skip
_NAMES = (
    r"(?P<tf>tf_)?mobilenetv3_(?P<v3>small|large)(?P<minimal>_minimal)?_(?P<v3_width>\d{3})(?P<v3_deep>d)?",
    r"mobilenetv4_(?P<v4>conv_small|conv_medium|conv_large|hybrid_medium|hybrid_large)(_(?P<v4_width>\d{3}))?",
    r"mobilenetv2_(?P<v2_width>\d{3})(?P<v2_deep>d)?",
    r"(?P<tf1>tf_)?efficientnet_(?P<scale>b\d|l2|lite\d)",
    r"(?P<tf2>tf_)?efficientnetv2_(?P<large>s|m|l|xl|b[0-3])",
)
NAMES = re.compile("|".join(_NAMES))


def _width(channels: int, factor: float, nearest: bool = False) -> int:
    """A multiple of 8: the nearest, or one that is at most a tenth less."""
    return max(8, int(channels * factor + 4) // 8 * 8) if nearest else divisible(channels * factor, 8, 8)


def _scaled(
    stages: Sequence[str], width: float, depth: float = 1.0, ends: bool = True, nearest: bool = False
) -> list[list[str]]:
    """The stages with `width` times the channels and `depth` times the blocks, rounded up; those of the first and the
    last stage stay as many, unless `ends`.
    """
    found = []
    for i, stage in enumerate(stages):
        blocks = stage.split()
        if depth != 1 and (ends or 0 < i < len(stages) - 1):
            counts = [int(block.split("_")[1][1:]) for block in blocks]
            left, wanted = sum(counts), ceil(sum(counts) * depth)
            for j in reversed(range(len(blocks))):
                count = max(1, round(counts[j] / left * wanted))
                blocks[j] = blocks[j].replace(f"_r{counts[j]}_", f"_r{count}_", 1)
                left, wanted = left - counts[j], wanted - count
        found.append(
            [re.sub(r"_c(\d+)", lambda c: f"_c{_width(int(c[1]), width, nearest)}", block) for block in blocks]
        )
    return found


def described(name: str) -> dict[str, Any] | None:
    """The fields of models/mobilenet_v3.py's configuration of a network that timm names; None for other names."""
    found = NAMES.fullmatch(name)
    if found is None:
        return None
    tensorflow = bool(found["tf"] or found["tf1"] or found["tf2"])
    settings = {
        "model_type": "mobilenet_v3", "head": "before", "hidden_act": "silu", "hard_squeeze": False,
        "tf_padding": tensorflow, "layer_norm_eps": 1e-3 if tensorflow else 1e-5,
    }  # fmt: skip
    if found["v3"]:
        stages: Sequence[str]
        width, small = int(found["v3_width"]) / 100, found["v3"] == "small"
        stages = _V3_SMALL if small else _V3_LARGE
        stages = _MINIMAL[found["v3"]] if found["minimal"] else stages
        return settings | {
            "blocks": _scaled(stages, width, 1.2 if found["v3_deep"] else 1.0),
            "stem_size": 16 if width < 0.75 else _width(16, width), "hard_squeeze": True,
            "head_size": 1024 if small else 1280, "head": "after",
            "hidden_act": "relu" if found["minimal"] else "hardswish",
        }  # fmt: skip
    if found["v4"]:
        (stem, blocks), width = _V4[found["v4"]], int(found["v4_width"] or 100) / 100
        return settings | {
            "blocks": _scaled(blocks, width), "head": "normed",
            "stem_size": stem if width < 1 else _width(stem, width),
            "hidden_act": "gelu" if found["v4"] == "hybrid_large" else "relu", "layer_scale": "hybrid" in found["v4"],
        }  # fmt: skip
    if found["v2_width"]:
        width, deep = int(found["v2_width"]) / 100, bool(found["v2_deep"])
        depth = {110: 1.2, 120: 1.4}.get(int(found["v2_width"]), 1.0) if deep else 1.0
        return settings | {
            "blocks": _scaled(_V2, width, depth, ends=not deep), "stem_size": 32 if deep else _width(32, width),
            "head_size": 1280 if deep else max(1280, _width(1280, width)), "hidden_act": "relu6",
        }  # fmt: skip
    if found["scale"]:
        if found["scale"] not in _SCALES:
            return None
        width, depth = _SCALES[found["scale"]]
        if found["scale"].startswith("lite"):
            plain = [stage.replace("_se0.25", "") for stage in _EFFICIENT]
            return settings | {
                "blocks": _scaled(plain, width, depth, ends=False), "stem_size": 32, "hidden_act": "relu6",
            }  # fmt: skip
        return settings | {
            "blocks": _scaled(_EFFICIENT, width, depth), "stem_size": _width(32, width),
            "head_size": _width(1280, width),
        }  # fmt: skip
    if found["large"].startswith("b"):
        width, depth = _SCALES[found["large"]]
        return settings | {
            "blocks": _scaled(_EFFICIENT2_B, width, depth, nearest=True), "stem_size": _width(32, width, True),
            "head_size": _width(1280, width, True),
        }  # fmt: skip
    stem, large = _EFFICIENT2[found["large"]]
    return settings | {"blocks": _scaled(large, 1.0), "stem_size": stem}
