"""SuperPoint (DeTone et al. 2017, arXiv 1712.07629): points of pictures that are found again from elsewhere, and what
they look like.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.nn import Module
from pyapp.nn.vision.key_points import SuperPoint

from .loading.points_config import SuperPointConfig

MODEL_TYPES = ("superpoint",)
IMAGE_PROCESSOR = "SuperPoint"  # of files that name none
BASE = ""


class Config(SuperPointConfig):
    """The hyper-parameters, by the names of config.json."""


TASKS: Mapping[str, Callable[[Config], Module]] = {"keypoint-detection": SuperPoint}
