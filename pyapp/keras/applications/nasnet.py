"""NASNet-A (Zoph et al. 2017, arXiv 1707.07012): cells that a search found, each of which reads the two before."""

from __future__ import annotations

from typing import Any

from .. import layers
from ..models import Model
from .building import GOOGLE, Frame, Published, application, channel_axis, channels, padding_before, shape_of, sides
from .imagenet_utils import decode_predictions, preprocess_as

__all__ = ["NASNetLarge", "NASNetMobile", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")


def _relu(x: Any, name: str | None = None) -> Any:
    return layers.Activation("relu", name=name)(x)


def _norm(x: Any, name: str) -> Any:
    return layers.BatchNormalization(axis=channel_axis(), momentum=0.9997, epsilon=1e-3, name=name)(x)


def _convolution(x: Any, filters: int, name: str) -> Any:
    return layers.Conv2D(
        filters, 1, padding="same", use_bias=False, kernel_initializer="he_normal", name=name
    )(x)  # fmt: skip


def _mean(x: Any, name: str) -> Any:
    """The mean of the places around each place."""
    return layers.AveragePooling2D(3, strides=1, padding="same", name=name)(x)


def _separable(x: Any, filters: int, kernel: int, cell: str, halves: bool = False) -> Any:
    """Two separable convolutions, the first of which may halve the sides."""
    for number in (1, 2):
        x = _relu(x)
        name, strided = f"separable_conv_{number}", halves and number == 1
        if strided:
            x = layers.ZeroPadding2D(padding_before(x, kernel), name=f"{name}_pad_{cell}")(x)
        x = layers.SeparableConv2D(
            filters, kernel, strides=2 if strided else 1, padding="valid" if strided else "same", use_bias=False,
            name=f"{name}_{cell}",
        )(x)  # fmt: skip
        x = _norm(x, f"{name}_bn_{cell}")
    return x


def _fitted(before: Any, x: Any, filters: int, cell: str) -> Any:
    """What came before x, with the sides of x and as many channels as the cell has. Sides are halved twice, from the
    first place and from the second, so that no place is lost."""
    if before is None:
        return x
    if sides(before)[1] != sides(x)[1]:
        before = _relu(before, f"adjust_relu_1_{cell}")
        shifted = before
        halves = []
        for number in (1, 2):
            if number == 2:
                shifted = layers.ZeroPadding2D(((0, 1), (0, 1)))(before)
                shifted = layers.Cropping2D(((1, 0), (1, 0)))(shifted)
            half = layers.AveragePooling2D(1, strides=2, padding="valid", name=f"adjust_avg_pool_{number}_{cell}")
            halves.append(_convolution(half(shifted), filters // 2, f"adjust_conv_{number}_{cell}"))
        return _norm(layers.Concatenate(axis=channel_axis())(halves), f"adjust_bn_{cell}")
    if channels(before) != filters:
        return _norm(_convolution(_relu(before), filters, f"adjust_conv_projection_{cell}"), f"adjust_bn_{cell}")
    return before


def _normal(x: Any, before: Any, filters: int, cell: str) -> Any:
    """A cell that keeps the sides."""
    before = _fitted(before, x, filters, cell)
    h = _norm(_convolution(_relu(x), filters, f"normal_conv_1_{cell}"), f"normal_bn_1_{cell}")

    def added(number: int, pair: list[Any]) -> Any:
        return layers.Add(name=f"normal_add_{number}_{cell}")(pair)

    parts = [before]
    for number, first, kernel in ((1, h, 5), (2, before, 5)):
        left = _separable(first, filters, kernel, f"normal_left{number}_{cell}")
        parts.append(added(number, [left, _separable(before, filters, 3, f"normal_right{number}_{cell}")]))
    parts.append(added(3, [_mean(h, f"normal_left3_{cell}"), before]))
    parts.append(added(4, [_mean(before, f"normal_left4_{cell}"), _mean(before, f"normal_right4_{cell}")]))
    parts.append(added(5, [_separable(h, filters, 3, f"normal_left5_{cell}"), h]))
    return layers.Concatenate(axis=channel_axis(), name=f"normal_concat_{cell}")(parts)


def _reduction(x: Any, before: Any, filters: int, cell: str) -> Any:
    """A cell that halves the sides."""
    before = _fitted(before, x, filters, cell)
    h = _norm(_convolution(_relu(x), filters, f"reduction_conv_1_{cell}"), f"reduction_bn_1_{cell}")
    padded = layers.ZeroPadding2D(padding_before(h, 3), name=f"reduction_pad_1_{cell}")(h)

    def added(pair: list[Any], name: str) -> Any:
        return layers.Add(name=f"reduction_{name}_{cell}")(pair)

    def halved(source: Any, kernel: int, name: str) -> Any:
        return _separable(source, filters, kernel, f"reduction_{name}_{cell}", halves=True)

    def largest(name: str) -> Any:
        return layers.MaxPooling2D(3, strides=2, padding="valid", name=f"reduction_{name}_{cell}")(padded)

    one = added([halved(h, 5, "left1"), halved(before, 7, "right1")], "add_1")
    two = added([largest("left2"), halved(before, 7, "right2")], "add_2")
    mean = layers.AveragePooling2D(3, strides=2, padding="valid", name=f"reduction_left3_{cell}")(padded)
    three = added([mean, halved(before, 5, "right3")], "add3")
    four = layers.Add()([two, _mean(one, f"reduction_left4_{cell}")])
    five = added([_separable(one, filters, 3, f"reduction_left4_{cell}"), largest("right5")], "add4")
    return layers.Concatenate(axis=channel_axis(), name=f"reduction_concat_{cell}")([two, three, four, five])


def _nasnet(frame: Frame, last: int, blocks: int, stem: int, skips: bool, file: str, hashes: tuple[str, str]) -> Model:
    """`last` channels at the end, `blocks` normal cells of each size, `stem` channels of the first convolution. With
    `skips`, the first cell after a reduction reads what was two cells before that."""
    if channel_axis() == 1:
        raise ValueError(f"{frame.name}: takes pictures with the channels last: set_image_data_format('channels_last')")
    filters = last // 24
    x = layers.Conv2D(
        stem, 3, strides=2, padding="valid", use_bias=False, kernel_initializer="he_normal", name="stem_conv1"
    )(frame.picture)  # fmt: skip
    x, before = _norm(x, "stem_bn1"), None
    for number, divisor in ((1, 4), (2, 2)):
        x, before = _reduction(x, before, filters // divisor, f"stem_{number}"), x
    for size in range(3):
        first = size * blocks + (size > 0)  # Keras' names count the first reduction, and not the second
        for cell in range(first, first + blocks):
            x, before = _normal(x, before, filters << size, str(cell)), x
        if size < 2:
            reduced = _reduction(x, before, filters << (size + 1), f"reduce_{(size + 1) * blocks}")
            x, before = reduced, before if skips else x
    x = _relu(x)
    x = frame.classified(x, mean=None, largest=None)
    address = f"{GOOGLE}nasnet/NASNet-{file}"
    return frame.model(x, lambda: Published(f"{address}.h5", hashes[0], f"{address}-no-top.h5", hashes[1]))


def _mobile(frame: Frame) -> Model:
    hashes = ("020fb642bf7360b370c678b08e0adf61", "1ed92395b5b598bdda52abe5c0dbfd63")
    return _nasnet(frame, 1056, 4, 32, False, "mobile", hashes)


def _large(frame: Frame) -> Model:
    hashes = ("11577c9a518f0070763c2b964a382f17", "d81d89dc07e6e56530c4e77faddd61b5")
    return _nasnet(frame, 4032, 6, 96, True, "large", hashes)


_mobile_of_any_shape = application(_mobile, "nasnet_mobile", "NASNet-A (4 @ 1056).")


def NASNetMobile(
    input_shape: Any = None, include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None,
    pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
    name: str = "nasnet_mobile",
) -> Model:  # fmt: skip
    """NASNet-A (4 @ 1056). The arguments are those of `Frame`; without the classes, pictures have 224 x 224 pixels."""
    if not include_top and input_shape is None and input_tensor is None:
        input_shape = shape_of(224, 3)
    return _mobile_of_any_shape(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name
    )


_large_of_any_shape = application(_large, "nasnet_large", "NASNet-A (6 @ 4032).", size=331)


def NASNetLarge(
    input_shape: Any = None, include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None,
    pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
    name: str = "nasnet_large",
) -> Model:  # fmt: skip
    """NASNet-A (6 @ 4032). The arguments are those of `Frame`."""
    return _large_of_any_shape(
        include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, name
    )
