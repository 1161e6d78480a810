"""What torch.nn.functional has: losses, dropout, activations, convolutions, pools, norms, attention, in one place."""

from __future__ import annotations

from typing import Any

from ..engine import ops
from ..engine.ops import (
    conv1d,
    conv2d,
    conv3d,
    elu,
    gelu,
    hardtanh,
    leaky_relu,
    linear,
    log_softmax,
    mish,
    pad,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)
from ..engine.ops.activations import (
    celu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    logsigmoid,
    one_hot,
    prelu,
    relu6,
    rrelu,
    selu,
    softmin,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from ..engine.ops.conv import col2im as fold
from ..engine.ops.conv import conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..engine.ops.conv import im2col as unfold
from ..engine.ops.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from ..engine.ops.pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from ..engine.ops.resample import affine_grid, grid_sample, interpolate, pixel_shuffle, pixel_unshuffle
from ..engine.ops.scaled_attention import scaled_dot_product_attention
from ..engine.ops.shape_more import pdist
from .ctc import ctc_loss
from .dropout import dropout
from .embedding_bag import embedding_bag
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


def embedding(input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None) -> Any:
    """Rows of weight (V, D) by integers (...) → (..., D); the row `padding_idx` gets no gradient."""
    if max_norm is not None:
        raise NotImplementedError("embedding: max_norm is not there; normalise the weight yourself")
    y = ops.embedding(weight, input)
    if padding_idx is None or not y.requires_grad:
        return y
    hidden = input == padding_idx % weight.shape[0]
    return ops.where(hidden.unsqueeze(-1), y.detach(), y)


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Any:
    """The same as interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 - x2 + eps along the last dim."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1 (..., I) and input2 (..., J) with weight (O, I, J) → (..., O)."""
    y = ((input1 @ weight.permute(1, 0, 2).reshape(weight.shape[1], -1)).unflatten(-1, (weight.shape[0], -1)) *
         input2.unsqueeze(-2)).sum(-1)  # fmt: skip
    return y if bias is None else y + bias


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "elu",
    "embedding",
    "embedding_bag",
    "fold",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad", "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "unfold",
    "upsample",
]  # fmt: skip
