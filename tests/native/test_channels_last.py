"""Convolutions and pools of pictures whose channels lie together, against sums over taps in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.native.checks import GUARD, normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels, unaligned

PACKED_ROWS = 63  # more than the outputs of a group, at most: see kernels.h


class Shape(NamedTuple):
    """The dims of a convolution; `inner` and `outputs` of each group."""

    batch: int
    groups: int
    inner: int
    outputs: int
    size: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    def out(self) -> tuple[int, int]:
        rule = zip(self.size, self.kernel, self.stride, self.before, self.after, self.dilation, strict=True)
        found = [(n + b + a - d * (k - 1) - 1) // s + 1 for n, k, s, b, a, d in rule]
        return found[0], found[1]

    def dims(self) -> dict[str, int]:
        pairs = {
            ("height", "width"): self.size, ("kernel_height", "kernel_width"): self.kernel,
            ("stride_y", "stride_x"): self.stride, ("top", "left"): self.before,
            ("out_height", "out_width"): self.out(),
        }  # fmt: skip
        named = {name: value for names, values in pairs.items() for name, value in zip(names, values, strict=True)}
        return {"batch": self.batch, **named}

    def taps(self, x: np.ndarray, fill: float = 0.0) -> Iterator[tuple[int, int, np.ndarray]]:
        """(row, column, what the tap meets: (batch, *out, channels)) of each tap."""
        sides = [(b, max(a, 0) + 40) for b, a in zip(self.before, self.after, strict=True)]
        wide = np.pad(x.astype(np.float64), [(0, 0), *sides, (0, 0)], constant_values=fill)
        for p in range(self.kernel[0]):
            for q in range(self.kernel[1]):
                at = tuple(
                    slice(k * d, k * d + (n - 1) * s + 1, s)
                    for k, d, n, s in zip((p, q), self.dilation, self.out(), self.stride, strict=True)
                )
                yield p, q, wide[:, at[0], at[1]]


SHAPES = [
    Shape(1, 1, 1, 1, (1, 1)),
    Shape(2, 1, 16, 24, (5, 7)),
    Shape(1, 1, 3, 32, (11, 12), (3, 3), (2, 2), (1, 1), (1, 1)),
    Shape(1, 1, 5, 130, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    Shape(2, 1, 150, 17, (4, 9), (3, 5), (1, 2), (1, 2), (1, 2)),
    Shape(1, 1, 8, 9, (9, 10), (2, 3), (3, 1), (0, 4), (2, 3), (2, 3)),
    Shape(1, 3, 4, 5, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    Shape(2, 2, 33, 64, (5, 5), (1, 1), (2, 2)),
    Shape(1, 1, 600, 40, (3, 4), (3, 3), (1, 1), (2, 1), (2, 1)),
    Shape(1, 1, 2050, 3, (2, 2)),
    Shape(1, 1, 4, 4, (40, 40), (22, 23)),
]
DEPTHWISE = [
    Shape(1, 1, 1, 1, (1, 1)),
    Shape(2, 24, 1, 1, (7, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    Shape(1, 133, 1, 1, (8, 12), (3, 3), (2, 2), (1, 1), (1, 1)),
    Shape(1, 40, 1, 1, (9, 15), (5, 5), (1, 1), (2, 2), (2, 2)),
    Shape(1, 36, 1, 1, (12, 19), (5, 5), (2, 2), (1, 2), (2, 2)),
    Shape(2, 7, 1, 1, (6, 11), (2, 4), (3, 3), (1, 3), (2, 2), (2, 3)),
    Shape(1, 65, 1, 1, (3, 2), (3, 3), (1, 1), (4, 5), (3, 4)),
]


def has_kernels(kernels: Kernels) -> bool:
    """Whether the library has them; the page's refuse."""
    if kernels.name not in ("simd128", "relaxed"):
        return True
    assert kernels.run("pack_convolution_f32", groups=1) == BAD_ARGUMENT
    return False


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolution(kernels: Kernels, shape: Shape) -> None:
    if not has_kernels(kernels):
        return
    count = np.prod(shape.kernel)
    channels = shape.groups * shape.outputs
    x = unaligned(normal(shape.batch, *shape.size, shape.groups * shape.inner, seed=1))
    weight = normal(shape.groups, shape.outputs, shape.inner, *shape.kernel, seed=2)
    bias, residual = normal(channels, seed=3), unaligned(normal(shape.batch, *shape.out(), channels, seed=4))
    packed = np.full(shape.groups * (shape.outputs + PACKED_ROWS) * shape.inner * count, GUARD)
    sizes: dict[str, Any] = {"groups": shape.groups, "outputs": shape.outputs, "inner": shape.inner}
    assert kernels.run("pack_convolution_f32", to=packed, weight=weight, taps=count, **sizes) == OK
    exact = np.zeros((shape.batch, *shape.out(), shape.groups, shape.outputs))
    for p, q, seen in shape.taps(x):
        seen = seen.reshape(*seen.shape[:3], shape.groups, shape.inner)
        exact += np.einsum("nhwgi,goi->nhwgo", seen, weight[:, :, :, p, q].astype(np.float64))
    exact = exact.reshape(residual.shape)
    y = unaligned(np.full(residual.shape, GUARD))
    dims = shape.dims() | sizes | {"dilation_y": shape.dilation[0], "dilation_x": shape.dilation[1]}
    scale = 1e-5 * np.sqrt(shape.inner * count)
    run_checked(
        kernels, "convolution_channels_last_f32", "y", y=y, x=x, weights=packed, low=-np.inf, high=np.inf, **dims
    )
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=scale)
    run_checked(
        kernels, "convolution_channels_last_f32", "y", y=y, x=x, weights=packed, bias=bias, residual=residual,
        low=-0.5, high=6.0, **dims,
    )  # fmt: skip
    np.testing.assert_allclose(y, np.clip(exact + bias + residual, -0.5, 6), rtol=1e-5, atol=scale)


