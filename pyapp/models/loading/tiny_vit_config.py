"""The fields of config.json of TinyViT, and of MobileSAM, which sees by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass

from .config import require
from .pictures_config import DEEPEST, WIDEST, PictureConfig, check_numbers, pair

STEM = 4  # pixels of a side of a place of the first stage
WINDOW_LIMIT = 64  # places of a side


@dataclass(frozen=True, kw_only=True)
class TinyVitConfig(PictureConfig):
    """The hyper-parameters of each stage. strides: of the filters before the stages but the first."""

    model_type = "tiny_vit"

    embed_dims: tuple[int, ...] = (96, 192, 384, 576)
    depths: tuple[int, ...] = (2, 2, 6, 2)
    num_heads: tuple[int, ...] = (3, 6, 12, 18)
    window_sizes: tuple[int, ...] = (7, 7, 14, 7)
    strides: tuple[int, ...] = (2, 2, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("embed_dims", self.embed_dims, WIDEST)
        stages = len(self.embed_dims)
        for name, most, count in (("depths", DEEPEST, stages), ("num_heads", 256, stages), ("strides", 2, stages - 1),
                                  ("window_sizes", WINDOW_LIMIT, stages)):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=count)
        require(self.embed_dims[0] % 2 == 0, f"embed_dims is {self.embed_dims}, expected first an even number")
        for width, heads in zip(self.embed_dims, self.num_heads, strict=True):
            require(width % heads == 0, f"{heads} num_heads do not divide {width} embed_dims")


@dataclass(frozen=True, kw_only=True)
class MobileSamVisionConfig(TinyVitConfig):
    """The fields of MobileSAM's part for pictures, of one size."""

    image_size: tuple[int, int]
    embed_dims: tuple[int, ...] = (64, 128, 160, 320)
    num_heads: tuple[int, ...] = (2, 4, 5, 10)
    strides: tuple[int, ...] = (2, 2, 1)
    output_channels: int = 256
    num_pos_feats: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("output_channels", "num_pos_feats"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}, expected at most {WIDEST:,}")
        high, wide = self.image_size
        require(high == wide, f"image_size is {high} x {wide}, expected a square")
        require(high % self.patch_size[0] == 0, f"image_size is {high}, expected a multiple of {self.patch_size[0]}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        return super().from_dict({**values, "image_size": pair(values, "image_size", 1024)})

    @property
    def hidden_size(self) -> int:
        """The channels of the last stage."""
        return self.embed_dims[-1]

    @property
    def patch_size(self) -> tuple[int, int]:
        """The pixels (rows, columns) of a place of the map."""
        side = STEM
        for stride in self.strides:
            side *= stride
        return side, side
