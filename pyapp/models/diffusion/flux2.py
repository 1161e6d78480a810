"""FLUX.2 (Black Forest Labs 2025): as FLUX.1, but all blocks of a kind share scales and shifts, the blocks that read
one sequence have one matrix for attention and feed-forward part, and the text is what a language model makes of it in
three of its layers.

Parameters and fields have the names of diffusers' Flux2Transformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, OptionError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.gated import gated

from ..loading.config import check_fields, read_config, require
from .joint import (
    DEEPEST,
    PER_UNIT,
    WAVES,
    JointAttention,
    JointNetwork,
    LastNorm,
    axes_table,
    moved,
    normed_head,
    patches,
    whole,
)
from .texts import LanguageEncoder, Reader
from .unet import WIDEST, TimeEmbedding, waves

PATCH = 2  # latents of a place's side
USUAL_SIDE = 128  # latents
WORDS = 512  # tokens of a prompt, those that fill it up included
STATES = (9, 18, 27)  # after how many layers of the language model its states are read: of klein, and of dev
DEV_STATES = (10, 20, 30)
DEV_INSTRUCTION = (
    "You are an AI that reasons about image descriptions. You give structured responses focusing on object "
    "relationships, object\nattribution and actions without speculation."
)
DEV_PICTURE = "[IMG]"  # stands for pictures in prompts of dev's language model, and is left out
REFERENCE = 10.0  # the place, on the first axis, of a picture that is changed
LARGEST = 1 << 20  # pixels of such a picture
MANY = 4300  # places, from which on the number of steps does not count
# How much times are shifted: (slope, offset) of the number of places, with 10 steps and with 200.
FEW_STEPS, MANY_STEPS = (10, 8.73809524e-05, 1.89833333), (200, 0.00016927, 0.45666666)


@dataclass(frozen=True, kw_only=True)
class Flux2Config:
    """The hyper-parameters."""

    in_channels: int = 128
    num_layers: int = 8
    num_single_layers: int = 48
    attention_head_dim: int = 128
    num_attention_heads: int = 48
    joint_attention_dim: int = 15360
    timestep_guidance_channels: int = 256
    mlp_ratio: float = 3.0
    axes_dims_rope: tuple[int, ...] = (32, 32, 32, 32)
    rope_theta: float = 2000.0
    eps: float = 1e-6
    guidance_embeds: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        for name, most in (
            ("num_layers", DEEPEST), ("num_single_layers", DEEPEST), ("in_channels", WIDEST),
            ("joint_attention_dim", 1 << 16),
        ):  # fmt: skip
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name):,}")
        heads, size = self.num_attention_heads, self.attention_head_dim
        require(heads * size <= WIDEST, f"{heads:,} heads of {size:,} features")
        require(self.in_channels % PATCH**2 == 0, f"in_channels is {self.in_channels}, no multiple of {PATCH**2}")
        require(self.timestep_guidance_channels == WAVES, f"a time of {self.timestep_guidance_channels:,} numbers")
        require(0 < self.mlp_ratio <= 16, f"mlp_ratio is {self.mlp_ratio}")
        require(1 < self.rope_theta < 1e9, f"rope_theta is {self.rope_theta}")
        axes = self.axes_dims_rope
        require(
            len(axes) == 4 and all(type(n) is int and n >= 0 and n % 2 == 0 for n in axes) and sum(axes) == size,
            f"axes_dims_rope is {axes!r:.60}, expected four even numbers that add up to attention_head_dim",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Flux2Config:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in (("patch_size", 1), ("out_channels", None)):
            given = values.get(name, known)
            plain = given == known or (name == "out_channels" and given == values.get("in_channels"))
            require(plain, f"{name} {given!r:.60} is not supported")
        axes = values.get("axes_dims_rope", cls.axes_dims_rope)
        require(isinstance(axes, list | tuple), f"axes_dims_rope is {axes!r:.60}")
        return read_config(cls, {**values, "axes_dims_rope": tuple(axes)})

    @property
    def inner(self) -> int:
        """The features within a feed-forward part."""
        return int(self.num_attention_heads * self.attention_head_dim * self.mlp_ratio)


class Condition(Module):
    """The time, and with `guided` the guidance, as one vector."""

    def __init__(self, width: int, guided: bool) -> None:
        super().__init__()
        self.timestep_embedder = TimeEmbedding(WAVES, width, bias=False)
        self.guidance_embedder = TimeEmbedding(WAVES, width, bias=False) if guided else None

    def forward(self, time: Tensor, guidance: Tensor | None) -> Tensor:
        """time and guidance (B,) or (1,) → (B or 1, D), after the activation that all readers begin with."""
        x = self.timestep_embedder(waves(time, WAVES))
        if self.guidance_embedder is not None:
            if guidance is None:
                raise ArgumentError("this network needs the guidance")
            x = x + self.guidance_embedder(waves(guidance * PER_UNIT, WAVES))
        return ops.silu(x)


class Modulation(Module):
    """The vectors that all blocks of a kind share."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.linear = Linear(width, count * width, bias=False)

    def forward(self, condition: Tensor) -> list[Tensor]:
        """condition (B, D) → shift, scale, gate, shift … (B, 1, D) each."""
        return list(ops.chunk(self.linear(condition).unsqueeze(1), self.count, 2))


