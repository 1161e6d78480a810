"""MobileNet (Howard et al. 2017, arXiv 1704.04861), MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381) and MobileNetV3
(Howard et al. 2019, arXiv 1905.02244): convolutions of each channel alone, then of all channels at one place.
"""

from __future__ import annotations

from typing import Any

from .. import layers
from ..models import Model
from .building import GOOGLE, Frame, Published, channel_axis, channels, padding_before, scaled_channels, sides

_V3_HASHES = {
    "large_224_0.75_float": ("765b44a33ad4005b3ac83185abf1d0eb", "40af19a13ebea4e2ee0c676887f69a2e"),
    "large_224_1.0_float": ("59e551e166be033d707958cf9e29a6a7", "07fb09a5933dd0c8eaafa16978110389"),
    "large_minimalistic_224_1.0_float": ("675e7b876c45c57e9e63e6d90a36599c", "ec5221f64a2f6d1ef965a614bdae7973"),
    "small_224_0.75_float": ("cb65d4e5be93758266aa0a7f2c6708b7", "ebdb5cc8e0b497cd13a7c275d475c819"),
    "small_224_1.0_float": ("8768d4c2e7dee89b9d02b2d03d65d862", "d3e8ec802a04aa4fc771ee12a9a9b836"),
    "small_minimalistic_224_1.0_float": ("99cd97fb2fcdad2bf028eb838de69e37", "cde8136e733e811080d9fcd8a252f7e4"),
}
_SIDES = (128, 160, 192, 224)  # of pictures for which MobileNet's weights were published; MobileNetV2's: 96, too


def _published_width(frame: Frame, alpha: float, widths: tuple[float, ...]) -> None:
    if frame.weights == "imagenet" and alpha not in widths:
        raise ValueError(f"{frame.name}: alpha of published weights is one of {widths}, not {alpha}")


def _default_side(input_shape: Any, input_tensor: Any, all_sides: tuple[int, ...]) -> int:
    """The side of pictures whose weights are wanted: that of the given shape, if there are weights for it."""
    shape = input_shape if input_shape is not None else None if input_tensor is None else input_tensor.shape[1:]
    if shape is None or len(shape) != 3:
        return 224
    height, width = shape[1:] if channel_axis() == 1 else shape[:2]
    return height if height == width and height in all_sides else 224


def _norm(x: Any, name: str, momentum: float = 0.999) -> Any:
    return layers.BatchNormalization(axis=channel_axis(), epsilon=1e-3, momentum=momentum, name=name)(x)


def MobileNet(
    input_shape: Any = None, alpha: float = 1.0, depth_multiplier: int = 1, dropout: float = 0.001,
    include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, pooling: str | None = None,
    classes: int = 1000, classifier_activation: Any = "softmax", name: str | None = None,
) -> Model:  # fmt: skip
    """MobileNet, with `alpha` times the channels. The other arguments are those of `Frame`."""
    side = _default_side(input_shape, input_tensor, _SIDES)
    frame = Frame(
        name or "mobilenet", include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        size=side,
    )  # fmt: skip
    frame.name = name or f"mobilenet_{alpha:0.2f}_{side if weights == 'imagenet' else sides(frame.picture)[0]}"
    _published_width(frame, alpha, (0.25, 0.5, 0.75, 1.0))
    if weights == "imagenet" and depth_multiplier != 1:
        raise ValueError(f"{frame.name}: depth_multiplier of published weights is 1, not {depth_multiplier}")

    def normed(x: Any, part: str) -> Any:
        return layers.ReLU(6.0, name=f"{part}_relu")(_norm(x, f"{part}_bn", 0.99))

    x = layers.Conv2D(int(32 * alpha), 3, padding="same", use_bias=False, strides=2, name="conv1")(frame.picture)
    x = normed(x, "conv1")
    widths = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
    for i, filters in enumerate(widths, 1):
        strides = 2 if i in (2, 4, 6, 12) else 1
        if strides == 2:
            x = layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"conv_pad_{i}")(x)
        x = layers.DepthwiseConv2D(
            3, padding="same" if strides == 1 else "valid", depth_multiplier=depth_multiplier, strides=strides,
            use_bias=False, name=f"conv_dw_{i}",
        )(x)  # fmt: skip
        x = normed(x, f"conv_dw_{i}")
        x = layers.Conv2D(int(filters * alpha), 1, padding="same", use_bias=False, name=f"conv_pw_{i}")(x)
        x = normed(x, f"conv_pw_{i}")
    if include_top:
        x = layers.GlobalAveragePooling2D(keepdims=True)(x)
        x = layers.Dropout(dropout, name="dropout")(x)
        x = layers.Conv2D(classes, 1, padding="same", name="conv_preds")(x)
        x = layers.Reshape((classes,), name="reshape_2")(x)
        x = layers.Activation(classifier_activation, name="predictions")(x)
    else:
        x = frame.pooled(x)
    width = {1.0: "1_0", 0.75: "7_5", 0.5: "5_0"}.get(alpha, "2_5")
    start = f"{GOOGLE}mobilenet/mobilenet_{width}_{side}_tf"
    return frame.model(x, lambda: Published(f"{start}.h5", None, f"{start}_no_top.h5", None))


