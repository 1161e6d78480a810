"""Damaged and hostile ONNX files get clear errors, and cost neither memory nor time."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from pyapp import no_grad, save, tensor
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.formats import open_checkpoint
from pyapp.formats.protobuf import bytes_field, int_field
from pyapp.formats.safetensors import write_safetensors
from pyapp.onnx import load, program
from pyapp.onnx.operators import creation
from tests.hostile import peak_memory, survives

from . import builder as b

LINEAR = b.graph(
    [b.node("MatMul", ["x", "w"], ["y"], "product"), b.node("Relu", ["y"], ["z"])],
    [b.value("x", ["n", 3])], [b.value("z")], [b.tensor("w", np.arange(6, dtype=np.float32).reshape(3, 2))],
)  # fmt: skip


def small(
    nodes: list[bytes], inputs: list[bytes] | None = None, outputs: list[bytes] | None = None, **settings: int
) -> bytes:
    return b.model(b.graph(nodes, inputs or [b.value("x", [2])], outputs or [b.value("y")]), **settings)


def test_a_small_file() -> None:
    module = load(b.model(LINEAR))
    assert [info.name for info in module.inputs] == ["x"] and list(module.state_dict()) == ["w"]
    found = module(tensor([[1.0, -1.0, 0.5]]))
    np.testing.assert_allclose(found.numpy(), [[0.0, 0.5]])
    with open_checkpoint(b.model(LINEAR)) as file:
        assert file.format == "ONNX" and file.tensors["w"].shape == (3, 2)
        np.testing.assert_array_equal(file.read("w").numpy(), np.arange(6).reshape(3, 2))


@pytest.mark.parametrize(
    "data, message",
    [
        (small([b.node("Add", ["x", "b"], ["a"], "first"), b.node("Add", ["a", "x"], ["b"]), b.node("Relu", ["b"],
            ["y"])]), "cycle.*'first'"),
        (small([b.node("Relu", ["y"], ["y"])]), "cycle"),
        (small([b.node("Foo", ["x"], ["y"], "it")]), r"node 'it' \(Foo, opset 20\): there is no such operator"),
        (small([b.node("Gather", ["x"], ["y"])]), "1 inputs, expected 2"),
        (small([b.node("Cast", ["x"], ["y"])]), "attribute 'to' is missing"),
        (small([b.node("Relu", ["x"], ["y"])], opset=99), "opset 99"),
        (small([b.node("Bar", ["x"], ["y"], domain="some.one")]), "some.one.Bar"),
        (small([b.node("Relu", ["nowhere"], ["y"])]), "'nowhere', which nothing makes"),
        (small([b.node("Relu", ["x"], ["z"])]), "'y' is made by no node"),
        (small([b.node("Relu", ["x"], ["y"]), b.node("Abs", ["x"], ["y"])]), "made twice"),
        (small([b.node("Relu", ["x"], ["y"], alpha=1.0)]), "attribute 'alpha' is not known"),
        (small([b.node("Concat", [], ["y"])]), "0 inputs, expected 1 to more"),
        (small([b.node("Relu", ["x", "x"], ["y"])]), "2 inputs, expected 1"),
    ],
)  # fmt: skip
def test_graphs_that_cannot_run(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(data)


def run(data: bytes) -> None:
    with no_grad():
        load(data)(tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    "nodes, message",
    [
        ([b.node("Constant", [], ["s"], value_ints=[7, 9]), b.node("Reshape", ["x", "s"], ["y"], "bend")],
            "'bend'.*7, 9"),
        ([b.node("Split", ["x"], ["y"], num_outputs=1 << 30)], "num_outputs is 1,073,741,824, the node has 1 outputs"),
        ([b.node("Constant", [], ["s"], value_ints=[1 << 40, 1 << 20]), b.node("Expand", ["x", "s"], ["y"])],
            "Expand|broadcast"),
        ([b.node("Constant", [], ["s"], value_ints=[1 << 45]), b.node("ConstantOfShape", ["s"], ["y"])],
            "35,184,372,088,832"),
        ([b.node("Constant", [], ["s"], value_ints=[1 << 45]), b.node("Tile", ["x", "s"], ["y"])],
            "makes 'y'.*Tile.*70,368,744,177,664"),
        ([b.node("Constant", [], ["s"], value_ints=[0, 1 << 45]), b.node("Pad", ["x", "s"], ["y"])],
            "makes 'y'.*too many"),
        ([b.node("Constant", [], ["s"], value_ints=[3]), b.node("Add", ["x", "s"], ["y"])], "different element types"),
        ([b.node("Softmax", ["x"], ["y"], axis=5)], "axis 5 is out of range"),
        ([b.node("Cast", ["x"], ["y"], to=99)], "element type 99"),
    ],
)  # fmt: skip
def test_nodes_that_fail_name_themselves(nodes: list[bytes], message: str) -> None:
    with peak_memory(1 << 24), pytest.raises(ModelError, match=message):
        run(small(nodes))


def chain(op: str, *further: str, count: int = 40, **settings: int) -> list[bytes]:
    """x → op(x, …) → op(…) → … → y"""
    names = ["x", *(f"c{k}" for k in range(1, count)), "y"]
    doubled = [[name, *(further or (name,))] for name in names]
    return [b.node(op, doubled[k], [names[k + 1]], f"step {k}", **settings) for k in range(count)]


TWICE = b.node("Constant", [], ["t"], value_ints=[2])
TEXT = b.node("Cast", ["x"], ["s"], to=8)


@pytest.mark.parametrize(
    "nodes, message",
    [
        (chain("Concat", axis=0), r"step 1\d.*needs [\d,]+ bytes, of 1,048,576 that it may take; [\d,]+ are in use"),
        ([TWICE, *chain("Tile", "t")], r"step 1\d.*Tile.*too many"),
        ([b.node("Constant", [], ["t"], value_ints=[60_000, 60_000]), b.node("ConstantOfShape", ["t"], ["y"], "ones")],
            "ones.*3,600,000,000 elements"),
        ([b.node("Constant", [], ["t"], value_ints=[500, 2]), b.node("Expand", ["x", "t"], ["a"]), b.node("Transpose",
            ["a"], ["b"]), b.node("MatMul", ["a", "b"], ["c"]), b.node("EyeLike", ["c"], ["y"], "eye")],
            "eye.*2,000,000 bytes, of 1,048,576 that it may take; 1,048,576 are in use"),
        ([b.node("Constant", [], ["i"], value_ints=[0]), b.node("Constant", [], ["d"], value_int=1 << 20),
            b.node("OneHot", ["i", "d", "x"], ["y"], "hot")], "hot.*1,048,576 elements, too many"),
        ([TEXT, b.node("StringConcat", ["s", "s"], ["a0"]), *(b.node("StringConcat", [f"a{k}"] * 2, [f"a{k + 1}"],
            f"text {k}") for k in range(40)), b.node("Identity", ["a40"], ["y"])], r"text 1\d.*too many"),
    ],
)  # fmt: skip
def test_results_that_grow_stop_at_the_memory_limit(nodes: list[bytes], message: str) -> None:
    """The first one fails that has no room, before its memory is taken."""
    module = load(small(nodes), memory_limit=1 << 20)
    with peak_memory(1 << 23), no_grad(), pytest.raises(ModelError, match=message) as caught:
        module(tensor([1.0, 2.0]))
    assert "memory_limit" in str(caught.value)


def test_loops_without_an_end_stop() -> None:
    state = [b.value("i", [], "int64"), b.value("c", [], "bool"), b.value("s")]
    body = b.graph(
        [b.node("Identity", ["c"], ["d"]), b.node("Neg", ["s"], ["t"])], state, [b.value("d", [], "bool"), b.value("t")]
    )
    data = small([b.node("Loop", ["", "", "x"], ["y"], "endless", body=body)])
    with no_grad(), pytest.raises(ModelError, match="endless.*made 50 steps, as many as they may.*loop_limit"):
        load(data, loop_limit=50)(tensor([1.0, 2.0]))
    counted = small([b.node("Constant", [], ["n"], value_int=50), b.node("Loop", ["n", "", "x"], ["y"], body=body)])
    module = load(counted, loop_limit=50)
    for _ in range(3):  # each call has its own count
        np.testing.assert_array_equal(module(tensor([1.0, 2.0])).numpy(), [1.0, 2.0])
    module.loop_limit = 49
    with pytest.raises(ModelError, match="made 49 steps"):
        module(tensor([1.0, 2.0]))


def test_limits_are_numbers() -> None:
    for wrong in ({"memory_limit": -1}, {"loop_limit": "many"}, {"memory_limit": 1.5}):
        with pytest.raises(OptionError, match=r"_limit is .*, expected a whole number"):
            load(small([b.node("Relu", ["x"], ["y"])]), **wrong)  # type: ignore[arg-type]


def test_memory_that_is_free_again_does_not_count() -> None:
    """Forty results of 256 KiB, of which two live at a time."""
    nodes = [b.node("Constant", [], ["t"], value_ints=[1 << 15, 2]), b.node("Expand", ["x", "t"], ["a0"])]
    nodes += [b.node("Sin", [f"a{k}"], [f"a{k + 1}"]) for k in range(40)]
    module = load(small([*nodes, b.node("Identity", ["a40"], ["y"])]), memory_limit=1 << 20)
    with no_grad():
        assert module(tensor([1.0, 2.0])).shape == (1 << 15, 2)


@pytest.mark.parametrize("given", ["text", [[1.0], [2.0, 3.0]], [10**400, 1]])
def test_inputs_that_are_no_numbers_are_named(given: object) -> None:
    with pytest.raises(OptionError, match=r"the input 'x' cannot be made of .* of float32"):
        load(small([b.node("Relu", ["x"], ["y"])]))(given)


def test_memory_that_is_missing_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 16.0 GiB")

    nodes = [b.node("Constant", [], [name], value_int=1 + 8 * (name == "b")) for name in "abc"]
    monkeypatch.setattr(creation, "check_room", full)
    with pytest.raises(MemoryError, match=r"node 'far' \(Range"):
        run(small([*nodes, b.node("Range", ["a", "b", "c"], ["y"], "far")]))


def test_names_without_end_are_cut() -> None:
    with pytest.raises(ModelError) as caught:
        load(small([b.node("Relu", ["a" * 100_000], ["y"])]))
    assert len(str(caught.value)) < 2500 and "which nothing makes" in str(caught.value)


def test_patterns_that_take_forever() -> None:
    module = load(small([b.node("RegexFullMatch", ["x"], ["y"], pattern="(a+)+b")], [b.value("x", [1], "string")]))
    with pytest.raises(ModelError, match="take forever"):
        module(["a" * 60])


def test_tensors_that_lie_about_their_size() -> None:
    """2 GB announced in a few bytes, negative sizes, too many dims, elements in the wrong field."""
    float32 = int_field(2, 1) + bytes_field(8, "w")
    for body, message in (
        (int_field(1, 1 << 29) + float32 + bytes_field(9, b"abcd"), "needs 2,147,483,648 bytes, the file has 4"),
        (int_field(1, 1 << 62) + int_field(1, 1 << 62) + float32, "elements"),
        (int_field(1, -3) + float32, "shape"),
        (int_field(1, 0) * 100 + float32, "shape|fit"),
        (int_field(1, 2) + float32 + bytes_field(7, b"\1\2"), "needs|field 7"),
        (int_field(1, 1) + int_field(2, 77) + bytes_field(8, "w"), "element type 77"),
        (int_field(1, 2) + int_field(2, 8) + bytes_field(6, b"a") + bytes_field(8, "w"), "1 texts"),
    ):
        with peak_memory(1 << 22), pytest.raises(FileFormatError, match=message):
            load(b.model(b.graph([b.node("Relu", ["w"], ["y"])], [], [b.value("y")], [body])))


def test_deep_nesting() -> None:
    """Graphs within graphs within graphs, and types."""
    body = b.graph([b.node("Relu", ["x"], ["y"])], [], [b.value("y")])
    for _ in range(200):
        body = b.graph([b.node("If", ["c"], ["y"], then_branch=body, else_branch=body[:0])], [], [b.value("y")])
    with pytest.raises(FileFormatError, match="nested"):
        load(b.model(body))
    kind = bytes_field(1, int_field(1, 1))
    for _ in range(200):
        kind = bytes_field(4, bytes_field(1, kind))
    with pytest.raises(FileFormatError, match="nested"):
        load(b.model(b.graph([], [bytes_field(1, "x") + bytes_field(2, kind)], [])))


def test_functions_that_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function calls the next one many times."""
    monkeypatch.setattr(program, "_EXPANDED_LIMIT", 1 << 12)
    functions = b""
    for level in range(12):
        calls = b"".join(
            bytes_field(7, b.node(f"F{level + 1}" if level < 11 else "Relu", ["x"], ["y" if k == 0 else f"t{k}"],
                domain="own" if level < 11 else ""))
            for k in range(12)
        )  # fmt: skip
        functions += bytes_field(
            25, bytes_field(1, f"F{level}") + bytes_field(4, "x") + bytes_field(5, "y") + calls + bytes_field(10, "own")
        )
    data = small([b.node("F0", ["x"], ["y"], domain="own")]) + functions
    with pytest.raises(ModelError, match="more than .* nodes|no such operator|made twice"):
        load(data)


