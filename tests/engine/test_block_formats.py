"""Tensors in every block format: made, read back, multiplied and looked up."""

from __future__ import annotations

from typing import Any

import pytest

from pyapp.engine import Tensor, capture, no_grad, ops, quant
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
    """The product is that with the dequantised weight, within the error of int8 activations."""
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


# One type of each kind of layout: in bands of 32 and of 256 columns, and row by row.
LAYOUTS = ("q8_0", "q4_K", "iq4_nl")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_blocks_are_made_copied_and_compared_like_other_tensors(kind: str) -> None:
    q = from_numpy(normal(10, 256)).to(kind)
    values = quant.dequantize(q).numpy()
    for made in (
        ops.empty(10, 256, dtype=kind),
        ops.empty_like(q),
        q.new_empty((10, 256)),
        q.clone(),
        q.to(kind, copy=True),
    ):
        assert made.dtype is q.dtype and made.nbytes == q.nbytes and made._storage is not q._storage
    for made in (ops.zeros(10, 256, dtype=kind), ops.zeros_like(q), q.new_zeros((10, 256)), q.clone().zero_()):
        assert made.dtype is q.dtype and not made.to("float32").any()
    assert q.equal(q.clone()) and q.equal(from_numpy(values)) and not q.equal(from_numpy(values + 1))
    assert ops.tensor(normal(10, 256).tolist(), dtype=kind).equal(q)
    assert q.to("q4_0").equal(from_numpy(values).to("q4_0")) and q.to(kind) is q
    with no_grad():
        wanted = from_numpy(normal(1, 256, seed=3)).requires_grad_()
        target = ops.empty_like(q)
        assert target.copy_(q).equal(q) and target.copy_(from_numpy(normal(10, 256))).equal(q)
        assert ops.empty(10, 256).copy_(q).equal(q)
    assert target.copy_(wanted[0]).equal(wanted.detach().expand(10, 256).to(kind)) and not target.requires_grad
    before = target.clone()
    with pytest.raises(ValueError, match="NaN|do not broadcast"):
        target.copy_(ops.full((9, 256), 1.0))
    assert target.equal(before)


def test_copies_are_recorded_in_a_graph() -> None:
    source, target = (from_numpy(normal(10, 256, seed=seed)).to("q4_K") for seed in (1, 2))
    graph = capture(lambda: (source.clone(), target.copy_(source)))
    with no_grad():
        source.copy_(from_numpy(normal(10, 256, seed=3)))
    copies = graph.replay()
    assert all(copy.equal(source) for copy in copies)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_products_with_a_transposed_matrix_are_linear(kind: str) -> None:
    """Bit for bit, so by the same kernel; other products are those of the unpacked matrix."""
    q, x = from_numpy(normal(10, 256)).to(kind), from_numpy(normal(2, 3, 256, seed=2))
    values = q.to("float32")
    for view in (q.T, q.t(), q.mT, q.transpose(0, -1), q.permute(1, 0), q.T.clone()):
        assert view.shape == (256, 10) and view.dtype is q.dtype and "transposed" in repr(view)
        assert (x @ view).equal(ops.linear(x, q)) and (x[0, 0] @ view).equal(ops.linear(x[0, 0], q))
    assert ops.mm(x[0], q.T).equal(ops.linear(x[0], q)) and (x.half() @ q.T).equal(ops.linear(x.half(), q))
    assert q.T.T.equal(q) and q.T.to("float32").equal(values.T) and quant.dequantize(q.T).equal(values.T)
    assert ops.mv(q, x[0, 0]).equal(values @ x[0, 0]) and (q @ x[0].T).equal(values @ x[0].T)
    other = from_numpy(normal(5, 10))
    assert (other @ q).equal(other @ values) and (x.double() @ q.T).dtype is x.double().dtype
    np.testing.assert_allclose((x.double() @ q.T).numpy(), (x @ values.T).numpy(), rtol=1e-5, atol=1e-5)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    (inputs[0] @ q.T).square().sum().backward()
    ops.linear(inputs[1], q).square().sum().backward()
    np.testing.assert_allclose(inputs[0].grad.numpy(), inputs[1].grad.numpy(), rtol=1e-5, atol=1e-5)


def test_a_transposed_matrix_is_never_taken_for_a_packed_one() -> None:
    square = from_numpy(normal(256, 256)).to("q4_K")
    values = square.to("float32")
    x, ids = from_numpy(normal(3, 256)), from_numpy(np.array([3, 255], np.int32))
    np.testing.assert_allclose(ops.linear(x, square.T).numpy(), (x @ values).numpy(), rtol=1e-5, atol=1e-5)
    assert ops.embedding(square.T, ids).equal(values.T[ids])
    assert quant.concatenate([square.T, square]).equal(ops.cat([values.T, values]))
    assert square.T.to("q8_0").equal(values.T.contiguous().to("q8_0"))
    row = from_numpy(normal(1, 256)).to("q8_0")  # whose transposed view has strides of a dense matrix
    assert ops.embedding(row.T, ids).equal(row.to("float32").T[ids])
    for call in (quant.to_blocks, lambda q: q.contiguous(), lambda q: q.copy_(values)):
        with pytest.raises(TypeError, match=r"transposed view.*\.to\(float32\)"):
            call(square.T)


def test_what_blocks_cannot_do_says_what_to_do() -> None:
    q = from_numpy(normal(8, 256)).to("q8_0")
    for call in (
        lambda: q + 1,
        lambda: q == q,
        lambda: q[0],
        lambda: q.numpy(),
        lambda: q.reshape(-1),
        lambda: q.sum(),
    ):
        with pytest.raises(TypeError, match=r"\.to\(float32\)"):
            call()
    with pytest.raises(TypeError, match="takes 0 only"):
        q.fill_(1)
    with pytest.raises(TypeError, match=r"convert them with \.to\(dtype\)"):
        ops.randn(8, 256, dtype="q8_0")
    with pytest.raises(ValueError, match="block formats store matrices"):
        q.new_tensor([1.0])


def test_clear_errors() -> None:
    def fails(match: str, function: Any, *arguments: Any) -> None:
        with pytest.raises(ValueError, match=match):
            function(*arguments)

    fails("a matrix of 128 columns is not in whole pyapp.q4_K blocks", quant.from_blocks, b"", (1, 128), "q4_K")
    fails("needs 144 bytes, the buffer has 3", quant.from_blocks, b"abc", (1, 256), "q4_K")
    fails("cannot write pyapp.q8_group", quant.quantize, from_numpy(normal(2, 64)), "q8_group")
    fails("whole blocks of 256", quant.quantize, from_numpy(normal(2, 64)), "q6_K")
    fails("is not in GGML's blocks", quant.to_blocks, from_numpy(normal(2, 64)))
    fails("NaN or infinite", quant.quantize, from_numpy(np.full((1, 32), np.nan, np.float32)), "q4_0")
    ids = Tensor.from_buffer(np.array([3], np.int32), (1,), "int32")
    with pytest.raises(IndexError):
        ops.embedding(quant.quantize(from_numpy(normal(3, 32)), "q4_1"), ids)
