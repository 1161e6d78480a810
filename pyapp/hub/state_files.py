"""Weights at any address, by torch.hub's names; downloads are kept in the folder that torch uses, too."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyapp.errors import DownloadError
from pyapp.formats.torch_files import load

from .address import fetch_address, size_at

HASH_REGEX = re.compile(r"-([a-f0-9]{6,64})\.")  # of names such as resnet18-5c106cde.pth


class _Chosen:
    folder: str | None = None  # of set_dir


def get_dir() -> str:
    """The folder of downloads: that of set_dir, TORCH_HOME/hub, or torch/hub in the user's cache."""
    if _Chosen.folder is not None:
        return _Chosen.folder
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or os.path.join(cache, "torch")
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the folder of downloads."""
    _Chosen.folder = os.path.expanduser(os.fspath(d))


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Downloads a file to `dst`, in place of one that is there. DownloadError (a RuntimeError) if it cannot be had, or
    if its SHA-256 does not begin with `hash_prefix`. An interrupted download is continued; `progress` shows nothing.
    """
    place = Path(dst).expanduser()
    new = place.with_name(f"{place.name}.new")  # the old file stays until the new one is there
    new.unlink(missing_ok=True)
    _fetch(url, new, hash_prefix)
    os.replace(new, place)


def load_state_dict_from_url(
    url: str, model_dir: str | os.PathLike[str] | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What `pyapp.load` reads from a file at an address, which is downloaded at the first call, to `model_dir` or
    get_dir()/checkpoints. With `check_hash` the file's name has the beginning of its SHA-256: name-<hash>.pth.
    """
    folder = Path(get_dir(), "checkpoints") if model_dir is None else Path(model_dir)
    name = file_name or os.path.basename(urlsplit(url).path)
    if not name:
        raise ValueError(f"load_state_dict_from_url: {url[:200]!r} has no name of a file; give file_name")
    place = folder.expanduser() / name
    if not place.is_file():
        found = HASH_REGEX.search(name) if check_hash else None
        _fetch(url, place, found.group(1) if found else None)
    state: dict[str, Any] = load(place, map_location=map_location, weights_only=weights_only)
    return state


def _fetch(url: str, place: Path, hash_prefix: str | None) -> None:
    fetch_address([url], place.name, size=size_at(url, place.name), sha256="", cache_dir=place.parent)
    if hash_prefix:
        with open(place, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if not digest.startswith(hash_prefix):
            place.unlink()
            raise DownloadError(
                f"{place.name} is not the file that was expected: its SHA-256 is {digest}, not {hash_prefix}…",
                where=url[:200], hint="Try again; the address may have another file now",
            )  # fmt: skip


__all__ = ["HASH_REGEX", "download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]
