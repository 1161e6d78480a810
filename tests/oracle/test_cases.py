"""The cases of tests/engine live, in dtypes that are not in their golden files: float64 with gradients, halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.cases import LAYOUTS, SUBJECTS, cases_of, make_inputs

from .compare import agree

CASES = [case for subject in SUBJECTS for case in cases_of(subject)]
IDS = [case[0] for case in CASES]
# Sums of many rounded steps, and what picks one of nearly equal values: not to be compared in halves.
ROUGH = {
    "argmax", "argmin", "argsort", "cholesky", "cov", "corrcoef", "det", "digamma", "histc", "inverse", "kthvalue",
    "lgamma", "linalg", "lu", "matrix", "median", "mode", "multi", "nan", "norm", "pdist", "cdist", "pinv", "prod",
    "qr", "quantile", "remainder", "searchsorted", "slogdet", "solve", "sort", "svd", "topk", "trace", "eigh",
    "eigvalsh", "cumprod", "local", "polygamma", "kron", "var", "std", "frexp", "float", "isclose", "vander", "grid",
    "fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn",
    "hfft", "ihfft", "hfft2", "ihfft2", "hfftn", "ihfftn", "stft", "istft",  # torch has none in halves
    "lstsq", "svdvals", "geqrf", "householder", "ormqr", "tensorinv", "tensorsolve", "nuclear", "inv",
    "pinverse",
    "fmod", "logaddexp2", "tan", "logspace", "bucketize", "eq", "round", "floor",
}  # fmt: skip


def inputs(name: str, specs: list[Any], dtype: str) -> list[tuple[np.ndarray, str]]:
    found = []
    for array in make_inputs(name, specs):
        kind = {"f": dtype, "i": "int64", "b": "bool"}[array.dtype.kind]
        found.append((array.astype("float64") if array.dtype.kind == "f" else array, kind))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "function", "specs"), CASES, ids=IDS)
def test_in_float64(name: str, function: Any, specs: list[Any], layout: str) -> None:
    agree(function, inputs(name, specs, "float64"), layout, gradient=True, tolerance=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("name", "function", "specs"), CASES, ids=IDS)
def test_in_halves(name: str, function: Any, specs: list[Any], dtype: str) -> None:
    if ROUGH & set(name.replace("linalg_", "linalg ").replace(" ", "_").split("_")):
        pytest.skip("the answer hangs on the last bit")
    tolerance = {"float16": 2e-2, "bfloat16": 1.2e-1}[dtype]
    agree(function, inputs(name, specs, dtype), "transposed", tolerance=tolerance)
