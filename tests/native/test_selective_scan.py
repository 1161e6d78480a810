"""The states and outputs of Mamba's layers."""

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels
from tests.native.wasm import WasmKernels


@pytest.mark.parametrize("size", [1, 4, 16, 19])
@pytest.mark.parametrize("texts, tokens, channels", [(1, 1, 5), (2, 7, 40), (0, 3, 4), (2, 0, 4)])
def test_selective_scan(kernels: Kernels, texts: int, tokens: int, channels: int, size: int) -> None:
    if isinstance(kernels, WasmKernels):
        return  # which have no room for it
    x, steps = normal(texts, tokens, channels), abs(normal(texts, tokens, channels, seed=4))
    inward, outward = normal(texts, tokens, size, seed=5), normal(texts, tokens, size, seed=6)
    decay, state = -abs(normal(channels, size, seed=7)), normal(texts, channels, size, seed=8)
    y, expected, before = np.zeros_like(x), np.zeros_like(x), state.astype(np.float64)
    run_checked(
        kernels, "selective_scan_f32", "y", "state", y=y, state=state, x=x, steps=steps, inward=inward, outward=outward,
        decay=decay, texts=texts, tokens=tokens, channels=channels, size=size,
    )  # fmt: skip
    for t in range(tokens):
        step = steps[:, t, :, None].astype(np.float64)
        before = np.exp(step * decay) * before + step * x[:, t, :, None] * inward[:, t, None]
        expected[:, t] = (before * outward[:, t, None]).sum(-1)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state, before, rtol=1e-4, atol=1e-5)


def test_sizes_are_checked(kernels: Kernels) -> None:
    if isinstance(kernels, WasmKernels):
        return
    x = normal(1)
    sizes = {"texts": 1, "tokens": 1, "channels": 1, "size": 1}
    for name in sizes:
        assert BAD_ARGUMENT == kernels.run(
            "selective_scan_f32", y=x, state=x, x=x, steps=x, inward=x, outward=x, decay=x, **(sizes | {name: -1})
        )
