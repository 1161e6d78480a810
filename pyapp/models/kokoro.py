"""Kokoro (https://github.com/hexgrad/kokoro), which speaks phonemes in the voice that a vector describes: StyleTTS 2
(Li et al. 2023, arXiv 2306.07691) without diffusion. An ALBERT and recurrent layers say how long each phoneme sounds,
how high and how loud; ISTFTNet (Kaneko et al. 2022, arXiv 2203.02395) makes samples of that, with the harmonics of a
sine and noise as its source (Wang et al. 2019, arXiv 1904.12088).

Parameters have the names of the published files, without the parts "module" in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import pi, prod, sqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, ModelError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import (
    LSTM,
    Conv1d,
    ConvTranspose1d,
    Embedding,
    InstanceNorm1d,
    LayerNorm,
    Linear,
    Module,
    ModuleList,
    ParameterList,
    Sequential,
)
from pyapp.nn.audio.hifi_gan import ENDS, LAST_SLOPE, same
from pyapp.nn.encoders.albert import Albert
from pyapp.nn.parameter import new_parameter

from .loading.codec_config import check_sizes
from .loading.config import FileConfig, read_config, require
from .loading.encoder_config import EncoderConfig
from .loading.hifi_gan_config import LARGEST, check_hifi_gan
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("kokoro",)
SPEAKS = "styles"  # in pyapp.models.loading.voice
BASE = ""
IGNORED = r"bert\.(module\.)?pooler\..*|decoder\.(module\.)?generator\.stft\..*"  # tables, which are computed
SLOPE, UPSAMPLING_SLOPE = 0.2, 0.1  # of leaky ReLUs
NORM = "decoder.encode.norm1.norm.weight"  # which newer files have, and published ones have not
HARMONICS = 9  # of the source, with the fundamental
LOUD, QUIET = 0.1, 0.003  # the amplitude of the sines, and the deviation of noise beside them
VOICED = 10.0  # Hz, above which a moment has a voice
PAIR = 2  # moments of the pitch for each frame
MOST_FRAMES = 1 << 14  # of a text, 40 a second
MOST_DURATION = 1 << 10  # frames of a phoneme
Noise = Callable[[tuple[int, ...]], Tensor]  # normal numbers of a shape


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return re.sub(r"^(\w+)\.module\.", r"\1.", name)


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """The fields of `plbert`: those of an ALBERT."""

    model_type = "albert"

    hidden_act: str = "gelu_new"
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    type_vocab_size: int = 2
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "embedding_size", "num_hidden_groups", "inner_group_num", "max_position_embeddings")
        groups = self.num_hidden_groups
        require(groups <= self.num_hidden_layers, f"num_hidden_groups is {groups}, of {self.num_hidden_layers} layers")


@dataclass(frozen=True, kw_only=True)
class GeneratorConfig(FileConfig):
    """The fields of `istftnet`."""

    model_type = "istftnet"

    upsample_initial_channel: int = 512
    upsample_rates: list[int] = (10, 6)  # type: ignore[assignment]
    upsample_kernel_sizes: list[int] = (20, 12)  # type: ignore[assignment]
    resblock_kernel_sizes: list[int] = (3, 7, 11)  # type: ignore[assignment]
    resblock_dilation_sizes: list[list[int]] = ((1, 3, 5),) * 3  # type: ignore[assignment]
    gen_istft_n_fft: int = 20
    gen_istft_hop_size: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hifi_gan(self)
        check_sizes(self, "gen_istft_n_fft")
        rates, size, hop = self.upsample_rates, self.gen_istft_n_fft, self.gen_istft_hop_size
        require(min(rates) > 1, f"upsample_rates is {rates!r:.60}, expected numbers above 1")
        require(self.scale <= LARGEST, f"upsample_rates is {rates!r:.60}: a moment would have {self.scale:,} samples")
        fits = size % 2 == 0 and hop <= size // 2
        require(fits, f"gen_istft_n_fft is {size}, expected an even number, at least twice gen_istft_hop_size {hop}")

    @property
    def scale(self) -> int:
        """Samples of a moment of the pitch."""
        return prod(self.upsample_rates) * self.gen_istft_hop_size


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json. decoder_dim and asr_dim, the features of the decoder's layers and of what each of them
    reads of the text, are not in published files.
    """

    model_type = "kokoro"

    n_token: int = 178
    hidden_dim: int = 512
    style_dim: int = 128
    n_layer: int = 3
    max_dur: int = 50
    text_encoder_kernel_size: int = 5
    decoder_dim: int = 1024
    asr_dim: int = 64
    sample_rate: int = 24000
    affine_norms: bool = False
    vocab: dict[str, Any]
    plbert: dict[str, Any]
    istftnet: dict[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "n_token", "hidden_dim", "style_dim", "decoder_dim", "asr_dim", "text_encoder_kernel_size")
        require(self.n_layer <= 64, f"n_layer is {self.n_layer}, expected at most 64")
        require(self.max_dur <= MOST_DURATION, f"max_dur is {self.max_dur}, expected at most {MOST_DURATION}")
        require(self.hidden_dim % 2 == 0, f"hidden_dim is {self.hidden_dim}, expected an even number")
        taps = self.text_encoder_kernel_size
        require(taps % 2 == 1, f"text_encoder_kernel_size is {taps}, expected an odd number of taps")
        require(100 <= self.sample_rate <= 1_536_000, f"sample_rate is {self.sample_rate} Hz")
        for phoneme, number in self.vocab.items():
            fits = type(number) is int and 0 <= number < self.n_token
            require(fits, f"vocab: the number of {phoneme!r:.40} is {number!r:.40}, of {self.n_token} tokens")
        require(self.bert.max_position_embeddings > 2, "plbert: there is no place for a phoneme between the two ends")
        require(self.generator.scale > 2, "istftnet: a moment of the pitch has fewer than 3 samples")

    @property
    def bert(self) -> BertConfig:
        """The fields of the ALBERT."""
        return read_config(BertConfig, {"vocab_size": self.n_token} | self.plbert)

    @property
    def generator(self) -> GeneratorConfig:
        """The fields of ISTFTNet."""
        return read_config(GeneratorConfig, self.istftnet)

    @property
    def most_phonemes(self) -> int:
        """The phonemes that are spoken at once."""
        return self.bert.max_position_embeddings - 2


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> dict[str, Any]:
    """The configuration, with what the file's tensors say."""
    return {**settings, "affine_norms": any(renamed(name) == NORM for name in tensors)}


