"""Attention in int8: layouts, Graphs, definitions, errors. tests/native/test_attention_q8.py tests the kernels."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import capture, no_grad
from pyapp.engine.op import OPS
from pyapp.engine.ops.int8_attention import int8_attention, pack_keys_int8, pack_values_int8, packed_bytes
from pyapp.nn import Int8CrossCache


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return pyapp.randn(*shape, generator=pyapp.Generator(seed))


def error(found: Tensor, expected: Tensor) -> float:
    a, b = found.numpy(), expected.numpy()
    return float(np.sqrt(np.square(a - b).mean() / np.square(b).mean()))


def exact(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    return ops.attention(*(x.unsqueeze(0) for x in (q, k, v)), False, scale).squeeze(0)


def test_it_is_attention_within_a_few_per_cent() -> None:
    cache = Int8CrossCache(70, 2, 24)
    qkv = drawn(70, 8, 24)  # four heads of queries, two of keys and of values
    q, k, v = qkv.narrow(1, 0, 4), qkv.narrow(1, 4, 2), qkv.narrow(1, 6, 2)
    cache.write(k, v)
    assert error(cache.attend(q), exact(q, k, v)) < 0.04
    turned = drawn(24, 4, 70).permute(2, 1, 0)  # columns far apart: copied
    assert error(cache.attend(turned, 1.5), exact(turned, k, v, 1.5)) < 0.08


def test_graphs_read_what_was_written_last() -> None:
    cache, q, k, v = Int8CrossCache(9, 1, 8), drawn(2, 1, 8), drawn(9, 1, 8, seed=2), drawn(9, 1, 8, seed=3)
    cache.write(k, v)
    with no_grad():
        graph = capture(lambda: cache.attend(q))
    first = graph.outputs.numpy().copy()
    cache.write(v, k)
    second = graph.replay().numpy()
    assert not np.allclose(first, second, atol=0.1)
    np.testing.assert_array_equal(second, cache.attend(q).numpy())


@pytest.mark.parametrize("length, heads, kv_heads, size", [(70, 4, 2, 24), (8, 1, 1, 1), (65, 3, 3, 5), (1, 2, 1, 256)])
def test_the_definitions_are_attention_too(length: int, heads: int, kv_heads: int, size: int) -> None:
    """On a device without these kernels, the definitions pack and read."""
    q, k, v = drawn(6, heads, size), drawn(length, kv_heads, size, seed=2) + 3.0, drawn(length, kv_heads, size, seed=3)
    keys, values = (pyapp.full((n,), 255, dtype=pyapp.uint8) for n in packed_bytes(length, kv_heads, size))
    pack_keys, pack_values, attend = (
        OPS[f"_{name}"] for name in ("pack_keys_int8", "pack_values_int8", "int8_attention")
    )
    assert pack_keys.definition and pack_values.definition and attend.definition
    pack_keys.definition(keys, k)
    pack_values.definition(values, v)
    found = attend.definition(q, keys, values, length, kv_heads, 0.3)
    assert error(found, exact(q, k, v, 0.3)) < 0.02


def test_values_are_packed_by_kernels_as_by_the_definition() -> None:
    v = drawn(70, 2, 12)
    v[:, :, 3] = 0.0  # a column without a scale
    size = packed_bytes(70, 2, 12)[1]
    found, expected = (pyapp.zeros(size, dtype=pyapp.uint8) for _ in range(2))
    pack_values_int8(found, v)
    definition = OPS["_pack_values_int8"].definition
    assert definition is not None
    definition(expected, v)
    different = found.numpy() != expected.numpy()  # a number half-way between two may be rounded to either
    assert different.mean() < 0.001
    step = np.abs(found.numpy().view(np.int8).astype(int) - expected.numpy().view(np.int8).astype(int))
    assert step[different].max(initial=0) <= 1


@pytest.mark.parametrize("sizes", [(0, 1, 8), (4, 0, 8), (4, 1, 0), (4, 1, 257)])
def test_sizes_are_checked(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="heads are of 1 to 256"):
        Int8CrossCache(*sizes)


def test_what_no_memory_can_hold_is_refused_by_its_size() -> None:
    with pytest.raises(MemoryError, match=r"1,099,511,627,776 positions of 1,048,576 heads of 256 take [\d,]+ bytes"):
        Int8CrossCache(2**40, 2**20, 256)


def test_gradients_are_refused() -> None:
    cache, q, k = Int8CrossCache(4, 2, 8), drawn(1, 2, 8), drawn(4, 2, 8)
    cache.write(k, k)
    with pytest.raises(RuntimeError, match="no gradient"):
        cache.attend(q.requires_grad_())
    with pytest.raises(RuntimeError, match="no gradient"):
        cache.write(k, k.clone().requires_grad_())
    with no_grad():
        assert cache.attend(q).shape == (1, 2, 8)


def test_what_does_not_fit_is_named() -> None:
    cache = Int8CrossCache(4, 2, 8)
    with pytest.raises(ValueError, match=r"takes float32\[4, 2, 8\], got float32\[4, 3, 8\]"):
        cache.write(drawn(4, 3, 8), drawn(4, 2, 8))
    with pytest.raises(ValueError, match="got float16"):
        cache.write(drawn(4, 2, 8), drawn(4, 2, 8).to(pyapp.float16))
    for wrong in (drawn(1, 2, 9), drawn(2, 8)):
        with pytest.raises(ValueError, match=r"queries \(T, H, 8\)"):
            cache.attend(wrong)
    for wrong in (drawn(1, 3, 8), drawn(1, 2, 8).to(pyapp.float16)):
        with pytest.raises(ValueError, match="2 n, D"):
            cache.attend(wrong)
    short = pyapp.zeros(16, dtype=pyapp.uint8)
    with pytest.raises(ValueError, match=r"must be dense uint8\[192\], got uint8\[16\]"):
        pack_keys_int8(short, drawn(4, 2, 8))
    with pytest.raises(ValueError, match="must be dense uint8"):
        int8_attention(drawn(1, 2, 8), cache.keys, short, 4, 2)
