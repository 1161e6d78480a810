"""In-place writes against torch's gradients; Function, checkpoint, gradcheck, retained gradients and hooks."""

from __future__ import annotations

import gc
import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn, no_grad, tensor
from pyapp.autograd import Function, checkpoint, checkpoint_sequential, grad, gradcheck, gradgradcheck

from .cases import LAYOUTS
from .cases_autograd import CASES
from .test_ops import check

GOLDEN = np.load(Path(__file__).with_name("golden_autograd.npz"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "function", "specs"), CASES, ids=[case[0] for case in CASES])
def test_in_place(name: str, function: Any, specs: list[Any], layout: str) -> None:
    check(GOLDEN, name, function, specs, layout)


def leaf(*values: float) -> Tensor:
    return tensor([float(v) for v in values], dtype="float64", requires_grad=True)


def test_in_place_writes_that_gradients_cannot_bear_are_refused() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        x[0].mul_(2)
    y = x.exp()
    y.mul_(2)  # exp needs its result
    with pytest.raises(RuntimeError, match="'exp'.*changed in place"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="expanded"):
        pyapp.zeros(1).expand(3).fill_(1)
    with pytest.raises(TypeError, match="add_.*float32"):
        pyapp.tensor([1, 2]).add_(0.5)


def test_second_order_through_in_place() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        y = pyapp.zeros(2, 2, dtype="float64")
        y[0] = x * w
        y[:, 1].mul_(w[0]).sin_()
        y += x
        return y * y

    assert gradcheck(f, (leaf(0.4, -1.1), leaf(0.7, 0.2)))
    assert gradgradcheck(f, (leaf(0.4, -1.1), leaf(0.7, 0.2)))


def test_second_order_through_rows() -> None:
    w, ids = tensor([[0.3, 1.2], [0.5, -1.0]], dtype="float64", requires_grad=True), tensor([1, 0, 1])
    assert gradgradcheck(lambda w: w[ids].sin(), w)
    assert gradgradcheck(lambda w: w.gather(0, ids.reshape(1, 3)[:, :2]).exp(), w)
    W = tensor([[0.3, 1.2], [0.5, -1.0]], requires_grad=True)
    (first,) = grad(pyapp.embedding(W, ids).sin().sum(), W, create_graph=True)
    (second,) = grad(first.sum(), W)
    expected = -np.sin(W.detach().numpy()) * np.array([[1], [2]])
    np.testing.assert_allclose(second.numpy(), expected, rtol=1e-5)


def test_retained_gradients_and_those_of_chosen_inputs() -> None:
    x = leaf(1, 2)
    h = x * 3
    h.retain_grad()
    other = x * 5
    (h * h + other).sum().backward()
    assert h.retains_grad and h.grad.tolist() == [6, 12] and other.grad is None and x.grad.tolist() == [23, 41]
    y, z = leaf(1), leaf(2)
    (y * z).sum().backward(inputs=[y])
    assert y.grad.tolist() == [2] and z.grad is None
    k = x * 2
    (found,) = grad((k * k).sum(), k)
    assert found.tolist() == [4, 8]


def test_what_grad_does_not_need_stays() -> None:
    """A graph behind the inputs that were asked for is neither walked nor freed."""
    x = leaf(2)
    h = x * x
    (found,) = grad(h.exp().sum(), h)
    assert found.tolist() == pytest.approx([math.exp(4)])
    h.sum().backward()
    assert x.grad.tolist() == [4]


def test_hooks_can_be_taken_away() -> None:
    x = leaf(1, 2)
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


class SinCos(Function):
    """Two outputs, from inputs and an output that are saved."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, y: Tensor) -> tuple[Tensor, Tensor]:
        sin = (x * scale).sin()
        ctx.save_for_backward(x, sin)
        ctx.scale = scale
        return sin, y.cos()

    @staticmethod
    def backward(ctx: Any, d_sin: Tensor, d_cos: Tensor) -> Any:
        x, sin = ctx.saved_tensors
        return d_sin * ctx.scale * (x * ctx.scale).cos() + 0 * sin, None, d_cos * -1.0


class Exp(Function):
    """The new style: forward without ctx."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        assert ctx.needs_input_grad == (True,)
        return g * y


def test_functions_of_ones_own() -> None:
    x, y = leaf(0.3, -1.2), leaf(0.5, 2.0)
    sin, cos = SinCos.apply(x, 2.0, y)
    assert "SinCos" in repr(sin) and not SinCos.apply(x.detach(), 2.0, y.detach())[0].requires_grad
    (sin * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.cos(2 * x.detach().numpy()))
    assert y.grad.tolist() == [0, 0]
    assert gradcheck(lambda x: SinCos.apply(x, 2.0, y)[0], x)
    assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)
    assert not gradcheck(lambda y: SinCos.apply(x, 2.0, y)[1], y, raise_exception=False)  # its backward is wrong
    with pytest.raises(RuntimeError, match=r"gradcheck: d\(output 0, element 0\) / d\(input 0, element 0\) is -1, by"):
        gradcheck(lambda y: SinCos.apply(x, 2.0, y)[1], y)


