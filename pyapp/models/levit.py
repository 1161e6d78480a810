"""LeViT (Graham et al. 2021, arXiv 2104.01136): filters, then stages of attention with a bias by distance and norms of
batches, between which attention of fewer queries makes the map smaller.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm1d, BatchNorm2d, Conv2d, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.vision.distance_biases import DistanceBiases
from pyapp.nn.vision.vision import ImageModel, as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_numbers, pair

MODEL_TYPES = ("levit",)
IMAGE_PROCESSOR = "Levit"  # of files that name none
BASE = "levit"  # the network's name in files with a head
WIDEST, DEEPEST, LARGEST = 1 << 12, 1 << 8, 1 << 6  # channels, layers of a stage, rows of the first map
LISTS = ("hidden_sizes", "num_attention_heads", "depths", "key_dim", "mlp_ratio", "attention_ratio")
SHRINKING = 4, 2, 2  # attention_ratio, mlp_ratio and stride between stages


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json. teacher: whether the file has a second head, which learnt from
    another network; the mean of both counts.
    """

    model_type = MODEL_TYPES[0]

    image_size: tuple[int, int]
    patch_size: tuple[int, int]
    kernel_size: int = 3
    stride: int = 2
    padding: int = 1
    hidden_sizes: tuple[int, ...] = (128, 256, 384)
    num_attention_heads: tuple[int, ...] = (4, 8, 12)
    depths: tuple[int, ...] = (4, 4, 4)
    key_dim: tuple[int, ...] = (16, 16, 16)
    mlp_ratio: tuple[int, ...] = (2, 2, 2)
    attention_ratio: tuple[int, ...] = (2, 2, 2)
    teacher: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in LISTS:
            check_numbers(name, getattr(self, name), WIDEST if name == "hidden_sizes" else DEEPEST, count=3)
        require(self.hidden_sizes[0] % 8 == 0, f"hidden_sizes begins with {self.hidden_sizes[0]}, not a multiple of 8")
        for width in self.hidden_sizes[:2]:
            size = self.key_dim[0]
            require(width >= size, f"hidden_sizes has {width}, less than key_dim {size}")
        for name in ("kernel_size", "stride", "padding"):
            value = getattr(self, name)
            require(value <= LARGEST, f"{name} is {value:,}, expected at most {LARGEST}")
        high, wide = self.image_size
        require(high == wide, f"image_size is {self.image_size}, expected a square")
        require(self.patch_size[0] == self.patch_size[1], f"patch_size is {self.patch_size}, expected a square")
        require(
            1 <= self.sides[0] <= LARGEST,
            f"image_size {high} with patch_size {self.patch_size[0]} makes maps of {self.sides[0]} rows",
        )
        side = high
        for _ in range(4):
            side = (side + 2 * self.padding - self.kernel_size) // self.stride + 1
        require(
            side == self.sides[0],
            f"four filters of kernel_size {self.kernel_size} and stride {self.stride} make {side} rows of a picture, "
            f"patch_size says {self.sides[0]}",
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        sizes = {name: pair(values, name, usual) for name, usual in (("image_size", 224), ("patch_size", 16))}
        return super().from_dict({**values, **sizes})

    @property
    def sides(self) -> tuple[int, int, int]:
        """The rows of the map of each stage."""
        first = self.image_size[0] // self.patch_size[0]
        second = (first - 1) // SHRINKING[2] + 1
        return first, second, (second - 1) // SHRINKING[2] + 1


def adapted(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The configuration with what the tensors of a file tell."""
    return {**settings, "teacher": any(name.startswith("classifier_distill.") for name in names)}


class FilterNorm(Module):
    """A filter and the norm of batches."""

    def __init__(self, config: Config, before: int, width: int) -> None:
        super().__init__()
        self.convolution = Conv2d(before, width, config.kernel_size, config.stride, config.padding, bias=False)
        self.batch_norm = BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        return self.batch_norm(self.convolution(x))


class LinearNorm(Module):
    """A linear layer and the norm of batches."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.linear = Linear(before, width, bias=False)
        self.batch_norm = BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, before) → (B, T, width)."""
        y = self.linear(x)
        return self.batch_norm(y.reshape(-1, y.shape[2])).reshape(y.shape)


class Attention(DistanceBiases):
    """Attention of all places to each other."""

    def __init__(self, width: int, heads: int, size: int, ratio: int, side: int) -> None:
        super().__init__(heads, side)
        self.heads, self.size = heads, size
        self.queries_keys_values = LinearNorm(width, heads * size * (2 + ratio))
        self.projection = LinearNorm(heads * size * ratio, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        parts = self.queries_keys_values(x).reshape(*x.shape[:2], self.heads, -1)
        q, k = (parts.narrow(3, i * self.size, self.size) for i in range(2))
        v = parts.narrow(3, 2 * self.size, parts.shape[3] - 2 * self.size)
        return self.projection(ops.hardswish(attend(q, k, v, self.biases(), self.size**-0.5)))


class ShrinkingAttention(DistanceBiases):
    """Attention of every second place of every second row to all."""

    def __init__(self, before: int, width: int, size: int, side: int) -> None:
        ratio, _, stride = SHRINKING
        heads = before // size
        super().__init__(heads, side, stride)
        self.heads, self.size = heads, size
        self.keys_values = LinearNorm(before, heads * size * (1 + ratio))
        self.queries = LinearNorm(before, heads * size)
        self.projection = LinearNorm(heads * size * ratio, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, before) → (B, T', width)."""
        batch, tokens, width = x.shape
        parts = self.keys_values(x).reshape(batch, tokens, self.heads, -1)
        k, v = parts.narrow(3, 0, self.size), parts.narrow(3, self.size, parts.shape[3] - self.size)
        fewer = x.reshape(batch, self.side, self.side, width)[:, :: self.stride, :: self.stride]
        q = self.queries(fewer.reshape(batch, -1, width)).reshape(batch, -1, self.heads, self.size)
        return self.projection(ops.hardswish(attend(q, k, v, self.biases(), self.size**-0.5)))


class FeedForward(Module):
    """Two layers with an activation between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.linear_up, self.linear_down = LinearNorm(width, inner), LinearNorm(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.linear_down(ops.hardswish(self.linear_up(x)))


class Residual(Module):
    """x + module(x)."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return x + self.module(x)


class Stage(Module):
    """Attention and feed-forward parts by turns, then attention that makes the map smaller, but for the last stage."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, side, size = config.hidden_sizes[stage], config.sides[stage], config.key_dim[stage]
        heads, ratio = config.num_attention_heads[stage], config.attention_ratio[stage]
        found: list[Module] = []
        for _ in range(config.depths[stage]):
            found.append(Residual(Attention(width, heads, size, ratio, side)))
            found.append(Residual(FeedForward(width, width * config.mlp_ratio[stage])))
        if stage < 2:
            after = config.hidden_sizes[stage + 1]
            found.append(ShrinkingAttention(width, after, config.key_dim[0], side))
            found.append(Residual(FeedForward(after, after * SHRINKING[1])))
        self.layers = ModuleList(found)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T', D')."""
        for layer in self.layers:
            x = layer(x)
        return x


class Levit(ImageModel):
    """The network."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths = [config.num_channels, *(config.hidden_sizes[0] // part for part in (8, 4, 2, 1))]
        self.patch_embeddings = Module()
        for i in range(4):
            self.patch_embeddings.add_module(f"embedding_layer_{i + 1}", FilterNorm(config, *widths[i : i + 2]))
        self.encoder = Module()
        self.encoder.stages = ModuleList(Stage(config, stage) for stage in range(3))

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.image_size

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, T, D)."""
        check_pictures("LeViT", pixel_values, self.config.num_channels, self.pixels)
        x = pixel_values
        for i, layer in enumerate(self.patch_embeddings.children()):
            x = layer(ops.hardswish(x) if i else x)
        x = as_sequence(x)
        for stage in self.encoder.stages:
            x = stage(x)
        return x


class Classifier(Module):
    """The norm of batches and a linear layer."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.batch_norm = BatchNorm1d(width)
        self.linear = Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D) → (B, labels)."""
        return self.linear(self.batch_norm(x))


class LevitForImageClassification(ImageModel):
    """Scores of the labels of a picture, read at the mean of its places; with a teacher, the mean of two heads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        sizes = config.hidden_sizes[-1], len(config.labels)
        self.levit = Levit(config)
        self.classifier = Classifier(*sizes)
        self.classifier_distill = Classifier(*sizes) if config.teacher else None

    @property
    def pixels(self) -> tuple[int, int]:
        return self.levit.pixels

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        x = self.levit(pixel_values).mean(1)
        y = self.classifier(x)
        return y if self.classifier_distill is None else (y + self.classifier_distill(x)) / 2


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Levit,
    "image-classification": LevitForImageClassification,
}
