"""Aya Vision (Dash et al. 2025, arXiv 2505.08751): SigLIP's tower sees tiles of a picture and the whole, squares of
neighbouring patches become one vector each by a gated layer, and Command R7B or Command R writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import ANY, MergedTiles, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig

MODEL_TYPES = ("aya_vision",)
IMAGE_PROCESSOR = "GotOcr2"  # of files that name none
IGNORED = picture_text.POOLING
WIDEST = 1 << 20  # columns of the projector
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "aya_vision"
    text = "cohere2"
    token = ("image_token_index", 255036)
    layer = -1

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. Logits are not scaled, as in transformers, whatever logit_scale says."""
        text = values.get("text_config")
        own = {**text, "logit_scale": 1.0} if isinstance(text, dict) else text
        return super().from_dict({"vision_feature_select_strategy": "full", **values, "text_config": own})

    def check(self) -> None:
        super().check()
        require(not self.without_first, "vision_feature_select_strategy is 'default', expected 'full'")
        side, merged, inner = self.vision_config.grid[0], self.merged, self.inner
        plausible = type(merged) is int and 1 <= merged <= 16 and side % merged == 0
        require(plausible, f"downsample_factor is {merged!r:.60}, expected one that divides {side} rows of patches")
        plausible = type(inner) is int and 2 <= inner <= WIDEST and inner % 2 == 0
        require(plausible, f"alignment_intermediate_size is {inner!r:.60}, expected an even number up to {WIDEST:,}")
        epsilon = self.epsilon
        require(type(epsilon) is float and 0 < epsilon < 1, f"adapter_layer_norm_eps is {epsilon!r:.60}")

    @property
    def merged(self) -> Any:
        """The rows, and columns, of patches that become one vector."""
        return self.values.get("downsample_factor", 2)

    @property
    def inner(self) -> Any:
        """The columns within the projector, half of which are gates."""
        return self.values.get("alignment_intermediate_size", self.text_config.hidden_size)

    @property
    def epsilon(self) -> Any:
        """The epsilon of the projector's norm."""
        return self.values.get("adapter_layer_norm_eps", 1e-6)


class Projector(Module):
    """One vector of the text's size of each square of patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.vision_config.hidden_size * len(config.counts) * config.merged**2
        self.layernorm = LayerNorm(width, config.epsilon)
        self.linear_1 = Linear(width, config.inner)
        self.linear_2 = Linear(config.inner // 2, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        x, gate = self.linear_1(self.layernorm(x)).chunk(2, -1)
        return self.linear_2(ops.silu(gate) * x)


class AyaVisionForConditionalGeneration(MergedTiles):
    """Pictures and text to text."""

    placeholder, part = "<image>", "<|IMG_PATCH|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Projector(config)

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        names = [*(f"TILE_{i + 1}" for i in range(rows * columns)), "TILE_GLOBAL"]
        return f"<|START_OF_IMG|>{''.join(name + self.part * self.picture_tokens for name in names)}<|END_OF_IMG|>"


TASKS: Mapping[str, Any] = {picture_text.TASK: AyaVisionForConditionalGeneration}
