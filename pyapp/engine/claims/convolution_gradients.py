"""Gradients of convolutions, and transposed convolutions, which are such gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..device import cpu
from ..launch import KERNELS
from ..op import OPS, claims
from ..operands import dense, is_half
from ..ops.view import copy_strided
from ..shape import contiguous_strides
from ..tensor import Tensor, empty_contiguous, make, set_requires_grad
from .convolution import (
    _WINDOWS,
    Sides,
    Three,
    _computed,
    _convolve,
    _depthwise_dims,
    _framed,
    _in_three,
    _is_depthwise,
    _outputs,
    _Steps,
    _steps_in_three,
    _takes,
    _times,
)
from .layouts import fill_zero

_F32 = _dtype.float32
_SUM_ROWS, _CONV_TRANSPOSE = KERNELS["sum_rows_f32"], KERNELS["conv_transpose_f32"]
_DEPTHWISE_INPUT, _DEPTHWISE_WEIGHT = KERNELS["depthwise_input_backward_f32"], KERNELS["depthwise_weight_backward_f32"]
_MUCH_WORK = 1 << 28  # multiply-adds above which several convolutions are faster than conv_transpose_f32


class _Phase(NamedTuple):
    """Along one dim, the input elements first, first + stride, ... (`size` of them). The taps first_tap, first_tap +
    step, ... (`taps` of them) contribute to them, as a convolution of the outputs with stride 1.
    """

    first: int
    size: int
    first_tap: int
    step: int
    taps: int
    sides: tuple[int, int]
    dilation: int


@lru_cache(1024)
def _phases(size: int, out: int, kernel: int, stride: int, before: int, dilation: int) -> tuple[_Phase, ...]:
    """Element i is in window o at tap j if i + before = o * stride + j * dilation."""
    found = []
    step = stride // gcd(stride, dilation)
    for first in range(min(stride, size)):
        count = -(-(size - first) // stride)  # elements
        tap = next((j for j in range(min(step, kernel)) if (first + before - j * dilation) % stride == 0), kernel)
        taps, apart = -(-(kernel - tap) // step), step * dilation // stride
        front = (taps - 1) * apart - (first + before - tap * dilation) // stride
        sides = (front, count + (taps - 1) * apart - out - front)
        found.append(_Phase(first, count, tap, step, taps, sides, apart))
    return tuple(found)


def _taps_of(weight: Tensor, phases: tuple[_Phase, ...], groups: int) -> Tensor:
    """The taps of weight (O, C / groups, D, H, W) that phases name, last first, as a weight (C, O / groups, ...)."""
    shape, strides, at, joined = _layout_of_taps(weight._shape, weight.strides, phases, groups)
    taps = empty_contiguous(shape, _F32, weight.device)
    copy_strided(taps, make(weight._storage, shape, strides, _F32, weight.offset + at))
    return _in_shape(taps, joined)


@lru_cache(1024)
def _layout_of_taps(
    weight: Three, strides: Three, phases: tuple[_Phase, ...], groups: int
) -> tuple[Three, Three, int, Three]:
    """(shape, strides and offset of the taps in a weight of this shape and these strides; their shape as a weight)."""
    outputs, inner = weight[:2]
    each = outputs // groups
    shape = (groups, inner, each, *(p.taps for p in phases))
    back = tuple(-p.step * s for p, s in zip(phases, strides[2:], strict=True))
    at = sum((p.first_tap + p.step * (p.taps - 1)) * s for p, s in zip(phases, strides[2:], strict=True))
    return shape, (each * strides[0], strides[1], strides[0], *back), at, (groups * inner, *shape[2:])


def _in_shape(x: Tensor, shape: Three) -> Tensor:
    """A dense tensor in another shape of as many elements."""
    return make(x._storage, shape, contiguous_strides(shape), _F32, x.offset)


def _input_gradient(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps, bias: Tensor | None = None) -> Tensor:
    """The gradient in x (N, C, *sizes) from that of the outputs, g (N, O, D', H', W'), plus bias (C,)."""
    if bias is None and sizes[0] == 1 and _is_depthwise(weight._shape, steps):
        grad = empty_contiguous((*g._shape[:1], steps.groups, *sizes), _F32, g.device)
        dims = _depthwise_dims(weight._shape, grad._shape, g._shape[2:], steps)
        _DEPTHWISE_INPUT.launch(g.numel() * prod(weight._shape[2:]) >> 10, grad, dense(g), dense(weight), *dims)
        return grad
    flat = sizes[0] == g._shape[2] == weight._shape[2] == steps.stride[0] == 1
    if flat and prod(steps.stride) > 1 and g.numel() * prod(weight._shape[1:]) < _MUCH_WORK:
        return _transposed_in_two(g, weight, sizes, steps, bias)
    y = _by_phases(g, weight, sizes, steps)
    return y if bias is None else OPS["add"].forward(y, bias.reshape(-1, 1, 1, 1))


def _transposed_in_two(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps, bias: Tensor | None) -> Tensor:
    """The same for one or two dims, in one record."""
    g, weight = dense(g), dense(weight)
    batch, inputs, outputs = g._shape[0], g._shape[1] // steps.groups, weight._shape[1]
    y = empty_contiguous((batch, steps.groups * outputs, *sizes), _F32, g.device)
    _CONV_TRANSPOSE.launch(g.numel() * outputs * prod(weight._shape[2:]) >> 10, y, g, weight, bias,
        batch, steps.groups, inputs, outputs, *g._shape[3:], *weight._shape[3:], *steps.stride[1:],
        steps.sides[1][0], steps.sides[2][0], *steps.dilation[1:], *sizes[1:],
    )  # fmt: skip
    return y


def _by_phases(g: Tensor, weight: Tensor, sizes: Three, steps: _Steps) -> Tensor:
    """The same for any dims, as a convolution of g for each remainder of the stride, without a bias."""
    complete, rounds = _rounds(sizes, g._shape[2:], weight._shape[2:], steps)
    if complete and prod(steps.stride) == 1:
        phases, own = rounds[0]
        return _convolve(g, _taps_of(weight, phases, steps.groups), None, own)
    whole = empty_contiguous((g._shape[0], weight._shape[1] * steps.groups, *sizes), _F32, g.device)
    if not complete:
        fill_zero(whole)
    for phases, own in rounds:
        part = _convolve(g, _taps_of(weight, phases, steps.groups), None, own)
        at = sum(p.first * s for p, s in zip(phases, whole.strides[2:], strict=True))
        strides = (*whole.strides[:2], *_times(whole.strides[2:], steps.stride))
        copy_strided(make(whole._storage, part._shape, strides, _F32, at), part)
    return whole


@lru_cache(1024)
def _rounds(
    sizes: Three, out: Three, kernel: Three, steps: _Steps
) -> tuple[bool, tuple[tuple[tuple[_Phase, ...], _Steps], ...]]:
    """Whether the convolutions write every element; and for each of them its phases and its geometry."""
    rule = zip(sizes, out, kernel, steps.stride, steps.sides, steps.dilation, strict=True)
    along = [_phases(n, o, k, s, before, d) for n, o, k, s, (before, _), d in rule]
    found = [phases for phases in product(*along) if all(p.taps for p in phases)]
    return bool(found) and all(p.taps for phases in along for p in phases), tuple(
        (phases, _Steps((1, 1, 1), tuple(p.sides for p in phases), tuple(p.dilation for p in phases), steps.groups))
        for phases in found
    )


def _weight_gradient(g: Tensor, x: Tensor, weight: Tensor, steps: _Steps, by_output: Callable[[], Tensor]) -> Tensor:
    """The gradient in the weight from that of the outputs, g (N, O, D', H', W'): g by outputs, (O, N, D', H', W'),
    times the windows of x with the channels together, unless each is by itself."""
    outputs, inner, *kernel = weight._shape
    batch, out = g._shape[0], g._shape[2:]
    if x._shape[2] == 1 and _is_depthwise(weight._shape, steps):
        grad = empty_contiguous(weight._shape, _F32, g.device)
        dims = _depthwise_dims(weight._shape, x._shape, out, steps)
        _DEPTHWISE_WEIGHT.launch(g.numel() * prod(kernel) >> 10, grad, dense(x), dense(g), *dims)
        return grad
    x = _framed(x, steps.sides, channels_last=inner > 1)
    strides = x.strides[2:]
    by_tap = empty_contiguous((outputs, *kernel, inner), _F32, g.device)
    _WINDOWS.launch(outputs * inner * prod(kernel) * batch * prod(out) >> 10, by_tap, by_output(), x, None,
        1, steps.groups, outputs // steps.groups, batch, *out, x.strides[0], *_times(strides, steps.stride),
        *kernel, inner, *_times(strides, steps.dilation), 1, 0, inner * x.strides[1],
    )  # fmt: skip
    turned, (a, b, c, d, e) = (outputs, inner, *kernel), by_tap.strides
    return dense(make(by_tap._storage, turned, (a, e, b, c, d), _F32))


def _by_output(g: Tensor) -> Callable[[], Tensor]:
    """A function that gives (N, O, ...) as dense (O, N, ...), which is made once."""
    made: list[Tensor] = []

    def by_output() -> Tensor:
        if not made:
            (n, o, *rest), (near, far, *steps) = g._shape, g.strides
            made.append(dense(make(g._storage, (o, n, *rest), (far, near, *steps), _F32, g.offset)))
        return made[0]

    return by_output


def _bias_gradient(by_output: Tensor) -> Tensor:
    """Sums of a gradient (O, N, ...) over all but the first dim."""
    outputs, count = by_output._shape[0], by_output.numel()
    gradient = empty_contiguous((outputs,), _F32, by_output.device)
    _SUM_ROWS.launch(count >> 10, gradient, by_output, outputs, count // outputs, count // outputs)
    return gradient


def _transposed_sizes(sizes: Three, kernel: Three, steps: _Steps) -> Three:
    """The sizes of a transposed convolution's result, by dim."""
    rule = zip(sizes, kernel, steps.stride, steps.sides, steps.dilation, strict=True)
    return tuple((n - 1) * s + d * (k - 1) + 1 - sum(sides) for n, k, s, sides, d in rule)


def _transposed(x: Tensor, weight: Tensor, bias: Tensor | None, steps: _Steps) -> Tensor:
    """The input's gradient of the convolution whose outputs are x."""
    return _input_gradient(x, weight, _transposed_sizes(x._shape[2:], weight._shape[2:], steps), steps, bias)


@claims("_convolution_transpose")
def _convolution_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, sides: Sides, dilation: Three, groups: int
) -> Any:
    return _computed(x, weight, bias, _Steps(stride, sides, dilation, groups), _transposed_sizes, _transposed)


def _widened(x: Tensor | None) -> Any:
    """In float32, which wants a gradient where x does."""
    if x is None:
        return None
    wide = x.detach().to(_F32)
    set_requires_grad(wide, x.requires_grad)
    return wide


def _claim_gradients(
    name: str,
    sizes: Callable[..., Three],
    input_gradient: Callable[[Tensor, Tensor, Three, _Steps], Tensor],
    weight_gradient: Callable[[Tensor, Tensor, Tensor, _Steps, Callable[[], Tensor]], Tensor],
) -> None:
    """Claims the gradient of an op, by functions of three spatial dims; `sizes`: those of the op's result."""

    @claims(name + "_backward")
    def gradients(
        g: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Three, sides: Sides, dilation: Three,
        groups: int,
    ) -> Any:  # fmt: skip
        if is_half(g) and g.dtype is x.dtype is weight.dtype and g.device is cpu:
            wide = [_widened(t) for t in (g, x, weight, bias)]
            found = gradients(*wide, stride, sides, dilation, groups)
            return found if found is NotImplemented else tuple(t if t is None else t.to(g.dtype) for t in found)
        steps = _Steps(stride, sides, dilation, groups)
        unlike = None if bias is None or bias.dtype is _F32 else bias  # the values of a bias are not read here
        if g.dtype is not _F32 or not _takes(x, weight, unlike, steps, sizes):
            return NotImplemented
        grad_x = grad_weight = grad_bias = None
        steps, g3, x3, w3 = _steps_in_three(steps), _in_three(g), _in_three(x), _in_three(weight)
        by_output = _by_output(g3)
        if x.requires_grad:
            grad_x = _in_shape(input_gradient(g3, w3, x3._shape[2:], steps), x._shape)
        if weight.requires_grad:
            grad_weight = _in_shape(weight_gradient(g3, x3, w3, steps, by_output), weight._shape)
        if bias is not None and bias.requires_grad:
            grad_bias = _bias_gradient(by_output())
        return grad_x, grad_weight, grad_bias


_claim_gradients("convolution", _outputs, _input_gradient, _weight_gradient)
_claim_gradients(
    "convolution_transpose", _transposed_sizes, lambda g, weight, _, steps: _convolve(g, weight, None, steps),
    lambda g, x, weight, steps, _: _weight_gradient(x, g, weight, steps, _by_output(x)),
)  # fmt: skip
