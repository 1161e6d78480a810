"""The blocks of networks for small devices, under the names of timm's files: inverted residuals (Sandler et al. 2018,
arXiv 1801.04381), with squeezed attention (Howard et al. 2019, arXiv 1905.02244; Tan and Le 2019, arXiv 1905.11946),
fused (Tan and Le 2021, arXiv 2104.00298), and those of MobileNetV4 (Qin et al. 2024, arXiv 2404.10518).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor, ops
from ..layers.channel_normalization import BatchNorm2d
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..module import Module
from ..parameter import new_parameter
from .vision import TensorflowConv2d, divisible

DIVISOR = 8  # of channels
SQUEEZED_NAMES = ("conv_reduce", "conv_expand")


@dataclass(frozen=True, kw_only=True)
class Block:
    """The numbers of a block. kernel, first_kernel: pixels of a side of its filters of single channels, 0: it has none;
    expansion: how many times more channels it has inside; squeeze: channels of the squeezed attention for each channel
    inside, 0: it has none; heads, head_width, reduction: of attention.
    """

    kind: str
    width: int
    kernel: int = 3
    first_kernel: int = 0
    stride: int = 1
    expansion: float = 1.0
    squeeze: float = 0.0
    activation: str = "relu"
    skips: bool = True
    heads: int = 1
    head_width: int = 64
    reduction: int = 1


@dataclass(frozen=True, kw_only=True)
class Style:
    """What all blocks of a network have in common. tensorflow: filters are padded as TensorFlow does; hard: the
    squeezed attention is MobileNetV3's; scaled: MobileNetV4's blocks scale what they add.
    """

    epsilon: float = 1e-5
    tensorflow: bool = False
    hard: bool = False
    scaled: bool = False


class Filter(TensorflowConv2d):
    """A filter of (B, C, H, W) without bias, whose output has H / stride rows, rounded up."""

    def __init__(
        self, before: int, width: int, kernel: int = 1, stride: int = 1, each: bool = False, tensorflow: bool = False,
        bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            before, width, kernel, stride, 0 if tensorflow else kernel // 2, 1, before if each else 1, bias
        )
        self.tensorflow = tensorflow and kernel > 1

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        return super().forward(input) if self.tensorflow else Conv2d.forward(self, input)


class ActivatedNorm(BatchNorm2d):
    """The norm of batches, and an activation (None: none)."""

    def __init__(self, channels: int, epsilon: float, activation: str | None = None) -> None:
        super().__init__(channels, epsilon)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, input: Tensor) -> Tensor:
        """input (B, C, H, W) → (B, C, H, W)."""
        x = super().forward(input)
        return x if self.activation is None else self.activation(x)


class FilterNorm(Module):
    """A filter, its norm and the activation, as `conv` and `bn`."""

    def __init__(
        self, before: int, width: int, style: Style, kernel: int = 1, stride: int = 1, activation: str | None = None,
        each: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = Filter(before, width, kernel, stride, each, style.tensorflow)
        self.bn = ActivatedNorm(width, style.epsilon, activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        return self.bn(self.conv(x))


class SqueezedAttention(Module):
    """Each channel times a factor from 0 to 1, from the means of all channels (Hu et al. 2017, arXiv 1709.01507).
    names: those of its two layers in files.
    """

    def __init__(
        self, channels: int, inner: int, activation: str, hard: bool, names: tuple[str, str] = SQUEEZED_NAMES
    ) -> None:
        super().__init__()
        self.names = names
        setattr(self, names[0], Conv2d(channels, inner, 1))
        setattr(self, names[1], Conv2d(inner, channels, 1))
        self.activation = activation_named(activation)
        self.gate: Callable[[Tensor], Tensor] = ops.hardsigmoid if hard else ops.sigmoid

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        means = x.mean((2, 3), keepdim=True)  # (B, C, 1, 1)
        reduce, expand = (getattr(self, name) for name in self.names)
        return x * self.gate(expand(self.activation(reduce(means))))


class ChannelScale(Module):
    """x times a factor of each channel, called gamma in files."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = new_parameter(ops.ones, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x * self.gamma.reshape(-1, 1, 1)


class _Step(Module):
    """A block whose result is added to its input, where the sizes allow it."""

    def __init__(self, before: int, block: Block) -> None:
        super().__init__()
        self.adds = block.skips and block.stride == 1 and before == block.width

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        y = self.changed(x)
        return x + y if self.adds else y

    def changed(self, x: Tensor) -> Tensor:
        """What the block computes of x."""
        raise NotImplementedError


def _squeezed(channels: int, block: Block, style: Style) -> SqueezedAttention | None:
    """The squeezed attention of a block that has one. Its width is that of EfficientNet, or of MobileNetV3."""
    if not block.squeeze:
        return None
    if style.hard:
        inner = divisible(channels * block.squeeze, DIVISOR, DIVISOR)
        return SqueezedAttention(channels, inner, "relu", True)
    inner = max(1, round(channels * (block.squeeze / (1.0 if block.kind == "ds" else block.expansion))))
    return SqueezedAttention(channels, inner, block.activation, False)


def _inner(before: int, block: Block) -> int:
    return divisible(before * block.expansion, DIVISOR, DIVISOR)


