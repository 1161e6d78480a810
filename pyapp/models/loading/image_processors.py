"""The image processor of an architecture, for files that name none: its module says it in IMAGE_PROCESSOR."""

from __future__ import annotations

from collections.abc import Mapping

from pyapp.errors import ModelError
from pyapp.vision.processors import ImageProcessor

from .architectures import architecture, seeing_architecture


def usual_processor(model_type: str) -> str | None:
    """The kind of image processor (pyapp.vision.processors.KINDS) of a model_type; None where there is none."""
    declared = getattr(seeing_architecture(model_type) or architecture(model_type), "IMAGE_PROCESSOR", None)
    return declared.get(model_type) if isinstance(declared, Mapping) else declared


def check_fit(processor: ImageProcessor, wanted: tuple[int, int] | None, name: str) -> None:
    """ModelError for a processor whose pictures a model does not take. wanted: (height, width) of those it takes; None:
    of any size.
    """
    made = processor.fixed_size
    if made is not None and wanted is not None and made != wanted:
        raise ModelError(
            f"its image processor makes pictures of {made[0]} x {made[1]} pixels, the model takes "
            f"{wanted[0]} x {wanted[1]}",
            where=name,
            hint="Give the preprocessor_config.json that belongs to the weights",
        )
