"""Models as files. A name that ends in `.keras` or `.weights.h5` gives a file of Keras, which needs the package h5py;
one that ends in `.safetensors` such a file with the weights, whose metadata have the configuration as JSON. Files are
read by what they hold, whatever their name.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad
from ..engine.ops.random import Generator
from ..errors import FileFormatError
from ..formats import open_checkpoint
from ..formats.safe_json import parse_json
from ..formats.safetensors import write_safetensors
from ..formats.sink import open_sink
from . import losses, optimizers
from .archives import is_archive, is_hdf5, load_archive, load_hdf5_weights, save_archive
from .config_reading import Reading, call_with_zeros
from .config_writing import describe
from .core import Layer
from .file_editor import KerasFileEditor as KerasFileEditor
from .hdf5_models import load_hdf5_model, save_hdf5_model
from .hdf5_weights import has_hdf5, number_of_steps, scaling_of, write_weights
from .legacy_configs import as_keras_3
from .lookup import CLASSES, as_json, registered
from .other_layers import InputLayer
from .registered import (
    deserialize_keras_object as deserialize_keras_object,
)
from .registered import (
    get_registered_name as get_registered_name,
)
from .registered import (
    get_registered_object as get_registered_object,
)
from .registered import (
    serialize_keras_object as serialize_keras_object,
)
from .structures import flatten
from .symbolic_tensors import KerasTensor, record

if TYPE_CHECKING:
    from .models import Model

_CONFIG = "pyapp.keras"
_HDF5 = (".h5", ".hdf5")  # endings of files in the form of Keras 1 and 2
_VERSION = 2  # 1 had configurations of another form


def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Any:
    """Decorator: models that use this class or function can be loaded, by the name "package>name"."""

    def register(kind: Any) -> Any:
        CLASSES[f"{package}>{name or kind.__name__}"] = kind
        return kind

    return register


@contextmanager
def custom_object_scope(custom_objects: Mapping[str, Any] | None) -> Iterator[None]:
    """Inside, models that use these classes and functions can be loaded by name."""
    objects = custom_objects or {}
    before = {name: CLASSES.get(name) for name in objects}
    CLASSES.update(objects)
    try:
        yield
    finally:
        for name, kind in before.items():
            if kind is None:
                CLASSES.pop(name, None)
            else:
                CLASSES[name] = kind


CustomObjectScope = custom_object_scope


def get_custom_objects() -> dict[str, Any]:
    """The classes that files may name; more can be added."""
    return CLASSES


# -- configurations


def from_json_values(given: Mapping[str, Any], custom_objects: Mapping[str, type] | None = None) -> Any:
    """A layer or model from {"class_name", "config"}. ValueError for an unknown class."""
    name = str(given.get("class_name"))
    kind = (custom_objects or {}).get(name) or registered(name)
    if not (isinstance(kind, type) and issubclass(kind, Layer)):
        raise ValueError(f"the file names the layer {name!r}, which is not known; pass it in custom_objects")
    config = given.get("config")
    if not isinstance(config, Mapping):
        raise ValueError(f"the configuration of {name!r} is no JSON object")
    if "calls" in config:
        return functional_from_config(kind, config, custom_objects)
    if "layers" in config:
        return sequential_from_config(kind, config, custom_objects)

    def restored(value: Any) -> Any:
        if _is_layer(value, custom_objects):
            return from_json_values(value, custom_objects)
        return tuple(restored(inner) for inner in value) if isinstance(value, list) else value

    made: Layer = kind.from_config({key: restored(value) for key, value in config.items()})
    return made


def _is_layer(value: Any, custom_objects: Mapping[str, type] | None) -> bool:
    if not isinstance(value, Mapping):
        return False
    name = str(value.get("class_name"))
    kind = (custom_objects or {}).get(name) or registered(name)
    return isinstance(kind, type) and issubclass(kind, Layer)


def sequential_from_config(
    kind: Any, config: Mapping[str, Any], custom_objects: Mapping[str, type] | None = None
) -> Any:
    """A Sequential model of a file of earlier versions: its layers, and the shape of its inputs."""
    model = kind(name=config.get("name"))
    if config.get("input"):
        model.add(InputLayer(batch_shape=tuple(config["input"]["batch_shape"]), dtype=config["input"]["dtype"]))
    for layer in config["layers"]:
        model.add(from_json_values(layer, custom_objects))
    return model


def functional_from_config(
    kind: Any, config: Mapping[str, Any], custom_objects: Mapping[str, type] | None = None
) -> Any:
    """A functional model of a file of earlier versions: its inputs, layers, calls and outputs."""
    inputs: list[KerasTensor] = []

    def symbol(given: Any) -> Any:
        if isinstance(given, Mapping) and "batch_shape" in given:
            made = KerasTensor(given["batch_shape"], given["dtype"], given["name"])
            inputs.append(made)
            return made
        if isinstance(given, Mapping):
            return {key: symbol(given[key]) for key in sorted(given)}
        return [symbol(inner) for inner in given]

    structure = symbol(config["inputs"])
    layers = [from_json_values(layer, custom_objects) for layer in config["layers"]]
    outputs: list[list[Any]] = []

    def value(given: Any) -> Any:
        if isinstance(given, Mapping) and "tensor" in given:
            at = given["tensor"]
            return inputs[at["input"]] if "input" in at else outputs[at["call"]][at["output"]]
        if isinstance(given, Mapping):
            return {key: value(inner) for key, inner in given.items()}
        return [value(inner) for inner in given] if isinstance(given, list) else given

    for call in config["calls"]:
        made = record(layers[call["layer"]], tuple(value(call["args"])), value(call["kwargs"]))
        outputs.append(flatten(made))
    return kind(structure, value(config["outputs"]), name=config.get("name"))


def to_json(model: Model) -> str:
    """The configuration of a model, and what it was compiled with, as JSON, here or for Keras."""
    try:
        return json.dumps(describe(model))
    except TypeError:
        return json.dumps(describe(model, first=False))  # a loss or metric without a name


def model_from_json(json_string: str, custom_objects: Mapping[str, type] | None = None) -> Any:
    """A model of `to_json`, of pyapp or Keras, with new weights; compiled if the other was."""
    given = parse_json(json_string)
    with custom_object_scope(custom_objects):
        if "keras_version" in given:  # of Keras 1 or 2
            return Reading("model_from_json", keeps_training=True).object(as_keras_3(given))
        if "module" not in given:  # of earlier versions of pyapp
            return from_json_values(given, custom_objects)
        reading = Reading("model_from_json", keeps_training=True)
        model = reading.object(given)
        if given.get("compile_config"):
            reading.compile(model, given["compile_config"])
        return model


# -- files


def _every(model: Layer) -> list[tuple[Tensor, Tensor]]:
    """(weight, its value) of all weights, to go on from where they are."""
    return [(weight, weight.detach()) for weight in model.weights]


def _stored(model: Layer) -> list[tuple[Tensor, Tensor]]:
    """(weight, what a file has for it) of all weights: LoRA is added up, as in Keras' files."""
    found: dict[int, Tensor] = {}
    left_out: set[int] = set()
    for module in model.modules():
        if isinstance(module, Layer):
            pairs = module.stored_weights()
            left_out |= {id(w) for w in module._own_weights()} - {id(w) for w, _ in pairs}
            found |= {id(weight): value for weight, value in pairs}
    return [(w, found.get(id(w), w.detach())) for w in model.weights if id(w) not in left_out]


