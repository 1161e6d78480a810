"""Activation functions, by Keras' names and with its constants."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..engine import Tensor, ops
from ..nn import functional as F
from ..train.names import unique_name
from .arguments import as_tensor
from .lookup import Lookup
from .lookup import serialize as serialize
from .symbolic_tensors import KerasTensor, record


def linear(x: Tensor) -> Tensor:
    """x itself."""
    return x


def relu(x: Tensor, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """max(x, 0), with a slope below the threshold and a largest value if they are given."""
    if not (negative_slope or threshold):
        return x.relu() if max_value is None else x.clamp(0.0, max_value)
    above = ops.where(x > threshold, x, 0.0) if threshold else x.relu()
    if max_value is not None:
        above = above.clamp(0.0, max_value)
    return above - negative_slope * (threshold - x).relu() if negative_slope else above


def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return x.clamp(0.0, 6.0)


def leaky_relu(x: Tensor, negative_slope: float = 0.2) -> Tensor:
    """x, and negative_slope x below 0."""
    return F.leaky_relu(x, negative_slope)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, and alpha (exp(x) - 1) below 0."""
    return F.elu(x, alpha)


def selu(x: Tensor) -> Tensor:
    """elu with the scale and the alpha that keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    return F.selu(x)


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) below 0."""
    return F.celu(x, alpha)


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """x times the normal distribution's cdf; by tanh where `approximate`."""
    return F.gelu(x, approximate="tanh" if approximate else "none")


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return F.silu(x)


swish = silu


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return x.sigmoid()


def hard_sigmoid(x: Tensor) -> Tensor:
    """relu6(x + 3) / 6."""
    return (x + 3.0).clamp(0.0, 6.0) / 6.0


def hard_silu(x: Tensor) -> Tensor:
    """x hard_sigmoid(x)."""
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return F.logsigmoid(x)


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return x.tanh()


def hard_tanh(x: Tensor) -> Tensor:
    """x within -1 and 1."""
    return x.clamp(-1.0, 1.0)


def tanh_shrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - x.tanh()


def soft_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """x moved by `threshold` towards 0, 0 within it."""
    return F.softshrink(x, threshold)


def hard_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """x, and 0 within ±threshold."""
    return F.hardshrink(x, threshold)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return F.softplus(x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (x.abs() + 1)


def softmax(x: Tensor, axis: Any = -1) -> Tensor:
    """Exponentials divided by their sum along an axis or several, or over all elements for None."""
    axis = tuple(range(x.ndim)) if axis is None else axis
    if not isinstance(axis, (tuple, list)):
        return x.softmax(axis)
    powers = (x - x.amax(tuple(axis), True)).exp()
    return powers / powers.sum(tuple(axis), True)


def log_softmax(x: Tensor, axis: Any = -1) -> Tensor:
    """The logarithm of softmax."""
    axis = tuple(range(x.ndim)) if axis is None else axis
    if not isinstance(axis, (tuple, list)):
        return x.log_softmax(axis)
    return x - x.logsumexp(tuple(axis), True)


def exponential(x: Tensor) -> Tensor:
    """exp(x)."""
    return x.exp()


def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x))."""
    return F.mish(x)


def glu(x: Tensor, axis: int = -1) -> Tensor:
    """The first half of an axis times the sigmoid of the second."""
    return F.glu(x, axis)


def squareplus(x: Tensor, b: float = 4.0) -> Tensor:
    """(x + sqrt(x² + b)) / 2."""
    return (x + (x * x + b).sqrt()) / 2


def threshold(x: Tensor, threshold: float, default_value: float) -> Tensor:
    """x, and `default_value` up to the threshold."""
    return ops.where(x > threshold, x, ops.full((), default_value))


def sparse_sigmoid(x: Tensor) -> Tensor:
    """(x + 1) / 2, within 0 and 1."""
    return ((x + 1) * 0.5).clamp(0.0, 1.0)


def sparse_plus(x: Tensor) -> Tensor:
    """0 up to -1, x from 1 on, (x + 1)² / 4 between."""
    return ops.where(x < 1, (x.clamp(min=-1.0) + 1).square() / 4, x)


def sparsemax(x: Tensor, axis: int = -1) -> Tensor:
    """The nearest probabilities to x along an axis, many of them 0 (Martins and Astudillo 2016)."""
    rows = x.movedim(axis, -1)
    falling = rows.sort(-1, descending=True)[0]
    total = falling.cumsum(-1)
    rank = ops.arange(1, rows.shape[-1] + 1, dtype=x.dtype, device=x.device)
    count = (falling * rank > total - 1).sum(-1, True)
    limit = (total.gather(-1, count - 1) - 1) / count
    return (rows - limit).clamp(min=0.0).movedim(-1, axis)


def _of_arrays(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, for arrays and numbers, and for symbolic tensors too."""

    @functools.wraps(function)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, KerasTensor):
            name = function.__name__
            given = inspect.signature(function).bind(x, *args, **kwargs)
            given.apply_defaults()  # those of the function of this name in keras.ops may be others
            settings = dict(list(given.arguments.items())[1:])
            return record(KerasTensor.function_layer(function, name=unique_name(name), operation=name), (x,), settings)
        return function(x if isinstance(x, Tensor) else as_tensor(x), *args, **kwargs)

    return call


globals().update({
    name: _of_arrays(value)
    for name, value in list(globals().items())
    if name[0] != "_" and getattr(value, "__module__", None) == __name__
})  # fmt: skip
_lookup = Lookup("activation", globals(), type(None))


deserialize = _lookup.deserialize


def get(identifier: Any) -> Callable[..., Tensor]:
    """The activation of that name; a layer or function itself; linear for None."""
    return _lookup.get(identifier) or linear
