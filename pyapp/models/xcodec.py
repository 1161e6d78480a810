"""X-Codec (Ye et al. 2025, arXiv 2408.17175): sound as codes, which know what is said, and back. DAC's encoder and a
HuBERT (or a WavLM) hear a recording side by side; codebooks, of which the nearest entry stands for what those before it
leave over, make codes of both, and DAC's decoder makes sound of these.

Parameters have the names of Hugging Face's files. What reads codes back as HuBERT's states, for training, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, log2, prod
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, Linear, Module, ModuleList
from pyapp.nn.audio.seanet import Quantization
from pyapp.nn.audio.sound_codes import Codes, check_codes, check_samples, count_of_codebooks

from .loading.architectures import architecture
from .loading.codec_config import LARGEST, MOST_CODEBOOKS, check_codec, check_numbers, check_sizes
from .loading.config import FileConfig, object_of, read_config, require
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("xcodec",)
BASE = "xcodec"
IGNORED = r".*\.codebook\.(cluster_size|embed_avg|inited)|decoder_semantic\..*|fc1\..*"
HEARS = ("hubert", "wavlm")
USUAL = {"encoder_hidden_size": 64, "downsampling_ratios": [8, 5, 4, 2], "decoder_hidden_size": 1024}
WIDTH, RATIOS = 256, [8, 5, 4, 2]  # of DAC's vectors, and of its decoder, where the file does not say them


@dataclass(frozen=True, kw_only=True)
class Config(FileConfig):
    """The fields of config.json; acoustic_model_config and semantic_model_config are the objects of the parts."""

    model_type = MODEL_TYPES[0]

    target_bandwidths: list[float] = (0.5, 1, 1.5, 2, 4)  # type: ignore[assignment]
    sample_rate: int = 16000
    kernel_size: int = 3
    channel_ratios: list[float] = (1, 1)  # type: ignore[assignment]
    strides: list[int] = (1, 1)  # type: ignore[assignment]
    block_dilations: list[int] = (1, 1)  # type: ignore[assignment]
    unit_kernel_size: int = 3
    codebook_size: int = 1024
    codebook_dim: int | None = None
    acoustic_model_config: dict[str, Any]
    semantic_model_config: dict[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        parts = {name: object_of(values, name) for name in ("acoustic_model_config", "semantic_model_config")}
        return read_config(cls, {**values, **parts})

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = self.acoustic_model_config.get("model_type", "dac"), self.heard_by
        require(kinds[0] == "dac", f"the codec {kinds[0]!r:.50} in acoustic_model_config is not known", "Known: dac")
        require(kinds[1] in HEARS, f"{kinds[1]!r:.50} in semantic_model_config is not known", f"Known: {HEARS}")
        for name, taps in (("kernel_size", self.kernel_size), ("unit_kernel_size", self.unit_kernel_size)):
            require(taps % 2 == 1 and taps <= LARGEST, f"{name} is {taps}, expected an odd number up to {LARGEST}")
        check_numbers(self, "strides", "block_dilations")
        shares, width = self.channel_ratios, self.semantic.hidden_size
        plausible = all(type(share) in (int, float) and 0 < share * width <= LARGEST for share in shares)
        require(plausible and len(shares) == len(self.strides), f"channel_ratios is {shares!r:.60}")
        require(int(shares[-1] * width) == width, f"channel_ratios ends with {shares[-1]}, expected 1")
        rates = self.target_bandwidths
        plausible = 0 < len(rates) <= 64 and all(type(one) in (int, float) and 0 < one <= 1e6 for one in rates)
        require(plausible, f"target_bandwidths is {rates!r:.60}, expected numbers above 0")
        width, ratios = self.acoustic_width, self.upsampling_ratios
        require(type(width) is int and 0 < width <= LARGEST, f"hidden_size of acoustic_model_config is {width!r:.40}")
        plausible = isinstance(ratios, list) and all(type(one) is int and one > 0 for one in ratios)
        require(plausible and prod(ratios) == self.step, f"upsampling_ratios is {ratios!r:.60}, a step {self.step}")
        halves = 1 << len(ratios)
        require(
            self.acoustic.decoder_hidden_size % halves == 0,
            f"decoder_hidden_size is {self.acoustic.decoder_hidden_size}, expected a multiple of {halves}",
        )
        require(self.heard_step == self.step, f"moments of {self.heard_step} and {self.step} samples do not fit")
        check_codec(self)
        dimensions = self.codebook_dim or self.width
        require(dimensions == self.width, f"codebook_dim is {self.codebook_dim}, the parts make {self.width}")
        check_sizes(self, "width")
        count = self.num_quantizers
        require(1 <= count <= MOST_CODEBOOKS, f"target_bandwidths ends with {rates[-1]}: {count} codebooks")

    @property
    def heard_by(self) -> Any:
        """The architecture that hears what is said."""
        return self.semantic_model_config.get("model_type", HEARS[0])

    @property
    def acoustic(self) -> Any:
        """The configuration of DAC."""
        own = {name: self.acoustic_model_config.get(name) for name in USUAL}
        return architecture("dac").Config.from_dict(
            {**USUAL, **{key: one for key, one in own.items() if one is not None}}
        )

    @property
    def semantic(self) -> Any:
        """The configuration of what hears what is said."""
        return architecture(self.heard_by).Config.from_dict(self.semantic_model_config)

    @property
    def acoustic_width(self) -> int:
        """The numbers of DAC's vectors."""
        return self.acoustic_model_config.get("hidden_size") or WIDTH

    @property
    def upsampling_ratios(self) -> Any:
        """The steps of DAC's decoder."""
        return self.acoustic_model_config.get("upsampling_ratios") or RATIOS

    @property
    def width(self) -> int:
        """The numbers of a moment."""
        found: int = self.acoustic_width + self.semantic.hidden_size
        return found

    @property
    def step(self) -> int:
        """Samples of a moment."""
        return prod(self.acoustic.downsampling_ratios)

    @property
    def heard_step(self) -> int:
        """The same of what hears what is said."""
        found: int = self.semantic.samples_per_moment * prod(self.strides)
        return found

    @property
    def num_quantizers(self) -> int:
        """The codebooks."""
        bits = ceil(self.sample_rate / self.step) * ceil(log2(self.codebook_size))
        return int(1000 * self.target_bandwidths[-1] // bits)

    @property
    def sampling_rate(self) -> int:
        """Samples a second."""
        return self.sample_rate

    @property
    def audio_channels(self) -> int:
        """One."""
        return 1


class Unit(Module):
    """A dilated convolution and one of single moments, each after an ELU, with a residual."""

    def __init__(self, width: int, taps: int, dilation: int) -> None:
        super().__init__()
        side = (taps - 1) // 2 * dilation
        self.conv1 = Conv1d(width, width, taps, dilation=dilation, padding=side, bias=False)
        self.conv2 = Conv1d(width, width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T)."""
        return x + self.conv2(ops.elu(self.conv1(ops.elu(x))))


class Block(Module):
    """Units, and a convolution that may leave fewer moments."""

    def __init__(self, config: Config, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.res_units = ModuleList(Unit(inputs, config.unit_kernel_size, far) for far in config.block_dilations)
        taps = 3 if stride == 1 else 2 * stride
        self.conv = Conv1d(inputs, outputs, taps, stride, padding=(taps - 1) // 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C', T / stride)."""
        for unit in self.res_units:
            x = unit(x)
        return self.conv(x)


class SemanticEncoder(Module):
    """What is said, in vectors that stand beside DAC's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.semantic.hidden_size
        self.conv = Conv1d(width, width, config.kernel_size, padding=config.kernel_size // 2, bias=False)
        widths = [width, *(int(width * share) for share in config.channel_ratios)]
        self.conv_blocks = ModuleList(
            Block(config, widths[i], widths[i + 1], stride) for i, stride in enumerate(config.strides)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C, T')."""
        x = self.conv(x)
        for block in self.conv_blocks:
            x = block(x)
        return x


class XCodec(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        dac, width = architecture("dac"), config.width
        self.acoustic_encoder = dac.Encoder(config.acoustic, config.acoustic_width)
        ratios = config.upsampling_ratios
        self.acoustic_decoder = dac.Decoder(config.acoustic, config.acoustic_width, ratios, whole=True)
        self.semantic_model = architecture(config.heard_by).encoder(config.semantic)
        self.encoder_semantic = SemanticEncoder(config)
        self.fc, self.fc2 = Linear(width, width), Linear(width, config.acoustic_width)
        self.quantizer = Module()
        self.quantizer.quantizers = ModuleList(
            Quantization(config.codebook_size, width) for _ in range(config.num_quantizers)
        )

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.fc.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sample_rate

    def vectors(self, samples: Tensor) -> Tensor:
        """samples (B, 1, N) → what both parts hear (B, width, T)."""
        side = self.config.step // 2
        padded, states = ops.pad(samples, (side, side)), list[Tensor]()
        self.semantic_model(padded.squeeze(1), None, states)
        said = self.encoder_semantic(ops.stack(states).mean(0).transpose(1, 2))
        given = samples if self._moments(samples.shape[2]) == said.shape[2] else padded
        both = ops.cat([self.acoustic_encoder(given), said], 1)
        return self.fc(both.transpose(1, 2)).transpose(1, 2)

    def _moments(self, samples: int) -> int:
        """The vectors that DAC's encoder makes of so many samples."""
        for stride in self.config.acoustic.downsampling_ratios:
            samples = (samples + 2 * -(-stride // 2) - 2 * stride) // stride + 1
        return samples

    def encode(self, samples: Tensor, codebooks: int | None = None) -> Codes:
        """samples (B, 1, N) at the model's rate → their codes by the first so many codebooks (None: all)."""
        kind = type(self).__name__
        check_samples(kind, samples, 1)
        count, found = count_of_codebooks(kind, codebooks, self.config.num_quantizers), []
        if samples.shape[2] < self.config.step:
            raise ArgumentError(f"{kind}: {samples.shape[2]} samples are less than a moment, {self.config.step}")
        with no_grad():
            x = self.vectors(samples).transpose(1, 2)  # (B, T, width)
            for book in [*self._books][:count]:
                found.append(book.encode(x))
                x = x - book.decode(found[-1])
            return Codes((ops.stack(found, 1),), (None,))

    @property
    def _books(self) -> list[Any]:
        quantizers: Any = self.quantizer.quantizers
        return [part.codebook for part in quantizers]

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, 1, N) of codes, at most `length`."""
        kind = type(self).__name__
        check_codes(kind, codes, self.config.num_quantizers, self.config.codebook_size)
        if len(codes.chunks) != 1:
            raise ArgumentError(f"{kind}: there are {len(codes.chunks)} chunks, expected 1")
        [chunk] = codes.chunks
        parts = [book.decode(chunk.select(1, i)) for i, book in enumerate(self._books[: chunk.shape[1]])]
        x = self.fc2(sum(parts[1:], parts[0]))
        found: Tensor = self.acoustic_decoder(x.transpose(1, 2))
        return found if length is None else found.narrow(2, 0, min(length, found.shape[2]))

    def forward(self, samples: Tensor, codebooks: int | None = None) -> tuple[Codes, Tensor]:
        """samples (B, 1, N) → their codes, and the samples of these (B, 1, N)."""
        codes = self.encode(samples, codebooks)
        return codes, self.decode(codes, samples.shape[2])


def renamed(name: str) -> str:
    """The model's name of a file's tensor: norms of weights, within what hears, have today's names."""
    return re.sub(
        r"^(semantic_model\..*)\.weight_([gv])$",
        lambda found: f"{found[1]}.parametrizations.weight.original{int(found[2] == 'v')}", name,
    )  # fmt: skip


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights: those of DAC's parts may have norms."""
    return normed_weights(tensors, r"semantic_model\..*")


TASKS = {"audio-codec": XCodec}
