"""Convolutional parts of a graph with the channels of pictures together, (N, H, W, C), as processors compute them
fastest. Weights are ordered once; bias, a sum and limits that follow become part of the convolution.

A value exists in the order of the file, in this order, or in both; what a step takes is turned before it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.claims.channels_last import MOST_CHANNELS, MOST_TAPS
from pyapp.engine.device import cpu
from pyapp.engine.native import IN_BROWSER

from .operators.windows import Windows, settings, sides
from .registry import internal
from .rewriting import Graph
from .steps import Eager, Step
from .values import array_of

_FEWEST = 2  # convolutions that repay the turning
_LEAST_INNER = 4  # channels of a group: the kernels are slow for fewer


def _last_of(name: str) -> str:
    """The name of a value with the channels last."""
    return f"{name}/channels last"


def _turned(x: Tensor) -> Tensor:
    """(N, C, H, W) → (N, H, W, C)."""
    return x.permute(0, 2, 3, 1).contiguous()


def _turned_back(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2).contiguous()


def _convolution(x: Tensor, weight: Tensor, packed: Tensor, *more: Tensor, bias: bool, **options: Any) -> Tensor:
    """`more`: the bias, if `bias`, and what is added."""
    rest = list(more)
    own = rest.pop(0) if bias else None
    return ops.conv2d_channels_last(x, weight, own, packed=packed, residual=rest[0] if rest else None, **options)


def _expanded_depthwise(
    x: Tensor, weight: Tensor, packed: Tensor, depth_weight: Tensor, depth_packed: Tensor, *biases: Tensor,
    bias: bool, depth_bias: bool, **options: Any,
) -> Tensor:  # fmt: skip
    rest = list(biases)
    first, second = (rest.pop(0) if there else None for there in (bias, depth_bias))
    return ops.expanded_depthwise_conv2d_channels_last(
        x, weight, first, depth_weight, second, packed=packed, depth_packed=depth_packed, **options
    )


def _max_pool(x: Tensor, *, kernel: Any, strides: Any, widths: Any) -> Tensor:
    return ops.max_pool2d_channels_last(x, kernel, strides, widths)


def _average_pool(x: Tensor, *, kernel: Any, strides: Any, widths: Any, whole: bool) -> Tensor:
    return ops.avg_pool2d_channels_last(x, kernel, strides, widths, whole)


def _mean(x: Tensor, *, keepdims: bool) -> Tensor:
    return x.mean((1, 2), keepdims)


def _concatenated(*parts: Tensor) -> Tensor:
    return ops.cat(list(parts), 3)


class _Pass:
    """The steps as they become."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Eager] = []
        self.made: dict[str, Tensor] = {}  # new constants
        self.last: dict[str, str] = {}  # values with the channels last: the names
        self.lacking: set[str] = set()  # values that are not there in the order of the file
        self.known: set[str] = {  # non-constant values that exist so far
            name for item in graph.steps for name in (*item.step.inputs, *item.step.captures)
        } - (graph.maker.keys() | graph.fixed | graph.made.keys())
        self.consumed: set[int] = set()
        self.convolutions = self.copies = 0
        self.expansion: tuple[str, Step] | None = None  # what the last plain convolution makes, and its step

    # -- values

    def layout(self, name: str) -> tuple[int, ...] | None:
        """The shape (N, C, H, W) of a value in float32."""
        found = self.graph.layouts.get(name)
        return found[0] if found is not None and len(found[0]) == 4 and found[1] == "float32" else None

    def constant(self, name: str) -> Tensor | None:
        if name not in self.graph.fixed and name not in self.graph.made:
            return None
        value = self.graph.made.get(name, self.graph.env.get(name))
        return value if isinstance(value, Tensor) and value.device is cpu else None

    def add(self, like: Step, function: Callable[..., Any], inputs: list[str], output: str, **options: Any) -> None:
        self.steps.append(Eager(Step(internal(function), like.title, inputs, [output], options, {}, []), {}, False))
        self.known.add(output)

    def give(self, name: str) -> str:
        """The name of a value that is made with the channels last."""
        self.lacking.add(name)
        self.known.add(name)
        return self.last.setdefault(name, _last_of(name))

    def take(self, step: Step, name: str) -> str:
        """A value with the channels last."""
        if name not in self.last:
            self._turn(step, _turned, name, _last_of(name))
            self.last[name] = _last_of(name)
        return self.last[name]

    def restore(self, step: Step, name: str) -> None:
        """A value in the order of the file."""
        if name in self.lacking:
            self._turn(step, _turned_back, self.last[name], name)
            self.lacking.remove(name)

    def _turn(self, step: Step, function: Callable[..., Any], source: str, target: str) -> None:
        layout = self.layout(source if function is _turned else target)
        self.copies += layout is None or layout[2] * layout[3] > 1
        self.add(step, function, [source], target)

    # -- steps

    def convolution(self, item: Eager) -> bool:
        step = item.step
        x, weight = self.layout(step.inputs[0]), self.constant(step.inputs[1])
        biased = len(step.inputs) > 2 and bool(step.inputs[2])
        bias = self.constant(step.inputs[2]) if biased else None
        if (
            x is None
            or weight is None
            or weight.ndim != 4
            or weight.dtype.name != "float32"
            or (biased and bias is None)
        ):
            return False
        given = step.settings
        groups, (outputs, inner, *kernel) = given.get("group", 1), weight.shape
        steps, apart = settings(2, given.get("strides"), given.get("dilations"))
        widths = sides(x[2:], kernel, steps, apart, given.get("pads"), given.get("auto_pad", b"NOTSET"))
        alone = inner == 1 < groups == outputs
        if (1 < groups and inner < _LEAST_INNER and not alone) or min(width for both in widths for width in both) < 0:
            return False
        if not alone and (inner > MOST_CHANNELS or kernel[0] * kernel[1] > MOST_TAPS):
            return False
        end, low, high = step.outputs[0], -inf, inf
        residual = None if alone else self._sum_after(end)
        if residual is not None:
            self.consumed.add(id(residual[0]))
            end = residual[0].step.outputs[0]
        limited = self.graph.taker(end)
        limits = None if limited is None else self.graph.limits(limited)
        if limited is not None and limits is not None:
            self.consumed.add(id(limited))
            end, (low, high) = limited.step.outputs[0], limits
        packed = f"{step.outputs[0]}/packed"
        self.made[packed] = ops.pack_convolution_weight(weight, groups)
        self.convolutions += 1
        weights, biases = [step.inputs[1], packed], [step.inputs[2]] if biased else []
        near = list(apart) == [1, 1]
        first = self._expansion(step.inputs[0]) if alone and near else None
        if first is not None:
            self.steps.pop()
            inputs = [*first.inputs[:3], *weights, *first.inputs[3:], *biases]
            given = first.settings
            self.add(step, _expanded_depthwise, inputs, self.give(end), bias=given["bias"], depth_bias=biased,
                     stride=given["stride"], padding=given["padding"], low=given["low"], high=given["high"],
                     depth_stride=tuple(steps), depth_padding=widths, depth_low=low, depth_high=high)  # fmt: skip
            return True
        inputs = [self.take(step, step.inputs[0]), *weights, *biases]
        inputs += [self.take(step, residual[1])] if residual is not None else []
        self.add(step, _convolution, inputs, self.give(end), bias=biased, stride=tuple(steps), padding=widths,
                 dilation=tuple(apart), groups=groups, low=low, high=high)  # fmt: skip
        self.expansion = (end, self.steps[-1].step) if near and groups == 1 and residual is None else None
        return True

    def _expansion(self, name: str) -> Step | None:
        """The last step, if it is a convolution whose result a depthwise one takes alone."""
        if self.expansion is None or self.graph.uses[name] != 1 or name in self.graph.outputs:
            return None
        made, step = self.expansion
        return step if made == name and self.steps[-1].step is step else None

    def _sum_after(self, name: str) -> tuple[Eager, str] | None:
        """The only step that takes a value, if it adds another one of the same shape that exists by now."""
        item = self.graph.taker(name)
        if item is None or item.step.operator.name != "Add":
            return None
        other = self.graph.other(item, name)
        if other == name or other not in self.known or self.layout(other) != self.layout(name):
            return None
        return item, other

    def elementwise(self, item: Eager) -> bool:
        """A step whose inputs are all pictures, or constants that fit them."""
        step = item.step
        if len(step.outputs) != 1 or self.layout(step.outputs[0]) is None or step.bodies:
            return False
        inputs, constants = [], {}
        for name in step.inputs:
            value = self.constant(name) if name else None
            if not name or (value is not None and value.numel() == 1):
                inputs.append(name)
            elif value is not None and value.ndim <= 4:
                wide = value.reshape(*[1] * (4 - value.ndim), *value.shape)
                constants[_last_of(name)] = _turned(wide)
                inputs.append(_last_of(name))
            elif self.layout(name) is None:
                return False
            else:
                inputs.append(name)
        pictures = [name for name in inputs if name in self.known]
        if not any(name in self.last for name in pictures):
            return False
        self.made.update(constants)
        taken = [self.take(step, name) if name in pictures else name for name in inputs]
        made = Step(step.operator, step.title, taken, [self.give(step.outputs[0])], step.settings, {}, [])
        self.steps.append(Eager(made, {}, False))
        return True

    def pool(self, item: Eager) -> bool:
        step, given = item.step, item.step.settings
        x = self.layout(step.inputs[0])
        if x is None or step.inputs[0] not in self.last or given.get("outputs", 1) > 1:
            return False
        shape = ops.zeros((1, 1, 1, 1)).expand(1, 1, *x[2:])  # Windows needs the sizes alone
        windows = Windows(
            shape, given["kernel_shape"], given.get("strides"), given.get("dilations"), given.get("pads"),
            given.get("auto_pad", b"NOTSET"), given.get("ceil_mode", 0),
        )  # fmt: skip
        largest = step.operator.name == "MaxPool"
        widths = [(b, a + more) for (b, a), more in zip(windows.sides, windows.beyond, strict=True)]
        if any(d != 1 for d in windows.dilations) or (any(windows.beyond) and not largest):
            return False
        if any(not 0 <= width < k for both, k in zip(widths, windows.kernel, strict=True) for width in both):
            return False
        options: dict[str, Any] = {"kernel": tuple(windows.kernel), "strides": tuple(windows.strides), "widths": widths}
        if not largest:
            options["whole"] = bool(given.get("count_include_pad", 0))
        source = self.take(step, step.inputs[0])
        self.add(step, _max_pool if largest else _average_pool, [source], self.give(step.outputs[0]), **options)
        return True

    def mean(self, item: Eager) -> bool:
        """Rewrites a mean of all pixels."""
        step, name = item.step, item.step.inputs[0]
        if self.layout(name) is None or name not in self.last:
            return False
        keeps = True
        if step.operator.name == "ReduceMean":
            axes = step.settings.get("axes")
            if len(step.inputs) > 1:
                value = self.constant(step.inputs[1])
                axes = None if value is None else [int(a) for a in array_of(value).reshape(-1)]
            if axes is None or sorted(a % 4 for a in axes) != [2, 3]:
                return False
            keeps = bool(step.settings.get("keepdims", 1))
        target = self.give(step.outputs[0]) if keeps else step.outputs[0]
        self.add(step, _mean, [self.take(step, name)], target, keepdims=keeps)
        return True

    def concatenation(self, item: Eager) -> bool:
        step = item.step
        if step.settings.get("axis", 1) not in (1, -3) or any(self.layout(name) is None for name in step.inputs):
            return False
        if any(name not in self.known for name in step.inputs) or not any(name in self.last for name in step.inputs):
            return False
        self.add(step, _concatenated, [self.take(step, name) for name in step.inputs], self.give(step.outputs[0]))
        return True

    def unchanged(self, item: Eager) -> None:
        """A step in the order of the file."""
        for name in (*item.step.inputs, *item.step.captures):
            self.restore(item.step, name)
        self.steps.append(item)
        self.known.update(name for name in item.step.outputs if name)


