"""Fourier transforms, by torch.fft's names. Complex tensors hold pairs in a last dim of two: engine/ops/fourier.py."""

from __future__ import annotations

from .engine.declare import publish
from .engine.ops.fourier import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from .engine.torch_arguments import as_factory

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
publish(globals(), __all__)
fftfreq, rfftfreq = as_factory(fftfreq), as_factory(rfftfreq)
