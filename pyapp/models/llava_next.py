"""LLaVA-NeXT, LLaVA 1.6 (Liu et al. 2024, https://llava-vl.github.io/blog/2024-01-30-llava-next/): LLaVA, which sees
the whole of a picture and tiles of it, in one of several grids. The tiles' vectors stand row by row, and a vector of
its own ends each row.

LLaVA-OneVision (Li et al. 2024, arXiv 2408.03326) has more grids, of which it makes fewer vectors where there are too
many; it sees each of several pictures whole only. LLaVA-NeXT-Video is read for pictures, which it sees as LLaVA-NeXT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, ClassVar

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size, TwoLayers, states_of
from pyapp.vision.processors.sizes import best_resolution
from pyapp.vision.processors.tiles import GRIDS, PINPOINTS

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig

MODEL_TYPES = ("llava_next", "llava_next_video", "llava_onevision")
# Of files that name none.
IMAGE_PROCESSOR = {"llava_next": "LlavaNext", "llava_next_video": "LlavaNext", "llava_onevision": "LlavaOnevision"}
VIDEO = {"image_token_index": 32001}  # what files of LLaVA-NeXT-Video leave out
IGNORED = picture_text.POOLING
renamed = picture_text.renamed
USUAL_RATIO = "anyres_max_9"


@dataclass(frozen=True)
class Config(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "llava_next"
    tower = "clip_vision_model"
    token = ("image_token_index", 32000)
    grids: ClassVar[Any] = PINPOINTS  # the usual ones
    defaults: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        kind = OneVisionConfig if values.get("model_type") == OneVisionConfig.model_type else cls
        usual = VIDEO if values.get("model_type") == "llava_next_video" else {}
        return super(Config, kind).from_dict({**kind.defaults, **usual, **values})

    def check(self) -> None:
        super().check()
        found, sides = self.pinpoints, self.vision_config.image_size
        plausible = isinstance(found, list | tuple) and 1 <= len(found) <= 256
        for one in found if plausible else ():
            plausible = plausible and isinstance(one, list | tuple) and len(one) == 2
            plausible = plausible and all(
                type(n) is int and 0 < n <= 1 << 14 and n % side == 0 for n, side in zip(one, sides, strict=True)
            )
        require(plausible, f"image_grid_pinpoints is {found!r:.60}, expected sizes in multiples of {sides} pixels")
        first = self.vision_config.model_type == "clip_vision_model"
        require(
            self.without_first == first,
            f"vision_feature_select_strategy does not fit the tower, which has {'a' if first else 'no'} class token",
        )

    @property
    def pinpoints(self) -> Any:
        """The sizes (height, width) of which one is chosen for a picture and its tiles."""
        found = self.values.get("image_grid_pinpoints")
        return self.grids if found is None else found

    @property
    def most(self) -> int | None:
        """How many times the vectors of a tile those of all tiles may be, besides a fifth more; None: any times."""
        return None


@dataclass(frozen=True)
class OneVisionConfig(Config):
    """As Config, of LLaVA-OneVision."""

    model_type = "llava_onevision"
    text = "qwen2"
    tower = "siglip_vision_model"
    token = ("image_token_index", 151646)
    grids = GRIDS
    defaults = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full"}

    def check(self) -> None:
        super().check()
        given = self.values.get("vision_aspect_ratio", USUAL_RATIO)
        plausible = isinstance(given, str) and re.fullmatch(r"anyres_max_[1-9]\d{0,3}", given)
        require(bool(plausible), f"vision_aspect_ratio is {given!r:.60}, expected one such as {USUAL_RATIO!r}")

    @property
    def most(self) -> int | None:
        return int(self.values.get("vision_aspect_ratio", USUAL_RATIO).rpartition("_")[2])


class LlavaNextForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        tower, width = config.vision_config, config.text_config.hidden_size
        self.vision_tower = VisionTower(tower, config.without_first)
        self.multi_modal_projector = TwoLayers(tower.hidden_size * len(config.counts), width, config.values)
        self.image_newline = new_parameter(ops.zeros, width)

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        high, wide = self._made(rows, columns, size) if rows else (1, 0)
        return self.picture_tokens + high * (wide + 1)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return self.part * self.tokens_in(rows, columns, size)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        return self.multi_modal_projector(states_of(self.vision_tower, pixel_values, self.config))

    def arranged(self, x: Tensor, rows: int, columns: int, size: Size) -> Tensor:
        side, width = self.config.vision_config.grid[0], x.shape[2]
        if not rows:
            return ops.cat([x[0], self.image_newline.to(x.dtype).reshape(1, width)])
        tiles = x.narrow(0, 1, rows * columns).reshape(rows, columns, side, side, width).transpose(1, 2)
        top, high, left, wide = self._kept(rows, columns, size)
        tiles = tiles.reshape(rows * side, columns * side, width).narrow(0, top, high).narrow(1, left, wide)
        made = self._made(rows, columns, size)
        if made != (high, wide):
            tiles = ops.interpolate(tiles.permute(2, 0, 1).unsqueeze(0), size=made, mode="bilinear")[0].permute(1, 2, 0)
            high, wide = made
        ends = self.image_newline.to(x.dtype).reshape(1, 1, width).expand(high, 1, width)
        return ops.cat([x[0], ops.cat([tiles, ends], 1).reshape(high * (wide + 1), width)])

    def vectors_of(self, pixel_values: Tensor, sizes: Sequence[Size] | None) -> Tensor:
        x, first, found = self.picture_features(pixel_values), 0, []
        for size in sizes or ():
            high, wide = best_resolution(size, self.config.pinpoints)
            rows, columns = high // self.pixels[0], wide // self.pixels[1]
            if first + rows * columns + 1 > x.shape[0]:
                break
            found.append(self.arranged(x.narrow(0, first, rows * columns + 1), rows, columns, size))
            first += rows * columns + 1
        if first != x.shape[0] or len(found) != len(sizes or ()):
            raise ArgumentError(
                f"LLaVA-NeXT: {x.shape[0]} tiles do not belong to pictures of the sizes {[*(sizes or ())]!s:.80}: "
                "give `sizes`, those of the pictures before their preparation"
            )
        return ops.cat(found)

    def prepared_for(self, processor: Any, count: int) -> Any:
        whole = count > 1 and self.config.most is not None
        return processor.without_tiles() if whole else processor

    def _made(self, rows: int, columns: int, size: Size) -> tuple[int, int]:
        """The rows and columns of vectors that the tiles of a picture become."""
        _, high, _, wide = self._kept(rows, columns, size)
        if self.config.most is None:
            return high, wide
        ratio = sqrt(high * wide / (self.config.most * self.config.vision_config.grid[0] ** 2))
        return (int(high // ratio), int(wide // ratio)) if ratio > 1.1 else (high, wide)

    def _kept(self, rows: int, columns: int, size: Size) -> tuple[int, int, int, int]:
        """Which of the tiles' vectors are not of the padding around a picture: the first row, how many, the first
        column, how many.
        """
        side = self.config.vision_config.grid[0]
        (high, wide), (height, width) = (rows * side, columns * side), size
        if width / height > wide / high:
            top = (high - int(round(height * (wide / width), 7))) // 2
            return top, high - 2 * top, 0, wide
        left = (wide - int(round(width * (high / height), 7))) // 2
        return 0, high, left, wide - 2 * left


TASKS: Mapping[str, Any] = {picture_text.TASK: LlavaNextForConditionalGeneration}
