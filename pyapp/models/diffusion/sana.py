"""Sana (Xie et al. 2024, arXiv 2410.10629): a transformer whose attention among places is linear, with filters in its
feed-forward parts. The places read the states of a language model, Gemma 2, by attention.

Parameters and fields have the names of diffusers' SanaTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Module, ModuleList, RMSNorm
from pyapp.nn.parameter import new_parameter

from ..loading.config import check_fields, read_config, require
from .crossed import Attention, CrossedNetwork, Patches, TextProjection, TimeOfAll, check_crossed, mask_of
from .deep_autoencoder import GatedFilters
from .texts import LanguageEncoder, Reader
from .unet import WIDEST

EPSILON = 1e-5  # of the norm of the text
NEARLY_NOTHING = 1e-15  # what a sum of scores has more, at least
NORMS = (None, "rms_norm_across_heads")
WORDS = 300  # tokens of a prompt
# The instruction that the network was trained with, before each prompt, though not before the negative one.
INSTRUCTION = "\n".join((
    "Given a user prompt, generate an 'Enhanced prompt' that provides detailed visual descriptions suitable for image "
    "generation. Evaluate the level of detail in the user prompt:",
    "- If the prompt is simple, focus on adding specifics about colors, shapes, sizes, textures, and spatial "
    "relationships to create vivid and concrete scenes.",
    "- If the prompt is already detailed, refine and enhance the existing details slightly without overcomplicating.",
    "Here are examples of how to transform or refine prompts:",
    "- User Prompt: A cat sleeping -> Enhanced: A small, fluffy white cat curled up in a round shape, sleeping "
    "peacefully on a warm sunny windowsill, surrounded by pots of blooming red flowers.",
    "- User Prompt: A busy city street -> Enhanced: A bustling city street scene at dusk, featuring glowing street "
    "lamps, a diverse crowd of people in colorful clothing, and a double-decker bus passing by towering glass "
    "skyscrapers.",
    "Please generate only the enhanced description for the prompt below and avoid including any additional commentary "
    "or evaluations:",
    "User Prompt: ",
))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SanaConfig:
    """The hyper-parameters."""

    in_channels: int = 32
    out_channels: int | None = 32
    num_attention_heads: int = 70
    attention_head_dim: int = 32
    num_layers: int = 20
    num_cross_attention_heads: int = 20
    cross_attention_head_dim: int = 112
    cross_attention_dim: int = 2240
    caption_channels: int = 2304
    mlp_ratio: float = 2.5
    attention_bias: bool = False
    sample_size: int = 32
    patch_size: int = 1
    norm_eps: float = 1e-6
    interpolation_scale: float | None = None
    qk_norm: str | None = None
    timestep_scale: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_crossed(self, ("in_channels", "cross_attention_dim", "caption_channels"))
        width = self.num_attention_heads * self.attention_head_dim
        read, heads, size = self.cross_attention_dim, self.num_cross_attention_heads, self.cross_attention_head_dim
        require(read == width, f"cross_attention_dim is {read}, the places have {width} features")
        require(heads * size <= WIDEST, f"{heads:,} heads of {size:,} features for the text")
        require(1 / width <= self.mlp_ratio <= 16, f"mlp_ratio is {self.mlp_ratio}")
        require(self.qk_norm in NORMS, f"qk_norm {self.qk_norm!r:.60} is not supported", f"Known: {NORMS[1]}")
        require(0 < self.timestep_scale < 1e6, f"timestep_scale is {self.timestep_scale}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SanaConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name in ("guidance_embeds", "norm_elementwise_affine"):
            require(not values.get(name), f"{name} is not supported, as of Sana Sprint")
        return read_config(cls, values)


class LinearAttention(Attention):
    """Attention without a softmax: scores are products of what is positive of queries and keys."""

    def forward(self, x: Tensor, source: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        q, k, v = (y.transpose(1, 2).to("float32") for y in self.parts(x, x))  # (B, H, T, D / H)
        q, k = ops.relu(q), ops.relu(k)
        found = q @ (k.transpose(2, 3) @ v)  # (B, H, T, D / H)
        sums = q @ k.sum(2, keepdim=True).transpose(2, 3)  # (B, H, T, 1)
        y = (found / (sums + NEARLY_NOTHING)).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)
        return self.to_out[0](y.to(x.dtype))


class Block(Module):
    """Linear attention to the places, attention to the text, and filters."""

    def __init__(self, config: SanaConfig, width: int) -> None:
        super().__init__()
        heads, normed = config.num_cross_attention_heads, config.qk_norm is not None
        self.norm1, self.norm2 = (LayerNorm(width, config.norm_eps, elementwise_affine=False) for _ in range(2))
        self.attn1 = LinearAttention(
            width, config.num_attention_heads, width, bias=config.attention_bias, normed=normed
        )
        self.attn2 = Attention(width, heads, heads * config.cross_attention_head_dim, width, normed=normed)
        self.ff = GatedFilters(width, int(config.mlp_ratio * width))
        self.scale_shift_table = new_parameter(ops.zeros, 6, width)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor | None, vectors: Tensor, rows: int) -> Tensor:
        """x (B, T, D), text (B, S, D), vectors (B, 6, D) → (B, T, D)."""
        shift, scale, gate, shift2, scale2, gate2 = ops.chunk(self.scale_shift_table + vectors, 6, 1)  # (B, 1, D)
        x = x + self.attn1(self.norm1(x) * (1 + scale) + shift) * gate
        x = x + self.attn2(x, text, mask)
        y = (self.norm2(x) * (1 + scale2) + shift2).transpose(1, 2).reshape(x.shape[0], x.shape[2], rows, -1)
        return x + self.ff(y).flatten(2).transpose(1, 2) * gate2


class Sana(CrossedNetwork):
    """The way from noise to the picture, of noisy latents."""

    def __init__(self, config: SanaConfig) -> None:
        super().__init__()
        self.config, self.channels, self.multiple = config, config.in_channels, config.patch_size
        self.text_width = config.caption_channels
        width, stretch = config.num_attention_heads * config.attention_head_dim, config.interpolation_scale
        base = None if stretch is None else max(config.sample_size // config.patch_size, 1)
        self.patch_embed = Patches(config.in_channels, width, config.patch_size, base, stretch or 1.0)
        self.time_embed = TimeOfAll(width)
        self.caption_projection = TextProjection(config.caption_channels, width)
        self.caption_norm = RMSNorm(width, EPSILON)
        self.transformer_blocks = ModuleList(Block(config, width) for _ in range(config.num_layers))
        self.last(width, config.in_channels if config.out_channels is None else config.out_channels)

    @property
    def side(self) -> int:
        found: int = self.config.sample_size
        return found

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return 20, 4.5

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader("Sana", readers, LanguageEncoder, self.text_width, channels, self.channels)

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) of prompts in small letters, and how many are those of each one (N,). Of the tokens of
        the instruction the first one and the last are read.
        """
        reader, small = readers[0], [prompt.lower().strip() for prompt in prompts]
        [told] = reader.rows([INSTRUCTION], 1 << 12)
        rows = reader.rows(small[:negative], WORDS)
        rows += reader.rows([INSTRUCTION + prompt for prompt in small[negative:]], len(told) + WORDS - 2)
        return reader.language(rows, [(0, 0)] * negative + [(1, len(told) - 2)] * (len(rows) - negative))

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None
    ) -> Tensor:
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), pooled (B,) integers: how many
        tokens each text has → noise less picture (B, C, H, W). This network reads no guidance: what is given is
        ignored.
        """
        self.check(latents, text, pooled)
        rows, columns = (side // self.multiple for side in latents.shape[2:])
        x, mask = self.patch_embed(latents), mask_of(pooled, text.shape[1])
        y = self.caption_norm(self.caption_projection(text))
        vectors, own = self.time_embed(time * self.config.timestep_scale)
        for block in self.transformer_blocks:
            x = block(x, y, mask, vectors, rows)
        return self.ended(x, own, rows, columns)
