"""Limits of dtypes: finfo, iinfo."""

from __future__ import annotations

import math
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..dtype import as_dtype


@function()
class finfo:
    """Limits of a floating dtype, or of the parts of a complex one: bits, eps, max, min, smallest_normal (tiny),
    resolution.
    """

    def __init__(self, type: Any = _dtype.float32) -> None:
        kind = as_dtype(type).part
        if kind.name not in _FLOATS:
            raise TypeError(f"finfo: {kind} is not a floating-point dtype; use iinfo")
        mantissa, top, bottom = _FLOATS[kind.name]
        self.dtype = kind.name
        self.bits = kind.itemsize * 8
        self.eps = 2.0**-mantissa
        self.max = 1.75 * 2.0**8 if kind is _dtype.float8_e4m3fn else (2 - self.eps) * 2.0**top
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0**bottom
        self.resolution = float(f"1e-{math.floor(mantissa * math.log10(2))}")

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


# Bits of the fraction, exponents of the largest and of the smallest normal number.
_FLOATS = {
    "float64": (52, 1023, -1022), "float32": (23, 127, -126), "bfloat16": (7, 127, -126), "float16": (10, 15, -14),
    "float8_e5m2": (2, 15, -14), "float8_e4m3fn": (3, 8, -6),
}  # fmt: skip


@function()
class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: Any) -> None:
        kind = as_dtype(type)
        if kind.category != 1:
            raise TypeError(f"iinfo: {kind} is not an integer dtype; use finfo")
        signed = kind.name[0] != "u"
        self.bits = kind.itemsize * 8
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.dtype = kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
