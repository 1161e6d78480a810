"""Files of the Hugging Face hub, in the cache that huggingface-hub and its friends share.

Names, addresses, authorisation, metadata and look-ups in the cache are huggingface-hub's. Receiving the bytes is done
here, since the library drops what had arrived when a download is interrupted, reports every 10 MB only and cannot be
cancelled while it waits.
"""

from __future__ import annotations

import errno
import hashlib
import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyapp.errors import Cancelled, DownloadError, ModelNotFoundError, StorageFullError
from pyapp.events import Cancel, Event, Progress

from .explain import explain

if TYPE_CHECKING:
    from hashlib import _Hash

T = TypeVar("T")
CHUNK = 256 << 10  # bytes between two looks at Cancel
POLL = 0.05  # seconds between two looks at Cancel while nothing arrives
REPORT_EVERY = 0.1  # seconds
ATTEMPTS = 5  # in a row without a new byte
RETRY_SECONDS = 0.5  # before the second attempt, then twice as long each time
TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))

COMMIT = re.compile(r"[0-9a-f]{40}")
ETAG = re.compile(r"[\w.-]{1,200}")


class _Interrupted(Exception):
    """The connection broke or the server was busy: worth another attempt."""


@dataclass(frozen=True, slots=True)
class _Remote:
    """What the hub says of a file."""

    repo: str
    path: str
    url: str  # of this very commit
    commit: str
    etag: str
    size: int | None


