"""Where a tensor lives. A device is a file of `devices/`, loaded when the first tensor asks for it."""

from __future__ import annotations

import importlib
from typing import Any


class Device:
    """`device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`: `type` names the file in `devices/`, `index` (None
    where none is told) one of several. Equal to its string, as in `t.device == "cpu"`. Any type can be named, as
    in torch: scripts do it before they know what is there; where it is used, it must be there.
    """

    __slots__ = ("index", "type")
    index: int | None
    type: str

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        if not isinstance(type, str):
            raise TypeError(f"device: takes a text such as 'cpu' or 'cuda:0', not {type!r}")
        kind, colon, number = type.partition(":")
        if not kind.isidentifier() or (colon and not number.isdecimal()) or (colon and index is not None):
            raise ValueError(f"device: {type!r} is not of the form 'cpu' or 'cuda:0'")
        at = int(number) if colon else index
        name = kind if at is None else f"{kind}:{at}"
        found = _known.get(name)
        if found is None:
            found = object.__new__(cls)
            found.type, found.index = kind, at
            _known[name] = found
        return found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            try:
                other = Device(other)
            except ValueError:
                return False
        return isinstance(other, Device) and (other.type, other.index) == (self.type, self.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Device, (str(self),)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")

    def __enter__(self) -> Device:
        """`with device("cpu"):` new tensors are on it; they are on the CPU in any case, so others are refused."""
        if as_device(self) is not cpu:
            raise NotImplementedError(f"with {self!r}: new tensors begin on the CPU; move them with .to({str(self)!r})")
        return self

    def __exit__(self, *_: object) -> None:
        pass


_known: dict[str, Device] = {}
cpu = Device("cpu")
_known["cpu:0"] = cpu


def as_device(value: Device | str | None) -> Device:
    """A Device from itself or its name; its module in `devices/` is imported, so that its kernels are registered.
    ValueError where this build has none of that type.
    """
    if value is None or value is cpu:
        return cpu
    found = Device(value)
    if found is not cpu:
        try:
            importlib.import_module(f".devices.{found.type}", __package__)
        except ModuleNotFoundError as error:
            raise ValueError(f"device: there is no device {str(found)!r}; this build has: cpu") from error
    return found
