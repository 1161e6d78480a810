"""Fourier transforms of float32 (native/fourier.c). On other devices than the CPU, where NumPy has the rest, also of
lengths that the kernel does not take: by a complex transform of the same length, or by chirps (Bluestein 1970, "A
linear filtering approach to the computation of discrete Fourier transform").
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..device import Device, cpu
from ..dtype import DType
from ..launch import KERNELS, constants
from ..lazy import np
from ..native import IN_BROWSER, get_num_threads
from ..op import claims
from ..operands import dense
from ..ops import fourier as ops
from ..ops.complex_numbers import conj, real
from ..ops.stacking import cat
from ..ops.view import narrow
from ..storage import Storage
from ..tensor import Tensor, adopt_array, empty_contiguous
from .reduce import merged

_FOURIER, _MULTIPLY = KERNELS["fourier_f32"], KERNELS["multiply_complex_f32"]
_COMPLEX, _REAL_TO_HALF, _REAL_TO_WHOLE, _HALF_TO_REAL = range(4)
_FACTORS = (2, 3, 5, 7, 11, 13)
_LARGEST = 1 << 14  # on the CPU
_LARGEST_ELSEWHERE = 1 << 20  # complex numbers (native/cuda/fourier.cu)
_FEW, _LONG = 4, 2048  # fewer and longer transforms are NumPy's on the CPU: the kernel's lanes are transforms


@lru_cache(256)
def _takes(kind: int, n: int) -> bool:
    """Whether the kernel has a transform of n elements, which may be too long for the CPU."""
    rest = n // 2 if kind else n
    if not 1 <= rest <= _LARGEST_ELSEWHERE or (kind and n % 2):
        return False
    for factor in _FACTORS:
        while rest % factor == 0:
            rest //= factor
    return rest == 1


@constants(16)
def _roots(n: int, device: Device) -> Tensor:
    """cos and sin of 2πi / n: (n, 2) float32."""
    angles = np.arange(n) * (2 * np.pi / n)
    roots = np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32)
    return adopt_array(roots, _dtype.float32).to(device)


@constants(16)
def _chirps(n: int, inverse: bool, device: Device) -> tuple[Tensor, Tensor]:
    """exp(∓ πi k² / n) for k < n, (n,) complex64, and the transform of its conjugate on both sides of 0, (m,), over m:
    the first power of two from 2n - 1 on.
    """
    m = 1 << (2 * n - 2).bit_length()
    turns = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp = np.exp((1j if inverse else -1j) * np.pi / n * turns)
    around = np.zeros(m, np.complex128)
    around[:n] = chirp.conj()
    around[m - n + 1 :] = around[n - 1 : 0 : -1]
    first, second = (
        adopt_array(a.astype(np.complex64), _dtype.complex64).to(device) for a in (chirp, np.fft.fft(around) / m)
    )
    return first, second


def _by_chirps(x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    """A transform of any length n as a convolution: jk = (j² + k² - (k - j)²) / 2."""
    n = x._shape[dim]
    if 2 * n > _LARGEST_ELSEWHERE:
        return NotImplemented
    chirp, filters = _chirps(n, inverse, x.device)
    y = ops._dft(ops._multiply_along(x, chirp, dim, filters.shape[0]), dim, False, 1.0)
    y = ops._dft(ops._multiply_along(y, filters, dim, filters.shape[0]), dim, True, 1.0)
    return ops._multiply_along(y, chirp, dim, n, scale)


@claims("_multiply_along")
def _multiply_along(x: Tensor, factors: Tensor, dim: int, n: int, scale: float = 1.0) -> Any:
    if x.device is cpu or x.dtype is not _dtype.complex64 or factors.dtype is not _dtype.complex64:
        return NotImplemented
    shape, factors = x._shape, dense(factors)
    if factors._shape != (min(n, shape[dim]),):
        return NotImplemented
    y = empty_contiguous((*shape[:dim], n, *shape[dim + 1 :]), x.dtype, x.device)
    _MULTIPLY.launch(
        y.numel() >> 8, y, dense(x), factors, prod(shape[:dim]), shape[dim], n, prod(shape[dim + 1 :]), scale
    )
    return y


def _with_middle(x: Tensor, dim: int, n: int, middle: float) -> Tensor:
    """The first n // 2 + 1 frequencies of n, all but the first and (for even n) the last times `middle`."""
    if middle == 1:
        return x
    last = 1 - n % 2
    inner = narrow(x, dim, 1, x._shape[dim] - 1 - last) * middle
    return cat([narrow(x, dim, 0, 1), inner, *([narrow(x, dim, n // 2, 1)] if last else [])], dim)


def _run(
    kind: int, x: Tensor, dim: int, n: int, out: int, dtype: DType, inverse: bool, scale: float, middle: float
) -> Any:  # fmt: skip
    """The transforms of length n along a dim, of which the result has `out` elements there."""
    shape, strides = x._shape, x.strides
    outer, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    if x.device is cpu and (not 1 < n <= _LARGEST or (n > _LONG and outer * inner < _FEW)):
        return NotImplemented
    if IN_BROWSER or not _takes(kind, n):
        return NotImplemented
    before, behind = merged(shape[:dim], strides[:dim]), merged(shape[dim + 1 :], strides[dim + 1 :])
    if before is None or behind is None:
        x = dense(x)
        before, behind = (outer, shape[dim] * inner), (inner, 1)
    y = empty_contiguous((*shape[:dim], out, *shape[dim + 1 :]), dtype, x.device)
    own = x.device.backend.own_workspaces
    workers = 1 if own else max(1, min(outer * inner, 2 * get_num_threads()))
    workspace = x if own else Storage(64 * (4 * n + 4) * workers, x.device)
    _FOURIER.launch(
        x.numel() * n.bit_length() >> 10, y, x, _roots(n, x.device), workspace,
        outer, inner, n, kind, int(inverse), before[1], behind[1], x.strides[dim], out * inner, 1, inner, workers,
        scale, middle,
    )  # fmt: skip
    return y


@claims("_dft")
def _dft(x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    if x.dtype is not _dtype.complex64:
        return NotImplemented
    n = x._shape[dim]
    y = _run(_COMPLEX, x, dim, n, n, x.dtype, inverse, scale, 1.0)
    if y is not NotImplemented or x.device is cpu or IN_BROWSER or _FOURIER.name not in x.device.backend.kernels:
        return y
    return _by_chirps(x, dim, inverse, scale)


def _in_float32(x: Tensor) -> Tensor | None:
    """Real numbers as the kernels take them. None: NumPy computes them, on the CPU of all types but float32."""
    if x.dtype is _dtype.float32:
        return x
    return None if x.device is cpu or x.dtype is _dtype.float64 or x.dtype.is_complex else x.to(_dtype.float32)


@claims("_rdft_whole")
def _rdft_whole(x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    own = _in_float32(x)
    if own is None:
        return NotImplemented
    x = own
    n = x._shape[dim]
    y = _run(_REAL_TO_WHOLE, x, dim, n, n, _dtype.complex64, inverse, scale, 1.0)
    return y if y is not NotImplemented or x.device is cpu else ops._dft(x.to("complex64"), dim, inverse, scale)


@claims("_rdft")
def _rdft(x: Tensor, dim: int, scale: float, middle: float = 1.0) -> Any:
    own = _in_float32(x)
    if own is None:
        return NotImplemented
    x = own
    n = x._shape[dim]
    y = _run(_REAL_TO_HALF, x, dim, n, n // 2 + 1, _dtype.complex64, False, scale, middle)
    if y is not NotImplemented or x.device is cpu:
        return y
    whole = ops._dft(x.to("complex64"), dim, False, scale)
    return _with_middle(narrow(whole, dim, 0, n // 2 + 1), dim, n, middle)


@claims("_irdft")
def _irdft(x: Tensor, n: int, dim: int, scale: float, middle: float = 1.0) -> Any:
    if x.dtype is not _dtype.complex64:
        return NotImplemented
    y = _run(_HALF_TO_REAL, x, dim, n, n, _dtype.float32, False, scale, middle)
    if y is not NotImplemented or x.device is cpu:
        return y
    x = _with_middle(x, dim, n, middle)
    others = conj(narrow(x, dim, 1, n - x._shape[dim])).flip(dim)  # n - n // 2 - 1 of them
    return real(ops._dft(cat([x, others], dim), dim, True, scale))
