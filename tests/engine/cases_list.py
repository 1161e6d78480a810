"""The rest of torch's list: activations, elementwise functions, shapes, indices, decompositions, attention, norms."""

from __future__ import annotations

from typing import Any

from .cases import Case
from .cases_more import F, spd


def N(P: Any) -> Any:
    return P.nn.functional


ACTIVATIONS: list[Case] = [
    *(
        (n, lambda P, x, n=n: getattr(F(P), n)(x * 3), [(4, 5)])
        for n in ("relu6", "hardsigmoid", "hardswish", "celu", "selu", "logsigmoid", "softsign", "tanhshrink")
    ),
    ("celu_alpha", lambda P, x: F(P).celu(x, 0.5), [(4, 5)]),
    ("glu", lambda P, x: F(P).glu(x, 0), [(4, 5)]),
    ("softshrink", lambda P, x: F(P).softshrink(x, 0.3), [(4, 5)]),
    ("hardshrink", lambda P, x: F(P).hardshrink(x, 0.3), [(4, 5)]),
    ("threshold", lambda P, x: F(P).threshold(x, 0.2, 7.0), [(4, 5)]),
    ("prelu", lambda P, x, w: F(P).prelu(x, w), [(2, 3, 4), (3,)]),
    ("prelu_one", lambda P, x, w: F(P).prelu(x, w), [(4, 5), (1,)]),
    ("rrelu", lambda P, x: F(P).rrelu(x), [(4, 5)]),
    ("softmin", lambda P, x: F(P).softmin(x, dim=0), [(4, 5)]),
    ("one_hot", lambda P, i: F(P).one_hot(i, 6), [("ints", 5, (2, 3))]),
    ("normalize", lambda P, x: F(P).normalize(x, 3.0, 0), [(4, 5)]),
    ("softmax_dtype", lambda P, x: F(P).softmax(x, dim=-1, dtype=P.float64).to(P.float32), [(4, 5)]),
]

ELEMENTWISE: list[Case] = [
    *((n, lambda P, x, n=n: getattr(P, n)(x * 2), [(4, 5)]) for n in ("deg2rad", "rad2deg", "sinc", "absolute", "sgn",
      "square", "positive", "isposinf")),
    ("erfc", lambda P, x: (x * 4).erfc(), [(4, 5)]),
    ("copysign", lambda P, a, b: P.copysign(a, b), [(3, 4), (4,)]),
    ("gcd", lambda P, a, b: P.gcd(a, b), [("ints", 40, (3, 4)), ("ints", 40, (4,))]),
    ("lcm", lambda P, a, b: P.lcm(a, b), [("ints", 40, (3, 4)), ("ints", 40, (4,))]),
    ("heaviside", lambda P, a, b: P.heaviside(a.detach(), b.detach()), [(3, 4), (4,)]),
    ("fmax", lambda P, a, b: P.fmax((a * 3).log(), b), [(3, 4), (4,)]),
    ("fmin", lambda P, a, b: P.fmin(a, (b * 3).log()), [(3, 4), (4,)]),
    ("ldexp", lambda P, a, i: P.ldexp(a, i), [(3, 4), ("ints", 5, (4,))]),
    ("logaddexp2", lambda P, a, b: P.logaddexp2(a, b), [(3, 4), (4,)]),
    ("logit", lambda P, x: P.logit(x * 0.7, eps=0.2), [("positive", (3, 4))]),
    ("xlogy", lambda P, a, b: P.xlogy(a * (a > 0.5), b), [("positive", (3, 4)), ("positive", (4,))]),
    ("polygamma", lambda P, x: P.polygamma(1, x), [("positive", (3, 4))]),
    ("polygamma_3", lambda P, x: P.polygamma(3, x), [("positive", (3, 4))]),
    ("isclose", lambda P, a: P.isclose(a, a * 1.00001, rtol=1e-4), [(3, 4)]),
    ("clip", lambda P, x: P.clip(x, -0.5, max=0.5), [(3, 4)]),
    ("clamp_tensors", lambda P, x, a: P.clamp(x, min=a, max=a + 1), [(3, 4), (4,)]),
    ("rsub", lambda P, x: P.rsub(x, 3.0, alpha=2), [(3, 4)]),
    ("dist", lambda P, a, b: P.dist(a, b, 3.0), [(3, 4), (3, 4)]),
    ("float_power", lambda P, x: P.float_power(x, 1.5).to(P.float32), [("positive", (3, 4))]),
    ("frexp", lambda P, x: P.frexp(x.detach())[1], [(3, 4)]),
    ("round_decimals", lambda P, x: P.round(x * 10, decimals=1).detach(), [(3, 4)]),
]  # fmt: skip

