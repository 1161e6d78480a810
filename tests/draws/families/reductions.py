"""Reductions, sorting and norms."""

from __future__ import annotations

import numpy as np

import pyapp
from pyapp import ops
from pyapp.nn import functional as F

from ..call import Call, dims, family
from ..operands import Draw


@family
def reduction(d: Draw) -> Call:
    names = (
        "sum mean amax amin prod var std logsumexp norm argmax argmin max min nansum median aminmax "
        "var_mean cumsum cumprod cummax logcumsumexp sort topk any all kthvalue count_nonzero "
        "softmax log_softmax softmin diff quantile mode unique"
    ).split()
    name = d.pick(names[:-2])
    rank = 1 + d.below(4)
    shape = d.shape(rank, 4000)
    x = d.operand(shape)
    dim, keep = dims(d, rank), d.chance(0.4)
    one = d.below(rank) - (rank if d.chance(0.5) else 0)
    details = {"dim": dim, "one": one, "keep": keep}
    if name in ("sum", "mean", "amax", "amin", "var", "std", "nansum"):
        return Call(name, [x], lambda x: getattr(x, name)(dim, keepdim=keep), details=details)
    if name in ("any", "all"):
        return Call(name, [x], lambda x: getattr(x > 0.5, name)(dim, keepdim=keep), False, details=details)
    if name == "count_nonzero":
        return Call(name, [x], lambda x: (x > 0.5).count_nonzero(dim), False, details=details)
    if name == "logsumexp":
        return Call(name, [x], lambda x: x.logsumexp(one if dim is None else dim, keepdim=keep), details=details)
    if name == "norm":
        p = d.pick((1, 2, 3, float("inf")))
        return Call(f"norm {p}", [x], lambda x: x.norm(p, dim, keepdim=keep), details=details)
    if name == "var_mean":
        return Call(name, [x], lambda x: pyapp.var_mean(x, dim, keepdim=keep), details=details)
    if name in ("max", "min", "median", "cummax"):
        return Call(
            name,
            [x],
            lambda x: getattr(x, name)(one, **({} if name == "cummax" else {"keepdim": keep}))[0],
            details=details,
        )
    if name in ("argmax", "argmin"):
        return Call(name, [x], lambda x: getattr(x, name)(one, keepdim=keep), False, details=details)
    if name == "aminmax":
        return Call(name, [x], lambda x: tuple(x.aminmax(dim=one, keepdim=keep)), details=details)
    if name == "sort":
        down = d.chance(0.5)
        return Call(name, [x], lambda x: x.sort(one, down)[0], details=details)
    if name in ("topk", "kthvalue"):
        k = 1 + d.below(max(shape[one], 1))
        return Call(name, [x], lambda x: getattr(x, name)(k, one)[0], details={**details, "k": k})
    if name == "quantile":
        return Call(
            name,
            [x],
            lambda x: (x if x.dtype is not pyapp.float16 and x.dtype is not pyapp.bfloat16 else x.float()).quantile(
                0.3, one
            ),
            details=details,
        )
    if name == "softmin":
        return Call(name, [x], lambda x: F.softmin(x, one), details=details)
    return Call(name, [x], lambda x: x.diff(dim=one) if name == "diff" else getattr(x, name)(one), details=details)


@family
def norms(d: Draw) -> Call:
    name = d.pick(
        (
            "layer_norm rms_norm group_norm batch_norm instance_norm normalize softmax log_softmax "
            "layer_norm_2 channels_first"
        ).split()
    )
    if name in ("layer_norm", "rms_norm", "layer_norm_2", "channels_first"):
        shape = d.shape(2 + d.below(3), 6000)
        n = shape[-1]
        kind = d.kind
        weights = [d.operand((n,), kind, expands=True) for _ in range(2)]
        if name == "rms_norm":
            return Call(name, [d.operand(shape), weights[0]], lambda x, w: ops.rms_norm(x, n, w, 1e-3))
        if name == "layer_norm_2" and len(shape) > 2:
            inner = shape[-2:]
            pair = [d.operand(inner) for _ in range(2)]
            return Call(name, [d.operand(shape), *pair], lambda x, w, b: F.layer_norm(x, inner, w, b, 1e-3))
        if name == "channels_first" and len(shape) > 2:  # as in ConvNeXt
            c = shape[1]
            return Call(
                name, [d.operand(shape), d.operand((c,)), d.operand((c,))],
                lambda x, w, b: F.layer_norm(x.movedim(1, -1), (c,), w, b, 1e-3).movedim(-1, 1),
            )  # fmt: skip
        return Call(name, [d.operand(shape), *weights], lambda x, w, b: F.layer_norm(x, (n,), w, b, 1e-3))
    if name in ("softmax", "log_softmax", "normalize"):
        shape = d.shape(1 + d.below(4), 5000)
        dim = d.below(len(shape)) - len(shape)
        if name == "normalize":
            return Call(name, [d.operand(shape)], lambda x: F.normalize(x, dim=dim, eps=0.1), details={"dim": dim})
        return Call(name, [d.operand(shape)], lambda x: getattr(x, name)(dim), details={"dim": dim})
    groups = int(d.pick((1, 2, 3, 4, 8)))
    channels = groups * int(d.pick((1, 2, 3, 4, 5, 8)))
    space = d.shape(1 + d.below(3), 400, empty=False)
    shape = (int(d.pick((1, 2, 3))), channels, *space)
    if name != "group_norm" and np.prod(space) == 1:
        shape = (*shape[:2], *space[:-1], 5)
    x, w, b = d.operand(shape), d.operand((channels,)), d.operand((channels,))
    if name == "group_norm":
        return Call(name, [x, w, b], lambda x, w, b: F.group_norm(x, groups, w, b, 1e-2), details={"groups": groups})
    if name == "instance_norm":
        return Call(name, [x, w, b], lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=1e-2))
    if d.chance(0.5):
        return Call(name, [x, w, b], lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-2))
    mean, var = d.operand((channels,)), d.operand((channels,), low=0.5, high=2.0)
    return Call(
        "batch_norm in evaluation",
        [x, w, b, mean, var],
        lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b),
    )
