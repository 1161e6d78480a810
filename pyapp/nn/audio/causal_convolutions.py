"""Causal convolutions, and VibeVoice's audio tokenizers (Peng et al. 2025, arXiv 2508.19205), encoders and a decoder of
them. `config` has the fields of pyapp.models.loading.audio_tokenizer_config.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.user_errors import describe
from ...errors import InputError
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d, ConvTranspose1d
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..parameter import new_parameter


class PaddingCache:
    """The last inputs of each convolution of a network, which reads or makes a sound in parts."""

    def __init__(self) -> None:
        self._ends: dict[int, Tensor] = {}

    def joined(self, filters: Module, x: Tensor, count: int) -> Tensor:
        """x (B, C, T) behind the last `count` moments that these filters have read: (B, C, count + T). Silence stands
        before the first.
        """
        before = self._ends.get(id(filters))
        whole = ops.pad(x, (count, 0)) if before is None else ops.cat([before, x], -1)
        self._ends[id(filters)] = whole.narrow(-1, whole.shape[-1] - count, count).contiguous()
        return whole


class CausalConvolution(Module):
    """A convolution over what came before: silence stands before the first moment."""

    def __init__(
        self, inputs: int, outputs: int, width: int, stride: int = 1, groups: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        self.conv = Conv1d(inputs, outputs, width, stride, dilation=dilation, groups=groups)
        self.before = (width - 1) * dilation + 1 - stride

    def forward(self, x: Tensor, cache: PaddingCache | None = None) -> Tensor:
        """x (B, inputs, T) → (B, outputs, T / stride). cache: x continues a sound; None: it is a whole one."""
        return self.conv(ops.pad(x, (self.before, 0)) if cache is None else cache.joined(self, x, self.before))


class CausalTransposedConvolution(Module):
    """A transposed convolution of what came before, and twice as wide as its stride."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.convtr = ConvTranspose1d(inputs, outputs, 2 * stride, stride)

    def forward(self, x: Tensor, cache: PaddingCache | None = None) -> Tensor:
        """x (B, inputs, T) → (B, outputs, T * stride)."""
        length = x.shape[2] * self.stride
        y = self.convtr(x if cache is None else cache.joined(self, x, 1))
        return y.narrow(2, y.shape[2] - self.stride - length, length)


class TwoLayers(Module):
    """Two linear layers, of which the first widens, with an activation between them."""

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.linear1 = Linear(width, config.ffn_expansion * width)
        self.linear2 = Linear(config.ffn_expansion * width, width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.linear2(self.activation(self.linear1(x)))


class Block(Module):
    """Filters of each channel, and two layers, each with a norm before it and a scale behind it (ConvNeXt's form)."""

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.norm, self.ffn_norm = (RMSNorm(width, config.rms_norm_eps) for _ in range(2))
        self.gamma, self.ffn_gamma = (new_parameter(ops.ones, width) for _ in range(2))
        self.mixer = CausalConvolution(width, width, config.kernel_size, groups=width)
        self.ffn = TwoLayers(config, width)

    def forward(self, x: Tensor, cache: PaddingCache | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.mixer(self.norm(x).transpose(1, 2), cache).transpose(1, 2) * self.gamma
        return x + self.ffn(self.ffn_norm(x)) * self.ffn_gamma


class Stage(Module):
    """Filters, and blocks. `conv`, or `convtr` where `transposed`: the filters; they are called so in files."""

    def __init__(self, config: Any, filters: Module, width: int, depth: int, transposed: bool = False) -> None:
        super().__init__()
        self.filters = "convtr" if transposed else "conv"
        self.add_module(self.filters, filters)
        self.stage = ModuleList(Block(config, width) for _ in range(depth))

    def forward(self, x: Tensor, cache: PaddingCache | None = None) -> Tensor:
        """x (B, inputs, T) → (B, D, T / ratio), or (B, D, T * ratio)."""
        x = self._modules[self.filters](x, cache).transpose(1, 2)
        for block in self.stage:
            x = block(x, cache)
        return x.transpose(1, 2)


class Encoder(Module):
    """Stages of convolutions, each with fewer moments and more channels."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        width, filter = config.num_filters, config.kernel_size
        self.stem = Stage(config, CausalConvolution(config.channels, width, filter), width, config.depths[0])
        stages = []
        for ratio, depth in zip(config.downsampling_ratios, config.depths[1:], strict=True):
            stages.append(Stage(config, CausalConvolution(width, 2 * width, 2 * ratio, ratio), 2 * width, depth))
            width *= 2
        self.conv_layers = ModuleList(stages)
        self.head = CausalConvolution(width, config.hidden_size, filter)

    def warm_up(self) -> None:
        """Hears some silence, so that the first recording starts sooner in a browser."""
        with no_grad():
            self(ops.zeros(1, 1, self.config.step, device=self.head.conv.weight.device), self.config.step)

    def forward(self, x: Tensor, piece: int) -> Tensor:
        """Samples x (B, 1, N) → (B, N / step, hidden_size), in pieces of so many samples, which are heard with what
        came before them.
        """
        step, reach = self.config.step, self.config.reach
        if x.ndim != 3 or x.shape[1] != 1 or not x.shape[2] or x.shape[2] % step:
            raise InputError(f"VibeVoice: samples are (B, 1, a multiple of {step:,}), not {describe(x)}")
        found = []
        for start in range(0, x.shape[2], piece):
            before, end = max(0, start - reach * step), min(start + piece, x.shape[2])
            part = self._heard(x.narrow(2, before, end - before), None)
            found.append(part.narrow(2, (start - before) // step, (end - start) // step))
        return ops.cat(found, 2).transpose(1, 2)

    def going_on(self, x: Tensor, cache: PaddingCache) -> Tensor:
        """Samples x (B, 1, N), a multiple of the step, which go on with a sound → (B, N / step, hidden_size)."""
        return self._heard(x, cache).transpose(1, 2)

    def _heard(self, x: Tensor, cache: PaddingCache | None) -> Tensor:
        """x (B, 1, N) → (B, hidden_size, N / step)."""
        x = self.stem(x, cache)
        for layer in self.conv_layers:
            x = layer(x, cache)
        return self.head(x, cache)


class Decoder(Module):
    """Stages of transposed convolutions, each with more moments and fewer channels."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        ratios, depths = config.downsampling_ratios[::-1], config.depths[::-1]
        width, filter = config.num_filters << len(ratios), config.kernel_size
        self.stem = Stage(config, CausalConvolution(config.hidden_size, width, filter), width, depths[0])
        stages = []
        for ratio, depth in zip(ratios, depths[1:], strict=True):
            stages.append(
                Stage(config, CausalTransposedConvolution(width, width // 2, ratio), width // 2, depth, transposed=True)
            )
            width //= 2
        self.conv_layers = ModuleList(stages)
        self.head = CausalConvolution(width, config.channels, filter)

    def forward(self, x: Tensor, cache: PaddingCache | None = None) -> Tensor:
        """Vectors x (B, T, hidden_size) → samples (B, 1, T * step)."""
        x = self.stem(x.transpose(1, 2), cache)
        for layer in self.conv_layers:
            x = layer(x, cache)
        return self.head(x, cache)