@pytest.mark.parametrize("shape", DEPTHWISE, ids=str)
def test_depthwise(kernels: Kernels, shape: Shape) -> None:
    if not has_kernels(kernels):
        return
    x = unaligned(normal(shape.batch, *shape.size, shape.groups, seed=1))
    weight, bias = unaligned(normal(*shape.kernel, shape.groups, seed=2)), normal(shape.groups, seed=3)
    exact = sum(weight[p, q].astype(np.float64) * seen for p, q, seen in shape.taps(x))
    y = unaligned(np.full((shape.batch, *shape.out(), shape.groups), GUARD))
    dims = shape.dims() | {"dilation_y": shape.dilation[0], "dilation_x": shape.dilation[1], "channels": shape.groups}
    run_checked(kernels, "depthwise_channels_last_f32", "y", y=y, x=x, weight=weight, low=-np.inf, high=np.inf, **dims)
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)
    run_checked(
        kernels, "depthwise_channels_last_f32", "y", y=y, x=x, weight=weight, bias=bias, low=0.0, high=1.5, **dims
    )
    np.testing.assert_allclose(y, np.clip(exact + bias, 0, 1.5), rtol=1e-5, atol=1e-5)


EXPANDED = [
    (Shape(1, 1, 1, 1, (1, 1)), Shape(1, 1, 1, 1, (1, 1))),
    (Shape(2, 1, 6, 24, (9, 13)), Shape(2, 24, 1, 1, (9, 13), (3, 3), (1, 1), (1, 1), (1, 1))),
    (Shape(1, 1, 3, 37, (21, 30), (3, 3), (2, 2), (1, 1), (1, 1)),
     Shape(1, 37, 1, 1, (11, 15), (3, 3), (2, 2), (1, 1), (1, 1))),
    (Shape(2, 1, 9, 70, (8, 17)), Shape(2, 70, 1, 1, (8, 17), (5, 5), (1, 1), (2, 2), (2, 2))),
    (Shape(1, 1, 4, 33, (12, 14)), Shape(1, 33, 1, 1, (12, 14), (2, 4), (4, 3), (0, 3), (1, 2))),
    (Shape(1, 1, 4, 16, (2, 9)), Shape(1, 16, 1, 1, (2, 9), (3, 3), (1, 1), (5, 1), (4, 1))),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "depth"), EXPANDED, ids=str)
@pytest.mark.parametrize("workspaces", [1, 3])
def test_expanded_depthwise(kernels: Kernels, shape: Shape, depth: Shape, workspaces: int) -> None:
    """As the two kernels, one after the other."""
    if not has_kernels(kernels):
        return
    count, channels, limits = np.prod(shape.kernel), shape.outputs, {"low": -0.5, "high": 1.5}
    x = unaligned(normal(shape.batch, *shape.size, shape.inner, seed=1))
    weight, bias = normal(channels, shape.inner, *shape.kernel, seed=2), normal(channels, seed=3)
    depth_weight, depth_bias = unaligned(normal(*depth.kernel, channels, seed=4)), normal(channels, seed=5)
    packed = np.full((channels + PACKED_ROWS) * shape.inner * count, GUARD)
    sizes: dict[str, Any] = {"outputs": channels, "inner": shape.inner}
    assert kernels.run("pack_convolution_f32", to=packed, weight=weight, taps=count, groups=1, **sizes) == OK
    middle = np.full((shape.batch, *shape.out(), channels), GUARD)
    exact = np.full((shape.batch, *depth.out(), channels), GUARD)
    near = {"dilation_y": 1, "dilation_x": 1}
    assert shape.out() == depth.size and OK == kernels.run(
        "convolution_channels_last_f32", y=middle, x=x, weights=packed, bias=bias, groups=1, **limits, **sizes, **near,
        **shape.dims(),
    )  # fmt: skip
    assert OK == kernels.run(
        "depthwise_channels_last_f32", y=exact, x=middle, weight=depth_weight, bias=depth_bias, channels=channels,
        low=-1.0, high=2.0, **near, **depth.dims(),
    )  # fmt: skip
    second = depth.dims()
    dims = {name: value for name, value in shape.dims().items() if not name.startswith("out_")}
    dims |= {name.replace("kernel", "depth"): second[name] for name in ("kernel_height", "kernel_width")}
    dims |= {f"depth_{name}": second[name] for name in ("stride_y", "stride_x", "top", "left")}
    dims |= {name: second[name] for name in ("out_height", "out_width")}
    dims |= {"middle_height": depth.size[0], "middle_width": depth.size[1], "workspaces": workspaces}
    y, lines = unaligned(np.full(exact.shape, GUARD)), depth.kernel[0] * depth.size[1] * channels
    scratch = np.full(workspaces * lines + 16, GUARD)
    arguments = dict(
        x=x, weights=packed, bias=bias, depth_weight=depth_weight, depth_bias=depth_bias, scratch=scratch,
        depth_low=-1.0, depth_high=2.0, inner=shape.inner, channels=channels, **limits, **dims,
    )  # fmt: skip
    run_checked(kernels, "expanded_depthwise_channels_last_f32", "y", y=y, **arguments)
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)
    assert (scratch[-16:] == GUARD).all(), "the kernel wrote behind its scratch"
    wrong = arguments | {"workspaces": 0}
    assert kernels.run("expanded_depthwise_channels_last_f32", y=y, **wrong) == BAD_ARGUMENT


