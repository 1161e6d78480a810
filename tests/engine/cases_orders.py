"""Which order in memory results have, by their strides: torch's preserve_format; derivatives along tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def laid(P: Any, kind: str, shape: tuple[int, ...] = (2, 3, 4, 5)) -> Any:
    """The numbers 0 .. 119 as (2, 3, 4, 5), in an order in memory."""
    x = P.arange(120.0).reshape(2, 3, 4, 5)
    if kind == "channels_last":
        return x.to(memory_format=P.channels_last)
    if kind == "turned":
        return x.permute(3, 2, 1, 0)
    if kind == "cut":  # turned, with gaps
        return P.arange(240.0).reshape(5, 4, 3, 4).permute(3, 2, 1, 0)[::2]
    return x[:1].expand(2, 3, 4, 5)


def steps(P: Any, x: Any) -> Any:
    """The strides, 0 in dims of size one; the sum of the values and one with weights."""
    values = x.double().reshape(-1)
    weighted = (values * P.arange(values.numel(), dtype=P.float64)).sum()
    return P.tensor([s if n > 1 else 0 for s, n in zip(x.stride(), x.shape, strict=True)]), values.sum(), weighted


ONE: dict[str, Callable[[Any, Any], Any]] = {
    "clone": lambda P, x: x.clone(), "add": lambda P, x: x + 1, "relu": lambda P, x: P.relu(x - 60),
    "both": lambda P, x: x * x, "channel": lambda P, x: x * P.arange(float(x.shape[1])).reshape(1, -1, 1, 1),
    "row-major": lambda P, x: x + P.ones(x.shape), "first": lambda P, x: P.ones(x.shape) + x,
    "half channel": lambda P, x: x.half() + P.ones(1, x.shape[1], 1, 1, dtype=P.float16), "rsub": lambda P, x: 1 - x,
    "int": lambda P, x: x.long() // 7, "compare": lambda P, x: x > 3, "double": lambda P, x: x.double(),
    "where": lambda P, x: P.where(x > 60, x, -x), "zeros_like": lambda P, x: P.zeros_like(x),
    "ones_like": lambda P, x: P.ones_like(x, dtype=P.int64), "full_like": lambda P, x: P.full_like(x, 2.0),
    "row-major like": lambda P, x: P.zeros_like(x, memory_format=P.contiguous_format),
    "row-major clone": lambda P, x: x.clone(memory_format=P.contiguous_format),
    "contiguous": lambda P, x: x.contiguous(),
    "copy": lambda P, x: x.to(x.dtype, copy=True), "in place": lambda P, x: x.clone().mul_(2.0),
    "clamp": lambda P, x: x.clamp(3, 60), "power": lambda P, x: (x / 60) ** 3,
    "sigmoid": lambda P, x: (x / 60).sigmoid(),
    "softmax": lambda P, x: (x / 60).softmax(1), "masked_fill": lambda P, x: x.masked_fill(x > 60, 0.0),
    "many dims": lambda P, x: x.unsqueeze(1).unsqueeze(3).unflatten(-1, (-1, 1)).permute(6, 1, 4, 3, 2, 5, 0).clone(),
}  # fmt: skip
# torch reads a condition with gaps in another order.
SKIPPED = {("where", "cut"), ("masked_fill", "cut"), ("softmax", "cut"), ("many dims", "expanded")}


def _strides(kind: str, function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda P: steps(P, function(P, laid(P, kind)))


def _along(function: Callable[[Any, Any], Any], *shape: int) -> Callable[[Any], Any]:
    """The derivative of a function along a tangent, both symmetric where they are matrices."""

    def case(P: Any) -> Any:
        x, t = (
            P.sin(P.arange(float(n0), n0 + float(n), dtype=P.float64)).reshape(shape) for n0, n in ((0, 16), (50, 16))
        )
        x, t = x + x.mT + 4 * P.eye(shape[-1], dtype=P.float64), t + t.mT
        found = P.func.jvp(lambda x: function(P, x), (x,), (t,))[1]
        return P.view_as_real(found) if found.is_complex() else found

    return case


ORDERS: dict[str, Callable[[Any], Any]] = {
    **{
        f"order of {name}, {kind}": _strides(kind, function)
        for name, function in ONE.items()
        for kind in ("channels_last", "turned", "cut", "expanded")
        if (name, kind) not in SKIPPED
    },
    "jvp logcumsumexp": _along(lambda P, x: x.logcumsumexp(1), 4, 4),
    "jvp eigh": _along(lambda P, x: P.linalg.eigh(x)[1].abs(), 4, 4),
    "jvp svd": _along(lambda P, x: P.linalg.svd(x)[0].abs(), 4, 4),
    "jvp matrix_sqrth": _along(lambda P, x: P.linalg.matrix_sqrth(x), 4, 4),
    "jvp polar": _along(lambda P, x: P.linalg.polar(x)[1], 4, 4),
    "jvp complex": _along(lambda P, x: (P.complex(x, x * x) ** 2).exp().abs(), 4, 4),
    "jvp of complex": lambda P: P.view_as_real(
        P.func.jvp(
            lambda x: x * x.conj() + x.exp(),
            (P.complex(P.ones(3), P.arange(3.0)),),
            (P.complex(P.arange(3.0), P.ones(3)),),
        )[1]
    ),
    "vjp of complex": lambda P: P.view_as_real(
        P.func.vjp(lambda x: x.exp(), P.complex(P.ones(3), P.arange(3.0)))[1](P.complex(P.arange(3.0), P.ones(3)))[0]
    ),
    "jacrev of complex": lambda P: P.func.jacrev(lambda x: x.abs())(P.complex(P.ones(3), P.arange(3.0))),
    "second derivative of logcumsumexp at 0": lambda P: (
        lambda x: P.autograd.grad(
            P.autograd.grad(x.logcumsumexp(0)[1], x, create_graph=True)[0].square().sum(), x
        )[0]
    )(P.tensor([0.1, 0.7, -0.3], dtype=P.float64, requires_grad=True)),
}  # fmt: skip
