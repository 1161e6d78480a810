"""Kernels that select elements by condition and by index, and place them by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    INDEX_RANGE,
    OK,
    TYPES,
    Kernels,
    aligned,
    dims,
    element_strides,
    number_bits,
    read_opcodes,
    store_as,
    unaligned,
    values_of,
)

SCATTER = read_opcodes("scatter")
CODES = {name: code for code, name in enumerate(SCATTER)}
OF_SIZE = {1: np.uint8, 2: np.float16, 4: np.float32, 8: np.int64}
COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def numbers(shape: tuple[int, ...], size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 100, shape).astype(OF_SIZE[size])


# ---- where


def where(kernels: Kernels, condition: np.ndarray, a: Any, b: Any, size: int, place: Any = unaligned) -> np.ndarray:
    shape = np.broadcast_shapes(condition.shape, *(x.shape for x in (a, b) if isinstance(x, np.ndarray)))
    y = place(np.empty(shape, OF_SIZE[size]))
    arguments: dict[str, Any] = {"element_bytes": size, "rank": len(shape), "condition": condition}
    arguments |= dims("shape", shape) | dims("c", element_strides(np.broadcast_to(condition, shape)))
    for key, x in (("a", a), ("b", b)):
        if isinstance(x, np.ndarray):
            arguments |= {key: x, **dims(key, element_strides(np.broadcast_to(x, shape)))}
        else:
            arguments[f"{key}_bits"] = int.from_bytes(OF_SIZE[size](x).tobytes(), "little")
    run_checked(kernels, "where", "y", y=y, **arguments)
    return y


@pytest.mark.parametrize("size", OF_SIZE)
def test_where(kernels: Kernels, size: int) -> None:
    condition = np.random.default_rng(1).random((4, 3, 90)) < 0.5
    a, b = numbers((4, 3, 90), size), numbers((90, 3, 4), size, 1).transpose(2, 1, 0)
    for c, u, v in (
        (condition, a, b),
        (condition[:, :1], a[:, :, :1], b),
        (condition, a, 7),
        (condition, 9, b[:1]),
        (condition, 1, 0),
        (condition[::2, ::-1, ::3], a[::2, :, :30], b[1, 1, 5:6]),
        (condition[:0], a[:0], b[:0]),
    ):
        np.testing.assert_array_equal(where(kernels, c, u, v, size), np.where(c, u, v))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_where_of_aligned_rows(kernels: Kernels, size: int) -> None:
    condition = aligned(np.random.default_rng(1).random((3, 5, 48)) < 0.5)
    a, b = aligned(numbers((3, 5, 48), size)), aligned(numbers((3, 5, 48), size, 1))
    for c, u, v in (
        (condition, a, b),
        (condition[:, :1], a, 7),
        (condition[:, :, :1], a[1], b[:, 2:3]),
        (condition, a[..., :1], b[:, ::-1]),
    ):
        np.testing.assert_array_equal(where(kernels, c, u, v, size, aligned), np.where(c, u, v))


def test_where_copies_bits(kernels: Kernels) -> None:
    """NaN with its payload, and -0."""
    a = np.array([0x7FC12345, 0x80000000], np.uint32).view(np.float32)
    y = where(kernels, np.array([True, True]), a, np.zeros(2, np.float32), 4)
    assert y.tobytes() == a.tobytes()


# ---- gather


def gather(kernels: Kernels, x: np.ndarray, dim: int, index: np.ndarray, code: int = OK) -> np.ndarray:
    y = unaligned(np.zeros(index.shape, x.dtype))
    arguments: dict[str, Any] = {"element_bytes": x.itemsize, "index_type": TYPES[str(index.dtype)], "rank": x.ndim}
    arguments |= {"dim": dim, "size": x.shape[dim], **dims("shape", index.shape)}
    arguments |= dims("x", element_strides(x)) | dims("index", element_strides(index))
    if code:
        assert kernels.run("gather", y=y, x=x, index=index, **arguments) == code
    else:
        run_checked(kernels, "gather", "y", y=y, x=x, index=index, **arguments)
    return y


@pytest.mark.parametrize("size", OF_SIZE)
@pytest.mark.parametrize("index_type", ["int64", "int32"])
def test_gather(kernels: Kernels, size: int, index_type: str) -> None:
    rng = np.random.default_rng(2)
    whole = numbers((5, 6, 300), size)
    for x in (whole, whole.transpose(2, 0, 1), whole[::2, ::-1, ::7]):
        for dim in range(3):
            shape = list(x.shape)
            shape[dim] = 9
            index = rng.integers(0, x.shape[dim], shape).astype(index_type)
            np.testing.assert_array_equal(
                gather(kernels, x, dim, index), np.take_along_axis(x, index.astype(np.int64), dim)
            )
    index = rng.integers(0, 6, (4, 2, 8)).astype(index_type)  # smaller than x in the other dims
    expected = np.take_along_axis(whole[:4, :, :8], index.astype(np.int64), 1)
    np.testing.assert_array_equal(gather(kernels, whole, 1, index), expected)


def test_gather_checks_indices(kernels: Kernels) -> None:
    x = numbers((4, 5), 4)
    for bad in (-1, 5, 2**40, -(2**40)):
        index = np.zeros((4, 5), np.int64)
        index[3, 4] = bad
        gather(kernels, x, 1, index, code=INDEX_RANGE)


# ---- scatter


def scatter(
    kernels: Kernels, name: str, dtype: str, y: np.ndarray, dim: int, index: np.ndarray, source: Any, code: int = OK
) -> np.ndarray:
    y = y.copy()
    arguments: dict[str, Any] = {"opcode": CODES[name], "type": TYPES[dtype], "index_type": TYPES[str(index.dtype)]}
    arguments |= {"rank": y.ndim, "dim": dim, "size": y.shape[dim], **dims("shape", index.shape)}
    arguments |= dims("y", element_strides(y)) | dims("index", element_strides(index))
    if isinstance(source, np.ndarray):
        arguments |= {"source": source, **dims("source", element_strides(source))}
    else:
        arguments["number"] = number_bits(dtype, source)
    if code:
        before = y.copy()
        assert kernels.run("scatter", y=y, index=index, **arguments) == code
        assert y.tobytes() == before.tobytes()
    else:
        run_checked(kernels, "scatter", "y", y=y, index=index, **arguments)
    return y


def scatter_reference(name: str, dtype: str, y: np.ndarray, dim: int, index: np.ndarray, source: Any) -> np.ndarray:
    y = y.copy()
    for at in np.ndindex(index.shape):
        to = (*at[:dim], int(index[at]), *at[dim + 1 :])
        value = source[at] if isinstance(source, np.ndarray) else store_as(dtype, np.array(source))
        if name == "set":
            y[to] = value
        else:
            old, new = values_of(dtype, np.asarray(y[to])), values_of(dtype, np.asarray(value))
            with np.errstate(over="ignore"):
                y[to] = store_as(dtype, np.asarray(COMBINE[name](old, new)))
    return y


@pytest.mark.parametrize("name, dtype", [(name, dtype) for name, (dtypes, _) in SCATTER.items() for dtype in dtypes])
def test_scatter(kernels: Kernels, name: str, dtype: str) -> None:
    """Indices that come often: the result has the order of the elements."""
    rng = np.random.default_rng(4)
    plain = "uint8" if dtype.startswith("float8") else dtype
    y, source = store_as(plain, rng.integers(0, 5, (3, 4, 6))), store_as(plain, rng.integers(0, 5, (3, 9, 6)))
    index = rng.integers(0, 4, (3, 9, 6))
    for i, s in (
        (index, source),
        (index.astype(np.int32), source[:, ::-1]),
        (index[:2, 1:3, ::2], source[:2, :2, ::2]),
    ):
        np.testing.assert_array_equal(
            scatter(kernels, name, dtype, y, 1, i, s), scatter_reference(name, plain, y, 1, i, s)
        )
    if not dtype.startswith("float8"):
        found = scatter(kernels, name, dtype, y, 1, index, 2)
        np.testing.assert_array_equal(found, scatter_reference(name, dtype, y, 1, index, 2))
    wide, beside = store_as(plain, rng.integers(0, 5, (2, 4, 50))), rng.integers(0, 3, (2, 3, 50))  # rows at once
    np.testing.assert_array_equal(
        scatter(kernels, name, dtype, wide[:, :3], 1, beside, wide[:, 1:]),
        scatter_reference(name, plain, wide[:, :3], 1, beside, wide[:, 1:]),
    )
    flat, flat_index = y.ravel(), rng.integers(0, 72, 200)
    flat_source = store_as(plain, rng.integers(0, 5, 200))
    found = scatter(kernels, name, dtype, flat, 0, flat_index, flat_source)
    np.testing.assert_array_equal(found, scatter_reference(name, plain, flat, 0, flat_index, flat_source))


def test_scatter_checks_before_it_writes(kernels: Kernels) -> None:
    y, source = normal(4, 5), normal(4, 5, seed=1)
    for bad in (-1, 5, 2**40):
        index = np.zeros((4, 5), np.int64)
        index[3, 4] = bad
        scatter(kernels, "set", "float32", y, 1, index, source, code=INDEX_RANGE)
    index = np.zeros((4, 5), np.int64)
    arguments = {"opcode": 0, "type": TYPES["float32"], "index_type": TYPES["int64"], "rank": 2, "dim": 1, "size": 5}
    arguments |= {"shape0": 4, "shape1": 5}
    for bad in ({"opcode": 9}, {"type": 99}, {"rank": 5}, {"dim": 2}, {"dim": -1}, {"index_type": TYPES["int16"]}):
        assert kernels.run("scatter", y=y, index=index, **{**arguments, **bad}) == BAD_ARGUMENT, bad


# ---- several indices


def index_get(
    kernels: Kernels, x: np.ndarray, indices: list[np.ndarray], negative: int = 1, code: int = OK
) -> np.ndarray:
    """x[:, i0, i1, ...] with the indexed dims in the second and later places."""
    inner = int(np.prod(x.shape[1 + len(indices) :]))
    y = unaligned(np.zeros((x.shape[0], len(indices[0]), inner), x.dtype))
    arguments: dict[str, Any] = {"element_bytes": x.itemsize, "outer": x.shape[0], "count": len(indices[0])}
    arguments |= {"inner": inner, "x_outer": element_strides(x)[0], "negative": negative}
    for k, index in enumerate(indices):
        arguments |= {f"index{k}": index, f"size{k}": x.shape[1 + k], f"stride{k}": element_strides(x)[1 + k]}
    if code:
        assert kernels.run("index_get", y=y, x=x, **arguments) == code
    else:
        run_checked(kernels, "index_get", "y", y=y, x=x, **arguments)
    return y


@pytest.mark.parametrize("size", OF_SIZE)
@pytest.mark.parametrize("inner", [1, 2, 13])
def test_index_get(kernels: Kernels, size: int, inner: int) -> None:
    rng = np.random.default_rng(6)
    x = numbers((3, 4, 5, 6, inner), size)
    i, j, k = rng.integers(-4, 4, 20), rng.integers(-5, 5, 20), rng.integers(-6, 6, 20)
    np.testing.assert_array_equal(index_get(kernels, x, [i, j, k]), x[:, i, j, k])
    np.testing.assert_array_equal(index_get(kernels, x, [i, j]).reshape(3, 20, 6, inner), x[:, i, j])
    np.testing.assert_array_equal(index_get(kernels, x, [i]).reshape(3, 20, 5, 6, inner), x[:, i])
    np.testing.assert_array_equal(index_get(kernels, x[::2], [i, j, k]), x[::2, i, j, k])


def test_index_get_checks_indices(kernels: Kernels) -> None:
    x = numbers((1, 4, 5), 4)
    good = np.array([0, 3], np.int64)
    for bad in (4, -5, 2**40):
        index_get(kernels, x, [np.array([0, bad]), good], code=INDEX_RANGE)
        index_get(kernels, x, [good, np.array([0, bad + 1 if bad > 0 else bad - 1])], code=INDEX_RANGE)
    index_get(kernels, x, [np.array([0, -1]), good], negative=0, code=INDEX_RANGE)


@pytest.mark.parametrize("name", SCATTER)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_index_put(kernels: Kernels, name: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for shape, count in (((3, 4, 5, 7), 30), ((1, 9, 8, 1), 200), ((2, 3, 3, 300), 5)):
        y = store_as(dtype, rng.integers(0, 5, shape))
        outer, _, _, inner = shape
        i, j = rng.integers(-shape[1], shape[1], count), rng.integers(-shape[2], shape[2], count)
        source = store_as(dtype, rng.integers(0, 3, (outer, count, inner)))
        for s in (
            source,
            np.broadcast_to(source[:, :1], source.shape),
            np.broadcast_to(source[0, 0, :1], source.shape),
        ):
            expected = y.copy()
            for o in range(outer):
                for n in range(count):
                    old, new = expected[o, i[n], j[n]], s[o, n]
                    if name == "set":
                        expected[o, i[n], j[n]] = new
                    else:
                        both = COMBINE[name](values_of(dtype, old), values_of(dtype, new))
                        expected[o, i[n], j[n]] = store_as(dtype, both)
            strides = element_strides(y)
            arguments: dict[str, Any] = {"opcode": CODES[name], "type": TYPES[dtype], "outer": outer, "count": count}
            arguments |= {"inner": inner, "y_outer": strides[0], "index0": i, "index1": j, "source": s}
            arguments |= {"size0": shape[1], "size1": shape[2], "stride0": strides[1], "stride1": strides[2]}
            arguments |= dict(zip(("source_outer", "source_count", "source_inner"), element_strides(s), strict=True))
            found = y.copy()
            run_checked(kernels, "index_put", "y", y=found, **arguments)
            np.testing.assert_array_equal(found, expected)
            bad = i.copy()
            bad[-1] = shape[1]
            before = found.copy()
            assert kernels.run("index_put", y=found, **{**arguments, "index0": bad}) == INDEX_RANGE
            assert found.tobytes() == before.tobytes()
