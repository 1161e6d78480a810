"""Linear algebra beyond cases_list.py: whole bases, factors, reflectors, tensors; torch's values and gradients."""

from __future__ import annotations

from typing import Any

from .cases import Case
from .cases_more import spd


def _positive(P: Any, q: Any) -> Any:
    """Columns with their largest element positive: bases are given but for signs."""
    return q * q.detach().sum(-2, keepdim=True).sign()


def _reflectors(P: Any, x: Any) -> Any:
    return P.geqrf(x.detach())


CASES: list[Case] = [
    ("svdvals", lambda P, x: P.linalg.svdvals(x), [(2, 4, 3)]),
    ("svdvals_wide", lambda P, x: P.linalg.svdvals(A=x), [(3, 5)]),
    ("svdvals_equal", lambda P, x: P.linalg.svdvals(x * 0 + x.new_ones(3).diag()), [(3, 3)]),
    ("svd_values_equal", lambda P, x: P.linalg.svd(x * 0.001 + x.new_ones(3).diag())[1].sum(), [(3, 3)]),
    ("svd_full", lambda P, x: (lambda u, s, vh: (u[..., :3] * s) @ vh.exp())(*P.linalg.svd(x)), [(5, 3)]),
    ("svd_full_projector", lambda P, x: (lambda u: u @ u.mT)(P.linalg.svd(x)[0]).detach(), [(5, 3)]),
    ("svd_full_wide", lambda P, x: P.linalg.svd(x).S * P.linalg.svd(x, full_matrices=True)[2].shape[0], [(2, 4)]),
    ("svd_old", lambda P, x: (lambda u, s, v: (u * s) @ v[:, :3].mT)(*P.svd(x, some=False)), [(3, 4)]),
    ("svd_old_values", lambda P, x: P.svd(x.detach(), compute_uv=False)[1], [(3, 4)]),
    ("qr_complete", lambda P, x: P.linalg.qr(x, mode="complete")[1], [(3, 5)]),
    ("qr_complete_tall", lambda P, x: (lambda q, r: q @ r)(*P.linalg.qr(x.detach(), "complete")), [(2, 5, 3)]),
    ("qr_complete_q", lambda P, x: (lambda q: q @ q.mT)(P.qr(x.detach(), some=False)[0]), [(5, 3)]),
    ("qr_r", lambda P, x: P.linalg.qr(x.detach(), "r").R, [(2, 4, 3)]),
    ("eigvalsh_equal", lambda P, x: P.linalg.eigvalsh(x * 0 + x.new_ones(3).diag()), [(3, 3)]),
    ("eigh_names", lambda P, x: P.linalg.eigh(x + x.mT, UPLO="U").eigenvalues, [(3, 3)]),
    ("cholesky_upper", lambda P, x: P.linalg.cholesky(spd(x), upper=True), [(3, 3)]),
    ("cholesky_solve", lambda P, x, b: P.cholesky_solve(b, P.linalg.cholesky(spd(x))), [(2, 3, 3), (2, 3, 2)]),
    (
        "cholesky_solve_upper",
        lambda P, x, b: b.cholesky_solve(P.linalg.cholesky(spd(x)).mT, upper=True),
        [(3, 3), (3, 2)],
    ),
    ("cholesky_inverse", lambda P, x: P.cholesky_inverse(P.linalg.cholesky(spd(x))), [(2, 3, 3)]),
    ("cholesky_inverse_upper", lambda P, x: P.cholesky_inverse(P.linalg.cholesky(spd(x)).mT, upper=True), [(3, 3)]),
    ("cholesky_ex", lambda P, x: P.linalg.cholesky_ex(spd(x)).L, [(2, 3, 3)]),
    ("cholesky_ex_info", lambda P, x: P.linalg.cholesky_ex(spd(x.detach()))[1] == 0, [(2, 3, 3)]),
    ("inv_ex", lambda P, x: P.linalg.inv_ex(spd(x)).inverse, [(2, 3, 3)]),
    ("solve_left", lambda P, a, b: P.linalg.solve(spd(a), b, left=False), [(2, 3, 3), (2, 4, 3)]),
    ("solve_ex", lambda P, a, b: P.linalg.solve_ex(spd(a), b)[0], [(2, 3, 3), (2, 3)]),
    ("pinv_tolerance", lambda P, x: P.linalg.pinv(x, rtol=0.5), [(4, 3)]),
    ("pinv_absolute", lambda P, x: P.linalg.pinv(x, atol=1.2), [(4, 3)]),
    ("pinv_hermitian", lambda P, x: P.linalg.pinv(spd(x), hermitian=True), [(3, 3)]),
    ("pinverse", lambda P, x: P.pinverse(x) @ x.pinverse().mT, [(2, 4, 3)]),
    ("matrix_rank", lambda P, x: P.linalg.matrix_rank(x.detach(), atol=1.5), [(4, 5, 3)]),
    ("matrix_rank_both", lambda P, x: P.linalg.matrix_rank(x.detach(), atol=0.1, rtol=0.6), [(4, 5, 3)]),
    ("nuclear", lambda P, x: P.linalg.matrix_norm(x, "nuc"), [(2, 3, 4)]),
    ("lu_p", lambda P, x: P.linalg.lu(x.detach()).P, [(2, 4, 4)]),
    ("lu_l", lambda P, x: P.linalg.lu(x)[1], [(2, 4, 4)]),
    ("lu_u", lambda P, x: P.linalg.lu(x).U, [(2, 4, 4)]),
    ("lu_tall", lambda P, x: (lambda p, lower, upper: lower.exp() @ upper)(*P.linalg.lu(x)), [(5, 3)]),
    ("lu_wide", lambda P, x: (lambda p, lower, upper: lower.exp() @ upper)(*P.linalg.lu(x)), [(3, 5)]),
    ("lu_factor", lambda P, x: P.linalg.lu_factor(x).LU, [(2, 3, 4)]),
    ("lu_pivots", lambda P, x: P.linalg.lu_factor(x.detach()).pivots, [(2, 5, 4)]),
    (
        "lu_unpack",
        lambda P, x: (lambda p, lower, upper: p @ lower @ upper.exp())(*P.lu_unpack(*P.linalg.lu_factor(x))),
        [(2, 4, 3)],
    ),
    ("lu_solve", lambda P, x, b: P.linalg.lu_solve(*P.linalg.lu_factor(x), b), [(2, 3, 3), (2, 3, 2)]),
    ("lu_solve_adjoint", lambda P, x, b: P.linalg.lu_solve(*P.linalg.lu_factor(x), b, adjoint=True), [(3, 3), (3, 2)]),
    ("lu_solve_right", lambda P, x, b: P.linalg.lu_solve(*P.linalg.lu_factor(x), b, left=False), [(3, 3), (2, 3)]),
    ("lu_solve_old", lambda P, x, b: P.lu_solve(b, *P.linalg.lu_factor(x)), [(3, 3), (3, 2)]),
    ("geqrf", lambda P, x: _reflectors(P, x)[0], [(2, 4, 3)]),
    ("geqrf_tau", lambda P, x: _reflectors(P, x).tau, [(3, 4)]),
    ("householder_product", lambda P, x, t: P.linalg.householder_product(x, t), [(2, 4, 3), (2, 2)]),
    ("householder_q", lambda P, x: P.linalg.householder_product(*_reflectors(P, x)), [(4, 3)]),
    ("ormqr", lambda P, x, y: P.ormqr(*_reflectors(P, x), y), [(4, 3), (4, 2)]),
    ("ormqr_right", lambda P, x, y: P.ormqr(*_reflectors(P, x), y, left=False, transpose=True), [(4, 3), (2, 4)]),
    ("tensorinv", lambda P, x: P.linalg.tensorinv(x + 3 * P.eye(6).reshape(2, 3, 6), ind=2), [(2, 3, 6)]),
    ("tensorsolve", lambda P, a, b: P.linalg.tensorsolve(a, b), [(2, 3, 6), (2, 3)]),
    ("tensorsolve_dims", lambda P, a, b: P.linalg.tensorsolve(a, b, dims=(0,)), [(6, 2, 3), (2, 3)]),
    ("vecdot", lambda P, x, y: P.linalg.vecdot(x, y, dim=0), [(3, 4), (3, 1)]),
    ("linalg_diagonal", lambda P, x: P.linalg.diagonal(x, offset=1), [(2, 3, 4)]),
    ("linalg_vander", lambda P, x: P.linalg.vander(x, N=4), [(2, 3)]),
    ("linalg_matmul", lambda P, x, y: P.linalg.matmul(x, y), [(3, 4), (4,)]),
    ("cross_first", lambda P, a, b: P.cross(a, b), [(3, 3), (3, 3)]),
    ("cross_dim", lambda P, a, b: P.linalg.cross(a, b, dim=0), [(3, 2), (3, 1)]),
    ("slogdet_names", lambda P, x: P.slogdet(x).logabsdet + P.linalg.slogdet(A=x).sign, [(2, 3, 3)]),
]
