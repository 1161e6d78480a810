"""Fourier transforms on the device: the numbers of NumPy in float64, the CPU's gradients, and nothing by the host."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, fft
from pyapp.engine import capture
from pyapp.keras import layers, spectral_functions
from tests.cuda import emulated
from tests.engine.test_fused import normal
from tests.together import check_each

pytestmark = [pytest.mark.native_only, pytest.mark.filterwarnings("error:.*the host computes it from copies")]
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 60, 97, 128, 243, 400, 512, 1000, 1009, 1024, 4096, 4097, 16384)


def numbers(*shape: int) -> Any:
    return normal(*shape).numpy() + 1j * normal(*shape, seed=1).numpy()


def there(array: Any) -> Tensor:
    return pyapp.from_numpy(np.ascontiguousarray(array)).to(emulated.DEVICE)


def distance(found: Tensor, expected: Any) -> float:
    """Relative to the norm."""
    ours = found.cpu().numpy()
    assert ours.shape == expected.shape and ours.dtype.itemsize == (8 if np.iscomplexobj(expected) else 4)
    return float(np.linalg.norm(ours - expected) / np.linalg.norm(expected))


def test_lengths() -> None:
    def check(n: int) -> None:
        x = numbers(2, n)
        whole, signal, half = (a.astype(t) for a, t in ((x, "c8"), (x.real, "f4"), (numbers(2, n // 2 + 1), "c8")))
        assert distance(fft.fft(there(whole)), np.fft.fft(whole.astype("c16"))) < 1e-6
        assert distance(fft.ifft(there(whole), norm="ortho"), np.fft.ifft(whole.astype("c16"), norm="ortho")) < 1e-6
        assert distance(fft.fft(there(signal)), np.fft.fft(signal.astype("f8"))) < 1e-6
        assert distance(fft.rfft(there(signal)), np.fft.rfft(signal.astype("f8"))) < 1e-6
        expected = np.fft.irfft(half.astype("c16"), n, norm="forward")
        assert distance(fft.irfft(there(half), n, norm="forward"), expected) < 1e-6

    check_each(check, [(n,) for n in LENGTHS])
    emulated.check()


def test_sizes_and_dims() -> None:
    """Cut and padded, along each dim, of views of any strides."""
    x = numbers(3, 10, 6).astype("c8")
    views = (x, x.transpose(2, 0, 1), x[:, ::-1][:, 1::2])

    def check(at: int, dim: int, n: int) -> None:
        norm: Any = ("backward", "ortho", "forward")[(at + dim + n) % 3]
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            real = name in ("rfft", "ihfft")
            base = there(x.real if real else x)
            view = (base, base.permute(2, 0, 1), base.flip(1)[:, 1::2])[at]
            given = views[at].real if real else views[at]
            expected = getattr(np.fft, name)(given.astype("f8" if real else "c16"), n, dim, norm)
            assert distance(getattr(fft, name)(view, n, dim, norm), expected) < 1e-6

    check_each(check, itertools.product(range(3), range(3), (4, 7, 34)))


@pytest.mark.parametrize("n", [6, 7, 34])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_gradients(name: str, n: int) -> None:
    found = []
    for device in ("cpu", emulated.DEVICE):
        parts = normal(2, 9, 3, 2).to(device).requires_grad_()
        x = parts[..., 0] if name == "rfft" else pyapp.view_as_complex(parts)
        y = getattr(fft, name)(x, n, 1)
        y = y if name == "irfft" else pyapp.view_as_real(y)
        (y * normal(*y.shape, seed=2).to(device)).sum().backward()
        found.append(parts.grad.cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-5 * abs(found[0]).max())


@pytest.mark.parametrize("n_fft", [16, 15])
def test_short_time(n_fft: int) -> None:
    """A spectrogram's loss and its gradient; and back to the signal."""
    found = []
    for device in ("cpu", emulated.DEVICE):
        x = normal(2, 100).to(device).requires_grad_()
        window = pyapp.hann_window(n_fft).to(device)
        spectrum = pyapp.stft(x, n_fft, 4, window=window, return_complex=True)
        (spectrum.abs() + 1e-3).log().abs().mean().backward()
        y = pyapp.istft(spectrum.detach(), n_fft, 4, window=window, length=100)
        whole = pyapp.stft(x.detach(), n_fft, 4, onesided=False, return_complex=False)
        found.append([t.cpu().numpy() for t in (pyapp.view_as_real(spectrum.detach()), x.grad, y, whole)])
        np.testing.assert_allclose(found[-1][2], x.detach().cpu().numpy(), atol=1e-5)
    for expected, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5 * abs(expected).max())


def test_mel_spectrograms() -> None:
    layer = layers.MelSpectrogram(fft_length=90, sequence_stride=32, num_mel_bins=8, sampling_rate=8000, max_freq=4000)
    x = normal(2, 300)
    found = layer(x.to(emulated.DEVICE))
    assert found.device == emulated.DEVICE
    np.testing.assert_allclose(found.cpu().numpy(), layer(x).numpy(), atol=1e-3)  # decibels
    pairs = spectral_functions.stft(x.to(emulated.DEVICE), 64, 16, 64)
    back = spectral_functions.istft(pairs, 64, 16, 64)
    np.testing.assert_allclose(back[:, :300].cpu().numpy(), x[:, : back.shape[1]].numpy(), atol=1e-5)


@pytest.mark.parametrize("n", [22, 46])
def test_graphs_hold_them(n: int) -> None:
    """Also where the first call is the one that is recorded."""
    x = normal(2, n).to(emulated.DEVICE)
    graph = capture(lambda: fft.rfft(x)[:, :9].abs() + pyapp.polygamma(n // 10, x[:, :9].abs() + 1))
    y = normal(2, n, seed=7)
    x.copy_(y.to(emulated.DEVICE))
    graph.replay()
    expected = fft.rfft(y)[:, :9].abs() + pyapp.polygamma(n // 10, y[:, :9].abs() + 1)
    np.testing.assert_allclose(graph.outputs.cpu().numpy(), expected.numpy(), rtol=1e-5)


def test_errors_are_those_of_the_cpu() -> None:
    x = normal(2, 4).to(emulated.DEVICE)
    with pytest.raises(ValueError, match="0 data points"):
        fft.fft(x, 0)
    with pytest.raises(ValueError, match="norm is"):
        fft.rfft(x, norm="some")
    assert fft.fft(normal(0, 4).to(emulated.DEVICE)).shape == (0, 4)


def test_halves_and_whole_numbers_stay_on_the_card() -> None:
    """What would be computed by the host warns, which is an error here."""
    for x in (pyapp.arange(12.0).half(), pyapp.arange(12)):
        found, expected = pyapp.fft.rfft(x.to(emulated.DEVICE)), pyapp.fft.rfft(x)
        assert found.dtype is expected.dtype
        np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
