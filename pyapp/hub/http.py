"""HTTP requests to a hub: short answers, with limits of size and time; and files, which are downloaded to a partial
file, continued after interruptions, verified, and can be cancelled at once.

Requests use huggingface-hub's session, so that proxies, certificates and offline mode work in the same way. The
library's own calls are not used, because they read answers of any size into memory.
"""

from __future__ import annotations

import hashlib
import os
import queue
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import DownloadError, StorageFullError
from pyapp.events import Cancel, Event, Progress

from .network_errors import STRANGE_HINT, explain

if TYPE_CHECKING:
    from hashlib import _Hash

T = TypeVar("T")
POLL = 0.05  # seconds between two checks of Cancel while no data arrives
REPORT_EVERY = 0.1  # seconds
ATTEMPTS = 5  # in a row without a new byte
RETRY_SECONDS = 0.5  # before the second attempt, then twice as long each time
TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
LONGEST_WAIT = 60.0  # seconds that a server may ask for, between two attempts
RATE_LIMIT = re.compile(r"\bt=(\d{1,9})\b")  # of the header RateLimit: seconds until the server answers again

ANSWER_LIMIT = 32 << 20  # bytes of an answer in memory: a repository's list of files
ERROR_LIMIT = 1 << 16  # bytes of an error's text
ANSWER_SECONDS = 60.0  # for a whole answer
STALL_SECONDS = 60.0  # without a byte of a file, though the server sends something: heads, or marks of pieces
UNSIZED_LIMIT = 64 << 20  # bytes of a file of unknown size
REDIRECTS = 5


class _Interrupted(Exception):
    """The connection broke or the server was busy: try again, after so many seconds at least."""

    def __init__(self, what: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.wait = wait


def wait_of(headers: Mapping[str, str]) -> float:
    """The seconds that a busy server asks to wait: its Retry-After (seconds or a date; RFC 9110, section 10.2.3), or
    the hub's RateLimit. 0: it does not say.
    """
    told = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}", told):
        return float(told)
    if told:
        with suppress(ValueError, OverflowError):
            return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    found = RATE_LIMIT.search(headers.get("RateLimit", ""))
    return float(found[1]) if found else 0.0


def pause_before(attempt: int, status: int, headers: Mapping[str, str]) -> float | None:
    """The seconds to wait after an answer with an error status, before the attempt of this number from 1; None where
    another one is of no use now.
    """
    asked = wait_of(headers)
    if status not in TRANSIENT or attempt >= ATTEMPTS or asked > LONGEST_WAIT:
        return None
    return max(asked, RETRY_SECONDS * 2 ** (attempt - 1))


@dataclass(frozen=True, slots=True)
class Remote:
    """The hub's metadata of a file."""

    mirror_hint: ClassVar[str] = "set HF_ENDPOINT to another mirror, or unset it"
    cache_setting: ClassVar[str] = "HF_HUB_CACHE"

    repo: str
    path: str
    url: str  # of this commit
    commit: str
    etag: str
    size: int | None

    def headers(self) -> dict[str, str]:
        return request_headers()

    def explain(self, error: Exception) -> Exception:
        return explain(error, self.repo, self.path, self.commit)


def storage_full(folder: Path, needed: int | None, setting: str = Remote.cache_setting) -> StorageFullError:
    what = "the disk is full" if needed is None else f"the disk is too full: {needed:,} bytes are needed"
    return StorageFullError(
        what, where=str(folder), hint=f"Free some space, or set {setting} to a folder on another disk"
    )


def plain_headers() -> dict[str, str]:
    """The user agent, and no compression, because a small answer must not grow in memory."""
    return {"User-Agent": "pyapp", "Accept-Encoding": "identity"}


def request_headers() -> dict[str, str]:
    """The headers for a hub: those of any server, and the user's token."""
    from huggingface_hub import constants, get_token

    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token and not (token.isascii() and token.isprintable()):
        raise DownloadError(
            "the token has characters that no token has", where="HF_TOKEN", hint="Log in again with `hf auth login`"
        )
    return plain_headers() | ({"Authorization": f"Bearer {token}"} if token else {})


def ask(url: str, timeout: float) -> bytes:
    """The body of the answer to a GET. Raises huggingface-hub's errors for an error status, DownloadError for an answer
    that is too long, takes too long, or is compressed.
    """
    from huggingface_hub import get_session, hf_raise_for_status

    with get_session().stream("GET", url, headers=request_headers(), timeout=timeout) as answer:
        if answer.status_code >= 400:
            hf_raise_for_status(_without_body(answer, _read_answer(answer, ERROR_LIMIT, cut=True)))
        return _read_answer(answer, ANSWER_LIMIT)


