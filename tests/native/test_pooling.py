"""Pools against windows that NumPy takes one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels

NAMES = ("size", "out", "kernel", "stride", "pad", "dilation")
TYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
GEOMETRIES = {  # planes; sizes, outputs, kernel (0: parts), stride, padding, dilation
    "two by two": (3, (1, 6, 5), (1, 3, 2), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    "many small planes": (37, (1, 8, 8), (1, 4, 4), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    "whole vectors": (2, (1, 7, 33), (1, 3, 16), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    "half vectors": (3, (1, 9, 16), (1, 4, 8), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    "half vectors in an odd number of rows": (2, (1, 6, 8), (1, 3, 4), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    "overlapping": (2, (1, 7, 150), (1, 4, 75), (1, 3, 3), (1, 2, 2), (0, 1, 1), (1, 1, 1)),
    "volume": (2, (4, 5, 6), (3, 2, 4), (2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 1)),
    "apart": (2, (1, 9, 9), (1, 5, 4), (1, 3, 3), (1, 1, 2), (0, 0, 1), (1, 2, 2)),
    "parts": (2, (3, 7, 40), (2, 3, 3), (0, 0, 0), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    "nothing there": (1, (1, 1, 3), (1, 1, 3), (1, 1, 1), (1, 1, 9), (0, 0, 0), (1, 1, 1)),
}


def _windows(geometry: Any) -> list[tuple[tuple[int, ...], list[list[int]], list[int]]]:
    """(place of the result, elements that exist by dim, numbers of elements with padding) of each window."""
    _, sizes, out, kernel, stride, pad, dilation = geometry
    found = []
    for place in product(*map(range, out)):
        inside, counts = [], []
        for d, o in enumerate(place):
            if kernel[d]:
                start = o * stride[d] - pad[d]
                every = [start + k * dilation[d] for k in range(kernel[d])]
                counts.append(min(start + kernel[d], sizes[d] + pad[d]) - start)
            else:
                every = list(range(o * sizes[d] // out[d], -(-(o + 1) * sizes[d] // out[d])))
                counts.append(len(every))
            inside.append([i for i in every if 0 <= i < sizes[d]])
        found.append((place, inside, counts))
    return found


def _slots(geometry: Any, type_name: str) -> dict[str, int]:
    codes = {"float16": 11, "float32": 13, "float64": 14}
    slots = {
        f"{name}{d}": value for name, values in zip(NAMES, geometry[1:], strict=True) for d, value in enumerate(values)
    }
    return {"type": codes[type_name], "planes": geometry[0], **slots}


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_largest_and_its_gradient(kernels: Kernels, name: str, type_name: str) -> None:
    geometry, dtype = GEOMETRIES[name], TYPES[type_name]
    generator = np.random.default_rng(1)
    x = np.round(generator.standard_normal((geometry[0], *geometry[1]))).astype(dtype)  # with equal elements
    x[generator.random(x.shape) < 0.05] = np.nan
    x[generator.random(x.shape) < 0.2] = -np.inf
    shape = (geometry[0], *geometry[2])
    y, indices, grad_x = np.zeros(shape, dtype), np.zeros(shape, np.int64), np.ones_like(x)
    grad_y = np.round(generator.standard_normal(shape) * 4).astype(dtype)
    expected, places, wanted = np.full(shape, -np.inf, dtype), np.full(shape, -1), np.zeros_like(x)
    for plane in range(geometry[0]):
        for at, inside, _ in _windows(geometry):
            best = None
            for element in product(*inside):
                value = x[plane][element]
                if best is None or value > x[plane][best] or np.isnan(value):
                    best = element
            if best is not None:
                expected[plane][at] = x[plane][best]
                places[plane][at] = np.ravel_multi_index(best, geometry[1])
                wanted[plane][best] += grad_y[plane][at]
    slots = _slots(geometry, type_name)
    run_checked(kernels, "max_pool", "y", "indices", y=y, indices=indices, x=x, **slots)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(indices, places)
    run_checked(kernels, "max_pool_backward", "grad_x", grad_x=grad_x, x=x, grad_y=grad_y, **slots)
    np.testing.assert_array_equal(grad_x, wanted)


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name not in ("apart", "nothing there")])
def test_means_and_their_gradient(kernels: Kernels, name: str, type_name: str) -> None:
    geometry, dtype = GEOMETRIES[name], TYPES[type_name]
    generator = np.random.default_rng(2)
    x = generator.standard_normal((geometry[0], *geometry[1])).astype(dtype)
    grad_y = generator.standard_normal((geometry[0], *geometry[2])).astype(dtype)
    for counted, divisor in ((0, 0), (1, 0), (0, 7)):
        y, grad_x = np.zeros_like(grad_y), np.ones_like(x)
        expected, wanted = np.zeros(grad_y.shape), np.zeros(x.shape)
        for at, inside, counts in _windows(geometry):
            by = divisor or (np.prod(counts) if counted else np.prod([len(i) for i in inside]))
            where = np.ix_(range(geometry[0]), *inside)
            expected[(slice(None), *at)] = x[where].astype(np.float64).sum((1, 2, 3)) / by
            wanted[where] += (grad_y[(slice(None), *at)].astype(np.float64) / by)[:, None, None, None]
        slots = _slots(geometry, type_name) | {"counted": counted, "divisor": divisor}
        tolerance = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-14}[type_name]
        run_checked(kernels, "avg_pool", "y", y=y, x=x, **slots)
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
        run_checked(kernels, "avg_pool_backward", "grad_x", grad_x=grad_x, grad_y=grad_y, **slots)
        np.testing.assert_allclose(grad_x, wanted, rtol=tolerance, atol=2 * tolerance)


def test_arguments_that_are_refused(kernels: Kernels) -> None:
    x, y = np.zeros((3, 1, 6, 5), np.float32), np.zeros((3, 1, 3, 2), np.float32)
    slots = _slots(GEOMETRIES["two by two"], "float32")
    for wrong in (
        {"type": 3},
        {"planes": -1},
        {"stride2": 0},
        {"dilation1": 0},
        {"kernel1": -2},
        {"size1": 0},
        {"pad0": -1},
    ):
        assert kernels.run("max_pool", y=y, x=x, **(slots | wrong)) == BAD_ARGUMENT
