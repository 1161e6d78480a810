"""Losses as modules, with the settings of their functions. Class weights are part of the state."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from . import ctc, losses, margin_losses
from .function_layers import FunctionLayer, function_layer


class Loss(FunctionLayer):
    """`reduction` is "mean", "sum" or "none" everywhere, "batchmean" too for KLDivLoss."""

    reductions: tuple[str, ...] = ("mean", "sum", "none")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.reduction not in self.reductions:
            raise ArgumentError(f"{type(self).__name__}: unknown reduction {self.reduction!r}")


class _Divergence(Loss):
    reductions = (*Loss.reductions, "batchmean")


def _loss(name: str, function: Any, tensors: int = 2, settings: str | None = None, base: type = Loss) -> Any:
    return function_layer(name, function, settings, tensors, base)


# A weight for each element comes with the call; one for each class is a setting.
MSELoss = _loss("MSELoss", losses.mse_loss, settings="reduction")
L1Loss = _loss("L1Loss", losses.l1_loss, settings="reduction")
HuberLoss = _loss("HuberLoss", losses.huber_loss, settings="reduction delta")
SmoothL1Loss = _loss("SmoothL1Loss", losses.smooth_l1_loss)
NLLLoss = _loss("NLLLoss", losses.nll_loss)
CrossEntropyLoss = _loss("CrossEntropyLoss", losses.cross_entropy)
BCELoss = _loss("BCELoss", losses.binary_cross_entropy)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", losses.binary_cross_entropy_with_logits)
KLDivLoss = _loss("KLDivLoss", losses.kl_div, base=_Divergence)
PoissonNLLLoss = _loss("PoissonNLLLoss", losses.poisson_nll_loss)
GaussianNLLLoss = _loss("GaussianNLLLoss", losses.gaussian_nll_loss, 3)
SoftMarginLoss = _loss("SoftMarginLoss", losses.soft_margin_loss)
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", losses.multilabel_soft_margin_loss)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", margin_losses.cosine_embedding_loss, 3)
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", margin_losses.hinge_embedding_loss)
MarginRankingLoss = _loss("MarginRankingLoss", margin_losses.margin_ranking_loss, 3)
MultiMarginLoss = _loss("MultiMarginLoss", margin_losses.multi_margin_loss)
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", margin_losses.multilabel_margin_loss)
TripletMarginLoss = _loss("TripletMarginLoss", margin_losses.triplet_margin_loss, 3)
TripletMarginWithDistanceLoss = _loss(
    "TripletMarginWithDistanceLoss", margin_losses.triplet_margin_with_distance_loss, 3
)
CTCLoss = _loss("CTCLoss", ctc.ctc_loss, 4)
