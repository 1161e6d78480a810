"""What makes samples of the codes of several codebooks in Qwen3-Omni (Xu et al. 2025, arXiv 2509.17765): a transformer,
and causal convolutions, so that sound can be made as codes are written. `config` has the fields of its code2wav_config.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.convolution import ConvTranspose1d
from ..layers.embedding import Embedding
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .causal_convolutions import CausalConvolution
from .moment_transformer import MomentTransformer
from .sound_codes import SnakeBeta

ENDS = 7  # taps of the first and the last convolution, and of those of a block
DILATIONS = (1, 3, 9)
CHUNK, CONTEXT = 300, 25  # moments that are made together, and those before them that are made once more
EPSILON = 1e-6


class Widening(Module):
    """A transposed convolution without what is made of fewer moments than its width covers."""

    def __init__(self, inputs: int, outputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv = ConvTranspose1d(inputs, outputs, width, stride)
        self.cut = width - stride

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C', (T + 1) * stride - width)."""
        y = self.conv(x)
        return y.narrow(2, self.cut, y.shape[2] - 2 * self.cut)


class ConvNeXtBlock(Module):
    """Filters of each channel, two layers and a scale, with a residual (Liu et al. 2022, arXiv 2201.03545)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = CausalConvolution(width, width, ENDS, groups=width)
        self.norm = LayerNorm(width, EPSILON)
        self.pwconv1, self.pwconv2 = Linear(width, 4 * width), Linear(4 * width, width)
        self.gamma = new_parameter(ops.ones, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        y = self.norm(self.dwconv(x).transpose(1, 2))
        return x + (self.pwconv2(ops.gelu(self.pwconv1(y))) * self.gamma).transpose(1, 2)


class Unit(Module):
    """A dilated convolution and one of single moments, each after an activation, with a residual."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.act2 = SnakeBeta(width), SnakeBeta(width)
        self.conv1 = CausalConvolution(width, width, ENDS, dilation=dilation)
        self.conv2 = CausalConvolution(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))


class Stage(Module):
    """More moments of half the channels, and units."""

    def __init__(self, width: int, rate: int) -> None:
        super().__init__()
        half = width // 2
        self.block = ModuleList([SnakeBeta(width), Widening(width, half, 2 * rate, rate)])
        self.block.extend(Unit(half, dilation) for dilation in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C / 2, (T - 1) * rate)."""
        for part in self.block:
            x = part(x)
        return x


class CodeWave(Module):
    """The network."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        width, inner = config.hidden_size, config.decoder_dim
        self.code_embedding = Embedding(config.codebook_size * config.num_quantizers, width)
        self.pre_transformer = MomentTransformer(config, gated=True)
        self.upsample: Any = ModuleList(
            ModuleList([Widening(width, width, factor, factor), ConvNeXtBlock(width)])
            for factor in config.upsampling_ratios
        )
        self.decoder = ModuleList([CausalConvolution(width, inner, ENDS)])
        for rate in config.upsample_rates:
            self.decoder.append(Stage(inner, rate))
            inner //= 2
        self.decoder.extend([SnakeBeta(inner), CausalConvolution(inner, 1, ENDS)])

    def forward(self, codes: Tensor) -> Tensor:
        """codes (B, codebooks, T) int64 → samples (B, N) from -1 to 1."""
        first = ops.arange(codes.shape[1], dtype="int64", device=codes.device) * self.config.codebook_size
        x = self.code_embedding(codes + first.unsqueeze(1)).mean(1)  # (B, T, D)
        x = self.pre_transformer(x.transpose(1, 2))
        for part in (*(part for stage in self.upsample for part in stage), *self.decoder):
            x = part(x)
        return x.clamp(-1, 1).squeeze(1)

    def in_chunks(self, codes: Tensor) -> Iterator[Tensor]:
        """The samples (B, N) of codes (B, codebooks, T) in parts of CHUNK moments."""
        step = prod(self.config.upsample_rates) * prod(self.config.upsampling_ratios)
        for start in range(0, codes.shape[2], CHUNK):
            before = CONTEXT if start > CONTEXT else start
            end = min(start + CHUNK, codes.shape[2])
            made = self(codes.narrow(2, start - before, end - start + before))
            yield made.narrow(1, before * step, made.shape[1] - before * step)