def MobileNetV2(
    input_shape: Any = None, alpha: float = 1.0, include_top: bool = True, weights: Any = "imagenet",
    input_tensor: Any = None, pooling: str | None = None, classes: int = 1000,
    classifier_activation: Any = "softmax", name: str | None = None,
) -> Model:  # fmt: skip
    """MobileNetV2, with `alpha` times the channels. The other arguments are those of `Frame`."""
    side = _default_side(input_shape, input_tensor, (96, *_SIDES))
    frame = Frame(
        name or "mobilenetv2", include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation,
        size=side,
    )  # fmt: skip
    frame.name = name or f"mobilenetv2_{alpha:0.2f}_{side if weights == 'imagenet' else sides(frame.picture)[0]}"
    _published_width(frame, alpha, (0.35, 0.5, 0.75, 1.0, 1.3, 1.4))
    first = scaled_channels(32 * alpha)
    x = layers.Conv2D(first, 3, strides=2, padding="same", use_bias=False, name="Conv1")(frame.picture)
    x = layers.ReLU(6.0, name="Conv1_relu")(_norm(x, "bn_Conv1"))
    number = 0
    for filters, count, stride, expansion in (
        (16, 1, 1, 1), (24, 2, 2, 6), (32, 3, 2, 6), (64, 4, 2, 6), (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6),
    ):  # fmt: skip
        for i in range(count):
            x = _inverted_residual(x, filters, alpha, stride if i == 0 else 1, expansion, number)
            number += 1
    last = scaled_channels(1280 * alpha) if alpha > 1.0 else 1280
    x = layers.Conv2D(last, 1, use_bias=False, name="Conv_1")(x)
    x = layers.ReLU(6.0, name="out_relu")(_norm(x, "Conv_1_bn"))
    x = frame.classified(x, mean=None, largest=None)
    start = f"{GOOGLE}mobilenet_v2/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_{float(alpha)}_{side}"
    return frame.model(x, lambda: Published(f"{start}.h5", None, f"{start}_no_top.h5", None))


def _inverted_residual(x: Any, filters: int, alpha: float, stride: int, expansion: int, number: int) -> Any:
    """A wide convolution of each channel alone, between narrow ones of all channels."""
    kept, width = x, channels(x)
    out = scaled_channels(int(filters * alpha))
    prefix = f"block_{number}_" if number else "expanded_conv_"
    if number:
        x = layers.Conv2D(expansion * width, 1, padding="same", use_bias=False, name=f"{prefix}expand")(x)
        x = layers.ReLU(6.0, name=f"{prefix}expand_relu")(_norm(x, f"{prefix}expand_BN"))
    if stride == 2:
        x = layers.ZeroPadding2D(padding_before(x, 3), name=f"{prefix}pad")(x)
    x = layers.DepthwiseConv2D(
        3, strides=stride, use_bias=False, padding="same" if stride == 1 else "valid", name=f"{prefix}depthwise"
    )(x)
    x = layers.ReLU(6.0, name=f"{prefix}depthwise_relu")(_norm(x, f"{prefix}depthwise_BN"))
    x = layers.Conv2D(out, 1, padding="same", use_bias=False, name=f"{prefix}project")(x)
    x = _norm(x, f"{prefix}project_BN")
    return layers.Add(name=f"{prefix}add")([kept, x]) if width == out and stride == 1 else x


