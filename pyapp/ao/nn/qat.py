"""Layers that round their weights in each forward pass, so that training sees what quantisation will lose."""

from __future__ import annotations

from typing import Any

import pyapp.nn.functional as F

from ... import nn
from ...engine import Tensor
from ...nn.utils.fusion import fuse_conv_bn_weights
from . import intrinsic
from .adopting import adopted

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "Linear", "LinearBn1d", "LinearReLU",
]  # fmt: skip


class _Rounded:
    """What they share. `weight_fake_quant` rounds the weight; `relu` says whether negative results become 0."""

    relu = False
    weight: Any
    bias: Any
    weight_fake_quant: Any
    bn: Any = None

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a layer, or from those that are fused. AssertionError where it has no `qconfig`."""
        assert getattr(mod, "qconfig", None), f"{cls.__name__}.from_float: the layer has no qconfig"
        parts = list(mod) if isinstance(mod, nn.Sequential) else [mod]
        made = adopted(cls, parts[0])
        made.qconfig = mod.qconfig
        made.weight_fake_quant = mod.qconfig.weight()
        if len(parts) > 1 and not isinstance(parts[1], nn.ReLU):
            made.bn = parts[1]
        return made.train(mod.training)

    def forward(self, input: Tensor) -> Tensor:
        result = self._given(input)
        return F.relu(result) if self.relu else result

    def _given(self, input: Tensor) -> Tensor:
        if self.bn is None:
            return self._by(input, self.weight_fake_quant(self.weight), self.bias)
        # The weight is rounded as it will be in use: scaled by the batch norm, with its running deviation.
        scale = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()  # (O,)
        scaled = self.weight_fake_quant(self.weight * scale.reshape([-1] + [1] * (self.weight.ndim - 1)))
        along = [-1 if k == 1 else 1 for k in range(input.ndim)] if self.weight.ndim > 2 else [-1]
        result = self._by(input, scaled, None) / scale.reshape(along)
        return self.bn(result if self.bias is None else result + self.bias.reshape(along))

    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        raise NotImplementedError

    def joined(self) -> tuple[Tensor, Any]:
        """Weight and bias with the batch norm in them, detached."""
        if self.bn is None:
            return self.weight.detach(), None if self.bias is None else self.bias.detach()
        bn = self.bn
        found = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        return found[0].detach(), found[1].detach()

    def update_bn_stats(self) -> Any:
        """Lets the batch norm measure again."""
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Any:
        """Lets the batch norm compute with its running values."""
        self.bn.training = False
        return self


class Linear(_Rounded, nn.Linear):
    """Linear with a rounded weight."""

    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        return F.linear(input, weight, bias)


class _RoundedConv(_Rounded):
    def _by(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        return self._conv_forward(input, weight, bias)  # type: ignore[attr-defined]


class Conv1d(_RoundedConv, nn.Conv1d):
    """Conv1d with a rounded weight."""


class Conv2d(_RoundedConv, nn.Conv2d):
    """Conv2d with a rounded weight."""


class Conv3d(_RoundedConv, nn.Conv3d):
    """Conv3d with a rounded weight."""


class ConvBn1d(Conv1d, intrinsic._FusedModule):
    """Conv1d with a rounded weight, and BatchNorm1d."""


class ConvBn2d(Conv2d, intrinsic._FusedModule):
    """Conv2d with a rounded weight, and BatchNorm2d."""


class ConvBn3d(Conv3d, intrinsic._FusedModule):
    """Conv3d with a rounded weight, and BatchNorm3d."""


class LinearBn1d(Linear, intrinsic._FusedModule):
    """Linear with a rounded weight, and BatchNorm1d."""


class ConvReLU1d(Conv1d, intrinsic._FusedModule):
    """Conv1d with a rounded weight, and ReLU."""

    relu = True


class ConvReLU2d(Conv2d, intrinsic._FusedModule):
    """Conv2d with a rounded weight, and ReLU."""

    relu = True


class ConvReLU3d(Conv3d, intrinsic._FusedModule):
    """Conv3d with a rounded weight, and ReLU."""

    relu = True


class LinearReLU(Linear, intrinsic._FusedModule):
    """Linear with a rounded weight, and ReLU."""

    relu = True


class ConvBnReLU1d(ConvBn1d):
    """Conv1d with a rounded weight, BatchNorm1d, and ReLU."""

    relu = True


class ConvBnReLU2d(ConvBn2d):
    """Conv2d with a rounded weight, BatchNorm2d, and ReLU."""

    relu = True


class ConvBnReLU3d(ConvBn3d):
    """Conv3d with a rounded weight, BatchNorm3d, and ReLU."""

    relu = True
