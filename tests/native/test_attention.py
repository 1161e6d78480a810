"""Attention over a cache against a softmax of all scores in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import (
    BAD_ARGUMENT,
    OK,
    POSITION_RANGE,
    Kernels,
    aligned,
    from_bf16,
    read_types,
    to_bf16,
    unaligned,
)

FLOAT32, FLOAT16, BFLOAT16, Q8_0 = (read_types().index(name) for name in ("float32", "float16", "bfloat16", "uint8"))

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


def options(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, position: int, window: int, softcap: float, slopes: Any, sinks: Any
) -> Any:
    """As `attention`, causal, with a window, a soft cap, slopes and sinks."""
    y = np.zeros(q.shape)
    for t in range(q.shape[0]):
        last = position + t
        keys = np.arange(max(0, last + 1 - window) if window else 0, last + 1)
        for h in range(q.shape[1]):
            kv = h // (q.shape[1] // k.shape[0])
            scores = (k[kv, keys].astype(np.float64) @ q[t, h].astype(np.float64)) * q.shape[2] ** -0.5
            scores = np.tanh(scores / softcap) * softcap if softcap else scores
            weights = np.exp(scores + (0 if slopes is None else slopes[h] * (keys - last)))
            total = weights.sum() + (0 if sinks is None else np.exp(sinks[h]))
            y[t, h] = (weights / total) @ v[kv, keys].astype(np.float64)
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
            "texts": 1,
            "type": FLOAT32,
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
        run_checked(
            kernels, "cached_attention", "y", y=y, q=q, y_stride=width + 1, q_stride=width + 3, **self.arguments()
        )
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
    run_checked(kernels, "cached_attention", "y", y=y, q=y, y_stride=4 * 48, q_stride=4 * 48, **case.arguments())
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
    sizes: dict[str, Any] = {"texts": 1, "type": FLOAT32, "tokens": 3, "heads": 2, "head_dim": 4}
    sizes |= {"capacity": 10, "position": at}
    strides: dict[str, Any] = {"y_stride": 8, "q_stride": 8, "causal": 1, "scale": 1.0}
    assert kernels.run("cached_attention", y=y, q=x, k=cache, v=cache, kv_heads=2, **sizes, **strides) == POSITION_RANGE
    assert kernels.run("cache_write", cache=cache, x=x, x_stride=8, **sizes) == POSITION_RANGE
    assert (y == GUARD).all() and (cache == GUARD).all()


@pytest.mark.parametrize("kv_heads, head_dim", [(0, 4), (3, 4), (2, 5000)])
def test_impossible_heads_are_refused(kernels: Kernels, kv_heads: int, head_dim: int) -> None:
    at = np.zeros(1, np.int32)
    sizes: dict[str, Any] = {"texts": 1, "type": FLOAT32, "tokens": 1, "heads": 4, "kv_heads": kv_heads}
    sizes |= {"head_dim": head_dim, "capacity": 1}
    assert kernels.run("cached_attention", position=at, **sizes) == BAD_ARGUMENT


@pytest.mark.parametrize("tokens, heads, dims, position", [(0, 2, 4, 0), (1, 6, 48, 9), (10, 1, 3, 0), (7, 3, 33, 2)])
def test_cache_write(kernels: Kernels, tokens: int, heads: int, dims: int, position: int) -> None:
    x = normal(tokens, heads * dims + 5)
    cache = unaligned(np.full((heads, 10, dims), GUARD))
    expected = cache.copy()
    expected[:, position : position + tokens] = x[:, : heads * dims].reshape(tokens, heads, dims).transpose(1, 0, 2)
    sizes: dict[str, Any] = {
        "texts": 1,
        "type": FLOAT32,
        "tokens": tokens,
        "heads": heads,
        "head_dim": dims,
        "capacity": 10,
        "x_stride": heads * dims + 5,
    }
    run_checked(kernels, "cache_write", "cache", cache=cache, x=x, position=np.array([position], np.int32), **sizes)
    np.testing.assert_array_equal(cache, expected)


def test_nothing_to_attend(kernels: Kernels) -> None:
    at = np.array([-5], np.int32)
    assert kernels.run("cached_attention", texts=1, tokens=0, heads=2, kv_heads=2, head_dim=4, position=at) == OK
    assert kernels.run("cache_write", texts=1, tokens=3, heads=0, head_dim=4, position=at) == OK


@pytest.mark.parametrize(
    "window, softcap, sloping, sinking",
    [
        (1, 0, 0, 0), (5, 0, 0, 0), (70, 3.0, 0, 0), (0, 2.0, 1, 0), (64, 0, 1, 0), (500, 0, 0, 0), (5, 0, 0, 1),
        (0, 2.0, 1, 1), (0, 0, 0, 40),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(1, 4, 2, 8, 130, 140), (3, 6, 2, 33, 62, 65), (70, 2, 1, 16, 70, 140)])
def test_options_of_scores(
    kernels: Kernels, shape: tuple[int, ...], window: int, softcap: float, sloping: int, sinking: int
) -> None:
    """Keys before a window may hold anything, even NaN."""
    case = Case(shape)
    slopes = np.abs(normal(case.heads, seed=9)) if sloping else None
    sinks = sinking * normal(case.heads, seed=10) if sinking else None
    expected = options(case.q, case.k, case.v, case.position, window, softcap, slopes, sinks)
    if window and case.position >= window:
        for cache in (case.k, case.v):
            cache[:, : case.position - window + 1] = np.nan
    y = np.full(case.q.shape, GUARD)
    strides = {"y_stride": case.heads * case.dims, "q_stride": case.heads * case.dims}
    extra = {"window": window, "softcap": softcap, "slopes": slopes, "sinks": sinks}
    run_checked(kernels, "cached_attention", "y", y=y, q=case.q, **strides, **case.arguments(), **extra)
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=3e-6)


def half_cache(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(memory, the numbers in it)."""
    return unaligned(x.astype(np.float16)), x.astype(np.float16).astype(np.float32)


