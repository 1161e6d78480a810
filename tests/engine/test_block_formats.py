"""Tensors in every block format: made, read back, multiplied and looked up."""

from __future__ import annotations

from typing import Any

import pytest

from pyapp.engine import Tensor, capture, ops, quant
from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import quantize_blocks
from pyapp.engine.ops import from_numpy

np = pytest.importorskip("numpy")
KINDS = tuple(BLOCK_TYPES)


def normal(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 13, 16])
def test_blocks_there_and_back(kind: str, rows: int) -> None:
    blocks = quantize_blocks(normal(rows, 512), kind)
    tensor = quant.from_blocks(blocks.data, (rows, 512), kind)
    assert tensor.dtype.name == kind and tensor.shape == (rows, 512) and "blocks" in repr(tensor)
    assert bytes(quant.to_blocks(tensor).data) == bytes(blocks.data)
    expected = dequantize_blocks(blocks.data, kind).reshape(rows, 512)
    np.testing.assert_array_equal(quant.dequantize(tensor).numpy(), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [1, 5])
def test_linear_and_embedding(kind: str, tokens: int) -> None:
    """Within what int8 activations cost of the product with the dequantised weight."""
    weight = quant.quantize(from_numpy(normal(21, 512)), kind)
    x = from_numpy(normal(tokens, 512, seed=2))
    exact = x.numpy() @ quant.dequantize(weight).numpy().T
    y = ops.linear(x, weight)
    assert np.abs(y.numpy() - exact).max() < 0.015 * np.abs(exact).max() + 0.3
    assert np.sqrt(np.square(y.numpy() - exact).mean()) < 0.012 * np.sqrt(np.square(exact).mean())
    ids = from_numpy(np.array([[20, 0], [7, 7]], np.int32))
    rows = quant.dequantize(weight).numpy()[ids.numpy()]
    np.testing.assert_array_equal(ops.embedding(weight, ids).numpy(), rows)
    graph = capture(lambda: ops.linear(x, weight))
    np.testing.assert_array_equal(graph.replay().numpy(), y.numpy())


def test_gradient_flows_to_the_input() -> None:
    weight = quant.quantize(from_numpy(normal(16, 256)), "q4_K")
    x = from_numpy(normal(3, 256)).requires_grad_()
    ops.linear(x, weight).sum().backward()
    expected = np.tile(quant.dequantize(weight).numpy().sum(0), (3, 1))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["q4_0", "q4_K", "q5_1", "iq4_xs"])
def test_concatenation(kind: str) -> None:
    parts = [quant.quantize(from_numpy(normal(rows, 256, seed=rows)), kind) for rows in (16, 8)]
    whole = quant.concatenate(parts)
    assert whole.dtype.name == kind and whole.shape == (24, 256)
    expected = np.concatenate([quant.dequantize(part).numpy() for part in parts])
    np.testing.assert_array_equal(quant.dequantize(whole).numpy(), expected)


def test_clear_errors() -> None:
    def fails(match: str, function: Any, *arguments: Any) -> None:
        with pytest.raises(ValueError, match=match):
            function(*arguments)

    fails("q4_K blocks do not hold a matrix of 128 columns", quant.from_blocks, b"", (1, 128), "q4_K")
    fails("holds 144 bytes, the buffer 3", quant.from_blocks, b"abc", (1, 256), "q4_K")
    fails("cannot write pyapp.q8_group", quant.quantize, from_numpy(normal(2, 64)), "q8_group")
    fails("whole blocks of 256", quant.quantize, from_numpy(normal(2, 64)), "q6_K")
    fails("is not in GGML's blocks", quant.to_blocks, from_numpy(normal(2, 64)))
    fails("NaN or infinite", quant.quantize, from_numpy(np.full((1, 32), np.nan, np.float32)), "q4_0")
    ids = Tensor.from_buffer(np.array([3], np.int32), (1,), "int32")
    with pytest.raises(IndexError):
        ops.embedding(quant.quantize(from_numpy(normal(3, 32)), "q4_1"), ids)
