"""EfficientNet (Tan and Le 2019, arXiv 1905.11946) and EfficientNetV2 (2021, arXiv 2104.00298): blocks of wide
convolutions of each channel alone, with gates, whose number, width and pictures grow together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, sqrt
from typing import Any, NamedTuple

from .. import layers
from ..models import Model
from .building import GOOGLE, Frame, Published, application, channel_axis, channels, padding_before, scaled_channels

_KERNEL = {
    "class_name": "VarianceScaling", "config": {"scale": 2.0, "mode": "fan_out", "distribution": "truncated_normal"},
}  # fmt: skip
_DENSE = {
    "class_name": "VarianceScaling", "config": {"scale": 1 / 3, "mode": "fan_out", "distribution": "uniform"},
}  # fmt: skip
_DROP = 0.2  # of the last block; the first ones leave out fewer pictures
_MEANS, _VARIANCES = [0.485, 0.456, 0.406], [0.229**2, 0.224**2, 0.225**2]


class Stage(NamedTuple):
    """Blocks with the same numbers; `gate`: the share of the channels that a gate has, or None; `fused`: one
    convolution in place of two.
    """

    blocks: int
    filters: int
    stride: int
    expansion: int
    kernel: int = 3
    gate: float | None = 0.25
    fused: bool = False


_V1 = (
    Stage(1, 16, 1, 1), Stage(2, 24, 2, 6), Stage(2, 40, 2, 6, 5), Stage(3, 80, 2, 6), Stage(3, 112, 1, 6, 5),
    Stage(4, 192, 2, 6, 5), Stage(1, 320, 1, 6),
)  # fmt: skip


def _fused(count: int, filters: int, stride: int, expansion: int) -> Stage:
    return Stage(count, filters, stride, expansion, gate=None, fused=True)


_V2_B = (
    _fused(1, 16, 1, 1), _fused(2, 32, 2, 4), _fused(2, 48, 2, 4), Stage(3, 96, 2, 4), Stage(5, 112, 1, 6),
    Stage(8, 192, 2, 6),
)  # fmt: skip
_V2 = {
    "s": (
        _fused(2, 24, 1, 1), _fused(4, 48, 2, 4), _fused(4, 64, 2, 4), Stage(6, 128, 2, 4), Stage(9, 160, 1, 6),
        Stage(15, 256, 2, 6),
    ),
    "m": (
        _fused(3, 24, 1, 1), _fused(5, 48, 2, 4), _fused(5, 80, 2, 4), Stage(7, 160, 2, 4), Stage(14, 176, 1, 6),
        Stage(18, 304, 2, 6), Stage(5, 512, 1, 6),
    ),
    "l": (
        _fused(4, 32, 1, 1), _fused(7, 64, 2, 4), _fused(7, 96, 2, 4), Stage(10, 192, 2, 4), Stage(19, 224, 1, 6),
        Stage(25, 384, 2, 6), Stage(7, 640, 1, 6),
    ),
}  # fmt: skip

# (width, depth, side of the pictures, dropout) and the hashes of the files
_SIZES = {
    "b0": (1.0, 1.0, 224, 0.2), "b1": (1.0, 1.1, 240, 0.2), "b2": (1.1, 1.2, 260, 0.3), "b3": (1.2, 1.4, 300, 0.3),
    "b4": (1.4, 1.8, 380, 0.4), "b5": (1.6, 2.2, 456, 0.4), "b6": (1.8, 2.6, 528, 0.5), "b7": (2.0, 3.1, 600, 0.5),
}  # fmt: skip
_SIZES_V2 = {
    "b0": (1.0, 1.0, 224), "b1": (1.0, 1.1, 240), "b2": (1.1, 1.2, 260), "b3": (1.2, 1.4, 300),
    "s": (1.0, 1.0, 384), "m": (1.0, 1.0, 480), "l": (1.0, 1.0, 480),
}  # fmt: skip
_HASHES = {
    "b0": ("902e53a9f72be733fc0bcb005b3ebbac", "50bc09e76180e00e4465e1a485ddc09d"),
    "b1": ("1d254153d4ab51201f1646940f018540", "74c4e6b3e1f6a1eea24c589628592432"),
    "b2": ("b15cce36ff4dcbd00b6dd88e7857a6ad", "111f8e2ac8aa800a7a99e3239f7bfb39"),
    "b3": ("ffd1fdc53d0ce67064dc6a9c7960ede0", "af6d107764bb5b1abb91932881670226"),
    "b4": ("18c95ad55216b8f92d7e70b3a046e2fc", "ebc24e6d6c33eaebbd558eafbeedf1ba"),
    "b5": ("ace28f2a6363774853a83a0b21b9421a", "38879255a25d3c92d5e44e04ae6cec6f"),
    "b6": ("165f6e37dce68623721b423839de8be5", "9ecce42647a20130c1f39a5d4cb75743"),
    "b7": ("8c03f828fec3ef71311cd463b6759d99", "cbcfe4450ddf6f3ad90b1b398090fe4a"),
}
_HASHES_V2 = {
    "b0": ("21ecbf6da12460d5c40bb2f29ceb2188", "893217f2bb855e2983157299931e43ff"),
    "b1": ("069f0534ff22adf035c89e2d9547a9dc", "0e80663031ca32d657f9caa404b6ec37"),
    "b2": ("424e49f28180edbde1e94797771950a7", "1dfe2e7a5d45b6632553a8961ea609eb"),
    "b3": ("1f1fc43bd98a6e4fd8fdfd551e02c7a0", "f6abf7b5849ac99a89b50dd3fd532856"),
    "s": ("e1d88a8495beba45748fedd0cecbe016", "af0682fb74e8c54910f2d4393339c070"),
    "m": ("a3bf6aa3276309f4fc6a34aa114c95cd", "1b8dc055df72dde80d614482840fe342"),
    "l": ("27e6d408b53c7ebc868fefa357689935", "b0b66b5c863aef5b46e8608fe1711615"),
}


class _Blocks:
    """The blocks of one version: `second` is EfficientNetV2."""

    def __init__(self, second: bool) -> None:
        self.second, self.momentum = second, 0.9 if second else 0.99

    def channels(self, count: float) -> int:
        """A number of channels as a multiple of 8, which in the first version is not less than 0.9 of it."""
        return max(8, int(count + 4) // 8 * 8) if self.second else scaled_channels(count)

    def norm(self, x: Any, name: str, activation: str | None = None) -> Any:
        x = layers.BatchNormalization(axis=channel_axis(), momentum=self.momentum, name=name)(x)
        return layers.Activation("silu", name=activation)(x) if activation else x

    def conv(self, x: Any, filters: int, name: str, kernel: int = 1, stride: int = 1, padding: str = "same") -> Any:
        return layers.Conv2D(
            filters, kernel, strides=stride, padding=padding, use_bias=False, kernel_initializer=_KERNEL, name=name
        )(x)

    def gated(self, x: Any, width: int, prefix: str) -> Any:
        """Each channel times a number that depends on the means of all channels; `width`: of the smaller layer."""
        count = channels(x)
        y = layers.GlobalAveragePooling2D(name=f"{prefix}se_squeeze")(x)
        shape = (count, 1, 1) if channel_axis() == 1 else (1, 1, count)
        y = layers.Reshape(shape, name=f"{prefix}se_reshape")(y)
        for name, filters, activation in (("reduce", width, "silu"), ("expand", count, "sigmoid")):
            y = layers.Conv2D(
                filters, 1, padding="same", activation=activation, kernel_initializer=_KERNEL, name=f"{prefix}se_{name}"
            )(y)
        return layers.Multiply(name=f"{prefix}se_excite")([x, y])

    def block(self, x: Any, stage: Stage, filters: int, stride: int, drop: float, prefix: str) -> Any:
        kept, before = x, channels(x)
        wide = before * stage.expansion
        if stage.expansion != 1:
            kernel, step = (stage.kernel, stride) if stage.fused else (1, 1)
            x = self.conv(x, wide, f"{prefix}expand_conv", kernel, step)
            x = self.norm(x, f"{prefix}expand_bn", f"{prefix}expand_activation")
        if not stage.fused:
            padding = "same"
            if stride == 2 and not self.second:
                x = layers.ZeroPadding2D(padding_before(x, stage.kernel), name=f"{prefix}dwconv_pad")(x)
                padding = "valid"
            x = layers.DepthwiseConv2D(
                stage.kernel, strides=stride, padding=padding, use_bias=False, depthwise_initializer=_KERNEL,
                name=f"{prefix}dwconv{'2' if self.second else ''}",
            )(x)  # fmt: skip
            x = self.norm(x, f"{prefix}bn", f"{prefix}activation")
        if stage.gate:
            x = self.gated(x, max(1, int(before * stage.gate)), prefix)
        alone = stage.fused and stage.expansion == 1  # the only convolution of the block
        kernel, step = (stage.kernel, stride) if alone else (1, 1)
        x = self.conv(x, filters, f"{prefix}project_conv", kernel, step)
        x = self.norm(x, f"{prefix}project_bn", f"{prefix}project_activation" if alone else None)
        if stride != 1 or before != filters:
            return x
        if drop > 0:
            x = layers.Dropout(drop, noise_shape=(None, 1, 1, 1), name=f"{prefix}drop")(x)
        return layers.Add(name=f"{prefix}add")([x, kept])

    def all(self, x: Any, stages: tuple[Stage, ...], width: float, depth: float) -> Any:
        counts = [ceil(depth * stage.blocks) for stage in stages]
        total = sum(stage.blocks for stage in stages) if self.second else sum(counts)
        number = 0
        for i, (stage, count) in enumerate(zip(stages, counts, strict=True), 1):
            for j in range(count):
                filters, stride = self.channels(stage.filters * width), stage.stride if j == 0 else 1
                x = self.block(x, stage, filters, stride, _DROP * number / total, f"block{i}{chr(97 + j)}_")
                number += 1
        return x

    def ended(self, x: Any, frame: Frame, width: float, dropout: float, files: Callable[[], Published]) -> Model:
        x = self.conv(x, self.channels(1280 * width), "top_conv")
        x = self.norm(x, "top_bn", "top_activation")
        if not frame.include_top:
            return frame.model(frame.pooled(x, avg="avg_pool", max="max_pool"), files)
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        x = layers.Dropout(dropout, name="top_dropout")(x)
        return frame.model(frame.predicted(x, kernel_initializer=_DENSE), files)


def _efficientnet(frame: Frame, size: str) -> Model:
    width, depth, _, dropout = _SIZES[size]
    blocks = _Blocks(False)
    x = layers.Rescaling(1 / 255)(frame.picture)
    x = layers.Normalization(axis=channel_axis() % 4)(x)
    if frame.weights == "imagenet":  # their training divided by the variances, not by the deviations
        x = layers.Rescaling([1 / sqrt(deviation) for deviation in (0.229, 0.224, 0.225)])(x)
    x = layers.ZeroPadding2D(padding_before(x, 3), name="stem_conv_pad")(x)
    x = blocks.conv(x, blocks.channels(32 * width), "stem_conv", 3, 2, "valid")
    x = blocks.all(blocks.norm(x, "stem_bn", "stem_activation"), _V1, width, depth)
    start, hashes = f"https://storage.googleapis.com/keras-applications/efficientnet{size}", _HASHES[size]
    files = Published(f"{start}.h5", hashes[0], f"{start}_notop.h5", hashes[1])
    return blocks.ended(x, frame, width, dropout, lambda: files)


_VERSIONS = [
    application(partial(_efficientnet, size=size), f"efficientnet{size}", f"EfficientNet {size.upper()}.", size=side)
    for size, (_, _, side, _) in _SIZES.items()
]
EfficientNetB0, EfficientNetB1, EfficientNetB2, EfficientNetB3 = _VERSIONS[:4]
EfficientNetB4, EfficientNetB5, EfficientNetB6, EfficientNetB7 = _VERSIONS[4:]


def _version_2(size: str) -> Callable[..., Model]:
    width, depth, side = _SIZES_V2[size]
    stages = _V2.get(size, _V2_B)

    def build(
        include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
        pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
        include_preprocessing: bool = True, name: str = f"efficientnetv2-{size}",
    ) -> Model:  # fmt: skip
        frame = Frame(
            name, include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, size=side
        )
        blocks, x = _Blocks(True), frame.picture
        if include_preprocessing and size[0] == "b" and channels(x) == 3:
            x = layers.Rescaling(1 / 255)(x)
            x = layers.Normalization(mean=_MEANS, variance=_VARIANCES, axis=channel_axis() % 4)(x)
        elif include_preprocessing:
            x = layers.Rescaling(1 / 128, offset=-1)(x)
        x = blocks.conv(x, blocks.channels((24 if size in "sm" else 32) * width), "stem_conv", 3, 2)
        x = blocks.all(blocks.norm(x, "stem_bn", "stem_activation"), stages, width, depth)
        start, hashes = f"{GOOGLE}efficientnet_v2/efficientnetv2-{size}", _HASHES_V2[size]
        files = Published(f"{start}.h5", hashes[0], f"{start}_notop.h5", hashes[1])
        return blocks.ended(x, frame, width, 0.2, lambda: files)

    build.__doc__ = f"EfficientNetV2 {size.upper()}. Its arguments: those of `Frame`, and whether it prepares pictures."
    return build


EfficientNetV2B0, EfficientNetV2B1, EfficientNetV2B2, EfficientNetV2B3 = map(_version_2, ("b0", "b1", "b2", "b3"))
EfficientNetV2S, EfficientNetV2M, EfficientNetV2L = map(_version_2, ("s", "m", "l"))
