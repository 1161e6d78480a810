"""Logical and, or, xor, not."""

from __future__ import annotations

from ...lazy import np
from .builders import binary, unary

logical_and = binary("logical_and", lambda: np.logical_and, None, out="bool", of_complex=True)
logical_or = binary("logical_or", lambda: np.logical_or, None, out="bool", of_complex=True)
logical_not = unary("logical_not", lambda x: np.logical_not(x), None, out="bool", of_complex=True)
logical_xor = binary("logical_xor", lambda: np.logical_xor, None, out="bool", of_complex=True)
