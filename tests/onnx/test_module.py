"""ONNX models as modules: gradients, records, control flow, text, what is recognised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyapp import Tensor, device, nn, no_grad, tensor
from pyapp.errors import ModelError, OptionError
from pyapp.formats.protobuf import bytes_field, int_field
from pyapp.onnx import OnnxModule, export, load

from ..mirror import device as _mirror  # noqa: F401 (registers the device "mirror")
from ..together import check_each
from . import builder as b

RNG = np.random.RandomState(3)


@pytest.fixture(autouse=True)
def draws() -> None:
    """The same numbers for a test whichever ran before it: inside Pyodide not all do."""
    RNG.seed(3)


def normal(*shape: int) -> np.ndarray:
    return (0.4 * RNG.randn(*shape)).astype(np.float32)


def given(*shape: int) -> Tensor:
    return tensor(normal(*shape))


def transformer(tokens: int | str = "t") -> bytes:
    """Layer norm, attention of two heads and GELU, all written out, of opset 13."""
    c = {"two": 2.0, "eps": 1e-5, "root2": 2.0**0.5, "one": 1.0, "half": 0.5, "scale": 0.5}
    weights = {
        "g": normal(8),
        "be": normal(8),
        "q": normal(8, 8),
        "k": normal(8, 8),
        "v": normal(8, 8),
        "u": normal(8, 16),
        "d": normal(16, 8),
    }
    tensors = [b.tensor(k, np.float32(v)) for k, v in c.items()] + [b.tensor(k, v) for k, v in weights.items()]
    tensors.append(b.tensor("split", np.array([0, 0, 2, 4])))
    tensors.append(b.tensor("join", np.array([0, 0, 8])))
    nodes = [
        b.node("ReduceMean", ["x"], ["mean"], axes=[-1]), b.node("Sub", ["x", "mean"], ["centred"]),
        b.node("Pow", ["centred", "two"], ["square"]), b.node("ReduceMean", ["square"], ["var"], axes=[-1]),
        b.node("Add", ["var", "eps"], ["plus"]), b.node("Sqrt", ["plus"], ["root"]),
        b.node("Div", ["centred", "root"], ["unit"]), b.node("Mul", ["unit", "g"], ["scaled"]),
        b.node("Add", ["scaled", "be"], ["n"]),
    ]  # fmt: skip
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            b.node("MatMul", ["n", name], [f"{name}1"]), b.node("Reshape", [f"{name}1", "split"], [f"{name}2"]),
            b.node("Transpose", [f"{name}2"], [f"{name}3"], perm=order),
        ]  # fmt: skip
    nodes += [
        b.node("MatMul", ["q3", "k3"], ["scores"]), b.node("Mul", ["scores", "scale"], ["weak"]),
        b.node("Add", ["weak", "mask"], ["masked"]), b.node("Softmax", ["masked"], ["p"], axis=-1),
        b.node("MatMul", ["p", "v3"], ["o"]), b.node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        b.node("Reshape", ["o1", "join"], ["o2"]), b.node("MatMul", ["o2", "u"], ["h"]),
        b.node("Div", ["h", "root2"], ["e0"]), b.node("Erf", ["e0"], ["e1"]), b.node("Add", ["e1", "one"], ["e2"]),
        b.node("Mul", ["h", "e2"], ["e3"]), b.node("Mul", ["e3", "half"], ["e4"]), b.node("MatMul", ["e4", "d"], ["y"]),
    ]  # fmt: skip
    inputs = [b.value("x", ["b", tokens, 8]), b.value("mask", ["b", 1, 1, tokens])]
    return b.model(b.graph(nodes, inputs, [b.value("y")], tensors), opset=13)


def plan_of(module: OnnxModule) -> object:
    return next(iter(module._plans.values()))


def test_patterns_are_recognised_and_compute_the_same() -> None:
    module = load(transformer())
    x, mask = given(2, 5, 8), tensor(np.where(RNG.rand(2, 1, 1, 5) > 0.3, 0.0, -1e4).astype(np.float32))
    with no_grad():
        traced = module(x, mask)  # node by node
        later = [module(x, mask) for _ in range(3)]
        other = module(x[:, :3], mask[..., :3])  # another shape has a plan of its own
    for found in later:
        np.testing.assert_allclose(found.numpy(), traced.numpy(), rtol=1e-4, atol=1e-5)
    assert other.shape == (2, 3, 8)
    (recorded,) = plan_of(module).items
    names = [item.step.operator.name for item in recorded._steps]
    assert {"layer_norm", "attention", "gelu"} <= set(names) and not {"Erf", "Softmax", "Sqrt"} & set(names)
    assert recorded.reason is None and recorded._compiled.captured


def check_recognised(
    operator: str, forms: dict[str, list[bytes]], others: dict[str, list[bytes]], numbers: dict[str, float], x: Tensor
) -> None:
    """Graphs from x to y become the fused operator if they are among the forms, and give the same as before."""
    tensors = [b.tensor(name, np.array(value, np.float32)) for name, value in numbers.items()]

    def check(name: str, nodes: list[bytes], known: bool) -> None:
        graph = b.graph(nodes, [b.value("x", ["n", x.shape[1]])], [b.value("y")], tensors)
        module = load(b.model(graph, opset=17))
        with no_grad():
            traced = module(x)  # node by node
            later = [module(x) for _ in range(3)][-1]
        np.testing.assert_allclose(later.numpy(), traced.numpy(), rtol=1e-4, atol=1e-6)
        steps = [step for item in plan_of(module).items for step in getattr(item, "_steps", [item])]
        assert (operator in [item.step.operator.name for item in steps]) == known

    check_each(check, [(name, nodes, True) for name, nodes in forms.items()])
    check_each(check, [(name, nodes, False) for name, nodes in others.items()])


def test_the_forms_of_gelu_are_recognised() -> None:
    """x (1 + erf(x / √2)) / 2, halved by a product or a quotient, before or after."""
    inside = [b.node("Div", ["x", "root2"], ["e"]), b.node("Erf", ["e"], ["f"]), b.node("Add", ["f", "one"], ["g"])]
    forms = {
        "a product after": [b.node("Mul", ["x", "g"], ["h"]), b.node("Mul", ["half", "h"], ["y"])],
        "a quotient after": [b.node("Mul", ["x", "g"], ["h"]), b.node("Div", ["h", "two"], ["y"])],
        "a product before": [b.node("Mul", ["x", "half"], ["h"]), b.node("Mul", ["h", "g"], ["y"])],
        "a quotient before": [b.node("Div", ["x", "two"], ["h"]), b.node("Mul", ["h", "g"], ["y"])],
        "a half between": [b.node("Mul", ["g", "half"], ["h"]), b.node("Mul", ["x", "h"], ["y"])],
    }
    others = {  # not gelu: two over it, and a half that is used again
        "two over it": [b.node("Mul", ["x", "g"], ["h"]), b.node("Div", ["two", "h"], ["y"])],
        "used again": [
            b.node("Mul", ["x", "half"], ["h"]), b.node("Mul", ["h", "g"], ["i"]), b.node("Add", ["i", "h"], ["y"]),
        ],
    }  # fmt: skip
    numbers = {"root2": 2**0.5, "one": 1.0, "half": 0.5, "two": 2.0}
    forms, others = ({name: [*inside, *nodes] for name, nodes in group.items()} for group in (forms, others))
    check_recognised("gelu", forms, others, numbers, given(3, 7))


def test_the_forms_of_hard_swish_are_recognised() -> None:
    """x · clip(x + 3, 0, 6) / 6, divided before or after the product, and x · HardSigmoid(x)."""
    inside = [b.node("Add", ["x", "three"], ["e"]), b.node("Clip", ["e", "zero", "six"], ["f"])]
    forms = {
        "a quotient after": [*inside, b.node("Mul", ["x", "f"], ["h"]), b.node("Div", ["h", "six"], ["y"])],
        "a quotient before": [*inside, b.node("Div", ["f", "six"], ["h"]), b.node("Mul", ["h", "x"], ["y"])],
        "a product after": [*inside, b.node("Mul", ["f", "x"], ["h"]), b.node("Mul", ["sixth", "h"], ["y"])],
        "a copy between": [
            *inside, b.node("Identity", ["f"], ["g"]), b.node("Mul", ["x", "g"], ["h"]),
            b.node("Div", ["h", "six"], ["y"]),
        ],
        "of a hard sigmoid": [
            b.node("HardSigmoid", ["x"], ["h"], alpha=1 / 6, beta=0.5), b.node("Mul", ["x", "h"], ["y"]),
        ],
    }  # fmt: skip
    others = {
        "another hard sigmoid": [b.node("HardSigmoid", ["x"], ["h"], alpha=0.2), b.node("Mul", ["x", "h"], ["y"])],
        "another limit": [
            inside[0], b.node("Clip", ["e", "zero", "three"], ["f"]), b.node("Mul", ["x", "f"], ["h"]),
            b.node("Div", ["h", "six"], ["y"]),
        ],
        "another factor": [*inside, b.node("Mul", ["x", "f"], ["h"]), b.node("Div", ["h", "three"], ["y"])],
        "of another value": [*inside, b.node("Mul", ["e", "f"], ["h"]), b.node("Div", ["h", "six"], ["y"])],
        "used again": [
            *inside, b.node("Mul", ["x", "f"], ["h"]), b.node("Div", ["h", "six"], ["i"]),
            b.node("Add", ["i", "h"], ["y"]),
        ],
    }  # fmt: skip
    numbers = {"zero": 0.0, "three": 3.0, "six": 6.0, "sixth": 1 / 6}
    x = tensor(np.linspace(-9, 9, 90, dtype=np.float32).reshape(3, 30))
    check_recognised("hardswish", forms, others, numbers, x)


def test_what_is_added_to_channels_becomes_the_bias_of_a_convolution() -> None:
    """As Paddle's exporter writes biases: a sum after a copy."""
    bias, more = normal(4), normal(1, 4, 1, 1)
    tensors = [b.tensor("w", normal(4, 3, 3, 3)), b.tensor("own", bias), b.tensor("more", more)]
    tensors += [b.tensor("rows", normal(4, 1))]

    def made(constant: str, *own: str) -> OnnxModule:
        nodes = [
            b.node("Conv", ["x", "w", *own], ["c"]), b.node("Identity", ["c"], ["d"]),
            b.node("Add", [constant, "d"], ["s"]), b.node("Relu", ["s"], ["y"]),
        ]  # fmt: skip
        return load(b.model(b.graph(nodes, [b.value("x")], [b.value("y")], tensors), opset=13))

    x = given(2, 3, 6, 6)

    def check(_: str, module: OnnxModule, names: list[str]) -> None:
        with no_grad():
            traced = module(x)
            for _ in range(3):
                np.testing.assert_allclose(module(x).numpy(), traced.numpy(), rtol=1e-5, atol=1e-6)
        (item,) = plan_of(module).items
        assert [part.step.operator.name for part in getattr(item, "_steps", [item])] == names

    check_each(
        check,
        [
            ("no bias", made("more"), ["activated"]), ("a bias", made("more", "own"), ["activated"]),
            ("one for each row of pixels", made("rows"), ["Conv", "activated"]),
        ],
    )  # fmt: skip


