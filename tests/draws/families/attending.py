"""Attention, its caches and rotations."""

from __future__ import annotations

from typing import Any

import numpy as np

import pyapp
from pyapp import Tensor, ops
from pyapp.engine.ops import kv_cache
from pyapp.nn import functional as F

from ..call import Call, family, reference
from ..operands import Draw, Operand


@family
def attention(d: Draw) -> Call:
    heads_kv = int(d.pick((1, 1, 2, 3)))
    group = int(d.pick((1, 1, 2, 4)))
    heads, size = heads_kv * group, int(d.pick((1, 2, 4, 8, 8, 16, 20, 32, 64)))
    batch = int(d.pick((1, 1, 2, 3)))
    tokens = int(d.pick((1, 1, 2, 3, 5, 8, 16, 17, 25, 33)))
    keys = tokens if d.chance(0.5) else tokens + int(d.pick((1, 2, 4, 7, 16, 31, 40)))
    vsize = size if d.chance(0.8) else int(d.pick((1, 3, 8, 16)))
    heads_first = d.chance(0.5)
    kind = d.kind

    def one(length: int, count: int, width: int) -> Operand:
        return d.operand((batch, count, length, width) if heads_first else (batch, length, count, width), kind)

    if d.chance(0.2) and keys == tokens and vsize == size and d.chance(0.7):  # all in one
        width = (heads + 2 * heads_kv) * size
        qkv = d.operand((batch, tokens, width), kind)
        inner = d.chance(0.5)

        def joined(x: Tensor) -> Tensor:
            parts = x.reshape(batch, tokens, heads + 2 * heads_kv, size)
            if inner:
                q, k, v = (y.transpose(1, 2) for y in parts.split([heads, heads_kv, heads_kv], 2))
                return (
                    F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=group > 1)
                    .transpose(1, 2)
                    .reshape(batch, tokens, -1)
                )
            return ops.attention(*parts.split([heads, heads_kv, heads_kv], 2))

        return Call("attention of joined", [qkv], joined, details={"heads": (heads, heads_kv), "inner": inner})
    q, k, v = one(tokens, heads, size), one(keys, heads_kv, size), one(keys, heads_kv, vsize)
    operands = [q, k, v]
    mask = None
    if d.chance(0.45):
        shape = tuple(n if d.chance(0.6) else 1 for n in (batch, heads)) + (
            tokens if d.chance(0.7) else 1,
            keys if d.chance(0.9) else 1,
        )
        while shape and shape[0] == 1 and d.chance(0.5) and heads_first:
            shape = shape[1:]
        mask = d.operand(shape, "bool" if d.chance(0.5) else kind)
        operands.append(mask)
    if heads_first:
        causal = mask is None and d.chance(0.5) and tokens == keys

        def call(q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, m, is_causal=causal, enable_gqa=group > 1)

        return Call("sdpa", operands, call, details={"causal": causal})
    causal = d.chance(0.5)
    options: dict[str, Any] = {}
    if d.chance(0.2):
        options["window"] = int(d.pick((1, 2, 5, 20))) if causal else (int(d.pick((0, 1, 5))), int(d.pick((0, 2, 7))))
    if d.chance(0.12):
        options["softcap"] = 3.0
    if d.chance(0.2):
        options["scale"] = 0.3
    if causal and d.chance(0.1):
        options["slopes"] = d.operand((heads,), low=0.1, high=0.6)
    if d.chance(0.1):
        options["sinks"] = d.operand((heads,))
    extra = [x for x in ("slopes", "sinks") if x in options]
    operands += [options.pop(x) for x in extra]
    masked = mask is not None

    def open_call(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
        named = dict(zip(extra, rest[masked:], strict=True))
        return ops.attention(q, k, v, causal, mask=rest[0] if masked else None, **options, **named)

    return Call("attention", operands, open_call, details={"causal": causal, **options, "extra": extra})


@family
def cached(d: Draw) -> Call:
    heads_kv, group = int(d.pick((1, 2, 3))), int(d.pick((1, 1, 2, 4)))
    heads, size = heads_kv * group, int(d.pick((2, 4, 8, 8, 16, 32, 64)))
    texts = () if d.chance(0.5) else (int(d.pick((1, 2, 3))),)
    tokens, capacity = int(d.pick((1, 1, 1, 2, 3, 5, 17))), int(d.pick((17, 20, 33, 48)))
    which = d.pick(("write", "attend", "attend", "self", "cross"))
    place = np.array([d.below(capacity - tokens + 1) for _ in range(texts[0] if texts else 1)], np.int32)
    kind = str(d.pick(("float32", "float32", "float16")))
    position = d.operand(place.shape, "int32", 0, 1)
    position.source.fill(np.zeros_like(position.source.values))
    for at, value in zip(position.index.reshape(-1), place, strict=True):
        position.source.values[at] = value
    if len(set(position.index.reshape(-1))) < place.size:
        place[:] = place[-1]
    if which == "cross":
        q = d.operand((tokens, heads, size))
        k, v = (d.operand((heads_kv, capacity, size)) for _ in range(2))
        return Call("cross_attention", [q, k, v], ops.cross_attention)
    q = d.operand((*texts, tokens, heads, size), "float32")
    k, v = (
        d.operand((*texts, heads_kv, capacity, size), kind, expands=which != "write", joins=which != "write")
        for _ in range(2)
    )
    if which == "write":
        x = d.operand((*texts, tokens, heads_kv, size), "float32")
        return Call("cache_write", [k, x, position], ops.cache_write, False, changed=0, tolerance=2e-3)
    options: dict[str, Any] = {}
    if d.chance(0.2):
        options["window"] = int(d.pick((1, 4, 20)))
    if d.chance(0.15):
        options["softcap"] = 3.0
    if d.chance(0.3):
        options["scale"] = 0.4
    if which == "self":
        width = (heads + 2 * heads_kv) * size
        qkv = d.operand((*texts, tokens, width), "float32")
        rotated = size - size % 2 if d.chance(0.7) else max(2, size // 2 // 2 * 2)
        table = ops.rope_table(capacity, rotated)
        turned, alone = d.chance(0.5), d.chance(0.3)
        same = d.chance(0.5)

        def own(qkv: Tensor, k: Tensor, v: Tensor, p: Tensor) -> Any:
            t = None if alone else table.to(device=qkv.device, dtype=qkv.dtype if not same else qkv.dtype)
            k, v = k.clone(memory_format=pyapp.preserve_format), v.clone(memory_format=pyapp.preserve_format)
            y = ops.cached_self_attention(qkv.clone(memory_format=pyapp.preserve_format), t, p, k, v, turned, **options)
            return y, k, v

        return Call(
            "cached_self_attention",
            [qkv, k, v, position],
            own,
            False,
            tolerance=3e-3,
            details={**options, "turned": turned, "rotated": rotated},
        )
    return Call(
        "cached_attention", [q, k, v, position], lambda q, k, v, p: ops.cached_attention(q, k, v, p, **options), False,
        tolerance=3e-3, details={**options, "place": place.tolist()},
    )  # fmt: skip


@family
def rope(d: Draw) -> Call:
    size, heads, tokens = 2 * int(d.pick((1, 2, 4, 5, 8, 16, 32))), int(d.pick((1, 2, 3, 5))), int(d.pick((1, 2, 5, 9)))
    rotated = size if d.chance(0.6) else 2 * (1 + d.below(size // 2))
    lead = (int(d.pick((1, 2, 3))),) if d.chance(0.6) else ()
    x = d.operand((*lead, tokens, heads, size))
    table, turned = ops.rope_table(32, rotated), d.chance(0.5)
    operands = [x]
    how = d.pick(("none", "one", "tokens", "batch"))
    if how != "none":
        shape = {"one": (1,), "tokens": (tokens,), "batch": (*lead, tokens)}[how]
        operands.append(d.operand(shape, "int32", 0, 20))

    def call(x: Tensor, p: Tensor | None = None) -> Tensor:
        return ops.rope(
            x, table.to(device=x.device, dtype=x.dtype if x.dtype is pyapp.float64 else table.dtype), p, turned
        )

    return Call("rope", operands, call, details={"rotated": rotated, "turned": turned, "position": how})


@family
def paged(d: Draw) -> Call:
    """Caches in q8_0 and bfloat16, in blocks, with sinks and slopes."""
    heads_kv, group = int(d.pick((1, 2, 3))), int(d.pick((1, 2, 4)))
    heads, size = heads_kv * group, int(d.pick((8, 16, 32, 40, 64)))
    tokens, part = int(d.pick((1, 1, 2, 5))), int(d.pick((4, 8, 16)))
    texts = int(d.pick((1, 2, 3)))
    kind = str(d.pick(("float32", "float16", "q8")))
    parts = 1 + d.below(4)
    parts = max(parts, -(-tokens // part))
    blocks = texts * parts + d.below(3)
    table = d.operand((texts, parts), "int32", 0, 1, expands=False)
    table.source.values[table.index.reshape(-1)] = d.random.permutation(blocks)[: texts * parts]
    position = d.operand((texts,), "int32", 0, 1, expands=False)
    position.source.values[position.index] = d.random.randint(0, parts * part - tokens + 1, texts)
    q = d.operand((texts, tokens, heads, size), "float32")
    x = d.operand((texts, tokens, heads_kv, size), "float32")
    rows = pyapp.from_numpy(d.random.randn(2, blocks, heads_kv, part, size).astype(np.float32))
    in_blocks = d.chance(0.7)
    options: dict[str, Any] = {}
    extra: list[Operand] = []
    if d.chance(0.3):
        options["window"] = int(d.pick((1, 3, 20)))
    if d.chance(0.2):
        options["softcap"] = 3.0
    sinks = d.chance(0.3)
    if sinks:
        extra.append(d.operand((heads,), "float32"))
    slopes = d.chance(0.2)
    if slopes:
        extra.append(d.operand((heads,), "float32", 0.1, 0.6))
    if not in_blocks:
        rows = rows.reshape(2, blocks, heads_kv, part, size)
        capacity = max(tokens, 3) + d.below(20)
        rows = pyapp.from_numpy(d.random.randn(2, texts, heads_kv, capacity, size).astype(np.float32))
        position.source.values[position.index] = d.random.randint(0, capacity - tokens + 1, texts)

    def call(q: Tensor, x: Tensor, table: Tensor, position: Tensor, *rest: Tensor) -> Any:
        if reference():
            k, v = (pyapp.from_numpy(r.numpy().copy()) for r in rows)
            if kind == "q8":
                k, v = (pyapp.from_numpy(kv_cache.decode_q8(kv_cache.encode_q8(r.numpy()), size)) for r in rows)
            elif kind == "float16":
                k, v = k.half().float(), v.half().float()
            q, x = q.float(), x.float()
            rest = tuple(r.float() for r in rest)
        elif kind == "q8":
            k, v = (pyapp.from_numpy(kv_cache.encode_q8(r.numpy())).to(q.device) for r in rows)
        else:
            k, v = (r.to(kind).clone().to(q.device) for r in rows)
        named: dict[str, Any] = dict(options)
        if in_blocks:
            named["block_table"] = table
        more = list(rest)
        if sinks:
            named["sinks"] = more.pop(0)
        if slopes:
            named["slopes"] = more.pop(0)
        ops.cache_write(k, x, position, *([table] if in_blocks else []))
        ops.cache_write(v, x * 0.5, position, *([table] if in_blocks else []))
        return ops.cached_attention(q, k, v, position, **named)

    return Call(
        f"paged {kind}",
        [q, x, table, position, *extra],
        call,
        False,
        tolerance=0.02,
        details={**options, "in_blocks": in_blocks, "part": part, "sinks": sinks, "slopes": slopes},
    )
