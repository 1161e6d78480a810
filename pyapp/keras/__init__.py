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
    random,
    regularizers,
    saving,
    utils,
)
from .core import Input, KerasTensor, Layer
from .initializers import Initializer
from .losses import Loss
from .metrics import Metric
from .models import Functional, Model, Sequential
from .optimizers import Optimizer
from .regularizers import Regularizer
from .variables import Variable

__all__ = [
    "Functional", "Initializer", "Input", "KerasTensor", "Layer", "Loss", "Metric", "Model", "Optimizer", "Regularizer",
    "Sequential", "Variable", "activations", "callbacks", "constraints", "initializers", "layers", "losses", "metrics",
    "models", "ops", "optimizers", "random", "regularizers", "saving", "utils",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`keras.datasets`, which is imported on first use."""
    if name == "datasets":
        return importlib.import_module(".datasets", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