def test_models_run_on_a_device_whose_memory_the_host_cannot_see() -> None:
    """Shapes are computed on the host, and what is made of them is put on the device."""
    nodes = [
        b.node("Shape", ["ids"], ["s"]), b.node("ConstantOfShape", ["s"], ["zeros"]),
        b.node("Gather", ["table", "ids"], ["rows"]), b.node("Softmax", ["rows"], ["p"], axis=-1),
        b.node("ReduceSum", ["zeros", "last"], ["plus"], keepdims=1), b.node("Constant", [], ["one"], value_ints=[1]),
        b.node("Unsqueeze", ["plus", "one"], ["wide"]), b.node("Add", ["p", "wide"], ["y"]),
    ]  # fmt: skip
    tensors = [b.tensor("table", normal(9, 4)), b.tensor("last", np.array([-1]))]
    data = b.model(b.graph(nodes, [b.value("ids", ["n", "t"], "int64")], [b.value("y")], tensors), opset=13)
    ids = tensor(RNG.randint(0, 9, (2, 3)).astype(np.int64))
    with no_grad():
        wanted, module = load(data)(ids), load(data, device="mirror")
        for _ in range(3):
            found = module(ids)
            assert found.device.type == "mirror"
            np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), atol=1e-6)
        x, mask = given(2, 5, 8), tensor(np.zeros((2, 1, 1, 5), np.float32))
        block = transformer()
        np.testing.assert_allclose(
            load(block, device="mirror")(x, mask).cpu().numpy(), load(block)(x, mask).numpy(), rtol=1e-4, atol=1e-5
        )
    with device("mirror"), no_grad():
        assert load(data)(tensor([[1, 2]])).device.type == "mirror"


