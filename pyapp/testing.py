"""assert_close, by torch.testing's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .engine.dtype import DType, as_dtype, promote
from .engine.lazy import np
from .engine.numpy_arrays import array_of
from .engine.ops import rand, randint, tensor, view_as_complex
from .engine.shape import as_shape
from .engine.tensor import Tensor
from .engine.user_errors import describe

# (relative, absolute) tolerance by dtype, as in torch; integers and bools must be equal.
_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


_WIDE = {float: "float64", complex: "complex128"}


def _fail(text: str, where: str, msg: Any) -> None:
    full = f"{text}{f' (at {where})' if where else ''}"
    raise AssertionError(msg(full) if callable(msg) else full if msg is None else msg)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: Any = None,
) -> None:  # fmt: skip
    """AssertionError if two tensors, numbers, or containers of them differ: in values by more than
    `atol + rtol |expected|` (give both or none; the defaults depend on the dtype), in shape, dtype or device.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: give both rtol and atol, or none of them")
    settings = (rtol, atol, equal_nan, check_dtype, check_stride, msg)
    _compare(actual, expected, "", settings)


_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: Any = "",
) -> None:
    """torch's older form of assert_close: numbers and lists become tensors, dtypes may differ, NaN are equal, and the
    tolerances are wider.
    """
    one = actual if isinstance(actual, Tensor) else tensor(actual)
    other = expected if isinstance(expected, Tensor) else tensor(expected, dtype=one.dtype)
    if rtol is None and atol is None:
        known = [_OLD_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (one, other)]
        rtol, atol = (max(pair) for pair in zip(*known, strict=True))
    assert_close(one, other, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _compare(actual: Any, expected: Any, where: str, settings: tuple[Any, ...]) -> None:
    msg = settings[-1]
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            _fail(f"the keys differ: {sorted(actual, key=str)} and {sorted(expected, key=str)}", where, msg)
        for key in actual:
            _compare(actual[key], expected[key], f"{where}[{key!r}]", settings)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            _fail(f"the lengths differ: {len(actual)} and {len(expected)}", where, msg)
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, f"{where}[{i}]", settings)
    elif actual is None and expected is None:
        pass
    elif isinstance(actual, Tensor) != isinstance(expected, Tensor):
        raise TypeError(f"assert_close: cannot compare {describe(actual)} with {describe(expected)}")
    else:
        _compare_tensors(actual, expected, where, settings)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _limits(kinds: Sequence[DType]) -> tuple[float, float]:
    found = [_TOLERANCES.get(kind.name, (0.0, 0.0)) for kind in kinds]
    return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def _compare_tensors(actual: Any, expected: Any, where: str, settings: tuple[Any, ...]) -> None:
    rtol, atol, equal_nan, check_dtype, check_stride, msg = settings
    plain = not isinstance(actual, Tensor)
    a, b = (tensor(v, dtype=_WIDE.get(type(v))) if plain else v for v in (actual, expected))
    if a.shape != b.shape:
        _fail(f"the shapes differ: {list(a.shape)} and {list(b.shape)}", where, msg)
    if check_dtype and a.dtype is not b.dtype and not plain:
        _fail(f"the dtypes differ: {a.dtype} and {b.dtype}", where, msg)
    if check_stride and a.strides != b.strides:
        _fail(f"the strides differ: {a.strides} and {b.strides}", where, msg)
    if rtol is None:
        rtol, atol = _limits([a.dtype, b.dtype])
    kind = promote(a.dtype, b.dtype)
    left, right = (array_of(v.detach(), kind if kind.category < 2 else None) for v in (a, b))
    close = left == right
    wide = "complex128" if kind.is_complex else "float64"
    if kind.has_gradient:
        left, right = left.astype(wide), right.astype(wide)
        close = np.isclose(left, right, rtol, atol, equal_nan)
    if not close.all():
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = np.where(close, 0.0, np.abs(left.astype(wide) - right.astype(wide)))
            at = np.unravel_index(int(np.nanargmax(difference)), a.shape) if not np.isnan(difference).all() else ()
        _fail(
            f"{int((~close).sum())} of {close.size} elements are not close: the largest difference is "
            f"{float(np.nanmax(difference, initial=0.0))} at {tuple(map(int, at))} (up to {atol} + {rtol} |expected|)",
            where, msg,
        )  # fmt: skip


def make_tensor(
    *shape: Any, dtype: Any, device: Any = None, low: float | None = None, high: float | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Random numbers between `low` and `high` (-9 and 9; 0 and 9 for unsigned) of a shape and dtype."""
    kind, sizes = as_dtype(dtype), as_shape(shape)
    least, most = (0 if not kind.is_signed else -9) if low is None else low, 9 if high is None else high
    if kind.category == 0:
        return randint(0, 2, sizes).to(kind)
    if kind.is_complex:
        parts = make_tensor(*sizes, 2, dtype=kind.part, device=device, low=low, high=high)
        return view_as_complex(parts).requires_grad_(requires_grad)
    if not kind.is_floating_point:
        return randint(int(least), int(most) + (high is None), sizes).to(dtype=kind, device=device)
    found = (rand(sizes) * (most - least) + least).to(dtype=kind, device=device)
    return found.requires_grad_(requires_grad)


__all__ = ["assert_allclose", "assert_close", "make_tensor"]
