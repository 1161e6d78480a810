"""Linear algebra: cases as the package describes them."""

from __future__ import annotations

from typing import Any

from . import Case, L, spd

EINSUMS = {
    "ij,jk->ik": [(3, 4), (4, 2)],
    "ij,jk": [(3, 4), (4, 2)],
    "bij,bkj->bik": [(2, 3, 4), (2, 5, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 2)],
    "ii->i": [(4, 4)],
    "ii": [(4, 4)],
    "i,j->ij": [(3,), (4,)],
    "ijk->kj": [(3, 4, 2)],
    "bn,anm,bm->ba": [(2, 3), (5, 3, 4), (2, 4)],
    "b...,...->b": [(3, 1, 4), (2, 1)],
}


def _reflectors(P: Any, x: Any) -> Any:
    return P.geqrf(x.detach())


def solved(P: Any, a: Any, b: Any, driver: str | None = None) -> Any:
    found = P.linalg.lstsq(a, b, driver=driver)
    return found.solution if not found.residuals.numel() else found.solution.sum(-2) + found.residuals


def told(P: Any, a: Any, b: Any, driver: str, name: str, rcond: float | None = None) -> Any:
    return getattr(P.linalg.lstsq(a.detach(), b.detach(), rcond, driver=driver), name)


def flat(P: Any, x: Any, scales: list[float]) -> Any:
    """A matrix with these singular values."""
    u, v = P.linalg.qr(x)[0], P.linalg.qr(x.mT)[0]
    return u * P.tensor(scales) @ v.mT


