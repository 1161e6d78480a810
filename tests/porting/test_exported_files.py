"""Exported programs in files: they compute the same, and no file runs code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

import pyapp
from pyapp import nn
from pyapp.errors import FileFormatError
from pyapp.export import Dim, UserError, export, load, save
from pyapp.utils import _pytree
from tests.hostile import damaged_texts, hostile_documents, survives

_MODEL = "models/model.json"


class _Net(nn.Module):
    """Layers with options, tied weights, constants, a buffer that is assigned, functions, methods, several outputs."""

    calls: Any

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.conv = nn.Conv1d(8, 8, 3, padding="same", padding_mode="reflect", bias=False)
        self.lstm = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.GELU("tanh"), nn.Dropout(0.2))
        self.out = nn.Linear(8, 20)
        self.out.weight = self.embed.weight
        self.scale = pyapp.full((1,), 2.0)
        self.register_buffer("calls", pyapp.zeros(1), persistent=False)

    def forward(self, ids: Any, k: float = 2.0, *, pair: Any = None) -> Any:
        x = self.conv(self.embed(ids).transpose(1, 2)).mT
        x, (last, _) = self.lstm(x)
        before = self.calls
        self.calls = self.calls + 1
        y = self.out(self.head(self.encoder(x))) * self.scale * pyapp.ones(1) + self.calls
        values, places = pyapp.topk(y, 3)
        size = pyapp.linalg.norm(nn.functional.softmax(y[..., :5], dim=-1), dim=-1) * k + pair["a"].sum()
        return {"y": y.to(pyapp.float64), "top": [values, places], "last": last[-1:, ::2], "size": size, "n": before}


@pytest.fixture(scope="module")
def program() -> Any:
    pyapp.manual_seed(0)
    pair = {"a": pyapp.ones(2)}
    sizes = {"ids": {0: Dim("batch", max=8)}, "pair": {"a": None}}
    return export(_Net().eval(), (pyapp.randint(1, 20, (2, 6)),), {"pair": pair}, dynamic_shapes=sizes)


@pytest.fixture(scope="module")
def file(program: Any) -> bytes:
    data = io.BytesIO()
    save(program, data, extra_files={"note.txt": "hello"})
    return data.getvalue()


def _equal(a: Any, b: Any) -> bool:
    pairs = zip(_pytree.tree_leaves(a), _pytree.tree_leaves(b), strict=True)
    return all(pyapp.equal(x, y) for x, y in pairs)


def test_a_file_gives_the_same_program(program: Any, file: bytes) -> None:
    extra = {"note.txt": ""}
    again = load(io.BytesIO(file), extra_files=extra)
    assert extra["note.txt"] == "hello" and str(again.graph) == str(program.graph)
    assert again.graph_signature == program.graph_signature and list(again.state_dict) == list(program.state_dict)
    theirs, ours = program.module(), again.module()
    for ids in (pyapp.randint(1, 20, (2, 6)), pyapp.randint(1, 20, (5, 6))):
        expected, found = (run(ids, pair={"a": pyapp.ones(2)}) for run in (theirs, ours))
        assert _equal(expected, found)
    assert found["n"].item() == 1  # what the buffer was before the second call
    found["y"].sum().backward()
    tied = ours.get_submodule("out").weight
    assert tied is ours.get_submodule("embed").weight and tied.grad.abs().sum() > 0
    with pytest.raises(AssertionError, match="batch"):
        ours(pyapp.ones(9, 6, dtype=pyapp.int64), pair={"a": pyapp.ones(2)})


LAYERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.GRU(3, 4, 2, batch_first=True), (5, 2, 3)), (nn.RNN(3, 4, nonlinearity="relu"), (5, 2, 3)),
    (nn.LSTM(3, 4, proj_size=2), (5, 2, 3)), (nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 4, 4)),
    (nn.Conv2d(2, 4, 3, padding=1, groups=2, bias=False), (1, 2, 4, 4)), (nn.Upsample(scale_factor=2), (1, 2, 4, 4)),
    (nn.GroupNorm(2, 4), (1, 4, 3)), (nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (1, 2, 3, 3)),
    (nn.LayerNorm((2, 3), elementwise_affine=False), (2, 3)), (nn.BatchNorm1d(3, momentum=None), (2, 3)),
    (nn.PReLU(3), (1, 3)), (nn.Unflatten(1, (2, 2)), (1, 4)), (nn.AdaptiveAvgPool2d((None, 2)), (1, 2, 4, 4)),
    (nn.MaxPool2d(2, return_indices=True), (1, 2, 4, 4)), (nn.Fold((4, 4), 2), (1, 4, 9)), (nn.RMSNorm(3), (2, 3)),
    (nn.Hardtanh(-2, 2), (2,)), (nn.Threshold(0.1, 2.0), (2,)), (nn.ZeroPad2d(1), (1, 1, 2, 2)),
]  # fmt: skip


def test_layers_are_made_again_by_their_arguments() -> None:
    for layer, shape in LAYERS:
        data, x = io.BytesIO(), pyapp.rand(*shape)
        saved = export(nn.Sequential(layer).eval(), (x,))
        save(saved, data)
        assert _equal(saved.module()(x), load(data.getvalue()).module()(x)), layer


def test_what_a_file_cannot_have_is_named() -> None:
    class Own(nn.Linear):
        pass

    def helper(x: Any) -> Any:
        return x * 2

    class Tracing(nn.Module):
        def forward(self, x: Any) -> Any:
            return helper(x)

    own = export(nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))), (pyapp.ones(1, 2),))
    with pytest.raises(TypeError, match="remove parametrizations"):
        save(own, io.BytesIO())
    with pytest.raises(TypeError, match="takes an ExportedProgram, not Own"):
        save(Own(2, 2), io.BytesIO())
    save(export(Tracing(), (pyapp.ones(1),)), io.BytesIO())  # whose function was traced


def _with(file: bytes, model: Any) -> bytes:
    """The file with another program."""
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(data, "w") as new:
        for name in old.namelist():
            new.writestr(name, model if name == _MODEL else old.read(name))
    return data.getvalue()


def _model(file: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return json.loads(archive.read(_MODEL))


def _node(model: Any, op: str) -> Any:
    return next(node for node in model["nodes"] if node["op"] == op)


def _method(model: Any, name: str) -> None:
    _node(model, "call_method")["target"] = name


def _attribute(model: Any, name: str) -> None:
    node = _node(model, "call_function")
    node.update(target="getattr", args={"tuple": [node["args"]["tuple"][0], name]})


ATTACKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another function": (lambda m: _node(m, "call_function").update(target="os.system"), "no function of a program"),
    "a function for files": (lambda m: _node(m, "call_function").update(target="pyapp.load"), "no function"),
    "of files, too": (lambda m: _node(m, "call_function").update(target="pyapp.from_file"), "no function"),
    "a built-in function": (lambda m: _node(m, "call_function").update(target="eval"), "no function"),
    "operators that call": (lambda m: _node(m, "call_function").update(target="operator.methodcaller"), "no function"),
    "a hidden attribute": (lambda m: _attribute(m, "__class__"), "not public"),
    "an expression": (lambda m: _attribute(m, "T + 1"), "not public"),
    "a method that calls": (lambda m: _method(m, "apply_"), "no method of tensors"),
    "a hidden method": (lambda m: _method(m, "__reduce__"), "no method of tensors"),
    "code as a name": (lambda m: _node(m, "call_function").update(name="x=1;import os"), "no name"),
    "a name that hides": (lambda m: _node(m, "call_function").update(name="pyapp"), "no name, or taken"),
    "code as an argument": (lambda m: _node(m, "call_function").update(kwargs={"dict": [["a=1)#", 1]]}), "no name"),
    "code as a class": (lambda m: m.update(name="A\nimport os"), "which is none"),
    "another layer": (lambda m: m["layers"]["out"].update({"class": "os"}), "none of pyapp.nn"),
    "a large layer": (
        lambda m: m["layers"]["embed"]["kwargs"].update(num_embeddings=2**40),
        "has the shape|cannot allocate",
    ),  # the latter in a browser
    "a method as a tensor": (lambda m: m["tensors"][0].__setitem__(0, "embed.forward"), "taken"),
    "a hidden tensor": (lambda m: m["tensors"][0].__setitem__(0, "embed.__class__"), "which is none"),
    "a tensor less": (lambda m: m["tensors"].pop(), "no tensor for|does not have"),
    "a tensor that is not there": (lambda m: m["tensors"][0].__setitem__(1, 99), "there are"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_file_runs_code(file: bytes, name: str) -> None:
    model = _model(file)
    ATTACKS[name][0](model)
    with pytest.raises(FileFormatError, match=ATTACKS[name][1]):
        load(_with(file, json.dumps(model)))


def test_damaged_files_are_refused(file: bytes) -> None:
    with pytest.raises(FileFormatError, match="export.save writes"):
        load(b"hello")
    with pytest.raises(FileFormatError, match="not an exported program of pyapp"):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("archive_format", "pt2")
        load(data.getvalue())
    model = _model(file)
    texts = [*damaged_texts(json.dumps(model).encode(), 30), *(json.dumps(d) for d in hostile_documents(model, 60))]
    survived = sum(survives(load, _with(file, text)) for text in texts)
    assert survived < len(texts) / 2


def test_buffers_that_a_forward_assigns() -> None:
    class Assigning(nn.Module):
        """Reads before and after, swaps, and starts anew."""

        count: Any
        left: Any
        right: Any

        def __init__(self) -> None:
            super().__init__()
            for name in ("count", "left", "right", "state"):
                self.register_buffer(name, pyapp.full((2,), float(len(name))))

        def forward(self, x: Any) -> Any:
            before = self.count
            self.count = self.count + 1
            y = x * self.count
            self.count = self.count * 2
            self.left, self.right = self.right, self.left + x
            self.state = pyapp.zeros(2)
            self.state = self.state + x
            return y, before, self.left

    eager, exported = Assigning(), Assigning()
    program = export(exported, (pyapp.ones(2),)).module()
    for k in range(3):
        x = pyapp.full((2,), float(k))
        assert _equal(eager(x), program(x)) and _equal(dict(eager.named_buffers()), dict(exported.named_buffers()))

    class Growing(nn.Module):
        seen: Any

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", pyapp.ones(2))

        def forward(self, x: Any) -> Any:
            self.seen = pyapp.cat([self.seen, x])
            return x

    with pytest.raises(UserError, match=r"assigns float32\[3\] on cpu to the buffer 'seen'"):
        export(Growing(), (pyapp.ones(1),))


def test_a_program_may_be_one_layer() -> None:
    x = pyapp.arange(32.0).reshape(2, 1, 4, 4) / 9
    cases = [
        (nn.Conv2d(1, 2, 3), x), (nn.LSTM(4, 3), x[:, 0]), (nn.BatchNorm2d(1).eval(), x), (nn.MaxPool2d(2), x),
        (nn.Upsample(scale_factor=2), x),
    ]  # fmt: skip
    for layer, example in cases:
        program, file = export(layer, (example,)), io.BytesIO()
        save(program, file)
        file.seek(0)
        again, wanted = load(file), layer(example)
        for found in (program.module()(example), again.module()(example)):
            pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
            assert all(pyapp.equal(a, b) for a, b in pairs if isinstance(a, pyapp.Tensor)), layer
        assert list(again.state_dict) == list(program.state_dict) == list(layer.state_dict())
