"""Find model files by name: embedded, on disk, or on the Hugging Face hub; download, verify and cache them."""

from .download import fetch
from .registry import ModelEntry, ModelFile, models
from .resolver import ModelFiles, NameIn, find_entry, resolve

__all__ = ["ModelEntry", "ModelFile", "ModelFiles", "NameIn", "fetch", "find_entry", "models", "resolve"]
