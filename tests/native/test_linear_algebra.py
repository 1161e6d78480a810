"""Factors of matrices and triangular systems by CUDA's kernels against NumPy's LAPACK (those of the CPU:
tests/engine/test_linalg.py)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tests.cuda.emulated import SANITIZE
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, NOT_POSITIVE, OK, SINGULAR, TYPES, Kernels, unaligned

SIZES = (33,) if SANITIZE else (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 65, 100)
KINDS = ("float32", "float64")
TOLERANCE = {"float32": 1e-4, "float64": 1e-12}


def matrices(batch: int, rows: int, columns: int, kind: str, seed: int = 1) -> np.ndarray:
    return unaligned(np.random.default_rng(seed + rows).standard_normal((batch, rows, columns)).astype(kind))


def positive(batch: int, n: int, kind: str) -> np.ndarray:
    x = matrices(batch, n, n, kind)
    return unaligned((x @ x.swapaxes(-1, -2) + n * np.eye(n)).astype(kind))


def run(kernels: Kernels, name: str, **arguments: Any) -> int:
    """The code; of 33 rows twice, with the same bits."""
    assert isinstance(kernels, EmulatedKernels)
    results = []
    for _ in range(2 if arguments["y"].shape[1] == 33 else 1):
        arguments["y"][...] = -7
        code = kernels.run(name, type=TYPES[arguments["y"].dtype.name], **arguments)
        results.append((code, arguments["y"].tobytes()))
    assert results[0] == results[-1]
    return code


def close(found: np.ndarray, expected: np.ndarray) -> None:
    limit = TOLERANCE[found.dtype.name]
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit * max(1, abs(expected).max(initial=0)))


def sizes_for(kernels: Kernels) -> tuple[int, ...]:
    return SIZES if isinstance(kernels, EmulatedKernels) else ()


def squares(kernels: Kernels, *more: tuple[int, int]) -> list[tuple[int, int]]:
    """(rows, columns): the sizes, and others."""
    return [(n, n) for n in sizes_for(kernels)] + [*more] * bool(sizes_for(kernels))


def test_cholesky(kernels: Kernels) -> None:
    for kind, n in product(KINDS, sizes_for(kernels)):
        x = positive(2, n, kind)
        y = np.empty_like(x)
        given = unaligned(x + np.triu(np.full_like(x, np.nan), 1))  # the upper triangle is not read
        assert run(kernels, "cholesky", y=y, x=given, batch=2, n=n) == OK
        close(y, np.linalg.cholesky(x))


def factors(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = min(packed.shape[-2:])
    return np.tril(packed, -1)[..., :k] + np.eye(packed.shape[-2], k, dtype=packed.dtype), np.triu(packed)[..., :k, :]


def eliminated(kernels: Kernels, x: np.ndarray, panel: int, exchanged: bool = True) -> tuple[np.ndarray, ...]:
    """(L and U, exchanges, order) of x (B, M, N), by launches of `panel` columns; of all: by one that copies x."""
    batch, rows, columns = x.shape
    k = min(rows, columns)
    exchanges, order = np.empty((batch, k), np.int32), np.empty((batch, rows), np.int32)
    given = {"exchanges": exchanges, "order": order} if exchanged else {}
    dims = {"batch": batch, "rows": rows, "columns": columns}
    if panel >= columns:
        y = np.empty_like(x)
        assert run(kernels, "lu_factor", y=y, x=x, end=columns, **given, **dims) == OK
        return y, exchanges, order
    y = unaligned(x)
    for begin in range(0, k, panel):
        ends = {"begin": begin, "end": min(begin + panel, columns)}
        assert kernels.run("lu_factor", type=TYPES[y.dtype.name], y=y, **given, **dims, **ends) == OK
    return y, exchanges, order


def check_lu(kernels: Kernels, x: np.ndarray, panel: int) -> None:
    y, exchanges, order = eliminated(kernels, x, panel)
    lower, upper = factors(y)
    assert abs(lower).max() <= 1  # the pivots are the largest
    in_order = np.take_along_axis(x, order[..., None].astype(np.int64), 1)
    close(lower @ upper, in_order)
    for row, own in zip(order, exchanges, strict=True):
        expected = np.arange(x.shape[1])
        for i, j in enumerate(own):
            expected[[i, j]] = expected[[j, i]]
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(eliminated(kernels, in_order, panel, False)[0], y)


def test_lu_factors(kernels: Kernels) -> None:
    for kind, (rows, columns) in product(KINDS, squares(kernels, (7, 3), (3, 7), (40, 33), (33, 40))):
        check_lu(kernels, matrices(2, rows, columns, kind), columns)


def test_lu_factors_by_panels(kernels: Kernels) -> None:
    if not sizes_for(kernels):
        return
    # More than 512 rows do not fit shared memory; those of the last panel of 530 do.
    shapes = ((33, 33, 8), (75, 40, 30), (40, 75, 17), (530, 24, 20), (150, 150, 64), (64, 150, 64))
    few = (("float32", (20, 20, 8)), ("float64", (514, 3, 2)))
    for kind, (rows, columns, panel) in few if SANITIZE else product(KINDS, shapes):
        check_lu(kernels, matrices(2 if rows < 100 else 1, rows, columns, kind), panel)
    if SANITIZE:
        return
    x = matrices(1, 514, 6, "float32")
    x[:, :, ::2] = 0  # pivots that are 0
    y, _, order = eliminated(kernels, x, 4)
    lower, upper = factors(y)
    close(lower @ upper, np.take_along_axis(x, order[..., None].astype(np.int64), 1))
    x[0, 200, 3] = np.nan
    assert np.isnan(eliminated(kernels, x, 4)[0]).any()


def test_qr(kernels: Kernels) -> None:
    for kind, (rows, columns) in product(KINDS, squares(kernels, (7, 3), (100, 5), (70, 40))):
        x = matrices(2, rows, columns, kind)
        x[1, :, 0] = 0  # a column without a reflector
        y, taus = np.empty((2, rows + columns, columns), kind), np.empty((2, columns), kind)
        assert run(kernels, "qr", y=y, x=x, taus=taus, batch=2, rows=rows, columns=columns) == OK
        q, r = np.linalg.qr(x)
        close(y[:, :rows], q)
        close(y[:, rows:], r)


def test_eigenvalues(kernels: Kernels) -> None:
    for kind, n in product(KINDS, (0, *sizes_for(kernels)) if sizes_for(kernels) else ()):
        x = matrices(5, n, n, kind)
        x = x + x.swapaxes(-1, -2)
        x[1] = np.eye(n)  # equal eigenvalues
        x[2] = 0
        x[3] = np.outer(x[3, :1], x[3, :1]) * (1e30 if kind == "float32" else 1e200)  # of rank 1; squares overflow
        if n:
            x[4, 0, -1] = np.inf  # in the triangle that is not used, too
        given = unaligned(x[:4] + np.triu(np.ones_like(x[:4]), 1))  # the upper triangle is not used
        given = unaligned(np.concatenate([given, x[4:]]))
        y, vectors_there = np.empty((5, 1 + n, n), kind), np.empty_like(x)
        assert run(kernels, "eigh", y=y, x=given, vectors=vectors_there, batch=5, n=n) == OK
        assert np.isnan(y[4]).all()
        for matrix, found in zip(x[:4], y, strict=False):
            values, vectors = found[0], found[1:]
            size = max(float(abs(matrix).max(initial=0)), 1)
            close(values / size, np.linalg.eigvalsh(matrix.astype("float64") / size).astype(kind))
            assert (np.diff(values) >= 0).all()
            assert abs(vectors.T @ vectors - np.eye(n)).max(initial=0) < 32 * np.finfo(kind).eps  # many rotations
            close(matrix / size @ vectors, vectors * (values / size))


def test_singular_values(kernels: Kernels) -> None:
    # More would take the emulator long; the last does not fit shared memory.
    larger = (("float32", 16), ("float32", 17), ("float64", 65))
    sizes = (17,) if SANITIZE else sizes_for(kernels)
    for kind, n in product(KINDS, (0, *sizes) if sizes_for(kernels) else ()):
        if n > 8 and (kind, n) not in larger:
            continue
        x = matrices(6, n, n, kind)
        x[1] = np.eye(n)[::-1] * np.where(np.arange(n) % 2, 3, -2)  # equal singular values
        x[2] = 0
        x[3] = np.outer(x[3, :1], x[3, :1]) * (1e30 if kind == "float32" else 1e200)  # of rank 1; squares overflow
        x[4] = np.where(np.arange(n)[:, None] < n // 2, x[4], 0) * (1e-35 if kind == "float32" else 1e-300)
        if n:
            x[5, 0, -1] = -np.inf
        chosen = [*range(6)] if n <= 8 else [0, 5] if n == 65 else [0, 3, 5]
        y, rotated = np.empty((len(chosen), 2 * n + 1, n), kind), np.empty((len(chosen), n, n), kind)
        arguments = {"x": unaligned(x[chosen]), "rotated": rotated, "batch": len(chosen), "n": n}
        assert run(kernels, "svd", y=y, vectors=1, **arguments) == OK
        if n <= 8:
            values_alone = np.empty((6, 1, n), kind)
            assert run(kernels, "svd", y=values_alone, **arguments) == OK
            np.testing.assert_array_equal(values_alone[:, 0], y[:, n])
        assert np.isnan(y[-1]).all()
        for matrix, found in zip(x[chosen[:-1]], y, strict=False):
            size = float(abs(matrix).max(initial=0)) or 1.0
            wide = matrix.astype("float64") / size
            u, values, v = found[:n].astype("float64"), found[n] / size, found[n + 1 :].astype("float64")
            close(values.astype(kind), np.linalg.svd(wide, compute_uv=False).astype(kind))
            assert (np.diff(values) <= 0).all() and (values >= 0).all()
            for vectors in (u, v):
                assert abs(vectors.T @ vectors - np.eye(n)).max(initial=0) < 32 * np.finfo(kind).eps
            close(((u * values) @ v.T).astype(kind), wide.astype(kind))


def test_triangular_systems(kernels: Kernels) -> None:
    for kind, n in product(KINDS, sizes_for(kernels)):
        columns = (1, 3, 40)[n % 3]
        x = positive(2, n, kind)
        b = matrices(2, n, columns, kind, 7)
        y = np.empty_like(b)
        for upper in (0, 1):
            for unit in (0, 1):
                a = np.triu(x) if upper else np.tril(x)
                a = a / n if unit else a
                expected = np.linalg.solve((np.eye(n) + (np.triu(a, 1) if upper else np.tril(a, -1))) if unit else a, b)
                given = unaligned(a + (np.tril if upper else np.triu)(np.full_like(a, np.nan), -1 if upper else 1))
                turned = unaligned(np.ascontiguousarray(given.swapaxes(-1, -2)))
                dims = {"batch": 2, "n": n, "columns": columns, "upper": upper, "unit": unit, "a_batch": n * n}
                array, steps = ((given, (n, 1)), (turned, (1, n)))[(n + unit) % 2]
                steps_of = {"a_row": steps[0], "a_column": steps[1]}
                assert run(kernels, "solve_triangular", y=y, a=array, b=b, **dims, **steps_of, end=n) == OK
                close(y, expected.astype(kind))
                rows = max(n - n // 3 if n % 2 else n // 2, 1)  # of one launch of several
                starts = range(0, n, rows)
                for begin in reversed(starts) if upper else starts:
                    part = {"begin": begin, "end": min(begin + rows, n), "type": TYPES[kind]}
                    assert kernels.run("solve_triangular", y=y, a=array, b=b, **dims, **steps_of, **part) == OK
                close(y, expected.astype(kind))
        order = np.array([np.random.default_rng(i).permutation(n) for i in range(2)], np.int32)
        one = np.tril(x[0]).copy()
        dims = {"batch": 2, "n": n, "columns": columns, "a_row": n, "a_column": 1}  # one matrix for all
        y.fill(np.nan)
        for begin, end in ((0, n // 2), (n // 2, n)):
            part = {"begin": begin, "end": end, "type": TYPES[kind]}
            assert kernels.run("solve_triangular", y=y, a=one, b=b, order=order, **dims, **part) == OK
        close(y, np.linalg.solve(one, np.take_along_axis(b, order[..., None].astype(np.int64), 1)))


def test_what_has_no_factor(kernels: Kernels) -> None:
    if not sizes_for(kernels):
        return
    x = np.stack([np.eye(20), np.diag(np.r_[np.ones(19), -1])]).astype(np.float32)
    y = np.empty_like(x)
    assert run(kernels, "cholesky", y=y, x=x, batch=2, n=20) == NOT_POSITIVE
    assert run(kernels, "cholesky", y=y, x=np.full_like(x, np.nan), batch=2, n=20) == NOT_POSITIVE
    x[1, 19, 19] = 0
    dims = {"batch": 2, "n": 20, "columns": 20, "a_batch": 400, "a_row": 20, "a_column": 1, "end": 20}
    assert run(kernels, "solve_triangular", y=y, a=x, b=x, **dims) == SINGULAR
    assert run(kernels, "solve_triangular", y=y, a=x, b=x, unit=1, **dims) == OK
    with np.errstate(all="ignore"):
        assert run(kernels, "solve_triangular", y=y, a=x, b=np.ones_like(x), unit=2, **dims) == OK
    assert (y[0] == 1).all() and (y[1, :19] == 1).all() and (y[1, 19] == np.inf).all()
    for wrong in ({"begin": -1}, {"begin": 21}, {"end": 21}):
        assert run(kernels, "solve_triangular", y=y, a=x, b=x, **(dims | wrong)) == BAD_ARGUMENT
    order, exchanges = np.empty((2, 20), np.int32), np.empty((2, 20), np.int32)
    x[:] = 0
    sizes = {"batch": 2, "rows": 20, "columns": 20}
    assert run(kernels, "lu_factor", y=y, x=x, order=order, exchanges=exchanges, end=20, **sizes) == OK
    assert not y.any()
    assert run(kernels, "cholesky", y=y, x=x, batch=2, n=513) == BAD_ARGUMENT
    for begin, end in ((-1, 20), (20, 10), (0, 21)):
        assert run(kernels, "lu_factor", y=y, x=x, begin=begin, end=end, **sizes) == BAD_ARGUMENT
    assert run(kernels, "lu_factor", y=y, x=x, batch=2, rows=2, columns=100, end=65) == BAD_ARGUMENT  # 64 at most
    assert run(kernels, "eigh", y=y, x=x, vectors=x, batch=2, n=513) == BAD_ARGUMENT
    assert run(kernels, "svd", y=y, x=x, rotated=x, batch=2, n=513) == BAD_ARGUMENT
    assert run(kernels, "qr", y=y, x=x, taus=x, batch=2, rows=3, columns=20) == BAD_ARGUMENT