def test_models_on_a_device_are_written_and_verified(tmp_path: Path) -> None:
    layer = nn.LSTM(3, 2).to("mirror")
    export(layer, (given(4, 1, 3).to("mirror"),), tmp_path / "moved.onnx", verify=True)
    with device("mirror"):
        export(nn.Linear(3, 2), (given(4, 3).to("mirror"),), tmp_path / "made.onnx", verify=True)
    assert load(tmp_path / "made.onnx")(given(4, 3)).device.type == "cpu"


def test_shapes_are_computed_once() -> None:
    """Shape, Gather and Concat are known from the shapes of the inputs, so that nothing reads a value later."""
    nodes = [
        b.node("Shape", ["x"], ["s"]), b.node("Constant", [], ["zero"], value_int=0),
        b.node("Gather", ["s", "zero"], ["rows"]), b.node("Constant", [], ["axes"], value_ints=[0]),
        b.node("Unsqueeze", ["rows", "axes"], ["first"]), b.node("Constant", [], ["rest"], value_ints=[-1]),
        b.node("Concat", ["first", "rest"], ["shape"], axis=0), b.node("Reshape", ["x", "shape"], ["flat"]),
        b.node("Relu", ["flat"], ["y"]),
    ]  # fmt: skip
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("y")])))
    with no_grad():
        for shape in ((2, 3, 4), (2, 3, 4), (2, 3, 4), (5, 2)):
            assert module(given(*shape)).shape == (shape[0], int(np.prod(shape[1:])))
    assert [len(item._steps) for item in plan_of(module).items] == [2]


def test_gradients_flow_and_training_changes_what_is_computed() -> None:
    module = load(transformer())
    x, mask = given(2, 4, 8), tensor(np.zeros((2, 1, 1, 4), np.float32))
    with no_grad():
        before = module(x, mask)
        module(x, mask)
    module.requires_grad_()
    loss = module(x, mask).square().mean()
    loss.backward()
    parameters = dict(module.named_parameters())
    assert all(parameters[name].grad is not None for name in ("g", "be", "q", "k", "v", "u", "d"))
    step = 1e-3
    weight = parameters["u"]
    with no_grad():
        moved = weight.clone()
        moved[0, 0] += step
        weight.copy_(moved)
        changed = module(x, mask).square().mean()
    slope = (float(changed) - float(loss)) / step
    assert abs(slope - float(weight.grad[0, 0])) < 0.02 * max(1.0, abs(slope))  # type: ignore[index]
    module.requires_grad_(False)
    with no_grad():
        weight.mul_(2.0)
        module.get_parameter("d").mul_(0.0)
        assert float(module(x, mask).abs().sum()) == 0.0 < float(before.abs().sum())


