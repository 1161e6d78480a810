"""Segment Anything (Kirillov et al. 2023, arXiv 2304.02643): a Vision Transformer that sees a picture once, and a small
decoder that cuts out what points or boxes show.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import attend
from pyapp.nn.parameter import new_parameter
from pyapp.nn.segment_anything import (
    EPSILON,
    FeedForward,
    Form,
    MaskDecoder,
    PlaceEmbedding,
    PromptedMasks,
    PromptEncoder,
)
from pyapp.nn.vision import PatchEmbeddings, check_pictures, over_channels
from pyapp.nn.windows import in_windows, out_of_windows

from .loading.config import read_config, require
from .loading.masks_config import LAYER_RATE, MaskConfig, PromptConfig
from .loading.pictures_config import WIDEST, PatchConfig, check_numbers

MODEL_TYPES = ("sam",)
BASE = ""
IGNORED = r"prompt_encoder\.shared_embedding\.positional_embedding"  # the same as shared_image_embedding's


@dataclass(frozen=True, kw_only=True)
class VisionConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "sam_vision_model"
    image = 1024

    layer_norm_eps: float = 1e-6
    output_channels: int = 256
    mlp_ratio: float = 4.0
    mlp_dim: int | None = None
    use_abs_pos: bool = True
    use_rel_pos: bool = True
    window_size: int = 14
    global_attn_indexes: tuple[int, ...] = (2, 5, 8, 11)
    num_pos_feats: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("global_attn_indexes", self.global_attn_indexes, 1 << 10, least=0)
        for name, most in (("output_channels", WIDEST), ("window_size", 256), ("num_pos_feats", WIDEST)):
            require(getattr(self, name) <= most, f"{name} is {getattr(self, name):,}, expected at most {most:,}")
        require(self.grid[0] == self.grid[1], f"SAM with a grid of {self.grid[0]} x {self.grid[1]} is not supported")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}")

    @property
    def inner(self) -> int:
        """The width inside a layer's feed-forward part."""
        return int(self.hidden_size * self.mlp_ratio) if self.mlp_dim is None else self.mlp_dim


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    vision_config: VisionConfig
    prompt_encoder_config: PromptConfig
    mask_decoder_config: MaskConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for parts that do not fit together."""
        parts: list[Mapping[str, Any]] = []
        for name in ("vision_config", "prompt_encoder_config", "mask_decoder_config"):
            own = values.get(name)
            own = {} if own is None else own
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected an object")
            parts.append(own)
        vision = VisionConfig.from_dict(parts[0])
        prompt, mask = read_config(PromptConfig, parts[1]), read_config(MaskConfig, parts[2])
        widths = {vision.output_channels, 2 * vision.num_pos_feats, prompt.hidden_size, mask.hidden_size}
        require(len(widths) == 1, f"the parts have several widths: {', '.join(map(str, sorted(widths)))}")
        for name in ("image_size", "patch_size"):
            sides, given = getattr(vision, name), getattr(prompt, name)
            require(
                given is None or sides == (given, given),
                f"{name} is {given} in prompt_encoder_config and {' x '.join(map(str, sides))} in vision_config",
            )
        require(values.get("tie_word_embeddings") is not False, "SAM with tie_word_embeddings false is not supported")
        return cls(vision, prompt, mask, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0], "vision_config": self.vision_config.to_dict()}

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        found: int = self.vision_config.num_channels
        return found


class VisionAttention(Module):
    """Attention of the places of a map, with vectors for the distances in rows and in columns (Li et al. 2021, arXiv
    2112.01526).
    """

    def __init__(self, config: VisionConfig, side: int) -> None:
        super().__init__()
        width, self.heads, self.side = config.hidden_size, config.num_attention_heads, side
        self.qkv = Linear(width, 3 * width, config.qkv_bias)
        self.proj = Linear(width, width)
        size = width // self.heads
        self.rel_pos_h = new_parameter(ops.zeros, 2 * side - 1, size) if config.use_rel_pos else None
        self.rel_pos_w = new_parameter(ops.zeros, 2 * side - 1, size) if config.use_rel_pos else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side², D) → (B, side², D)."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = (qkv.select(2, i) for i in range(3))  # (B, T, H, d)
        scale = (width // self.heads) ** -0.5
        if self.rel_pos_h is not None and self.rel_pos_w is not None:
            q, k, scale = self._with_distances(q, k, scale)
        return self.proj(attend(q, k, v, None, scale))

    def _with_distances(self, q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, float]:
        """Queries and keys (B, T, H, d + 2 * side) whose products are the scores with the biases of distances: a query
        has its bias for each row and column, a key says its own row and column. No matrix of biases is needed.
        """
        side, device = self.side, q.device
        batch, tokens, heads, size = q.shape
        places = ops.arange(side, device=device)
        apart = (places.reshape(side, 1) - places.reshape(1, side) + (side - 1)).reshape(-1)  # (side²,)
        grid = q.reshape(batch, side, side, heads, size)
        rows, columns = (
            table.index_select(0, apart).reshape(side, side, size)
            for table in (self.rel_pos_h, self.rel_pos_w)
            if table is not None
        )
        down = ops.einsum("brchd,rkd->brchk", grid, rows).reshape(batch, tokens, heads, side)
        along = ops.einsum("brchd,ckd->brchk", grid, columns).reshape(batch, tokens, heads, side)
        one = ops.eye(side, device=device)
        row_of = one.reshape(side, 1, side).expand(side, side, side).reshape(1, tokens, 1, side)
        column_of = one.reshape(1, side, side).expand(side, side, side).reshape(1, tokens, 1, side)
        parts = [part.expand(batch, tokens, heads, side) for part in (row_of, column_of)]
        return ops.cat([q * scale, down, along], 3), ops.cat([k, *parts], 3), 1.0


class VisionLayer(Module):
    """Attention, within windows if `window` is not 0, and a feed-forward part, each with a norm before it."""

    def __init__(self, config: VisionConfig, window: int) -> None:
        super().__init__()
        self.window = window
        self.layer_norm1 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attn = VisionAttention(config, window or config.grid[0])
        self.layer_norm2 = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = FeedForward(config.hidden_size, config.inner, config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side, side, D) → (B, side, side, D)."""
        y, (batch, high, wide, width) = self.layer_norm1(x), x.shape
        if self.window:
            below, right = -high % self.window, -wide % self.window
            y = in_windows(ops.pad(y, [0, 0, 0, right, 0, below]), self.window)  # (B, R, C, T, D)
            shape = y.shape
            y = self.attn(y.reshape(-1, shape[3], width)).reshape(*shape)
            y = out_of_windows(y, self.window)[:, :high, :wide]
        else:
            y = self.attn(y.reshape(batch, high * wide, width)).reshape(x.shape)
        x = x + y
        return self.mlp(self.layer_norm2(x), x)