SHAPES: list[Case] = [
    ("atleast_3d", lambda P, x: P.atleast_3d(x) * 2, [(3,)]),
    ("dstack", lambda P, a, b: P.dstack([a, b]), [(2, 3), (2, 3)]),
    ("column_stack", lambda P, a, b: P.column_stack([a, b]), [(3,), (3, 2)]),
    ("tensor_split", lambda P, x: P.tensor_split(x, 3, 1)[1] * 2, [(2, 7)]),
    ("tensor_split_at", lambda P, x: x.tensor_split((1, -2))[1] * 2, [(7, 2)]),
    ("hsplit", lambda P, x: P.hsplit(x, [2])[0] * 2, [(2, 5)]),
    ("fliplr", lambda P, x: P.fliplr(x), [(2, 3)]),
    *((f"rot90_{k}", lambda P, x, k=k: P.rot90(x, k, (0, 2)) * 1, [(2, 3, 4)]) for k in (-1, 0, 1, 2)),
    ("block_diag", lambda P, a, b: P.block_diag(a, b, a), [(2, 3), (2,)]),
    ("cartesian_prod", lambda P, a, b: P.cartesian_prod(a, b), [(3,), (2,)]),
    ("combinations", lambda P, a: P.combinations(a, 3), [(5,)]),
    ("tril_indices", lambda P, x: P.tril_indices(3, 4, 1), [()]),
    ("triu_indices", lambda P, x: P.triu_indices(3, 4, -1), [()]),
    ("logspace", lambda P, x: P.logspace(-1, 2, 5) + x * 0, [()]),
    ("kron", lambda P, a, b: P.kron(a, b), [(2, 3), (4, 2)]),
    ("tensordot", lambda P, a, b: P.tensordot(a, b, 2), [(2, 3, 4), (3, 4, 5)]),
    ("tensordot_dims", lambda P, a, b: P.tensordot(a, b, dims=([2, 0], [0, 1])), [(2, 3, 4), (4, 2, 5)]),
    ("diff", lambda P, x: x.diff(2, 0), [(5, 3)]),
    ("diff_ends", lambda P, x, a: P.diff(x, prepend=a), [(2, 3), (2, 1)]),
    ("trapezoid", lambda P, y, x: P.trapezoid(y, x), [(2, 5), (5,)]),
    ("trapezoid_steps", lambda P, y: P.trapezoid(y, dx=0.5, dim=0), [(4, 3)]),
    ("vander", lambda P, x: P.vander(x.detach(), 4, increasing=True), [(3,)]),
    ("cov", lambda P, x: P.cov(x), [(3, 6)]),
    ("corrcoef", lambda P, x: P.corrcoef(x), [(3, 6)]),
    ("cdist", lambda P, a, b: P.cdist(a, b, p=1.0), [(2, 3, 4), (2, 5, 4)]),
    ("cdist_2", lambda P, a, b: P.cdist(a, b), [(3, 4), (5, 4)]),
    ("pdist", lambda P, x: F(P).pdist(x), [(4, 3)]),
    ("diagflat", lambda P, x: P.diagflat(x, 1), [(2, 2)]),
    ("as_strided", lambda P, x: P.as_strided(x.detach().contiguous(), (2, 3), (1, 2), 1), [(3, 4)]),
    ("narrow_more", lambda P, x: P.narrow(x.transpose(0, 1), 0, 1, 2) * 2, [(3, 4)]),
    ("squeeze_many", lambda P, x: x.squeeze((0, 2)) * 2, [(1, 3, 1, 1)]),
    ("unsqueeze_end", lambda P, x: P.unsqueeze(x, -1) * 2, [(2, 3)]),
]

