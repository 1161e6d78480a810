"""Writes golden files so that a new run of their script changes only what is new.

Sums of floats differ in the last digits between versions of the reference programs, processors and numbers of threads.
Numbers that agree with those of the file up to such rounding are written as the file has them, so that what else
changes is seen.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

RELATIVE = 2e-5  # of the number itself
OF_LARGEST = 2e-6  # of the largest number beside it: what is left of a sum that cancels


def _number(value: Any) -> float | None:
    """A float, or a text that is the repr of one, as a number."""
    if isinstance(value, str):
        try:
            found = float(value)
        except ValueError:
            return None
        return found if repr(found) == value else None
    return value if isinstance(value, float) else None


def _largest(value: Any) -> float:
    """The largest finite float in nested lists and dicts, without its sign."""
    if isinstance(value, (list, tuple, dict)):
        return max(map(_largest, value.values() if isinstance(value, dict) else value), default=0.0)
    number = _number(value)
    return abs(number) if number is not None and math.isfinite(number) else 0.0


def kept(new: Any, old: Any, scale: float = 0.0) -> Any:
    """`new`, nested lists and dicts, with the floats of `old` where both are the same but for rounding. Floats of a
    list, and those of dicts of floats, are compared with the largest among them.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        scale = _largest([value for value in old.values() if _number(value) is not None])  # not of what is inside
        return {key: kept(value, old[key], scale) if key in old else value for key, value in new.items()}
    if isinstance(new, (list, tuple)) and isinstance(old, list) and len(new) == len(old):
        scale = max([scale, *(_largest(value) for value in old if _number(value) is not None)])
        return [kept(a, b, scale) for a, b in zip(new, old, strict=True)]
    a, b = _number(new), _number(old)
    if a is None or b is None or type(new) is not type(old) or not abs(a - b) <= RELATIVE * abs(b) + OF_LARGEST * scale:
        return new
    return old


def write_json(path: Path, new: Any, **options: Any) -> int:
    """Writes nested lists and dicts, and gives the number of characters; `options` are those of json.dumps."""
    old = json.loads(path.read_text("utf-8")) if path.exists() else None
    return path.write_text(json.dumps(kept(new, old), **options) + "\n", "utf-8")


def write_each(script: str, names: Iterable[str], golden: Callable[[str], Any], **options: Any) -> None:
    """Writes golden_X/NAME.json, where the script is make_golden_X.py, with golden(NAME) for each name, or for those
    that the command line has.
    """
    folder = Path(script).with_name(Path(script).stem.removeprefix("make_"))
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or names:
        print(name, write_json(folder / f"{name}.json", golden(name), separators=(",", ":"), **options))


def write_rows(path: Path, new: dict[str, Any], **options: Any) -> int:
    """write_json with a line for each entry."""
    old = json.loads(path.read_text("utf-8")) if path.exists() else None
    rows = [f"{json.dumps(name)}: {json.dumps(value, **options)}" for name, value in kept(new, old).items()]
    return path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def write_npz(path: Path, new: dict[str, Any], absolute: float = 0.0) -> None:
    """Writes arrays, compressed; where none has changed, the file stays as it is. `absolute`: a difference that is
    rounding, too, of logarithms of what is nearly 0.
    """
    old: dict[str, np.ndarray] = {}
    if path.exists():
        with np.load(path) as read:
            old = {name: read[name] for name in read.files}
    arrays = kept_arrays(new, old, absolute)
    if list(arrays) != list(old) or any(arrays[name] is not old[name] for name in old):
        np.savez_compressed(path, **arrays)


def write_bytes(path: Path, new: bytes, same: Callable[[bytes, bytes], bool]) -> None:
    """Writes a file of another format, unless `same(the bytes it has, new)`: dates and addresses are new each time."""
    if not path.exists() or not same(path.read_bytes(), new):
        path.write_bytes(new)


def kept_arrays(new: dict[str, Any], old: dict[str, np.ndarray], absolute: float = 0.0) -> dict[str, np.ndarray]:
    """`new` with those arrays of `old` that are the same but for rounding."""
    return {name: _kept_array(np.asarray(value), old.get(name), absolute) for name, value in new.items()}


def _kept_array(new: np.ndarray, old: np.ndarray | None, absolute: float) -> np.ndarray:
    """`old` where the new array is the same but for rounding."""
    if old is None or new.shape != old.shape or new.dtype != old.dtype:
        return new
    if new.dtype.kind not in "fc":
        return old if np.array_equal(new, old) else new
    finite = np.abs(old[np.isfinite(old)])
    limit = absolute + OF_LARGEST * float(finite.max(initial=0))
    return old if np.allclose(new, old, RELATIVE, limit, equal_nan=True) else new
