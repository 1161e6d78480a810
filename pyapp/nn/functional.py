"""What torch.nn.functional has of losses, dropout and activations, in one place."""

from __future__ import annotations

from ..engine.ops import linear, log_softmax, relu, sigmoid, silu, softmax, tanh
from .dropout import dropout
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cosine_similarity,
    cross_entropy,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "dropout", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "linear", "log_softmax",
    "margin_ranking_loss", "mse_loss", "multi_margin_loss", "nll_loss", "relu", "sigmoid", "silu", "smooth_l1_loss",
    "softmax", "tanh",
]  # fmt: skip
