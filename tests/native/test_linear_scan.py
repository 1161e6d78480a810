"""Linear recurrences."""

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, SIZES, Kernels


@pytest.mark.parametrize("inner", [*SIZES, 700])
@pytest.mark.parametrize("reversed_", [0, 1])
@pytest.mark.parametrize("begun", [False, True])
def test_linear_scan(kernels: Kernels, inner: int, reversed_: int, begun: bool) -> None:
    a, b, start = normal(2, 5, inner), normal(2, 5, inner, seed=4), normal(2, inner, seed=5)
    y, expected, before = np.zeros_like(a), np.zeros_like(a), start if begun else np.zeros_like(start)
    run_checked(
        kernels, "linear_scan_f32", "y", y=y, a=a, b=b, start=start if begun else None, outer=2, length=5, inner=inner,
        reversed=reversed_,
    )  # fmt: skip
    for t in reversed(range(5)) if reversed_ else range(5):
        expected[:, t] = before = a[:, t] * before + b[:, t]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_sizes_are_checked(kernels: Kernels) -> None:
    x = normal(1, 1, 1)
    for outer, length, inner in ((-1, 1, 1), (1, -1, 1), (1, 1, -1)):
        assert BAD_ARGUMENT == kernels.run(
            "linear_scan_f32", y=x, a=x, b=x, start=None, outer=outer, length=length, inner=inner, reversed=0
        )
