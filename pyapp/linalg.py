"""Linear algebra, by torch.linalg's names, of real and complex matrices."""

from __future__ import annotations

from .engine.declare import publish
from .engine.ops.diagonals import linalg_diagonal as diagonal
from .engine.ops.linalg.determinant import det, slogdet
from .engine.ops.linalg.eigen import eig, eigh, eigvals, eigvalsh, matrix_rank, matrix_sqrth
from .engine.ops.linalg.factor import cholesky, cholesky_ex, householder_product, lu, lu_factor, lu_factor_ex
from .engine.ops.linalg.factor import linalg_lu_solve as lu_solve
from .engine.ops.linalg.factor import linalg_qr as qr
from .engine.ops.linalg.indefinite import ldl_factor, ldl_factor_ex, ldl_solve
from .engine.ops.linalg.matrix_functions import matrix_exp, matrix_power
from .engine.ops.linalg.norms import cond, matrix_norm, vector_norm
from .engine.ops.linalg.norms import linalg_norm as norm
from .engine.ops.linalg.products import linalg_cross as cross
from .engine.ops.linalg.products import linalg_vander as vander
from .engine.ops.linalg.products import matmul, multi_dot, vecdot
from .engine.ops.linalg.solve import (
    inv_ex,
    inverse,
    lstsq,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from .engine.ops.linalg.solve import inverse as inv
from .engine.ops.linalg.svd import linalg_polar as polar
from .engine.ops.linalg.svd import linalg_svd as svd
from .engine.ops.linalg.svd import svdvals
from .errors import LinAlgError

__all__ = [
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "inverse", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu",
    "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_sqrth", "multi_dot", "norm", "pinv", "polar", "qr", "slogdet", "solve", "solve_ex", "solve_triangular",
    "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
publish(globals(), __all__, "A")
__all__ += ["LinAlgError"]
