"""Dropout of elements and of whole channels, and alpha dropout, which preserves mean and variance of selu's output."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, float32, ops
from ...engine.ops.element_updates import element_function
from ...engine.user_errors import describe
from .activation import written
from .from_function import FunctionLayer, function_layer

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "alpha_dropout", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip
__top_level__ = ["alpha_dropout", "dropout", "feature_alpha_dropout"]


def _check(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(
            f"{name}: dropout probability has to be between 0 and 1, but got {p}: p must be in [0, 1], got {p}"
        )


_factor = element_function(lambda uniform, p, kept: (uniform * 0.0).where(uniform < p, kept), 1, 2)


def _factors(x: Tensor, p: float, channels: bool, generator: Any) -> Tensor:
    """What dropout multiplies by: 0, or 1 / (1 - p)."""
    if x.dtype is not float32 or not x.dense:
        return _kept(x, p, channels, generator) * (1 / (1 - p))
    return _factor(ops.rand(_shape(x, channels), generator=generator, device=x.device), float(p), 1 / (1 - p))


def _shape(x: Tensor, channels: bool) -> tuple[int, ...]:
    return x.shape[:2] + (1,) * (x.ndim - 2) if channels else x.shape


def _kept(input: Tensor, p: float, channels: bool, generator: Any) -> Tensor:
    """1 where a value is kept, 0 where it is dropped: for each element, or for each channel of (N, C, ...)."""
    drawn = ops.rand(_shape(input, channels), generator=generator, device=input.device)
    return (input._beside(drawn, random=True) >= p).to(input.dtype)


def _drop(name: str, input: Tensor, p: float, training: bool, inplace: bool, channels: bool, generator: Any) -> Tensor:
    _check(name, p)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: takes a tensor, not {describe(input)}")
    if not training or p == 0:
        return input

    def dropped(x: Tensor) -> Tensor:
        return x * 0.0 if p == 1 else x * _factors(x, p, channels, generator)

    dropped.__name__ = name
    return written(input, inplace, dropped)


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Zeroes each element with probability p and divides the rest by 1 - p (Srivastava et al. 2014). Returns the input
    itself when not training. The random numbers come from `generator`, or the default one: the same seed gives the same
    mask.
    """
    return _drop("dropout", input, p, training, inplace, False, generator)


def _drop_channels(dims: int, input: Tensor, p: float, training: bool, inplace: bool, generator: Any) -> Tensor:
    name = f"dropout{dims}d"
    if input.ndim not in (dims + 1, dims + 2):
        raise ValueError(f"{name}: takes (N, C, {dims} dims) or without N, got {describe(input)}")
    if input.ndim == dims + 2:
        return _drop(name, input, p, training, inplace, True, generator)
    if inplace:
        _drop_channels(dims, input.unsqueeze(0), p, training, True, generator)
        return input
    return _drop(name, input.unsqueeze(0), p, training, False, True, generator).squeeze(0)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """dropout of whole channels of (N, C, L) or (C, L) (Tompson et al. 2014, arXiv 1411.4280)."""
    return _drop_channels(1, input, p, training, inplace, generator)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """dropout of whole channels of (N, C, H, W). With three dims the second is the channel, as in torch."""
    if input.ndim == 3:
        return _drop("dropout2d", input, p, training, inplace, True, generator)
    return _drop_channels(2, input, p, training, inplace, generator)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _drop_channels(3, input, p, training, inplace, generator)


SELU_FLOOR = -1.7580993408473766  # selu(-infinity)


def _drop_alpha(
    name: str, input: Tensor, p: float, training: bool, inplace: bool, channels: bool, generator: Any
) -> Tensor:
    _check(name, p)
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: takes a tensor, not {describe(input)}")
    if not training or p == 0:
        return input
    if channels and input.ndim < 2:
        raise ValueError(f"{name}: takes (N, C, ...), got {describe(input)}")

    def dropped(x: Tensor) -> Tensor:
        if p == 1:
            return x * 0.0
        scale = ((1 - p) * (1 + p * SELU_FLOOR**2)) ** -0.5
        kept = _kept(x, p, channels, generator)
        return x * (kept * scale) + ((1 - kept) * SELU_FLOOR + p * -SELU_FLOOR) * scale

    dropped.__name__ = name
    return written(input, inplace, dropped)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """Sets each element to selu's lower limit with probability p, then scales and shifts all elements to preserve the
    mean and variance of selu's output (Klambauer et al. 2017, arXiv 1706.02515).
    """
    return _drop_alpha("alpha_dropout", input, p, training, inplace, False, generator)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False, *, generator: Any = None
) -> Tensor:
    """alpha_dropout of whole channels of (N, C, ...)."""
    return _drop_alpha("feature_alpha_dropout", input, p, training, inplace, True, generator)


class _Dropout(FunctionLayer):
    """Base of the dropout layers, which act in training only."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check(type(self).__name__, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


Dropout = function_layer("Dropout", dropout, base=_Dropout)
Dropout1d = function_layer("Dropout1d", dropout1d, base=_Dropout)
Dropout2d = function_layer("Dropout2d", dropout2d, base=_Dropout)
Dropout3d = function_layer("Dropout3d", dropout3d, base=_Dropout)
AlphaDropout = function_layer("AlphaDropout", alpha_dropout, base=_Dropout)
FeatureAlphaDropout = function_layer("FeatureAlphaDropout", feature_alpha_dropout, base=_Dropout)
