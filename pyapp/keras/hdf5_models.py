"""Whole models in HDF5 files (`.h5`, `.hdf5`), as Keras 1 and 2 stored them and Keras 3 still does.

The attributes "model_config" and "training_config" of the file are JSON, the group "model_weights" has the weights by
layer (hdf5_by_layer.py), the group "optimizer_weights" the optimiser's state. Source: files of tf_keras 2 and of Keras
3.15.1.
"""

from __future__ import annotations

import io
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import FileFormatError
from ..formats.safe_json import parse_json
from ..formats.sink import open_sink
from .call_state import memory_limit
from .config_reading import Reading
from .config_writing import describe_saved
from .core import Layer
from .hdf5_by_layer import names_of, read_weights_by_layer, write_weights_by_layer
from .hdf5_weights import WeightsFile, hdf5, optimizer_values, read_optimizer_values
from .legacy_configs import as_keras_3, compiled_with
from .optimizers import LossScaleOptimizer, MultiOptimizer

_KERAS_VERSION = "3.15.1"  # whose form this is
_ROOM = 1 << 26  # bytes of weights that a model may have beside those of the file
_STATE = "optimizer_weights"
# Keras 3.15.1 does not train a model on whose file has the group above: it builds the optimiser for no weights.
_OWN_STATE = "pyapp_optimizer_weights"


def save_hdf5_model(model: Any, filepath: str | Path) -> None:
    """Writes a Sequential or functional model, its weights and what it was compiled with, so that Keras can load it.
    ValueError for a model of another class, whose `call` such a file cannot describe."""
    if getattr(model, "graph", None) is None and not hasattr(model, "_first"):
        raise ValueError(
            f"{model.name}: an .h5 file describes Sequential and functional models; save a {type(model).__name__} with "
            "a name that ends in .keras"
        )
    description = describe_saved(model)
    compiled = description.pop("compile_config", None)
    target = io.BytesIO()
    with hdf5().File(target, "w") as file:
        file.attrs["keras_version"] = _KERAS_VERSION
        file.attrs["backend"] = "pyapp"
        name = description["registered_name"] or description["class_name"]
        _write_text(file, "model_config", {"class_name": name, "config": _unbuilt(description["config"])})
        write_weights_by_layer(model, file.create_group("model_weights"), _KERAS_VERSION)
        if compiled is not None:
            optimizer = compiled.pop("optimizer")
            _write_text(file, "training_config", {**compiled, "optimizer_config": optimizer})
            _write_state(file, model.optimizer)
    with open_sink(os.fspath(filepath)) as sink:
        sink.write(target.getvalue())


def _unbuilt(value: Any) -> Any:
    """A configuration without the shapes that layers were built for, which such files do not have."""
    if isinstance(value, Mapping):
        return {key: _unbuilt(inner) for key, inner in value.items() if key != "build_config"}
    return [_unbuilt(inner) for inner in value] if isinstance(value, list) else value


def _write_text(file: Any, name: str, value: Any) -> None:
    """JSON as an attribute: bytes of variable length, for which there is no limit."""
    file.attrs.create(name, json.dumps(value).encode())


def _write_state(file: Any, optimizer: Any) -> None:
    if isinstance(optimizer, (LossScaleOptimizer, MultiOptimizer)):
        warnings.warn(
            f"an .h5 file has no state of {type(optimizer).__name__}: a model that is loaded begins with a new one; "
            "save with a name that ends in .keras",
            stacklevel=5,
        )
        return
    group = file.create_group(_OWN_STATE)
    names = []
    for number, value in enumerate(optimizer_values(optimizer)):
        names.append(f"{optimizer.name}/{number}")
        group[names[-1]] = value
    group.attrs["weight_names"] = [name.encode() for name in names]


def load_hdf5_model(filepath: str | Path, compile: bool = True, safe_mode: bool = True) -> Any:
    """The model of an `.h5` file. FileFormatError for a file with weights alone, a damaged one, or a hostile one."""
    where = os.fspath(filepath)
    file = WeightsFile(where, where)
    try:
        config = _json(file, "model_config")
        if config is None:
            raise FileFormatError(f"{where} has weights alone", hint="Make the model, then call load_weights")
        reading = Reading(where, safe_mode, keeps_training=True)
        with memory_limit(8 * os.path.getsize(where) + _ROOM, where):
            found = reading.object(_converted(as_keras_3, config, reading, "model_config"))
            if not isinstance(found, Layer) or not hasattr(found, "compile"):
                raise FileFormatError(f"{where} describes no model")
            model: Any = found
            try:
                read_weights_by_layer(model, file)
            except ValueError as error:
                if isinstance(error, FileFormatError):
                    raise
                hint = "The weights are not those of the model in this file"
                raise FileFormatError(f"{error!s:.300}", hint=hint) from error
            training = _json(file, "training_config") if compile else None
            if training is not None:
                reading.compile(model, _converted(compiled_with, training, reading, "training_config"))
                _read_state(model, file)
    finally:
        file.close()
    return model


def _converted(convert: Callable[[Any], Any], given: Any, reading: Reading, name: str) -> Any:
    try:
        return convert(given)
    except (KeyError, IndexError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise reading.problem(f"its {name} is damaged ({type(error).__name__}: {error!s:.100})") from error


def _read_state(model: Any, file: WeightsFile) -> None:
    """Reads the optimiser's state where it fits, and warns where it does not."""
    group = file.group((_OWN_STATE,)) or file.group((_STATE,))
    names = [] if group is None else names_of(file, group, "weight_names")
    optimizer, weights = model.optimizer, model.trainable_weights
    if not names or isinstance(optimizer, (LossScaleOptimizer, MultiOptimizer)):
        return
    # Keras 2 stored no learning rate; up to 2.10 it had one kind of state of all weights after the other.
    has_rate = len(names) > 1 and math.prod(file.shape(group, names[1])) == 1 and not names[1].endswith(":0")
    if names[0].endswith(("iter:0", "iterations:0")) and weights:
        states, count = names[1:], len(weights)
        names = names[:1] + [name for first in range(count) for name in states[first::count]]
    read_optimizer_values(optimizer, weights, file, group, names, has_rate)


def _json(file: WeightsFile, name: str) -> Any:
    """An attribute of the file with a JSON object; None where it is not there."""
    text = file.attribute(file.file, name)
    if text is None:
        return None
    try:
        found = parse_json(text if isinstance(text, (str, bytes)) else str(text))
    except (ValueError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{file.where}: {name} is no JSON ({error!s:.100})") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{file.where}: {name} is no JSON object")
    return found
