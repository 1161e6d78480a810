"""The weights of a model as Keras stores them in HDF5 files (`.weights.h5`, `model.weights.h5` in a `.keras` file).

A layer's weights are the datasets "0", "1", … of the group "PATH/vars". PATH are the names of the attributes that lead
to the layer; in a list or dict it is the class's name in snake case, with _1, _2, … where it repeats. Source: the
documents of `keras.saving`, and files of Keras 3.15.1.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..engine import Tensor, no_grad, ops
from ..engine.lazy import np
from ..errors import FileFormatError
from ..formats.safe_json import parse_json
from ..train.names import snake_case
from .core import Layer
from .layers import RNN, TextVectorization
from .optimizers import LossScaleOptimizer
from .other_layers import ModuleLayer

if TYPE_CHECKING:
    from .models import Model

_OPTIMIZER = "optimizer"
_OWN_OPTIMIZER = "pyapp_optimizer"  # the states of optimisers whose states Keras arranges otherwise
_OTHERS = ("MultiOptimizer",)
_SCALED = ("inner_optimizer", 2, 3)  # of a LossScaleOptimizer: where its optimiser is, its counter and its scale


def hdf5() -> Any:
    """The package h5py. ImportError that says what to install where it is not there."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError(
            "Keras' files hold weights as HDF5, which the package h5py reads and writes: pip install 'pyapp[keras]'"
        ) from error


def has_hdf5() -> bool:
    """Whether h5py is installed."""
    try:
        hdf5()
    except ImportError:
        return False
    return True


# -- the layers of a model and their paths


def layers_by_path(layer: Layer, by_attributes: bool = False) -> Iterator[tuple[tuple[str, ...], Layer]]:
    """(names of the attributes, layer) of a model and of all layers inside, each once, in Keras' order.

    To Keras, `layers` of a Model is an attribute too: layers of attributes with later names are in that list. With
    `by_attributes` they are where they are assigned, as in files of earlier versions of pyapp.
    """
    return _walk(layer, (), set(), by_attributes)


def _walk(
    layer: Layer, path: tuple[str, ...], seen: set[int], by_attributes: bool
) -> Iterator[tuple[tuple[str, ...], Layer]]:
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield path, layer
    if isinstance(layer, (ModuleLayer, TextVectorization)):
        return
    for name, child in _attributes(layer, by_attributes):
        if isinstance(child, Layer):
            yield from _walk(child, (*path, name), seen, by_attributes)
        else:
            yield from _walk_list(child, (*path, name), seen, by_attributes)


def _walk_list(
    values: Any, path: tuple[str, ...], seen: set[int], by_attributes: bool
) -> Iterator[tuple[tuple[str, ...], Layer]]:
    counts: dict[str, int] = {}
    for value in values.values() if isinstance(values, Mapping) else values:
        is_layer = isinstance(value, Layer)
        if not is_layer and not isinstance(value, (list, tuple, Mapping)):
            continue
        name = _kind(value) if is_layer else "container"
        counts[name] = counts.get(name, -1) + 1
        inner = (*path, f"{name}_{counts[name]}" if counts[name] else name)
        yield from (_walk if is_layer else _walk_list)(value, inner, seen, by_attributes)


def _kind(layer: Any) -> str:
    """The name of a layer's class in paths."""
    return snake_case(type(layer).__name__)


def _attributes(layer: Any, by_attributes: bool) -> list[tuple[str, Any]]:
    """The attributes with layers, in the order of their names; private ones come last."""
    found: dict[str, Any] = {}
    lists = {
        name: value
        for name, value in vars(layer).items()
        if isinstance(value, (list, tuple, dict)) and name not in _NO_LAYERS and _has_layers(value)
    }
    structured = getattr(layer, "graph", None) is not None or hasattr(layer, "_first")  # functional or Sequential
    if structured:
        found["layers"] = layer.layers
    inside = {id(one) for one in found.get("layers", ())}
    if isinstance(getattr(type(layer), "layers", None), property) and not structured and not by_attributes:
        found["layers"] = layer.layers
    for name, child in layer._modules.items():
        of_list = any(name.startswith(f"{key}_") and name[len(key) + 1 :].isdigit() for key in lists)
        numbered = id(child) in inside and name.startswith("layer_") and name[6:].isdigit()
        if isinstance(child, Layer) and not of_list and not numbered:
            found[f"_{name}" if type(layer).__name__ in _PRIVATE else name] = child
    found |= {name: value for name, value in lists.items() if name not in found}
    order = sorted(found, key=lambda name: (name != "layers" or not structured, f"~{name}" if name[0] == "_" else name))
    return [(name, found[name]) for name in order]


