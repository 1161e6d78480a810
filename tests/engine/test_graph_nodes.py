"""Nodes of the graph as users see them: names, what they lead to, and their hooks."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import pyapp
from pyapp import Tensor, tensor
from pyapp.autograd import Function, graph
from pyapp.engine.grad_mode import GROUPS

from ..together import check_each
from .leaves import leaf64


class Swapped(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return y * 2, x * 3

    @staticmethod
    def backward(ctx: Any, a: Tensor, b: Tensor) -> Any:
        return b * 3, a * 2


# Each alone, in a new Python: what needs a module of the engine beside autograd.py must import it.
FIRST_USES = {
    "next_functions": "((node, _),) = y.grad_fn.next_functions; assert node.variable is x",
    "metadata": "y.grad_fn.metadata['note'] = 1; assert y.grad_fn.metadata == {'note': 1}",
    "a node's hooks": "seen = []; y.grad_fn.register_prehook(seen.append)\n"
    "y.grad_fn.register_hook(lambda *g: seen.append(g)); y.sum().backward(); assert len(seen) == 2",
    "a tensor's hook": "x.register_hook(lambda g: g * 10); y.sum().backward(); assert x.grad.tolist() == [30, 30]",
    "a hook on grad": "seen = []; x.register_post_accumulate_grad_hook(seen.append); y.sum().backward()\n"
    "assert seen[0] is x",
    "retain_grad": "y.retain_grad(); y.sum().backward(); assert y.retains_grad and y.grad.tolist() == [1, 1]",
    "hooks on saved tensors": "seen = []\n"
    "with pyapp.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(t), t)[1], lambda t: t): z = x * x\n"
    "z.sum().backward(); assert seen and x.grad.tolist() == [2, 4]",
    "a hook of several": "seen = []; pyapp.autograd.graph.register_multi_grad_hook([x, y], seen.append)\n"
    "y.sum().backward(); assert [g.tolist() for g in seen[0]] == [[3, 3], [1, 1]]",
    "anomalies": "import warnings; warnings.simplefilter('ignore')\n"
    "with pyapp.autograd.detect_anomaly():\n"
    "    try: (x - x).sqrt().mul(0).sum().backward()\n"
    "    except RuntimeError as error: assert 'NaN' in str(error)\n"
    "    else: raise AssertionError",
}


@pytest.mark.native_only
def test_the_first_use_imports_what_it_needs() -> None:
    before = (
        "import sys, pyapp; x = pyapp.tensor([1.0, 2.0], requires_grad=True); y = x * 3\n"
        "late = {'anomalies', 'gradient_hooks', 'graph_nodes', 'saved_tensors'}\n"
        "assert not {f'pyapp.engine.{name}' for name in late} & {*sys.modules}\n"
    )

    def check(_: str, code: str) -> None:
        ran = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr

    check_each(check, FIRST_USES.items())


def test_what_nodes_lead_to() -> None:
    x, y = leaf64(1, 2), leaf64(3, 4)
    z = pyapp.cat([x * y, x.exp(), y.detach()])
    assert z.grad_fn is not None and z.grad_fn.name() == "CatBackward0" and isinstance(z.grad_fn, graph.Node)
    assert repr(z).endswith("grad_fn=<CatBackward0>)") and repr(z.grad_fn).startswith("<CatBackward0 object at 0x")
    (product, _), (exp, _), last = z.grad_fn.next_functions
    assert last == (None, 0) and [n.name() for n in (product, exp)] == ["MulBackward0", "ExpBackward0"]
    leaves = [node for node, _ in product.next_functions]
    assert all(node.variable is leaf for node, leaf in zip(leaves, (x, y), strict=True))
    assert leaves[0] == exp.next_functions[0][0] and leaves[0] != leaves[1] and len({*leaves, leaves[0]}) == 2
    assert leaves[0].name() == "torch::autograd::AccumulateGrad" and leaves[0].next_functions == ()
    assert isinstance(leaves[0], graph.Node) and not isinstance(x, graph.Node)
    product.metadata["note"] = 1
    assert product.metadata == {"note": 1} and exp.metadata == {}


def test_the_node_of_a_function() -> None:
    x, y = leaf64(1, 2), leaf64(3, 4)
    a, b = Swapped.apply(x * 1, y)
    assert a.grad_fn.name() == b.grad_fn.name() == "SwappedBackward"
    names = [node.name() for node, _ in a.grad_fn.next_functions]
    assert names == ["MulBackward0", "torch::autograd::AccumulateGrad"]
    seen: list[Any] = []
    a.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), [g.tolist() for g in outputs])))
    (a + b).sum().backward()
    assert seen == [(2, [[1, 1], [1, 1]])] and x.grad.tolist() == [3, 3] and y.grad.tolist() == [2, 2]


def test_hooks_of_nodes() -> None:
    x, y = leaf64(1, 2), leaf64(3, 4)
    z = x * y
    seen: list[Any] = []

    def after(inputs: Any, outputs: Any) -> Any:
        seen.append([[g if g is None else g.tolist() for g in group] for group in (inputs, outputs)])
        return inputs[0] * 10, None

    before = z.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
    z.grad_fn.register_hook(after)
    z.sum().backward(retain_graph=True)
    assert seen == [[[[6, 8], [2, 4]], [[2, 2]]]]
    assert x.grad.tolist() == [60, 80] and y.grad is None
    before.remove()
    x.grad = None
    z.sum().backward()
    assert seen[1] == [[[3, 4], [1, 2]], [[1, 1]]] and x.grad.tolist() == [30, 40]


def test_hooks_of_slices_and_leaves() -> None:
    x = leaf64(1, 2, 3)
    part = x[1:]
    seen: list[Any] = []
    part.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    (accumulate, _) = part.grad_fn.next_functions[0]
    accumulate.register_prehook(lambda outputs: (outputs[0] + 1,))
    part.sum().backward()
    assert seen == [([0, 1, 1], [1, 1])] and x.grad.tolist() == [1, 2, 2]


def test_wrong_hooks_say_so() -> None:
    x = leaf64(1, 2)
    for hook, error, text in (
        (lambda g: g.sum(), RuntimeError, r"changed its shape from \(2,\) to \(\)"),
        (lambda g: g.float(), RuntimeError, "changed its dtype from pyapp.float64 to pyapp.float32"),
        (lambda g: 3, TypeError, "gives a Tensor or None, not int"),
    ):
        y = x * 2
        y.register_hook(hook)
        with pytest.raises(error, match=text):
            y.sum().backward()
    y = x * tensor([1.0, 2.0])
    y.grad_fn.register_hook(lambda inputs, outputs: (None,))
    with pytest.raises(RuntimeError, match="gave 1 gradients for 2 of 'mul'"):
        y.sum().backward()


def test_gradient_edges() -> None:
    x = leaf64(1, 2)
    h = x * 3
    y = h.square().sum()
    edge, leaf = graph.get_gradient_edge(h), graph.get_gradient_edge(x)
    assert edge.node is h.grad_fn and leaf.node.variable is x and edge.output_nr == 0
    del h
    first, second = pyapp.autograd.grad(y, (edge, leaf), retain_graph=True)
    assert first.tolist() == [6, 12] and second.tolist() == [18, 36]
    pyapp.autograd.backward(y, inputs=[leaf], retain_graph=True)
    assert x.grad.tolist() == [18, 36]
    pyapp.autograd.backward(
        graph.get_gradient_edge(y), tensor(2.0, dtype=pyapp.float64), inputs=leaf, retain_graph=True
    )
    assert x.grad.tolist() == [54, 108]
    with pytest.raises(RuntimeError, match="is not a leaf"):
        pyapp.autograd.backward(y, inputs=[edge])
    with pytest.raises(RuntimeError, match="a GradientEdge needs a gradient"):
        pyapp.autograd.backward(graph.get_gradient_edge(y))
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        graph.get_gradient_edge(tensor(1.0))


def test_a_write_that_autograd_could_not_see() -> None:
    x = leaf64(1, 2)
    h = x * 1
    y = h.exp().sin()
    graph.increment_version(h)
    y.sum().backward()  # exp keeps its result, not its argument
    y = h.sin()
    graph.increment_version([h])
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


def test_hooks_of_several_tensors() -> None:
    x, y, z = leaf64(1, 2), leaf64(3, 4), leaf64(5, 6)
    h = x * y
    seen: list[Any] = []
    every = graph.register_multi_grad_hook(
        (h, x, z), lambda gradients: seen.append([g if g is None else g.tolist() for g in gradients])
    )
    first = graph.register_multi_grad_hook((x, h), lambda gradient: seen.append(gradient.tolist()), mode="any")
    (h * 2).sum().backward(retain_graph=True)
    assert seen == [[2, 2], [[2, 2], [6, 8], None]]
    seen.clear()
    (h * z).sum().backward(retain_graph=True)
    assert seen == [[5, 6], [[5, 6], [15, 24], [3, 8]]]
    seen.clear()
    pyapp.autograd.grad(h.sum(), y, retain_graph=True)  # x takes no part
    assert seen == [[[1, 1], None, None], [1, 1]]
    seen.clear()
    # A pass within another one, of checkpoint, has its own.
    pyapp.autograd.checkpoint(lambda a: a * x * z, h).sum().backward(retain_graph=True)
    assert seen[0] == [5, 12] and seen[-1] == [[5, 12], [3 * 5 + 15, 8 * 6 + 48], [3, 16]] and len(seen) == 2
    every.remove()
    first.remove()
    first.remove()
    seen.clear()
    h.sum().backward()
    assert not seen and GROUPS.count == 0
    with pytest.raises(ValueError, match="the mode is 'all' or 'any', not 'each'"):
        graph.register_multi_grad_hook((x,), print, mode="each")
    with pytest.raises(RuntimeError, match="takes tensors that require gradients"):
        graph.register_multi_grad_hook((x, tensor(1.0)), print)
