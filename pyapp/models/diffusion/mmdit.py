"""The transformer of Stable Diffusion 3 and 3.5 (Esser et al. 2024, arXiv 2403.03206).

Parameters and fields have the names of diffusers' SD3Transformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module, ModuleList
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder

from ..loading.config import check_fields, read_config, require
from .joint import Condition, JointBlock, JointNetwork, LastNorm, check_joint
from .texts import Reader, TextEncoder

WORDS = 256  # tokens of T5
KINDS = (TextEncoder, TextEncoder, T5Encoder)
NORMS = (None, "rms_norm")


@dataclass(frozen=True, kw_only=True)
class MMDiTConfig:
    """The hyper-parameters."""

    sample_size: int = 128
    patch_size: int = 2
    in_channels: int = 16
    out_channels: int | None = 16
    num_layers: int = 18
    attention_head_dim: int = 64
    num_attention_heads: int = 18
    joint_attention_dim: int = 4096
    caption_projection_dim: int = 1152
    pooled_projection_dim: int = 2048
    pos_embed_max_size: int = 96
    dual_attention_layers: tuple[int, ...] = ()
    qk_norm: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_joint(self, self.num_layers)
        width = self.num_attention_heads * self.attention_head_dim
        require(
            self.caption_projection_dim == width,
            f"caption_projection_dim is {self.caption_projection_dim}, the heads have {width} features",
        )
        require(self.out_channels in (None, self.in_channels), f"out_channels is {self.out_channels}")
        require(self.qk_norm in NORMS, f"qk_norm {self.qk_norm!r:.60} is not supported", "Known: rms_norm")
        require(self.patch_size <= 16, f"patch_size is {self.patch_size:,}")
        require(self.sample_size <= 1 << 12, f"sample_size is {self.sample_size:,}")
        require(self.pos_embed_max_size <= 1 << 11, f"pos_embed_max_size is {self.pos_embed_max_size:,}")
        dual = all(type(n) is int and 0 <= n < self.num_layers for n in self.dual_attention_layers)
        require(dual, f"dual_attention_layers is {self.dual_attention_layers!r:.60}, of {self.num_layers} layers")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MMDiTConfig:
        """From the object of a config.json."""
        dual = values.get("dual_attention_layers", ())
        require(isinstance(dual, list | tuple), f"dual_attention_layers is {dual!r:.60}")
        return read_config(cls, {**values, "dual_attention_layers": tuple(dual)})


class Patches(Module):
    """Patches of latents with their positions: those in the middle of a square table."""

    def __init__(self, config: MMDiTConfig, width: int) -> None:
        super().__init__()
        self.most = config.pos_embed_max_size
        self.proj = BlockConv2d(config.in_channels, width, config.patch_size, config.patch_size)
        self.pos_embed = new_parameter(ops.zeros, 1, self.most**2, width)

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W) → (B, T, D)."""
        x = self.proj(latents)  # (B, D, rows, columns)
        rows, columns = x.shape[2:]
        table = self.pos_embed.reshape(self.most, self.most, -1)
        own = table.narrow(0, (self.most - rows) // 2, rows).narrow(1, (self.most - columns) // 2, columns)
        return x.flatten(2).transpose(1, 2) + own.reshape(1, rows * columns, -1)


class MMDiT(JointNetwork):
    """The way from noise to the picture, of noisy latents."""

    def __init__(self, config: MMDiTConfig) -> None:
        super().__init__()
        self.config, self.channels, self.multiple = config, config.in_channels, config.patch_size
        self.most = config.pos_embed_max_size * config.patch_size
        heads = config.num_attention_heads
        width = heads * config.attention_head_dim
        self.pos_embed = Patches(config, width)
        self.time_text_embed = Condition(width, config.pooled_projection_dim)
        self.context_embedder = Linear(config.joint_attention_dim, width)
        last = config.num_layers - 1
        self.transformer_blocks = ModuleList(
            JointBlock(width, heads, config.qk_norm is not None, i == last, i in config.dual_attention_layers)
            for i in range(config.num_layers)
        )
        self.norm_out = LastNorm(width)
        self.proj_out = Linear(width, config.patch_size**2 * config.in_channels)

    @property
    def side(self) -> int:
        found: int = self.config.sample_size
        return found

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return 28, 7.0

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        kinds = tuple(type(reader.encoder) for reader in readers)
        if kinds not in (KINDS, KINDS[:2]):
            raise ModelError(
                "Stable Diffusion 3 reads texts with CLIP (text_encoder, text_encoder_2) and T5 (text_encoder_3)",
                hint="T5 may be missing",
            )
        config, widths = self.config, [reader.width for reader in readers]
        pooled = sum(reader.encoder.pooled_width for reader in readers if isinstance(reader.encoder, TextEncoder))
        wide = config.joint_attention_dim
        require(sum(widths[:2]) <= wide, f"CLIP's states have {sum(widths[:2])} numbers, the transformer reads {wide}")
        for what, given, read in (
            ("T5's states have", widths[2] if len(widths) > 2 else wide, wide),
            ("CLIP's vectors have", pooled, config.pooled_projection_dim),
            ("the autoencoder's latents have", channels, config.in_channels),
        ):
            require(given == read, f"{what} {given} numbers, the transformer reads {read}")

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        found = [reader.clip(prompts) for reader in readers[:2]]
        states = ops.cat([before for before, _, _ in found], 2)  # (N, 77, D')
        wide = self.config.joint_attention_dim
        states = ops.pad(states, (0, wide - states.shape[2]))  # (N, 77, D)
        if len(readers) > 2:
            more = readers[2].t5(prompts, WORDS)
        else:  # as the network was trained where texts were left out
            more = ops.zeros(len(prompts), WORDS, wide, device=states.device)
        return ops.cat([states, more], 1), ops.cat([pooled for _, _, pooled in found], 1)

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None
    ) -> Tensor:
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), its vectors pooled (B, P) → noise
        less picture (B, C, H, W). This network reads no guidance: what is given is ignored.
        """
        self.check(latents, text, pooled)
        batch, channels, height, width = latents.shape
        patch = self.config.patch_size
        x = self.pos_embed(latents)  # (B, T, D)
        condition = self.time_text_embed(time, pooled)
        y = self.context_embedder(text)  # (B, S, D)
        for block in self.transformer_blocks:
            x, y = block(x, y, condition)
        x = self.proj_out(self.norm_out(x, condition))  # (B, T, patch * patch * C)
        x = x.reshape(batch, height // patch, width // patch, patch, patch, channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(batch, channels, height, width)