def test_a_gradient_never_ends_without_a_word() -> None:
    nodes = [b.node("Constant", [], ["n"], value_int=1), b.node("TensorScatter", ["x", "u"], ["y"], axis=1)]
    data = b.model(b.graph(nodes, [b.value("x"), b.value("u")], [b.value("y")]), opset=24)
    with pytest.raises(ModelError, match="TensorScatter.*no gradient"):
        load(data)(given(2, 3).requires_grad_(), given(2, 1))


def test_loops_and_branches() -> None:
    """10 steps of x -> x * 2 while it is below 100; then a branch that takes values from around it."""
    body = b.graph(
        [b.node("Add", ["v", "v"], ["v2"]), b.node("Less", ["v2", "limit"], ["go"]), b.node("Identity", ["v2"],
            ["seen"])],
        [b.value("i", [], "int64"), b.value("c", [], "bool"), b.value("v", [])],
        [b.value("go", [], "bool"), b.value("v2", []), b.value("seen", [])],
    )  # fmt: skip
    yes = b.graph([b.node("Add", ["last", "x"], ["r"])], [], [b.value("r")])
    no = b.graph([b.node("Sub", ["last", "x"], ["r"])], [], [b.value("r")])
    nodes = [
        b.node("Constant", [], ["limit"], value_float=100.0), b.node("Constant", [], ["most"], value_int=10),
        b.node("Loop", ["most", "", "x"], ["last", "all"], body=body), b.node("Greater", ["x", "limit"], ["big"]),
        b.node("If", ["big"], ["y"], then_branch=yes, else_branch=no),
    ]  # fmt: skip
    module = load(b.model(b.graph(nodes, [b.value("x", [])], [b.value("y"), b.value("all")])))
    with no_grad():
        for value in (1.0, 3.0, 200.0, 3.0, 1.0):
            steps = [value]
            while len(steps) == 1 or (steps[-1] < 100 and len(steps) < 11):
                steps.append(steps[-1] * 2)
            wanted = steps[-1] + value if value > 100 else steps[-1] - value
            y, every = module(tensor(value))
            assert float(y) == wanted and every.tolist() == steps[1:]


def test_a_branch_with_a_known_condition_runs_within_the_graph_around_it() -> None:
    """As torch's exporter asks for the rank of a state: a condition that follows from shapes, again in the branch that
    is taken. Both branches and the graph around them use the same names.
    """
    rank = [b.node("Size", ["s"], ["n"]), b.node("Equal", ["n", "two"], ["same"])]
    inner_yes = b.graph([b.node("Mul", ["h", "w"], ["t"]), b.node("Add", ["t", "x"], ["r"])], [], [b.value("r")])
    inner_no = b.graph([b.node("Sub", ["h", "w"], ["r"])], [], [b.value("r")], [b.tensor("w", normal(3))])
    yes = b.graph(
        [
            b.node("Exp", ["x"], ["h"]), b.node("Shape", ["h"], ["s"]), *rank,
            b.node("If", ["same"], ["g"], then_branch=inner_yes, else_branch=inner_no), b.node("Relu", ["g"], ["u"]),
        ],
        [], [b.value("u"), b.value("x"), b.value("own")], [b.tensor("own", np.float32(7))],
    )  # fmt: skip
    no = b.graph(
        [b.node("Neg", ["x"], ["t"])],
        [],
        [b.value("t"), b.value("t"), b.value("own")],
        [b.tensor("own", np.float32(8))],
    )
    nodes = [
        b.node("Shape", ["x"], ["s"]), b.node("Size", ["s"], ["n"]), b.node("Equal", ["n", "two"], ["same"]),
        b.node("Abs", ["x"], ["t"]),
        b.node("If", ["same"], ["first", "second", "third"], then_branch=yes, else_branch=no),
        b.node("Add", ["first", "t"], ["y"]), b.node("Add", ["second", "third"], ["z"]),
    ]  # fmt: skip
    w = normal(3)
    tensors = [b.tensor("two", np.int64(2)), b.tensor("w", w)]
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("y"), b.value("z")], tensors)))
    flat, deep = given(2, 3), given(2, 1, 3)
    for x in (flat, deep, flat, flat, deep, deep):
        v = x.numpy()
        wanted = (np.maximum(np.exp(v) * w + v, 0) + abs(v), v + 7) if x.ndim == 2 else (-v + abs(v), -v + 8)
        with no_grad():
            found = module(x)
        for own, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(own.numpy(), other, atol=1e-6)
    first, second = module._plans.values()
    assert [len(item._steps) for plan in (first, second) for item in plan.items] == [6, 4]
    leaf = given(2, 3).requires_grad_()
    module(leaf)[0].sum().backward()
    exp = np.exp(leaf.detach().numpy())
    slope = np.where(exp * w + leaf.detach().numpy() > 0, exp * w + 1, 0) + np.sign(leaf.detach().numpy())
    np.testing.assert_allclose(leaf.grad.numpy(), slope, atol=1e-5)  # type: ignore[union-attr]


