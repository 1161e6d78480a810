"""How results print: torch's texts, with this package's name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import pytest

import pyapp
from tests.together import check_each


@pytest.fixture
def doubles() -> Iterator[None]:
    pyapp.set_default_dtype(pyapp.float64)
    yield
    pyapp.set_default_dtype(pyapp.float32)


def test_results_of_several_parts() -> None:
    """The texts that torch 2.13 prints."""
    x = pyapp.tensor([[1.0, 3.0], [2.0, 0.5]])
    cases = [
        (x.max(1), "max(\nvalues=tensor([3., 2.]),\nindices=tensor([1, 0]))"),
        (x.min(1), "min(\nvalues=tensor([1.0000, 0.5000]),\nindices=tensor([0, 1]))"),
        (x[0].sort(descending=True), "sort(\nvalues=tensor([3., 1.]),\nindices=tensor([1, 0]))"),
        (x.topk(1), "topk(\nvalues=tensor([[3.],\n        [2.]]),\nindices=tensor([[1],\n        [0]]))"),
        (x[0].median(0), "median(\nvalues=tensor(1.),\nindices=tensor(0))"),
        (x[0].cummax(0), "cummax(\nvalues=tensor([1., 3.]),\nindices=tensor([0, 1]))"),
        (x.aminmax(), "aminmax(\nmin=tensor(0.5000),\nmax=tensor(3.))"),
        (pyapp.linalg.slogdet(x), "linalg_slogdet(\nsign=tensor(-1.),\nlogabsdet=tensor(1.7047))"),
        (pyapp.histogram(x, 2), "histogram(\nhist=tensor([2., 2.]),\nbin_edges=tensor([0.5000, 1.7500, 3.0000]))"),
    ]

    def check(found: object, text: str) -> None:
        assert repr(found) == f"pyapp.return_types.{text}"

    check_each(check, cases)
    found = x.max(1)
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert again.values.tolist() == [3.0, 2.0] and again.indices.tolist() == [1, 0]


def test_the_default_dtype_is_not_shown(doubles: None) -> None:
    assert repr(pyapp.ones(2)) == "tensor([1., 1.])"
    assert repr(pyapp.ones(1).float()) == "tensor([1.], dtype=pyapp.float32)"


def test_parameters_say_so() -> None:
    assert repr(pyapp.nn.Parameter(pyapp.ones(2))) == ("Parameter containing:\ntensor([1., 1.], requires_grad=True)")
