"""The fields of config.json that models of key points share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass

from .config import require
from .pictures_config import WIDEST, PictureConfig, check_numbers

STAGES = 4  # of SuperPoint's encoder, of which all but the last halve the sides
SCORES = 65  # of a place of the last map: those of its pixels, and that of none


@dataclass(frozen=True, kw_only=True)
class SuperPointConfig(PictureConfig):
    """The fields of SuperPoint."""

    model_type = "superpoint"

    encoder_hidden_sizes: tuple[int, ...] = (64, 64, 128, 128)
    decoder_hidden_size: int = 256
    keypoint_decoder_dim: int = SCORES
    descriptor_decoder_dim: int = 256
    keypoint_threshold: float = 0.005
    max_keypoints: Any = -1
    nms_radius: int = 4
    border_removal_distance: Any = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("encoder_hidden_sizes", self.encoder_hidden_sizes, WIDEST, count=STAGES)
        widths = self.decoder_hidden_size, self.descriptor_decoder_dim
        check_numbers("decoder_hidden_size and descriptor_decoder_dim", widths, WIDEST)
        made = self.keypoint_decoder_dim
        require(made == SCORES, f"keypoint_decoder_dim is {made}, expected {SCORES}")
        require(self.nms_radius <= 1 << 8, f"nms_radius is {self.nms_radius:,}, expected at most 256")
        for name, least in (("max_keypoints", -1), ("border_removal_distance", 0)):
            value = getattr(self, name)
            plausible = type(value) is int and least <= value <= 1 << 20
            require(plausible, f"{name} is {value!r:.60}, expected a whole number from {least}")


@dataclass(frozen=True, kw_only=True)
class MatcherConfig(PictureConfig):
    """The fields of a model that matches the points that a SuperPoint finds."""

    keypoint_detector_config: Any

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other detectors than SuperPoint."""
        own = values.get("keypoint_detector_config", {})
        require(isinstance(own, dict), f"keypoint_detector_config is {own!r:.60}, expected that of a SuperPoint")
        kind = own.get("model_type", SuperPointConfig.model_type)
        known = kind == SuperPointConfig.model_type
        require(known, f"the detector {kind!r:.60} is not known", f"Known: {SuperPointConfig.model_type}")
        return super().from_dict({**values, "keypoint_detector_config": SuperPointConfig.from_dict(own)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"keypoint_detector_config": self.keypoint_detector_config.to_dict()}

    def check_heads(self, name: str, width: int, heads: int) -> None:
        """ModelError unless the heads divide the width."""
        require(width <= WIDEST and width % heads == 0, f"num_attention_heads {heads} does not divide {name} {width}")
