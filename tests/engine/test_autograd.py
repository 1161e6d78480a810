"""Autograd: accumulation, modes, versions, hooks, second order."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, no_grad, tensor
from pyapp.autograd import grad

from .leaves import leaf64


def leaf(*values: float) -> Tensor:
    return tensor([float(v) for v in values], requires_grad=True)


def test_gradients_add_up_over_calls() -> None:
    x = leaf(1, 2)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7]


def test_one_tensor_used_many_times() -> None:
    x = leaf(2)
    y = x
    for _ in range(50):
        y = y + x * y * 0
    (y * y).sum().backward()
    assert x.grad.tolist() == [4]


def test_slices_never_write_into_gradients_that_others_see() -> None:
    x = pyapp.ones(3, 6, requires_grad=True)
    y, w = x * 1, x * 1
    seen: dict[str, Tensor] = {}
    y.register_hook(lambda g: seen.update(y=g))
    w.register_hook(lambda g: seen.update(w=g))
    total = y + w  # both get the one tensor `given`
    a, b, c = y.split(2, 1)
    given = pyapp.ones(3, 6)
    pyapp.engine.autograd.backward([total, (a * 2).sum(), (b * 3).sum(), (b * 4).sum()], [given, None, None, None])
    assert given.tolist() == seen["w"].tolist() == [[1.0] * 6] * 3
    assert seen["y"].tolist() == [[3.0, 3.0, 8.0, 8.0, 1.0, 1.0]] * 3
    assert x.grad.tolist() == [[4.0, 4.0, 9.0, 9.0, 2.0, 2.0]] * 3
    first = x.grad
    (x[:, :3] * 2 + x[:, 1:4]).sum().backward()
    assert first is x.grad  # as in torch, gradients of another walk are added in place
    assert x.grad.tolist() == [[6.0, 7.0, 12.0, 10.0, 2.0, 2.0]] * 3


def test_slices_of_a_leaf_add_up_over_calls() -> None:
    x = leaf(1, 2, 3, 4)
    for _ in range(2):
        (x[:3] * 2 + x[1:]).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [4, 6, 6, 2]


def test_slices_of_a_permuted_tensor() -> None:
    """Heads of one projection: their gradients are written where that of the projection has them."""
    x = pyapp.arange(2.0 * 5 * 24).reshape(2, 5, 24).requires_grad_()
    seen: list[Tensor] = []
    flat = x * 1
    flat.register_hook(seen.append)
    q, k, v = flat.reshape(2, 5, 3, 4, 2).permute(2, 0, 3, 1, 4)
    (q * 2 + k.flip(-1) * v).sum().backward()
    parts = x.detach().reshape(2, 5, 3, 4, 2)
    expected = pyapp.stack([parts[:, :, 0] * 0 + 2, parts[:, :, 2].flip(-1), parts[:, :, 1].flip(-1)], 2)
    assert x.grad.tolist() == expected.reshape(2, 5, 24).tolist() and seen[0].is_contiguous()
    y = pyapp.ones(3, 4, requires_grad=True)  # a part is left out, and gets zeros
    turned = (y * 1).T
    (turned[0] * 5 + turned[2] * 6).sum().backward()
    assert y.grad.tolist() == [[5, 0, 6, 0]] * 3


def test_a_slice_is_added_to_a_gradient_of_another_layout() -> None:
    """The sum of the gradients through transposes is laid out as they are, when that of the slice comes."""
    x, a = pyapp.ones(2, 3).requires_grad_(), pyapp.arange(6.0).reshape(3, 2)
    ((x.t() * a).sum() + (x.t() * a).sum() + x[:, :2].sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[1.0, 5.0, 8.0], [3.0, 7.0, 10.0]])


def test_second_order_through_slices() -> None:
    x = leaf(1, 2, 3)
    (first,) = pyapp.grad((x[:2] ** 3 * x[1:]).sum(), x, create_graph=True)
    (second,) = pyapp.grad(first.sum(), x)
    assert first.tolist() == [6, 37, 8] and second.tolist() == [15, 51, 12]


def test_deep_chains_do_not_recurse() -> None:
    x = leaf(1)
    y = x
    for _ in range(5000):
        y = y + 0.0
    y.sum().backward()
    assert x.grad.tolist() == [1]


def test_no_grad_leaves_no_node() -> None:
    x = leaf(1, 2)
    with no_grad():
        assert not (x * 2).requires_grad
        with pyapp.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad and not (x.detach() * 2).requires_grad

    @no_grad()
    def inside() -> Tensor:
        return x * 2

    assert not inside().requires_grad and pyapp.is_grad_enabled()


def test_backward_needs_a_scalar_or_a_gradient() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="needs a gradient argument"):
        (x * 2).backward()
    (x * 2).backward(tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2, 20]
    with pytest.raises(ValueError, match="shape"):
        (x * 2).backward(tensor([1.0]))
    with pytest.raises(RuntimeError, match="does not require grad"):
        tensor(1.0).backward()


def test_second_backward_says_retain_graph() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()


def test_writing_into_what_a_gradient_needs_is_noticed() -> None:
    x = leaf(1, 2)
    h = x * 1
    y = (h * h).sum()
    with no_grad():
        h.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()
    z = x + 1
    w = (z + z).sum()  # a sum needs no values
    with no_grad():
        z.zero_()
    w.backward()
    assert x.grad.tolist() == [2, 2]


def test_in_place_on_leaves_and_results() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 3.0
    with no_grad():
        x += 1
    assert x.tolist() == [2, 3] and x.requires_grad
    y = x * 2
    y += x
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [3, 3]
    z = tensor([0.0, 0.0])
    z.add_(y)
    z.sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_hooks_see_and_change_gradients() -> None:
    x = leaf(1, 2)
    seen = []
    h = x * 2
    h.register_hook(lambda g: seen.append(g.tolist()))
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert seen == [[1, 1]] and x.grad.tolist() == [20, 20]


def test_grad_leaves_the_leaves_alone() -> None:
    x, y = leaf(3), leaf(4)
    (gx, gy) = pyapp.grad((x * x * y).sum(), [x, y])
    assert (gx.tolist(), gy.tolist()) == ([24], [9]) and x.grad is None
    with pytest.raises(RuntimeError, match="allow_unused"):
        pyapp.grad((x * 2).sum(), [x, y])
    assert pyapp.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None


def test_second_order() -> None:
    """d²/dx² of x³ + exp(2x) + softmax-free chains, by create_graph."""
    x = leaf(0.5, -1.0)
    (first,) = pyapp.grad((x**3 + (x * 2).exp()).sum(), x, create_graph=True)
    first.sum().backward()
    expected = 6 * x.detach().numpy() + 4 * np.exp(2 * x.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def test_second_order_of_fused_ops() -> None:
    """The second derivative uses rms_norm's definition instead of its gradient kernel."""
    x = tensor([[0.3, -0.7, 1.1]], dtype="float64", requires_grad=True)
    w = tensor([1.0, 2.0, 0.5], dtype="float64")

    def first(at: Tensor) -> Tensor:
        return pyapp.grad(pyapp.rms_norm(at, w).square().sum(), at, create_graph=True)[0].square().sum()

    first(x).backward()
    numeric = []
    for i in range(3):
        moved = []
        for step in (1e-6, -1e-6):
            at = x.detach().clone()
            at[0, i] = float(at[0, i]) + step
            moved.append(float(first(at.requires_grad_())))
        numeric.append((moved[0] - moved[1]) / 2e-6)
    np.testing.assert_allclose(x.grad.numpy()[0], numeric, rtol=1e-5)


