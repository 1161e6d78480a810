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
    backend,
    callbacks,
    config,
    constraints,
    dtype_policies,
    initializers,
    layers,
    losses,
    metrics,
    mixed_precision,
    models,
    ops,
    optimizers,
    quantizers,
    random,
    regularizers,
    saving,
    tree,
    utils,
)
from .core import Layer
from .dtype_policies import DTypePolicy, FloatDTypePolicy
from .graph_functions import Function
from .initializers import Initializer
from .losses import Loss
from .metrics import Metric
from .models import Functional, Model, Sequential
from .not_there import lacking
from .operations import Operation
from .optimizers import Optimizer
from .quantizers import Quantizer
from .regularizers import Regularizer
from .rematerialization import RematScope, remat
from .scopes import StatelessScope, device, name_scope
from .symbolic_tensors import Input, InputSpec, KerasTensor
from .variables import Variable

__version__ = "3.15.1"

__all__ = [
    "DTypePolicy", "FloatDTypePolicy", "Function", "Functional", "Initializer", "Input", "InputSpec",
    "KerasTensor", "Layer", "Loss", "Metric", "Model", "Operation", "Optimizer", "Quantizer", "Regularizer",
    "RematScope", "Sequential", "StatelessScope", "Variable", "activations", "backend", "callbacks", "config",
    "constraints", "device", "dtype_policies", "initializers", "layers", "losses", "metrics", "mixed_precision",
    "models", "name_scope", "ops", "optimizers", "quantizers", "random", "regularizers", "remat", "saving", "tree",
    "utils", "version",
]  # fmt: skip


# imported on first use
_LATE = ("applications", "datasets", "distillation", "distribution", "preprocessing", "wrappers")
__all__ += [name for name in _LATE if name != "wrappers"]  # that needs scikit-learn


def __getattr__(name: str) -> Any:
    """Modules that are imported on first use. NotThereError for parts of Keras that are not there."""
    if name in _LATE:
        return importlib.import_module(f".{name}", __name__)
    raise lacking(__name__, name)


def version() -> str:
    """The version of Keras whose interface this is."""
    return __version__
