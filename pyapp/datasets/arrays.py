"""Arrays of the datasets that are `.npz` archives: numbers, and lists of whole numbers, which NumPy stores as a pickle.

Such a pickle is read with stand-ins for NumPy's classes: nothing else can be named in it, and no code of it runs.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from pyapp.engine.lazy import np
from pyapp.errors import FileFormatError

from .archives import DAMAGED

MEMBER_LIMIT = 1 << 28  # bytes of an array
EXPANSION_LIMIT = 100  # times what an array has in the archive, above ROOM bytes
ROOM = 1 << 20


def read_arrays(path: str | os.PathLike[str], names: tuple[str, ...]) -> list[Any]:
    """Arrays of an archive by name: of numbers, or of dtype object (N,) with a list of whole numbers each.
    FileFormatError for a damaged archive, a missing array, and one of anything else.
    """
    where = Path(path).name
    try:
        with zipfile.ZipFile(path) as archive:
            return [_array(archive, f"{name}.npy", where) for name in names]
    except DAMAGED as error:
        if isinstance(error, (FileFormatError, FileNotFoundError)):
            raise
        _refuse(f"the archive is damaged ({error!s:.100})", where, error)


def _refuse(what: str, where: str, cause: BaseException | None = None) -> NoReturn:
    raise FileFormatError(what, where=where, hint="Download it again") from cause


def _array(archive: zipfile.ZipFile, name: str, where: str) -> Any:
    if name not in archive.namelist():
        _refuse(f"the archive has no {name}", where)
    info = archive.getinfo(name)
    if info.file_size > MEMBER_LIMIT:
        _refuse(f"{name} announces {info.file_size:,} bytes, at most {MEMBER_LIMIT:,}", where)
    if info.file_size > ROOM + EXPANSION_LIMIT * info.compress_size:
        _refuse(f"{name} announces {info.file_size:,} bytes, and has {info.compress_size:,} in the archive", where)
    data = archive.read(info)
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if not dtype.hasobject:
            if dtype.itemsize * prod(shape) != len(data) - file.tell():  # before NumPy takes memory for the shape
                raise ValueError(f"an array of {shape} has {len(data) - file.tell():,} bytes")
            file.seek(0)
            return np.load(file, allow_pickle=False)
        found = _Reader(file).load()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError, MemoryError,
            UnicodeDecodeError, ImportError, RecursionError, pickle.UnpicklingError) as error:  # fmt: skip
        _refuse(f"{name} cannot be read ({type(error).__name__}: {error!s:.100})", where, error)
    if type(found) is not _Lists or len(shape) != 1 or len(found.rows) != shape[0]:
        _refuse(f"{name} is not an array of lists", where)
    for row in found.rows:
        if type(row) is not list or not all(type(number) is int for number in row):
            _refuse(f"{name} has something else than lists of whole numbers", where)
    rows = np.empty(len(found.rows), dtype=object)
    rows[:] = found.rows
    return rows


class _Lists:
    """An array of objects: its rows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __setstate__(self, state: Any) -> None:
        self.rows = list(state[-1])


class _DType:
    """A dtype, of which nothing is needed."""

    def __setstate__(self, state: Any) -> None: ...


def _reconstruct(*_: Any) -> _Lists:
    return _Lists()


def _dtype(*_: Any) -> _DType:
    return _DType()


_KNOWN: dict[tuple[str, str], Any] = {("numpy", "dtype"): _dtype, ("numpy", "ndarray"): None} | {
    (f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not run"[:200])
        return _KNOWN[module, name]
