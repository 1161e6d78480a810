"""Windows, soft caps, linear biases and rotary positions beside transformers' (make_golden_attention_options.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, ops
from pyapp.engine.buffers import int32_tensor
from tests.engine.attention_options import HEADS, KV_HEADS, ROTATED, SINKS, SIZE, SOFTCAP, TOKENS, WINDOW, inputs

GOLDEN = np.load(Path(__file__).with_name("golden_attention_options.npz"))
OPTIONS: dict[str, dict[str, Any]] = {
    "window": {"window": WINDOW},
    "soft_cap": {"window": WINDOW, "softcap": SOFTCAP, "scale": 0.3},
    "slopes": {"slopes": pyapp.tensor([2.0**-i for i in (2, 4, 6, 8, 1, 3)])},  # of BLOOM with 6 heads
    "sinks": {"sinks": pyapp.tensor(SINKS), "window": WINDOW},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_whole_texts(name: str) -> None:
    q, k, v = (pyapp.from_numpy(x) for x in inputs())
    np.testing.assert_allclose(ops.attention(q, k, v, **OPTIONS[name]).numpy(), GOLDEN[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", ["fixed", "growing"])
def test_caches(name: str, kind: str) -> None:
    q, k, v = (pyapp.from_numpy(x) for x in inputs())
    cache = nn.FixedCache(TOKENS, KV_HEADS, SIZE) if kind == "fixed" else nn.GrowingCache()
    for first, last in ((0, 4), (4, 5), (5, TOKENS)):
        position = int32_tensor([first])
        cache.write(k[0, first:last], v[0, first:last], position)
        heads = nn.Heads(HEADS, KV_HEADS, SIZE, **OPTIONS[name])
        found = cache.attend(q[0, first:last], position, heads).numpy()
        np.testing.assert_allclose(found, GOLDEN[name][0, first:last], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name, rotated", [("rope_halves", SIZE), ("rope_part", ROTATED)])
def test_rotary_positions(name: str, rotated: int) -> None:
    q = pyapp.from_numpy(inputs()[0])
    table = ops.rope_table(TOKENS, rotated, 100.0)
    np.testing.assert_allclose(ops.rope(q, table, interleaved=False).numpy(), GOLDEN[name], rtol=2e-6, atol=2e-6)
    at = int32_tensor([5, 2, 8, 0])
    found = ops.rope(q[0, at.numpy()], table, at, interleaved=False).numpy()
    np.testing.assert_allclose(found, GOLDEN[name][0, at.numpy()], rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("enable_gqa", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_a_mask_counts_beside_is_causal(kind: str, enable_gqa: bool) -> None:
    """As torch 2.13 computes it: what either hides is hidden, also with fewer queries than keys."""
    q, k, v = (pyapp.from_numpy(x).transpose(1, 2) for x in inputs())
    q = q[:, :, :5] if enable_gqa else q[:, :KV_HEADS, :5]
    earlier = pyapp.ones(5, TOKENS, dtype="bool").tril()
    mask = pyapp.from_numpy(np.random.RandomState(3).randn(5, TOKENS) > -0.5)
    mask[:, 0] = True
    both = mask & earlier
    if kind == "float32":
        mask, both = (pyapp.zeros(5, TOKENS).masked_fill(~part, float("-inf")) for part in (mask, both))
    attend = nn.functional.scaled_dot_product_attention
    found = attend(q, k, v, attn_mask=mask, is_causal=True, enable_gqa=enable_gqa)
    wanted = attend(q, k, v, attn_mask=both, enable_gqa=enable_gqa)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
