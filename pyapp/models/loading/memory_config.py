"""The fields of config.json of Segment Anything 2's memory of videos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.layers.gated import activation_named

from .config import as_object, check_fields, read_config, require
from .pictures_config import WIDEST

STRIDE = 16  # pixels of a place's side in the coarsest map


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """The hyper-parameters of the memory. `width` and `grid` are those of the map that the decoder reads."""

    width: int
    grid: tuple[int, int]
    num_maskmem: int = 7
    sigmoid_scale_for_mem_enc: float = 20.0
    sigmoid_bias_for_mem_enc: float = -10.0
    enable_occlusion_spatial_embedding: bool = True
    multimask_output_in_sam: bool = True
    multimask_min_pt_num: int = 0
    multimask_max_pt_num: int = 1
    multimask_output_for_tracking: bool = True
    max_object_pointers_in_encoder: int = 16
    enable_temporal_pos_encoding_for_object_pointers: bool = True
    memory_attention_num_layers: int = 4
    memory_attention_num_attention_heads: int = 1
    memory_attention_downsample_rate: int = 1
    memory_attention_feed_forward_hidden_size: int = 2048
    memory_attention_feed_forward_hidden_act: str = "relu"
    memory_encoder_output_channels: int = 64
    mask_downsampler_kernel_size: int = 3
    mask_downsampler_stride: int = 2
    mask_downsampler_padding: int = 1
    mask_downsampler_hidden_act: str = "gelu"
    memory_fuser_num_layers: int = 2
    memory_fuser_intermediate_dim: int = 1024
    memory_fuser_kernel_size: int = 7
    memory_fuser_padding: int = 3
    memory_fuser_hidden_act: str = "gelu"
    rope_theta: float = 10000.0

    def __post_init__(self) -> None:
        check_fields(self)
        width, kept = self.width, self.memory_encoder_output_channels
        inner = width // self.memory_attention_downsample_rate
        fits = inner > 0 and inner % (4 * self.memory_attention_num_attention_heads) == 0
        require(fits, f"{self.memory_attention_num_attention_heads} heads do not divide {inner} by multiples of 4")
        fits = kept <= width and width % kept == 0 and kept % 4 == 0
        require(fits, f"memory_encoder_output_channels is {kept}, of {width} channels")
        for name in ("memory_attention_feed_forward_hidden_size", "memory_fuser_intermediate_dim"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}")
        for name, most in (
            ("num_maskmem", 256), ("max_object_pointers_in_encoder", 1 << 12), ("memory_attention_num_layers", 256),
            ("memory_fuser_num_layers", 256), ("memory_fuser_kernel_size", 63),
        ):  # fmt: skip
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name):,}")
        require(
            self.memory_fuser_kernel_size == 2 * self.memory_fuser_padding + 1,
            f"memory_fuser_kernel_size is {self.memory_fuser_kernel_size}, its padding {self.memory_fuser_padding}",
        )
        given = self.mask_downsampler_kernel_size, self.mask_downsampler_stride, self.mask_downsampler_padding
        require(given == (3, 2, 1), f"filters of masks of the kernel, stride and padding {given} are not supported")
        for name in ("memory_attention_feed_forward", "mask_downsampler", "memory_fuser"):
            activation_named(getattr(self, f"{name}_hidden_act"))
        require(1 < self.rope_theta < 1e9, f"rope_theta is {self.rope_theta}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], width: int, side: int) -> MemoryConfig:
        """From the object of a config.json; side: of pictures, in pixels. ModelError for a memory of another kind."""
        grid = side // STRIDE, side // STRIDE
        for name in (
            "memory_attention_hidden_size", "memory_encoder_hidden_size", "mask_downsampler_embed_dim",
            "memory_fuser_embed_dim",
        ):  # fmt: skip
            given = values.get(name, 256)
            require(given == width, f"{name} is {given!r:.60}, the maps have {width} channels")
        given = values.get("memory_attention_rope_feat_sizes", [64, 64])
        require(
            isinstance(given, list | tuple) and tuple(given) == grid,
            f"memory_attention_rope_feat_sizes is {given!r:.60}, the map has {grid[0]} rows and columns",
        )
        strides = values.get("mask_downsampler_total_stride", STRIDE)
        require(strides == STRIDE, f"mask_downsampler_total_stride {strides!r:.60} is not supported, only {STRIDE}")
        conditions = values.get("max_cond_frame_num", -1)
        require(type(conditions) is int, f"max_cond_frame_num is {conditions!r:.60}")
        rotary = as_object(values.get("rope_parameters") or {}, "rope_parameters")
        theta = rotary.get("rope_theta", values.get("memory_attention_rope_theta", 10000.0))
        return read_config(cls, {**values, "width": width, "grid": grid, "rope_theta": theta})
