"""keras.utils.get_file: files from the web, kept in the cache of datasets."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..datasets.archives import DAMAGED, damaged, is_tar, tar_members
from ..errors import DownloadError, FileFormatError
from ..hub.address import datasets_folder, fetch_address

__all__ = ["get_file"]

_HASHES = {"sha256": 64, "md5": 32}


def get_file(
    fname: str | None = None, origin: str | None = None, untar: bool = False, md5_hash: str | None = None,
    file_hash: str | None = None, cache_subdir: str = "datasets", hash_algorithm: str = "auto", extract: bool = False,
    archive_format: Any = "auto", cache_dir: Any = None, force_download: bool = False,
) -> str:  # fmt: skip
    """The path of the file at the address `origin`, which is downloaded once, into `cache_dir`/`cache_subdir` (by
    default the cache of datasets). `file_hash` is compared: its SHA-256 or MD5. With `extract` an archive (zip or tar)
    is unpacked beside it, and the path is that of the folder.

    DownloadError if it cannot be had or has another hash, FileFormatError for a broken archive.
    """
    if origin is None:
        raise ValueError("get_file: give the address as `origin`")
    name = fname or urlsplit(origin).path.rsplit("/", 1)[-1]
    if not name or Path(name).name != name:
        raise ValueError(f"get_file: {name!r} is not the name of a file; give fname")
    file_hash = (file_hash or md5_hash or "").lower()
    kind = _kind_of_hash(file_hash, "md5" if md5_hash else hash_algorithm)
    root = Path(cache_dir).expanduser() if cache_dir else datasets_folder()
    folder = "/".join(part for part in Path(cache_subdir).parts if part not in ("", ".", "/"))
    place = root / folder / name
    sha256 = file_hash if kind == "sha256" else ""
    with _set_aside(place, force_download or bool(place.is_file() and kind and _hash(place, kind) != file_hash)):
        path = fetch_address([origin], f"{folder}/{name}" if folder else name, sha256=sha256, cache_dir=root)
    if kind == "md5" and _hash(path, kind) != file_hash:
        path.unlink()
        raise DownloadError(f"{name} has not the MD5 {file_hash}", where=origin[:200], hint="Check the address")
    return str(_unpacked(path, archive_format) if untar or extract else path)


@contextmanager
def _set_aside(place: Path, wanted: bool) -> Iterator[None]:
    """Takes a file away, if that is `wanted`. It comes back where no other one has taken its place."""
    old = place.with_name(f"{place.name}.old")
    if wanted and place.is_file():
        os.replace(place, old)
    try:
        yield
    finally:
        if wanted and old.is_file():
            if place.is_file():
                old.unlink()
            else:
                os.replace(old, place)


def _kind_of_hash(value: str, algorithm: str) -> str | None:
    if not value:
        return None
    kind = algorithm if algorithm != "auto" else {64: "sha256", 32: "md5"}.get(len(value), "")
    if kind not in _HASHES or len(value) != _HASHES[kind]:
        raise ValueError(f"get_file: file_hash is a SHA-256 or an MD5 in hexadecimal digits, not {value!r:.80}")
    return kind


def _hash(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def _check_room(nbytes: int, archive: Path) -> None:
    """FileFormatError for contents that the disk has no room for: an archive says how large they are."""
    free = shutil.disk_usage(archive.parent).free
    if nbytes > free:
        raise FileFormatError(
            f"{archive.name} would unpack to {nbytes:,} bytes, the disk has {free:,} free",
            hint="Free some space, or give cache_dir on another disk",
        )


def _unpacked(path: Path, archive_format: Any) -> Path:
    """The folder of an archive's contents: its name without the endings."""
    wanted = {"auto": ("tar", "zip"), None: ()}.get(archive_format, archive_format)
    formats = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    folder = path.with_name(f"{path.name.split('.')[0]}_extracted")
    if folder.is_dir():
        return folder
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)  # what an interruption has left
    partial.mkdir()  # an archive may have no files
    try:
        if "zip" in formats and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _check_room(sum(member.file_size for member in archive.infolist()), path)
                archive.extractall(partial)  # names that lead out of the folder are made harmless
        elif "tar" in formats and is_tar(path):
            for tar, member in tar_members(path, shutil.disk_usage(path.parent).free):
                tar.extract(member, partial, filter="data")
        else:
            raise FileFormatError(f"{path.name} is not an archive of {' or '.join(formats) or 'a known format'}")
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, FileFormatError) or not isinstance(error, DAMAGED):
            raise
        raise damaged(error, path) from error
    os.replace(partial, folder)
    return folder
