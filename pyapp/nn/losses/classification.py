"""Losses of classes: one class of many, or several independent labels."""

from __future__ import annotations

import warnings
from typing import Any

from ...engine import Tensor, int64, ops
from ...engine.autocast import in_full_precision, would_widen
from ...engine.device import cpu
from ...engine.op import op
from ...engine.ops.activation import logsigmoid
from ...engine.ops.cross_entropy_loss import cross_entropy_of_planes, weighted_cross_entropy
from ...engine.ops.cross_entropy_loss import nll_loss as nll_of_rows
from ...engine.ops.element_updates import element_function
from ...engine.shape import broadcast_shapes
from ...engine.user_errors import describe
from .reduction import Loss, loss_layer, reduce, same_shape

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "KLDivLoss", "MultiLabelSoftMarginLoss", "NLLLoss",
    "SoftMarginLoss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div",
    "multilabel_soft_margin_loss", "nll_loss", "soft_margin_loss",
]  # fmt: skip
__top_level__ = ["binary_cross_entropy_with_logits", "kl_div"]


def _classes_last(name: str, input: Tensor, weight: Tensor | None) -> Tensor:
    """(C,), (N, C) or (N, C, d1, ...) → the same with the classes as last dim."""
    if input.ndim < 1:
        raise ValueError(f"{name}: takes (C,), (N, C) or (N, C, d1, ...), got {describe(input)}")
    axis = 0 if input.ndim == 1 else 1
    if weight is not None and weight.shape != (input.shape[axis],):
        raise ValueError(f"{name}: the weight {describe(weight)} does not fit {input.shape[axis]} classes")
    if input.ndim <= 2:
        return input
    return input.permute(0, *range(2, input.ndim), 1)


def _one_target(input: Tensor, target: Tensor) -> Tensor:
    """The target; of one example (C,), that of shape (1,) as one without dims."""
    return target.reshape(()) if input.ndim == 1 == target.numel() and target.dtype.category == 1 else target


_FEW = 1 << 14  # scores that are weighted all, where few of them count


def _index_loss(
    name: str,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """The loss of log-probabilities (..., C) and integer targets (...)."""
    if target.dtype.category != 1 or scores.shape[:-1] != target.shape:
        told = (
            f"expected target dtype to be Long, but got {target.dtype.name}: "
            if target.dtype.category != 1
            else "0D or 1D target tensor expected, multi-target not supported: "
            if target.ndim > scores.ndim - 1
            else f"Expected input batch_size ({scores.shape[0]}) to match target batch_size ({target.shape[0]}): "
            if target.ndim and target.ndim == scores.ndim - 1
            else ""
        )
        raise ValueError(
            f"{name}: {told}targets {describe(target)} do not fit scores {describe(scores)} (classes last)"
        )
    if weight is not None and not smoothing and reduction == "mean" and scores.numel() <= _FEW:
        # both are means over the targets that count; each has a kernel
        return nll_of_rows(scores * weight, target, ignore_index) / nll_of_rows(
            (-weight).expand(scores.shape), target, ignore_index
        )
    ignored = target == ignore_index
    safe = target.masked_fill(ignored, 0).to(int64)
    picked = scores.gather(-1, safe.unsqueeze(-1)).squeeze(-1)  # (...)
    factor = None if weight is None else ops.index_select(weight, 0, safe.reshape(-1)).reshape(safe.shape)
    values = -picked if factor is None else picked * -factor
    if smoothing:
        every = (scores if weight is None else scores * weight).sum(-1)
        values = values * (1 - smoothing) - every * (smoothing / scores.shape[-1])
    # Scores of ignored targets count nowhere, nor do their gradients, even where they are infinite or the mean is NaN.
    values = values.masked_fill(ignored, 0.0)
    if reduction == "mean":
        counts = (~ignored).to(scores.dtype)
        return values.sum() / (counts if factor is None else factor * counts).sum()
    return reduce(name, values, reduction)


@in_full_precision
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] of log-probabilities (C,), (N, C) or (N, C, d1, ...) and integer targets (), (N,), (N, d1, ...).

    With class weights the mean is weighted. NaN if every target is ignored, as in torch.
    """
    scores, target = _classes_last("nll_loss", input, weight), _one_target(input, target)
    if weight is None and reduction == "mean" and target.dtype.category == 1 and scores.shape[:-1] == target.shape:
        return nll_of_rows(scores, target, ignore_index)  # has a kernel
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
    logits, target = _classes_last("cross_entropy", input, weight), _one_target(input, target)
    plain = weight is None and not label_smoothing and reduction == "mean"
    plain = plain and logits.shape[:-1] == target.shape and target.dtype.category == 1
    if plain and would_widen(logits) and logits.device is not cpu:  # whose kernel for float32 is the faster one
        return ops.cross_entropy(logits, target, ignore_index, True)
    return _cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing, plain)


@in_full_precision
def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
    plain: bool,
) -> Tensor:
    logits = _classes_last("cross_entropy", input, weight)
    if plain and input.ndim > 2:
        return cross_entropy_of_planes(input, target, ignore_index)
    if plain:
        return ops.cross_entropy(logits, target, ignore_index)  # has a kernel
    if target.dtype.is_floating_point:
        return _probability_loss(input, logits, target, weight, reduction, label_smoothing)
    fits = logits.shape[:-1] == target.shape and target.dtype.category == 1
    if fits and not (weight is not None and weight.requires_grad):
        mean = reduction == "mean"
        found = weighted_cross_entropy(logits, target, weight, float(label_smoothing), ignore_index, mean)
        return found if mean else reduce("cross_entropy", found, reduction)
    scores = logits.log_softmax(-1)
    return _index_loss("cross_entropy", scores, target, weight, ignore_index, reduction, label_smoothing)


def _probability_loss(
    input: Tensor, logits: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    same_shape("cross_entropy", input, target)
    wanted = _classes_last("cross_entropy", target, None)
    if smoothing:
        wanted = wanted * (1 - smoothing) + smoothing / wanted.shape[-1]
    if weight is not None:
        wanted = wanted * weight
    return reduce("cross_entropy", -(logits.log_softmax(-1) * wanted).sum(-1), reduction)


# -- two classes


_mixed_logs = element_function(
    lambda target, log, other: 0.0 - (target * log.maximum(-100.0) + (1.0 - target) * other.maximum(-100.0)), 3
)
_binary_slope = element_function(lambda g, x, target: g * (x - target) / ((1.0 - x) * x).maximum(1e-12), 3)


def _d_binary_cross_entropy(g: Tensor, _: Any, x: Tensor, target: Tensor) -> Any:
    d_x = _binary_slope(g, x, target) if x.requires_grad else None
    return d_x, g * ((-x).log1p() - x.log()) if target.requires_grad else None  # not clamped, as in torch


@op(vjp=_d_binary_cross_entropy)
def _binary_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)), with logarithms clamped at -100, so that x of 0 and 1 gives finite values."""
    return _mixed_logs(target, x.log(), (1 - x).log())