CASES: list[Case] = [
    ("matmul", lambda P, a, b: a @ b, [(3, 5), (5, 2)]),
    ("matmul_big", lambda P, a, b: a @ b, [(33, 65), (65, 17)]),
    ("matmul_vec", lambda P, a, b: a @ b, [(3, 5), (5,)]),
    ("vec_matmul", lambda P, a, b: a @ b, [(5,), (5, 3)]),
    ("dot", lambda P, a, b: a @ b, [(5,), (5,)]),
    ("matmul_batch", lambda P, a, b: a @ b, [(2, 1, 3, 4), (5, 4, 2)]),
    ("matmul_shared", lambda P, a, b: a @ b, [(2, 3, 4), (4, 5)]),
    ("matmul_zero", lambda P, a, b: a @ b, [(3, 0), (0, 2)]),
    ("dot_vectors", lambda P, a, b: a.dot(b), [(5,), (5,)]),
    ("outer", lambda P, a, b: P.outer(a, b), [(3,), (4,)]),
    ("mm", lambda P, a, b: a.mm(b), [(3, 0), (0, 4)]),
    ("mv", lambda P, a, b: a.mv(b), [(3, 4), (4,)]),
    ("addmm", lambda P, x, a, b: P.addmm(x, a, b, beta=0.5, alpha=2), [(4,), (3, 5), (5, 4)]),
    ("baddbmm", lambda P, x, a, b: x.baddbmm(a, b), [(2, 3, 4), (2, 3, 5), (2, 5, 4)]),
    ("trace", lambda P, x: x.trace(), [(3, 4)]),
    *((f"einsum {e}", lambda P, *x, e=e: P.einsum(e, *x), shapes) for e, shapes in EINSUMS.items()),
    ("inverse", lambda P, x: spd(x).inverse(), [(2, 3, 3)]),
    ("solve", lambda P, a, b: L(P).solve(spd(a), b), [(2, 3, 3), (3, 2)]),
    ("solve_vector", lambda P, a, b: L(P).solve(spd(a), b), [(3, 3), (3,)]),
    ("triangular", lambda P, a, b: L(P).solve_triangular(spd(a), b, upper=True), [(3, 3), (3, 2)]),
    (
        "triangular_right",
        lambda P, a, b: L(P).solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        [(3, 3), (2, 3)],
    ),
    ("cholesky", lambda P, x: L(P).cholesky(spd(x)), [(2, 3, 3)]),
    ("det", lambda P, x: x.det(), [(2, 3, 3)]),
    ("det_singular", lambda P, x: P.det(x * P.tensor([1.0, 0.0, 1.0])), [(3, 3)]),
    ("slogdet", lambda P, x: x.slogdet()[1], [(2, 3, 3)]),
    ("svd_values", lambda P, x: P.svd(x)[1], [(2, 3, 4)]),
    ("svd_left", lambda P, x: P.svd(x)[0] ** 2, [(5, 3)]),
    ("svd_right", lambda P, x: P.svd(x)[2] ** 2, [(3, 5)]),
    ("svd_low_rank", lambda P, x: (lambda u, s, v: (u * s * s) @ v.mT)(*x.svd()), [(4, 3)]),
    ("qr_q", lambda P, x: P.linalg.qr(x)[0], [(2, 5, 3)]),
    ("qr_r", lambda P, x: P.linalg.qr(x)[1], [(4, 4)]),
    ("qr_wide", lambda P, x: (lambda q, r: q @ r.exp())(*P.linalg.qr(x)), [(3, 5)]),
    ("eigvalsh", lambda P, x: P.linalg.eigvalsh(x), [(2, 3, 3)]),
    ("eigh_vectors", lambda P, x: P.linalg.eigh(x + x.mT)[1] ** 2, [(3, 3)]),
    ("pinv", lambda P, x: P.linalg.pinv(x), [(4, 3)]),
    ("matrix_power", lambda P, x: P.linalg.matrix_power(x, 5), [(2, 3, 3)]),
    ("matrix_power_negative", lambda P, x: P.linalg.matrix_power(spd(x), -2), [(3, 3)]),
    ("matrix_power_0", lambda P, x: P.linalg.matrix_power(x, 0) + x, [(3, 3)]),
    ("matrix_rank", lambda P, x: P.linalg.matrix_rank(x @ x.mT), [(4, 2)]),
    *(
        (f"matrix_norm_{o}", lambda P, x, o=o: P.linalg.matrix_norm(x, o, keepdim=True), [(2, 3, 4)])
        for o in ("fro", "nuc", 1, -1, float("inf"), 2, -2)
    ),
    ("vector_norm", lambda P, x: P.linalg.vector_norm(x, 3, dim=(0, 1)), [(2, 3, 4)]),
    ("multi_dot", lambda P, a, b, c: P.linalg.multi_dot([a, b, c]), [(3, 4), (4, 2), (2, 5)]),
    ("cross", lambda P, a, b: P.linalg.cross(a, b, dim=0), [(3, 4), (3, 4)]),
    ("linalg_svd", lambda P, x: P.linalg.svd(x, full_matrices=False)[1], [(4, 3)]),
    ("linalg_inv", lambda P, x: P.linalg.inv(spd(x)), [(3, 3)]),
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
    ("qr_complete_q", lambda P, x: (lambda q: q @ q.mT)(P.linalg.qr(x.detach(), mode="complete")[0]), [(5, 3)]),
    ("qr_mode_r", lambda P, x: P.linalg.qr(x.detach(), "r").R, [(2, 4, 3)]),
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
    (
        "cholesky_ex_order_of_the_failing_minor",
        lambda P, x: (
            P.linalg.cholesky_ex(spd(x.detach()) - x.new_tensor([0.0, 0, 50, 0, 50]).diag())[1]
            + 10 * P.linalg.cholesky_ex(spd(x.detach()) - x.new_tensor([[0.0] * 5, [0.0, 0, 0, 0, 50]]).diag_embed())[1]
        ),
        [(2, 5, 5)],
    ),
    ("inv_ex", lambda P, x: P.linalg.inv_ex(spd(x)).inverse, [(2, 3, 3)]),
    ("solve_left", lambda P, a, b: P.linalg.solve(spd(a), b, left=False), [(2, 3, 3), (2, 4, 3)]),
    ("solve_ex", lambda P, a, b: P.linalg.solve_ex(spd(a), b)[0], [(2, 3, 3), (2, 3)]),
    ("pinv_tolerance", lambda P, x: P.linalg.pinv(x, rtol=0.5), [(4, 3)]),
    ("pinv_absolute", lambda P, x: P.linalg.pinv(x, atol=1.2), [(4, 3)]),
    ("pinv_hermitian", lambda P, x: P.linalg.pinv(spd(x), hermitian=True), [(3, 3)]),
    ("pinverse", lambda P, x: P.pinverse(x) @ x.pinverse().mT, [(2, 4, 3)]),
    ("matrix_rank_absolute", lambda P, x: P.linalg.matrix_rank(x.detach(), atol=1.5), [(4, 5, 3)]),
    ("matrix_rank_both", lambda P, x: P.linalg.matrix_rank(x.detach(), atol=0.1, rtol=0.6), [(4, 5, 3)]),
    ("nuclear", lambda P, x: P.linalg.matrix_norm(x, "nuc"), [(2, 3, 4)]),
    ("lu_p", lambda P, x: P.linalg.lu(x.detach()).P, [(2, 4, 4)]),
    ("lu_l", lambda P, x: P.linalg.lu(x)[1], [(2, 4, 4)]),
    ("lu_u", lambda P, x: P.linalg.lu(x).U, [(2, 4, 4)]),
    ("lu_tall", lambda P, x: (lambda p, lower, upper: lower.exp() @ upper)(*P.linalg.lu(x)), [(5, 3)]),
    ("lu_wide", lambda P, x: (lambda p, lower, upper: lower.exp() @ upper)(*P.linalg.lu(x)), [(3, 5)]),
    ("lu_factor", lambda P, x: P.linalg.lu_factor(x).LU, [(2, 3, 4)]),
    ("lu_factor_ex", lambda P, x: P.linalg.lu_factor_ex(x * (x > 0.3)).info, [(4, 3, 3)]),
    ("polar", lambda P, x: (lambda u, h: u.exp() + h.sum())(*P.linalg.polar(x)), [(2, 4, 3)]),
    ("matrix_sqrth", lambda P, x: P.linalg.matrix_sqrth(spd(x)), [(2, 3, 3)]),
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
    ("lstsq", solved, [(5, 3), (5, 2)]),
    ("lstsq_wide", solved, [(3, 5), (3, 2)]),
    ("lstsq_batch", solved, [(2, 4, 3), (2, 4, 1)]),
    ("lstsq_vector", solved, [(4, 4), (4,)]),
    ("lstsq_vectors", solved, [(2, 5, 3), (2, 5)]),
    ("lstsq_gels", lambda P, a, b: solved(P, a, b, "gels"), [(5, 3), (5, 2)]),
    ("lstsq_gelsd", lambda P, a, b: solved(P, a, b, "gelsd"), [(2, 5, 3), (2, 5, 2)]),
    *(
        (f"lstsq_{driver}_{n}", lambda P, a, b, d=driver, n=n: told(P, a, b, d, n), [(2, 5, 3), (2, 5, 2)])
        for driver, names in (("gels", ["rank"]), ("gelsy", ["rank", "residuals"]), ("gelss", ["singular_values"]))
        for n in names
    ),
    (
        "lstsq_short",  # of rank 2: the shortest of many, and how many dims there are
        lambda P, x, b: P.linalg.lstsq(flat(P, x, [2.0, 0.5, 0.0]).detach(), b).solution,
        [(3, 3), (3, 2)],
    ),
    ("lstsq_rank", lambda P, x, b: told(P, flat(P, x, [2.0, 0.5, 0.0]), b, "gelsy", "rank"), [(3, 3), (3, 2)]),
    (
        "lstsq_rcond",  # without gradients: in torch they do not know of rcond
        lambda P, x, b: told(P, flat(P, x, [2.0, 0.5, 0.1]), b, "gelsd", "solution", 0.1),
        [(3, 3), (3, 2)],
    ),
    ("pinv_wide", lambda P, x: P.linalg.pinv(x), [(2, 3, 4)]),
    ("pinv_equal_values", lambda P, x: P.linalg.pinv(x * 0 + P.eye(4)[:, :3] * 2), [(4, 3)]),
    *((f"cond_{p}", lambda P, x, p=p: P.linalg.cond(x, p), [(2, 3, 3)]) for p in (None, 2, -2, "nuc")),
    *(  # torch 2.13 has no gradient of these: it writes into the inverse that it needs
        (f"cond_{p}", lambda P, x, p=p: P.linalg.cond(x.detach(), p), [(2, 3, 3)]) for p in (1, -1, "fro", float("inf"))
    ),
    ("cond_wide", lambda P, x: P.linalg.cond(x), [(2, 3, 5)]),
    (
        "cond_singular",
        lambda P, x: P.linalg.cond(P.stack([P.ones(3, 3), x.detach()]), 1),
        [(3, 3)],
    ),
    ("cond_empty", lambda P, x: P.linalg.cond(x.detach(), "fro"), [(2, 0, 0)]),
    *((f"matrix_exp_{k}", lambda P, x, k=k: P.linalg.matrix_exp(x * k), [(2, 3, 3)]) for k in (0.0, 0.1, 1.0, 3.0)),
    ("matrix_exp_turn", lambda P, x: P.linalg.matrix_exp((x - x.mT) * 20), [(4, 4)]),
    ("matrix_exp_method", lambda P, x: x.matrix_exp() + P.matrix_exp(x), [(1, 1)]),
    ("matrix_exp_empty", lambda P, x: P.matrix_exp(x), [(2, 0, 0)]),
    ("addbmm", lambda P, x, a, b: P.addbmm(x, a, b), [(2, 3), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_scaled", lambda P, x, a, b: x.addbmm(a, b, beta=0.5, alpha=2), [(3,), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_unread", lambda P, x, a, b: P.addbmm(x.detach() / 0, a, b, beta=0).sum(0), [(2, 3), (4, 2, 5), (4, 5, 3)]),
    ("addbmm_none", lambda P, x, a, b: P.addbmm(x, a, b), [(2, 3), (0, 2, 5), (0, 5, 3)]),
    ("addbmm_", lambda P, x, a, b: (x * 1).addbmm_(a, b) * x, [(2, 3), (4, 2, 5), (4, 5, 3)]),
    *((f"renorm_{p}", lambda P, x, p=p: P.renorm(x, p, 1, 1.5), [(3, 4, 2)]) for p in (1, 2, 3, 0.5, float("inf"))),
    ("renorm_last", lambda P, x: x.renorm(2, -1, 1.0), [(3, 4)]),
    ("renorm_of_0", lambda P, x: x.renorm(2, 0, 0.0), [(3, 4)]),
    ("renorm_", lambda P, x: (x * 1).renorm_(2, 0, 1.0) * x, [(3, 4)]),
]
