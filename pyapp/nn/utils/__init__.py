"""Gradients and parameters as a whole, by torch.nn.utils' names: clipping, one vector of all."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ...engine import Tensor, no_grad
from ...engine.lazy import np
from ...engine.op import describe
from ...engine.ops import cat


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> float:
    """Scales all gradients together so that their norm is at most `max_norm`; returns the norm before.

    The sum is made in float64 and in the order of the parameters: the same on every machine with the same gradients.
    """
    every = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [parameter.grad for parameter in every if parameter.grad is not None]
    arrays = [grad.contiguous().array() for grad in grads]
    if norm_type == inf:
        total = max((float(np.abs(array).max(initial=0)) for array in arrays), default=0.0)
    elif norm_type == 2.0:
        total = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays) ** 0.5
    else:
        powers = (float((np.abs(array).astype(np.float64) ** norm_type).sum()) for array in arrays)
        total = sum(powers) ** (1 / norm_type)
    scale = max_norm / (total + 1e-6)
    if scale < 1:
        with no_grad():
            for grad in grads:
                grad.array()[...] *= scale
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limits each element of the gradients to ±clip_value, in place."""
    if not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value must be a number >= 0, got {clip_value}")
    for parameter in [parameters] if isinstance(parameters, Tensor) else list(parameters):
        if parameter.grad is not None:
            with no_grad():
                parameter.grad.copy_(parameter.grad.clamp(-clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other."""
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes what parameters_to_vector gave back into the parameters. ValueError where the lengths differ."""
    every = list(parameters)
    if vec.shape != (sum(parameter.numel() for parameter in every),):
        raise ValueError(
            f"vector_to_parameters: {describe(vec)} for {sum(parameter.numel() for parameter in every)} numbers"
        )
    start = 0
    with no_grad():
        for parameter in every:
            parameter.copy_(vec[start : start + parameter.numel()].reshape(parameter.shape))
            start += parameter.numel()
