"""FastViT (Vasu et al. 2023, arXiv 2303.14189): filters of single channels mix places, in the last stage attention, and
all filters are trained as sums of several.

Parameters have the names of timm's files; those of reparameterised networks are read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad, ops
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import BatchNorm2d, Conv2d, LayerNorm, Linear, Module, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.mobile import ChannelScale, FilterNorm, SqueezedAttention, Style
from pyapp.nn.vision.reparameterized import SQUEEZED_NAMES, Branches, Shape, filter_of, forget, same, sum_of
from pyapp.nn.vision.vision import ImageModel, as_map, as_sequence, check_pictures, mean_of_places, over_channels

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers, check_stages

MODEL_TYPES = ("fastvit",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
HEAD_WIDTH = 32  # channels of a head of attention
PATCH, MIXED, PLACED = 7, 3, 7  # pixels of a side of filters: between stages, of places, of positions
EPSILON = 1e-5  # of norms over channels
SQUEEZE = 16  # channels for each of the squeezed attention


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, stage by stage; attends: whether its places attend to each other; squeezes: whether the
    large filter before it has squeezed attention; large_act: whether those filters have an activation; plain_stem:
    the first filters have none of a pixel beside them; channel_norms: the norms before places attend are over channels;
    fused: sums of filters are one filter.
    """

    model_type = MODEL_TYPES[0]

    hidden_sizes: tuple[int, ...]
    depths: tuple[int, ...]
    mlp_ratios: tuple[int, ...]
    attends: tuple[bool, ...]
    squeezes: tuple[bool, ...]
    large_act: bool = False
    plain_stem: bool = False
    channel_norms: bool = False
    head_ratio: int = 2
    hidden_act: str = "gelu"
    fused: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        count = len(self.depths)
        check_numbers("mlp_ratios", self.mlp_ratios, 64, count=count)
        for name in ("attends", "squeezes"):
            given = getattr(self, name)
            known = len(given) == count and all(type(value) is bool for value in given)
            require(known, f"{name} is {given!r:.60}, expected true or false for each stage")
        require(self.head_ratio <= 64, f"head_ratio is {self.head_ratio:,}, expected at most 64")
        require(max(self.hidden_sizes) <= WIDEST // 64, f"hidden_sizes is {self.hidden_sizes!r:.60}: too wide")
        for i, width in enumerate(self.hidden_sizes):
            whole = not self.attends[i] or width % HEAD_WIDTH == 0
            require(whole, f"the width {width} of stage {i + 1} is not a multiple of {HEAD_WIDTH}")
            before = self.hidden_sizes[max(i - 1, 0)]
            require(
                width % before == 0, f"the width {width} of stage {i + 1} is not a multiple of that before, {before}"
            )


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Mapping[str, Any]:
    """The settings of a file, which says by its tensors whether the network is reparameterised."""
    return {**settings, "fused": any(name.endswith("reparam_conv.weight") for name in tensors)}


def _branches(config: Config, before: int, width: int, kernel: int, stride: int = 1, each: bool = False,
              squeezed: int = 0, scaled: bool = True) -> Branches:  # fmt: skip
    return Branches(
        before, width, kernel, stride, before if each else 1, branches=1, squeezed=squeezed, fused=config.fused,
        activation=config.hidden_act, attention="se", scaled=scaled,
    )  # fmt: skip


class LargeFilter(Module):
    """A filter of each channel with 7 x 7 pixels, and one with 3 x 3, between two stages; then squeezed attention
    (`squeezed`) and the activation, if there are such.
    """

    def __init__(self, config: Config, before: int, width: int, squeezed: bool) -> None:
        super().__init__()
        inner = max(8, (width // 4 + 4) // 8 * 8)
        self.se = SqueezedAttention(width, inner, "relu", False, SQUEEZED_NAMES) if squeezed else None
        self.activation = activation_named(config.hidden_act) if config.large_act else None
        self.shape: Shape = before, width, PATCH, 2, PATCH // 2, 1, before
        self.reparam_conv: Conv2d | None = Conv2d(*self.shape) if config.fused else None
        if not config.fused:
            for name, side in (("large_conv", PATCH), ("small_conv", 3)):
                branch: Any = FilterNorm(before, width, Style(), side, 2)
                branch.conv = Conv2d(before, width, side, 2, side // 2, 1, before, bias=False)
                setattr(self, name, branch)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2), rounded up."""
        x = self.large_conv(x) + self.small_conv(x) if self.reparam_conv is None else self.reparam_conv(x)
        x = x if self.se is None else self.se(x)
        return x if self.activation is None else self.activation(x)

    def fuse(self) -> None:
        """Becomes one filter."""
        if self.reparam_conv is None:
            self.reparam_conv = filter_of(self.shape, *sum_of(self.shape, [self.large_conv, self.small_conv]))
            forget(self, "large_conv", "small_conv")


class PatchEmbedding(Module):
    """Half the sides, more channels."""

    def __init__(self, config: Config, before: int, width: int, squeezed: bool) -> None:
        super().__init__()
        self.proj = Sequential(LargeFilter(config, before, width, squeezed), _branches(config, width, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2), rounded up."""
        return self.proj(x)


class Mixer(Module):
    """x and the scaled difference of two sums of filters: with places around each, and without."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.shape: Shape = width, width, MIXED, 1, MIXED // 2, 1, width
        self.reparam_conv: Conv2d | None = Conv2d(*self.shape) if config.fused else None
        if not config.fused:
            self.norm = Module()
            self.norm.identity = BatchNorm2d(width)
            self.mixer = Branches(width, width, MIXED, 1, width, branches=1, activation=None)
            self.layer_scale = ChannelScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        if self.reparam_conv is not None:
            return self.reparam_conv(x)
        return x + self.layer_scale(self.mixer(x) - self.norm.identity(x))

    def fuse(self) -> None:
        """Becomes one filter."""
        if self.reparam_conv is not None:
            return
        self.mixer.fuse()
        mixed: Any = self.mixer.reparam_conv
        with no_grad():
            weight, bias = sum_of(self.shape, [self.norm.identity])
            scale = self.layer_scale.gamma.reshape(-1)
            weight = same(self.shape, weight.device, MIXED) + scale.reshape(-1, 1, 1, 1) * (mixed.weight - weight)
            self.reparam_conv = filter_of(self.shape, weight, scale * (mixed.bias - bias))
        forget(self, "norm", "mixer", "layer_scale")


class FeedForward(Module):
    """A filter of each channel with 7 x 7 pixels, and two layers of each place."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.conv = FilterNorm(width, width, Style(), PATCH, each=True)
        self.fc1 = Conv2d(width, inner, 1)
        self.fc2 = Conv2d(inner, width, 1)
        self.activation = activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.fc2(self.activation(self.fc1(self.conv(x))))


class MixingBlock(Module):
    """Places are mixed by a filter; then each changes by itself."""

    def __init__(self, config: Config, width: int, ratio: int) -> None:
        super().__init__()
        self.token_mixer = Mixer(config, width)
        self.mlp = FeedForward(width, width * ratio, config.hidden_act)
        self.layer_scale = ChannelScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        x = self.token_mixer(x)
        return x + self.layer_scale(self.mlp(x))


class PlacesAttention(Module):
    """The places of a map attend to each other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = Linear(width, 3 * width, bias=False)
        self.proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        batch, width, rows, columns = (int(side) for side in x.shape)
        parts = self.qkv(as_sequence(x)).reshape(batch, rows * columns, 3, width // HEAD_WIDTH, HEAD_WIDTH)
        query, key, value = (parts.select(2, i).transpose(1, 2) for i in range(3))  # (B, heads, T, d) each
        y = ops.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, rows * columns, width)
        return as_map(self.proj(y), rows, columns)


class AttentionBlock(Module):
    """Places attend to each other; then each changes by itself."""

    def __init__(self, config: Config, width: int, ratio: int) -> None:
        super().__init__()
        self.norm: Module = LayerNorm(width, EPSILON) if config.channel_norms else BatchNorm2d(width)
        self.token_mixer = PlacesAttention(width)
        self.layer_scale_1 = ChannelScale(width)
        self.mlp = FeedForward(width, width * ratio, config.hidden_act)
        self.layer_scale_2 = ChannelScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = over_channels(x, self.norm) if isinstance(self.norm, LayerNorm) else self.norm(x)
        x = x + self.layer_scale_1(self.token_mixer(y))
        return x + self.layer_scale_2(self.mlp(x))


class Positions(Module):
    """A filter of each channel, by whose zeros at the border places know where they are (Chu et al. 2021, arXiv
    2102.10882).
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.shape: Shape = width, width, PLACED, 1, PLACED // 2, 1, width
        self.reparam_conv: Conv2d | None = Conv2d(*self.shape) if config.fused else None
        if not config.fused:
            self.pos_enc = Conv2d(*self.shape)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x + self.pos_enc(x) if self.reparam_conv is None else self.reparam_conv(x)

    def fuse(self) -> None:
        """Becomes one filter."""
        if self.reparam_conv is None:
            with no_grad():
                own: Any = self.pos_enc
                weight = own.weight + same(self.shape, own.weight.device, PLACED)
                self.reparam_conv = filter_of(self.shape, weight, own.bias + 0)
            forget(self, "pos_enc")


class Stage(Module):
    """Blocks of one width."""

    def __init__(self, config: Config, i: int) -> None:
        super().__init__()
        width, before = config.hidden_sizes[i], config.hidden_sizes[max(i - 1, 0)]
        self.downsample = PatchEmbedding(config, before, width, config.squeezes[i]) if i else None
        self.pos_emb = Positions(config, width) if config.attends[i] else None
        block: Callable[[Config, int, int], Module] = AttentionBlock if config.attends[i] else MixingBlock
        self.blocks = Sequential(*(block(config, width, config.mlp_ratios[i]) for _ in range(config.depths[i])))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        x = x if self.downsample is None else self.downsample(x)
        return self.blocks(x if self.pos_emb is None else self.pos_emb(x))


class FastViT(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        first, last, scaled = config.hidden_sizes[0], config.hidden_sizes[-1], not config.plain_stem
        self.stem = Sequential(
            _branches(config, config.num_channels, first, 3, 2, scaled=scaled),
            _branches(config, first, first, 3, 2, each=True, scaled=scaled),
            _branches(config, first, first, 1),
        )  # fmt: skip
        self.stages = Sequential(*(Stage(config, i) for i in range(len(config.depths))))
        wide = last * config.head_ratio
        self.final_conv = Branches(
            last, wide, 3, 1, last, branches=1, squeezed=max(1, round(wide / SQUEEZE)), activation=config.hidden_act,
            fused=config.fused, attention="se",
        )  # fmt: skip

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("FastViT", pixel_values, self.config.num_channels)
        return self.final_conv(self.stages(self.stem(pixel_values)))


class FastViTClassifier(FastViT):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Module()
        self.head.fc = Linear(config.hidden_sizes[-1] * config.head_ratio, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head.fc(mean_of_places(super().forward(pixel_values)))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": FastViT,
    "image-classification": FastViTClassifier,
}
