"""Activations, and softmax. All take floats of any shape and give the same shape."""

from __future__ import annotations

from math import isclose, prod
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, axes_of, made_of, scalar, text
from .elementwise import by_numpy

operator("Sigmoid")(lambda x: ops.sigmoid(x))
operator("Softplus")(lambda x: _precise(lambda y: ops.maximum(y, ops.zeros_like(y)) + ops.log1p(ops.exp(-y.abs())), x))
operator("Softsign")(lambda x: x / (x.abs() + 1))
operator("HardSwish")(lambda x: ops.hardswish(x))
operator("Mish")(lambda x: ops.mish(x))


def _precise(function: Any, x: Tensor) -> Tensor:
    """The function in float32 at least."""
    return function(x) if x.dtype.name in ("float32", "float64") else function(x.to("float32")).to(x.dtype)


@operator("Relu")
def relu(x: Any) -> Any:
    return ops.relu(x) if x.dtype.category == 2 else by_numpy(lambda a: np.maximum(a, 0), x)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ops.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.where(x > alpha, x, ops.zeros_like(x))


@operator("PRelu", since=7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    if x.dtype.category != 2:
        return by_numpy(lambda a, b: np.where(a < 0, a * b, a), x, slope)
    return ops.where(x < 0, x * slope, x)


@operator("PRelu")
def prelu_of_channels(x: Tensor, slope: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """One slope, or one for each channel of (N, C, …)."""
    return prelu(x, slope if slope.numel() == 1 else slope.reshape(1, -1, *[1] * (x.ndim - 2)))


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Tensor:
    return ops.where(x > 0, x, ops.elu(x, alpha)) * gamma


@operator("Gelu")
def gelu(x: Tensor, *, approximate: bytes = b"none") -> Tensor:
    return ops.gelu(x, approximate=text(approximate))


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    if isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return ops.hardsigmoid(x)
    return ops.clamp(x * alpha + beta, 0.0, 1.0)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.silu(x) if alpha == 1 else x * ops.sigmoid(x * alpha)


@operator("SwiGLU")
def swiglu(gate: Tensor, linear: Tensor, *, alpha: float = 1.0) -> Tensor:
    """swish(gate) · linear; both of one shape."""
    if gate.shape != linear.shape:
        raise ValueError(f"its inputs have the shapes {gate.shape} and {linear.shape}, expected equal ones")
    return swish(gate, alpha=alpha) * linear


@operator("Shrink")
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    if x.dtype.category == 2:
        return ops.where(x < -lambd, x + bias, ops.where(x > lambd, x - bias, ops.zeros_like(x)))
    return by_numpy(lambda a: np.where(a < -lambd, a + bias, np.where(a > lambd, a - bias, 0)), x)


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return ops.softmax(x, axes_of([axis], x.ndim)[0])


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return ops.log_softmax(x, axes_of([axis], x.ndim)[0])


def _rows(x: Tensor, axis: int) -> Tensor:
    """x as a matrix: the dims before the axis, and those from it on."""
    at = axes_of([axis], x.ndim)[0] if axis != x.ndim else axis
    return x.reshape(prod(x.shape[:at]), -1)


@operator("Softmax")
def softmax_of_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    """Over all dims from the axis on."""
    return ops.softmax(_rows(x, axis), 1).reshape(x.shape)


@operator("LogSoftmax")
def log_softmax_of_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    return ops.log_softmax(_rows(x, axis), 1).reshape(x.shape)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    """1 at the first largest element along the axis, 0 elsewhere."""
    array = array_of(x)
    found = np.zeros_like(array)
    np.put_along_axis(found, np.expand_dims(array.argmax(axis), axis), 1, axis)
    return made_of(found, x.dtype.name, x.device)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return _hardmax(x, axis)


@operator("Hardmax")
def hardmax_of_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    return _hardmax(_rows(x, axis), 1).reshape(x.shape)


def _dropped(x: Tensor, ratio: float, training: bool, seed: int | None, outputs: int) -> Any:
    """x, and the mask of what stays."""
    if not training or ratio == 0:
        mask = ops.ones_like(x).to("bool")
        return (x, mask) if outputs > 1 else x
    if seed is not None:
        keep = np.random.RandomState(seed & 0xFFFFFFFF).random(x.shape) >= ratio
    else:
        keep = np.random.random(x.shape) >= ratio
    mask = made_of(keep, device=x.device)
    found = x * mask.to(x.dtype) / (1 - ratio)
    return (found, mask) if outputs > 1 else found


@operator("Dropout", since=12, reads=(1, 2))
def dropout(
    x: Tensor, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None, outputs: int = 1
) -> Any:
    return _dropped(x, float(scalar(ratio, 0.5)), bool(scalar(training_mode, False)), seed, outputs)


@operator("Dropout")
def dropout_at_inference(x: Tensor, *, ratio: float = 0.5, outputs: int = 1, is_test: int = 1) -> Any:
    return _dropped(x, ratio, False, None, outputs)
