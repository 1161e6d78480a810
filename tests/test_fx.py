"""Graphs of programs: their texts, which are torch's, and what is refused. What users do with graphs is in
tests/porting/scripts/tracing.py, compared with torch.
"""

from __future__ import annotations

import copy
import operator
import types
from typing import Any

import pytest

import pyapp
from pyapp import fx, nn
from pyapp.fx.immutable_collections import immutable_list
from tests.together import check_each

TEXT = """\
graph():
    %x : [num_users=2] = placeholder[target=x]
    %weight : [num_users=1] = get_attr[target=weight]
    %add : [num_users=1] = call_function[target=operator.add](args = (%x, %weight), kwargs = {})
    %layer_0 : [num_users=1] = call_module[target=layer.0](args = (%add,), kwargs = {})
    %clamp : [num_users=1] = call_method[target=clamp](args = (%layer_0,), kwargs = {min: 0.0, max: 1.0})
    %flatten : [num_users=1] = call_function[target=pyapp.flatten](args = (%clamp, 1), kwargs = {})
    %getattr_1 : [num_users=1] = call_function[target=builtins.getattr](args = (%x, shape), kwargs = {})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%getattr_1, 0), kwargs = {})
    return (flatten, getitem)"""
CODE = """


def forward(self, x):
    weight = self.weight
    add = x + weight;  weight = None
    layer_0 = getattr(self.layer, "0")(add);  add = None
    clamp = layer_0.clamp(min = 0.0, max = 1.0);  layer_0 = None
    flatten = pyapp.flatten(clamp, 1);  clamp = None
    getattr_1 = x.shape;  x = None
    getitem = getattr_1[0];  getattr_1 = None
    return (flatten, getitem)
    """


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(pyapp.ones(3))
        self.layer = nn.Sequential(nn.Linear(3, 2))

    def forward(self, x: Any) -> Any:
        return pyapp.flatten(self.layer(x + self.weight).clamp(min=0.0, max=1.0), 1), x.shape[0]


def test_texts(capsys: pytest.CaptureFixture[str]) -> None:
    model = Net()
    traced = fx.symbolic_trace(model)
    assert str(traced.graph) == TEXT
    assert traced.code == CODE
    assert str(traced).startswith("Net(\n  (layer): Module(\n    (0): Linear(") and CODE in str(traced)
    traced.graph.print_tabular()
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["opcode", "name", "target", "args", "kwargs"] and len(table) == 2 + len(
        traced.graph.nodes
    )
    assert sorted(traced.state_dict()) == ["layer.0.bias", "layer.0.weight", "weight"]
    x = pyapp.rand(4, 3)
    assert (traced(x)[0] == model(x)[0]).all() and traced(x)[1] == 4
    copied = copy.deepcopy(traced)
    with pyapp.no_grad():
        copied.weight.fill_(9.0)
    assert copied.code == CODE and traced.weight.tolist() == [1.0] * 3


def test_nodes_are_moved_and_replaced() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x", default_value=2)
    total = graph.call_function(operator.add, (x, 1))
    unused = graph.call_method("abs", (total,))
    written = graph.call_method("add_", (total, 1))
    result = graph.output([total, {"x": x}])
    with graph.inserting_after(x):
        doubled = graph.call_function(operator.mul, (x, 2), name="add")
    assert [node.name for node in graph.nodes] == ["x", "add_1", "add", "abs_1", "add_", "output"]
    assert doubled < total < result and x.next is doubled and total.users.keys() == {unused, written, result}
    total.replace_input_with(x, doubled)
    assert graph.eliminate_dead_code() and written in graph.nodes  # what writes stays
    module = fx.GraphModule({}, graph)
    assert module(pyapp.tensor([3.0]))[0].tolist() == [8.0]
    assert isinstance(result.args[0], immutable_list)
    with pytest.raises(NotImplementedError, match="cannot be changed"):
        result.args[0][0] = x
    with pytest.raises(RuntimeError, match="use add"):
        graph.erase_node(total)
    doubled.append(x)
    with pytest.raises(RuntimeError, match="computed later"):
        graph.lint()
    graph.owning_module = None
    with pytest.raises(ValueError, match="a function"):
        graph.create_node("call_function", "add")


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda x: x if x.sum() > 0 else -x, fx.TraceError, "gt is true"),
    (lambda x: [row + 1 for row in x], fx.TraceError, "whose number"),
    (lambda x: len(x), RuntimeError, "fx.wrap"),
    (lambda x: pyapp.zeros(int(x)), fx.TraceError, "as a number"),
    (lambda x: nn.Linear(2, 2)(x), NameError, "no submodule"),
    (lambda x: x + object(), NotImplementedError, "object"),
]


def test_values_are_not_known() -> None:
    def check(function: Any, kind: type[Exception], message: str) -> None:
        with pytest.raises(kind, match=message):
            fx.symbolic_trace(function)

    check_each(check, REFUSED)
    assert type(pyapp) is types.ModuleType and not fx.is_fx_tracing()  # nothing of a tracer is left
    assert "__getattribute__" not in vars(nn.Module) and nn.Linear(2, 2)(pyapp.ones(2)).shape == (2,)
    with pytest.raises(NotImplementedError, match="top of a module"):
        fx.wrap("len")


def test_arguments_and_constants() -> None:
    held = pyapp.tensor([1.0, 2.0])

    def function(x: Any, *more: Any, **named: Any) -> Any:
        rows, _ = more[0].shape
        return pyapp.cat([held + held.minimum(x), named["y"].sum(dim=0)]) * rows

    traced = fx.symbolic_trace(function)
    assert "def forward(self, x, *more, **named):" in traced.code
    assert traced(pyapp.ones(2), pyapp.ones(3, 1), y=pyapp.ones(2, 2)).tolist() == [6.0, 9.0, 6.0, 6.0]
    assert [node.target for node in traced.graph.nodes if node.op == "get_attr"] == ["_tensor_constant0"] * 2