INDICES: list[Case] = [
    ("index_fill", lambda P, x: x.index_fill(1, P.tensor([0, 2]), 5.0), [(3, 4)]),
    ("index_copy", lambda P, x, y: x.index_copy(0, P.tensor([2, 0]), y), [(3, 4), (2, 4)]),
    ("index_put", lambda P, x, y: x.index_put((P.tensor([0, 2]), P.tensor([1, 1])), y), [(3, 4), (2,)]),
    (
        "index_put_add",
        lambda P, x, y: P.index_put(x, (P.tensor([0, 2, 0]), P.tensor([1, 1, 1])), y, accumulate=True),
        [(3, 4), (3,)],
    ),
    ("masked_scatter", lambda P, x, m, y: x.masked_scatter(m, y), [(3, 4), ("bools", (3, 4)), (12,)]),
    ("take", lambda P, x, i: P.take(x, i), [(3, 4), ("ints", 12, (2, 3))]),
    *(
        (
            f"scatter_reduce_{r}_{own}",
            lambda P, x, i, s, r=r, own=own: x.scatter_reduce(0, i, s, r, include_self=own),
            [("positive", (4, 3)), ("ints", 4, (5, 3)), ("positive", (5, 3))],
        )
        for r in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    ),
    ("scatter_value", lambda P, x, i: x.scatter(1, i, 3.0), [(3, 5), ("ints", 5, (3, 2))]),
    ("scatter_", lambda P, x, i, s: (x * 1).scatter_(0, i, s), [(1, 3), ("ints", 1, (1, 3)), (1, 3)]),
    ("bincount", lambda P, i: P.bincount(i, minlength=7), [("ints", 5, (9,))]),
    ("bincount_weights", lambda P, i, w: P.bincount(i, w.detach()), [("ints", 5, (9,)), (9,)]),
    ("histc", lambda P, x: P.histc(x.detach(), 5, -2, 2), [(30,)]),
    ("searchsorted", lambda P, x, v: P.searchsorted(x.sort(-1)[0], v, right=True), [(2, 6), (2, 3)]),
    ("bucketize", lambda P, x: P.bucketize(x, P.tensor([-1.0, 0.0, 0.5])), [(3, 4)]),
    ("isin", lambda P, i: P.isin(i, P.tensor([1, 3])), [("ints", 5, (3, 4))]),
    ("mode", lambda P, i: P.mode(i, 1)[0], [("ints", 3, (4, 6))]),
    ("unique_consecutive", lambda P, i: P.unique_consecutive(i, return_counts=True)[1], [("ints", 2, (9,))]),
    ("std_mean", lambda P, x: P.std_mean(x, 1)[0], [(3, 4)]),
    ("logcumsumexp", lambda P, x: x.logcumsumexp(1), [(3, 4)]),
    ("nanmedian", lambda P, x: P.nanmedian(P.where(x > 1, x * float("nan"), x), 1)[0], [(3, 5)]),
    ("topk_smallest", lambda P, x: x.topk(2, 0, largest=False)[0], [(5, 3)]),
    ("max_other", lambda P, a, b: P.max(a, b), [(3, 4), (4,)]),
    ("sort_indices", lambda P, x: P.sort(x, dim=0, descending=True, stable=True)[1], [(5, 3)]),
    ("var_unbiased", lambda P, x: x.var(1, unbiased=False), [(3, 4)]),
    ("std_unbiased", lambda P, x: P.std(x, unbiased=True), [(3, 4)]),
    ("sum_axis", lambda P, x: x.sum(axis=1, keepdim=True), [(3, 4)]),
    ("mean_dtype", lambda P, i: P.mean(i, dtype=P.float32), [("ints", 9, (3, 4))]),
    ("prod_dtype", lambda P, i: P.prod(i, 1, dtype=P.float32), [("ints", 9, (3, 4))]),
    ("cumsum_dtype", lambda P, i: P.cumsum(i, 0, dtype=P.float32), [("ints", 9, (3, 4))]),
    ("all_dim", lambda P, m: P.all(m, dim=1, keepdim=True), [("bools", (3, 4))]),
    ("eq_tensor", lambda P, a: a.eq(a.round()), [(3, 4)]),
]

