"""The fields of config.json of Segment Anything's prompts and masks."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import check_fields, require
from .pictures_config import WIDEST

LAYER_RATE = 2  # of the layers' attention in SAM, whatever the configuration says of the last one's


@dataclass(frozen=True, kw_only=True)
class PromptConfig:
    """The fields of prompt_encoder_config."""

    hidden_size: int = 256
    image_size: int | None = None
    patch_size: int | None = None
    mask_input_channels: int = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        channels = self.mask_input_channels
        require(channels % 4 == 0 and channels <= WIDEST, f"mask_input_channels is {channels:,}")


@dataclass(frozen=True, kw_only=True)
class MaskConfig:
    """The fields of mask_decoder_config."""

    hidden_size: int = 256
    hidden_act: str = "relu"
    mlp_dim: int = 2048
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    attention_downsample_rate: int = 2
    num_multimask_outputs: int = 3
    iou_head_depth: int = 3
    iou_head_hidden_dim: int = 256
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        for rate in (LAYER_RATE, self.attention_downsample_rate):
            inner = self.hidden_size // rate
            fits = inner > 0 and inner % self.num_attention_heads == 0
            require(fits, f"{self.num_attention_heads} heads do not divide {inner}")
        require(self.hidden_size % 8 == 0, f"hidden_size is {self.hidden_size}, expected a multiple of 8")
        require(max(self.mlp_dim, self.iou_head_hidden_dim) <= WIDEST, "the mask decoder is too wide")
        require(max(self.num_multimask_outputs, self.iou_head_depth) <= 64, "the mask decoder is implausible")
