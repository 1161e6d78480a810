"""More op cases, as in cases.py: special functions, shapes, order statistics, linear algebra, convolutions.

torch keeps some of them elsewhere: `F(P)` has activations and convolutions, `L(P)` linear algebra.
"""

from __future__ import annotations

from typing import Any

from .cases import Case


def F(P: Any) -> Any:
    return P.nn.functional if P.__name__ == "torch" else P


def L(P: Any) -> Any:
    return P.linalg if P.__name__ == "torch" else P


def spd(x: Any) -> Any:
    """Symmetric and positive-definite."""
    return x @ x.mT + 2 * x.new_ones(x.shape[-1]).diag()


UNARY = [
    "erf", "expm1", "exp2", "tan", "atan", "sinh", "cosh", "asinh", "trunc", "frac", "digamma", "signbit",
]  # fmt: skip
ACTIVATIONS = ["gelu", "softplus", "mish", "elu", "leaky_relu", "hardtanh"]
BINARY = ["fmod", "atan2", "hypot", "logaddexp"]

SPECIAL: list[Case] = [
    *((n, lambda P, x, n=n: getattr(P, n)(x), [(3, 5)]) for n in UNARY),
    *((n, lambda P, x, n=n: getattr(F(P), n)(x), [(4, 5)]) for n in ACTIVATIONS),
    *((n, lambda P, x, n=n: getattr(x, n)(), [("positive", (4, 5))]) for n in ("log2", "log10")),
    *(
        (n, lambda P, x, n=n: getattr(x * 0.7, n)(), [("positive", (4, 5))])
        for n in ("erfinv", "asin", "acos", "atanh")
    ),
    *((n, lambda P, a, b, n=n: getattr(a, n)(b), [(3, 4), (4,)]) for n in BINARY),
    *((f"{n}_empty", lambda P, a, b, n=n: getattr(a, n)(b), [(0, 3), (1, 3)]) for n in BINARY),
    ("erfinv_negative", lambda P, x: (-0.79 * x).erfinv(), [("positive", (4, 5))]),
    ("erf_empty", lambda P, x: x.erf(), [(0, 3)]),
    ("acosh", lambda P, x: (x + 1).acosh(), [("positive", (4, 5))]),
    ("lgamma", lambda P, x: x.lgamma(), [("positive", (4, 5))]),
    ("lgamma_wide", lambda P, x: (x * 20 + 0.3).lgamma(), [(4, 5)]),
    ("gelu_tanh", lambda P, x: F(P).gelu(x, approximate="tanh"), [(4, 5)]),
    ("softplus_beta", lambda P, x: F(P).softplus(x * 5, 2.0, 4.0), [(4, 5)]),
    ("elu_alpha", lambda P, x: F(P).elu(x, 0.5), [(4, 5)]),
    ("leaky_relu_slope", lambda P, x: F(P).leaky_relu(x, 0.3), [(4, 5)]),
    ("hardtanh_limits", lambda P, x: F(P).hardtanh(x, -0.3, 0.6), [(4, 5)]),
    ("lerp", lambda P, a, b, w: P.lerp(a, b, w), [(3, 4), (3, 4), (4,)]),
    ("addcmul", lambda P, a, b, c: P.addcmul(a, b, c, value=0.5), [(3, 4), (3, 1), (4,)]),
    ("addcdiv", lambda P, a, b, c: P.addcdiv(a, b, c, value=2.0), [(3, 4), (3, 1), ("positive", (4,))]),
    ("nan_to_num", lambda P, x: (x / P.where(x > 0.8, x * 0, x * 0 + 1)).nan_to_num(1.0, 9.0, -9.0), [(3, 5)]),
    ("logical_xor", lambda P, a, b: P.logical_xor(a, b), [("bools", (3, 4)), ("bools", (4,))]),
    ("left_shift", lambda P, a, b: a << b, [("ints", 9, (3, 4)), ("ints", 5, (4,))]),
    ("right_shift", lambda P, a, b: P.bitwise_right_shift(a - 40, b), [("ints", 99, (3, 4)), ("ints", 5, (4,))]),
]

