"""Where a model computes: its inputs follow its weights, as Keras users never move anything themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor
from ..engine.device import Device, get_default_device
from ..nn.module import Module
from .masking import mask_of, set_mask
from .structures import flatten, map_structure


def device_of(module: Module) -> Device:
    """The device of a module's first weight; the default device where it has none."""
    for tensors in (module.parameters, module.buffers):
        for tensor in tensors():
            return tensor.device
    return get_default_device()


@contextmanager
def at_weights(module: Module) -> Iterator[Device]:
    """Inside, tensors that layers, losses and steps of users make are on the device of the module's weights."""
    place = device_of(module)
    if place is get_default_device():
        yield place
    else:
        with place:
            yield place


def moved_to(place: Device, structure: Any) -> Any:
    """Lists, tuples and dicts with their tensors, and the masks of these, on a device; other leaves as they are."""
    if all(not isinstance(leaf, Tensor) or leaf.device is place for leaf in flatten(structure)):
        return structure
    return map_structure(lambda leaf: _moved(leaf, place) if isinstance(leaf, Tensor) else leaf, structure)


def _moved(tensor: Tensor, place: Device) -> Tensor:
    found, mask = tensor.to(place), mask_of(tensor)
    return found if mask is None or found is tensor else set_mask(found, mask.to(place))
