"""Products of matrices, with weights in blocks too."""

from __future__ import annotations

import numpy as np

import pyapp
from pyapp import Tensor, ops
from pyapp.engine import quant
from pyapp.engine.ops.activated_products import linear_activated

from ..call import Call, broadcast, family, reference
from ..operands import Draw

BLOCKS = ("q8_0", "q4_0", "q4_K", "q6_K", "q5_0", "q4_1", "q5_K", "q2_K", "q3_K", "q5_1")


@family
def matmul(d: Draw) -> Call:
    m, n, k = d.size(), d.size(), d.size()
    if d.chance(0.02):
        m, n, k = (int(x) for x in d.random.permutation((0, n, k)))
    kind = d.pick(
        "matmul bmm mv outer vecmat addmm baddbmm einsum tensordot self batch_left dot matmul_int inner".split()
    )
    if kind == "matmul":
        return Call(kind, [d.operand((m, k)), d.operand((k, n))], lambda a, b: a @ b)
    if kind in ("bmm", "batch_left"):
        batch = d.shape(1 + d.below(2), 12)
        left = broadcast(d, batch) if d.chance(0.7) else batch
        right = batch if d.chance(0.5) else broadcast(d, batch)
        if kind == "batch_left":
            right = ()
        m, n, k = min(m, 33), min(n, 33), min(k, 33)
        return Call(kind, [d.operand((*left, m, k)), d.operand((*right, k, n))], lambda a, b: a @ b)
    if kind == "mv":
        return Call(kind, [d.operand((m, k)), d.operand((k,))], lambda a, b: a @ b)
    if kind == "vecmat":
        return Call(kind, [d.operand((k,)), d.operand((k, n))], lambda a, b: a @ b)
    if kind == "dot":
        return Call(kind, [d.operand((k,)), d.operand((k,))], pyapp.dot)
    if kind == "outer":
        return Call(kind, [d.operand((m,)), d.operand((n,))], pyapp.outer)
    if kind == "addmm":
        c = d.operand(broadcast(d, (m, n)))
        return Call(
            kind, [c, d.operand((m, k)), d.operand((k, n))], lambda c, a, b: pyapp.addmm(c, a, b, beta=0.5, alpha=2.0)
        )
    if kind == "baddbmm":
        m, n, k = min(m, 17), min(n, 33), min(k, 33)
        c = d.operand((3, m, n))
        return Call(
            kind, [c, d.operand((3, m, k)), d.operand((3, k, n))], lambda c, a, b: pyapp.baddbmm(c, a, b, alpha=2.0)
        )
    if kind == "einsum":
        text = d.pick(
            (
                "ij,jk->ik",
                "ij,kj->ki",
                "bij,bjk->bik",
                "bhid,bhjd->bhij",
                "bihd,bjhd->bhij",
                "ijk,jk->i",
                "ij,ij->",
                "bij,jk->bki",
                "abc,cd->abd",
                "ab,cb->abc",
            )
        )
        sizes = {c: d.size(9) for c in "abcdhijk"}
        shapes = [tuple(sizes[c] for c in part) for part in text.split("->")[0].split(",")]
        return Call(f"einsum {text}", [d.operand(s) for s in shapes], lambda a, b: pyapp.einsum(text, a, b))
    if kind == "tensordot":
        a, b, c, e = (d.size(9) for _ in range(4))
        return Call(
            kind, [d.operand((a, b, c)), d.operand((c, b, e))], lambda x, y: pyapp.tensordot(x, y, ([1, 2], [1, 0]))
        )
    if kind == "self":
        return Call(kind, [d.operand((m, k))], (lambda a: a @ a.mT) if d.chance(0.5) else (lambda a: a.mT @ a))
    if kind == "inner":
        return Call(kind, [d.operand((m, k)), d.operand((n, k))], pyapp.inner)
    whole = str(d.pick(("int64", "int32", "int8", "uint8")))
    return Call(
        kind,
        [d.operand((m, k), whole, 0, 5), d.operand((k, n), whole, 0, 5)],
        lambda a, b: a @ b,
        False,
        exact_reference=True,
    )


@family
def linear(d: Draw) -> Call:
    k, n = d.size(), d.size()
    lead = d.shape(d.below(4), 70)
    operands = [d.operand((*lead, k)), d.operand((n, k))]
    name = "linear"
    bias, residual = d.chance(0.4), d.chance(0.25)
    if bias:
        operands.append(d.operand((n,)))
    if residual:
        operands.append(d.operand((*lead, n)))
        name = "linear and residual"
    elif d.chance(0.2):
        kind = str(d.pick(("relu", "gelu_tanh")))
        return Call(f"linear_activated {kind}", operands, lambda x, w, b=None: linear_activated(x, w, b, kind))

    def call(x: Tensor, w: Tensor, *rest: Tensor) -> Tensor:
        return ops.linear(x, w, rest[0] if bias else None, rest[-1] if residual else None)

    return Call(name, operands, call, details={"bias": bias})


@family
def blocks(d: Draw) -> Call:
    """Products with, and rows of, block-quantised weights."""
    name = str(d.pick(BLOCKS))
    block = pyapp.as_dtype(name).block
    n, k = d.size(), block * int(d.pick((1, 1, 2, 3, 5) if block < 256 else (1, 1, 2)))
    w = pyapp.from_numpy(d.random.randn(n, k).astype(np.float32))
    packed = quant.quantize(w, name)
    exact = packed.to("float32").double()
    if d.chance(0.25):
        ids = d.operand(d.shape(1 + d.below(2), 40), str(d.pick(("int64", "int32"))), 0, n)
        return Call(
            f"embedding {name}", [ids],
            lambda ids: ops.embedding(packed.to(ids.device), ids) if not reference() else ops.embedding(exact, ids),
            False, details={"shape": (n, k)},
        )  # fmt: skip
    kind = str(d.pick(("float32", "float32", "float16", "bfloat16")))
    lead = d.shape(d.below(3), 40)
    operands = [d.operand((*lead, k), kind)]
    bias, residual = d.chance(0.3), d.chance(0.3)
    if bias:
        operands.append(d.operand((n,), kind))
    if residual:
        operands.append(d.operand((*lead, n), kind))

    def call(x: Tensor, *rest: Tensor) -> Tensor:
        weight = exact if reference() else packed.to(x.device)
        return ops.linear(x, weight, rest[0] if bias else None, rest[-1] if residual else None)

    return Call(
        f"linear {name}",
        operands,
        call,
        tolerance=0.02,
        absolute=0.012 * k**0.5,
        details={"shape": (n, k), "bias": bias},
    )
