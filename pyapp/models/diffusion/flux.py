"""FLUX.1 (Black Forest Labs 2024): a transformer whose first blocks keep the picture and the text apart, and whose
others read them as one sequence, with rotary positions of rows and columns.

Parameters and fields have the names of diffusers' FluxTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module, ModuleList
from pyapp.nn.layers.gated import activated
from pyapp.nn.sequence_to_sequence.t5 import T5Encoder

from ..loading.config import check_fields, read_config, require
from .joint import (
    GELU,
    Condition,
    JointAttention,
    JointBlock,
    JointNetwork,
    LastNorm,
    Modulated,
    axes_table,
    check_joint,
    moved,
    patches,
    whole,
)
from .texts import Reader, TextEncoder

# The sizes of pictures that Kontext was trained to change (Labs et al. 2025, arXiv 2506.15742): width, height.
REFERENCES = (
    (672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104),
    (1024, 1024), (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688),
    (1568, 672),
)  # fmt: skip
THETA = 10000.0  # of the rotary positions
PATCH = 2  # latents of a place's side
USUAL_SIDE = 128  # latents
WORDS = {True: 512, False: 256}  # tokens of a prompt, by whether the network reads the guidance


@dataclass(frozen=True, kw_only=True)
class FluxConfig:
    """The hyper-parameters."""

    in_channels: int = 64
    out_channels: int | None = None
    num_layers: int = 19
    num_single_layers: int = 38
    attention_head_dim: int = 128
    num_attention_heads: int = 24
    joint_attention_dim: int = 4096
    pooled_projection_dim: int = 768
    guidance_embeds: bool = False
    axes_dims_rope: tuple[int, ...] = (16, 56, 56)

    def __post_init__(self) -> None:
        check_fields(self)
        check_joint(self, self.num_layers + self.num_single_layers)
        require(self.in_channels % PATCH**2 == 0, f"in_channels is {self.in_channels}, no multiple of {PATCH**2}")
        outputs, rest = self.outputs, self.in_channels - 2 * self.outputs
        require(
            outputs == self.in_channels or (rest > 0 and outputs % PATCH**2 == 0),
            f"a network of {self.in_channels} to {outputs} channels is not supported",
            "Supported are as many, and those of FLUX.1 Fill: twice as many, and a mask's",
        )
        axes = self.axes_dims_rope
        require(
            len(axes) == 3 and all(type(n) is int and n >= 0 and n % 2 == 0 for n in axes)
            and sum(axes) == self.attention_head_dim,
            f"axes_dims_rope is {axes!r:.60}, expected three even numbers that add up to attention_head_dim",
        )  # fmt: skip

    @property
    def outputs(self) -> int:
        """The numbers that it finds of a place."""
        return self.in_channels if self.out_channels is None else self.out_channels

    @property
    def mask_channels(self) -> int:
        """The pixels of a mask that it reads for each latent; 0: it fills in no pictures."""
        return max(self.in_channels - 2 * self.outputs, 0) // PATCH**2

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FluxConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        patch = values.get("patch_size", 1)
        require(patch == 1, f"patch_size {patch!r:.60} is not supported")
        axes = values.get("axes_dims_rope", cls.axes_dims_rope)
        require(isinstance(axes, list | tuple), f"axes_dims_rope is {axes!r:.60}")
        return read_config(cls, {**values, "axes_dims_rope": tuple(axes)})


class SingleBlock(Module):
    """Attention and a feed-forward part beside each other, of the text and the picture as one sequence."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = Modulated(width, 3)
        self.proj_mlp = Linear(width, 4 * width)
        self.attn = JointAttention(width, heads, True, outputs=(False, False))
        self.proj_out = Linear(5 * width, width)

    def forward(self, x: Tensor, condition: Tensor, table: Tensor) -> Tensor:
        """x (B, S + T, D), condition (B, D) → (B, S + T, D)."""
        y, (shift, scale, gate) = self.norm(x, condition)
        y = moved(y, scale, shift)
        found, _ = self.attn(y, None, table)
        return x + self.proj_out(ops.cat([found, activated(self.proj_mlp, y, GELU)], 2)) * gate


