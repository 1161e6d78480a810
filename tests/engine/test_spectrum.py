"""Power and log-mel spectra: the kernels against the ops' definitions, Graphs, and arguments that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine import capture
from pyapp.engine.op import OPS
from pyapp.engine.ops.spectrum import log_mel, power_spectrum


def roots(size: int) -> Tensor:
    angles = 2 * np.pi * np.arange(size) / size
    return pyapp.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32))


def sound(count: int) -> Tensor:
    return pyapp.randn(count, generator=pyapp.Generator(1))


def exact_power(samples: Tensor, size: int, frames: int, hop: int) -> Any:
    taken = np.stack([samples.numpy()[t * hop : t * hop + size] for t in range(frames)]).astype(np.float64)
    return np.abs(np.fft.rfft(taken * np.sin(np.pi * np.arange(size) / size) ** 2)).T ** 2


@pytest.mark.parametrize("size", [400, 20, 14])  # the kernel has no radix 7: the definition runs
def test_power_by_kernel_and_by_definition(size: int) -> None:
    samples, frames, hop = sound(2000), 11, 37
    expected = exact_power(samples, size, frames, hop)
    for found in (
        power_spectrum(samples, roots(size), frames, hop),
        OPS["_power_spectrum"].definition(samples, roots(size), frames, hop),  # type: ignore[misc]
    ):
        assert found.shape == (size // 2 + 1, frames)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-3)
    apart = pyapp.stack([samples, samples], 1)[:, 0]  # every second element
    np.testing.assert_allclose(power_spectrum(apart, roots(size), frames, hop).numpy(), expected, rtol=1e-4, atol=1e-3)


def filters_of(bins: int) -> tuple[Tensor, Tensor]:
    values = np.zeros((3, bins), np.float32)
    values[0, 2:5], values[1, 4:9] = 0.5, 0.25  # the last takes nothing
    return pyapp.from_numpy(values), pyapp.tensor([[2, 5], [4, 9], [0, 0]], dtype=pyapp.int32)


def test_log_mel_by_kernel_and_by_definition() -> None:
    samples, frames, hop, size = sound(2000), 9, 160, 400
    arguments = (samples, roots(size), *filters_of(201), frames, hop, 1e-10)
    power = filters_of(201)[0].numpy().astype(np.float64) @ exact_power(samples, size, frames, hop)
    expected = np.log10(np.maximum(power, 1e-10))
    for found in (log_mel(*arguments), OPS["_log_mel"].definition(*arguments)):  # type: ignore[misc]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-4)


def test_graphs_read_the_samples_again() -> None:
    samples, table = sound(800), roots(400)
    graph = capture(lambda: power_spectrum(samples, table, 2, 160))
    first = graph.outputs.numpy().copy()
    samples.mul_(2.0)
    np.testing.assert_allclose(graph.replay().numpy(), 4 * first, rtol=1e-5)


def test_what_does_not_fit_is_named() -> None:
    samples, table, (filters, ranges) = sound(800), roots(400), filters_of(201)
    with pytest.raises(ValueError, match="4 windows need 880 samples, got 800"):
        power_spectrum(samples, table, 4, 160)
    for wrong in (sound(800).to(pyapp.float64), sound(800).reshape(2, 400)):
        with pytest.raises(ValueError, match="takes float32 samples"):
            power_spectrum(wrong, table, 2, 160)
    with pytest.raises(ValueError, match="roots"):
        power_spectrum(samples, table[:399], 2, 160)
    with pytest.raises(ValueError, match="hop of 1 or more, got 2 and 0"):
        power_spectrum(samples, table, 2, 0)
    with pytest.raises(ValueError, match=r"filters \(mels, 201\)"):
        log_mel(samples, table, filters[:, :200], ranges, 2, 160)
    with pytest.raises(ValueError, match=r"int32 ranges \(3, 2\)"):
        log_mel(samples, table, filters, ranges[:2], 2, 160)


@pytest.mark.parametrize("center", [False, True])
def test_more_points_than_samples_are_refused_before_memory_is_taken(center: bool) -> None:
    with pytest.raises((RuntimeError, ValueError), match="stft: "):
        pyapp.stft(pyapp.ones(100), (1 << 62) - 1, center=center, return_complex=True)
