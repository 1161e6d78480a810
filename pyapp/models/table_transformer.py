"""Table Transformer (Smock et al. 2021, arXiv 2110.00061): DETR for tables in documents, and for the rows, columns and
cells of a table. The norms of its layers come first.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.detection import QueryDetector, from_timm

from .loading.pictures_config import DetectorConfig

MODEL_TYPES = ("table-transformer",)
IMAGE_PROCESSOR = "Detr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
renamed = from_timm


@dataclass(frozen=True, kw_only=True)
class Config(DetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class TableTransformerForObjectDetection(QueryDetector):
    """Labels and boxes of the objects in pictures of any size."""

    first = True


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": TableTransformerForObjectDetection}
