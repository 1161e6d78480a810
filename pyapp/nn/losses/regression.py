"""Regression losses, and negative log-likelihoods of the parameters of a distribution."""

from __future__ import annotations

from math import log, nan, pi
from typing import Any

from ...engine import Tensor, ops
from ...engine.autocast import in_full_precision
from ...engine.dtype import float32
from ...engine.op import op
from ...engine.operands import refuse_complex
from ...engine.ops.element_updates import element_function
from ...engine.ops.norms import sum_squares
from ...engine.user_errors import describe
from .reduction import broadcast, loss_layer, reduce, weighted

__all__ = [
    "GaussianNLLLoss", "HuberLoss", "L1Loss", "MSELoss", "PoissonNLLLoss", "SmoothL1Loss", "gaussian_nll_loss",
    "huber_loss", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip
__top_level__ = ["poisson_nll_loss"]


_squared_error_slope = element_function(lambda input, target, g, scale: (input - target) * (g * scale), 3, 1)


def _d_squared_error(g: Tensor, _: Any, input: Tensor, target: Tensor, mean: bool) -> tuple[Tensor | None, ...]:
    scale = 2.0 / (input.numel() or nan) if mean else 2.0
    if input.dtype is float32:
        slope = _squared_error_slope(input, target, g, scale)
    else:
        slope = (input - target) * (g * scale)
    return slope if input.requires_grad else None, -slope if target.requires_grad else None


@op(vjp=_d_squared_error)
def _squared_error(input: Tensor, target: Tensor, mean: bool) -> Tensor:
    """The sum or the mean of (input - target)², of two tensors of one shape: one node instead of four."""
    difference = input - target
    if not difference.dtype.is_floating_point or difference.dtype.itemsize < 4:  # of halves the mean is in float32
        squares = difference * difference
        return squares.mean() if mean else squares.sum()
    found = sum_squares(difference)
    return found / (difference.numel() or nan) if mean else found


@in_full_precision
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)², times a weight for each element."""
    refuse_complex("mse_loss", input, target)
    input, target = broadcast("mse_loss", input, target)
    if weight is None and reduction in ("mean", "sum") and input.dtype is target.dtype:
        return _squared_error(input, target, reduction == "mean")
    difference = input - target
    return weighted("mse_loss", difference * difference, weight, reduction)


@in_full_precision
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, times a weight for each element."""
    input, target = broadcast("l1_loss", input, target)
    return weighted("l1_loss", (input - target).abs(), weight, reduction)


def _huber_values(input: Any, target: Any, delta: Any) -> Any:
    size = (input - target).abs()
    near = size.minimum(delta)
    return near * (near * -0.5 + size)


def _huber_slopes(g: Any, input: Any, target: Any, least: Any, most: Any, scale: Any) -> Any:
    return (input - target).maximum(least).minimum(most) * scale * g


_huber_program, _huber_slope_program = element_function(_huber_values, 2, 1), element_function(_huber_slopes, 3, 3)


def _d_huber(
    g: Tensor, _: Any, input: Tensor, target: Tensor, delta: float, scale: float
) -> tuple[Tensor | None, Tensor | None]:
    slope = _huber_slope_program(g, input, target, -delta, delta, scale)
    return slope if input.requires_grad else None, -slope if target.requires_grad else None


@op(vjp=_d_huber)
def _huber(input: Tensor, target: Tensor, delta: float, scale: float) -> Tensor:
    """`scale` times d² / 2 up to |d| = delta, beyond it delta (|d| - delta / 2), of d = input - target, both of one
    shape."""
    values = _huber_program(input, target, delta)
    return values if scale == 1 else values * scale


@in_full_precision
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the square of the difference up to `delta`, linear beyond it (Huber 1964); times a weight."""
    input, target = broadcast("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be above 0, got {delta}")
    values = _huber(input, target, float(delta), 1.0)
    if weight is None or reduction != "mean":
        return weighted("huber_loss", values, weight, reduction)
    return weighted("huber_loss", values, weight, "none").mean()  # divided by the count alone, as in torch


@in_full_precision
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Huber's loss divided by `beta`; with beta 0 it is l1_loss."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    input, target = broadcast("smooth_l1_loss", input, target)
    if beta == 0:
        return reduce("smooth_l1_loss", (input - target).abs(), reduction)
    return reduce("smooth_l1_loss", _huber(input, target, float(beta), 1 / beta), reduction)


@in_full_precision
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """-log of the Poisson probability of counts `target` at rates exp(input), or `input` + `eps` unless `log_input`.
    The term that does not depend on the rate is left out, or approximated by Stirling's formula if `full`.
    """
    values = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = ops.where(target > 1, target, 1.0)
        values = values + ops.where(target > 1, safe * safe.log() - safe + 0.5 * (safe * (2 * pi)).log(), 0.0)
    return reduce("poisson_nll_loss", values, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """-log of the normal density of `target` around `input` with variance `var`: a number, or a tensor in the shape of
    the input, of whose dims any may be 1, and the last may be left out. `var` is clamped at `eps`, and the gradient
    ignores the clamp. `full` adds log(2 π) / 2.
    """
    name = "gaussian_nll_loss"
    spread = var if isinstance(var, Tensor) else ops.full_like(input, float(var))
    if spread.shape != input.shape:
        if spread.shape == input.shape[:-1]:
            spread = spread.unsqueeze(-1)
        elif spread.ndim != input.ndim or any(n not in (1, m) for n, m in zip(spread.shape, input.shape, strict=True)):
            raise ValueError(f"{name}: the variance {describe(spread)} does not fit {describe(input)}")
    if spread.numel() and spread.detach().amin().item() < 0:
        raise ValueError(f"{name}: the variance has negative elements")
    spread = spread + (spread.detach().clamp(eps) - spread.detach())
    values = 0.5 * (spread.log() + (input - target) ** 2 / spread)
    return reduce(name, values + 0.5 * log(2 * pi) if full else values, reduction)


MSELoss = loss_layer("MSELoss", mse_loss, settings="reduction")
L1Loss = loss_layer("L1Loss", l1_loss, settings="reduction")
HuberLoss = loss_layer("HuberLoss", huber_loss, settings="reduction delta")
SmoothL1Loss = loss_layer("SmoothL1Loss", smooth_l1_loss)
PoissonNLLLoss = loss_layer("PoissonNLLLoss", poisson_nll_loss)
GaussianNLLLoss = loss_layer("GaussianNLLLoss", gaussian_nll_loss, 3)
