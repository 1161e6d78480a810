"""Ops: dtypes are kept, errors name the op and its arguments; functions of shapes alone."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import tensor
from pyapp.nn import functional as F


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


def test_shapes_alone() -> None:
    assert pyapp.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3) and pyapp.broadcast_shapes() == ()
    assert pyapp.broadcast_shapes((0, 1), (4,)) == (0, 4)
    with pytest.raises(ValueError, match="broadcast_shapes: .* shapes .* do not broadcast"):
        pyapp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="not negative"):
        pyapp.broadcast_shapes((-1,))


def test_pools_choose_the_last_nan_and_never_the_padding() -> None:
    """torch's indices."""
    nan, low = float("nan"), float("-inf")
    x = tensor([[[[1.0, nan, 2, 5], [nan, 4, 7, 8], [0, 0, nan, 1], [0, 0, 1, 2]]]])
    for pool in (F.max_pool2d, F.adaptive_max_pool2d):
        assert pool(x, 2, return_indices=True)[1].tolist() == [[[[4, 7], [8, 10]]]]
    assert F.max_pool1d(tensor([[nan, nan, 3.0, nan, 1, 1]]), 3, return_indices=True)[1].tolist() == [[1, 3]]
    y = tensor([[[[low, low], [low, 1.0]]]])
    assert F.max_pool2d(y, 3, 1, 1, return_indices=True)[1].tolist() == [[[[3, 3], [3, 3]]]]
    assert F.max_pool2d(y[..., :1, :], (1, 3), 1, (0, 1), return_indices=True)[1].tolist() == [[[[0, 0]]]]


def test_older_forms_and_further_arguments() -> None:
    """torch's var_mean(x, unbiased), correction=None, output_size of repeat_interleave, indices from the end."""
    x = pyapp.arange(6.0).reshape(2, 3)
    assert [t.item() for t in pyapp.var_mean(x, True)] == [3.5, 2.5]
    assert [t.item() for t in pyapp.std_mean(x, False)] == pytest.approx([1.7078251, 2.5])
    assert x.var(dim=0, correction=None).tolist() == [4.5] * 3 and x.std(None, None).item() == pytest.approx(1.8708287)
    assert pyapp.repeat_interleave(x, pyapp.tensor([1, 2]), dim=0, output_size=3).shape == (3, 3)
    with pytest.raises(RuntimeError, match="has 3 entries in dim 0, not 4"):
        pyapp.repeat_interleave(x, pyapp.tensor([1, 2]), dim=0, output_size=4)
    assert pyapp.take_along_dim(x, pyapp.tensor([[-1], [0]]), 1).tolist() == [[2.0], [3.0]]
