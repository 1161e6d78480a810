"""Sparse tensors: as torch (golden_sparse.json), and what it does not say."""

from __future__ import annotations

import builtins
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.sparse import SparseTensor
from tests.together import check_each

from .cases_sparse import CASES, STEPS, WRONG, inputs, told, trained

GOLDEN = json.loads(Path(__file__).with_name("golden_sparse.json").read_text())


def test_as_torch() -> None:
    def check(name: str, call: Any) -> None:
        found, wanted = told(pyapp, call), GOLDEN["cases"][name]
        gradients, wanted_gradients = found.pop("gradients"), wanted.pop("gradients")
        elements, wanted_elements = found.pop("elements"), wanted.pop("elements")
        assert found == wanted
        np.testing.assert_allclose(elements, wanted_elements, rtol=1e-5, atol=1e-6)
        for leaf, gradient in (wanted_gradients or {}).items():
            np.testing.assert_allclose(gradients.get(leaf, 0.0), gradient, rtol=1e-5, atol=1e-5, err_msg=leaf)

    check_each(check, CASES.items())


def test_wrong_calls() -> None:
    def check(name: str, call: Any) -> None:
        with pytest.raises(getattr(builtins, GOLDEN["wrong"][name])):
            call(pyapp, inputs(pyapp)["a"].detach())

    check_each(check, WRONG.items())


def test_sparse_gradients_of_embeddings() -> None:
    def check(name: str, given: Any) -> None:
        np.testing.assert_allclose(trained(pyapp, *given), GOLDEN["steps"][name], rtol=1e-5, atol=1e-6)

    check_each(check, STEPS.items())


def test_texts() -> None:
    made = inputs(pyapp)
    found = {name: repr(x) for name, x in made.items() if x.is_sparse}
    found["csr"] = repr(made["c"].detach().to_sparse_csr())
    assert found == GOLDEN["texts"]


def test_gradients_of_different_layouts_add_up() -> None:
    """A weight that is looked up with sparse gradients, and is a matrix of a product too."""
    ids, weight = pyapp.tensor([[0, 2], [2, 1]]), pyapp.arange(12.0).reshape(4, 3).requires_grad_()
    look_up = pyapp.nn.functional.embedding
    gradients = []
    for sparse in (True, False):
        weight.grad = None
        rows = look_up(ids, weight, sparse=sparse)
        (rows.sum() + look_up(ids, weight, sparse=sparse).square().sum() + (rows @ weight.t()).sum()).backward()
        look_up(ids, weight, sparse=sparse).sum().backward()
        gradients.append(weight.grad.to_dense().tolist())
    assert gradients[0] == gradients[1]


def test_second_derivatives() -> None:
    a = inputs(pyapp)["a"].detach()
    values = a.coalesce().values().double().requires_grad_()
    b = pyapp.rand(4, 3, dtype=pyapp.float64, generator=pyapp.Generator().manual_seed(0)).requires_grad_()
    places = a.coalesce().indices()

    def product(values: Any, b: Any) -> Any:
        return pyapp.sparse_coo_tensor(places, values, (2, 4)) @ b

    assert pyapp.autograd.gradcheck(product, (values, b))
    assert pyapp.autograd.gradgradcheck(product, (values, b))


def test_products_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long products look up a part of the rows at a time."""
    products = __import__("pyapp.engine.ops.sparse.products", fromlist=["PIECE"])

    def computed() -> tuple[Any, Any]:
        x = inputs(pyapp)
        y = x["a"].to_sparse_csr() @ x["w"]
        y.square().sum().backward()
        return y.tolist(), (x["a"].grad.to_dense().tolist(), x["w"].grad.tolist())

    whole = computed()
    monkeypatch.setattr(products, "PIECE", 4)
    assert computed() == whole


def test_a_sparse_tensor_is_a_tensor_without_memory() -> None:
    x = inputs(pyapp)["a"].detach()
    assert isinstance(x, pyapp.Tensor) and isinstance(x, SparseTensor) and pyapp.is_tensor(x)
    assert (x.shape, x.dtype, x.ndim, x.numel(), len(x)) == ((2, 4), pyapp.float32, 2, 8, 2)
    assert x.layout is pyapp.sparse_coo and not x.to_dense().is_sparse and x.to_dense().layout is pyapp.strided
    assert (x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced()) == (2, 0, 5, False)
    for read in (lambda: x.address, lambda: x.stride(), lambda: x.data_view(), lambda: x.clamp(0.0), lambda: x == x):
        with pytest.raises((NotImplementedError, ValueError), match="sparse|dense"):
            read()
    with pytest.raises(NotImplementedError, match=r"^exp: .* in exp\(sparse float32\[2, 4\] on cpu\)"):
        pyapp.exp(x)


def test_copies_and_buffers() -> None:
    x = inputs(pyapp)["a"].detach()
    twin = copy.deepcopy(x)
    twin._values().fill_(0.0)
    assert x.to_dense().abs().sum() > 0 and twin.to_dense().abs().sum() == 0
    module = pyapp.nn.Module()
    module.register_buffer("graph", x.coalesce())
    state = copy.deepcopy(module.state_dict())
    module.to(pyapp.float64)
    assert module.graph.is_sparse and module.graph.dtype is pyapp.float64
    module.graph.zero_()
    module.load_state_dict(state)
    assert module.graph.to_dense().tolist() == x.to_dense().double().tolist()


def test_in_place() -> None:
    x = inputs(pyapp)["a"].detach()
    wanted = (x.to_dense() * 3 + x.to_dense()).tolist()
    x.mul_(3).add_(inputs(pyapp)["a"].detach())
    assert x.to_dense().tolist() == wanted
    y = pyapp.ones(2, 4)
    y += x
    y.sub_(x, alpha=2)
    assert y.tolist() == (1 - x.to_dense()).tolist()
    with pytest.raises(RuntimeError, match="leaf"):
        x.requires_grad_().mul_(2)


def test_large_sizes() -> None:
    x = pyapp.sparse_coo_tensor([[1 << 40], [3]], [2.0], (1 << 41, 5))
    assert x.t().coalesce().indices().tolist() == [[3], [1 << 40]] and float(x.sum()) == 2
    with pytest.raises(MemoryError):
        x.to_dense()
    with pytest.raises(ValueError, match="too large"):
        pyapp.sparse_coo_tensor([[1, 1], [1, 1]], [1.0, 2.0], (1 << 40, 1 << 40)).coalesce()
