"""ai.onnx.preview.training: steps of optimisers. Gradient, which differentiates a part of its own graph, is refused."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor

from ..registry import TRAINING, operator
from ..values import scalar, text


def _groups(tensors: tuple[Any, ...], parts: int) -> list[tuple[Any, ...]]:
    """Parameters, gradients and states, which come one kind after another, by parameter."""
    if len(tensors) % parts:
        raise ValueError(f"{len(tensors)} tensors are not {parts} for each parameter")
    each = len(tensors) // parts
    return [tensors[k::each] for k in range(each)]


@operator("Adagrad", domain=TRAINING, reads=(0, 1))
def adagrad(
    rate: Tensor, count: Tensor, *tensors: Tensor, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    """Duchi et al. 2011."""
    step = scalar(rate) / (1 + scalar(count) * decay_factor)
    found, states = [], []
    for x, g, h in _groups(tensors, 3):
        g = g + x * norm_coefficient
        h = h + g * g
        found.append(x - g * step / (h.sqrt() + epsilon))
        states.append(h)
    return (*found, *states)


@operator("Adam", domain=TRAINING, reads=(0, 1))
def adam(
    rate: Tensor, count: Tensor, *tensors: Tensor, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    """Kingma & Ba 2014, arXiv 1412.6980."""
    t, step = int(scalar(count)), scalar(rate)
    if t > 0:
        step = step * (1 - beta**t) ** 0.5 / (1 - alpha**t)
    found, firsts, seconds = [], [], []
    for x, g, v, h in _groups(tensors, 4):
        g = g + x * norm_coefficient
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        found.append((x - v * step / (h.sqrt() + epsilon)) * (1 - norm_coefficient_post))
        firsts.append(v)
        seconds.append(h)
    return (*found, *firsts, *seconds)


@operator("Momentum", domain=TRAINING, reads=(0, 1))
def momentum(
    rate: Tensor, count: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: bytes, norm_coefficient: float
) -> Any:
    """Gradient descent with momentum, "standard" or "nesterov"."""
    factor, found, states = (beta if int(scalar(count)) > 0 else 1.0), [], []
    for x, g, v in _groups(tensors, 3):
        g = g + x * norm_coefficient
        v = v * alpha + g * factor
        found.append(x - (g + v * alpha if text(mode) == "nesterov" else v) * scalar(rate))
        states.append(v)
    return (*found, *states)