@in_full_precision
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """Binary cross-entropy of probabilities `input` in [0, 1], times `weight`. ValueError outside [0, 1]."""
    same_shape("binary_cross_entropy", input, target)
    if input.numel() and not (0 <= input.detach().amin().item() and input.detach().amax().item() <= 1):
        raise ValueError("binary_cross_entropy: all elements of the input must be between 0 and 1")
    values = _binary_cross_entropy(input, target)
    return reduce("binary_cross_entropy", values if weight is None else values * weight, reduction)


_logit_values = element_function(lambda x, target, log_share: (1.0 - target) * x - log_share, 3)
_logit_slope = element_function(lambda g, target, rest: g * ((1.0 - target) - rest), 3)


@op(name="_loss_of_logits")
def _loss_of_logits(input: Tensor, target: Tensor) -> Tensor:
    """The binary cross-entropy of each logit; both of one shape and dtype."""
    return _logit_values(input, target, logsigmoid(input))


@_loss_of_logits.gradient
def _d_loss_of_logits(g: Tensor, _: Any, input: Tensor, target: Tensor) -> Any:
    return (
        _logit_slope(g, target, (-input).sigmoid()) if input.requires_grad else None,
        -(g * input) if target.requires_grad else None,
    )


@in_full_precision
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of sigmoid(input), computed without overflow. `pos_weight` multiplies the loss of positive
    targets.
    """
    name = "binary_cross_entropy_with_logits"
    same_shape(name, input, target)
    if pos_weight is None and input.dtype is target.dtype and input.dtype.is_floating_point:
        values = _loss_of_logits(input, target)
    else:
        log_weight = 1.0 if pos_weight is None else (pos_weight - 1) * target + 1
        values = (1 - target) * input - logsigmoid(input) * log_weight
    return reduce(name, values if weight is None else values * weight, reduction)


@in_full_precision
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log target - input). `input` is in logarithms, and so is `target` if `log_target`. "batchmean" divides
    the sum by the size of the first dim, which is the mathematical definition.
    """
    if not (input.dtype.has_gradient and target.dtype.has_gradient):
        raise TypeError(f"kl_div: takes floating-point tensors, not {describe(input)} and {describe(target)}")
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = target * (ops.where(target == 0, 1.0, target).log() - input)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL math definition. 'mean' will be changed to behave the same "
            "as 'batchmean' in the next major release.",
            stacklevel=3,
        )
    if reduction == "batchmean":
        return values.sum() / (input.shape[0] if input.ndim else 1)
    return reduce("kl_div", values, reduction)


@in_full_precision
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1, which are broadcast to the input."""
    if broadcast_shapes(input.shape, target.shape, op="soft_margin_loss") != input.shape:
        same_shape("soft_margin_loss", input, target)
    return reduce("soft_margin_loss", -logsigmoid(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes (..., C) of binary_cross_entropy_with_logits, times `weight` (C,); inputs and targets
    are broadcast.
    """
    name = "multilabel_soft_margin_loss"
    broadcast_shapes(input.shape, target.shape, op=name)
    values = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduce(name, (values if weight is None else values * weight).mean(-1), reduction)


class _Divergence(Loss):
    reductions = (*Loss.reductions, "batchmean")


NLLLoss = loss_layer("NLLLoss", nll_loss)
CrossEntropyLoss = loss_layer("CrossEntropyLoss", cross_entropy)
BCELoss = loss_layer("BCELoss", binary_cross_entropy)
BCEWithLogitsLoss = loss_layer("BCEWithLogitsLoss", binary_cross_entropy_with_logits)
KLDivLoss = loss_layer("KLDivLoss", kl_div, base=_Divergence)
SoftMarginLoss = loss_layer("SoftMarginLoss", soft_margin_loss)
MultiLabelSoftMarginLoss = loss_layer("MultiLabelSoftMarginLoss", multilabel_soft_margin_loss)
