"""HiFi-GAN (Kong et al. 2020, arXiv 2010.05646), which makes samples of sound from a spectrogram or from latents.

Its weights are ordinary: norms of weights (Salimans and Kingma 2016, arXiv 1602.07868) are applied when files are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...engine import Tensor, ops
from ...engine.device import cpu
from ...engine.grad_mode import STATE
from ...engine.native import IN_BROWSER
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d, ConvTranspose1d
from ..module import Module

ENDS = 7  # taps of the first and the last convolution
LAST_SLOPE = 0.01  # of the leaky ReLU before the last convolution
WINDOW = 256  # frames that are computed together, so that what lies between the layers stays small


def same(inputs: int, outputs: int, taps: int, dilation: int = 1, bias: bool = True) -> Conv1d:
    """A convolution that keeps the length, for an odd number of taps."""
    return Conv1d(inputs, outputs, taps, dilation=dilation, padding=dilation * (taps - 1) // 2, bias=bias)


def convolved(layer: Any, x: Tensor, residual: Tensor | None = None) -> Tensor:
    """layer(x) + residual for x (N, C, L), or for x (N, 1, L, C), whose channels lie together."""
    if x.ndim == 3:
        y: Tensor = layer(x)
        return y if residual is None else y + residual
    side, apart = layer.padding[0], layer.dilation[0]
    return ops.conv2d_channels_last(
        x, layer.weight.unsqueeze(2), layer.bias, padding=((0, 0), (side, side)), dilation=(1, apart),
        residual=residual,
    )  # fmt: skip


class ResidualBlock(Module):
    """Pairs of convolutions, the first of each dilated, each pair with a residual."""

    def __init__(self, channels: int, taps: int, dilations: Any, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.convs1 = ModuleList(same(channels, channels, taps, dilation) for dilation in dilations)
        self.convs2 = ModuleList(same(channels, channels, taps) for _ in dilations)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, C, L) or (N, 1, L, C) → the same shape."""
        for first, second in zip(self.convs1, self.convs2, strict=True):
            y = convolved(first, ops.leaky_relu(x, self.slope))
            x = convolved(second, ops.leaky_relu(y, self.slope), x)
        return x


class HifiGan(Module):
    """Frames (B, C, F) → samples (B, F * the product of the rates) from -1 to 1. `config` has upsample_initial_channel,
    upsample_rates, upsample_kernel_sizes, resblock_kernel_sizes, resblock_dilation_sizes and leaky_relu_slope.
    `condition`: features of a vector that says how it sounds; 0: there is none. `last_bias`: of the last convolution.
    """

    def __init__(self, config: Any, inputs: int, condition: int = 0, last_bias: bool = False) -> None:
        super().__init__()
        self.config = config
        width, slope = config.upsample_initial_channel, config.leaky_relu_slope
        self.conv_pre = same(inputs, width, ENDS)
        self.upsampler, self.resblocks = ModuleList(), ModuleList()
        for rate, taps in zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True):
            self.upsampler.append(ConvTranspose1d(width, width // 2, taps, rate, padding=(taps - rate) // 2))
            width //= 2
            for own, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True):
                self.resblocks.append(ResidualBlock(width, own, dilations, slope))
        self.conv_post = same(width, 1, ENDS, bias=last_bias)
        if condition:
            self.cond = Conv1d(condition, config.upsample_initial_channel, 1)

    @property
    def frame_samples(self) -> int:
        """Samples of a frame."""
        found = 1
        for rate in self.config.upsample_rates:
            found *= rate
        return found

    @property
    def margin(self) -> int:
        """The frames on each side of a frame on which its samples depend."""
        reach = ENDS // 2  # samples
        blocks = [*zip(self.config.resblock_kernel_sizes, self.config.resblock_dilation_sizes, strict=True)]
        for rate, taps in reversed([*zip(self.config.upsample_rates, self.config.upsample_kernel_sizes, strict=True)]):
            reach += max((own - 1) // 2 * sum(apart + 1 for apart in dilations) for own, dilations in blocks)
            reach = -(-(reach + taps) // rate)
        return reach + ENDS // 2

    def forward(self, frames: Tensor, condition: Tensor | None = None) -> Tensor:
        """frames (B, C, F), condition (B, S, 1) → (B, N)."""
        *_, samples = self.steps(frames, condition)
        assert samples is not None
        return samples

    def steps(self, frames: Tensor, condition: Tensor | None = None) -> Iterator[Tensor | None]:
        """forward in steps: None after each of them but the last, which gives the samples."""
        slope, count = self.config.leaky_relu_slope, len(self.config.resblock_kernel_sizes)
        # The processor's kernels for pictures, whose channels lie together, are the fastest; the page has none of them.
        together = not STATE.enabled and not IN_BROWSER and frames.device is cpu
        x = self.conv_pre(frames)
        if condition is not None:
            x = x + self.cond(condition)
        for stage, upsample in enumerate(self.upsampler):
            x = upsample(ops.leaky_relu(x, slope))  # (B, C', L)
            x = x.permute(0, 2, 1).contiguous().unsqueeze(1) if together else x  # (B, 1, L, C')
            found = []
            for i in range(count):
                yield None
                found.append(self.resblocks[stage * count + i](x))
            x = sum(found[1:], found[0]) / count
            x = x.squeeze(1).permute(0, 2, 1) if together else x
        yield ops.tanh(self.conv_post(ops.leaky_relu(x, LAST_SLOPE))).squeeze(1)

    def in_windows(
        self, frames: Tensor, condition: Tensor | None = None, window: int = WINDOW
    ) -> Iterator[Tensor | None]:
        """The samples (B, N) of forward in parts, each computed with the frames around it; None between steps."""
        total, margin, size = frames.shape[2], self.margin, self.frame_samples
        count = -(-total // window)
        for number in range(count):
            start, end = total * number // count, total * (number + 1) // count
            first, last = max(0, start - margin), min(total, end + margin)
            for samples in self.steps(frames.narrow(2, first, last - first), condition):
                yield None if samples is None else samples.narrow(1, (start - first) * size, (end - start) * size)
