"""The configuration of the audio tokenizers that VibeVoice's models share (nn/audio/causal_convolutions.py)."""

from __future__ import annotations

from math import prod

from pyapp.dataclass import dataclass

from .config import check_fields, require

WIDEST, LONGEST = 1 << 16, 1 << 22  # numbers of a vector, samples of a piece


@dataclass(frozen=True, kw_only=True)
class AudioTokenizerConfig:
    """The fields of the configuration of VibeVoice's encoders and decoder of sound. depths: the blocks before the first
    ratio, and behind each one.
    """

    channels: int = 1
    hidden_size: int = 64
    kernel_size: int = 7
    rms_norm_eps: float = 1e-5
    num_filters: int = 32
    downsampling_ratios: list[int] | tuple[int, ...] = (2, 2, 4, 5, 5, 8)
    depths: list[int] | tuple[int, ...] = (3, 3, 3, 3, 3, 3, 8)
    hidden_act: str = "gelu"
    ffn_expansion: int = 4

    def __post_init__(self) -> None:
        check_fields(self)
        ratios, depths = self.downsampling_ratios, self.depths
        require(self.channels == 1, f"channels is {self.channels}, expected 1")
        for name, given, most in (("downsampling_ratios", ratios, 64), ("depths", depths, 256)):
            plausible = 0 < len(given) <= 16 and all(type(one) is int and 1 <= one <= most for one in given)
            require(plausible, f"{name} is {given!r:.60}, expected up to 16 whole numbers up to {most}")
        require(len(depths) == len(ratios) + 1, f"depths has {len(depths)} numbers, downsampling_ratios {len(ratios)}")
        require(self.kernel_size <= 1 << 10, f"kernel_size is {self.kernel_size:,}")
        widest = max(self.num_filters << len(ratios), self.hidden_size)
        require(widest * self.ffn_expansion <= 4 * WIDEST, f"num_filters {self.num_filters:,} become too many")
        require(self.step <= LONGEST, f"a moment has {self.step:,} samples")

    @property
    def step(self) -> int:
        """The samples of a moment."""
        return prod(self.downsampling_ratios)

    @property
    def reach(self) -> int:
        """How many moments before a sample it can change what the encoder makes of it."""
        filter, step = self.kernel_size - 1, 1
        found = filter * (1 + self.depths[0])
        for ratio, depth in zip(self.downsampling_ratios, self.depths[1:], strict=True):
            found += ratio * step
            step *= ratio
            found += filter * step * depth
        return -(-(found + filter * step) // step)
