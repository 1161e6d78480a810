"""KerasFileEditor: what a file of Keras holds, compared with a model, changed, and written again."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..engine import Tensor
from ..engine.lazy import np
from ..errors import FileFormatError
from ..formats.sink import open_sink
from .archives import describing_parts
from .hdf5_weights import WeightsFile, hdf5, write_weights

__all__ = ["KerasFileEditor"]

_VARS = "vars"  # the group of an object that has its arrays
_DEEPEST = 100  # groups within one another


class KerasFileEditor:
    """The weights of a `.keras` or `.weights.h5` file, to look at, change and write again.

    `weights_dict` has the objects of the file as dicts within dicts, and their arrays by name: the kernel of a layer
    `dense` is `weights_dict["layers"]["dense"]["0"]`. `object_metadata` has the attributes of objects by their paths,
    `config` and `metadata` the JSON of a `.keras` file (None of another). Objects are named by a path such as
    "layers/dense", or by a last name that occurs once.

    ValueError for other endings of file names, FileFormatError for a damaged or hostile file, ImportError without h5py.
    """

    def __init__(self, filepath: str | Path) -> None:
        self.filepath = os.fspath(filepath)
        self.config: dict[str, Any] | None = None
        self.metadata: dict[str, Any] | None = None
        self.object_metadata: dict[str, dict[str, Any]] = {}
        source: Any = self.filepath
        if self.filepath.endswith(".keras"):
            self.config, self.metadata, data = describing_parts(self.filepath)
            source = io.BytesIO(data)
        elif not self.filepath.endswith(".weights.h5"):
            raise ValueError(f"KerasFileEditor: takes files that end in .keras or .weights.h5, not {self.filepath!r}")
        self.weights_dict = _tree(source, self.filepath, self.object_metadata)
        print(f"Keras model file '{self.filepath}'")
        if self.metadata is not None:
            version, date = self.metadata.get("keras_version"), self.metadata.get("date_saved")
            print(f"Saved with Keras {version!s:.40} - date: {date!s:.40}")

    def summary(self) -> None:
        """Prints the objects of the file, and the shapes and dtypes of its arrays."""
        print("Weights structure")
        for line in self._lines(self.weights_dict, "  ", ""):
            print(line)

    def _lines(self, group: dict[str, Any], before: str, path: str) -> Iterator[str]:
        for number, (key, value) in enumerate(group.items()):
            last = number == len(group) - 1
            branch = "> " if not path and number == 0 else "└─ " if last else "├─ "
            inner = f"{path}/{key}".lstrip("/")
            if isinstance(value, dict):
                name = self.object_metadata.get(inner, {}).get("name")
                yield f"{before}{branch}{key}" + ("" if name is None else f" ('{name}')")
                yield from self._lines(value, before + ("    " if last else "│   "), inner)
            else:
                yield f"{before}{branch}{key}: shape={value.shape}, dtype={value.dtype}"

    def compare(self, reference_model: Any) -> dict[str, Any]:
        """Compares the file with a model, and prints what differs: {"status": "success" or "error", "error_count",
        "match_count"}, the numbers of differences and of weights of the same shape."""
        optimizer = reference_model.optimizer if getattr(reference_model, "compiled", False) else None
        wanted = _tree(io.BytesIO(write_weights(reference_model, optimizer)), reference_model.name, {})
        own, others = dict(_flat(self.weights_dict)), dict(_flat(wanted))
        gone = _absent(self.weights_dict, wanted)  # objects that the other side does not have
        more = _absent(wanted, self.weights_dict)
        problems = [f"Object {path} present in reference model, missing from saved file" for path in gone]
        problems += [f"Object {path} present in saved file, missing from reference model" for path in more]
        beside = tuple(f"{path}/" for path in (*gone, *more))
        for path in [*own, *(path for path in others if path not in own)]:
            if path.startswith(beside):
                continue
            if path not in own:
                problems.append(f"Weight {path} present in reference model, missing from saved file")
            elif path not in others:
                problems.append(f"Weight {path} present in saved file, missing from reference model")
            elif own[path].shape != others[path].shape:
                problems.append(
                    f"Weight shape mismatch for {path}: {others[path].shape} in reference model, {own[path].shape} in "
                    "saved file"
                )
        matches = len(own.keys() & others.keys()) - sum("mismatch" in problem for problem in problems)
        print("Running comparison", *(f"...{problem}" for problem in problems), sep="\n")
        print(
            f"Found {len(problems)} differences: the file does not fit the model" if problems
            else f"Comparison successful: the file fits the model, {matches} weights match"
        )  # fmt: skip
        return {"status": "error" if problems else "success", "error_count": len(problems), "match_count": matches}

    # -- changes

    def rename_object(self, object_name: str, new_name: str) -> None:
        """Gives a group another last name. ValueError where it is not there, or the new name is a path or taken."""
        group, name = self._place(object_name)
        if "/" in new_name or new_name in group:
            raise ValueError(f"rename_object: the new name is a last name that is not taken, not {new_name!r:.80}")
        group[new_name] = group.pop(name)

    def delete_object(self, object_name: str) -> None:
        """Takes a group and all inside of it out. ValueError where it is not there."""
        group, name = self._place(object_name)
        del group[name]

    def add_object(self, object_path: str, weights: dict[str, Any]) -> None:
        """Puts arrays by name in as a new group; the groups around it are there. ValueError otherwise."""
        *around, name = object_path.split("/")
        group = self.weights_dict
        for part in around:
            group = _inner(group, part, object_path)
        group[name] = _arrays("add_object", weights)

    def add_weights(self, object_name: str, weights: dict[str, Any]) -> None:
        """Puts arrays by name into a group. ValueError where it is not there."""
        group, name = self._place(object_name)
        _inner(group, name, object_name).update(_arrays("add_weights", weights))

    def delete_weight(self, object_name: str, weight_name: str) -> None:
        """Takes an array out of a group. ValueError where one of them is not there."""
        group, name = self._place(object_name)
        inner = _inner(group, name, object_name)
        if weight_name not in inner:
            raise ValueError(f"{object_name!r:.80} has no weight {weight_name!r:.80}; it has {', '.join(inner)}")
        del inner[weight_name]

    def _place(self, name: str) -> tuple[dict[str, Any], str]:
        """The group that has an object, and the object's last name there."""
        if "/" in name:
            *around, last = name.split("/")
            group = self.weights_dict
            for part in around:
                group = _inner(group, part, name)
            if last not in group:
                raise ValueError(f"{self.filepath} has nothing at {name!r:.80}; summary() prints what there is")
            return group, last
        found = [group for group in _groups(self.weights_dict) if name in group]
        if len(found) != 1:
            raise ValueError(
                f"{self.filepath} has {len(found)} objects with the name {name!r:.80}: "
                + ("summary() prints what there is" if not found else "give the whole path")
            )
        return found[0], name

    def save(self, filepath: str | Path) -> None:
        """Writes the weights as they are now. ValueError for a name that does not end in .weights.h5."""
        path = os.fspath(filepath)
        if not path.endswith(".weights.h5"):
            raise ValueError(f"save: writes files that end in .weights.h5, not {path!r}")
        target = io.BytesIO()
        with hdf5().File(target, "w") as file:
            for inner, value in _flat(self.weights_dict):
                *around, name = inner.split("/")
                place = file.require_group("/".join((*around, _VARS)))
                place[name] = value
                place.attrs.update(self.object_metadata.get("/".join(around), {}))
        with open_sink(path) as sink:
            sink.write(target.getvalue())

    resave_weights = save


