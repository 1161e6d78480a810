"""The dtype of floating-point numbers that are given none: of Keras' layers, losses, metrics and arrays of data."""

from __future__ import annotations

__all__ = ["floatx", "set_floatx"]


class _Setting:
    name = "float32"


def floatx() -> str:
    """The name of the dtype."""
    return _Setting.name


def set_floatx(name: str) -> None:
    """Sets it. ValueError unless it is bfloat16, float16, float32 or float64."""
    if name not in ("bfloat16", "float16", "float32", "float64"):
        raise ValueError(f"set_floatx: it is bfloat16, float16, float32 or float64, not {name!r:.40}")
    _Setting.name = name
