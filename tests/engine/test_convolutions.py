"""Convolutions in float32, which kernels compute, against their definition in float64: results and gradients of any
stride, padding per side, dilation and groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import from_numpy, manual_seed, randn
from pyapp.engine import ops
from pyapp.engine.native import IN_BROWSER
from pyapp.nn import functional as F

# input (N, C, ...), outputs, kernel, stride, padding, dilation, groups
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((1, 5, 9, 21), 7, (3, 3), 1, 1, 1, 1),
    "rows of one panel": ((1, 3, 4, 70), 13, (3, 3), 1, 1, 1, 1),
    "strided": ((2, 4, 11, 14), 6, (3, 3), 2, 1, 1, 1),
    "strided, wide": ((1, 2, 5, 150), 3, (3, 4), (1, 2), (1, 3), 1, 1),
    "stride of three": ((1, 4, 13, 16), 5, (2, 3), (3, 3), 0, 1, 1),
    "stride beyond the kernel": ((2, 3, 9, 10), 4, (1, 2), (3, 4), 0, 1, 1),
    "dilated": ((1, 4, 14, 15), 6, (3, 2), 1, 2, (2, 3), 1),
    "dilated and strided": ((2, 2, 15, 17), 3, (3, 4), (2, 4), (3, 1), (2, 2), 1),
    "sides": ((1, 3, 8, 9), 5, (3, 3), 1, ((0, 2), (3, 1)), 1, 1),
    "padding beyond the kernel": ((1, 2, 3, 4), 3, (2, 2), 1, 3, 1, 1),
    "same, even kernel": ((1, 3, 7, 8), 4, (4, 2), 1, "same", 1, 1),
    "groups": ((2, 6, 9, 10), 9, (3, 3), 1, 1, 1, 3),
    "depthwise, strided": ((2, 6, 9, 10), 12, (3, 3), 2, 1, 1, 6),
    "depthwise, small": ((3, 5, 6, 7), 5, (5, 5), 1, 2, 1, 5),
    "depthwise, wide": ((1, 4, 5, 150), 4, (3, 3), 1, 1, 1, 4),
    "depthwise, wide strides": ((1, 3, 9, 90), 6, (2, 3), (1, 3), 1, (1, 2), 3),
    "depthwise, a long line": ((2, 4, 330), 4, (301,), 1, 0, 1, 4),
    "to one channel": ((2, 7, 8, 30), 1, (3, 3), 1, 1, 1, 1),
    "points": ((2, 10, 6, 7), 15, (1, 1), 1, 0, 1, 1),
    "points, strided": ((2, 10, 7, 9), 5, (1, 1), (2, 3), 0, 1, 1),
    "points in groups": ((1, 6, 5, 5), 4, (1, 1), 2, 1, 1, 2),
    "many channels": ((1, 40, 6, 6), 30, (3, 3), 1, 1, 1, 1),
    "small maps of a batch": ((5, 7, 5, 5), 26, (3, 3), 1, 1, 1, 1),
    "one channel": ((3, 1, 12, 13), 11, (3, 3), 1, 1, 1, 1),
    "one pixel": ((3, 4, 1, 1), 3, (3, 3), 1, 1, 1, 1),
    "a line": ((2, 6, 40), 8, (5,), 2, 3, 2, 2),
    "a line, plain": ((2, 6, 40), 8, (5,), 2, 3, 1, 1),
    "a volume": ((2, 3, 5, 6, 7), 4, (2, 3, 3), (1, 2, 1), (0, 1, 2), (2, 1, 1), 1),
}


# input (N, C, ...), outputs of a group, kernel, stride, padding, output_padding, groups, dilation
TRANSPOSED: dict[str, tuple[Any, ...]] = {
    "plain": ((1, 5, 6, 9), 4, (3, 3), 1, 1, 0, 1, 1),
    "strided": ((2, 6, 5, 7), 5, (4, 4), 2, 1, 0, 1, 1),
    "small planes of a batch": ((40, 6, 4, 5), 3, (4, 4), 2, 1, 0, 2, 1),
    "longer outputs": ((2, 4, 5, 6), 3, (3, 2), (2, 3), 0, (1, 2), 1, 1),
    "stride beyond the kernel": ((1, 3, 4, 5), 2, (2, 1), 3, 0, 1, 1, 1),
    "dilated": ((1, 4, 5, 6), 3, (3, 2), 2, 1, 0, 1, (1, 3)),
    "groups": ((2, 6, 5, 4), 2, (3, 3), 2, 1, 1, 3, 1),
    "depthwise": ((2, 5, 6, 20), 1, (3, 3), 1, 1, 0, 5, 1),
    "a line": ((2, 6, 40), 4, (16,), 8, 4, 0, 1, 1),
    "a line, cropped to little": ((1, 2, 5), 3, (3,), 1, 3, 0, 1, 1),
    "a volume": ((1, 3, 3, 4, 2), 4, (2, 3, 3), (1, 2, 1), (0, 1, 1), 0, 1, 1),
}


def normal(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def results(case: tuple[Any, ...], dtype: str, bias: bool) -> list[np.ndarray]:
    """The convolution and the gradients of its input, weight and bias."""
    shape, outputs, kernel, stride, padding, dilation, groups = case
    arrays = [normal(*shape, seed=1), normal(outputs, shape[1] // groups, *kernel, seed=2), normal(outputs, seed=3)]
    leaves = [from_numpy(a.astype(dtype)).requires_grad_() for a in arrays[: 3 if bias else 2]]
    call = getattr(F, f"conv{len(kernel)}d")
    return with_gradients(call(*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups), leaves)


def with_gradients(y: pyapp.Tensor, leaves: list[pyapp.Tensor]) -> list[np.ndarray]:
    y.backward(from_numpy(normal(*y.shape, seed=4)).to(y.dtype))
    return [y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def transposed(case: tuple[Any, ...], dtype: str) -> list[np.ndarray]:
    """The transposed convolution and the gradients of its input, weight and bias."""
    shape, outputs, kernel, *settings = case
    groups = settings[3]
    arrays = [normal(*shape, seed=1), normal(shape[1], outputs, *kernel, seed=2), normal(outputs * groups, seed=3)]
    leaves = [from_numpy(a.astype(dtype)).requires_grad_() for a in arrays]
    return with_gradients(getattr(F, f"conv_transpose{len(kernel)}d")(*leaves, *settings), leaves)


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("name", CASES)
def test_kernel_is_the_definition(name: str, bias: bool) -> None:
    for found, exact in zip(*(results(CASES[name], dtype, bias) for dtype in ("float32", "float64")), strict=True):
        assert found.dtype == np.float32 and found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(exact).max())) * 8)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_kernel_is_the_definition(name: str) -> None:
    for found, exact in zip(*(transposed(TRANSPOSED[name], dtype) for dtype in ("float32", "float64")), strict=True):
        assert found.dtype == np.float32 and found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(exact).max())) * 8)


def test_inputs_of_any_layout() -> None:
    x, w = normal(2, 9, 8, 5, seed=1).astype("float32"), normal(3, 3, 5, 4, seed=2).astype("float32")
    expected = F.conv2d(from_numpy(x.transpose(0, 3, 1, 2).copy()), from_numpy(w.transpose(3, 2, 0, 1).copy()))
    with pyapp.no_grad():
        found = F.conv2d(from_numpy(x).permute(0, 3, 1, 2), from_numpy(w).permute(3, 2, 0, 1))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_nothing_comes_from_nothing() -> None:
    w = pyapp.ones(4, 3, 2, 2)
    assert F.conv2d(pyapp.ones(0, 3, 5, 5), w).shape == (0, 4, 4, 4)


def test_second_order_of_transposed() -> None:
    x, w = normal(1, 3, 4, 5, seed=1), normal(3, 2, 3, 2, seed=2)
    found = []
    for dtype in ("float32", "float64"):
        a, b = (from_numpy(v.astype(dtype)).requires_grad_() for v in (x, w))
        (first,) = pyapp.autograd.grad(F.conv_transpose2d(a, b, stride=2).sin().sum(), [a], create_graph=True)
        found.append(pyapp.autograd.grad((first * first).sum(), [b])[0].numpy())
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_second_order() -> None:
    x = from_numpy(normal(1, 2, 6, 5, seed=1)).requires_grad_()
    w = from_numpy(normal(3, 2, 3, 2, seed=2)).requires_grad_()
    for dtype in ("float64", "float32"):
        a, b = x.detach().to(dtype).requires_grad_(), w.detach().to(dtype).requires_grad_()
        (first,) = pyapp.autograd.grad(F.conv2d(a, b, stride=2, padding=1).sin().sum(), [a], create_graph=True)
        (second,) = pyapp.autograd.grad((first * first).sum(), [b])
        if dtype == "float64":
            exact = second.numpy()
    np.testing.assert_allclose(second.numpy(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.native_only
def test_the_number_of_threads_changes_nothing() -> None:
    before = pyapp.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            pyapp.set_num_threads(threads)
            found.append(
                [
                    x.tobytes()
                    for name in ("many channels", "groups", "strided", "depthwise, small", "to one channel")
                    for x in results(CASES[name], "float32", True)
                ]
            )
        assert found[0] == found[1]
    finally:
        pyapp.set_num_threads(before)


@pytest.mark.parametrize(("inner", "outputs", "groups", "kernel"), [(5, 7, 1, 3), (1, 6, 6, 3), (4, 6, 2, 1)])
def test_channels_last(inner: int, outputs: int, groups: int, kernel: int) -> None:
    """As conv2d and the pools of the turned picture, with gradients too; `packed` of another weight is refused."""
    manual_seed(0)
    x, weight, bias = randn(2, 8, 9, inner * groups), randn(outputs, inner, kernel, kernel), randn(outputs)
    y = ops.conv2d(x.permute(0, 3, 1, 2), weight, bias, 2, 1, 1, groups).permute(0, 2, 3, 1)
    residual = randn(*y.shape)
    packed = ops.pack_convolution_weight(weight, groups)
    found = ops.conv2d_channels_last(x, weight, bias, 2, 1, 1, groups, residual, -1.0, 2.0, packed)
    assert ops.allclose(found, (y + residual).clamp(-1.0, 2.0), rtol=1e-4, atol=1e-5)
    for last, first in (
        (ops.max_pool2d_channels_last, ops.max_pool2d),
        (ops.avg_pool2d_channels_last, ops.avg_pool2d),
    ):
        wanted = first(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1)
        assert ops.allclose(last(x, 3, 2, 1), wanted, rtol=1e-4, atol=1e-5)
    leaf = weight.clone().requires_grad_()
    ops.conv2d_channels_last(x, leaf, None, 1, 0, 1, groups).sum().backward()
    other = weight.clone().requires_grad_()
    ops.conv2d(x.permute(0, 3, 1, 2), other, None, 1, 0, 1, groups).sum().backward()
    assert leaf.grad is not None and other.grad is not None and ops.allclose(leaf.grad, other.grad, rtol=1e-4)
    if not IN_BROWSER:  # which has no kernels for it, and does not look at `packed`
        with pytest.raises(ValueError, match="packed is not what"):
            ops.conv2d_channels_last(x, weight, None, 1, 1, 1, groups, packed=packed.reshape(-1)[:-1])


@pytest.mark.parametrize("size", [9, 120])
def test_expanded_depthwise_channels_last(size: int) -> None:
    """As two convolutions, whether what lies between them is held as a whole or not; with gradients too."""
    manual_seed(0)
    x, weight, bias = randn(1, size, size, 3), randn(24, 3, 3, 3), randn(24)
    depth_weight, depth_bias = randn(24, 1, 3, 3), randn(24)

    def separately(weight: Any) -> Any:
        middle = ops.conv2d_channels_last(x, weight, bias, 1, 1, low=0.0, high=6.0)
        return ops.conv2d_channels_last(middle, depth_weight, depth_bias, 2, 1, 1, 24, low=-1.0, high=3.0)

    def together(weight: Any, **packed: Any) -> Any:
        return ops.expanded_depthwise_conv2d_channels_last(
            x, weight, bias, depth_weight, depth_bias, 1, 1, 2, 1, 0.0, 6.0, -1.0, 3.0, **packed
        )

    packed = ops.pack_convolution_weight(weight), ops.pack_convolution_weight(depth_weight, 24)
    wanted = separately(weight)
    for found in (together(weight), together(weight, packed=packed[0], depth_packed=packed[1])):
        assert found.shape == wanted.shape and ops.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    leaves = [weight.clone().requires_grad_() for _ in range(2)]
    separately(leaves[0]).sum().backward()
    together(leaves[1]).sum().backward()
    first, second = (leaf.grad for leaf in leaves)
    assert first is not None and second is not None and ops.allclose(first, second, rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="not one kernel for each output"):
        ops.expanded_depthwise_conv2d_channels_last(x, weight, bias, depth_weight[:5], None)
    with pytest.raises(ValueError, match="does not fit"):
        ops.expanded_depthwise_conv2d_channels_last(x[..., :2], weight, bias, depth_weight, None)


def test_results_and_gradients_are_dense() -> None:
    """Programs call view() of them, as in torch: after a convolution, and of a critic's gradient (WGAN-GP)."""
    for dims, convolve in ((1, pyapp.conv1d), (2, pyapp.conv2d)):
        x = randn(4, 3, *(8,) * dims, requires_grad=True)
        weight = randn(5, 3, *(3,) * dims, requires_grad=True)
        y = convolve(x, weight, padding=1)
        assert y.relu().view(4, -1).shape == (4, 5 * 8**dims)
        for gradient in pyapp.autograd.grad(y.square().sum(), (x, weight), create_graph=True):
            assert gradient.view(-1).requires_grad
    padded = F.pad(x, (1, 1))
    (gradient,) = pyapp.autograd.grad(padded.sum(), x)
    assert gradient.view(-1).sum() == x.numel()
