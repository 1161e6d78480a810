"""Convolutional graphs run with the channels together: the same results as node by node, and by which steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pyapp import Tensor, from_numpy, no_grad
from pyapp.engine.native import IN_BROWSER
from pyapp.onnx import load
from pyapp.onnx.program import _Plan
from tests.onnx import builder as b

RNG = np.random.RandomState(7)
Nodes = Sequence[bytes]


class Network:
    """Nodes whose weights are made as they are named."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.tensors: list[bytes] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.tensors)}"
        self.tensors.append(b.tensor(name, (RNG.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}.{k}" for k in range(1, outputs))]
        self.nodes.append(b.node(op, inputs, names, **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 1, bias: bool = True, **more: Any) -> str:
        more.setdefault("pads", [kernel // 2] * 4)
        weight = self.weight(outputs, inputs // more.get("group", 1), kernel, kernel)
        return self.add("Conv", x, weight, *([self.weight(outputs)] if bias else []), **more)

    def module(self, *outputs: str) -> Any:
        data = b.graph(self.nodes, [b.value("x")], [b.value(name) for name in outputs], self.tensors)
        return load(b.model(data, opset=13))


def check(module: Any, shape: Sequence[int], operators: str) -> None:
    """The results of later runs, for other inputs too; the operators of the steps."""
    with no_grad():
        for _ in range(3):
            x = from_numpy(RNG.standard_normal(shape).astype(np.float32))
            found = module(x)
            fresh = module._plans
            kept = dict(fresh)
            fresh.clear()
            wanted = module(x)  # node by node
            fresh.clear()
            fresh.update(kept)
            for own, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, wanted)), strict=True):
                assert own.shape == other.shape
                np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
        if not IN_BROWSER:
            assert " ".join(names(module)) == operators


def names(module: Any) -> list[str]:
    (plan,) = module._plans.values()
    assert isinstance(plan, _Plan)
    steps = [getattr(item, "_steps", [item]) for item in plan.items]
    return [item.step.operator.name for part in steps for item in part]


def residual(n: Network) -> tuple[str, ...]:
    """As of ResNet: a shortcut with a convolution and one without."""
    x = n.add("Relu", n.conv("x", 3, 8, 7, strides=[2, 2]))
    x = n.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    main = n.conv(n.add("Relu", n.conv(x, 8, 12, 3)), 12, 20)
    x = n.add("Relu", n.add("Add", main, n.conv(x, 8, 20)))
    main = n.conv(n.add("Relu", n.conv(x, 20, 12, 3, bias=False)), 12, 20)
    x = n.add("Relu", n.add("Add", x, main))
    return (n.add("Flatten", n.add("GlobalAveragePool", x)),)


def gated(n: Network) -> tuple[str, ...]:
    """As of MobileNet v3: each channel by itself, and gates; a value within is a result."""
    x = n.add("HardSwish", n.conv("x", 3, 16, 3, strides=[2, 2]))
    x = inner = n.add("Clip", n.conv(x, 16, 16, 5, group=16), n.add("Constant", value_float=0.0))
    gate = n.conv(n.add("Relu", n.conv(n.add("ReduceMean", x, axes=[2, 3]), 16, 4)), 4, 16)
    x = n.add("Mul", x, n.add("HardSigmoid", gate))
    x = n.add("Add", n.add("Mul", x, n.weight(16, 1, 1)), n.weight(1, 16, 1, 1))
    return n.add("ReduceMean", x, axes=[-1, -2], keepdims=0), inner


def branches(n: Network) -> tuple[str, ...]:
    """As of Inception: branches side by side, pools of both kinds, and a step in the order of the file between."""
    parts = [n.conv("x", 3, 5), n.conv("x", 3, 7, 3), n.conv("x", 3, 4, 3, dilations=[2, 2], pads=[2, 2, 2, 2])]
    x = n.add("Concat", *parts, axis=1)
    x = n.add("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = n.add("DepthToSpace", n.conv(x, 16, 16, 3, pads=[0, 0, 0, 0], auto_pad="SAME_UPPER"), blocksize=2)
    x = n.conv(n.conv(x, 4, 8, 3, group=1, pads=[0, 1, 2, 3]), 8, 8, 3, group=2)
    return (n.add("Sigmoid", n.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),)


def inverted(n: Network) -> tuple[str, ...]:
    """As of MobileNet v2: wider, each channel by itself, narrower; then a wide value that is taken twice, and taps that
    lie apart.
    """
    x = n.add("Relu", n.conv("x", 3, 8, 3, strides=[2, 2]))
    x = n.conv(n.add("Relu", n.conv(x, 8, 8, 3, group=8)), 8, 6)
    wide = n.add("Relu", n.conv(x, 6, 18, bias=False))
    x = n.add("Add", x, n.conv(n.add("Relu", n.conv(wide, 18, 18, 3, group=18, bias=False)), 18, 6))
    wide = n.add("Relu", n.conv(x, 6, 12))
    x = n.add("Add", wide, n.conv(wide, 12, 12, 3, group=12))
    return (n.conv(n.conv(x, 12, 12), 12, 12, 3, group=12, dilations=[2, 2], pads=[2, 2, 2, 2]),)


CASES: list[tuple[Callable[[Network], tuple[str, ...]], str]] = [
    (residual, "turned convolution max_pool convolution convolution convolution convolution convolution mean"
     " turned_back Flatten"),
    (gated, "turned convolution HardSwish convolution mean convolution convolution HardSigmoid Mul Mul Add mean"
     " turned_back"),
    (branches, "turned convolution convolution convolution concatenated average_pool convolution turned_back"
     " DepthToSpace turned convolution convolution max_pool Sigmoid turned_back"),
    (inverted, "turned expanded_depthwise convolution expanded_depthwise convolution convolution convolution Add"
     " convolution convolution turned_back"),
]  # fmt: skip


@pytest.mark.parametrize(("network", "operators"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_networks(network: Callable[[Network], tuple[str, ...]], operators: str) -> None:
    n = Network()
    outputs = network(n)
    check(n.module(*outputs), (2, 3, 21, 18), operators)


def test_what_is_left_in_its_order() -> None:
    """One convolution; groups of few channels; weights that are computed; where gradients are wanted."""
    n = Network()
    check(n.module(n.add("Relu", n.conv("x", 3, 4, 3))), (1, 3, 5, 5), "activated")
    n = Network()
    check(n.module(n.conv(n.conv("x", 4, 8, 3, group=2), 8, 8, 3, group=4)), (1, 4, 5, 5), "Conv Conv")
    n = Network()
    weight = n.add("Reshape", "x", n.add("Constant", value_ints=[4, 3, 2, 2]))
    check(n.module(n.add("Conv", n.add("Conv", "x", weight), n.weight(2, 4, 1, 1))), (1, 3, 4, 4), "Reshape Conv Conv")
    n = Network()
    module = n.module(n.conv(n.conv("x", 3, 4, 3), 4, 4, 3))
    x = Tensor(np.ones((1, 3, 5, 5), np.float32)).requires_grad_()
    for _ in range(2):
        module(x).sum().backward()
    assert names(module) == ["Conv", "Conv"] and x.grad is not None and bool((x.grad != 0).any())