def q8_cache(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(memory, the numbers in it): int8, then the float16 scale of each 32 columns."""
    dims = x.shape[-1]
    numbers, scales = np.zeros(x.shape, np.int8), np.zeros((*x.shape[:-1], -(-dims // 32)), np.float16)
    for block in range(scales.shape[-1]):
        part = x[..., block * 32 : block * 32 + 32]
        scale = np.abs(part).max(-1, keepdims=True) / np.float32(127)
        scales[..., block] = scale[..., 0]
        numbers[..., block * 32 : block * 32 + 32] = np.rint(part * (np.float32(1) / scale))
    memory = np.concatenate([numbers.view(np.uint8), scales.view(np.uint8)], -1)
    return unaligned(memory), numbers * np.repeat(scales.astype(np.float32), 32, -1)[..., :dims]


def bfloat16_cache(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(memory, the numbers in it)."""
    return unaligned(to_bf16(x)), from_bf16(to_bf16(x))


TYPES = {"float16": (FLOAT16, half_cache), "q8_0": (Q8_0, q8_cache)}
EVERY_TYPE = {  # bfloat16: CUDA alone
    "float32": (FLOAT32, lambda x: (unaligned(x), x)), **TYPES, "bfloat16": (BFLOAT16, bfloat16_cache)
}  # fmt: skip


def has_caches(kernels: Kernels, name: str) -> bool:
    return name != "bfloat16" or isinstance(kernels, EmulatedKernels)


@pytest.mark.parametrize("name", [*TYPES, "bfloat16"])
@pytest.mark.parametrize(
    "tokens, heads, kv_heads, dims, capacity",
    [(1, 6, 2, 48, 150), (20, 2, 2, 64, 150), (3, 2, 1, 33, 7), (2, 1, 1, 300, 9)],
)
def test_caches_of_other_types(
    kernels: Kernels, name: str, tokens: int, heads: int, kv_heads: int, dims: int, capacity: int
) -> None:
    """Two texts, each at its own position."""
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    q, y = normal(2 * tokens, heads, dims, seed=1), np.full((2 * tokens, heads, dims), GUARD)
    (k, keys), (v, values) = (convert(normal(2, kv_heads, capacity, dims, seed=seed)) for seed in (2, 3))
    starts = [capacity - tokens, 1]
    sizes: dict[str, Any] = {"texts": 2, "type": code, "tokens": tokens, "heads": heads, "kv_heads": kv_heads}
    sizes |= {"head_dim": dims, "capacity": capacity, "y_stride": heads * dims, "q_stride": heads * dims}
    at = np.array(starts, np.int32)
    run_checked(kernels, "cached_attention", "y", y=y, q=q, k=k, v=v, position=at, causal=1, scale=0.2, **sizes)
    for text, start in enumerate(starts):
        rows = slice(text * tokens, (text + 1) * tokens)
        expected = attention(q[rows], keys[text], values[text], start, True, 0.2)
        bound = {"float16": 2e-3, "bfloat16": 16e-3}.get(name)
        if isinstance(kernels, EmulatedKernels) and bound and tokens > 8:  # CUDA's tensor cores: see below
            assert np.abs(y[rows] - expected).max() < bound * np.abs(expected).max()
        else:
            np.testing.assert_allclose(y[rows], expected, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("dims, tokens, window", [(64, 130, 0), (96, 70, 90), (256, 70, 0), (48, 9, 3)])
@pytest.mark.parametrize("softcap, sloped", [(0.0, False), (3.0, False), (0.0, True)])
def test_prompts_with_float16_caches(
    kernels: Kernels, dims: int, tokens: int, window: int, softcap: float, sloped: bool
) -> None:
    """Many tokens: CUDA's tensor cores round queries and weights to float16."""
    heads, kv_heads, capacity, start = 4, 2, 200, 60
    q, y = normal(tokens, heads, dims, seed=1), np.full((tokens, heads, dims), GUARD)
    (k, keys), (v, values) = (half_cache(normal(kv_heads, capacity, dims, seed=seed)) for seed in (2, 3))
    slopes = np.array([0.5, 0.1, 0.02, 0.0], np.float32)
    arguments: dict[str, Any] = {"texts": 1, "type": FLOAT16, "tokens": tokens, "heads": heads, "kv_heads": kv_heads}
    arguments |= {"head_dim": dims, "capacity": capacity, "y_stride": heads * dims, "q_stride": heads * dims}
    arguments |= {"window": window, "softcap": softcap, "slopes": slopes if sloped else None}
    at, scale = np.array([start], np.int32), dims**-0.5
    run_checked(kernels, "cached_attention", "y", y=y, q=q, k=k, v=v, position=at, causal=1, scale=scale, **arguments)
    for head in range(heads):
        scores = q[:, head].astype(np.float64) @ keys[head // 2].T * scale
        if softcap:
            scores = np.tanh(scores / softcap) * softcap
        last = start + np.arange(tokens)[:, None]
        if sloped:
            scores = scores + slopes[head] * (np.arange(capacity) - last)
        scores[(np.arange(capacity) > last) | (np.arange(capacity) <= last - (window or capacity))] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        expected = p / p.sum(-1, keepdims=True) @ values[head // 2]
        assert np.abs(y[:, head] - expected).max() < 2e-3 * np.abs(expected).max()


@pytest.mark.parametrize("name", [*TYPES, "bfloat16"])
@pytest.mark.parametrize("dims", [1, 32, 48, 70])
def test_cache_write_rounds(kernels: Kernels, name: str, dims: int) -> None:
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    x = normal(2 * 3, 2, dims)  # two texts of three tokens, two heads
    expected, _ = convert(x.reshape(2, 3, 2, dims).swapaxes(1, 2))
    cache = np.full((2, 2, 9, expected.shape[-1]), 77).astype(expected.dtype)
    sizes: dict[str, Any] = {"texts": 2, "type": code, "tokens": 3, "heads": 2, "head_dim": dims, "capacity": 9}
    at = np.array([4, 0], np.int32)
    run_checked(kernels, "cache_write", "cache", cache=cache, x=x, x_stride=2 * dims, position=at, **sizes)
    for text, start in enumerate(at):
        np.testing.assert_array_equal(cache[text, :, start : start + 3], expected[text])
        assert (cache[text, :, start + 3 :] == 77).all() and (cache[text, :, :start] == 77).all()


def test_what_is_not_finite_stays_visible_in_q8(kernels: Kernels) -> None:
    x, cache = normal(3, 1, 40), np.zeros((1, 3, 44), np.uint8)
    x[0, 0, 35], x[1, 0, 2], x[2, 0, :32] = np.nan, np.inf, 0
    sizes: dict[str, Any] = {"texts": 1, "type": Q8_0, "tokens": 3, "heads": 1, "head_dim": 40, "capacity": 3}
    assert kernels.run("cache_write", cache=cache, x=x, x_stride=40, position=np.zeros(1, np.int32), **sizes) == OK
    scales = np.ascontiguousarray(cache[0, :, 40:]).view(np.float16)
    np.testing.assert_array_equal(np.isnan(scales), [[False, True], [True, False], [False, False]])
    assert (cache[0, 2, :32] == 0).all() and scales[2, 0] == 0


def test_a_type_that_caches_do_not_have_is_refused(kernels: Kernels) -> None:
    sizes: dict[str, Any] = {"texts": 1, "tokens": 1, "heads": 1, "head_dim": 4, "capacity": 1, "kv_heads": 1}
    at = np.zeros(1, np.int32)
    for code in (read_types().index("int64"), 99, -1):
        assert kernels.run("cached_attention", position=at, type=code, **sizes) == BAD_ARGUMENT
        assert (
            kernels.run("cache_write", position=at, type=code, **{k: v for k, v in sizes.items() if k != "kv_heads"})
            == BAD_ARGUMENT
        )


def paged(cache: np.ndarray, table: np.ndarray, size: int, blocks: int) -> np.ndarray:
    """A cache (texts, heads, capacity, columns) in blocks of `size` tokens, where the table (texts, parts) says."""
    memory = np.full((blocks, cache.shape[1], size, cache.shape[3]), 77).astype(cache.dtype)
    for text, row in enumerate(table):
        for part, block in enumerate(row):
            own = cache[text, :, part * size : (part + 1) * size]
            memory[block, :, : own.shape[1]] = own
    return unaligned(memory)


@pytest.mark.parametrize("size", [64, 32, 5])
@pytest.mark.parametrize("name", ["float32", "q8_0", "bfloat16"])
@pytest.mark.parametrize(
    "tokens, heads, kv_heads, dims", [(1, 6, 2, 48), (20, 2, 1, 33), (3, 9, 3, 64), (2, 2, 1, 200)]
)
def test_paged_caches(
    kernels: Kernels, size: int, name: str, tokens: int, heads: int, kv_heads: int, dims: int
) -> None:
    """Three texts whose blocks lie in any order; two share their first one. Windows and slopes go across blocks."""
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    starts, parts = [150 - tokens, 65, 3], -(-150 // size)
    table = np.random.default_rng(3).permutation(3 * parts).astype(np.int32).reshape(3, parts)
    place = aligned if size == 32 else unaligned
    (k, keys), (v, values) = (convert(normal(3, kv_heads, 150, dims, seed=seed)) for seed in (2, 3))
    memory = [place(paged(cache, table, size, 3 * parts)) for cache in (k, v)]
    table[2, 0] = table[1, 0]
    for cache in (keys, values):
        cache[2, :, :size] = cache[1, :, :size]
    for cache in (k, v):
        cache[2, :, :size] = cache[1, :, :size]
    q, y, plain = normal(3 * tokens, heads, dims, seed=1), *(np.full((3 * tokens, heads, dims), GUARD) for _ in "12")
    sizes: dict[str, Any] = {"texts": 3, "type": code, "tokens": tokens, "heads": heads, "kv_heads": kv_heads}
    sizes |= {"head_dim": dims, "y_stride": heads * dims, "q_stride": heads * dims, "causal": 1, "scale": 0.2}
    sizes |= {"position": np.array(starts, np.int32), "slopes": np.abs(normal(heads, seed=9)), "window": 100}
    paging = {"table": table, "parts": parts, "blocks": 3 * parts, "capacity": size}
    run_checked(kernels, "cached_attention", "y", y=y, q=q, k=memory[0], v=memory[1], **sizes, **paging)
    run_checked(kernels, "cached_attention", "y", y=plain, q=q, k=place(k), v=place(v), capacity=150, **sizes)
    if name == "bfloat16" and tokens > 8:  # by tensor cores, which round weights
        np.testing.assert_allclose(y, plain, atol=0.02)
    else:
        np.testing.assert_allclose(y, plain, rtol=3e-5, atol=3e-6)
    same = isinstance(kernels, EmulatedKernels) and (name != "bfloat16" or tokens <= 8)
    if (size == 64 and dims <= 64 and name != "bfloat16") or same:  # the same keys at a time: the same bits
        assert y.tobytes() == plain.tobytes()


@pytest.mark.parametrize("name", EVERY_TYPE)
@pytest.mark.parametrize(
    "dims, size, window, softcap, sinking",
    [
        (64, 32, 0, 0, False),
        (64, 7, 50, 0, True),
        (96, 32, 70, 0, False),
        (128, 32, 0, 3.0, True),
        (256, 16, 0, 0, False),
        (33, 32, 33, 0, False),
        (200, 64, 0, 0, True),
    ],
)
def test_prompts_in_blocks_and_pieces(
    kernels: Kernels, name: str, dims: int, size: int, window: int, softcap: float, sinking: bool
) -> None:
    """On CUDA rows do not depend on where blocks lie, nor on how a prompt is cut into pieces of more than eight
    tokens.
    """
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    # Wide heads are as many products as many of them: fewer heads and tokens keep the emulator's time short.
    tokens, heads, kv_heads, start, capacity = (140, 4, 2, 61, 210) if dims <= 128 else (83, 2, 1, 29, 120)
    place, parts = (unaligned if window == 70 else aligned), -(-capacity // size)
    q = place(normal(tokens, heads, dims, seed=1))
    (k, keys), (v, values) = (convert(normal(1, kv_heads, capacity, dims, seed=seed)) for seed in (2, 3))
    table = np.random.default_rng(3).permutation(2 * parts).astype(np.int32)[:parts].reshape(1, parts)
    memory = [place(paged(cache, table, size, 2 * parts)) for cache in (k, v)]
    sizes: dict[str, Any] = {"texts": 1, "type": code, "heads": heads, "kv_heads": kv_heads, "head_dim": dims}
    sizes |= {"y_stride": heads * dims, "q_stride": heads * dims, "causal": 1, "scale": dims**-0.5}
    sinks = np.array([2.0, -3.0, 4.0, 0.0], np.float32)[:heads] if sinking else None
    sizes |= {"window": window, "softcap": softcap, "sinks": sinks}
    paging = {"table": table, "parts": parts, "blocks": 2 * parts, "capacity": size}

    def attend(first: int, count: int, **where: Any) -> np.ndarray:
        y, at = np.full((count, heads, dims), GUARD), np.array([start + first], np.int32)
        own = np.ascontiguousarray(q[first : first + count])
        run_checked(kernels, "cached_attention", "y", y=y, q=place(own), position=at, tokens=count, **sizes, **where)
        return y

    plain = attend(0, tokens, k=place(k), v=place(v), capacity=capacity)
    expected = options(q, keys[0], values[0], start, window, softcap, None, sinks)
    by_halves = isinstance(kernels, EmulatedKernels) and name in ("float16", "bfloat16")
    bound = {"float16": 2e-3, "bfloat16": 16e-3}[name] if by_halves else 3e-5
    assert np.abs(plain - expected).max() < bound * np.abs(expected).max()
    whole = attend(0, tokens, k=memory[0], v=memory[1], **paging)
    if isinstance(kernels, EmulatedKernels):
        if window and by_halves:  # other keys are taken together
            assert np.abs(whole - expected).max() < bound * np.abs(expected).max()
        else:
            assert whole.tobytes() == plain.tobytes()
        cuts = [0, 9, 74, *([91] if tokens > 100 else []), tokens]
        pieces = [
            attend(at, to - at, k=memory[0], v=memory[1], **paging) for at, to in zip(cuts, cuts[1:], strict=False)
        ]
        assert np.concatenate(pieces).tobytes() == whole.tobytes()
    else:
        np.testing.assert_allclose(whole, plain, rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tokens", [3, 40])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_columns_of_values_stay_apart(kernels: Kernels, name: str, tokens: int, in_blocks: bool) -> None:
    """One that is not finite is a part of its own column, of the tokens that see it."""
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    heads, kv_heads, dims, size, parts, start = 2, 1, 80, 16, 8, 60
    q = aligned(normal(tokens, heads, dims, seed=1))
    bad = {0: np.nan, 41: np.inf, 79: -np.inf}
    key = start + tokens - 2  # seen by the last two tokens
    table = np.random.default_rng(3).permutation(parts).astype(np.int32).reshape(1, parts)
    sizes: dict[str, Any] = {"texts": 1, "type": code, "heads": heads, "kv_heads": kv_heads, "head_dim": dims}
    sizes |= {"y_stride": heads * dims, "q_stride": heads * dims, "causal": 1, "scale": dims**-0.5, "tokens": tokens}
    sizes |= {"table": table, "parts": parts, "blocks": parts, "capacity": size} if in_blocks else {"capacity": 128}

    def attend(values: np.ndarray) -> np.ndarray:
        y = np.full((tokens, heads, dims), GUARD)
        caches = (convert(x)[0] for x in (normal(1, kv_heads, size * parts, dims, seed=2), values))
        k, v = (aligned(paged(x, table, size, parts) if in_blocks else x) for x in caches)
        at = np.array([start], np.int32)
        run_checked(kernels, "cached_attention", "y", y=y, q=q, k=k, v=v, position=at, **sizes)
        return y

    values = normal(1, kv_heads, size * parts, dims, seed=4)
    expected = attend(values)
    for column, number in bad.items():
        values[0, 0, key, column] = number
        expected[-2:, :, column] = number
    np.testing.assert_array_equal(attend(values), expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_prompt_in_blocks_is_the_same_in_company(kernels: Kernels, name: str) -> None:
    """CUDA takes 128 rows at a time where there are many heads and texts, else 64."""
    if not has_caches(kernels, name):
        return
    code, convert = EVERY_TYPE[name]
    tokens, heads, kv_heads, dims, size, parts = 10, 130, 2, 64, 32, 3
    q, y = aligned(normal(2 * tokens, heads, dims, seed=1)), np.full((2 * tokens, heads, dims), GUARD)
    (k, keys), (v, values) = (convert(normal(2, kv_heads, size * parts, dims, seed=seed)) for seed in (2, 3))
    table = np.array([[4, 0, 2], [1, 3, 5]], np.int32)
    caches = {which: aligned(paged(cache, table, size, 6)) for which, cache in (("k", k), ("v", v))}
    sizes: dict[str, Any] = {"type": code, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "head_dim": dims}
    sizes |= {"y_stride": heads * dims, "q_stride": heads * dims, "causal": 1, "scale": 0.125}
    sizes |= {"parts": parts, "blocks": 6, "capacity": size, **caches}
    starts = np.array([60, 3], np.int32)
    run_checked(kernels, "cached_attention", "y", y=y, q=q, texts=2, position=starts, table=table, **sizes)
    bound = {"float16": 1e-3, "bfloat16": 8e-3}[name]
    for text in range(2):
        rows = slice(text * tokens, (text + 1) * tokens)
        expected = attention(q[rows], keys[text], values[text], int(starts[text]), True, 0.125)
        assert np.abs(y[rows] - expected).max() < bound * np.abs(expected).max()
        own, at, places = np.full((tokens, heads, dims), GUARD), starts[text : text + 1], table[text : text + 1].copy()
        run_checked(kernels, "cached_attention", "y", y=own, q=q[rows], texts=1, position=at, table=places, **sizes)
        assert own.tobytes() == y[rows].tobytes()


@pytest.mark.parametrize("tokens", [1, 8, 30])
def test_a_table_without_blocks(kernels: Kernels, tokens: int) -> None:
    y, x, cache = np.full((tokens, 2, 4), GUARD), normal(tokens, 2, 4), np.zeros((1, 2, 8, 4), np.float32)
    sizes: dict[str, Any] = {"texts": 1, "type": FLOAT32, "tokens": tokens, "heads": 2, "kv_heads": 2, "head_dim": 4}
    sizes |= {"capacity": 8, "table": np.zeros((1, 4), np.int32), "parts": 4, "blocks": 0}
    sizes |= {"y_stride": 8, "q_stride": 8, "causal": 1, "scale": 1.0, "position": np.zeros(1, np.int32)}
    assert kernels.run("cached_attention", y=y, q=x, k=cache, v=cache, **sizes) == POSITION_RANGE
    assert (y == GUARD).all()


@pytest.mark.parametrize("name", ["float32", *TYPES])
def test_paged_cache_write(kernels: Kernels, name: str) -> None:
    code, convert = TYPES.get(name, (FLOAT32, lambda x: (unaligned(x), x)))
    x, table = normal(2 * 7, 3, 40), np.array([[4, 0, 2], [1, 3, 5]], np.int32)  # two texts of seven tokens
    rows, _ = convert(x.reshape(2, 7, 3, 40))
    memory = np.full((6, 3, 8, rows.shape[-1]), 77).astype(rows.dtype)
    expected, starts = memory.copy(), [5, 16]
    for text, start in enumerate(starts):
        for token in range(7):
            at = start + token
            expected[table[text, at // 8], :, at % 8] = rows[text, token]
    sizes: dict[str, Any] = {"texts": 2, "type": code, "tokens": 7, "heads": 3, "head_dim": 40, "capacity": 8}
    sizes |= {"x_stride": 120, "table": table, "parts": 3, "blocks": 6}
    run_checked(kernels, "cache_write", "cache", cache=memory, x=x, position=np.array(starts, np.int32), **sizes)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("tokens, parts", [(2, 2), (20, 4)])
@pytest.mark.parametrize("beyond, wrong, code", [(9, 3, POSITION_RANGE), (2, 6, POSITION_RANGE),
                                                 (2, -1, POSITION_RANGE), (0, 6, OK)])  # fmt: skip
def test_blocks_outside_the_cache(
    kernels: Kernels, tokens: int, parts: int, beyond: int, wrong: int, code: int
) -> None:
    """Only the parts that a text has come to count: it ends so many tokens after the beginning of the last one."""
    y, x, cache = np.full((tokens, 2, 4), GUARD), normal(tokens, 2, 4), np.full((6, 2, 8, 4), GUARD)
    sizes: dict[str, Any] = {"texts": 1, "type": FLOAT32, "tokens": tokens, "heads": 2, "head_dim": 4, "capacity": 8}
    sizes |= {"table": np.array([[2, 5, 1, 0][: parts - 1] + [wrong]], np.int32), "parts": parts, "blocks": 6}
    at = np.array([8 * (parts - 1) + beyond - tokens], np.int32)
    assert kernels.run("cache_write", cache=cache, x=x, x_stride=8, position=at, **sizes) == code
    if tokens == 2 or code == OK:  # else CUDA has written the tokens before the wrong part
        assert (cache == GUARD).all() == (code != OK)
    strides: dict[str, Any] = {"y_stride": 8, "q_stride": 8, "causal": 1, "scale": 1.0, "kv_heads": 2}
    assert kernels.run("cached_attention", y=y, q=x, k=cache, v=cache, position=at, **sizes, **strides) == code
    assert (y == GUARD).all() == (code != OK)


@pytest.mark.parametrize("name", EVERY_TYPE)
@pytest.mark.parametrize("paged_by", [0, 4])
@pytest.mark.parametrize(
    "tokens, heads, kv_heads, dims, rotated, interleaved",
    [(1, 4, 2, 64, 64, 0), (3, 2, 1, 72, 40, 1), (5, 3, 3, 33, 32, 0), (2, 4, 4, 130, 130, 1), (3, 2, 2, 48, 0, 0)],
)
def test_rotating_and_writing_in_one(
    kernels: Kernels, name: str, paged_by: int, tokens: int, heads: int, kv_heads: int, dims: int, rotated: int,
    interleaved: int,
) -> None:  # fmt: skip
    """Two texts: the bits of rope_f32 and cache_write."""
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("rotate_and_write", texts=1) == BAD_ARGUMENT
        return
    code, convert = EVERY_TYPE[name]
    width, capacity = (heads + 2 * kv_heads) * dims, 12
    qkv = normal(2 * tokens, width + 3)
    memory = convert(normal(6, kv_heads, paged_by or 2 * capacity, dims, seed=2))[0]
    angles = normal(40, max(rotated // 2, 1), 2, seed=3)
    caches, expected = [memory.copy(), memory.copy()], [memory.copy(), memory.copy()]
    sizes: dict[str, Any] = {"texts": 2, "tokens": tokens, "head_dim": dims, "position": np.array([2, 7], np.int32)}
    cache: dict[str, Any] = {"type": code, "capacity": paged_by or 2 * capacity}
    if paged_by:
        cache |= {"parts": 3, "blocks": 6}
    table = np.array([[4, 0, 2], [1, 3, 5]], np.int32) if paged_by else None
    own, rows = qkv.copy(), qkv.copy()
    if rotated:
        turning: dict[str, Any] = {"rotated": rotated, "positions": 40, "interleaved": interleaved, "table": angles}
        strides = {"x_stride": width + 3, "y_stride": width + 3, "heads": heads + kv_heads}
        assert kernels.run("rope_f32", y=rows, x=rows, **sizes, **turning, **strides) == OK
    else:
        turning = {"interleaved": interleaved}
    for which, to in enumerate(expected):
        x = np.ascontiguousarray(rows[:, (heads + which * kv_heads) * dims :][:, : kv_heads * dims])
        more = {"heads": kv_heads, "x_stride": kv_heads * dims, "table": table}
        assert kernels.run("cache_write", cache=to, x=x, **sizes, **cache, **more) == OK
    turning["block_table"] = table
    arguments = {"heads": heads, "kv_heads": kv_heads, "stride": width + 3, **sizes, **cache, **turning}
    assert kernels.run("rotate_and_write", qkv=own, keys=caches[0], values=caches[1], **arguments) == OK
    for found, wanted in zip(caches, expected, strict=True):
        assert found.tobytes() == wanted.tobytes()
    assert own[:, : heads * dims].tobytes() == rows[:, : heads * dims].tobytes()
    assert own[:, heads * dims :].tobytes() == qkv[:, heads * dims :].tobytes()


@pytest.mark.parametrize(
    "wrong, code",
    [({"position": 7}, POSITION_RANGE), ({"position": -1}, POSITION_RANGE), ({"positions": 2}, POSITION_RANGE),
     ({"rotated": 3}, BAD_ARGUMENT), ({"rotated": 10}, BAD_ARGUMENT), ({"type": 99}, BAD_ARGUMENT),
     ({"table": None}, BAD_ARGUMENT), ({"block_table": np.array([[0, 2]], np.int32), "position": 3}, POSITION_RANGE),
     ({"block_table": np.array([[-1, 0]], np.int32)}, POSITION_RANGE)],
)  # fmt: skip
def test_rotating_and_writing_elsewhere_is_refused(kernels: Kernels, wrong: dict[str, Any], code: int) -> None:
    if not isinstance(kernels, EmulatedKernels):
        return
    qkv, cache = normal(2, 4 * 8), np.full((2, 1, 4, 8), GUARD)
    arguments: dict[str, Any] = {"texts": 1, "tokens": 2, "heads": 2, "kv_heads": 1, "head_dim": 8, "type": FLOAT32}
    arguments |= {"capacity": 4, "stride": 32, "rotated": 8, "positions": 8, "table": normal(8, 4, 2)}
    arguments |= {"block_table": np.array([[0, 1]], np.int32), "parts": 2, "blocks": 2, **wrong}
    arguments["position"] = np.array([arguments.get("position", 1)], np.int32)
    assert kernels.run("rotate_and_write", qkv=qkv, keys=cache, values=cache, **arguments) == code
    if "block_table" not in wrong:
        assert (cache == GUARD).all() and qkv.tobytes() == normal(2, 4 * 8).tobytes()
