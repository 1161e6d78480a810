"""Tensors without dims or elements, infinities, poles, equal elements, and factors of integers
(see cases_corners.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INF, NAN = float("inf"), float("nan")
Case = Callable[[Any], Any]


def sloped(P: Any, function: Any, *values: Any) -> Any:
    """The value, or all values, and the gradient of their sum."""
    x = P.tensor(values[0] if len(values) == 1 else list(values), dtype=P.float64).requires_grad_()
    found = function(x)
    parts = [part for part in (found if isinstance(found, tuple) else [found]) if part.requires_grad]
    sum(part.sum() for part in parts).backward()
    return [*parts, x.grad]


def whole(P: Any, *shape: int) -> Any:
    return P.ones(shape, dtype=P.int64)


def at(P: Any, *places: int) -> Any:
    return P.tensor(list(places)) if len(places) > 1 else P.tensor(*places)


WITHOUT_DIMS: dict[str, Case] = {
    "slope of running sums of a number": lambda P: [
        sloped(P, f, 2.0) for f in (lambda x: x.cumsum(0), lambda x: x.cumprod(-1), lambda x: x.logcumsumexp(0))
    ],
    "slope of sorting a number": lambda P: [
        sloped(P, f, 2.0) for f in (lambda x: x.sort()[0], lambda x: x.max(0)[0], lambda x: x.min(-1)[0],
                                    lambda x: x.msort(), lambda x: x.topk(1)[0], lambda x: x.nanmedian(0)[0],
                                    lambda x: x.nanquantile(0.5, 0), lambda x: x.median(0)[0])
    ],
    "flip of a number": lambda P: (sloped(P, lambda x: x.flip(0), 2.0), sloped(P, lambda x: x.flip((-1,)), 2.0)),
    "unfold of a number": lambda P: (sloped(P, lambda x: x.unfold(0, 1, 1), 2.0), P.tensor(3).unfold(-1, 1, 2)),
    "turns of a number": lambda P: [
        f(P.tensor(2.0)) for f in (lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 0), lambda x: x.adjoint(),
                                   lambda x: x.mT, lambda x: x.t())
    ],
    "where a number is": lambda P: [*P.where(P.tensor(2.0) > 0), *P.tensor(0).nonzero(as_tuple=True)],
    "gather of a number": lambda P: (
        sloped(P, lambda x: x.gather(0, at(P, 0)), 2.0), sloped(P, lambda x: x.gather(-1, at(P, 0, 0)), 2.0)
    ),
    "scatter to a number": lambda P: [
        P.tensor(2.0).scatter_add(0, at(P, 0), P.tensor(5.0)), P.tensor(2.0).scatter(0, at(P, 0), P.tensor(5.0)),
        *(P.tensor(2.0).scatter_reduce(0, at(P, 0), P.tensor(5.0), r) for r in ("sum", "mean", "prod", "amin")),
    ],
    "slope of scatter to a number": lambda P: sloped(
        P, lambda x: P.tensor(2.0, dtype=P.float64).scatter(0, at(P, 0), x) * 3, 5.0
    ),
    "index_add to a number": lambda P: sloped(P, lambda x: x.index_add(0, at(P, 0), x * 2), 2.0),
    "index_copy to a number": lambda P: sloped(P, lambda x: x.index_copy(0, at(P, 0), x * 2), 2.0),
    "index_copy of a number": lambda P: P.zeros(3).index_copy(0, at(P, 1), P.tensor(5.0)),
    "index_fill of a number": lambda P: sloped(P, lambda x: x.index_fill(0, at(P, 0), 5.0) + x, 2.0),
    "losses of a number": lambda P: [
        P.nn.functional.multi_margin_loss(P.tensor(2.0), P.tensor(0)),
        P.nn.functional.multilabel_margin_loss(P.tensor(2.0), P.tensor(0)),
        P.nn.functional.prelu(P.tensor(-2.0), P.tensor([0.1])),
    ],
    "frexp": lambda P: (sloped(P, lambda x: x.frexp()[0], 3.0, -0.2), P.tensor([3.0, 0.0, -8.0]).frexp()[1]),
}  # fmt: skip
SPECIAL: dict[str, Case] = {
    "slope of 0 ** x": lambda P: sloped(P, lambda x: P.zeros(4, dtype=P.float64) ** x, -2.0, -0.5, 0.0, 1.5),
    "variance of too few": lambda P: (
        sloped(P, lambda x: x.var(correction=3), 1.0, 2.0, 4.0), sloped(P, lambda x: x.var(correction=4), 1.0, 2.0, 3.0)
    ),
    "polygamma": lambda P: [
        sloped(P, lambda x, n=n: P.special.polygamma(n, x), -2.5, -0.3, 0.25, 1.5, 30.0) for n in (1, 2, 3, 6)
    ],
    "polygamma at poles": lambda P: [P.special.polygamma(n, P.tensor([0.0, -1.0, -2.0])) for n in (2, 3, 4)],
    "ndtri": lambda P: sloped(P, P.special.ndtri, 1e-200, 1e-30, 1e-3, 0.02, 0.4, 0.98, 0.999999, 1.0),
    "softplus at its limit": lambda P: sloped(P, lambda x: P.nn.functional.softplus(x, 2.0, 5.0), 2.4, 2.5, 2.6),
    "logaddexp of large numbers": lambda P: sloped(
        P, lambda x: P.logaddexp(x, P.tensor([1e30, -INF, 5.0, 0.0], dtype=P.float64)), 1e30, 2.0, -INF, 800.0
    ),
    "running logarithms far apart": lambda P: sloped(P, lambda x: x.logcumsumexp(0), -1000.0, 0.0, 1000.0, 1e300),
    "lerp to its end": lambda P: [
        P.tensor([1e30, 1.0]).lerp(P.tensor([2.0, -1e30]), w) for w in (0.25, 1.0, P.tensor([0.25, 1.0]))
    ],
    "mode beside NaN": lambda P: list(P.mode(P.tensor([NAN, 3.0, 1.0, 1.0, 3.0]))),
    "margins that are met": lambda P: [
        sloped(P, lambda x: P.nn.functional.hinge_embedding_loss(x, P.tensor([-1.0, -1.0, 1.0])), 1.0, 2.0, 1.0),
        sloped(P, lambda x: P.nn.functional.margin_ranking_loss(x, x.detach(), P.ones(2)), 1.0, 2.0),
        sloped(P, lambda x: P.nn.functional.triplet_margin_loss(x, x.detach() + 1, x.detach() - 3), 1.0),
    ],
    "kl_div of a negative target": lambda P: P.nn.functional.kl_div(
        P.zeros(3), P.tensor([-1.0, 0.0, 2.0]), reduction="none"
    ),
    "multi_margin_loss of infinities": lambda P: [
        P.nn.functional.multi_margin_loss(P.tensor([[x, 1.0, 2.0]]), P.tensor([t])) for x in (INF, -INF) for t in (0, 1)
    ],
}  # fmt: skip
FACTORS: dict[str, Case] = {
    "addmm of integers": lambda P: [
        P.addmm(whole(P, 2, 2), whole(P, 2, 2), whole(P, 2, 2), beta=b, alpha=a) for a, b in ((0.5, 1), (3, 2.0))
    ],
    "addmv of integers": lambda P: P.addmv(whole(P, 2), whole(P, 2, 2), whole(P, 2), beta=1.5),
    "baddbmm of integers": lambda P: P.baddbmm(whole(P, 1, 2, 2), whole(P, 1, 2, 2), whole(P, 1, 2, 2), alpha=1.5),
    "addbmm of integers": lambda P: P.addbmm(whole(P, 2, 2), whole(P, 1, 2, 2), whole(P, 1, 2, 2), beta=0.5),
    "addcmul of integers": lambda P: P.addcmul(whole(P, 2), whole(P, 2), whole(P, 2), value=1.5),
    "addr of integers": lambda P: P.addr(whole(P, 2, 2), whole(P, 2), whole(P, 2), alpha=0.5),
    "addr of NaN": lambda P: P.addr(P.full((2, 2), NAN), P.ones(2), P.ones(2), beta=0),
    "rsub of integers": lambda P: P.rsub(whole(P, 2), whole(P, 2), alpha=0.5),
    "lerp of integers": lambda P: P.lerp(whole(P, 2), whole(P, 2), 0.5),
    "frexp of integers": lambda P: P.frexp(whole(P, 2)),
    "logaddexp of integers": lambda P: P.logaddexp(whole(P, 2), whole(P, 2)),
    "positive of bools": lambda P: P.positive(P.tensor([True])),
}
NOTHING: dict[str, Case] = {
    "cat of an empty float": lambda P: [
        P.cat([whole(P, 2), P.zeros(0)]), P.cat([P.zeros(0), whole(P, 2, 2)]),
        P.cat([P.tensor([True]), P.zeros(0, dtype=P.int64)]), P.hstack([P.zeros(0, dtype=P.int64), P.zeros(0)]),
    ],
    "trapezoid of nothing": lambda P: [
        P.trapezoid(P.zeros(0)), P.trapezoid(P.zeros(2, 0)), P.trapezoid(P.zeros(0, 2), dim=0),
        P.cumulative_trapezoid(P.zeros(0)),
    ],
    "products over nothing": lambda P: [
        P.inner(P.zeros(2, 0), P.zeros(3, 0)), P.inner(P.zeros(0), P.zeros(0)), P.inner(P.zeros(0, 2), P.zeros(3, 2)),
        P.tensordot(P.zeros(2, 0), P.zeros(0, 3), 1), P.addbmm(P.ones(2, 3), P.zeros(0, 2, 4), P.zeros(0, 4, 3)),
    ],
    "choices of nothing": lambda P: [
        P.combinations(P.tensor([1.0, 2.0]), 0), P.combinations(P.zeros(0), 2, True), P.combinations(P.zeros(1), 3),
    ],
    "bincount of nothing": lambda P: P.bincount(P.zeros(0, dtype=P.int64), P.zeros(0), minlength=2),
}  # fmt: skip
KEYWORDS: dict[str, Case] = {
    "sums without NaN, in a dtype": lambda P: [
        P.nansum(P.tensor([1.5, NAN, 2.0]), dtype=P.float64), P.nansum(P.tensor([1.5, NAN]), dtype=P.int32),
        P.nanmean(P.tensor([1.5, NAN]), dtype=P.float64),
        P.nansum(P.tensor([[1.0, NAN], [2.0, 3.0]]), 1, dtype=P.float64),
    ],
    "diag_embed in other dims": lambda P: [
        P.diag_embed(P.arange(6.0).reshape(2, 3), dim1=0, dim2=1), P.diag_embed(P.arange(6.0).reshape(2, 3), 1, 0, 2),
        P.diag_embed(P.arange(6.0).reshape(2, 3), -1, dim1=-1, dim2=-2),
    ],
    "diag_embed in one dim": lambda P: P.diag_embed(P.ones(2, 3), dim1=1, dim2=-2),
    "nanquantile between": lambda P: [
        P.nanquantile(P.tensor([[3.0, NAN, 1.0], [4.0, 2.0, 9.0]]), q, 1, interpolation=way)
        for way in ("linear", "lower", "higher", "midpoint", "nearest") for q in (0.3, P.tensor([0.0, 0.8]))
    ],
    "nanquantile of all": lambda P: P.nanquantile(
        P.tensor([[3.0, NAN], [4.0, 2.0]]), P.tensor([0.1, 0.5]), keepdim=True
    ),
    "searchsorted by a sorter": lambda P: [
        P.searchsorted(P.tensor([3.0, 1.0, 2.0]), P.tensor([2.0, 0.0, 9.0]), sorter=P.tensor([1, 2, 0])),
        P.searchsorted(P.tensor([[3, 1], [5, 6]]), P.tensor([[2], [6]]), sorter=P.tensor([[1, 0], [0, 1]]), right=True),
    ],
    "searchsorted by a bad sorter": lambda P: P.searchsorted(P.tensor([1, 2]), P.tensor([1]), sorter=P.tensor([0, 2])),
    "norm without p": lambda P: (P.norm(P.tensor([3.0, 4.0]), p=None), P.tensor([[3.0], [4.0]]).norm(None, 0)),
    "nan_to_num without nan": lambda P: P.nan_to_num(P.tensor([NAN, 1.0]), nan=None),
    "nan_to_num of infinities": lambda P: [
        P.nan_to_num(P.tensor([NAN, INF, -INF, -2.5], dtype=getattr(P, kind)))
        for kind in ("float32", "float64", "float16", "bfloat16")
    ],
    "multi_margin_loss beside NaN": lambda P: P.nn.functional.multi_margin_loss(
        P.tensor([[NAN, 0.5, 2.0], [INF, 1.0, -INF], [NAN, 1.0, INF]]), P.tensor([1, 0, 0]), reduction="none"
    ),
    "i0_": lambda P: P.tensor([1.0, 2.0]).i0_(),
    "combinations of many": lambda P: P.combinations(P.arange(12), 4).sum(0),
    "einsum of many": lambda P: P.einsum(
        "ab,bc,cd,d,a->", *(P.arange(1.0, 13.0)[: m * n].reshape(m, n) for m, n in ((2, 3), (3, 2), (2, 4))),
        P.arange(4.0), P.arange(2.0),
    ),
    "einsum of many vectors": lambda P: P.einsum("a,b,c,d,e,f->e", *(P.ones(1000) for _ in range(6))) * 1e-15,
}  # fmt: skip
POOLS: dict[str, Case] = {
    f"adaptive {kind} pool to {size} of {shape}": lambda P, k=kind, d=dims, s=size, n=shape: sloped(
        P, lambda x: getattr(P.nn.functional, f"adaptive_{k}_pool{d}d")(x, s),
        [[[(i * 7 + 3) % 11 - 4.0 for i in range(n)]] if d == 1 else
         [[(i * j * 7 + 3) % 11 - 4.0 for i in range(n)] for j in range(5)]],
    )
    for kind in ("max", "avg") for dims, size, shape in ((1, 3, 7), (1, 20, 7), (2, (3, 9), 7))
}  # fmt: skip
_AROUND_NAN = (INF, -INF, -1.0, 0.0, 0.5, 1.0, 7.0, NAN)
_SLOPES: dict[str, Any] = {
    name: lambda F, x, n=name: getattr(F, n)(x)
    for name in "relu elu selu celu hardsigmoid hardswish leaky_relu".split()  # of others torch has two slopes at NaN
}
_SLOPES |= {
    f"clamp to {low} .. {high}": lambda F, x, low=low, high=high: x.clamp(low, high)
    for low, high in ((-1.0, 1.0), (0.0, None), (None, 0.5), (NAN, 1.0), (0.0, NAN))
}
_SLOPES |= {
    f"{name} with NaN": lambda F, x, n=name: getattr(x, n)(x.detach().flip(0)) + getattr(x.detach().flip(0), n)(x)
    for name in ("maximum", "minimum", "fmax", "fmin")
}
SLOPES_AT_NAN: dict[str, Case] = {
    f"slope of {name}": lambda P, f=function: sloped(P, lambda x: f(P.nn.functional, x), *_AROUND_NAN)
    for name, function in _SLOPES.items()
}
SLOPES_AT_NAN |= {
    "slope of clamp to tensors": lambda P: [
        sloped(
            P,
            lambda x, low=low, high=high: x.clamp(P.tensor(low, dtype=P.float64), P.tensor(high, dtype=P.float64)),
            *_AROUND_NAN,
        )
        for low, high in ((0.0, 1.0), (NAN, 1.0), (0.0, NAN))
    ],
    "slope of limits at NaN": lambda P: [
        sloped(P, lambda v, f=f: f(P.tensor(_AROUND_NAN, dtype=P.float64), v), 0.0, 0.0, 0.0, 0.0, NAN, 2.0, NAN, 0.0)
        for f in (lambda x, v: x.clamp(v, v + 1), lambda x, v: x.clamp(min=v), lambda x, v: x.clamp(max=v))
    ],
    "infinite slope behind relu": lambda P: sloped(P, lambda x: (P.relu(x) * INF)[2:], 1.0, 2.0, -1.0),
}
ROOTS: dict[str, Case] = {
    f"power {p} of special values": lambda P, p=p: [
        sloped(P, lambda x: x**p, 0.0, -0.0, INF, -INF, NAN, -2.0, 4.0),
        1 / P.tensor([0.0, -0.0, 4.0]) ** p,
    ]
    for p in (0.5, -0.5, -1, 2, 3)
}
ROOTS["roots of integers"] = lambda P: [P.tensor([4, 9]) ** 0.5, P.tensor([4, 16]) ** -0.5]
RANDOM: dict[str, Case] = {
    f"randint {low} .. {high} in {dtype}": lambda P, low=low, high=high, d=dtype: P.randint(
        low, high, (3,), dtype=getattr(P, d)
    ).ge(low)
    for low, high, dtype in (
        (0, 2**64, "int64"), (-(2**64), 0, "int64"), (-(2**63), 2**63 - 1, "int64"), (0, 300, "uint8"),
        (0, 256, "uint8"), (-1, 5, "uint8"), (0, 2**40, "int32"), (-128, 128, "int8"), (0, 70000, "float16"),
        (0, 3, "bool"), (0, 2, "bool"),
    )
}  # fmt: skip
RANDOM |= {
    f"{name} of integers": lambda P, n=name: getattr(P.tensor([1, 2]), n)()
    for name in ("uniform_", "normal_", "exponential_", "log_normal_", "cauchy_")
}
RANDOM |= {
    "normal of negative deviations": lambda P: P.normal(P.zeros(2), P.tensor([1.0, -1.0])),
    "normal of no deviations": lambda P: P.normal(P.zeros(0), P.zeros(0)),
    "bernoulli_ of 2": lambda P: P.zeros(2).bernoulli_(2.0),
    "bernoulli_ of a tensor of 2": lambda P: P.zeros(2).bernoulli_(P.tensor([0.5, 2.0])),
}
ARGUMENTS: dict[str, Case] = {
    "arange of fractions in integers": lambda P: [
        P.arange(0, 3, 1.7, dtype=P.int64), P.arange(0, 3, 1.7, dtype=P.int32), P.arange(-0.5, 3.5, dtype=P.int32),
        P.arange(0.5, 3.5, dtype=P.int64), P.arange(5.5, 0.2, -1.5, dtype=P.int16),
    ],
    "arange by less than 1 in integers": lambda P: P.arange(0, 3, 0.7, dtype=P.int64),
    "norms in a dtype": lambda P: [
        P.norm(P.tensor([3.0, 4.0]), dtype=P.float64), P.linalg.vector_norm(P.tensor([1.0, 2.0]), 3, dtype=P.float64),
        P.linalg.matrix_norm(P.tensor([[1.0, 2.0]]), dtype=P.float64),
    ],
    "gather beyond the other dims": lambda P: P.zeros(3, 4).gather(1, P.zeros(4, 1, dtype=P.int64)),
    "scatter beyond the other dims": lambda P: P.zeros(3, 4).scatter(1, P.zeros(4, 1, dtype=P.int64), 1.0),
    "sizes that are tensors": lambda P: (P.zeros(P.tensor(2)), P.ones(1, P.tensor(3))),
    "one_hot of -2 classes": lambda P: P.nn.functional.one_hot(P.tensor([1]), -2),
    "bincount of at least -1": lambda P: P.bincount(P.tensor([1]), minlength=-1),
    "attention of no features": lambda P: P.nn.functional.scaled_dot_product_attention(
        P.ones(1, 2, 3, 0), P.ones(1, 2, 2, 0), P.tensor([[[[1.0], [3.0]]] * 2])
    ),
}  # fmt: skip
FUZZED: dict[str, Case] = {
    "pools by the largest and the smallest": lambda P: [
        *sloped(P, lambda x: P.nn.functional.lp_pool1d(x[None], INF, 2), -3.0, 1.0, 2.0, 5.0),
        *sloped(P, lambda x: P.nn.functional.lp_pool1d(x[None], -INF, 2), -3.0, 1.0, 2.0, 5.0),
        P.nn.functional.lp_pool2d(P.arange(-4.0, 5.0).reshape(1, 3, 3), INF, 2, 1),
    ],
    "pools of power 0": lambda P: P.nn.functional.lp_pool1d(P.ones(1, 4), 0, 2),
    "slope of a gather in 40 dims": lambda P: sloped(
        P, lambda x: x.reshape([1] * 39 + [3]).gather(-1, P.tensor([2, 0]).reshape([1] * 39 + [2])), 1.0, 2.0, 3.0
    )[1],
    "slope of a median in 33 dims": lambda P: sloped(
        P, lambda x: x.reshape([1] * 32 + [3]).median(dim=-1).values, 1.0, 2.0, 3.0
    )[1],
    "largest at an index in 40 dims": lambda P: P.ones([1] * 39 + [2]).scatter_reduce(
        -1, P.tensor([0, 1, 0]).reshape([1] * 39 + [3]), P.tensor([5.0, 2.0, 7.0]).reshape([1] * 39 + [3]), "amax"
    ).reshape(2),
    "slope of distances of rows without numbers": lambda P: [
        P.nn.functional.pdist(P.zeros(3, 0), p=INF), P.cdist(P.zeros(2, 0), P.zeros(3, 0), p=INF)
    ],
    "isin of different elements": lambda P: P.isin(P.tensor([1, 2]), P.tensor([2]), assume_unique=True),
    "a product without columns": lambda P: P.addbmm(P.zeros(9, 0), P.zeros(1, 9, 4), P.zeros(1, 4, 0)),
    "condition of no complex matrices": lambda P: P.linalg.cond(P.zeros(0, 3, 3, dtype=P.complex64)),
    "geqrf of no matrices": lambda P: list(P.geqrf(P.zeros(2, 0, 5, 5))),
}  # fmt: skip
LIMITS = {
    **FUZZED,
    **SLOPES_AT_NAN,
    **ROOTS,
    **RANDOM,
    **ARGUMENTS,
    **KEYWORDS,
    **POOLS,
    **WITHOUT_DIMS,
    **SPECIAL,
    **FACTORS,
    **NOTHING,
}
