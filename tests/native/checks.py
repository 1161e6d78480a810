"""Helpers for tests of single kernels: runs that also compare numbers of workers, strided arrays with guards, ulps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.native.kernels import OK, Kernels, unaligned

GUARD = np.float32(-12345.5)


def run_checked(kernels: Kernels, kernel: str, *outputs: str, **arguments: Any) -> None:
    """Runs a record on one worker and on several. The bits of the named outputs must be the same."""
    arrays = [arguments[name] for name in outputs]
    before = [array.copy() for array in arrays]
    results = []
    for threads in (1, 3):
        for array, old in zip(arrays, before, strict=True):
            array[...] = old
        kernels.library.pyapp_set_threads(threads)
        try:
            code = kernels.run(kernel, **arguments)
        finally:
            kernels.library.pyapp_set_threads(1)
        assert code == OK, f"{kernel} answered {code} on {threads} workers"
        results.append([array.tobytes() for array in arrays])
    assert results[0] == results[1], f"{kernel}: one worker and three differ"


def normal(*shape: int, seed: int = 3, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)


def strided(x: np.ndarray, extra: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """(memory, view): a copy of x with `extra` guard elements between the rows, one element off alignment."""
    rows, columns = x.shape
    memory = unaligned(np.full((rows, columns + extra), GUARD, x.dtype))
    view = memory[:, :columns]
    view[...] = x
    return memory, view


def assert_guarded(memory: np.ndarray, columns: int) -> None:
    assert (memory[:, columns:] == GUARD).all(), "the kernel wrote between the rows"


def ulps(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The difference between float32 values and exact float64 values, in units in the last place."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    same = (found == rounded) | (np.isnan(found) & np.isnan(exact))
    unit = np.spacing(np.minimum(np.abs(rounded), np.float32(3e38))).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(found.astype(np.float64) - exact) / unit)
