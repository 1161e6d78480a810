"""Files of the named datasets: from the user's folder, the cache, or the network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from pyapp.dataclass import dataclass
from pyapp.engine.native import IN_BROWSER
from pyapp.errors import DownloadError, ModelNotFoundError
from pyapp.events import Cancel, Event

AnyFolder = str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, the addresses that have it, its size in bytes, and its SHA-256 or its MD5 (`sha256` is "" then)."""

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


def obtain(
    dataset: str, file: DataFile, folder: AnyFolder = None,
    report: Callable[[Event], None] | None = None, cancel: Cancel | None = None,
) -> Path:  # fmt: skip
    """The path of a dataset's file: in `folder` (packed, or unpacked without .gz), or in the cache, downloaded and
    verified if it is missing. ModelNotFoundError, DownloadError, StorageFullError, Cancelled.
    """
    if folder is not None:
        places = [Path(folder) / name for name in (file.name, file.name.removesuffix(".gz"))]
        for place in places:
            if place.is_file():
                return place
        raise ModelNotFoundError(f"there is no file {file.name}", where=str(folder), hint=f"Download {file.urls[0]}")
    if IN_BROWSER:
        raise DownloadError(
            "a browser tab cannot download this dataset", where=dataset,
            hint=f"Download {file.urls[0]}, add it to the files of the page, and give its folder",
        )  # fmt: skip
    from pyapp.hub.address import fetch_address

    path = fetch_address(
        file.urls, f"{dataset}/{file.name}", size=file.size, sha256=file.sha256, report=report, cancel=cancel
    )
    if file.md5:
        with path.open("rb") as opened:
            right = hashlib.file_digest(opened, "md5").hexdigest() == file.md5
        if not right:
            path.unlink()
            raise DownloadError(f"{file.name} has not the MD5 {file.md5}", where=file.urls[0])
    return path
