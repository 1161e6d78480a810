"""Losses of distances, similarities and margins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, int64, ops
from ...engine.autocast import in_full_precision
from ...engine.dtype import Default
from ...engine.op import op
from ...engine.ops.element_updates import element_function
from ...engine.shape import broadcast_shapes
from ...engine.user_errors import describe
from ..layers.distance import pairwise_distance
from .reduction import loss_layer, reduce, same_shape

__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "cosine_embedding_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip
__top_level__ = ["cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss"]


@in_full_precision
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1. Inputs (N, D) with targets (N,), or (D,) with
    (); all are broadcast.
    """
    name = "cosine_embedding_loss"
    together = broadcast_shapes(input1.shape, input2.shape, op=name)
    if target.ndim != input1.ndim - 1 or input1.ndim != input2.ndim or input1.ndim not in (1, 2):
        raise ValueError(
            f"{name}: targets {describe(target)} do not fit inputs {describe(input1)} and {describe(input2)}"
        )
    broadcast_shapes(together[:-1], target.shape, op=name)
    lengths = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    values = ops.where(target == 1, 1 - cosine, 0.0) + ops.where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduce(name, values, reduction)


@in_full_precision
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """input where the target is 1, max(0, margin - input) where it is -1; both are broadcast."""
    broadcast_shapes(input.shape, target.shape, op="hinge_embedding_loss")
    values = ops.where(target != 1, (margin - input).clamp(min=0), 0.0) + ops.where(target != -1, input, 0.0)
    return reduce("hinge_embedding_loss", values, reduction)


@in_full_precision
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): target 1 ranks the first input higher, -1 the second. All have as
    many dims, and are broadcast.
    """
    if not input1.ndim == input2.ndim == target.ndim:  # (N,) beside (N, 1) would make (N, N)
        raise ValueError(
            f"margin_ranking_loss: {describe(input1)}, {describe(input2)} and targets {describe(target)} differ in dims"
        )
    short = target * (input2 - input1)
    short = short if short.dtype.is_floating_point else short.to(Default.dtype)
    return reduce("margin_ranking_loss", (short + margin if margin else short).clamp(min=0), reduction)


_hinge_values = element_function(lambda x: x.where(x > 0.0, 0.0), 1)
_hinge_slope = element_function(lambda g, x: g.where(x > 0.0, 0.0), 2)


@op(vjp=lambda g, _, x: (_hinge_slope(g, x),))
def _hinge(x: Tensor) -> Tensor:
    """x above 0, else 0, as for NaN."""
    return _hinge_values(x)


def _d_short_of_margin(g: Tensor, _: Any, x: Tensor, column: Tensor, p: int, margin: float) -> Any:
    short = x + (margin - x.gather(-1, column))
    part = (_hinge_slope(g, short) if p == 1 else g * _hinge(short) * 2.0).scatter(-1, column, 0.0)
    return (part.scatter(-1, column, -part.sum(-1, True)),)


@op(vjp=_d_short_of_margin)
def _short_of_margin(x: Tensor, column: Tensor, p: int, margin: float) -> Tensor:
    """max(0, margin - x[target] + x)^p of scores (..., C), 0 for the target; `column` (..., 1) has the targets."""
    short = _hinge(x + (margin - x.gather(-1, column))).scatter(-1, column, 0.0)
    return short if p == 1 else short * short


@in_full_precision
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Multi-class hinge loss: the mean over the other classes of max(0, margin - input[target] + input)^p.

    input (N, C) or (C,), integer targets (N,), or () or (1,). One number () is one class. Values without a
    reduction have the targets' shape.
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if input.ndim < 2 and target.shape == (1,):
        input = input.reshape(1, -1)
    if input.shape[:-1] != target.shape or input.ndim > 2:
        raise ValueError(f"multi_margin_loss: targets {describe(target)} do not fit inputs {describe(input)}")
    input = input.reshape(1) if not input.ndim else input
    index = target.to(int64)
    column = index.unsqueeze(-1)
    short: Tensor = _short_of_margin(input, column, p, margin)
    if weight is not None:
        short = short * ops.index_select(weight, 0, index.reshape(-1)).reshape((*index.shape, 1))
    return reduce("multi_margin_loss", short.mean(-1) if reduction != "mean" else short, reduction)


@in_full_precision
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Multi-label hinge loss: the sum of max(0, 1 - input[label] + input[other]) over all labels and all other classes,
    divided by the number of classes. input (N, C) or (C,), integer targets of the same shape: labels, then -1.
    """
    name = "multilabel_margin_loss"
    same_shape(name, input, target)
    if input.ndim > 2 or target.dtype.category != 1:
        raise ValueError(f"{name}: takes (N, C) or (C,) and integer targets, got {describe(input)}, {describe(target)}")
    if not input.ndim:
        input, target = input.reshape(1), target.reshape(1)
    listed = (target >= 0).to(int64).cumprod(-1)  # (..., C): 1 up to the first -1
    if target.numel() and (target * listed).amax().item() >= input.shape[-1]:
        raise IndexError(f"{name}: a label of {describe(target)} is outside 0 .. {input.shape[-1] - 1}")
    labels = target.to(int64) * listed
    is_label = labels.new_zeros(target.shape).scatter_add(-1, labels, listed) > 0
    most = int(listed.sum(-1).amax().item()) if target.numel() else 0  # labels of an example; the others take no memory
    labels, listed = labels.narrow(-1, 0, most), listed.narrow(-1, 0, most)
    own = input.gather(-1, labels)
    short = 1 - own.unsqueeze(-1) + input.unsqueeze(-2)  # (..., labels, C)
    counted = (listed > 0).unsqueeze(-1).logical_and((~is_label).unsqueeze(-2)).logical_and(short > 0)
    return reduce(name, ops.where(counted, short, 0.0).sum((-2, -1)) / input.shape[-1], reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin + d(anchor, positive) - d(anchor, negative)); d is pairwise_distance by default. `swap` uses
    min(d(anchor, negative), d(positive, negative)) as the last term (Balntas et al. 2016).
    """
    name = "triplet_margin_loss"
    if margin <= 0:
        raise ValueError(f"{name}: margin must be above 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ValueError(
            f"{name}: anchor {describe(anchor)}, positive {describe(positive)} and negative {describe(negative)} "
            "differ in dims"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduce(name, (margin + near - far).clamp(min=0), reduction)


@in_full_precision
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_with_distance_loss with the p-norms of the differences plus eps. All (N, D) or (D,)."""
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=lambda a, b: pairwise_distance(a, b, p, eps), margin=margin,
        swap=swap, reduction=reduction,
    )  # fmt: skip


CosineEmbeddingLoss = loss_layer("CosineEmbeddingLoss", cosine_embedding_loss, 3)
HingeEmbeddingLoss = loss_layer("HingeEmbeddingLoss", hinge_embedding_loss)
MarginRankingLoss = loss_layer("MarginRankingLoss", margin_ranking_loss, 3)
MultiMarginLoss = loss_layer("MultiMarginLoss", multi_margin_loss)
MultiLabelMarginLoss = loss_layer("MultiLabelMarginLoss", multilabel_margin_loss)
TripletMarginLoss = loss_layer("TripletMarginLoss", triplet_margin_loss, 3)
TripletMarginWithDistanceLoss = loss_layer("TripletMarginWithDistanceLoss", triplet_margin_with_distance_loss, 3)
