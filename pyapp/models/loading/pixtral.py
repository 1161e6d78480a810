"""The configuration of language models that see by Pixtral's tower, of whose patches squares become one vector each."""

from __future__ import annotations

from pyapp.dataclass import dataclass

from .config import require, stated
from .picture_text import LayeredConfig
from .towers_config import PixtralVisionConfig


@dataclass(frozen=True)
class MergedPixtralConfig(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    tower = "pixtral"
    towers = {"pixtral": PixtralVisionConfig}
    layer = -1

    def check(self) -> None:
        self.check_token()
        self.check_layers()
        require(len(self.counts) == 1, "vision_feature_layer has several layers, expected one")
        require(hasattr(self.text_config, "rms_norm_eps"), "the language model in text_config has no rms_norm_eps")
        merged = self.values.get("spatial_merge_size", 2)
        require(type(merged) is int and 1 <= merged <= 16, f"spatial_merge_size is {merged!r:.60}, expected 1 to 16")

    merged = stated("spatial_merge_size", 2)  # the rows, and columns, of patches that become one vector
