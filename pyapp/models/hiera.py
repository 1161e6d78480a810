"""Hiera (Ryali et al. 2023, arXiv 2306.00989): a Vision Transformer whose first stages attend within windows, and whose
places become fewer by the largest of four queries; with positions of windows of their own (Bolya et al. 2023, arXiv
2311.05613) if the configuration says so.

Parameters have the names of timm's files, but for the scales, and for queries, keys and values, which these have in
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, LayerScale, as_sequence, check_pictures, mean_of_patches

from .loading.config import DEEPEST, check_divides, require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers, pair

MODEL_TYPES = ("hiera",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
KERNEL = 7  # pixels of a side of a patch
HALVINGS = 3  # of the sides, between four stages
WINDOW = 1 << HALVINGS  # places of a side of a window, before the first
WINDOWED = 2  # stages that attend within windows
FOUR = 4  # places that become one


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters. position_size: rows and columns of the positions where windows have positions of their own;
    projects: wider places are projected, not their largest and mean values side by side.
    """

    model_type = MODEL_TYPES[0]

    image_size: tuple[int, int]
    embed_dim: int
    num_heads: int
    depths: tuple[int, ...]
    patch_stride: int = 4
    position_size: tuple[int, ...] | None = None
    projects: bool = True
    layer_scale: bool = False
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("depths", self.depths, DEEPEST, count=HALVINGS + 1)
        require(self.embed_dim << HALVINGS <= WIDEST, f"embed_dim is {self.embed_dim:,}: the last stage is too wide")
        check_divides(self, "num_heads", "embed_dim")
        require(self.patch_stride <= 64, f"patch_stride is {self.patch_stride:,}, expected at most 64")
        sides = WINDOW * self.patch_stride
        require(
            all(side % sides == 0 for side in self.image_size),
            f"image_size is {self.image_size}, expected multiples of {sides}",
        )
        if self.position_size is not None:
            check_numbers("position_size", self.position_size, 1 << 10, count=2)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "image_size": pair(values, "image_size", 224)})

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of places before the first stage."""
        return self.image_size[0] // self.patch_stride, self.image_size[1] // self.patch_stride


def in_windows(x: Tensor, rows: int, columns: int) -> Tensor:
    """(B, rows * columns, D) → the same places in another order: [part of four, part of four …, window], so that the
    halves of an axis of four are the places that become one.
    """
    shape, width = x.shape, x.shape[2]
    for _ in range(HALVINGS):
        rows, columns = rows // 2, columns // 2
        x = x.reshape(-1, rows, 2, columns, 2, width).permute(0, 2, 4, 1, 3, 5)  # (B, 2, 2, H / 2, W / 2, D)
    return x.reshape(*shape)


class Attention(Module):
    """Attention of places in the order of in_windows, within windows of `window` places or of all (0); `pools`: of four
    queries the largest values are one.
    """

    def __init__(self, before: int, width: int, heads: int, window: int, pools: bool) -> None:
        super().__init__()
        self.heads, self.window, self.pools = heads, window, pools
        self.query, self.key, self.value = (Linear(before, width) for _ in range(3))
        self.proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T', width), T' is T or a fourth of it."""
        batch, count = int(x.shape[0]), int(x.shape[1])
        windows = count // self.window if self.window else 1
        query, key, value = (  # (B, heads, windows, places of a window, d) each
            part(x).reshape(batch, count // windows, windows, self.heads, -1).permute(0, 3, 2, 1, 4)
            for part in (self.query, self.key, self.value)
        )
        if self.pools:
            query = query.reshape(*query.shape[:3], FOUR, -1, query.shape[4]).amax(3)
        y = ops.scaled_dot_product_attention(query, key, value)
        return self.proj(y.permute(0, 3, 2, 1, 4).reshape(batch, -1, self.heads * y.shape[4]))


class FeedForward(Module):
    """Two layers of each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = Linear(width, 4 * width)
        self.fc2 = Linear(4 * width, width)
        self.activation = activation_named("gelu")

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.fc2(self.activation(self.fc1(x)))


class Block(Module):
    """Attention, and a feed-forward part. A stage's first doubles the channels, and leaves a fourth of the places."""

    def __init__(self, config: Config, before: int, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.grows = before != width
        self.norm1 = LayerNorm(before, config.layer_norm_eps)
        self.proj = Linear(before, width) if self.grows and config.projects else None
        self.attn = Attention(before, width, heads, window, self.grows)
        self.ls1, self.ls2 = (LayerScale(width) if config.layer_scale else None for _ in range(2))
        self.norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T', width)."""
        normed = self.norm1(x)
        if self.grows:
            x = x if self.proj is None else self.proj(normed)
            fours = x.reshape(x.shape[0], FOUR, -1, x.shape[2])  # (B, 4, T / 4, D)
            x = fours.amax(1) if self.proj is not None else ops.cat([fours.amax(1), fours.mean(1)], 2)
        y = self.attn(normed)
        x = x + (y if self.ls1 is None else self.ls1(y))
        y = self.mlp(self.norm2(x))
        return x + (y if self.ls2 is None else self.ls2(y))


class Hiera(ImageModel):
    """The network, for pictures of one size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, heads, window = config.embed_dim, config.num_heads, WINDOW * WINDOW
        self.patch_embed = Module()
        self.patch_embed.proj = Conv2d(config.num_channels, width, KERNEL, config.patch_stride, KERNEL // 2)
        if config.position_size is None:
            self.pos_embed = new_parameter(ops.zeros, 1, config.grid[0] * config.grid[1], width)
        else:
            self.pos_embed = new_parameter(ops.zeros, 1, width, *config.position_size)
            self.pos_embed_win = new_parameter(ops.zeros, 1, width, WINDOW, WINDOW)
        blocks: list[Module] = []
        for stage, depth in enumerate(config.depths):
            for i in range(depth):
                first = i == 0 and stage > 0
                before, width, heads = width, width * (2 if first else 1), heads * (2 if first else 1)
                # The first block of a stage still attends as the stage before it, over its places.
                windowed = (stage - 1 if first else stage) < WINDOWED
                blocks.append(Block(config, before, width, heads, window if windowed else 0))
                window //= FOUR if first else 1
        self.blocks = Sequential(*blocks)
        self.width = width

    @property
    def pixels(self) -> tuple[int, int] | None:
        return self.config.image_size

    def positions(self) -> Tensor:
        """The positions (1, rows * columns, D)."""
        if self.config.position_size is None:
            return self.pos_embed
        rows, columns = self.config.grid
        whole = ops.interpolate(
            self.pos_embed, size=(rows, columns), mode="bicubic", align_corners=False, antialias=True
        )
        return as_sequence(whole + self.pos_embed_win.repeat(1, 1, rows // WINDOW, columns // WINDOW))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, T, D), row by row."""
        check_pictures("Hiera", pixel_values, self.config.num_channels, self.config.image_size)
        x = as_sequence(self.patch_embed.proj(pixel_values)) + self.positions()
        return self.blocks(in_windows(x, *self.config.grid))


class HieraClassifier(Hiera):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Module()
        self.head.norm = LayerNorm(self.width, config.layer_norm_eps)
        self.head.fc = Linear(self.width, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head.fc(self.head.norm(mean_of_patches(super().forward(pixel_values))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Hiera,
    "image-classification": HieraClassifier,
}
