"""`keras.name_scope` and `keras.device`: what is made inside has a longer path, or is on a device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyapp

from ..engine import Device
from .call_state import STATE


class name_scope:
    """Inside, the paths of layers and variables that are made begin with this name. ValueError for a name with a slash,
    or for none."""

    def __init__(self, name: str, caller: Any = None) -> None:
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"name_scope: takes a name without slashes, not {name!r:.60}")
        self.name = name
        self._before: list[Any] = []

    def __enter__(self) -> name_scope:
        self._before.append(STATE.scope)
        STATE.scope = (*STATE.scope, SimpleNamespace(name=self.name))
        return self

    def __exit__(self, *_: Any) -> None:
        STATE.scope = self._before.pop()


def device(device_name: Any) -> Device:
    """A device as a context manager, in which tensors and weights are made there: "cpu", "gpu:0", "cuda:0"."""
    name = str(device_name).lower()
    kind, _, index = name.partition(":")
    if kind == "cpu":
        return pyapp.device("cpu")
    return pyapp.device(f"cuda:{index or 0}") if kind == "gpu" else pyapp.device(name)
