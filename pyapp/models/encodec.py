"""EnCodec (Défossez et al. 2022, arXiv 2210.13438): sound as codes, a few numbers for each moment, and back.

Convolutions and an LSTM make vectors of sound (SEANet), each of which is a sum of vectors from codebooks: every
codebook has the entry that is nearest to what those before it leave over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import ceil, floor, log2, prod
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import ELU, LSTM, Conv1d, ConvTranspose1d, GroupNorm, Identity, Module, ModuleList
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sound_codes import Codes, check_codes, check_samples

from .loading.codec_config import LARGEST, MOST_CODEBOOKS, check_codec, check_numbers, check_sizes
from .loading.config import check_fields, read_config, require
from .loading.weight_norms import normed_weights
from .loading.weights import Stored

MODEL_TYPES = ("encodec",)
BASE = "encodec"
IGNORED = r"quantizer\.layers\.\d+\.codebook\.(inited|cluster_size|embed_avg)"  # of training
MOST_LAYERS = 32
NORMS, MODES = ("weight_norm", "time_group_norm"), ("reflect", "constant", "replicate")
SMALLEST = 1e-8  # added to the loudness of a chunk


@dataclass(frozen=True, kw_only=True)
class Config:
    """The fields of config.json."""

    target_bandwidths: list[float] = (1.5, 3.0, 6.0, 12.0, 24.0)  # type: ignore[assignment]
    sampling_rate: int = 24000
    audio_channels: int = 1
    normalize: bool = False
    chunk_length_s: float | None = None
    overlap: float | None = None
    hidden_size: int = 128
    num_filters: int = 32
    num_residual_layers: int = 1
    upsampling_ratios: list[int] = (8, 5, 4, 2)  # type: ignore[assignment]
    norm_type: str = "weight_norm"
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: str = "reflect"
    compress: int = 2
    num_lstm_layers: int = 2
    trim_right_ratio: float = 1.0
    codebook_size: int = 1024
    codebook_dim: int | None = None
    use_conv_shortcut: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        ratios, widths = self.upsampling_ratios, self.target_bandwidths
        check_numbers(self, "upsampling_ratios")
        plausible = widths and all(type(width) in (int, float) and 0 < width <= 1e4 for width in widths)
        require(bool(plausible), f"target_bandwidths is {widths!r:.60}, expected numbers of kilobits a second")
        check_sizes(self, "hidden_size", "kernel_size", "last_kernel_size", "residual_kernel_size", "compress")
        width = self.num_filters << len(ratios)
        require(width <= LARGEST, f"num_filters is {self.num_filters}: the last layer would have {width} channels")
        require(self.num_filters % self.compress == 0, f"compress {self.compress} does not divide num_filters")
        for name in ("num_residual_layers", "num_lstm_layers"):
            require(getattr(self, name) <= MOST_LAYERS, f"{name} is {getattr(self, name)}")
        widest = self.dilation_growth_rate ** (self.num_residual_layers - 1)
        require(
            widest <= LARGEST, f"dilation_growth_rate is {self.dilation_growth_rate}: the last dilation is too large"
        )
        require(self.audio_channels <= 2, f"audio_channels is {self.audio_channels}, expected 1 or 2")
        require(self.norm_type in NORMS, f"norm_type is {self.norm_type!r:.40}, expected {' or '.join(NORMS)}")
        require(self.pad_mode in MODES, f"pad_mode is {self.pad_mode!r:.40}, expected one of {', '.join(MODES)}")
        require(0 <= self.trim_right_ratio <= 1, f"trim_right_ratio is {self.trim_right_ratio}")
        check_codec(self)
        require(
            self.codebook_dim in (None, self.hidden_size),
            f"codebook_dim is {self.codebook_dim}, expected hidden_size {self.hidden_size}",
        )
        require(
            1 <= self.codebooks <= MOST_CODEBOOKS,
            f"there are {self.codebooks} codebooks, expected 1 to {MOST_CODEBOOKS}",
        )
        length, overlap = self.chunk_length_s, self.overlap
        require(length is None or 0 < length <= 3600, f"chunk_length_s is {length}")
        require(overlap is None or 0 <= overlap < 1, f"overlap is {overlap}, expected a number from 0 to 1")
        require((length is None) == (overlap is None), "chunk_length_s and overlap belong together")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json."""
        return read_config(cls, values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"model_type": MODEL_TYPES[0]} | asdict(self)

    @property
    def step(self) -> int:
        """Samples of a moment."""
        return prod(self.upsampling_ratios)

    @property
    def moments(self) -> int:
        """Moments of a second, rounded up."""
        return -(-self.sampling_rate // self.step)

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return int(log2(self.codebook_size))

    @property
    def codebooks(self) -> int:
        """Codebooks for the largest bandwidth."""
        return int(1000 * self.target_bandwidths[-1] // (self.moments * self.bits))

    @property
    def chunk(self) -> tuple[int, int] | None:
        """The samples of a chunk, and from the start of one to that of the next; None: sound is one chunk."""
        if self.chunk_length_s is None or self.overlap is None:
            return None
        length = int(self.chunk_length_s * self.sampling_rate)
        return max(1, length), max(1, int((1.0 - self.overlap) * length))


# -- convolutions


class PaddedConv(Module):
    """A convolution behind a padding, with which the length of its result is that of the sound divided by the stride,
    rounded up; of the past only, if `causal`.
    """

    def __init__(
        self, config: Config, inputs: int, outputs: int, taps: int, stride: int = 1, dilation: int = 1
    ) -> None:
        super().__init__()
        self.causal, self.mode, self.stride = config.use_causal_conv, config.pad_mode, stride
        self.taps = (taps - 1) * dilation + 1
        self.conv = Conv1d(inputs, outputs, taps, stride, dilation=dilation)
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

    def __init__(self, config: Config, inputs: int, outputs: int, taps: int, stride: int) -> None:
        super().__init__()
        total = taps - stride
        right = ceil(total * config.trim_right_ratio) if config.use_causal_conv else total // 2
        self.left, self.stride = total - right, stride
        self.conv = ConvTranspose1d(inputs, outputs, taps, stride)
        self.norm = GroupNorm(1, outputs) if config.norm_type == "time_group_norm" else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C', T * stride)."""
        y = self.conv(x)
        y = y if self.norm is None else self.norm(y)
        return y.narrow(2, self.left, x.shape[2] * self.stride)


class ResidualBlock(Module):
    """Two convolutions, of which the first has fewer channels behind it, beside a third one or nothing."""

    def __init__(self, config: Config, width: int, dilation: int) -> None:
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


class Recurrence(Module):
    """LSTM layers with a residual."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.lstm = LSTM(width, width, config.num_lstm_layers)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        steps = x.permute(2, 0, 1)  # (T, B, C)
        return (self.lstm(steps)[0] + steps).permute(1, 2, 0)


class Layers(Module):
    def __init__(self, layers: Sequence[Module]) -> None:
        super().__init__()
        self.layers = ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def encoder(config: Config) -> Layers:
    """Sound (B, channels, N) → vectors of moments (B, D, T)."""
    width = config.num_filters
    layers: list[Module] = [PaddedConv(config, config.audio_channels, width, config.kernel_size)]
    for ratio in reversed(config.upsampling_ratios):
        layers += _residual_blocks(config, width)
        layers += [ELU(), PaddedConv(config, width, 2 * width, 2 * ratio, ratio)]
        width *= 2
    last = PaddedConv(config, width, config.hidden_size, config.last_kernel_size)
    return Layers([*layers, Recurrence(config, width), ELU(), last])


def decoder(config: Config) -> Layers:
    """Vectors of moments (B, D, T) → sound (B, channels, N)."""
    width = config.num_filters << len(config.upsampling_ratios)
    layers: list[Module] = [
        PaddedConv(config, config.hidden_size, width, config.kernel_size),
        Recurrence(config, width),
    ]
    for ratio in config.upsampling_ratios:
        width //= 2
        layers += [ELU(), TrimmedConvTranspose(config, 2 * width, width, 2 * ratio, ratio)]
        layers += _residual_blocks(config, width)
    last = PaddedConv(config, width, config.audio_channels, config.last_kernel_size)
    return Layers([*layers, ELU(), last])


def _residual_blocks(config: Config, width: int) -> list[Module]:
    return [ResidualBlock(config, width, config.dilation_growth_rate**i) for i in range(config.num_residual_layers)]


# -- codebooks


class Codebook(Module):
    """Vectors, of which the nearest one stands for another."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed = new_parameter(ops.zeros, config.codebook_size, config.hidden_size)

    def encode(self, x: Tensor) -> Tensor:
        """x (B, T, D) → the numbers (B, T) int64 of the nearest entries."""
        apart = (self.embed * self.embed).sum(1) - 2 * (x @ self.embed.T)  # (B, T, entries), but for a number of each x
        return apart.argmin(-1)

    def decode(self, numbers: Tensor) -> Tensor:
        """numbers (B, T) → (B, T, D)."""
        return ops.embedding(self.embed, numbers)


class Quantization(Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.codebook = Codebook(config)


class ResidualQuantizer(Module):
    """Codebooks one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = ModuleList(Quantization(config) for _ in range(config.codebooks))

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


class Encodec(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = encoder(config), decoder(config)
        self.quantizer = ResidualQuantizer(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.quantizer.layers[0].codebook.embed.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def codebooks_for(self, bandwidth: float | None) -> int:
        """How many codebooks a bandwidth in kilobits a second has; None: the smallest. ArgumentError for another."""
        known = self.config.target_bandwidths
        bandwidth = known[0] if bandwidth is None else bandwidth
        if bandwidth not in known:
            raise ArgumentError(
                f"{type(self).__name__}: bandwidth is one of {', '.join(map(str, known))}, not {bandwidth}"
            )
        fit = floor(bandwidth * 1000 / (log2(self.config.codebook_size) * self.config.moments))
        return min(max(1, int(fit)), self.config.codebooks)

    def encode(self, samples: Tensor, bandwidth: float | None = None, mask: Tensor | None = None) -> Codes:
        """samples (B, channels, N) at the model's rate → their codes. mask: of the same shape, 0 for padding."""
        kind, channels = type(self).__name__, self.config.audio_channels
        check_samples(kind, samples, channels)
        if mask is not None and mask.shape != samples.shape:
            raise ArgumentError(f"{kind}: mask is {describe(mask)}, the samples {describe(samples)}")
        count, total = self.codebooks_for(bandwidth), samples.shape[2]
        samples = samples if mask is None else samples * (mask != 0).to(samples.dtype)
        length, stride = self.config.chunk or (total, total)
        chunks, scales = [], []
        with no_grad():
            for start in range(0, total, stride):
                chunk = samples.narrow(2, start, min(length, total - start))
                scale = None
                if self.config.normalize:
                    mono = chunk.mean(1, True)
                    scale = (mono * mono).mean(2, True).sqrt() + SMALLEST  # (B, 1, 1)
                    chunk = chunk / scale
                chunks.append(self.quantizer.encode(self.encoder(chunk), count))
                scales.append(scale)
        return Codes(tuple(chunks), tuple(scales))

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, channels, N) of codes, at most `length`: there may be a few more than were encoded."""
        check_codes(type(self).__name__, codes, self.config.codebooks, self.config.codebook_size)
        parts = []
        for chunk, scale in zip(codes.chunks, codes.scales, strict=True):
            sound = self.decoder(self.quantizer.decode(chunk))
            parts.append(sound if scale is None else sound * scale)
        if len(parts) > 1 and self.config.chunk is None:
            raise ArgumentError(f"{type(self).__name__}: there are {len(parts)} chunks, expected 1")
        whole = parts[0] if self.config.chunk is None else faded(parts, self.config.chunk[1])
        return whole if length is None else whole.narrow(2, 0, min(length, whole.shape[2]))

    def forward(
        self, samples: Tensor, bandwidth: float | None = None, mask: Tensor | None = None
    ) -> tuple[Codes, Tensor]:
        """samples (B, channels, N) → their codes, and the samples of these (B, channels, N)."""
        codes = self.encode(samples, bandwidth, mask)
        return codes, self.decode(codes, samples.shape[2])


def faded(parts: Sequence[Tensor], stride: int) -> Tensor:
    """The sum of parts (B, C, N) that begin `stride` samples after one another, each louder to its middle, divided by
    the sum of how loud they are.
    """
    longest, total = parts[0].shape[2], stride * (len(parts) - 1) + parts[-1].shape[2]
    places = ops.linspace(0, 1, longest + 2, device=parts[0].device).narrow(0, 1, longest)
    ramp = 0.5 - (places - 0.5).abs()
    sums: list[Tensor] = []
    for i, part in enumerate(parts):
        own, at = ramp.narrow(0, 0, part.shape[2]), stride * i
        sides = (at, total - at - part.shape[2])
        found = [ops.pad(part * own, sides), ops.pad(own, sides)]
        sums = found if not sums else [before + more for before, more in zip(sums, found, strict=True)]
    return sums[0] / sums[1]


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS = {"audio-codec": Encodec}
