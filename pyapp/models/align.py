"""ALIGN (Jia et al. 2021, arXiv 2102.05918): EfficientNet for pictures, and BERT for texts.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.encoders import BertEncoder, first_token
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.efficientnet import EfficientNet
from pyapp.nn.vision.towers import PictureAndText, direction_scores

from .loading.config import require
from .loading.encoder_config import BertTextConfig
from .loading.pictures_config import EfficientNetConfig
from .loading.towers_config import ProjectedConfig

MODEL_TYPES = ("align",)
IMAGE_PROCESSOR = "EfficientNet"  # of files that name none
BASE = ""
IGNORED = r".*\.(position_ids|token_type_ids)|text_model\.pooler\..*"


@dataclass(frozen=True, kw_only=True)
class AlignTextConfig(BertTextConfig):
    """The fields of text_config."""

    model_type = "align_text_model"


@dataclass(frozen=True, kw_only=True)
class AlignVisionConfig(EfficientNetConfig):
    """The fields of vision_config."""

    model_type = "align_vision_model"
    last_filter = False

    hidden_dim: int = 640


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = AlignTextConfig
    vision_class = AlignVisionConfig
    usual_width = 640

    def __post_init__(self) -> None:
        made, width = self.vision_config.hidden_dim, self.projection_dim
        require(made == width, f"projection_dim is {width}, but pictures have vectors of {made} numbers (hidden_dim)")


class Align(PictureAndText):
    """Both networks, and a projection of texts into the space of pictures."""

    template = "a photo of {}"
    masks_texts = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_model = BertEncoder(config.text_config, pooler=False)
        self.vision_model = EfficientNet(config.vision_config)
        self.text_projection = Linear(config.text_config.hidden_size, config.projection_dim)
        self.temperature = new_parameter(ops.ones)

    @property
    def pixels(self) -> None:
        """Pictures have any size."""
        return

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.vision_model.pooled(self.vision_model(pixel_values))

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P). attention_mask (N, T): 0 where a token is padding."""
        return self.text_projection(first_token(self.text_model(ids, attention_mask)))

    def scores(self, pictures: Tensor, texts: Tensor) -> Tensor:
        return direction_scores(pictures, texts) / self.temperature


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Align}