def test_memory_is_freed_without_the_collector() -> None:
    gc.disable()
    try:
        x = leaf(*range(100))
        h = x.exp()
        gone = weakref.ref(h)
        y = (h * 2).sum()
        del h
        y.backward()
        del y
        assert gone() is None
        h = pyapp.ones(5000, requires_grad=True) * 1  # a node that serves later passes does not keep large arguments
        gone = weakref.ref(h)
        y = (h + 1).sum()
        del h
        y.backward()
        assert gone() is None
        y.backward()
    finally:
        gc.enable()


def test_integers_have_no_gradient() -> None:
    with pytest.raises(RuntimeError, match="floating-point"):
        tensor([1, 2]).requires_grad_()


def test_mixed_dtypes_keep_their_own() -> None:
    x, y = leaf(1, 2), tensor([3.0, 4.0], dtype="float64", requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype is pyapp.float32 and y.grad.dtype is pyapp.float64


def test_retained_gradients_and_those_of_chosen_inputs() -> None:
    x = leaf64(1, 2)
    h = x * 3
    h.retain_grad()
    other = x * 5
    (h * h + other).sum().backward()
    assert h.retains_grad and h.grad.tolist() == [6, 12] and other.grad is None and x.grad.tolist() == [23, 41]
    y, z = leaf64(1), leaf64(2)
    (y * z).sum().backward(inputs=[y])
    assert y.grad.tolist() == [2] and z.grad is None
    k = x * 2
    (found,) = grad((k * k).sum(), k)
    assert found.tolist() == [4, 8]


def test_what_grad_does_not_need_stays() -> None:
    """The part of a graph before the given inputs is neither visited nor freed."""
    x = leaf64(2)
    h = x * x
    (found,) = grad(h.exp().sum(), h)
    assert found.tolist() == pytest.approx([math.exp(4)])
    h.sum().backward()
    assert x.grad.tolist() == [4]


def test_hooks_can_be_taken_away() -> None:
    x = leaf64(1, 2)
    seen: list[Any] = []
    handle = x.register_hook(lambda g: g * 2)
    with (x * 3).register_hook(seen.append):
        pass
    done = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6] and seen == [[6, 6]]
    handle.remove()
    done.remove()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [9, 9] and len(seen) == 1


