"""Depthwise convolution and its gradients against sums over taps in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels, unaligned


class Shape(NamedTuple):
    """The dims of the three kernels, in two dims each."""

    batch: int
    channels: int
    multiplier: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    after: tuple[int, int] = (0, 0)

    def out(self) -> tuple[int, int]:
        found = [
            (n + b + a - d * (k - 1) - 1) // s + 1
            for n, k, s, b, d, a in zip(*self[3:], strict=True)
        ]  # fmt: skip
        return found[0], found[1]

    def dims(self) -> dict[str, int]:
        pairs = {
            ("height", "width"): self.size, ("kernel_height", "kernel_width"): self.kernel,
            ("stride_y", "stride_x"): self.stride, ("top", "left"): self.before,
            ("dilation_y", "dilation_x"): self.dilation, ("out_height", "out_width"): self.out(),
        }  # fmt: skip
        named = {name: value for names, values in pairs.items() for name, value in zip(names, values, strict=True)}
        return {"batch": self.batch, "channels": self.channels, "multiplier": self.multiplier, **named}


SHAPES = [
    Shape(1, 1, 1, (1, 1), (1, 1)),
    Shape(2, 3, 1, (14, 14), (3, 3), before=(1, 1), after=(1, 1)),
    Shape(1, 2, 2, (17, 19), (3, 5), stride=(2, 2), before=(1, 2), after=(1, 2)),
    Shape(2, 2, 3, (9, 23), (3, 4), stride=(2, 3), before=(1, 2), dilation=(2, 1), after=(0, 3)),
    Shape(1, 2, 1, (30, 11), (7, 7), before=(3, 3), after=(3, 3)),
    Shape(2, 3, 1, (1, 500), (1, 9), before=(0, 8), dilation=(1, 2)),
    Shape(1, 1, 1, (1, 20001), (1, 16), stride=(1, 8), before=(0, 4), after=(0, 4)),
    Shape(1, 1, 1, (130, 130), (3, 3), before=(1, 1), after=(1, 1)),
    Shape(1, 2, 1, (90, 150), (5, 2), stride=(1, 2), before=(2, 0), dilation=(3, 5), after=(2, 0)),
    Shape(1, 2, 1, (12, 12), (2, 2), stride=(5, 4)),
    Shape(1, 1, 1, (10, 10), (3, 3), before=(-1, -2), after=(-2, 1)),
    Shape(1, 2, 1, (6, 5), (3, 3), before=(5, 4), after=(6, 7)),
    Shape(1, 1, 1, (1, 9000), (1, 2), before=(0, 8500), dilation=(1, 8500)),  # too large for a tile
    Shape(1, 1, 2, (40, 41), (33, 33), stride=(1, 2), before=(3, 0)),  # more taps than a tile takes
]


def reference(s: Shape, x: np.ndarray, weight: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
    """(y, grad_x, grad_weight) in float64, tap by tap over a padded plane."""
    (height, width), (rows, columns) = s.size, s.out()
    reach = [max(0, b) + n + max(0, a) for b, n, a in zip(s.before, s.size, s.after, strict=True)]
    padded = np.zeros((s.batch, s.channels, *reach))
    grad_padded = np.zeros_like(padded)
    top, left = (max(0, b) for b in s.before)
    padded[:, :, top : top + height, left : left + width] = x
    y, grad_weight = np.zeros(g.shape), np.zeros(weight.shape)
    for p in range(s.kernel[0]):
        for q in range(s.kernel[1]):
            starts = [k * d + max(0, -b) for k, d, b in zip((p, q), s.dilation, s.before, strict=True)]
            at = tuple(
                slice(start, start + (n - 1) * step + 1, step)
                for start, n, step in zip(starts, (rows, columns), s.stride, strict=True)
            )
            seen = padded[:, :, None, at[0], at[1]]
            y += weight[:, :, p, q][None, :, :, None, None] * seen
            grad_weight[:, :, p, q] = (g * seen).sum((0, 3, 4))
            grad_padded[:, :, at[0], at[1]] += (g * weight[:, :, p, q][None, :, :, None, None]).sum(2)
    return y, grad_padded[:, :, top : top + height, left : left + width], grad_weight


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_depthwise_and_its_gradients(kernels: Kernels, shape: Shape) -> None:
    x = unaligned(normal(shape.batch, shape.channels, *shape.size, seed=1))
    weight = unaligned(normal(shape.channels, shape.multiplier, *shape.kernel, seed=2))
    bias = normal(shape.channels, shape.multiplier, seed=3)
    g = unaligned(normal(shape.batch, shape.channels, shape.multiplier, *shape.out(), seed=4))
    exact_y, exact_x, exact_weight = reference(shape, *(t.astype(np.float64) for t in (x, weight, g)))
    y, grad_x, grad_weight = (np.full(t.shape, GUARD) for t in (g, x, weight))
    dims: dict[str, Any] = shape.dims()
    run_checked(kernels, "depthwise_f32", "y", y=y, x=x, weight=weight, **dims)
    scale = np.sqrt(np.prod(shape.kernel))
    np.testing.assert_allclose(y, exact_y, rtol=1e-5, atol=1e-5 * scale)
    run_checked(kernels, "depthwise_f32", "y", y=y, x=x, weight=weight, bias=bias, **dims)
    np.testing.assert_allclose(y, exact_y + bias[:, :, None, None], rtol=1e-5, atol=1e-5 * scale)
    run_checked(kernels, "depthwise_input_backward_f32", "grad_x", grad_x=grad_x, grad_y=g, weight=weight, **dims)
    np.testing.assert_allclose(grad_x, exact_x, rtol=1e-5, atol=1e-5 * scale)
    run_checked(
        kernels, "depthwise_weight_backward_f32", "grad_weight", grad_weight=grad_weight, x=x, grad_y=g, **dims
    )  # fmt: skip
    size = np.sqrt(np.prod(shape.out()) * shape.batch)
    np.testing.assert_allclose(grad_weight, exact_weight, rtol=2e-5, atol=2e-5 * size)


def test_what_lies_around_the_input_is_not_read(kernels: Kernels) -> None:
    shape = Shape(1, 1, 1, (5, 13), (3, 3), before=(1, 1), after=(1, 1))
    memory = np.full(65 + 64, np.nan, np.float32)
    x = memory[32 : 32 + 65].reshape(1, 1, 5, 13)
    x[...] = 1
    y, weight = np.zeros((1, 1, 1, 5, 13), np.float32), np.ones((1, 1, 3, 3), np.float32)
    run_checked(kernels, "depthwise_f32", "y", y=y, x=x, weight=weight, **shape.dims())
    assert y[0, 0, 0, 0, 0] == 4 and y[0, 0, 0, 2, 5] == 9 and np.isfinite(y).all()
    grad_weight = np.zeros_like(weight)
    dims = shape.dims()
    run_checked(
        kernels, "depthwise_weight_backward_f32", "grad_weight", grad_weight=grad_weight, x=x, grad_y=y, **dims
    )  # fmt: skip
    assert np.isfinite(grad_weight).all()


@pytest.mark.parametrize("wrong", ["kernel_height", "kernel_width", "stride_y", "stride_x", "dilation_x", "multiplier"])
@pytest.mark.parametrize("kernel", ["depthwise_f32", "depthwise_input_backward_f32", "depthwise_weight_backward_f32"])
def test_impossible_sizes_are_refused(kernels: Kernels, kernel: str, wrong: str) -> None:
    dims = Shape(1, 1, 1, (5, 5), (3, 3)).dims() | {wrong: 0}
    assert kernels.run(kernel, **dims) == BAD_ARGUMENT
