"""matmul_f32 against NumPy: shapes, strides, batches, what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.kernels import OK, SIZES, Kernels, unaligned

SHAPES = [(m, n, k) for m in SIZES for n in SIZES for k in (0, 1, 4, 33)] + [
    (64, 48, 200),
    (130, 70, 300),
    (13, 260, 513),
    (28, 410, 512),
]
LAYOUTS = ["row", "column", "wide", "sparse"]


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """The same values (..., rows, columns) with other strides."""
    if layout == "column":
        return unaligned(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2)
    if layout == "row":
        return unaligned(x)
    step = (1, 1) if layout == "wide" else (2, 3)
    big = np.full((*x.shape[:-2], x.shape[-2] * step[0] + 1, x.shape[-1] * step[1] + 5), np.nan, np.float32)
    view = big[..., : x.shape[-2] * step[0] : step[0], : x.shape[-1] * step[1] : step[1]]
    view[...] = x
    return view


def matmul(kernels: Kernels, a: np.ndarray, b: np.ndarray, pad: int = 1) -> np.ndarray:
    batch, m, k = a.shape
    n = b.shape[-1]
    c = np.full((batch, m, n + pad), np.nan, np.float32)
    strides = {
        f"{name}_{axis}": x.strides[i] // 4
        for name, x in (("a", a), ("b", b))
        for i, axis in enumerate(("batch", "row", "column"))
    }
    code = kernels.run(
        "matmul_f32", c=c, a=a, b=b, batch=batch, m=m, n=n, k=k, c_batch=m * (n + pad), c_row=n + pad, **strides
    )
    assert code == OK
    assert np.isnan(c[:, :, n:]).all()
    return c[:, :, :n]


def close(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    expected = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(c - expected) <= 3e-6 * bound + 1e-30).all()


@pytest.mark.parametrize(
    "a_layout, b_layout", [("row", "row"), ("row", "column"), ("column", "row"), ("sparse", "sparse")]
)
def test_shapes(kernels: Kernels, a_layout: str, b_layout: str) -> None:
    for m, n, k in SHAPES:
        a, b = laid_out(normal(1, m, k), a_layout), laid_out(normal(1, k, n, seed=6), b_layout)
        close(matmul(kernels, a, b), a, b)


@pytest.mark.parametrize("a_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
def test_batches_of_any_strides(kernels: Kernels, a_layout: str, b_layout: str) -> None:
    for m, n, k in ((5, 7, 9), (1, 40, 33), (40, 1, 33), (37, 50, 129)):
        a, b = laid_out(normal(6, m, k), a_layout), laid_out(normal(6, k, n, seed=6), b_layout)
        close(matmul(kernels, a, b), a, b)


def test_batch_of_views_onto_one_matrix(kernels: Kernels) -> None:
    a, b = normal(4, 9, 20), np.broadcast_to(normal(1, 20, 17), (4, 20, 17))
    close(matmul(kernels, a, b), a, b)


def test_backward_strides(kernels: Kernels) -> None:
    a, b = normal(2, 9, 20)[:, ::-1], normal(2, 20, 17, seed=6)[::-1, :, ::-1]
    close(matmul(kernels, a, b), a, b)


def test_small_integers_are_exact(kernels: Kernels) -> None:
    random = np.random.default_rng(1)
    a, b = (
        random.integers(-8, 9, (1, 70, 300)).astype(np.float32),
        random.integers(-8, 9, (1, 300, 90)).astype(np.float32),
    )
    assert (matmul(kernels, a, b) == a @ b).all()


@pytest.mark.parametrize("m", [1, 3, 20, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_not_finite_values_reach_their_row_and_column_only(kernels: Kernels, m: int, bad: float, layout: str) -> None:
    a, b = np.abs(normal(1, m, 35)) + 1, np.abs(normal(1, 35, 37, seed=6)) + 1
    a[0, m // 2, 34] = bad
    b[0, 3, 36] = bad
    c = matmul(kernels, laid_out(a, layout), laid_out(b, layout))[0]
    expected = np.zeros((m, 37), bool)
    expected[m // 2], expected[:, 36] = True, True
    assert (~np.isfinite(c) == expected).all()
    assert (np.isnan(c) if np.isnan(bad) else c == np.inf)[expected].all()


def test_result_does_not_depend_on_the_number_of_threads(kernels: Kernels) -> None:
    before = kernels.library.pyapp_threads()
    for m, n, k in ((40, 300, 300), (300, 40, 300), (7, 11, 300)):
        a, b = normal(3, m, k), laid_out(normal(3, k, n, seed=6), "column")
        results = set()
        for threads in (1, 2, 3, 8):
            kernels.library.pyapp_set_threads(threads)
            results.add(matmul(kernels, a, b).tobytes())
        assert len(results) == 1
    kernels.library.pyapp_set_threads(before)
