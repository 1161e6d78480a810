"""PixArt-Sigma (Chen et al. 2024, arXiv 2403.04692): a transformer over the places of a picture, which read the states
of T5 by attention.

Parameters and fields have the names of diffusers' PixArtTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Module, ModuleList
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder

from ..loading.config import check_fields, read_config, require
from .crossed import Attention, CrossedNetwork, Patches, TextProjection, TimeOfAll, check_crossed, mask_of
from .joint import FeedForward
from .texts import Reader

WORDS = 300  # tokens of a prompt
CONDITIONED = 128  # the sample_size whose networks read the size of the picture, where their files do not say it


@dataclass(frozen=True, kw_only=True)
class PixArtConfig:
    """The hyper-parameters."""

    num_attention_heads: int = 16
    attention_head_dim: int = 72
    in_channels: int = 4
    out_channels: int | None = 8
    num_layers: int = 28
    cross_attention_dim: int | None = 1152
    attention_bias: bool = True
    sample_size: int = 128
    patch_size: int = 2
    norm_eps: float = 1e-6
    interpolation_scale: float | None = None
    caption_channels: int = 4096

    def __post_init__(self) -> None:
        check_fields(self)
        check_crossed(self, ("in_channels", "cross_attention_dim", "caption_channels"))
        width = self.num_attention_heads * self.attention_head_dim
        read = self.cross_attention_dim
        require(read in (None, width), f"cross_attention_dim is {read}, the places have {width} features")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PixArtConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in (
            ("norm_type", "ada_norm_single"), ("activation_fn", "gelu-approximate"), ("attention_type", "default"),
            ("norm_elementwise_affine", False),
        ):  # fmt: skip
            given = values.get(name, known)
            require(given == known, f"{name} {given!r:.60} is not supported")
        sized = values.get("use_additional_conditions")
        sized = values.get("sample_size", cls.sample_size) == CONDITIONED if sized is None else sized
        require(not sized, "a network that reads the size of the picture, as PixArt-Alpha, is not supported")
        return read_config(cls, values)


class Block(Module):
    """Attention to the places, attention to the text, and a feed-forward part."""

    def __init__(self, config: PixArtConfig, width: int) -> None:
        super().__init__()
        heads, bias = config.num_attention_heads, config.attention_bias
        self.norm1, self.norm2 = (LayerNorm(width, config.norm_eps, elementwise_affine=False) for _ in range(2))
        self.attn1, self.attn2 = (Attention(width, heads, width, bias=bias) for _ in range(2))
        self.ff = FeedForward(width)
        self.scale_shift_table = new_parameter(ops.zeros, 6, width)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor | None, vectors: Tensor) -> Tensor:
        """x (B, T, D), text (B, S, D), vectors (B, 6, D) → (B, T, D)."""
        shift, scale, gate, shift2, scale2, gate2 = ops.chunk(self.scale_shift_table + vectors, 6, 1)  # (B, 1, D)
        x = x + self.attn1(self.norm1(x) * (1 + scale) + shift) * gate
        x = x + self.attn2(x, text, mask)
        return x + self.ff(self.norm2(x) * (1 + scale2) + shift2) * gate2


class PixArt(CrossedNetwork):
    """The way from noise to the picture, of noisy latents."""

    def __init__(self, config: PixArtConfig) -> None:
        super().__init__()
        self.config, self.channels, self.multiple = config, config.in_channels, config.patch_size
        self.text_width = config.caption_channels
        width, size = config.num_attention_heads * config.attention_head_dim, config.sample_size
        stretch = config.interpolation_scale or max(size // 64, 1)
        self.pos_embed = Patches(
            config.in_channels, width, config.patch_size, max(size // config.patch_size, 1), stretch
        )
        self.transformer_blocks = ModuleList(Block(config, width) for _ in range(config.num_layers))
        self.adaln_single = TimeOfAll(width)
        self.caption_projection = TextProjection(config.caption_channels, width)
        self.last(width, config.in_channels if config.out_channels is None else config.out_channels)

    @property
    def side(self) -> int:
        found: int = self.config.sample_size
        return found

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return 20, 4.5

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader("PixArt", readers, T5Encoder, self.text_width, channels, self.channels)

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) of prompts in small letters, and how many are those of each one (N,)."""
        return readers[0].language(readers[0].rows([prompt.lower().strip() for prompt in prompts], WORDS))

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None
    ) -> Tensor:
        """latents (B, C, H, W) at the times (B,) or (1,), text (B, S, D), pooled (B,) integers: how many tokens each
        text has → the noise in them (B, C, H, W). This network reads no guidance: what is given is ignored.
        """
        self.check(latents, text, pooled)
        rows, columns = (side // self.multiple for side in latents.shape[2:])
        x, y, mask = self.pos_embed(latents), self.caption_projection(text), mask_of(pooled, text.shape[1])
        vectors, own = self.adaln_single(time)
        for block in self.transformer_blocks:
            x = block(x, y, mask, vectors)
        return self.ended(x, own, rows, columns)
