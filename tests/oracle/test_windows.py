"""Convolutions, pools, resampling, attention and norms with drawn settings, and gradients of all inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from .compare import agree

SOME = settings(max_examples=40, phases=[Phase.generate])
KINDS = st.sampled_from(["float32", "float64"])


def draw(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randn(*shape)


def limit(dtype: str) -> float:
    return 1e-4 if dtype == "float32" else 1e-8


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data(), dtype=KINDS, layout=st.sampled_from(["dense", "sliced"]))
@SOME
def test_convolutions(rank: int, data: Any, dtype: str, layout: str) -> None:
    take = data.draw
    groups, inner, outer = take(st.integers(1, 2)), take(st.integers(1, 3)), take(st.integers(1, 3))
    window, stride, dilation = take(st.integers(1, 3)), take(st.integers(1, 2)), take(st.integers(1, 2))
    padding = take(st.one_of(st.integers(0, 2), st.sampled_from(["same", "valid"]))) if stride == 1 else 1
    size = tuple(take(st.integers(5, 7)) for _ in range(rank))
    x = draw((2, groups * inner, *size), 0)
    w, b = draw((groups * outer, inner, *(window,) * rank), 1), draw((groups * outer,), 2)

    def forward(P: Any, x: Any, w: Any, b: Any) -> Any:
        call = getattr(P.nn.functional, f"conv{rank}d")
        return call(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups)

    agree(forward, [(x, dtype), (w, dtype), (b, dtype)], layout, True, limit(dtype))
    v = draw((groups * inner, outer, *(window,) * rank), 3)

    def backward(P: Any, x: Any, v: Any, b: Any) -> Any:
        call = getattr(P.nn.functional, f"conv_transpose{rank}d")
        return call(x, v, b, stride=stride, padding=0, output_padding=stride - 1, groups=groups, dilation=dilation)

    agree(backward, [(x, dtype), (v, dtype), (b, dtype)], layout, True, limit(dtype))


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data(), dtype=KINDS)
@SOME
def test_pools(rank: int, data: Any, dtype: str) -> None:
    take = data.draw
    window, stride = take(st.integers(1, 3)), take(st.integers(1, 3))
    padding, ceil_mode = take(st.integers(0, window // 2)), take(st.booleans())
    x = [(draw((2, 3, *(take(st.integers(4, 7)) for _ in range(rank))), 0), dtype)]
    output = take(st.integers(1, 5))

    def both(P: Any, x: Any) -> Any:
        f = P.nn.functional
        return (
            getattr(f, f"max_pool{rank}d")(x, window, stride, padding, ceil_mode=ceil_mode),
            getattr(f, f"avg_pool{rank}d")(x, window, stride, padding, ceil_mode),
            getattr(f, f"avg_pool{rank}d")(x, window, stride, padding, count_include_pad=False),
            getattr(f, f"adaptive_avg_pool{rank}d")(x, output),
            getattr(f, f"adaptive_max_pool{rank}d")(x, output),
        )

    agree(both, x, "dense", True, limit(dtype))


@given(
    mode=st.sampled_from(["nearest", "bilinear", "bicubic", "area", "nearest-exact"]),
    corners=st.booleans(),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    dtype=KINDS,
)
@SOME
def test_interpolation(mode: str, corners: bool, size: tuple[int, int], dtype: str) -> None:
    aligned = corners if mode in ("bilinear", "bicubic") else None
    x = [(draw((2, 3, 4, 5), 0), dtype)]
    agree(
        lambda P, x: P.nn.functional.interpolate(x, size, mode=mode, align_corners=aligned),
        x,
        "dense",
        True,
        limit(dtype),
    )


@given(
    batch=st.integers(1, 2), heads=st.integers(1, 4), queries=st.integers(1, 6), keys=st.integers(1, 6),
    causal=st.booleans(), mask=st.sampled_from(["none", "bool", "float"]), dtype=KINDS,
)  # fmt: skip
@SOME
def test_attention(batch: int, heads: int, queries: int, keys: int, causal: bool, mask: str, dtype: str) -> None:
    q, k, v = (draw((batch, heads, n, 4), i) for i, n in enumerate((queries, keys, keys)))
    seen = draw((queries, keys), 3)
    seen[:, 0] = 1  # a row without any key is NaN

    def call(P: Any, q: Any, k: Any, v: Any, m: Any) -> Any:
        attend = P.nn.functional.scaled_dot_product_attention
        if mask == "none" or causal:
            return attend(q, k, v, is_causal=causal)
        return attend(q, k, v, attn_mask=m > 0 if mask == "bool" else m)

    agree(call, [(q, dtype), (k, dtype), (v, dtype), (seen, dtype)], "sliced", True, limit(dtype))


@given(shape=st.lists(st.integers(2, 5), min_size=2, max_size=4).map(tuple), dtype=KINDS)
@SOME
def test_norms(shape: tuple[int, ...], dtype: str) -> None:
    x, w, b = draw(shape, 0), draw(shape[-1:], 1), draw(shape[-1:], 2)
    c, d = draw(shape[1:2], 3), draw(shape[1:2], 4)

    def call(P: Any, x: Any, w: Any, b: Any, c: Any, d: Any) -> Any:
        f = P.nn.functional
        return (
            f.layer_norm(x, w.shape, w, b),
            f.rms_norm(x, w.shape, w, 1e-6),
            f.group_norm(x, 1, c, d),
            f.batch_norm(x, None, None, c, d, True),
            f.normalize(x, dim=-1),
        )

    agree(call, [(a, dtype) for a in (x, w, b, c, d)], "transposed", True, 2e-3 if dtype == "float32" else 1e-7)


@given(rows=st.integers(1, 5), classes=st.integers(2, 5), smoothing=st.sampled_from([0.0, 0.1]), dtype=KINDS)
@SOME
def test_losses(rows: int, classes: int, smoothing: float, dtype: str) -> None:
    x, w, y = draw((rows, classes), 0), np.abs(draw((classes,), 1)) + 0.1, draw((rows, classes), 2)
    ids = np.random.RandomState(3).randint(0, classes, rows)
    ids[0] = 0

    def call(P: Any, x: Any, w: Any, y: Any, ids: Any) -> Any:
        f, w = P.nn.functional, w.detach()
        q = y.detach().softmax(-1)
        return tuple(
            loss
            for reduction in ("mean", "sum", "none")
            for loss in (
                f.cross_entropy(x, ids, w, label_smoothing=smoothing, reduction=reduction, ignore_index=1),
                f.cross_entropy(x, q, label_smoothing=smoothing, reduction=reduction),
                f.nll_loss(x.log_softmax(-1), ids, w, reduction=reduction),
                f.mse_loss(x, y.detach(), reduction=reduction),
                f.l1_loss(x, y.detach(), reduction=reduction),
                f.huber_loss(x, y.detach(), reduction=reduction, delta=0.7),
                f.smooth_l1_loss(x, y.detach(), reduction=reduction, beta=0.3),
                f.binary_cross_entropy_with_logits(x * 30, q, pos_weight=w, reduction=reduction),
                f.kl_div(x.log_softmax(-1), q, reduction=reduction),
            )
        )

    operands = [(x, dtype), (w, dtype), (y, dtype), (ids, "int64")]
    agree(call, operands, "dense", True, 2e-4 if dtype == "float32" else 1e-8)
