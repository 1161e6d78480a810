"""DAC (Kumar et al. 2023, arXiv 2306.06546): sound as codes, a few numbers for each moment, and back.

Convolutions with Snake activations (Ziyin et al. 2020, arXiv 2006.08195) make vectors of sound. Each codebook looks for
the entry that points the same way as what those before it leave over, in few dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.errors import ArgumentError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import Conv1d, ConvTranspose1d, Module, ModuleList
from pyapp.nn.audio.sound_codes import Codes, DirectionQuantizer, Snake, check_codes, check_samples, count_of_codebooks

from .loading.codec_config import LARGEST, MOST_CODEBOOKS, MonoConfig, check_codec, check_numbers, check_sizes
from .loading.config import check_fields, require
from .loading.stored import Stored
from .loading.weight_norms import normed_weights

MODEL_TYPES = ("dac", "dac_on_the_hub")
BASE = "dac"
# What files of the library dac say, beside which its sizes are the usual ones: each field, and its name here.
LIBRARY = {"num_codebooks": "n_codebooks", "codebook_size": "codebook_size", "sampling_rate": "sampling_rate"}
LIBRARY_RATE = 44100
UNIT = {"0": "snake1", "1": "conv1", "2": "snake2", "3": "conv2"}  # the layers of a residual unit in its files
DILATIONS = (1, 3, 9)
WINDOW = 128  # moments whose sound is made at once
ENDS, LAST = 7, 3  # taps of the first and last convolutions; of the encoder's last


@dataclass(frozen=True, kw_only=True)
class Config(MonoConfig):
    """The fields of config.json."""

    model_type = MODEL_TYPES[0]
    ratios = "downsampling_ratios"

    encoder_hidden_size: int = 64
    downsampling_ratios: list[int] = (2, 4, 8, 8)  # type: ignore[assignment]
    decoder_hidden_size: int = 1536
    n_codebooks: int = 9
    codebook_size: int = 1024
    codebook_dim: int = 8
    sampling_rate: int = 16000

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, of transformers or of the library dac (as Parler-TTS keeps its codec)."""
        if "num_codebooks" not in values:
            return super().from_dict(values)
        own = {"sampling_rate": LIBRARY_RATE} | {new: values[old] for old, new in LIBRARY.items() if old in values}
        found = super().from_dict({**values, **own})
        width = values.get("latent_dim", found.hidden_size)
        require(width == found.hidden_size, f"latent_dim is {width!r:.40}, the encoder makes {found.hidden_size}")
        return found

    def __post_init__(self) -> None:
        check_fields(self)
        ratios = self.downsampling_ratios
        check_numbers(self, "downsampling_ratios")
        widest = self.hidden_size
        require(widest <= LARGEST, f"encoder_hidden_size {self.encoder_hidden_size} makes {widest} channels")
        check_sizes(self, "decoder_hidden_size", "codebook_dim")
        halves = 1 << len(ratios)
        require(
            self.decoder_hidden_size % halves == 0,
            f"decoder_hidden_size is {self.decoder_hidden_size}, expected a multiple of {halves}",
        )
        require(self.n_codebooks <= MOST_CODEBOOKS, f"n_codebooks is {self.n_codebooks}")
        check_codec(self)

    @property
    def hidden_size(self) -> int:
        """Features of a moment."""
        return self.encoder_hidden_size << len(self.downsampling_ratios)


class ResidualUnit(Module):
    """A dilated convolution and one of each moment, with a residual."""

    def __init__(self, width: int, dilation: int, activation: Callable[[int], Module] = Snake) -> None:
        super().__init__()
        self.snake1, self.snake2 = activation(width), activation(width)
        self.conv1 = Conv1d(width, width, ENDS, dilation=dilation, padding=(ENDS - 1) * dilation // 2)
        self.conv2 = Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, C, N)."""
        return x + self.conv2(self.snake2(self.conv1(self.snake1(x))))


class EncoderBlock(Module):
    """Residual units, and a convolution that makes a sound shorter by `stride`."""

    def __init__(self, width: int, stride: int, activation: Callable[[int], Module] = Snake) -> None:
        super().__init__()
        self.res_unit1, self.res_unit2, self.res_unit3 = (
            ResidualUnit(width, dilation, activation) for dilation in DILATIONS
        )
        self.snake1 = activation(width)
        self.conv1 = Conv1d(width, 2 * width, 2 * stride, stride, padding=-(-stride // 2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, N) → (B, 2 C, N / stride)."""
        return self.conv1(self.snake1(self.res_unit3(self.res_unit2(self.res_unit1(x)))))


