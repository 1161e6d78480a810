"""ECAPA-TDNN (Desplanques et al. 2020, arXiv 2005.07143): the vector of a voice from the spectrogram of a recording.
`config` has mel_dim, enc_channels, enc_kernel_sizes, enc_dilations, enc_attention_channels, enc_res2net_scale,
enc_se_channels and enc_dim, as Qwen2.5-Omni's config.json has them.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d
from ..module import Module

SMALLEST = 1e-12  # of a variance


class TimeDelay(Module):
    """A convolution that keeps the length, over mirrored ends, and a ReLU."""

    def __init__(self, inputs: int, outputs: int, taps: int, dilation: int = 1) -> None:
        super().__init__()
        side = dilation * (taps - 1) // 2
        self.conv = Conv1d(inputs, outputs, taps, dilation=dilation, padding=side, padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C', T)."""
        return ops.relu(self.conv(x))


class Res2Net(Module):
    """Groups of channels, of which each but the first is convolved together with what came out of the one before."""

    def __init__(self, width: int, groups: int, taps: int, dilation: int) -> None:
        super().__init__()
        self.groups, part = groups, width // groups
        self.blocks = ModuleList(TimeDelay(part, part, taps, dilation) for _ in range(groups - 1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        first, *rest = x.chunk(self.groups, 1)
        made = [first]
        for number, (block, part) in enumerate(zip(self.blocks, rest, strict=True)):
            made.append(block(part + made[-1] if number else part))
        return ops.cat(made, 1)


class SqueezeExcitation(Module):
    """A share of each channel, by the means of all (Hu et al. 2018, arXiv 1709.01507)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = Conv1d(width, inner, 1), Conv1d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        return x * self.conv2(ops.relu(self.conv1(x.mean(2, keepdim=True)))).sigmoid()


class Block(Module):
    """A Res2Net between two layers, and a share of each channel, with a residual."""

    def __init__(self, config: Any, width: int, taps: int, dilation: int) -> None:
        super().__init__()
        self.tdnn1, self.tdnn2 = TimeDelay(width, width, 1), TimeDelay(width, width, 1)
        self.res2net_block = Res2Net(width, config.enc_res2net_scale, taps, dilation)
        self.se_block = SqueezeExcitation(width, config.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        return self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x)))) + x


def statistics(x: Tensor, shares: Tensor | float) -> tuple[Tensor, Tensor]:
    """The means and deviations (B, C, 1) of x (B, C, T), of whose moments each has a share."""
    mean = (x * shares).sum(2, keepdim=True)
    return mean, ((x - mean).square() * shares).sum(2, keepdim=True).clamp(SMALLEST).sqrt()


class AttentivePooling(Module):
    """The means and deviations of channels, of which each attends to moments of its own."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.tdnn, self.conv = TimeDelay(3 * width, inner, 1), Conv1d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, 2 C, 1)."""
        known = [part.expand(*x.shape) for part in statistics(x, 1 / x.shape[2])]
        shares = self.conv(self.tdnn(ops.cat([x, *known], 1)).tanh()).softmax(2)
        return ops.cat(list(statistics(x, shares)), 1)


class EcapaTdnn(Module):
    """The network."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        widths, sizes = config.enc_channels, [*zip(config.enc_kernel_sizes, config.enc_dilations, strict=True)]
        self.blocks = ModuleList([TimeDelay(config.mel_dim, widths[0], *sizes[0])])
        self.blocks.extend(Block(config, widths[0], *size) for size in sizes[1:-1])
        self.mfa = TimeDelay(widths[-1], widths[-1], *sizes[-1])
        self.asp = AttentivePooling(widths[-1], config.enc_attention_channels)
        self.fc = Conv1d(2 * widths[-1], config.enc_dim, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, T, mel_dim) → (B, enc_dim)."""
        x, found = mel.transpose(1, 2), []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return self.fc(self.asp(self.mfa(ops.cat(found[1:], 1)))).squeeze(2)
