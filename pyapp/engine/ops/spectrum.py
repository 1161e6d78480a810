"""Power spectra of windows of sound, and Whisper's logarithmic mel spectrum. They have no gradients."""

from __future__ import annotations

from .. import dtype as _dtype
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .create import arange
from .sliding_windows import unfold


@op()
def _power_spectrum(samples: Tensor, roots: Tensor, frames: int, hop: int) -> Tensor:
    """The discrete Fourier transform as a product of matrices."""
    size = roots._shape[0]
    hann = 0.5 - 0.5 * roots[:, 0]  # (size,)
    taken = unfold(samples.detach(), 0, size, hop)[:frames] * hann  # (frames, size)
    turns = (arange(size).unsqueeze(1) * arange(size // 2 + 1)).remainder(size)  # (size, size / 2 + 1)
    real, imaginary = (taken @ roots[:, part][turns] for part in (0, 1))  # (frames, size / 2 + 1)
    return (real * real + imaginary * imaginary).transpose(0, 1).contiguous()


@op()
def _log_mel(
    samples: Tensor, roots: Tensor, filters: Tensor, ranges: Tensor, frames: int, hop: int, smallest: float
) -> Tensor:
    return (filters @ _power_spectrum(samples, roots, frames, hop)).clamp(smallest).log10()


def _check(name: str, samples: Tensor, roots: Tensor, frames: int, hop: int) -> None:
    if len(samples._shape) != 1 or samples.dtype is not _dtype.float32:
        raise ValueError(f"{name}: takes float32 samples (N,), got {describe(samples)}")
    if len(roots._shape) != 2 or roots._shape[1] != 2 or roots.dtype is not _dtype.float32 or roots._shape[0] % 2:
        raise ValueError(f"{name}: takes float32 roots (size, 2) of an even size, got {describe(roots)}")
    if frames < 1 or hop < 1:
        raise ValueError(f"{name}: takes 1 window or more and a hop of 1 or more, got {frames} and {hop}")
    needed = (frames - 1) * hop + roots._shape[0]
    if samples._shape[0] < needed:
        raise ValueError(f"{name}: {frames:,} windows need {needed:,} samples, got {samples.shape[0]:,}")


def power_spectrum(samples: Tensor, roots: Tensor, frames: int, hop: int) -> Tensor:
    """The squared magnitudes of the Fourier transforms of windows of sound → (size / 2 + 1, frames) float32.

    samples (N,) float32; window t begins at sample t * hop and is weighted by the periodic Hann window. roots (size, 2)
    are the cosine and sine of 2 pi i / size. ValueError if the samples are too few for `frames` windows.
    """
    _check("power_spectrum", samples, roots, frames, hop)
    return _power_spectrum(samples, roots, frames, hop)


def log_mel(
    samples: Tensor, roots: Tensor, filters: Tensor, ranges: Tensor, frames: int, hop: int, smallest: float = 1e-10
) -> Tensor:
    """log10 of the mel power of windows of sound, at least log10(smallest) → (mels, frames) float32.

    samples, roots and windows as for power_spectrum. filters (mels, size / 2 + 1) float32; ranges (mels, 2) int32, the
    first bin of each filter and one past its last.
    """
    _check("log_mel", samples, roots, frames, hop)
    bins = roots._shape[0] // 2 + 1
    if filters.ndim != 2 or filters._shape[1] != bins or filters.dtype is not _dtype.float32:
        raise ValueError(f"log_mel: takes float32 filters (mels, {bins}), got {describe(filters)}")
    if ranges._shape != (filters._shape[0], 2) or ranges.dtype is not _dtype.int32:
        raise ValueError(f"log_mel: takes int32 ranges ({filters.shape[0]}, 2), got {describe(ranges)}")
    return _log_mel(samples, roots, filters, ranges, frames, hop, smallest)


__all__ = ["log_mel", "power_spectrum"]