def test_weights_of_4_bits_in_a_branch_stay_packed() -> None:
    codes, scales = RNG.randint(0, 256, (8, 2, 16)).astype(np.uint8), np.full(16, 0.01, np.float32)
    product = b.node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=8)
    yes = b.graph([product], [], [b.value("y")], [b.tensor("w", codes), b.tensor("s", scales)])
    no = b.graph([b.node("Neg", ["x"], ["y"])], [], [b.value("y")])
    nodes = [
        b.node("Shape", ["x"], ["n"]), b.node("ReduceProd", ["n"], ["m"], keepdims=0),
        b.node("Less", ["limit", "m"], ["big"]), b.node("If", ["big"], ["z"], then_branch=yes, else_branch=no),
        b.node("Relu", ["z"], ["r"]),
    ]  # fmt: skip
    tensors = [b.tensor("limit", np.int64(65))]
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("r")], tensors)))
    numbers = (np.stack([codes & 15, codes >> 4], -1).reshape(8, 2, 32).astype(np.float32) - 8).reshape(8, 64) * 0.01
    with no_grad():
        x = given(3, 64)
        wanted = np.maximum(x.numpy() @ numbers.T, 0)
        for _ in range(3):
            np.testing.assert_allclose(module(x).numpy(), wanted, atol=0.02 * float(wanted.max()))
        (item,) = plan_of(module).items
        assert [part.step.operator.name for part in item._steps] == ["packed_product", "Relu"]


def test_sorting_lengths_is_recorded() -> None:
    """As torch's exporter packs sequences: their lengths in descending order, and the order that undoes it."""
    nodes = [
        b.node("TopK", ["n", "k"], ["v", "order"], axis=0),
        b.node("ScatterElements", ["zeros", "order", "places"], ["back"], axis=0),
        b.node("Gather", ["v", "back"], ["same"]),
    ]  # fmt: skip
    tensors = [
        b.tensor("k", np.int64([4])),
        b.tensor("zeros", np.zeros(4, np.int64)),
        b.tensor("places", np.arange(4, dtype=np.int64)),
    ]
    outputs = [b.value(name, None, "int64") for name in ("order", "back", "same")]
    module = load(b.model(b.graph(nodes, [b.value("n", [4], "int64")], outputs, tensors), opset=16))
    for n, order in (([3, 9, 3, 7], [1, 3, 0, 2]), ([1, 1, 1, 1], [0, 1, 2, 3]), ([-5, 2, -7, 2], [1, 3, 0, 2])):
        with no_grad():
            found = [value.tolist() for value in module(np.int64(n))]
        assert found == [order, np.argsort(order).tolist(), n]
    (item,) = plan_of(module).items
    assert len(item._steps) == 3 and item.reason is None


def test_steps_without_constants_are_recorded_once() -> None:
    nodes = [b.node("Exp", ["x"], ["h"]), b.node("Sin", ["h"], ["y"])]
    module = load(b.model(b.graph(nodes, [b.value("x", ["n"])], [b.value("y")])))
    with no_grad():
        found = [module(tensor([0.5, float(k)])).tolist() for k in range(3)]
        (item,) = plan_of(module).items
        (entry,) = item._compiled._entries.values()
        (replay,) = entry.replays
        found.append(module(tensor([0.5, 3.0])).tolist())
        assert entry.replays == [replay] and item._compiled._entries == {next(iter(item._compiled._entries)): entry}
    np.testing.assert_allclose(found, [[np.sin(np.exp(0.5)), np.sin(np.exp(k))] for k in range(4)], rtol=1e-5)


def recurrent(op: str, gates: int, lengths: bool, **settings: int | str) -> bytes:
    """A layer of two directions; `lengths`: those of the sequences are an input."""
    tensors = [
        b.tensor("w", normal(2, gates * 5, 4)), b.tensor("r", normal(2, gates * 5, 5)),
        b.tensor("b", normal(2, 2 * gates * 5)),
    ]  # fmt: skip
    inputs = [b.value("x", ["t", "b", 4]), *([b.value("n", ["b"], "int32")] if lengths else [])]
    tensors += [] if lengths else [b.tensor("n", np.array([3, 6, 1], np.int32))]
    layer = b.node(op, ["x", "w", "r", "b", "n"], ["y", "h"], hidden_size=5, direction="bidirectional", **settings)
    return b.model(b.graph([layer], inputs, [b.value("y"), b.value("h")], tensors), opset=14)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_whose_lengths_are_an_input_are_recorded(op: str, gates: int) -> None:
    state = RNG.get_state()
    fixed = load(recurrent(op, gates, False))
    RNG.set_state(state)
    free = load(recurrent(op, gates, True))
    x = given(6, 3, 4)
    with no_grad():
        wanted = [value.numpy() for value in fixed(x)]
        assert not wanted[0][3:, :, 0].any() and wanted[0][5, :, 1].any()
        for _ in range(3):
            for own, other in zip(free(x, np.array([3, 6, 1], np.int32)), wanted, strict=True):
                np.testing.assert_allclose(own.numpy(), other, atol=1e-6)
        (item,) = plan_of(free).items
        assert not item.host
        whole, _ = free(x, np.array([6, 6, 6], np.int32))  # the record takes other lengths
        assert whole.numpy()[5].all() and not np.allclose(whole.numpy(), wanted[0], atol=1e-3)