# -- layers that a style changes


class StyledNorm(Module):
    """The norm of each channel over time, with a factor and a shift of a style (Huang and Belongie 2017, arXiv
    1703.06868).
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.width = width
        self.norm = InstanceNorm1d(width, affine=config.affine_norms)
        self.fc = Linear(config.style_dim, 2 * width)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (1, C, T), style (1, S) → (1, C, T)."""
        both = self.fc(style)[0]  # (2 C,)
        scale, shift = both.narrow(0, 0, self.width) + 1, both.narrow(0, self.width, self.width)
        if self.norm.weight is not None:
            shift, scale = shift + scale * self.norm.bias, scale * self.norm.weight
        return ops.instance_norm(x, weight=scale, bias=shift, eps=self.norm.eps)


class StyledLayerNorm(Module):
    """The norm of the channels of each moment, with a factor and a shift of a style."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.width = width
        self.fc = Linear(config.style_dim, 2 * width)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (1, T, C), style (1, S) → (1, T, C)."""
        both = self.fc(style)[0]  # (2 C,)
        scale, shift = both.narrow(0, 0, self.width) + 1, both.narrow(0, self.width, self.width)
        return ops.layer_norm(x, (self.width,), scale, shift, 1e-5)


class StyledBlock(Module):
    """Two convolutions with a residual, which may double the moments."""

    def __init__(self, config: Config, inputs: int, outputs: int, doubles: bool = False) -> None:
        super().__init__()
        self.doubles, self.changes = doubles, inputs != outputs
        self.conv1, self.conv2 = same(inputs, outputs, 3), same(outputs, outputs, 3)
        self.norm1, self.norm2 = StyledNorm(config, inputs), StyledNorm(config, outputs)
        if self.changes:
            self.conv1x1 = Conv1d(inputs, outputs, 1, bias=False)
        if doubles:
            self.pool = ConvTranspose1d(inputs, inputs, 3, 2, padding=1, output_padding=1, groups=inputs)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (1, C, T), style (1, S) → (1, C', T), or (1, C', 2 T) if it doubles."""
        y = ops.leaky_relu(self.norm1(x, style), SLOPE)
        y = self.conv1(self.pool(y) if self.doubles else y)
        y = self.conv2(ops.leaky_relu(self.norm2(y, style), SLOPE))
        x = x.repeat_interleave(2, dim=2) if self.doubles else x
        return (y + (self.conv1x1(x) if self.changes else x)) / sqrt(2)


class SnakeBlock(Module):
    """Pairs of convolutions, the first of each dilated, with x + sin²(a x) / a as their activation (Ziyin et al. 2020,
    arXiv 2006.08195), each pair with a residual.
    """

    def __init__(self, config: Config, width: int, taps: int, dilations: Any) -> None:
        super().__init__()
        self.convs1 = ModuleList(same(width, width, taps, dilation) for dilation in dilations)
        self.convs2 = ModuleList(same(width, width, taps) for _ in dilations)
        self.adain1, self.adain2 = (ModuleList(StyledNorm(config, width) for _ in dilations) for _ in range(2))
        self.alpha1, self.alpha2 = (
            ParameterList(new_parameter(ops.ones, 1, width, 1) for _ in dilations) for _ in range(2)
        )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (1, C, T), style (1, S) → (1, C, T)."""
        firsts = zip(self.convs1, self.adain1, self.alpha1, strict=True)
        seconds = zip(self.convs2, self.adain2, self.alpha2, strict=True)
        for pair in zip(firsts, seconds, strict=True):
            y = x
            for convolve, norm, slope in pair:
                y = norm(y, style)
                y = convolve(y + (y * slope).sin().square() / slope)
            x = x + y
        return x