_PRIVATE = ("GroupedQueryAttention",)  # Keras' attributes of their layers begin with _
_NO_LAYERS = ("_symbolic_calls", "_modules", "_parameters", "_buffers", "_weight_order", "_arguments")


def _has_layers(values: Any) -> bool:
    return any(
        isinstance(value, Layer) or (isinstance(value, (list, tuple, Mapping)) and _has_layers(value))
        for value in (values.values() if isinstance(values, Mapping) else values)
    )


def own_weights(layer: Layer) -> list[tuple[Tensor, Tensor]]:
    """(weight, what the file has for it) of this layer itself: those that can be trained, then the others; of quantised
    layers in the order that they have in files."""
    every = [(w, w.detach()) for w in layer.weights] if isinstance(layer, ModuleLayer) else layer.stored_weights()
    if layer.stored_in_order:
        return every
    return sorted(every, key=lambda pair: not getattr(pair[0], "is_parameter", False))


# -- writing


def write_weights(model: Layer, optimizer: Any = None) -> bytes:
    """The HDF5 file with the weights of a model, and with the states of an optimiser."""
    target = io.BytesIO()
    with hdf5().File(target, "w") as file:
        for path, layer in layers_by_path(model):
            group = file.create_group("/".join((*path, "vars")))
            group.attrs["name"] = layer.name
            if type(layer).save_own_variables is not Layer.save_own_variables:
                own: dict[str, Any] = {}
                layer.save_own_variables(own)
                for name, value in own.items():
                    group[str(name)] = _array(value)
                continue
            for number, (_, value) in enumerate(own_weights(layer)):
                group[str(number)] = value.numpy()
        if optimizer is not None:
            _write_optimizer(file, optimizer)
    return target.getvalue()


def _array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _write_optimizer(file: Any, optimizer: Any) -> None:
    if type(optimizer).__name__ in _OTHERS:
        state = optimizer.state_dict()
        group = file.create_group(_OWN_OPTIMIZER)
        group.attrs["steps"] = json.dumps({"steps": state["iterations"], "scaling": state.get("scaling", {})})
        for number, entry in enumerate(state["states"]):
            for name, value in entry.items():
                group[f"{number}.{name}"] = value.numpy()
        return
    if isinstance(optimizer, LossScaleOptimizer):
        inner = optimizer.inner_optimizer
        _write_values(file, f"{_OPTIMIZER}/{_SCALED[0]}", inner, optimizer_values(inner))
        own: list[Any] = [np.int32(0), np.float32(0)]
        if inner._weights:
            own += [np.int32(optimizer.step_counter), np.float32(optimizer.dynamic_scale)]
        _write_values(file, _OPTIMIZER, optimizer, [*own, *optimizer_values(inner)])
    else:
        _write_values(file, _OPTIMIZER, optimizer, optimizer_values(optimizer))


def _write_values(file: Any, path: str, optimizer: Any, values: list[Any]) -> None:
    group = file.create_group(f"{path}/vars")
    group.attrs["name"] = optimizer.name
    for number, value in enumerate(values):
        group[str(number)] = value


def optimizer_values(optimizer: Any) -> list[Any]:
    """What Keras stores of an optimiser, in its order."""
    values: list[Any] = [np.int32(optimizer.batches)]
    if optimizer.schedule is None:
        values.append(np.float32(optimizer.learning_rate))
    values += [state.numpy() for state in optimizer.ordered_states()]
    if type(optimizer).__name__ == "Nadam" and optimizer._weights:
        values.append(np.float32(math.prod(optimizer._momentum_of(t) for t in range(1, optimizer.iterations + 1))))
    return values


# -- reading

# What h5py raises for damaged files.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)