def test_sizes_without_a_name_may_differ() -> None:
    """Paddle's exporter calls every unknown size "?"; names that are names hold for all inputs."""
    nodes = [b.node("Relu", ["x"], ["h"]), b.node("Add", ["h", "z"], ["y"])]
    for name in ("?", "-1", "None", ""):
        module = load(b.model(b.graph(nodes, [b.value("x", [name, 3, name]), b.value("z", [name])], [b.value("y")])))
        assert module.inputs[0].type.shape == (None, 3, None)
        assert module(given(2, 3, 5), given(5)).shape == (2, 3, 5)
    module = load(b.model(b.graph(nodes, [b.value("x", ["n", 3, "n"]), b.value("z", ["n"])], [b.value("y")])))
    with pytest.raises(OptionError, match=r"'x' has the shape \(2, 3, 5\), expected \(n = 2, 3, n = 2\)"):
        module(given(2, 3, 5), given(5))


def test_functions_of_the_file() -> None:
    """A function with an attribute, called twice."""
    function = bytes_field(1, "Scaled") + bytes_field(4, "a") + bytes_field(5, "r") + bytes_field(6, "by")
    reference = bytes_field(5, bytes_field(1, "value_float") + bytes_field(21, "by") + int_field(20, 1))
    constant = bytes_field(2, "f") + bytes_field(4, "Constant") + reference
    function += bytes_field(7, constant) + bytes_field(7, b.node("Mul", ["a", "f"], ["r"])) + bytes_field(10, "own")
    nodes = [b.node("Scaled", ["x"], ["h"], domain="own", by=3.0), b.node("Scaled", ["h"], ["y"], domain="own", by=2.0)]
    data = b.model(b.graph(nodes, [b.value("x")], [b.value("y")]), own=1) + bytes_field(25, function)
    assert load(data)(tensor([1.0, 2.0])).tolist() == [6.0, 12.0]


def test_texts_in_and_out() -> None:
    nodes = [b.node("StringConcat", ["x", "x"], ["y"])]
    data = b.model(b.graph(nodes, [b.value("x", ["n"], "string")], [b.value("y")]))
    assert load(data)(["a", "ü"]).tolist() == ["aa", "üü"]


def test_results_do_not_share_memory_with_later_runs() -> None:
    module = load(
        b.model(b.graph([b.node("Relu", ["x"], ["h"]), b.node("Exp", ["h"], ["y"])], [b.value("x")], [b.value("y")]))
    )
    with no_grad():
        found: list[Tensor] = [module(tensor([float(k)])) for k in range(6)]
    np.testing.assert_allclose([float(y) for y in found], np.exp(range(6)), rtol=1e-6)


def test_dynamically_quantised_products_are_packed() -> None:
    """As onnxruntime's quantize_dynamic writes them; two products share an input, one weight has a zero point."""
    w, v = (RNG.randint(-127, 128, (64, 5)).astype(np.int8), RNG.randint(0, 256, (64, 3)).astype(np.uint8))
    tensors = [
        b.tensor("w", w), b.tensor("v", v), b.tensor("zero", np.uint8(128)), b.tensor("ws", np.float32(0.01)),
        b.tensor("vs", np.linspace(0.01, 0.02, 3, dtype=np.float32)),
    ]  # fmt: skip
    nodes = [b.node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])]
    for name, zero, scale in (("w", [], "ws"), ("v", ["zero"], "vs")):
        nodes += [
            b.node("MatMulInteger", ["q", name, "z", *zero], [f"{name}1"]), b.node("Mul", ["s", scale], [f"{name}2"]),
            b.node("Cast", [f"{name}1"], [f"{name}3"], to=1), b.node("Mul", [f"{name}3", f"{name}2"], [f"{name}4"]),
        ]  # fmt: skip
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("w4"), b.value("v4")], tensors), opset=13))
    x = given(2, 3, 64)
    wanted = [
        x.numpy() @ (w * np.float32(0.01)),
        x.numpy() @ ((v.astype(np.float32) - 128) * np.linspace(0.01, 0.02, 3)),
    ]
    with no_grad():
        for _ in range(4):
            for own, other in zip(module(x), wanted, strict=True):
                np.testing.assert_allclose(own.numpy(), other, atol=0.01 * float(np.abs(other).max()))
    assert [len(item._steps) for item in plan_of(module).items] == [2] and not module._others.keys() & {"w", "v"}


