"""Rows of tables by id."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import GUARD, assert_guarded, normal, run_checked, strided
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, SIZES, Kernels, from_bf16, to_bf16, unaligned

FORMATS = ["f16", "bf16"]
VOCABULARY = 37


def table(kind: str, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """A table as the kernel reads it, and its float32 values."""
    values = normal(VOCABULARY, columns)
    if kind == "f16":
        return values.astype(np.float16), values.astype(np.float16).astype(np.float32)
    return to_bf16(values), from_bf16(to_bf16(values))


@pytest.mark.parametrize("tokens", [0, 1, 9])
@pytest.mark.parametrize("columns", [*SIZES, 288])
@pytest.mark.parametrize("kind", FORMATS)
def test_embedding(kernels: Kernels, kind: str, columns: int, tokens: int) -> None:
    stored, values = table(kind, columns)
    ids = np.random.default_rng(6).integers(0, VOCABULARY, tokens, np.int32)
    ids[:2] = [0, VOCABULARY - 1][:tokens]
    memory, y = strided(np.zeros((tokens, columns), np.float32))
    sizes = {"tokens": tokens, "columns": columns, "vocabulary": VOCABULARY, "y_stride": memory.shape[1]}
    run_checked(kernels, f"embedding_{kind}", "y", y=memory, w=unaligned(stored), ids=ids, **sizes)
    np.testing.assert_array_equal(y, values[ids])
    assert_guarded(memory, columns)


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("kind", FORMATS)
def test_an_id_outside_writes_nothing(kernels: Kernels, kind: str, wrong: int) -> None:
    stored, _ = table(kind, 8)
    y = np.full((3, 8), GUARD)
    ids = np.array([1, 2, wrong], np.int32)
    code = kernels.run(
        f"embedding_{kind}", y=y, w=stored, ids=ids, tokens=3, columns=8, vocabulary=VOCABULARY, y_stride=8
    )
    assert code == INDEX_RANGE
    assert (y == GUARD).all()


@pytest.mark.parametrize("dtype", ["i1", "f2", "u4", "f4", "f8", "i8", "c16"])
@pytest.mark.parametrize("ids_of", ["i4", "i8"])
@pytest.mark.parametrize("columns", [*SIZES, 70])
def test_rows_of_any_dtype_are_copied(kernels: Kernels, dtype: str, ids_of: str, columns: int) -> None:
    w = (normal(VOCABULARY, columns) * 50).astype(dtype)
    ids = np.random.default_rng(6).integers(0, VOCABULARY, 9).astype(ids_of)
    memory = unaligned(np.full((9, columns + 5), 7, w.dtype))
    sizes = {"tokens": 9, "columns": columns, "vocabulary": VOCABULARY, "y_stride": columns + 5}
    sizes |= {"element_bytes": w.itemsize, "id_bytes": ids.itemsize}
    run_checked(kernels, "embedding_copy", "y", y=memory, w=unaligned(w), ids=unaligned(ids), **sizes)
    np.testing.assert_array_equal(memory[:, :columns], w[ids])
    assert (memory[:, columns:] == 7).all()
    before = memory.copy()
    for wrong in (-1, VOCABULARY, *([2**32, -(2**63)] if ids_of == "i8" else [])):
        ids[7] = wrong
        code = kernels.run("embedding_copy", y=memory, w=unaligned(w), ids=unaligned(ids), **sizes)
        assert code == (INDEX_RANGE if columns else OK)
        np.testing.assert_array_equal(memory, before)


@pytest.mark.parametrize("sizes", [{"element_bytes": 0, "id_bytes": 4}, {"element_bytes": 4, "id_bytes": 2}])
def test_copies_of_unknown_sizes_are_refused(kernels: Kernels, sizes: dict[str, int]) -> None:
    some = np.zeros(8, np.int64)
    sizes = {"tokens": 1, "columns": 1, "vocabulary": 1, "y_stride": 1, **sizes}
    assert kernels.run("embedding_copy", y=some, w=some, ids=some, **sizes) == BAD_ARGUMENT


def test_wide_halves_are_exact(kernels: Kernels) -> None:
    w = np.arange(65_536, dtype=np.uint32).astype(np.uint16).reshape(256, 256)
    y = np.empty((256, 256), np.float32)
    ids = np.arange(256, dtype=np.int32)
    assert kernels.run("embedding_f16", y=y, w=w, ids=ids, tokens=256, columns=256, vocabulary=256, y_stride=256) == OK
    np.testing.assert_array_equal(y, w.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("tokens", [0, 1, 9, 200])
@pytest.mark.parametrize("columns", [*SIZES, 288])
def test_backward(kernels: Kernels, columns: int, tokens: int, dtype: type) -> None:
    ids = np.random.default_rng(6).integers(0, VOCABULARY // 2, tokens, dtype)
    grad_y = unaligned(normal(tokens, columns))
    memory = unaligned(np.full(VOCABULARY * columns + 8, GUARD))
    exact = np.zeros((VOCABULARY, columns))
    np.add.at(exact, ids, grad_y)
    sizes = {"tokens": tokens, "columns": columns, "vocabulary": VOCABULARY, "id_bytes": ids.itemsize}
    run_checked(kernels, "embedding_backward_f32", "grad_w", grad_w=memory, grad_y=grad_y, ids=ids, **sizes)
    found = memory[: exact.size].reshape(exact.shape)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert (found[VOCABULARY // 2 :] == 0).all() and (memory[exact.size :] == GUARD).all()


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 1 << 32])
def test_backward_refuses_ids_outside(kernels: Kernels, wrong: int) -> None:
    grad_w, ids = np.full((VOCABULARY, 8), GUARD), np.array([1, wrong])
    sizes = {"tokens": 2, "columns": 8, "vocabulary": VOCABULARY, "id_bytes": 8}
    code = kernels.run("embedding_backward_f32", grad_w=grad_w, grad_y=normal(2, 8), ids=ids, **sizes)
    assert code == INDEX_RANGE and (grad_w == GUARD).all()


@pytest.mark.native_only  # the wasm libraries have no room for the kernel
@pytest.mark.parametrize("columns", [1, 7, 37, 64, 200])
@pytest.mark.parametrize("ids_of", ["i4", "i8"])
def test_embedding_bag(kernels: Kernels, ids_of: str, columns: int) -> None:
    w = normal(VOCABULARY, columns)
    ids = np.random.default_rng(6).integers(0, VOCABULARY, 12).astype(ids_of)
    sizes = {"tokens": 12, "columns": columns, "vocabulary": VOCABULARY, "id_bytes": ids.itemsize}
    for starts in (None, np.array([0, 0, 5, 11, 12], np.int64)):
        begins = range(0, 12, 4) if starts is None else starts
        bags = [w[ids[a:b]].astype(np.float64) for a, b in zip(begins, [*begins[1:], 12], strict=True)]
        for mean in (0, 1):
            y = np.full((len(bags), columns), np.nan, np.float32)
            arguments = {"w": unaligned(w), "ids": unaligned(ids), "starts": starts, "bags": len(bags), "mean": mean}
            run_checked(kernels, "embedding_bag_f32", "y", y=y, **arguments, **sizes)
            exact = [bag.sum(0) / (max(len(bag), 1) if mean else 1) for bag in bags]
            np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-6)
    for wrong in ([0, 13, 12], [0, 5, 4], [-1, 0, 3]):
        arguments |= {"starts": np.array(wrong, np.int64), "bags": 3}
        assert kernels.run("embedding_bag_f32", y=y, **arguments, **sizes) == INDEX_RANGE
    assert kernels.run("embedding_bag_f32", y=y, **(arguments | {"starts": None, "bags": 5}), **sizes) == BAD_ARGUMENT