def _inner(group: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    found = group.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"there is no group {name!r:.80} on the way of {path!r:.80}; summary() prints what there is")
    return found


def _arrays(method: str, weights: Any) -> dict[str, Any]:
    if not isinstance(weights, dict) or any("/" in str(name) for name in weights):
        raise ValueError(f"{method}: weights are a dict of names, such as '0', and arrays, not {weights!r:.80}")
    return {str(name): x.numpy() if isinstance(x, Tensor) else np.asarray(x) for name, x in weights.items()}


def _groups(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield group
    for value in group.values():
        if isinstance(value, dict):
            yield from _groups(value)


def _absent(group: dict[str, Any], wanted: dict[str, Any], path: str = "") -> list[str]:
    """The paths of the outermost objects of `wanted` that `group` does not have."""
    found: list[str] = []
    for key, value in wanted.items():
        if isinstance(value, dict):
            inner = group.get(key)
            found += _absent(inner, value, f"{path}{key}/") if isinstance(inner, dict) else [f"{path}{key}"]
    return found


def _flat(group: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, array) of all arrays."""
    for key, value in group.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}/")
        else:
            yield f"{path}{key}", value


def _tree(source: Any, where: str, attributes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """All groups and arrays of an HDF5 file; `attributes` gets those of groups, by path. FileFormatError where a group
    or an array has two names: the file would read as larger than it is."""
    file, h5py = WeightsFile(source, where), hdf5()
    seen: set[int] = set()

    def read(group: Any, path: str, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise FileFormatError(f"{where} has more than {_DEEPEST} groups within one another")
        texts = {str(key): value for key in group.attrs if isinstance(value := file.attribute(group, key), str)}
        if texts:
            attributes[path.removesuffix(_VARS).rstrip("/")] = texts
        found: dict[str, Any] = {}
        for name in group:
            child = file.child(group, name)
            place = h5py.h5o.get_info(child.id).addr
            if place in seen:
                raise FileFormatError(f"{where}: {path}/{name!r:.60} is in the file under another name, too")
            seen.add(place)
            if isinstance(child, h5py.Group):
                inner = read(child, f"{path}/{name}".lstrip("/"), depth + 1)
                if name == _VARS:
                    found |= inner
                elif inner:
                    found[name] = inner
            else:
                found[name] = file.stored_array(group, name)
        return found

    try:
        return read(file.file, "", 0)
    finally:
        file.close()
