"""Mistral Small 3.1 and its successors (Mistral AI 2025): Pixtral's tower (Agrawal et al. 2024, arXiv 2410.07073) sees
a picture of any size, squares of neighbouring patches become one vector each, and Mistral writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.picture_text import TwoLayers
from pyapp.nn.pixtral import PixtralPictures, PixtralTower

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig
from .loading.towers_config import PixtralVisionConfig

MODEL_TYPES = ("mistral3",)
IMAGE_PROCESSOR = "Pixtral"  # of files that name none
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mistral3"
    text = "mistral"
    tower = "pixtral"
    towers = {"pixtral": PixtralVisionConfig}
    token = ("image_token_index", 10)
    layer = -1

    def check(self) -> None:
        self.check_token()
        self.check_layers()
        require(len(self.counts) == 1, "vision_feature_layer has several layers, expected one")
        require(hasattr(self.text_config, "rms_norm_eps"), "the language model in text_config has no rms_norm_eps")
        merged = self.values.get("spatial_merge_size", 2)
        require(type(merged) is int and 1 <= merged <= 16, f"spatial_merge_size is {merged!r:.60}, expected 1 to 16")

    @property
    def merged(self) -> int:
        """The rows, and columns, of patches that become one vector."""
        found: int = self.values.get("spatial_merge_size", 2)
        return found


class PatchMerger(Module):
    """One vector of each square of neighbouring patches."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.merging_layer = Linear(width * side**2, width, bias=False)

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, rows * columns, W) → (B, rows * columns / side², W)."""
        count, side, width = x.shape[0], self.side, x.shape[2]
        x = x.reshape(count, rows // side, side, columns // side, side, width).permute(0, 1, 3, 5, 2, 4)
        return self.merging_layer(x.reshape(count, rows * columns // side**2, width * side**2))


class Projector(TwoLayers):
    """A norm and merged patches before the two layers."""

    def __init__(self, config: Config) -> None:
        width = config.vision_config.hidden_size
        super().__init__(width, config.text_config.hidden_size, config.values, usual=False)
        self.norm = RMSNorm(width, config.text_config.rms_norm_eps)
        self.patch_merger = PatchMerger(width, config.merged)

    def project(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x (B, rows * columns, W) → (B, rows * columns / side², D)."""
        return self(self.patch_merger(self.norm(x), rows, columns))


class Mistral3ForConditionalGeneration(PixtralPictures):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = PixtralTower(config.vision_config, config.merged)
        self.multi_modal_projector = Projector(config)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        rows, columns = self.vision_tower.grid(pixel_values)
        x = self.vision_tower.states(pixel_values, self.config.counts[0])
        return self.multi_modal_projector.project(x, rows, columns)


TASKS: Mapping[str, Any] = {picture_text.TASK: Mistral3ForConditionalGeneration}
