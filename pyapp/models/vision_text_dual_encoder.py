"""An encoder of pictures and an encoder of texts that were trained for other tasks, with projections into a common
space (Zhai et al. 2021, arXiv 2111.07991): CLIP of other languages.

The two parts are other architectures, which config.json names. Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ModelError
from pyapp.nn import Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import ClipTower, PictureAndText

from .loading.architectures import architecture, architecture_for
from .loading.config import object_of, require
from .loading.pictures_config import WIDEST
from .loading.towers_config import ClipVisionConfig, TwoTowers

MODEL_TYPES = ("vision-text-dual-encoder",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = ""
IGNORED = r".*\.(position_ids|token_type_ids|mask_token)"
CLIP_KINDS = ("clip", "clip_vision_model")
TASKS_OF_PARTS = {"vision_config": "image-features", "text_config": "features"}


@dataclass(frozen=True)
class Config(TwoTowers):
    """The configurations of both parts, and `values`, the whole object of the config.json."""

    vision_config: Any
    text_config: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json. ModelError for parts that are not known."""
        parts = {}
        for name, task in TASKS_OF_PARTS.items():
            own = object_of(values, name)
            kind = own.get("model_type")
            if name == "vision_config" and kind in CLIP_KINDS:
                own = object_of(own, name) if name in own else own  # of a whole CLIP
                parts[name] = ClipVisionConfig.from_dict(own)
                continue
            module = architecture_for(kind, task) if isinstance(kind, str) else None
            if module is None:
                raise ModelError(f"the model {kind!r:.50} in {name} is not known for {task}")
            parts[name] = module.Config.from_dict(own)
        made = cls(parts["vision_config"], parts["text_config"], dict(values))
        width = made.projection_dim
        require(type(width) is int and 1 <= width <= WIDEST, f"projection_dim is {width!r:.60}")
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = {name: getattr(self, name).to_dict() for name in TASKS_OF_PARTS}
        return {**self.values, "model_type": MODEL_TYPES[0], **own}

    def part(self, name: str) -> Any:
        """The model of a part, which must have a layer over its first token."""
        config = getattr(self, name)
        if isinstance(config, ClipVisionConfig):
            return ClipTower(config)
        kind = config.to_dict()["model_type"]
        made = architecture(kind).TASKS[TASKS_OF_PARTS[name]](config)
        known = isinstance(getattr(made, "pooler", None), Module)
        require(known, f"{name}: {kind!r:.50} has no layer over the first token, which features are read by")
        return made

    @property
    def projection_dim(self) -> Any:
        """The numbers of a vector."""
        return self.values.get("projection_dim", 512)


class VisionTextDualEncoder(PictureAndText):
    """Both encoders, and projections into the common space."""

    template = "a photo of {}."
    masks_texts = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.vision_model, self.text_model = config.part("vision_config"), config.part("text_config")
        width = config.projection_dim
        self.visual_projection = Linear(config.vision_config.hidden_size, width, bias=False)
        self.text_projection = Linear(config.text_config.hidden_size, width, bias=False)
        self.logit_scale = new_parameter(ops.zeros)

    def image_features(self, pixel_values: Tensor) -> Tensor:
        x = self.vision_model(pixel_values)  # (B, D) of CLIP, else (B, T, D)
        return self.visual_projection(x if x.ndim == 2 else self.vision_model.pooler(x))

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P). attention_mask (N, T): 0 where a token is padding."""
        return self.text_projection(self.text_model.pooler(self.text_model(ids, attention_mask)))


def renamed(name: str) -> str:
    """The model's name of a file's tensor. Older files have a whole CLIP's names in its part."""
    return name.replace("vision_model.vision_model.", "vision_model.", 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": VisionTextDualEncoder}
