"""RADIO (Ranzinger et al. 2023, arXiv 2312.06709): a Vision Transformer that has learnt from several others what their
features say, for pictures of any size. Several class tokens stand before registers and the patches; some of them
together are the features of a picture.

Parameters have the names of NVIDIA's files, without what they begin with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import InputError
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend_joined
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, LayerScale, as_sequence, check_pictures

from .loading.config import require
from .loading.open_clip import CLIP
from .loading.pictures_config import ScaledConfig, check_numbers

MODEL_TYPES = ("radio",)
BASE = ""
IGNORED = r"(radio_model\.model\.patch_generator\.video_embedder|embeddings\.video_patch_projection)\..*"  # of videos
BEFORE = r"radio_model\.(model\.)?"
TOKENS = 1 << 10  # the most class tokens, and registers


@dataclass(frozen=True, kw_only=True)
class Config(ScaledConfig):
    """The hyper-parameters, by the names of config.json. What a file does not say is that of C-RADIO-H. scaled_layers:
    whether the file has factors of the layers' outputs, as transformers adds them.
    """

    model_type = MODEL_TYPES[0]
    patch = 16

    hidden_size: int = 1280
    num_hidden_layers: int = 32
    num_attention_heads: int = 16
    max_img_size: int = 2048
    num_cls_tokens: int = 3
    num_registers: int = 7
    summary_idxs: Any = (0, 1)
    norm_mean: Any = CLIP[0]
    norm_std: Any = CLIP[1]
    scaled_layers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        high, wide = self.patch_size
        require(high == wide, f"patch_size is {high} x {wide}, expected a square")
        require(self.max_img_size <= 1 << 15, f"max_img_size is {self.max_img_size:,}, expected at most 32,768")
        require(self.side >= 1, f"patch_size {high} is larger than max_img_size {self.max_img_size:,}")
        check_numbers("num_cls_tokens and num_registers", [self.num_cls_tokens, self.num_registers], TOKENS)
        chosen = self.summary_idxs
        known = isinstance(chosen, list | tuple) and all(
            type(i) is int and 0 <= i < self.num_cls_tokens for i in chosen
        )
        require(known and 1 <= len(chosen) <= TOKENS, f"summary_idxs is {chosen!r:.60}, expected class tokens")
        for name in ("norm_mean", "norm_std"):
            given = getattr(self, name)
            numbers = isinstance(given, list | tuple) and all(type(n) in (int, float) for n in given)
            require(numbers and len(given) == self.num_channels, f"{name} is {given!r:.60}, expected one per channel")
        require(not self.use_swiglu_ffn, "RADIO with gated layers (use_swiglu_ffn) is not supported")

    @property
    def side(self) -> int:
        """The rows, and the columns, of the table of positions."""
        return self.max_img_size // self.patch_size[0]


def adapted(settings: Mapping[str, Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors."""
    return {**settings, "scaled_layers": any("layer_scale1" in name for name in names)}


class Conditioner(Module):
    """Pictures of numbers from 0 to 1, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        for name in ("norm_mean", "norm_std"):
            self.register_buffer(name, ops.tensor(list(getattr(config, name))).reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return (x - self.norm_mean) / self.norm_std


class Patches(Module):
    """The class tokens, the registers, and the patches, which have positions for any grid."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.patch, self.side = config.hidden_size, config.patch_size[0], config.side
        self.embedder = Linear(config.num_channels * self.patch**2, width, bias=False)
        self.pos_embed = new_parameter(ops.zeros, 1, self.side**2, width)
        self.cls_token = Module()
        self.cls_token.token = new_parameter(ops.zeros, config.num_cls_tokens + config.num_registers, width)

    def positions(self, rows: int, columns: int) -> Tensor:
        """The positions (1, rows * columns, D): the upper left part of the table, resampled to a square."""
        longest, width = max(rows, columns), self.pos_embed.shape[2]
        table = self.pos_embed.reshape(1, self.side, self.side, width).permute(0, 3, 1, 2)
        found = ops.interpolate(table, size=(longest, longest), mode="bilinear", align_corners=False)
        return as_sequence(found.narrow(2, 0, rows).narrow(3, 0, columns))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, class tokens + registers + patches, D)."""
        count, channels, height, width = x.shape
        side, rows, columns = self.patch, height // self.patch, width // self.patch
        cut = x.reshape(count, channels, rows, side, columns, side).permute(0, 2, 4, 1, 3, 5)
        patches = self.embedder(cut.reshape(count, rows * columns, channels * side * side))
        own = self.cls_token.token.to(patches.dtype).unsqueeze(0)
        return ops.cat([own.expand(count, *own.shape[1:]), patches + self.positions(rows, columns)], 1)


class Attention(Module):
    """Attention of tokens and patches to each other; queries, keys and values come from one matrix."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.qkv = Linear(config.hidden_size, 3 * config.hidden_size, config.qkv_bias)
        self.proj = Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.proj(attend_joined(self.qkv(x), self.heads, None))


class Block(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual, and maybe factors."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, scaled = config.hidden_size, config.scaled_layers
        self.norm1 = LayerNorm(width, config.layer_norm_eps)
        self.attn = Attention(config)
        self.layer_scale1 = LayerScale(width) if scaled else None
        self.norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = FeedForward(width, config.inner, config.hidden_act)
        self.layer_scale2 = LayerScale(width) if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        y = self.attn(self.norm1(x))
        x = x + (y if self.layer_scale1 is None else self.layer_scale1(y))
        y = self.mlp(self.norm2(x))
        return x + (y if self.layer_scale2 is None else self.layer_scale2(y))


class Radio(ImageModel):
    """The network."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.input_conditioner = Conditioner(config)
        self.patch_generator = Patches(config)
        self.blocks = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.register_buffer("summary_idxs", ops.tensor(list(config.summary_idxs), dtype="int64"))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) from 0 to 1 → hidden states (B, class tokens + registers + patches, D)."""
        side = self.config.patch_size[0]
        check_pictures("RADIO", pixel_values, self.config.num_channels, least=side)
        if pixel_values.shape[2] % side or pixel_values.shape[3] % side:
            high, wide = pixel_values.shape[2:]
            raise InputError(f"RADIO: the pictures have {high} x {wide} pixels, the model takes multiples of {side}")
        x = self.patch_generator(self.input_conditioner(pixel_values))
        for block in self.blocks:
            x = block(x)
        return x

    def pooled(self, x: Tensor) -> Tensor:
        """The features (B, S D) of a picture's hidden states (B, T, D): those of the class tokens that sum it up."""
        return x.index_select(1, self.summary_idxs).reshape(x.shape[0], -1)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return re.sub(f"^{BEFORE}", "", name)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": Radio}
