"""Rounding to the steps of a quantised type, against torch's numbers."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import tensor


def test_values_and_gradients() -> None:
    for scale, zero, expected in (
        (0.1, 0, [-0.8, -0.8, -0.2, 0.0, 0.2, 0.4, 0.7]),
        (tensor(0.25), tensor(3, dtype="int32"), [-2.0, -0.75, -0.25, 0.0, 0.25, 0.5, 1.0]),
    ):
        x = tensor([-2.0, -0.83, -0.25, 0.05, 0.15, 0.449, 0.9], requires_grad=True)
        y = pyapp.fake_quantize_per_tensor_affine(x, scale, zero, -8, 7)
        assert y.tolist() == pytest.approx(expected)
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == ([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0] if zero == 0 else [1.0] * 7)
    w = tensor([[0.345, 0.82, 0.9], [-1.3, -9.0, 0.5]], requires_grad=True)
    y = pyapp.fake_quantize_per_channel_affine(w, tensor([0.1, 0.2]), pyapp.zeros(2, dtype="int32"), 0, -8, 7)
    assert y.flatten().tolist() == pytest.approx([0.3, 0.7, 0.7, -1.2, -1.6, 0.4], abs=1e-6)
    y.sum().backward()
    assert w.grad is not None and w.grad.flatten().tolist() == [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]


def test_settings_that_do_not_fit() -> None:
    x = pyapp.ones(2, 3)
    with pytest.raises(RuntimeError, match="quant_min 8 is above"):
        pyapp.fake_quantize_per_tensor_affine(x, 0.1, 0, 8, 7)
    with pytest.raises(RuntimeError, match="zero_point lies between"):
        pyapp.fake_quantize_per_tensor_affine(x, 0.1, 9, -8, 7)
    with pytest.raises(RuntimeError, match=r"are not \(2,\)"):
        pyapp.fake_quantize_per_channel_affine(x, pyapp.ones(3), pyapp.zeros(3), 0, -8, 7)
