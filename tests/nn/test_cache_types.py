"""Caches in float16 and q8_0, caches of several texts, and the options of attention in every kind of cache."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, ops
from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ArgumentError
from pyapp.models.llama2c import Config, Llama2c

TABLE = ops.rope_table(16, 8)
TYPES = ["float32", "float16", "q8_0"]


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return pyapp.from_numpy(np.random.RandomState(seed).randn(*shape).astype(np.float32))


@pytest.mark.parametrize("dtype, share", [("float32", 1.0), ("float16", 0.5), ("q8_0", 34 / 128)])
def test_memory(dtype: str, share: float) -> None:
    expected = 2 * 2 * 10 * 64 * 4 * share
    assert nn.FixedCache(10, 2, 64, dtype).nbytes == expected
    cache = nn.KVCache(3, 2, 10, 64, dtype=dtype)
    assert cache.nbytes == 3 * expected and cache.of_heads(1).layers[2].keys.shape[:2] == (1, 10)
    assert nn.BatchCache(5, 3, 2, 10, 64, dtype=dtype).nbytes == 15 * expected


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "halves": {"interleaved": False, "scale": 0.7},
    "window_and_cap": {"window": 3, "softcap": 1.5},
    "slopes": {"slopes": pyapp.tensor([0.5, 0.25, 0.125, 0.0625])},
}


@pytest.mark.parametrize("kind", ["growing", "rotating", *TYPES])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_cache_takes_the_options(name: str, kind: str) -> None:
    """Beside the whole text at once; a part of each head is rotated."""
    qkv, size = drawn(9, 8 * 12), 12
    x = qkv.reshape(1, 9, 8, size)
    rest = {"interleaved": True} | OPTIONS[name]
    heads = nn.Heads(4, 2, size, **rest)
    qk = ops.rope(x[:, :, :6], TABLE, None, rest.pop("interleaved"))
    expected = ops.attention(qk[:, :, :4], qk[:, :, 4:], x[:, :, 6:], **rest).reshape(9, 48).numpy()
    caches = {"growing": nn.GrowingCache, "rotating": lambda: nn.RotatingCache(9, 2, size)}
    cache = caches[kind]() if kind in caches else nn.FixedCache(9, 2, size, kind)
    found = []
    for at, count in ((0, 4), (4, 1), (5, 3), (8, 1)):
        part = qkv[at : at + count].clone()
        y = cache.rotary_attention(part, heads, TABLE, int32_tensor([at]))
        found.append(y.numpy())
    error = {"float16": 3e-3, "q8_0": 5e-2}.get(kind, 1e-5)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=error, atol=error)


def config() -> Config:
    return Config(dim=48, hidden_dim=64, n_layers=2, n_heads=6, n_kv_heads=3, vocab_size=40, max_seq_len=24)


@pytest.fixture(scope="module")
def model() -> Llama2c:
    pyapp.manual_seed(0)
    return Llama2c(config())


def logits(model: Llama2c, tokens: list[int], at: int, cache: Any) -> np.ndarray:
    """Logits (T, V) of the tokens at position `at`."""
    with no_grad():
        return model.forward_cached(int32_tensor(tokens), int32_tensor([at]), cache, last_only=False).numpy()


@pytest.mark.parametrize("dtype, error", [("float16", 1e-3), ("q8_0", 1e-2)])
def test_a_model_decodes_nearly_alike(model: Llama2c, dtype: str, error: float) -> None:
    tokens = [3, 7, 1, 9, 4, 2, 8, 5]
    expected = logits(model, tokens, 0, nn.KVCache(2, 3, 8, 8))
    cache = nn.KVCache(2, 3, 8, 8, dtype=dtype)
    found = np.concatenate([logits(model, tokens[:5], 0, cache), logits(model, tokens[5:], 5, cache)])
    apart = np.abs(found - expected).max() / np.abs(expected).max()
    assert 0 < apart < error


# -- several texts


def batch_logits(model: Llama2c, tokens: Tensor, position: Tensor, cache: nn.BatchCache) -> Tensor:
    """Logits (B, T, V) of tokens (B, T) at position (B,)."""
    return model.forward_cached(tokens, position, cache, last_only=False)


@pytest.mark.parametrize("dtype", TYPES)
def test_texts_in_a_batch_decode_as_alone(model: Llama2c, dtype: str) -> None:
    """Prompts of unequal lengths padded at their ends, then one token of each text at its own position, by a Graph."""
    texts, prompts = [[3, 7, 1, 9, 4, 2, 8], [5, 6, 11, 12], [1, 2, 3, 4, 5, 6]], [4, 1, 3]
    expected = [logits(model, text, 0, nn.KVCache(2, 3, 12, 8, dtype=dtype)) for text in texts]
    cache, position = nn.BatchCache(3, 2, 3, 12, 8, dtype=dtype), int32_tensor([0, 0, 0])
    longest = max(prompts)
    padded = [text[:n] + [0] * (longest - n) for text, n in zip(texts, prompts, strict=True)]
    with no_grad():
        found = batch_logits(model, int32_tensor(sum(padded, [])).reshape(3, longest), position, cache).numpy()
        tokens = int32_tensor([0, 0, 0]).reshape(3, 1)
        position.assign(prompts)
        graph = capture(lambda: batch_logits(model, tokens, position, cache))
    for b, n in enumerate(prompts):
        np.testing.assert_allclose(found[b, :n], expected[b][:n], rtol=1e-5, atol=1e-5)
    for step in range(3):
        tokens.assign([text[n + step] for text, n in zip(texts, prompts, strict=True)])
        position.assign([n + step for n in prompts])
        found = graph.replay().numpy()
        for b, n in enumerate(prompts):
            np.testing.assert_allclose(found[b, 0], expected[b][n + step], rtol=1e-5, atol=1e-5)


def test_a_prompt_is_processed_once_and_copied(model: Llama2c) -> None:
    prompt, ends = [3, 7, 1, 9], [[2, 8], [5, 6], [4, 4]]
    cache = nn.BatchCache(3, 2, 3, 12, 8, dtype="float16")
    logits(model, prompt, 0, cache.text(1))
    for slot in (0, 2):
        cache.copy(1, slot, len(prompt))
    position = int32_tensor([4, 4, 4])
    with no_grad():
        found = batch_logits(model, int32_tensor(sum(ends, [])).reshape(3, 2), position, cache).numpy()
        position.assign([3, 3, 3])  # back by one token: what follows is written over
        again = batch_logits(model, int32_tensor([9, 9, 9]).reshape(3, 1), position, cache).numpy()
    for b, end in enumerate(ends):
        expected = logits(model, prompt + end, 0, nn.KVCache(2, 3, 12, 8, dtype="float16"))
        np.testing.assert_allclose(found[b], expected[4:], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(again[b, 0], expected[3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "order", [[0, 1, 2, 3, 4], [1, 0, 2, 4, 3], [1, 2, 3, 4, 0], [0, 0, 0, 1, 1], [2, 2, 4, 3, 0], [4, 0, 0, 2, 3]]
)
@pytest.mark.parametrize("length", [None, 3])
def test_reorder(order: list[int], length: int | None) -> None:
    cache = nn.BatchCache(5, 2, 2, 4, 3)
    before = np.random.RandomState(0).randn(*cache.memory.shape).astype(np.float32)
    cache.memory.copy_(pyapp.from_numpy(before))
    cache.reorder(order, length)
    expected = before.copy()
    expected[:, :, :, :length] = before[:, order, :, :length]
    np.testing.assert_array_equal(cache.memory.numpy(), expected)


@pytest.mark.native_only
def test_texts_are_copied_without_numpy() -> None:
    code = """
