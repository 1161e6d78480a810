"""Parts of weights with a NaN or an infinity."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, TYPES, Kernels, store_as, unaligned

pytestmark = pytest.mark.native_only  # the wasm libraries have no room for the kernel
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028234e38, "float64": 1.7e308}


@pytest.mark.parametrize("dtype", LARGEST)
def test_each_part_with_one_is_found(kernels: Kernels, dtype: str) -> None:
    for count in (1, 7, 64, 200, 333):
        x = store_as(dtype, np.resize([LARGEST[dtype], -LARGEST[dtype], 0, 1e-30, -1], count))
        places = np.random.default_rng(count).permutation(count)[: count // 9]
        wrong = store_as(dtype, np.resize([np.inf, -np.inf], len(places)))
        wrong[2::3] = store_as(dtype, np.full(1, np.inf)) | 1 if dtype == "bfloat16" else np.nan
        x[places] = wrong
        for part in (1, 5, 64, 1000):
            expected = np.zeros(-(-count // part), np.uint8)
            expected[places // part] = 1
            found = np.full(expected.shape, 7, np.uint8)
            arguments = dict(x=unaligned(x), count=count, part=part, type=TYPES[dtype])
            run_checked(kernels, "find_not_finite", "found", found=found, **arguments)
            np.testing.assert_array_equal(found, expected)


def test_wrong_arguments(kernels: Kernels) -> None:
    x = np.zeros(16, np.float64)
    for part, dtype in ((0, "float32"), (-1, "float32"), (4, "int32"), (4, "float8_e5m2")):
        assert kernels.run("find_not_finite", found=x, x=x, count=4, part=part, type=TYPES[dtype]) == BAD_ARGUMENT
    assert kernels.run("find_not_finite", found=x, x=x, count=0, part=4, type=TYPES["float32"]) == OK
