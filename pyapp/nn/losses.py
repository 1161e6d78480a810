"""Losses as functions and as modules, as in torch.nn.functional and torch.nn.

`reduction` is "mean", "sum" or "none" everywhere ("batchmean" too for kl_div). torch's deprecated `size_average` and
`reduce` are left out, so what follows the tensors is given by name.
"""

from __future__ import annotations

from typing import Any

from ..engine import Tensor, float32, int64, ops
from ..engine.op import describe, op
from .module import Module


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


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(input - target)²."""
    _same_shape("mse_loss", input, target)
    difference = input - target
    return _reduce("mse_loss", difference * difference, reduction)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|input - target|."""
    _same_shape("l1_loss", input, target)
    return _reduce("l1_loss", (input - target).abs(), reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the square of the difference up to `delta`, from there on in a line (Huber 1964)."""
    _same_shape("huber_loss", input, target)
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be above 0, got {delta}")
    d = input - target
    size = d.abs()
    return _reduce("huber_loss", ops.where(size < delta, 0.5 * d * d, delta * (size - 0.5 * delta)), reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Huber's loss divided by `beta`; with beta 0 it is l1_loss."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    _same_shape("smooth_l1_loss", input, target)
    d = input - target
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


@op(vjp=lambda g, _, x: (g * (-x).sigmoid(),))
def _log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), stable."""
    return ops.minimum(x, 0.0) - (-x.abs()).exp().log1p()


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
    values = (1 - target) * input - _log_sigmoid(input) * log_weight
    return _reduce(name, values if weight is None else values * weight, reduction)


# -- distributions, similarities, margins


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


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (|x1| |x2|) along a dim, each norm at least `eps`."""
    norms = [ops.maximum((x * x).sum(dim), eps * eps).sqrt() for x in (x1, x2)]
    return (x1 * x2).sum(dim) / (norms[0] * norms[1])


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1. Inputs (N, D) with (N,), or (D,) with ()."""
    _same_shape("cosine_embedding_loss", input1, input2)
    if target.shape != input1.shape[:-1] or input1.ndim not in (1, 2):
        raise ValueError(f"cosine_embedding_loss: targets {describe(target)} do not fit inputs {describe(input1)}")
    lengths = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    values = ops.where(target == 1, 1 - cosine, 0.0) + ops.where(target == -1, (cosine - margin).relu(), 0.0)
    return _reduce("cosine_embedding_loss", values, reduction)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    _same_shape("hinge_embedding_loss", input, target)
    values = ops.where(target != 1, (margin - input).relu(), 0.0) + ops.where(target != -1, input, 0.0)
    return _reduce("hinge_embedding_loss", values, reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): a target of 1 wants the first higher, -1 the second."""
    _same_shape("margin_ranking_loss", input1, input2)
    return _reduce("margin_ranking_loss", (-target * (input1 - input2) + margin).relu(), reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Hinge loss of several classes: mean over the other classes of max(0, margin - input[target] + input)^p.

    input (N, C) or (C,), integer targets (N,) or ().
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if input.shape[:-1] != target.shape or input.ndim not in (1, 2):
        raise ValueError(f"multi_margin_loss: targets {describe(target)} do not fit inputs {describe(input)}")
    index = target.to(int64)
    own = input.gather(-1, index.unsqueeze(-1))
    others = ops.arange(input.shape[-1]) != index.unsqueeze(-1)
    short = (input - own + margin).relu() * others.to(input.dtype)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * ops.index_select(weight, 0, index.reshape(-1)).reshape((*index.shape, 1))
    return _reduce("multi_margin_loss", short.sum(-1) / input.shape[-1], reduction)


# -- modules


class _Loss(Module):
    """Settings as attributes, shown by repr."""

    def __init__(self, reduction: str, **settings: Any) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none", *(("batchmean",) if isinstance(self, KLDivLoss) else ())):
            raise ValueError(f"{type(self).__name__}: unknown reduction {reduction!r}")
        self.reduction = reduction
        self._settings = tuple(settings)
        for name, value in settings.items():
            setattr(self, name, value)

    def _weight(self, name: str, value: Tensor | None) -> None:
        """A weight is part of the state, as in torch; or None."""
        if value is None:
            setattr(self, name, None)
        else:
            self.register_buffer(name, value)

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*self._settings, "reduction")}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())


class MSELoss(_Loss):
    """See mse_loss."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, **self._arguments())


class L1Loss(_Loss):
    """See l1_loss."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return l1_loss(input, target, **self._arguments())


class HuberLoss(_Loss):
    """See huber_loss."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction, delta=delta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return huber_loss(input, target, **self._arguments())


class SmoothL1Loss(_Loss):
    """See smooth_l1_loss."""

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction, beta=beta)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return smooth_l1_loss(input, target, **self._arguments())


class NLLLoss(_Loss):
    """See nll_loss."""

    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction, ignore_index=ignore_index)
        self._weight("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return nll_loss(input, target, self.weight, **self._arguments())


class CrossEntropyLoss(_Loss):
    """See cross_entropy."""

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)
        self._weight("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(input, target, self.weight, **self._arguments())


class BCELoss(_Loss):
    """See binary_cross_entropy."""

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self._weight("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, **self._arguments())


class BCEWithLogitsLoss(_Loss):
    """See binary_cross_entropy_with_logits."""

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction)
        self._weight("weight", weight)
        self._weight("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, **self._arguments()
        )


class KLDivLoss(_Loss):
    """See kl_div."""

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, log_target=log_target)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return kl_div(input, target, **self._arguments())


class CosineEmbeddingLoss(_Loss):
    """See cosine_embedding_loss."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, **self._arguments())


class HingeEmbeddingLoss(_Loss):
    """See hinge_embedding_loss."""

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return hinge_embedding_loss(input, target, **self._arguments())


class MarginRankingLoss(_Loss):
    """See margin_ranking_loss."""

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction, margin=margin)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return margin_ranking_loss(input1, input2, target, **self._arguments())


class MultiMarginLoss(_Loss):
    """See multi_margin_loss."""

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction, p=p, margin=margin)
        self._weight("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multi_margin_loss(input, target, weight=self.weight, **self._arguments())
