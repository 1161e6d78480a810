"""Gradients and parameters as a whole, by torch.nn.utils' names: clipping, one vector of all."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from math import inf, isfinite
from typing import Any

from ...engine import Tensor, float32, float64, no_grad
from ...engine.lazy import np
from ...engine.op import describe
from ...engine.ops import cat
from ...engine.ops.create import scalar


def _norm(every: list[Tensor], norm_type: float, error_if_nonfinite: bool) -> float:
    """The norm of all tensors as one vector.

    The sum is made in float64 and in the order given: the same on every machine with the same tensors.
    """
    arrays = [tensor.detach().contiguous().to(_wide(tensor)).array() for tensor in every]
    if norm_type == inf:
        total = max((float(np.abs(array).max(initial=0)) for array in arrays), default=0.0)
    elif norm_type == 2.0:
        total = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays) ** 0.5
    else:
        powers = (float((np.abs(array).astype(np.float64) ** norm_type).sum()) for array in arrays)
        total = sum(powers) ** (1 / norm_type)
    if error_if_nonfinite and not isfinite(total):
        raise RuntimeError(f"the norm of order {norm_type} of the gradients is {total}")
    return total


def _as_tensor(total: float, every: list[Tensor]) -> Tensor:
    return scalar(total, float64 if any(tensor.dtype is float64 for tensor in every) else float32)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The norm of all tensors as one vector, (). RuntimeError for NaN or infinity if `error_if_nonfinite`."""
    every = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _as_tensor(_norm(every, norm_type, error_if_nonfinite), every)


def _wide(tensor: Tensor) -> Any:
    return float32 if tensor.dtype.itemsize < 4 else tensor.dtype


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor | float, foreach: Any = None
) -> None:
    """Scales all gradients, whose norm together is `total_norm`, so that it is at most `max_norm`."""
    scale = max_norm / (float(total_norm) + 1e-6)
    if scale < 1:
        with no_grad():
            for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:  # fmt: skip
    """Scales all gradients together so that their norm is at most `max_norm`; returns the norm before, ()."""
    every = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [parameter.grad for parameter in every if parameter.grad is not None]
    total = _norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(every, max_norm, total)
    return _as_tensor(total, grads)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None) -> None:
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


_ROOMS = ("parametrizations", "parametrize", "rnn")
_LATER = {
    **dict.fromkeys(("remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"), "weight_hooks"),
    **dict.fromkeys(
        ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"), "fusion"
    ),
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
