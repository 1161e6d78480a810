"""DenseNet (Huang et al. 2016, arXiv 1608.06993): each layer sees the outputs of all layers before it."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import layers
from ..models import Model
from .building import Frame, application, channel_axis, channels, usual_files
from .imagenet_utils import decode_predictions, preprocess_as

__all__ = ["DenseNet121", "DenseNet169", "DenseNet201", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("torch")
_HASHES = {
    121: ("9d60b8095a5708f2dcce2bca79d332c7", "30ee3e1110167f948a6b9946edeeb738"),
    169: ("d699b8f76981ab1b30698df4c175e90b", "b8c4d4c20dd625c148057b9ff1c1176b"),
    201: ("1ceb130c1ea1b78c3bf6114dbdfd8807", "c13680b51ded0fb44dff2d8f86ac8bb1"),
}
_DEPTHS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
_GROWTH = 32  # channels that each layer adds


def _norm_relu(x: Any, norm: str, relu: str) -> Any:
    x = layers.BatchNormalization(axis=channel_axis(), epsilon=1.001e-5, name=norm)(x)
    return layers.Activation("relu", name=relu)(x)


def _layer(x: Any, name: str) -> Any:
    y = _norm_relu(x, f"{name}_0_bn", f"{name}_0_relu")
    y = layers.Conv2D(4 * _GROWTH, 1, use_bias=False, name=f"{name}_1_conv")(y)
    y = _norm_relu(y, f"{name}_1_bn", f"{name}_1_relu")
    y = layers.Conv2D(_GROWTH, 3, padding="same", use_bias=False, name=f"{name}_2_conv")(y)
    return layers.Concatenate(axis=channel_axis(), name=f"{name}_concat")([x, y])


def _densenet(frame: Frame, depth: int) -> Model:
    x = layers.ZeroPadding2D(((3, 3), (3, 3)))(frame.picture)
    x = layers.Conv2D(64, 7, strides=2, use_bias=False, name="conv1_conv")(x)
    x = _norm_relu(x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(((1, 1), (1, 1)))(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1")(x)
    for stage, count in enumerate(_DEPTHS[depth], 2):
        for i in range(1, count + 1):
            x = _layer(x, f"conv{stage}_block{i}")
        if stage < 5:  # half the channels, and half the sides
            x = _norm_relu(x, f"pool{stage}_bn", f"pool{stage}_relu")
            x = layers.Conv2D(channels(x) // 2, 1, use_bias=False, name=f"pool{stage}_conv")(x)
            x = layers.AveragePooling2D(2, strides=2, name=f"pool{stage}_pool")(x)
    x = frame.classified(_norm_relu(x, "bn", "relu"))
    return frame.model(x, lambda: usual_files("densenet", f"densenet{depth}", _HASHES[depth]))


DenseNet121, DenseNet169, DenseNet201 = (
    application(partial(_densenet, depth=depth), f"densenet{depth}", f"DenseNet of {depth} layers.")
    for depth in _DEPTHS
)  # fmt: skip
