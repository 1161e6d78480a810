"""Pooling: the maximum or mean of windows of fixed or adaptive size."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...engine import ops
from .from_function import FunctionLayer, function_layer, torch_function

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip

_MAX_POOL = "kernel_size stride padding dilation return_indices ceil_mode"  # torch's order, not its function's


def _functions(name: str, *dims: int) -> list[Any]:
    """The functions of one kind of pooling, by their number of dims."""
    return [torch_function(getattr(ops, f"{name}{d}d")) for d in dims]


class _Windows(FunctionLayer):
    """Base of the layers whose windows follow one another unless a stride is given."""

    stride: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size


class _WindowsByDim(_Windows):
    """Their settings are a number for each dim, as in torch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dims = int(type(self).__name__[-2])
        for name in ("kernel_size", "stride", "padding"):
            value = getattr(self, name)
            setattr(self, name, (value,) * dims if isinstance(value, int) else tuple(value))


def _layers(
    name: str, functions: list[Any], settings: str | None = None, tensors: int = 1, base: type = FunctionLayer,
    shown: str | None = None,
) -> list[Any]:  # fmt: skip
    """The modules of these functions."""
    return [function_layer(f"{name}{f.__name__[-2:]}", f, settings, tensors, base, shown) for f in functions]


def _with_indices(function: Any) -> Any:
    """A pooling function that returns (values, indices)."""
    return partial(function, return_indices=True)


max_pool1d, max_pool2d, max_pool3d = _max_pools = _functions("max_pool", 1, 2, 3)
avg_pool1d, avg_pool2d, avg_pool3d = _avg_pools = _functions("avg_pool", 1, 2, 3)
lp_pool1d, lp_pool2d, lp_pool3d = _lp_pools = _functions("lp_pool", 1, 2, 3)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = _adaptive_avg_pools = _functions(
    "adaptive_avg_pool", 1, 2, 3
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = _adaptive_max_pools = _functions(
    "adaptive_max_pool", 1, 2, 3
)
max_unpool1d, max_unpool2d, max_unpool3d = _max_unpools = _functions("max_unpool", 1, 2, 3)
fractional_max_pool2d, fractional_max_pool3d = _fractional_max_pools = _functions("fractional_max_pool", 2, 3)

max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(_with_indices, _max_pools)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = map(
    _with_indices, _adaptive_max_pools
)
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = map(_with_indices, _fractional_max_pools)

MaxPool1d, MaxPool2d, MaxPool3d = _layers(
    "MaxPool", _max_pools, _MAX_POOL, base=_Windows, shown="kernel_size stride padding dilation ceil_mode"
)
(AvgPool1d,) = _layers("AvgPool", _avg_pools[:1], base=_WindowsByDim, shown="kernel_size stride padding")
AvgPool2d, AvgPool3d = _layers("AvgPool", _avg_pools[1:], base=_Windows, shown="kernel_size stride padding")
LPPool1d, LPPool2d, LPPool3d = _layers("LPPool", _lp_pools, shown="norm_type kernel_size stride ceil_mode")
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _layers("AdaptiveAvgPool", _adaptive_avg_pools)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _layers(
    "AdaptiveMaxPool", _adaptive_max_pools, shown="output_size"
)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _layers(
    "MaxUnpool", _max_unpools, "kernel_size stride padding", 2, _WindowsByDim, "kernel_size stride padding"
)
FractionalMaxPool2d, FractionalMaxPool3d = _layers("FractionalMaxPool", _fractional_max_pools, shown="")