def ask_head(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> Any:
    """The answer to a HEAD with these headers, by default those for a hub, after redirects inside the same host: the
    metadata of a file are in the hub's answer, not in that of the storage to which it redirects. None leads from an
    encrypted connection to a plain one. Raises as `ask`.
    """
    from urllib.parse import urljoin, urlsplit

    from huggingface_hub import get_session, hf_raise_for_status

    headers = request_headers() if headers is None else headers
    for _ in range(REDIRECTS):
        with get_session().stream("HEAD", url, headers=headers, timeout=timeout, follow_redirects=False) as answer:
            found = _without_body(answer)
        hf_raise_for_status(found)
        try:
            target = urljoin(url, found.headers.get("Location", ""))
            here, there = urlsplit(url), urlsplit(target)
        except ValueError:
            raise _strange("it redirects to what is no address", url[:200]) from None
        if not found.is_redirect or here.netloc != there.netloc or here.scheme == "https" != there.scheme:
            return found
        url = target
    raise DownloadError(f"the server redirects more than {REDIRECTS} times", where=url[:200], hint="Check HF_ENDPOINT")


def _without_body(answer: Any, body: bytes = b"") -> Any:
    """The answer with its body, which may never end, replaced by this one."""
    import httpx2

    left_out = (b"content-encoding", b"transfer-encoding")
    headers = [(name, value) for name, value in answer.headers.raw if name.lower() not in left_out]  # of any signs
    return httpx2.Response(answer.status_code, headers=headers, content=body, request=answer.request)


def _read_answer(answer: Any, limit: int, cut: bool = False) -> bytes:
    """The body, of at most `limit` bytes; a longer body is refused or cut off."""
    where, encoding = str(answer.request.url)[:200], answer.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        if cut:
            return b""
        raise _strange(f"its answer is compressed ({encoding[:50]!r}), which was not requested", where)
    body = bytearray()
    end = time.monotonic() + ANSWER_SECONDS
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > limit and not cut:
            raise _strange(f"its answer has more than {limit:,} bytes", where)
        if time.monotonic() > end and not cut:
            raise _strange(f"its answer is not complete after {ANSWER_SECONDS:.0f} seconds", where)
        if len(body) > limit or time.monotonic() > end:
            break
    return bytes(body[:limit])


def _strange(what: str, where: str) -> DownloadError:
    return DownloadError(f"the server does not answer like a Hugging Face hub: {what}", where=where, hint=STRANGE_HINT)


def receive(
    remote: Remote,
    blob: Path,
    size: int | None,
    sha256: str | None,
    report: Callable[[Event], None] | None,
    cancel: Cancel,
) -> None:
    """Downloads a file to `blob` and verifies it. A partial file beside it is kept after interruptions."""
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{blob.name}.pyapp.incomplete")
    if partial.is_symlink():  # to a file that is not ours
        partial.unlink()
    total = size if size is not None else remote.size
    resumed = partial.is_file() and partial.stat().st_size > 0
    needed = (total or 0) - (partial.stat().st_size if resumed else 0)
    if needed > shutil.disk_usage(blob.parent).free:
        raise storage_full(blob.parent, needed, remote.cache_setting)
    progress = _Meter(remote.path, total, report)
    _attempts(remote, partial, total, progress, cancel)
    wrong = _verify(partial, remote, sha256, cancel)
    if wrong and resumed:  # the beginning may be from a damaged attempt: download again from the start
        partial.unlink()
        _attempts(remote, partial, total, progress, cancel)
        wrong = _verify(partial, remote, sha256, cancel)
    if wrong:
        partial.unlink()
        raise DownloadError(
            f"{remote.path} arrived damaged: {wrong}",
            where=remote.repo,
            hint=f"Try again; if it fails again, {remote.mirror_hint}",
        )
    os.replace(partial, blob)


def _attempts(remote: Remote, partial: Path, total: int | None, progress: _Meter, cancel: Cancel) -> None:
    """Requests the rest of the partial file until it is complete. Attempts without new bytes count towards
    the limit.
    """
    failures = furthest = 0
    while True:
        try:
            return _request(remote, partial, total, progress, cancel)
        except _Interrupted as error:
            here = partial.stat().st_size if partial.is_file() else 0
            failures = 1 if here > furthest else failures + 1
            furthest = max(furthest, here)
            if failures >= ATTEMPTS or error.wait > LONGEST_WAIT:
                known = f" of {total:,}" if total is not None else ""
                raise DownloadError(
                    f"the download of {remote.path} broke off at {here:,}{known} bytes: {error}",
                    where=remote.repo,
                    hint="The downloaded part is stored: check your connection and start it again"
                    if error.wait <= LONGEST_WAIT
                    else f"The downloaded part is stored: start it again after {error.wait:,.0f} seconds",
                ) from error
            pause(max(error.wait, RETRY_SECONDS * 2 ** (failures - 1)), cancel)


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
            if total is None:
                total = stream.size
            limit = UNSIZED_LIMIT if total is None else total
            if limit - done > shutil.disk_usage(partial.parent).free and total is not None:
                raise storage_full(partial.parent, limit - done, remote.cache_setting)
            for chunk in stream.chunks(cancel):
                done += len(chunk)
                if done > limit:
                    raise _TooLong(f"{limit:,} bytes" + (" that a file of unknown size may have" * (total is None)))
                file.write(chunk)
                progress.show(done)
        if total is not None and done < total:
            raise _Interrupted("the server closed the connection")
        progress.show(done, force=True)
    except (_Restart, _TooLong) as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, _TooLong):
            raise DownloadError(
                f"the server sends more than the {error} of {remote.path}",
                where=remote.repo,
                hint=remote.mirror_hint[0].upper() + remote.mirror_hint[1:],
            ) from None
        raise
    finally:
        stream.close()


