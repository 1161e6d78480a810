"""Calls of NumPy's LAPACK over batches of matrices, with common checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import LinAlgError
from ... import dtype as _dtype
from ...device import cpu
from ...dtype import DType
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import by_the_host
from ...operands import common_dtype
from ...tensor import Tensor
from ...user_errors import describe, warn
from ..stacking import cat


def on_host(name: str, *tensors: Tensor) -> None:
    """Warns of tensors of a device that the host helps. NotImplementedError for those of others than the CPU."""
    for x in tensors:
        if x.device is cpu:
            continue
        if x.device.backend.host_helps:
            warn(by_the_host(name, x.device, *tensors))
            return
        raise NotImplementedError(
            f"{name}: linear algebra runs on the host only; move {describe(x)} there with .to('cpu')"
        )


def _lapack(name: str, function: Any, *tensors: Tensor) -> Any:
    """NumPy's result, in 32-bit or 64-bit floats or complex numbers of these, and the dtype of the matrices;
    RuntimeError where a matrix does not allow it.
    """
    on_host(name, *tensors)
    kind = common_dtype(*tensors)
    if not kind.has_gradient:
        raise TypeError(
            f"{name}: takes floating-point or complex matrices, not {' and '.join(describe(t) for t in tensors)}"
        )
    compute = kind if kind.is_complex or kind is _dtype.float64 else _dtype.float32
    arrays = [array_of(t, compute) for t in tensors]
    problem = "the matrix is singular or not positive-definite"
    try:
        with np.errstate(all="ignore"):
            value = function(*arrays)
    except np.linalg.LinAlgError as error:
        problem, value = str(error), None
    # In WebAssembly, which has no floating-point flags, NumPy does not raise but leaves NaN.
    if value is None or _has_failed(np.isnan(value), arrays):
        raise LinAlgError(f"{name}: {problem} ({' and '.join(describe(t) for t in tensors)})")
    return value, kind


def _has_failed(missing: Any, arrays: list[Any]) -> bool:
    """Whether a matrix of finite numbers gave NaN: `missing` (..., …) bool, of batches of matrices (..., N, M)."""
    if not missing.any():
        return False
    finite = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(a).all((-2, -1)) for a in arrays)))
    return bool((missing.reshape(*finite.shape, -1).any(-1) & finite).any())


def result_of(name: str, function: Any, *tensors: Tensor, kind: Callable[[DType], DType] | None = None) -> Tensor:
    """NumPy's result as a tensor of the matrices' dtype (or what `kind` makes of that), where they lie."""
    found, dtype = _lapack(name, function, *tensors)
    return tensor_of(found, dtype if kind is None else kind(dtype)).to(tensors[0].device)


def part_of(kind: DType) -> DType:
    """The dtype of the real numbers in another's."""
    return kind.part


def finite_svd(a: Any, **settings: Any) -> Any:
    """NumPy's svd; NaN for a matrix with an infinite element or NaN, at which LAPACK may never end."""
    return _of_finite(np.linalg.svd, a, **settings)


def finite_eigh(a: Any, triangle: str) -> Any:
    """NumPy's eigh; NaN for a matrix with an infinite element or NaN, at which LAPACK may never end."""
    return _of_finite(np.linalg.eigh, a, triangle)


def _of_finite(function: Any, a: Any, *args: Any, **settings: Any) -> Any:
    bad = ~np.isfinite(a).all((-2, -1))
    if not bad.any():
        return function(a, *args, **settings)
    found = function(np.where(bad[..., None, None], 0, a).astype(a.dtype), *args, **settings)
    for part in found if isinstance(found, tuple) else (found,):
        part[bad] = np.nan
    return found


def _square(name: str, x: Tensor) -> None:
    if x.ndim < 2 or x._shape[-1] != x._shape[-2]:
        raise ValueError(f"{name}: takes square matrices (..., N, N), got {describe(x)}")


def _checked(
    function: Any, shape: tuple[int, ...], check_errors: bool, *args: Any, info: Callable[..., int] = lambda *_: 1
) -> tuple[Tensor, Tensor]:
    """The result of a factorisation, NaN where it failed; and info, 0, or where it failed `info` of that matrix."""
    try:
        return function(*args), args[0].new_zeros(shape, dtype=_dtype.int32)
    except LinAlgError:
        if check_errors:
            raise
    parts, infos = [], []
    if not shape:
        other = args[-1]
        return other.new_full(other.shape, float("nan")), args[0].new_full((), info(*args), dtype=_dtype.int32)
    for row in zip(*(a.unbind(0) for a in args), strict=True):
        part, own = _checked(function, shape[1:], False, *row, info=info)
        parts.append(part.unsqueeze(0))
        infos.append(own.unsqueeze(0))
    return cat(parts), cat(infos)
