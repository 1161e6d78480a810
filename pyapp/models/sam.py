"""Segment Anything (Kirillov et al. 2023, arXiv 2304.02643): a Vision Transformer that sees a picture once, and a small
decoder that cuts out what points or boxes show. MobileSAM (Zhang et al. 2023, arXiv 2306.14289) sees by a TinyViT; the
decoder of SAM-HQ (Ke et al. 2023, arXiv 2306.01567) makes finer masks.

Parameters have the names of Hugging Face's files, and those of a TinyViT of timm's. The authors' own files
(loading/segment_anything.py) have other names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.vision.fine_masks import FineMaskDecoder
from pyapp.nn.vision.sam_tower import Neck, SamTower
from pyapp.nn.vision.segment_anything import (
    Form,
    MaskDecoder,
    PlaceEmbedding,
    PromptedMasks,
    PromptEncoder,
)
from pyapp.nn.vision.tiny_vit import TinyVitTrunk
from pyapp.nn.vision.vision import check_pictures

from .loading import segment_anything
from .loading.config import optional_object, read_config, require
from .loading.masks_config import LAYER_RATE, MaskConfig, PromptConfig
from .loading.stored import Stored
from .loading.tiny_vit_config import MobileSamVisionConfig
from .loading.towers_config import SamVisionConfig

MODEL_TYPES = ("sam", "mobile_sam", "sam_hq")
IMAGE_PROCESSOR = "Sam"  # of files that name none
BASE = ""
# The first is the same as shared_image_embedding's.
IGNORED = rf"prompt_encoder\.shared_embedding\.positional_embedding|{segment_anything.IGNORED}"
VISIONS: Mapping[str, type[SamVisionConfig | MobileSamVisionConfig]] = {
    "sam": SamVisionConfig, "mobile_sam": MobileSamVisionConfig,
}  # fmt: skip
renamed = segment_anything.renamed


@dataclass(frozen=True)
class Config:
    """The configurations of the parts, and `values`, the whole object of the config.json."""

    vision_config: SamVisionConfig | MobileSamVisionConfig
    prompt_encoder_config: PromptConfig
    mask_decoder_config: MaskConfig
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """From the object of a config.json; other keys are ignored. ModelError for parts that do not fit together."""
        names = "vision_config", "prompt_encoder_config", "mask_decoder_config"
        parts = [optional_object(values, name) for name in names]
        vision = VISIONS.get(str(values.get("model_type")), VISIONS[MODEL_TYPES[0]]).from_dict(parts[0])
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
        return {"model_type": MODEL_TYPES[0], **self.values, "vision_config": self.vision_config.to_dict()}

    @property
    def num_channels(self) -> int:
        """The channels of pictures."""
        found: int = self.vision_config.num_channels
        return found


def stored(config: Config, names: Collection[str]) -> dict[str, Stored]:
    """The parts that the authors' files number otherwise."""
    return segment_anything.stored(names)


class TinyVitTower(TinyVitTrunk):
    """A TinyViT that makes the map of one size of pictures."""

    def __init__(self, config: MobileSamVisionConfig) -> None:
        super().__init__(config)
        self.config = config
        self.neck = Neck(config)

    def steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        """pixel_values (B, 3, H, W) → (B, C, side, side); yields how many blocks are done, and how many there are."""
        check_pictures("MobileSAM", pixel_values, self.config.num_channels, self.config.image_size)
        x = yield from super().steps(pixel_values)
        return self.neck(x.permute(0, 2, 3, 1))


class Sam(PromptedMasks):
    """Masks of what points and boxes show. `features` sees a picture once; `masks` is quick."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, mask = config, config.mask_decoder_config
        self.shared_image_embedding = PlaceEmbedding(config.vision_config.num_pos_feats)
        self.vision_encoder: SamTower | TinyVitTower
        if isinstance(config.vision_config, MobileSamVisionConfig):
            self.vision_encoder = TinyVitTower(config.vision_config)
        else:
            self.vision_encoder = SamTower(config.vision_config)
        self.prompt_encoder = PromptEncoder(config.prompt_encoder_config)
        self.mask_decoder = MaskDecoder(mask, Form(LAYER_RATE, "out_proj", None, mask.layer_norm_eps))

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.vision_config.image_size
        return found

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        return self.vision_encoder.steps(pixel_values)


class SamHq(Sam):
    """As Sam, with finer masks, the best first."""

    mask_decoder: FineMaskDecoder

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        mask, width = config.mask_decoder_config, config.vision_config.hidden_size
        self.mask_decoder = FineMaskDecoder(mask, Form(LAYER_RATE, "out_proj", None, mask.layer_norm_eps), width)

    def features_in_steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Any]:
        whole: list[Tensor] = []
        assert isinstance(self.vision_encoder, SamTower)
        image = yield from self.vision_encoder.steps(pixel_values, whole)
        return image, self.mask_decoder.fine(image, whole[0] if whole else None)

    def maps(self, features: Any) -> tuple[Tensor, Sequence[Tensor]]:
        return features[0], features[1:]

    def meanings(self, masks: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        scores, order = ops.sort(scores[:, 1:], -1, True)
        order = order.reshape(*order.shape, 1, 1).expand(*order.shape, *masks.shape[2:])
        return ops.gather(masks[:, 1:], 1, order), scores


def sam(config: Config) -> Sam:
    """The model of a configuration, with empty weights."""
    return SamHq(config) if config.values.get("model_type") == "sam_hq" else Sam(config)


TASKS: Mapping[str, Callable[[Config], Module]] = {"mask-generation": sam}
