"""The image processor of an architecture, for files that name none: its module says it in IMAGE_PROCESSOR."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from .._index import MODEL_TYPES, SEEING


def usual_processor(model_type: str) -> str | None:
    """The kind of image processor (pyapp.vision.processors.DEFAULTS) of a model_type; None where there is none."""
    name = SEEING.get(model_type) or MODEL_TYPES.get(model_type)
    if name is None:
        return None
    declared = getattr(importlib.import_module(f"pyapp.models.{name}"), "IMAGE_PROCESSOR", None)
    return declared.get(model_type) if isinstance(declared, Mapping) else declared