class _Stream:
    """The answer to one request, received in a thread, so that Cancel can be checked while no data arrives."""

    def __init__(self, remote: Remote, start: int) -> None:
        self._remote, self._start = remote, start
        self.size: int | None = None  # of the whole file, from this answer
        self._items: queue.Queue[Any] = queue.Queue(maxsize=64)
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="pyapp-download", daemon=True).start()

    def _run(self) -> None:
        from huggingface_hub import get_session, hf_raise_for_status
        from huggingface_hub.constants import HF_HUB_DOWNLOAD_TIMEOUT

        headers = self._remote.headers()
        if self._start:
            headers["Range"] = f"bytes={self._start}-"
        try:
            with get_session().stream(
                "GET", self._remote.url, headers=headers, timeout=HF_HUB_DOWNLOAD_TIMEOUT
            ) as answer:
                if answer.status_code in TRANSIENT:
                    raise _Interrupted(f"the server answered {answer.status_code}", wait_of(answer.headers))
                if answer.status_code >= 400 and answer.status_code != 416:
                    hf_raise_for_status(_without_body(answer, _read_answer(answer, ERROR_LIMIT, cut=True)))
                if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise _strange("it compresses the file, which was not requested", self._remote.url[:200])
                length = answer.headers.get("Content-Length", "")
                self._put((answer.status_code, answer.headers.get("Content-Range", ""), length))
                for chunk in answer.iter_raw():
                    if not self._put(chunk):
                        return
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Any) -> bool:
        """Queues an item; False if the receiver is gone."""
        while not self._stop.is_set():
            try:
                self._items.put(item, timeout=POLL)
            except queue.Full:
                continue
            return True
        return False

    def _get(self, cancel: Cancel) -> Any:
        end = time.monotonic() + STALL_SECONDS
        while True:
            cancel.check()
            if time.monotonic() > end:
                raise _Interrupted(f"nothing of the file came for {STALL_SECONDS:.0f} seconds")
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
        raise self._remote.explain(error) from error

    def head(self, cancel: Cancel) -> int:
        """The byte at which the answer begins: a server may ignore the range of a request."""
        status, content_range, length = self._get(cancel)
        match = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", content_range)
        rest = int(length) if re.fullmatch(r"\d{1,18}", length) else None
        if status == 206 and match and int(match[1]) == self._start:
            self.size = None if rest is None else self._start + rest
            return self._start
        if status == 200:
            self.size = rest
            return 0
        raise _Restart(f"the server cannot continue at byte {self._start:,}")

    def chunks(self, cancel: Cancel) -> Iterator[bytes]:
        while (chunk := self._get(cancel)) is not None:
            yield chunk

    def close(self) -> None:
        self._stop.set()


class _TooLong(Exception):
    """The server sends more than the file has."""


class _Restart(_Interrupted):
    """The server cannot continue at that byte: start again."""


def _verify(partial: Path, remote: Remote, sha256: str | None, cancel: Cancel) -> str | None:
    """A description of the mismatch, or None. An ETag of 64 digits is the file's SHA-256, one of 40 its SHA-1 as a git
    blob.
    """
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
    """Reports Progress events, at most ten a second."""

    def __init__(self, path: str, total: int | None, report: Callable[[Event], None] | None) -> None:
        self._what, self._total, self._report = f"downloading {path.rsplit('/', 1)[-1]}", total, report
        self._shown = 0.0

    def show(self, done: int, force: bool = False) -> None:
        now = time.monotonic()
        if self._report and (force or now - self._shown >= REPORT_EVERY):
            self._shown = now
            self._report(Progress(self._what, done, self._total, "bytes"))


def within_time(work: Callable[[], T], cancel: Cancel, where: str) -> T:
    """Runs requests that cannot be cancelled in a thread, which is abandoned when `cancel` is set, and when the server
    `where` has not answered in time: it may send a head that does not end.
    """
    box: queue.Queue[tuple[T | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            box.put((work(), None))
        except Exception as error:
            box.put((None, error))

    threading.Thread(target=run, name="pyapp-hub", daemon=True).start()
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        cancel.check()
        if time.monotonic() > end:
            raise _strange(f"its answer is not complete after {ANSWER_SECONDS:.0f} seconds", where)
        try:
            result, error = box.get(timeout=POLL)
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


def pause(seconds: float, cancel: Cancel) -> None:
    """Waits. Raises Cancelled once `cancel` is set."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        cancel.check()
        time.sleep(min(POLL, left))
