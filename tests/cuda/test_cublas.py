"""Products by cuBLASLt, against a double of the library that computes with NumPy (cublas_double.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine import capture, ops, quant
from pyapp.engine.device import register
from pyapp.engine.devices.cuda import Cuda
from pyapp.engine.gpu import cublas
from pyapp.engine.gpu.cublas import Products
from pyapp.engine.op import OPS
from pyapp.errors import KernelError
from pyapp.nn import functional as F
from tests.models.test_decoders import TEXT, make

from . import emulated
from .cublas_double import CardWithDouble

pytestmark = [pytest.mark.native_only, pytest.mark.skipif(emulated.REAL, reason="needs the double of the library")]
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture
def card() -> CardWithDouble:
    emulated.open_emulated(None)  # compiles the kernels
    made = CardWithDouble()
    backend = Cuda(made)
    _backends.append(backend)
    made.device = "library" + "x" * len(_backends)  # type: ignore[attr-defined]
    register(made.device, lambda index: backend)  # type: ignore[attr-defined]
    return made


_backends: list[Cuda] = []


def normal(*shape: int, seed: int, dtype: str = "float32") -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return pyapp.from_numpy(values).to(getattr(pyapp, dtype))


def assert_near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape and found.dtype is expected.dtype
    ours, theirs = found.cpu().float().numpy(), expected.float().numpy()
    tolerance = TOLERANCE[str(expected.dtype).split(".")[-1]]
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * np.abs(theirs).max())


def at(card: Any, *tensors: Tensor | None) -> list[Any]:
    return [None if x is None else x.to(card.device) for x in tensors]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("added", ["nothing", "bias", "residual", "both"])
def test_linear(card: Any, dtype: str, added: str) -> None:
    x, w = normal(3, 20, 24, seed=1, dtype=dtype), normal(10, 24, seed=2, dtype=dtype)
    bias = normal(10, seed=3, dtype=dtype) if added in ("bias", "both") else None
    residual = normal(3, 20, 10, seed=4, dtype=dtype) if added in ("residual", "both") else None

    def compute(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return OPS["_linear"](x, w, bias, residual)

    expected = compute(x, w, bias, residual)
    assert_near(compute(*at(card, x, w, bias, residual)), expected)
    assert card.launched.count("cublasLtMatmul") == 1 and not any("linear" in name for name in card.launched)
    assert card.double.computed == [(68, 10, 60, 24)]
    card.check()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "q8_0", "q4_0", "q6_K", "iq4_nl"])
@pytest.mark.parametrize("added", ["nothing", "bias", "residual"])
def test_linear_of_float32_and_narrower_weights(card: Any, kind: str, added: str, monkeypatch: Any) -> None:
    """Operands of 16 bits are made first; weights in blocks a slice at a time."""
    monkeypatch.setattr(cublas, "SLICE", 2 * 256 * 256)
    x, w = normal(5, 7, 256, seed=1), normal(600, 256, seed=2)
    w = quant.quantize(w, kind) if "_" in kind else w.to(getattr(pyapp, kind))
    bias = normal(600, seed=3) if added == "bias" else None
    residual = normal(5, 7, 600, seed=4) if added == "residual" else None
    expected = OPS["_linear"](x, w, bias, residual)
    found = OPS["_linear"](*at(card, x, w, bias, residual))
    bound = 2.0 ** (-7 if kind == "bfloat16" else -9) * float(expected.abs().max())
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=0, atol=bound)
    slices = [256, 256, 88] if "_" in kind else [600]
    assert card.double.computed == [(68, size, 35, 256) for size in slices]
    assert not {"linear_f16", "linear_bf16", "linear_q8_0", "linear_blocks"} & set(card.launched)
    card.check()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("activation", ["relu", "gelu_tanh"])
@pytest.mark.parametrize("biased", [False, True])
def test_activations_are_a_part_of_the_product(card: Any, dtype: str, activation: str, biased: bool) -> None:
    x, w = normal(3, 20, 24, seed=1, dtype=dtype), normal(10, 24, seed=2, dtype=dtype)
    bias = normal(10, seed=3, dtype=dtype) if biased else None
    expected = ops.linear(x.float(), w.float(), None if bias is None else bias.float())
    expected = (expected.relu() if activation == "relu" else F.gelu(expected, "tanh")).to(x.dtype)
    assert_near(ops.linear_activated(x, w, bias, activation), expected)
    ours = at(card, x, w, bias)
    card.launched.clear()
    assert_near(ops.linear_activated(*ours, activation), expected)
    assert card.launched == ["cublasLtMatmul"]
    graph = capture(lambda: ops.linear_activated(*ours, activation) + 1.0)
    assert_near(graph.replay() - 1.0, ((expected + 1.0) - 1.0))
    assert "unary" not in card.launched
    card.double.refuses_activations = True  # then a kernel follows
    more = x[:, :15].to(card.device)
    assert_near(ops.linear_activated(more, *ours[1:], activation), expected[:, :15])
    assert card.launched[-2:] == ["cublasLtMatmul", "unary"]
    few = x[:1, :5].to(card.device)
    assert_near(ops.linear_activated(few, *ours[1:], activation), expected[:1, :5])
    assert card.launched[-1] == "unary" and card.launched[-2] != "cublasLtMatmul"
    card.check()


def test_a_feed_forward_is_two_products(card: Any) -> None:
    """Phi's activation runs in the first one's call; with gradients, after it."""
    model = make("phi", 1).requires_grad_(False)
    expected = model(pyapp.tensor([TEXT]))
    model.to(card.device)
    ids = pyapp.tensor([TEXT], device=card.device)
    card.launched.clear()
    found = model(ids)
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), atol=2e-4)
    assert card.launched.count("cublasLtMatmul") >= 4 and "unary" not in card.launched
    model.requires_grad_(True)
    model(ids).sum().backward()
    assert "unary" in card.launched


def test_rows_apart_and_few_rows(card: Any) -> None:
    x, w = normal(20, 40, seed=1)[:, 3:19], normal(6, 16, seed=2)
    assert_near(F.linear(normal(20, 40, seed=1).to(card.device)[:, 3:19], w.to(card.device)), F.linear(x, w))
    assert card.launched.count("cublasLtMatmul") == 1
    assert_near(F.linear(*at(card, x[:2], w)), F.linear(x[:2], w))
    assert card.launched.count("cublasLtMatmul") == 1 and "linear_f32" in card.launched


TURNS: dict[str, Any] = {
    "as they are": lambda a, b: (a, b),
    "left turned": lambda a, b: (a.transpose(-1, -2).contiguous().transpose(-1, -2), b),
    "right turned": lambda a, b: (a, b.transpose(-1, -2).contiguous().transpose(-1, -2)),
    "both turned": lambda a, b: tuple(x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (a, b)),
}


@pytest.mark.parametrize(
    ("dtype", "turn"), [("float16", "as they are"), ("bfloat16", "both turned"), *(("float32", turn) for turn in TURNS)]
)
@pytest.mark.parametrize(
    "left, right",
    [((5, 7), (7, 3)), ((1, 7), (7, 3)), ((5, 7), (7, 1)), ((5, 1), (1, 3)), ((4, 5, 7), (4, 7, 3)),
     ((2, 3, 5, 7), (7, 2)), ((1, 5, 7), (6, 7, 3))],
    ids=str,
)  # fmt: skip
def test_matmul(card: Any, dtype: str, turn: str, left: Any, right: Any) -> None:
    a, b = normal(*left, seed=1, dtype=dtype), normal(*right, seed=2, dtype=dtype)
    expected = a @ b
    ours = TURNS[turn](*at(card, a, b))
    before = len(card.launched)
    assert_near(ours[0] @ ours[1], expected)
    assert "cublasLtMatmul" in card.launched[before:] and "matmul_f32" not in card.launched
    card.check()


def test_views_that_the_library_cannot_name_take_kernels(card: Any) -> None:
    a, b = normal(6, 40, seed=1), normal(20, 3, seed=2)
    expected = a[:, ::2] @ b
    assert_near(a.to(card.device)[:, ::2] @ b.to(card.device), expected)
    assert "cublasLtMatmul" not in card.launched and "matmul_f32" in card.launched


def test_without_an_algorithm_kernels_compute(card: Any) -> None:
    card.double.refuses = True
    a, b = normal(6, 9, seed=1), normal(9, 3, seed=2)
    alive = len(card.double.objects)
    for _ in range(2):
        assert_near(a.to(card.device) @ b.to(card.device), a @ b)
    assert "cublasLtMatmul" not in card.launched and len(card.double.objects) == alive
    assert card.double.calls.count("cublasLtMatmulAlgoGetHeuristic") == 1


def test_algorithms_are_chosen_once(card: Any) -> None:
    a, b = normal(6, 9, seed=1).to(card.device), normal(9, 3, seed=2).to(card.device)
    for _ in range(3):
        a @ b
    assert card.double.calls.count("cublasLtMatmul") == 3
    assert card.double.calls.count("cublasLtMatmulAlgoGetHeuristic") == 1
    assert "cublasLtMatmulPreferenceDestroy" in card.double.calls


def test_tf32_only_where_it_is_allowed(card: Any) -> None:
    a, b = normal(6, 9, seed=1).to(card.device), normal(9, 3, seed=2).to(card.device)
    a @ b
    assert pyapp.backends.cuda.matmul.allow_tf32 is False
    pyapp.set_float32_matmul_precision("high")
    try:
        assert pyapp.backends.cuda.matmul.allow_tf32
        a @ b
        a.half() @ b.half()
    finally:
        pyapp.backends.cuda.matmul.allow_tf32 = False
    a @ b
    assert [kind for kind, *_ in card.double.computed] == [68, 77, 68, 68]


def test_a_graph_has_its_own_workspace(card: Any) -> None:
    x, w = normal(12, 16, seed=1).to(card.device), normal(5, 16, seed=2).to(card.device)
    graph = capture(lambda: F.linear(x, w).relu())
    card.launched.clear()
    x.assign(normal(12, 16, seed=3).reshape(-1).tolist())
    assert_near(graph.replay(), F.linear(x.cpu(), w.cpu()).relu())
    assert card.launched.count("cublasLtMatmul") == 1


def test_what_the_library_finds_wrong_is_named(card: Any) -> None:
    products = card.products()
    with pytest.raises(KernelError, match=r"cuBLASLt.*cublasLtMatrixLayoutCreate answers with status 7"):
        products._new("cublasLtMatrixLayoutCreate", 0, 4, 4, 3)
    assert isinstance(products, Products)