class PlainBlock(_Step):
    """A filter and its norm ("cn")."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        self.conv = Filter(before, block.width, block.kernel, block.stride, tensorflow=style.tensorflow)
        self.bn1 = ActivatedNorm(block.width, style.epsilon, block.activation)

    def changed(self, x: Tensor) -> Tensor:
        return self.bn1(self.conv(x))


class SeparableBlock(_Step):
    """A filter of each channel, and one of each place ("ds")."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        self.conv_dw = Filter(before, before, block.kernel, block.stride, True, style.tensorflow)
        self.bn1 = ActivatedNorm(before, style.epsilon, block.activation)
        self.se = _squeezed(before, block, style)
        self.conv_pw = Filter(before, block.width)
        self.bn2 = ActivatedNorm(block.width, style.epsilon)

    def changed(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv_dw(x))
        return self.bn2(self.conv_pw(x if self.se is None else self.se(x)))


class InvertedBlock(_Step):
    """Wider, a filter of each channel, narrower ("ir")."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        inner = _inner(before, block)
        self.conv_pw = Filter(before, inner)
        self.bn1 = ActivatedNorm(inner, style.epsilon, block.activation)
        self.conv_dw = Filter(inner, inner, block.kernel, block.stride, True, style.tensorflow)
        self.bn2 = ActivatedNorm(inner, style.epsilon, block.activation)
        self.se = _squeezed(inner, block, style)
        self.conv_pwl = Filter(inner, block.width)
        self.bn3 = ActivatedNorm(block.width, style.epsilon)

    def changed(self, x: Tensor) -> Tensor:
        x = self.bn2(self.conv_dw(self.bn1(self.conv_pw(x))))
        return self.bn3(self.conv_pwl(x if self.se is None else self.se(x)))


class FusedBlock(_Step):
    """One filter of all channels that widens, and narrower again ("er")."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        inner = _inner(before, block)
        self.conv_exp = Filter(before, inner, block.kernel, block.stride, tensorflow=style.tensorflow)
        self.bn1 = ActivatedNorm(inner, style.epsilon, block.activation)
        self.se = _squeezed(inner, block, style)
        self.conv_pwl = Filter(inner, block.width)
        self.bn2 = ActivatedNorm(block.width, style.epsilon)

    def changed(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv_exp(x))
        return self.bn2(self.conv_pwl(x if self.se is None else self.se(x)))


class UniversalBlock(_Step):
    """MobileNetV4's inverted bottleneck ("uir"): filters of each channel before it is widened, or within, or both."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        inner, late = _inner(before, block), block.kernel > 0
        self.dw_start = self.dw_mid = None
        if block.first_kernel:
            stride = 1 if late else block.stride
            self.dw_start = FilterNorm(before, before, style, block.first_kernel, stride, each=True)
        self.pw_exp = FilterNorm(before, inner, style, activation=block.activation)
        if late:
            self.dw_mid = FilterNorm(inner, inner, style, block.kernel, block.stride, block.activation, each=True)
        self.se = _squeezed(inner, block, style)
        self.pw_proj = FilterNorm(inner, block.width, style)
        self.layer_scale = ChannelScale(block.width) if style.scaled else None

    def changed(self, x: Tensor) -> Tensor:
        for part in (self.dw_start, self.pw_exp, self.dw_mid, self.se, self.pw_proj, self.layer_scale):
            x = x if part is None else part(x)
        return x


class _Projection(Module):
    """A projection of each place, of fewer places if `reduction` is above 1."""

    def __init__(self, before: int, width: int, block: Block, style: Style, reduction: int = 1) -> None:
        super().__init__()
        self.down_conv = self.norm = None
        if reduction > 1:
            self.down_conv = Filter(before, before, block.kernel, reduction, True, style.tensorflow)
            self.norm = ActivatedNorm(before, style.epsilon)
        self.proj = Filter(before, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / reduction, W / reduction)."""
        if self.down_conv is not None and self.norm is not None:
            x = self.norm(self.down_conv(x))
        return self.proj(x)


class SharedAttention(Module):
    """Attention of places, whose heads have their own queries, but the same keys and values (Shazeer 2019, arXiv
    1911.02150).
    """

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__()
        self.heads, width = block.heads, block.head_width
        self.query = _Projection(before, width * self.heads, block, style)
        self.key = _Projection(before, width, block, style, block.reduction)
        self.value = _Projection(before, width, block, style, block.reduction)
        self.output = _Projection(width * self.heads, block.width, block, style)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        batch, _, rows, columns = x.shape
        query = self.query(x)  # (B, heads * d, H, W)
        query = query.reshape(batch, self.heads, -1, rows * columns).transpose(2, 3)  # (B, heads, T, d)
        key, value = (self._shared(part(x)) for part in (self.key, self.value))  # (B, heads, T', d)
        y = ops.scaled_dot_product_attention(query, key, value)  # (B, heads, T, d)
        return self.output(y.transpose(2, 3).reshape(batch, -1, rows, columns))

    def _shared(self, x: Tensor) -> Tensor:
        """(B, d, H, W) → (B, heads, H * W, d)."""
        rows = x.reshape(x.shape[0], 1, x.shape[1], -1).transpose(2, 3)
        return rows.expand(x.shape[0], self.heads, *rows.shape[2:])


class AttentionBlock(_Step):
    """A norm and attention ("mqa")."""

    def __init__(self, before: int, block: Block, style: Style) -> None:
        super().__init__(before, block)
        self.norm = ActivatedNorm(before, style.epsilon)
        self.attn = SharedAttention(before, block, style)
        self.layer_scale = ChannelScale(block.width) if style.scaled else None

    def changed(self, x: Tensor) -> Tensor:
        x = self.attn(self.norm(x))
        return x if self.layer_scale is None else self.layer_scale(x)


BLOCKS: dict[str, Any] = {
    "cn": PlainBlock, "ds": SeparableBlock, "ir": InvertedBlock, "er": FusedBlock, "uir": UniversalBlock,
    "mqa": AttentionBlock,
}  # fmt: skip
