"""Find model files by name: embedded, on disk, or on the Hugging Face hub; download, verify and cache them."""

from .address import DATASETS_SETTING, fetch_address, hub_dataset_address
from .download import fetch
from .registry import ModelEntry, ModelFile, models, networks
from .resolver import ModelFiles, NameIn, find_entry, is_name, resolve, resolve_files

__all__ = [
    "DATASETS_SETTING", "ModelEntry", "ModelFile", "ModelFiles", "NameIn", "fetch", "fetch_address", "find_entry",
    "hub_dataset_address", "is_name", "models", "networks", "resolve", "resolve_files",
]  # fmt: skip
