"""The CUDA device on the emulator: every op that has kernels gives the numbers and gradients of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine import ops
from pyapp.nn import functional as F
from tests.engine import test_fused
from tests.engine import test_recurrent as recurrent
from tests.engine.test_fused import EVERY, normal

from . import emulated

pytestmark = pytest.mark.native_only
DEVICE = emulated.DEVICE


def results(name: str, device: str, monkeypatch: pytest.MonkeyPatch, weights: list[Tensor]) -> list[Tensor]:
    """The result of a case and the gradients of its inputs; `weights` makes it a number, and is made by the first."""
    function, inputs = EVERY[name]
    leaves = [x.detach().to(device).requires_grad_() for x in inputs]
    table, int32 = test_fused.TABLE, test_fused.int32
    with monkeypatch.context() as patch:
        patch.setattr(test_fused, "TABLE", table.to(device))
        patch.setattr(test_fused, "int32", lambda *values: int32(*values).to(device))
        y = function(*leaves)
    assert y.device == device
    if not weights:
        weights.append(normal(*y.shape or (1,), seed=5).reshape(y.shape))
    if y.numel():
        (y * weights[0].to(device)).sum().backward()
    return [y.detach().cpu(), *(x.grad.cpu() for x in leaves if x.grad is not None)]


def assert_near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape and found.dtype is expected.dtype
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-9}.get(str(expected.dtype).split(".")[-1], 3e-5)
    values: Any = expected.float().numpy() if expected.dtype is pyapp.bfloat16 else expected.numpy()
    ours: Any = found.float().numpy() if found.dtype is pyapp.bfloat16 else found.numpy()
    if values.dtype.kind != "f":
        np.testing.assert_array_equal(ours, values)
        return
    finite = np.abs(values[np.isfinite(values)])
    np.testing.assert_allclose(ours, values, rtol=tolerance, atol=tolerance * max(float(finite.max(initial=0)), 1e-3))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", ["relu", "gelu_tanh"])
def test_linear_and_activation(activation: str, dtype: str) -> None:
    """Without gradients, where both may be one call; few rows and many."""
    inputs = [normal(21, 24), normal(10, 24, seed=1), normal(10, seed=2)]
    x, w, bias = (t.to(dtype) for t in inputs)
    for rows, own in ((21, bias), (21, None), (3, bias)):
        expected = ops.linear_activated(*(None if t is None else t.float() for t in (x[:rows], w, own)), activation)
        ours = [None if t is None else t.to(DEVICE) for t in (x[:rows], w, own)]
        assert_near(ops.linear_activated(*ours, activation).cpu(), expected.to(dtype))
    emulated.check()


@pytest.mark.parametrize("name", EVERY)
def test_op_and_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights: list[Tensor] = []
    expected = results(name, "cpu", monkeypatch, weights)
    found = results(name, DEVICE, monkeypatch, weights)
    emulated.check()
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert_near(ours, theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"softcap": 2.0}, {"masked": True}], ids=str)
def test_gradients_of_attention_use_what_it_kept(dtype: str, heads_first: bool, options: dict[str, Any]) -> None:
    """In both layouts, against the CPU in float32."""
    shape = (2, 3, 70, 40)  # B, H, T, D
    q, k, v, g = (normal(*shape, seed=seed).to(dtype) for seed in range(4))
    options = dict(options)
    if options.pop("masked", False):
        options["attn_mask"] = normal(2, 1, 70, 70, seed=5) > -0.5

    def gradients(device: str, other: str) -> list[Tensor]:
        leaves = [x.to(device).to(other) for x in (q, k, v)]
        if not heads_first:
            leaves = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in leaves]
        leaves = [x.detach().requires_grad_() for x in leaves]
        own = {name: x.to(device) if isinstance(x, Tensor) else x for name, x in options.items()}
        y = pyapp.nn.functional.scaled_dot_product_attention(*leaves, **own)
        if device == DEVICE:
            assert y._storage.nbytes == 2 * y.numel() + 8 * 2 * 3 * 70
        y.backward(g.to(device).to(other))
        return [y.detach().cpu(), *(x.grad.cpu() for x in leaves if x.grad is not None)]

    found = gradients(DEVICE, dtype)
    for ours, exact in zip(found, gradients("cpu", "float32"), strict=True):
        assert_near(ours, exact.to(dtype))


@pytest.mark.parametrize("columns", [40, 67])  # rows that begin at 16 bytes, and others
@pytest.mark.parametrize("ignored", [-100, 3])
def test_cross_entropy_of_16_bits_in_autocast(columns: int, ignored: int) -> None:
    """The loss is float32, and the gradient has the dtype of the logits; both from logits that nothing rounds."""
    logits, targets = normal(21, columns, seed=6) * 4, pyapp.arange(21) % 7
    found = []
    for device in ("cpu", DEVICE):
        x = logits.bfloat16().to(device).requires_grad_()
        with pyapp.autocast(pyapp.device(device).type, dtype=pyapp.bfloat16):
            loss = pyapp.nn.functional.cross_entropy(x, targets.to(device), ignore_index=ignored)
        loss.backward()
        assert loss.dtype is pyapp.float32 and x.grad.dtype is pyapp.bfloat16
        found.append((loss.detach().cpu(), x.grad.cpu()))
    for expected, ours in zip(*found, strict=True):
        assert_near(ours, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", recurrent.OPS)
def test_recurrent_layers_have_kernels(kind: str, reverse: bool) -> None:
    given = recurrent.arguments(kind)
    backend: Any = pyapp.device(DEVICE).backend
    before = 0 if emulated.REAL else len(backend.card.launched)
    there = [t.to(DEVICE) if isinstance(t, Tensor) else t for t in given]
    tensors = [t.requires_grad_() if isinstance(t, Tensor) else t for t in there]
    y = recurrent.OPS[kind](*tensors, reverse)
    assert emulated.REAL or len(backend.card.launched) - before <= 2 * recurrent.STEPS + 2
    (y * recurrent.normal(*y.shape, seed=9).to(DEVICE)).sum().backward()
    found = [y.detach(), *(t.grad for t in tensors if isinstance(t, Tensor))]
    for one, other in zip(found, recurrent.results(kind, given, reverse), strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-4, atol=1e-5)
    emulated.check()


@pytest.mark.filterwarnings("error:.*the host computes it from copies")
def test_cards_compute_products_of_bool_distances_and_gradients_of_samples() -> None:
    random = np.random.default_rng(2)

    def drawn(*shape: int) -> Tensor:
        return pyapp.from_numpy(random.standard_normal(shape).astype(np.float32))

    for left, right in (((3, 4), (4, 2)), ((2, 3, 4), (4,)), ((4,), (4,))):
        a, b = drawn(*left) > 0, drawn(*right) > 0
        found = a.to(DEVICE) @ b.to(DEVICE)
        assert found.dtype is pyapp.bool and (found.cpu() == a @ b).all()
    calls: list[tuple[Callable[..., Tensor], list[Tensor]]] = [
        (lambda a, b: pyapp.cdist(a, b, 1.0), [drawn(3, 5), drawn(4, 5)]),
        (lambda a: pyapp.pdist(a), [drawn(4, 5)]),
        (lambda x, grid: F.grid_sample(x, grid, align_corners=False), [drawn(1, 2, 4, 3), drawn(1, 3, 2, 2)]),
    ]
    for function, inputs in calls:
        results = []
        for device in (DEVICE, "cpu"):
            own = [x.to(device).detach().requires_grad_() for x in inputs]
            y = function(*own)
            y.square().sum().backward()
            results.append([y.detach(), *(x.grad for x in own if x.grad is not None)])
        assert len(results[0]) == 1 + len(inputs)
        for ours, expected in zip(*results, strict=True):
            np.testing.assert_allclose(ours.cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    emulated.check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
def test_a_limit_below_the_other_counts(dtype: str) -> None:
    x = pyapp.tensor([-2.0, 0.0, 2.0]).to(dtype)
    assert x.to(DEVICE).clamp(1, -1).tolist() == x.clamp(1, -1).tolist() == [-1, -1, -1]
