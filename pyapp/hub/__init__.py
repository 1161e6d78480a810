"""Find model files by name: embedded, on disk, or on the Hugging Face hub; download, verify and cache them."""

from .address import DATASETS_SETTING, fetch_address, hub_dataset_address
from .download import fetch
from .registry import ModelEntry, ModelFile, models, networks
from .resolver import ModelFiles, NameIn, check_source, find_entry, is_name, resolve, resolve_files
from .state_files import HASH_REGEX, download_url_to_file, get_dir, load_state_dict_from_url, set_dir

__all__ = [
    "DATASETS_SETTING", "HASH_REGEX", "ModelEntry", "ModelFile", "ModelFiles", "NameIn", "check_source",
    "download_url_to_file",
    "fetch", "fetch_address", "find_entry", "get_dir", "hub_dataset_address", "is_name", "load_state_dict_from_url",
    "models", "networks", "resolve", "resolve_files", "set_dir",
]  # fmt: skip