LINALG: list[Case] = [
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
]


def _softcapped(P: Any, q: Any, k: Any, v: Any) -> Any:
    if P.__name__ == "pyapp":
        return P.scaled_dot_product_attention(q, k, v, is_causal=True, softcap=0.7, window=(2, -1))
    scores = P.tanh(q @ k.mT / 2 / 0.7) * 0.7
    apart = P.arange(k.shape[-2]) - P.arange(q.shape[-2])[:, None]
    return scores.masked_fill((apart > 0) | (apart < -2), float("-inf")).softmax(-1) @ v


QKV = [(2, 4, 5, 4), (2, 4, 5, 4), (2, 4, 5, 4)]
GROUPED = [(2, 4, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3)]
ATTENTION: list[Case] = [
    ("sdpa", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v), QKV),
    ("sdpa_causal", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True), QKV),
    ("sdpa_scale", lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, scale=0.3), QKV),
    (
        "sdpa_shapes",
        lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True),
        [(3, 5, 4), (3, 6, 4), (3, 6, 2)],
    ),
    (
        "sdpa_mask",
        lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, (m > -1.5)),
        [*QKV, (5, 5)],
    ),
    ("sdpa_added", lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, m), [*QKV, (2, 1, 5, 5)]),
    (
        "sdpa_grouped",
        lambda P, q, k, v: F(P).scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        GROUPED,
    ),
    (
        "sdpa_grouped_mask",
        lambda P, q, k, v, m: F(P).scaled_dot_product_attention(q, k, v, m, enable_gqa=True),
        [*GROUPED, (2, 4, 5, 6)],
    ),
    ("sdpa_softcap_window", _softcapped, QKV),
]

NORMS: list[Case] = [
    ("layer_norm_dims", lambda P, x, w, b: N(P).layer_norm(x, (3, 4), w, b), [(2, 3, 4), (3, 4), (3, 4)]),
    ("layer_norm_plain", lambda P, x: N(P).layer_norm(x, [4]), [(2, 3, 4)]),
    ("layer_norm_last", lambda P, x, w, b: N(P).layer_norm(x, (4,), w, b, 1e-3), [(2, 3, 4), (4,), (4,)]),
    ("rms_norm_last", lambda P, x, w: N(P).rms_norm(x, (4,), w), [(2, 3, 4), (4,)]),
    ("rms_norm_dims", lambda P, x: N(P).rms_norm(x, (3, 4), eps=1e-2), [(2, 3, 4)]),
    ("group_norm", lambda P, x, w, b: N(P).group_norm(x, 2, w, b), [(2, 4, 5), (4,), (4,)]),
    ("batch_norm", lambda P, x, w, b: N(P).batch_norm(x, None, None, w, b, True), [(4, 3, 2), (3,), (3,)]),
    (
        "batch_norm_running",
        lambda P, x, m, v: N(P).batch_norm(x, m.detach(), v.detach()),
        [(4, 3), (3,), ("positive", (3,))],
    ),
    ("instance_norm", lambda P, x, w, b: N(P).instance_norm(x, weight=w, bias=b), [(2, 3, 4, 2), (3,), (3,)]),
    ("local_response_norm", lambda P, x: N(P).local_response_norm(x, 3, 0.1, 0.5, 2.0), [(2, 5, 4)]),
]
CASES: list[Case] = ACTIVATIONS + ELEMENTWISE + SHAPES + INDICES + LINALG + ATTENTION + NORMS