def test_functions_that_are_wrong_say_so() -> None:
    class Short(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g.sum() if ctx.saved_tensors[0] is not None else None

    x, y = leaf(1, 2), leaf(3, 4)
    with pytest.raises(RuntimeError, match=r"Short.backward gave 1 gradients for 2"):
        Short.apply(x, y).sum().backward()
    h = x * 1
    z = Short.apply(h, y)
    h.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        z.sum().backward()


def test_functions_free_their_memory() -> None:
    gc.disable()
    try:
        x = leaf(*range(50))
        y = Exp.apply(x * 1)
        gone = weakref.ref(y)
        z = (y * 2).sum()
        z.backward()
        del y, z
        assert gone() is None
    finally:
        gc.enable()


def test_checkpoints_give_the_same_gradients() -> None:
    w = leaf(0.5, 1.5)

    def plain(x: Tensor, w: Tensor, run: Any) -> Tensor:
        h = (x * w).sin()  # read by the function from outside, and used beside it
        a, b = run(lambda t: ((t * w).exp() * h, t * h), x)
        return a * w + b + h

    for run in (lambda f, x: f(x), checkpoint):
        assert gradcheck(lambda x, w, run=run: plain(x, w, run), (leaf(0.3, -1), w))
        assert gradgradcheck(lambda x, w, run=run: plain(x, w, run), (leaf(0.3, -1), w))


def test_checkpoints_repeat_random_numbers_and_free_memory() -> None:
    x = leaf(*([1.0] * 64))
    kept: list[Any] = []

    def noisy(t: Tensor) -> Tensor:
        inner = nn.functional.dropout(t * 2, 0.5)
        kept.append(weakref.ref(inner))
        return inner * inner

    y = checkpoint(noisy, x)
    assert kept[0]() is None
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * y.detach().numpy())
    layers = [nn.Linear(3, 3) for _ in range(5)]
    z = pyapp.randn(2, 3)
    checkpoint_sequential(layers, 2, z).sum().backward()
    found = [layer.weight.grad for layer in layers]
    for layer in layers:
        layer.zero_grad()
    nn.Sequential(*layers)(z).sum().backward()
    for layer, gradient in zip(layers, found, strict=True):
        np.testing.assert_allclose(gradient.numpy(), layer.weight.grad.numpy(), rtol=1e-6)


def test_a_checkpoint_that_changes_is_noticed() -> None:
    sizes = iter([2, 3])
    y = checkpoint(lambda t: t.expand(next(sizes), 1) * 2, leaf(1))
    with pytest.raises(RuntimeError, match="when it ran again"):
        y.sum().backward()


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
    x = leaf(1)
    with pyapp.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    pyapp.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        pyapp.set_grad_enabled(True)
    with no_grad(), pyapp.set_grad_enabled(True):
        assert (x * 2).requires_grad


class SquareInPlace(pyapp.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.clone())
        x.mul_(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


def test_a_function_may_write_its_input() -> None:
    leaf = tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = leaf * 2
    view, before = x[1:], x.sin()
    y = SquareInPlace.apply(x)
    assert y is x and view.tolist() == [16, 36]
    (y.sum() + view.sum()).backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [8, 32, 48]
    with pytest.raises(RuntimeError, match="'sin' needs for its gradient was changed in place"):
        before.sum().backward()
    with pytest.raises(RuntimeError, match="into a leaf that requires a gradient"):
        SquareInPlace.apply(leaf)
    with pytest.raises(RuntimeError, match="is a view"):
        SquareInPlace.apply((leaf * 2)[1:])
    plain = tensor([3.0])
    assert SquareInPlace.apply(plain) is plain and plain.tolist() == [9]


def test_what_is_marked_dirty_is_returned() -> None:
    class Forgets(pyapp.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="Forgets: what is marked dirty must be an input, and be returned"):
        Forgets.apply(tensor([1.0], requires_grad=True) * 1)


@pytest.mark.parametrize(
    ("call", "changed", "allowed"),
    [
        (lambda x, c: pyapp.where(x > 0, c, x), "c", True),
        (lambda x, c: x * c, "x", True),
        (lambda x, c: x * c, "c", False),
        (lambda x, c: x / c, "x", True),
        (lambda x, c: c / x, "x", False),
        (lambda x, c: x @ c, "x", True),
        (lambda x, c: x @ c, "c", False),
        (lambda x, c: pyapp.nn.functional.linear(x, c), "x", True),
        (lambda x, c: pyapp.nn.functional.linear(x, c), "c", False),
    ],
)
def test_only_what_a_gradient_reads_must_not_change(call: Any, changed: str, allowed: bool) -> None:
    """As in torch: of a product with a constant only the constant is needed."""
    leaf, constant = pyapp.rand(3, 3).requires_grad_(), pyapp.rand(3, 3) + 1
    x = leaf * 1
    y = call(x, constant)
    (x if changed == "x" else constant).add_(1.0)
    if allowed:
        y.sum().backward()
        assert leaf.grad is not None
    else:
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()
