"""The ops of cases_more.py against torch's values and gradients, in test_ops.py's layouts; precision and errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp

from .cases import LAYOUTS
from .cases_more import CASES
from .test_ops import check

GOLDEN = np.load(Path(__file__).with_name("golden_more.npz"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "function", "specs"), CASES, ids=[case[0] for case in CASES])
def test_op(name: str, function: Any, specs: list[Any], layout: str) -> None:
    check(GOLDEN, name, function, specs, layout)


def test_special_functions_in_float64() -> None:
    """Against the C library's, over the whole range, to some units in the last place."""
    x = np.concatenate([np.linspace(-7, 7, 1001), [0.0, 1e-300, 1e-9, 1e5]])
    t = pyapp.from_numpy(x)
    np.testing.assert_allclose(t.erf().numpy(), [math.erf(v) for v in x], rtol=4e-15, atol=0)
    away = x[np.abs(x - np.rint(x)) > 1e-3]
    ours = pyapp.from_numpy(away).lgamma().numpy()
    np.testing.assert_allclose(ours, [math.lgamma(v) for v in away], rtol=2e-14, atol=2e-14)
    large = np.array([1e-300, 12.5, 170.0, 1e10, 1e300])
    np.testing.assert_allclose(pyapp.from_numpy(large).lgamma().numpy(), [math.lgamma(v) for v in large], rtol=1e-14)
    y = np.linspace(-0.999, 0.999, 401)
    np.testing.assert_allclose(pyapp.from_numpy(y).erfinv().erf().numpy(), y, rtol=1e-13, atol=1e-16)


def test_special_functions_at_their_limits() -> None:
    inf, nan = math.inf, math.nan
    x = pyapp.tensor([inf, -inf, nan])
    np.testing.assert_array_equal(x.erf().numpy(), [1, -1, nan])
    np.testing.assert_array_equal(x.lgamma().numpy(), [inf, inf, nan])
    np.testing.assert_array_equal(pyapp.tensor([0.0, -1.0, 1.0, 2.0]).lgamma().numpy()[:2], [inf, inf])
    np.testing.assert_array_equal(pyapp.tensor([1.0, -1.0, 1.5]).erfinv().numpy(), [inf, -inf, nan])


def test_gradients_of_gradients() -> None:
    x = pyapp.tensor([0.4, 1.3], dtype="float64", requires_grad=True)
    for name, second in (
        ("erf", lambda v: -4 * v / math.sqrt(math.pi) * math.exp(-v * v)),
        ("tan", lambda v: 2 * math.tan(v) / math.cos(v) ** 2),
    ):
        (first,) = pyapp.grad(getattr(x, name)().sum(), x, create_graph=True)
        assert first is not None
        (found,) = pyapp.grad(first.sum(), x)
        assert found is not None
        np.testing.assert_allclose(found.numpy(), [second(0.4), second(1.3)], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes_are_kept(dtype: str) -> None:
    x = pyapp.tensor([[0.5, 0.25], [0.75, 2.0]], dtype=dtype)
    made = [
        x.erf(), x.lgamma(), x.prod(0), x.cumprod(1), x.norm(), x.quantile(0.5), x.roll(1), pyapp.pad(x, (1, 1)),
        x.diagonal(), x.inverse(), x.det(), pyapp.gelu(x), x.nan_to_num(), pyapp.einsum("ij,jk->ik", x, x),
        x.cummax(0)[0], pyapp.conv1d(x.unsqueeze(0), x.unsqueeze(0)), pyapp.max_pool1d(x.unsqueeze(0), 2),
    ]  # fmt: skip
    assert {t.dtype.name for t in made} == {dtype}


def test_a_diagonal_is_a_view() -> None:
    x = pyapp.zeros(3, 3)
    x.diagonal().fill_(2.0)
    assert x.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]


ERRORS = {
    "shift": (TypeError, "bitwise_left_shift.*float32", lambda x: pyapp.bitwise_left_shift(x, x)),
    "atan2": (ValueError, "atan2.*broadcast", lambda x: x.atan2(pyapp.zeros(5))),
    "gelu": (ValueError, "gelu.*'fast'", lambda x: pyapp.gelu(x, "fast")),
    "pad": (ValueError, r"pad.*float32\[2, 3\]", lambda x: pyapp.pad(x, (1, 2, 3))),
    "pad_reflect": (ValueError, r"pad.*reflect.*float32\[2, 3\]", lambda x: pyapp.pad(x, (3, 0), mode="reflect")),
    "unfold": (ValueError, r"unfold.*float32\[2, 3\]", lambda x: x.unfold(1, 4, 1)),
    "index_add": (ValueError, r"index_add.*\[2, 3\]", lambda x: x.index_add(0, pyapp.tensor([0]), x)),
    "index_range": (IndexError, "index_add.*outside", lambda x: x.index_add(0, pyapp.tensor([0, 2]), x)),
    "masked_select": (TypeError, "masked_select.*float32", lambda x: x.masked_select(x)),
    "kthvalue": (ValueError, "kthvalue.*k = 4", lambda x: x.kthvalue(4)),
    "median": (ValueError, r"median.*int64\[0\]", lambda x: pyapp.zeros(0, dtype=pyapp.int64).median()),
    "quantile": (ValueError, "quantile.*1.5", lambda x: x.quantile(1.5)),
    "norm": (TypeError, "norm.*int64", lambda x: pyapp.tensor([1]).norm()),
    "dot": (ValueError, r"dot.*float32\[2, 3\]", lambda x: x.dot(x)),
    "einsum": (ValueError, "einsum.*'j'", lambda x: pyapp.einsum("ij,jk->ik", x, x)),
    "einsum_rank": (ValueError, r"einsum.*'i'.*float32\[2, 3\]", lambda x: pyapp.einsum("i->i", x)),
    "einsum_output": (ValueError, "einsum: the output", lambda x: pyapp.einsum("ij->ik", x)),
    "inverse": (ValueError, r"inverse.*square.*\[2, 3\]", lambda x: x.inverse()),
    "singular": (RuntimeError, r"inverse.*float32\[2, 2\]", lambda x: pyapp.zeros(2, 2).inverse()),
    "cholesky": (RuntimeError, r"cholesky.*float32\[2, 2\]", lambda x: (-pyapp.eye(2)).cholesky()),
    "solve_dtype": (TypeError, "inverse.*int64", lambda x: pyapp.tensor([[1]]).inverse()),
    "conv1d": (ValueError, r"conv1d.*\[2, 3\].*\[4, 3, 1\]", lambda x: pyapp.conv1d(x, pyapp.zeros(4, 3, 1))),
    "conv_window": (ValueError, "conv1d.*does not fit", lambda x: pyapp.conv1d(x, pyapp.zeros(4, 2, 4))),
    "pool": (ValueError, "max_pool1d.*half", lambda x: pyapp.max_pool1d(x, 2, padding=2)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_op_and_arguments(name: str) -> None:
    kind, text, call = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(pyapp.ones(2, 3))
