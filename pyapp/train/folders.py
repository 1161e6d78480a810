"""The folder of a training: made and tried before the first step, and used by one training at a time."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyapp.errors import PyappError, StorageFullError
from pyapp.formats.folders import gone_if_empty
from pyapp.formats.sink import full_disk_named

if sys.platform not in ("win32", "emscripten"):
    import fcntl

FREED_SECONDS = 3.0  # in which the workers of a training that was killed notice it and free its folder


def prepare_folder(folder: Path) -> None:
    """Makes the folder and checks that it can be written to, before hours of work. PyappError, or StorageFullError."""
    probe = folder / f".{os.getpid()}.probe"
    try:
        with full_disk_named(folder), gone_if_empty(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(b"\0" * 4096)
            finally:
                with suppress(OSError):  # of a folder that cannot be written to
                    probe.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, PyappError):
            raise
        raise PyappError(
            f"cannot write to this folder: {(error.strerror or str(error)).lower()}", where=str(folder),
            hint="Take another folder, or change its access rights",
        ) from error  # fmt: skip


@contextmanager
def used_alone(folder: Path) -> Iterator[None]:
    """A context in which no other training uses the folder, which exists: PyappError where one does, because each would
    replace the other's checkpoints. The system frees the folder when the process ends, whatever ends it. Windows,
    browsers and some network file systems have no such locks: there nothing is checked, nor in a folder that may not
    be listed.
    """
    if sys.platform in ("win32", "emscripten"):
        yield
        return
    try:
        place = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one that may be written to, but not listed
        yield
        return
    try:
        end = time.monotonic() + FREED_SECONDS
        while True:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise PyappError(
                        "another training uses this folder", where=str(folder),
                        hint="Wait until it ends, or stop it; or give another folder",
                    ) from None  # fmt: skip
                time.sleep(0.1)
            except OSError:  # a file system without locks
                break
        yield
    finally:
        os.close(place)


def check_room(folder: Path, nbytes: int) -> None:
    """StorageFullError unless a file of so many bytes fits onto the disk of a folder, beside the one it replaces."""
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise StorageFullError(
            f"a checkpoint of this training has {nbytes / 1e6:,.1f} MB, and the disk has {free / 1e6:,.1f} MB left",
            where=str(folder), hint="Free some space, or choose another folder, and try again",
        )  # fmt: skip
