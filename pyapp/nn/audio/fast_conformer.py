"""The encoder of FastConformer (Rekesh et al. 2023, arXiv 2305.05084): convolutions that leave an eighth of a
spectrogram's frames, and layers that attend, by content and distance (Dai et al. 2019, arXiv 1901.02860), and convolve
(Gulati et al. 2020, arXiv 2005.08100).

`attention_mask` (B, F) is 0 where a frame is padding, which stands at the end. Dropout is not applied. Parameters have
the names of Hugging Face's files.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from ...engine import Tensor, no_grad, ops
from ...engine.lazy import np
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..encoders.encoders import as_bias, attend, until, visible_keys
from ..layers.channel_normalization import BatchNorm1d
from ..layers.containers import ModuleList
from ..layers.convolution import Conv1d, Conv2d
from ..layers.feed_forward import FeedForward
from ..layers.gated import activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from ..positions.relative_positions import by_distance
from ..positions.sinusoids import interleaved_sinusoids

HOP = 160  # samples of a frame
NAMES = ("q_proj", "k_proj", "v_proj", "o_proj", "relative_k_proj", "bias_u", "bias_v")


# The names of DistanceAttention's parts in files of wav2vec 2.0's Conformer and SeamlessM4T.
LINEAR_NAMES = ("linear_q", "linear_k", "linear_v", "linear_out", "linear_pos", "pos_bias_u", "pos_bias_v")


class DistanceAttention(Module):
    """Multi-head attention whose scores depend on what is heard and on how far away it is; each head adds a vector to
    its queries for the one and another for the other. `names`: of its parts in files.
    """

    def __init__(self, width: int, heads: int, bias: bool, names: tuple[str, ...] = NAMES) -> None:
        super().__init__()
        self.heads, self.names = heads, names
        for name in names[:3]:
            self.add_module(name, Linear(width, width, bias))
        self.add_module(names[3], ResidualLinear(width, width, bias))
        self.qkv = JoinedLinear(*names[:3])
        self.add_module(names[4], Linear(width, width, bias=False))
        for name in names[5:]:
            self.register_parameter(name, new_parameter(ops.zeros, heads, width // heads))

    def forward(self, x: Tensor, residual: Tensor, mask: Tensor | None, places: Tensor) -> Tensor:
        """x and residual (B, T, D), mask (B, 1, 1, T), places (2 T - 1, D) → residual + attention (B, T, D)."""
        batch, moments, width = x.shape
        size = width // self.heads
        qkv = self.qkv(self, x).reshape(batch, moments, 3 * self.heads, size)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, size)
        leave, read, own, away = (getattr(self, name) for name in self.names[3:])
        far = read(places).reshape(-1, self.heads, size).permute(1, 2, 0)  # (H, size, 2 T - 1)
        scores = ((q + away).transpose(1, 2) @ far) * size**-0.5  # (B, H, T, 2 T - 1)
        found: Tensor = leave(attend(q + own, k, v, as_bias(mask, by_distance(scores))), residual)
        return found


class GatedConvolution(Module):
    """A gate, a filter of each channel over moments, a norm of batches, an activation, and a linear layer. `norm`: the
    name of the norm in files.
    """

    def __init__(self, width: int, kernel: int, activation: str, bias: bool, norm: str = "norm") -> None:
        super().__init__()
        self.name, self.even = norm, kernel % 2 == 0  # an even filter hears one moment more after than before
        self.pointwise_conv1 = Conv1d(width, 2 * width, 1, bias=bias)
        self.depthwise_conv = Conv1d(width, width, kernel, padding=(kernel - 1) // 2, groups=width, bias=bias)
        self.add_module(norm, BatchNorm1d(width))
        self.activation = activation_named(activation)
        self.pointwise_conv2 = Conv1d(width, width, 1, bias=bias)

    def forward(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T) → (B, T, D)."""
        x = ops.glu(self.pointwise_conv1(x.transpose(1, 2)), 1)  # (B, D, T)
        if heard is not None:
            x = x * heard.to(x.dtype).unsqueeze(1)
        x = ops.pad(x, (0, 1)) if self.even else x
        x = self.pointwise_conv2(self.activation(getattr(self, self.name)(self.depthwise_conv(x))))
        return x.transpose(1, 2)


