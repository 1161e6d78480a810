"""SNAC (Siuzdak et al. 2024, arXiv 2410.14411): sound as codes of several time scales, and back.

DAC's convolutions, each channel by itself, make vectors of sound; in some models moments also attend to those of their
window. The first codebooks have one number for several moments: the mean of these is what they stand for.

Parameters have the names of the files of https://github.com/hubertsiuzdak/snac.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import lcm, prod

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, ConvTranspose1d, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.audio.sound_codes import Codes, DirectionQuantizer, Snake, check_codes, check_samples, count_of_codebooks
from pyapp.nn.encoders.encoders import attend

from .loading.codec_config import MOST_CODEBOOKS, MonoConfig, check_codec, check_numbers, check_sizes
from .loading.config import check_fields, require
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("snac",)
BASE = "snac"
IGNORED = r".*\.rel_pos\.inv_freq"  # which the model computes
DILATIONS = (1, 3, 9)
ENDS = 7  # taps of the first and last convolutions
HEAD = 64  # features of a head
Draw = Callable[[tuple[int, ...]], Tensor]


@dataclass(frozen=True, kw_only=True)
class Config(MonoConfig):
    """The fields of config.json. vq_strides: for each codebook, the moments that share a code."""

    model_type = MODEL_TYPES[0]
    ratios = "encoder_rates"

    sampling_rate: int = 44100
    encoder_dim: int = 64
    encoder_rates: list[int] = (3, 3, 7, 7)  # type: ignore[assignment]
    latent_dim: int | None = None
    decoder_dim: int = 1536
    decoder_rates: list[int] = (7, 7, 3, 3)  # type: ignore[assignment]
    attn_window_size: int | None = 32
    codebook_size: int = 4096
    codebook_dim: int = 8
    vq_strides: list[int] = (8, 4, 2, 1)  # type: ignore[assignment]
    noise: bool = True
    depthwise: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_numbers(self, "encoder_rates", "decoder_rates", "vq_strides")
        widest = self.encoder_dim << len(self.encoder_rates)
        require(self.latent_dim in (None, widest), f"latent_dim is {self.latent_dim}, the encoder makes {widest}")
        check_sizes(self, "hidden_size", "decoder_dim", "codebook_dim")
        halves = 1 << len(self.decoder_rates)
        require(self.decoder_dim % halves == 0, f"decoder_dim is {self.decoder_dim}, expected a multiple of {halves}")
        require(
            prod(self.encoder_rates) == prod(self.decoder_rates),
            f"encoder_rates {list(self.encoder_rates)} make sound shorter than decoder_rates "
            f"{list(self.decoder_rates)} make it longer",
        )
        require(len(self.vq_strides) <= MOST_CODEBOOKS, f"vq_strides has {len(self.vq_strides)} entries")
        first = self.vq_strides[0]
        require(
            all(first % stride == 0 for stride in self.vq_strides),
            f"vq_strides is {list(self.vq_strides)}: the first one is not a multiple of the others",
        )
        if self.attn_window_size is not None:
            check_sizes(self, "attn_window_size")
            for name in ("hidden_size", "decoder_dim"):
                width = getattr(self, name)
                require(width % HEAD == 0, f"{width} features of {name} are not whole heads of {HEAD}")
        check_codec(self)

    @property
    def hidden_size(self) -> int:
        """Features of a moment."""
        return self.encoder_dim << len(self.encoder_rates)

    @property
    def group(self) -> int:
        """Samples that are encoded together."""
        return self.step * lcm(self.vq_strides[0], self.attn_window_size or 1)


class ResidualUnit(Module):
    """A dilated convolution and one of each moment, with a residual."""

    def __init__(self, width: int, dilation: int, groups: int) -> None:
        super().__init__()
        padding = (ENDS - 1) * dilation // 2
        self.block = Sequential(
            Snake(width), Conv1d(width, width, ENDS, dilation=dilation, padding=padding, groups=groups), Snake(width),
            Conv1d(width, width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        return x + self.block(x)


class WindowAttention(Module):
    """Attention of moments to those of their window, with rotary positions in it, after a norm and with a residual."""

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.norm = LayerNorm(width)
        self.to_qkv = Linear(width, 3 * width, bias=False)
        self.to_out = Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T), of whole windows → (B, C, T)."""
        batch, width, moments = x.shape
        heads, table = width // HEAD, ops.rope_table(self.window, HEAD).to(x.device)
        parts = self.to_qkv(self.norm(x.transpose(1, 2))).reshape(-1, self.window, 3 * heads, HEAD)
        q, k, v = (parts.narrow(2, i * heads, heads) for i in range(3))  # (B * windows, window, H, HEAD)
        y = attend(ops.rope(q, table, interleaved=False), ops.rope(k, table, interleaved=False), v, None)
        return x + self.to_out(y.reshape(batch, moments, width)).transpose(1, 2)


