"""Language models in GGUF files: written as llama.cpp names and orders them, read again in every type."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.errors import ModelError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.formats.gguf import GgufFile
from pyapp.models._index import MODEL_TYPES
from pyapp.models.load import as_gguf, build, gguf_view, settings_of
from tests.models.decoder_configs import CONFIGS, IN_GGUF
from tests.models.test_decoders import TEXT, golden, make, numbers


def logits(model: Any) -> np.ndarray:
    with pyapp.no_grad():
        return numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]


def load(path: Path, dtype: str | None = "float32") -> Any:
    with open_checkpoint(path) as checkpoint:
        return build(checkpoint, lambda event: None, Cancel(), None, dtype)


def saved(name: str, folder: Path) -> tuple[Any, Path]:
    """The model of a configuration, and its file of safetensors with config.json beside it."""
    model = make(name, golden(name)["salt"])
    path = folder / "model.safetensors"
    write_safetensors(path, {key: value for key, value in model.state_dict().items()})
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    return model, path


@pytest.fixture(scope="module", params=IN_GGUF)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = tmp_path_factory.mktemp("gguf")
    return request.param, *saved(request.param, folder)


def test_written_and_read_again(case: Any, tmp_path: Path) -> None:
    name, model, path = case
    target = tmp_path / "model.gguf"
    quantize_file(path, target, "f32", view=gguf_view(path))
    found = load(target)
    mine = {key: value.numpy() for key, value in model.state_dict().items()}
    for key, value in found.state_dict().items():
        np.testing.assert_allclose(value.numpy(), mine[key], atol=1e-6, err_msg=key)
    np.testing.assert_allclose(logits(found), logits(model), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["f16", "q8_0", "Q4_K_M"])
def test_as_the_same_model_dequantised(case: Any, kind: str, tmp_path: Path) -> None:
    """The file computes what the model computes whose weights went through the same types."""
    name, model, path = case
    target = tmp_path / "model.gguf"
    quantize_file(path, target, kind, view=gguf_view(path))
    quantised, dense = load(target, None), load(target, "float32")
    with pyapp.no_grad():
        for parameter in dense.parameters():
            assert parameter.dtype.name == "float32"
    kinds = {info.dtype for info in open_checkpoint(target).tensors.values()}
    assert kinds != {"float32"}, name
    np.testing.assert_allclose(logits(quantised), logits(dense), rtol=1e-3, atol=1e-3)
