"""The convolutions of SEANet (Tagliasacchi et al. 2020, arXiv 2009.02095), which make vectors of sound and sound of
vectors, and codebooks whose nearest entry stands for a vector (Zeghidour et al. 2021, arXiv 2107.03312).

`config` has the fields of EnCodec's config.json. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from ...engine import Tensor, ops
from ..layers.activation import ELU
from ..layers.channel_normalization import GroupNorm
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d, ConvTranspose1d
from ..layers.linear import Identity
from ..module import Module
from ..parameter import new_parameter

MakeLayer = Callable[[int], Module]  # of a number of channels


class PaddedConv(Module):
    """A convolution after a padding, with which the length of its result is that of the sound divided by the stride,
    rounded up; of the past only, if `causal`.
    """

    def __init__(
        self, config: Any, inputs: int, outputs: int, taps: int, stride: int = 1, dilation: int = 1,
        bias: bool = True, mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.causal, self.mode, self.stride = config.use_causal_conv, mode or config.pad_mode, stride
        self.taps = (taps - 1) * dilation + 1
        self.conv = Conv1d(inputs, outputs, taps, stride, dilation=dilation, bias=bias)
        self.norm = GroupNorm(1, outputs) if config.norm_type == "time_group_norm" else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C', N / stride)."""
        total = self.taps - self.stride
        more = -x.shape[2] % self.stride
        left, right = (total, 0) if self.causal else (total - total // 2, total // 2)
        y = self.conv(padded(x, left, right + more, self.mode))
        return y if self.norm is None else self.norm(y)


def padded(x: Tensor, left: int, right: int, mode: str) -> Tensor:
    """x (B, C, N) with values before and after it. Sound that is too short to be reflected ends with zeros first."""
    short = max(left, right) - x.shape[2] + 1 if mode == "reflect" else 0
    if min(left, right) < 0 or short <= 0:
        return ops.pad(x, (left, right), mode=mode)
    return ops.pad(ops.pad(x, (0, short)), (left, right), mode=mode).narrow(2, 0, left + x.shape[2] + right)


class TrimmedConvTranspose(Module):
    """A transposed convolution whose result is `stride` times as long as the sound."""

    def __init__(
        self, config: Any, inputs: int, outputs: int, taps: int, stride: int, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        total = taps - stride
        right = ceil(total * config.trim_right_ratio) if config.use_causal_conv else total // 2
        self.left, self.stride = total - right, stride
        self.conv = ConvTranspose1d(inputs, outputs, taps, stride, groups=groups, bias=bias)
        self.norm = GroupNorm(1, outputs) if config.norm_type == "time_group_norm" else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C', T * stride)."""
        y = self.conv(x)
        y = y if self.norm is None else self.norm(y)
        return y.narrow(2, self.left, x.shape[2] * self.stride)


class ResidualBlock(Module):
    """Two convolutions, of which the first has fewer channels after it, beside a third one or nothing."""

    def __init__(self, config: Any, width: int, dilation: int) -> None:
        super().__init__()
        inner = width // config.compress
        first = PaddedConv(config, width, inner, config.residual_kernel_size, dilation=dilation)
        self.block = ModuleList([ELU(), first, ELU(), PaddedConv(config, inner, width, 1)])
        self.shortcut: Module = PaddedConv(config, width, width, 1) if config.use_conv_shortcut else Identity()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        y = x
        for layer in self.block:
            y = layer(y)
        found: Tensor = self.shortcut(x) + y
        return found


class Layers(Module):
    """Layers one after the other: the output of each is the input of the next."""

    def __init__(self, layers: Sequence[Module]) -> None:
        super().__init__()
        self.layers = ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def encoder(config: Any, recurrence: MakeLayer | None = None) -> Layers:
    """Sound (B, channels, N) → vectors of moments (B, D, T)."""
    width = config.num_filters
    layers: list[Module] = [PaddedConv(config, config.audio_channels, width, config.kernel_size)]
    for ratio in reversed(config.upsampling_ratios):
        layers += _residual_blocks(config, width)
        layers += [ELU(), PaddedConv(config, width, 2 * width, 2 * ratio, ratio)]
        width *= 2
    last = PaddedConv(config, width, config.hidden_size, config.last_kernel_size)
    return Layers([*layers, *([] if recurrence is None else [recurrence(width)]), ELU(), last])


def decoder(config: Any, recurrence: MakeLayer | None = None) -> Layers:
    """Vectors of moments (B, D, T) → sound (B, channels, N)."""
    width = config.num_filters << len(config.upsampling_ratios)
    layers: list[Module] = [PaddedConv(config, config.hidden_size, width, config.kernel_size)]
    layers += [] if recurrence is None else [recurrence(width)]
    for ratio in config.upsampling_ratios:
        width //= 2
        layers += [ELU(), TrimmedConvTranspose(config, 2 * width, width, 2 * ratio, ratio)]
        layers += _residual_blocks(config, width)
    last = PaddedConv(config, width, config.audio_channels, config.last_kernel_size)
    return Layers([*layers, ELU(), last])


def _residual_blocks(config: Any, width: int) -> list[Module]:
    return [ResidualBlock(config, width, config.dilation_growth_rate**i) for i in range(config.num_residual_layers)]


class Codebook(Module):
    """Vectors, of which the nearest one stands for another."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.embed = new_parameter(ops.zeros, entries, width)

    def encode(self, x: Tensor) -> Tensor:
        """x (B, T, D) → the numbers (B, T) int64 of the nearest entries."""
        apart = (self.embed * self.embed).sum(1) - 2 * (x @ self.embed.T)  # (B, T, entries), but for a number of each x
        return apart.argmin(-1)

    def decode(self, numbers: Tensor) -> Tensor:
        """numbers (B, T) → (B, T, D)."""
        return ops.embedding(self.embed, numbers)


class Quantization(Module):
    """What files have a codebook in."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.codebook = Codebook(entries, width)


class ResidualQuantizer(Module):
    """Codebooks one after the other."""

    def __init__(self, codebooks: int, entries: int, width: int) -> None:
        super().__init__()
        self.layers = ModuleList(Quantization(entries, width) for _ in range(codebooks))

    def encode(self, x: Tensor, count: int) -> Tensor:
        """x (B, D, T) → codes (B, count, T) int64."""
        left, found = x.transpose(1, 2), []
        for layer in [*self.layers][:count]:
            numbers = layer.codebook.encode(left)
            left = left - layer.codebook.decode(numbers)
            found.append(numbers)
        return ops.stack(found, 1)

    def decode(self, codes: Tensor) -> Tensor:
        """codes (B, count, T) → (B, D, T)."""
        total = None
        for i, layer in enumerate([*self.layers][: codes.shape[1]]):
            vectors = layer.codebook.decode(codes.select(1, i))
            total = vectors if total is None else total + vectors
        assert total is not None
        return total.transpose(1, 2)
