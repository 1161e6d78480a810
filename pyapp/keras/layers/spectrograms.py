"""Layers that turn sounds into spectrograms."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

from ...engine import Tensor, ops
from ...train.metrics import in_float32
from ..arguments import layer_is_channels_first
from ..core import Layer
from ..initializers import STFT
from ..nn_functions import conv
from ..spectral_functions import stft
from .channels import DataFormatLayer

__all__ = ["MelSpectrogram", "STFTSpectrogram"]

_MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")
_EPSILON = 1e-7


class STFTSpectrogram(DataFormatLayer):
    """Spectrograms of sounds (B, samples, C): (B, windows, C * frequencies), or (B, windows, frequencies, C) with
    `expand_dims`. The transform is a convolution whose kernels are weights: training may change them.

    mode: log and magnitude of the spectrum, psd (its square, with both halves), its parts real and imag, its angle, or
    stft: both parts, one after the other.
    """

    def __init__(
        self, mode: str = "log", frame_length: int = 256, frame_step: int | None = None,
        fft_length: int | None = None, window: Any = "hann", periodic: bool = False, scaling: str | None = "density",
        padding: str = "valid", expand_dims: bool = False, data_format: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        kind = "STFTSpectrogram"
        if mode not in _MODES:
            raise ValueError(f"{kind}: mode is one of {', '.join(_MODES)}, not {mode!r}")
        if frame_step is not None and not 1 <= frame_step <= frame_length:
            raise ValueError(f"{kind}: frame_step is from 1 to frame_length = {frame_length}, not {frame_step}")
        if fft_length is not None and fft_length < frame_length:
            raise ValueError(f"{kind}: fft_length is at least frame_length = {frame_length}, not {fft_length}")
        if padding not in ("valid", "same"):
            raise ValueError(f"{kind}: padding is valid or same, not {padding!r}")
        self.mode, self.frame_length, self.window, self.periodic = mode, frame_length, window, periodic
        self.frame_step = frame_step or frame_length // 2
        self.fft_length = fft_length or 2 ** ceil(log2(frame_length))
        self.scaling, self.padding, self.expand_dims = scaling, padding, expand_dims
        self.channels_first = layer_is_channels_first(kind, data_format)
        self._made_by = {side: STFT(side, window, scaling, periodic) for side in ("real", "imag")}

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 3:
            raise ValueError(f"takes sounds of 3 dims, (B, samples, C), got {tuple(input_shape)}")
        shape = (self.frame_length, 1, self.fft_length // 2 + 1)
        if self.mode != "imag":
            self.real_kernel = self.add_weight(shape, self._made_by["real"], name="real_kernel")
        if self.mode != "real":
            self.imag_kernel = self.add_weight(shape, self._made_by["imag"], name="imag_kernel")

    def call(self, inputs: Tensor) -> Tensor:
        if not inputs.dtype.is_floating_point:
            raise TypeError(f"takes sounds as floats, not {inputs.dtype.name}")
        x = inputs if self.channels_first else inputs.mT  # (B, C, samples)
        batch, channels, samples = x.shape
        flat = x.reshape(batch * channels, samples, 1)

        def part(kernel: Tensor) -> Tensor:
            """(B, C, frequencies, windows)."""
            found = conv(flat, kernel, self.frame_step, self.padding)
            return found.reshape(batch, channels, *found.shape[1:]).mT

        real = None if self.mode == "imag" else part(self.real_kernel)
        imaginary = None if self.mode == "real" else part(self.imag_kernel)
        if real is None or imaginary is None:
            alone = imaginary if real is None else real
            assert alone is not None
            return self._arranged(alone)
        if self.mode == "angle":
            return self._arranged(ops.atan2(imaginary, real))
        if self.mode == "stft":
            return self._arranged(ops.cat([real, imaginary], 2))
        power = real.square() + imaginary.square()
        if self.mode == "psd":
            return self._arranged(power + ops.pad(power[:, :, 1:-1], [0, 0, 1, 1]))
        found = self._arranged(power.clamp(min=_EPSILON).sqrt())
        return found if self.mode == "magnitude" else found.clamp(min=_EPSILON).log()

    def _arranged(self, x: Tensor) -> Tensor:
        """(B, C, frequencies, windows) in the form of the outputs."""
        if not self.expand_dims:
            x = x.reshape(x.shape[0], -1, x.shape[3])
            return x if self.channels_first else x.mT
        return x.mT if self.channels_first else x.permute(0, 3, 2, 1)


class MelSpectrogram(Layer):
    """Spectrograms in mel bands of sounds (samples,) or (B, samples): (…, num_mel_bins, windows), in decibels unless
    `power_to_db` is False."""

    def __init__(
        self, fft_length: int = 2048, sequence_stride: int = 512, sequence_length: int | None = None,
        window: Any = "hann", sampling_rate: int = 16000, num_mel_bins: int = 128, min_freq: float = 20.0,
        max_freq: float | None = None, power_to_db: bool = True, top_db: float = 80.0, mag_exp: float = 2.0,
        min_power: float = 1e-10, ref_power: float = 1.0, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.fft_length, self.sequence_stride = fft_length, sequence_stride
        self.sequence_length = sequence_length or fft_length
        if self.fft_length < self.sequence_length:
            raise ValueError(
                f"MelSpectrogram: fft_length {fft_length} is smaller than sequence_length {self.sequence_length}"
            )
        self.window, self.sampling_rate, self.num_mel_bins = window, sampling_rate, num_mel_bins
        self.min_freq, self.max_freq = min_freq, max_freq or sampling_rate // 2
        if not 0 <= self.min_freq < self.max_freq:
            raise ValueError(f"MelSpectrogram: frequencies from {min_freq} to {self.max_freq} are not a range")
        self.power_to_db, self.top_db, self.mag_exp = power_to_db, top_db, mag_exp
        self.min_power, self.ref_power = min_power, ref_power

    def settings(self) -> dict[str, Any]:
        """The arguments, with the numbers that stand for those of None."""
        return {**super().settings(), "sequence_length": self.sequence_length, "max_freq": self.max_freq}

    def call(self, inputs: Tensor) -> Tensor:
        x = in_float32(inputs.to(self.compute_dtype))
        real, imaginary = stft(x, self.sequence_length, self.sequence_stride, self.fft_length, self.window)
        found = (real.square() + imaginary.square()).sqrt() ** self.mag_exp @ self._bands().to(x.dtype).to(x.device)
        if self.power_to_db:
            reference = max(abs(self.ref_power), self.min_power)
            found = 10.0 * (found.clamp(min=self.min_power).log10() - ops.tensor(float(reference)).log10())
            found = ops.maximum(found, found.amax() - self.top_db)
        return found.mT.to(self.compute_dtype)

    def _bands(self) -> Tensor:
        """How much of each frequency is in each band, (fft_length // 2 + 1, num_mel_bins)."""
        count = self.fft_length // 2 + 1
        places = _mel(ops.linspace(0.0, self.sampling_rate / 2, count)[1:]).unsqueeze(1)
        low, high = (_mel(ops.tensor(float(edge))).item() for edge in (self.min_freq, self.max_freq))
        edges = ops.linspace(low, high, self.num_mel_bins + 2)
        before, middle, after = edges[:-2], edges[1:-1], edges[2:]
        rising, falling = (places - before) / (middle - before), (after - places) / (after - middle)
        return ops.pad(ops.minimum(rising, falling).clamp(min=0.0), [0, 0, 1, 0])


def _mel(hertz: Tensor) -> Tensor:
    return 1127.0 * (1.0 + hertz / 700.0).log()
