"""Distances of all pairs of rows, and their gradient, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels, unaligned

pytestmark = pytest.mark.native_only  # the wasm libraries have no room for the kernels
NORMS = EUCLIDEAN, TAXICAB, CHEBYSHEV = range(3)
SHAPES = ((1, 1, 1, 1), (2, 70, 5, 3), (1, 9, 66, 40), (1, 3, 2, 130), (1, 2, 3, 0))  # batch, rows, others, columns


@pytest.mark.parametrize("norm", NORMS)
def test_distances(kernels: Kernels, norm: int) -> None:
    for shape in SHAPES:
        batch, rows, others, columns = shape
        sizes = dict(zip(("batch", "rows", "others", "columns"), shape, strict=True), norm=norm)
        a, b = unaligned(normal(batch, rows, columns)), unaligned(normal(batch, others, columns, seed=4))
        b[:, 0] = a[:, 0]  # one pair without a distance
        y = np.full((batch, rows, others), 7, np.float32)
        run_checked(kernels, "distances_f32", "y", y=y, a=a, b=b, **sizes)
        apart = a[:, :, None].astype(np.float64) - b[:, None]
        sizes_of = {EUCLIDEAN: (apart**2).sum(-1) ** 0.5, TAXICAB: abs(apart).sum(-1)}
        exact = sizes_of.get(norm, abs(apart).max(-1, initial=0))
        np.testing.assert_allclose(y, exact, rtol=2e-6, atol=1e-6)
        if norm == CHEBYSHEV:
            continue
        grad, g = np.full(a.shape, 7, np.float32), normal(batch, rows, others, seed=5)
        arguments = {"a": a, "b": b, "y": y, "grad_y": g, "grad_a": grad, **sizes}
        run_checked(kernels, "distances_backward_f32", "grad_a", **arguments)
        lengths = np.where(exact == 0, 1, exact)[..., None]
        slopes = np.sign(apart) if norm == TAXICAB else apart / lengths
        np.testing.assert_allclose(grad, (slopes * g[..., None]).sum(2), rtol=1e-4, atol=1e-5)


def test_what_is_not_a_number_stays(kernels: Kernels) -> None:
    a, b = np.array([[[1, np.nan, 3]]], np.float32), np.zeros((1, 2, 3), np.float32)
    for norm in NORMS:
        y = np.zeros((1, 1, 2), np.float32)
        run_checked(kernels, "distances_f32", "y", y=y, a=a, b=b, batch=1, rows=1, others=2, columns=3, norm=norm)
        assert np.isnan(y).all(), norm


def test_wrong_arguments(kernels: Kernels) -> None:
    a = np.zeros((1, 2, 3), np.float32)
    sizes = {"batch": 1, "rows": 2, "others": 2, "columns": 3, "norm": 0}
    y = np.zeros((1, 2, 2), np.float32)
    for name, value in (("norm", 3), ("norm", -1), ("rows", -1), ("others", -1), ("batch", -1)):
        assert kernels.run("distances_f32", y=y, a=a, b=a, **(sizes | {name: value})) == BAD_ARGUMENT
    gradient = {"grad_a": a.copy(), "a": a, "b": a, "y": y, "grad_y": y, **(sizes | {"norm": CHEBYSHEV})}
    assert kernels.run("distances_backward_f32", **gradient) == BAD_ARGUMENT
