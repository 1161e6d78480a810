"""Samples along a dim, each a sum of few elements with weights, against products with a matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, TYPES, Kernels, unaligned

pytestmark = pytest.mark.native_only  # the wasm libraries have no room for the kernel
PRECISION = 14
SHAPES = [
    (1, 9, 1),
    (7, 20, 1),
    (3, 6, 2),
    (2, 5, 3),
    (4, 7, 4),
    (2, 6, 33),
    (1, 3, 150),
    (5, 1, 1),
    (0, 3, 4),
    (2, 3, 0),
]


def sampling(size: int, seed: int) -> dict[str, np.ndarray]:
    """starts, places and weights of 11 samples, some of one element and one of none."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, 11)
    counts[4] = 0
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = rng.integers(0, size, starts[-1]).astype(np.int32)
    return {"starts": starts, "places": places, "weights": rng.standard_normal(len(places)).astype(np.float32)}


def matrix(size: int, of: dict[str, np.ndarray]) -> np.ndarray:
    """(samples, size) float64."""
    found = np.zeros((11, size))
    np.add.at(found, (np.repeat(np.arange(11), np.diff(of["starts"])), of["places"]), of["weights"].astype(np.float64))
    return found


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_samples(kernels: Kernels, kind: str) -> None:
    for seed, (outer, size, inner) in enumerate(SHAPES):
        of = sampling(size, seed)
        sizes = {"outer": outer, "size": size, "out": 11, "inner": inner, "entries": len(of["places"])}
        if kind == "float32":
            x = unaligned(normal(outer, size, inner))
        else:
            x = unaligned(np.random.default_rng(seed).integers(0, 256, (outer, size, inner), np.uint8))
            of["weights"] = (of["weights"] * (1 << PRECISION)).astype(np.int32)
        y = np.zeros((outer, 11, inner), x.dtype)
        run_checked(
            kernels, "resample", "y", y=y, x=x, **of, **sizes, type=TYPES[kind],
            precision=PRECISION if kind == "uint8" else 0,
        )  # fmt: skip
        exact = np.einsum("os,nsi->noi", matrix(size, of), x.astype(np.float64))
        if kind == "float32":
            np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)
        else:
            assert (y == np.clip(np.floor(exact / (1 << PRECISION) + 0.5), 0, 255)).all()


def test_infinities_reach_their_samples_only(kernels: Kernels) -> None:
    x, y = np.array([[np.inf, 1, 2, np.nan]], np.float32), np.zeros((1, 2), np.float32)
    tables = {
        "starts": np.array([0, 2, 3], np.int32), "places": np.array([1, 2, 0], np.int32),
        "weights": np.array([2, 3, 1], np.float32),
    }  # fmt: skip
    sizes = {"outer": 1, "size": 4, "out": 2, "inner": 1, "entries": 3, "type": TYPES["float32"]}
    run_checked(kernels, "resample", "y", y=y, x=x, **tables, **sizes)
    assert y.tolist() == [[8, np.inf]]
    for wrong, code in (
        ({"entries": 2}, INDEX_RANGE), ({"size": 2}, INDEX_RANGE), ({"type": TYPES["int64"]}, BAD_ARGUMENT),
        ({"type": TYPES["uint8"]}, BAD_ARGUMENT),
    ):  # fmt: skip
        assert kernels.run("resample", y=y, x=x, **tables, **{**sizes, **wrong}) == code
