"""Sources and renames that nn.Weights accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyapp
from pyapp import nn
from pyapp.formats import open_checkpoint, write_safetensors


def test_a_path_is_told_how_to_be_opened(tmp_path: Path) -> None:
    for source in ("m.safetensors", tmp_path / "m.safetensors"):
        with pytest.raises(TypeError, match=r"not the path '.*m.safetensors'; open a file with pyapp.formats"):
            nn.Weights(source)
    with pytest.raises(TypeError, match="not int"):
        nn.Weights(7)
    write_safetensors(tmp_path / "m.safetensors", {"a.weight": pyapp.ones(2)})
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        assert nn.Weights(file).get("a.weight").tolist() == [1, 1]
    assert nn.Weights(pyapp.load(tmp_path / "m.safetensors")).names() == ["a.weight"]


def test_a_function_of_names() -> None:
    weights = nn.Weights({"model.a.gamma": pyapp.ones(2)}, renames=lambda name: name.removeprefix("model."))
    assert weights.names() == ["a.gamma"]
    with pytest.raises(TypeError, match=r"renames\('a'\) returned None, expected the name as a text"):
        nn.Weights({"a": pyapp.ones(1)}, renames=lambda name: None)  # type: ignore[arg-type, return-value]