@pytest.mark.parametrize("shape", [s for s in DEPTHWISE[1:-1] if s.dilation == (1, 1)], ids=str)
def test_pools(kernels: Kernels, shape: Shape) -> None:
    if not has_kernels(kernels):
        return
    x = unaligned(normal(shape.batch, *shape.size, shape.groups, seed=1))
    x[0, 0, 0, 0] = np.nan
    y = unaligned(np.full((shape.batch, *shape.out(), shape.groups), GUARD))
    dims = shape.dims() | {"channels": shape.groups}
    exact = np.max([seen for _, _, seen in shape.taps(x, -np.inf)], axis=0)
    run_checked(kernels, "pool_channels_last_f32", "y", y=y, x=x, **dims)
    np.testing.assert_array_equal(y, exact.astype(np.float32))
    total = np.sum([seen for _, _, seen in shape.taps(x)], axis=0)
    inside = np.sum([seen for _, _, seen in shape.taps(np.ones_like(x))], axis=0)
    for whole, counted in ((0, inside), (1, np.prod(shape.kernel))):
        run_checked(kernels, "pool_channels_last_f32", "y", y=y, x=x, mean=1, whole=whole, **dims)
        np.testing.assert_allclose(y, total / counted, rtol=1e-5, atol=1e-6)


def test_nan_and_what_lies_outside(kernels: Kernels) -> None:
    """NaN passes the limits; nothing around the picture is read."""
    if not has_kernels(kernels):
        return
    shape = Shape(1, 1, 2, 3, (3, 5), (3, 3), (1, 1), (1, 1), (1, 1))
    memory = np.full(30 + 64, np.nan, np.float32)
    x = memory[32:62].reshape(1, 3, 5, 2)
    x[...] = 1
    weight, packed = np.ones((1, 3, 2, 3, 3), np.float32), np.empty((3 + PACKED_ROWS) * 18, np.float32)
    sizes = {"groups": 1, "outputs": 3, "inner": 2}
    kernels.run("pack_convolution_f32", to=packed, weight=weight, taps=9, **sizes)
    y = np.full((1, 3, 5, 3), GUARD)
    dims: dict[str, Any] = shape.dims() | sizes | {"dilation_y": 1, "dilation_x": 1, "low": 0.0, "high": 10.0}
    run_checked(kernels, "convolution_channels_last_f32", "y", y=y, x=x, weights=packed, **dims)
    assert y[0, 0, 0, 0] == 8 and (y[0, 1, 1:4] == 10).all()
    x[0, 0, 0, 0] = np.nan
    run_checked(kernels, "convolution_channels_last_f32", "y", y=y, x=x, weights=packed, **dims)
    assert np.isnan(y[0, :2, :2]).all() and np.isfinite(y[0, 2]).all() and np.isfinite(y[0, :, 2:]).all()


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    if not has_kernels(kernels):
        return
    many = {"batch": 1, "groups": 1, "outputs": 1, "height": 30, "width": 30, "out_height": 1, "out_width": 1}
    steps = {"stride_y": 1, "stride_x": 1, "dilation_y": 1, "dilation_x": 1}
    run = kernels.run
    bad = [
        {"inner": 1, "kernel_height": 23, "kernel_width": 23},
        {"inner": 3000, "kernel_height": 1, "kernel_width": 1, "top": 1},
        {"inner": 0, "kernel_height": 1, "kernel_width": 1},
    ]
    for dims in bad:
        assert run("convolution_channels_last_f32", **many, **steps, **dims) == BAD_ARGUMENT
    for kernel in ("depthwise_channels_last_f32", "pool_channels_last_f32"):
        assert run(kernel, batch=1, channels=1) == BAD_ARGUMENT