def test_hooks_of_modules() -> None:
    layer = nn.Linear(2, 2)
    x = pyapp.ones(1, 2, requires_grad=True)
    plain = layer(x).detach()
    seen: dict[str, Any] = {}
    handles = [
        layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        layer.register_forward_hook(lambda module, args, output: seen.update(out=output.detach()) or output + 1),
        layer.register_full_backward_hook(
            lambda module, inputs, outputs: seen.update(outputs=outputs[0].tolist()) or (inputs[0] * 10,)
        ),
    ]
    y = layer(x)
    np.testing.assert_allclose(y.detach().numpy(), seen["out"].numpy() + 1)
    (y * 3).sum().backward()
    assert seen["outputs"] == [[3, 3]]
    np.testing.assert_allclose(x.grad.numpy(), 60 * layer.weight.detach().numpy().sum(0)[None], rtol=1e-5)
    for handle in handles:
        handle.remove()
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain.numpy())


def test_set_grad_enabled() -> None:
    x = leaf64(1)
    with pyapp.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    pyapp.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        pyapp.set_grad_enabled(True)
    with no_grad(), pyapp.set_grad_enabled(True):
        assert (x * 2).requires_grad


def test_numpy_does_not_see_leaves_that_want_a_gradient() -> None:
    leaf = pyapp.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(leaf)
    with pyapp.no_grad():
        assert np.asarray(leaf).tolist() == [1, 1]
    assert np.asarray(leaf.detach()).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc", "sign"])
def test_steps_have_the_gradient_0_even_of_what_is_no_number(name: str) -> None:
    x = leaf(1.5, math.nan, -2.0)
    getattr(x, name)().backward(tensor([math.nan, math.inf, 1.0]))
    assert x.grad is not None and x.grad.tolist() == [0, 0, 0]


def test_hardshrink_is_a_method() -> None:
    assert tensor([-1.0, 0.25, 0.75]).hardshrink().tolist() == [-1, 0, 0.75]


def test_gradients_for_several_rows_at_once() -> None:
    x = pyapp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2 * pyapp.tensor([1.0, 1.0, 2.0])
    (found,) = pyapp.autograd.grad(y, x, pyapp.eye(3), retain_graph=True, is_grads_batched=True)
    assert found.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 12.0]]
    unused = pyapp.ones(2, requires_grad=True)
    found, none = pyapp.autograd.grad(
        [y, y.sum()], [x, unused], [pyapp.eye(3)[:2], pyapp.zeros(2)], is_grads_batched=True, allow_unused=True
    )
    assert none is None and found.shape == (2, 3)
    with pytest.raises(ValueError, match=r"have \[2, 3\] rows"):
        pyapp.autograd.grad([x * 2, x * 3], x, [pyapp.ones(2, 3), pyapp.ones(3, 3)], is_grads_batched=True)
