"""Xception (Chollet 2016, arXiv 1610.02357): convolutions of each channel alone, and of all channels at one place."""

from __future__ import annotations

from typing import Any

from .. import layers
from ..models import Model
from .building import Frame, application, channel_axis, usual_files
from .imagenet_utils import decode_predictions, preprocess_as

__all__ = ["Xception", "decode_predictions", "preprocess_input"]

preprocess_input = preprocess_as("tf")


def _norm(x: Any, name: str | None = None) -> Any:
    return layers.BatchNormalization(axis=channel_axis(), name=name)(x)


def _relu(x: Any, name: str) -> Any:
    return layers.Activation("relu", name=f"{name}_act")(x)


def _separable(x: Any, filters: int, name: str) -> Any:
    return _norm(layers.SeparableConv2D(filters, 3, padding="same", use_bias=False, name=name)(x), f"{name}_bn")


def _halved(x: Any, block: int, filters: tuple[int, int]) -> Any:
    """Two convolutions and half the sides, beside one convolution."""
    kept = _norm(layers.Conv2D(filters[1], 1, strides=2, padding="same", use_bias=False)(x))
    for i in (1, 2):
        name = f"block{block}_sepconv{i}"
        x = _separable(x if block == 2 and i == 1 else _relu(x, name), filters[i - 1], name)
    x = layers.MaxPooling2D(3, strides=2, padding="same", name=f"block{block}_pool")(x)
    return layers.Add()([x, kept])


def _xception(frame: Frame) -> Model:
    x = frame.picture
    for i, (filters, strides) in enumerate(((32, 2), (64, 1)), 1):
        name = f"block1_conv{i}"
        x = layers.Conv2D(filters, 3, strides=strides, use_bias=False, name=name)(x)
        x = _relu(_norm(x, f"{name}_bn"), name)
    for block, filters in ((2, 128), (3, 256), (4, 728)):
        x = _halved(x, block, (filters, filters))
    for block in range(5, 13):
        kept = x
        for i in (1, 2, 3):
            name = f"block{block}_sepconv{i}"
            x = _separable(_relu(x, name), 728, name)
        x = layers.Add()([x, kept])
    x = _halved(x, 13, (728, 1024))
    for i, filters in ((1, 1536), (2, 2048)):
        name = f"block14_sepconv{i}"
        x = _relu(_separable(x, filters, name), name)
    x = frame.classified(x, mean="avg_pool" if frame.include_top else None, largest=None)
    hashes = ("0a58e3b7378bc2990ea3b43d5981f1f6", "b0042744bf5b25fce3cb969f33bebb97")
    return frame.model(x, lambda: usual_files("xception", "xception", hashes))


Xception = application(_xception, "xception", "Xception.", size=299, least=71)
