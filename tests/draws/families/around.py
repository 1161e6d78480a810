"""What is around calls of other families: derivatives, vmap, autocast, compile."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor

from ..call import FAMILIES, Call, family, reference
from ..operands import Draw


@family
def second(d: Draw) -> Call:
    """Gradients of gradients."""
    names = [
        *(
            "unary binary reduction norms matmul linear attention convolution pooling indexing moves "
            "losses gated chain ternary steps"
        ).split(),
    ]
    d.floats = ("float32", "float64")
    d.kind = str(d.pick(d.floats))
    inner = FAMILIES[d.pick(names)](d)
    seed = d.below(1 << 30)
    floats = [i for i, x in enumerate(inner.operands) if x.source.floats]

    def call(*t: Tensor) -> Any:
        own = [x if x.requires_grad else x.detach().requires_grad_() if x.is_floating_point() else x for x in t]
        with pyapp.enable_grad():
            y = inner.function(*own)
            y = [y] if isinstance(y, Tensor) else [x for x in y if isinstance(x, Tensor)]
            y = [x for x in y if x.is_floating_point() and x.requires_grad]
            if not y:
                return own[floats[0]] * 1.0 if floats else own[0]
            random = np.random.RandomState(seed)
            total = sum(
                (
                    (
                        x
                        * pyapp.from_numpy(np.asarray(random.randn(*x.shape)).reshape(x.shape))
                        .reshape(x.shape)
                        .to(device=x.device, dtype=x.dtype)
                    ).sum()
                    for x in y
                ),
                start=0.0,
            )
            found = pyapp.autograd.grad(total, [own[i] for i in floats], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return Call(
        f"second {inner.name}",
        inner.operands,
        call,
        inner.learns,
        max(inner.tolerance, 2e-3 if d.kind == "float32" else 1e-6),
        details=inner.details,
    )


@family
def forward_mode(d: Draw) -> Call:
    """Forward derivatives, and calls of batches by vmap."""
    names = (
        "unary binary reduction norms matmul linear attention convolution pooling indexing moves gated chain ternary"
    ).split()
    d.floats = ("float32", "float64")
    d.kind = str(d.pick(d.floats))
    inner = FAMILIES[d.pick(names)](d)
    floats = [i for i, x in enumerate(inner.operands) if x.source.floats]
    if not inner.learns or not floats:
        return inner
    by_vmap = d.chance(0.5)
    if by_vmap:
        at = floats[d.below(len(floats))]
        one = inner.operands[at]
        dim = d.below(len(one.shape) + 1)
        wide = d.operand(
            (*one.shape[:dim], 2, *one.shape[dim:]),
            one.source.dtype,
            low=0.3 if inner.name in ("div", "log") else None,
            high=1.0 if inner.name in ("div", "log") else None,
        )
        operands = [wide if i == at else x for i, x in enumerate(inner.operands)]
        axes = tuple(dim if i == at else None for i in range(len(operands)))

        def mapped(*t: Tensor) -> Any:
            return pyapp.func.vmap(inner.function, in_dims=axes, randomness="same")(*t)

        return Call(
            f"vmap {inner.name}",
            operands,
            mapped,
            False,
            inner.tolerance,
            inner.absolute,
            details={**inner.details, "axes": axes},
        )
    tangents = [d.operand(inner.operands[i].shape, inner.operands[i].source.dtype, joins=False) for i in floats]
    count = len(inner.operands)

    def call(*t: Tensor) -> Any:
        own = list(t[:count])

        def of(*x: Tensor) -> Any:
            given = list(own)
            for i, one in zip(floats, x, strict=True):
                given[i] = one
            y = inner.function(*given)
            return y if isinstance(y, Tensor) else tuple(y)

        _, derivative = pyapp.func.jvp(of, tuple(own[i] for i in floats), tuple(t[count:]))
        return derivative

    return Call(
        f"jvp {inner.name}",
        [*inner.operands, *tangents],
        call,
        False,
        max(inner.tolerance, 2e-3),
        details=inner.details,
    )


@family
def autocast(d: Draw) -> Call:
    names = "matmul linear attention convolution norms losses chain".split()
    d.floats = ("float32",)
    d.kind = "float32"
    inner = FAMILIES[d.pick(names)](d)
    kind = d.pick(("bfloat16", "float16"))

    def call(*t: Tensor) -> Any:
        if reference():
            return inner.function(*t)
        with pyapp.autocast(t[0].device.type, dtype=pyapp.as_dtype(kind)):
            return inner.function(*t)

    return Call(
        f"autocast {inner.name}",
        inner.operands,
        call,
        inner.learns and "relu" not in inner.name,
        0.1,
        details=inner.details,
    )


@family
def compiled(d: Draw) -> Call:
    """pyapp.compile: the same function with operands in other layouts."""
    names = (
        "unary binary reduction norms matmul linear attention convolution pooling moves losses "
        "gated chain ternary blocks rope cast whole steps many_dims cached"
    ).split()
    inner = FAMILIES[d.pick(names)](d)
    if inner.changed is not None:
        return inner
    again = []
    for x in inner.operands:
        other = d.operand(x.shape, x.source.dtype, expands=False, joins=False)
        values = x.values * 0.8 if x.source.floats and inner.name not in ("logit",) else x.values
        other.source.values[other.index.reshape(-1)] = values.reshape(-1)
        other.source.fill(other.source.values)
        again.append(other)
    count = len(inner.operands)

    def call(*t: Tensor) -> Any:
        first, second = t[:count], t[count:]
        function = inner.function if reference() else pyapp.compile(inner.function)
        found = []
        for own in (first, first, first) if d.plain else (first, second, first, second, second, first):
            y = function(*own)
            found += [y] if isinstance(y, Tensor) else [x for x in y if isinstance(x, Tensor)]
        return tuple(found)

    return Call(
        f"compiled {inner.name}",
        [*inner.operands, *again],
        call,
        False,
        inner.tolerance,
        inner.absolute,
        details=inner.details,
        exact_reference=inner.exact_reference,
    )