@pytest.mark.native_only
def test_external_data(tmp_path: Path) -> None:
    """Read from the folder of the model, never from outside."""
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    (tmp_path / "models").mkdir()
    (tmp_path / "secret.bin").write_bytes(array.tobytes())
    (tmp_path / "models" / "w.bin").write_bytes(b"head" + array.tobytes())
    os.symlink(tmp_path / "secret.bin", tmp_path / "models" / "link.bin")

    def written(**external: object) -> Path:
        body = b.graph(
            [b.node("MatMul", ["x", "w"], ["y"])], [b.value("x")], [b.value("y")], [b.tensor("w", array, **external)]
        )
        path = tmp_path / "models" / "m.onnx"
        path.write_bytes(b.model(body))
        return path

    module = load(written(location="w.bin", offset=4, length=24))
    np.testing.assert_array_equal(module(tensor([[1.0, 0.0, 0.0]])).numpy(), array[:1])
    data = written(location="w.bin", offset=4).read_bytes()
    found = load(data, external={"w.bin": b"head" + array.tobytes()})
    np.testing.assert_array_equal(found(tensor([[1.0, 0.0, 0.0]])).numpy(), array[:1])
    for external, message in (
        ({"location": "../secret.bin"}, "outside its folder"),
        ({"location": str(tmp_path / "secret.bin")}, "outside its folder"),
        ({"location": "link.bin"}, "outside its folder"),
        ({"location": "none.bin"}, "missing"),
        ({"location": "."}, "m.onnx: its external data '.' is a folder"),
        ({"location": "w.bin", "offset": 8}, "lies at bytes 8 to 32"),
        ({"location": "w.bin", "offset": -4}, "lies at"),
        ({"location": "w.bin", "offset": 4, "length": 1 << 40}, "needs 24 bytes"),
        ({"location": "w.bin", "offset": "x"}, "place of tensor"),
    ):
        with pytest.raises(FileFormatError, match=message):
            load(written(**external))
    with pytest.raises(FileFormatError, match="was not given"):
        load(data)


