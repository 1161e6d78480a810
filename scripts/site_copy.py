"""Copies the built site and replaces some files, for tests and benchmarks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path


def copy_site(dist: Path, folder: Path, changes: dict[str, bytes]) -> Path:
    """Copies the site by links and replaces some files. The manifest is updated."""
    shutil.copytree(dist, folder, copy_function=os.link)
    for path, data in changes.items():
        for name in (path, f"{path}.br", f"{path}.gz"):
            (folder / name).unlink(missing_ok=True)
        (folder / path).write_bytes(data)
    manifest = json.loads((dist / "manifest.json").read_text())
    for file in manifest["files"]:
        if file["path"] in changes:
            file["sha256"] = hashlib.sha256(changes[file["path"]]).hexdigest()
    manifest["version"] = hashlib.sha256(json.dumps(manifest["files"]).encode()).hexdigest()[:16]
    for name in ("manifest.json", "manifest.json.br", "manifest.json.gz"):
        (folder / name).unlink(missing_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
