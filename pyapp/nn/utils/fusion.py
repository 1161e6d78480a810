"""Fuses batch norms in evaluation into the layer before them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ...engine import Tensor
from ...engine.ops import ones_like, zeros_like
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Weight and bias of the convolution that equals a convolution followed by a batch norm."""
    scale = (ones_like(bn_rm) if bn_w is None else bn_w.detach()) * (bn_rv + bn_eps).rsqrt()
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    bias = ((zeros_like(bn_rm) if conv_b is None else conv_b.detach()) - bn_rm) * scale
    return (
        Parameter(conv_w.detach() * scale.reshape(shape), conv_w.requires_grad),
        Parameter(bias if bn_b is None else bias + bn_b.detach()),
    )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution (or Linear) that equals it followed by a batch norm; both must be in evaluation."""
    if conv.training or bn.training or bn.running_mean is None:
        raise ValueError("fuse_conv_bn_eval: takes layers in evaluation, and running values")
    fused = deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


fuse_linear_bn_weights, fuse_linear_bn_eval = fuse_conv_bn_weights, fuse_conv_bn_eval