class Neck(Module):
    """The map that the decoder reads."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        width = config.output_channels
        self.conv1 = Conv2d(config.hidden_size, width, 1, bias=False)
        self.layer_norm1 = LayerNorm(width, EPSILON)
        self.conv2 = Conv2d(width, width, 3, padding=1, bias=False)
        self.layer_norm2 = LayerNorm(width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side, side, D) → (B, C, side, side)."""
        x = over_channels(self.conv1(x.permute(0, 3, 1, 2)), self.layer_norm1)
        return over_channels(self.conv2(x), self.layer_norm2)


class VisionEncoder(Module):
    """The Vision Transformer."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbeddings(config.num_channels, config.hidden_size, config.patch_size)
        absolute = config.use_abs_pos
        self.pos_embed = new_parameter(ops.zeros, 1, *config.grid, config.hidden_size) if absolute else None
        self.layers = ModuleList(
            VisionLayer(config, 0 if i in config.global_attn_indexes else config.window_size)
            for i in range(config.num_hidden_layers)
        )
        self.neck = Neck(config)

    def steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        """pixel_values (B, 3, H, W) → (B, C, side, side); yields how many layers are done, and how many there are."""
        check_pictures("SAM", pixel_values, self.config.num_channels, self.config.image_size)
        rows, columns = self.config.grid
        x = self.patch_embed(pixel_values).reshape(pixel_values.shape[0], rows, columns, self.config.hidden_size)
        if self.pos_embed is not None:
            x = x + self.pos_embed
        for i, layer in enumerate(self.layers):
            x = layer(x)
            yield i + 1, len(self.layers)
        return self.neck(x)


class Sam(PromptedMasks):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, mask = config, config.mask_decoder_config
        self.shared_image_embedding = PlaceEmbedding(config.vision_config.num_pos_feats)
        self.vision_encoder = VisionEncoder(config.vision_config)
        self.prompt_encoder = PromptEncoder(config.prompt_encoder_config)
        self.mask_decoder = MaskDecoder(mask, Form(LAYER_RATE, "out_proj", None, mask.layer_norm_eps))

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        return self.vision_encoder.steps(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {"mask-generation": Sam}
