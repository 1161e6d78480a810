"""The weights of a model as Keras 1 and 2 stored them in HDF5 files (`.h5`): each layer of the model has a group.

The attribute "layer_names" of the file, or of its group "model_weights" in a file of a whole model, lists the groups in
the order of the layers, the attribute "weight_names" of a group its datasets: first those of weights that can be
trained. Long lists are parted: "layer_names0", "layer_names1" … Source: files of Keras 2 and of Keras 3.15.1.
"""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.lazy import np
from ..errors import FileFormatError
from .core import Layer
from .hdf5_weights import WeightsFile, layers_by_path, own_weights

_TOP = "top_level_model_weights"  # the group of a model's own weights, beside those of its layers
_MOST_ATTRIBUTE = 64_000  # bytes of an attribute; HDF5 has room for 64 KiB


def is_by_layer(file: WeightsFile) -> bool:
    """Whether a file has weights in this form."""
    return file.group(("model_weights",)) is not None or bool(names_of(file, file.file, "layer_names"))


def read_weights_by_layer(model: Layer, file: WeightsFile, skip_mismatch: bool = False) -> None:
    """Reads the weights of a file into a model, whose layers with weights have the order of the file's. ValueError
    where they do not fit, before any weight changes; with `skip_mismatch` layers of other shapes stay as they are.
    """
    if not model.built:
        raise ValueError(f"{model.name} has no weights yet: call it, or build(input_shape), first")
    root = file.group(("model_weights",))
    root = file.file if root is None else root
    groups = []
    for name in names_of(file, root, "layer_names"):
        group = file.child(root, name)
        if group is None:
            raise FileFormatError(f"{file.where}: the layer {name!r:.60} is in the list and has no group")
        if names := names_of(file, group, "weight_names"):
            groups.append((name, group, names))
    layers = [(layer, found) for layer in getattr(model, "layers", [model]) if (found := _layer_weights(layer))]
    if len(layers) != len(groups):
        raise ValueError(
            f"{file.where}: {len(groups)} layers have weights, {len(layers)} of model {model.name}: make the model "
            "with the layers of the one that was saved"
        )
    chosen: list[tuple[Layer, list[Tensor], Any, list[str]]] = []
    for (layer, weights), (name, group, names) in zip(layers, groups, strict=True):
        shapes = [file.shape(group, path) for path in names]
        if shapes == [tuple(weight.shape) for weight in weights]:
            chosen.append((layer, weights, group, names))
        elif not skip_mismatch:
            raise ValueError(
                f"{file.where}: the weights of {name!r:.60} have the shapes {shapes!s:.200}, those of {layer.name} "
                f"{[tuple(weight.shape) for weight in weights]!s:.200}"
            )
    for layer, weights, group, names in chosen:
        with no_grad():
            for weight, path in zip(weights, names, strict=True):
                value = ops.as_tensor(np.ascontiguousarray(file.read(group, path)))
                weight.copy_(value.reshape(tuple(weight.shape)).to(weight.dtype))
        for _, inner in layers_by_path(layer):
            if own_weights(inner):
                inner.weights_were_read()


def write_weights_by_layer(model: Layer, root: Any, version: str) -> None:
    """Writes the weights of a model into a group, in the form of a version of Keras."""
    layers: list[Layer] = getattr(model, "layers", [model])
    _write_names(root, "layer_names", [layer.name for layer in layers])
    root.attrs["backend"], root.attrs["keras_version"] = b"pyapp", version.encode()
    for layer in sorted(layers, key=lambda one: one.name):
        _write_group(root.create_group(layer.name), _stored_weights(layer))
    _write_group(root.create_group(_TOP), [])


def _write_group(group: Any, weights: list[tuple[Tensor, Tensor]]) -> None:
    names = [str(getattr(weight, "path", None) or f"weight_{k}") for k, (weight, _) in enumerate(weights)]
    names = [name if name not in names[:k] else f"{name}_{k}" for k, name in enumerate(names)]
    _write_names(group, "weight_names", names)
    for name, (_, value) in zip(names, weights, strict=True):
        group[name] = value.detach().numpy()


def _write_names(group: Any, name: str, values: list[str]) -> None:
    """A list of names as an attribute, parted where it has no room in one."""
    encoded = [value.encode() for value in values]
    parts = max(1, -(-np.array(encoded or [b""]).nbytes // _MOST_ATTRIBUTE))
    for number, part in enumerate(np.array_split(np.array(encoded), parts) if parts > 1 else [encoded]):
        group.attrs[name if parts == 1 else f"{name}{number}"] = part


def _layer_weights(layer: Layer) -> list[Tensor]:
    """The weights of a layer and of those inside: those that are trained, then the others."""
    return [weight for weight, _ in _stored_weights(layer)]


def _stored_weights(layer: Layer) -> list[tuple[Tensor, Tensor]]:
    """(weight, what the file has for it) of the weights of a layer and of those inside, in Keras' order."""
    found = {id(weight): (weight, value) for _, inner in layers_by_path(layer) for weight, value in own_weights(inner)}
    order = [*layer.trainable_weights, *layer.non_trainable_weights]
    ordered = [found.pop(id(weight)) for weight in order if id(weight) in found]
    return [*ordered, *found.values()]


def names_of(file: WeightsFile, group: Any, name: str) -> list[str]:
    """A list of names among the attributes of a group, which may be parted."""
    whole = file.attribute(group, name)
    parts = [] if whole is None else [whole]
    while whole is None and (part := file.attribute(group, f"{name}{len(parts)}")) is not None:
        parts.append(part)
    found = []
    for part in parts:
        for value in np.asarray(part).reshape(-1).tolist():
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            if not isinstance(text, str):
                raise FileFormatError(f"{file.where}: {name} of {group.name!r:.60} is not a list of names")
            found.append(text)
    return found
