"""Power spectra and log-mel spectra against the discrete Fourier transform in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import assert_guarded, normal, run_checked, strided
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, SIZES, Kernels, unaligned

SMALLEST = 1e-10


def roots(size: int) -> np.ndarray:
    angles = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def power(samples: np.ndarray, frames: int, hop: int, size: int) -> np.ndarray:
    """(size / 2 + 1, frames) float64."""
    index = np.arange(size)
    basis = np.exp(-2j * np.pi * np.outer(index, np.arange(size // 2 + 1)) / size)
    window = np.sin(np.pi * index / size) ** 2
    taken = [samples[t * hop : t * hop + size].astype(np.float64) * window for t in range(frames)]
    with np.errstate(invalid="ignore"):
        return np.abs(np.array(taken).reshape(frames, size) @ basis).T ** 2


def sound(frames: int, hop: int, size: int) -> np.ndarray:
    return unaligned(normal(max(frames - 1, 0) * hop + size))


@pytest.mark.parametrize("size, hop", [(400, 160), (512, 1), (2, 3), (4, 4), (10, 7), (20, 5), (250, 100), (80, 33)])
@pytest.mark.parametrize("frames", [*SIZES, 70])
def test_power_spectrum(kernels: Kernels, frames: int, size: int, hop: int) -> None:
    samples = sound(frames, hop, size)
    memory, y = strided(np.zeros((size // 2 + 1, frames), np.float32))
    sizes = {"frames": frames, "hop": hop, "size": size, "y_stride": memory.shape[1]}
    run_checked(kernels, "power_spectrum_f32", "y", y=memory, samples=samples, roots=roots(size), **sizes)
    assert_guarded(memory, frames)
    exact = power(samples, frames, hop, size)
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-6 * size)


def test_a_pure_tone_leaves_the_rest_quiet(kernels: Kernels) -> None:
    samples = np.sin(2 * np.pi * 40 * np.arange(400) / 400).astype(np.float32)
    y = np.empty((201, 1), np.float32)
    sizes = {"frames": 1, "hop": 160, "size": 400, "y_stride": 1}
    run_checked(kernels, "power_spectrum_f32", "y", y=y, samples=samples, roots=roots(400), **sizes)
    np.testing.assert_allclose(y[39:42, 0], [2500, 10000, 2500], rtol=1e-5)
    assert y[:38].max() < 1e-8 and y[43:].max() < 1e-8  # 12 decades below


def test_windows_do_not_mix(kernels: Kernels) -> None:
    samples = sound(9, 160, 400)
    clean, y = np.empty((201, 9), np.float32), np.empty((201, 9), np.float32)
    arguments = {"roots": roots(400), "frames": 9, "hop": 160, "size": 400, "y_stride": 9}
    run_checked(kernels, "power_spectrum_f32", "y", y=clean, samples=samples, **arguments)
    samples[0], samples[-1] = np.nan, np.inf
    run_checked(kernels, "power_spectrum_f32", "y", y=y, samples=samples, **arguments)
    assert y[:, 1:8].tobytes() == clean[:, 1:8].tobytes()
    assert np.isnan(y[:, 0]).all() and np.isnan(y[:, 8]).all()


@pytest.mark.parametrize("mels", [0, 1, 31, 80])
@pytest.mark.parametrize("frames", [*SIZES, 50])
def test_log_mel(kernels: Kernels, frames: int, mels: int) -> None:
    random = np.random.default_rng(5)
    filters = random.random((mels, 201), np.float32)
    ranges = np.sort(random.integers(0, 202, (mels, 2)), axis=1).astype(np.int32)
    samples = sound(frames, 160, 400)
    memory, y = strided(np.zeros((mels, frames), np.float32))
    sizes = {"frames": frames, "hop": 160, "size": 400, "mels": mels, "y_stride": memory.shape[1], "smallest": SMALLEST}
    tables = {"roots": roots(400), "filters": filters, "ranges": ranges}
    run_checked(kernels, "log_mel_f32", "y", y=memory, samples=samples, **tables, **sizes)
    assert_guarded(memory, frames)
    inside = (np.arange(201) >= ranges[:, :1]) & (np.arange(201) < ranges[:, 1:])
    exact = (filters * inside) @ power(samples, frames, 160, 400)
    np.testing.assert_allclose(y, np.log10(np.maximum(exact, SMALLEST)), rtol=0, atol=3e-6)


def test_log_mel_of_special_values(kernels: Kernels) -> None:
    """Silence is the smallest; NaN and what is too loud show."""
    samples = np.zeros(400 + 5 * 400, np.float32)
    samples[400:800], samples[810], samples[1300] = 1e30, np.nan, np.inf
    filters, ranges = np.ones((2, 201), np.float32), np.array([[0, 201], [7, 7]], np.int32)
    y = np.empty((2, 6), np.float32)
    sizes = {"frames": 6, "hop": 400, "size": 400, "mels": 2, "y_stride": 6, "smallest": SMALLEST}
    tables = {"roots": roots(400), "filters": filters, "ranges": ranges}
    run_checked(kernels, "log_mel_f32", "y", y=y, samples=samples, **tables, **sizes)
    np.testing.assert_allclose(y[0, [0, 4, 5]], -10, rtol=1e-6)
    assert y[0, 1] == np.inf and np.isnan(y[0, 2:4]).all()
    np.testing.assert_allclose(y[1], -10, rtol=1e-6)  # no bins


def test_impossible_sizes_are_refused(kernels: Kernels) -> None:
    for kernel, more in (("power_spectrum_f32", {}), ("log_mel_f32", {"mels": 1})):
        for size in (0, 1, 3, 6, 14, 401, 1024, -400):
            assert kernels.run(kernel, frames=1, hop=1, size=size, **more) == BAD_ARGUMENT
        assert kernels.run(kernel, frames=0, hop=1, size=3, **more) == OK
    for wrong in ([0, 202], [-1, 4], [5, 4]):
        ranges = np.array([[0, 1], wrong], np.int32)
        assert kernels.run("log_mel_f32", frames=1, hop=1, size=400, mels=2, ranges=ranges) == INDEX_RANGE
