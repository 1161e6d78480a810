"""Folders that are gone again where what was to be written into them could not be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .sink import full_disk_named


@contextmanager
def gone_if_empty(folder: str | os.PathLike[str]) -> Iterator[None]:
    """A context after whose error a new folder is gone again, with its new parents, if nothing is in it."""
    new = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]  # the innermost first
    try:
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def made_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder for the files of one thing, such as a model, made if need be. After an error a new folder is gone again,
    because a part of them is of no use. StorageFullError when the disk is full.
    """
    place = Path(folder)
    new = not place.exists()
    with full_disk_named(place), gone_if_empty(place):
        place.mkdir(parents=True, exist_ok=True)
        try:
            yield place
        except BaseException:
            if new:
                shutil.rmtree(place, ignore_errors=True)
            raise
