"""Reductions and normalizations of the elements that a mask selects, by torch.masked's names.

`mask` is a bool tensor that can be expanded to the shape of the input; what it does not select is treated as absent.
`dim` is a dim, several, or None for all. Reductions of nothing have the value that changes no result (0 of a sum, -inf
of a maximum), NaN where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

from ..engine import ops
from ..engine.dtype import bool_, int64
from ..engine.ops.dtype_limits import iinfo
from ..engine.ops.linalg.norms import vector_norm
from ..engine.tensor import Tensor
from ..engine.user_errors import describe

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


def _converted(x: Tensor, dtype: Any) -> Tensor:
    return x if dtype is None else x.to(dtype)


def _mask_of(name: str, x: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask in the shape of x."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype is not bool_:
        raise TypeError(f"masked.{name}: the mask is a tensor of bool, not {describe(mask)}")
    return mask.expand(x.shape)


def _filled(name: str, x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """x with a value where the mask does not select."""
    mask = _mask_of(name, x, mask)
    return x if mask is None else ops.where(mask, x, x.new_full((), value))


def _lowest(x: Tensor) -> Any:
    return -inf if x.dtype.has_gradient else 0 if x.dtype is bool_ else iinfo(x.dtype).min


def _highest(x: Tensor) -> Any:
    return inf if x.dtype.has_gradient else 1 if x.dtype is bool_ else iinfo(x.dtype).max


def _dims(x: Tensor, dim: Dims) -> tuple[int, ...]:
    return (
        tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim) or tuple(range(x.ndim))
    )


def _counts(x: Tensor, dim: Dims, mask: Tensor | None, keepdim: bool) -> Tensor:
    """How many elements are reduced to each."""
    chosen = ops.ones(x.shape, dtype=int64, device=x.device) if mask is None else mask.expand(x.shape).to(int64)
    return chosen.sum(_dims(x, dim), keepdim)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The sum along dims."""
    x = _filled("sum", input, mask, 0)
    return ops.sum(x, _dims(x, dim), keepdim, dtype=dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The product along dims."""
    x = _filled("prod", input, mask, 1)
    x = x.to(dtype) if dtype is not None else x if x.dtype.has_gradient else x.to(int64)
    dims = {d % max(x.ndim, 1) for d in _dims(x, dim)}
    for d in dims:
        x = ops.prod(x, d, True)
    return x.reshape([n for d, n in enumerate(x.shape) if keepdim or d not in dims])


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The maximum along dims."""
    x = _converted(input, dtype)
    return ops.amax(_filled("amax", x, mask, _lowest(x)), _dims(x, dim), keepdim)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The minimum along dims."""
    x = _converted(input, dtype)
    return ops.amin(_filled("amin", x, mask, _highest(x)), _dims(x, dim), keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the maximum along a dim, or in the flattened input, in the dtype; 0 of nothing."""
    x = _converted(input, dtype)
    return ops.argmax(_filled("argmax", x, mask, _lowest(x)), dim, keepdim).to(x.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the minimum along a dim, or in the flattened input, in the dtype; 0 of nothing."""
    x = _converted(input, dtype)
    return ops.argmin(_filled("argmin", x, mask, _highest(x)), dim, keepdim).to(x.dtype)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The mean along dims. ValueError for integers without a floating-point dtype."""
    x = _converted(input, dtype)
    if not x.dtype.has_gradient:
        raise ValueError(f"masked.mean: takes floating-point or complex numbers, not {describe(x)}; give a dtype")
    counts = _counts(x, dim, _mask_of("mean", x, mask), keepdim)
    return sum(x, dim, keepdim=keepdim, mask=mask) / counts.to(x.dtype)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median along a dim: NaN of nothing. ValueError for integers without a floating-point dtype."""
    x = _converted(input, dtype)
    if not x.dtype.is_floating_point:
        raise ValueError(f"masked.median: takes floating-point numbers, not {describe(x)}; give a dtype")
    if mask is None:
        return ops.median(x, dim, keepdim).values
    return ops.nanmedian(_filled("median", x, mask, nan), dim, keepdim).values


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """log of the sum of exp along dims."""
    x = _converted(input, dtype)
    return ops.logsumexp(_filled("logsumexp", x, mask, _lowest(x)), _dims(x, dim), keepdim).to(x.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), each with its mask."""
    x, y = _converted(input, dtype), _converted(other, dtype)
    return ops.logaddexp(_filled("logaddexp", x, input_mask, -inf), _filled("logaddexp", y, other_mask, -inf))


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The `ord`-norm along dims."""
    x = _converted(input, dtype)
    order = 2.0 if ord is None else ord
    x = _filled("norm", x, mask, inf if order == -inf else 0)
    return vector_norm(x, order, _dims(x, dim), keepdim)


def _spread_of(
    name: str, x: Tensor, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool, dtype: Any,
    mask: Tensor | None,
) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise ValueError(f"masked.{name}: takes unbiased or correction, not both")
    less = correction if correction is not None else 1 if unbiased is None or unbiased else 0
    x = _converted(x, dtype)
    if not x.dtype.has_gradient:
        x = x.to("float32")
    mask = _mask_of(name, x, mask)
    counts = _counts(x, dim, mask, True).to(x.dtype)
    centre = sum(x, dim, keepdim=True, mask=mask) / counts
    away = _filled(name, x - centre, mask, 0)
    total = ops.sum((away * away.conj()).real if x.dtype.is_complex else away.square(), _dims(x, dim), keepdim)
    free = counts if keepdim else counts.reshape(total.shape)
    return (total / ops.clamp((free.real if x.dtype.is_complex else free) - less, 0)).to(x.dtype)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance along dims, with a number of degrees of freedom less by `correction` (1)."""
    return _spread_of("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The square root of var."""
    return _spread_of("std", input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running sum along a dim, in the dtype."""
    x = _converted(input, dtype)
    return ops.cumsum(_filled("cumsum", x, mask, 0), dim).to(x.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The running product along a dim, in the dtype."""
    x = _converted(input, dtype)
    return ops.cumprod(_filled("cumprod", x, mask, 1), dim).to(x.dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax along a dim: 0 where the mask does not select."""
    return ops.softmax(_filled("softmax", _converted(input, dtype), mask, -inf), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log of softmax along a dim."""
    return ops.log_softmax(_filled("log_softmax", _converted(input, dtype), mask, -inf), dim)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input."""
    return ops.softmax(-_filled("softmin", _converted(input, dtype), mask, inf), dim)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The selected elements divided by their norm along a dim, or by eps where that is larger."""
    x = _converted(input, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled("normalize", x, mask, 0) / ops.clamp(size, eps)
