"""Imports all forms of operations for sparse tensors, which then are in FORMS."""

from __future__ import annotations

from . import arithmetic, arrangement, creation, products, reductions  # noqa: F401
