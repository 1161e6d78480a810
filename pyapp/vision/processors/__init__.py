"""Prepare pictures for a model as its preprocessor_config.json says: the steps of transformers' image processors, with
their defaults, and Pillow's numbers.

A kind of processor is named in files by "ImageProcessor" after its name here. Most kinds differ by their settings
only. The others are subclasses of `ImageProcessor`, which say what is special of them, with their own settings.
"""

from __future__ import annotations

from . import depth, detectors, documents, keypoints, patches, tiles, whole
from .processor import KINDS, ImageProcessor, Prepared

__all__ = ["KINDS", "ImageProcessor", "Prepared"]

# Imported for the kinds that they declare.
_DECLARED = depth, detectors, documents, keypoints, patches, tiles, whole