class WeightsFile:
    """An HDF5 file with weights. Only groups and datasets inside of it are read: no links, no other files."""

    def __init__(self, source: Any, where: str) -> None:
        self.where = where
        try:
            self.file = hdf5().File(source, "r")
        except _DAMAGE as error:
            raise FileFormatError(
                f"{where} is no HDF5 file, or a damaged one ({error!s:.100})", hint="Save the weights again in Keras"
            ) from error

    def close(self) -> None:
        self.file.close()

    def _child(self, parent: Any, name: str) -> Any:
        """A group or dataset of a group; None where it is not there."""
        h5py = hdf5()
        try:
            link = parent.get(name, getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise FileFormatError(f"{self.where}: {name!r:.60} is a link to another place, which is not followed")
            return parent[name]
        except _DAMAGE as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"{self.where}: {name!r:.60} cannot be read ({error!s:.100})") from error

    def child(self, parent: Any, path: str) -> Any:
        """A group or dataset at a path with /, from a group; None where it is not there."""
        found = parent
        for name in path.split("/"):
            found = self._child(found, name) if isinstance(found, hdf5().Group) else None
            if found is None:
                return None
        return found

    def attribute(self, group: Any, name: str) -> Any:
        """The value of an attribute of a group; None where it is not there."""
        try:
            return group.attrs[name] if name in group.attrs else None
        except _DAMAGE as error:
            raise FileFormatError(f"{self.where}: {name} of {group.name} cannot be read ({error!s:.100})") from error

    def group(self, path: tuple[str, ...]) -> Any:
        """The group of a path; None where there is none. Earlier versions of Keras had some names with _ before."""
        found = self.file
        for name in path:
            inner = self._child(found, name)
            inner = self._child(found, f"_{name}") if inner is None else inner
            if not isinstance(inner, hdf5().Group):
                return None
            found = inner
        return found

    def names(self, group: Any) -> list[str]:
        """The numbers of the datasets of a group, in order."""
        try:
            return sorted((name for name in group if name.isdigit()), key=int)
        except _DAMAGE as error:
            raise FileFormatError(f"{self.where}: a group cannot be read ({error!s:.100})") from error

    def shape(self, group: Any, name: str) -> tuple[int, ...]:
        """The shape of a dataset with numbers. FileFormatError for anything else."""
        found = self.child(group, name)
        try:
            usable = isinstance(found, hdf5().Dataset) and found.dtype.kind in "fiub" and found.shape is not None
            usable = usable and not found.external and not found.is_virtual
        except _DAMAGE:  # such as a type that NumPy does not have
            usable = False
        if not usable:
            raise FileFormatError(f"{self.where}: {group.name}/{name} is not a dataset of numbers in this file")
        return tuple(found.shape)

    def read(self, group: Any, name: str) -> Any:
        """A dataset as an array. Its shape is to be compared first."""
        try:
            return group[name][()]
        except _DAMAGE as error:
            raise FileFormatError(f"{self.where}: {group.name}/{name} cannot be read ({error!s:.100})") from error

    def own(self, group: Any) -> dict[str, Any]:
        """All arrays of a layer that reads them by itself. They are as large as the file says, not compressed."""
        found: dict[str, Any] = {}
        for name in [] if group is None else sorted(group):
            found[name] = self.stored_array(group, name)
        return found

    def stored_array(self, group: Any, name: str) -> Any:
        """An array that is as large as the file says. FileFormatError for one that is compressed or is none."""
        self.shape(group, name)
        dataset = group[name]
        if dataset.id.get_storage_size() != dataset.nbytes:
            raise FileFormatError(f"{self.where}: {group.name}/{name} is compressed, or has elements left out")
        return self.read(group, name)

    def label(self, group: Any) -> str | None:
        """The name of the layer whose weights a group has."""
        try:
            found = group.attrs.get("name")
        except _DAMAGE:
            return None
        return found if isinstance(found, str) else None


_HINT = (
    "make the model with the layers and settings of the one that was saved, or pass skip_mismatch=True, which leaves "
    "layers that do not fit as they are"
)


def stored_layers(model: Layer, file: WeightsFile) -> Iterator[tuple[tuple[str, ...], Layer]]:
    """(path, layer) of a model and of all layers inside: where the file has them, in Keras' order."""
    earlier = {id(layer): path for path, layer in layers_by_path(model, by_attributes=True)}
    for path, layer in layers_by_path(model):
        other = earlier.get(id(layer), path)
        yield (other if other != path and file.group(path) is None else path), layer