def fetch(
    repo: str,
    path: str,
    revision: str = "main",
    *,
    size: int | None = None,
    sha256: str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """The path of a hub file in the local cache, downloaded if it is not there; an interrupted download is continued.

    `size` (bytes) and `sha256` are what the file must have; without them the hub's own word is checked. HF_ENDPOINT,
    HF_TOKEN, HF_HUB_CACHE, HF_HUB_OFFLINE and the proxy variables mean what they mean to huggingface-hub. A branch is
    looked up on the hub each time, and in the cache when the hub cannot be reached. Raises ModelNotFoundError,
    DownloadError, StorageFullError, Cancelled.
    """
    from huggingface_hub import is_offline_mode

    cancel = cancel or Cancel()
    _check_path(repo, path)
    cached = _cached(repo, path, revision, cache_dir)
    if cached and size is not None and cached.stat().st_size != size:
        cached.resolve().unlink()  # a damaged cache heals by itself
        cached = None
    if cached and (COMMIT.fullmatch(revision) or offline or is_offline_mode()):
        return cached
    if offline:
        raise DownloadError(
            f"{path} is not in the cache",
            where=repo,
            hint="Allow the network once, or give the path of a file that you have",
        )
    cancel.check()
    try:
        remote = _patiently(lambda: _look_up(repo, path, revision), cancel)
    except DownloadError:
        if cached:
            return cached  # the hub is out of reach: the version that was here last
        raise
    if size is not None and remote.size not in (None, size):
        raise DownloadError(
            f"{path} has {remote.size:,} bytes on the hub, expected {size:,}",
            where=repo,
            hint="The mirror is damaged: set HF_ENDPOINT to another, or unset it",
        )
    folder = _repo_folder(repo, cache_dir)
    blob = folder / "blobs" / remote.etag
    with _full_disk(folder), _locked(folder, remote.etag, cancel):
        if not blob.is_file():
            _receive(remote, blob, size, sha256, report, cancel)
        return _link(folder, remote, revision, blob)


def list_files(
    repo: str,
    revision: str = "main",
    *,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[str]:
    """The paths of a repository's files: the hub's, or those in the cache when the hub is not to be, or cannot be,
    reached."""
    from huggingface_hub import HfApi, is_offline_mode

    folder = _repo_folder(repo, cache_dir)
    here = _cached_names(folder, revision)
    if offline or is_offline_mode():
        if here:
            return here
        raise DownloadError(
            f"nothing of {repo} is in the cache",
            where=repo,
            hint="Allow the network once, or give the path of a file that you have",
        )
    try:
        return _patiently(
            lambda: HfApi(endpoint=_endpoint()).list_repo_files(repo, revision=revision), cancel or Cancel()
        )
    except Cancelled:
        raise
    except Exception as error:
        explained = explain(error, repo, None, revision, _endpoint())
        if here and isinstance(explained, DownloadError):
            return here
        raise explained from error


def _patiently(work: Callable[[], T], cancel: Cancel) -> T:
    """Runs what cannot be cancelled in a thread that is left alone when `cancel` is set."""
    box: queue.Queue[tuple[T | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            box.put((work(), None))
        except Exception as error:
            box.put((None, error))

    threading.Thread(target=run, name="pyapp-hub", daemon=True).start()
    while True:
        cancel.check()
        try:
            result, error = box.get(timeout=POLL)
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


# -- the hub and the cache


def _endpoint() -> str | None:
    """Read on each call, where the library reads it once."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def _check_path(repo: str, path: str) -> None:
    parts = path.split("/")
    if "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ModelNotFoundError(
            f"{path!r} is not the path of a file in a repository", where=repo, hint="Write owner/repo:file"
        )


def _repo_folder(repo: str, cache_dir: str | os.PathLike[str] | None) -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return (
        Path(cache_dir or os.environ.get("HF_HUB_CACHE") or HF_HUB_CACHE).expanduser()
        / f"models--{repo.replace('/', '--')}"
    )


def _cached(repo: str, path: str, revision: str, cache_dir: str | os.PathLike[str] | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(repo, path, cache_dir=_repo_folder(repo, cache_dir).parent, revision=revision)
    except HFValidationError as error:
        raise explain(error, repo, path, revision, None) from error
    return Path(found) if isinstance(found, str) and os.path.isfile(found) else None


def _cached_names(folder: Path, revision: str) -> list[str]:
    ref = folder / "refs" / revision
    commit = ref.read_text().strip() if ref.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return [p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()] if snapshot.is_dir() else []


def _look_up(repo: str, path: str, revision: str) -> _Remote:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    endpoint = _endpoint()
    try:
        found = get_hf_file_metadata(hf_hub_url(repo, path, revision=revision, endpoint=endpoint), endpoint=endpoint)
    except Exception as error:
        raise explain(error, repo, path, revision, endpoint) from error
    commit, etag = found.commit_hash or "", found.etag or ""
    if not COMMIT.fullmatch(commit) or not ETAG.fullmatch(etag) or etag.startswith("."):
        raise DownloadError(
            "the server does not answer like a Hugging Face hub (no commit or ETag)",
            where=endpoint or "huggingface.co",
            hint="Check HF_ENDPOINT, and that no login page of your network stands in between",
        )
    url = hf_hub_url(repo, path, revision=commit, endpoint=endpoint)
    return _Remote(repo, path, url, commit, etag, found.size)


def _link(folder: Path, remote: _Remote, revision: str, blob: Path) -> Path:
    """Enters a finished blob under its name, as huggingface-hub documents its cache: refs/REVISION and
    snapshots/COMMIT/PATH."""
    pointer = folder / "snapshots" / remote.commit / remote.path
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not pointer.is_file():
        pointer.unlink(missing_ok=True)
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:  # a file system without symbolic links
            shutil.copyfile(blob, pointer)
    if revision != remote.commit:
        ref = folder / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(remote.commit)
    return pointer


@contextmanager
def _locked(folder: Path, etag: str, cancel: Cancel) -> Iterator[None]:
    """One process at a time downloads a file; the next one finds it done."""
    from huggingface_hub.utils import WeakFileLock

    path = folder.parent / ".locks" / folder.name / f"{etag}.pyapp.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        cancel.check()
        lock = WeakFileLock(path, timeout=0.2)
        try:
            lock.__enter__()
        except TimeoutError:
            continue
        break
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _full_disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _storage_full(folder, None) from error
        raise


def _storage_full(folder: Path, needed: int | None) -> StorageFullError:
    what = "the disk is full" if needed is None else f"the disk is too full: {needed:,} bytes are needed"
    return StorageFullError(
        what, where=str(folder), hint="Free some space, or set HF_HUB_CACHE to a folder on another disk"
    )


# -- receiving


def _receive(
    remote: _Remote,
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
        raise _storage_full(blob.parent, needed)
    progress = _Meter(remote.path, total, report)
    _attempts(remote, partial, total, progress, cancel)
    wrong = _verify(partial, remote, sha256)
    if wrong and resumed:  # the beginning may stem from a damaged attempt: once more from the start
        partial.unlink()
        _attempts(remote, partial, total, progress, cancel)
        wrong = _verify(partial, remote, sha256)
    if wrong:
        partial.unlink()
        raise DownloadError(
            f"{remote.path} arrived damaged: {wrong}",
            where=remote.repo,
            hint="Try again; if it stays so, set HF_ENDPOINT to another mirror, or unset it",
        )
    os.replace(partial, blob)


def _attempts(remote: _Remote, partial: Path, total: int | None, progress: _Meter, cancel: Cancel) -> None:
    """Requests from where the partial file ends, until it is whole."""
    failures = 0
    while True:
        before = partial.stat().st_size if partial.is_file() else 0
        try:
            return _request(remote, partial, total, progress, cancel)
        except _Interrupted as error:
            after = partial.stat().st_size if partial.is_file() else 0
            failures = 1 if after > before else failures + 1
            if failures >= ATTEMPTS:
                known = f" of {total:,}" if total is not None else ""
                raise DownloadError(
                    f"the download of {remote.path} broke off at {after:,}{known} bytes: {error}",
                    where=remote.repo,
                    hint="What has arrived is kept: check your connection and start it again",
                ) from error
            _wait(RETRY_SECONDS * 2 ** (failures - 1), cancel)


def _request(remote: _Remote, partial: Path, total: int | None, progress: _Meter, cancel: Cancel) -> None:
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

    def __init__(self, remote: _Remote, start: int) -> None:
        self._remote, self._start = remote, start
        self._items: queue.Queue[Any] = queue.Queue(maxsize=8)
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
                for chunk in answer.iter_bytes(CHUNK):
                    self._put(chunk)
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Any) -> None:
        while not self._stop.is_set():
            try:
                return self._items.put(item, timeout=POLL)
            except queue.Full:
                continue
        raise _Interrupted("nobody listens any more")

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
        raise explain(error, self._remote.repo, self._remote.path, self._remote.commit, _endpoint()) from error

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


def _verify(partial: Path, remote: _Remote, sha256: str | None) -> str | None:
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
            digest.update(chunk)
    actual = digest.hexdigest()
    return None if actual == expected else f"its checksum is {actual[:16]}…, expected {expected[:16]}…"


class _Meter:
    """Progress events, not more than ten a second."""

    def __init__(self, path: str, total: int | None, report: Callable[[Event], None] | None) -> None:
        self._what, self._total, self._report = f"Downloading {path.rsplit('/', 1)[-1]}", total, report
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
