"""EfficientViT (Liu et al. 2023, arXiv 2305.07027), Microsoft's: attention within windows, each of whose heads reads
what the one before it found.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm1d, Linear, Module, ModuleList, Sequential
from pyapp.nn.vision.distance_biases import DistanceBiases
from pyapp.nn.vision.mobile import FilterNorm, SqueezedAttention, Style
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places
from pyapp.nn.vision.windows import in_windows, out_of_windows

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, check_numbers, pair

MODEL_TYPES = ("efficientvit_msra",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
IGNORED = r".*attention_bias_idxs"  # computed here
PATCH = 16  # pixels of a side of a place of the first stage
STEMS = 4  # filters before it
KEY_WIDTH = 16  # channels of a head's queries and keys
STYLE = Style()


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters of each stage, and the sides of the filters of each head's queries."""

    model_type = MODEL_TYPES[0]

    image_size: tuple[int, int]
    embed_dims: tuple[int, ...]
    depths: tuple[int, ...]
    num_heads: tuple[int, ...]
    window_sizes: tuple[int, ...]
    kernels: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("embed_dims", self.embed_dims, WIDEST)
        stages = len(self.embed_dims)
        check_numbers("depths", self.depths, DEEPEST, count=stages)
        check_numbers("num_heads", self.num_heads, 16, count=stages)
        check_numbers("window_sizes", self.window_sizes, 256, count=stages)
        check_numbers("kernels", self.kernels, 31)
        require(all(side % 2 for side in self.kernels), f"kernels is {self.kernels}, expected odd sides")
        require(max(self.num_heads) <= len(self.kernels), f"there are kernels for {len(self.kernels)} heads only")
        require(self.embed_dims[0] % 8 == 0, f"embed_dims is {self.embed_dims}, expected first a multiple of 8")
        for width, heads in zip(self.embed_dims, self.num_heads, strict=True):
            require(width % heads == 0, f"{heads} num_heads do not divide {width} embed_dims")
        require(min(self.image_size) >= PATCH, f"image_size is {self.image_size}, expected from {PATCH} pixels")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "image_size": pair(values, "image_size", 224)})


class Residual(Module):
    """What a layer finds, added to its input."""

    def __init__(self, layer: Module) -> None:
        super().__init__()
        self.m = layer

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x + self.m(x)


class FeedForward(Module):
    """Two layers of each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pw1 = FilterNorm(width, 2 * width, STYLE, activation="relu")
        self.pw2 = FilterNorm(2 * width, width, STYLE)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.pw2(self.pw1(x))


def _around(width: int) -> tuple[Module, Module]:
    """A filter of each channel, and a feed-forward part."""
    return Residual(FilterNorm(width, width, STYLE, 3, each=True)), Residual(FeedForward(width))


class Attention(DistanceBiases):
    """Attention of all places of a window of `side` rows and columns: a head reads its part of the channels, and what
    the head before it found.
    """

    def __init__(self, width: int, heads: int, side: int, kernels: tuple[int, ...]) -> None:
        super().__init__(heads, side)
        self.value_width = int(width / (KEY_WIDTH * heads) * KEY_WIDTH)
        self.qkvs = ModuleList(
            FilterNorm(width // heads, 2 * KEY_WIDTH + self.value_width, STYLE) for _ in range(heads)
        )
        self.dws = ModuleList(FilterNorm(KEY_WIDTH, KEY_WIDTH, STYLE, kernel, each=True) for kernel in kernels[:heads])
        self.proj = Sequential(Module(), FilterNorm(self.value_width * heads, width, STYLE))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, side, side) → (B, C, side, side)."""
        batch, side, biases = x.shape[0], self.side, self.biases().squeeze(0)
        parts = ops.chunk(x, len(self.qkvs), 1)
        found: list[Tensor] = []
        for head, (qkv, filters) in enumerate(zip(self.qkvs, self.dws, strict=True)):
            y = qkv(parts[head] + found[-1] if found else parts[head])  # (B, 2 * K + V, side, side)
            query, key = filters(y.narrow(1, 0, KEY_WIDTH)), y.narrow(1, KEY_WIDTH, KEY_WIDTH)
            value = y.narrow(1, 2 * KEY_WIDTH, self.value_width)
            q, k, v = (part.flatten(2).transpose(1, 2).unsqueeze(1) for part in (query, key, value))  # (B, 1, T, ·)
            y = ops.scaled_dot_product_attention(q, k, v, biases[head])  # (B, 1, T, V)
            found.append(y.squeeze(1).transpose(1, 2).reshape(batch, self.value_width, side, side))
        return self.proj[1](ops.relu(ops.cat(found, 1)))