# (expansion, filters, kernel, stride, ratio of the gate or None, hard SiLU) of the blocks of each size
_SMALL: tuple[tuple[float, int, int, int, float | None, bool], ...] = (
    (1, 16, 3, 2, 0.25, False), (72 / 16, 24, 3, 2, None, False), (88 / 24, 24, 3, 1, None, False),
    (4, 40, 5, 2, 0.25, True), (6, 40, 5, 1, 0.25, True), (6, 40, 5, 1, 0.25, True), (3, 48, 5, 1, 0.25, True),
    (3, 48, 5, 1, 0.25, True), (6, 96, 5, 2, 0.25, True), (6, 96, 5, 1, 0.25, True), (6, 96, 5, 1, 0.25, True),
)  # fmt: skip
_LARGE: tuple[tuple[float, int, int, int, float | None, bool], ...] = (
    (1, 16, 3, 1, None, False), (4, 24, 3, 2, None, False), (3, 24, 3, 1, None, False), (3, 40, 5, 2, 0.25, False),
    (3, 40, 5, 1, 0.25, False), (3, 40, 5, 1, 0.25, False), (6, 80, 3, 2, None, True), (2.5, 80, 3, 1, None, True),
    (2.3, 80, 3, 1, None, True), (2.3, 80, 3, 1, None, True), (6, 112, 3, 1, 0.25, True), (6, 112, 3, 1, 0.25, True),
    (6, 160, 5, 2, 0.25, True), (6, 160, 5, 1, 0.25, True), (6, 160, 5, 1, 0.25, True),
)  # fmt: skip


def _activated(x: Any, hard: bool) -> Any:
    return layers.Activation("hard_silu")(x) if hard else layers.ReLU()(x)


def _gate(x: Any, ratio: float, prefix: str) -> Any:
    """Each channel times a number that depends on the means of all channels (Hu et al. 2017, arXiv 1709.01507)."""
    width = channels(x)
    y = layers.GlobalAveragePooling2D(keepdims=True, name=f"{prefix}squeeze_excite_avg_pool")(x)
    y = layers.Conv2D(
        scaled_channels(width * ratio), 1, padding="same", name=f"{prefix}squeeze_excite_conv"
    )(y)  # fmt: skip
    y = layers.ReLU(name=f"{prefix}squeeze_excite_relu")(y)
    y = layers.Conv2D(width, 1, padding="same", name=f"{prefix}squeeze_excite_conv_1")(y)
    y = layers.ReLU(6.0)(y + 3.0) * (1.0 / 6.0)
    return layers.Multiply(name=f"{prefix}squeeze_excite_mul")([x, y])


def _block_v3(
    x: Any, expansion: float, filters: int, kernel: int, stride: int, ratio: float | None, hard: bool, number: int
) -> Any:
    kept, width = x, channels(x)
    prefix = f"expanded_conv_{number}_" if number else "expanded_conv_"
    if number:
        wide = scaled_channels(width * expansion)
        x = layers.Conv2D(wide, 1, padding="same", use_bias=False, name=f"{prefix}expand")(x)
        x = _activated(_norm(x, f"{prefix}expand_bn"), hard)
    if stride == 2:
        x = layers.ZeroPadding2D(padding_before(x, kernel), name=f"{prefix}depthwise_pad")(x)
    x = layers.DepthwiseConv2D(
        kernel, strides=stride, padding="same" if stride == 1 else "valid", use_bias=False, name=f"{prefix}depthwise"
    )(x)
    x = _activated(_norm(x, f"{prefix}depthwise_bn"), hard)
    if ratio:
        x = _gate(x, ratio, prefix)
    x = _norm(
        layers.Conv2D(filters, 1, padding="same", use_bias=False, name=f"{prefix}project")(x), f"{prefix}project_bn"
    )
    return layers.Add(name=f"{prefix}add")([kept, x]) if stride == 1 and width == filters else x


