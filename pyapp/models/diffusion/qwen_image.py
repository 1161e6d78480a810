"""Qwen-Image (Qwen Team 2025, arXiv 2508.02324): a transformer over the places of a picture and the tokens of a text,
each with projections of its own, with rotary positions counted from the middle of the picture. The text is what
Qwen2.5-VL makes of it.

Parameters and fields have the names of diffusers' QwenImageTransformer2DModel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod, sqrt
from operator import mul
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError, OptionError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList, RMSNorm
from pyapp.vision.resampling import resize

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
from .texts import MARK, LanguageEncoder, Reader, SeeingEncoder
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
# Of the networks that change a picture, which stands before the prompt.
EDIT_TEMPLATE = (
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. Generate a new image "
    "that meets the user's requirements while maintaining consistency with the original input where appropriate."
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
EDIT_SKIPPED = 64
SEEN = "<|vision_start|>" + MARK + "<|vision_end|>"
EDIT_AREA, EDIT_UNIT = 1024 * 1024, 32  # pixels of a picture that is changed, and of which its sides are multiples
PLUS_AREA = 384 * 384  # of it as the language model sees it, in the networks of "edit plus"
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
    zero_cond_t: bool = False  # the places of a picture that is changed are read as at the end of all steps

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
            ("patch_size", PATCH), ("guidance_embeds", False), ("use_additional_t_cond", False),
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
        self, x: Tensor, text: Tensor, conditions: Sequence[Tensor], counts: Sequence[int], table: Tensor,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """x (B, T, D), text (B, S, D), mask as JointAttention's → x and text of the same shapes. conditions (B, D): of
        the first places and of the text, and of the other places, if those have another one; counts: how many these
        are.
        """
        own_shift, own_scale, own_gate, own_shift2, own_scale2, own2 = self._vectors(self.txt_mod, conditions[0])
        of_parts = [self._vectors(self.img_mod, condition) for condition in conditions]

        def read(x: Tensor, first: int) -> Tensor:
            return _of_parts(x, counts, [partial(moved, scale=v[first + 1], shift=v[first]) for v in of_parts])

        def gated(x: Tensor, which: int) -> Tensor:
            return _of_parts(x, counts, [partial(mul, v[which]) for v in of_parts])

        found, found_text = self.attn(
            read(self.img_norm1(x), 0), moved(self.txt_norm1(text), own_scale, own_shift), table, mask
        )
        x = x + gated(found, 2)
        x = x + gated(self.img_mlp(read(self.img_norm2(x), 3)), 5)
        text = text + found_text * own_gate
        return x, text + self.txt_mlp(moved(self.txt_norm2(text), own_scale2, own_shift2)) * own2

    @staticmethod
    def _vectors(layers: ModuleList, condition: Tensor) -> list[Tensor]:
        """condition (B, D) → two times a shift, a scale and a gate (B, 1, D)."""
        return list(ops.chunk(layers[1](condition).unsqueeze(1), 6, 2))


def _of_parts(x: Tensor, counts: Sequence[int], works: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """What each of the works makes of its part of x (B, T, D), side by side."""
    if len(works) == 1:
        return works[0](x)
    return ops.cat([work(part) for work, part in zip(works, x.split([*counts], 1), strict=True)], 1)


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

    def table(self, tokens: int, *grids: tuple[int, int]) -> Tensor:
        """The rotations (tokens + places, R / 2, 2): those of the text go on where the pictures' end. grids: the rows
        and columns of each picture.
        """
        key = tokens, grids, self.device
        if key not in self._tables:
            places = np.zeros((tokens + sum(map(prod, grids)), 3))
            places[:tokens] = (max(map(max, grids)) // 2 + np.arange(tokens))[:, None]
            first = tokens
            for number, (rows, columns) in enumerate(grids):
                own = places[first : first + rows * columns]
                own[:, 0] = number
                own[:, 1] = np.repeat(np.arange(rows) - (rows - rows // 2), columns)
                own[:, 2] = np.tile(np.arange(columns) - (columns - columns // 2), rows)
                first += rows * columns
            table = axes_table(places, self.config.axes_dims_rope, THETA)
            self._tables = {key: ops.from_numpy(table).to(self.device)}
        return self._tables[key]

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor, guidance: Tensor | None = None,
        reference: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """latents (B, C, H, W) at the times (B,) or (1,) of 1,000, text (B, S, D), pooled (B,) integers: how many
        tokens each text has, reference (B, C, H', W') the latents of a picture that is changed → noise less picture
        (B, C, H, W). This network reads no guidance: what is given is ignored.
        """
        self.check_latents(latents)
        name, wide, (batch, _, height, width) = type(self).__name__, self.config.joint_attention_dim, latents.shape
        if text.ndim != 3 or text.shape[2] != wide or not 0 < text.shape[1] <= LONGEST:
            raise ArgumentError(f"{name}: the text is (B, S, {wide}) with S at most {LONGEST}, not {describe(text)}")
        if pooled.ndim != 1 or len({pooled.shape[0], text.shape[0], batch}) != 1:
            raise ArgumentError(f"{name}: the lengths of texts are (B,), not {describe(pooled)}")
        grids, tokens = [(height // PATCH, width // PATCH)], text.shape[1]
        x, y = self.img_in(patches(latents, PATCH)), self.txt_in(self.txt_norm(text))
        if reference is not None:
            self.check_latents(reference)
            x = ops.cat([x, self.img_in(patches(reference, PATCH))], 1)  # (B, T + T', D)
            grids.append((reference.shape[2] // PATCH, reference.shape[3] // PATCH))
        counts = [*map(prod, grids)]
        times = [time, time * 0] if self.config.zero_cond_t and reference is not None else [time]
        conditions = [ops.silu(self.time_text_embed.timestep_embedder(waves(one, WAVES))) for one in times]
        table, lengths = self.table(tokens, *grids), pooled.tolist()
        mask = None
        if min(lengths) < tokens:
            seen = np.ones((batch, 1, 1, tokens + sum(counts)), bool)
            seen[:, 0, 0, :tokens] = np.arange(tokens) < np.array(lengths)[:, None]
            mask = ops.from_numpy(seen).to(x.device)
        for block in self.transformer_blocks:
            x, y = block(x, y, conditions, counts, table, mask)
        return whole(self.proj_out(self.norm_out(x.narrow(1, 0, counts[0]), conditions[0])), grids[0], PATCH)


class QwenImageEdit(QwenImage):
    """The way from noise to a picture that another one becomes by a prompt. area: the pixels of that as the language
    model sees it; before: what stands before the prompt.
    """

    sees_pictures = True
    before = SEEN

    @property
    def area(self) -> int:
        return EDIT_AREA

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        self.check_one_reader(
            "Qwen-Image-Edit", readers, SeeingEncoder, self.config.joint_attention_dim, channels, self.channels
        )

    def read_size(self, height: int, width: int, unit: int) -> tuple[int, int]:
        """Pictures have about EDIT_AREA pixels."""
        return _of_area(EDIT_AREA, height, width)

    def drawn_size(self, height: int, width: int, unit: int, side: int) -> tuple[int, int]:
        return _of_area(EDIT_AREA, height, width)

    def texts_about(
        self, readers: Sequence[Reader], prompts: Sequence[str], picture: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        seen = resize(picture, *_of_area(self.area, picture.shape[0], picture.shape[1]), "lanczos")
        plain = [prompt.replace(MARK, "") or NOTHING for prompt in prompts]
        return readers[0].language_seeing(
            [EDIT_TEMPLATE.format(self.before + prompt) for prompt in plain], seen, EDIT_SKIPPED
        )


class QwenImageEditPlus(QwenImageEdit):
    """As QwenImageEdit, with a smaller picture for the language model, which has a number."""

    before = f"Picture 1: {SEEN}"

    @property
    def area(self) -> int:
        return PLUS_AREA


def _of_area(area: int, height: int, width: int) -> tuple[int, int]:
    """The height and the width of a picture of about an area, of whole units. OptionError for a very narrow one."""
    ratio = width / height
    wide = sqrt(area * ratio)
    found = round(wide / ratio / EDIT_UNIT) * EDIT_UNIT, round(wide / EDIT_UNIT) * EDIT_UNIT
    if not min(found):
        raise OptionError(f"a picture of {width:,} x {height:,} pixels is too narrow", where="image", hint="Crop it")
    return found
