"""Puts the files of a trained model into the site, and their sizes and hashes into pyapp/registry.json."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "web" / "models"
REGISTRY = ROOT / "pyapp" / "registry.json"


def embed(source: Path, folder: Path, names: Sequence[str]) -> None:
    """Copies the named files of `source` to `folder`, a folder of MODELS, and enters them in the registry."""
    folder.mkdir(parents=True, exist_ok=True)
    registry = REGISTRY.read_text(encoding="utf-8")
    for name in names:
        shutil.copyfile(source / name, folder / name)
        registry = enter(registry, f"models/{folder.name}/{name}", (folder / name).read_bytes())
    REGISTRY.write_text(registry, encoding="utf-8")


def enter(text: str, path: str, data: bytes) -> str:
    """The registry's text, with the size and the hash of the file at `path`."""
    entry = re.compile(rf'("path": "{re.escape(path)}", "size": )\d+(,\s*"sha256": ")[0-9a-f]*"')
    changed, count = entry.subn(rf'\g<1>{len(data)}\g<2>{hashlib.sha256(data).hexdigest()}"', text)
    if count != 1:
        raise SystemExit(f"{REGISTRY} does not list {path} once")
    return changed