def _mobilenet_v3(
    kind: str, alpha: float, minimalistic: bool, dropout: float, include_preprocessing: bool, *arguments: Any
) -> Model:
    frame = Frame(*arguments, any_size=True)
    _published_width(frame, alpha, (1.0,) if minimalistic else (0.75, 1.0))
    blocks, last = (_SMALL, 1024) if kind == "small" else (_LARGE, 1280)
    hard = not minimalistic
    x = frame.picture
    if include_preprocessing:
        x = layers.Rescaling(scale=1.0 / 127.5, offset=-1.0)(x)
    x = layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False, name="conv")(x)
    x = _activated(_norm(x, "conv_bn"), hard)
    for number, (expansion, filters, kernel, stride, ratio, silu) in enumerate(blocks):
        x = _block_v3(
            x, expansion, scaled_channels(filters * alpha), 3 if minimalistic else kernel, stride,
            None if minimalistic else ratio, silu and hard, number,
        )  # fmt: skip
    x = layers.Conv2D(
        scaled_channels(channels(x) * 6), 1, padding="same", use_bias=False, name="conv_1"
    )(x)  # fmt: skip
    x = _activated(_norm(x, "conv_1_bn"), hard)
    if frame.include_top:
        x = layers.GlobalAveragePooling2D(keepdims=True)(x)
        width = scaled_channels(last * alpha) if alpha > 1.0 else last
        x = _activated(layers.Conv2D(width, 1, padding="same", name="conv_2")(x), hard)
        if dropout > 0:
            x = layers.Dropout(dropout)(x)
        x = layers.Conv2D(frame.classes, 1, padding="same", name="logits")(x)
        x = layers.Activation(frame.activation, name="predictions")(layers.Flatten()(x))
    else:
        x = frame.pooled(x, avg="avg_pool", max="max_pool")

    def files() -> Published:
        version = f"{kind}{'_minimalistic' if minimalistic else ''}_224_{float(alpha)}_float"
        start, hashes = f"{GOOGLE}mobilenet_v3/weights_mobilenet_v3_{version}", _V3_HASHES[version]
        return Published(f"{start}.h5", hashes[0], f"{start}_no_top_v2.h5", hashes[1])

    return frame.model(x, files)


def MobileNetV3Small(
    input_shape: Any = None, alpha: float = 1.0, minimalistic: bool = False, include_top: bool = True,
    weights: Any = "imagenet", input_tensor: Any = None, classes: int = 1000, pooling: str | None = None,
    dropout_rate: float = 0.2, classifier_activation: Any = "softmax", include_preprocessing: bool = True,
    name: str = "MobileNetV3Small",
) -> Model:  # fmt: skip
    """MobileNetV3, the small one, with `alpha` times the channels; `minimalistic`: without gates, kernels of 5 x 5 and
    hard SiLU. The other arguments are those of `Frame`.
    """
    return _mobilenet_v3(
        "small", alpha, minimalistic, dropout_rate, include_preprocessing, name, include_top, weights, input_tensor,
        input_shape, pooling, classes, classifier_activation,
    )  # fmt: skip


def MobileNetV3Large(
    input_shape: Any = None, alpha: float = 1.0, minimalistic: bool = False, include_top: bool = True,
    weights: Any = "imagenet", input_tensor: Any = None, classes: int = 1000, pooling: str | None = None,
    dropout_rate: float = 0.2, classifier_activation: Any = "softmax", include_preprocessing: bool = True,
    name: str = "MobileNetV3Large",
) -> Model:  # fmt: skip
    """MobileNetV3, the large one; as MobileNetV3Small."""
    return _mobilenet_v3(
        "large", alpha, minimalistic, dropout_rate, include_preprocessing, name, include_top, weights, input_tensor,
        input_shape, pooling, classes, classifier_activation,
    )  # fmt: skip
