"""Group, instance and batch norm, and their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..element_types import CODES
from ..op import claims
from ..operands import dense
from ..ops.view import copy_strided
from ..tensor import Tensor, empty_contiguous, make
from .layouts import is_packed
from .normalization import _NORMALIZE, _NORMALIZE_BACKWARD, _NORMALIZE_WEIGHTS_BACKWARD, _in_two

_F32 = _dtype.float32
_SHORTEST = 16  # elements that lie together; shorter segments leave vectors empty
_FEW = 1 << 9  # elements of short segments that the kernel takes, too
_MOST_TURNED = 1 << 17  # elements of (N, C) whose two copies cost less than the definition


def _channel_rows(x: Tensor, groups: int, plain: bool) -> tuple[int, ...] | None:
    """The layout of rows and weights (`plain`: there are none) for `normalize`; None where the definition is faster."""
    samples, channels = x._shape[:2]
    length = prod(x._shape[2:])
    if x.dtype not in (_F32, _dtype.float64) or not x.numel() or not x.is_contiguous():
        return None
    short = length < _SHORTEST
    if not groups:
        if length == 1 and x.dtype is _F32 and x.device.type != "cuda":  # whose kernel wants neighbours in a row
            return channels, samples, 1, 1, channels, channels, 1, 0, 0
        return None if short else (channels, samples, length, length, channels * length, channels, 1, 0, 0)
    each = channels // groups
    if short and plain:  # the channels of a group are one segment
        return samples * groups, 1, each * length, each * length, 0, 1, 0, 0, 0
    if short and x.numel() > _FEW:
        return None
    return samples * groups, each, length, each * length, length, groups, each, 1, 0


def _turned_rows(x: Tensor, groups: int) -> tuple[int, ...] | None:
    """The same for `_turned(x)`: each channel of the batch lies together there. None where it is not needed, or not
    enough.
    """
    length, count = prod(x._shape[2:]), x.numel()
    if groups or x.dtype not in (_F32, _dtype.float64) or not count or length >= _SHORTEST:
        return None
    if length == 1 and count > _MOST_TURNED:
        return None
    channels = x._shape[1]
    count //= channels
    return channels, 1, count, count, 0, channels, 1, 0, 0


def _as_rows(x: Tensor) -> Tensor:
    """x itself, or a row-major copy of what lies otherwise without gaps, as channels_last does: a copy costs less than
    the definition."""
    return x if x.is_contiguous() or not is_packed(x) else dense(x)


def _turned(x: Tensor) -> Tensor:
    """(N, C, ...) as a dense (C, N, ...), and back."""
    (n, c, *rest), (near, far, *steps) = x._shape, x.strides
    view = make(x._storage, (c, n, *rest), (far, near, *steps), x.dtype, x.offset)
    if view.is_contiguous():
        return view
    y = empty_contiguous(view._shape, x.dtype, x.device)  # without the frames of `clone`
    return y if copy_strided(y, view) else dense(view)


def _are_for(x: Tensor, *learnt: Tensor | None) -> bool:
    """Whether weights and biases have an element of x's dtype for each channel."""
    return all(w is None or (w.dtype is x.dtype and w._shape == x._shape[1:2]) for w in learnt)


def _is_matrix(x: Tensor, groups: int) -> bool:
    """Whether it is (N, C) of which columns are normalised."""
    return not groups and x.ndim == 2 and x.numel() > 0 and x.dtype in (_F32, _dtype.float64) and x.is_contiguous()


def _columns(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor | None, epsilon: float
) -> Tensor:
    """Many columns of (N, C), in a few passes over the rows."""
    x, mean = x.detach(), x.detach().mean(0)  # (N, C), (C,)
    y = x - mean
    var = y.square().mean(0)
    inverse = (var + epsilon).rsqrt()
    if statistics is not None:
        for at, column in enumerate((mean, var, inverse)):
            statistics[:, at].copy_(column)
    y.mul_(inverse if weight is None else weight.detach() * inverse)
    return y if bias is None else y.add_(bias.detach())


@claims("_channel_norm")
def _channel_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor | None, groups: int, epsilon: float
) -> Any:
    x = _as_rows(x)
    rows = _channel_rows(x, groups, weight is bias is None)
    turns = rows is None
    rows = _turned_rows(x, groups) if rows is None else rows
    if not _are_for(x, weight, bias):
        return NotImplemented
    if rows is None:
        return _columns(x, weight, bias, statistics, epsilon) if _is_matrix(x, groups) else NotImplemented
    weight, bias = (w if w is None else dense(w) for w in (weight, bias))
    x = _turned(x) if turns else x
    y = empty_contiguous(x._shape, x.dtype, x.device)
    code = CODES[x.dtype]
    _NORMALIZE.launch(x.numel() >> 9, y, statistics, x, weight, bias, *rows, 1, code, code, *_in_two(epsilon))
    if statistics is not None:
        statistics._storage.version += 1
    return _turned(y) if turns else y


def _columns_backward(g: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor) -> Any:
    """The gradients of `_columns`."""
    mean, inverse = statistics[:, 0], statistics[:, 2]  # (C,)
    centred = x.detach() - mean  # (N, C)
    sums, products = g.sum(0), (g * centred).sum(0)  # (C,)
    scale = inverse if weight is None else weight.detach() * inverse
    slope = products * (inverse * inverse) * scale / -x._shape[0]
    grad_x = (g * scale).add_(centred.mul_(slope)).sub_(sums * scale / x._shape[0]) if x.requires_grad else None
    grad_weight = products * inverse if weight is not None and weight.requires_grad else None
    return grad_x, grad_weight, sums if bias is not None and bias.requires_grad else None


@claims("channel_norm_backward")
def _channel_norm_backward(
    g: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, statistics: Tensor | None, groups: int,
    epsilon: float,
) -> Any:  # fmt: skip
    x, wanted = _as_rows(x), x.requires_grad
    rows = _channel_rows(x, groups, weight is bias is None)
    turns = rows is None
    rows = _turned_rows(x, groups) if rows is None else rows
    if statistics is None or g.dtype is not x.dtype or not _are_for(x, weight, bias):
        return NotImplemented
    if rows is None:
        return _columns_backward(g, x, weight, bias, statistics) if _is_matrix(x, groups) else NotImplemented
    if turns:
        x, g = _turned(x), _turned(g)
    g, weight = dense(g), weight if weight is None else dense(weight)
    code = CODES[x.dtype]
    grad_x = grad_weight = grad_bias = None
    if wanted:
        grad_x = empty_contiguous(x._shape, x.dtype, x.device)
        _NORMALIZE_BACKWARD.launch(
            x.numel() >> 8, grad_x, x, statistics, weight, g, *rows, 1, code, code, *_in_two(epsilon)
        )
    learnt = [w for w in (weight, bias) if w is not None and w.requires_grad]
    if learnt:
        grad_weight, grad_bias = (empty_contiguous(learnt[0]._shape, x.dtype, x.device) for _ in range(2))
        _NORMALIZE_WEIGHTS_BACKWARD.launch(
            x.numel() >> 9, grad_weight, grad_bias, x, statistics, g, *rows, code, learnt[0].numel()
        )
    if grad_x is not None and turns:
        grad_x = _turned(grad_x)
    return grad_x, None if weight is None else grad_weight, None if bias is None else grad_bias
