"""The fields of encoder_config of models that hear with the encoder of FastConformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass

from .config import check_divides, check_fields, object_of, read_config, require

LARGEST = 1 << 14  # channels, and numbers between matrices


@dataclass(frozen=True, kw_only=True)
class FastConformerConfig:
    """The fields of encoder_config."""

    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 8
    intermediate_size: int = 4096
    hidden_act: str = "silu"
    attention_bias: bool = True
    convolution_bias: bool = True
    conv_kernel_size: int = 9
    subsampling_factor: int = 8
    subsampling_conv_channels: int = 256
    num_mel_bins: int = 80
    subsampling_conv_kernel_size: int = 3
    subsampling_conv_stride: int = 2
    scale_input: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        factor = self.subsampling_factor
        check_divides(self, "num_attention_heads", "hidden_size")
        require(self.subsampling_conv_stride == 2, f"subsampling_conv_stride is {self.subsampling_conv_stride}, not 2")
        require(factor in (2, 4, 8, 16), f"subsampling_factor is {factor}, expected 2, 4, 8 or 16")
        require(
            self.num_mel_bins % factor == 0 and self.num_mel_bins <= 1024,
            f"num_mel_bins is {self.num_mel_bins}, expected a multiple of subsampling_factor {factor}",
        )
        for name in ("conv_kernel_size", "subsampling_conv_kernel_size"):
            kernel = getattr(self, name)
            require(kernel % 2 == 1 and kernel < 1024, f"{name} is {kernel}, expected an odd number")
        channels = self.subsampling_conv_channels
        require(channels <= LARGEST, f"subsampling_conv_channels is {channels:,}, expected at most {LARGEST:,}")

    @classmethod
    def part_of(cls, values: Mapping[str, Any], usual: Mapping[str, Any] = {}) -> Any:
        """From the encoder_config in the object of a config.json, which leaves out what is `usual`."""
        return read_config(cls, {**usual, **object_of(values, "encoder_config")})

    @property
    def halvings(self) -> int:
        """How often the frames are halved."""
        return self.subsampling_factor.bit_length() - 1
