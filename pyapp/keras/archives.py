"""`.keras` files as Keras 3 writes them: a ZIP archive of config.json, metadata.json and model.weights.h5."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import FileFormatError
from ..formats.safe_json import parse_json
from ..formats.sink import open_sink
from .call_state import memory_limit
from .config_reading import Reading
from .config_writing import describe_saved
from .core import Layer
from .hdf5_by_layer import is_by_layer, read_weights_by_layer
from .hdf5_weights import WeightsFile, read_optimizer, read_weights, stored_layers, write_weights

_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_KERAS_VERSION = "3.15.1"  # whose form this is
_WRITER = "pyapp"  # a key of metadata.json: the file was written here
_MOST_CONFIG = 1 << 26  # bytes of config.json
_SMALL, _MOST_EXPANSION = 1 << 24, 100  # a larger member may be so many times as large as its bytes in the file
_ROOM = 1 << 26  # bytes of weights that a model may have beside those of the file


def is_archive(begin: bytes) -> bool:
    """Whether a file that begins with these bytes is a ZIP archive."""
    return begin[:4] == b"PK\x03\x04"


def is_hdf5(begin: bytes) -> bool:
    """Whether a file that begins with these bytes is an HDF5 file."""
    return begin[:8] == b"\x89HDF\r\n\x1a\n"


def save_archive(model: Any, filepath: str | Path) -> None:
    """Writes a model, its weights and what it was compiled with, so that Keras can load it."""
    description = describe_saved(model)
    note = {"keras_version": _KERAS_VERSION, "date_saved": datetime.now().strftime("%Y-%m-%d@%H:%M:%S"), _WRITER: 1}
    weights = write_weights(model, model.optimizer if model.compiled and "compile_config" in description else None)
    with open_sink(os.fspath(filepath)) as target, zipfile.ZipFile(target, "w") as archive:
        archive.writestr(_METADATA, json.dumps(note))
        archive.writestr(_CONFIG, json.dumps(description))
        archive.writestr(_WEIGHTS, weights)


def describing_parts(filepath: str | Path) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """(config.json, metadata.json, the HDF5 file with the weights) of a `.keras` file, from which no model is made.
    FileFormatError for a damaged or hostile file."""
    where = os.fspath(filepath)
    with _opened(where) as archive:
        return _json(archive, _CONFIG, where), _json(archive, _METADATA, where), _member(archive, _WEIGHTS, where)


def load_archive(filepath: str | Path, compile: bool = True, safe_mode: bool = True) -> Any:
    """The model of a `.keras` file of Keras 3. FileFormatError for a damaged or hostile file."""
    where = os.fspath(filepath)
    with _opened(where) as archive:
        config = _json(archive, _CONFIG, where)
        note = _json(archive, _METADATA, where) if _METADATA in archive.namelist() else {}
        if _WEIGHTS not in archive.namelist():
            raise FileFormatError(f"{where} has no {_WEIGHTS}", hint="Save the model again in Keras")
        data = _member(archive, _WEIGHTS, where)
        reading = Reading(where, safe_mode, keeps_training=_WRITER in note)
        with memory_limit(8 * len(data) + _ROOM, where):
            found = reading.object(config)
            if not isinstance(found, Layer):
                raise FileFormatError(f"{where} describes no model")
            model: Any = found
            given = config.get("compile_config") if compile else None
            if given:
                if not isinstance(given, dict) or not hasattr(model, "compile"):
                    raise FileFormatError(f"{where}: what the model was compiled with is no JSON object")
                reading.compile(model, given)
            file = WeightsFile(io.BytesIO(data), where)
            try:
                _read_assets(model, archive, file)
                _fitting(model, file)
                if given and model.compiled:
                    read_optimizer(model, file)
            finally:
                file.close()
    return model


def _read_assets(model: Layer, archive: zipfile.ZipFile, file: WeightsFile) -> None:
    """Gives layers the vocabularies that they have learned in Keras: assets/PATH/vocabulary.txt."""
    names = set(archive.namelist())
    for path, layer in stored_layers(model, file):
        name = "/".join(("assets", *path, "vocabulary.txt"))
        if name not in names or not hasattr(layer, "read_vocabulary"):
            continue
        group, weights = file.group((*path, "vars")), None
        if group is not None and "idf_weights" in group:
            file.shape(group, "idf_weights")
            weights = file.read(group, "idf_weights")
        try:
            layer.read_vocabulary(_member(archive, name, file.where, _MOST_CONFIG).decode(), weights)
        except (ValueError, TypeError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(
                f"{file.where}: {name} is not a vocabulary of {layer.name} ({error!s:.100})"
            ) from error


def _fitting(model: Layer, file: WeightsFile) -> None:
    try:
        read_weights(model, file)
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{error!s:.300}", hint="The weights are not those of the model in this file") from error


def load_hdf5_weights(model: Layer, filepath: str | Path, skip_mismatch: bool = False) -> None:
    """Reads the weights of a `.weights.h5` file, of a `.keras` file or of an `.h5` file of Keras 1 or 2 into a model;
    of a model that is compiled the state of the optimiser too, as Keras does, but not from the last."""
    where = os.fspath(filepath)
    if zipfile.is_zipfile(where):
        with _opened(where) as archive:
            source: Any = io.BytesIO(_member(archive, _WEIGHTS, where))
    else:
        source = where
    file = WeightsFile(source, where)
    try:
        if is_by_layer(file):
            read_weights_by_layer(model, file, skip_mismatch)
            return
        read_weights(model, file, skip_mismatch)
        if getattr(model, "compiled", False):
            read_optimizer(model, file)  # type: ignore[arg-type]
    finally:
        file.close()


@contextmanager
def _opened(where: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(where) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise FileFormatError(
            f"{where} is not a usable ZIP archive ({error!s:.100})", hint="The file may be cut off: copy it again"
        ) from error


def _member(archive: zipfile.ZipFile, name: str, where: str, most: int | None = None) -> bytes:
    """The bytes of a member, whose sizes are checked first."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise FileFormatError(f"{where} has no {name}: it is no file of Keras 3") from None
    too_large = info.file_size > _SMALL and info.file_size > _MOST_EXPANSION * max(info.compress_size, 1)
    if too_large or info.compress_size > os.path.getsize(where) or (most is not None and info.file_size > most):
        raise FileFormatError(
            f"{where}: {name} announces {info.file_size:,} bytes, of which {info.compress_size:,} are in the file",
            hint="Do not use this file",
        )
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileFormatError(f"{where}: {name} is encrypted, or packed in a way that Keras does not use")
    if info.header_offset < 0:
        raise FileFormatError(f"{where}: {name} lies before the beginning of the file", hint="Copy it again")
    with archive.open(info) as member:
        return member.read()


def _json(archive: zipfile.ZipFile, name: str, where: str) -> dict[str, Any]:
    try:
        found = parse_json(_member(archive, name, where, _MOST_CONFIG))
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{where}: {name} is no JSON ({error!s:.100})") from error
    if not isinstance(found, dict):
        raise FileFormatError(f"{where}: {name} is no JSON object")
    return found
