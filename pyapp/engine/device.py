"""Where a tensor lives. A device is a file of `devices/`, loaded when the first tensor asks for it."""

from __future__ import annotations

import importlib


class Device:
    """`type` names the file in `devices/`, `index` one of several. Equal to its string, as in `t.device == "cpu"`."""

    __slots__ = ("index", "type")

    def __init__(self, type: str, index: int = 0) -> None:
        self.type = type
        self.index = index

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = _parse(other)
        return isinstance(other, Device) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.type == "cpu" else f"device(type={self.type!r}, index={self.index})"
        )


cpu = Device("cpu")
_known: dict[str, Device] = {"cpu": cpu}


def _parse(name: str) -> Device:
    kind, _, index = name.partition(":")
    if index and not index.isdecimal():
        raise ValueError(f"device: {name!r} is not of the form 'cpu' or 'cuda:0'")
    return Device(kind, int(index or 0))


def as_device(value: Device | str | None) -> Device:
    """A Device from itself or its name; its module in `devices/` is imported, so that its kernels are registered."""
    if value is None:
        return cpu
    if isinstance(value, Device):
        return value
    found = _known.get(value)
    if found is None:
        found = _parse(value)
        try:
            importlib.import_module(f".devices.{found.type}", __package__)
        except ModuleNotFoundError as error:
            raise ValueError(f"device: there is no device {value!r}; this build has: cpu") from error
        _known[value] = found
    return found
