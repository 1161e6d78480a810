"""Stands in for NumPy's build backend while pip downloads the source release.

pip asks for the metadata of what it downloads; the real backend would compile all of NumPy to give them.
"""

import re
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: object = None) -> str:
    metadata = Path("PKG-INFO").read_text(encoding="utf8")
    [version] = re.findall(r"^Version: (.*)$", metadata, re.MULTILINE)
    folder = Path(metadata_directory) / f"numpy-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(metadata, encoding="utf8")
    return folder.name


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    raise RuntimeError("only for pip download")
