"""DETR (Carion et al. 2020, arXiv 2005.12872): a transformer whose queries each find an object in a picture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.detection import QueryDetector, from_timm

from .loading.pictures_config import DetectorConfig

MODEL_TYPES = ("detr",)
IMAGE_PROCESSOR = "Detr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
renamed = from_timm


@dataclass(frozen=True, kw_only=True)
class Config(DetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class DetrForObjectDetection(QueryDetector):
    """Labels and boxes of the objects in pictures of any size."""


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": DetrForObjectDetection}
