"""Hooks on saved tensors: what passes through them, and gradients from what they give back."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, tensor
from pyapp.autograd import Function, gradcheck, gradgradcheck
from pyapp.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from tests.together import fewer_in_browser

from .leaves import leaf64
from .test_second_order import OPS


def to_numbers(x: Tensor) -> Any:
    """A packed form that has nothing to do with the tensor's memory."""
    assert not x.requires_grad and x.is_leaf
    return x.numpy().copy(), x.dtype


def to_tensor(packed: Any) -> Tensor:
    values, dtype = packed
    return pyapp.from_numpy(values.copy()).to(dtype)


@pytest.mark.parametrize("name", fewer_in_browser(OPS))
def test_derivatives_through_hooks(name: str) -> None:
    function, inputs = OPS[name]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    with saved_tensors_hooks(to_numbers, to_tensor):
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs, atol=1e-4)


def test_what_hooks_get() -> None:
    seen: list[Any] = []
    x, w = leaf64(1, 2), leaf64(3, 5)

    def pack(t: Tensor) -> Any:
        seen.append(("pack", t.tolist()))
        return t

    def unpack(t: Tensor) -> Tensor:
        seen.append(("unpack", t.tolist()))
        return t

    with saved_tensors_hooks(pack, unpack):
        y = (x * w).exp()
    packs = [("pack", [1, 2]), ("pack", [3, 5]), ("pack", pytest.approx([np.exp(3), np.exp(10)]))]
    assert seen == packs
    y.sum().backward(retain_graph=True)
    assert [what for what, _ in seen[3:]] == ["unpack"] * 3
    y.sum().backward()
    assert len(seen) == 9 and x.grad.tolist() == pytest.approx([6 * np.exp(3), 10 * np.exp(10)])
    with pytest.raises(RuntimeError, match="'exp' were freed by an earlier backward"):
        y.sum().backward()


def test_the_saved_memory_is_free() -> None:
    """Also that of arguments whose elements no gradient reads."""
    gc.disable()
    try:
        x = leaf64(*range(50))
        with saved_tensors_hooks(to_numbers, to_tensor):
            a = x * 2
            b = a.reshape(5, 10)
            c = b + 1
            y = c.exp().sum()
        gone = [weakref.ref(t) for t in (a, b, c)]
        del a, b, c
        assert [r() for r in gone] == [None] * 3
        y.backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2 * np.arange(50.0) + 1))
    finally:
        gc.enable()


def test_the_innermost_hooks_count_and_end() -> None:
    seen: list[str] = []
    x = leaf64(1.0, 2.0)
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
        with pyapp.no_grad():
            x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_gradients_of_gradients_reach_the_leaves() -> None:
    x, w = leaf64(0.5, -0.25), leaf64(2.0, 3.0)

    def third() -> Any:
        y = (x * w).sin().exp().sum()
        (first,) = pyapp.autograd.grad(y, x, create_graph=True)
        (second,) = pyapp.autograd.grad(first.square().sum(), w, create_graph=True)
        return pyapp.autograd.grad(second.sum(), (x, w))

    expected = third()
    with saved_tensors_hooks(to_numbers, to_tensor):
        found = third()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


class Product(Function):
    """Saves two inputs and its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        z = (x * y).exp()
        ctx.save_for_backward(x, y, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y, z = ctx.saved_tensors
        return g * z * y, g * z * x


def test_functions_of_ones_own() -> None:
    x, y = leaf64(0.5, -1.0), leaf64(2.0, 0.25)
    seen: list[int] = []
    with saved_tensors_hooks(lambda t: seen.append(t.numel()) or to_numbers(t), to_tensor):
        assert gradcheck(Product.apply, (x, y)) and gradgradcheck(Product.apply, (x, y))
        seen.clear()
        z = Product.apply(x, y)
        assert seen == [2, 2, 2]
        gone = weakref.ref(z)
        (first,) = pyapp.autograd.grad(z.sum(), x, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), (y * (x * y).exp()).detach().numpy())
    del z, first
    gc.collect()
    assert gone() is None


def test_what_is_written_after_it_was_saved() -> None:
    x = leaf64(1.0, 2.0)
    with allow_mutation_on_saved_tensors():
        a = x * 1
        y = a.sin()
        a.zero_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]))
    a = x * 1
    y = a.sin()
    a.zero_()
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_hooks_that_are_wrong_say_so() -> None:
    x = leaf64(1.0, 2.0)
    with pytest.raises(RuntimeError, match="the pack hook wrote into the tensor"):
        with saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            (x * 1).sin()
    with saved_tensors_hooks(lambda t: t, lambda t: 3):  # type: ignore[arg-type,return-value]
        y = x.sin()
    with pytest.raises(TypeError, match="the unpack hook must give a tensor, it gave int"):
        y.sum().backward()
    with disable_saved_tensors_hooks("not in here"):
        with pytest.raises(RuntimeError, match="not in here"):
            with saved_tensors_hooks(lambda t: t, lambda t: t):
                pass
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match="nor in here"):
            with disable_saved_tensors_hooks("nor in here"):
                pass


def test_layers_and_views() -> None:
    pyapp.manual_seed(0)
    model = pyapp.nn.Sequential(
        pyapp.nn.Conv2d(1, 2, 3), pyapp.nn.BatchNorm2d(2), pyapp.nn.ReLU(), pyapp.nn.Flatten(), pyapp.nn.Linear(32, 3)
    )
    x, labels = pyapp.randn(4, 1, 6, 6), tensor([0, 2, 1, 0])

    def gradients() -> list[Any]:
        model.zero_grad()
        out = model(x)
        out = pyapp.cat([out[:, :1], out[:, 1:].mT.mT, out.as_strided((4, 1), (3, 1), 2)], 1)
        pyapp.nn.functional.cross_entropy(out, labels).backward()
        return [p.grad.numpy().copy() for p in model.parameters()]

    expected = gradients()
    for hooks in (saved_tensors_hooks(to_numbers, to_tensor), save_on_cpu(), save_on_cpu(pin_memory=True)):
        with hooks:
            found = gradients()
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_compiled_function_says_that_it_takes_none() -> None:
    w = tensor([1.0, 2.0], requires_grad=True)

    @pyapp.compile
    def step(x: Tensor) -> Tensor:
        w.grad = None
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            (w * x).sum().backward()
        return w.grad.clone()

    with pytest.warns(UserWarning, match="hooks on saved tensors"):
        for k in range(3):
            assert step(tensor([float(k), 1.0])).tolist() == [k, 1]
