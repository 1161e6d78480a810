"""windows_f32: products with windows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import Kernels, unaligned

WINDOWS = {  # batch, groups, m, sizes of k, sizes of j, x's shape (N, C, H, W), stride, dilation
    "one panel": (1, 1, 5, (3, 1, 3, 3), (1, 1, 4, 6), (1, 3, 6, 8), 1, 1),
    "many panels": (2, 1, 27, (5, 1, 2, 2), (1, 1, 19, 30), (2, 5, 20, 31), 1, 1),
    "deep": (1, 1, 13, (70, 1, 3, 2), (1, 1, 3, 21), (1, 70, 5, 22), 1, 1),
    "strided": (1, 2, 4, (3, 1, 3, 3), (1, 1, 5, 37), (1, 6, 11, 75), 2, 1),
    "stride of three": (1, 1, 4, (3, 1, 2, 2), (1, 1, 4, 9), (1, 3, 12, 28), 3, 2),
    "a batch together": (1, 1, 12, (4, 1, 3, 3), (3, 1, 3, 5), (3, 4, 5, 7), 1, 1),
    "one row": (2, 3, 1, (1, 1, 3, 3), (1, 1, 4, 70), (2, 3, 6, 72), 1, 1),
    "two rows of many taps": (1, 1, 2, (40, 1, 3, 3), (1, 1, 3, 21), (1, 40, 5, 23), 1, 1),
    "one row, strided": (1, 2, 1, (1, 1, 2, 3), (1, 1, 3, 41), (1, 2, 6, 83), 2, 1),
    "one row, stride of three": (1, 2, 1, (1, 1, 2, 3), (1, 1, 3, 41), (1, 2, 9, 125), 3, 2),
    "long sums": (1, 2, 1, (1, 1, 10, 40), (1, 1, 3, 3), (1, 2, 12, 42), 1, 1),
    "long sums, strided": (1, 2, 2, (1, 1, 5, 19), (1, 1, 3, 3), (1, 2, 12, 40), 1, 2),
    "few windows, long lines": (2, 2, 11, (3, 1, 5, 19), (1, 1, 3, 3), (2, 6, 7, 21), 1, 1),
    "few windows, whole lines": (1, 1, 9, (4, 1, 6, 32), (1, 1, 1, 4), (1, 4, 6, 36), 1, 1),
    "long sums, stride of three": (1, 1, 2, (2, 1, 3, 19), (1, 1, 3, 4), (1, 2, 10, 59), 1, 3),
}


def offsets(sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Offsets of an index with these digits."""
    return sum(np.ix_(*(np.arange(n) * s for n, s in zip(sizes, strides, strict=True)))).ravel()  # type: ignore[union-attr]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(kernels: Kernels, name: str, bias: bool) -> None:
    batch, groups, m, k, j, shape, stride, dilation = WINDOWS[name]
    memory = unaligned(np.concatenate([normal(*shape).ravel(), np.full(128, 7, np.float32)]))
    plane, width = shape[2] * shape[3], shape[3]
    k_strides = (plane, 0, dilation * width, dilation)
    j_strides = (shape[1] * plane, 0, stride * width, stride)
    a, add = normal(groups, m, int(np.prod(k)), seed=5), normal(groups, m, seed=6)
    c = unaligned(np.full((batch, groups, m, int(np.prod(j))), np.nan, np.float32))
    arguments = {f"{axis}{i}": n for axis, sizes in (("k", k), ("j", j)) for i, n in enumerate(sizes)}
    arguments |= {f"{axis}_stride{i}": n for axis, s in (("k", k_strides), ("j", j_strides)) for i, n in enumerate(s)}
    run_checked(
        kernels, "windows_f32", "c", c=c, a=a, x=memory, batch=batch, groups=groups, m=m, **arguments,
        x_batch=shape[1] * plane, x_group=k[0] * plane, **({"bias": add} if bias else {}),
    )  # fmt: skip
    at = offsets(k, k_strides)[:, None] + offsets(j, j_strides)
    for b in range(batch):
        for g in range(groups):
            seen = memory[at + b * shape[1] * plane + g * k[0] * plane].astype(np.float64)
            expected = a[g].astype(np.float64) @ seen + (add[g][:, None] if bias else 0)
            np.testing.assert_allclose(c[b, g], expected, rtol=1e-5, atol=3e-5)