# -- the text


class TextEncoder(Module):
    """Convolutions and a recurrent layer over phonemes."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_dim
        self.embedding = Embedding(config.n_token, width)
        self.cnn = ModuleList(
            Sequential(same(width, width, config.text_encoder_kernel_size), LayerNorm(width))
            for _ in range(config.n_layer)
        )
        self.lstm = both_ways(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (1, T) → (1, T, D)."""
        x = self.embedding(ids)
        for convolve, norm in self.cnn:
            x = ops.leaky_relu(norm(convolve(x.transpose(1, 2)).transpose(1, 2)), SLOPE)
        found: Tensor = self.lstm(x)[0]
        return found


def both_ways(inputs: int, outputs: int) -> LSTM:
    """A recurrent layer that reads forwards and backwards: (1, T, inputs) → (1, T, outputs)."""
    return LSTM(inputs, outputs // 2, batch_first=True, bidirectional=True)


def beside(x: Tensor, style: Tensor) -> Tensor:
    """x (1, T, D), style (1, S) → (1, T, D + S)."""
    return ops.cat([x, style.unsqueeze(1).expand(1, x.shape[1], style.shape[1])], 2)


class DurationEncoder(Module):
    """Recurrent layers and norms by turns, each with the style beside its input."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.lstms, width = ModuleList(), config.hidden_dim
        for _ in range(config.n_layer):
            self.lstms.append(both_ways(width + config.style_dim, width))
            self.lstms.append(StyledLayerNorm(config, width))

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x (1, T, D), style (1, S) → (1, T, D + S)."""
        x = beside(x, style)
        parts = list(self.lstms)
        for read, norm in zip(parts[::2], parts[1::2], strict=True):
            x = beside(norm(read(x)[0], style), style)
        return x


class DurationProjection(Module):
    """Chances that a phoneme still sounds after one frame, two …"""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear_layer = Linear(config.hidden_dim, config.max_dur)


class ProsodyPredictor(Module):
    """How long phonemes sound, and how high and loud a moment is."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = both_ways(width + config.style_dim, width)
        self.duration_proj = DurationProjection(config)
        self.shared = both_ways(width + config.style_dim, width)
        self.F0, self.N = (
            ModuleList([
                StyledBlock(config, width, width),
                StyledBlock(config, width, width // 2, doubles=True),
                StyledBlock(config, width // 2, width // 2),
            ])
            for _ in range(2)
        )  # fmt: skip
        self.F0_proj, self.N_proj = Conv1d(width // 2, 1, 1), Conv1d(width // 2, 1, 1)

    def durations(self, encoded: Tensor) -> Tensor:
        """What the text encoder gives (1, T, D + S) → frames of each phoneme (1, T), not rounded."""
        chances: Tensor = self.duration_proj.linear_layer(self.lstm(encoded)[0]).sigmoid()
        return chances.sum(-1)

    def curves(self, spread: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """spread (1, F, D + S), style (1, S) → the pitch in Hz and the loudness (1, 1, 2 F)."""
        pitch = loudness = self.shared(spread)[0].transpose(1, 2)  # (1, D, F)
        for high, loud in zip(self.F0, self.N, strict=True):
            pitch, loudness = high(pitch, style), loud(loudness, style)
        return self.F0_proj(pitch), self.N_proj(loudness)


# -- sound


class Source(Module):
    """The harmonics of a pitch, with noise, mixed."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.rate, self.scale = config.sample_rate, config.generator.scale
        self.l_linear = Linear(HARMONICS, 1)

    def forward(self, pitch: Tensor, noise: Noise) -> Tensor:
        """pitch (1, M) in Hz → samples (1, M * scale). noise: normal numbers (1, M * scale, HARMONICS)."""
        moments, device = pitch.shape[1], pitch.device
        count = moments * self.scale
        voiced = (pitch > VOICED).to("float32").repeat_interleave(self.scale, dim=1).unsqueeze(2)  # (1, N, 1)
        deviations = voiced * QUIET + (1 - voiced) * (LOUD / 3)
        sines = (self.phases(pitch[0]) * (2 * pi)).sin().unsqueeze(0) * LOUD  # (1, N, HARMONICS)
        mixed = sines * voiced + noise((1, count, HARMONICS)).to(device) * deviations
        found: Tensor = self.l_linear(mixed).tanh().squeeze(2)
        return found

    def phases(self, pitch: Tensor) -> Tensor:
        """pitch (M,) → the phases (M * scale, HARMONICS) of the sines, in cycles: those of the moments' middles, and
        linear between them. Whole cycles are left out, so that float32 is exact enough however long a text is.
        """
        scale, device = self.scale, pitch.device
        harmonics = ops.arange(1, HARMONICS + 1, dtype="float32", device=device)
        steps = (pitch.unsqueeze(1) * harmonics / self.rate).remainder(1.0) * scale  # (M, HARMONICS), of a moment
        middles = steps.remainder(1.0).cumsum(0).remainder(1.0)
        ahead = ops.cat([steps.narrow(0, 1, len(steps) - 1), ops.zeros(1, HARMONICS, device=device)])
        # Twice the samples after the first middle: before it the phase stands still.
        places = (ops.arange(len(steps) * scale, dtype="int64", device=device) * 2 + 1 - scale).clamp(min=0)
        moment = places.div(2 * scale, rounding_mode="floor")
        parts = (places - moment * (2 * scale)).to("float32") / (2 * scale)  # (M * scale,), from 0 to 1
        return middles.index_select(0, moment) + ahead.index_select(0, moment) * parts.unsqueeze(1)


class Generator(Module):
    """ISTFTNet: the spectrum of short windows, by upsampling convolutions that also read that of the source. The
    transforms are the processor's: other devices have none.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        own = config.generator
        self.size, self.hop = own.gen_istft_n_fft, own.gen_istft_hop_size
        self.kinds = len(own.resblock_kernel_sizes)
        bins, width = self.size + 2, own.upsample_initial_channel
        self.m_source = Source(config)
        self.ups, self.resblocks = ModuleList(), ModuleList()
        self.noise_convs, self.noise_res = ModuleList(), ModuleList()
        blocks = [*zip(own.resblock_kernel_sizes, own.resblock_dilation_sizes, strict=True)]
        for i, (rate, taps) in enumerate(zip(own.upsample_rates, own.upsample_kernel_sizes, strict=True)):
            self.ups.append(ConvTranspose1d(width, width // 2, taps, rate, padding=(taps - rate) // 2))
            width //= 2
            self.resblocks.extend(SnakeBlock(config, width, size, dilations) for size, dilations in blocks)
            apart = prod(own.upsample_rates[i + 1 :])  # 1 of the last
            last = i == len(own.upsample_rates) - 1
            reads = Conv1d(bins, width, 1) if last else Conv1d(bins, width, 2 * apart, apart, padding=(apart + 1) // 2)
            self.noise_convs.append(reads)
            self.noise_res.append(SnakeBlock(config, width, 11 if last else 7, (1, 3, 5)))
        self.conv_post = same(width, bins, ENDS)

    def heard(self, pitch: Tensor, noise: Noise, window: Tensor) -> Tensor:
        """The magnitudes and phases (1, size + 2, frames) of the source, through which no gradient goes."""
        with no_grad():
            source = self.m_source(pitch, noise).cpu()
            spectrum = ops.stft(source, self.size, self.hop, window=window, return_complex=True)
            phases = spectrum.angle()
            # The first window is symmetric: its phases are 0, or π or -π as rounding decides.
            first, rest = phases.narrow(2, 0, 1).abs(), phases.narrow(2, 1, phases.shape[2] - 1)
            return ops.cat([spectrum.abs(), ops.cat([first, rest], 2)], 1).to(pitch.device)

    def steps(self, x: Tensor, style: Tensor, pitch: Tensor, noise: Noise) -> Iterator[Tensor | None]:
        """x (1, C, M), style (1, S), pitch (1, M) → None between steps, and at last the samples (1, N)."""
        window = ops.hann_window(self.size)
        heard = self.heard(pitch, noise, window)
        parts = zip(self.noise_convs, self.noise_res, self.ups, strict=True)
        for i, (read, refine, upsample) in enumerate(parts):
            yield None
            added = refine(read(heard), style)  # (1, C', M')
            x = upsample(ops.leaky_relu(x, UPSAMPLING_SLOPE))
            if i == len(self.ups) - 1:  # a window more than moments: the second one is also before the first
                x = ops.cat([x.narrow(2, 1, 1), x], 2)
            x = x + added
            found = []
            for block in list(self.resblocks)[i * self.kinds : (i + 1) * self.kinds]:
                yield None
                found.append(block(x, style))
            x = sum(found[1:], found[0]) / self.kinds
        yield None
        x = self.conv_post(ops.leaky_relu(x, LAST_SLOPE))  # (1, size + 2, frames)
        half = self.size // 2 + 1
        sizes, phases = x.narrow(1, 0, half).exp(), x.narrow(1, half, half).sin()
        yield ops.istft(ops.polar(sizes.cpu(), phases.cpu()), self.size, self.hop, window=window).to(x.device)


class Decoder(Module):
    """Blocks that bring the text, the pitch and the loudness together, and ISTFTNet."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, text, last = config.decoder_dim, config.asr_dim, config.generator.upsample_initial_channel
        self.encode = StyledBlock(config, config.hidden_dim + 2, width)
        self.decode = ModuleList(
            StyledBlock(config, width + 2 + text, last if i == 3 else width, doubles=i == 3) for i in range(4)
        )
        self.F0_conv, self.N_conv = (Conv1d(1, 1, 3, PAIR, padding=1) for _ in range(2))
        self.asr_res = Sequential(Conv1d(config.hidden_dim, text, 1))
        self.generator = Generator(config)

    def steps(
        self, text: Tensor, pitch: Tensor, loudness: Tensor, style: Tensor, noise: Noise
    ) -> Iterator[Tensor | None]:
        """text (1, D, F), pitch and loudness (1, 1, 2 F), style (1, S) → as those of Generator."""
        curves = [self.F0_conv(pitch), self.N_conv(loudness)]  # (1, 1, F)
        x, again = self.encode(ops.cat([text, *curves], 1), style), [self.asr_res(text), *curves]
        for block in self.decode:
            yield None
            x = block(ops.cat([x, *again], 1), style)
        yield from self.generator.steps(x, style, pitch.squeeze(1), noise)


class Kokoro(Module):
    """Speech of phonemes: one text at once, because the norms are over time."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.bert = Albert(config.bert, pooler=False)
        self.bert_encoder = Linear(config.bert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)
        self.decoder = Decoder(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.text_encoder.embedding.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sample_rate

    def read(self, ids: Tensor, style: Tensor, rate: float = 1.0) -> tuple[Tensor, list[int]]:
        """ids (1, T), style (1, 2 S) → what the prosody's encoder gives (1, T, D + S), and the frames of each phoneme.
        ModelError where they are not plausible numbers.
        """
        kind, wanted = type(self).__name__, (1, 2 * self.config.style_dim)
        if ids.ndim != 2 or ids.shape[0] != 1:
            raise ArgumentError(f"{kind}: ids are (1, T), not {describe(ids)}")
        if style.shape != wanted:
            raise ArgumentError(f"{kind}: style is {wanted}, not {describe(style)}")
        encoded: Tensor = self.predictor.text_encoder(self.bert_encoder(self.bert(ids)), self.manner(style))
        [lengths] = (self.predictor.durations(encoded.detach()) / rate).round().clamp(min=1).tolist()
        total = sum(lengths)
        if not total <= MOST_FRAMES:  # NaN is none either
            raise ModelError(
                f"a text would take {total:,.0f} frames, expected at most {MOST_FRAMES:,}",
                hint="Take a shorter text or a higher rate, or a model whose weights were trained",
            )
        return encoded, [int(length) for length in lengths]

    def manner(self, style: Tensor) -> Tensor:
        """The part (1, S) of a style that is about prosody; the other, which stands first, is about sound."""
        return style.narrow(1, self.config.style_dim, self.config.style_dim)

    def curves(self, encoded: Tensor, durations: list[int], style: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The phoneme (F,) of each frame, and the pitch and the loudness (1, 1, 2 F)."""
        spread = [number for number, count in enumerate(durations) for _ in range(count)]
        index = int32_tensor(spread, self.device).to("int64")
        return index, *self.predictor.curves(encoded.index_select(1, index), self.manner(style))

    def steps(
        self, ids: Tensor, style: Tensor, rate: float = 1.0, noise: Noise = lambda shape: ops.randn(*shape)
    ) -> Iterator[Tensor | None]:
        """ids (1, T) of phonemes between two zeros, style (1, 2 S) → None between steps of the work, and at last the
        samples (1, N). rate: 2 is twice as fast. noise: a function that gives normal numbers of a shape.
        """
        encoded, durations = self.read(ids, style, rate)
        yield None
        index, pitch, loudness = self.curves(encoded, durations, style)
        yield None
        text = self.text_encoder(ids).index_select(1, index).transpose(1, 2)  # (1, D, F)
        sound = style.narrow(1, 0, self.config.style_dim)
        yield from self.decoder.steps(text, pitch, loudness, sound, noise)

    def forward(
        self, ids: Tensor, style: Tensor, rate: float = 1.0, noise: Noise = lambda shape: ops.randn(*shape)
    ) -> Tensor:
        """As `steps`, which see → samples (1, N)."""
        *_, samples = self.steps(ids, style, rate, noise)
        assert samples is not None
        return samples


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights."""
    return normed_weights({renamed(name): info for name, info in tensors.items()}, IGNORED)


TASKS = {"text-to-speech": Kokoro}
