"""Receives a file over HTTP beside its place: continued after interruptions, verified, cancelled at once."""

from __future__ import annotations

import hashlib
import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyapp.errors import DownloadError, StorageFullError
from pyapp.events import Cancel, Event, Progress

from .explain import explain

if TYPE_CHECKING:
    from hashlib import _Hash

POLL = 0.05  # seconds between two looks at Cancel while nothing arrives
REPORT_EVERY = 0.1  # seconds
ATTEMPTS = 5  # in a row without a new byte
RETRY_SECONDS = 0.5  # before the second attempt, then twice as long each time
TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))


class _Interrupted(Exception):
    """The connection broke or the server was busy: worth another attempt."""


@dataclass(frozen=True, slots=True)
class Remote:
    """What the hub says of a file."""

    repo: str
    path: str
    url: str  # of this very commit
    commit: str
    etag: str
    size: int | None


def storage_full(folder: Path, needed: int | None) -> StorageFullError:
    what = "the disk is full" if needed is None else f"the disk is too full: {needed:,} bytes are needed"
    return StorageFullError(
        what, where=str(folder), hint="Free some space, or set HF_HUB_CACHE to a folder on another disk"
    )


def receive(
    remote: Remote,
    blob: Path,
    size: int | None,
    sha256: str | None,
    report: Callable[[Event], None] | None,
    cancel: Cancel,
) -> None:
    """Fetches a file into `blob`, through a neighbour that survives interruptions, and verifies it."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{blob.name}.pyapp.incomplete")
    total = size if size is not None else remote.size
    resumed = partial.is_file() and partial.stat().st_size > 0
    needed = (total or 0) - (partial.stat().st_size if resumed else 0)
    if needed > shutil.disk_usage(blob.parent).free:
        raise storage_full(blob.parent, needed)
    progress = _Meter(remote.path, total, report)
    _attempts(remote, partial, total, progress, cancel)
    wrong = _verify(partial, remote, sha256, cancel)
    if wrong and resumed:  # the beginning may stem from a damaged attempt: once more from the start
        partial.unlink()
        _attempts(remote, partial, total, progress, cancel)
        wrong = _verify(partial, remote, sha256, cancel)
    if wrong:
        partial.unlink()
        raise DownloadError(
            f"{remote.path} arrived damaged: {wrong}",
            where=remote.repo,
            hint="Try again; if it stays so, set HF_ENDPOINT to another mirror, or unset it",
        )
    os.replace(partial, blob)


def _attempts(remote: Remote, partial: Path, total: int | None, progress: _Meter, cancel: Cancel) -> None:
    """Requests from where the partial file ends, until it is whole. Only new bytes earn patience."""
    failures = furthest = 0
    while True:
        try:
            return _request(remote, partial, total, progress, cancel)
        except _Interrupted as error:
            here = partial.stat().st_size if partial.is_file() else 0
            failures = 1 if here > furthest else failures + 1
            furthest = max(furthest, here)
            if failures >= ATTEMPTS:
                known = f" of {total:,}" if total is not None else ""
                raise DownloadError(
                    f"the download of {remote.path} broke off at {here:,}{known} bytes: {error}",
                    where=remote.repo,
                    hint="What has arrived is kept: check your connection and start it again",
                ) from error
            _wait(RETRY_SECONDS * 2 ** (failures - 1), cancel)


def _request(remote: Remote, partial: Path, total: int | None, progress: _Meter, cancel: Cancel) -> None:
    start = partial.stat().st_size if partial.is_file() else 0
    if total is not None and start > total:
        partial.unlink()
        start = 0
    if total is not None and start == total and partial.is_file():
        progress.show(start, force=True)
        return
    stream = _Stream(remote, start)
    try:
        start = stream.head(cancel)
        with open(partial, "r+b" if partial.is_file() else "wb") as file:
            file.truncate(start)
            file.seek(start)
            done = start
            progress.show(done, force=True)
            for chunk in stream.chunks(cancel):
                done += len(chunk)
                if total is not None and done > total:
                    file.truncate(0)
                    raise DownloadError(
                        f"the server sends more than the {total:,} bytes of {remote.path}",
                        where=remote.repo,
                        hint="Set HF_ENDPOINT to another mirror, or unset it",
                    )
                file.write(chunk)
                progress.show(done)
        if total is not None and done < total:
            raise _Interrupted("the server closed the connection")
        progress.show(done, force=True)
    except _Restart:
        partial.unlink(missing_ok=True)
        raise
    finally:
        stream.close()


class _Stream:
    """The answer to one request, received by a thread, so that Cancel is looked at while nothing arrives."""

    def __init__(self, remote: Remote, start: int) -> None:
        self._remote, self._start = remote, start
        self._items: queue.Queue[Any] = queue.Queue(maxsize=64)
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="pyapp-download", daemon=True).start()

    def _run(self) -> None:
        from huggingface_hub import get_session, hf_raise_for_status
        from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT
        from huggingface_hub.utils import build_hf_headers

        headers = build_hf_headers(library_name="pyapp") | {"Accept-Encoding": "identity"}
        if self._start:
            headers["Range"] = f"bytes={self._start}-"
        try:
            with get_session().stream(
                "GET", self._remote.url, headers=headers, timeout=HF_HUB_DOWNLOAD_TIMEOUT
            ) as answer:
                if answer.status_code in TRANSIENT:
                    raise _Interrupted(f"the server answered {answer.status_code}")
                if answer.status_code != 416:
                    hf_raise_for_status(answer)
                self._put((answer.status_code, answer.headers.get("Content-Range", "")))
                for chunk in answer.iter_bytes():
                    if not self._put(chunk):
                        return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Any) -> bool:
        """False: nobody listens any more."""
        while not self._stop.is_set():
            try:
                self._items.put(item, timeout=POLL)
            except queue.Full:
                continue
            return True
        return False

    def _get(self, cancel: Cancel) -> Any:
        while True:
            cancel.check()
            try:
                item = self._items.get(timeout=POLL)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                self._raise(item)
            return item

    def _raise(self, error: Exception) -> None:
        import httpx2

        if isinstance(error, httpx2.TransportError) and not isinstance(
            error, (httpx2.ProxyError, httpx2.UnsupportedProtocol)
        ):
            raise _Interrupted(str(error) or type(error).__name__) from error
        if isinstance(error, _Interrupted):
            raise error
        raise explain(error, self._remote.repo, self._remote.path, self._remote.commit) from error

    def head(self, cancel: Cancel) -> int:
        """The byte at which the answer begins: a server may ignore the wish to continue."""
        status, content_range = self._get(cancel)
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", content_range)
        if status == 206 and match and int(match[1]) == self._start:
            return self._start
        if status == 200:
            return 0
        raise _Restart(f"the server cannot continue at byte {self._start:,}")

    def chunks(self, cancel: Cancel) -> Iterator[bytes]:
        while (chunk := self._get(cancel)) is not None:
            yield chunk

    def close(self) -> None:
        self._stop.set()


class _Restart(_Interrupted):
    """The server does not continue from there: begin again."""


def _verify(partial: Path, remote: Remote, sha256: str | None, cancel: Cancel) -> str | None:
    """What is wrong with the file; None: nothing. An ETag of 64 digits is the file's SHA-256, one of 40 its SHA-1 as a
    git blob."""
    digest: _Hash
    expected = sha256 or remote.etag
    if len(expected) == 64:
        digest = hashlib.sha256()
    elif len(expected) == 40:
        digest = hashlib.sha1(b"blob %d\0" % partial.stat().st_size, usedforsecurity=False)
    else:
        return None
    with open(partial, "rb") as file:
        while chunk := file.read(1 << 20):
            cancel.check()
            digest.update(chunk)
    actual = digest.hexdigest()
    return None if actual == expected else f"its checksum is {actual[:16]}…, expected {expected[:16]}…"


class _Meter:
    """Progress events, not more than ten a second."""

    def __init__(self, path: str, total: int | None, report: Callable[[Event], None] | None) -> None:
        self._what, self._total, self._report = f"downloading {path.rsplit('/', 1)[-1]}", total, report
        self._shown = 0.0

    def show(self, done: int, force: bool = False) -> None:
        now = time.monotonic()
        if self._report and (force or now - self._shown >= REPORT_EVERY):
            self._shown = now
            self._report(Progress(self._what, done, self._total, "bytes"))


def _wait(seconds: float, cancel: Cancel) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        cancel.check()
        time.sleep(min(POLL, left))
