"""Patterns of steps that have a faster form: GELU, SiLU, hard swish, attention, normalisation.

A pattern is recognised with the shapes and constants of a run, and only if nothing else takes the values between its
steps. The replacement computes the same function, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isclose, sqrt
from typing import Any

from pyapp.engine import Tensor, ops

from .channels_last import in_channels_last
from .rewriting import Graph
from .steps import Eager
from .values import array_of

_Patterns = tuple[tuple[str, Callable[[Graph, Eager], None]], ...]


def fused(
    steps: list[Eager],
    env: dict[str, Any],
    fixed: set[str],
    outputs: set[str],
    layouts: dict[str, Any],
    made: dict[str, Any],
    learns: bool,
) -> list[Eager]:
    """The steps with the patterns replaced. `made` receives new constants."""
    graph = Graph(steps, env, fixed, outputs, layouts)
    _leave_out_copies(graph)
    _look(graph, _PATTERNS)
    if not learns:
        in_channels_last(graph)
        _look(graph, _IN_PLACE)
    kept, seen = outputs | fixed | graph.made.keys(), set[str]()
    for item in reversed(graph.steps):
        names = {name for name in (*item.step.inputs, *item.step.captures, *item.step.outputs) if name}
        item.step = replace(item.step, last_uses=[name for name in names - seen if name not in kept])
        seen |= names
    made.update(graph.made)
    return graph.steps


def _leave_out_copies(graph: Graph) -> None:
    """Steps take what an Identity takes: exporters put some between the steps of patterns."""
    captured = {name for item in graph.steps for name in item.step.captures}
    sources: dict[str, str] = {}
    kept = []
    for item in graph.steps:
        step = item.step
        if any(name in sources for name in step.inputs):
            item.step = step = replace(step, inputs=[sources.get(name, name) for name in step.inputs])
        target = step.outputs[0]
        if step.operator.name == "Identity" and target not in graph.outputs and target not in captured:
            sources[target] = step.inputs[0]
        else:
            kept.append(item)
    graph.steps = kept
    graph.index()


def _look(graph: Graph, patterns: _Patterns) -> None:
    for op, find in patterns:
        for item in list(graph.steps):
            if item.step.operator.name == op and any(item is left for left in graph.steps):
                find(graph, item)


# -- GELU: x (1 + erf(x / √2)) / 2, in any order


def _gelu(x: Tensor) -> Tensor:
    return ops.gelu(x)


def _find_gelu(graph: Graph, erf: Eager) -> None:
    inner = graph.maker.get(erf.step.inputs[0])
    if inner is None or graph.uses[erf.step.inputs[0]] != 1:
        return
    if inner.step.operator.name == "Div" and graph.is_number(inner.step.inputs[1], sqrt(2)):
        x = inner.step.inputs[0]
    elif inner.step.operator.name == "Mul" and (found := graph.constant_and(inner, 1 / sqrt(2))):
        x = found[0]
    else:
        return
    gone, name, half, own = [erf, inner], erf.step.outputs[0], False, False
    plus = graph.taker(name)
    if plus is None or plus.step.operator.name != "Add" or graph.constant_and(plus, 1.0) is None:
        return
    gone.append(plus)
    name, last = plus.step.outputs[0], plus
    while not (half and own):
        item = graph.taker(name)
        if item is None:
            return
        if not half and _halved(graph, item) == name:
            half = True
        elif item.step.operator.name != "Mul":
            return
        elif not own and (other := graph.other(item, name)) == x:
            own = True
        elif (
            not own
            and not half
            and (before := graph.made_by(other, "Mul") or graph.made_by(other, "Div")) is not None
            and _halved(graph, before) == x
        ):
            half = own = True
            gone.append(before)
        else:
            return
        gone.append(item)
        name, last = item.step.outputs[0], item
    graph.replace(last, gone, _gelu, [x])


def _halved(graph: Graph, item: Eager) -> str | None:
    """What a step halves: by 0.5 times it, or by 2."""
    if item.step.operator.name == "Div" and graph.is_number(item.step.inputs[1], 2.0):
        return item.step.inputs[0]
    if item.step.operator.name == "Mul" and (found := graph.constant_and(item, 0.5)):
        return found[0]
    return None


# -- SiLU: x · sigmoid(x)


def _silu(x: Tensor) -> Tensor:
    return ops.silu(x)


def _find_silu(graph: Graph, sigmoid: Eager) -> None:
    x, name = sigmoid.step.inputs[0], sigmoid.step.outputs[0]
    item = graph.taker(name)
    if item is not None and item.step.operator.name == "Mul" and graph.other(item, name) == x:
        graph.replace(item, [sigmoid, item], _silu, [x])


# -- hard swish: x · min(max(x + 3, 0), 6) / 6, in any order, or x · HardSigmoid(x)


def _hardswish(x: Tensor) -> Tensor:
    return ops.hardswish(x)


def _find_hardswish(graph: Graph, clip: Eager) -> None:
    if clip.step.operator.name == "HardSigmoid":
        settings = clip.step.settings
        if not isclose(settings.get("alpha", 0.2), 1 / 6, rel_tol=1e-4) or settings.get("beta", 0.5) != 0.5:
            return
        x, gone, divided = clip.step.inputs[0], [clip], True
    else:
        plus = graph.made_by(clip.step.inputs[0], "Add")
        found = None if plus is None else graph.constant_and(plus, 3.0)
        if plus is None or found is None or graph.limits(clip) != (0.0, 6.0):
            return
        x, gone, divided = found[0], [clip, plus], False
    name, last, own = clip.step.outputs[0], clip, False
    while not (divided and own):
        item = graph.taker(name)
        if item is None:
            return
        if not divided and _sixth(graph, item) == name:
            divided = True
        elif not own and item.step.operator.name == "Mul" and graph.other(item, name) == x:
            own = True
        else:
            return
        gone.append(item)
        name, last = item.step.outputs[0], item
    if (layout := graph.layouts.get(x)) is not None and layout[1] == "float32":
        graph.replace(last, gone, _hardswish, [x])


def _sixth(graph: Graph, item: Eager) -> str | None:
    """What a step divides by 6."""
    if item.step.operator.name == "Div" and graph.is_number(item.step.inputs[1], 6.0):
        return item.step.inputs[0]
    if item.step.operator.name == "Mul" and (found := graph.constant_and(item, 1 / 6)):
        return found[0]
    return None


# -- attention: softmax(q kᵀ scale + mask) v


def _attention(q: Tensor, flipped: Tensor, v: Tensor, mask: Any = None, *, scale: float) -> Tensor:
    return ops.scaled_dot_product_attention(q, flipped.transpose(-1, -2), v, mask, scale=scale)


def _find_attention(graph: Graph, softmax: Eager) -> None:
    """q (B, H, T, D), kᵀ (B, H, D, S) and v (B, H, S, Dv) in float32."""
    scores = softmax.step.inputs[0]
    layout = graph.layouts.get(scores)
    if (
        layout is None
        or layout[1] != "float32"
        or len(layout[0]) != 4
        or softmax.step.settings.get("axis", -1) not in (-1, 3)
    ):
        return
    if softmax.step.operator.since < 13 and softmax.step.settings.get("axis", 1) != 3:
        return
    last = graph.taker(softmax.step.outputs[0])
    if last is None or last.step.operator.name != "MatMul" or last.step.inputs[0] != softmax.step.outputs[0]:
        return
    gone, mask, scale = [softmax, last], None, 1.0
    add = graph.made_by(scores, "Add")
    if add is not None:
        for at in (0, 1):
            inner = graph.maker.get(add.step.inputs[at])
            own = graph.layouts.get(add.step.inputs[1 - at])
            if (
                inner is not None
                and inner.step.operator.name in ("Mul", "Div", "MatMul")
                and own is not None
                and len(own[0]) == 4
            ):
                if graph.uses[add.step.inputs[at]] == 1 and graph.layouts[add.step.inputs[at]][0] == layout[0]:
                    if _product_of(graph, add.step.inputs[at]) is not None:
                        scores, mask = add.step.inputs[at], add.step.inputs[1 - at]
                        gone.append(add)
                        break
        else:
            return
    found = _product_of(graph, scores)
    if found is None:
        return
    product, scale, between = found
    q, flipped = product.step.inputs
    shapes = [graph.layouts.get(name) for name in (q, flipped, last.step.inputs[1])]
    if any(shape is None or len(shape[0]) != 4 or shape[1] != "float32" for shape in shapes):
        return
    if any(shape[0][:2] != layout[0][:2] for shape in shapes):  # type: ignore[index]
        return
    inputs = [q, flipped, last.step.inputs[1], *([mask] if mask else [])]
    graph.replace(last, [*gone, *between, product], _attention, inputs, scale=scale)


def _product_of(graph: Graph, name: str) -> tuple[Eager, float, list[Eager]] | None:
    """(the product, its factor, the steps of the factor)."""
    product = graph.made_by(name, "MatMul")
    if product is not None:
        return product, 1.0, []
    for op in ("Mul", "Div"):
        item = graph.made_by(name, op)
        if item is None:
            continue
        found = graph.constant_and(item)
        if found is None or (op == "Div" and found[0] != item.step.inputs[0]):
            return None
        product = graph.made_by(found[0], "MatMul")
        if product is not None and found[1]:
            return product, found[1] if op == "Mul" else 1 / found[1], [item]
    return None


# -- normalisation over the last dim, written out: (x - mean) / sqrt(mean((x - mean)²) + epsilon)


def _layer_norm(x: Tensor, weight: Any = None, bias: Any = None, *, epsilon: float) -> Tensor:
    return ops.layer_norm(x, x.shape[-1:], weight, bias, epsilon)


def _rms_norm(x: Tensor, weight: Tensor, *, epsilon: float) -> Tensor:
    return ops.rms_norm(x, x.shape[-1:], weight, epsilon)


def _is_last_mean(graph: Graph, item: Eager) -> bool:
    """Whether a mean is that of the last dim, which stays."""
    settings, layout = item.step.settings, graph.layouts.get(item.step.inputs[0])
    if layout is None or layout[1] != "float32" or not settings.get("keepdims", 1):
        return False
    if len(item.step.inputs) > 1:
        axes = graph.env.get(item.step.inputs[1]) if item.step.inputs[1] in graph.fixed else None
        axes = None if axes is None else [int(a) for a in array_of(axes).reshape(-1)]
    else:
        axes = settings.get("axes")
    return axes in ([-1], [len(layout[0]) - 1])


def _square_of(graph: Graph, item: Eager) -> str | None:
    """x of a step that computes x²."""
    if item.step.operator.name == "Pow" and graph.is_number(item.step.inputs[1], 2.0):
        return item.step.inputs[0]
    if item.step.operator.name == "Mul" and item.step.inputs[0] == item.step.inputs[1]:
        return item.step.inputs[0]
    return None


def _vector(graph: Graph, name: str, size: int) -> bool:
    layout = graph.layouts.get(name)
    return layout is not None and layout[0] == (size,) and layout[1] == "float32"


def _find_norm(graph: Graph, root: Eager) -> None:
    plus = graph.made_by(root.step.inputs[0], "Add")
    found = None if plus is None else graph.constant_and(plus)
    if plus is None or found is None:
        return
    mean = graph.made_by(found[0], "ReduceMean")
    if mean is None or not _is_last_mean(graph, mean):
        return
    square = graph.maker.get(mean.step.inputs[0])
    x = None if square is None or graph.uses[mean.step.inputs[0]] != 1 else _square_of(graph, square)
    if square is None or x is None:
        return
    epsilon, size = found[1], graph.layouts[x][0][-1]
    gone = [root, plus, mean, square]
    last = graph.taker(root.step.outputs[0])
    if last is None:
        return
    name = root.step.outputs[0]
    if last.step.operator.name == "Reciprocal" or (
        last.step.operator.name == "Div" and graph.is_number(last.step.inputs[0], 1.0)
    ):
        gone.append(last)
        name = last.step.outputs[0]
        last = graph.taker(name)
        if last is None or last.step.operator.name != "Mul" or graph.other(last, name) != x:
            return
    elif last.step.operator.name != "Div" or last.step.inputs != [x, name]:
        return
    gone.append(last)
    scaled = graph.taker(last.step.outputs[0])
    weight = None
    if (
        scaled is not None
        and scaled.step.operator.name == "Mul"
        and _vector(graph, graph.other(scaled, last.step.outputs[0]), size)
    ):
        weight = graph.other(scaled, last.step.outputs[0])
        gone.append(scaled)
    centre = graph.maker.get(x)
    average = (
        None
        if centre is None or centre.step.operator.name != "Sub"
        else graph.made_by(centre.step.inputs[1], "ReduceMean")
    )
    uses = 3 if square.step.operator.name == "Mul" else 2
    if (
        centre is not None
        and average is not None
        and _is_last_mean(graph, average)
        and graph.uses[x] == uses
        and x not in graph.outputs
    ):
        source = centre.step.inputs[0]
        if average.step.inputs[0] != source:
            return
        gone += [centre, average]
        end = scaled if weight else last
        shifted = graph.taker(end.step.outputs[0]) if weight else None  # type: ignore[union-attr]
        inputs = [source, *([weight] if weight else [])]
        if shifted is not None and shifted.step.operator.name == "Add":
            bias = graph.other(shifted, end.step.outputs[0])  # type: ignore[union-attr]
            if _vector(graph, bias, size):
                gone.append(shifted)
                inputs.append(bias)
                end = shifted
        graph.replace(end, gone, _layer_norm, inputs, epsilon=epsilon)  # type: ignore[arg-type]
    elif weight is not None:
        graph.replace(scaled, gone, _rms_norm, [x, weight], epsilon=epsilon)  # type: ignore[arg-type]


# -- batch normalisation at inference: a part of the convolution before it, or one product and one sum


def _scaled(x: Tensor, factor: Tensor, shift: Tensor) -> Tensor:
    return x * factor + shift


def _find_batch_norm(graph: Graph, item: Eager) -> None:
    """With known statistics, in float32: y = x factor + shift for each channel."""
    step, layout = item.step, graph.layouts.get(item.step.inputs[0])
    if layout is None or layout[1] != "float32" or len(step.outputs) > 1 or step.settings.get("training_mode", 0):
        return
    if not step.settings.get("spatial", 1) or not step.settings.get("is_test", 1):
        return
    if any(name not in graph.fixed for name in step.inputs[1:5]):
        return
    scale, bias, mean, var = (graph.env[name] for name in step.inputs[1:5])
    factor = scale / (var + step.settings.get("epsilon", 1e-5)).sqrt()
    shift = bias - mean * factor
    before = graph.made_by(step.inputs[0], "Conv")
    names = [f"{step.outputs[0]}/factor", f"{step.outputs[0]}/shift"]
    if before is not None and all(name in graph.fixed for name in before.step.inputs[1:] if name):
        weight, *own = (graph.env[name] for name in before.step.inputs[1:] if name)
        graph.made[names[0]] = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        graph.made[names[1]] = shift + own[0] * factor if own else shift
        inputs = [before.step.inputs[0], *names]
        graph.replace(item, [item, before], before.step.operator.function, inputs, **before.step.settings)
        made = graph.maker[step.outputs[0]].step
        made.operator = before.step.operator  # it is a convolution still, which an activation may follow
        return
    wide = (1, -1, *[1] * (len(layout[0]) - 2))
    graph.made[names[0]], graph.made[names[1]] = factor.reshape(*wide), shift.reshape(*wide)
    graph.replace(item, [item], _scaled, [step.inputs[0], *names])


# -- a constant for each channel that is added to a convolution: its bias. Factors stay: weights that are rounded once
# more make the results of deep networks ten times less exact.


def _find_bias(graph: Graph, conv: Eager) -> None:
    """With a known bias or none, in float32."""
    step, layout = conv.step, graph.layouts.get(conv.step.outputs[0])
    own = [name for name in step.inputs[2:] if name]
    if layout is None or layout[1] != "float32" or len(layout[0]) < 3 or any(name not in graph.fixed for name in own):
        return
    add = graph.taker(step.outputs[0])
    if add is None or add.step.operator.name != "Add" or graph.layouts.get(add.step.outputs[0]) != layout:
        return
    shift = _of_channels(graph, graph.other(add, step.outputs[0]), layout[0])
    if shift is None:
        return
    name = add.step.outputs[0]
    total = sum((graph.env[bias] for bias in own), shift)
    graph.made[f"{name}/bias"] = total.expand(layout[0][1]).contiguous()
    graph.replace(add, [conv, add], step.operator.function, [*step.inputs[:2], f"{name}/bias"], **step.settings)
    graph.maker[name].step.operator = step.operator  # it is a convolution still, which an activation may follow


def _of_channels(graph: Graph, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """A constant (1,) or (C,) that is a number, or one for each channel of (N, C, …)."""
    value = graph.env.get(name) if name in graph.fixed else graph.made.get(name)
    if not isinstance(value, Tensor) or value.dtype.name != "float32":
        return None
    wide = (1,) * (len(shape) - value.ndim) + tuple(value.shape)
    if len(wide) != len(shape) or any(size != 1 for at, size in enumerate(wide) if at != 1):
        return None
    return value.reshape(-1) if wide[1] in (1, shape[1]) else None


# -- activations of a result that nothing else takes: in its own memory


def _activated(
    *inputs: Any, compute: Callable[..., Tensor], settings: dict[str, Any], low: float, high: float
) -> Tensor:
    y = compute(*inputs, **settings)
    found: Tensor = y.clamp_(low, high)
    return found


_FRESH = ("Conv", "Add", "Gemm", "MatMul", "BatchNormalization", "ConvTranspose")  # never views of their inputs


def _find_activation(graph: Graph, item: Eager) -> None:
    limits = graph.limits(item)
    if limits is None:
        return
    source = item.step.inputs[0]
    layout, before = graph.layouts.get(source), next((m for op in _FRESH if (m := graph.made_by(source, op))), None)
    if before is None or before.step.bodies or layout is None or layout[1] != "float32" or len(before.step.outputs) > 1:
        return
    graph.replace(
        item, [item, before], _activated, before.step.inputs, compute=before.step.operator.function,
        settings=before.step.settings, low=limits[0], high=limits[1],
    )  # fmt: skip


# Operators at which patterns are looked for, in this order.
_PATTERNS: _Patterns = (
    ("Erf", _find_gelu),
    ("Sigmoid", _find_silu),
    ("Sqrt", _find_norm),
    ("Softmax", _find_attention),
    ("BatchNormalization", _find_batch_norm),
    ("Conv", _find_bias),
    ("Clip", _find_hardswish),
    ("HardSigmoid", _find_hardswish),
)
# Those that write in place, where no gradient is wanted.
_IN_PLACE: _Patterns = (
    ("Relu", _find_activation),
    ("Clip", _find_activation),
)
