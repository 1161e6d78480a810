"""Ops of complex tensors as real ops of their parts: where NumPy cannot compute them, on other devices than the CPU and
while a Graph is captured. `Op` imports this module at the first such call.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan
from typing import Any

from .. import dtype as _dtype
from ..dtype import as_dtype, complex_of
from ..op import OPS, PARTS
from ..operands import as_tensor, common_dtype
from ..shape import normalize_dim, reduced_dims
from ..tensor import Tensor
from .complex_numbers import _imag, _real, _view_as_complex, _view_as_real, complex_, polar
from .create import full_like, zeros
from .view import copy_strided, expand, movedim, reshape


def by_parts(name: str) -> Callable[[Any], Any]:
    """Registers what computes the op of that name."""

    def register(function: Any) -> Any:
        PARTS[name] = function
        return function

    return register


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    return _real.forward(x), _imag.forward(x)


def _pairs(x: Tensor) -> Tensor:
    return _view_as_real.forward(x)


def _whole(pairs: Tensor) -> Tensor:
    return _view_as_complex.forward(pairs if pairs.strides[-1:] == (1,) else pairs.contiguous())


def _both(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands as complex tensors of one dtype."""
    kind = complex_of(common_dtype(a, b))
    first = a if isinstance(a, Tensor) else b
    return as_tensor(a, first).to(kind), as_tensor(b, first).to(kind)


def _is_real(x: Any) -> bool:
    return not (x.dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex))


