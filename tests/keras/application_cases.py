"""The models of keras.applications that make_golden_applications.py (Keras) and test_applications.py (pyapp) make."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import numpy as np

SMALL: dict[str, Any] = {"input_shape": (32, 32, 3), "classes": 3}
WITHOUT: dict[str, Any] = {"input_shape": (32, 32, 3), "include_top": False}
# name: (model, settings): one of each family, as small as it can be
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "mobilenet": ("MobileNet", {**SMALL, "alpha": 0.25}),
    "mobilenet_v2": ("MobileNetV2", {**SMALL, "alpha": 0.35}),
    "mobilenet_v3": ("MobileNetV3Small", {**SMALL, "alpha": 0.75}),
    "mobilenet_v3_minimalistic": ("MobileNetV3Large", {**WITHOUT, "minimalistic": True, "pooling": "max"}),
    "efficientnet": ("EfficientNetB0", SMALL),
    "efficientnet_v2": ("EfficientNetV2B0", SMALL),
    "resnet": ("ResNet50", WITHOUT),
    "resnet_v2": ("ResNet50V2", SMALL),
    "densenet": ("DenseNet121", SMALL),
    "xception": ("Xception", {"input_shape": (71, 71, 3), "classes": 3}),
    "inception_v3": ("InceptionV3", {"input_shape": (75, 75, 3), "include_top": False, "pooling": "avg"}),
    "convnext": ("ConvNeXtTiny", SMALL),
    "vgg": ("VGG16", WITHOUT),
    "nasnet": ("NASNetMobile", {**WITHOUT, "pooling": "avg"}),
}
PREDICTED = ("mobilenet", "mobilenet_v2", "mobilenet_v3")  # the smallest ones also compute something


def described(model: Any) -> dict[str, Any]:
    """The classes, names, inputs and shapes of weights of all layers as a checksum, and some of it to read."""
    found = [[type(layer).__name__, layer.name, [list(w.shape) for w in layer.weights]] for layer in model.layers]
    return {
        "name": model.name, "layers": len(found), "parameters": model.count_params(),
        "checksum": crc32(json.dumps(found).encode()), "last": found[-1],
    }  # fmt: skip


def filled(model: Any) -> None:
    """Gives a model weights that are the same everywhere, and keep the outputs of its layers near 1."""
    values = []
    for number, weight in enumerate(model.weights):
        shape = tuple(weight.shape)
        name = getattr(weight, "path", weight.name).rsplit("/", 1)[-1]
        draw = np.random.default_rng(number).standard_normal(shape)
        spread = np.sqrt(2 / max(1, np.prod(shape[:-1]) if "depthwise" not in name else shape[0] * shape[1]))
        if len(shape) > 1:
            values.append((draw * spread).astype("float32"))
        else:
            base = 1.0 if "gamma" in name or "variance" in name else 0.0
            values.append(np.abs(base + 0.1 * draw).astype("float32"))
    model.set_weights(values)


def picture() -> Any:
    """A batch of one picture (1, 32, 32, 3) with numbers from 0 to 255."""
    return np.random.default_rng(7).uniform(0, 255, (1, 32, 32, 3)).astype("float32")


NUMBERS = np.array([[1.0, 2.0, 3.0, 4.0]], "float32")  # for `nested`


def nested(keras: Any) -> Any:
    """A model with a model inside, whose norm has weights that are not trained."""
    layers = keras.layers
    x = keras.Input((4,))
    y = keras.Sequential([layers.Dense(3, name="a"), layers.BatchNormalization(name="b")], name="inner")(x)
    return keras.Model(x, layers.Dense(2, name="out")(y), name="outer")
