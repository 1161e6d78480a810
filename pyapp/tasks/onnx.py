"""Running ONNX models over files of arrays, and writing models as ONNX."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.engine import Tensor, no_grad
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Cancel, Done, Event, Item, Metric
from pyapp.formats import open_checkpoint
from pyapp.formats.numpy_files import write_npz

from .core import Breath, Events, done_with, task

SHOWN = 8  # numbers of an output that an event has


def _read(path: Any) -> dict[str, Tensor]:
    """The arrays of an .npy or .npz file, by name."""
    with open_checkpoint(path) as file:
        if file.format not in ("npy", "npz"):
            raise FileFormatError(f"this is {file.format}", where=str(path), hint="Give arrays as .npy or .npz")
        return {name: file.read(name) for name in file.tensors}


def _first(value: Any) -> list[Any]:
    """The first elements of an output."""
    flat = value.reshape(-1)[:SHOWN]
    return [str(v) if isinstance(v, complex) else v for v in flat.tolist()]


def _described(name: str, value: Any) -> list[tuple[dict[str, Any], Any]]:
    """(what an event says, the array) of an output; of a sequence those of its elements."""
    if isinstance(value, (list, tuple)):
        return [part for at, item in enumerate(value) for part in _described(f"{name}.{at}", item)]
    if value is None or isinstance(value, dict):
        return [
            (
                {"output": name, "dtype": "map" if value else "none", "shape": [], "first": [value] if value else []},
                None,
            )
        ]
    kind = value.dtype.name if value.dtype != object else "string"
    return [({"output": name, "dtype": kind, "shape": list(value.shape), "first": _first(value)}, value)]


def _finish(value: Any) -> None:
    """Waits for the device that computes tensors, in tuples and lists too."""
    for part in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(part, Tensor):
            part.device.backend.synchronize()
            return
        if isinstance(part, (tuple, list)):
            _finish(part)


@task
async def run_onnx(
    file: Any, inputs: Sequence[Any] = (), *, named: Mapping[str, Any] | None = None,
    output: str | os.PathLike[str] | None = None, repeats: int = 1, device: str | None = None,
    cancel: Cancel | None = None,
) -> Events:  # fmt: skip
    """Runs an ONNX model over arrays: `inputs` in order and `named` by name, as tensors or .npy files; of an .npz
    file all by name. An Item for each output (`output dtype shape first`), a Metric of the fastest run in ms; Done
    carries `outputs`. `output`: an .npz file to write them to. `device`: where it computes.
    """
    from pyapp.onnx import load

    if repeats < 1:
        raise OptionError(f"the model runs {repeats} times, expected 1 or more", where="repeats")
    cancel = cancel or Cancel()
    module = load(file, device=device)
    given: list[Any] = []
    by_name: dict[str, Any] = {}
    for source in inputs:
        arrays = {"": source} if isinstance(source, Tensor) else _read(source)
        if len(arrays) == 1:
            given += arrays.values()
        else:
            by_name |= arrays
    for name, source in (named or {}).items():
        arrays = {"": source} if isinstance(source, Tensor) else _read(source)
        if len(arrays) != 1:
            raise OptionError(
                f"the file of the input {name!r} has {len(arrays)} arrays, expected one", where=str(source)
            )
        by_name |= dict.fromkeys([name], next(iter(arrays.values())))
    fastest, breath = float("inf"), Breath()
    found: Any = None
    with no_grad():
        for _ in range(repeats):
            cancel.check()
            start = time.perf_counter()
            found = module(*given, **by_name)
            _finish(found)
            fastest = min(fastest, time.perf_counter() - start)
            await breath.take()
    outputs = found if isinstance(found, tuple) else (found,)
    described = [
        part for info, value in zip(module.outputs, outputs, strict=True) for part in _described(info.name, value)
    ]
    for at, (entry, _) in enumerate(described):
        yield Item(at, entry)
    yield Metric("run_time", fastest * 1e3, "ms")
    if output is not None:
        arrays = {
            entry["output"]: value for entry, value in described if value is not None and entry["dtype"] != "string"
        }
        write_npz(output, arrays)
    yield Done("complete", {"outputs": len(described), "file": str(output) if output is not None else None})


@task
def export_onnx(
    source: str | os.PathLike[str], folder: str | os.PathLike[str], *, task: str | None = None,
    dtype: str = "float32", opset_version: int | None = None, cancel: Cancel | None = None,
) -> Events:  # fmt: skip
    """Writes a model as a folder with ONNX files (onnx_folders.py): Progress; Done carries `files`,
    `size` and `task`.
    """
    from .onnx_folders import write_onnx

    cancel = cancel or Cancel()

    def work(report: Callable[[Event], None]) -> dict[str, Any]:
        return write_onnx(
            source, folder, task=task, dtype=dtype, opset_version=opset_version, report=report, cancel=cancel
        )

    return done_with(work, cancel)
