"""FastVLM (Vasu et al. 2024, arXiv 2412.13303): a large FastViT sees a picture in few places, which two layers project
before a language model such as Qwen2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn.vision.vision import as_sequence
from pyapp.nn.vision_language.picture_text import PictureTextModel, TwoLayers

from .loading import picture_text
from .loading.architectures import architecture
from .loading.config import as_object, require
from .loading.picture_text import PictureTextConfig
from .loading.pictures_config import pair
from .loading.stored import Stored
from .loading.timm import family_of

MODEL_TYPES = ("fast_vlm",)
IMAGE_PROCESSOR = "Llava"  # of files that name none
IGNORED = r".*\.num_batches_tracked"
NETWORK = "fastvit"
SIZE = 1024  # pixels of a side, until an image processor says others


def renamed(name: str) -> str:
    """The model's name of a file's tensor; the loader of all files calls a weight what factors are here."""
    name = picture_text.renamed(name).replace("vision_tower.timm_model.", "vision_tower.")
    return re.sub(r"(\.layer_scale\w*)\.weight$", r"\1.gamma", name)


@dataclass(frozen=True)
class TowerConfig:
    """The configuration of a network of timm's, `network`, and `values`, the whole object of vision_config."""

    network: Any
    values: Mapping[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TowerConfig:
        """From vision_config. ModelError for another network than FastViT."""
        name, given = values.get("architecture"), as_object(values.get("model_args") or {}, "model_args")
        family = family_of(name) if isinstance(name, str) else None
        match = None if family is None else re.fullmatch(family.pattern, str(name))
        require(
            family is not None and match is not None and family.title == NETWORK,
            f"the network {name!r:.60} in vision_config is not known, expected FastViT",
        )
        assert family is not None and match is not None
        known = {key: given[key] for key in family.arguments if key in given}
        settings = {**(family.settings(match, known) or {}), "fused": given.get("inference_mode") is True}
        made = cls(architecture(NETWORK).Config.from_dict(settings), dict(values))
        require(min(made.image_size) > 0, f"image_size is {values.get('image_size')!r:.60}")
        width = values.get("hidden_size", made.hidden_size)
        require(width == made.hidden_size, f"hidden_size is {width!r:.60}, but the network has {made.hidden_size:,}")
        return made

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self.values}

    @property
    def hidden_size(self) -> int:
        """The channels of a place."""
        found: int = self.network.hidden_sizes[-1] * self.network.head_ratio
        return found

    @property
    def stride(self) -> int:
        """The pixels of a side of a place."""
        return 2 << len(self.network.depths)

    @property
    def image_size(self) -> tuple[int, int]:
        """The height and the width of pictures, unless their processor says others."""
        return pair(self.values, "image_size", SIZE)


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "fast_vlm"
    text = "qwen2"
    tower = "timm_wrapper"
    towers = {"timm_wrapper": TowerConfig}
    token = ("image_token_index", 151646)

    def check(self) -> None:
        self.check_token()
        for name, expected in (("vision_feature_select_strategy", "full"), ("vision_feature_layer", -1)):
            given = self.values.get(name, expected)
            require(given == expected, f"{name} is {given!r:.60}, expected {expected!r}")


class FastVlmForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        seen = config.vision_config
        self.vision_tower = architecture(NETWORK).FastViT(seen.network)
        self.multi_modal_projector = TwoLayers(seen.hidden_size, config.text_config.hidden_size, config.values)
        self.size = seen.image_size

    @property
    def pixels(self) -> tuple[int, int]:
        return self.size

    @property
    def picture_tokens(self) -> int:
        rows, columns = (ceil(side / self.config.vision_config.stride) for side in self.size)
        return rows * columns

    def prepared_by(self, processor: Any) -> Any:
        """The processor, whose size is that of the pictures."""
        require(processor.fixed_size is not None, "the image processor makes pictures of several sizes, expected one")
        self.size = processor.fixed_size
        return processor

    def exported(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by the names of parameters, with the dimensions of files."""
        return {name: value.reshape(-1, 1, 1) if name.endswith(".gamma") else value for name, value in tensors.items()}

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        return self.multi_modal_projector(as_sequence(self.vision_tower(pixel_values)))


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """Factors of channels have two dimensions more in files."""
    return {
        renamed(name): Stored((renamed(name),), values=lambda value: value.reshape(-1))
        for name, info in tensors.items() if renamed(name).endswith(".gamma") and len(info.shape) == 3
    }  # fmt: skip


TASKS: Mapping[str, Any] = {picture_text.TASK: FastVlmForConditionalGeneration}
