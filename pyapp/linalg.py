"""Linear algebra, by torch.linalg's names."""

from __future__ import annotations

from .engine.by_name import rename_in
from .engine.ops.decompose import (
    cond,
    cross,
    eigh,
    eigvalsh,
    lstsq,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    pinv,
    qr,
    svdvals,
    vector_norm,
)
from .engine.ops.decompose import linalg_norm as norm
from .engine.ops.decompose import linalg_svd as svd
from .engine.ops.linalg import cholesky, det, inverse, slogdet, solve, solve_triangular
from .engine.ops.linalg import inverse as inv
from .errors import LinAlgError  # noqa: F401

__all__ = [
    "cholesky", "cond", "cross", "det", "eigh", "eigvalsh", "inv", "inverse", "lstsq", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd",
    "svdvals", "vector_norm",
]  # fmt: skip
rename_in(globals(), __all__)
