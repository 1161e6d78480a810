"""EfficientViT (Cai et al. 2022, arXiv 2205.14756), MIT's: inverted residuals, and linear attention of places at two
scales in the last stages.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import DEEPEST, require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("efficientvit",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
SCALE = 5  # pixels of a side of the filter that sees the larger scale
EPSILON = 1e-5  # of the quotient of the attention, and of the head's norm of batches


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: channels and blocks of the stem and of the stages, channels of a head of attention, and of
    the two layers before the labels; large: the larger blocks of the paper's L models, of which only the last stage
    attends.
    """

    model_type = MODEL_TYPES[0]

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    head_dim: int
    head_widths: tuple[int, ...]
    large: bool = False
    hidden_act: str = "hardswish"
    layer_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("widths", self.widths, WIDEST // 32)
        check_numbers("depths", self.depths, DEEPEST, count=len(self.widths))
        check_numbers("head_widths", self.head_widths, WIDEST, count=2)
        require(len(self.widths) >= 2, "there is no stage after the stem")
        for i, width in enumerate(self.widths[1:]):
            whole = not self.attends(i) or width % self.head_dim == 0
            require(whole, f"head_dim {self.head_dim} does not divide the width {width} of stage {i + 1}")

    def attends(self, i: int) -> bool:
        """Whether the places of stage i attend to each other."""
        return i >= (3 if self.large else 2)

    def few_norms(self, i: int) -> bool:
        """Whether only the last filter of a block of stage i has a norm."""
        return i >= 2


class FilterNorm(Module):
    """A filter, its norm and the activation (None: none), as `conv` and `norm`; without a norm it has a bias."""

    def __init__(
        self, config: Config, before: int, width: int, kernel: int = 1, stride: int = 1, *, each: bool = False,
        normed: bool = True, activated: bool = True, epsilon: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = Conv2d(before, width, kernel, stride, kernel // 2, 1, before if each else 1, bias=not normed)
        self.norm = BatchNorm2d(width, config.layer_norm_eps if epsilon is None else epsilon) if normed else None
        self.activation = activation_named(config.hidden_act) if activated else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        x = self.conv(x)
        x = x if self.norm is None else self.norm(x)
        return x if self.activation is None else self.activation(x)


class Block(Module):
    """Filters one after the other, by the names of their kind: those of the stem keep the channels, of the others the
    first widens and the last narrows.
    """

    def __init__(
        self, config: Config, before: int, width: int, stride: int, expansion: int, fused: bool, few: bool
    ) -> None:
        super().__init__()
        inner = before * expansion
        self.names: tuple[str, ...] = ("inverted_conv", "depth_conv", "point_conv")
        if expansion == 1 and fused:
            self.names = ("conv1", "conv2")
            self.conv1 = FilterNorm(config, before, inner, 3, stride, normed=not few)
            self.conv2 = FilterNorm(config, inner, width, 3, activated=False)
            return
        if fused:
            self.names = ("spatial_conv", "point_conv")
            self.spatial_conv = FilterNorm(config, before, inner, 3, stride, normed=not few)
        else:
            self.names = self.names if expansion > 1 else self.names[1:]
            if expansion > 1:
                self.inverted_conv = FilterNorm(config, before, inner, normed=not few)
            self.depth_conv = FilterNorm(config, inner, inner, 3, stride, each=True, normed=not few)
        self.point_conv = FilterNorm(config, inner, width, activated=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        for name in self.names:
            x = getattr(self, name)(x)
        return x


class LinearAttention(Module):
    """Places attend to each other at two scales: weights are products of positive queries and keys, so that their sum
    over all places is computed once (Katharopoulos et al. 2020, arXiv 2006.16236).
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.head, heads = config.head_dim, width // config.head_dim
        self.qkv = Module()
        self.qkv.conv = Conv2d(width, 3 * width, 1, bias=False)
        self.aggreg = ModuleList([
            Sequential(
                Conv2d(3 * width, 3 * width, SCALE, padding=SCALE // 2, groups=3 * width, bias=False),
                Conv2d(3 * width, 3 * width, 1, groups=3 * heads, bias=False),
            )
        ])  # fmt: skip
        self.proj = FilterNorm(config, 2 * width, width, activated=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        batch, _, rows, columns = x.shape
        x = self.qkv.conv(x)
        x = ops.cat([x, self.aggreg[0](x)], 1)  # (B, 2 * 3 * C, H, W)
        parts = x.reshape(batch, -1, 3 * self.head, rows * columns)  # (B, 2 * heads, 3 * d, T)
        query, key, value = (parts.narrow(2, i * self.head, self.head) for i in range(3))
        query, key = ops.relu(query), ops.relu(key)
        sums = value.matmul(key.transpose(2, 3))  # (B, 2 * heads, d, d)
        weights = key.sum(3, keepdim=True).transpose(2, 3)  # (B, 2 * heads, 1, d)
        y = sums.matmul(query) / (weights.matmul(query) + EPSILON)  # (B, 2 * heads, d, T)
        return self.proj(y.reshape(batch, -1, rows, columns))


class Residual(Module):
    """x and what `main` makes of it; adds: their sum."""

    def __init__(self, main: Module, adds: bool = True) -> None:
        super().__init__()
        self.main = main
        self.adds = adds

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        y = self.main(x)
        return x + y if self.adds else y


class AttentionBlock(Module):
    """Attention, and an inverted residual."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.context_module = Residual(LinearAttention(config, width))
        self.local_module = Residual(Block(config, width, width, 1, 6 if config.large else 4, False, True))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.local_module(self.context_module(x))


class Stage(Module):
    """Blocks of one width, the first of which halves the sides."""

    def __init__(self, config: Config, i: int) -> None:
        super().__init__()
        before, width, depth = config.widths[i], config.widths[i + 1], config.depths[i + 1]
        attends, few = config.attends(i), config.few_norms(i)
        fused, first = config.large and not few, (24 if attends else 16) if config.large else 4
        blocks: list[Module] = [Residual(Block(config, before, width, 2, first, fused, few), False)]
        for _ in range(depth if attends or config.large else depth - 1):
            plain = Block(config, width, width, 1, 4, fused, few)
            blocks.append(AttentionBlock(config, width) if attends else Residual(plain))
        self.blocks = Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2), rounded up."""
        return self.blocks(x)


class EfficientViT(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        first = config.widths[0]
        self.stem = Module()
        self.stem.in_conv = FilterNorm(config, config.num_channels, first, 3, 2)
        for i in range(config.depths[0]):
            setattr(self.stem, f"res{i}", Residual(Block(config, first, first, 1, 1, config.large, False)))
        self.stages = Sequential(*(Stage(config, i) for i in range(len(config.widths) - 1)))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("EfficientViT", pixel_values, self.config.num_channels)
        x = self.stem.in_conv(pixel_values)
        for i in range(self.config.depths[0]):
            x = getattr(self.stem, f"res{i}")(x)
        return self.stages(x)


class EfficientViTClassifier(EfficientViT):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        wide, inner = config.head_widths
        self.head = Module()
        self.head.in_conv = FilterNorm(config, config.widths[-1], wide, epsilon=EPSILON)
        self.head.classifier = Sequential(
            Linear(wide, inner, bias=False),
            LayerNorm(inner, config.layer_norm_eps),
            Module(),
            Module(),
            Linear(inner, len(config.labels)),
        )  # fmt: skip  (the activation and a dropout have numbers in files)
        self.activation = activation_named(config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        x = mean_of_places(self.head.in_conv(super().forward(pixel_values)))  # (B, wide)
        first, norm, *_, last = self.head.classifier
        return last(self.activation(norm(first(x))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": EfficientViT,
    "image-classification": EfficientViTClassifier,
}
