"""Attention over a cache against a softmax of all scores in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, POSITION_RANGE, Kernels, unaligned

SHAPES = [  # tokens, heads, kv_heads, head_dim, position, capacity
    (0, 2, 2, 8, 0, 4),
    (1, 1, 1, 1, 0, 1),
    (1, 6, 6, 48, 0, 4),
    (1, 6, 3, 48, 62, 64),
    (1, 8, 4, 8, 300, 512),
    (1, 12, 2, 64, 63, 70),
    (1, 9, 1, 33, 130, 131),
    (2, 4, 4, 80, 0, 2),
    (3, 2, 1, 3, 62, 65),
    (5, 8, 2, 128, 1, 7),
    (31, 3, 3, 31, 50, 100),
    (33, 4, 2, 48, 0, 33),
    (70, 2, 2, 64, 70, 140),
    (17, 1, 1, 1000, 5, 30),
    (130, 2, 1, 4, 0, 130),
]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, position: int, causal: bool, scale: float) -> np.ndarray:
    """q (tokens, heads, head_dim), k and v (kv_heads, capacity, head_dim): the definition, row by row."""
    tokens, heads, _ = q.shape
    y = np.zeros(q.shape)
    for t in range(tokens):
        seen = position + (t + 1 if causal else tokens)
        for h in range(heads):
            kv = h // (heads // k.shape[0])
            scores = (k[kv, :seen].astype(np.float64) @ q[t, h].astype(np.float64)) * scale
            with np.errstate(invalid="ignore"):
                weights = np.exp(scores - scores.max())
                y[t, h] = (weights / weights.sum()) @ v[kv, :seen].astype(np.float64)
    return y


class Case:
    """One attention: inputs with strides and guards; what lies beyond the written positions of the cache is NaN."""

    def __init__(self, shape: tuple[int, ...], causal: int = 1, scale: float | None = None) -> None:
        self.tokens, self.heads, self.kv_heads, self.dims, self.position, self.capacity = shape
        self.causal, self.scale = causal, self.dims**-0.5 if scale is None else scale
        self.q = normal(self.tokens, self.heads, self.dims, seed=1)
        self.k, self.v = (unaligned(normal(self.kv_heads, self.capacity, self.dims, seed=seed)) for seed in (2, 3))
        for cache in (self.k, self.v):
            cache[:, self.position + self.tokens :] = np.nan

    def arguments(self) -> dict[str, Any]:
        sizes = {
            "tokens": self.tokens,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.dims,
            "capacity": self.capacity,
        }
        place = {"position": np.array([self.position], np.int32), "causal": self.causal, "scale": self.scale}
        return dict(k=self.k, v=self.v, **sizes, **place)

    def run(self, kernels: Kernels) -> np.ndarray:
        width = self.heads * self.dims
        q, y = np.full((self.tokens, width + 3), GUARD), np.full((self.tokens, width + 1), GUARD)
        q[:, :width] = self.q.reshape(self.tokens, width)
        run_checked(kernels, "attention_f32", "y", y=y, q=q, y_stride=width + 1, q_stride=width + 3, **self.arguments())
        assert (y[:, width:] == GUARD).all()
        return y[:, :width].reshape(self.q.shape)

    def expected(self) -> np.ndarray:
        return attention(self.q, self.k, self.v, self.position, bool(self.causal), self.scale)


@pytest.mark.parametrize("causal", [1, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_attention(kernels: Kernels, shape: tuple[int, ...], causal: int) -> None:
    case = Case(shape, causal)
    np.testing.assert_allclose(case.run(kernels), case.expected(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(1, 4, 2, 48, 90, 100), (33, 4, 2, 48, 7, 100)])
def test_large_scores_stay_finite(kernels: Kernels, shape: tuple[int, ...]) -> None:
    case = Case(shape, scale=30.0)
    np.testing.assert_allclose(case.run(kernels), case.expected(), rtol=2e-3, atol=2e-4)


def test_in_place(kernels: Kernels) -> None:
    case = Case((33, 4, 2, 48, 7, 100))
    expected, y = case.run(kernels), case.q.copy()
    run_checked(kernels, "attention_f32", "y", y=y, q=y, y_stride=4 * 48, q_stride=4 * 48, **case.arguments())
    assert y.tobytes() == expected.tobytes()


def test_a_token_does_not_depend_on_the_others(kernels: Kernels) -> None:
    case = Case((40, 6, 2, 48, 60, 100))
    together = case.run(kernels)
    for t in (0, 3, 4, 39):
        alone = Case((1, 6, 2, 48, 60 + t, 100))
        alone.q, alone.k, alone.v = case.q[t : t + 1], case.k, case.v
        np.testing.assert_array_equal(alone.run(kernels)[0], together[t])


def test_later_positions_never_leak(kernels: Kernels) -> None:
    case = Case((20, 2, 2, 33, 55, 100))
    clean = case.run(kernels)
    case.k[:, 70:], case.v[:, 70:] = np.nan, np.inf  # the tokens from 15 on see these
    poisoned = case.run(kernels)
    assert poisoned[:15].tobytes() == clean[:15].tobytes()
    assert np.isnan(poisoned[15:]).all()


@pytest.mark.parametrize("tokens", [1, 20])
def test_nan_and_infinite_scores(kernels: Kernels, tokens: int) -> None:
    shape = (tokens, 2, 2, 16, 150, 200)
    nan = Case(shape)
    nan.k[0, 100, 5] = np.nan
    y = nan.run(kernels)
    assert np.isnan(y[:, 0]).all() and np.isfinite(y[:, 1]).all()
    below = Case(shape)
    below.q[:] = np.abs(below.q)
    below.k[0, :130] = -np.inf  # whole blocks without weight
    y = below.run(kernels)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(y, below.expected(), rtol=2e-5, atol=2e-6)
    below.k[0] = -np.inf
    y = below.run(kernels)
    assert np.isnan(y[:, 0]).all() and np.isfinite(y[:, 1]).all()
    above = Case(shape)
    above.q[:] = np.abs(above.q)
    above.k[0, 3] = np.inf
    assert np.isnan(above.run(kernels)[:, 0]).all()


@pytest.mark.parametrize("position", [-1, -(2**31), 8, 2**31 - 1])
def test_positions_outside_write_nothing(kernels: Kernels, position: int) -> None:
    y, x, cache = np.full((3, 2, 4), GUARD), normal(3, 2, 4), np.full((2, 10, 4), GUARD)
    at = np.array([position], np.int32)
    sizes: dict[str, Any] = {"tokens": 3, "heads": 2, "head_dim": 4, "capacity": 10, "position": at}
    strides: dict[str, Any] = {"y_stride": 8, "q_stride": 8, "causal": 1, "scale": 1.0}
    assert kernels.run("attention_f32", y=y, q=x, k=cache, v=cache, kv_heads=2, **sizes, **strides) == POSITION_RANGE
    assert kernels.run("cache_write_f32", cache=cache, x=x, x_stride=8, **sizes) == POSITION_RANGE
    assert (y == GUARD).all() and (cache == GUARD).all()


@pytest.mark.parametrize("kv_heads, head_dim", [(0, 4), (3, 4), (2, 5000)])
def test_impossible_heads_are_refused(kernels: Kernels, kv_heads: int, head_dim: int) -> None:
    at = np.zeros(1, np.int32)
    sizes: dict[str, Any] = {"tokens": 1, "heads": 4, "kv_heads": kv_heads, "head_dim": head_dim, "capacity": 1}
    assert kernels.run("attention_f32", position=at, **sizes) == BAD_ARGUMENT


@pytest.mark.parametrize("tokens, heads, dims, position", [(0, 2, 4, 0), (1, 6, 48, 9), (10, 1, 3, 0), (7, 3, 33, 2)])
def test_cache_write(kernels: Kernels, tokens: int, heads: int, dims: int, position: int) -> None:
    x = normal(tokens, heads * dims + 5)
    cache = unaligned(np.full((heads, 10, dims), GUARD))
    expected = cache.copy()
    expected[:, position : position + tokens] = x[:, : heads * dims].reshape(tokens, heads, dims).transpose(1, 0, 2)
    sizes: dict[str, Any] = {
        "tokens": tokens,
        "heads": heads,
        "head_dim": dims,
        "capacity": 10,
        "x_stride": heads * dims + 5,
    }
    run_checked(kernels, "cache_write_f32", "cache", cache=cache, x=x, position=np.array([position], np.int32), **sizes)
    np.testing.assert_array_equal(cache, expected)


def test_nothing_to_attend(kernels: Kernels) -> None:
    at = np.array([-5], np.int32)
    assert kernels.run("attention_f32", tokens=0, heads=2, kv_heads=2, head_dim=4, position=at) == OK
    assert kernels.run("cache_write_f32", tokens=3, heads=0, head_dim=4, position=at) == OK
