"""Comparisons, elementwise maximum and minimum, tests for NaN and infinity."""

from __future__ import annotations

from typing import Any

from ...declare import function
from ...device import cpu
from ...dtype import float32
from ...lazy import np
from ...op import Op, op
from ...operands import as_tensor, unbroadcast
from ...quant import dequantize
from ...storage import CAPTURES
from ...tensor import C_TYPES, Tensor
from ...user_errors import describe
from ..element_updates import element_function
from .builders import binary, unary
from .select import where


def _share_of_larger(g: Any, a: Any, b: Any) -> Any:
    """The gradient of a in maximum(a, b), by vjp_of_choice's rule, as an element program."""
    half = (g * 0.5).where(a.abs() > -1.0, g).where(b.abs() > -1.0, g)  # all of it where one is NaN
    return g.where(a > b, half.where((b > a) < 0.5, 0.0))


_larger = element_function(_share_of_larger, 3)


def vjp_of_choice(loses: Op) -> Any:
    """max/min of two: the gradient goes to the chosen one; equal elements get half each, and where one is NaN both get
    all of it, as in torch.
    """

    def vjp(g: Tensor, _: Any, a: Tensor, b: Any) -> Any:
        if isinstance(b, Tensor) and a._shape == b._shape == g._shape and a.dtype is b.dtype is g.dtype is float32:
            first, second = (a, b) if loses.name == "lt" else (b, a)
            return (
                _larger(g, first, second) if a.requires_grad else None,
                _larger(g, second, first) if b.requires_grad else None,
            )
        other = as_tensor(b, a)
        share = where(a == other, g * 0.5, g)
        return (
            unbroadcast(where(loses(a, other), 0.0, share), a) if a.requires_grad else None,
            unbroadcast(where(loses(other, a), 0.0, share), b) if isinstance(b, Tensor) and b.requires_grad else None,
        )

    return vjp


eq = binary("eq", lambda: np.equal, None, out="bool", of_complex=True)
ne = binary("ne", lambda: np.not_equal, None, out="bool", synonyms="not_equal", of_complex=True)
lt = binary("lt", lambda: np.less, None, out="bool", synonyms="less")
le = binary("le", lambda: np.less_equal, None, out="bool", synonyms="less_equal")
gt = binary("gt", lambda: np.greater, None, out="bool", synonyms="greater")
ge = binary("ge", lambda: np.greater_equal, None, out="bool", synonyms="greater_equal")
maximum = binary("maximum", lambda: np.maximum, vjp_of_choice(lt), in_place=False)
minimum = binary("minimum", lambda: np.minimum, vjp_of_choice(gt), in_place=False)
isnan = unary("isnan", lambda x: np.isnan(x), None, out="bool", in_place=False, of_complex=True)
isinf = unary("isinf", lambda x: np.isinf(x), None, out="bool", in_place=False, of_complex=True)
isfinite = unary("isfinite", lambda x: np.isfinite(x), None, out="bool", in_place=False, of_complex=True)
isposinf = unary("isposinf", lambda x: np.isposinf(x), None, out="bool", in_place=False)
isneginf = unary("isneginf", lambda x: np.isneginf(x), None, out="bool", in_place=False)


@function(method=True)
@op(vjp=vjp_of_choice(lt))
def fmax(a: Tensor, b: Tensor) -> Tensor:
    """The larger element; if one is NaN, the other. Equal elements share the gradient."""
    return where(a.isnan(), b, where(b.isnan(), a, maximum(a, b)))


@function(method=True)
@op(vjp=vjp_of_choice(gt))
def fmin(a: Tensor, b: Tensor) -> Tensor:
    """The smaller element; if one is NaN, the other. Equal elements share the gradient."""
    return where(a.isnan(), b, where(b.isnan(), a, minimum(a, b)))


@function(method=True)
def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|a - b| <= atol + rtol |b|; infinities are close to themselves, NaN to itself with `equal_nan`."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        raise TypeError(f"isclose: takes two tensors, got {describe(a)} and {describe(b)}")
    if a.dtype is not b.dtype:
        raise TypeError(f"isclose: {describe(a)} and {describe(b)} differ in dtype")
    if rtol < 0 or atol < 0:
        raise ValueError(f"isclose: rtol and atol are not negative, got {rtol} and {atol}")
    near = a == b
    if not a.dtype.has_gradient:
        a, b = a.to("float64"), b.to("float64")
    near = near.logical_or(((a - b).abs() <= b.abs() * rtol + atol).logical_and((a - b).isfinite()))
    return near.logical_or(a.isnan().logical_and(b.isnan())) if equal_nan else near


@function(method=True)
def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether every element isclose."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


_FEW = 64  # numbers that Python compares in less time than kernels


@function(method=True)
def equal(a: Tensor, b: Tensor) -> bool:
    """Whether shapes and all elements are equal."""
    if a._shape != b._shape:
        return False
    kind, count = C_TYPES.get(a.dtype), a.numel()
    if count <= _FEW and kind is not None and b.dtype is a.dtype and a.device is b.device is cpu and not CAPTURES.count:
        if a.is_contiguous() and b.is_contiguous():
            read = (kind * count).from_address
            return bool(read(a.address)[:] == read(b.address)[:])
    a, b = (dequantize(x) if x.dtype.is_quantized else x for x in (a, b))
    return bool((a == b).all())
