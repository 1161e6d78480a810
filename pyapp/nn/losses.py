"""Losses as functions, as in torch.nn.functional: of numbers, classes and distributions.

`reduction` is "mean", "sum" or "none" everywhere ("batchmean" too for kl_div). torch's deprecated `size_average` and
`reduce` are left out, so what follows the tensors is given by name.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

from ..engine import Tensor, float32, int64, ops
from ..engine.mistakes import warn
from ..engine.op import describe, op
from ..engine.ops.activations import logsigmoid
from ..engine.shape import broadcast_shapes


def _reduce(name: str, values: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return values.mean()
    if reduction == "sum":
        return values.sum()
    if reduction == "none":
        return values
    raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        raise ValueError(f"{name}: the target {describe(target)} does not have the shape of {describe(input)}")


def _broadcast(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in their common shape; with torch's warning where that is not the shape of both."""
    if input.shape == target.shape:
        return input, target
    warn(
        f"{name}: the target {describe(target)} does not have the shape of {describe(input)}. They are broadcast, "
        "which is seldom what a loss should do: give both the same shape"
    )
    shape = broadcast_shapes(input.shape, target.shape, op=name)
    return input.expand(shape), target.expand(shape)


def _weighted(name: str, values: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Reduced; with a weight for each element the mean is the weighted one."""
    if weight is None:
        return _reduce(name, values, reduction)
    if weight.shape != values.shape:
        raise ValueError(f"{name}: the weight {describe(weight)} does not have the shape of {describe(values)}")
    values = values * weight
    return values.sum() / weight.sum() if reduction == "mean" else _reduce(name, values, reduction)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)², times a weight for each element."""
    input, target = _broadcast("mse_loss", input, target)
    difference = input - target
    return _weighted("mse_loss", difference * difference, weight, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, times a weight for each element."""
    input, target = _broadcast("l1_loss", input, target)
    return _weighted("l1_loss", (input - target).abs(), weight, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the square of the difference up to `delta`, from there on in a line (Huber 1964); times a weight."""
    input, target = _broadcast("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be above 0, got {delta}")
    d = input - target
    size = d.abs()
    values = ops.where(size < delta, 0.5 * d * d, delta * (size - 0.5 * delta))
    if weight is None or reduction != "mean":
        return _weighted("huber_loss", values, weight, reduction)
    return _weighted("huber_loss", values, weight, "none").mean()  # as torch, by the count alone


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Huber's loss divided by `beta`; with beta 0 it is l1_loss."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    input, target = _broadcast("smooth_l1_loss", input, target)
    d = input - target
    if beta == 0:
        return _reduce("smooth_l1_loss", d.abs(), reduction)
    size = d.abs()
    return _reduce("smooth_l1_loss", ops.where(size < beta, d * d * (0.5 / beta), size - 0.5 * beta), reduction)


# -- classes


def _classes_last(name: str, input: Tensor, weight: Tensor | None) -> Tensor:
    """(C,), (N, C) or (N, C, d1, ...) → with the classes as last dim."""
    if input.ndim < 1:
        raise ValueError(f"{name}: takes (C,), (N, C) or (N, C, d1, ...), got {describe(input)}")
    axis = 0 if input.ndim == 1 else 1
    if weight is not None and weight.shape != (input.shape[axis],):
        raise ValueError(f"{name}: the weight {describe(weight)} does not fit {input.shape[axis]} classes")
    if input.ndim <= 2:
        return input
    return input.permute(0, *range(2, input.ndim), 1)


def _index_loss(
    name: str,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """From log-probabilities (..., C) and integer targets (...)."""
    if target.dtype.category != 1 or scores.shape[:-1] != target.shape:
        raise ValueError(f"{name}: targets {describe(target)} do not fit scores {describe(scores)} (classes last)")
    kept = target != ignore_index
    safe = target.masked_fill(target == ignore_index, 0).to(int64)
    factor = kept.to(scores.dtype)
    if weight is not None:
        factor = factor * ops.index_select(weight, 0, safe.reshape(-1)).reshape(safe.shape)
    values = -scores.gather(-1, safe.unsqueeze(-1)).squeeze(-1) * factor
    if smoothing:
        every = -(scores if weight is None else scores * weight).sum(-1) * kept.to(scores.dtype)
        values = values * (1 - smoothing) + every * (smoothing / scores.shape[-1])
    if reduction == "mean":
        return values.sum() / factor.sum()
    return _reduce(name, values, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] of log-probabilities (C,), (N, C) or (N, C, d1, ...) and integer targets (), (N,), (N, d1, ...).

    With class weights the mean is the weighted one. NaN when every target is ignored, as in torch.
    """
    scores = _classes_last("nll_loss", input, weight)
    return _index_loss("nll_loss", scores, target, weight, ignore_index, reduction, 0.0)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target] in nats. `target` holds classes, as for nll_loss, or probabilities in the shape of
    `input`. Label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567.
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")
    logits = _classes_last("cross_entropy", input, weight)
    if target.dtype.is_floating_point:
        return _probability_loss(input, logits, target, weight, reduction, label_smoothing)
    plain = weight is None and not label_smoothing and reduction == "mean" and logits.dtype is float32
    if plain and logits.ndim == 2 and target.ndim == 1 and target.dtype.category == 1:
        return ops.cross_entropy(logits, target, ignore_index)  # has a kernel
    scores = logits.log_softmax(-1)
    return _index_loss("cross_entropy", scores, target, weight, ignore_index, reduction, label_smoothing)


def _probability_loss(
    input: Tensor, logits: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    _same_shape("cross_entropy", input, target)
    wanted = _classes_last("cross_entropy", target, None)
    if smoothing:
        wanted = wanted * (1 - smoothing) + smoothing / wanted.shape[-1]
    if weight is not None:
        wanted = wanted * weight
    return _reduce("cross_entropy", -(logits.log_softmax(-1) * wanted).sum(-1), reduction)


# -- two classes


def _limited_log(x: Tensor) -> Tensor:
    return ops.maximum(x.log(), -100.0)


def _d_binary_cross_entropy(g: Tensor, _: Any, x: Tensor, target: Tensor) -> Any:
    d_x = g * (x - target) / ops.maximum((1 - x) * x, 1e-12) if x.requires_grad else None
    return d_x, g * ((-x).log1p() - x.log()) if target.requires_grad else None  # not limited, as in torch


@op(vjp=_d_binary_cross_entropy)
def _binary_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)), logarithms not below -100, so that 0 and 1 give numbers."""
    return -(target * _limited_log(x) + (1 - target) * _limited_log(1 - x))


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Of probabilities `input` in [0, 1]; `weight` is multiplied in. ValueError outside [0, 1]."""
    _same_shape("binary_cross_entropy", input, target)
    if input.numel() and not (0 <= input.detach().amin().item() and input.detach().amax().item() <= 1):
        raise ValueError("binary_cross_entropy: all elements of the input must be between 0 and 1")
    values = _binary_cross_entropy(input, target)
    return _reduce("binary_cross_entropy", values if weight is None else values * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Of sigmoid(input), computed without overflow; `pos_weight` multiplies what the positive targets cost."""
    name = "binary_cross_entropy_with_logits"
    _same_shape(name, input, target)
    log_weight = 1.0 if pos_weight is None else (pos_weight - 1) * target + 1
    values = (1 - target) * input - logsigmoid(input) * log_weight
    return _reduce(name, values if weight is None else values * weight, reduction)


# -- distributions


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log target - input): `input` in logarithms, `target` too if `log_target`. "batchmean" divides the sum
    by the first dim, which is the divergence's own definition.
    """
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = target * (ops.where(target > 0, target, 1.0).log() - input)
    if reduction == "batchmean":
        return values.sum() / (input.shape[0] if input.ndim else 1)
    return _reduce("kl_div", values, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """-log of Poisson's probability of counts `target` at rates exp(input), or `input` itself unless `log_input`, which
    `eps` keeps from 0. What does not hang on the rate is left out, or, where `full`, told by Stirling's formula.
    """
    values = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = ops.where(target > 1, target, 1.0)
        values = values + ops.where(target > 1, safe * safe.log() - safe + 0.5 * (safe * (2 * pi)).log(), 0.0)
    return _reduce("poisson_nll_loss", values, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """-log of the normal density of `target` around `input` with variance `var`: a number, or as the input, the last
    dim perhaps 1 or left out. At least `eps`, of which the gradient does not know. `full` adds log(2 π) / 2.
    """
    name = "gaussian_nll_loss"
    spread = var if isinstance(var, Tensor) else ops.full(input.shape, float(var), dtype=input.dtype)
    if spread.shape != input.shape:
        if spread.shape == input.shape[:-1]:
            spread = spread.unsqueeze(-1)
        elif not input.ndim or spread.shape != (*input.shape[:-1], 1):
            raise ValueError(f"{name}: the variance {describe(spread)} does not fit {describe(input)}")
    if spread.numel() and spread.detach().amin().item() < 0:
        raise ValueError(f"{name}: the variance has negative elements")
    spread = spread + (spread.detach().clamp(eps) - spread.detach())
    values = 0.5 * (spread.log() + (input - target) ** 2 / spread)
    return _reduce(name, values + 0.5 * log(2 * pi) if full else values, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    _same_shape("soft_margin_loss", input, target)
    return _reduce("soft_margin_loss", -logsigmoid(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes (..., C) of binary_cross_entropy_with_logits; `weight` (C,) is multiplied in."""
    name = "multilabel_soft_margin_loss"
    _same_shape(name, input, target)
    values = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return _reduce(name, (values if weight is None else values * weight).mean(-1), reduction)
