"""Odd calls: numbers in front, no dims, tensors without dims, lists for indices, numbers that do not fit, NaN.

Each case is `function(P)` for P = pyapp or torch; a tensor, a number, or a tuple of them, or an error from both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases_details import DETAILS
from .cases_leaves import LEAVES
from .cases_limits import LIMITS
from .cases_old_calls import OLD_CALLS
from .cases_orders import ORDERS
from .cases_programs import PROGRAMS
from .cases_references import REFERENCES
from .cases_samples import SAMPLES, ramp

INF, NAN = float("inf"), float("nan")


def written(P: Any, x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def odd_places(P: Any) -> Any:
    return P.tensor([[[[NAN, 0.0], [INF, 0.3], [-INF, 2.0]]]])


def gradients(P: Any, function: Any, *tensors: Any) -> Any:
    for x in tensors:
        x.requires_grad_()
    function(*tensors).sum().backward()
    return tuple(x.grad for x in tensors)


def frames(P: Any, *shape: int) -> Any:
    """Complex numbers."""
    return P.view_as_complex(ramp(P, *shape, 2))


ARITHMETIC: dict[str, Callable[[Any], Any]] = {
    "number + tensor": lambda P: (P.add(1, P.tensor([1.5])), P.sub(1, P.tensor([2])), P.mul(2, P.tensor([1.5]))),
    "number / tensor": lambda P: (P.div(1, P.tensor([4])), P.true_divide(1, P.tensor([4.0]))),
    "number // tensor": lambda P: (P.floor_divide(7, P.tensor([2, -3])), P.remainder(7, P.tensor([2, -3]))),
    "number & tensor": lambda P: (P.bitwise_and(6, P.tensor([3])), 6 & P.tensor([3]), 6 | P.tensor([3])),
    "number ^ tensor": lambda P: (6 ^ P.tensor([3]), 1 << P.tensor([3]), 16 >> P.tensor([3])),
    "pow of a number": lambda P: (P.pow(2, P.tensor([1.5, 2.0])), 2 ** P.tensor([-1, 2])),
    "pow by name": lambda P: P.tensor([2.0]).pow(exponent=3),
    "negative powers of integers": lambda P: P.tensor([2, 1, -1, -1, 3]) ** P.tensor([-1, -3, -3, -2, 2]),
    "a negative power as a number": lambda P: P.tensor([2, 3]) ** -1,
    "gradient of a number first": lambda P: gradients(P, lambda x: P.div(1, x) + P.pow(2, x), P.tensor([2.0, 4.0])),
    "abs and plus": lambda P: (abs(P.tensor([-1.5])), +P.tensor([-1.5])),
    "sign of NaN": lambda P: (P.sign(P.tensor([NAN, -2.0])), P.sgn(P.tensor([NAN, 0.0]))),
    "integers // 0": lambda P: P.tensor([7, -7]) // 0,
    "integers % 0": lambda P: P.tensor([7, -7]) % P.tensor([1, 0]),
    "floats // 0": lambda P: P.tensor([7.0, -7.0]) // 0,
    "alpha of integers": lambda P: P.add(P.tensor([1, 2]), P.tensor([1, 2]), alpha=0.5),
    "where it holds": lambda P: P.where(P.tensor([[1, 0], [0, 1]]) > 0),
    "where by name": lambda P: P.where(condition=P.tensor([True]), input=P.tensor([1.0]), other=P.tensor([2.0])),
}  # fmt: skip
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "full of too much": lambda P: P.full((2,), 300, dtype=P.uint8),
    "full of NaN": lambda P: P.full((2,), NAN, dtype=P.int64),
    "full of too much for half": lambda P: P.full((2,), 1e6, dtype=P.float16),
    "full of infinity": lambda P: P.full((2,), INF, dtype=P.float16),
    "full of -1": lambda P: P.full((2,), -1, dtype=P.uint8),
    "full of -300": lambda P: P.full((2,), -300, dtype=P.uint8),
    "full of 2**31": lambda P: P.full((2,), 2**31, dtype=P.int32),
    "fill_ with too much": lambda P: P.zeros(2, dtype=P.uint8).fill_(300),
    "fill_ with a bool": lambda P: P.zeros(2, dtype=P.bool).fill_(7),
    "writes too much": lambda P: written(P, P.zeros(2, dtype=P.uint8), 0, 300),
    "a tensor of too much": lambda P: P.tensor([1, 300], dtype=P.uint8),
    "a tensor of NaN": lambda P: P.tensor([NAN], dtype=P.int64),
    "a tensor of fractions": lambda P: P.tensor([2.7, -2.7], dtype=P.int32),
}  # fmt: skip
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "no dims": lambda P: tuple(f(ramp(P, 2, 3), []) for f in (P.sum, P.mean, P.amax, P.amin, P.nansum, P.std, P.var)),
    "no dims, kept": lambda P: (P.sum(ramp(P, 2, 3), (), keepdim=True), P.norm(ramp(P, 2, 3), dim=())),
    "no dims, counted": lambda P: P.count_nonzero(ramp(P, 2, 3), ()),
    "gradient of no dims": lambda P: gradients(P, lambda x: x.sum(()) * x.amax([]), ramp(P, 2, 3)),
    "std, unbiased": lambda P: (P.std(ramp(P, 5), False), ramp(P, 5).var(True), ramp(P, 2, 3).std(0, unbiased=False)),
    "var of too few": lambda P: P.var(ramp(P, 3, 4), 1, correction=5),
    "var of one": lambda P: P.var(ramp(P, 3, 1), 1),
    "median of nothing": lambda P: P.median(P.zeros(0)),
    "without dims": lambda P: (P.tensor(3.0).cumsum(0), *P.tensor(3.0).sort(), *P.topk(P.tensor(3.0), 1)),
    "softmax without dims": lambda P: (P.softmax(P.tensor(2.0), 0), P.log_softmax(P.tensor(2.0), -1)),
    "argsort, stable": lambda P: P.argsort(P.tensor([3.0, 1.0, 2.0, 1.0]), stable=True),
    "values and indices": lambda P: tuple(
        part for found in (P.max(ramp(P, 2, 3), 1), P.sort(ramp(P, 4)), P.topk(ramp(P, 4), 2), P.mode(ramp(P, 4)),
                           P.cummin(ramp(P, 4), 0), P.kthvalue(ramp(P, 4), 2), P.median(ramp(P, 2, 3), 1))
        for part in (found.values, found.indices)
    ),
    "min and max": lambda P: (P.aminmax(ramp(P, 4)).min, P.aminmax(ramp(P, 2, 3), dim=1).max),
    "nuclear norm": lambda P: P.norm(ramp(P, 3, 4), "nuc"),
    "linalg.norm": lambda P: tuple(P.linalg.norm(ramp(P, 3, 4), p) for p in (None, 1, 2, -2, INF, "fro", "nuc")),
    "linalg.norm of vectors": lambda P: (P.linalg.norm(ramp(P, 5), 3), P.linalg.norm(ramp(P, 3, 4), 1, dim=1)),
    "linalg.norm of dims": lambda P: P.linalg.norm(ramp(P, 2, 3, 4), INF, dim=(2, 0), keepdim=True),
    "linalg.norm of too many": lambda P: P.linalg.norm(ramp(P, 2, 3, 4), 2),
    "cov with counts": lambda P: P.cov(ramp(P, 2, 4), fweights=P.tensor([1, 2, 1, 3])),
    "cov with weights": lambda P: P.cov(ramp(P, 2, 4), correction=0, aweights=P.tensor([0.5, 2.0, 1.0, 3.0])),
    "cholesky, upper": lambda P: P.linalg.cholesky(P.tensor([[4.0, 2.0], [2.0, 5.0]]), upper=True),
}  # fmt: skip
INDICES: dict[str, Callable[[Any], Any]] = {
    "a mask of bytes": lambda P: ramp(P, 4, 2)[P.tensor([1, 0, 1, 0], dtype=P.uint8)],
    "a mask of bytes that does not fit": lambda P: ramp(P, 4, 2)[P.tensor([1, 2], dtype=P.uint8)],
    "lists in a list": lambda P: ramp(P, 4, 2)[[[1, 2], [0, 1]]],
    "writes by lists in a list": lambda P: written(P, ramp(P, 4, 2), [[1, 2], [0, 1]], 9.0),
    "index_select by one": lambda P: ramp(P, 3, 4).index_select(1, P.tensor(2)),
    "index_select of one": lambda P: P.tensor(3.0).index_select(0, P.tensor([0])),
    "index_add by one": lambda P: P.index_add(ramp(P, 3, 4), 0, P.tensor(1), ramp(P, 1, 4)),
    "index_fill from the end": lambda P: P.index_fill(ramp(P, 3, 4), 1, P.tensor([0, -1]), 3),
    "scatter, adding": lambda P: P.scatter(ramp(P, 3, 4), 1, P.tensor([[0, 0], [2, 0]]), 2.5, reduce="add"),
    "scatter, multiplying": lambda P: P.scatter(
        ramp(P, 3, 4), 1, P.tensor([[0, 0], [2, 2]]), ramp(P, 2, 2), reduce="multiply"
    ),
    "scatter of another dtype": lambda P: P.scatter(ramp(P, 3, 4), 0, P.tensor([[0, 1]]), ramp(P, 1, 2).to(P.float64)),
    "unique_consecutive rows": lambda P: P.unique_consecutive(
        P.tensor([[1, 1], [1, 1], [2, 1]]), return_inverse=True, return_counts=True, dim=0
    ),
    "unique_consecutive of nothing": lambda P: P.unique_consecutive(P.zeros(0)),
    "repeat_interleave of counts": lambda P: P.repeat_interleave(P.tensor([1, 0, 2])),
    "narrow from the end": lambda P: (P.narrow(ramp(P, 3, 4), 1, -2, 2), P.narrow(ramp(P, 3, 4), 0, -1, 1)),
    "narrow beyond": lambda P: P.narrow(ramp(P, 3, 4), 1, -5, 2),
    "split of nothing": lambda P: P.split(P.zeros(0), 0),
    "split by name": lambda P: ramp(P, 5).split(split_size=2),
    "flatten backwards": lambda P: P.flatten(ramp(P, 2, 3, 4), 2, 1),
    "triangle of a vector": lambda P: P.triu(ramp(P, 3)),
    "view as integers": lambda P: (ramp(P, 2, 6).view(P.int32), ramp(P, 2, 6).view(P.int16)),
    "view as something longer, in parts": lambda P: ramp(P, 2, 6, dtype="int32")[:, 2:].view(P.int64),
    "view as something longer": lambda P: ramp(P, 2, 3).view(P.float64),
    "randint of a size": lambda P: (P.randint(5, (2, 3)) * 0, P.randint(high=5, size=(2,)) * 0),
}  # fmt: skip
SIGNALS: dict[str, Callable[[Any], Any]] = {
    "einsum by numbers": lambda P: P.einsum(ramp(P, 2, 3), [0, 1], ramp(P, 3, 4), [1, 2], [2, 0]),
    "einsum by numbers, dots": lambda P: P.einsum(ramp(P, 2, 3, 3), [..., 4, 4]),
    "istft of both sides": lambda P: P.istft(frames(P, 3, 16, 6), 16, 4, onesided=False),
    "mean of integers in a pool": lambda P: P.nn.functional.avg_pool2d(ramp(P, 1, 1, 4, 5, dtype="int64"), 2),
    "pool of nothing": lambda P: P.nn.functional.adaptive_avg_pool2d(P.zeros(1, 2, 0, 3), 2),
    "grid_sample of NaN, border": lambda P: P.nn.functional.grid_sample(
        ramp(P, 1, 1, 4, 5), odd_places(P), padding_mode="border", align_corners=False
    ),
    "grid_sample of NaN, nearest": lambda P: P.nn.functional.grid_sample(
        ramp(P, 1, 1, 4, 5), odd_places(P), mode="nearest", align_corners=True
    ),
    "grid_sample of NaN, zeros": lambda P: P.nn.functional.grid_sample(
        ramp(P, 1, 1, 4, 5), P.tensor([[[[NAN, 0.0], [0.1, 0.3]]]]), align_corners=True
    ),
    "attention that sees nothing": lambda P: P.nn.functional.scaled_dot_product_attention(
        ramp(P, 2, 3, 4), ramp(P, 2, 5, 4), ramp(P, 2, 5, 4), attn_mask=P.tensor([[True] * 5, [False] * 5, [True] * 5])
    ),
}  # fmt: skip


def accumulated(P: Any) -> Any:
    """Gradients of one memory, written in place."""
    a, b = P.ones(2, requires_grad=True), P.ones(2, requires_grad=True)
    ((a + b) * 3).sum().backward()
    a.grad.zero_()
    return a.grad, b.grad


def accumulated_again(P: Any) -> Any:
    x = ramp(P, 3).requires_grad_()
    x.sum().backward()
    first = x.grad
    first.mul_(2)
    (x * x).sum().backward()
    return first, x.grad, float(first is x.grad)


def given_gradient(P: Any) -> Any:
    x, weight = ramp(P, 3).requires_grad_(), P.ones(3)
    (x + 0).backward(weight)
    x.grad.zero_()
    return weight


GRADIENTS: dict[str, Callable[[Any], Any]] = {
    "powers of 0": lambda P: gradients(P, lambda x: x**0 + x**2, P.tensor([0.0, 4.0])),
    "powers of 0 by tensors": lambda P: gradients(P, lambda x: x ** P.tensor([0.0, 1.0]), P.tensor([0.0, 0.0])),
    "atan2 of nothing": lambda P: gradients(P, P.atan2, P.tensor([0.0, 3.0]), P.tensor([0.0, 4.0])),
    "no way back": lambda P: (P.ones(2).requires_grad_() * 2).requires_grad_(False),
    "own memory": accumulated, "added in place": accumulated_again, "not the given one": given_gradient,
}  # fmt: skip
CASES = {
    **ARITHMETIC,
    **NUMBERS,
    **REDUCTIONS,
    **INDICES,
    **SIGNALS,
    **GRADIENTS,
    **LEAVES,
    **LIMITS,
    **SAMPLES,
    **DETAILS,
    **ORDERS,
    **OLD_CALLS,
    **REFERENCES,
    **PROGRAMS,
}
