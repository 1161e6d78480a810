"""Transposed convolution against sums over taps in float64."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels, unaligned


class Shape(NamedTuple):
    """Dims of the kernel, in two dims each; `cut` is what is left out before and after the outputs."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    cut: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)

    def whole(self) -> list[int]:
        """Outputs of each dim with nothing left out."""
        rule = zip(self.size, self.kernel, self.stride, self.dilation, strict=True)
        return [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in rule]

    def out(self) -> list[int]:
        return [n - sum(cut) for n, cut in zip(self.whole(), self.cut, strict=True)]

    def dims(self) -> dict[str, int]:
        names = ("batch", "groups", "inputs", "outputs")
        pairs = {
            ("height", "width"): self.size, ("kernel_height", "kernel_width"): self.kernel,
            ("stride_y", "stride_x"): self.stride, ("top", "left"): tuple(cut[0] for cut in self.cut),
            ("dilation_y", "dilation_x"): self.dilation, ("out_height", "out_width"): self.out(),
        }  # fmt: skip
        named = {name: value for words, values in pairs.items() for name, value in zip(words, values, strict=True)}
        return dict(zip(names, self[:4], strict=True)) | named


SHAPES = [
    Shape(1, 1, 1, 1, (1, 1), (1, 1)),
    Shape(2, 1, 5, 3, (14, 14), (4, 4), (2, 2), ((1, 1), (1, 1))),
    Shape(2, 1, 8, 7, (9, 33), (2, 2), (2, 2)),
    Shape(1, 2, 3, 4, (7, 9), (3, 4), (2, 3), ((1, 0), (2, 1)), (2, 1)),
    Shape(1, 1, 4, 6, (1, 700), (1, 5), (1, 2), ((0, 0), (1, 2)), (1, 3)),
    Shape(1, 1, 16, 5, (1, 130), (1, 16), (1, 8), ((0, 0), (4, 4))),
    Shape(1, 1, 3, 2, (40, 50), (5, 5), (2, 2), ((2, 1), (2, 3))),
    Shape(1, 1, 2, 3, (6, 17), (3, 3), (1, 1), ((1, 1), (1, 1))),
    Shape(1, 1, 2, 2, (5, 6), (3, 5), (1, 2), ((-2, -1), (-3, 4))),  # zeros around instead
    Shape(1, 1, 2, 2, (5, 6), (1, 1), (3, 4)),
    Shape(1, 1, 3, 1, (2, 3), (70, 9), (2, 2), ((0, 0), (8, 0))),
    Shape(1, 1, 2, 2, (4, 20), (2, 3), (1, 2), ((0, 0), (12, 20))),
    Shape(1, 3, 1, 1, (20, 30), (3, 3), (2, 2), ((1, 1), (1, 1))),
]


def reference(s: Shape, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    whole = np.zeros((s.batch, s.groups, s.outputs, *s.whole()))
    for p in range(s.kernel[0]):
        for q in range(s.kernel[1]):
            at = tuple(
                slice(k * d, k * d + (n - 1) * step + 1, step)
                for k, d, n, step in zip((p, q), s.dilation, s.size, s.stride, strict=True)
            )
            whole[:, :, :, at[0], at[1]] += np.einsum("bgihw,gio->bgohw", x, weight[..., p, q])
    around = [(0, 0)] * 3 + [(max(0, -a), max(0, -b)) for a, b in s.cut]
    padded = np.pad(whole, around)
    (top, _), (left, _) = ((max(0, a), max(0, b)) for a, b in s.cut)
    rows, columns = s.out()
    return padded[:, :, :, top : top + rows, left : left + columns]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_conv_transpose(kernels: Kernels, shape: Shape) -> None:
    x = unaligned(normal(shape.batch, shape.groups, shape.inputs, *shape.size, seed=1))
    weight = unaligned(normal(shape.groups, shape.inputs, shape.outputs, *shape.kernel, seed=2))
    bias = normal(shape.groups, shape.outputs, seed=3)
    exact = reference(shape, x.astype(np.float64), weight.astype(np.float64))
    y = unaligned(np.full(exact.shape, GUARD))
    dims: dict[str, Any] = shape.dims()
    run_checked(kernels, "conv_transpose_f32", "y", y=y, x=x, weight=weight, **dims)
    atol = 1e-5 * np.sqrt(shape.inputs * np.prod(shape.kernel))
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=atol)
    run_checked(kernels, "conv_transpose_f32", "y", y=y, x=x, weight=weight, bias=bias, **dims)
    np.testing.assert_allclose(y, exact + bias[:, :, None, None], rtol=1e-5, atol=atol)


@pytest.mark.parametrize("empty", ["inputs", "height"])
def test_outputs_of_nothing_are_the_bias(kernels: Kernels, empty: str) -> None:
    y, bias = np.full((2, 3, 4, 5), GUARD), normal(3)
    dims = Shape(2, 1, 1, 3, (2, 2), (3, 3)).dims() | {"out_height": 4, "out_width": 5, empty: 0}
    run_checked(kernels, "conv_transpose_f32", "y", y=y, bias=bias, **dims)
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], y.shape))


@pytest.mark.parametrize("wrong", ["kernel_height", "kernel_width", "stride_y", "stride_x", "dilation_x"])
def test_impossible_sizes_are_refused(kernels: Kernels, wrong: str) -> None:
    dims = Shape(1, 1, 1, 1, (5, 5), (3, 3)).dims()
    assert kernels.run("conv_transpose_f32", **(dims | {wrong: 0})) == BAD_ARGUMENT
    assert kernels.run("conv_transpose_f32", **(dims | {"batch": 0})) == OK
