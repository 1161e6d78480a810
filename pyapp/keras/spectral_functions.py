"""keras.ops' Fourier transforms, windows and pieces of signals. A complex tensor is a pair (real, imaginary)."""

from __future__ import annotations

from typing import Any

import pyapp

from ..engine import Tensor, ops
from ..engine.dtype import complex_of
from .arguments import as_tensor

__all__ = [
    "bartlett", "blackman", "extract_sequences", "fft", "fft2", "hamming", "hanning", "ifft2", "irfft", "istft",
    "kaiser", "rfft", "stft",
]  # fmt: skip


def _joined(name: str, x: Any) -> Tensor:
    """A pair of tensors as a complex one."""
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(f"{name}: takes a pair of tensors, the real and the imaginary part, not {x!r:.60}")
    real, imaginary = (as_tensor(part) for part in x)
    if real.shape != imaginary.shape:
        raise ValueError(f"{name}: the parts have the shapes {tuple(real.shape)} and {tuple(imaginary.shape)}")
    if not (real.dtype.is_floating_point and imaginary.dtype.is_floating_point):
        raise ValueError(f"{name}: takes floats, not {real.dtype.name} and {imaginary.dtype.name}")
    kind = complex_of(ops.promote_types(real.dtype, imaginary.dtype)).part
    return ops.complex(real.to(kind), imaginary.to(kind))


def _parted(x: Tensor) -> tuple[Tensor, Tensor]:
    return ops.real(x), ops.imag(x)


def fft(x: Any) -> tuple[Tensor, Tensor]:
    """The Fourier transform along the last axis of a pair."""
    return _parted(pyapp.fft.fft(_joined("fft", x)))


def fft2(x: Any) -> tuple[Tensor, Tensor]:
    """The Fourier transform along the last two axes of a pair."""
    return _parted(pyapp.fft.fft2(_joined("fft2", x)))


def ifft2(x: Any) -> tuple[Tensor, Tensor]:
    """The inverse of fft2."""
    return _parted(pyapp.fft.ifft2(_joined("ifft2", x)))


def rfft(x: Any, fft_length: int | None = None) -> tuple[Tensor, Tensor]:
    """The first half, fft_length // 2 + 1 numbers, of the transform of real x, cut or padded to that length."""
    return _parted(pyapp.fft.rfft(as_tensor(x), fft_length))


def irfft(x: Any, fft_length: int | None = None) -> Tensor:
    """The inverse of rfft: real numbers."""
    return pyapp.fft.irfft(_joined("irfft", x), fft_length)


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Tensor:
    """Pieces (…, count, sequence_length) of x (…, samples); the next one begins sequence_stride later."""
    return as_tensor(x).unfold(-1, sequence_length, sequence_stride)


def _window(name: str, window: Any, length: int, fft_length: int, like: Tensor) -> Tensor | None:
    """The window in the middle of fft_length numbers."""
    if fft_length < length:
        raise ValueError(f"{name}: fft_length {fft_length} is smaller than sequence_length {length}")
    if window is None:
        found = ops.ones(length, dtype=like.dtype)
    elif isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(f"{name}: window is hann, hamming, a tensor or None, not {window!r:.40}")
        found = pyapp.hann_window(length) if window == "hann" else pyapp.hamming_window(length)
    else:
        found = as_tensor(window)
    if tuple(found.shape) != (length,):
        raise ValueError(f"{name}: the window has the shape {tuple(found.shape)}, not ({length},)")
    before = (fft_length - length) // 2
    return ops.pad(found.to(like.dtype).to(like.device), (before, fft_length - length - before))


def stft(
    x: Any, sequence_length: int, sequence_stride: int, fft_length: int, window: Any = "hann", center: bool = True
) -> tuple[Tensor, Tensor]:
    """The transforms of windows of x (…, samples): a pair of (…, count, fft_length // 2 + 1). With `center` the middle
    of the first window is the first sample, x is mirrored beyond its ends."""
    values = as_tensor(x)
    if values.dtype.name not in ("float32", "float64"):
        raise TypeError(f"stft: takes float32 or float64, not {values.dtype.name}")
    weights = _window("stft", window, sequence_length, fft_length, values)
    shape = values.shape
    if center:
        rows = values.reshape(1, -1, shape[-1])
        values = ops.pad(rows, (fft_length // 2, fft_length // 2), mode="reflect").reshape(*shape[:-1], -1)
    if values.shape[-1] < fft_length:
        raise ValueError(f"stft: fft_length {fft_length} is larger than the {values.shape[-1]} samples")
    return rfft(values.unfold(-1, fft_length, sequence_stride) * weights)


def istft(
    x: Any, sequence_length: int, sequence_stride: int, fft_length: int, length: int | None = None,
    window: Any = "hann", center: bool = True,
) -> Tensor:  # fmt: skip
    """The inverse of stft, (…, samples): windows are added up, and divided by what the windows sum up to."""
    pairs = _joined("istft", x)
    pieces = pyapp.fft.irfft(pairs, fft_length)  # (…, count, fft_length)
    count = pieces.shape[-2]
    total = fft_length + sequence_stride * (count - 1)
    if window is None:
        found = _added(pieces, total, sequence_stride)
    else:
        weights = _window("istft", window, sequence_length, fft_length, pieces)
        assert weights is not None
        if center and sequence_length == fft_length:
            power = _added(weights.square().expand(count, fft_length), total, sequence_stride)
            found = _added(pieces * weights, total, sequence_stride) / ops.where(power < 1e-11, 1.0, power)
        else:  # as if windows went on before the first and after the last
            turns = -(-fft_length // sequence_stride)
            power = ops.pad(weights.square(), (0, turns * sequence_stride - fft_length))
            power = power.reshape(turns, sequence_stride).sum(0).repeat(turns)[:fft_length]
            found = _added(pieces * (weights / power), total, sequence_stride)
    start = fft_length // 2 if center else 0
    end = total - start if length is None else start + length
    if end > total:
        found = ops.pad(found, (0, end - total)) if center and sequence_length == fft_length else found
    return found[..., start:end]


def _added(pieces: Tensor, total: int, stride: int) -> Tensor:
    """(…, count, size) → (…, total): each piece begins `stride` after the one before."""
    size = pieces.shape[-1]
    folded = pyapp.nn.functional.fold(
        pieces.reshape(-1, *pieces.shape[-2:]).mT, (1, total), (1, size), stride=(1, stride)
    )
    return folded.reshape(*pieces.shape[:-2], total)


def _of_points(name: str, x: Any, *more: Any) -> Tensor:
    return getattr(pyapp, name)(int(x), False, *more, dtype=pyapp.float32)


def bartlett(x: Any) -> Tensor:
    """A triangle of x numbers."""
    return _of_points("bartlett_window", x)


def blackman(x: Any) -> Tensor:
    """Blackman's window of x numbers."""
    return _of_points("blackman_window", x)


def hamming(x: Any) -> Tensor:
    """Hamming's window of x numbers."""
    return _of_points("hamming_window", x)


def hanning(x: Any) -> Tensor:
    """Hann's window of x numbers."""
    return _of_points("hann_window", x)


def kaiser(x: Any, beta: Any) -> Tensor:
    """Kaiser's window of x numbers; beta says how narrow it is."""
    return _of_points("kaiser_window", x, float(beta))
