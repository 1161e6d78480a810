"""Where a model computes: its inputs follow its weights, as Keras users never move anything themselves."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..engine import Tensor
from ..engine.device import Device, computes_elsewhere, cpu, get_default_device
from ..nn.module import Module
from .masking import mask_of, set_mask
from .structures import flatten, map_structure


def device_of(module: Module, given: Any) -> Device:
    """The device of a module's first weight. Where it has none: that of a tensor among what it is `given` which is not
    on the CPU, else the default device."""
    for tensors in (module.parameters, module.buffers):
        for tensor in tensors():
            return tensor.device
    devices = (leaf.device for leaf in flatten(given) if isinstance(leaf, Tensor))
    return next((device for device in devices if device is not cpu), get_default_device())


def at_weights(module: Module, given: Any) -> AbstractContextManager[Device]:
    """Inside, tensors that layers, losses and steps of users make are on `device_of` the module, which is given."""
    place = device_of(module, given) if computes_elsewhere() else cpu
    return nullcontext(place) if place is get_default_device() else place


def moved_to(place: Device, structure: Any) -> Any:
    """Lists, tuples and dicts with their tensors, and the masks of these, on a device; other leaves as they are."""
    if not computes_elsewhere():
        return structure
    if all(not isinstance(leaf, Tensor) or leaf.device is place for leaf in flatten(structure)):
        return structure
    return map_structure(lambda leaf: _moved(leaf, place) if isinstance(leaf, Tensor) else leaf, structure)


def _moved(tensor: Tensor, place: Device) -> Tensor:
    found, mask = tensor.to(place), mask_of(tensor)
    return found if mask is None or found is tensor else set_mask(found, mask.to(place))
