"""Conversions of element types."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, as_dtype
from pyapp.engine.lazy import np
from pyapp.formats.foreign_dtypes import code_table
from pyapp.formats.onnx_file import BITS

from ..registry import operator
from ..values import (
    DENSE,
    SMALL_INTEGERS,
    ForeignArray,
    array_of,
    codes_of,
    element_name,
    element_of,
    made_of,
    rounded_to,
    rounded_to_scale,
    text,
)


def cast_to(x: Any, element: str, saturate: bool = True, mode: str = "up") -> Any:
    """x in another element type."""
    own = element_of(x)
    if own == element:
        return x
    if isinstance(x, Tensor) and element in DENSE and not (x.dtype.category == 2 and as_dtype(element).category == 1):
        return x.to(element)
    array = array_of(x)
    with np.errstate(all="ignore"):
        if element == "string":
            return ForeignArray("string", np.array([_written(v) for v in array.reshape(-1)], object).reshape(x.shape))
        if own == "string":
            array = _parsed(array, element)
        if element in SMALL_INTEGERS:
            return ForeignArray(element, small_integers(array, element))
        if element == "float8_e8m0fnu":
            return ForeignArray(element, rounded_to_scale(array, saturate, mode))
        if element.startswith("complex"):
            return ForeignArray(element, array.astype(element))
        if element not in DENSE:
            return ForeignArray(element, rounded_to(element, array, saturate))
        if as_dtype(element).category == 1 and array.dtype.kind == "f":
            wide = np.trunc(array.astype(np.float64))
            # Through int64, as processors convert: NumPy's direct conversion to small types is undefined.
            array = wide.astype(np.uint64 if element == "uint64" else np.int64) if array.dtype.kind == "f" else array
        return made_of(array if element == "bfloat16" else array.astype(element), element, x.device)


def small_integers(array: Any, element: str) -> Any:
    """Numbers → the lowest bits of whole ones, as int8 or uint8."""
    bits = BITS[element]
    whole = np.trunc(array.astype(np.float64)).astype(np.int64) if array.dtype.kind == "f" else array.astype(np.int64)
    codes = whole & ((1 << bits) - 1)
    if SMALL_INTEGERS[element][0] < 0:
        return np.where(codes >> (bits - 1) != 0, codes - (1 << bits), codes).astype(np.int8)
    return codes.astype(np.uint8)


def _written(value: Any) -> str:
    """A number as text: "NaN", "INF" and "-INF" as the standard writes them."""
    if isinstance(value, np.floating):
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "INF" if value > 0 else "-INF"
        return (
            np.format_float_positional(value, trim="-")
            if 1e-4 <= abs(value) < 1e8 or value == 0
            else repr(float(value))
        )
    return str(value)


def _parsed(array: Any, element: str) -> Any:
    """Numbers of texts."""
    whole = (
        element not in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
        and "float" not in element
    )
    try:
        if element == "bool":
            return np.array([t.lower() not in ("", "0", "false") for t in array.reshape(-1)]).reshape(array.shape)
        values = [int(float(t)) if whole else float(t) for t in array.reshape(-1)]
    except ValueError as error:
        raise ValueError(f"a text is not a number: {error}") from None
    return np.array(values, np.int64 if whole else np.float64).reshape(array.shape)


@operator("Cast")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: bytes = b"up") -> Any:
    return cast_to(x, element_name(to), bool(saturate), text(round_mode))


@operator("CastLike")
def cast_like(x: Any, target: Any, *, saturate: int = 1, round_mode: bytes = b"up") -> Any:
    return cast_to(x, element_of(target), bool(saturate), text(round_mode))


@operator("BitCast")
def bit_cast(x: Any, *, to: int) -> Any:
    """The same bits as another type of the same width."""
    element, own = element_name(to), element_of(x)
    if "string" in (element, own) or BITS[element] != BITS[own]:
        raise TypeError(f"the bits of {own} are not {element}: the types must be of one width, and not string")
    if own == "bfloat16":
        codes = (array_of(x).view(np.uint32) >> 16).astype(np.uint16)
    elif own in SMALL_INTEGERS:
        codes = array_of(x).astype(np.uint8) & ((1 << BITS[own]) - 1)
    elif isinstance(x, ForeignArray) and not own.startswith("complex"):
        codes = codes_of(x)
    else:
        codes = array_of(x)
    if element == "bfloat16":
        return made_of((codes.view(np.uint16).astype(np.uint32) << 16).view(np.float32), "bfloat16", x.device)
    if element in SMALL_INTEGERS:
        return ForeignArray(element, small_integers(codes, element))
    if element in DENSE or element.startswith("complex"):
        return made_of(np.ascontiguousarray(codes).view(element).reshape(x.shape), element, x.device)
    return ForeignArray(element, code_table(element)[codes.astype(np.uint8)])
