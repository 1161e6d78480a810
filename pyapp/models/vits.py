"""VITS (Kim et al. 2021, arXiv 2106.06103), which speaks texts, and the voices of MMS (Pratap et al. 2023, arXiv
2305.13516): a transformer reads characters or phonemes, a flow draws how long each sounds, another flow what is heard
at each moment, and HiFi-GAN makes samples of that.

The parts that only training needs are not there: the encoder of spectrograms and the flow of given durations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, log, sqrt
from typing import NamedTuple

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, InputError, ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.audio.hifi_gan import HifiGan, same
from pyapp.nn.encoders.encoders import until
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.joined import JoinedLinear
from pyapp.nn.parameter import new_parameter

from .loading.config import FileConfig, check_divides, require
from .loading.hifi_gan_config import LARGEST, MOST_LAYERS, check_hifi_gan
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("vits",)
BASE = "vits"
# Of training: the encoder of spectrograms, and the flow that reads given durations.
IGNORED = r"posterior_encoder\..*|duration_predictor\.post_.*"
MOST_TOKENS = 4096  # of a text: the scores of its attention are a square
MOST_FRAMES = 1 << 16  # of a text
SMALLEST = 1e-3  # widths and heights of a spline's pieces, as parts of the whole, and its slopes
Noise = Callable[[tuple[int, ...]], Tensor]  # normal numbers of a shape


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json."""

    model_type = "vits"

    vocab_size: int = 38
    hidden_size: int = 192
    num_hidden_layers: int = 6
    num_attention_heads: int = 2
    window_size: int = 4
    use_bias: bool = True
    ffn_dim: int = 768
    ffn_kernel_size: int = 3
    flow_size: int = 192
    hidden_act: str = "relu"
    layer_norm_eps: float = 1e-5
    use_stochastic_duration_prediction: bool = True
    num_speakers: int = 1
    speaker_embedding_size: int = 0
    upsample_initial_channel: int = 512
    upsample_rates: list[int] = (8, 8, 2, 2)  # type: ignore[assignment]
    upsample_kernel_sizes: list[int] = (16, 16, 4, 4)  # type: ignore[assignment]
    resblock_kernel_sizes: list[int] = (3, 7, 11)  # type: ignore[assignment]
    resblock_dilation_sizes: list[list[int]] = ((1, 3, 5),) * 3  # type: ignore[assignment]
    leaky_relu_slope: float = 0.1
    depth_separable_channels: int = 2
    depth_separable_num_layers: int = 3
    duration_predictor_flow_bins: int = 10
    duration_predictor_tail_bound: float = 5.0
    duration_predictor_kernel_size: int = 3
    duration_predictor_num_flows: int = 4
    duration_predictor_filter_channels: int = 256
    prior_encoder_num_flows: int = 4
    prior_encoder_num_wavenet_layers: int = 4
    wavenet_kernel_size: int = 5
    wavenet_dilation_rate: int = 1
    speaking_rate: float = 1.0
    noise_scale: float = 0.667
    noise_scale_duration: float = 0.8
    sampling_rate: int = 16000
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hifi_gan(self)
        for name in ("wavenet_kernel_size", "duration_predictor_kernel_size"):
            value = getattr(self, name)
            require(value % 2 == 1, f"{name} is {value!r:.60}, expected odd numbers of taps")
        for name in ("hidden_size", "flow_size", "ffn_dim", "ffn_kernel_size", "wavenet_kernel_size",
                     "duration_predictor_kernel_size", "duration_predictor_filter_channels",
                     "speaker_embedding_size"):  # fmt: skip
            require(getattr(self, name) <= LARGEST, f"{name} is {getattr(self, name)}, expected at most {LARGEST}")
        for name in ("prior_encoder_num_flows", "prior_encoder_num_wavenet_layers", "depth_separable_num_layers",
                     "duration_predictor_num_flows"):  # fmt: skip
            require(getattr(self, name) <= MOST_LAYERS, f"{name} is {getattr(self, name)}")
        dilated = {
            "wavenet_dilation_rate": (self.wavenet_dilation_rate, self.prior_encoder_num_wavenet_layers),
            "depth_separable_num_layers": (self.duration_predictor_kernel_size, self.depth_separable_num_layers),
        }
        for name, (base, layers) in dilated.items():
            require(base ** (layers - 1) <= LARGEST, f"{name} is {getattr(self, name)}: the last dilation is too large")
        check_divides(self, "num_attention_heads", "hidden_size")
        require(self.flow_size % 2 == 0, f"flow_size is {self.flow_size}, expected an even number")
        # The durations are one of two channels.
        require(self.depth_separable_channels == 2, f"depth_separable_channels is {self.depth_separable_channels}")
        pieces, bound = self.duration_predictor_flow_bins, self.duration_predictor_tail_bound
        require(pieces <= 1 / SMALLEST, f"duration_predictor_flow_bins is {pieces}, expected at most 1000")
        require(0 < bound <= 1e4, f"duration_predictor_tail_bound is {bound}, expected a number from 0 to 10,000")
        require(self.speaking_rate > 0, f"speaking_rate is {self.speaking_rate}, expected a number above 0")
        require(
            self.num_speakers == 1 or self.speaker_embedding_size > 0,
            f"there are {self.num_speakers} speakers, but speaker_embedding_size is 0",
        )
        padding = self.pad_token_id
        require(padding is None or padding < self.vocab_size, f"pad_token_id is {padding}, of {self.vocab_size} tokens")
        require(self.window_size <= MOST_TOKENS, f"window_size is {self.window_size}")
        require(100 <= self.sampling_rate <= 1_536_000, f"sampling_rate is {self.sampling_rate} Hz")


