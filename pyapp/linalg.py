"""Linear algebra, by torch.linalg's names."""

from __future__ import annotations

from .engine.ops.linalg import cholesky, det, inverse, slogdet, solve, solve_triangular
from .engine.ops.linalg import inverse as inv

__all__ = ["cholesky", "det", "inv", "inverse", "slogdet", "solve", "solve_triangular"]
