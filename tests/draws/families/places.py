"""Indices, and what moves elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor
from pyapp.nn import functional as F

from ..call import Call, broadcast, dims, family
from ..operands import Draw


@family
def indexing(d: Draw) -> Call:
    name = d.pick(
        (
            "embedding gather scatter scatter_add scatter_reduce index_select index_add index index2 "
            "mask masked_select take_along put where_one index_copy index_fill take masked_scatter "
            "embedding_grad searchsorted bag rows"
        ).split()
    )
    rank = 1 + d.below(4)
    shape = d.shape(rank, 2000, empty=False)
    dim = d.below(rank) - (rank if d.chance(0.4) else 0)
    n = shape[dim]
    whole = str(d.pick(("int64", "int64", "int32")))
    details: dict[str, Any] = {"dim": dim}
    if name in ("embedding", "embedding_grad", "rows"):
        table = d.operand((d.size(), d.size()))
        ids = d.operand(d.shape(d.below(4), 60), whole, 0, table.shape[0])
        return Call("embedding", [table, ids], lambda w, i: F.embedding(i, w))
    x = d.operand(shape)
    if name == "bag":
        table = d.operand((d.size(), d.size()))
        ids = d.operand(d.shape(2, 60, empty=False), "int64", 0, table.shape[0])
        mode = str(d.pick(("sum", "mean", "max")))
        return Call(f"embedding_bag {mode}", [table, ids], lambda w, i: F.embedding_bag(i, w, mode=mode))
    if name in ("gather", "take_along", "scatter", "scatter_add", "scatter_reduce"):
        count = d.size(20)
        sizes = list(shape)
        sizes[dim] = count
        if name not in ("take_along",) and d.chance(0.3):
            sizes = [1 + d.below(k) if i != dim % rank else k for i, k in enumerate(sizes)]
        if name == "scatter":
            sizes[dim] = min(sizes[dim], n)
        index = d.operand(tuple(sizes), "int64", 0, n, expands=name != "scatter")
        if name == "gather":
            return Call(name, [x, index], lambda x, i: x.gather(dim, i), details=details)
        if name == "take_along":
            return Call(name, [x, index], lambda x, i: pyapp.take_along_dim(x, i, dim), details=details)
        source = d.operand(tuple(sizes))
        if name == "scatter":  # no place twice
            order = np.argsort(d.random.rand(*sizes[: dim % rank], n, *sizes[dim % rank + 1 :]), dim)
            chosen = np.take(order, np.arange(sizes[dim]), dim)
            index.source.values[index.index.reshape(-1)] = chosen.reshape(-1)
            return Call(name, [x, index, source], lambda x, i, s: x.scatter(dim, i, s), details=details)
        if name == "scatter_add":
            return Call(name, [x, index, source], lambda x, i, s: x.scatter_add(dim, i, s), details=details)
        how = str(d.pick(("sum", "amax", "amin", "mean")))
        return Call(
            f"{name} {how}", [x, index, source], lambda x, i, s: x.scatter_reduce(dim, i, s, how), details=details
        )
    if name in ("index_select", "index_add", "index_copy", "index_fill"):
        count = d.size(20) if name in ("index_select", "index_add") else 1 + d.below(n)
        index = d.operand((count,), whole, 0, n, expands=False)
        if name == "index_select":
            return Call(name, [x, index], lambda x, i: x.index_select(dim, i), details=details)
        if name in ("index_copy", "index_fill"):
            index.source.values[index.index.reshape(-1)] = d.random.permutation(n)[:count]
        if name == "index_fill":
            return Call(name, [x, index], lambda x, i: x.index_fill(dim, i.long(), 1.5), details=details)
        sizes = list(shape)
        sizes[dim] = count
        source = d.operand(tuple(sizes))
        if name == "index_add":
            return Call(name, [x, index, source], lambda x, i, s: x.index_add(dim, i, s, alpha=2), details=details)
        return Call(name, [x, index, source], lambda x, i, s: x.index_copy(dim, i.long(), s), details=details)
    if name in ("index", "put"):
        at = d.below(rank)
        index = d.operand(d.shape(d.below(3), 30, empty=False), whole, -shape[at], shape[at])
        if name == "index":
            return Call(name, [x, index], lambda x, i: x[(*[slice(None)] * at, i)], details={"at": at})
        values = d.operand((*shape[:at], *index.shape, *shape[at + 1 :]))
        return Call(
            "index_put accumulate", [x, index, values],
            lambda x, i, v: x.index_put((i,), v.movedim(tuple(range(at, at + i.ndim)), tuple(range(i.ndim))), accumulate=True) if at == 0 else x.index_put((*[pyapp.arange(n, device=x.device).reshape(-1, *[1] * (at - 1 - j + i.ndim)) for j, n in enumerate(shape[:at])], i), v, accumulate=True),  # noqa: E501
            details={"at": at},
        )  # fmt: skip
    if name == "index2" and rank >= 2:
        a, b = (int(i) for i in d.random.permutation(rank)[:2])
        common = d.shape(1 + d.below(2), 30, empty=False)
        first, second = (d.operand(broadcast(d, common), whole, -shape[j], shape[j]) for j in (a, b))
        steps = d.chance(0.3)

        def pick(x: Tensor, i: Tensor, j: Tensor) -> Tensor:
            places: list[Any] = [slice(None, None, 2) if steps else slice(None)] * rank
            places[a], places[b] = i, j
            return x[tuple(places)]

        return Call(name, [x, first, second], pick, details={"dims": (a, b), "steps": steps})
    if name in ("mask", "masked_select", "masked_scatter"):
        mask = d.operand(shape[: 1 + d.below(rank)] if name == "mask" else shape, "bool")
        if name == "masked_scatter":
            source = d.operand((int(np.prod(shape)) + d.below(4),))
            return Call(name, [x, mask, source], lambda x, m, s: x.masked_scatter(m, s))
        return Call(name, [x, mask], (lambda x, m: x[m]) if name == "mask" else (lambda x, m: x.masked_select(m)))
    if name == "take":
        index = d.operand(d.shape(2, 30, empty=False), "int64", 0, int(np.prod(shape)))
        return Call(name, [x, index], pyapp.take)
    if name == "searchsorted":
        values = d.operand(d.shape(2, 40))
        return Call(name, [x, values], lambda x, v: pyapp.searchsorted(x.reshape(-1).sort()[0], v), False)
    at, chosen = d.below(rank), 0
    return Call("select", [x], lambda x: x.select(at, chosen) * 2.0)


@family
def moves(d: Draw) -> Call:
    name = d.pick(
        (
            "cat stack split chunk flip roll tril triu repeat tile diag diagonal unfold reshape permute "
            "expand movedim flatten narrow unbind repeat_interleave rot90 broadcast_to diag_embed "
            "view_as block one_hot meshgrid hstack unflatten ravel slices as_strided pad"
        ).split()
    )
    rank = 1 + d.below(4)
    shape = d.shape(rank, 2500)
    x = d.operand(shape)
    dim = d.below(rank) - (rank if d.chance(0.4) else 0)
    n = shape[dim]
    details: dict[str, Any] = {"dim": dim}
    if name in ("cat", "stack", "hstack"):
        others = []
        for _ in range(1 + d.below(4)):
            sizes = list(shape)
            if name == "cat":
                sizes[dim] = d.size(17) if d.chance(0.9) else 0
            others.append(d.operand(tuple(sizes), None if d.chance(0.93) else str(d.pick(d.floats))))
        call = {
            "cat": lambda *t: pyapp.cat(t, dim),
            "stack": lambda *t: pyapp.stack(t, dim),
            "hstack": lambda *t: pyapp.hstack(t),
        }[name]
        return Call(name, [x, *others], call, details=details)
    if name in ("split", "chunk"):
        size = 1 + d.below(max(n, 1))
        return Call(
            name,
            [x],
            lambda x: tuple(y * 1.5 for y in getattr(x, name)(size, dim))[:3],
            details={**details, "size": size},
        )
    if name == "roll":
        by = d.below(9) - 4
        return Call(name, [x], lambda x: x.roll(by, dim), details={**details, "by": by})
    if name == "flip":
        chosen = dims(d, rank)
        chosen = (dim,) if chosen is None else (chosen,) if isinstance(chosen, int) else chosen
        return Call(name, [x], lambda x: x.flip(chosen), details={"dims": chosen})
    if name in ("tril", "triu") and rank > 1:
        by = d.below(7) - 3
        return Call(name, [x], lambda x: getattr(x, name)(by), details={"by": by})
    if name in ("repeat", "tile"):
        times = tuple(int(d.pick((1, 1, 2, 3))) for _ in range(rank + d.below(2)))
        return Call(name, [x], lambda x: getattr(x, name)(*times), details={"times": times})
    if name == "repeat_interleave":
        times = 1 + d.below(3)
        return Call(name, [x], lambda x: x.repeat_interleave(times, dim), details=details)
    if name in ("diagonal", "diag_embed") and rank > 1:
        by = d.below(5) - 2
        call = (lambda x: x.diagonal(by, 0, -1) * 2.0) if name == "diagonal" else (lambda x: x.diag_embed(by))
        return Call(name, [x], call, details={"by": by})
    if name == "unfold" and n:
        size, step = 1 + d.below(n), 1 + d.below(3)
        return Call(
            name, [x], lambda x: x.unfold(dim, size, step) * 1.5, details={**details, "size": size, "step": step}
        )
    if name == "rot90" and rank > 1:
        return Call(name, [x], lambda x: x.rot90(1, (0, -1)))
    if name == "as_strided" and x.index.size and rank:
        # only what the reference has too: of a dense clone
        flat = int(np.prod(shape))
        a = 1 + d.below(flat)
        b = 1 + d.below(max(flat - a, 1))
        sizes, strides = (a, b) if a + b - 1 <= flat else (a, 1), (1, 1)
        return Call(
            name, [x], lambda x: (x * 1.0).reshape(-1).as_strided(sizes, strides) * 2.0, details={"sizes": sizes}
        )
    if name == "slices":
        places = tuple(slice(d.below(n + 1), None, 1 + d.below(3)) for n in shape)
        return Call(name, [x], lambda x: x[places].relu(), details={"places": places})
    if name in ("unbind",):
        return Call(name, [x], lambda x: tuple(y * 2.0 for y in x.unbind(dim)[:3]), details=details)
    if name == "meshgrid":
        a, b = d.operand((d.size(),)), d.operand((d.size(),))
        return Call(name, [a, b], lambda a, b: tuple(pyapp.meshgrid(a, b, indexing="ij")))
    order = tuple(int(i) for i in d.random.permutation(rank))
    if name in ("flatten", "ravel", "reshape"):
        return Call(name, [x], lambda x: x.permute(*order).reshape(-1), details={"order": order})
    if name == "narrow":
        start = d.below(n + 1)
        return Call(
            name, [x], lambda x: x.narrow(dim, start, n - start).contiguous(), details={**details, "start": start}
        )
    return Call("permute", [x], lambda x: x.permute(*order).contiguous(), details={"order": order})
