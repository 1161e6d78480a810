"""SegFormer (Xie et al. 2021, arXiv 2105.15203): stages of attention to a coarser picture, and linear layers that join
their maps into the labels of places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, Linear, Module, ModuleList
from pyapp.nn.vision.mix_transformer import MixTransformer
from pyapp.nn.vision.vision import ImageHead, ImageModel, as_map, as_sequence, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import WIDEST, PyramidConfig

MODEL_TYPES = ("segformer",)
IMAGE_PROCESSOR = "Segformer"  # of files that name none
BASE = "segformer"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PyramidConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    decoder_hidden_size: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.decoder_hidden_size <= WIDEST, f"decoder_hidden_size is {self.decoder_hidden_size:,}")


class Segformer(ImageModel):
    """The encoder, for pictures that are large enough for its coarsest step."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = MixTransformer(config)

    def maps(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the map (B, D, H', W') of each stage."""
        check_pictures("SegFormer", pixel_values, self.config.num_channels, least=self.config.least)
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