class NormedConvolution(GatedConvolution):
    """The same after a norm, as wav2vec 2.0's Conformer and SeamlessM4T have it. hears_padding: what is padding is read
    as sound, as in training.
    """

    def __init__(self, config: Any, epsilon: float, hears_padding: bool) -> None:
        width = config.hidden_size
        super().__init__(width, config.conv_depthwise_kernel_size, config.hidden_act, False, norm="batch_norm")
        self.layer_norm, self.hears_padding = LayerNorm(width, epsilon), hears_padding

    def forward(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, T) → (B, T, D)."""
        return super().forward(self.layer_norm(x), None if self.hears_padding else heard)


class Block(Module):
    """Half of a feed-forward part, attention, a convolution, and the other half, each after a norm and with a
    residual; then a norm.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, bias = config.hidden_size, config.attention_bias
        sizes, names = (width, config.intermediate_size, config.hidden_act), ("linear1", "linear2")
        self.feed_forward1 = FeedForward(*sizes, bias=bias, names=names)
        self.self_attn = DistanceAttention(width, config.num_attention_heads, bias)
        self.conv = GatedConvolution(width, config.conv_kernel_size, config.hidden_act, config.convolution_bias)
        self.feed_forward2 = FeedForward(*sizes, bias=bias, names=names)
        self.norm_feed_forward1 = LayerNorm(width)
        self.norm_self_att = LayerNorm(width)
        self.norm_conv = LayerNorm(width)
        self.norm_feed_forward2 = LayerNorm(width)
        self.norm_out = LayerNorm(width)

    def forward(self, x: Tensor, heard: Tensor | None, places: Tensor) -> Tensor:
        """x (B, T, D), heard (B, T), places (2 T - 1, D) → (B, T, D)."""
        x = x + self.feed_forward1(self.norm_feed_forward1(x)) * 0.5
        x = self.self_attn(self.norm_self_att(x), x, visible_keys(heard), places)
        x = x + self.conv(self.norm_conv(x), heard)
        x = x + self.feed_forward2(self.norm_feed_forward2(x)) * 0.5
        return self.norm_out(x)


class Subsampling(Module):
    """Convolutions over frames and bins, each of which leaves half of both."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        channels, kernel = config.subsampling_conv_channels, config.subsampling_conv_kernel_size
        where = {"stride": 2, "padding": (kernel - 1) // 2}
        layers: list[Module] = [Conv2d(1, channels, kernel, **where), Module()]
        for _ in range(config.halvings - 1):
            layers += [
                Conv2d(channels, channels, kernel, groups=channels, **where), Conv2d(channels, channels, 1), Module()
            ]  # fmt: skip
        self.layers = ModuleList(layers)  # an activation is a module without parameters
        self.linear = Linear(channels * config.num_mel_bins // config.subsampling_factor, config.hidden_size)

    def forward(self, x: Tensor, heard: list[Tensor] | None) -> Tensor:
        """x (B, F, bins); `heard`: (B, frames) of those that each halving leaves → (B, T, D)."""
        x, halved = x.unsqueeze(1), -1
        for layer in self.layers:
            if not isinstance(layer, Conv2d):
                x = ops.relu(x)
                continue
            x = layer(x)  # (B, C, frames, bins)
            halved += layer.weight.shape[-1] > 1
            if heard is not None:
                x = x * heard[halved].to(x.dtype).reshape(x.shape[0], 1, x.shape[2], 1)
        return self.linear(x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1))


class FastConformer(Module):
    """The encoder. `config` has the fields of ParakeetEncoderConfig of transformers, and `halvings`."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.subsampling = Subsampling(config)
        self.layers = ModuleList(Block(config) for _ in range(config.num_hidden_layers))

    def halved(self, frames: int) -> list[int]:
        """How many of `frames` frames each of the halvings leaves; the last number is that of moments."""
        found, kernel = [], self.config.subsampling_conv_kernel_size
        for _ in range(self.config.halvings):
            frames = max(0, frames + (kernel - 1) // 2 * 2 - kernel) // 2 + 1 if frames else 0
            found.append(frames)
        return found

    def heard(self, attention_mask: Tensor | None) -> list[Tensor] | None:
        """attention_mask (B, F) → (B, frames) bool for each of the halvings: what is not padding."""
        if attention_mask is None:
            return None
        ends = [self.halved(int(count)) for count in attention_mask.to("int32").sum(1).tolist()]
        return [
            until([row[i] for row in ends], most, attention_mask.device)
            for i, most in enumerate(self.halved(attention_mask.shape[1]))
        ]

    def warm_up(self) -> None:
        """Hears some frames of silence, so that the first recording starts sooner."""
        frames = 8 * self.config.subsampling_factor
        with no_grad():
            self(ops.zeros(1, frames, self.config.num_mel_bins, device=self.subsampling.linear.weight.device))

    def forward(self, input_features: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """input_features (B, F, bins), attention_mask (B, F) → (B, T, D). ArgumentError for another shape."""
        bins = self.config.num_mel_bins
        if input_features.ndim != 3 or input_features.shape[2] != bins or not input_features.shape[1]:
            raise ArgumentError(f"spectrograms are (B, F, {bins}), not {describe(input_features)}")
        if attention_mask is not None and attention_mask.shape != input_features.shape[:2]:
            raise ArgumentError(
                f"attention_mask is {describe(attention_mask)}, the spectrograms {describe(input_features)}"
            )
        heard = self.heard(attention_mask)
        x = self.subsampling(input_features, heard)
        if self.config.scale_input:
            x = x * sqrt(self.config.hidden_size)
        far = np.arange(x.shape[1] - 1, -x.shape[1], -1)  # the distances, from the largest on
        places = interleaved_sinusoids(far, x.shape[2]).to(x.device)  # (2 T - 1, D)
        for layer in self.layers:
            x = layer(x, None if heard is None else heard[-1], places)
        return x


class StandardizedConformer(FastConformer):
    """The encoder of what NeMo's spectrograms (StandardizedProcessor of pyapp.audio.processors) have, which tells how
    many moments samples have.
    """

    shortest = 2 * HOP  # samples of a moment

    def moments(self, samples: int) -> int:
        """The moments T of `samples` samples; 0 if they are too few for one."""
        return self.halved(samples // HOP)[-1] if samples >= self.shortest else 0
