"""Function: user-defined gradients."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, tensor
from pyapp.autograd import Function, gradcheck, gradgradcheck

from .leaves import leaf64


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
    x, y = leaf64(0.3, -1.2), leaf64(0.5, 2.0)
    sin, cos = SinCos.apply(x, 2.0, y)
    assert "SinCos" in repr(sin) and not SinCos.apply(x.detach(), 2.0, y.detach())[0].requires_grad
    (sin * 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * np.cos(2 * x.detach().numpy()))
    assert y.grad.tolist() == [0, 0]
    assert gradcheck(lambda x: SinCos.apply(x, 2.0, y)[0], x)
    assert gradcheck(Exp.apply, x) and gradgradcheck(Exp.apply, x)
    assert not gradcheck(lambda y: SinCos.apply(x, 2.0, y)[1], y, raise_exception=False)  # its backward is wrong
    with pytest.raises(RuntimeError, match=r"gradcheck: Jacobian mismatch .* / d\(input 0, element 0\) is -1, by"):
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

    x, y = leaf64(1, 2), leaf64(3, 4)
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
        x = leaf64(*range(50))
        y = Exp.apply(x * 1)
        gone = weakref.ref(y)
        z = (y * 2).sum()
        z.backward()
        del y, z
        assert gone() is None
    finally:
        gc.enable()


class TimesThree(pyapp.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = 3
        return x.float() * 3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.factor


def test_a_function_that_saved_nothing_serves_a_second_pass() -> None:
    x = pyapp.ones(2, dtype=pyapp.bfloat16, requires_grad=True)
    y = TimesThree.apply(x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [6, 6] and x.grad.dtype is pyapp.bfloat16  # the argument's, not the gradient's
    z = Exp.apply(leaf64(1, 2)).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        z.backward()


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


def test_many_outputs_that_are_all_used() -> None:
    """Some of them more than once."""

    class Powers(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
            ctx.save_for_backward(x)
            return tuple(x**n for n in range(1, 6))

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return sum(g * n * x ** (n - 1) for n, g in enumerate(gradients, 1))  # type: ignore[return-value]

    x = leaf64(0.5, -2.0)
    powers = Powers.apply(x)
    (sum(p * (i + 1) for i, p in enumerate(powers)) + powers[2] * powers[2]).sum().backward()
    value = x.detach().numpy()
    expected = sum((i + 1) ** 2 * value**i for i in range(5)) + 6 * value**5
    np.testing.assert_allclose(x.grad.numpy(), expected)
