"""Rows computed in float32, rounded to 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import SIZES, Kernels, aligned, from_bf16, to_bf16, unaligned


@pytest.mark.parametrize("place", [unaligned, aligned])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("columns", [*SIZES, 100])
@pytest.mark.parametrize("residual", ["none", "row", "itself"])
def test_rows_are_added_and_rounded_once(
    kernels: Kernels, kind: str, columns: int, residual: str, place: Callable[[np.ndarray], np.ndarray]
) -> None:
    x, add = normal(7, columns), normal(7 if residual == "itself" else 1, columns, seed=8)
    narrow = to_bf16 if kind == "bf16" else lambda values: values.astype(np.float16)
    widen = from_bf16 if kind == "bf16" else lambda values: values.astype(np.float32)
    stored = place(narrow(add))
    y = stored if residual == "itself" else place(narrow(np.zeros((7, columns), np.float32)))
    expected = narrow(x if residual == "none" else x + widen(stored))
    arguments = dict(rows=7, columns=columns, residual_stride=columns if residual == "itself" else 0)
    if residual != "none":
        arguments["residual"] = stored
    run_checked(kernels, f"add_rows_{kind}", "y", y=y, x=place(x), **arguments)
    np.testing.assert_array_equal(y, expected)
