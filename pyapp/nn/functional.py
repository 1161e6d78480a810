"""What torch.nn.functional has: losses, dropout, activations, convolutions, pools, norms, attention, in one place.

Ops of the engine are given here by torch's name for their first argument, `input`.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ..engine import ops
from ..engine.mistakes import MISTAKES, named, names_itself, tell
from ..engine.op import Op
from ..engine.ops import conv, normalization, pool, resample
from ..engine.ops.activations import one_hot
from ..engine.ops.rearrange import pad
from ..engine.ops.scaled_attention import scaled_dot_product_attention
from ..engine.ops.shape_more import pdist
from .activation_functions import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from .attention import multi_head_attention_forward
from .ctc import ctc_loss
from .dropout import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .embeddings import embedding, embedding_bag
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from .margin_losses import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    pairwise_distance,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from .normalization import bilinear
from .stateless import upsample, upsample_bilinear, upsample_nearest


def _of_input(function: Any, name: str | None = None) -> Any:
    """The same, its first argument, x, by the name `input` too."""
    body: Any = function.definition if isinstance(function, Op) else function
    called = name or body.__name__
    first, *rest = inspect.signature(body).parameters.values()

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if not args and "input" in kwargs:
                args = (kwargs.pop("input"),)
            return function(*args, **kwargs)
        except MISTAKES as error:
            tell(error, called, args, kwargs)
            raise

    names_itself(call)
    call.__signature__ = inspect.Signature([first.replace(name="input"), *rest])  # type: ignore[attr-defined]
    return call


_IN_ENGINE = {
    ops: ["conv1d", "conv2d", "conv3d", "linear"],
    conv: ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"],
    normalization: """
        batch_norm group_norm instance_norm layer_norm local_response_norm normalize rms_norm
    """.split(),
    pool: """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
        adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d fractional_max_pool3d lp_pool1d
        lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d
    """.split(),
    resample: "channel_shuffle grid_sample interpolate pixel_shuffle pixel_unshuffle".split(),
}
for _room, _names in _IN_ENGINE.items():
    globals().update({name: _of_input(getattr(_room, name)) for name in _names})
fold, unfold = _of_input(conv.col2im, "fold"), _of_input(conv.im2col, "unfold")
pad, one_hot, pdist = _of_input(pad), _of_input(one_hot), _of_input(pdist)
affine_grid, native_channel_shuffle = resample.affine_grid, resample.channel_shuffle


def _with_indices(name: str) -> Any:
    """A pool that gives (values, indices)."""
    return functools.partial(globals()[name], return_indices=True)


_WITH_INDICES = [
    *(f"{kind}_pool{dims}d" for kind in ("max", "adaptive_max") for dims in (1, 2, 3)),
    "fractional_max_pool2d", "fractional_max_pool3d",
]  # fmt: skip
globals().update({f"{name}_with_indices": _with_indices(name) for name in _WITH_INDICES})

__all__ = [
    "affine_grid", "alpha_dropout", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "celu_", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "elu", "elu_", "embedding", "embedding_bag", "feature_alpha_dropout", "fold",
    "gaussian_nll_loss", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "leaky_relu", "leaky_relu_",
    "log_softmax", "logsigmoid", "margin_ranking_loss", "mish", "mse_loss", "multi_head_attention_forward",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "native_channel_shuffle", "nll_loss",
    "one_hot", "pad", "pairwise_distance", "pdist", "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rrelu",
    "rrelu_", "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "threshold_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip
__all__ += [name for names in _IN_ENGINE.values() for name in names]
__all__ += [f"{name}_with_indices" for name in _WITH_INDICES]
for _name in __all__:
    if not hasattr(globals()[_name], "names_itself"):
        globals()[_name] = named(globals()[_name], _name)
