"""Convolutions, pools and what else reads windows or places of a picture."""

from __future__ import annotations

from pyapp.nn import functional as F

from ..call import Call, family
from ..operands import Draw, Operand


@family
def convolution(d: Draw) -> Call:
    rank = int(d.pick((1, 1, 2, 2, 2, 3)))
    groups = int(d.pick((1, 1, 1, 2, 3, 4, 8)))
    own, out = (int(d.pick((16, 17, 31, 32, 33, 64) if d.large else (1, 1, 2, 3, 4, 8, 16))) for _ in range(2))
    if d.chance(0.2):
        own, out, groups = 1, 1, int(d.pick((3, 4, 8, 16, 17, 32)))  # depthwise
    kernel = tuple(int(d.pick((1, 1, 2, 3, 3, 4, 5, 7) if rank < 3 else (1, 2, 3))) for _ in range(rank))
    stride, dilation = (tuple(int(d.pick((1, 1, 1, 2, 3))) for _ in range(rank)) for _ in range(2))
    padding = tuple(int(d.pick((0, 0, 1, 2, 3))) for _ in range(rank))
    most = {1: 65, 2: 17, 3: 7}[rank]
    space = tuple(
        max(d.size(most), (k - 1) * step + 1 - 2 * p) for k, step, p in zip(kernel, dilation, padding, strict=True)
    )
    batch, transposed, bias = int(d.pick((1, 1, 2, 3))), d.chance(0.35), d.chance(0.5)
    lead = (batch,) if d.chance(0.9) else ()
    x = d.operand((*lead, groups * own, *space), expands=d.chance(0.5))
    if d.chance(0.3) and lead and not d.plain:  # channels last
        order = (0, rank + 1, *range(1, rank + 1))
        source = d.operand((batch, *space, groups * own), expands=False)
        x = Operand(source.source, [*source.steps, ("permute", order)])
    details = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        extra = tuple(d.below(max(s, e)) for s, e in zip(stride, dilation, strict=True)) if d.chance(0.3) else 0
        w = d.operand((groups * own, out, *kernel))
        operands = [x, w, *([d.operand((groups * out,))] if bias else [])]
        call = getattr(F, f"conv_transpose{rank}d")
        return Call(
            f"conv_transpose{rank}d", operands,
            lambda x, w, b=None: call(x, w, b, stride, padding, extra, groups, dilation),
            details={**details, "extra": extra},
        )  # fmt: skip
    w = d.operand((groups * out, own, *kernel))
    operands = [x, w, *([d.operand((groups * out,))] if bias else [])]
    call = getattr(F, f"conv{rank}d")
    return Call(
        f"conv{rank}d", operands, lambda x, w, b=None: call(x, w, b, stride, padding, dilation, groups), details=details
    )


@family
def pooling(d: Draw) -> Call:
    rank = int(d.pick((1, 2, 2, 3)))
    kernel = tuple(int(d.pick((1, 2, 2, 3, 4))) for _ in range(rank))
    stride = tuple(int(d.pick((1, 2, 3))) for _ in range(rank)) if d.chance(0.7) else None
    padding = tuple(d.below(k // 2 + 1) for k in kernel)
    space = tuple(max(d.size({1: 65, 2: 17, 3: 9}[rank]), k) for k in kernel)
    lead = (int(d.pick((1, 2, 3))), int(d.pick((1, 2, 3, 4, 8))))
    x = d.operand((*lead, *space))
    if d.chance(0.3) and not d.plain:
        source = d.operand((lead[0], *space, lead[1]), expands=False)
        x = Operand(source.source, [*source.steps, ("permute", (0, rank + 1, *range(1, rank + 1)))])
    name = d.pick(
        ("max", "avg", "adaptive_avg", "adaptive_max", "interpolate", "pad", "unfold", "grid_sample", "shuffle", "lp")
    )
    ceil = d.chance(0.3)
    details = {"kernel": kernel, "stride": stride, "padding": padding, "ceil": ceil}
    if name == "max":
        return Call(
            f"max_pool{rank}d",
            [x],
            lambda x: getattr(F, f"max_pool{rank}d")(x, kernel, stride, padding, ceil_mode=ceil),
            details=details,
        )
    if name == "avg":
        counted = d.chance(0.5)
        return Call(
            f"avg_pool{rank}d",
            [x],
            lambda x: getattr(F, f"avg_pool{rank}d")(x, kernel, stride, padding, ceil, counted),
            details={**details, "counted": counted},
        )
    if name.startswith("adaptive"):
        target = tuple(1 + d.below(n) for n in space)
        return Call(
            f"{name}_pool{rank}d",
            [x],
            lambda x: getattr(F, f"{name}_pool{rank}d")(x, target),
            details={"target": target},
        )
    if name == "interpolate":
        modes = {
            1: ("nearest", "linear"),
            2: ("nearest", "bilinear", "bicubic", "nearest-exact", "area"),
            3: ("nearest", "trilinear"),
        }[rank]
        mode, target = str(d.pick(modes)), tuple(d.size(20) for _ in space)
        corners = d.chance(0.5) if "linear" in mode or mode == "bicubic" else None
        anti = mode in ("bilinear", "bicubic") and d.chance(0.3)
        return Call(
            f"interpolate {mode}",
            [x],
            lambda x: F.interpolate(x, target, mode=mode, align_corners=corners, antialias=anti),
            details={"target": target, "corners": corners, "anti": anti},
        )
    if name == "pad":
        mode = str(d.pick(("constant", "reflect", "replicate", "circular")))
        amounts = []
        for n in reversed(space):
            amounts += [d.below(max(min(n, 4), 1)), d.below(max(min(n, 4), 1))]
        if mode == "constant" and d.chance(0.3):
            amounts = [-(d.below(2)) if n > 3 else 1 for n in reversed(space) for _ in range(2)]
        return Call(f"pad {mode}", [x], lambda x: F.pad(x, amounts, mode), details={"amounts": amounts})
    if name == "unfold" and rank == 2:
        return Call("unfold", [x], lambda x: F.unfold(x, kernel, padding=padding, stride=stride or 1), details=details)
    if name == "grid_sample" and rank == 2:
        grid = d.operand((lead[0], d.size(9), d.size(9), 2), low=-1.2, high=1.2)
        if d.kind in ("float16", "bfloat16"):  # in which places between pixels are coarse
            return Call("pixel_unshuffle", [d.operand((*lead, 4, 6))], lambda x: F.pixel_unshuffle(x, 2))
        how, edges = str(d.pick(("bilinear", "bicubic"))), str(d.pick(("zeros", "border", "reflection")))
        return Call(
            f"grid_sample {how} {edges}", [x, grid], lambda x, g: F.grid_sample(x, g, how, edges, align_corners=False)
        )
    if name == "shuffle" and rank == 2:
        y = d.operand((lead[0], 4 * lead[1], *space))
        return Call("pixel_shuffle", [y], lambda x: F.pixel_shuffle(x, 2))
    return Call("lp_pool", [x], lambda x: getattr(F, f"avg_pool{rank}d")(x, kernel), details=details)
