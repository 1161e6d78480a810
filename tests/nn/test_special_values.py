"""Infinities, NaN, halves, integers and empty tensors in layers and losses. The values are torch 2.13's."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tensor, zeros
from pyapp.errors import ArgumentError
from pyapp.nn import functional as F

BIG = [[300.0, -400.0, 500.0, 1000.0], [1.0, 2.0, 3.0, 60000.0]]
SPECIAL = [nan, inf, -inf, 0.5, -3.0]


def value_and_gradient(function: Callable[..., Any], values: list[float]) -> tuple[Any, Any]:
    x = tensor(values, requires_grad=True)
    y = function(x)
    y.sum().backward()
    return y.detach().numpy(), x.grad.numpy()


# (function, inputs, values, gradient)
GRADIENTS: dict[str, tuple[Callable[..., Any], list[float], list[float], list[float]]] = {
    "threshold": (
        lambda x: F.threshold(x, 0.0, 5.0), [nan, 1.0, -1.0, inf, -inf], [nan, 1.0, 5.0, inf, 5.0],
        [1.0, 1.0, 0.0, 1.0, 0.0],
    ),
    "smooth_l1": (
        lambda x: F.smooth_l1_loss(x, zeros(5), reduction="none"), SPECIAL, [nan, inf, inf, 0.125, 2.5],
        [nan, 1.0, -1.0, 0.5, -1.0],
    ),
    "smooth_l1 beta 2": (
        lambda x: F.smooth_l1_loss(x, zeros(5), reduction="none", beta=2.0), SPECIAL, [nan, inf, inf, 0.0625, 2.0],
        [nan, 1.0, -1.0, 0.25, -1.0],
    ),
    "huber": (
        lambda x: F.huber_loss(x, zeros(5), reduction="none"), SPECIAL, [nan, inf, inf, 0.125, 2.5],
        [nan, 1.0, -1.0, 0.5, -1.0],
    ),
    "multi_margin": (
        lambda x: F.multi_margin_loss(x.reshape(2, 3), tensor([0, 1]), reduction="none"),
        [inf, 1.0, 2.0, -inf, 0.5, inf], [0.0, inf], [0.0, 0.0, 0.0, 0.0, -1 / 3, 1 / 3],
    ),
    "multi_margin of NaN": (
        lambda x: F.multi_margin_loss(x.reshape(1, 3), tensor([0]), reduction="none"), [nan, 1.0, 2.0], [0.0],
        [0.0, 0.0, 0.0],
    ),
    "multi_margin squared": (
        lambda x: F.multi_margin_loss(x.reshape(1, 3), tensor([0]), p=2, reduction="none"), [inf, 1.0, 2.0], [0.0],
        [0.0, 0.0, 0.0],
    ),
    "multilabel_margin": (
        lambda x: F.multilabel_margin_loss(x.reshape(1, 3), tensor([[0, -1, 1]]), reduction="none"),
        [inf, 1.0, inf], [0.0], [0.0, 0.0, 0.0],
    ),
    "hardswish": (
        F.hardswish, [inf, -inf, 0.0, 1.0, 3.0, -3.0], [inf, nan, 0.0, 2 / 3, 3.0, -0.0],
        [1.0, 0.0, 0.5, 5 / 6, 1.0, 0.0],
    ),
    "softshrink": (
        F.softshrink, [nan, inf, -inf, 1.0, 0.5, -0.5, 0.0], [nan, inf, -inf, 0.5, 0.0, 0.0, 0.0],
        [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    ),
    "hardshrink": (F.hardshrink, [nan, inf, -inf, 1.0, 0.0], [nan, inf, -inf, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0]),
    "rrelu": (F.rrelu, [inf, 0.0, 1.0, -1.0], [inf, 0.0, 1.0, -0.22916667], [1.0, 0.22916667, 1.0, 0.22916667]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_special_values_and_their_gradients(name: str) -> None:
    function, inputs, values, gradient = GRADIENTS[name]
    found = value_and_gradient(function, inputs)
    np.testing.assert_allclose(found[0].reshape(-1), values, rtol=1e-6)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-6)


def test_threshold_keeps_integers() -> None:
    found = F.threshold(tensor([1, -2, 3]), 0.5, 7.7)
    assert found.dtype is pyapp.int64 and found.tolist() == [1, 7, 3]


HALVES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "normalize": (
        lambda x: F.normalize(x, dim=1),
        [[0.24487, -0.32642, 0.40820, 0.81642], [1.6689e-05, 3.3319e-05, 5.0008e-05, 1.0]],
    ),
    "layer_norm": (
        lambda x: F.layer_norm(x, (4,)),
        [[-0.09949, -1.49219, 0.29858, 1.29395], [-0.57715, -0.57715, -0.57715, 1.73242]],
    ),
    "layer_norm with weight": (
        lambda x: F.layer_norm(x, (4,), pyapp.ones(4).half(), zeros(4).half()),
        [[-0.09949, -1.49219, 0.29858, 1.29395], [-0.57715, -0.57715, -0.57715, 1.73242]],
    ),
    "rms_norm": (
        lambda x: F.rms_norm(x, (4,)),
        [[0.48999, -0.65332, 0.81641, 1.63281], [3.3319e-05, 6.6638e-05, 1.00017e-04, 2.0]],
    ),
    "group_norm": (
        lambda x: F.group_norm(x.reshape(1, 4, 2), 2),
        [[[-0.09949, -1.49219], [0.29858, 1.29395], [-0.57715, -0.57715], [-0.57715, 1.73242]]],
    ),
    "batch_norm": (
        lambda x: F.batch_norm(x.reshape(2, 2, 2), None, None, training=True),
        [[[1.30371, -1.51074], [-0.57715, -0.55762]], [[0.10150, 0.10553], [-0.59668, 1.73145]]],
    ),
    "instance_norm": (
        lambda x: F.instance_norm(x.reshape(1, 2, 4)),
        [[[-0.09949, -1.49219, 0.29834, 1.29297], [-0.57764, -0.57764, -0.57764, 1.73242]]],
    ),
    "norm": (lambda x: x.norm(dim=1), [1225.0, 60000.0]),
    "norm of order 3": (lambda x: x.norm(3), 60000.0),
    "std": (lambda x: x.std(), 21152.0),
    "mean": (lambda x: (x[0] * 50).mean(), 17500.0),
    "dist": (lambda x: pyapp.dist(x[0], x[1]), 59008.0),
    "cosine_similarity": (lambda x: F.cosine_similarity(x[:1], x[1:], dim=1), [0.81641]),
    "pairwise_distance": (lambda x: F.pairwise_distance(x[:1], x[1:]), [59008.0]),
    "avg_pool1d": (lambda x: F.avg_pool1d(pyapp.full((1, 1, 4), 50000.0).half(), 4), [[[49984.0]]]),
    "mse_loss": (lambda x: F.mse_loss(pyapp.full((4000,), 200.0).half(), zeros(4000).half()), 40000.0),
}


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_added_up_in_float32(name: str) -> None:
    function, expected = HALVES[name]
    found = function(tensor(BIG).half())
    assert found.dtype is pyapp.float16
    np.testing.assert_allclose(found.float().numpy(), expected, rtol=2e-3, atol=1e-6)


def test_norms_of_halves_have_an_epsilon_of_float32() -> None:
    found = F.rms_norm(tensor([[1e-4, 2e-4]]).half(), (2,))
    np.testing.assert_allclose(found.float().numpy(), [[0.263427734375, 0.52685546875]], rtol=1e-3)
    assert F.layer_norm(pyapp.ones(1, 4).half(), (4,), eps=1e-12).tolist() == [[0.0] * 4]


def test_halves_are_trained_through_a_norm() -> None:
    x = tensor(BIG).half().requires_grad_()
    F.layer_norm(x, (4,)).sum().backward()
    assert x.grad.dtype is pyapp.float16 and bool(x.grad.isfinite().all())


def test_cosine_similarity_broadcasts_before_it_takes_the_dim() -> None:
    found = F.cosine_similarity(pyapp.ones(2, 3), tensor([1.0, 0.0, 2.0]), dim=1)
    np.testing.assert_allclose(found.numpy(), [0.7745967, 0.7745967], rtol=1e-6)
    assert abs(F.cosine_similarity(tensor([1.0, 2.0, 3.0]), tensor([2.0]), dim=0).item() - 0.92582) < 1e-5
    with pytest.raises(TypeError, match="floating-point"):
        F.cosine_similarity(tensor([1, 2]), tensor([2, 1]), dim=0)


@pytest.mark.parametrize("target", [2**32, 2**32 - 100, -(2**31) - 1])
def test_targets_beyond_int32_are_no_classes(target: int) -> None:
    with pytest.raises(IndexError, match="out of range"):
        F.cross_entropy(zeros(1, 3), tensor([target]))


@pytest.mark.parametrize("norm", [nn.RMSNorm(0), nn.RMSNorm(0, eps=1e-5), nn.LayerNorm(0), nn.RMSNorm((0,))])
def test_norms_of_nothing(norm: Any) -> None:
    x = zeros(2, 0, requires_grad=True)
    norm(x).sum().backward()
    assert x.grad.shape == (2, 0)


def test_errors_inside_a_sequential_name_the_layer() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(ArgumentError, match=r"layer 1\.1 of the Sequential, Linear\(in_features=4"):
        net(pyapp.ones(1, 2))


def test_interpolate_leaves_what_is_not_finite_where_it_is() -> None:
    signal = tensor([[[1.0, 2.0, 3.0, 4.0, inf, 6.0]]])
    assert F.interpolate(signal, size=8, mode="linear").tolist() == [[[1, 1.625, 2.375, 3.125, 3.875, inf, inf, 6]]]
    image = zeros(1, 1, 5, 6)
    image[0, 0, 4, 5], image[0, 0, 0, 0] = nan, -inf
    for antialias in (False, True):
        y = F.interpolate(image, size=(3, 4), mode="bilinear", antialias=antialias)
        np.testing.assert_array_equal(y[0, 0].numpy(), [[-inf, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, nan]])
    y = F.interpolate(image, size=(3, 4), mode="bicubic", antialias=True)
    np.testing.assert_array_equal(y[0, 0].numpy(), [[-inf, inf, 0, 0], [inf, -inf, nan, nan], [0, 0, nan, nan]])


def test_operands_of_two_dtypes_and_of_no_elements() -> None:
    integers = pyapp.full((3,), 2**31 - 1, dtype=pyapp.int32)
    assert F.cosine_similarity(pyapp.ones(3, dtype=pyapp.float64), integers, -1).item() == pytest.approx(1.0)
    assert pyapp.ldexp(tensor([1 + 2j]), tensor([1 + 1j])).item() == pytest.approx(-1.0173672 + 4.3548779j, rel=1e-6)
    assert zeros(1, 0).expand(3, 0).lt_(1).shape == (3, 0)


@pytest.mark.parametrize("learns", [False, True])
def test_offsets_of_norms_with_weights_of_16_bits(learns: bool) -> None:
    """As in Gemma of transformers, 1 + weight is a float32: a bfloat16 near 1 has steps of 1/128."""
    norm = nn.OffsetRMSNorm(4, 0.0)
    norm.weight.data.copy_(tensor([0.001, -0.002, 0.0625, 0.3]))
    norm.to("bfloat16")
    factors = norm.weight.detach().float().numpy() + np.float32(1)
    with pyapp.set_grad_enabled(learns):
        np.testing.assert_allclose(norm(pyapp.ones(2, 4)).detach().numpy(), [factors] * 2, rtol=1e-6)
