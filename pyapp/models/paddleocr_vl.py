"""PaddleOCR-VL (Cui et al. 2025, arXiv 2510.14528): SigLIP's tower for pages of any size, whose patches have positions
of rows and columns twice, learned and rotary, and squares of neighbouring patches become one vector each, before ERNIE
4.5 with the rotary positions of Qwen2-VL.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, Conv2d, Embedding, LayerNorm, Linear, Module
from pyapp.nn.positions.rotary import grid_rotations
from pyapp.nn.vision.towers import Tower, first_rows
from pyapp.nn.vision.vision import ImageModel, squares
from pyapp.nn.vision_language.picture_text import GridPictures

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import GridConfig
from .loading.towers_config import SiglipVisionConfig

MODEL_TYPES = ("paddleocr_vl",)
IMAGE_PROCESSOR = "PaddleOCRVL"  # of files that name none
IGNORED = rf"{picture_text.POOLING}|(model\.)?visual\.vision_model\.(head|embeddings\.packing_position_embedding)\..*"
THETA = 10000.0  # of the tower's rotary positions
PARTS = ("text_config", "vision_config", "model_type", "architectures", "tie_word_embeddings")
TEXT = {  # what text_config leaves out
    "vocab_size": 103424, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 18,
    "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "head_dim": 128,
}  # fmt: skip
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(SiglipVisionConfig):
    """The fields of vision_config."""

    model_type = "paddleocr_vl_vision"
    image = 384
    patch = 14

    hidden_size: int = 1152
    intermediate_size: int = 4304
    num_hidden_layers: int = 27
    num_attention_heads: int = 16
    spatial_merge_size: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        size, merged = self.hidden_size // self.num_attention_heads, self.spatial_merge_size
        require(size % 4 == 0, f"heads of {size} columns, expected a multiple of 4")
        require(merged <= 16, f"spatial_merge_size is {merged:,}, expected at most 16")
        require(self.patch_size[0] == self.patch_size[1] <= 256, f"patch_size is {self.patch_size}")
        require(self.grid[0] == self.grid[1], f"image_size is {self.image_size}, expected a square")


@dataclass(frozen=True)
class Config(GridConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "paddleocr_vl"
    tower = "paddleocr_vl_vision"
    towers = dict.fromkeys(("paddleocr_vl_vision", "paddleocr_vl"), TowerConfig)
    token = ("image_token_id", 100295)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; older ones have the fields of the text in it."""
        text = values.get("text_config")
        own = {name: value for name, value in values.items() if name not in PARTS} if text is None else text
        if isinstance(own, dict):
            kind = own.get("model_type", "llama")
            require(kind in ("llama", "paddleocr_vl_text"), f"the language model {kind!r:.50} is not known")
            tied = values.get("tie_word_embeddings", True) is True or own.get("tie_word_embeddings") is True
            bias = own.get("use_bias", own.get("attention_bias", False))
            more = {"model_type": "llama", "tie_word_embeddings": tied, "attention_bias": bias, "mlp_bias": bias}
            own = picture_text.without_mrope({**TEXT, **own, **more})
        return super().from_dict({**values, "text_config": own})

    def check(self) -> None:
        self.check_token()
        self.check_sections()


def adapted(settings: Mapping[str, Any], tensors: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a file, which says by its tensors whether the embeddings are the head's: configurations do not
    agree with their files.
    """
    if not tensors:
        return settings
    tied, text = {"tie_word_embeddings": "lm_head.weight" not in tensors}, settings.get("text_config")
    return {**settings, **tied} | ({"text_config": {**text, **tied}} if isinstance(text, dict) else {})


class Embeddings(Module):
    """Patches with the learned positions of a square, which are stretched over the picture."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        patch = config.patch_size
        self.patch_embedding = Conv2d(config.num_channels, config.hidden_size, patch, stride=patch)
        self.position_embedding = Embedding(config.patches, config.hidden_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, rows, columns, D)."""
        x = self.patch_embedding(pixel_values)  # (B, D, rows, columns)
        count, table = self.position_embedding.num_embeddings, self.position_embedding
        square = first_rows(table, count).reshape(1, isqrt(count), isqrt(count), -1).permute(0, 3, 1, 2)
        places = ops.interpolate(square, size=tuple(x.shape[2:]), mode="bilinear", align_corners=False)
        return (x + places).permute(0, 2, 3, 1)


class PageTower(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Tower(config)
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, rows, columns, D)."""
        x = self.embeddings(pixel_values)
        quarter = self.config.hidden_size // self.config.num_attention_heads // 4
        steps = tuple(THETA ** (-i / quarter) for i in range(quarter))
        table = grid_rotations(int(x.shape[1]), int(x.shape[2]), steps, steps).to(x.device)
        return self.post_layernorm(self.encoder(x.flatten(1, 2), table=table)).reshape(x.shape)


class Projector(Module):
    """One vector of the text's size of each square of neighbouring patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        tower = config.vision_config
        self.side = tower.spatial_merge_size
        width = tower.hidden_size * self.side**2
        self.pre_norm = LayerNorm(tower.hidden_size)
        self.linear_1, self.linear_2 = Linear(width, width), Linear(width, config.text_config.hidden_size)
        self.activation = GELU()

    def forward(self, x: Tensor) -> Tensor:
        """x (B, rows, columns, W) → (B, rows * columns / side², D)."""
        return self.linear_2(self.activation(self.linear_1(squares(self.pre_norm(x), self.side))))


class PaddleOCRVLForConditionalGeneration(GridPictures):
    """Pictures and text to text."""

    name = "PaddleOCR-VL"
    placeholder = part = "<|IMAGE_PLACEHOLDER|>"
    around = ("<|IMAGE_START|>", "<|IMAGE_END|>")
    tower_class = PageTower

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.multi_modal_projector = Projector(config)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        return self.multi_modal_projector(super().picture_features(pixel_values))


TASKS: Mapping[str, Any] = {picture_text.TASK: PaddleOCRVLForConditionalGeneration}
