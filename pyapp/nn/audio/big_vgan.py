"""BigVGAN (Lee et al. 2023, arXiv 2206.04658), which makes samples of a spectrogram: HiFi-GAN with periodic activations
at twice the rate, between filters that keep tones from folding back.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

from ...engine import Tensor, ops
from ...engine.lazy import np
from ..layers.containers import ModuleList
from ..layers.convolution import ConvTranspose1d
from ..module import Module
from .hifi_gan import ENDS, same
from .sound_codes import SnakeBeta

RATE, TAPS = 2, 12  # of the activations
QUIETEST, LOUDEST = -115.0, 20.0  # decibels of the spectrogram: what counts as silence, and what is taken from all


def kaiser_sinc(cutoff: float, half_width: float, taps: int) -> Any:
    """An even number of taps (taps,) float32 of a low-pass filter: a windowed sinc, whose sum is 1."""
    attenuation = 2.285 * (taps // 2 - 1) * pi * 4 * half_width + 7.95
    beta = 0.0
    if attenuation > 50:
        beta = 0.1102 * (attenuation - 8.7)
    elif attenuation >= 21:
        beta = 0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21)
    found = np.kaiser(taps, beta) * np.sinc(2 * cutoff * (np.arange(taps) - (taps - 1) / 2))
    return (found / found.sum()).astype(np.float32)


class SmoothActivation(Module):
    """An activation at twice the rate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.act = SnakeBeta(width)
        filter = ops.from_numpy(kaiser_sinc(0.5 / RATE, 0.6 / RATE, TAPS)).reshape(1, 1, TAPS)
        self.register_buffer("filter", filter, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        filter: Any = self.filter
        batch, width, length = x.shape
        side = TAPS // RATE - 1
        x = ops.pad(x, (side, side), "replicate").reshape(batch * width, 1, -1)
        x = ops.conv_transpose1d(x, filter * RATE, stride=RATE)
        x = self.act(x.narrow(2, side * RATE + (TAPS - RATE) // 2, RATE * length).reshape(batch, width, -1))
        x = ops.pad(x, (TAPS // 2 - 1, TAPS // 2), "replicate").reshape(batch * width, 1, -1)
        return ops.conv1d(x, filter, stride=RATE).reshape(batch, width, length)


class Block(Module):
    """Pairs of convolutions, the first of each dilated, each after an activation, each pair with a residual."""

    def __init__(self, width: int, taps: int, dilations: Any) -> None:
        super().__init__()
        self.convs1 = ModuleList(same(width, width, taps, dilation) for dilation in dilations)
        self.convs2 = ModuleList(same(width, width, taps) for _ in dilations)
        self.activations = ModuleList(SmoothActivation(width) for _ in range(2 * len(dilations)))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        activations = [*self.activations]
        for number, (first, second) in enumerate(zip(self.convs1, self.convs2, strict=True)):
            y = first(activations[2 * number](x))
            x = x + second(activations[2 * number + 1](y))
        return x


class BigVgan(Module):
    """The network. `config` has the fields of HiFi-GAN, without slopes, and mel_dim."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        width = config.upsample_initial_channel
        self.conv_pre = same(config.mel_dim, width, ENDS)
        self.ups: Any = ModuleList()
        self.resblocks = ModuleList()
        for rate, taps in zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True):
            up = ConvTranspose1d(width, width // 2, taps, rate, padding=(taps - rate) // 2)
            self.ups.append(ModuleList([up]))
            width //= 2
            for own, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True):
                self.resblocks.append(Block(width, own, dilations))
        self.activation_post = SmoothActivation(width)
        self.conv_post = same(width, 1, ENDS, bias=False)

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, mel_dim, T), natural logarithms of magnitudes → samples (B, T * the product of the rates) from -1 to
        1.
        """
        decibels = mel.maximum(QUIETEST * log(10) / 20) * (20 / log(10)) - LOUDEST
        x = self.conv_pre(((decibels - QUIETEST) * (2 / -QUIETEST) - 1).clamp(-1, 1))
        count = len(self.config.resblock_kernel_sizes)
        for stage, up in enumerate(self.ups):
            x = up[0](x)
            found = [block(x) for block in self.resblocks[stage * count : (stage + 1) * count]]
            x = sum(found[1:], found[0]) / count
        return self.conv_post(self.activation_post(x)).clamp(-1, 1).squeeze(1)
