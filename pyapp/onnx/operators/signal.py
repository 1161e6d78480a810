"""Signals: Fourier transforms, windows, mel filters. Complex numbers are a last dim of two."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import axes_of, check_room, element_name, made_of, scalar


def _matrix(size: int, out: int, inverse: bool) -> tuple[Any, Any]:
    """cos and sin (size, out) of the transform; exp(∓2πi k n / size)."""
    angle = 2 * np.pi * ((np.arange(size)[:, None] * np.arange(out)) % size) / size
    return np.cos(angle), np.sin(angle) * (1 if inverse else -1)


def _transformed(x: Tensor, axis: int, length: int | None, inverse: bool, onesided: bool) -> Tensor:
    """x (…, N, …, 1 or 2) → (…, K, …, 2): products with matrices in float64, so that gradients flow."""
    return _in_float64(x.to("float64"), axis, length, inverse, onesided).to(x.dtype)


def _in_float64(x: Tensor, axis: int, length: int | None, inverse: bool, onesided: bool) -> Tensor:
    at = axes_of([axis], x.ndim)[0]
    if at == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise ValueError(f"x of shape {tuple(x.shape)} has no last dim of 1 or 2 beside axis {axis}")
    # The inverse of one side: the other side is its conjugate.
    if inverse and onesided:
        return _from_one_side(x, at, length)
    size = x.shape[at] if length is None else length
    check_room((size, size), "DFT", 24)
    have = x.shape[at]
    if size < have:
        x = ops.narrow(x, at, 0, size)
    elif size > have:
        x = ops.pad(x, [0, 0] * (x.ndim - 1 - at) + [0, size - have])
    x = x.movedim(at, -2)  # (…, N, 1 or 2)
    out = size // 2 + 1 if onesided else size
    cos, sin = (made_of(part, x.dtype.name, x.device) for part in _matrix(size, out, inverse))
    real = x[..., 0]
    y_real, y_imaginary = real @ cos, real @ sin
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        y_real, y_imaginary = y_real - imaginary @ sin, y_imaginary + imaginary @ cos
    y = ops.stack([y_real, y_imaginary], -1)
    y = y / size if inverse else y
    return y.movedim(-2, at)


def _from_one_side(x: Tensor, at: int, length: int | None) -> Tensor:
    x = x.movedim(at, -2)
    size = length if length is not None else 2 * (x.shape[-2] - 1)
    half = size // 2 + 1
    kept = ops.narrow(x, -2, 0, half) if x.shape[-2] >= half else ops.pad(x, [0, 0, 0, half - x.shape[-2]])
    weight = np.full(half, 2.0)
    weight[0] = 1
    if size % 2 == 0:
        weight[-1] = 1
    angle = 2 * np.pi * ((np.arange(half)[:, None] * np.arange(size)) % size) / size
    cos = made_of(np.cos(angle) * weight[:, None] / size, x.dtype.name, x.device)
    sin = made_of(np.sin(angle) * weight[:, None] / size, x.dtype.name, x.device)
    y = kept[..., 0] @ cos - (kept[..., 1] @ sin if x.shape[-1] == 2 else 0)
    return y.unsqueeze(-1).movedim(-2, at)


@operator("DFT", since=20, reads=(1, 2))
def dft(x: Tensor, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    at = -2 if axis is None else int(scalar(axis))
    return _transformed(x, at, None if length is None else int(scalar(length)), bool(inverse), bool(onesided))


@operator("DFT", reads=(1,))
def dft_by_attribute(x: Tensor, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _transformed(x, axis, None if length is None else int(scalar(length)), bool(inverse), bool(onesided))


@operator("STFT", reads=(1, 3))
def stft(signal: Tensor, step: Tensor, window: Any = None, length: Any = None, *, onesided: int = 1) -> Tensor:
    """The transforms of overlapping frames: signal (B, N, 1 or 2) → (B, frames, K, 2)."""
    hop = int(scalar(step))
    size = int(scalar(length)) if length is not None else window.shape[0] if window is not None else signal.shape[1]
    if hop < 1 or not 0 < size <= signal.shape[1]:
        raise ValueError(f"frames of {size} every {hop} of {signal.shape[1]} samples")
    count = (signal.shape[1] - size) // hop + 1
    check_room((signal.shape[0], count, size), "STFT")
    index = made_of((np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1), device=signal.device)
    wide = signal if signal.ndim == 3 else signal.unsqueeze(-1)
    frames = ops.index_select(wide, 1, index).reshape(wide.shape[0], count, size, wide.shape[2])
    if window is not None:
        frames = frames * window.to(signal.dtype).reshape(1, 1, -1, 1)
    return _transformed(frames, 2, None, False, bool(onesided))


def _window(size: Any, periodic: int, datatype: int, terms: tuple[float, ...]) -> Any:
    count = int(scalar(size))
    check_room((count,), "a window")
    angle = 2 * np.pi * np.arange(count) / max(count if periodic else count - 1, 1)
    found = sum((-1) ** k * part * np.cos(k * angle) for k, part in enumerate(terms))
    return made_of(found, element_name(datatype))


@operator("HannWindow", reads=(0,))
def hann_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, periodic, output_datatype, (0.5, 0.5))


@operator("HammingWindow", reads=(0,))
def hamming_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, periodic, output_datatype, (25 / 46, 21 / 46))


@operator("BlackmanWindow", reads=(0,))
def blackman_window(size: Tensor, *, output_datatype: int = 1, periodic: int = 1) -> Any:
    return _window(size, periodic, output_datatype, (0.42, 0.5, 0.08))


@operator("MelWeightMatrix", reads=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor, *, output_datatype: int = 1
) -> Any:
    """Triangular filters, evenly spaced in mel: (length / 2 + 1, bins)."""
    count, size, hertz = int(scalar(bins)), int(scalar(length)), int(scalar(rate))
    check_room((size // 2 + 1, count), "MelWeightMatrix", 8)
    lowest, highest = (2595 * np.log10(1 + float(scalar(edge)) / 700) for edge in (low, high))
    mels = lowest + np.arange(count + 2) * ((highest - lowest) / (count + 2))
    places = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / hertz).astype(np.int64)
    if places.min() < 0 or places.max() > size // 2 + 1:
        raise ValueError(
            f"filters of {float(scalar(low)):g} to {float(scalar(high)):g} Hz at {hertz:,} Hz leave the spectrum"
        )
    found = np.zeros((size // 2 + 1, count))
    for k in range(count):
        left, middle, right = places[k : k + 3]
        if left == middle:
            found[middle, k] = 1
        else:
            rising = np.arange(left, middle + 1)
            found[rising, k] = (rising - left) / (middle - left)
        if right != middle:
            falling = np.arange(middle, right)
            found[falling, k] = (right - falling) / (right - middle)
    return made_of(found, element_name(output_datatype))