def test_files_of_weights_are_named(tmp_path: Path) -> None:
    save({"w": tensor([1.0])}, tmp_path / "w.pt")
    write_safetensors(tmp_path / "w.safetensors", {"w": tensor([1.0])})
    for name, kind in (("w.pt", "pytorch"), ("w.safetensors", "safetensors")):
        with pytest.raises(
            FileFormatError, match=rf"not an ONNX model, but a file of weights \({kind}\).*export the model"
        ):
            load(tmp_path / name)
    with pytest.raises(FileFormatError, match="this is not an ONNX model. The file is damaged"):
        load(b"RIFF0000WAVE")


def test_inputs_are_checked() -> None:
    module = load(b.model(LINEAR))
    for call, message in (
        (lambda: module(), "'x' is missing"),
        (lambda: module(tensor([[1.0, 2.0]])), r"shape \(1, 2\), expected \(n = 1, 3\)"),
        (lambda: module(tensor([[1, 2, 3]])), "is float32, not int64"),
        (lambda: module(tensor([[1.0, 2.0, 3.0]]), q=1), "no input 'q'"),
        (lambda: module(tensor([[1.0, 2.0, 3.0]]), x=1), "twice"),
        (lambda: module(1, 2, 3), "not 3"),
    ):
        with pytest.raises(OptionError, match=message):
            call()


def test_damage_anywhere_gives_clear_errors() -> None:
    """Every truncation, and flipped bits."""
    data = b.model(LINEAR)
    for length in range(len(data)):
        survives(load, data[:length])
    chance, accepted = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        accepted += survives(load, bytes(damaged))
    assert 0 < accepted < 400
