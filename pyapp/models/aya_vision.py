"""Aya Vision (Dash et al. 2025, arXiv 2505.08751): SigLIP's tower sees tiles of a picture and the whole, squares of
neighbouring patches become one vector each by a gated layer, and Command R7B or Command R writes. Command A Vision
(Cohere 2025) has this form without a norm before the layer, and other tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision.vision import squares
from pyapp.nn.vision_language.picture_text import ANY, MergedTiles, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig

MODEL_TYPES = ("aya_vision", "cohere2_vision")
IMAGE_PROCESSOR = "GotOcr2"  # of files that name none
IGNORED = picture_text.POOLING
PLAIN = "cohere2_vision"
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
        more = {"image_token_index": values.get("image_token_id", 255036)} if values.get("model_type") == PLAIN else {}
        return super().from_dict({"vision_feature_select_strategy": "full", **values, **more, "text_config": own})

    @property
    def plain(self) -> bool:
        """Whether it is Command A Vision."""
        return self.values.get("model_type") == PLAIN

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
        return self.values.get("alignment_intermediate_size", 36864 if self.plain else self.text_config.hidden_size)

    @property
    def epsilon(self) -> Any:
        """The epsilon of the projector's norm."""
        return self.values.get("adapter_layer_norm_eps", 1e-6)


class Projector(Module):
    """One vector of the text's size of each square of patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.vision_config.hidden_size * len(config.counts) * config.merged**2
        self.layernorm = None if config.plain else LayerNorm(width, config.epsilon)
        self.linear_1 = Linear(width, config.inner)
        self.linear_2 = Linear(config.inner // 2, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, D)."""
        x, gate = self.linear_1(x if self.layernorm is None else self.layernorm(x)).chunk(2, -1)
        return self.linear_2(ops.silu(gate) * x)


class AyaVisionForConditionalGeneration(MergedTiles):
    """Pictures and text to text."""

    placeholder, part = "<image>", "<|IMG_PATCH|>"

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Projector(config)

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        if not self.config.plain:
            return super().picture_features(pixel_values)
        x = self.vision_tower(pixel_values)  # (B, T, W), after the last norm
        x = x.reshape(x.shape[0], *self.config.vision_config.grid, x.shape[2])
        return self.multi_modal_projector(squares(x, self.config.merged))

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        if self.config.plain:
            tile = self.part * self.picture_tokens + "<|IMG_LINE_BREAK|>"
            return f"<|START_OF_IMG|>{tile * (rows * columns + 1)}<|END_OF_IMG|>"
        names = [*(f"TILE_{i + 1}" for i in range(rows * columns)), "TILE_GLOBAL"]
        return f"<|START_OF_IMG|>{''.join(name + self.part * self.picture_tokens for name in names)}<|END_OF_IMG|>"


TASKS: Mapping[str, Any] = {picture_text.TASK: AyaVisionForConditionalGeneration}