def read_weights(model: Layer, file: WeightsFile, skip_mismatch: bool = False) -> None:
    """Reads the weights of a file into a model. ValueError where they do not fit, before any weight changes; with
    `skip_mismatch` layers that do not fit stay as they are."""
    if not model.built:
        raise ValueError(f"{model.name} has no weights yet: call it, or build(input_shape), first")
    found: list[tuple[Tensor, Any, str]] = []
    by_themselves: list[tuple[Layer, dict[str, Any]]] = []
    for path, layer in stored_layers(model, file):
        if type(layer).load_own_variables is not Layer.load_own_variables:
            by_themselves.append((layer, file.own(file.group((*path, "vars")))))
            continue
        weights = [weight for weight, _ in own_weights(layer)]
        if not weights:
            continue
        group = file.group((*path, "vars"))
        names = [] if group is None else file.names(group)
        if isinstance(layer, RNN):  # a stateful one has its states there, after its weights (it has none itself)
            names = names[: len(weights)]
        place = "/".join((*path, "vars"))
        if len(names) != len(weights):
            if skip_mismatch:
                continue
            raise ValueError(
                f"{file.where}: {place} has {len(names)} weights, layer {layer.name} ({type(layer).__name__}) has "
                f"{len(weights)}: {_HINT}"
            )
        shapes = [file.shape(group, name) for name in names]
        wrong = [
            k for k, (shape, weight) in enumerate(zip(shapes, weights, strict=True)) if shape != tuple(weight.shape)
        ]
        if wrong and not skip_mismatch:
            k = wrong[0]
            raise ValueError(
                f"{file.where}: {place}/{names[k]} has shape {shapes[k]}, layer {layer.name} wants "
                f"{tuple(weights[k].shape)}: {_HINT}"
            )
        if not wrong:
            found += [(weight, group, name) for weight, name in zip(weights, names, strict=True)]
    with no_grad():
        for weight, group, name in found:
            value = ops.as_tensor(np.ascontiguousarray(file.read(group, name)))
            weight.copy_(value.reshape(tuple(weight.shape)).to(weight.dtype))
    for layer, values in by_themselves:
        layer.load_own_variables(values)
    read = {id(weight) for weight, _, _ in found}
    for _, layer in layers_by_path(model):
        if any(id(weight) in read for weight, _ in own_weights(layer)):
            layer.weights_were_read()


def read_optimizer(model: Model, file: WeightsFile) -> None:
    """Reads the state of the model's optimiser. Warns where it does not fit, as Keras does, and leaves it new."""
    optimizer = model.optimizer
    own = file.group((_OWN_OPTIMIZER,))
    if own is not None:
        _read_own_optimizer(model, file, own)
        return
    if isinstance(optimizer, LossScaleOptimizer):
        _read_scaled(optimizer, model.trainable_weights, file)
    else:
        _read_values(optimizer, model.trainable_weights, file, (_OPTIMIZER, "vars"))


def number_of_steps(value: Any) -> int:
    """A number of steps that a file has. ValueError, or another one of _DAMAGE, for one that cannot be."""
    if not 0 <= float(value) < 1 << 53:
        raise ValueError(f"{value!s:.60} is no number of steps")
    return int(value)