# -- the text


class RelativeAttention(Module):
    """Attention of each text to itself, with vectors for keys and values by their distance, up to a window (Shaw et al.
    2018, arXiv 1803.02155).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, self.heads, self.window = config.hidden_size, config.num_attention_heads, config.window_size
        self.k_proj = Linear(size, size, config.use_bias)
        self.v_proj = Linear(size, size, config.use_bias)
        self.q_proj = Linear(size, size, config.use_bias)
        self.out_proj = Linear(size, size, config.use_bias)
        distances, width = 2 * self.window + 1, size // self.heads
        self.emb_rel_k = new_parameter(ops.zeros, 1, distances, width)
        self.emb_rel_v = new_parameter(ops.zeros, 1, distances, width)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def forward(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), heard (B, 1, 1, T) True where a token is none of padding → (B, T, D)."""
        batch, tokens, width = x.shape
        joined = self.qkv(self, x).reshape(batch, tokens, 3 * self.heads, width // self.heads)
        q, k, v = (joined.narrow(2, i * self.heads, self.heads).transpose(1, 2) for i in range(3))  # (B, H, T, Dh)
        q = q * (width // self.heads) ** -0.5
        places = ops.arange(tokens, dtype="int64", device=x.device)
        away = places.unsqueeze(0) - places.unsqueeze(1) + self.window  # (T, T): 0 … 2 window are inside
        inside = (away >= 0).logical_and(away <= 2 * self.window)
        away = away.clamp(0, 2 * self.window).expand(batch, self.heads, tokens, tokens)
        by_distance = q @ self.emb_rel_k.transpose(1, 2)  # (B, H, T, 2 window + 1)
        scores = q @ k.transpose(2, 3) + ops.where(inside, by_distance.gather(3, away), 0.0)
        if heard is not None:
            scores = ops.where(heard, scores, float("-inf"))
        shares = scores.softmax(-1)  # (B, H, T, T)
        steps = ops.arange(2 * self.window + 1, dtype="int64", device=x.device)
        keys = places.unsqueeze(1) + steps.unsqueeze(0) - self.window  # (T, 2 window + 1)
        there = (keys >= 0).logical_and(keys < tokens)
        keys = keys.clamp(0, tokens - 1).expand(batch, self.heads, *keys.shape)
        near = ops.where(there, shares.gather(3, keys), 0.0)
        y = shares @ v + near @ self.emb_rel_v
        return self.out_proj(y.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(Module):
    """Two convolutions with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        taps = config.ffn_kernel_size
        self.sides = ((taps - 1) // 2, taps // 2)
        self.conv_1 = Conv1d(config.hidden_size, config.ffn_dim, taps)
        self.conv_2 = Conv1d(config.ffn_dim, config.hidden_size, taps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, 1, T) → (B, T, D)."""
        y = self.conv_1(ops.pad(x.transpose(1, 2) * mask, self.sides))
        y = self.conv_2(ops.pad(self.activation(y) * mask, self.sides))
        return (y * mask).transpose(1, 2)


class TextLayer(Module):
    """Attention and convolutions, each with a residual and a norm after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = RelativeAttention(config)
        self.layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.final_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor, heard: Tensor | None) -> Tensor:
        """x (B, T, D), mask (B, 1, T) → (B, T, D)."""
        x = self.layer_norm(x + self.attention(x, heard))
        return self.final_layer_norm(x + self.feed_forward(x, mask))


class TextLayers(Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = ModuleList(TextLayer(config) for _ in range(config.num_hidden_layers))


class TextEncoder(Module):
    """Hidden states of tokens, and the mean and log-variance of what is heard while each sounds."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale, self.size = sqrt(config.hidden_size), config.flow_size
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.encoder = TextLayers(config)
        self.project = Conv1d(config.hidden_size, 2 * config.flow_size, 1)

    def forward(self, ids: Tensor, attention_mask: Tensor | None) -> Spoken:
        """ids and attention_mask (B, T)."""
        x = self.embed_tokens(ids) * self.scale
        mask = ops.ones(ids.shape[0], 1, ids.shape[1], device=ids.device)
        heard = None
        if attention_mask is not None:
            mask = (attention_mask != 0).to("float32").unsqueeze(1)
            heard = (attention_mask != 0).reshape(ids.shape[0], 1, 1, ids.shape[1])
        x = x * mask.transpose(1, 2)
        for layer in self.encoder.layers:
            x = layer(x, mask, heard)
        x = x.transpose(1, 2) * mask  # (B, D, T)
        both = self.project(x) * mask
        return Spoken(x, both.narrow(1, 0, self.size), both.narrow(1, self.size, self.size), mask)


class Spoken(NamedTuple):
    """A text that was read: hidden states (B, D, T), means and log-variances (B, C, T), and a mask (B, 1, T), 0 for
    padding.
    """

    hidden: Tensor
    means: Tensor
    log_variances: Tensor
    mask: Tensor


# -- how long each token sounds


def inverse_spline(y: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, bound: float) -> Tensor:
    """The inverse of a monotonic rational-quadratic spline (Durkan et al. 2019, arXiv 1906.04032) from -bound to bound,
    which is the identity elsewhere. y (...) → x (...); widths and heights (..., K) of the pieces before their softmax,
    slopes (..., K - 1) between them before their softplus.
    """
    pieces = widths.shape[-1]
    outer = log(exp(1 - SMALLEST) - 1)  # so that the slopes at the ends are 1
    slopes = SMALLEST + ops.softplus(ops.pad(slopes, (1, 1), value=outer))  # (..., K + 1)

    def edges(sizes: Tensor) -> Tensor:
        """The places (..., K + 1) between the pieces."""
        parts = SMALLEST + (1 - SMALLEST * pieces) * sizes.softmax(-1)
        inner = 2 * bound * parts.cumsum(-1).narrow(-1, 0, pieces - 1) - bound
        return ops.pad(ops.pad(inner, (1, 0), value=-bound), (0, 1), value=bound)

    def of(values: Tensor, first: int = 0) -> Tensor:
        """The values (..., K) of the piece in which y lies."""
        return values.narrow(-1, first, pieces).gather(-1, piece).squeeze(-1)

    left, low = edges(widths), edges(heights)
    inside = (y >= -bound).logical_and(y <= bound)
    held = y.clamp(-bound, bound)
    piece = (held.unsqueeze(-1) >= low.narrow(-1, 1, pieces - 1)).to("int64").sum(-1, keepdim=True)
    widths = left.narrow(-1, 1, pieces) - left.narrow(-1, 0, pieces)
    heights = low.narrow(-1, 1, pieces) - low.narrow(-1, 0, pieces)
    height, slope, before, after = of(heights), of(heights / widths), of(slopes), of(slopes, 1)
    bend, up = before + after - 2 * slope, held - of(low)
    a = height * (slope - before) + up * bend
    b = height * before - up * bend
    c = -slope * up
    root = 2 * c / (-b - (b * b - 4 * a * c).clamp(min=0).sqrt())
    return ops.where(inside, root * of(widths) + of(left), y)


class SeparableConvolutions(Module):
    """Convolutions of each channel by itself, dilated more and more, and of all channels of a token, with residuals."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, taps, layers = (
            config.hidden_size,
            config.duration_predictor_kernel_size,
            config.depth_separable_num_layers,
        )
        self.convs_dilated = ModuleList(
            Conv1d(size, size, taps, dilation=taps**i, padding=(taps - 1) * taps**i // 2, groups=size)
            for i in range(layers)
        )
        self.convs_pointwise = ModuleList(Conv1d(size, size, 1) for _ in range(layers))
        self.norms_1, self.norms_2 = (ModuleList(LayerNorm(size) for _ in range(layers)) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, D, T), mask (B, 1, T) → (B, D, T)."""
        parts = zip(self.convs_dilated, self.norms_1, self.convs_pointwise, self.norms_2, strict=True)
        for dilated, first_norm, pointwise, second_norm in parts:
            y = ops.gelu(by_token(first_norm, dilated(x * mask)))
            x = x + ops.gelu(by_token(second_norm, pointwise(y)))
        return x * mask


def by_token(norm: Module, x: Tensor) -> Tensor:
    """The norm of the channels of x (B, D, T)."""
    y: Tensor = norm(x.transpose(1, 2)).transpose(1, 2)
    return y


class DurationFlow(Module):
    """A spline of one channel, whose form the other channel and the text decide."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pieces, self.bound = config.duration_predictor_flow_bins, config.duration_predictor_tail_bound
        self.scale = sqrt(config.hidden_size)
        self.conv_pre = Conv1d(1, config.hidden_size, 1)
        self.conv_dds = SeparableConvolutions(config)
        self.conv_proj = Conv1d(config.hidden_size, 3 * self.pieces - 1, 1)

    def inverse(self, x: Tensor, mask: Tensor, text: Tensor) -> Tensor:
        """x (B, 2, T), text (B, D, T) → (B, 2, T)."""
        kept, changed = x.narrow(1, 0, 1), x.narrow(1, 1, 1)
        form = self.conv_proj(self.conv_dds(self.conv_pre(kept) + text, mask)) * mask
        form = form.transpose(1, 2).unsqueeze(1)  # (B, 1, T, 3 K - 1)
        widths, heights = (form.narrow(3, i * self.pieces, self.pieces) / self.scale for i in range(2))
        slopes = form.narrow(3, 2 * self.pieces, self.pieces - 1)
        return ops.cat([kept, inverse_spline(changed, widths, heights, slopes, self.bound)], 1) * mask


class Scaling(Module):
    """A factor and a shift of each channel."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.translate = new_parameter(ops.zeros, config.depth_separable_channels, 1)
        self.log_scale = new_parameter(ops.zeros, config.depth_separable_channels, 1)

    def inverse(self, x: Tensor, mask: Tensor, text: Tensor) -> Tensor:
        """x (B, 2, T) → (B, 2, T)."""
        return (x - self.translate) * (-self.log_scale).exp() * mask


class StochasticDurations(Module):
    """A flow that makes durations of noise."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.hidden_size
        self.conv_pre, self.conv_proj = Conv1d(size, size, 1), Conv1d(size, size, 1)
        self.conv_dds = SeparableConvolutions(config)
        if config.speaker_embedding_size:
            self.cond = Conv1d(config.speaker_embedding_size, size, 1)
        self.flows = ModuleList([Scaling(config)])
        self.flows.extend(DurationFlow(config) for _ in range(config.duration_predictor_num_flows))

    def forward(self, text: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor) -> Tensor:
        """text (B, D, T), speaker (B, S, 1), noise (B, 2, T) → logarithms of durations in frames (B, 1, T)."""
        x = self.conv_pre(text)
        if speaker is not None:
            x = x + self.cond(speaker)
        x = self.conv_proj(self.conv_dds(x, mask)) * mask
        scaling, unused, *flows = self.flows  # the first spline changes only the channel that is not read
        del unused
        for flow in (*reversed(flows), scaling):
            noise = flow.inverse(noise.flip(1), mask, x)
        return noise.narrow(1, 0, 1)


class PlainDurations(Module):
    """Durations without noise, by two convolutions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        taps, width = config.duration_predictor_kernel_size, config.duration_predictor_filter_channels
        self.conv_1, self.conv_2 = same(config.hidden_size, width, taps), same(width, width, taps)
        self.norm_1, self.norm_2 = (LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.proj = Conv1d(width, 1, 1)
        if config.speaker_embedding_size:
            self.cond = Conv1d(config.speaker_embedding_size, config.hidden_size, 1)

    def forward(self, text: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor) -> Tensor:
        """As StochasticDurations; the noise is not read."""
        x = text if speaker is None else text + self.cond(speaker)
        x = by_token(self.norm_1, ops.relu(self.conv_1(x * mask)))
        x = by_token(self.norm_2, ops.relu(self.conv_2(x * mask)))
        return self.proj(x * mask) * mask


# -- what is heard at each moment


class WaveNet(Module):
    """Gated convolutions with residuals, the sum of whose other outputs is the result (van den Oord et al. 2016, arXiv
    1609.03499).
    """

    def __init__(self, config: Config, layers: int) -> None:
        super().__init__()
        self.size = size = config.hidden_size
        if config.speaker_embedding_size:
            self.cond_layer = Conv1d(config.speaker_embedding_size, 2 * size * layers, 1)
        self.in_layers = ModuleList(
            same(size, 2 * size, config.wavenet_kernel_size, config.wavenet_dilation_rate**i) for i in range(layers)
        )
        self.res_skip_layers = ModuleList(Conv1d(size, size * (1 + (i < layers - 1)), 1) for i in range(layers))

    def forward(self, x: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """x (B, D, F), mask (B, 1, F), speaker (B, S, 1) → (B, D, F)."""
        size, total = self.size, None
        shifts = None if speaker is None else self.cond_layer(speaker)  # (B, 2 D layers, 1)
        for i, (enter, leave) in enumerate(zip(self.in_layers, self.res_skip_layers, strict=True)):
            y = enter(x)  # (B, 2 D, F)
            if shifts is not None:
                y = y + shifts.narrow(1, 2 * size * i, 2 * size)
            y = leave(y.narrow(1, 0, size).tanh() * y.narrow(1, size, size).sigmoid())
            if i < len(self.in_layers) - 1:
                x = (x + y.narrow(1, 0, size)) * mask
                y = y.narrow(1, size, size)
            total = y if total is None else total + y
        assert total is not None
        return total * mask


class Coupling(Module):
    """A shift of one half of the channels, which the other half decides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        half = config.flow_size // 2
        self.conv_pre = Conv1d(half, config.hidden_size, 1)
        self.wavenet = WaveNet(config, config.prior_encoder_num_wavenet_layers)
        self.conv_post = Conv1d(config.hidden_size, half, 1)

    def inverse(self, x: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """x (B, C, F), mask (B, 1, F) → (B, C, F)."""
        half = x.shape[1] // 2
        kept, changed = x.narrow(1, 0, half), x.narrow(1, half, half)
        shift = self.conv_post(self.wavenet(self.conv_pre(kept) * mask, mask, speaker)) * mask
        return ops.cat([kept, (changed - shift) * mask], 1)


class Flow(Module):
    """Couplings, between which the order of the channels is turned round."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.flows = ModuleList(Coupling(config) for _ in range(config.prior_encoder_num_flows))

    def inverse(self, x: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """x (B, C, F), mask (B, 1, F) → (B, C, F)."""
        for flow in reversed(self.flows):
            x = flow.inverse(x.flip(1), mask, speaker)
        return x


class Vits(Module):
    """Speech of texts: `read`, `durations`, `frames` and `decoder` in this order, or `forward`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_encoder = TextEncoder(config)
        self.flow = Flow(config)
        self.decoder = HifiGan(config, config.flow_size, config.speaker_embedding_size)
        kind = StochasticDurations if config.use_stochastic_duration_prediction else PlainDurations
        self.duration_predictor = kind(config)
        if config.num_speakers > 1:
            self.embed_speaker = Embedding(config.num_speakers, config.speaker_embedding_size)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.text_encoder.embed_tokens.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def speaker(self, number: int | None) -> Tensor | None:
        """The vector (1, S, 1) of a speaker; None of a model with one voice. ArgumentError for another number."""
        count = self.config.num_speakers
        if number is None or count == 1:
            return None
        if not 0 <= number < count:
            raise ArgumentError(f"{type(self).__name__}: there are the speakers 0 to {count - 1}, not {number}")
        found: Tensor = self.embed_speaker(ops.tensor([number], dtype="int32", device=self.device)).unsqueeze(2)
        return found

    def read(self, ids: Tensor, attention_mask: Tensor | None = None) -> Spoken:
        """ids and attention_mask (B, T), which is 0 for padding at the end."""
        kind = type(self).__name__
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= MOST_TOKENS:
            raise InputError(f"{kind}: ids are (B, T) with T from 1 to {MOST_TOKENS}, not {describe(ids)}")
        if attention_mask is not None and attention_mask.shape != ids.shape:
            raise ArgumentError(f"{kind}: attention_mask is {describe(attention_mask)}, the ids {describe(ids)}")
        found: Spoken = self.text_encoder(ids, attention_mask)
        return found

    def durations(
        self, text: Spoken, noise: Tensor, speaker: Tensor | None = None, rate: float | None = None
    ) -> list[list[int]]:
        """The frames of each token of each text. noise: (B, 2, T), scaled. ModelError where they are not a plausible
        numbers.
        """
        pace = 1.0 / (self.config.speaking_rate if rate is None else rate)
        with no_grad():
            logs = self.duration_predictor(text.hidden.detach(), text.mask, speaker, noise)
            found: list[list[float]] = (logs.exp() * text.mask * pace).ceil().squeeze(1).tolist()
        for row in found:
            total = sum(row)
            if not total <= MOST_FRAMES:  # NaN is none either
                raise ModelError(
                    f"a text would take {total:,.0f} frames, expected at most {MOST_FRAMES:,}",
                    hint="Take a shorter text, or a model whose weights were trained",
                )
        return [[int(value) for value in row] for row in found]

    def frames(
        self, text: Spoken, durations: Sequence[Sequence[int]], noise: Noise, speaker: Tensor | None = None,
    ) -> tuple[Tensor, list[int]]:  # fmt: skip
        """What is heard at each moment (B, C, F), and the frames of each text, at least one. noise: scaled, of the
        shape (B, C, F).
        """
        places = [[token for token, count in enumerate(row) for _ in range(count)] for row in durations]
        lengths = [max(1, len(row)) for row in places]
        most, device = max(lengths), text.means.device
        padded = [row + [0] * (most - len(row)) for row in places]
        index = ops.tensor(padded, dtype="int64", device=device).unsqueeze(1)  # (B, 1, F)
        spoken = _until([len(row) for row in places], most, device)
        mask = _until(lengths, most, device)
        index = index.expand(len(places), text.means.shape[1], most)
        means, logs = (part.gather(2, index) * spoken for part in (text.means, text.log_variances))  # (B, C, F)
        latents = means + noise(tuple(means.shape)) * logs.exp()
        return self.flow.inverse(latents, mask, speaker) * mask, lengths

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, speaker: int | None = None, rate: float | None = None,
        noise_scale: float | None = None, noise_scale_duration: float | None = None, noise: Noise = ops.randn,
    ) -> tuple[Tensor, list[int]]:  # fmt: skip
        """ids and attention_mask (B, T) → samples (B, N) from -1 to 1, and how many of them each text has. None: as the
        configuration says. noise: a function that gives normal numbers of a shape; it is called for (B, 2, T), then for
        (B, C, F).
        """
        config, who = self.config, self.speaker(speaker)
        of_durations = config.noise_scale_duration if noise_scale_duration is None else noise_scale_duration
        of_frames = config.noise_scale if noise_scale is None else noise_scale
        text = self.read(ids, attention_mask)
        drawn = noise((ids.shape[0], 2, ids.shape[1])).to(self.device)
        counts = self.durations(text, drawn * of_durations, who, rate)
        frames, lengths = self.frames(text, counts, lambda shape: noise(shape).to(self.device) * of_frames, who)
        return self.decoder(frames, who), [count * self.decoder.frame_samples for count in lengths]


def _until(lengths: Sequence[int], most: int, device: Device) -> Tensor:
    """1.0 for the first frames of each text, as many as it has, (B, 1, F)."""
    return until(lengths, most, device).unsqueeze(1).to("float32")


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS = {"text-to-speech": Vits}
