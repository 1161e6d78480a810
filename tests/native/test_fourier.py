"""Fourier transforms along a dim against NumPy's in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels, unaligned
from tests.native.wasm import WasmKernels

COMPLEX, REAL_TO_HALF, REAL_TO_WHOLE, HALF_TO_REAL = range(4)
SIZES = (1, 2, 3, 6, 7, 10, 13, 16, 22, 40, 64, 78, 105)


def roots(size: int) -> np.ndarray:
    angles = 2 * np.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def workspace(size: int) -> np.ndarray:
    """For three workers, aligned."""
    memory = np.zeros(16 * (4 * size + 4) * 3 + 16, np.float32)
    return memory[-(memory.ctypes.data // 4) % 16 :]


def numbers(*shape: int) -> np.ndarray:
    return normal(*shape) + 1j * normal(*shape, seed=4)


def middle_of(size: int, middle: float) -> np.ndarray:
    """The factors of the frequencies 0 .. size / 2: (size / 2 + 1, 1)."""
    factors = np.full((size // 2 + 1, 1), middle)
    factors[[0, -1]] = 1
    return factors


def expected(kind: int, x: np.ndarray, size: int, inverse: int, middle: float) -> np.ndarray:
    if kind == HALF_TO_REAL:
        return np.fft.irfft(x.astype(np.complex128) * middle_of(size, middle), size, axis=1, norm="forward")
    if kind == REAL_TO_HALF:
        y = np.fft.rfft(x.astype(np.float64), axis=1) * middle_of(size, middle)
        return y.conj() if inverse else y
    return np.fft.ifft(x, axis=1, norm="forward") if inverse else np.fft.fft(x.astype(np.complex128), axis=1)


def sizes_of(kind: int, x: np.ndarray, y: np.ndarray, size: int) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": kind, "outer": x.shape[0], "inner": x.shape[2], "size": size, "workspaces": 3}
    for name, array in (("x", x), ("y", y)):
        for slot, stride in zip(("outer", "step", "inner"), array.strides, strict=True):
            found[f"{name}_{slot}"] = stride // array.itemsize
    return found


def check(kernels: Kernels, kind: int, size: int, outer: int, inner: int, inverse: int) -> None:
    """Of (outer, size, inner)."""
    if isinstance(kernels, WasmKernels):
        return  # which have no room for it
    x = numbers(outer, size // 2 + 1 if kind == HALF_TO_REAL else size, inner).astype(np.complex64)
    x = unaligned(x if kind in (COMPLEX, HALF_TO_REAL) else np.ascontiguousarray(x.real))
    exact = 0.5 * expected(kind, x, size, inverse, 3.0)
    y = unaligned(np.zeros(exact.shape, np.float32 if kind == HALF_TO_REAL else np.complex64))
    run_checked(
        kernels, "fourier_f32", "y", y=y, x=x, roots=roots(size), workspace=workspace(size),
        inverse=inverse, scale=0.5, middle=3.0, **sizes_of(kind, x, y, size),
    )  # fmt: skip
    np.testing.assert_allclose(y, exact, rtol=0, atol=4e-6 * size**0.5)


@pytest.mark.parametrize("kind", (COMPLEX, REAL_TO_HALF, REAL_TO_WHOLE, HALF_TO_REAL))
def test_transforms(kernels: Kernels, kind: int) -> None:
    for size in SIZES if kind == COMPLEX else [n for n in SIZES if n % 2 == 0]:
        shapes = [(5, 1), (1, 35), (2, 19)]  # transforms of rows; of columns that are neighbours, all and some
        for outer, inner in shapes:
            for inverse in (0, 1) if kind != HALF_TO_REAL else (0,):
                check(kernels, kind, size, outer, inner, inverse)


@pytest.mark.parametrize("kind, size", [(0, 4096), (0, 4290), (1, 10000), (2, 8232), (3, 10648)])
def test_long(kernels: Kernels, kind: int, size: int) -> None:
    check(kernels, kind, size, 2, 1, int(kind == COMPLEX))


def test_many(kernels: Kernels) -> None:
    check(kernels, REAL_TO_HALF, 12, 2, 600, 0)


def test_strides(kernels: Kernels) -> None:
    if isinstance(kernels, WasmKernels):
        return
    whole = numbers(4, 3, 12).astype(np.complex64)
    x = whole[1:, ::2].transpose(0, 2, 1)[:, ::2]  # (3, 6, 2), no stride of which is that of a dense tensor
    y = np.zeros((3, 6, 2), np.complex64)
    sizes = sizes_of(COMPLEX, x, y, 6)
    arguments = {"x": x.base, "roots": roots(6), "workspace": workspace(6), "inverse": 0, "scale": 1.0, "middle": 1.0}
    arguments["x"] = whole.reshape(-1)[36:]
    run_checked(kernels, "fourier_f32", "y", y=y, **arguments, **sizes)
    np.testing.assert_allclose(y, np.fft.fft(x, axis=1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"kind": 4}, {"kind": -1}, {"size": 0}, {"size": 17}, {"size": 9, "kind": 1}, {"workspaces": 0}]
)
def test_wrong_arguments(kernels: Kernels, wrong: dict[str, int]) -> None:
    x, y = np.zeros((1, 34, 1), np.complex64), np.zeros((1, 34, 1), np.complex64)
    arguments: dict[str, Any] = {"x": x, "y": y, "roots": roots(34), "workspace": workspace(34), "inverse": 0}
    arguments |= sizes_of(COMPLEX, x, y, 4) | {"scale": 1.0, "middle": 1.0} | wrong
    assert kernels.run("fourier_f32", **arguments) == BAD_ARGUMENT