def scaling_of(values: Any) -> dict[str, Any]:
    """The numbers of the scaling of losses that a file has, and the learning rates of several optimisers, a list.
    ValueError, or another one of _DAMAGE, for others."""
    found = dict(values)
    numbers = [one for key, value in found.items() for one in (value if key == "learning_rates" else [value])]
    if not all(type(number) in (int, float) and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError(f"{values!s:.60} are no numbers of a scaling")
    return found


def _read_scaled(optimizer: LossScaleOptimizer, weights: list[Tensor], file: WeightsFile) -> None:
    inside, counter, scale = _SCALED
    group = file.group((_OPTIMIZER, "vars"))
    names = [] if group is None else file.names(group)
    if file.group((_OPTIMIZER, inside, "vars")) is None:
        if names:
            _warn_of_unfit_state(file, optimizer)
        return
    if not _read_values(optimizer.inner_optimizer, weights, file, (_OPTIMIZER, inside, "vars")):
        return
    optimizer.iterations = optimizer.inner_optimizer.iterations
    if len(names) <= scale or any(math.prod(file.shape(group, names[k])) != 1 for k in (counter, scale)):
        return  # it has made no step
    steps, factor = (np.asarray(file.read(group, names[k])).reshape(-1)[0] for k in (counter, scale))
    if not (np.isfinite(factor) and factor > 0 and steps >= 0):
        raise FileFormatError(f"{file.where}: the scale of LossScaleOptimizer is {factor}, after {steps} steps")
    optimizer.step_counter, optimizer.dynamic_scale = int(steps), float(factor)


def _read_values(optimizer: Any, weights: list[Tensor], file: WeightsFile, path: tuple[str, ...]) -> bool:
    """Reads what `optimizer_values` gives; whether it was there and fitted."""
    group = file.group(path)
    return read_optimizer_values(optimizer, weights, file, group, [] if group is None else file.names(group))


def read_optimizer_values(
    optimizer: Any, weights: list[Tensor], file: WeightsFile, group: Any, names: list[str], has_rate: bool = True
) -> bool:  # fmt: skip
    """Reads the datasets of a group that have what `optimizer_values` gives, or that without the learning rate; whether
    they were there and fitted."""
    scalars = 2 if optimizer.schedule is None and has_rate else 1
    if len(names) < scalars or type(optimizer).__name__ in _OTHERS:
        if names:
            warnings.warn(
                f"{file.where}: the state of {type(optimizer).__name__} is not read: Keras arranges it otherwise",
                stacklevel=5,
            )
        return False
    if any(math.prod(file.shape(group, name)) != 1 for name in names[:scalars]):  # as where a schedule gave the rate
        _warn_of_unfit_state(file, optimizer)
        return False
    first = [np.asarray(file.read(group, name)).reshape(-1)[0] for name in names[:scalars]]
    try:
        steps, rate = number_of_steps(first[0]), float(first[-1])
        if scalars == 2 and not 0 <= rate < math.inf:
            raise ValueError(f"{rate} is no rate")
    except _DAMAGE as error:
        raise FileFormatError(
            f"the optimiser's state begins with {first!s:.80}, expected its steps and its rate", where=file.where,
            hint=_HINT,
        ) from error  # fmt: skip
    if scalars == 2:
        if np.float32(optimizer.learning_rate) != np.float32(rate):  # the configuration has more digits
            optimizer.learning_rate = rate
    names = names[scalars:]
    if names:
        optimizer.build(weights)
        states = optimizer.ordered_states()
        if type(optimizer).__name__ == "Nadam":
            names = names[:-1]
        shapes = [file.shape(group, name) for name in names]
        if shapes != [tuple(state.shape) for state in states]:
            _warn_of_unfit_state(file, optimizer)
            return False
        with no_grad():
            for state, name in zip(states, names, strict=True):
                state.copy_(ops.as_tensor(np.ascontiguousarray(file.read(group, name))).reshape(tuple(state.shape)))
    optimizer.batches = steps
    return True


def _warn_of_unfit_state(file: WeightsFile, optimizer: Any) -> None:
    warnings.warn(
        f"{file.where}: the optimiser's state is not read: it does not fit {type(optimizer).__name__}", stacklevel=5
    )


def _read_own_optimizer(model: Model, file: WeightsFile, group: Any) -> None:
    optimizer = model.optimizer
    if len(group):
        optimizer.build(model.trainable_weights)
    before = optimizer.state_dict()
    try:
        note = parse_json(group.attrs["steps"])
        steps, scaling = number_of_steps(note["steps"]), scaling_of(note["scaling"])
    except (AttributeError, *_DAMAGE) as error:
        raise FileFormatError(f"{file.where}: the optimiser's state has no number of steps") from error
    held_by_name = {f"{k}.{name}": held for k, entry in enumerate(before["states"]) for name, held in entry.items()}
    fits = held_by_name.keys() == set(group) and all(
        file.shape(group, name) == tuple(held.shape) for name, held in held_by_name.items()
    )
    if not fits:
        _warn_of_unfit_state(file, optimizer)
        return
    states: list[dict[str, Tensor]] = []
    for number, entry in enumerate(before["states"]):
        states.append({})
        for name, held in entry.items():
            value = np.ascontiguousarray(file.read(group, f"{number}.{name}"))
            states[-1][name] = ops.as_tensor(value).reshape(tuple(held.shape))
    optimizer.load_state_dict({**before, "iterations": steps, "states": states, "scaling": scaling})
