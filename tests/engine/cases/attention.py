"""Attention: cases as the package describes them."""

from __future__ import annotations

from typing import Any

from . import Case, F

QKV = [(2, 4, 5, 4), (2, 4, 5, 4), (2, 4, 5, 4)]
GROUPED = [(2, 4, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3)]


def _softcapped(P: Any, q: Any, k: Any, v: Any) -> Any:
    if P.__name__ == "pyapp":
        return P.scaled_dot_product_attention(q, k, v, is_causal=True, softcap=0.7, window=(2, -1))
    scores = P.tanh(q @ k.mT / 2 / 0.7) * 0.7
    apart = P.arange(k.shape[-2]) - P.arange(q.shape[-2])[:, None]
    return scores.masked_fill((apart > 0) | (apart < -2), float("-inf")).softmax(-1) @ v


CASES: list[Case] = [
    ("sdpa", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v), QKV),
    ("sdpa_causal", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True), QKV),
    ("sdpa_scale", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, scale=0.3), QKV),
    (
        "sdpa_shapes",
        lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True),
        [(3, 5, 4), (3, 6, 4), (3, 6, 2)],
    ),
    (
        "sdpa_mask",
        lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, (m > -1.5)),
        [*QKV, (5, 5)],
    ),
    ("sdpa_added", lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, m), [*QKV, (2, 1, 5, 5)]),
    (
        "sdpa_grouped",
        lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        GROUPED,
    ),
    (
        "sdpa_grouped_mask",
        lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, m, enable_gqa=True),
        [*GROUPED, (2, 4, 5, 6)],
    ),
    ("sdpa_softcap_window", _softcapped, QKV),
]
