"""The shortest sign of life: import, one operation, one gradient, one story. Under five seconds."""

from __future__ import annotations

import pyapp


def test_version() -> None:
    assert pyapp.__version__


def test_one_operation() -> None:
    product = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]]) @ pyapp.tensor([[1.0], [10.0]])
    assert product.tolist() == [[21.0], [43.0]]


def test_one_gradient() -> None:
    x = pyapp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
