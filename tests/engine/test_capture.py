"""Graphs: the launch records of one run, replayed."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, capture, no_grad, ops
from pyapp.engine import storage


def test_replay_reads_its_inputs_again() -> None:
    x, w = pyapp.zeros(1, 16), pyapp.randn(8, 16)
    with no_grad():
        graph = capture(lambda: ops.linear(ops.rms_norm(x, pyapp_ones), w).softmax(-1))
    for seed in range(3):
        x.copy_(pyapp.from_numpy(np.random.RandomState(seed).randn(1, 16).astype(np.float32)))
        with no_grad():
            expected = ops.linear(ops.rms_norm(x, pyapp_ones), w).softmax(-1).numpy().copy()
        np.testing.assert_array_equal(graph.replay().numpy(), expected)


pyapp_ones = pyapp.ones(16)


def test_its_memory_is_nobody_elses() -> None:
    """Blocks that the function freed must not serve other tensors while the Graph lives."""
    x, w = pyapp.ones(1, 16), pyapp.eye(16)
    with no_grad():
        graph = capture(lambda: ops.linear(ops.linear(ops.linear(x, w), w), w))
        others = [pyapp.full((1, 16), 7.0) for _ in range(50)]
        graph.replay()
    assert all(o.tolist() == [[7.0] * 16] for o in others)
    assert graph.outputs.tolist() == [[1.0] * 16]


def test_it_keeps_the_memory_of_its_temporaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small ones that end together, and more bytes than a device's own pool keeps: a replay writes them again."""
    monkeypatch.setattr(storage.Pool.__init__, "__defaults__", (pyapp.ones(1).device, 1 << 16, None))
    freed: list[int] = []
    monkeypatch.setattr(pyapp.ones(1).device.backend, "free", freed.append)

    def many(x: pyapp.Tensor) -> pyapp.Tensor:
        parts = [x[0, :4] + float(k) for k in range(storage.SMALL_KEPT + 100)]
        large = [x.exp() for _ in range(4)]
        return ops.stack(parts).sum(0) + sum(y[0, :4] for y in large)

    x = pyapp.ones(8, 4096)
    with no_grad():
        graph = capture(lambda: many(x))
        wanted = graph.outputs.tolist()
        x.mul_(2.0)
        changed = graph.replay().tolist()
    assert not freed
    terms = storage.SMALL_KEPT + 100
    steps = terms * (terms - 1) / 2
    np.testing.assert_allclose(wanted, [terms + steps + 4 * np.e] * 4, rtol=1e-5)
    np.testing.assert_allclose(changed, [2 * terms + steps + 4 * np.e**2] * 4, rtol=1e-5)


def test_it_takes_memory_that_eager_calls_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pyapp.ones(300, 1000)

    def chain() -> pyapp.Tensor:
        return ((x + 1) * (x + 2) - x).exp()

    with no_grad():
        chain()
        asked: list[int] = []
        allocate = x.device.backend.allocate
        monkeypatch.setattr(x.device.backend, "allocate", lambda nbytes: asked.append(nbytes) or allocate(nbytes))
        graph = capture(chain)
    assert max(asked, default=0) < x.numel() * 4
    assert graph.replay().numpy()[0, 0] == np.exp(np.float32(5))


def test_outputs_survive_the_graph() -> None:
    x, w = pyapp.ones(1, 16), pyapp.eye(16)
    with no_grad():
        graph = capture(lambda: ops.linear(x, w))
    y = graph.outputs
    del graph
    [pyapp.zeros(1, 16) for _ in range(20)]
    assert y.tolist() == [[1.0] * 16]


def test_what_has_no_kernel_is_named() -> None:
    x = pyapp.eye(2)
    with no_grad(), pytest.raises(RuntimeError, match="no kernel for 'det'"):
        capture(lambda: x.det())
    with no_grad():  # and capturing is over
        assert x.det().item() == 1


def test_a_refusal_is_no_singular_matrix() -> None:
    """What the host computes cannot be replayed: functions that take errors for singular matrices say so, too."""
    x, linalg = pyapp.eye(2).half(), pyapp.linalg
    for function in (linalg.inv_ex, linalg.cholesky_ex, lambda x: linalg.solve_ex(x, x), lambda x: linalg.cond(x, 1)):
        with no_grad(), pytest.raises(RuntimeError, match="no kernel for"):
            capture(lambda function=function: function(x))  # type: ignore[misc]


def test_captures_do_not_nest() -> None:
    with pytest.raises(RuntimeError, match="do not nest"):
        capture(lambda: capture(lambda: None))


def test_a_capture_within_a_compiled_function_and_within_vmap() -> None:
    """These run without a recording of their own."""

    def doubled(x: Tensor) -> Tensor:
        outputs: Tensor = capture(lambda: x * 2).outputs
        return outputs + 1

    values = pyapp.arange(16).float().reshape(8, 2)
    assert pyapp.func.vmap(doubled)(values).tolist() == (values * 2 + 1).tolist()
    compiled = pyapp.compile(doubled)
    with pytest.warns(UserWarning, match="do not nest"):
        found = [compiled(row) for row in values]
    assert [row.tolist() for row in found] == (values * 2 + 1).tolist()


def test_a_failing_replay_names_the_kernel() -> None:
    w, ids = pyapp.randn(4, 8), pyapp.zeros(1, dtype="int32")
    with no_grad():
        graph = capture(lambda: ops.embedding(w, ids))
    ids.data_view()[0] = 9
    with pytest.raises(IndexError, match="embedding_copy"):
        graph.replay()
    ids.data_view()[0] = 3
    np.testing.assert_array_equal(graph.replay().numpy()[0], w.numpy()[3])


def test_a_speech_encoder_is_replayed() -> None:
    """Convolutions, norms, GELU, open attention, bias and residual at once; weights of two formats."""
    x, random = pyapp.zeros(1, 5, 12), np.random.RandomState(3)
    kernel, bias, weight, square = (
        pyapp.from_numpy(random.randn(*shape).astype(np.float32)) for shape in ((32, 5, 3), (32,), (96, 32), (32, 32))
    )
    packed = pyapp.engine.quant.quantize(square, "q8_0")

    def encode() -> pyapp.Tensor:
        y = ops.gelu(ops.conv1d(x, kernel, bias, stride=2, padding=1)).permute(0, 2, 1)  # (1, 6, 32)
        q, k, v = (ops.linear(y, weight).reshape(1, 6, 12, 8).narrow(2, i, 4) for i in (0, 4, 8))
        mixed = ops.attention(q, k, v, causal=False).reshape(1, 6, 32)
        return ops.layer_norm(ops.linear(mixed, packed, bias, y), bias, bias)

    with no_grad():
        graph = capture(encode)
        for seed in range(3):
            x.copy_(pyapp.from_numpy(np.random.RandomState(seed).randn(1, 5, 12).astype(np.float32)))
            expected = encode().numpy().copy()
            np.testing.assert_array_equal(graph.replay().numpy(), expected)
            assert np.abs(expected).max() > 0.1
