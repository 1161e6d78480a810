"""Standard input, output and error: closed, damaged, full, or watched by someone."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TextIO

from pyapp.cli.views import plain
from pyapp.errors import NO_ROOM, PyappError
from pyapp.events import Cancel

ASCII = ("ascii", "us-ascii", "ansi_x3.4-1968")
WAIT = 0.1  # seconds between two looks at Ctrl-C while stdin brings nothing


def open_closed_streams() -> None:
    """Connects standard streams that the caller closed (`>&-`) to the null device. Otherwise the next opened file would
    get the stream's number and be written to. A closed stdin stays None, which commands check; where the locale says
    nothing of its encoding, it is UTF-8, as are pipes and files on Windows.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    unknown = getattr(sys.stdin, "encoding", "").lower() in ASCII
    if isinstance(sys.stdin, io.TextIOWrapper) and (unknown or (sys.platform == "win32" and not sys.stdin.isatty())):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


class PlainText(io.TextIOWrapper):
    """A terminal that shows text only. Models and files may have any characters in their texts and names, and control
    characters could do anything to a terminal: each is shown as U+FFFD.
    """

    def __init__(self, original: io.TextIOWrapper) -> None:
        super().__init__(original.buffer, original.encoding, "replace", line_buffering=True)
        self.original = original

    def write(self, text: str) -> int:
        return super().write(plain(text))


def show_text_only() -> None:
    """Makes standard output a PlainText where someone watches."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout = PlainText(sys.stdout)


def output_of_scripts() -> Any:
    """Standard output as scripts of the user's own have it: they may colour it."""
    return sys.stdout.original if isinstance(sys.stdout, PlainText) else sys.stdout


def silence(stream: TextIO) -> None:
    """Redirects a stream to the null device, so that flushing its buffer at exit does not fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):  # not a file of the system
        pass


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Within it, what C libraries print on standard error, as libsndfile's decoders do about damaged recordings, goes
    to the null device; pyapp says what is wrong in words of its own. Python's standard error is where it was.
    """
    sys.stderr.flush()
    before = sys.stderr
    try:
        own, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # closed, or too many files are open
        yield
        return
    if _number_of(before) == 2:
        sys.stderr = open(own, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)
    os.dup2(null, 2)
    try:
        yield
    finally:
        if sys.stderr is not before:
            with suppress(OSError):  # of a full disk behind it
                sys.stderr.flush()
            sys.stderr = before
        os.dup2(own, 2)
        os.close(own)
        os.close(null)


def _number_of(stream: Any) -> int | None:
    """The number of the file behind a stream; None: there is none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def output_error(error: Exception, stream: TextIO) -> Exception:
    """The error to show: where `error` is of a write to standard output (`stream`), one that says so. What is left for
    the stream is given up then, so that it does not fail a second time at exit.
    """
    if not isinstance(error, OSError) or error.filename is not None:
        return error
    lost = error if error.errno in NO_ROOM else None  # files have names
    try:
        stream.flush()
    except OSError as failed:
        silence(stream)
        lost = failed
    if lost is None:
        return error
    hint = "Free some space, or send the output to another place"
    return PyappError((lost.strerror or str(lost)).lower(), where="standard output", hint=hint)


class _Stdin(io.RawIOBase):
    """The bytes of stdin. A read that waits ends with Cancelled once `cancel` is set."""

    name = "<stdin>"

    def __init__(self, number: int, cancel: Cancel) -> None:
        self._number, self._cancel = number, cancel

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._number], [], [], WAIT)[0]:
            self._cancel.check()
        data = os.read(self._number, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def stdin_until(cancel: Cancel) -> BinaryIO:
    """Stdin for a task, which reads it in a thread: Ctrl-C ends a read that waits for bytes."""
    try:
        number = sys.stdin.fileno() if os.name == "posix" else None  # elsewhere select takes only sockets
    except (OSError, ValueError):  # not a file of the system
        number = None
    return sys.stdin.buffer if number is None else io.BufferedReader(_Stdin(number, cancel))
