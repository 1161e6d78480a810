"""Sources and renames that nn.Weights accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ModelError
from pyapp.formats import open_checkpoint, write_safetensors


def test_sources(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not int"):
        nn.Weights(7)
    write_safetensors(tmp_path / "m.safetensors", {"a.weight": pyapp.ones(2)})
    pyapp.save({"b.weight": pyapp.zeros(3), "b.steps": pyapp.tensor(4)}, tmp_path / "n.pt")
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        assert nn.Weights(file).get("a.weight").tolist() == [1, 1]
    assert nn.Weights(pyapp.load(tmp_path / "m.safetensors")).names() == ["a.weight"]
    both = nn.Weights([tmp_path / "m.safetensors", str(tmp_path / "n.pt"), {"c": pyapp.ones(1)}], dtype="float64")
    assert both.names() == ["a.weight", "b.weight", "b.steps", "c"]
    assert (both / "b").get("weight", (3,)).dtype is pyapp.float64 and both.left_over() == ["a.weight", "b.steps", "c"]
    assert both.get("b.steps", dtype="int64").item() == 4 and both.to("float16").get("c").dtype is pyapp.float16
    with pytest.raises(ModelError, match=r"'a.weight' of .*m.safetensors and 'a.weight' are both 'a.weight'$"):
        nn.Weights([tmp_path / "m.safetensors", {"a.weight": pyapp.ones(1)}])
    with pytest.raises(FileNotFoundError):
        nn.Weights(tmp_path / "none.safetensors")


def test_parameters_are_read_or_created(tmp_path: Path) -> None:
    def model(weights: nn.Weights, x: pyapp.Tensor) -> pyapp.Tensor:
        for k in range(2):
            layer = weights / "layers" / k
            weight = layer.get("weight", (3, 3), init=nn.init.xavier_uniform_)
            x = (x @ weight.T + layer.get("bias", (3,), init=0.5)).tanh()
        return x

    weights = nn.Weights()
    x = pyapp.ones(1, 3)
    first = model(weights, x)
    assert model(weights, x).equal(first) and len(weights.parameters()) == 4  # the same parameters each time
    assert weights.created() == list(weights.state_dict()) == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"
    ]  # fmt: skip
    assert [p.shape for p in (weights / "layers" / 1).parameters()] == [(3, 3), (3,)]
    assert list((weights / "layers" / 1).state_dict()) == ["weight", "bias"]
    optimizer = pyapp.optim.SGD(weights.parameters(), lr=0.1)
    model(weights, x).sum().backward()
    optimizer.step()
    trained = model(weights, x)
    assert not trained.equal(first)
    write_safetensors(tmp_path / "w.safetensors", weights.state_dict() | {"old": pyapp.ones(1)})
    again = nn.Weights(tmp_path / "w.safetensors")
    assert model(again, x).equal(trained) and again.created() == [] and again.left_over() == ["old"]
    assert all(p.requires_grad and isinstance(p, nn.Parameter) for p in again.parameters())
    with pytest.raises(ModelError, match=r"'layers.0.bias' has the shape \(3,\), expected \(4,\)"):
        again.get("layers.0.bias", (4,), init=0.0)
    with pytest.raises(ModelError, match="without a shape it cannot be created"):
        again.get("new", init=1.0)


def test_a_function_of_names() -> None:
    weights = nn.Weights({"model.a.gamma": pyapp.ones(2)}, renames=lambda name: name.removeprefix("model."))
    assert weights.names() == ["a.gamma"]
    with pytest.raises(TypeError, match=r"renames\('a'\) returned None, expected the name as a text"):
        nn.Weights({"a": pyapp.ones(1)}, renames=lambda name: None)  # type: ignore[arg-type, return-value]
