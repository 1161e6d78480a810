"""Decoders in their own folders of the hub, and in GGUF files, against llama.cpp and its converter
(make_golden_hub_decoders.py): logits, tokens through the cache, and the tensors and keys of files.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import ModelError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.models.load import build, module_of, read_model, settings_of, task_of
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.text.generation.generate import Session
from tests.models.hub_decoder_configs import CONFIGS, KEPT_LAYERS, ROUNDED, SENSITIVE, expanded, layer_of
from tests.models.seeded import direction, draw
from tests.models.small_models import module_for
from tests.models.test_decoders import TEXT, numbers
from tests.together import check_each, fewer_in_browser

FOLDER = Path(__file__).with_name("golden_hub_decoders")


def module_named(settings: dict[str, Any]) -> Any:
    """The module of a configuration."""
    return module_for(settings)


def load(path: Path, settings: dict[str, Any] | None = None, dtype: str | None = None) -> Any:
    with open_checkpoint(path) as checkpoint:
        found = settings_of(checkpoint, settings)
        return build(checkpoint, lambda event: None, Cancel(), settings, dtype, task=task_of(found))


def folder_of(name: str, salt: int, folder: Path) -> Path:
    """The weights of a folder as the hub has it."""
    tensors = {key: pyapp.from_numpy(draw(key, shape, salt)) for key, shape in expanded(name).items()}
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(CONFIGS[name]))
    return folder / "model.safetensors"


@pytest.mark.parametrize("name", fewer_in_browser(CONFIGS))
def test_as_llama_cpp(name: str, tmp_path: Path) -> None:
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    path = folder_of(name, expected["salt"], tmp_path)
    model = load(path, CONFIGS[name])

    close = ROUNDED.get(name, 1e-4)

    def check(model: Any) -> None:
        with pyapp.no_grad():
            logits = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]
        np.testing.assert_allclose(logits[[0, -1]].reshape(-1), expected["logits"], rtol=1e-4, atol=close)

    check(model)
    if expected["tokens"]:  # else it has no cache
        session = Session(model, capacity=len(TEXT) + len(expected["tokens"]))
        logits, found = session.feed(TEXT), []
        for _ in expected["tokens"]:
            found.append(int(numbers(logits).argmax()))
            logits = session.step(found[-1])
        assert found == expected["tokens"]

    # What is written has the tensors of llama.cpp's converter, and gives the same with its keys.
    quantize_file(path, tmp_path / "model.gguf", "f32", view=gguf_view(path))
    with open_checkpoint(tmp_path / "model.gguf") as checkpoint:
        tensors: dict[str, Any] = {key: checkpoint.read(key) for key in checkpoint.tensors}
        values = checkpoint.values  # type: ignore[attr-defined]
    assert values["general.architecture"] == expected["keys"]["general.architecture"]
    assert {key for key in tensors if layer_of(key) < KEPT_LAYERS} == {*expected["tensors"]}
    for key, (shape, product) in expected["tensors"].items():
        value = np.asarray(tensors[key].numpy(), np.float64)
        assert value.size == np.prod(shape) and value.shape in (tuple(shape), tuple(shape[1:])), key
        found_product = (value.reshape(shape) * direction(key, tuple(shape))).sum()
        np.testing.assert_allclose(found_product, product, rtol=1e-4, atol=1e-4, err_msg=key)
    write_gguf(tmp_path / "theirs.gguf", tensors, expected["keys"])
    check(load(tmp_path / "theirs.gguf"))
    check(load(tmp_path / "model.gguf"))

    # Weights in blocks, which the kernels read.
    quantize_file(tmp_path / "theirs.gguf", tmp_path / "small.gguf", "q8_0")
    with open_checkpoint(tmp_path / "small.gguf") as checkpoint:
        settings = settings_of(checkpoint)
        task = task_of(settings)
        module = importlib.import_module(f"pyapp.models.{module_of(settings, name, task)}")
        small = read_model(module, module.TASKS[task], checkpoint, settings)
    assert "q8_0" in {parameter.dtype.name for parameter in small.parameters()}
    with pyapp.no_grad():
        error = np.abs(numbers(small(pyapp.tensor([TEXT], dtype="int32")))[0, -1] - expected["logits"][-96:])
    assert error.mean() < SENSITIVE.get(name, 0.2) * np.abs(expected["logits"]).mean()


def test_unit_rows_of_baichuan_2() -> None:
    """Its head computes with rows of length 1, which its files do not have."""
    module = importlib.import_module("pyapp.models.baichuan")
    config = module.Config.from_dict(CONFIGS["baichuan-7b"] | {"norm_head": True})
    plan = module.stored(config, {})["lm_head.weight"]
    rows = numbers(plan.values(pyapp.tensor([[3.0, 4.0], [0.0, 2.0]])))
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 1.0]], rtol=1e-6)


def test_saved_configurations_are_read_again() -> None:
    def check(name: str) -> None:
        module = module_named(CONFIGS[name])
        config = module.Config.from_dict(CONFIGS[name])
        saved = json.loads(json.dumps(config.saved() if hasattr(config, "saved") else config.to_dict()))
        assert module.Config.from_dict(saved).to_dict() == config.to_dict()

    check_each(check, [(name,) for name in CONFIGS])


def test_hostile_configurations() -> None:
    def check(name: str, changed: dict[str, Any], told: str) -> None:
        settings = CONFIGS[name] | changed
        with pytest.raises(ModelError, match=told):
            module_named(settings).Config.from_dict(settings)

    blocks = CONFIGS["nemotron-nas"]["block_configs"]
    odd = {"attention": {"n_heads_in_group": 3}, "ffn": {}}
    wide = {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": float("inf")}}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("nemotron-nas", {"block_configs": blocks[:3]}, "list of 4"),
        ("nemotron-nas", {"block_configs": [5] * 4}, "expected attention and ffn"),
        ("nemotron-nas", {"block_configs": [odd] * 4}, "n_heads_in_group is 3"),
        ("nemotron-nas", {"block_configs": [wide] * 4}, "ffn_mult is inf"),
        ("nemotron-nas", {"kv_heads": [0] * 4, "linear": [False] * 4, "widths": [1] * 4}, "num_key_value_heads"),
        ("openelm", {"num_kv_heads": [3, 3]}, "kv_heads"),
        ("openelm", {"num_query_heads": 4}, "query_heads is 4"),
        ("openelm", {"ffn_multipliers": ["x", 1.0]}, "ffn_multipliers"),
        ("openelm", {"ffn_with_glu": False}, "ffn_with_glu"),
        ("smallthinker", {"rope_layout": [2, 1]}, "rope_layout"),
        ("smallthinker", {"moe_num_primary_experts": 1 << 31}, "moe_num_primary_experts"),
        ("smallthinker", {"num_hidden_layers": "2"}, "num_hidden_layers is '2', expected a whole number"),
        ("smallthinker", {"moe_layer_layout": [0, 1]}, "without experts"),
        ("bailing_moe_v2", {"n_group": 5}, "do not fit"),
        ("bailing_moe_v2", {"score_function": "odd"}, "score_function"),
        ("minicpm", {"scale_depth": -1}, "scale_depth is -1"),
        ("qwen", {"no_bias": False}, "no_bias"),
        ("qwen", {"intermediate_size": 97}, "even"),
        ("exaone_moe", {"sliding_window_pattern": "odd"}, "sliding_window_pattern"),
        ("exaone_moe", {"mlp_layer_types": ["sparse"]}, "mlp_layer_types"),
        ("codeshell", {"num_query_groups": 3}, "divide"),
        ("codeshell", {"rope_scaling": {"type": "linear"}}, "scaled"),
        ("deepseek", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("arctic", {"use_residual": False}, "use_residual"),
        ("gpt_refact", {"multi_query": False}, "multi_query"),
        ("jais", {"activation_function": "gelu"}, "activation_function"),
        ("jais", {"mup_width_scale": "x"}, "mup_width_scale"),
        ("jais", {"mup_output_alpha": 10**400}, "mup_output_alpha is 1000"),
        ("llada", {"alibi": True}, "alibi is True"),
        ("llada", {"mask_token_id": 96}, "mask_token_id is 96, of 96 tokens"),
        ("llada_moe", {"moe_layer_freq": [0, 1]}, "moe_layer_freq"),
        ("llada_moe", {"num_experts_per_tok": 5}, "num_experts_per_tok is 5"),
        ("llada_moe", {"shared_expert_intermediate_size": 8}, "shared_expert"),
        ("dream", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}, "see all of themselves"),
        ("rnd1", {"mask_token_id": -1}, "mask_token_id is -1"),
        ("plamo2", {"mamba_step": 0}, "mamba_step is 0"),
        ("plamo2", {"mamba_d_state": 1 << 40}, "mamba_d_state"),
        ("plamo2", {"mamba_d_conv": 1}, "mamba_d_conv"),
        ("plamo2", {"mamba_num_heads": 0}, "mamba_num_heads"),
        ("plamo2", {"rope_scaling_factor": 4}, "rope_scaling_factor"),
        ("plamo3", {"sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        ("plamo3", {"window_size": -1}, "sliding_window"),
        ("glm_moe_dsa", {"indexer_types": ["shared"] * 3}, "indexer_types"),
    ]
    check_each(check, cases)
