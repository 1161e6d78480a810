"""Attention in int8 over a packed sequence, against a softmax of all scores in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels, unaligned
from tests.native.test_attention import attention

SHAPES = [  # tokens, heads, kv_heads, head_dim, keys
    (1, 1, 1, 1, 1),
    (1, 6, 6, 64, 1500),
    (1, 2, 1, 40, 65),
    (2, 4, 4, 80, 7),
    (5, 6, 3, 33, 64),
    (19, 3, 3, 31, 129),
    (21, 2, 2, 64, 200),
    (40, 2, 1, 12, 8),
    (3, 1, 1, 256, 100),
]


class Case:
    """Queries, and keys and values (keys, kv_heads, head_dim) far from zero; guards between tokens."""

    def __init__(self, shape: tuple[int, ...], offset: float = 3.0) -> None:
        self.tokens, self.heads, self.kv_heads, self.dims, self.keys = shape
        self.q = normal(self.tokens, self.heads, self.dims, seed=1, scale=2.0)
        self.k = normal(self.keys, self.kv_heads, self.dims, seed=2) + offset * normal(self.dims, seed=4)
        self.v = normal(self.keys, self.kv_heads, self.dims, seed=3)

    def packed(self, kernels: Kernels) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values packed, with nothing written beyond their ends."""
        found = []
        sizes = (
            -(-self.keys // 8) * 8 * (4 + -(-self.dims // 4) * 4),
            -(-self.keys // 64) * -(-self.dims // 8) * 8 * 68,
        )
        for name, x, size in (("pack_keys_q8", self.k, sizes[0]), ("pack_values_q8", self.v, sizes[1])):
            width = self.kv_heads * self.dims
            memory = np.full((self.keys, width + 3), GUARD)
            memory[:, :width] = x.reshape(self.keys, width)
            to = np.full(self.kv_heads * size + 64, 77, np.uint8)
            sizes_of = dict(tokens=self.keys, heads=self.kv_heads, head_dim=self.dims, x_stride=width + 3)
            run_checked(kernels, name, "packed", packed=to, x=unaligned(memory), **sizes_of)
            assert (to[-64:] == 77).all()
            found.append(to)
        return found[0], found[1]

    def run(self, kernels: Kernels) -> np.ndarray:
        k, v = self.packed(kernels)
        width = self.heads * self.dims
        q, y = np.full((self.tokens, width + 3), GUARD), np.full((self.tokens, width + 1), GUARD)
        q[:, :width] = self.q.reshape(self.tokens, width)
        run_checked(
            kernels, "attention_q8", "y", y=y, q=q, k=k, v=v, tokens=self.tokens, heads=self.heads,
            kv_heads=self.kv_heads, head_dim=self.dims, keys=self.keys, y_stride=width + 1, q_stride=width + 3,
            scale=self.dims**-0.5,
        )  # fmt: skip
        assert (y[:, width:] == GUARD).all()
        return y[:, :width].reshape(self.q.shape)

    def expected(self) -> np.ndarray:
        k, v = (x.swapaxes(0, 1) for x in (self.k, self.v))
        return attention(self.q, k, v, self.keys - self.tokens, False, self.dims**-0.5)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))


@pytest.mark.parametrize("shape", SHAPES)
def test_attention(kernels: Kernels, shape: tuple[int, ...]) -> None:
    """Keys of seven bits (avx2) have twice the error of keys of eight bits."""
    case = Case(shape)
    assert error(case.run(kernels), case.expected()) < 0.05


def test_what_keys_have_in_common_costs_nothing(kernels: Kernels) -> None:
    shape = (21, 2, 2, 64, 200)
    near, far = (Case(shape, offset) for offset in (0.0, 30.0))
    assert error(far.run(kernels), far.expected()) < 1.5 * error(near.run(kernels), near.expected()) < 0.06


def test_a_peak_is_found_and_what_lies_far_from_it_counts(kernels: Kernels) -> None:
    """One key of 1500 weighs half of all: each of the others less than a seven-bit number could tell."""
    case = Case((1, 1, 1, 8, 1500), offset=0.0)
    case.q[...], case.k[...] = 0, 0
    case.q[0, 0, 0], case.k[700, 0, 0] = 1, np.log(1499) * np.sqrt(8)
    case.v[...] = 1
    case.v[700] = 3
    np.testing.assert_allclose(case.run(kernels), 2.0, rtol=0.06)


def test_a_token_does_not_depend_on_the_others(kernels: Kernels) -> None:
    case = Case((47, 4, 2, 48, 100))
    together = case.run(kernels)
    for t in (0, 3, 19, 20, 46):
        alone = Case((1, 4, 2, 48, 100))
        alone.q, alone.k, alone.v = case.q[t : t + 1], case.k, case.v
        np.testing.assert_array_equal(alone.run(kernels)[0], together[t])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_shows(kernels: Kernels, bad: float) -> None:
    for name in "qkv":
        case = Case((6, 2, 2, 16, 70))
        getattr(case, name)[3, 1, 5] = bad
        y = case.run(kernels)
        assert np.isfinite(y[:, 0]).all()
        hit = {"q": y[3, 1], "k": y[:, 1], "v": y[:, 1, 5]}[name]
        assert np.isnan(hit).all()
        if name == "q":
            assert np.isfinite(np.delete(y[:, 1], 3, 0)).all()


def test_zeros_weigh_alike(kernels: Kernels) -> None:
    case = Case((3, 1, 1, 8, 70))
    case.q[0], case.q[1] = 0, 1e-30
    np.testing.assert_allclose(case.run(kernels)[:2, 0], np.tile(case.v.mean(0), (2, 1)), atol=0.02)
    case.k[...] = 0
    np.testing.assert_allclose(case.run(kernels)[:, 0], np.tile(case.v.mean(0), (3, 1)), atol=0.02)
    case.v[...] = 0
    assert (case.run(kernels) == 0).all()


def test_edges(kernels: Kernels) -> None:
    memory = np.zeros(4096, np.float32)
    sizes: dict[str, Any] = dict(tokens=1, heads=2, kv_heads=2, head_dim=4, keys=3)
    pointers = dict(y=memory, q=memory, k=memory, v=memory)
    for wrong in (dict(kv_heads=0), dict(heads=3), dict(keys=0), dict(head_dim=257)):
        assert kernels.run("attention_q8", **pointers, **{**sizes, **wrong}) == BAD_ARGUMENT
    for name in ("pack_keys_q8", "pack_values_q8"):
        assert kernels.run(name, tokens=3, heads=1, head_dim=257) == BAD_ARGUMENT
        assert kernels.run(name, tokens=0, heads=1, head_dim=4, packed=memory, x=memory) == OK
    assert kernels.run("attention_q8", **{**sizes, "tokens": 0}) == OK
    assert not memory.any()