def test_dynamically_quantised_convolutions_and_lstms() -> None:
    """As onnxruntime's quantize_dynamic writes them: weights of 8 bits, of which some fit into blocks of 32."""
    kernel, scale = RNG.randint(0, 256, (6, 3, 3, 3)).astype(np.uint8), np.float32(0.01)
    tensors = [b.tensor("k", kernel), b.tensor("zero", np.uint8(120)), b.tensor("ks", scale)]
    nodes = [
        b.node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        b.node("ConvInteger", ["q", "k", "z", "zero"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        b.node("Cast", ["c"], ["f"], to=1), b.node("Mul", ["s", "ks"], ["both"]), b.node("Mul", ["f", "both"], ["y"]),
    ]  # fmt: skip
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("y")], tensors), opset=13))
    weight = (kernel.astype(np.float32) - 120) * scale
    plain = [b.node("Conv", ["x", "k"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])]
    other = load(b.model(b.graph(plain, [b.value("x")], [b.value("y")], [b.tensor("k", weight)]), opset=13))
    x = given(2, 3, 8, 8)
    with no_grad():
        for _ in range(3):
            np.testing.assert_allclose(module(x).numpy(), other(x).numpy(), atol=1e-5)
    assert not module._others.keys() & {"k"}

    def lstm(inputs: int, known: bool) -> tuple[bytes, dict[str, np.ndarray]]:
        w = RNG.randint(-128, 128, (1, inputs, 4 * 32)).astype(np.int8)
        r = RNG.randint(-128, 128, (1, 32, 4 * 32)).astype(np.int8)
        scales, zero = np.linspace(0.001, 0.002, 128, dtype=np.float32)[None], np.zeros((1, 128), np.int8)
        given = {"w": w, "r": r, "ws": scales, "wz": zero, "rs": np.float32([0.002]), "rz": np.int8([0])}
        names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"]
        nodes = [b.node("DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=32)]
        free = [] if known else [b.value(n, v.shape, v.dtype.name) for n, v in given.items()]
        made = [b.tensor(n, v) for n, v in given.items()] if known else []
        data = b.model(b.graph(nodes, [b.value("x"), *free], [b.value("y")], made), opset=13)
        matrices = (w[0].T * scales.T, r[0].T * np.float32(0.002))
        plain = [b.node("LSTM", ["x", "w", "r"], ["y"], hidden_size=32)]
        tensors = [b.tensor(n, v[None].astype(np.float32)) for n, v in zip("wr", matrices, strict=True)]
        x = normal(5, 2, inputs)
        with no_grad():
            return data, {
                "x": x,
                "y": load(b.model(b.graph(plain, [b.value("x")], [b.value("y")], tensors)))(x),
                **given,
            }

    def check(_: str, inputs: int, known: bool, device: str | None) -> None:
        data, values = lstm(inputs, known)
        module, wanted = load(data, device=device), values.pop("y").numpy()
        with no_grad():
            for _ in range(3):
                found = module(values["x"]) if known else module(**values)
                np.testing.assert_allclose(found.cpu().numpy(), wanted, atol=0.01)
        names = module._program.constants.keys()
        assert {"w/packed/0", "r/packed/0"} <= names if known else not names
        if known:
            kinds = [module._program.constants[f"{name}/packed/0"].dtype.name for name in "wr"]
            assert kinds == ["q8_0" if inputs % 32 == 0 else "float32", "q8_0"]

    check_each(
        check,
        [
            ("both packed", 64, True, None), ("W in float32", 40, True, None), ("weights are inputs", 40, False, None),
            ("on a device", 64, True, "mirror"),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("channels, taps, groups", [(600, 9, 1), (600, 9, 2), (2, 961, 1)])
def test_convolutions_of_whole_numbers_are_exact(channels: int, taps: int, groups: int) -> None:
    """Also where sums exceed what float32 holds: of many channels, of many taps."""
    side = int(taps**0.5)
    x = RNG.randint(0, 256, (1, channels, side + 1, side)).astype(np.uint8)
    w = RNG.randint(-128, 128, (4, channels // groups, side, side)).astype(np.int8)
    x[:, :, 1:], w[0] = 255, 127
    nodes = [b.node("ConvInteger", ["x", "w"], ["y"], group=groups)]
    graph = b.graph(nodes, [b.value("x", x.shape, "uint8")], [b.value("y", (1, 4, 2, 1), "int32")], [b.tensor("w", w)])
    found = load(b.model(graph, opset=13))(x).numpy()
    parts = x.astype(np.int64).reshape(groups, channels // groups, side + 1, side)
    for row in range(2):
        for output in range(4):
            seen = parts[output * groups // 4, :, row : row + side]
            assert found[0, output, row, 0] == (seen * w[output].astype(np.int64)).sum()


def test_blocks_of_4_bits_are_packed_with_some_tiny_scales() -> None:
    codes, scales = RNG.randint(0, 256, (8, 2, 16)).astype(np.uint8), (RNG.rand(16) * 0.01).astype(np.float32)
    scales[[3, 9]] = 1e-7, 0.0
    nodes = [b.node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=64, N=8)]
    module = load(
        b.model(b.graph(nodes, [b.value("x")], [b.value("y")], [b.tensor("w", codes), b.tensor("s", scales)]))
    )
    numbers = np.stack([codes & 15, codes >> 4], -1).reshape(8, 2, 32).astype(np.float32) - 8
    x, weight = given(3, 64), (numbers * scales.reshape(8, 2, 1)).reshape(8, 64)
    with no_grad():
        wanted = x.numpy() @ weight.T
        np.testing.assert_allclose(module(x).numpy(), wanted, atol=0.02 * float(np.abs(wanted).max()))
    assert "w" not in module._others and "w/packed" in module._program.constants
    with no_grad():
        elsewhere = load(
            b.model(b.graph(nodes, [b.value("x")], [b.value("y")], [b.tensor("w", codes), b.tensor("s", scales)])),
            device="mirror",
        )(x)
    assert elsewhere.device.type == "mirror"
    np.testing.assert_allclose(elsewhere.cpu().numpy(), wanted, atol=0.02 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("first", ["Conv", "Relu"])
def test_batch_normalisation_becomes_a_part_of_the_convolution(first: str) -> None:
    tensors = [b.tensor("w", normal(4, 3, 3, 3)), b.tensor("b", normal(4))]
    tensors += [b.tensor(name, normal(4)) for name in ("scale", "bias", "mean")] + [
        b.tensor("var", abs(normal(4)) + 0.5)
    ]
    nodes = [
        b.node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        *([b.node("Relu", ["c"], ["d"])] if first == "Relu" else []),
        b.node("BatchNormalization", ["d" if first == "Relu" else "c", "scale", "bias", "mean", "var"], ["n"]),
        b.node("Clip", ["n", "low"], ["y"]),
    ]  # fmt: skip
    module = load(
        b.model(b.graph(nodes, [b.value("x")], [b.value("y")], [*tensors, b.tensor("low", np.float32(-0.1))]))
    )
    x = given(2, 3, 6, 6)
    with no_grad():
        traced = module(x)
        for _ in range(3):
            np.testing.assert_allclose(module(x).numpy(), traced.numpy(), rtol=1e-4, atol=1e-5)
        (item,) = plan_of(module).items
        if first == "Relu":
            assert [part.step.operator.name for part in item._steps] == ["activated", "scaled", "Clip"]
        else:
            assert item.step.operator.name == "activated"
        module.get_parameter("var").mul_(4.0)  # what was computed from it is computed again
        assert not np.allclose(module(x).numpy(), traced.numpy(), atol=1e-3)


def test_large_constants_of_branches_are_read_while_the_file_is_open(tmp_path: Path) -> None:
    table = np.arange(4096, dtype=np.float32)
    sides = []
    for name, factor in (("then", 1), ("else", 2)):
        value = bytes_field(1, "value") + bytes_field(5, b.tensor("t", table * factor)) + int_field(20, 4)
        constant = bytes_field(5, value)
        made = bytes_field(2, name) + bytes_field(4, "Constant") + constant
        sides.append(b.graph([made], [], [b.value(name, [4096])]))
    branch = b.node("If", ["c"], ["y"], then_branch=sides[0], else_branch=sides[1])
    file = tmp_path / "branches.onnx"
    file.write_bytes(b.model(b.graph([branch], [b.value("c", [], "bool")], [b.value("y", [4096])])))
    module = load(file)
    for wanted, factor in ((True, 1), (False, 2), (True, 1)):
        assert np.array_equal(module(np.array(wanted)).numpy(), table * factor)


def test_weights_of_constant_nodes_are_parameters() -> None:
    """Paddle's exporter writes all of them so. Single numbers, and what branches have, are not parameters."""

    def constant(name: str, array: np.ndarray) -> bytes:
        value = bytes_field(1, "value") + bytes_field(5, b.tensor("t", array)) + int_field(20, 4)
        return bytes_field(2, name) + bytes_field(4, "Constant") + bytes_field(5, value)

    w, half = normal(3, 4), np.float32(0.5)
    nodes = [
        constant("layer.w", w), constant("half", half), constant("shape", np.int64([-1, 3])),
        b.node("Reshape", ["x", "shape"], ["rows"]), b.node("MatMul", ["rows", "layer.w"], ["h"]),
        b.node("Mul", ["h", "half"], ["y"]),
    ]  # fmt: skip
    module = load(b.model(b.graph(nodes, [b.value("x")], [b.value("y")])))
    x = given(2, 2, 3)
    assert [name for name, _ in module.named_parameters()] == ["layer.w"]
    np.testing.assert_array_equal(module.get_parameter("layer.w").numpy(), w)
    with no_grad():
        for _ in range(3):
            np.testing.assert_allclose(module(x).numpy(), x.numpy().reshape(-1, 3) @ w * half, atol=1e-6)
    module.requires_grad_()
    module(x).sum().backward()
    slope = np.repeat(x.numpy().reshape(-1, 3).sum(0)[:, None] * half, 4, 1)
    np.testing.assert_allclose(module.get_parameter("layer.w").grad.numpy(), slope, atol=1e-6)  # type: ignore[union-attr]


def test_metadata() -> None:
    pair = bytes_field(14, bytes_field(1, "framework") + bytes_field(2, "wespeaker"))
    graph = b.graph([b.node("Relu", ["x"], ["y"])], [b.value("x", [1])], [b.value("y", [1])])
    assert load(b.model(graph) + pair).metadata == {"framework": "wespeaker"}
