"""Download files of the Hugging Face hub into huggingface-hub's cache, which other programs share.

Addresses, the user's token, errors and look-ups in the cache are huggingface-hub's. `http.py` makes the requests,
because the library's requests read answers of any size into memory, drop the data of an interrupted download, report
progress only every 10 MB and cannot be cancelled.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pyapp.errors import NO_ROOM, Cancelled, DownloadError, ModelNotFoundError, PyappError
from pyapp.events import Cancel, Event, Notice
from pyapp.formats.safe_json import parse_json
from pyapp.formats.sink import open_sink

from .http import Remote, ask, ask_head, pause, pause_before, receive, storage_full, within_time
from .network_errors import HUB, STRANGE_HINT, endpoint, explain

T = TypeVar("T")
LOOK_UP_SECONDS = 10.0
TOLD_SECONDS = 3.0  # of waiting for a busy hub
UNUSABLE = (  # errors of a cache that is not ours, or has a folder where a file belongs
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.EEXIST,
    errno.ENAMETOOLONG,
)  # fmt: skip
COMMIT = re.compile(r"[0-9a-f]{40}")
ETAG = re.compile(r"[\w.-]{1,200}", re.ASCII)
PATH_LIMIT = 1024  # bytes of a path in a repository
NAME_LIMIT = 255  # bytes of a name in it, as file systems have it
DRIVE = re.compile("[A-Za-z]:")
# Names that are devices on Windows, and what its names cannot have: a colon would name a drive or a hidden stream.
NOT_ON_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?|.*[<>:\"|?*].*|.*[. ]", re.I)


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
    """The path of a hub file in the local cache, downloaded if it is missing; an interrupted download is continued.

    The file must have the given `size` (bytes) and `sha256`; without them the hub's values are used. HF_ENDPOINT,
    HF_TOKEN, HF_HUB_CACHE, HF_HUB_OFFLINE and the proxy variables work as in huggingface-hub. A branch is looked up on
    the hub each time, and in the cache if the hub cannot be reached. Raises ModelNotFoundError, DownloadError,
    StorageFullError, Cancelled.
    """
    from huggingface_hub import is_offline_mode

    cancel = cancel or Cancel()
    _check_path(repo, path)
    _check_revision(repo, revision)
    cached = _cached(repo, path, revision, cache_dir)
    if cached and size is not None and cached.stat().st_size != size:  # a damaged cache is repaired
        if cached.resolve().parent == (_repo_folder(repo, cache_dir) / "blobs").resolve():
            cached.resolve().unlink()
        cached.unlink()  # a link may lead out of the cache, to a file that is not ours
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
        remote = _patiently(lambda: _look_up(repo, path, revision), cancel, report, again=cached is None)
    except DownloadError:
        if cached:
            return cached  # the hub cannot be reached: use the last cached version
        raise
    if size is not None and remote.size not in (None, size):
        raise DownloadError(
            f"{path} has {remote.size:,} bytes on the hub, expected {size:,}",
            where=repo,
            hint="The mirror is damaged: set HF_ENDPOINT to another, or unset it",
        )
    folder = _repo_folder(repo, cache_dir)
    blob = folder / "blobs" / remote.etag
    pointer = folder / "snapshots" / remote.commit / remote.path
    wanted = remote.size if size is None else size
    if blob.is_file() and wanted not in (None, blob.stat().st_size):
        blob.unlink()  # repairs a damaged cache
    if pointer.is_file() and wanted in (None, pointer.stat().st_size):
        with suppress(OSError):  # a cache that cannot be written to
            _note_revision(folder, remote, revision)
        return pointer
    with full_disk(folder), locked(folder, remote.etag, cancel):
        if not blob.is_file():
            receive(remote, blob, size, sha256, report, cancel)
        return _link(folder, remote, revision, blob)


def list_files(
    repo: str,
    revision: str = "main",
    *,
    cancel: Cancel | None = None,
    offline: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[str]:
    """The paths of a repository's files on the hub, or in the cache if offline or if the hub cannot be reached."""
    from huggingface_hub import is_offline_mode

    _check_revision(repo, revision)
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
        # What is in the cache may be a part: a busy hub is asked again first.
        return _patiently(lambda: _ask_names(repo, revision), cancel or Cancel())
    except Cancelled:
        raise
    except Exception as error:
        explained = explain(error, repo, None, revision)
        if here and isinstance(explained, DownloadError):
            return here
        raise explained from error


def _patiently(
    work: Callable[[], T], cancel: Cancel, report: Callable[[Event], None] | None = None, again: bool = True
) -> T:
    """The result of a request, which a busy server is asked for again after a while, if `again`; a Notice tells of long
    ones.
    """
    attempt = 1
    while True:
        try:
            return within_time(work, cancel, endpoint() or HUB)
        except Exception as error:
            answer = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
            if answer is None or not again:
                raise
            seconds = pause_before(attempt, answer.status_code, answer.headers)
            if seconds is None:
                raise
            if report is not None and seconds >= TOLD_SECONDS:
                report(Notice(f"the hub is busy: it is asked again in {seconds:.0f} seconds"))
            pause(seconds, cancel)
            attempt += 1


# -- the hub and the cache


