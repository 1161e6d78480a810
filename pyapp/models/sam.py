"""Segment Anything (Kirillov et al. 2023, arXiv 2304.02643): a Vision Transformer that sees a picture once, and a small
decoder that cuts out what points or boxes show.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.vision.sam_tower import SamTower
from pyapp.nn.vision.segment_anything import (
    Form,
    MaskDecoder,
    PlaceEmbedding,
    PromptedMasks,
    PromptEncoder,
)

from .loading.config import read_config, require
from .loading.masks_config import LAYER_RATE, MaskConfig, PromptConfig
from .loading.towers_config import SamVisionConfig

MODEL_TYPES = ("sam",)
IMAGE_PROCESSOR = "Sam"  # of files that name none
BASE = ""
IGNORED = r"prompt_encoder\.shared_embedding\.positional_embedding"  # the same as shared_image_embedding's


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    vision_config: SamVisionConfig
    prompt_encoder_config: PromptConfig
    mask_decoder_config: MaskConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for parts that do not fit together."""
        parts: list[Mapping[str, Any]] = []
        for name in ("vision_config", "prompt_encoder_config", "mask_decoder_config"):
            own = values.get(name)
            own = {} if own is None else own
            require(isinstance(own, dict), f"{name} is {own!r:.60}, expected an object")
            parts.append(own)
        vision = SamVisionConfig.from_dict(parts[0])
        prompt, mask = read_config(PromptConfig, parts[1]), read_config(MaskConfig, parts[2])
        widths = {vision.output_channels, 2 * vision.num_pos_feats, prompt.hidden_size, mask.hidden_size}
        require(len(widths) == 1, f"the parts have several widths: {', '.join(map(str, sorted(widths)))}")
        for name in ("image_size", "patch_size"):
            sides, given = getattr(vision, name), getattr(prompt, name)
            require(
                given is None or sides == (given, given),
                f"{name} is {given} in prompt_encoder_config and {' x '.join(map(str, sides))} in vision_config",
            )
        require(values.get("tie_word_embeddings") is not False, "SAM with tie_word_embeddings false is not supported")
        return cls(vision, prompt, mask, dict(values))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values, "model_type": MODEL_TYPES[0], "vision_config": self.vision_config.to_dict()}

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        found: int = self.vision_config.num_channels
        return found


class Sam(PromptedMasks):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, mask = config, config.mask_decoder_config
        self.shared_image_embedding = PlaceEmbedding(config.vision_config.num_pos_feats)
        self.vision_encoder = SamTower(config.vision_config)
        self.prompt_encoder = PromptEncoder(config.prompt_encoder_config)
        self.mask_decoder = MaskDecoder(mask, Form(LAYER_RATE, "out_proj", None, mask.layer_norm_eps))

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        return self.vision_encoder.steps(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {"mask-generation": Sam}
