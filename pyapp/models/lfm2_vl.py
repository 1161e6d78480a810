"""LFM2-VL (Liquid AI 2025, arXiv 2511.23404): SigLIP 2's tower for pictures of any shape sees tiles of a large picture
and the whole, squares of neighbouring patches become one vector each, and LFM2 writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.towers import NaflexTower
from pyapp.nn.vision.vision import squares
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import WIDEST
from .loading.towers_config import NaflexVisionConfig

MODEL_TYPES = ("lfm2_vl",)
IMAGE_PROCESSOR = "Lfm2Vl"  # of files that name none
IGNORED = picture_text.POOLING
TILE = 512  # pixels of a tile's side, until an image processor says others
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "lfm2_vl"
    text = "lfm2"
    tower = "siglip2_vision_model"
    towers = {"siglip2_vision_model": NaflexVisionConfig}
    token = ("image_token_id", 396)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, whose head has the embeddings' weights unless it says otherwise."""
        tied = values.get("tie_embedding", values.get("tie_word_embeddings", True))
        require(type(tied) is bool, f"tie_word_embeddings is {tied!r:.60}, expected true or false")
        text = values.get("text_config")
        own = {**text, "tie_word_embeddings": tied} if isinstance(text, dict) else text
        return super().from_dict({**values, "tie_word_embeddings": tied, "text_config": own})

    def check(self) -> None:
        super().check()
        merged, inner, (high, wide) = self.merged, self.inner, self.vision_config.patch_size
        plausible = type(merged) is int and 1 <= merged <= 16
        require(plausible, f"downsample_factor is {merged!r:.60}, expected a whole number from 1 to 16")
        plausible = type(inner) is int and 1 <= inner <= WIDEST
        require(plausible, f"projector_hidden_size is {inner!r:.60}, expected a whole number from 1 to {WIDEST:,}")
        require(high == wide <= 256, f"patch_size is {self.vision_config.patch_size}, expected a square")

    @property
    def merged(self) -> Any:
        """The rows, and columns, of patches that become one vector."""
        return self.values.get("downsample_factor", 2)

    @property
    def inner(self) -> Any:
        """The columns within the projector."""
        return self.values.get("projector_hidden_size", 2560)


class Projector(Module):
    """Two layers with an activation between them, after a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        values, width = config.values, config.vision_config.hidden_size * config.merged**2
        bias = values.get("projector_bias", True) is not False
        self.layer_norm = LayerNorm(width) if values.get("projector_use_layernorm", True) is not False else None
        self.linear_1 = Linear(width, config.inner, bias=bias)
        self.linear_2 = Linear(config.inner, config.text_config.hidden_size, bias=bias)
        self.activation = activation_named(values.get("projector_hidden_act", "gelu"))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        x = x if self.layer_norm is None else self.layer_norm(x)
        return self.linear_2(self.activation(self.linear_1(x)))


class Lfm2VlForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder = part = "<image>"
    picture_tokens = 1  # the fewest

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = NaflexTower(config.vision_config)
        self.multi_modal_projector = Projector(config)
        self.tile, self.thumbnail = TILE, True

    @property
    def pixels(self) -> Any:
        """Any size that is a multiple of a vector's patches."""
        return None

    @property
    def square(self) -> int:
        """The pixels of a side of what becomes one vector."""
        return int(self.config.vision_config.patch_size[0] * self.config.merged)

    def prepared_by(self, processor: Any) -> Any:
        """The processor with the sides of patches and of what becomes one vector. What it says of tiles is kept."""
        patch, merged = self.config.vision_config.patch_size[0], self.config.merged
        processor = processor.adapted(encoder_patch_size=patch, downsample_factor=merged)
        self.tile, self.thumbnail = processor.tile_size, processor.use_thumbnail
        require(self.tile % (patch * merged) == 0, f"tile_size is {self.tile}, expected a multiple of {patch * merged}")
        return processor

    def _counts(self, rows: int, columns: int, size: Size) -> tuple[int, int]:
        """The vectors of a tile, and of the whole."""
        whole = (size[0] // self.square) * (size[1] // self.square)
        return (self.tile // self.square) ** 2, whole if self.thumbnail or not rows else 0

    def tokens_in(self, rows: int, columns: int, size: Size = ANY) -> int:
        tile, whole = self._counts(rows, columns, size)
        return tile * rows * columns + whole

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        tile, whole = self._counts(rows, columns, size)
        tiles = "".join(
            f"<|img_row_{row + 1}_col_{column + 1}|>{self.part * tile}"
            for row in range(rows) for column in range(columns)
        )  # fmt: skip
        name = "<|img_thumbnail|>" if rows and whole else ""
        return f"<|image_start|>{tiles}{name}{self.part * whole}<|image_end|>"

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        high, wide = self.config.vision_config.patch_size
        x = self.vision_tower(pixel_values)  # (B, rows * columns, W)
        x = x.reshape(x.shape[0], pixel_values.shape[2] // high, pixel_values.shape[3] // wide, x.shape[2])
        return self.multi_modal_projector(squares(x, self.config.merged))


TASKS: Mapping[str, Any] = {picture_text.TASK: Lfm2VlForConditionalGeneration}
