"""Files of weights of models of pictures without a config.json: YOLO's and Segment Anything's."""

from __future__ import annotations

from typing import Any

from pyapp.errors import FileFormatError
from pyapp.formats import Checkpoint, open_checkpoint

from . import segment_anything, ultralytics


def _opened(source: Any) -> Checkpoint:
    """A file of tensors, or of a model that was saved whole."""
    try:
        return open_checkpoint(source)
    except FileFormatError:
        return ultralytics.open_weights(source)


def settings_in(source: Any) -> dict[str, Any]:
    """The fields of a config.json that a file's tensors say, of a path or a ByteSource. ModelError for a model that
    is not known by its tensors; the errors of open_checkpoint.
    """
    checkpoint = _opened(source)
    try:
        if segment_anything.is_sams(checkpoint.tensors):
            return segment_anything.settings_of(checkpoint)
        return ultralytics.settings_of(checkpoint)
    finally:
        if checkpoint.source is not source:
            checkpoint.close()
