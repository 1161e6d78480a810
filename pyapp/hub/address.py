"""Download files of datasets from any address, with the same resuming, checking and locking as the hub's files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from pyapp.errors import Cancelled, DownloadError, ModelNotFoundError
from pyapp.events import Cancel, Event

from .download import LOOK_UP_SECONDS, full_disk, is_path, locked
from .http import Remote, ask_head, plain_headers, receive, within_time
from .network_errors import HUB, endpoint

DATASETS_SETTING = "PYAPP_DATASETS"


class _WebFile(Remote):
    """A file at an address that is not a hub: no token is sent."""

    __slots__ = ()
    mirror_hint = "download the file elsewhere and give its folder"
    cache_setting = DATASETS_SETTING

    def headers(self) -> dict[str, str]:
        return plain_headers()

    def explain(self, error: Exception) -> Exception:
        from huggingface_hub import errors

        if isinstance(error, DownloadError):
            return error
        if isinstance(error, errors.OfflineModeIsEnabled):
            what, hint = "offline mode is on", f"Unset HF_HUB_OFFLINE, or {self.mirror_hint}"
        elif isinstance(error, errors.HfHubHTTPError):
            what = f"the server answered with status {error.response.status_code}"
            hint = f"Try again later, or {self.mirror_hint}"
        else:
            what = f"it cannot be reached: {str(error) or type(error).__name__}"
            hint = f"Check your connection; behind a proxy set HTTPS_PROXY; or {self.mirror_hint}"
        return DownloadError(f"{self.path}: {what}", where=self.url[:200], hint=hint)


class _HubFile(_WebFile):
    """A file at the hub's own address, where the user's token is valid."""

    __slots__ = ()

    def headers(self) -> dict[str, str]:
        return super(_WebFile, self).headers()


def datasets_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of downloaded datasets: `cache_dir`, PYAPP_DATASETS, or datasets/ in the user's cache of pyapp."""
    chosen = cache_dir or os.environ.get(DATASETS_SETTING)
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pyapp" / "datasets"


def hub_dataset_address(repo: str, path: str, revision: str = "main") -> str:
    """The address of a file in a repository of datasets on the hub, or on HF_ENDPOINT."""
    return f"{endpoint() or HUB}/datasets/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(path)}"


def fetch_address(
    urls: Sequence[str],
    name: str,
    *,
    size: int | None = None,
    sha256: str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """The path of the file `name` ("mnist/train-labels-idx1-ubyte.gz") in the cache of datasets, downloaded from the
    first of the addresses that gives it with the right size and SHA-256; an interrupted download is continued. Without
    `sha256` the address is a hub's, and its own value is used; "": the file is not verified. Raises DownloadError,
    StorageFullError, Cancelled.
    """
    cancel = cancel or Cancel()
    if not is_path(name):
        raise ModelNotFoundError(f"{name!a:.200} is not the path of a file of a dataset", hint="Write dataset/file")
    parts = name.split("/")
    place = datasets_folder(cache_dir) / Path(*parts)
    if place.is_file() and size in (None, place.stat().st_size):
        return place  # it was checked when it arrived
    if offline:
        raise DownloadError(
            f"{name} is not in the cache", where=str(place.parent), hint="Allow the network once, or give a folder"
        )
    problem: Exception | None = None
    for url in urls:
        cancel.check()
        try:
            remote = _remote(url, parts[-1], size, sha256, cancel)
            with full_disk(place.parent, DATASETS_SETTING), locked(place.parent, parts[-1], cancel):
                if not place.is_file() or size not in (None, place.stat().st_size):
                    receive(remote, place, size, sha256, report, cancel)
            return place
        except (DownloadError, ModelNotFoundError) as error:
            problem = problem or error
    assert problem is not None
    raise problem


def size_at(url: str, name: str) -> int | None:
    """The bytes of a file at any address, if its server says so without a redirect. DownloadError."""
    remote = _WebFile(urlsplit(url).netloc, name, url, "", "", None)
    answer = _asked(remote, Cancel())
    length = "" if answer.is_redirect else answer.headers.get("Content-Length", "")
    return int(length) if re.fullmatch(r"\d{1,18}", length) else None


def _asked(remote: _WebFile, cancel: Cancel) -> Any:
    """The answer to a HEAD."""
    try:
        return within_time(lambda: ask_head(remote.url, LOOK_UP_SECONDS, remote.headers()), cancel, remote.url[:200])
    except Cancelled:
        raise
    except Exception as error:
        raise remote.explain(error) from error


def _remote(url: str, path: str, size: int | None, sha256: str | None, cancel: Cancel) -> Remote:
    host = urlsplit(url).netloc
    if sha256 is not None:
        return _WebFile(host, path, url, "", sha256, size)
    remote = _HubFile(host, path, url, "", "", size)
    headers = _asked(remote, cancel).headers
    etag = headers.get("X-Linked-Etag", "").strip('"')
    length = headers.get("X-Linked-Size", "")
    if not re.fullmatch(r"[0-9a-f]{64}", etag) or not re.fullmatch(r"\d{1,18}", length):
        raise DownloadError(
            "the server does not answer like a Hugging Face hub (no SHA-256 of the file)", where=url[:200],
            hint="Check HF_ENDPOINT",
        )  # fmt: skip
    return _HubFile(host, path, url, "", etag, int(length))
