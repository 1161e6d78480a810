"""Padding: the function, and a module for each mode and number of dims."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.user_errors import describe
from ...errors import ArgumentError
from .from_function import FunctionLayer, function_layer, torch_function

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "pad",
]  # fmt: skip

pad = torch_function(ops.pad, "pad")


class _Padding(FunctionLayer):
    """Base of the padding layers. `padding` is one number for all sides, or one for each side, starting at the last
    dim.
    """

    dims = 0
    padding: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sides = 2 * self.dims
        self.padding = (self.padding,) * sides if isinstance(self.padding, int) else tuple(self.padding)
        if len(self.padding) != sides:
            raise ArgumentError(f"{type(self).__name__}: padding is one number or {sides}, not {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim < self.dims:
            raise ArgumentError(f"{type(self).__name__}: takes at least {self.dims} dims, got {describe(input)}")
        padded: Tensor = super().forward(input)
        return padded


def _pad_in_mode(mode: str) -> Any:
    def function(input: Tensor, padding: Any) -> Tensor:
        """See pad: one number, or one for each side, starting at the last dim."""
        return ops.pad(input, padding, mode)

    function.__name__ = "pad"  # in errors
    return function


def _pad_constant(input: Tensor, padding: Any, value: float) -> Tensor:
    """See pad: one number, or one for each side, starting at the last dim."""
    return ops.pad(input, padding, value=value)


def _layers(kind: str, function: Any, shown: str = "=padding") -> list[Any]:
    """The modules of one mode of padding, for 1, 2 and 3 dims."""
    return [
        function_layer(f"{kind}Pad{dims}d", function, base=type("_Padding", (_Padding,), {"dims": dims}), shown=shown)
        for dims in (1, 2, 3)
    ]


ZeroPad1d, ZeroPad2d, ZeroPad3d = _layers("Zero", _pad_in_mode("constant"))
for _zero in (ZeroPad1d, ZeroPad2d, ZeroPad3d):
    _zero.value = 0.0
ConstantPad1d, ConstantPad2d, ConstantPad3d = _layers("Constant", _pad_constant, "padding value")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _layers("Reflection", _pad_in_mode("reflect"))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _layers("Replication", _pad_in_mode("replicate"))
CircularPad1d, CircularPad2d, CircularPad3d = _layers("Circular", _pad_in_mode("circular"))