class NoiseBlock(Module):
    """x + noise * linear(x), with one number of noise for each moment."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = Conv1d(width, width, 1, bias=False)

    def forward(self, x: Tensor, noise: Draw | None = None) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        shape = (x.shape[0], 1, x.shape[2])
        drawn = ops.randn(*shape) if noise is None else noise(shape)
        return x + drawn.to(x.device) * self.linear(x)


class Block(Module):
    """Parts one after the other, in a list as files have them."""

    def __init__(self, *parts: Module) -> None:
        super().__init__()
        self.block = Sequential(*parts)

    def forward(self, x: Tensor, noise: Draw | None = None) -> Tensor:
        """x (B, C, N) → (B, C', N')."""
        for part in self.block:
            x = part(x, noise) if isinstance(part, NoiseBlock) else part(x)
        return x


def units(width: int, depthwise: bool) -> list[Module]:
    """The residual units of a block."""
    return [ResidualUnit(width, dilation, width if depthwise else 1) for dilation in DILATIONS]


def shorter(config: Config, width: int, stride: int) -> Block:
    """Residual units, and a convolution that makes a sound shorter by `stride`: (B, C, N) → (B, 2 C, N / stride)."""
    last = Conv1d(width, 2 * width, 2 * stride, stride, padding=-(-stride // 2))
    return Block(*units(width, config.depthwise), Snake(width), last)


def longer(config: Config, width: int, stride: int) -> Block:
    """A convolution that makes a sound longer by `stride`, and residual units: (B, C, T) → (B, C / 2, T * stride)."""
    half = width // 2
    first = ConvTranspose1d(
        width, half, 2 * stride, stride, padding=-(-stride // 2), output_padding=stride % 2
    )  # fmt: skip
    noise = [NoiseBlock(half)] if config.noise else []
    return Block(Snake(width), first, *noise, *units(half, config.depthwise))


def attention(config: Config, width: int) -> list[Module]:
    """The attention of the models that have it."""
    return [] if config.attn_window_size is None else [WindowAttention(width, config.attn_window_size)]


def encoder(config: Config) -> Block:
    """Sound (B, 1, N) → vectors of moments (B, D, T)."""
    width, wide = config.encoder_dim, config.hidden_size
    parts: list[Module] = [Conv1d(1, width, ENDS, padding=ENDS // 2)]
    parts += [shorter(config, width << i, stride) for i, stride in enumerate(config.encoder_rates)]
    last = Conv1d(wide, wide, ENDS, padding=ENDS // 2, groups=wide if config.depthwise else 1)
    return Block(*parts, *attention(config, wide), last)


class Decoder(Module):
    """Vectors of moments (B, D, T) → sound (B, 1, N) from -1 to 1."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        before, width = config.hidden_size, config.decoder_dim
        if config.depthwise:
            first = [Conv1d(before, before, ENDS, padding=ENDS // 2, groups=before), Conv1d(before, width, 1)]
        else:
            first = [Conv1d(before, width, ENDS, padding=ENDS // 2)]
        blocks = [longer(config, width >> i, stride) for i, stride in enumerate(config.decoder_rates)]
        narrow = width >> len(blocks)
        last = [Snake(narrow), Conv1d(narrow, 1, ENDS, padding=ENDS // 2)]
        self.model = Sequential(*first, *attention(config, width), *blocks, *last)

    def forward(self, x: Tensor, noise: Draw | None = None) -> Tensor:
        for part in self.model:
            x = part(x, noise) if isinstance(part, Block) else part(x)
        return x.tanh()


class ResidualQuantizer(Module):
    """Codebooks one after the other, each with one code for `strides` moments."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        sizes, self.strides = (config.hidden_size, config.codebook_size, config.codebook_dim), [*config.vq_strides]
        self.quantizers = ModuleList(DirectionQuantizer(*sizes) for _ in self.strides)

    def vectors(self, number: int, codes: Tensor) -> Tensor:
        """The vectors (B, D, T) of the codes (B, T / stride) of a codebook."""
        found: Tensor = self.quantizers[number].decode(codes)
        stride = self.strides[number]
        return found if stride == 1 else found.repeat_interleave(stride, -1)

    def encode(self, x: Tensor, count: int) -> list[Tensor]:
        """x (B, D, T) → the codes (B, T / stride) int64 of the first so many codebooks."""
        found = []
        for number, stride in enumerate(self.strides[:count]):
            means = x if stride == 1 else x.reshape(*x.shape[:2], -1, stride).mean(3)
            codes = self.quantizers[number].encode(means)
            x = x - self.vectors(number, codes)
            found.append(codes)
        return found

    def decode(self, codes: Sequence[Tensor]) -> Tensor:
        """The codes of the first codebooks → (B, D, T)."""
        parts = [self.vectors(number, own) for number, own in enumerate(codes)]
        return sum(parts[1:], parts[0])


class Snac(Module):
    """Sound to codes, and codes to sound. The chunks of its Codes are those of the codebooks, (B, 1, T / stride) each.

    `noise(shape)` draws the noise of decoding; None: ops.randn.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = encoder(config), Decoder(config)
        self.quantizer = ResidualQuantizer(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.quantizer.quantizers[0].codebook.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def encode(self, samples: Tensor, codebooks: int | None = None) -> Codes:
        """samples (B, 1, N) at the model's rate → their codes by the first so many codebooks (None: all). The sound
        ends with zeros, up to a whole number of `config.group`.
        """
        kind = type(self).__name__
        check_samples(kind, samples, 1)
        count = count_of_codebooks(kind, codebooks, len(self.config.vq_strides))
        with no_grad():
            whole = ops.pad(samples, (0, -samples.shape[2] % self.config.group))
            found = self.quantizer.encode(self.encoder(whole), count)
        return Codes(tuple(codes.unsqueeze(1) for codes in found), (None,) * count)

    def decode(self, codes: Codes, length: int | None = None, noise: Draw | None = None) -> Tensor:
        """The samples (B, 1, N) of codes, at most `length`: there may be more than were encoded."""
        kind, strides = type(self).__name__, self.config.vq_strides
        check_codes(kind, codes, 1, self.config.codebook_size)
        if len(codes.chunks) > len(strides):
            raise ArgumentError(f"{kind}: there are codes of {len(codes.chunks)} codebooks, expected {len(strides)}")
        moments = [chunk.shape[2] * stride for chunk, stride in zip(codes.chunks, strides, strict=False)]
        if len({*moments}) > 1 or moments[0] % (self.config.attn_window_size or 1):
            whole = f"multiples of {self.config.attn_window_size or 1}"
            raise ArgumentError(f"{kind}: the codes stand for {moments} moments, expected equal numbers, {whole}")
        found: Tensor = self.decoder(self.quantizer.decode([chunk.squeeze(1) for chunk in codes.chunks]), noise)
        return found if length is None else found.narrow(2, 0, min(length, found.shape[2]))

    def forward(self, samples: Tensor, codebooks: int | None = None, noise: Draw | None = None) -> tuple[Codes, Tensor]:
        """samples (B, 1, N) → their codes, and the samples of these (B, 1, N)."""
        codes = self.encode(samples, codebooks)
        return codes, self.decode(codes, samples.shape[2], noise)


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights(tensors, IGNORED)


TASKS = {"audio-codec": Snac}
