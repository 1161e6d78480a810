"""Gradient checkpointing."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn
from pyapp.autograd import checkpoint, checkpoint_sequential, gradcheck, gradgradcheck

from .leaves import leaf64


def test_checkpoints_give_the_same_gradients() -> None:
    w = leaf64(0.5, 1.5)

    def plain(x: Tensor, w: Tensor, run: Any) -> Tensor:
        h = (x * w).sin()  # read by the function from outside, and used beside it
        a, b = run(lambda t: ((t * w).exp() * h, t * h), x)
        return a * w + b + h

    for run in (lambda f, x: f(x), checkpoint):
        assert gradcheck(lambda x, w, run=run: plain(x, w, run), (leaf64(0.3, -1), w))
        assert gradgradcheck(lambda x, w, run=run: plain(x, w, run), (leaf64(0.3, -1), w))


def test_checkpoints_repeat_random_numbers_and_free_memory() -> None:
    x = leaf64(*([1.0] * 64))
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
    y = checkpoint(lambda t: t.expand(next(sizes), 1) * 2, leaf64(1))
    with pytest.raises(RuntimeError, match="in its second one"):
        y.sum().backward()


def test_hooks_of_what_goes_in_run_once() -> None:
    """The gradients inside are parts of those of the whole pass, which runs the hooks."""
    seen: list[str] = []

    def doubled(name: str) -> Any:
        return lambda g: (seen.append(name), g * 2)[1]

    x, w = (pyapp.tensor([1.0, k], requires_grad=True) for k in (2.0, 1.0))
    h = x * 3
    for name, tensor in (("h", h), ("x", x), ("w", w)):
        tensor.register_hook(doubled(name))
    w.register_post_accumulate_grad_hook(lambda _: seen.append("w.grad"))
    h.retain_grad()
    (checkpoint(lambda a: a * a * w + x, h) + h).sum().backward()
    assert sorted(seen) == ["h", "w", "w.grad", "x"]
    assert w.grad.tolist() == [18, 72] and h.grad.tolist() == [14, 26] and x.grad.tolist() == [86, 158]


def test_contexts_of_both_runs() -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def told(name: str) -> Any:
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    x = leaf64(1, 2)

    def function(x: Tensor) -> Tensor:
        seen.append("runs")
        return x.exp()

    y = checkpoint(function, x, context_fn=lambda: (told("first"), told("second")), debug=True, early_stop=False)
    assert seen == ["first begins", "runs", "first ends"]
    y.sum().backward()
    assert seen[3:] == ["second begins", "runs", "second ends"]


def test_a_second_run_that_differs() -> None:
    x, shapes = leaf64(1, 2), iter([(2,), (1, 2), (2,), (1, 2)])
    y = checkpoint(lambda x: x.exp().reshape(next(shapes)), x)
    with pytest.raises(RuntimeError, match="both must compute the same"):
        y.sum().backward()
    y = checkpoint(lambda x: x.exp().reshape(next(shapes)), x, determinism_check="none")
    with pytest.raises(ValueError, match=r"the gradient has shape \(2,\), the tensor \(1, 2\)"):
        y.sum().backward()
    with pytest.raises(ValueError, match="is 'default' or 'none', not 'some'"):
        checkpoint(lambda x: x, x, determinism_check="some")
