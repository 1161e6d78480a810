"""Ops of elements, and chains of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor
from pyapp.nn import functional as F

from ..call import Call, broadcast, dims, family, method
from ..operands import Draw

UNARY = (
    "exp sigmoid tanh relu gelu silu neg abs sin cos erf softplus square sign elu hardtanh hardswish expm1 mish "
    "leaky_relu selu celu logsigmoid relu6 hardsigmoid softsign tanhshrink atan asinh sinh cosh erfc sinc logit frac "
    "reciprocal floor ceil trunc round isnan isfinite exp2 positive clone"
).split()

POSITIVE = "log sqrt rsqrt log1p log2 log10 lgamma digamma".split()

BINARY = "add sub mul div maximum minimum atan2 hypot fmax fmin logaddexp copysign eq lt ge gt le ne xlogy rsub".split()

INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


@family
def unary(d: Draw) -> Call:
    positive = d.chance(0.2)
    name = d.pick(POSITIVE if positive else UNARY)
    low = (0.2, 3.0) if positive else (0.05, 0.95) if name == "logit" else (None, None)
    if name in ("reciprocal",):
        low = (0.3, 2.0)
    x = d.operand(d.shape(d.below(5)), low=low[0], high=low[1])
    return Call(name, [x], method(name))


@family
def binary(d: Draw) -> Call:
    name = d.pick(BINARY)
    shape = d.shape(d.below(5))
    low, high = (0.4, 2.0) if name in ("div", "xlogy", "atan2", "hypot") else (None, None)
    operands = []
    for _ in range(2):
        kind = None
        if d.chance(0.1):
            kind = str(d.pick((*d.floats, "int64", "int32", "bool") if low is None else d.floats))
        operands.append(d.operand(broadcast(d, shape), kind, low, high))
    if "bool" in [x.source.dtype for x in operands] and name in ("sub", "rsub"):
        name = "add"
    if d.chance(0.15):  # with a number
        number, first = d.pick((2, 0.5, 1.5, 3)), d.chance(0.3) and name in ("add", "sub", "mul", "div")
        one = operands[0]
        table = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "div": lambda a, b: a / b,
        }
        if name in table:
            call = table[name]
            return Call(
                f"{name} {number}",
                [one],
                lambda x: call(number, x) if first else call(x, number),
                details={"first": first},
            )
    return Call(name, operands, method(name), exact_reference=name in ("eq", "lt", "ge", "gt", "le", "ne"))


@family
def whole(d: Draw) -> Call:
    """Ops of integers."""
    names = (
        "add sub mul maximum minimum floor_divide remainder bitwise_and bitwise_or bitwise_xor eq "
        "lt where sum amax cumsum sort argmax flip to prod any all argsort count_nonzero"
    ).split()
    name = d.pick(names)
    kind = str(d.pick(INTEGERS))
    if kind == "bool" and name in ("argmax", "sub", "floor_divide", "remainder", "sort", "cumsum", "argsort"):
        kind = "int32"
    shape = d.shape(1 + d.below(4))
    low, high = (1, 9) if name in ("floor_divide", "remainder") else (0 if kind[0] in "ub" else -9, 10)
    x = d.operand(shape, kind, low, high)
    dim = d.below(len(shape))
    if name in ("sum", "amax", "prod", "any", "all", "argmax", "count_nonzero"):
        if name == "argmax":
            return Call(name, [x], lambda x: x.argmax(dim), False, exact_reference=True)
        chosen = dims(d, len(shape)) if name != "prod" else dim
        return Call(name, [x], lambda x: method(name)(x, chosen), False, exact_reference=True, details={"dim": chosen})
    if name in ("cumsum", "sort", "argsort"):
        call = {
            "cumsum": lambda x: x.cumsum(dim),
            "sort": lambda x: x.sort(dim)[0],
            "argsort": lambda x: x.argsort(dim, stable=True),
        }[name]
        return Call(name, [x], call, False, exact_reference=True, details={"dim": dim})
    if name == "flip":
        return Call(name, [x], lambda x: x.flip(dim), False, exact_reference=True)
    if name == "to":
        to = str(d.pick((*INTEGERS, "float32", "float16", "float64", "bfloat16")))
        return Call(f"to {to}", [x], lambda x: x.to(to), False, exact_reference=True)
    if name == "where":
        mask = d.operand(broadcast(d, shape), "bool")
        other = d.operand(broadcast(d, shape), kind, low, high)
        return Call(name, [mask, x, other], pyapp.where, False, exact_reference=True)
    other = d.operand(broadcast(d, shape), kind if d.chance(0.8) else "int64", low, high)
    return Call(name, [x, other], method(name), False, exact_reference=True)


@family
def cast(d: Draw) -> Call:
    to = str(d.pick(d.floats))
    x = d.operand(d.shape(d.below(5)))
    return Call(f"to {to}", [x], lambda x: x.to(x.dtype if x.dtype is pyapp.float64 else to), tolerance=0.02)


@family
def ternary(d: Draw) -> Call:
    name = d.pick("where lerp addcmul addcdiv clamp masked_fill".split())
    shape = d.shape(1 + d.below(4))
    x, y, z = (
        d.operand(
            broadcast(d, shape) if name != "masked_fill" or i else shape,
            low=None if i < 2 or name != "addcdiv" else 0.5,
            high=None if i < 2 or name != "addcdiv" else 2.0,
        )
        for i in range(3)
    )
    if name in ("where", "masked_fill"):
        mask = d.operand(broadcast(d, shape), "bool")
        if name == "where":
            return Call(name, [mask, x, y], pyapp.where)
        return Call(name, [x, mask], lambda x, mask: x.masked_fill(mask, 2.5))
    if name == "clamp":
        return Call(name, [x], lambda x: x.clamp(-0.5, 0.75))
    if name == "lerp":
        return Call(name, [x, y, z], lambda x, y, z: pyapp.lerp(x, y, z))
    return Call(name, [x, y, z], lambda x, y, z: getattr(pyapp, name)(x, y, z, value=0.5))


@family
def chain(d: Draw) -> Call:
    """Elementwise ops, views and reductions after one another."""
    shape = d.shape(1 + d.below(4), 1500)
    count = 1 + d.below(3)
    operands = [d.operand(shape if i == 0 or d.chance(0.6) else broadcast(d, shape)) for i in range(count)]
    steps: list[tuple[Any, ...]] = []
    for _ in range(2 + d.below(6)):
        rank_safe = d.pick(
            ("unary", "unary", "binary", "binary", "view", "view", "number", "product", "reduce", "softmax", "norm")
        )
        steps.append((rank_safe, d.below(1000), d.random.randint(0, 1 << 30)))

    def call(*t: Tensor) -> Tensor:
        x = t[0]
        for kind, choice, seed in steps:
            rank = x.ndim
            if kind == "unary":
                x = getattr(x, ("tanh", "sigmoid", "sin", "abs", "neg", "relu", "cos", "square")[choice % 8])()
                x = x.clamp(-4.0, 4.0)
            elif kind == "binary":
                other = t[choice % len(t)]
                try:
                    pyapp.broadcast_shapes(tuple(x.shape), tuple(other.shape))
                except (RuntimeError, ValueError):
                    continue
                wide = pyapp.broadcast_shapes(tuple(x.shape), tuple(other.shape))
                if np.prod(wide) > 6000:
                    continue
                x = (x + other, x * other, x - other, other - x)[choice % 4].clamp(-6.0, 6.0)
            elif kind == "number":
                x = (x + 0.5, x * 0.75, 1.5 - x, x / 2)[choice % 4]
            elif kind == "view":
                order = np.random.RandomState(seed).permutation(rank)
                how = choice % 5
                if how < 2 and rank:
                    x = x.permute(*(int(i) for i in order))
                elif how == 2 and rank and x.shape[int(order[0])] > 2:
                    places: list[Any] = [slice(None)] * rank
                    places[int(order[0])] = slice(1, None, 1 + choice % 2)
                    x = x[tuple(places)]
                elif how == 3 and rank:
                    x = x.permute(*(int(i) for i in order)).flatten(0, min(1, rank - 1))
                elif rank:
                    x = (
                        x.unsqueeze(int(order[0])).expand(*x.shape[: int(order[0])], 2, *x.shape[int(order[0]) :])
                        if x.numel() < 2000 and rank < 5
                        else x
                    )
            elif kind == "product" and rank >= 2 and x.shape[-2] <= 33 and x.numel() < 3000:
                x = (x @ x.mT) * (0.3 / max(1.0, float(x.shape[-1])) ** 0.5)
            elif kind == "reduce" and rank >= 2:
                x = x + (x.mean(choice % rank, keepdim=True) if x.shape[choice % rank] else 0)
            elif kind == "softmax" and rank:
                x = x.softmax(choice % rank) if choice % 2 else x.log_softmax(choice % rank).clamp(-5.0, 0.0)
            elif kind == "norm" and rank and x.shape[-1] > 1:
                x = F.layer_norm(x, (x.shape[-1],), eps=0.1)
        return x

    return Call("chain", operands, call, details={"steps": steps})


@family
def special(d: Draw) -> Call:
    name = d.pick(
        (
            "i0 i0e i1 i1e erfinv ndtri ndtr log_ndtr bessel_j0 bessel_j1 bessel_y0 modified_bessel_k0 "
            "polygamma zeta gammainc gammaincc erfcx entr xlog1py digamma gammaln sinc expit logit"
        ).split()
    )
    kind = str(d.pick(("float32", "float64", "float32")))
    shape = d.shape(1 + d.below(3), 600)
    x = d.operand(shape, kind, 0.15, 0.85)
    S = pyapp.special
    if name == "polygamma":
        order = 1 + d.below(3)
        return Call(name, [x], lambda x: S.polygamma(order, x + 0.5))
    if name in ("zeta", "gammainc", "gammaincc", "xlog1py"):
        y = d.operand(broadcast(d, shape), kind, 1.1, 2.5)
        return Call(
            name, [x, y], lambda x, y: getattr(S, name)(*((y, x) if name == "zeta" else (x, y))), name == "xlog1py"
        )
    return Call(name, [x], getattr(S, name), name not in ("bessel_y0", "modified_bessel_k0"))


@family
def many_dims(d: Draw) -> Call:
    """Tensors of five to eight dims."""
    rank = 5 + d.below(4)
    shape = tuple(int(d.pick((1, 1, 2, 2, 3))) for _ in range(rank))
    other = broadcast(d, shape)
    x, y = d.operand(shape), d.operand(other)
    dim, several = d.below(rank), dims(d, rank)
    order = tuple(int(i) for i in d.random.permutation(rank))
    name = d.pick(
        (
            "add sum softmax permute cat flip amax index cumsum mul_sum copy where gather mean prod "
            "sort pad roll matmul expand"
        ).split()
    )
    table: dict[str, Any] = {
        "add": lambda x, y: x + y, "sum": lambda x, y: x.sum(several), "softmax": lambda x, y: x.softmax(dim),
        "permute": lambda x, y: x.permute(*order).contiguous(), "cat": lambda x, y: pyapp.cat((x, x * 2), dim),
        "flip": lambda x, y: x.flip(dim), "amax": lambda x, y: x.amax(several),
        "index": lambda x, y: x.select(dim, 0) * 2,
        "cumsum": lambda x, y: x.cumsum(dim), "mul_sum": lambda x, y: (x * y).sum(several),
        "mean": lambda x, y: x.mean(several, keepdim=True),
        "copy": lambda x, y: pyapp.zeros_like(x).copy_(y), "where": lambda x, y: pyapp.where(x > 0, x, y),
        "gather": lambda x, y: x.gather(dim, pyapp.zeros(*shape, dtype=pyapp.int64, device=x.device)),
        "prod": lambda x, y: x.prod(dim), "sort": lambda x, y: x.sort(dim)[0],
        "pad": lambda x, y: F.pad(x, (1, 2, 0, 1)),
        "roll": lambda x, y: x.roll(1, dim), "matmul": lambda x, y: x @ x.mT,
        "expand": lambda x, y: x.unsqueeze(0).expand(2, *shape) * 2 if rank < 8 else x * 2,
    }  # fmt: skip
    return Call(
        f"{name} of {rank} dims",
        [x, y],
        table[name],
        name != "copy",
        details={"dim": dim, "dims": several, "order": order},
    )
