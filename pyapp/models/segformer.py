"""SegFormer (Xie et al. 2021, arXiv 2105.15203): stages of attention to a coarser picture, and linear layers that join
their maps into the labels of places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.vision import ImageHead, ImageModel, as_map, as_sequence, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers, check_stages

MODEL_TYPES = ("segformer",)
IMAGE_PROCESSOR = "Segformer"  # of files that name none
BASE = "segformer"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    depths: tuple[int, ...] = (2, 2, 2, 2)
    sr_ratios: tuple[int, ...] = (8, 4, 2, 1)
    hidden_sizes: tuple[int, ...] = (32, 64, 160, 256)
    patch_sizes: tuple[int, ...] = (7, 3, 3, 3)
    strides: tuple[int, ...] = (4, 2, 2, 2)
    num_attention_heads: tuple[int, ...] = (1, 2, 5, 8)
    mlp_ratios: tuple[int, ...] = (4, 4, 4, 4)
    num_encoder_blocks: int | None = None
    hidden_act: str = "gelu"
    decoder_hidden_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        stages = len(self.depths)
        require(
            self.num_encoder_blocks in (None, stages),
            f"num_encoder_blocks is {self.num_encoder_blocks}, depths has {stages} numbers",
        )
        for name, most in (
            ("sr_ratios", 64), ("patch_sizes", 64), ("strides", 64), ("num_attention_heads", 1 << 12),
            ("mlp_ratios", 64),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=stages)
        for width, heads in zip(self.hidden_sizes, self.num_attention_heads, strict=True):
            require(width % heads == 0, f"{heads} num_attention_heads do not divide the hidden size {width}")
        require(self.decoder_hidden_size <= WIDEST, f"decoder_hidden_size is {self.decoder_hidden_size:,}")


class OverlappingPatches(Module):
    """Patches that overlap, and their norm."""

    def __init__(self, before: int, width: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.proj = Conv2d(before, width, kernel, stride, kernel // 2)
        self.layer_norm = LayerNorm(width)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """x (B, C, H, W) → (B, H' * W', D), and (H', W')."""
        x = self.proj(x)
        return self.layer_norm(as_sequence(x)), (int(x.shape[2]), int(x.shape[3]))


class ReducedAttention(Module):
    """Attention of each place to the places of a coarser picture."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width)
        self.key = Linear(width, width)
        self.value = Linear(width, width)
        self.sr = Conv2d(width, width, ratio, ratio) if ratio > 1 else None
        self.layer_norm = LayerNorm(width) if ratio > 1 else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        source = x
        if self.sr is not None and self.layer_norm is not None:
            source = self.layer_norm(as_sequence(self.sr(as_map(x, *size))))  # (B, S, D)
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.query, x), (self.key, source), (self.value, source))
        )
        return attend(q, k, v, None)


class Layer(Module):
    """Attention and a feed-forward part, which looks at neighbouring places too."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width = config.hidden_sizes[stage]
        inner = width * config.mlp_ratios[stage]
        self.layer_norm_1 = LayerNorm(width)
        self.attention = Module()
        self.attention.add_module(
            "self", ReducedAttention(width, config.num_attention_heads[stage], config.sr_ratios[stage])
        )
        self.attention.output = Module()
        self.attention.output.dense = ResidualLinear(width, width)
        self.layer_norm_2 = LayerNorm(width)
        self.mlp = Module()
        self.mlp.dense1 = Linear(width, inner)
        self.mlp.dwconv = Module()
        self.mlp.dwconv.dwconv = Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.mlp.dense2 = ResidualLinear(inner, width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        y = self.attention._modules["self"](self.layer_norm_1(x), size)
        x = self.attention.output.dense(y, x)
        y = self.mlp.dwconv.dwconv(as_map(self.mlp.dense1(self.layer_norm_2(x)), *size))
        return self.mlp.dense2(self.activation(as_sequence(y)), x)


class Encoder(Module):
    """The stages: patches, layers, a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        widths, stages = (config.num_channels, *config.hidden_sizes), range(len(config.depths))
        self.patch_embeddings = ModuleList(
            OverlappingPatches(widths[i], widths[i + 1], config.patch_sizes[i], config.strides[i]) for i in stages
        )
        self.block = ModuleList(ModuleList(Layer(config, i) for _ in range(config.depths[i])) for i in stages)
        self.layer_norm = ModuleList(LayerNorm(width) for width in config.hidden_sizes)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x (B, C, H, W) → the map (B, D, H', W') of each stage."""
        found = []
        for patches, layers, norm in zip(self.patch_embeddings, self.block, self.layer_norm, strict=True):
            y, size = patches(x)
            for layer in layers:
                y = layer(y, size)
            x = as_map(norm(y), *size)
            found.append(x)
        return found


class Segformer(ImageModel):
    """The encoder, for pictures that are large enough for its coarsest step."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the map (B, D, H', W') of each stage."""
        least = step = 1
        for stride, ratio in zip(self.config.strides, self.config.sr_ratios, strict=True):
            step *= stride
            least = max(least, step * ratio)
        check_pictures("SegFormer", pixel_values, self.config.num_channels, least=least)
        found: list[Tensor] = self.encoder(pixel_values)
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, D, H', W')."""
        return self.maps(pixel_values)[-1]


class DecodeHead(Module):
    """The maps of all stages, brought to one width and size and joined."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.decoder_hidden_size
        self.linear_c = ModuleList(Module() for _ in config.hidden_sizes)
        for part, before in zip(self.linear_c, config.hidden_sizes, strict=True):
            part.proj = Linear(before, width)
        self.linear_fuse = Conv2d(width * len(config.hidden_sizes), width, 1, bias=False)
        self.batch_norm = BatchNorm2d(width)
        self.classifier = Conv2d(width, len(config.labels), 1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps (B, D, H', W') each → logits (B, labels, H', W') of the first one's places."""
        size = tuple(maps[0].shape[2:])
        found = []
        for part, x in zip(self.linear_c, maps, strict=True):
            y = as_map(part.proj(as_sequence(x)), int(x.shape[2]), int(x.shape[3]))
            found.append(ops.interpolate(y, size=size, mode="bilinear", align_corners=False))
        x = ops.relu(self.batch_norm(self.linear_fuse(ops.cat(found[::-1], 1))))
        return self.classifier(x)


class SegformerForSemanticSegmentation(ImageModel):
    """The encoder with a head for the labels of places."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.segformer = Segformer(config)
        self.decode_head = DecodeHead(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels, H', W')."""
        return self.decode_head(self.segformer.maps(pixel_values))


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, Segformer(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Segformer,
    "image-classification": image_classification,
    "semantic-segmentation": SegformerForSemanticSegmentation,
}
