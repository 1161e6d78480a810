"""Reductions, scans, order statistics and products of matrices: op x dtype x layout x gradient over drawn shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from .compare import DTYPES, FLOATS, LAYOUTS, agree, numbers

FEW = settings(max_examples=8, phases=[Phase.generate])
SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FULL = array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)

OVER_DIMS = {  # may take several dims, one, or none
    "sum": lambda P, x, d, k: x.sum(d, k),
    "mean": lambda P, x, d, k: x.mean(d, k),
    "amax": lambda P, x, d, k: x.amax(d, k),
    "amin": lambda P, x, d, k: x.amin(d, k),
    "var": lambda P, x, d, k: x.var(d, keepdim=k, correction=0),
    "std": lambda P, x, d, k: (x * 1.0).std(d, keepdim=k) if x.is_floating_point() else x.std(d, keepdim=k),
    "all": lambda P, x, d, k: x.all(d, k),
    "any": lambda P, x, d, k: x.any(d, k),
    "logsumexp": lambda P, x, d, k: x.logsumexp(d, k),
    "nansum": lambda P, x, d, k: x.nansum(d, k),
    "count_nonzero": lambda P, x, d, k: x.count_nonzero(d),
    "vector_norm": lambda P, x, d, k: P.linalg.vector_norm(x, 2, d, k),
    "vector_norm_3": lambda P, x, d, k: P.linalg.vector_norm(x, 3, d, k),
}
OVER_ONE = {
    "prod": lambda P, x, d: x.prod(d),
    "argmax": lambda P, x, d: x.argmax(d),
    "argmin": lambda P, x, d: x.argmin(d, keepdim=True),
    "max": lambda P, x, d: x.max(d),
    "min": lambda P, x, d: x.min(d, keepdim=True),
    "median": lambda P, x, d: x.median(d)[0],
    "mode": lambda P, x, d: x.mode(d)[0],
    "sort": lambda P, x, d: P.sort(x, dim=d, stable=True),
    "sort_down": lambda P, x, d: P.sort(x, dim=d, descending=True, stable=True),
    "topk": lambda P, x, d: x.topk(1, d)[0],
    "kthvalue": lambda P, x, d: x.kthvalue(1, d)[0],
    "cumsum": lambda P, x, d: x.cumsum(d),
    "cumprod": lambda P, x, d: x.cumprod(d),
    "cummax": lambda P, x, d: x.cummax(d),
    "cummin": lambda P, x, d: x.cummin(d),
    "logcumsumexp": lambda P, x, d: x.logcumsumexp(d),
    "softmax": lambda P, x, d: x.softmax(d),
    "log_softmax": lambda P, x, d: x.log_softmax(d),
    "quantile": lambda P, x, d: x.quantile(0.4, d),
    "diff": lambda P, x, d: x.diff(dim=d),
    "aminmax": lambda P, x, d: x.aminmax(dim=d),
    "unique_consecutive": lambda P, x, d: P.unique_consecutive(x, return_counts=True),
    "unique": lambda P, x, d: P.unique(x, return_inverse=True, return_counts=True),
}

# Of equals any one may have the gradient (the cases of test_cases.py have none); unique has none.
ONE_OF_EQUALS = {"median", "mode", "kthvalue", "topk", "quantile", "unique", "unique_consecutive"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OVER_DIMS)
@given(data=st.data(), shape=SHAPES, layout=st.sampled_from(LAYOUTS), keepdim=st.booleans())
@FEW
def test_over_dims(name: str, dtype: str, data: Any, shape: tuple[int, ...], layout: str, keepdim: bool) -> None:
    dims = (
        st.lists(st.integers(-len(shape), len(shape) - 1), unique_by=lambda d: d % len(shape)) if shape else st.just([])
    )
    dim = tuple(data.draw(dims)) or tuple(range(len(shape)))
    function = OVER_DIMS[name]
    agree(lambda P, x: function(P, x, dim, keepdim), [(numbers(shape, dtype), dtype)], layout, dtype == "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OVER_ONE)
@given(data=st.data(), shape=FULL, layout=st.sampled_from(LAYOUTS))
@FEW
def test_over_one_dim(name: str, dtype: str, data: Any, shape: tuple[int, ...], layout: str) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    function = OVER_ONE[name]
    gradient = dtype == "float64" and name not in ONE_OF_EQUALS
    agree(lambda P, x: function(P, x, dim), [(numbers(shape, dtype), dtype)], layout, gradient)


@pytest.mark.parametrize("name", [*OVER_DIMS, *OVER_ONE])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_nothing_to_reduce(name: str, shape: tuple[int, ...]) -> None:
    for dim in (0, -1):
        for dtype in ("float32", "int64"):
            if name in OVER_DIMS:
                agree(lambda P, x, dim=dim: OVER_DIMS[name](P, x, (dim,), False), [(numbers(shape, dtype), dtype)])
            elif name not in ("mode", "median", "kthvalue", "topk", "quantile"):
                agree(lambda P, x, dim=dim: OVER_ONE[name](P, x, dim), [(numbers(shape, dtype), dtype)])


@st.composite
def factors(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two tensors that matmul takes."""
    size = st.integers(0, 5)
    rows, inner, columns = draw(size), draw(size), draw(size)
    left = draw(st.sampled_from([(inner,), (rows, inner)]))
    right = draw(st.sampled_from([(inner,), (inner, columns)]))
    batch = draw(st.sampled_from([((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((0,), (1,)), ((4, 3), (4, 3))]))
    return (batch[0] if len(left) > 1 else ()) + left, (batch[1] if len(right) > 1 else ()) + right


@pytest.mark.parametrize("dtype", DTYPES)
@given(shapes=factors(), layout=st.sampled_from(LAYOUTS))
@settings(max_examples=40, phases=[Phase.generate])
def test_matmul(dtype: str, shapes: Any, layout: str) -> None:
    operands = [(numbers(shape, dtype, i), dtype) for i, shape in enumerate(shapes)]
    agree(lambda P, a, b: P.matmul(a, b), operands, layout, dtype in ("float32", "float64"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(17, 33, 65), (64, 64, 64), (1, 300, 7), (130, 5, 258)])
def test_larger_products(dtype: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    operands = [(numbers((m, k), dtype), dtype), (numbers((n, k), dtype, 1), dtype)]
    agree(lambda P, a, b: a @ b.mT, operands, "sliced", dtype in ("float32", "float64"), None if "6" in dtype else 2e-2)
    agree(lambda P, a, b: P.nn.functional.linear(a, b), operands, "dense", dtype == "float32")


@given(
    equation=st.sampled_from(
        [
            "ij,jk->ik",
            "bij,bjk->bik",
            "ii->i",
            "ij->ji",
            "i,j->ij",
            "bhqd,bhkd->bhqk",
            "...ij,jk->...ik",
            "ij,ij->",
            "ij",
        ]
    ),
    dtype=st.sampled_from(["float32", "float64", "int64"]),
    size=st.integers(1, 4),
)
@settings(max_examples=40, phases=[Phase.generate])
def test_einsum(equation: str, dtype: str, size: int) -> None:
    terms = equation.split("->")[0].replace("...", "xy").split(",")
    operands = [(numbers((size,) * len(term), dtype, i), dtype) for i, term in enumerate(terms)]
    agree(lambda P, *tensors: P.einsum(equation, *tensors), operands, "transposed", dtype == "float64")


@pytest.mark.parametrize("name", ["cholesky", "inv", "svdvals", "eigvalsh", "qr", "slogdet", "solve", "pinv", "det"])
@given(size=st.integers(1, 5), batch=st.sampled_from([(), (2,), (0,)]), dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=10, phases=[Phase.generate])
def test_decompositions(name: str, size: int, batch: tuple[int, ...], dtype: str) -> None:
    random = np.random.RandomState(size)
    x = random.randn(*batch, size, size)
    x = x @ np.swapaxes(x, -1, -2) + np.eye(size)

    def call(P: Any, a: Any) -> Any:
        if name == "solve":
            return P.linalg.solve(a, a[..., :1] * 2 + 1)
        return tuple(getattr(P.linalg, name)(a)) if name in ("qr", "slogdet") else getattr(P.linalg, name)(a)

    agree(call, [(x, dtype)], "sliced", dtype == "float64" and 0 not in batch, 2e-3 if dtype == "float32" else 1e-6)