import sys
from pyapp import nn
for dtype in ("float32", "float16", "q8_0"):
    cache = nn.BatchCache(3, 2, 2, 8, 32, dtype=dtype)
    cache.text(1).layers[0].keys.fill_(1)
    cache.copy(1, 2, 5)
    cache.reorder([1, 2, 0], 5)
assert "numpy" not in sys.modules or not hasattr(sys.modules["numpy"], "ndarray")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_batch_on_a_device_whose_memory_the_host_cannot_see() -> None:
    from tests.mirror import device as _device  # noqa: F401 (registers the mirror)

    qkv, starts = drawn(2, 3, 8 * 8), [5, 0]
    for dtype in TYPES:
        found = []
        for device in ("cpu", "mirror"):
            cache = nn.BatchCache(2, 1, 2, 8, 8, device, dtype)
            position = int32_tensor(starts).to(device)
            with no_grad():
                slopes = OPTIONS["slopes"]["slopes"].to(device)
                heads = nn.Heads(4, 2, 8, window=4, softcap=2.0, slopes=slopes, interleaved=True)
                y = cache.layers[0].rotary_attention(qkv.clone().to(device), heads, TABLE.to(device), position)
                cache.reorder([1, 0])
            found.append((y.cpu().numpy(), cache.memory.cpu().numpy()))
        for ours, expected in zip(*found, strict=True):
            np.testing.assert_array_equal(ours, expected)


def rotated(cache: Any, heads: nn.Heads) -> Tensor:
    return cache.rotary_attention(drawn(1, 64), heads, None, int32_tensor([0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.FixedCache(4, 2, 8, "int32"), "a cache holds float32, float16 or q8_0, not int32"),
        (lambda: nn.KVCache(1, 2, 4, 32, dtype="q4_0"), "not q4_0"),
        (lambda: nn.RotatingCache(4, 2, 8, "q8_0"), "FixedCache with a window"),
        (lambda: nn.FixedCache(4, 2, 8, "q8_0").append(drawn(1, 2, 8), drawn(1, 2, 8)), "no append"),
        (lambda: nn.BatchCache(0, 1, 1, 1, 1), "BatchCache: 0 texts"),
        (lambda: nn.BatchCache(2, 1, 1, 4, 1).copy(0, 2), "has the texts 0 .. 1, not 2"),
        (lambda: nn.BatchCache(2, 1, 1, 4, 1).copy(0, 1, 5), "5 tokens are not within the capacity of 4"),
        (lambda: nn.BatchCache(2, 1, 1, 4, 1).reorder([0]), "1 entries for 2 texts"),
        (
            lambda: nn.BatchCache(1, 1, 1, 4, 1).paged(2, 2, 4, 4).packed([(2, 1)], [0]),
            "1 tokens of text 2; there are 2",
        ),
        (lambda: nn.BatchCache(1, 1, 1, 4, 1).paged(2, 2, 4, 4).packed([(0, 2)], [2]), r"the rows \[2\] of 2"),
        (lambda: nn.BatchCache(2, 1, 1, 4, 1).reorder([0, -1]), "not -1"),
        (lambda: rotated(nn.FixedCache(4, 2, 8), nn.Heads(4, 2, 4)), "has 2 heads of 8, not 2 of 4"),
        (lambda: rotated(nn.FixedCache(4, 2, 8), nn.Heads(4, 1, 8)), "has 2 heads of 8, not 1 of 8"),
        (lambda: rotated(nn.GrowingCache(), nn.Heads(5, 2, 8)), r"is not \(T, \(5 \+ 2 \* 2\) \* 8\)"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
