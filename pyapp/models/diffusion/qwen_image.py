"""Qwen-Image (Qwen Team 2025, arXiv 2508.02324): a transformer over the places of a picture and the tokens of a text,
each with projections of its own, with rotary positions counted from the middle of the picture. The text is what
Qwen2.5-VL makes of it.

Parameters and fields have the names of diffusers' QwenImageTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, RMSNorm

from ..loading.config import check_fields, read_config, require
from .joint import (
    DEEPEST,
    EPSILON,
    WAVES,
    FeedForward,
    JointAttention,
    JointNetwork,
    LastNorm,
    axes_table,
    moved,
    patches,
    whole,
)
from .texts import LanguageEncoder, Reader
from .unet import WIDEST, TimeEmbedding, waves

LONGEST = 4096  # places on an axis
PATCH = 2  # latents of a place's side
THETA = 10000.0  # of the rotary positions
USUAL_SIDE = 128  # latents
WORDS = 512  # tokens of a prompt
# What the network was trained with: the prompt as a turn after an instruction, whose tokens it does not read.
TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
SKIPPED = 34
NOTHING = " "  # in place of an empty prompt, as its makers advise


@dataclass(frozen=True, kw_only=True)
class QwenImageConfig:
    """The hyper-parameters."""

    in_channels: int = 64
    out_channels: int | None = 16
    num_layers: int = 60
    attention_head_dim: int = 128
    num_attention_heads: int = 24
    joint_attention_dim: int = 3584
    axes_dims_rope: tuple[int, ...] = (16, 56, 56)

    def __post_init__(self) -> None:
        check_fields(self)
        heads, size = self.num_attention_heads, self.attention_head_dim
        require(heads * size <= WIDEST, f"{heads:,} heads of {size:,} features")
        require(self.num_layers <= DEEPEST, f"{self.num_layers:,} layers")
        for name in ("in_channels", "joint_attention_dim"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}")
        require(self.in_channels % PATCH**2 == 0, f"in_channels is {self.in_channels}, no multiple of {PATCH**2}")
        made = PATCH**2 * (self.out_channels or self.in_channels)
        require(made == self.in_channels, f"a network of {self.in_channels} to {made} channels is not supported")
        axes = self.axes_dims_rope
        require(
            len(axes) == 3 and all(type(n) is int and n >= 0 and n % 2 == 0 for n in axes) and sum(axes) == size,
            f"axes_dims_rope is {axes!r:.60}, expected three even numbers that add up to attention_head_dim",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> QwenImageConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in (
            ("patch_size", PATCH), ("guidance_embeds", False), ("zero_cond_t", False), ("use_additional_t_cond", False),
            ("use_layer3d_rope", False),
        ):  # fmt: skip
            given = values.get(name, known)
            require(given == known, f"{name} {given!r:.60} is not supported")
        axes = values.get("axes_dims_rope", cls.axes_dims_rope)
        require(isinstance(axes, list | tuple), f"axes_dims_rope is {axes!r:.60}")
        return read_config(cls, {**values, "axes_dims_rope": tuple(axes)})


class Block(Module):
    """Attention and feed-forward parts of two streams."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.img_mod, self.txt_mod = (ModuleList([Module(), Linear(width, 6 * width)]) for _ in range(2))
        self.img_norm1, self.img_norm2, self.txt_norm1, self.txt_norm2 = (
            LayerNorm(width, EPSILON, elementwise_affine=False) for _ in range(4)
        )
        self.attn = JointAttention(width, heads, True, True)
        self.img_mlp, self.txt_mlp = FeedForward(width), FeedForward(width)

    def forward(
        self, x: Tensor, text: Tensor, condition: Tensor, table: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """x (B, T, D), text (B, S, D), condition (B, D), mask as JointAttention's → x and text of the same shapes."""
        (shift, scale, gate, shift2, scale2, gate2), (own_shift, own_scale, own_gate, own_shift2, own_scale2, own2) = (
            ops.chunk(part[1](condition).unsqueeze(1), 6, 2) for part in (self.img_mod, self.txt_mod)
        )  # (B, 1, D)
        found, found_text = self.attn(
            moved(self.img_norm1(x), scale, shift), moved(self.txt_norm1(text), own_scale, own_shift), table, mask
        )
        x = x + found * gate
        x = x + self.img_mlp(moved(self.img_norm2(x), scale2, shift2)) * gate2
        text = text + found_text * own_gate
        return x, text + self.txt_mlp(moved(self.txt_norm2(text), own_scale2, own_shift2)) * own2


class QwenImage(JointNetwork):
    """The way from noise to the picture, of noisy latents."""

    multiple = PATCH
    even = True

    def __init__(self, config: QwenImageConfig) -> None:
        super().__init__()
        self.config, self.channels = config, config.in_channels // PATCH**2
        heads = config.num_attention_heads
        width = heads * config.attention_head_dim
        self.time_text_embed = Module()
        self.time_text_embed.timestep_embedder = TimeEmbedding(WAVES, width)
        self.txt_norm = RMSNorm(config.joint_attention_dim, EPSILON)
        self.img_in = Linear(config.in_channels, width)
        self.txt_in = Linear(config.joint_attention_dim, width)
        self.transformer_blocks = ModuleList(Block(width, heads) for _ in range(config.num_layers))
        self.norm_out = LastNorm(width)
        self.proj_out = Linear(width, config.in_channels)
        self._tables: dict[tuple[Any, ...], Tensor] = {}  # of the last size alone

    @property
    def side(self) -> int:
        return USUAL_SIDE

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        return 50, 4.0

    def combined(self, without: Tensor, following: Tensor, scale: float) -> Tensor:
        """Each place's vector has the length of the one that follows the prompt."""
        rows, columns = following.shape[2] // PATCH, following.shape[3] // PATCH
        given, found = (patches(x, PATCH) for x in (following, super().combined(without, following, scale)))
        long, wanted = (x.square().sum(-1, keepdim=True).sqrt() for x in (found, given))
        return whole(found * (wanted / long), (rows, columns), PATCH)

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader(
            "Qwen-Image", readers, LanguageEncoder, self.config.joint_attention_dim, channels, self.channels
        )

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """The states (N, S, D) of prompts, and how many are those of each one (N,)."""
        rows = readers[0].rows([TEMPLATE.format(prompt or NOTHING) for prompt in prompts], WORDS + SKIPPED)
        return readers[0].language(rows, [(0, SKIPPED)] * len(rows))

    def table(self, tokens: int, rows: int, columns: int) -> Tensor:
        """The rotations (tokens + places, R / 2, 2): those of the text go on where the picture's end."""
        key = tokens, rows, columns, self.device
        if key not in self._tables:
            places = np.zeros((tokens + rows * columns, 3))
            places[:tokens] = (max(rows, columns) // 2 + np.arange(tokens))[:, None]
            places[tokens:, 1] = np.repeat(np.arange(rows) - (rows - rows // 2), columns)
            places[tokens:, 2] = np.tile(np.arange(columns) - (columns - columns // 2), rows)
            table = axes_table(places, self.config.axes_dims_rope, THETA)
            self._tables = {key: ops.from_numpy(table).to(self.device)}
        return self._tables[key]

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None
    ) -> Tensor:
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), pooled (B,) integers: how many
        tokens each text has → noise less picture (B, C, H, W). This network reads no guidance: what is given is
        ignored.
        """
        self.check_latents(latents)
        name, wide, (batch, _, height, width) = type(self).__name__, self.config.joint_attention_dim, latents.shape
        if text.ndim != 3 or text.shape[2] != wide or not 0 < text.shape[1] <= LONGEST:
            raise ArgumentError(f"{name}: the text is (B, S, {wide}) with S at most {LONGEST}, not {describe(text)}")
        if pooled.ndim != 1 or len({pooled.shape[0], text.shape[0], batch}) != 1:
            raise ArgumentError(f"{name}: the lengths of texts are (B,), not {describe(pooled)}")
        rows, columns, tokens = height // PATCH, width // PATCH, text.shape[1]
        x, y = self.img_in(patches(latents, PATCH)), self.txt_in(self.txt_norm(text))
        condition = ops.silu(self.time_text_embed.timestep_embedder(waves(time, WAVES)))
        table, lengths = self.table(tokens, rows, columns), pooled.tolist()
        mask = None
        if min(lengths) < tokens:
            seen = np.ones((batch, 1, 1, tokens + rows * columns), bool)
            seen[:, 0, 0, :tokens] = np.arange(tokens) < np.array(lengths)[:, None]
            mask = ops.from_numpy(seen).to(x.device)
        for block in self.transformer_blocks:
            x, y = block(x, y, condition, table, mask)
        return whole(self.proj_out(self.norm_out(x, condition)), (rows, columns), PATCH)