class Flux(JointNetwork):
    """The way from noise to the picture, of noisy latents."""

    multiple = PATCH
    even = True

    def __init__(self, config: FluxConfig) -> None:
        super().__init__()
        self.config = config
        heads = config.num_attention_heads
        width, self.channels = heads * config.attention_head_dim, config.in_channels // PATCH**2
        self.time_text_embed = Condition(width, config.pooled_projection_dim, config.guidance_embeds)
        self.context_embedder = Linear(config.joint_attention_dim, width)
        self.x_embedder = Linear(config.in_channels, width)
        self.transformer_blocks = ModuleList(JointBlock(width, heads, True) for _ in range(config.num_layers))
        self.single_transformer_blocks = ModuleList(SingleBlock(width, heads) for _ in range(config.num_single_layers))
        self.norm_out = LastNorm(width)
        self.proj_out = Linear(width, config.outputs)
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size alone

    @property
    def side(self) -> int:
        return USUAL_SIDE

    @property
    def learnt_guidance(self) -> bool:
        return bool(self.config.guidance_embeds)

    @property
    def fills(self) -> bool:
        return self.config.mask_channels > 0

    def around(self, mask: Tensor, rest: Tensor) -> Tensor:
        return ops.cat([rest, ops.pixel_unshuffle(mask, mask.shape[2] // rest.shape[2])], 1)

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        if self.fills:
            return 50, 30.0
        return (28, 3.5) if self.learnt_guidance else (4, 0.0)

    def read_size(self, height: int, width: int, unit: int) -> tuple[int, int]:
        """The nearest of the sizes of the training."""
        ratio = width / height
        _, wide, high = min((abs(ratio - wide / high), wide, high) for wide, high in REFERENCES)
        return high // unit * unit, wide // unit * unit

    def drawn_size(self, height: int, width: int, unit: int, side: int) -> tuple[int, int]:
        """The usual area, with the ratio of the picture's sides."""
        high, wide = (round(side * (a / b) ** 0.5) // unit * unit for a, b in ((height, width), (width, height)))
        return high, wide

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        kinds = [type(reader.encoder) for reader in readers]
        if kinds != [TextEncoder, T5Encoder]:
            raise ModelError("FLUX.1 reads texts with CLIP (text_encoder) and T5 (text_encoder_2)")
        clip, wide = readers[0].encoder, readers[1].width
        assert isinstance(clip, TextEncoder)
        for what, given, read in (
            ("T5's states have", wide, self.config.joint_attention_dim),
            ("CLIP's vectors have", clip.pooled_width, self.config.pooled_projection_dim),
            ("the autoencoder's latents have", channels * PATCH**2, self.config.outputs),
        ):
            require(given == read, f"{what} {given} numbers, the transformer reads {read}")

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        clip, t5 = readers
        return t5.t5(prompts, WORDS[self.learnt_guidance]), clip.clip(prompts)[2]

    def table(self, tokens: int, *grids: tuple[int, int]) -> Tensor:
        """The rotations (tokens + places, R / 2, 2): those of the text are at the place 0, 0, 0, those of pictures at
        their number, and their rows and columns. grids: the rows and columns of each picture.
        """
        key = tokens, grids, self.device
        if key not in self._tables:
            places = [np.zeros((tokens, 3))]
            for number, (rows, columns) in enumerate(grids):
                own = np.full((rows * columns, 3), float(number))
                own[:, 1] = np.repeat(np.arange(rows), columns)
                own[:, 2] = np.tile(np.arange(columns), rows)
                places.append(own)
            table = axes_table(np.concatenate(places), self.config.axes_dims_rope, THETA)
            self._tables = {key: ops.from_numpy(table).to(self.device)}
        return self._tables[key]

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), its vectors pooled (B, P), guidance
        (B,) or (1,) for networks that read it, reference (B, C, H', W') the latents of a picture that is changed →
        noise less picture (B, C', H, W).
        """
        self.check(latents, text, pooled)
        rows, columns = latents.shape[2] // PATCH, latents.shape[3] // PATCH
        x, grids = self.x_embedder(patches(latents, PATCH)), [(rows, columns)]  # (B, T, D)
        if reference is not None:
            self.check_latents(reference)
            x = ops.cat([x, self.x_embedder(patches(reference, PATCH))], 1)  # (B, T + T', D)
            grids.append((reference.shape[2] // PATCH, reference.shape[3] // PATCH))
        condition = self.time_text_embed(time, pooled, guidance)
        y, tokens = self.context_embedder(text), text.shape[1]  # (B, S, D)
        table = self.table(tokens, *grids)
        for block in self.transformer_blocks:
            x, y = block(x, y, condition, table)
        x = ops.cat([y, x], 1)  # (B, S + T + T', D)
        for block in self.single_transformer_blocks:
            x = block(x, condition, table)
        x = self.proj_out(self.norm_out(x.narrow(1, tokens, rows * columns), condition))  # (B, T, C' * 4)
        return whole(x, (rows, columns), PATCH)
