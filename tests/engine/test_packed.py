"""Attention over a packed sequence: layouts, Graphs, errors; its arithmetic is tests/native/test_attention_q8.py's."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import capture, no_grad
from pyapp.engine.packed import PackedSequence


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return pyapp.randn(*shape, generator=pyapp.Generator(seed))


def error(found: Tensor, expected: Tensor) -> float:
    a, b = found.numpy(), expected.numpy()
    return float(np.sqrt(np.square(a - b).mean() / np.square(b).mean()))


def test_it_is_attention_within_a_few_per_cent() -> None:
    sequence = PackedSequence(70, 2, 24)
    qkv = drawn(70, 8, 24)  # four heads of queries, two of keys and of values
    q, k, v = qkv.narrow(1, 0, 4), qkv.narrow(1, 4, 2), qkv.narrow(1, 6, 2)
    sequence.write(k, v)
    expected = ops.attention(*(x.unsqueeze(0) for x in (q, k, v)), False).squeeze(0)
    assert error(sequence.attention(q), expected) < 0.04
    turned = drawn(24, 4, 70).permute(2, 1, 0)  # columns far apart: copied
    expected = ops.attention(*(x.unsqueeze(0) for x in (turned, k, v)), False, 1.5).squeeze(0)
    assert error(sequence.attention(turned, 1.5), expected) < 0.08


def test_graphs_read_what_was_written_last() -> None:
    sequence, q, k, v = PackedSequence(9, 1, 8), drawn(2, 1, 8), drawn(9, 1, 8, seed=2), drawn(9, 1, 8, seed=3)
    sequence.write(k, v)
    with no_grad():
        graph = capture(lambda: sequence.attention(q))
    first = graph.outputs.numpy().copy()
    sequence.write(v, k)
    second = graph.replay().numpy()
    assert not np.allclose(first, second, atol=0.1)
    np.testing.assert_array_equal(second, sequence.attention(q).numpy())


@pytest.mark.parametrize("sizes", [(0, 1, 8), (4, 0, 8), (4, 1, 0), (4, 1, 257)])
def test_sizes_are_checked(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="heads are of 1 to 256"):
        PackedSequence(*sizes)


def test_what_does_not_fit_is_named() -> None:
    sequence = PackedSequence(4, 2, 8)
    with pytest.raises(ValueError, match=r"takes float32\[4, 2, 8\], got float32\[4, 3, 8\]"):
        sequence.write(drawn(4, 3, 8), drawn(4, 2, 8))
    with pytest.raises(ValueError, match="got float16"):
        sequence.write(drawn(4, 2, 8), drawn(4, 2, 8).to(pyapp.float16))
    for wrong in (drawn(1, 3, 8), drawn(1, 2, 9), drawn(2, 8), drawn(1, 2, 8).to(pyapp.float16)):
        with pytest.raises(ValueError, match="2 n, 8"):
            sequence.attention(wrong)
