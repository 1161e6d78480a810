"""Lists and dicts of layers as attributes of a layer: the layers in them are its layers, as in Keras."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module

__all__ = ["LayerDict", "LayerList", "tracked"]


def tracked(owner: Module, name: str, value: Any) -> Any:
    """A list or dict that may have layers in a form that tells `owner` of them; other values as they are."""
    kind = type(value)
    if kind is list and (not value or _has_layers(value)):
        return LayerList(owner, name, value)
    if kind is dict and (not value or _has_layers(value.values())):
        return LayerDict(owner, name, value)
    if kind is tuple and _has_layers(value):
        LayerList(owner, name, value)
    return value


def _has_layers(values: Any) -> bool:
    return any(isinstance(value, Module) or (type(value) in (list, tuple, dict) and _has_layers(
        value.values() if isinstance(value, dict) else value)) for value in values)  # fmt: skip


def _register(owner: Module, name: str, value: Any) -> Any:
    """Makes a layer, or those in a list or dict, layers of the owner; returns the value in its tracked form."""
    if not isinstance(value, Module):
        return tracked(owner, name, value)
    modules = owner._modules
    if value is not owner and all(value is not known for known in modules.values()):
        number = 0
        while f"{name}_{number}" in modules:
            number += 1
        modules[f"{name}_{number}"] = value
    return value


class LayerList(list[Any]):
    """A list whose layers are layers of `owner`."""

    def __init__(self, owner: Module | None = None, name: str = "", values: Any = ()) -> None:
        super().__init__()
        self._owner, self._name = owner, name
        self.extend(values)

    def _seen(self, value: Any) -> Any:
        owner = getattr(self, "_owner", None)  # None while a copy is made
        return value if owner is None else _register(owner, self._name, value)

    def append(self, value: Any) -> None:
        super().append(self._seen(value))

    def extend(self, values: Any) -> None:
        for value in values:
            self.append(value)

    def insert(self, index: Any, value: Any) -> None:
        super().insert(index, self._seen(value))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, [self._seen(v) for v in value] if isinstance(index, slice) else self._seen(value))

    def __iadd__(self, values: Any) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self


class LayerDict(dict[Any, Any]):
    """A dict whose layers are layers of `owner`."""

    def __init__(self, owner: Module | None = None, name: str = "", values: Any = ()) -> None:
        super().__init__()
        self._owner, self._name = owner, name
        self.update(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        owner = getattr(self, "_owner", None)
        super().__setitem__(key, value if owner is None else _register(owner, f"{self._name}_{key}", value))

    def update(self, values: Any = (), **more: Any) -> None:  # type: ignore[override]
        for key, value in dict(values, **more).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]
