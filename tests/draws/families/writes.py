"""Writes in place, optimisers and clipped gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor, nn

from ..call import Call, broadcast, family
from ..operands import Draw, Operand, view_of


@family
def in_place(d: Draw) -> Call:
    """Writes into a view; the whole memory is compared."""
    name = d.pick(
        (
            "add_ mul_ sub_ copy_ fill_ zero_ relu_ exp_ sigmoid_ clamp_ masked_fill_ index_add_ "
            "scatter_ setitem setmask setindex addcmul_ lerp_ out_add out_matmul out_exp out_sum tril_ "
            "div_ index_copy_ setslice out_cat out_where addmm_ cumsum_ self_add pow_ out_softmax "
            "index_fill_ bernoulli index_put_ scatter_add_ baddbmm_ out_mean"
        ).split()
    )
    rank = 1 + d.below(4)
    shape = d.shape(rank, 1500)
    kind = (
        d.kind
        if d.chance(0.85)
        or not name.startswith(("add_", "mul_", "sub_", "copy_", "fill_", "zero_", "setitem", "setslice"))
        else str(d.pick(("int64", "int32", "uint8", "int8", "int16")))
    )
    if name in ("addmm_", "out_matmul") or (name == "tril_" and rank < 2):
        shape = (d.size(33), d.size(33))
    x = d.operand(shape, kind, expands=False, joins=False)
    rank = len(shape)
    dim = d.below(rank)
    n = shape[dim]
    details: dict[str, Any] = {"dim": dim}

    def done(operands: list[Operand], function: Callable[..., Any]) -> Call:
        return Call(
            name,
            [x, *operands],
            function,
            False,
            changed=0,
            details=details,
            exact_reference=kind not in ("float32", "float16", "bfloat16", "float64"),
        )

    if name in ("add_", "mul_", "sub_", "copy_"):
        other = kind if d.chance(0.8) or "int" in kind else str(d.pick((*d.floats, "int32")))
        y = d.operand(broadcast(d, shape), other)
        if name in ("add_", "sub_") and d.chance(0.3):
            return done([y], lambda x, y: getattr(x, name)(y, alpha=2))
        return done([y], lambda x, y: getattr(x, name)(y))
    if name == "div_":
        return done([d.operand(broadcast(d, shape), low=0.5, high=2.0)], lambda x, y: x.div_(y))
    if name == "pow_":
        return done([], lambda x: x.pow_(2))
    if name == "fill_":
        return done([], lambda x: x.fill_(3))
    if name in ("zero_", "relu_", "exp_", "sigmoid_"):
        return done([], lambda x: getattr(x, name)())
    if name == "clamp_":
        return done([], lambda x: x.clamp_(-0.5, 0.5))
    if name == "masked_fill_":
        return done([d.operand(broadcast(d, shape), "bool")], lambda x, m: x.masked_fill_(m, 2.0))
    if name in ("addcmul_", "lerp_"):
        pair = [d.operand(broadcast(d, shape)) for _ in range(2)]
        return done(
            pair,
            (lambda x, a, b: x.addcmul_(a, b, value=0.5)) if name == "addcmul_" else (lambda x, a, b: x.lerp_(a, b)),
        )
    if name in ("index_add_", "index_copy_", "index_fill_") and n:
        count = 1 + d.below(n)
        index = d.operand((count,), "int64", 0, n, expands=False)
        index.source.values[index.index.reshape(-1)] = d.random.permutation(n)[:count]
        sizes = list(shape)
        sizes[dim] = count
        if name == "index_fill_":
            return done([index], lambda x, i: x.index_fill_(dim, i, 1.5))
        return done([index, d.operand(tuple(sizes))], lambda x, i, s: getattr(x, name)(dim, i, s))
    if name in ("scatter_", "scatter_add_") and n:
        sizes = [1 + d.below(k) if k else 0 for k in shape]
        index = d.operand(tuple(sizes), "int64", 0, n, expands=False)
        order = np.argsort(d.random.rand(*sizes[:dim], n, *sizes[dim + 1 :]), dim)
        index.source.values[index.index.reshape(-1)] = np.take(order, np.arange(sizes[dim]), dim).reshape(-1)
        if d.chance(0.3) and name == "scatter_":
            return done([index], lambda x, i: x.scatter_(dim, i, 2.5))
        return done([index, d.operand(tuple(sizes))], lambda x, i, s: getattr(x, name)(dim, i, s))
    if name in ("setitem", "setslice"):
        places = tuple(slice(d.below(k + 1), None, 1 + d.below(3)) if d.chance(0.7) else slice(None) for k in shape)
        inner = np.zeros(shape)[places].shape
        if d.chance(0.2):
            return done([], lambda x: x.__setitem__(places, 2) or x)
        y = d.operand(broadcast(d, inner), kind)
        details["places"] = places
        return done([y], lambda x, y: x.__setitem__(places, y) or x)
    if name == "setmask":
        mask = d.operand(shape[: 1 + d.below(rank)], "bool")
        return done([mask], lambda x, m: x.__setitem__(m, 2.5) or x)
    if name in ("setindex", "index_put_") and n:
        count = 1 + d.below(n)
        index = d.operand((count,), "int64", 0, n, expands=False)
        index.source.values[index.index.reshape(-1)] = d.random.permutation(n)[:count]
        inner = (*shape[:dim], count, *shape[dim + 1 :])
        y = d.operand(broadcast(d, inner))
        return done([index, y], lambda x, i, y: x.__setitem__((*[slice(None)] * dim, i), y) or x)
    if name == "tril_" and rank >= 2:
        return done([], lambda x: x.tril_(-1))
    if name == "addmm_":
        k = d.size(33)
        return done([d.operand((shape[0], k)), d.operand((k, shape[1]))], lambda x, a, b: x.addmm_(a, b))
    if name == "out_matmul":
        k = d.size(33)
        return done([d.operand((shape[0], k)), d.operand((k, shape[1]))], lambda x, a, b: pyapp.matmul(a, b, out=x))
    if name == "out_add":
        return done([d.operand(shape), d.operand(broadcast(d, shape))], lambda x, a, b: pyapp.add(a, b, out=x))
    if name == "out_where":
        return done(
            [d.operand(broadcast(d, shape), "bool"), d.operand(shape), d.operand(shape)],
            lambda x, m, a, b: pyapp.where(m, a, b, out=x),
        )
    if name == "out_exp":
        return done([d.operand(shape)], lambda x, a: pyapp.exp(a, out=x))
    if name == "out_softmax":
        return done([d.operand(shape)], lambda x, a: pyapp.softmax(a, dim, out=x))
    if name in ("out_sum", "out_mean"):
        k = d.size(9)
        y = d.operand((*shape[:dim], k, *shape[dim:]))
        return done([y], lambda x, a: (pyapp.sum if name == "out_sum" else pyapp.mean)(a, dim, out=x))
    if name == "out_cat" and n > 1:
        first = 1 + d.below(n - 1)
        parts = [d.operand((*shape[:dim], k, *shape[dim + 1 :])) for k in (first, n - first)]
        return done(parts, lambda x, a, b: pyapp.cat((a, b), dim, out=x))
    if name == "self_add" and n > 1:  # what it reads and writes overlaps
        how = d.pick(("flip", "shift", "back", "turn"))
        details["how"] = how
        if how == "turn" and rank >= 2 and shape[0] == shape[-1]:
            return done([], lambda x: x.copy_(x.transpose(0, -1)))
        if how == "shift":
            return done([], lambda x: x.narrow(dim, 1, n - 1).copy_(x.narrow(dim, 0, n - 1)) is None or x)
        if how == "back":
            return done([], lambda x: x.narrow(dim, 0, n - 1).add_(x.narrow(dim, 1, n - 1)) is None or x)
        return done([], lambda x: x.copy_(x.flip(dim)))
    return done([], lambda x: x.cumsum_(dim) if n else x)


@family
def views_written(d: Draw) -> Call:
    """A write into a view, with gradients."""
    shape = d.shape(1 + d.below(3), 600)
    x = d.operand(shape)
    steps, start = d.layout(shape, expands=False)
    y = d.operand(start)
    other = d.operand(broadcast(d, shape))
    name = d.pick(("mul_", "add_", "copy_", "tanh_", "fill_"))
    after = name != "tanh_" and d.chance(0.4)

    def call(x: Tensor, y: Tensor, other: Tensor) -> Tensor:
        base = y * 1.5
        view = view_of(base, steps)
        if name in ("tanh_",):
            view.tanh_()
        elif name == "fill_":
            view.fill_(0.5)
        else:
            getattr(view, name)(other)
        if after:
            view += x
        return base * 0.5 + (view * x).sum() * 0.05

    return Call(f"write into a view: {name}", [x, y, other], call, details={"steps": steps})


@family
def optimizers(d: Draw) -> Call:
    """A step with gradients of any strides."""
    name = str(
        d.pick(
            (
                "SGD",
                "Adam",
                "AdamW",
                "RMSprop",
                "Adagrad",
                "NAdam",
                "RAdam",
                "Adamax",
                "Adadelta",
                "Rprop",
                "Lion",
                "Adafactor",
                "Muon",
            )
        )
    )
    shape = d.shape(2 if name == "Muon" else 1 + d.below(3), 800, empty=False)
    kind = str(d.pick(("float32", "float32", "float64")))
    start, gradient = d.operand(shape, kind), d.operand(shape, kind)
    decay = float(d.pick((0.0, 0.1)))
    many = d.chance(0.5)

    def call(start: Tensor, gradient: Tensor) -> Any:
        p = nn.Parameter(start.detach().clone())
        q = nn.Parameter((start.detach() * 2).contiguous())
        named: dict[str, Any] = {"weight_decay": decay} if name not in ("Rprop",) else {}
        if name == "SGD":
            named["momentum"] = 0.9
        optimizer = getattr(pyapp.optim, name)([p, q] if many else [p], lr=0.1, **named)
        for factor in (1.0, 0.7):
            p.grad = gradient.detach() if factor == 1.0 else (gradient * factor).detach()
            if many:
                q.grad = (gradient * 0.5).detach()
            if d.plain:
                nn.utils.clip_grad_norm_([p], 1.0)
            optimizer.step()
        return p.detach(), q.detach()

    return Call(
        name,
        [start, gradient],
        call,
        False,
        tolerance=0.01 if name in ("Muon", "Adafactor") else 2e-3,
        details={"decay": decay, "many": many},
    )


@family
def clipped(d: Draw) -> Call:
    """Norms of and clipped gradients, which may be of any strides."""
    shapes = [d.shape(1 + d.below(3), 200, empty=False) for _ in range(1 + d.below(3))]
    operands = [d.operand(shape) for shape in shapes]
    p = float(d.pick((2.0, 2.0, 1.0, np.inf)))

    def call(*t: Tensor) -> Any:
        parameters = []
        for x in t:
            one = nn.Parameter(pyapp.zeros(*x.shape, dtype=x.dtype, device=x.device))
            one.grad = x.detach() * 1.0 if x.is_contiguous() else x.detach().transpose(0, -1).clone().transpose(0, -1)
            parameters.append(one)
        total = nn.utils.clip_grad_norm_(parameters, 0.7, p)
        return (total, *(x.grad for x in parameters))

    return Call("clip_grad_norm_", operands, call, False, details={"p": p})