class DecoderBlock(Module):
    """A convolution that makes a sound longer by `stride`, and residual units. whole: an odd stride loses no sample."""

    def __init__(self, width: int, stride: int, whole: bool = False) -> None:
        super().__init__()
        self.snake1 = Snake(width)
        self.conv_t1 = ConvTranspose1d(
            width, width // 2, 2 * stride, stride, padding=-(-stride // 2), output_padding=stride % 2 if whole else 0
        )
        self.res_unit1, self.res_unit2, self.res_unit3 = (ResidualUnit(width // 2, dilation) for dilation in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) → (B, C / 2, T * stride)."""
        return self.res_unit3(self.res_unit2(self.res_unit1(self.conv_t1(self.snake1(x)))))


class Encoder(Module):
    """Sound (B, 1, N) → vectors of moments (B, D, T). outputs: D; None: as many as the last block has. activation:
    makes one for a number of channels.
    """

    def __init__(
        self, config: Config, outputs: int | None = None, activation: Callable[[int], Module] = Snake
    ) -> None:  # fmt: skip
        super().__init__()
        width = config.encoder_hidden_size
        self.conv1 = Conv1d(1, width, ENDS, padding=ENDS // 2)
        self.block = ModuleList(
            EncoderBlock(width << i, stride, activation) for i, stride in enumerate(config.downsampling_ratios)
        )  # fmt: skip
        self.snake1 = activation(config.hidden_size)
        self.conv2 = Conv1d(config.hidden_size, outputs or config.hidden_size, LAST, padding=LAST // 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        return self.conv2(self.snake1(x))


class Decoder(Module):
    """Vectors of moments (B, D, T) → sound (B, 1, N) from -1 to 1. inputs: D; `ratios`: of the blocks; None: those of
    the encoder backwards. whole: a moment has all of its samples, and these have no limits.
    """

    def __init__(
        self, config: Config, inputs: int | None = None, ratios: Sequence[int] | None = None, whole: bool = False
    ) -> None:
        super().__init__()
        width, ratios = config.decoder_hidden_size, ratios or [*reversed(config.downsampling_ratios)]
        self.whole = whole
        self.conv1 = Conv1d(inputs or config.hidden_size, width, ENDS, padding=ENDS // 2)
        self.block = ModuleList(DecoderBlock(width >> i, stride, whole) for i, stride in enumerate(ratios))
        self.snake1 = Snake(width >> len(ratios))
        self.conv2 = Conv1d(width >> len(ratios), 1, ENDS, padding=ENDS // 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.block:
            x = block(x)
        x = self.conv2(self.snake1(x))
        return x if self.whole else x.tanh()


class ResidualQuantizer(Module):
    """Codebooks one after the other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.quantizers = ModuleList(
            DirectionQuantizer(config.hidden_size, config.codebook_size, config.codebook_dim)
            for _ in range(config.n_codebooks)
        )

    def encode(self, x: Tensor, count: int) -> Tensor:
        """x (B, D, T) → codes (B, count, T) int64."""
        found = []
        for quantizer in [*self.quantizers][:count]:
            numbers = quantizer.encode(x)
            x = x - quantizer.decode(numbers)
            found.append(numbers)
        return ops.stack(found, 1)

    def decode(self, codes: Tensor) -> Tensor:
        """codes (B, count, T) → (B, D, T)."""
        parts = [self.quantizers[i].decode(codes.select(1, i)) for i in range(codes.shape[1])]
        return sum(parts[1:], parts[0])


class Dac(Module):
    """Sound to codes, and codes to sound."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.quantizer = ResidualQuantizer(config)

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        return self.encoder.conv1.weight.device

    @property
    def sample_rate(self) -> int:
        """Samples a second."""
        return self.config.sampling_rate

    def encode(self, samples: Tensor, codebooks: int | None = None) -> Codes:
        """samples (B, 1, N) at the model's rate → their codes by the first so many codebooks (None: all). The sound
        ends with zeros, up to a whole number of moments.
        """
        kind, most = type(self).__name__, self.config.n_codebooks
        check_samples(kind, samples, 1)
        count = count_of_codebooks(kind, codebooks, most)
        with no_grad():
            whole = ops.pad(samples, (0, -samples.shape[2] % self.config.step))
            return Codes((self.quantizer.encode(self.encoder(whole), count),), (None,))

    def decode(self, codes: Codes, length: int | None = None) -> Tensor:
        """The samples (B, 1, N) of codes, at most `length`: there may be a few more than were encoded."""
        kind = type(self).__name__
        check_codes(kind, codes, self.config.n_codebooks, self.config.codebook_size)
        if len(codes.chunks) != 1:
            raise ArgumentError(f"{kind}: there are {len(codes.chunks)} chunks, expected 1")
        found: Tensor = self.decoder(self.quantizer.decode(codes.chunks[0]))
        return found if length is None else found.narrow(2, 0, min(length, found.shape[2]))

    def in_windows(self, codes: Codes, window: int = WINDOW) -> Iterator[Tensor]:
        """The samples (B, 1, N) of `decode` in parts of `window` moments, each computed with the moments around it that
        it hears: memory grows with a part, and others may work between two parts.
        """
        check_codes(type(self).__name__, codes, self.config.n_codebooks, self.config.codebook_size)
        [chunk] = codes.chunks
        total, step, margin = chunk.shape[2], self.config.step, self.margin
        for start in range(0, total, window):
            first, end = max(0, start - margin), min(total, start + window)
            part = chunk.narrow(2, first, min(total, end + margin) - first)
            found = self.decoder(self.quantizer.decode(part))
            before = (start - first) * step
            # A step of odd length makes a sound that is shorter by one, at its end.
            count = found.shape[2] - before if end == total else (end - start) * step
            yield found.narrow(2, before, count)

    @property
    def margin(self) -> int:
        """The moments before and after one that its samples depend on."""
        found, rate = float(ENDS // 2), 1
        for stride in reversed(self.config.downsampling_ratios):
            found += 1 / rate  # of the transposed convolution
            rate *= stride
            found += sum(DILATIONS) * (ENDS // 2) / rate
        return ceil(found + ENDS // 2 / rate) + 1

    def forward(self, samples: Tensor, codebooks: int | None = None) -> tuple[Codes, Tensor]:
        """samples (B, 1, N) → their codes, and the samples of these (B, 1, N)."""
        codes = self.encode(samples, codebooks)
        return codes, self.decode(codes, samples.shape[2])


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """How files store weights, of transformers or of the library dac."""
    found = normed_weights(tensors, "")
    normed = {name for plan in found.values() for name in plan.names}
    found |= {name: Stored((name,)) for name in tensors if name not in normed}
    return {_in_words(name): plan for name, plan in found.items()}


def _in_words(name: str) -> str:
    """The name of a parameter that is `name` in a file of the library dac, whose layers are lists: encoder.block,
    decoder.model. Other names stay as they are.
    """
    name = name.removeprefix("model.")
    match = re.fullmatch(r"(encoder\.block|decoder\.model)\.(\d+)\.(.*)", name)
    if match is None:
        return name
    stack, number, rest = match[1], int(match[2]), match[3]
    side = stack.split(".")[0]
    if "." not in rest:  # what stands before the blocks and after them
        layer = "snake1" if rest == "alpha" else "conv1" if not number else "conv2"
        return f"{side}.{layer}.{rest}"
    inner = re.fullmatch(r"block\.(\d)\.(?:block\.([0-3])\.)?(\w+)", rest)
    if inner is None:
        return name
    place, layer, last = int(inner[1]), inner[2], inner[3]
    first = 0 if side == "encoder" else 2  # the first residual unit
    if layer is not None:
        part = f"res_unit{place - first + 1}.{UNIT[layer]}"
    else:
        part = "snake1" if last == "alpha" else "conv1" if side == "encoder" else "conv_t1"
    return f"{side}.block.{number - 1}.{part}.{last}"


TASKS = {"audio-codec": Dac}
