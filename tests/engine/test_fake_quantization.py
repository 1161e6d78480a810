"""Rounding to the steps of a quantised type, against torch's numbers."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import inf, nn, tensor
from pyapp.ao import quantization


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


def test_zero_points_between_steps() -> None:
    x = tensor([[1.0, 2.3, -30.0, 300.0]], requires_grad=True)
    y = pyapp.fake_quantize_per_channel_affine(x, tensor([0.7]), tensor([27.6]), 0, 0, 255)
    assert y[0].tolist() == pytest.approx([0.98, 2.38, -19.32, 159.18])
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1, 1, 0, 0]]
    rows = tensor([[2.5, 2.5], [3.0, 4.0]])
    assert quantization.default_embedding_fake_quant()(rows).tolist() == rows.tolist()


def test_ends_of_ranges() -> None:
    steps = pyapp.quantize_per_tensor(tensor([inf, -inf, 1.0]), 0.1, 3, pyapp.qint32)
    assert steps.int_repr().tolist() == [2**31 - 1, -(2**31), 13]
    with pytest.raises(RuntimeError, match="zero_point 500 is not between 0 and 255"):
        pyapp.quantize_per_tensor(tensor([1.0]), 0.1, 500, pyapp.quint8)
    with pytest.raises(RuntimeError, match="from 1.0 to inf"):
        pyapp.quantize_per_tensor_dynamic(tensor([1.0, inf]))
    observer = quantization.MinMaxObserver(dtype=pyapp.qint32, quant_min=-(2**31), quant_max=2**31 - 1)
    observer(tensor([-100.0, 60.0]))
    assert observer.calculate_qparams()[1].item() == -1308622848
    fused = quantization.default_fused_act_fake_quant()
    for numbers in ([-1.0, 1.0], [inf, -1.0], [-2.0, 3.0]):  # the average is infinite for one call
        found = fused(tensor(numbers))
    assert found.tolist() == pytest.approx([-1.0064313, 3.0035686]) and fused.zero_point.tolist() == [64]


def test_results_of_known_range_are_rounded_in_training() -> None:
    for training in (False, True):
        model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()).train(training)
        model.qconfig = quantization.get_default_qconfig("fbgemm")
        assert hasattr(quantization.prepare(model)[1], "activation_post_process") is training


def test_settings_that_do_not_fit() -> None:
    x = pyapp.ones(2, 3)
    with pytest.raises(RuntimeError, match="quant_min 8 is above"):
        pyapp.fake_quantize_per_tensor_affine(x, 0.1, 0, 8, 7)
    with pytest.raises(RuntimeError, match="zero_point lies between"):
        pyapp.fake_quantize_per_tensor_affine(x, 0.1, 9, -8, 7)
    with pytest.raises(RuntimeError, match=r"are not \(2,\)"):
        pyapp.fake_quantize_per_channel_affine(x, pyapp.ones(3), pyapp.zeros(3), 0, -8, 7)
