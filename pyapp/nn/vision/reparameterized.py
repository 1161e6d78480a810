"""Filters that are trained as sums of several: RepVGG (Ding et al. 2021, arXiv 2101.03697) and MobileOne (Vasu et al.
2022, arXiv 2206.04040). Each branch is a filter and the norm of batches, so that one filter computes the same as all.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ..layers.channel_normalization import BatchNorm2d
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..module import Module
from ..parameter import Parameter
from .mobile import FilterNorm, SqueezedAttention, Style

SQUEEZED_NAMES = ("fc1", "fc2")


class Branches(Module):
    """The sum of filters of `kernel` pixels a side, of one of a pixel, and of the norm of the input where the sizes
    allow it; then squeezed attention (`squeezed`: channels inside, 0: none) and the activation.

    branches: how many large filters there are, which MobileOne's files number; 0: one without a number, which RepVGG's
    have. fused: it is one filter, `reparam_conv`. attention: the name of the squeezed attention in files. scaled:
    whether there is a filter of a pixel.
    """

    def __init__(
        self, before: int, width: int, kernel: int, stride: int = 1, groups: int = 1, *, branches: int = 0,
        squeezed: int = 0, activation: str | None = "relu", fused: bool = False, attention: str = "attn",
        scaled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.reparam_conv: Conv2d | None = None
        self.identity: BatchNorm2d | None = None
        self.pixel = "conv_scale" if branches else "conv_1x1"  # the name of the filter of one pixel
        self.shape: Shape = before, width, kernel, stride, kernel // 2, 1, groups
        if fused:
            self.reparam_conv = Conv2d(*self.shape)
        else:
            if before == width and stride == 1:
                self.identity = BatchNorm2d(width)
            large = [_branch(before, width, kernel, stride, groups) for _ in range(max(1, branches))]
            self.conv_kxk = ModuleList(large) if branches else large[0]
            if scaled and (kernel > 1 or not branches):
                setattr(self, self.pixel, _branch(before, width, 1, stride, groups))
        self.attention = attention
        squeezing = SqueezedAttention(width, squeezed, "relu", False, SQUEEZED_NAMES) if squeezed else None
        setattr(self, attention, squeezing)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        if self.reparam_conv is not None:
            y = self.reparam_conv(x)
        else:
            first, *others = self._parts()
            y = first(x)
            for part in others:
                y = y + part(x)
        attention = getattr(self, self.attention)
        y = y if attention is None else attention(y)
        return y if self.activation is None else self.activation(y)

    def _parts(self) -> list[Any]:
        large: Any = self.conv_kxk
        found = [
            *(large if isinstance(large, ModuleList) else (large,)),
            getattr(self, self.pixel, None),
            self.identity,
        ]
        return [part for part in found if part is not None]

    def fuse(self) -> None:
        """Becomes one filter that computes what all branches compute with the statistics of their norms."""
        if self.reparam_conv is None:
            self.reparam_conv = filter_of(self.shape, *sum_of(self.shape, self._parts()))
            self.identity = None
            forget(self, "conv_kxk", self.pixel)


Shape = tuple[int, int, int, int, int, int, int]  # of a filter: the arguments of Conv2d up to the groups


def sum_of(shape: Shape, parts: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """The weight (width, before / groups, kernel, kernel) and the bias (width,) of one filter that computes the sum of
    FilterNorms and BatchNorm2ds with the statistics of their norms.
    """
    before, width, kernel, groups = shape[0], shape[1], shape[2], shape[6]
    with no_grad():
        device = next(iter(parts[0].parameters())).device
        weight = ops.zeros(width, before // groups, kernel, kernel, device=device)
        bias = ops.zeros(width, device=device)
        for part in parts:
            norm = part.bn if isinstance(part, FilterNorm) else part
            own = part.conv.weight if isinstance(part, FilterNorm) else same(shape, device, 1)
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()  # (width,)
            side, first = int(own.shape[2]), (kernel - int(own.shape[2])) // 2
            place = weight[:, :, first : first + side, first : first + side]
            place.add_(own * scale.reshape(-1, 1, 1, 1))
            bias = bias + norm.bias - norm.running_mean * scale
    return weight, bias


def same(shape: Shape, device: Device, kernel: int) -> Tensor:
    """The weight (width, before / groups, kernel, kernel) of a filter whose output is its input."""
    inside = shape[0] // shape[6]
    found = ops.zeros(shape[0], inside, kernel, kernel, device=device)
    found[:, :, kernel // 2, kernel // 2] = ops.eye(inside, device=device).repeat(shape[6], 1)
    return found


def filter_of(shape: Shape, weight: Tensor, bias: Tensor) -> Conv2d:
    """The filter with these parameters, which need no gradients."""
    made = Conv2d(*shape)
    made.weight, made.bias = Parameter(weight, requires_grad=False), Parameter(bias, requires_grad=False)
    return made


def forget(module: Module, *names: str) -> None:
    """Takes parts out of a module, those that it has."""
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def _branch(before: int, width: int, kernel: int, stride: int, groups: int) -> FilterNorm:
    branch: Any = FilterNorm(before, width, Style(), kernel, stride)
    if groups > 1:
        branch.conv = Conv2d(before, width, kernel, stride, kernel // 2, 1, groups, bias=False)
    found: FilterNorm = branch
    return found


def reparameterize(model: Module) -> None:
    """Makes one filter of the branches of all filters in a model: it computes the same, faster, in evaluation only."""
    for module in list(model.modules()):
        if callable(fuse := getattr(module, "fuse", None)):
            fuse()
