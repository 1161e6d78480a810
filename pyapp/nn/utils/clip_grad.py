"""Clipping of gradients, by torch.nn.utils' names. Norms and limits are computed on the gradients' device."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from math import inf, isfinite
from typing import Any

from ...engine import Tensor, float32, float64, no_grad
from ...engine.launch import capturing
from ...engine.ops import add, maximum, minimum, stack, tensor, zeros
from ...engine.ops.optimizer_steps import scale_all, sums_of_squares

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


_REDUCTIONS = {inf: "MAX", -inf: "MIN"}  # by the order of the norm


def _listed(given: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensor._own_part for tensor in ([given] if isinstance(given, Tensor) else given)]


def _part(tensor: Tensor, norm_type: float) -> Tensor:
    """The contribution of one tensor to the norm, (): the sum of |x|^norm_type, or the extreme |x| for ±inf. float16
    and bfloat16 are widened first.
    """
    x = tensor.detach() if tensor.dtype.itemsize >= 4 else tensor.detach().float()
    if norm_type == 2.0:
        return (x * x).sum()
    if norm_type in (inf, -inf):
        return x.abs().amax() if norm_type > 0 else x.abs().amin()
    return (x.abs() ** norm_type).sum()


def _total(tensors: list[Tensor], norm_type: float) -> Tensor:
    """The norm of all tensors as one vector, (), on the device of the first."""
    order = float(norm_type)
    every = [tensor for tensor in tensors if tensor.numel()]
    if not every:
        return zeros(())
    if order == 2.0:
        return sums_of_squares([tensor.detach() for tensor in every]).sum().sqrt()
    kind = float64 if any(tensor.dtype is float64 for tensor in every) else float32
    if order == 0:  # as in torch: the norm of the norms, which counts the tensors that are not 0
        return stack([(tensor.detach() != 0).any().to(every[0].device) for tensor in every]).sum().to(kind)
    return _root(_joined([_part(tensor, order).to(kind).to(every[0].device) for tensor in every], order), order)


def _joined(parts: list[Tensor], order: float) -> Tensor:
    """The contribution of several tensors, (), from those of each."""
    return functools.reduce(add if isfinite(order) else maximum if order > 0 else minimum, parts)


def _root(total: Tensor, order: float) -> Tensor:
    """The norm, (), from the contribution of all."""
    return total if not isfinite(order) else total.sqrt() if order == 2.0 else total ** (1 / order)


def _over_ranks(parameters: list[Tensor], norm_type: float) -> Tensor:
    """The norm of all gradients, (), where each process has a part of some (`nn.fully_sharded`)."""
    order = float(norm_type)
    nothing = inf if order == -inf else 0.0  # what a process without rows contributes
    of_groups: dict[tuple[Any, ...], list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            of_groups.setdefault(parameter.shard_groups, []).append(parameter.grad)
    found = []
    for groups, gradients in of_groups.items():
        own = [_part(x, order).to(float32) for x in gradients if x.numel()]
        part = _joined(own, order) if own else tensor(nothing).to(gradients[0].device)
        for group in groups:
            part = group.combined(part, _REDUCTIONS.get(order, "SUM"))
        found.append(part)
    return _root(_joined(found, order), order)


def _check_finite(norm: float, norm_type: float) -> None:
    if not isfinite(norm):
        raise RuntimeError(f"the norm of order {norm_type} of the gradients is {norm}")


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The norm of all tensors as one vector, (): float64 if one of them is, else float32.

    RuntimeError for NaN or infinity if `error_if_nonfinite`.
    """
    total = _total(_listed(tensors), norm_type)
    if error_if_nonfinite:
        _check_finite(total.item(), norm_type)
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor | float, foreach: Any = None
) -> None:
    """Scales all gradients so that their total norm, now `total_norm`, is at most `max_norm`. The device computes the
    scale of a norm that is a tensor, so a Graph can do that again.
    """
    gradients = [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]
    with no_grad():
        if not isinstance(total_norm, Tensor):
            total_norm = tensor(float(total_norm))
        scale = (max_norm / (total_norm.detach() + 1e-6)).clamp(max=1.0)  # (); NaN propagates, as in torch
        if scale.device.backend.host_visible and not capturing() and scale.item() == 1.0:
            return  # which spares the CPU a walk over all gradients
        if gradients:
            scale_all(gradients, scale)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:  # fmt: skip
    """Scales all gradients together so that their norm is at most `max_norm`. Returns the norm before scaling, (). Of
    parameters that are divided among processes it is the norm of the whole gradients; all processes call it.

    RuntimeError for NaN or infinity if `error_if_nonfinite`: then the host reads the norm, which a Graph cannot.
    """
    every = _listed(parameters)
    if any(parameter.shard_groups for parameter in every):
        total = _over_ranks(every, norm_type)
    else:
        total = _total([parameter.grad for parameter in every if parameter.grad is not None], norm_type)
    if error_if_nonfinite:
        _check_finite(total.item(), norm_type)
    clip_grads_with_norm_(every, max_norm, total)
    return total


clip_grad_norm = clip_grad_norm_  # its older name


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None) -> None:
    """Limits each element of the gradients to ±clip_value, in place."""
    if not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value must be a number >= 0, got {clip_value}")
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.clamp_(-clip_value, clip_value)
