"""Fourier transforms of float32 (native/fourier.c)."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from .. import dtype as _dtype
from ..device import cpu
from ..dtype import DType
from ..launch import KERNELS
from ..lazy import np
from ..native import IN_BROWSER, get_num_threads
from ..op import claims
from ..operands import dense
from ..storage import Storage
from ..tensor import Tensor, adopt_array, empty_contiguous
from .reduce import merged

_FOURIER = KERNELS["fourier_f32"]
_COMPLEX, _REAL_TO_HALF, _REAL_TO_WHOLE, _HALF_TO_REAL = range(4)
_FACTORS = (2, 3, 5, 7, 11, 13)
_LARGEST = 1 << 14
_FEW, _LONG = 4, 2048  # fewer and longer transforms are NumPy's: the kernel's lanes are transforms


@lru_cache(256)
def _takes(kind: int, n: int) -> bool:
    if not 2 <= n <= _LARGEST or (kind and n % 2):
        return False
    rest = n // 2 if kind else n
    for factor in _FACTORS:
        while rest % factor == 0:
            rest //= factor
    return rest == 1


@lru_cache(16)
def _roots(n: int) -> Tensor:
    """cos and sin of 2πi / n: (n, 2) float32."""
    angles = np.arange(n) * (2 * np.pi / n)
    return adopt_array(np.stack([np.cos(angles), np.sin(angles)], -1).astype(np.float32), _dtype.float32)


def _run(
    kind: int, x: Tensor, dim: int, n: int, out: int, dtype: DType, inverse: bool, scale: float, middle: float
) -> Any:  # fmt: skip
    """The transforms of length n along a dim, of which the result has `out` elements there."""
    shape, strides = x.shape, x.strides
    if IN_BROWSER or not _takes(kind, n):
        return NotImplemented
    outer, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    if n > _LONG and outer * inner < _FEW:
        return NotImplemented
    before, behind = merged(shape[:dim], strides[:dim]), merged(shape[dim + 1 :], strides[dim + 1 :])
    if before is None or behind is None:
        x = dense(x)
        before, behind = (outer, shape[dim] * inner), (inner, 1)
    y = empty_contiguous((*shape[:dim], out, *shape[dim + 1 :]), dtype, x.device)
    own = x.device.backend.own_workspaces
    workers = 1 if own else max(1, min(outer * inner, 2 * get_num_threads()))
    roots = _roots(n) if x.device is cpu else _roots(n).to(x.device)
    _FOURIER.launch(
        x.numel() * n.bit_length() >> 10, y, x, roots, x if own else Storage(64 * (4 * n + 4) * workers, x.device),
        outer, inner, n, kind, int(inverse), before[1], behind[1], x.strides[dim], out * inner, 1, inner, workers,
        scale, middle,
    )  # fmt: skip
    return y


@claims("_dft")
def _dft(x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    if x.dtype is not _dtype.complex64:
        return NotImplemented
    n = x.shape[dim]
    return _run(_COMPLEX, x, dim, n, n, x.dtype, inverse, scale, 1.0)


@claims("_rdft_whole")
def _rdft_whole(x: Tensor, dim: int, inverse: bool, scale: float) -> Any:
    if x.dtype is not _dtype.float32:
        return NotImplemented
    n = x.shape[dim]
    return _run(_REAL_TO_WHOLE, x, dim, n, n, _dtype.complex64, inverse, scale, 1.0)


@claims("_rdft")
def _rdft(x: Tensor, dim: int, scale: float, middle: float = 1.0) -> Any:
    if x.dtype is not _dtype.float32:
        return NotImplemented
    n = x.shape[dim]
    return _run(_REAL_TO_HALF, x, dim, n, n // 2 + 1, _dtype.complex64, False, scale, middle)


@claims("_irdft")
def _irdft(x: Tensor, n: int, dim: int, scale: float, middle: float = 1.0) -> Any:
    if x.dtype is not _dtype.complex64:
        return NotImplemented
    return _run(_HALF_TO_REAL, x, dim, n, n, _dtype.float32, False, scale, middle)