class WindowAttention(Module):
    """Attention within windows; at the right and the bottom they reach over the map."""

    def __init__(self, width: int, heads: int, side: int, kernels: tuple[int, ...]) -> None:
        super().__init__()
        self.attn = Attention(width, heads, side, kernels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        side, (batch, channels, high, wide) = self.attn.side, x.shape
        if (high, wide) == (side, side):
            return self.attn(x)
        below, right = -high % side, -wide % side
        y = in_windows(ops.pad(x.permute(0, 2, 3, 1), [0, 0, 0, right, 0, below]), side)  # (B, R, C, T, D)
        rows, columns = y.shape[1:3]
        y = y.reshape(-1, side, side, channels).permute(0, 3, 1, 2)
        y = self.attn(y).permute(0, 2, 3, 1).reshape(batch, rows, columns, side * side, channels)
        return out_of_windows(y, side)[:, :high, :wide].permute(0, 3, 1, 2)


class Block(Module):
    """Attention between two filters and two feed-forward parts."""

    def __init__(self, width: int, heads: int, side: int, kernels: tuple[int, ...]) -> None:
        super().__init__()
        self.dw0, self.ffn0 = _around(width)
        self.mixer = Residual(WindowAttention(width, heads, side, kernels))
        self.dw1, self.ffn1 = _around(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.ffn1(self.dw1(self.mixer(self.ffn0(self.dw0(x)))))


class Merging(Module):
    """Filters that halve the sides."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        inner = 4 * before
        self.conv1 = FilterNorm(before, inner, STYLE, activation="relu")
        self.conv2 = FilterNorm(inner, inner, STYLE, 3, 2, activation="relu", each=True)
        squeezed = max(8, (before + 4) // 8 * 8)
        self.se = SqueezedAttention(inner, squeezed, "relu", False, ("fc1", "fc2"))
        self.conv3 = FilterNorm(inner, width, STYLE)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2), rounded up."""
        return self.conv3(self.se(self.conv2(self.conv1(x))))


class Stage(Module):
    """Blocks of one width; all stages but the first begin with half of the sides."""

    def __init__(self, config: Config, stage: int, side: int) -> None:
        super().__init__()
        before, width = config.embed_dims[max(stage - 1, 0)], config.embed_dims[stage]
        self.downsample = Module()
        self.merges = stage > 0
        if self.merges:
            self.downsample.res1 = Sequential(*_around(before))
            self.downsample.patchmerge = Merging(before, width)
            self.downsample.res2 = Sequential(*_around(width))
        own = min(config.window_sizes[stage], side)
        self.blocks = Sequential(
            *(Block(width, config.num_heads[stage], own, config.kernels) for _ in range(config.depths[stage]))
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        if self.merges:
            part = self.downsample
            x = part.res2(part.patchmerge(part.res1(x)))
        return self.blocks(x)


class EfficientVit(ImageModel):
    """The network, for pictures of one size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        before, width = config.num_channels, config.embed_dims[0]
        self.patch_embed = Module()
        for i in range(STEMS):
            own, last = width >> (STEMS - 1 - i), i + 1 == STEMS
            filters = FilterNorm(before, own, STYLE, 3, 2, activation=None if last else "relu")
            self.patch_embed.add_module(f"conv{i + 1}", filters)
            before = own
        side, stages = min(config.image_size) // PATCH, []
        for stage in range(len(config.embed_dims)):
            side = (side + 1) // 2 if stage else side
            stages.append(Stage(config, stage, side))
        self.stages = Sequential(*stages)

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.image_size

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → the last map (B, C, H', W')."""
        check_pictures("EfficientViT", pixel_values, self.config.num_channels, self.config.image_size)
        x, embed = pixel_values, self.patch_embed
        for i in range(STEMS):
            x = embed._modules[f"conv{i + 1}"](x)
        return self.stages(x)


class EfficientVitClassifier(EfficientVit):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Module()
        self.head.bn = BatchNorm1d(config.embed_dims[-1])
        self.head.linear = Linear(config.embed_dims[-1], len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head.linear(self.head.bn(mean_of_places(super().forward(pixel_values))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": EfficientVit,
    "image-classification": EfficientVitClassifier,
}
