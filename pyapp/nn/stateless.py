"""Functions as layers without parameters: pools, resampling, patches, padding. Each takes the settings of its function,
by position or name, and gives them to it at each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..engine.ops import conv, pool, rearrange, resample
from .module import Module


class _Stateless(Module):
    """Keeps settings for a function of tensors."""

    function: Callable[..., Any]
    tensors = 1  # how many of the function's first arguments come with each call

    def __init__(self, *settings: Any, **named: Any) -> None:
        super().__init__()
        parameters = list(inspect.signature(type(self).function).parameters.values())[self.tensors :]
        if len(settings) > len(parameters):
            raise TypeError(f"{type(self).__name__} takes {len(parameters)} settings, got {len(settings)}")
        self.settings: dict[str, Any] = {p.name: v for p, v in zip(parameters, settings, strict=False)}
        for name, value in named.items():
            if name not in {p.name for p in parameters} or name in self.settings:
                raise TypeError(f"{type(self).__name__} has no setting {name!r}, or got it twice")
            self.settings[name] = value
        missing = [p.name for p in parameters if p.default is p.empty and p.name not in self.settings]
        if missing:
            raise TypeError(f"{type(self).__name__}: missing {', '.join(missing)}")

    def forward(self, *tensors: Any, **more: Any) -> Any:
        return type(self).function(*tensors, **{**self.settings, **more})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())


def _layer(name: str, function: Any, tensors: int = 1) -> Any:
    made = type(
        name, (_Stateless,), {"function": staticmethod(function), "tensors": tensors, "__doc__": function.__doc__}
    )
    made.__module__ = __name__
    return made


for _dims in (1, 2, 3):
    for _kind in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_unpool", "lp_pool"):
        _function = getattr(pool, f"{_kind}{_dims}d", None)
        if _function is not None:
            _name = "".join(part.capitalize() for part in _kind.split("_")).replace("Lp", "LP") + f"{_dims}d"
            globals()[_name] = _layer(_name, _function, 2 if _kind == "max_unpool" else 1)


def _upsample(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:  # fmt: skip
    """See interpolate."""
    return resample.interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor)


def _constant_pad(x: Any, padding: Any, value: float) -> Any:
    """See pad: numbers for each side, the last dim's first."""
    return rearrange.pad(x, padding, value=value)


def _unflatten(x: Any, dim: int, unflattened_size: Any) -> Any:
    """See unflatten."""
    return rearrange.unflatten(x, dim, unflattened_size)


def _pad_in_mode(mode: str, dims: int) -> Any:
    def function(x: Any, padding: Any) -> Any:
        """See pad: a number, or numbers for each side, the last dim's first."""
        widths = (padding,) * (2 * dims) if isinstance(padding, int) else padding
        return rearrange.pad(x, widths, "constant" if mode == "zero" else mode)

    return function


Upsample = _layer("Upsample", _upsample)
PixelShuffle = _layer("PixelShuffle", resample.pixel_shuffle)
PixelUnshuffle = _layer("PixelUnshuffle", resample.pixel_unshuffle)
Fold = _layer("Fold", conv.col2im)
Unfold = _layer("Unfold", conv.im2col)
Unflatten = _layer("Unflatten", _unflatten)
for _dims in (1, 2, 3):
    for _mode, _title in (("zero", "Zero"), ("reflect", "Reflection"), ("replicate", "Replication"),
                          ("circular", "Circular")):  # fmt: skip
        globals()[f"{_title}Pad{_dims}d"] = _layer(f"{_title}Pad{_dims}d", _pad_in_mode(_mode, _dims))
    globals()[f"ConstantPad{_dims}d"] = _layer(f"ConstantPad{_dims}d", _constant_pad)

NAMES = tuple(name for name, value in globals().items() if isinstance(value, type) and value.__module__ == __name__)