def _is_complex(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_complex


def _by_real(x: Tensor, other: Any, operation: Any) -> Tensor:
    """A product or quotient of a complex tensor and a real one, or a number, of which neither widens the other."""
    if isinstance(other, Tensor):
        other = other.to(x.dtype.part)
        return _whole(operation(_pairs(x), other.unsqueeze(-1)))
    return _whole(operation(_pairs(x), other))


def _narrower(x: Any, other: Any) -> bool:
    return _is_complex(x) and _is_real(other) and common_dtype(x, other) is x.dtype


def _sum(name: str) -> None:
    @by_parts(name)
    def computed(a: Any, b: Any) -> Tensor:
        if name == "sub" and any(isinstance(x, Tensor) and x.dtype is _dtype.bool_ for x in (a, b)):
            raise TypeError("sub: takes no bools; use logical_xor, or ~ to invert a mask")
        a, b = _both(a, b)
        return _whole(OPS[name].call(_pairs(a), _pairs(b)))


for _name in ("add", "sub"):
    _sum(_name)


@by_parts("mul")
def _mul(a: Any, b: Any) -> Tensor:
    for x, other in ((a, b), (b, a)):
        if _narrower(x, other):
            return _by_real(x, other, OPS["mul"].call)
    (p, q), (r, s) = map(_split, _both(a, b))
    return complex_(p * r - q * s, p * s + q * r)


@by_parts("div")
def _div(a: Any, b: Any) -> Tensor:
    if _narrower(a, b):
        return _by_real(a, b, OPS["div"].call)
    a, b = _both(a, b)
    (p, q), (r, s) = _split(a), _split(b)
    larger = r.abs().maximum(s.abs())
    larger = larger.masked_fill(~(larger.isfinite() & (larger > 0)), 1.0)
    r, s = r / larger, s / larger  # whose squares are in range
    square = r * r + s * s
    return complex_((p * r + q * s) / square / larger, (q * r - p * s) / square / larger)


@by_parts("neg")
def _neg(x: Tensor) -> Tensor:
    return _whole(-_pairs(x))


@by_parts("reciprocal")
def _reciprocal(x: Tensor) -> Tensor:
    return _div(1.0, x)


@by_parts("conj_physical")
def _conj(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p, -q)


@by_parts("abs")
def _abs(x: Tensor) -> Tensor:
    p, q = _split(x)
    return p.hypot(q)


@by_parts("exp")
def _exp(x: Tensor) -> Tensor:
    p, q = _split(x)
    return polar(p.exp(), q)


@by_parts("log")
def _log(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p.hypot(q).log(), q.atan2(p))


@by_parts("log2")
def _log2(x: Tensor) -> Tensor:
    return _by_real(_log(x), log(2.0), OPS["div"].call)


@by_parts("log10")
def _log10(x: Tensor) -> Tensor:
    return _by_real(_log(x), log(10.0), OPS["div"].call)


@by_parts("pow")
def _pow(a: Any, b: Any) -> Tensor:
    """A square is a product; else exp(b log a), where a is not 0. A power of 0 is 1, 0 or NaN, as in NumPy."""
    if isinstance(b, (int, float)) and b == 2:
        return _mul(a, a)
    if isinstance(b, (int, float)) and b == 1:
        return a.clone()
    a, b = _both(a, b)
    (p, q), (r, s) = _split(a), _split(b)
    of_zero = full_like(r, nan).masked_fill(r > 0, 0.0).masked_fill((r == 0) & (s == 0), 1.0)
    rest = of_zero.masked_fill(of_zero == 1, 0.0)
    return _where((p == 0) & (q == 0), complex_(of_zero, rest), _exp(_mul(b, _log(a))))


@by_parts("sqrt")
def _sqrt(x: Tensor) -> Tensor:
    p, q = _split(x)
    size = p.hypot(q)
    return complex_(((size + p) * 0.5).clamp(0).sqrt(), ((size - p) * 0.5).clamp(0).sqrt().copysign(q))


@by_parts("rsqrt")
def _rsqrt(x: Tensor) -> Tensor:
    return _div(1.0, _sqrt(x))


@by_parts("sin")
def _sin(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p.sin() * q.cosh(), p.cos() * q.sinh())


@by_parts("cos")
def _cos(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p.cos() * q.cosh(), -(p.sin() * q.sinh()))


@by_parts("sinh")
def _sinh(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p.sinh() * q.cos(), p.cosh() * q.sin())


@by_parts("cosh")
def _cosh(x: Tensor) -> Tensor:
    p, q = _split(x)
    return complex_(p.cosh() * q.cos(), p.sinh() * q.sin())


@by_parts("tanh")
def _tanh(x: Tensor) -> Tensor:
    """(t + i u) / (1 + i t u), for t and u the tangents of the parts."""
    p, q = _split(x)
    t, u = p.tanh(), q.tan()
    return _div(complex_(t, u), complex_(p.new_ones(p._shape), t * u))


@by_parts("tan")
def _tan(x: Tensor) -> Tensor:
    p, q = _split(x)
    t, u = p.tan(), q.tanh()
    return _div(complex_(t, u), complex_(p.new_ones(p._shape), -(t * u)))


@by_parts("sigmoid")
def _sigmoid(x: Tensor) -> Tensor:
    half = _by_real(_tanh(_by_real(x, 0.5, OPS["mul"].call)), 0.5, OPS["mul"].call)
    return OPS["add"].call(half, 0.5)


@by_parts("eq")
def _eq(a: Any, b: Any) -> Tensor:
    (p, q), (r, s) = map(_split, _both(a, b))
    return (p == r).logical_and(q == s)


@by_parts("ne")
def _ne(a: Any, b: Any) -> Tensor:
    return _eq(a, b).logical_not()


def _of_either(name: str) -> None:
    @by_parts(name)
    def tested(x: Tensor) -> Tensor:
        p, q = (OPS[name].call(part) for part in _split(x))
        return p.logical_and(q) if name == "isfinite" else p.logical_or(q)


for _name in ("isnan", "isinf", "isfinite"):
    _of_either(_name)


def _of_truth(name: str) -> None:
    @by_parts(name)
    def tested(*args: Any) -> Tensor:
        found: Tensor = OPS[name].call(*[_cast(x, _dtype.bool_) if _is_complex(x) else x for x in args])
        return found


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not", "any", "all"):
    _of_truth(_name)


@by_parts("_where")
def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    kind = complex_of(common_dtype(a, b))
    left, right = (_pairs(as_tensor(x, condition).to(kind)) for x in (a, b))
    return _whole(OPS["_where"].call(condition.unsqueeze(-1), left, right))


@by_parts("cast")
def _cast(x: Tensor, dtype: Any, device: Any = None) -> Tensor:
    if not x.dtype.is_complex:
        y = zeros(x._shape, dtype=dtype, device=x.device)
        copy_strided(_real.forward(y), x.to(dtype.part))
        return y
    if dtype.is_complex:
        return _whole(_pairs(x).to(dtype.part))
    p, q = _split(x)
    if dtype is _dtype.bool_:
        return (p != 0).logical_or(q != 0)
    return p.clone() if p.dtype is dtype else p.to(dtype)


@by_parts("matmul")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    """Four real products."""
    if a.dtype is not b.dtype:
        raise TypeError(f"matmul: {a.dtype} and {b.dtype} differ; convert one with .to(dtype)")
    (p, q), (r, s) = _split(a), _split(b)
    return complex_(p @ r - q @ s, p @ s + q @ r)


@by_parts("sum")
def _total(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    if dtype is not None and as_dtype(dtype) is not x.dtype:
        return OPS["sum"].call(x.to(dtype), dim, keepdim)
    return _whole(_pairs(x).sum(sorted(reduced_dims(dim, x.ndim, "sum")), keepdim)) if x.ndim else x.clone()


@by_parts("cumsum")
def _cumsum(x: Tensor, dim: int) -> Tensor:
    return _whole(_pairs(x).cumsum(normalize_dim(dim, x.ndim, "cumsum"))) if x.ndim else x.clone()


# ---- moves: those of the pairs


def _wide(index: Tensor) -> Tensor:
    """An index of elements as one of pairs."""
    return expand(index.unsqueeze(-1), (*index._shape, 2))


@by_parts("_take")
def _take(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    return _whole(OPS["_take"].call(_pairs(x), (*entries, slice(None))))


@by_parts("_take_back")
def _take_back(g: Tensor, shape: tuple[int, ...], entries: tuple[Any, ...]) -> Tensor:
    return _whole(OPS["_take_back"].call(_pairs(g), (*shape, 2), (*entries, slice(None))))


@by_parts("_write")
def _write(x: Tensor, entries: tuple[Any, ...], source: Any) -> Tensor:
    source = as_tensor(source, x).to(x.dtype)
    OPS["_write"].call(_pairs(x), (*entries, slice(None)), _pairs(source))
    return x


@by_parts("_index_select")
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return _whole(OPS["_index_select"].call(_pairs(x), dim, index))


@by_parts("_index_add")
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _whole(OPS["_index_add"].call(_pairs(x), dim, index, _pairs(source)))


def _by_index(name: str, x: Tensor, dim: int, index: Tensor, *sources: Tensor) -> Tensor:
    """An op along a dim, which tensors without dims have too: there it is not the parts'."""
    d = normalize_dim(dim, x.ndim, name)
    given = [reshape(t, 1) if not t.ndim else t for t in (x, index, *sources)]
    pairs = [_pairs(t) for t in (given[0], *given[2:])]
    found = _whole(OPS[name].call(pairs[0], d, _wide(given[1]), *pairs[1:]))
    return reshape(found, index._shape if name == "gather" else x._shape)


@by_parts("gather")
def _gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return _by_index("gather", x, dim, index)


@by_parts("scatter")
def _scatter(x: Tensor, dim: int, index: Tensor, source: Any) -> Tensor:
    source = source if isinstance(source, Tensor) else expand(as_tensor(source, x).to(x.dtype), index._shape)
    return _by_index("scatter", x, dim, index, source)


@by_parts("scatter_add")
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _by_index("scatter_add", x, dim, index, src)


def _triangle(name: str) -> None:
    @by_parts(name)
    def cut(x: Tensor, diagonal: int = 0) -> Tensor:
        return _whole(movedim(OPS[name].call(movedim(_pairs(x), -1, 0), diagonal), 0, -1))


for _name in ("tril", "triu"):
    _triangle(_name)
