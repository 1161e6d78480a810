"""Power spectra and log-mel spectra (native/spectrum.c)."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..launch import KERNELS
from ..op import claims
from ..operands import dense
from ..tensor import Tensor, empty_contiguous

_POWER, _LOG_MEL = KERNELS["power_spectrum_f32"], KERNELS["log_mel_f32"]
_LARGEST = 512


def _takes(size: int) -> bool:
    """Whether the kernels support windows of `size`: twice a product of powers of 2 and 5, at most 512."""
    half = size // 2
    for factor in (2, 5):
        while half > 1 and half % factor == 0:
            half //= factor
    return half == 1 and size <= _LARGEST


@claims("_power_spectrum")
def _power_spectrum(samples: Tensor, roots: Tensor, frames: int, hop: int) -> Any:
    size = roots._shape[0]
    if not _takes(size):
        return NotImplemented
    samples, roots = dense(samples), dense(roots)
    y = empty_contiguous((size // 2 + 1, frames), _dtype.float32, samples.device)
    _POWER.launch(frames * size >> 5, y, samples, roots, frames, hop, size, frames)
    return y


@claims("_log_mel")
def _log_mel(
    samples: Tensor, roots: Tensor, filters: Tensor, ranges: Tensor, frames: int, hop: int, smallest: float
) -> Any:
    size, mels = roots._shape[0], filters._shape[0]
    if not _takes(size):
        return NotImplemented
    samples, roots, filters, ranges = dense(samples), dense(roots), dense(filters), dense(ranges)
    y = empty_contiguous((mels, frames), _dtype.float32, samples.device)
    _LOG_MEL.launch(frames * size >> 5, y, samples, roots, filters, ranges,
        frames, hop, size, mels, frames, smallest,
    )  # fmt: skip
    return y
