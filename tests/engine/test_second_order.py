"""First and second derivatives, in float64, of ops with explicit gradients, compared with differences;
random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.autograd import gradcheck, gradgradcheck
from tests.together import check_each, fewer_in_browser


def f64(*shape: int) -> Tensor:
    random = np.random.RandomState(sum(shape))
    return pyapp.tensor(random.rand(*shape) + 0.2, dtype="float64").requires_grad_()


OPS: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "matmul": (lambda a, b: a @ b, [f64(2, 3), f64(3, 2)]),
    "linear_scan": (lambda a, b, s: pyapp.linear_scan(a, b, s, True), [f64(1, 3, 2), f64(1, 3, 2), f64(1, 2)]),
    "conv2d": (lambda x, w: pyapp.conv2d(x, w, padding=1), [f64(1, 1, 3, 3), f64(1, 1, 2, 2)]),
    "conv_transpose1d": (lambda x, w: pyapp.conv_transpose1d(x, w, stride=2), [f64(1, 2, 3), f64(2, 1, 2)]),
    "avg_pool2d": (lambda x: pyapp.avg_pool2d(x, 2, ceil_mode=True) ** 2, [f64(1, 1, 3, 3)]),
    "max_pool1d": (lambda x: pyapp.max_pool1d(x, 2) ** 3, [f64(1, 1, 6)]),
    "interpolate": (lambda x: pyapp.interpolate(x, 4, mode="linear").exp(), [f64(1, 1, 3)]),
    "grid_sample": (lambda x, g: pyapp.grid_sample(x, g - 0.7) ** 2, [f64(1, 1, 2, 2), f64(1, 1, 1, 2)]),
    "rfft": (lambda x: pyapp.view_as_real(pyapp.fft.rfft(x)) ** 2, [f64(5)]),
    "irfft": (lambda x: pyapp.fft.irfft(pyapp.view_as_complex(x), 5) ** 2, [f64(3, 2)]),
    "stft": (lambda x: pyapp.stft(x, 4, 2, return_complex=False) ** 2, [f64(8)]),
    "qr": (lambda x: pyapp.linalg.qr(x)[1] ** 2, [f64(3, 2)]),
    "eigvalsh": (lambda x: pyapp.linalg.eigvalsh(x + x.mT) ** 2, [f64(3, 3)]),
    "cross": (lambda a, b: pyapp.linalg.cross(a, b), [f64(2, 3), f64(1, 3)]),
    "inverse": (lambda x: (x + 2 * pyapp.eye(3, dtype="float64")).inverse(), [f64(3, 3)]),
    "softmax": (lambda x: x.softmax(-1), [f64(2, 4)]),
    "loss_of_logits": (
        lambda x, t: pyapp.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none"), [f64(3), f64(3)]
    ),
    "log_softmax": (lambda x: x.log_softmax(0), [f64(3, 2)]),
    "logsumexp": (lambda x: x.logsumexp((0, 2)), [f64(2, 3, 2)]),
    "attention": (lambda q, k, v: pyapp.scaled_dot_product_attention(q, k, v, is_causal=True), [f64(1, 1, 3, 2)] * 3),
    "layer_norm": (lambda x, w, b: pyapp.layer_norm(x, w, b), [f64(2, 3), f64(3), f64(3)]),
    "rms_norm": (lambda x, w: pyapp.rms_norm(x, w), [f64(2, 3), f64(3)]),
    "scatter_reduce": (
        lambda x, s: x.scatter_reduce(0, pyapp.tensor([0, 1, 0]), s, "prod"), [f64(2), f64(3)]
    ),
    "cumprod": (lambda x: x.cumprod(0), [f64(4)]),
    "gelu": (lambda x: pyapp.gelu(x), [f64(4)]),
    "glu": (lambda x: pyapp.glu(x, 0), [f64(4, 2)]),
    "mean": (lambda x: x.mean(1) ** 2, [f64(3, 2)]),
    "prelu": (lambda x, w: pyapp.prelu(x - 0.7, w), [f64(2, 3), f64(1)]),
    "sinc": (lambda x: pyapp.sinc(x), [f64(3)]),
    "polygamma": (lambda x: pyapp.polygamma(1, x), [f64(3)]),
    "diagonal": (lambda x: x.mT.diagonal() ** 2, [f64(3, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", fewer_in_browser(OPS))
def test_derivatives(name: str) -> None:
    function, inputs = OPS[name]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs, atol=1e-4)


def test_more_random_numbers() -> None:
    generator = pyapp.Generator(3)
    p = pyapp.full((20000,), 0.3)
    coins = pyapp.bernoulli(p, generator=generator)
    assert set(coins.unique().tolist()) == {0.0, 1.0} and abs(float(coins.mean()) - 0.3) < 0.02
    with pytest.raises(ValueError, match="between 0 and 1"):
        pyapp.bernoulli(p + 1)
    x = pyapp.normal(pyapp.tensor([1.0, -5.0]).expand(20000, 2), pyapp.tensor([0.5, 2.0]), generator=generator)
    np.testing.assert_allclose(x.mean(0).numpy(), [1, -5], atol=0.06)
    np.testing.assert_allclose(x.std(0).numpy(), [0.5, 2], atol=0.06)
    whole = pyapp.randint_like(p, 3, 6, generator=generator)
    assert whole.dtype is p.dtype and set(whole.unique().tolist()) == {3.0, 4.0, 5.0}
    assert abs(float(pyapp.zeros(20000).bernoulli_(0.8, generator=generator).mean()) - 0.8) < 0.02


def test_nanquantile() -> None:
    nan = float("nan")
    x = pyapp.tensor([[1.0, nan, 3.0, 2.0], [nan, nan, 5.0, nan], [nan] * 4])
    for q in (0.0, 0.3, 0.5, 1.0):
        with np.errstate(all="ignore"):
            found = pyapp.nanquantile(x, q, 1).numpy()
        np.testing.assert_allclose(found[:2], np.nanquantile(x.numpy()[:2], q, axis=1), rtol=1e-6)
        assert np.isnan(found[2])


# Arguments that were made of one another, in ops with kernels of their own: to second order each argument's gradient is
# its own part alone, as it is to first.
ENTWINED: dict[str, Callable[[Tensor], Tensor]] = {
    "conv1d": lambda x: pyapp.conv1d(x, x[:, :, :3], padding=1),
    "conv2d": lambda x: (lambda y: pyapp.conv2d(y, y[:, :, :2, :2]))(x[None]),
    "attention": lambda x: (lambda y: pyapp.attention(y, y, y * 2, causal=True))(x[None]),
    "layer_norm": lambda x: pyapp.layer_norm(x, x[0, 0], x[1, 1]),
    "rms_norm": lambda x: pyapp.rms_norm(x, x[0, 1].exp()),
}


@pytest.mark.parametrize("name", ENTWINED)
def test_arguments_made_of_one_another(name: str) -> None:
    x = pyapp.from_numpy(np.random.RandomState(5).standard_normal((3, 3, 5)).astype("float32")).requires_grad_()
    loss = ENTWINED[name](x).square().sum()
    (first,) = pyapp.grad(loss, [x], retain_graph=True)
    (again,) = pyapp.grad(loss, [x], create_graph=True)
    np.testing.assert_allclose(again.detach().numpy(), first.numpy(), rtol=1e-4, atol=1e-4)
    step, way = 1e-2, pyapp.ones(3, 3, 5) / 45**0.5
    ahead, behind = (
        pyapp.grad(ENTWINED[name](y).square().sum(), [y])[0]
        for y in ((x + s * way).detach().requires_grad_() for s in (step, -step))
    )
    (second,) = pyapp.grad((again * way).sum(), [x])
    expected = ((ahead - behind) / (2 * step)).numpy()
    np.testing.assert_allclose(second.numpy(), expected, rtol=3e-2, atol=3e-2 * float(np.abs(expected).max()))


FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": pyapp.relu,
    "leaky_relu": lambda x: pyapp.nn.functional.leaky_relu(x, 0.1),
    "relu6": pyapp.nn.functional.relu6,
    "hardshrink": pyapp.hardshrink,
    "threshold": lambda x: pyapp.threshold(x, 0.5, 2.0),
    "max_pool": lambda x: pyapp.max_pool1d(x[None], 2),
    "avg_pool": lambda x: pyapp.nn.functional.adaptive_avg_pool1d(x[None], 2),
    "a layer": lambda x: pyapp.nn.Sequential(pyapp.nn.Linear(4, 2), pyapp.nn.ReLU())(x),
}


def test_functions_that_are_linear_in_pieces() -> None:
    """Their second gradients are zeros, as in torch, also where nothing else leads to an argument."""

    def check(name: str) -> None:
        x, b = f64(2, 4).float().detach().requires_grad_(), pyapp.zeros(4).requires_grad_()
        (gradient,) = pyapp.grad(FLAT[name](x * 2 + b).sum(), [x], create_graph=True)
        assert gradient is not None and gradient.requires_grad
        second = pyapp.grad(gradient.sum() + x.sum(), [x, b], retain_graph=True)
        assert [g is not None and g.tolist() for g in second] == [[[1.0] * 4] * 2, [0.0] * 4]
        told: list[Any] = []
        b.register_post_accumulate_grad_hook(lambda leaf: told.append(leaf.grad))
        (gradient.square().sum() + x.sum()).backward()
        assert x.grad is not None and x.grad.tolist() == [[1.0] * 4] * 2
        assert b.grad is not None and b.grad.tolist() == [0.0] * 4 and len(told) == 1

    check_each(check, [(name,) for name in FLAT])