class FeedForward(Module):
    """A gated feed-forward part, whose gate and values are of one matrix."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_in = Linear(width, 2 * inner, bias=False)
        self.linear_out = Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.linear_out(gated(self.linear_in(x), "silu"))


class PairBlock(Module):
    """Attention and feed-forward parts of two streams."""

    def __init__(self, config: Flux2Config, width: int) -> None:
        super().__init__()
        epsilon = config.eps
        self.norm1, self.norm1_context, self.norm2, self.norm2_context = (
            LayerNorm(width, epsilon, elementwise_affine=False) for _ in range(4)
        )
        self.attn = JointAttention(width, config.num_attention_heads, True, True, bias=False, epsilon=epsilon)
        self.ff, self.ff_context = FeedForward(width, config.inner), FeedForward(width, config.inner)

    def forward(
        self, x: Tensor, text: Tensor, of_picture: list[Tensor], of_text: list[Tensor], table: Tensor
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """x (B, T, D), text (B, S, D), the six vectors of each → x and text of the same shapes."""
        shift, scale, gate, shift2, scale2, gate2 = of_picture
        own_shift, own_scale, own_gate, own_shift2, own_scale2, own_gate2 = of_text
        found, found_text = self.attn(
            moved(self.norm1(x), scale, shift), moved(self.norm1_context(text), own_scale, own_shift), table
        )
        x = x + found * gate
        x = x + self.ff(moved(self.norm2(x), scale2, shift2)) * gate2
        text = text + found_text * own_gate
        return x, text + self.ff_context(moved(self.norm2_context(text), own_scale2, own_shift2)) * own_gate2


class ParallelAttention(Module):
    """Attention and a feed-forward part beside each other, with one matrix before and one after both."""

    def __init__(self, config: Flux2Config, width: int) -> None:
        super().__init__()
        self.heads, self.inner = config.num_attention_heads, config.inner
        self.to_qkv_mlp_proj = Linear(width, 3 * width + 2 * self.inner, bias=False)
        self.norm_q, self.norm_k = (normed_head(width, self.heads, config.eps) for _ in range(2))
        self.to_out = Linear(width + self.inner, width, bias=False)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x (B, S + T, D) → (B, S + T, D)."""
        batch, tokens, width = x.shape
        joined = self.to_qkv_mlp_proj(x)
        parts = joined.narrow(2, 0, 3 * width).reshape(batch, tokens, 3 * self.heads, width // self.heads)
        q, k, v = (parts.narrow(2, i * self.heads, self.heads) for i in range(3))
        y = attend(ops.rope(self.norm_q(q), table), ops.rope(self.norm_k(k), table), v, None)
        return self.to_out(ops.cat([y, gated(joined.narrow(2, 3 * width, 2 * self.inner), "silu")], 2))


class SingleBlock(Module):
    """A block that reads the text and the picture as one sequence."""

    def __init__(self, config: Flux2Config, width: int) -> None:
        super().__init__()
        self.norm = LayerNorm(width, config.eps, elementwise_affine=False)
        self.attn = ParallelAttention(config, width)

    def forward(self, x: Tensor, vectors: list[Tensor], table: Tensor) -> Tensor:
        """x (B, S + T, D), vectors: the shift, the scale and the gate → (B, S + T, D)."""
        shift, scale, gate = vectors
        return x + self.attn(moved(self.norm(x), scale, shift), table) * gate


class Flux2(JointNetwork):
    """The way from noise to the picture, of noisy latents."""

    multiple = PATCH
    even = True

    def __init__(self, config: Flux2Config) -> None:
        super().__init__()
        self.config, self.channels = config, config.in_channels // PATCH**2
        width = config.num_attention_heads * config.attention_head_dim
        self.time_guidance_embed = Condition(width, config.guidance_embeds)
        self.double_stream_modulation_img, self.double_stream_modulation_txt = (Modulation(width, 6) for _ in range(2))
        self.single_stream_modulation = Modulation(width, 3)
        self.x_embedder = Linear(config.in_channels, width, bias=False)
        self.context_embedder = Linear(config.joint_attention_dim, width, bias=False)
        self.transformer_blocks = ModuleList(PairBlock(config, width) for _ in range(config.num_layers))
        self.single_transformer_blocks = ModuleList(SingleBlock(config, width) for _ in range(config.num_single_layers))
        self.norm_out = LastNorm(width, config.eps, bias=False)
        self.proj_out = Linear(width, config.in_channels, bias=False)
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size alone

    @property
    def side(self) -> int:
        return USUAL_SIDE

    @property
    def learnt_guidance(self) -> bool:
        return bool(self.config.guidance_embeds)

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return (4, 1.0) if settings.get("is_distilled") else (50, 4.0)

    def shift(self, places: int, steps: int) -> float:
        if places > MANY:
            return MANY_STEPS[1] * places + MANY_STEPS[2]
        few, many = (slope * places + offset for _, slope, offset in (FEW_STEPS, MANY_STEPS))
        return many + (many - few) / (MANY_STEPS[0] - FEW_STEPS[0]) * (steps - MANY_STEPS[0])

    def read_size(self, height: int, width: int, unit: int) -> tuple[int, int]:
        """A picture keeps its size, but for what is above LARGEST, and is cut to whole units."""
        if height * width > LARGEST:
            part = (LARGEST / (height * width)) ** 0.5
            height, width = int(height * part), int(width * part)
        if min(height, width) < unit:
            raise OptionError(
                f"the picture has {width}x{height} pixels, expected sides of at least {unit}", where="image",
                hint="Take a larger picture",
            )  # fmt: skip
        return height, width

    def drawn_size(self, height: int, width: int, unit: int, side: int) -> tuple[int, int]:
        """That of the picture that is changed."""
        found = self.read_size(height, width, unit)
        return found[0] // unit * unit, found[1] // unit * unit

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader(
            "FLUX.2", readers, LanguageEncoder, self.config.joint_attention_dim, channels, self.channels
        )

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        reader = readers[0]
        return reader.language_filled(reader.turns(prompts, WORDS, thinking=False), WORDS), None

    def table(self, tokens: int, *grids: tuple[int, int]) -> Tensor:
        """The rotations (tokens + places, R / 2, 2). The first axis has the number of a picture, the next two its rows
        and columns, the last one the tokens of the text. grids: the rows and columns of each picture.
        """
        key = tokens, grids, self.device
        if key not in self._tables:
            places = np.zeros((tokens + sum(map(prod, grids)), 4))
            places[:tokens, 3] = np.arange(tokens)
            first = tokens
            for number, (rows, columns) in enumerate(grids):
                own = places[first : first + rows * columns]
                own[:, 0] = number * REFERENCE
                own[:, 1] = np.repeat(np.arange(rows), columns)
                own[:, 2] = np.tile(np.arange(columns), rows)
                first += rows * columns
            table = axes_table(places, self.config.axes_dims_rope, self.config.rope_theta)
            self._tables = {key: ops.from_numpy(table).to(self.device)}
        return self._tables[key]

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor | None = None,
        guidance: Tensor | None = None, reference: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), guidance (B,) or (1,) for networks
        that read it, reference (B, C, H', W') the latents of a picture that is changed → noise less picture
        (B, C, H, W). There are no vectors of texts: `pooled` is None.
        """
        self.check_latents(latents)
        wide = self.config.joint_attention_dim
        if text.ndim != 3 or text.shape[2] != wide:
            raise ArgumentError(f"{type(self).__name__}: the text is (B, S, {wide}), not {describe(text)}")
        grids = [(latents.shape[2] // PATCH, latents.shape[3] // PATCH)]
        x = self.x_embedder(patches(latents, PATCH))  # (B, T, D)
        if reference is not None:
            self.check_latents(reference)
            x = ops.cat([x, self.x_embedder(patches(reference, PATCH))], 1)  # (B, T + T', D)
            grids.append((reference.shape[2] // PATCH, reference.shape[3] // PATCH))
        y, tokens = self.context_embedder(text), text.shape[1]  # (B, S, D)
        condition = self.time_guidance_embed(time, guidance)
        of_picture, of_text, of_both = (
            part(condition)
            for part in (
                self.double_stream_modulation_img, self.double_stream_modulation_txt, self.single_stream_modulation
            )
        )  # fmt: skip
        table = self.table(tokens, *grids)
        for block in self.transformer_blocks:
            x, y = block(x, y, of_picture, of_text, table)
        x = ops.cat([y, x], 1)  # (B, S + T + T', D)
        for block in self.single_transformer_blocks:
            x = block(x, of_both, table)
        x = self.proj_out(self.norm_out(x.narrow(1, tokens, prod(grids[0])), condition))  # (B, T, C * 4)
        return whole(x, grids[0], PATCH)


class Flux2Dev(Flux2):
    """FLUX.2 dev, whose texts are what Mistral makes of them."""

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        reader, plain = readers[0], [prompt.replace(DEV_PICTURE, "") for prompt in prompts]
        return reader.language_filled(reader.instructed(plain, WORDS, DEV_INSTRUCTION), WORDS), None
