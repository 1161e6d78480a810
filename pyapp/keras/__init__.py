"""Keras' interface: `from pyapp import keras`, or `import pyapp.keras as keras`.

>>> from pyapp import keras
>>> model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
>>> model.compile(optimizer="adam", loss="mse")

Names, arguments and defaults are those of Keras 3; layers are modules of `pyapp.nn`, whose modules can stand among
them. Training is in `pyapp.train`.
"""

import importlib
from typing import Any

from . import (
    activations,
    callbacks,
    constraints,
    initializers,
    layers,
    losses,
    metrics,
    models,
    ops,
    optimizers,
    regularizers,
    saving,
    utils,
)
from .core import Input, KerasTensor, Layer
from .models import Functional, Model, Sequential

__all__ = [
    "Functional", "Input", "KerasTensor", "Layer", "Model", "Sequential", "activations", "callbacks", "constraints",
    "initializers", "layers", "losses", "metrics", "models", "ops", "optimizers", "regularizers", "saving", "utils",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`keras.datasets`, which is imported on first use."""
    if name == "datasets":
        return importlib.import_module(".datasets", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
