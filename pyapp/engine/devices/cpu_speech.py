"""The CPU's kernels of speech models: layer_norm, gelu, sums and one-dimensional convolutions, with their gradients.
Where a kernel does not take a dtype or layout, and for second order, the definitions run.
"""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..launch import KERNELS, launch, launch_all
from ..op import OPS
from ..ops.base import definition_gradient, dense, is_plain
from ..ops.view import copy_strided
from ..shape import reduced_dims
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .cpu import claims, rows_of
from .cpu_elementwise import is_packed

_F32 = _dtype.float32
K = KERNELS

# ---- layer_norm


def _takes_norm(x: Tensor, weight: Any, bias: Any) -> bool:
    if not (x.dtype is _F32 and is_plain(weight) and is_plain(bias)):
        return False
    return x.shape[-1:] == weight.shape == bias.shape


@claims("layer_norm")
def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Any:
    if not _takes_norm(x, weight, bias):
        return NotImplemented
    x, rows, columns, stride = rows_of(x)
    y = empty_contiguous(x.shape)
    launch(
        K["layer_norm_f32"], rows * columns >> 9, y.address, x.address, weight.address, bias.address,
        rows, columns, columns, stride, epsilon,
    )  # fmt: skip
    return y


@OPS["layer_norm"].gradient
def _d_layer_norm(g: Tensor, _: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float = 1e-5) -> Any:
    if STATE.enabled or g.dtype is not _F32 or not _takes_norm(x, weight, bias):
        return definition_gradient(OPS["layer_norm"], g, x, weight, bias, epsilon)
    x, g = dense(x), dense(g)
    columns = x.shape[-1]
    rows = x.numel() // max(columns, 1)
    grad_x, grad_weight, grad_bias = (empty_contiguous(t.shape) for t in (x, weight, bias))
    statistics = Storage(8 * rows)
    launch_all(
        x.numel() >> 8,
        (
            K["layer_norm_backward_f32"], grad_x.address, statistics.address, x.address, weight.address, g.address,
            rows, columns, epsilon,
        ),
        (
            K["layer_norm_weights_backward_f32"], grad_weight.address, grad_bias.address, x.address,
            statistics.address, g.address, rows, columns,
        ),
    )  # fmt: skip
    return grad_x, grad_weight, grad_bias


# ---- gelu


@OPS["gelu"].gradient
def _d_gelu(g: Tensor, _: Any, x: Tensor, approximate: str = "none") -> Any:
    if STATE.enabled or not (x.dtype is g.dtype is _F32) or approximate != "none":
        return definition_gradient(OPS["gelu"], g, x, approximate)
    if g.strides != x.strides or not is_packed(x):
        x, g = dense(x), dense(g)
    count = x.numel()
    grad = make(Storage(4 * count), x.shape, x.strides, _F32)
    launch(K["gelu_backward_f32"], count >> 6, grad.address, x.address, g.address, count)
    return (grad,)


# ---- sums over the first or the last dims


@claims("sum")
def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dtype is not None or not is_plain(x) or not x.numel() or not x.shape:
        return NotImplemented
    shape = x.shape
    dims = sorted(reduced_dims(dim, len(shape), "sum"))
    count = prod(shape[d] for d in dims)
    rest = x.numel() // count
    if dims == list(range(len(shape) - len(dims), len(shape))):
        name, rows, columns = "sum_rows_f32", rest, count
    elif dims == list(range(len(dims))):
        name, rows, columns = "sum_columns_f32", count, rest
    else:
        return NotImplemented
    kept = tuple(1 if d in dims else n for d, n in enumerate(shape))
    y = empty_contiguous(kept if keepdim else tuple(n for d, n in enumerate(shape) if d not in dims))
    launch(K[name], x.numel() >> 10, y.address, x.address, rows, columns, columns)
    return y


# ---- conv1d


