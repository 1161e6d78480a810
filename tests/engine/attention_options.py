"""Inputs of golden_attention_options.npz, for make_golden_attention_options.py and test_attention_options.py."""

from __future__ import annotations

import numpy as np

TOKENS, HEADS, KV_HEADS, SIZE = 9, 6, 3, 8
WINDOW, SOFTCAP = 4, 2.5
ROTATED = 4

SINKS = [0.5, -1.0, 3.0, 0.0, -4.0, 1.0]  # of each head


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q (1, T, H, D), k and v (1, T, KV, D), float32."""
    random = np.random.RandomState(5)
    q, k, v = (random.randn(1, TOKENS, heads, SIZE).astype(np.float32) for heads in (HEADS, KV_HEADS, KV_HEADS))
    return q * np.float32(2), k, v
