"""Linear algebra, by torch.linalg's names. Real tensors; complex eigenvalues are pairs: engine/ops/solvers.py."""

from __future__ import annotations

from .engine.by_name import rename_in
from .engine.ops.decompose import (
    cond,
    eigh,
    eigvalsh,
    lstsq,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    pinv,
    vector_norm,
)
from .engine.ops.decompose import linalg_cross as cross
from .engine.ops.decompose import linalg_norm as norm
from .engine.ops.decompose import linalg_qr as qr
from .engine.ops.decompose import linalg_svd as svd
from .engine.ops.linalg import cholesky, det, inverse, slogdet, solve, solve_triangular, svdvals
from .engine.ops.linalg import inverse as inv
from .engine.ops.matmul import matmul
from .engine.ops.solvers import (
    cholesky_ex,
    eig,
    eigvals,
    householder_product,
    inv_ex,
    lu,
    lu_factor,
    solve_ex,
    tensorinv,
    tensorsolve,
    vecdot,
)
from .engine.ops.solvers import linalg_diagonal as diagonal
from .engine.ops.solvers import linalg_lu_solve as lu_solve
from .engine.ops.solvers import linalg_vander as vander
from .errors import LinAlgError

__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "inverse", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
rename_in(globals(), __all__, "A")
__all__ += ["LinAlgError"]