class _Windows:
    """x (N, C, L) with its channels together, zeros around and room for whole strides: windows of all batch entries
    are rows of one matrix (N * rows, size * C), `step` elements apart; `out` of the `rows` of each entry are real.
    """

    def __init__(self, x: Tensor, size: int, stride: int, padding: int) -> None:
        self.batch, channels, length = x.shape
        self.out = (length + 2 * padding - size) // stride + 1
        self.rows = max(self.out, -(-(length + 2 * padding) // stride))
        self.width, self.step = size * channels, stride * channels
        self.memory = empty_contiguous((self.batch * self.rows * self.step + self.width,))
        _fill_zero(self.memory)
        shape, strides = (self.batch, length, channels), (self.rows * self.step, channels, 1)
        inside = make(self.memory.storage, shape, strides, _F32, padding * channels)
        copy_strided(inside, make(x.storage, shape, (x.strides[0], x.strides[2], x.strides[1]), _F32, x.offset))

    def address(self, entry: int) -> int:
        return self.memory.address + 4 * entry * self.rows * self.step


def _fill_zero(x: Tensor) -> None:
    launch(K["fill_f32"], x.numel() >> 10, x.address, x.numel(), 0.0)


def _takes_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> bool:
    """float32, of shapes that fit; the definition says what is wrong with others."""
    if not (x.dtype is weight.dtype is _F32 and len(x.shape) == len(weight.shape) == 3 and stride > 0 <= padding):
        return False
    if bias is not None and (not is_plain(bias) or bias.shape != weight.shape[:1]):
        return False
    fits = x.shape[1] == weight.shape[1] and x.shape[2] + 2 * padding >= weight.shape[2]
    return fits and x.numel() > 0 and weight.numel() > 0


def _by_tap(weight: Tensor) -> Tensor:
    """(O, C, K) as dense (O, K, C)."""
    return dense(weight.detach().permute(0, 2, 1))


@claims("_conv1d")
def _conv1d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Any:
    """Channels lie together in the result (N, O, L'): its permute(0, 2, 1) is dense."""
    if not _takes_conv(x, weight, bias, stride, padding):
        return NotImplemented
    outputs, _, size = weight.shape
    taps, windows = _by_tap(weight), _Windows(x, size, stride, padding)
    y = empty_contiguous((windows.batch, windows.out, outputs))
    for entry in range(windows.batch):
        launch(
            K["linear_f32"], windows.out * outputs * windows.width >> 10, y.address + 4 * entry * windows.out * outputs,
            windows.address(entry), taps.address, bias.address if bias is not None else 0,
            windows.out, outputs, windows.width, outputs, windows.step, 0,
        )  # fmt: skip
    return y.permute(0, 2, 1)


@OPS["_conv1d"].gradient
def _d_conv1d(
    g: Tensor, _: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> tuple[Any, ...]:
    if STATE.enabled or g.dtype is not _F32 or not _takes_conv(x, weight, bias, stride, padding):
        return definition_gradient(OPS["_conv1d"], g, x, weight, bias, stride, padding)
    outputs, channels, size = weight.shape
    windows = _Windows(x, size, stride, padding)
    rows = windows.batch * windows.rows
    spread = empty_contiguous((rows, outputs))  # g by rows of the windows, zero where these are not real
    _fill_zero(spread)
    real = make(spread.storage, (windows.batch, outputs, windows.out), (windows.rows * outputs, 1, outputs), _F32)
    copy_strided(real, g)
    grad_x = grad_weight = grad_bias = None
    if weight.requires_grad:
        seen = make(windows.memory.storage, (rows, windows.width), (windows.step, 1), _F32)
        grad_weight = dense((spread.mT @ seen).reshape(outputs, size, channels).permute(0, 2, 1))
    if bias is not None and bias.requires_grad:
        grad_bias = spread.sum(0)
    if x.requires_grad:
        by_window = spread @ _by_tap(weight).reshape(outputs, windows.width)
        folded = empty_contiguous((windows.batch, x.shape[2], channels))
        launch(
            K["fold_f32"], folded.numel() >> 8, folded.address, by_window.address,
            windows.batch, x.shape[2], channels, size, stride, padding, windows.rows,
        )  # fmt: skip
        grad_x = folded.permute(0, 2, 1)
    return grad_x, grad_weight, grad_bias
