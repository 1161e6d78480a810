"""Inception v3 (Szegedy et al. 2015, arXiv 1512.00567) and Inception-ResNet v2 (2016, arXiv 1602.07261): convolutions
of several sizes side by side.
"""

from __future__ import annotations

from typing import Any

from .. import layers
from ..models import Model
from .building import Frame, application, channel_axis, channels, usual_files

Kernel = int | tuple[int, int]


def _conv(
    x: Any, filters: int, kernel: Kernel, strides: int = 1, padding: str = "same", name: str | None = None
) -> Any:  # fmt: skip
    """A convolution, its norm without a scale, and a ReLU."""
    x = layers.Conv2D(filters, kernel, strides=strides, padding=padding, use_bias=False, name=name)(x)
    x = layers.BatchNormalization(axis=channel_axis(), scale=False, name=f"{name}_bn" if name else None)(x)
    return layers.Activation("relu", name=f"{name}_ac" if name else None)(x)


def _chain(x: Any, *convolutions: tuple[int, Kernel]) -> Any:
    """Convolutions (filters, kernel) one after another."""
    for filters, kernel in convolutions:
        x = _conv(x, filters, kernel)
    return x


def _pooled(x: Any, filters: int) -> Any:
    return _conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), filters, 1)


def _joined(parts: list[Any], name: str | None = None) -> Any:
    return layers.Concatenate(axis=channel_axis(), name=name)(parts)


def _stem(x: Any) -> Any:
    x = _conv(x, 32, 3, 2, "valid")
    x = _conv(x, 32, 3, padding="valid")
    x = layers.MaxPooling2D(3, strides=2)(_conv(x, 64, 3))
    x = _conv(x, 80, 1, padding="valid")
    return layers.MaxPooling2D(3, strides=2)(_conv(x, 192, 3, padding="valid"))


def _small(x: Any, first: int, pooled: int, name: str) -> Any:
    """Four branches, the largest of which see 5 x 5 pixels."""
    parts = [_conv(x, first, 1), _chain(x, (48, 1), (64, 5)), _chain(x, (64, 1), (96, 3), (96, 3)), _pooled(x, pooled)]
    return _joined(parts, name)


def _inception_v3(frame: Frame) -> Model:
    x = _stem(frame.picture)
    for i, filters in enumerate((32, 64, 64)):
        x = _small(x, 64, filters, f"mixed{i}")
    parts = [_conv(x, 384, 3, 2, "valid"), _conv(_chain(x, (64, 1), (96, 3)), 96, 3, 2, "valid")]
    x = _joined([*parts, layers.MaxPooling2D(3, strides=2)(x)], "mixed3")
    for i, n in enumerate((128, 160, 160, 192), 4):
        parts = [
            _conv(x, 192, 1), _chain(x, (n, 1), (n, (1, 7)), (192, (7, 1))),
            _chain(x, (n, 1), (n, (7, 1)), (n, (1, 7)), (n, (7, 1)), (192, (1, 7))), _pooled(x, 192),
        ]  # fmt: skip
        x = _joined(parts, f"mixed{i}")
    parts = [
        _conv(_conv(x, 192, 1), 320, 3, 2, "valid"),
        _conv(_chain(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, 2, "valid"),
    ]
    x = _joined([*parts, layers.MaxPooling2D(3, strides=2)(x)], "mixed8")
    for i in range(2):
        first = _conv(x, 320, 1)
        y = _conv(x, 384, 1)
        second = _joined([_conv(y, 384, (1, 3)), _conv(y, 384, (3, 1))], f"mixed9_{i}")
        y = _chain(x, (448, 1), (384, 3))
        third = _joined([_conv(y, 384, (1, 3)), _conv(y, 384, (3, 1))])
        x = _joined([first, second, third, _pooled(x, 192)], f"mixed{9 + i}")
    hashes = ("9a0d58056eeedaa3f26cb7ebd46da564", "bcbd6486424b2319ff4ef7d526e38f63")
    x = frame.classified(x, mean="avg_pool" if frame.include_top else None, largest=None)
    return frame.model(x, lambda: usual_files("inception_v3", "inception_v3", hashes))


class CustomScaleLayer(layers.Layer):
    """inputs[0] + scale inputs[1]."""

    def __init__(self, scale: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, inputs: Any) -> Any:
        return inputs[0] + inputs[1] * self.scale

    def get_config(self) -> dict[str, Any]:
        return {"scale": self.scale, **super().get_config()}


# the branches of the blocks, by the side of the planes they work on; and how much is added to what came in
_BRANCHES: dict[int, tuple[tuple[tuple[int, Kernel], ...], ...]] = {
    35: (((32, 1),), ((32, 1), (32, 3)), ((32, 1), (48, 3), (64, 3))),
    17: (((192, 1),), ((128, 1), (160, (1, 7)), (192, (7, 1)))),
    8: (((192, 1),), ((192, 1), (224, (1, 3)), (256, (3, 1)))),
}
_SCALES = {35: 0.17, 17: 0.1, 8: 0.2}


def _residual(x: Any, side: int, number: int, last: bool = False) -> Any:
    name = f"block{side}_{number}"
    y = _joined([_chain(x, *branch) for branch in _BRANCHES[side]], f"{name}_mixed")
    y = layers.Conv2D(channels(x), 1, padding="same", name=f"{name}_conv")(y)
    x = CustomScaleLayer(1.0 if last else _SCALES[side])([x, y])
    return x if last else layers.Activation("relu", name=f"{name}_ac")(x)


def _inception_resnet_v2(frame: Frame) -> Model:
    x = _stem(frame.picture)
    x = _small(x, 96, 64, "mixed_5b")
    for i in range(1, 11):
        x = _residual(x, 35, i)
    parts = [_conv(x, 384, 3, 2, "valid"), _conv(_chain(x, (256, 1), (256, 3)), 384, 3, 2, "valid")]
    x = _joined([*parts, layers.MaxPooling2D(3, strides=2)(x)], "mixed_6a")
    for i in range(1, 21):
        x = _residual(x, 17, i)
    parts = [
        _conv(_conv(x, 256, 1), 384, 3, 2, "valid"), _conv(_conv(x, 256, 1), 288, 3, 2, "valid"),
        _conv(_chain(x, (256, 1), (288, 3)), 320, 3, 2, "valid"),
    ]  # fmt: skip
    x = _joined([*parts, layers.MaxPooling2D(3, strides=2)(x)], "mixed_7a")
    for i in range(1, 11):
        x = _residual(x, 8, i, last=i == 10)
    x = _conv(x, 1536, 1, name="conv_7b")
    x = frame.classified(x, mean="avg_pool" if frame.include_top else None, largest=None)
    hashes = ("e693bd0210a403b3192acc6073ad2e96", "d19885ff4a710c122648d3b5c3b684e4")
    return frame.model(x, lambda: usual_files("inception_resnet_v2", "inception_resnet_v2", hashes))


_SIZES = {"size": 299, "least": 75}
InceptionV3 = application(_inception_v3, "inception_v3", "Inception v3.", **_SIZES)
InceptionResNetV2 = application(_inception_resnet_v2, "inception_resnet_v2", "Inception-ResNet v2.", **_SIZES)