def is_path(path: str, windows: bool = os.name == "nt") -> bool:
    """Whether a path with "/" leads to a place below a folder, and a file system takes it."""
    parts = path.split("/")
    return (
        path.isprintable()  # no NUL, no half of a surrogate pair
        and len(path.encode()) <= PATH_LIMIT
        and "\\" not in path
        and not DRIVE.match(path)
        and all(part not in ("", ".", "..") and len(part.encode()) <= NAME_LIMIT for part in parts)
        and not (windows and any(NOT_ON_WINDOWS.fullmatch(part) for part in parts))
    )


def _check_path(repo: str, path: str) -> None:
    if not is_path(path):
        raise ModelNotFoundError(
            f"{path!a:.200} is not the path of a file in a repository", where=repo, hint="Write owner/repo:file"
        )


def _check_revision(repo: str, revision: str) -> None:
    """A revision is a path in the cache, too: refs/REVISION."""
    if not is_path(revision):
        raise ModelNotFoundError(
            f"{revision!a:.200} is not the name of a revision", where=repo, hint="Write owner/repo@main"
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
        raise explain(error, repo, path, revision) from error
    except UnicodeDecodeError:  # a damaged ref, which a look-up on the hub repairs
        return None
    return Path(found) if isinstance(found, str) and os.path.isfile(found) else None


def _cached_names(folder: Path, revision: str) -> list[str]:
    ref = folder / "refs" / revision
    commit = ref.read_bytes()[:100].decode("ascii", "replace").strip() if ref.is_file() else revision
    snapshot = folder / "snapshots" / commit
    if not is_path(commit) or "/" in commit:  # a damaged ref, which a look-up on the hub repairs
        return []
    return [p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if p.is_file()] if snapshot.is_dir() else []


def _ask_names(repo: str, revision: str) -> list[str]:
    """The paths of a repository's files by the hub's model_info."""
    from huggingface_hub.utils import validate_repo_id

    validate_repo_id(repo)
    host = endpoint() or HUB
    text = ask(f"{host}/api/models/{quote(repo)}/revision/{quote(revision, safe='')}", LOOK_UP_SECONDS)
    try:
        info = parse_json(text)
        siblings = info["siblings"] if isinstance(info, dict) else None
        names = [entry["rfilename"] for entry in siblings or ()]
        if siblings is None or not all(isinstance(name, str) for name in names):
            raise TypeError("no list of files")
    except (ValueError, LookupError, TypeError) as error:
        raise DownloadError(
            f"the server does not answer like a Hugging Face hub: it does not list the files of {repo} "
            f"({type(error).__name__})",
            where=host,
            hint=STRANGE_HINT,
        ) from error
    return [name for name in names if name.isprintable()]


def _look_up(repo: str, path: str, revision: str) -> Remote:
    from huggingface_hub import hf_hub_url

    base = endpoint()
    try:
        answer = ask_head(hf_hub_url(repo, path, revision=revision, endpoint=base), LOOK_UP_SECONDS)
    except Exception as error:
        raise explain(error, repo, path, revision) from error
    headers = answer.headers
    commit = headers.get("X-Repo-Commit", "")
    etag = (headers.get("X-Linked-Etag") or headers.get("ETag") or "").removeprefix("W/").strip('"')
    if not COMMIT.fullmatch(commit) or not ETAG.fullmatch(etag) or etag.startswith("."):
        raise DownloadError(
            "the server does not answer like a Hugging Face hub (no commit or ETag)",
            where=base or "huggingface.co",
            hint=STRANGE_HINT,
        )
    length = headers.get("X-Linked-Size") or ("" if answer.is_redirect else headers.get("Content-Length", ""))
    size = int(length) if re.fullmatch(r"\d{1,18}", length) else None
    return Remote(repo, path, hf_hub_url(repo, path, revision=commit, endpoint=base), commit, etag, size)


def _link(folder: Path, remote: Remote, revision: str, blob: Path) -> Path:
    """Links a finished blob to its name in huggingface-hub's documented cache layout: refs/REVISION and
    snapshots/COMMIT/PATH.
    """
    pointer = folder / "snapshots" / remote.commit / remote.path
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if not pointer.is_file() or pointer.stat().st_mtime < blob.stat().st_mtime:  # an old copy or hard link
        pointer.unlink(missing_ok=True)
        try:
            if os.name == "nt":  # symbolic links need an administrator's rights there
                os.link(blob, pointer)
            else:
                pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:  # a file system without links
            shutil.copyfile(blob, pointer)
    _note_revision(folder, remote, revision)
    return pointer


def _note_revision(folder: Path, remote: Remote, revision: str) -> None:
    """Stores the commit of a branch at the last look-up."""
    if revision != remote.commit:
        ref = folder / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        with open_sink(ref) as file:
            file.write(remote.commit.encode())


@contextmanager
def locked(folder: Path, etag: str, cancel: Cancel) -> Iterator[None]:
    """A lock: one process at a time downloads a file; the next one finds it complete."""
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
def full_disk(folder: Path, setting: str = Remote.cache_setting) -> Iterator[None]:
    """Explains the system's errors of a cache; `setting` is the variable that moves it."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PyappError):
            raise
        if error.errno in NO_ROOM:
            raise storage_full(folder, None, setting) from error
        if error.errno in UNUSABLE:
            raise DownloadError(
                f"the cache cannot be written to ({error.strerror})",
                where=str(folder),
                hint=f"Set {setting} to a folder that you may write to",
            ) from error
        raise