REDUCTIONS: list[Case] = [
    ("prod_all", lambda P, x: x.prod(), [(3, 4)]),
    ("prod_dim", lambda P, x: P.prod(x, 1, keepdim=True), [(3, 4, 2)]),
    ("prod_zeros", lambda P, x: (x * (x > 0)).prod(0), [(3, 7)]),
    ("prod_empty", lambda P, x: x.prod(0), [(0, 4)]),
    ("prod_ints", lambda P, i: (i + 1).prod(0), [("ints", 5, (3, 4))]),
    ("cumprod", lambda P, x: x.cumprod(1), [(3, 4)]),
    ("cumprod_zeros", lambda P, x: (x * (x > -0.5)).cumprod(0), [(5, 4)]),
    ("norm", lambda P, x: x.norm(), [(3, 4)]),
    ("norm_dim", lambda P, x: x.norm(2, 1, True), [(3, 4)]),
    ("norm_zero", lambda P, x: (x * 0).norm(dim=1), [(3, 4)]),
    *((f"norm_{p}", lambda P, x, p=p: x.norm(p, 0), [(3, 4)]) for p in (0, 1, 3, float("inf"), float("-inf"))),
    ("median", lambda P, x: x.median(), [(3, 4)]),
    ("median_dim", lambda P, x: x.median(1)[0], [(3, 6)]),
    ("median_index", lambda P, x: x.median(0, True)[1], [(5, 4)]),
    ("median_nan", lambda P, x: P.log(x).median(1)[0].isnan(), [(6, 3)]),
    ("kthvalue", lambda P, x: P.kthvalue(x, 2, 0)[0], [(5, 3)]),
    ("kthvalue_index", lambda P, x: P.kthvalue(x, 3)[1], [(3, 5)]),
    ("quantile", lambda P, x: x.quantile(0.3, 1), [(3, 6)]),
    ("quantile_all", lambda P, x: x.quantile(0.77), [(3, 6)]),
    ("quantile_many", lambda P, x: x.quantile(P.tensor([0.0, 0.4, 1.0]), 0, True), [(5, 3)]),
    *(
        (f"quantile_{n}", lambda P, x, n=n: x.quantile(0.41, 1, interpolation=n), [(3, 6)])
        for n in ("lower", "higher", "midpoint", "nearest")
    ),
    ("count_nonzero", lambda P, x: (x > 0).count_nonzero(1), [(3, 4)]),
    ("nansum", lambda P, x: P.where(x > 0.5, x * float("nan"), x).nansum(1), [(3, 4)]),
    ("nanmean", lambda P, x: P.where(x > 0.5, x * float("nan"), x).nanmean(0), [(5, 3)]),
    ("cummax", lambda P, x: P.cummax(x, 1)[0], [(3, 6)]),
    ("cummax_index", lambda P, i: P.cummax(i, 0)[1], [("ints", 3, (7, 2))]),
    ("cummin", lambda P, x: x.cummin(0)[0], [(5, 3)]),
    ("unique", lambda P, i: i.unique(), [("ints", 9, (3, 4))]),
    ("unique_inverse", lambda P, i: P.unique(i, return_inverse=True)[1], [("ints", 5, (3, 4))]),
    ("unique_counts", lambda P, i: P.unique(i, return_counts=True)[1], [("ints", 5, (3, 4))]),
    ("unique_dim", lambda P, i: P.unique(i, dim=0), [("ints", 2, (7, 2))]),
    ("aminmax", lambda P, x: x.aminmax(dim=1)[1], [(3, 4)]),
    ("var_mean", lambda P, x: P.var_mean(x, 1)[0], [(3, 4)]),
]

