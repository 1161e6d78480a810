"""The indexer of sparse attention against scores in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, POSITION_RANGE, TYPES, Kernels

# The wasm libraries have no room for the kernels.
pytestmark = pytest.mark.native_only


@pytest.mark.parametrize("tokens, heads, size, position, count, dtype, block", [
    (1, 3, 20, 40, 7, "float32", 0), (19, 4, 33, 5, 10, "float16", 0), (9, 2, 8, 23, 1, "float16", 16),
    (2, 1, 1, 0, 30, "float32", 4), (0, 2, 4, 0, 1, "float32", 0),
])  # fmt: skip
def test_indexer(
    kernels: Kernels, tokens: int, heads: int, size: int, position: int, count: int, dtype: str, block: int
) -> None:
    length, first = 64, 2
    q, weights = normal(tokens, heads, size), normal(tokens, heads, seed=4)
    keys = np.round(normal(length, size, seed=5)).astype(dtype)  # some scores are equal
    start, y = np.array([position - first], np.int32), np.full((tokens, length), GUARD, np.float32)
    sizes = {"tokens": tokens, "heads": heads, "head_dim": size, "type": TYPES[dtype], "first": first, "count": count}
    sizes |= {"capacity": block or length, "parts": length // block if block else 1}
    memory, table = keys, None
    if block:
        table = np.random.default_rng(1).permutation(length // block).astype(np.int32)
        memory = np.empty_like(keys)
        memory.reshape(-1, block, size)[table] = keys.reshape(-1, block, size)
        sizes["blocks"] = length // block
    inputs = {"q": q, "weights": weights, "keys": memory, "position": start, "table": table}
    run_checked(kernels, "indexer_scores", "y", y=y, **inputs, **sizes)
    exact = np.maximum(np.einsum("thd,sd->ths", q.astype(np.float64), keys.astype(np.float64)), 0)
    exact = (exact * weights[:, :, None]).sum(1)
    found = np.zeros((tokens, count), np.int32)
    chosen = {"tokens": tokens, "length": length, "first": first, "count": count}
    run_checked(kernels, "indexer_places", "places", places=found, scores=y, position=start, **chosen)
    for t in range(tokens):
        seen = position + t + 1
        if seen <= count:
            np.testing.assert_array_equal(found[t], np.arange(count))
            continue
        np.testing.assert_allclose(y[t, :seen], exact[t, :seen], rtol=1e-5, atol=1e-5)
        assert (y[t, position + tokens :] == GUARD).all()
        np.testing.assert_array_equal(found[t], np.sort(np.argsort(-y[t, :seen], kind="stable")[:count]))
    if tokens:
        start[0] = length
        assert kernels.run("indexer_scores", y=y, **inputs, **sizes) == POSITION_RANGE
        assert kernels.run("indexer_places", places=found, scores=y, position=start, **chosen) == POSITION_RANGE
    if block and count == 1:
        start[0], table[0] = 20, length
        assert kernels.run("indexer_scores", y=y, **inputs, **sizes) == INDEX_RANGE


def test_sizes_are_checked(kernels: Kernels) -> None:
    x, usual = normal(1), {"tokens": 1, "head_dim": 1}
    for sizes in ({"head_dim": 513}, {"tokens": -1}, {"type": TYPES["int8"]}):
        assert kernels.run("indexer_scores", y=x, q=x, weights=x, keys=x, position=x, **usual | sizes) == BAD_ARGUMENT
    for sizes in ({"tokens": -1}, {"tokens": 1, "length": 3, "count": 4}):
        assert kernels.run("indexer_places", places=x, scores=x, position=x, **sizes) == BAD_ARGUMENT
