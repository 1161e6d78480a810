"""matmul of every dtype against NumPy: shapes, strides, batches, NaN and infinity."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.native.kernels import BAD_ARGUMENT, OK, SIZES, Kernels, from_bf16, to_bf16, unaligned

SHAPES = [(m, n, k) for m in SIZES for n in SIZES for k in (0, 1, 4, 33)] + [
    (64, 48, 200),
    (130, 70, 300),
    (13, 260, 513),
    (28, 410, 512),
]
LAYOUTS = ["row", "column", "wide", "sparse"]


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def filler(dtype: np.dtype) -> float:
    """Guard values, which must not be read or written: NaN, or a certain integer."""
    return np.nan if dtype.kind == "f" else 77


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """The same values (..., rows, columns) with other strides."""
    if layout == "column":
        return unaligned(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2)
    if layout == "row":
        return unaligned(x)
    step = (1, 1) if layout == "wide" else (2, 3)
    big = np.full((*x.shape[:-2], x.shape[-2] * step[0] + 1, x.shape[-1] * step[1] + 5), filler(x.dtype), x.dtype)
    view = big[..., : x.shape[-2] * step[0] : step[0], : x.shape[-1] * step[1] : step[1]]
    view[...] = x
    return view


def matmul(
    kernels: Kernels, a: np.ndarray, b: np.ndarray, pad: int = 1, kernel: str = "matmul_f32", **more: int
) -> np.ndarray:
    batch, m, k = a.shape
    n = b.shape[-1]
    c = np.full((batch, m, n + pad), filler(a.dtype), a.dtype)
    strides = {
        f"{name}_{axis}": x.strides[i] // x.itemsize
        for name, x in (("a", a), ("b", b))
        for i, axis in enumerate(("batch", "row", "column"))
    }
    sizes = dict(batch=batch, m=m, n=n, k=k, c_batch=m * (n + pad), c_row=n + pad)
    assert kernels.run(kernel, c=c, a=a, b=b, **sizes, **strides, **more) == OK
    np.testing.assert_array_equal(c[:, :, n:], filler(a.dtype))
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


@pytest.mark.parametrize("m", [1, 3, 40])
def test_without_items_nothing_is_read_or_written(kernels: Kernels, m: int) -> None:
    c, a, b = np.full((m, 33), 7, np.float32), normal(m, 5), normal(5, 33)
    strides = dict(a_batch=m * 5, a_row=5, a_column=1, b_batch=0, b_row=33, b_column=1, c_batch=m * 33, c_row=33)
    assert kernels.run("matmul_f32", c=c, a=a, b=b, batch=0, m=m, n=33, k=5, **strides) == OK
    np.testing.assert_array_equal(c, 7)


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


OTHER_SHAPES = [(m, n, k) for m in (0, 1, 3, 5) for n in (0, 1, 4, 33) for k in (0, 1, 33)] + [
    (1, 70, 300),
    (64, 48, 200),
    (13, 260, 513),
    (410, 28, 150),
]
OTHER_LAYOUTS = [("row", "row"), ("row", "column"), ("column", "row"), ("sparse", "sparse")]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("a_layout, b_layout", OTHER_LAYOUTS)
def test_halves(kernels: Kernels, kind: str, a_layout: str, b_layout: str) -> None:
    for m, n, k in OTHER_SHAPES:
        a, b = (normal(2, *size, seed=seed) for size, seed in (((m, k), 5), ((k, n), 6)))
        stored = [to_bf16(x) if kind == "bf16" else x.astype(np.float16) for x in (a, b)]
        a, b = (from_bf16(x) if kind == "bf16" else x.astype(np.float32) for x in stored)
        c = matmul(
            kernels, *(laid_out(x, y) for x, y in zip(stored, (a_layout, b_layout), strict=True)), 1, f"matmul_{kind}"
        )
        found = from_bf16(c) if kind == "bf16" else c.astype(np.float32)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
        half_a_step = 2.0**-8 if kind == "bf16" else 2.0**-11
        assert (np.abs(found - expected) <= half_a_step * np.abs(expected) + 3e-6 * bound + 3e-8).all()


@pytest.mark.parametrize("a_layout, b_layout", OTHER_LAYOUTS)
def test_f64(kernels: Kernels, a_layout: str, b_layout: str) -> None:
    for m, n, k in OTHER_SHAPES:
        a, b = normal(2, m, k).astype(np.float64), normal(2, k, n, seed=6).astype(np.float64) / 3
        c = matmul(kernels, laid_out(a, a_layout), laid_out(b, b_layout), 1, "matmul_f64")
        assert (np.abs(c - a @ b) <= 1e-14 * (np.abs(a) @ np.abs(b))).all()


@cache
def integer_products(dtype: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(a, b, a @ b) of each shape, once for all libraries and layouts: NumPy multiplies integers slowly."""
    random, limits = np.random.default_rng(4), np.iinfo(dtype)
    found = []
    for m, n, k in OTHER_SHAPES:
        a, b = (random.integers(limits.min, limits.max, (2, *size), dtype, True) for size in ((m, k), (k, n)))
        found.append((a, b, a @ b))
    return found


@pytest.mark.parametrize(
    "dtype, a_layout, b_layout",
    [(dtype, *layouts) for dtype in ("i1", "i2", "i4", "i8") for layouts in OTHER_LAYOUTS]
    + [(dtype, *OTHER_LAYOUTS[0]) for dtype in ("u1", "u2", "u4", "u8")],  # for the kernel, the same bytes
)
def test_integers_wrap_as_numpys_do(kernels: Kernels, dtype: str, a_layout: str, b_layout: str) -> None:
    for a, b, product in integer_products(dtype):
        laid = laid_out(a, a_layout), laid_out(b, b_layout)
        c = matmul(kernels, *laid, 1, "matmul_integer", element_bytes=a.itemsize)
        np.testing.assert_array_equal(c, product)


def test_integers_of_other_sizes_are_refused(kernels: Kernels) -> None:
    a = np.zeros((1, 1, 1), np.int32)
    sizes = dict(batch=1, m=1, n=1, k=1)
    assert kernels.run("matmul_integer", c=a, a=a, b=a, **sizes, element_bytes=3) == BAD_ARGUMENT


@pytest.mark.parametrize(
    "kernel, dtype", [("matmul_f16", "f2"), ("matmul_bf16", "u2"), ("matmul_f64", "f8"), ("matmul_integer", "i4")]
)
def test_other_results_do_not_depend_on_the_number_of_threads(kernels: Kernels, kernel: str, dtype: str) -> None:
    before = kernels.library.pyapp_threads()
    for m, n, k in ((40, 300, 300), (300, 40, 300), (3, 700, 300), (7, 11, 5000)):
        a, b = normal(3, m, k) * 9, normal(3, k, n, seed=6) * 9
        a, b = (to_bf16(x) if kernel == "matmul_bf16" else x.astype(dtype) for x in (a, b))
        b = laid_out(b, "column")
        more = {"element_bytes": 4} if dtype == "i4" else {}
        results = set()
        for threads in (1, 2, 3, 8):
            kernels.library.pyapp_set_threads(threads)
            results.add(matmul(kernels, a, b, 1, kernel, **more).tobytes())
        assert len(results) == 1
    kernels.library.pyapp_set_threads(before)