SHAPES: list[Case] = [
    ("tile", lambda P, x: x.tile((2, 3)), [(2, 3)]),
    ("roll", lambda P, x: x.roll(2), [(3, 4)]),
    ("roll_dims", lambda P, x: P.roll(x, (1, -1), (0, 1)), [(3, 4)]),
    ("pad", lambda P, x: F(P).pad(x, (1, 2, 0, 3), value=1.5), [(2, 3)]),
    ("pad_cut", lambda P, x: F(P).pad(x, (-1, 2)), [(2, 3)]),
    *((f"pad_{m}", lambda P, x, m=m: F(P).pad(x, (2, 1, 1, 2), mode=m), [(1, 2, 3, 4)]) for m in
      ("reflect", "replicate", "circular")),
    ("unfold", lambda P, x: x.unfold(1, 3, 2), [(2, 8, 3)]),
    ("meshgrid", lambda P, a, b: P.meshgrid(a, b, indexing="ij")[1] * 2, [(3,), (4,)]),
    ("meshgrid_xy", lambda P, a, b: P.meshgrid(a, b, indexing="xy")[0] * 2, [(3,), (4,)]),
    ("diagonal", lambda P, x: x.diagonal(1, 0, 2) * 2, [(3, 2, 4)]),
    ("diagonal_below", lambda P, x: P.diagonal(x, -1), [(4, 3, 2)]),
    ("diagonal_empty", lambda P, x: x.diagonal(5), [(3, 4)]),
    ("diag", lambda P, x: x.diag(-1), [(4, 4)]),
    ("diag_vector", lambda P, x: x.diag(1), [(3,)]),
    ("diag_embed", lambda P, x: P.diag_embed(x, -1), [(2, 3)]),
    ("take_along_dim", lambda P, x, i: x.take_along_dim(i, 1), [(3, 5), ("ints", 5, (1, 2))]),
    ("take_along_flat", lambda P, x, i: P.take_along_dim(x, i), [(3, 5), ("ints", 15, (4,))]),
    ("index_add", lambda P, x, i, s: x.index_add(1, i, s, alpha=2), [(2, 4), ("ints", 4, (6,)), (2, 6)]),
    ("masked_select", lambda P, x, m: x.masked_select(m), [(3, 4), ("bools", (4,))]),
    ("nonzero", lambda P, m: m.nonzero(), [("bools", (3, 4))]),
    ("nonzero_tuple", lambda P, m: P.nonzero(m, as_tuple=True)[1], [("bools", (3, 4))]),
    ("movedim", lambda P, x: x.movedim((0, 2), (1, 0)) * 2, [(2, 3, 4)]),
    ("swapaxes", lambda P, x: P.swapaxes(x, 0, 1) * 2, [(2, 3)]),
    ("unflatten", lambda P, x: x.unflatten(1, (2, -1)) * 2, [(2, 6)]),
    ("unbind", lambda P, x: x.unbind(1)[2] * 2, [(2, 3, 4)]),
    ("repeat_interleave", lambda P, x: x.repeat_interleave(2, dim=1), [(2, 3)]),
    ("repeat_each", lambda P, x, i: x.repeat_interleave(i, 0), [(4, 3), ("ints", 3, (4,))]),
    ("broadcast_tensors", lambda P, a, b: P.broadcast_tensors(a, b)[1] * 2, [(2, 3), (3,)]),
    ("hstack", lambda P, a, b: P.hstack([a, b]), [(2, 3), (2, 1)]),
    ("vstack", lambda P, a, b: P.vstack([a, b]), [(3,), (2, 3)]),
]  # fmt: skip

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
LINALG: list[Case] = [
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
]

CONVOLUTIONS: list[Case] = [
    ("conv1d", lambda P, x, w, b: F(P).conv1d(x, w, b), [(2, 3, 8), (4, 3, 3), (4,)]),
    ("conv1d_step", lambda P, x, w: F(P).conv1d(x, w, None, 2, 3, 2), [(2, 2, 9), (3, 2, 3)]),
    ("conv1d_same", lambda P, x, w: F(P).conv1d(x, w, padding="same"), [(3, 9), (2, 3, 4)]),
    ("conv1d_groups", lambda P, x, w, b: F(P).conv1d(x, w, b, groups=2), [(2, 4, 7), (6, 2, 3), (6,)]),
    ("conv2d", lambda P, x, w, b: F(P).conv2d(x, w, b, padding=1), [(2, 3, 5, 6), (4, 3, 3, 3), (4,)]),
    (
        "conv2d_all",
        lambda P, x, w, b: F(P).conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        [(2, 4, 7, 6), (4, 2, 3, 2), (4,)],
    ),
    ("conv2d_depthwise", lambda P, x, w: F(P).conv2d(x, w, groups=3), [(1, 3, 5, 5), (3, 1, 3, 3)]),
    ("conv2d_no_batch", lambda P, x, w: F(P).conv2d(x, w), [(0, 2, 5, 5), (3, 2, 3, 3)]),
    ("conv3d", lambda P, x, w: F(P).conv3d(x, w, stride=2, padding=1), [(1, 2, 4, 5, 3), (2, 2, 2, 3, 2)]),
    ("max_pool1d", lambda P, x: F(P).max_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    ("max_pool2d", lambda P, x: F(P).max_pool2d(x, 2), [(2, 3, 5, 6)]),
    ("max_pool2d_apart", lambda P, x: F(P).max_pool2d(x, (3, 2), (1, 2), 1, 2), [(1, 2, 7, 8)]),
    ("avg_pool1d", lambda P, x: F(P).avg_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    ("avg_pool2d", lambda P, x: F(P).avg_pool2d(x, 3, 2, 1, count_include_pad=False), [(2, 3, 5, 6)]),
]
CASES: list[Case] = SPECIAL + REDUCTIONS + SHAPES + LINALG + CONVOLUTIONS
