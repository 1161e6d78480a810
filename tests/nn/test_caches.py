"""Caches of keys and values: by themselves, against attention over the whole text, and in models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, ops
from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.ops import from_numpy
from pyapp.models.llama2c import Config, Llama2c
from pyapp.nn import functional as F

from .training_cases import values


def parts(count: int, seed: int) -> tuple[pyapp.Tensor, pyapp.Tensor]:
    return from_numpy(values(seed, count, 2, 3)), from_numpy(values(seed + 50, count, 2, 3))


def test_growing_and_fixed_caches_give_all_tokens() -> None:
    growing, fixed = nn.GrowingCache(), nn.FixedCache(6, 2, 3)
    every = []
    for i, count in enumerate((3, 1, 2)):
        keys, new = parts(count, i)
        every.append(keys.numpy())
        found = [cache.append(keys, new) for cache in (growing, fixed)]
        expected = np.concatenate(every).swapaxes(0, 1)
        for k, v in found:
            np.testing.assert_array_equal(k.numpy(), expected)
            assert v.shape == k.shape
    assert growing.length == fixed.length == 6 and fixed.nbytes == 2 * 6 * 2 * 3 * 4
    with pytest.raises(IndexError, match="7 tokens do not fit into 6"):
        fixed.append(*parts(1, 9))
    fixed.reset()
    assert fixed.append(*parts(2, 1))[0].shape == (2, 2, 3)
    with pytest.raises(ValueError, match="FixedCache: takes keys and values"):
        fixed.append(pyapp.zeros(1, 2), pyapp.zeros(1, 2))


def test_a_rotating_cache_is_a_window() -> None:
    """Against attention over everything with a window of 4."""
    cache = nn.RotatingCache(4, 2, 3)
    keys, new = parts(15, 3)
    queries = from_numpy(values(7, 15, 2, 3))
    whole = F.scaled_dot_product_attention(
        *(t.transpose(0, 1) for t in (queries, keys, new)), is_causal=True, window=(3, -1)
    )
    at = 0
    for count in (1, 2, 1, 1, 6, 1, 1, 2):
        k, v = cache.append(keys[at : at + count], new[at : at + count])
        mask = cache.mask(count)
        assert mask.shape == (count, k.shape[1]) and cache.keys.shape == (2, 4, 3)
        q = queries[at : at + count].transpose(0, 1)
        found = F.scaled_dot_product_attention(q, k, v, mask)
        np.testing.assert_allclose(found.numpy(), whole[:, at : at + count].numpy(), rtol=1e-5, atol=1e-6)
        at += count
    assert at == 15 == cache.length


# -- write and attend


def drawn(*shape: int, seed: int = 1) -> pyapp.Tensor:
    return pyapp.randn(*shape, generator=pyapp.Generator(seed))


def whole(q: pyapp.Tensor, k: pyapp.Tensor, v: pyapp.Tensor) -> np.ndarray:
    return ops.attention(*(x.unsqueeze(0) for x in (q, k, v))).squeeze(0).numpy()


@pytest.mark.parametrize("make", [nn.GrowingCache, lambda: nn.FixedCache(9, 2, 8), lambda: nn.RotatingCache(9, 2, 8)])
def test_a_text_in_parts_is_attended_as_the_whole(make: type[nn.GrowingCache]) -> None:
    cache, (q, k, v) = make(), (drawn(9, 4, 8), drawn(9, 2, 8, seed=2), drawn(9, 2, 8, seed=3))
    expected, at = whole(q, k, v), 0
    for count in (3, 1, 1, 4):
        position, part = int32_tensor([at]), slice(at, at + count)
        cache.write(k[part], v[part], position)
        np.testing.assert_allclose(cache.attend(q[part], position).numpy(), expected[part], atol=1e-5)
        at += count


@pytest.mark.parametrize("make", [nn.GrowingCache, lambda: nn.FixedCache(9, 2, 8)])
def test_a_text_may_go_back_and_on(make: type[nn.GrowingCache]) -> None:
    cache, (q, k, v) = make(), (drawn(7, 2, 8), drawn(7, 2, 8, seed=2), drawn(7, 2, 8, seed=3))
    cache.write(k[:6], v[:6], int32_tensor([0]))
    cache.write(k[4:], v[4:], int32_tensor([4]))
    found = cache.attend(q[4:], int32_tensor([4])).numpy()
    np.testing.assert_allclose(found, whole(q, k, v)[4:], atol=1e-5)
    cache.write(k[:1], v[:1], int32_tensor([0]))
    np.testing.assert_allclose(cache.attend(q[:1], int32_tensor([0])).numpy(), v[:1].numpy(), atol=1e-6)


def test_what_a_cache_has_forgotten_or_not_seen_is_refused() -> None:
    for cache in (nn.GrowingCache(), nn.RotatingCache(4, 2, 8)):
        with pytest.raises(ValueError, match="holds no tokens"):
            cache.attend(drawn(1, 2, 8), int32_tensor([0]))
        cache.write(drawn(3, 2, 8), drawn(3, 2, 8), int32_tensor([0]))
        with pytest.raises(ValueError, match="holds 3 tokens, the next ones begin at 5"):
            cache.write(drawn(1, 2, 8), drawn(1, 2, 8), int32_tensor([5]))
    with pytest.raises(ValueError, match="holds 3 tokens, the next ones begin at 2"):
        cache.write(drawn(1, 2, 8), drawn(1, 2, 8), int32_tensor([2]))


def test_graphs_replay_a_fixed_cache() -> None:
    cache, (q, k, v) = nn.FixedCache(5, 1, 8), (drawn(5, 1, 8), drawn(5, 1, 8, seed=2), drawn(5, 1, 8, seed=3))
    parts, position = [x[:1].clone() for x in (q, k, v)], int32_tensor([0])

    def step() -> pyapp.Tensor:
        cache.write(parts[1], parts[2], position)
        return cache.attend(parts[0], position)

    with no_grad():
        graph = capture(step)
        for at in range(5):
            for part, x in zip(parts, (q, k, v), strict=True):
                part.copy_(x[at : at + 1])
            position.assign(at)
            np.testing.assert_allclose(graph.replay().numpy()[0], whole(q, k, v)[at], atol=1e-5)


@pytest.mark.parametrize("kind", [nn.CrossCache, nn.Int8CrossCache])
def test_another_sequence_is_seen_as_a_whole(kind: type[nn.CrossCache]) -> None:
    cache, (q, k, v) = kind(20, 2, 8), (drawn(3, 4, 8), drawn(20, 2, 8, seed=2), drawn(20, 2, 8, seed=3))
    cache.write(k, v)
    expected = ops.attention(*(x.unsqueeze(0) for x in (q, k, v)), False).squeeze(0).numpy()
    np.testing.assert_allclose(cache.attend(q).numpy(), expected, atol=0.05 if kind is nn.Int8CrossCache else 1e-5)
    with pytest.raises(ValueError, match="CrossCache: takes"):
        cache.write(k[:19], v)


def test_the_layers_of_a_model_share_one_memory() -> None:
    cache = nn.KVCache(2, 3, 5, 4)
    cache.layers[1].values.fill_(1.0)
    assert cache.memory.shape == (4, 3, 5, 4) and cache.nbytes == 4 * 4 * 3 * 5 * 4
    assert cache.memory.sum().item() == cache.memory[3].sum().item() == cache.values[1].numel() == 60
    part = cache.of_heads(2)
    part.keys[0].fill_(2.0)
    assert cache.keys[0].sum().item() == 2 * 2 * 5 * 4 and not cache.keys[0][2].any()
    with pytest.raises(ValueError, match="KVCache: 5 tokens of 0 layers"):
        nn.KVCache(0, 3, 5, 4)


# -- in a model


class Layers:
    def __init__(self, layers: list[object]) -> None:
        self.layers = layers


@pytest.mark.parametrize("kind", ["growing", "rotating"])
def test_a_llama_decodes_with_any_cache(kind: str) -> None:
    pyapp.manual_seed(0)
    config = Config(dim=32, hidden_dim=48, n_layers=2, n_heads=4, n_kv_heads=2, vocab_size=30, max_seq_len=16)
    model, tokens = Llama2c(config), [3, 7, 1, 9, 4, 2, 8, 5]
    window = 3
    made = [nn.GrowingCache() if kind == "growing" else nn.RotatingCache(window, 2, 8) for _ in range(2)]
    with no_grad():
        found, at = [], 0
        for count in (3, 1, 1, 2, 1):
            part = int32_tensor(tokens[at : at + count])
            logits = model.forward_cached(part, int32_tensor([at]), Layers(made), last_only=False)
            found.append(logits.numpy())
            at += count
        if kind == "growing":
            expected = model(pyapp.tensor([tokens])).numpy()[0]
        else:
            expected = np.concatenate([windowed(model, tokens, at, window) for at in range(len(tokens))])
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


def windowed(model: Llama2c, tokens: list[int], at: int, window: int) -> np.ndarray:
    """Logits (1, V) of the token at `at`, by layers whose attention sees `window` tokens, over the whole text."""

    class Windowed:
        def attention(self, layer: int, qkv: pyapp.Tensor) -> pyapp.Tensor:
            x = qkv.reshape(len(tokens), 8, 8)
            qk = ops.rope(x.narrow(1, 0, 6), model.table)
            q, k, v = (t.transpose(0, 1) for t in (qk[:, :4], qk[:, 4:], x[:, 6:]))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, window=(window - 1, -1), enable_gqa=True)
            return y.transpose(0, 1).reshape(len(tokens), 32)

    x = model.tok_embeddings(pyapp.tensor(tokens))
    for i, layer in enumerate(model.layers):
        x = layer(x, Windowed(), i)
    found: np.ndarray = model.head(x).numpy()[at : at + 1]
    return found


@pytest.mark.parametrize("make", [lambda: nn.KVCache(2, 2, 4096, 64), lambda: nn.FixedCache(20_000, 1, 64)])
def test_large_caches_begin_with_zeros(make: Callable[[], Any]) -> None:
    """Also where the memory before was written: each has its own."""
    for _ in range(2):
        cache = make()
        layers = getattr(cache, "layers", [cache])
        for layer in layers:
            assert layer.keys.shape[1] in (4096, 20_000) and not layer.keys.numpy().any()
            layer.keys.fill_(3.0)
            assert float(layer.keys.sum()) == 3.0 * layer.keys.numel() and not layer.values.numpy().any()
