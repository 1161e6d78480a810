"""Adapters in peft's files: logits with adapters that peft wrote, and files that peft reads (golden.json is peft's)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.adapters import LoraConfig, add_adapter, load_adapter, merge_and_unload, save_adapter
from pyapp.adapters.adapting import adapters_of
from pyapp.errors import FileFormatError, ModelError, ModelNotFoundError, PyappError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.models.loading.writing_folder import write_model
from pyapp.nn import Module
from tests.adapters.cases import CASES, TEXT
from tests.models.seeded import draw
from tests.models.test_decoders import make

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden.json").read_text())


def write_peft(folder: Path, name: str, **changed: Any) -> None:
    """The files of a case as peft wrote them."""
    expected = GOLDEN[name]
    tensors = {}
    for key, shape in expected["shapes"].items():
        plain = key.replace("base_model.model.", "").replace("base_layer.", "") if "base_layer.weight" in key else key
        tensors[key] = pyapp.from_numpy(draw(plain, tuple(shape)))
    write_safetensors(folder / "adapter_model.safetensors", tensors, {"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(expected["config"] | changed))


def logits(model: Module) -> np.ndarray:
    with pyapp.no_grad():
        return np.asarray(model(pyapp.tensor([TEXT])).numpy()[0, ::5, ::8])


@pytest.mark.parametrize("name", CASES)
def test_peft_adapters(name: str, tmp_path: Path) -> None:
    expected = GOLDEN[name]
    write_peft(tmp_path, name)
    model = make(CASES[name][0], 0)
    model.requires_grad_(False)
    plain = logits(model)
    load_adapter(model, tmp_path)
    found = logits(model)
    assert np.abs(found - plain).max() > 0.01  # the adapter has an effect
    np.testing.assert_allclose(found.reshape(-1), expected["logits"], rtol=1e-4, atol=1e-4)

    save_adapter(model, tmp_path / "again")
    with open_checkpoint(tmp_path / "again" / "adapter_model.safetensors") as again:
        written = {key: list(info.shape) for key, info in again.tensors.items()}
    assert written == {key: shape for key, shape in expected["shapes"].items() if "base_layer.weight" not in key}
    config = json.loads((tmp_path / "again" / "adapter_config.json").read_text())
    for key, value in expected["config"].items():
        if key in config and key != "base_model_name_or_path":
            same = sorted(value) if isinstance(value, list) else value
            assert (sorted(config[key]) if isinstance(config[key], list) else config[key]) == same, key


@pytest.mark.parametrize("name", CASES)
def test_the_same_layers_are_chosen(name: str, tmp_path: Path) -> None:
    base, settings = CASES[name]
    model = make(base, 0)
    before = logits(model.requires_grad_(False))
    add_adapter(model, LoraConfig(**{key: value for key, value in settings.items() if key != "fan_in_fan_out"}))
    if not settings.get("use_dora"):
        # B is zero; but without adapters, projections are one product, which may sum in another order.
        np.testing.assert_allclose(logits(model), before, rtol=1e-5, atol=1e-5)
    save_adapter(model, tmp_path)
    with open_checkpoint(tmp_path / "adapter_model.safetensors") as written:
        found = {key: list(info.shape) for key, info in written.tensors.items()}
    assert found == {key: shape for key, shape in GOLDEN[name]["shapes"].items() if "base_layer.weight" not in key}


def test_a_tied_head_with_a_weight_of_its_own_is_written_as_one(tmp_path: Path) -> None:
    """transformers ties the head again, unless config.json says that it is not."""
    write_peft(tmp_path, "llama-tied-head")
    model = make(CASES["llama-tied-head"][0], 0)
    kept = SimpleNamespace(model=model, tokenizer=SimpleNamespace(save=lambda path: None, settings={}))
    write_model(kept, tmp_path / "tied")  # type: ignore[arg-type]
    load_adapter(model, tmp_path)
    expected = logits(model)
    merge_and_unload(model)
    assert np.abs(logits(model) - expected).max() < 1e-5
    write_model(kept, tmp_path / "own")  # type: ignore[arg-type]
    written = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("tied", "own")]
    assert [settings["tie_word_embeddings"] for settings in written] == [True, False]
    with open_checkpoint(tmp_path / "own" / "model.safetensors") as checkpoint:
        assert {"lm_head.weight", "model.embed_tokens.weight"} <= checkpoint.tensors.keys()


def test_bad_adapters(tmp_path: Path) -> None:
    model = make("llama", 0)
    before = sorted(model.state_dict())

    def refused(kind: type[PyappError], text: str, **changed: Any) -> None:
        write_peft(tmp_path, "llama", **changed)
        with pytest.raises(kind, match=text):
            load_adapter(model, tmp_path)
        assert sorted(model.state_dict()) == before
        assert not adapters_of(model).configs

    with pytest.raises(ModelNotFoundError, match="no adapter_config.json"):
        load_adapter(model, tmp_path)
    refused(ModelError, "of the type 'IA3'", peft_type="IA3")
    refused(ModelError, "rank 4, the settings say 8", r=8)
    refused(ModelError, "unknown settings: use_qalora", use_qalora=True)
    refused(ModelError, "whose weights 'pissa' changed", init_lora_weights="pissa")
    refused(ModelError, "too complex", rank_pattern={"(a+)+b": 3})
    refused(ModelError, "too complex", rank_pattern={".?" * 60 + "!": 3})
    refused(ModelError, "not valid", r="four")
    refused(ModelError, "numbers by patterns of names, not 3", rank_pattern=3)
    refused(ModelError, "a list of them, not \\[1.5\\]", layers_to_transform=[1.5])
    refused(ModelError, "missing .*lora_magnitude_vector", use_dora=True)
    write_peft(tmp_path, "gpt2")
    with pytest.raises(ModelError, match="the model has no such layer"):
        load_adapter(model, tmp_path)
    write_peft(tmp_path, "llama")
    tensors = {key: pyapp.zeros(2, 2) for key in GOLDEN["llama"]["shapes"]}
    write_safetensors(tmp_path / "adapter_model.safetensors", tensors)
    with pytest.raises(ModelError, match="rank 2"):
        load_adapter(model, tmp_path)
    tensors = {key: pyapp.zeros(4, 4) for key in GOLDEN["llama"]["shapes"]}
    write_safetensors(tmp_path / "adapter_model.safetensors", tensors)
    with pytest.raises(ModelError, match=r"is \(4, 4\), the model needs"):
        load_adapter(model, tmp_path)
    assert sorted(model.state_dict()) == before
    (tmp_path / "adapter_config.json").write_text("[]")
    with pytest.raises(FileFormatError, match="not a configuration"):
        load_adapter(model, tmp_path)