def _tensors(weights: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    return {f"weights.{number}": value for number, (_, value) in enumerate(weights)}


def _refuse_overwriting(path: Path, overwrite: bool) -> None:
    if not overwrite and path.exists():
        raise FileExistsError(f"{path} is there already; pass overwrite=True to replace it")


def _in_keras_form(path: Path, ending: str) -> bool:
    """Whether a file of this name is to be one of Keras'. Without h5py it is not, and a warning says so. ValueError for
    a name of HDF5 files that Keras reads as another form, and for an ending of no form."""
    if not path.name.endswith(ending):
        if ending == ".weights.h5" and path.suffix in _HDF5:
            raise ValueError(
                f"{path.name}: in Keras, a file of this name has no weights alone; choose one with {ending}"
            )
        if path.suffix != ".safetensors":
            raise ValueError(
                f"The filename must end in `{ending}`. Received: filepath={path}: choose that, or .safetensors for "
                "pyapp's own form"
            )
        return False
    if not has_hdf5():
        warnings.warn(
            f"{path.name} is written in pyapp's own form, which Keras does not read: that takes the package h5py (pip "
            "install 'pyapp[keras]')",
            stacklevel=4,
        )
        return False
    return True


def save_model(model: Model, filepath: str | Path, overwrite: bool = True) -> None:
    """Writes a model with its weights, and with its optimiser's state if it is compiled."""
    path = Path(filepath)
    _refuse_overwriting(path, overwrite)
    if path.suffix in _HDF5:
        save_hdf5_model(model, path)
        return
    if _in_keras_form(path, ".keras"):
        save_archive(model, path)
        return
    description: dict[str, Any] = {"version": _VERSION, "model": describe(model, first=False)}
    tensors = _tensors(_stored(model))
    if model.graph is None and model._first_inputs is not None:
        description["first_inputs"] = model._first_inputs
    if model.compiled:
        try:
            description["compile"] = as_json({**model._must_be_compiled(), "optimizer": model.optimizer})
        except TypeError:
            pass  # a loss or metric of the user's own: the model is saved uncompiled
        state = model.optimizer.state_dict()
        description["steps"], description["scaling"] = state["iterations"], state.get("scaling", {})
        for number, entry in enumerate(state["states"]):
            tensors |= {f"optimizer.{number}.{name}": value for name, value in entry.items()}
    write_safetensors(os.fspath(path), tensors, {_CONFIG: json.dumps(description)})


class MissingFileError(FileNotFoundError, ValueError):
    """There is no file of this name. Keras raises a ValueError for some forms of files."""


def load_model(
    filepath: str | Path, custom_objects: Mapping[str, type] | None = None, compile: bool = True,
    safe_mode: bool = True,
) -> Any:  # fmt: skip
    """A model that `save_model` or Keras 3 wrote: with its weights and, if it was compiled, its optimiser's state. Of
    the classes and functions that the file names, Keras' own are known, those that are registered, and
    `custom_objects`. Lambdas are code; they are refused unless `safe_mode` is False, for files that you trust.
    """
    begin = _begin(filepath)
    if is_archive(begin):
        with custom_object_scope(custom_objects):
            return load_archive(filepath, compile, safe_mode)
    if is_hdf5(begin):
        with custom_object_scope(custom_objects):
            return load_hdf5_model(filepath, compile, safe_mode)
    with custom_object_scope(custom_objects), open_checkpoint(os.fspath(filepath)) as file:
        text = file.metadata.get(_CONFIG)
        if text is None:
            raise FileFormatError(f"{filepath} has weights alone", hint="Make the model, then call load_weights")
        try:
            description = parse_json(text)
        except ValueError as error:
            what = f"the configuration in {filepath} is damaged ({error})"
            raise FileFormatError(what, hint="Download the file again, or save the model again") from error
        if not isinstance(description, dict) or description.get("version") not in (1, _VERSION):
            raise FileFormatError(f"{filepath} was written by another version of pyapp.keras")
        model = _model_of(description["model"], os.fspath(filepath), safe_mode, custom_objects)
        if not model.built and description.get("first_inputs") is not None:
            call_with_zeros(model, description["first_inputs"])
        _read_weights(model, file, filepath)
        given = description.get("compile")
        if compile and given:
            given["optimizer"] = optimizers.get(given["optimizer"])
            given["loss"] = _losses(given["loss"])
            given |= {name: _own(given.get(name)) for name in ("metrics", "weighted_metrics")}
            model.compile(**given)
            _read_optimizer(model, file, description["steps"], description.get("scaling", {}))
    return model


def _model_of(given: Any, where: str, safe_mode: bool, custom_objects: Mapping[str, type] | None) -> Any:
    if isinstance(given, Mapping) and "module" not in given:
        return from_json_values(given, custom_objects)
    found = Reading(where, safe_mode, keeps_training=True).object(given)
    if not isinstance(found, Layer):
        raise FileFormatError(f"{where} describes no model")
    return found


def _read_optimizer(model: Model, file: Any, steps: int, scaling: Mapping[str, Any]) -> None:
    names = [name for name in file.tensors if name.startswith("optimizer.")]
    if not names:
        return
    model.optimizer.build(model.trainable_weights)
    states: list[dict[str, Tensor]] = [{} for _ in model.trainable_weights]
    by_number = {str(number): state for number, state in enumerate(states)}
    for name in names:
        number, _, key = name.removeprefix("optimizer.").partition(".")
        if number not in by_number:
            raise ValueError(f"{file.source.name} has {name!r:.80}, {model.name} has {len(states)} weights to train")
        by_number[number][key] = file.read(name)
    rate = model.optimizer.state_dict()["learning_rate"]
    model.optimizer.load_state_dict({"iterations": steps, "learning_rate": rate, "states": states, "scaling": scaling})


def _generators(model: Model) -> list[Generator]:
    """The generators of the layers that have a seed, in order."""
    found = (getattr(module, "generator", None) for module in model.modules())
    return [generator for generator in found if isinstance(generator, Generator)]


def save_training(model: Model, filepath: str | Path) -> None:
    """Writes what a training needs to go on: weights, the optimiser's state, and that of the layers' generators."""
    state = model.optimizer.state_dict()
    tensors = _tensors(_every(model))
    for number, entry in enumerate(state["states"]):
        tensors |= {f"optimizer.{number}.{name}": value for name, value in entry.items()}
    scheduled = model.optimizer.schedule is not None
    shape = model.inputs[0].shape if len(model.inputs) == 1 else None
    note = {
        "steps": state["iterations"], "rate": None if scheduled else state["learning_rate"], "input_shape": shape,
        "scaling": state.get("scaling", {}),
        "generators": [generator.get_state() for generator in _generators(model)],
    }  # fmt: skip
    write_safetensors(os.fspath(filepath), tensors, {"training": json.dumps(note)})


def restore_training(model: Model, filepath: str | Path) -> None:
    """Reads what `save_training` wrote. ValueError where it does not fit, FileFormatError for another file."""
    with open_checkpoint(os.fspath(filepath)) as file:
        try:
            note = parse_json(file.metadata["training"])
            steps, scaling = number_of_steps(note["steps"]), scaling_of(note.get("scaling", {}))
            states = [(int(seed), int(drawn)) for seed, drawn in note["generators"]]
            shape, rate = note["input_shape"], None if note["rate"] is None else float(note["rate"])
            shape = None if shape is None else tuple(None if size is None else int(size) for size in shape)
            if rate is not None and not 0 <= rate < math.inf:
                raise ValueError(f"the rate is {rate}")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileFormatError(
                "it has no state of a training", where=str(filepath), hint="Give a file that this training has written"
            ) from error
        if not model.built and shape is not None:
            model.build(shape)
        if not model.built:
            raise ValueError(f"{model.name} has no weights yet: call it with a batch before the training goes on")
        _read_weights(model, file, filepath, every=True)
        if rate is not None:
            model.optimizer.learning_rate = rate
        _read_optimizer(model, file, steps, scaling)
        own = _generators(model)
        if len(own) != len(states):
            raise ValueError(f"{filepath} has {len(states)} generators, the layers of {model.name} have {len(own)}")
        for generator, (seed, drawn) in zip(own, states, strict=True):
            generator.set_state((seed, drawn))


def _losses(given: Any) -> Any:
    """Losses of a file: names and objects, in lists and dicts."""
    if isinstance(given, Mapping) and "class_name" in given:
        return losses.get(given)
    if isinstance(given, Mapping):
        return {key: _losses(value) for key, value in given.items()}
    return [_losses(value) for value in given] if isinstance(given, list) else _own(given)


def _own(given: Any) -> Any:
    """Names of functions of one's own as the functions, in lists and dicts too; known while a file is read."""
    if isinstance(given, Mapping):
        return {key: _own(value) for key, value in given.items()}
    if isinstance(given, list):
        return [_own(value) for value in given]
    found = registered(given) if isinstance(given, str) else None
    return given if found is None or found.__module__.startswith("pyapp.") else found


def save_weights(model: Layer, filepath: str | Path, overwrite: bool = True) -> None:
    """Writes the weights of a model or layer, in the order of `weights`."""
    path = Path(filepath)
    _refuse_overwriting(path, overwrite)
    if not model.built:
        raise ValueError(f"{model.name} has no weights yet: call it, or build(input_shape), first")
    if _in_keras_form(path, ".weights.h5"):
        with open_sink(os.fspath(path)) as target:
            target.write(write_weights(model, model.optimizer if getattr(model, "compiled", False) else None))
        return
    write_safetensors(os.fspath(path), _tensors(_stored(model)))


def load_weights(model: Layer, filepath: str | Path, skip_mismatch: bool = False) -> None:
    """Reads weights into a model or layer. ValueError where they do not fit, unless `skip_mismatch`, which leaves
    weights of another shape as they are. Weights of Keras' files are found by their paths."""
    begin = _begin(filepath)
    if is_archive(begin) or is_hdf5(begin):
        load_hdf5_weights(model, filepath, skip_mismatch)
        return
    with open_checkpoint(os.fspath(filepath)) as file:
        _read_weights(model, file, filepath, skip_mismatch)


def _read_weights(
    model: Layer, file: Any, filepath: Any, skip_mismatch: bool = False, every: bool = False
) -> None:  # fmt: skip
    own = [weight for weight, _ in (_every(model) if every else _stored(model))]
    names = [name for name in file.tensors if name.startswith("weights.")]
    if len(names) != len(own) and not skip_mismatch:
        raise ValueError(f"{filepath} has {len(names)} weights, {model.name} has {len(own)}")
    fitting = []
    for number, weight in enumerate(own):
        info = file.tensors.get(f"weights.{number}")
        if info is not None and tuple(info.shape) == tuple(weight.shape):
            fitting.append((number, weight))
        elif not skip_mismatch:
            shape = None if info is None else tuple(info.shape)
            raise ValueError(f"{filepath}: weight {number} has shape {shape}, {model.name} wants {tuple(weight.shape)}")
    with no_grad():
        for number, weight in fitting:
            weight.copy_(file.read(f"weights.{number}"))
    if not every:
        for module in model.modules():
            if isinstance(module, Layer):
                module.weights_were_read()


def _begin(filepath: str | Path) -> bytes:
    try:
        with open(filepath, "rb") as file:
            return file.read(8)
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, "there is no file of this name", os.fspath(filepath)) from None
