"""Rounding: floor, ceil, round, trunc, frac."""

from __future__ import annotations

from ...lazy import np
from ...tensor import Tensor
from .builders import no_slope, unary

floor = unary("floor", lambda x: np.floor(x), no_slope, out="same", saves="none")
ceil = unary("ceil", lambda x: np.ceil(x), no_slope, out="same", saves="none")
round = unary("round", lambda x: np.round(x), no_slope, out="same", saves="none")


def _round_by_name(x: Tensor, decimals: int = 0) -> Tensor:
    if not decimals:
        return round(x)
    scale = 10.0 ** abs(decimals)  # a power of ten below 1 is not exact
    return round(x * scale) / scale if decimals > 0 else round(x / scale) * scale


round.by_name = _round_by_name
trunc = unary("trunc", lambda x: np.trunc(x).astype(x.dtype), no_slope, out="same", saves="none", synonyms="fix")
frac = unary("frac", lambda x: x - np.trunc(x), lambda g, _, x: (g,), out="same", saves="none")
