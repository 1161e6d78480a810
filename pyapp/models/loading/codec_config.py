"""What the configurations of codecs of sound have in common."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from pyapp.dataclass import dataclass

from .config import FileConfig, check_divides, require

LARGEST, MOST_NUMBERS = 1 << 13, 16  # channels, taps and steps of a convolution; ratios of a codec
MOST_CODEBOOKS, MOST_ENTRIES = 256, 1 << 20
MOST_LAYERS = 32
MODES = ("reflect", "constant", "replicate")
RATES = (100, 1_536_000)  # Hz


def check_numbers(config: Any, *names: str) -> None:
    """ModelError for fields that are not a few whole numbers from 1 to LARGEST."""
    for name in names:
        values = getattr(config, name)
        require(0 < len(values) <= MOST_NUMBERS, f"{name} has {len(values)} entries")
        fits = all(type(value) is int and 0 < value <= LARGEST for value in values)
        require(fits, f"{name} is {values!r:.60}, expected whole numbers up to {LARGEST}")


def check_sizes(config: Any, *names: str) -> None:
    """ModelError for fields above LARGEST."""
    for name in names:
        require(getattr(config, name) <= LARGEST, f"{name} is {getattr(config, name)}, expected at most {LARGEST}")


def check_codec(config: Any) -> None:
    """ModelError for the rate of a codec and the entries of its codebooks."""
    size, (slowest, fastest) = config.codebook_size, RATES
    require(1 < size <= MOST_ENTRIES and size & (size - 1) == 0, f"codebook_size is {size}, expected a power of 2")
    require(slowest <= config.sampling_rate <= fastest, f"sampling_rate is {config.sampling_rate} Hz")


@dataclass(frozen=True, kw_only=True)
class MonoConfig(FileConfig):
    """What configurations of codecs of one channel have in common. `ratios`: the field with the steps of the encoder's
    convolutions.
    """

    ratios: ClassVar[str]

    @property
    def step(self) -> int:
        """Samples of a moment."""
        return prod(getattr(self, self.ratios))

    @property
    def audio_channels(self) -> int:
        """One."""
        return 1


@dataclass(frozen=True, kw_only=True)
class SeanetConfig(FileConfig):
    """The fields of codecs with SEANet's convolutions (pyapp.nn.audio.seanet), and EnCodec's usual values."""

    sampling_rate: int = 24000
    audio_channels: int = 1
    hidden_size: int = 128
    num_filters: int = 32
    num_residual_layers: int = 1
    upsampling_ratios: list[int] = (8, 5, 4, 2)  # type: ignore[assignment]
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: str = "reflect"
    compress: int = 2
    trim_right_ratio: float = 1.0
    codebook_size: int = 1024
    use_conv_shortcut: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "upsampling_ratios")
        check_sizes(self, "hidden_size", "kernel_size", "last_kernel_size", "residual_kernel_size", "compress")
        width = self.num_filters << len(self.upsampling_ratios)
        require(width <= LARGEST, f"num_filters is {self.num_filters}: the last layer would have {width} channels")
        check_divides(self, "compress", "num_filters")
        require(self.num_residual_layers <= MOST_LAYERS, f"num_residual_layers is {self.num_residual_layers}")
        widest = self.dilation_growth_rate ** (self.num_residual_layers - 1)
        require(
            widest <= LARGEST, f"dilation_growth_rate is {self.dilation_growth_rate}: the last dilation is too large"
        )
        require(self.audio_channels <= 2, f"audio_channels is {self.audio_channels}, expected 1 or 2")
        require(self.pad_mode in MODES, f"pad_mode is {self.pad_mode!r:.40}, expected one of {', '.join(MODES)}")
        require(0 <= self.trim_right_ratio <= 1, f"trim_right_ratio is {self.trim_right_ratio}")
        check_codec(self)

    @property
    def step(self) -> int:
        """Samples of a vector of the convolutions."""
        return prod(self.upsampling_ratios)