_ELEMENTWISE = (
    "Relu LeakyRelu PRelu Sigmoid HardSigmoid HardSwish Tanh Elu Selu Celu Softplus Softsign Mish Gelu Clip Abs Neg "
    "Exp Sqrt Identity Add Sub Mul Div Max Min scaled silu gelu hardswish"
)
_RULES: dict[str, Callable[[_Pass, Eager], bool]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _Pass.elementwise),
    "Conv": _Pass.convolution,
    "MaxPool": _Pass.pool,
    "AveragePool": _Pass.pool,
    "GlobalAveragePool": _Pass.mean,
    "ReduceMean": _Pass.mean,
    "Concat": _Pass.concatenation,
}


def in_channels_last(graph: Graph) -> None:
    """Turns the convolutional parts of a graph on the CPU, where that saves more than the copies cost."""
    if IN_BROWSER or sum(item.step.operator.name == "Conv" for item in graph.steps) < _FEWEST:
        return
    found = _Pass(graph)
    for item in graph.steps:
        if id(item) in found.consumed:
            continue
        rule = _RULES.get(item.step.operator.name)
        if rule is None or not rule(found, item):
            found.unchanged(item)
    for name in graph.outputs:
        if name in found.lacking:
            found.restore(graph.maker[name].step, name)
    if found.convolutions >= max(_FEWEST, found.copies):
        graph.steps = found.steps
        graph.made.update(found.made)
        for name, turned in found.last.items():
            if (layout := graph.layouts.get(name)) is not None:
                n, c, h, w = layout[0]
                graph.layouts[turned] = (n, h, w, c), layout[1]
        graph.index()
