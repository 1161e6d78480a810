"""Language models in GGUF files: written as llama.cpp names and orders them, read again in every type."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine.blocks.layout import FILE_TYPES
from pyapp.errors import ModelError
from pyapp.events import Cancel
from pyapp.formats import GgmlBlocks, open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file
from pyapp.formats.mixtures import role_of
from pyapp.models._index import MODEL_TYPES
from pyapp.models.load import build, files_to_convert, load_model, module_of, read_model, settings_of
from pyapp.models.loading.writing_gguf import gguf_view
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.models.decoder_configs import CONFIGS, IN_GGUF, SENSITIVE
from tests.models.test_decoders import TEXT, golden, make, numbers
from tests.random_blocks import random_blocks
from tests.text.parrot import make_vocabulary
from tests.together import check_each, fewer_in_browser

LLAMA3 = CONFIGS["llama3"]["rope_scaling"]
NAMES = Path(__file__).with_name("golden_gguf_names.json")


def logits(model: Any) -> np.ndarray:
    with pyapp.no_grad():
        return numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]


def load(path: Path, dtype: str | None = "float32") -> Any:
    with open_checkpoint(path) as checkpoint:
        return build(checkpoint, lambda event: None, Cancel(), None, dtype)


def saved(name: str, folder: Path, **more: Any) -> tuple[Any, Path]:
    """The model of a configuration, and its file of safetensors with config.json beside it."""
    changed = IN_GGUF.get(name, {}) | more
    model = make(name, golden(name)["salt"], **changed)
    path = folder / "model.safetensors"
    write_safetensors(path, dict(model.state_dict()))
    (folder / "config.json").write_text(json.dumps(CONFIGS[name] | changed))
    return model, path


@pytest.fixture(scope="module", params=fewer_in_browser(IN_GGUF))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = tmp_path_factory.mktemp("gguf")
    return request.param, *saved(request.param, folder)


def test_written_and_read_again(case: Any, tmp_path: Path) -> None:
    name, model, path = case
    target = tmp_path / "model.gguf"
    quantize_file(path, target, "f32", view=gguf_view(path))
    with open_checkpoint(target) as checkpoint:
        values, types = checkpoint.values, checkpoint.types  # type: ignore[attr-defined]
        assert values["general.name"] == path.parent.name
        numbers_of = [
            key for key in values if key.endswith(("_scale", ".scale", "epsilon", "freq_base", "softcapping"))
        ]
        assert all(types[key].endswith("float32") for key in numbers_of) and len(numbers_of) > 0
    found = load(target)
    mine = {key: value.numpy() for key, value in model.state_dict().items()}
    for key, value in found.state_dict().items():
        np.testing.assert_allclose(value.numpy(), mine[key], atol=1e-6, err_msg=key)
    np.testing.assert_allclose(logits(found), logits(model), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_as_the_same_model_dequantised(case: Any, kind: str, tmp_path: Path) -> None:
    """The file's types are kept, and the model computes what it computes with the same weights in float32."""
    name, _, path = case
    target = tmp_path / "model.gguf"
    quantize_file(path, target, kind, view=gguf_view(path))
    with open_checkpoint(target) as checkpoint:
        settings = settings_of(checkpoint)
        module = importlib.import_module(f"pyapp.models.{module_of(settings, 'test')}")
        kinds = {info.dtype for info in checkpoint.tensors.values()} - {"float32"}
        quantised = read_model(module, module.TASKS["causal-lm"], checkpoint, settings)
    kept = {parameter.dtype.name for parameter in quantised.parameters()} - {"float32"}
    assert kept and kept <= kinds
    expected, found = logits(load(target)), logits(quantised)
    assert (
        np.abs(found - expected).mean()
        < (0.01 if kind == "f16" else 0.2 if name in SENSITIVE else 0.06) * np.abs(expected).mean()
    )


def test_a_mixture_of_k_types(tmp_path: Path) -> None:
    """Q4_K_M of a model with rows of 256: the types of llama.cpp, and the text of the same weights in float32."""
    settings = CONFIGS["llama"] | {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
    module = importlib.import_module("pyapp.models.llama")
    pyapp.manual_seed(0)
    model = module.LlamaForCausalLM(module.Config.from_dict(settings))
    write_safetensors(tmp_path / "model.safetensors", dict(model.state_dict()))
    (tmp_path / "config.json").write_text(json.dumps(settings))
    target = tmp_path / "model.gguf"
    quantize_file(tmp_path / "model.safetensors", target, "Q4_K_M", view=gguf_view(tmp_path / "model.safetensors"))
    with open_checkpoint(target) as checkpoint:
        kinds = {name: info.dtype for name, info in checkpoint.tensors.items()}
        found = settings_of(checkpoint)
        quantised = read_model(module, module.LlamaForCausalLM, checkpoint, found)
    assert kinds["output.weight"] == kinds["blk.0.attn_v.weight"] == "q6_K" and kinds["blk.0.attn_q.weight"] == "q4_K"
    assert {parameter.dtype.name for parameter in quantised.parameters()} == {"float32", "q4_K", "q6_K"}
    expected = logits(load(target))
    assert np.abs(logits(quantised) - expected).mean() < 0.06 * np.abs(expected).mean()


def test_types_that_only_files_have(tmp_path: Path) -> None:
    """The model computes with converted matrices what it computes with the values of the file in float32."""
    settings = CONFIGS["llama"] | {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
    module = importlib.import_module("pyapp.models.llama")
    with pyapp.nn.parameter.skip_initialization():
        model = module.LlamaForCausalLM(module.Config.from_dict(settings))
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {name: pyapp.ones(*value.shape) for name, value in model.state_dict().items()})
    (tmp_path / "config.json").write_text(json.dumps(settings))
    quantize_file(path, tmp_path / "plain.gguf", "f32", view=gguf_view(path))

    def check(kind: str) -> None:
        with open_checkpoint(tmp_path / "plain.gguf") as plain:
            tensors: dict[str, Any] = {}
            for i, (name, info) in enumerate(plain.tensors.items()):
                if len(info.shape) == 2:
                    raw = random_blocks(kind, info.numel // FILE_TYPES[kind].values, 0.07, seed=i)
                    tensors[name] = GgmlBlocks(kind, info.shape, raw.tobytes())
                else:
                    tensors[name] = plain.read(name)
            write_gguf(tmp_path / f"{kind}.gguf", tensors, plain.values, plain.types)  # type: ignore[attr-defined]
        quantize_file(tmp_path / f"{kind}.gguf", tmp_path / "float.gguf", "f32")
        found, expected = logits(load(tmp_path / f"{kind}.gguf", None)), logits(load(tmp_path / "float.gguf"))
        assert np.abs(found - expected).mean() < 0.06 * np.abs(expected).mean()

    check_each(check, ((kind,) for kind in FILE_TYPES))


@pytest.mark.parametrize("kind", ["f32", "q8_0"])
def test_factors_go_into_the_weights(kind: str, tmp_path: Path) -> None:
    """Falcon-H1's factors are multiplied into the weights and biases of files, also if these were in blocks."""
    biased = {"attention_bias": True, "mlp_bias": True, "mamba_proj_bias": True}
    model, path = saved("falcon_h1", tmp_path, **biased)
    source = tmp_path / "source.safetensors"
    quantize_file(path, source, kind)
    quantize_file(source, tmp_path / "model.gguf", kind, view=gguf_view(source))
    found, expected = logits(load(tmp_path / "model.gguf")), logits(model)
    assert np.abs(found - expected).mean() < (1e-5 if kind == "f32" else 0.06) * np.abs(expected).mean()


def test_older_files_of_qwen3_next_have_one_projection(tmp_path: Path) -> None:
    """Their ssm_in has the rows in the order of Hugging Face's files."""
    model, path = saved("qwen3_next", tmp_path)
    quantize_file(path, tmp_path / "new.gguf", "f32", view=gguf_view(path))
    with open_checkpoint(tmp_path / "new.gguf") as new:
        tensors: dict[str, Any] = {name: new.read(name) for name in new.tensors if ".attn_qkv" not in name}
        for layer in (0, 2):
            del tensors[f"blk.{layer}.attn_gate.weight"]
            own = model.model.layers[layer].linear_attn.in_proj_qkvz.weight.detach()
            tensors[f"blk.{layer}.ssm_in.weight"] = own
        write_gguf(tmp_path / "old.gguf", tensors, new.values, new.types)  # type: ignore[attr-defined]
    np.testing.assert_allclose(logits(load(tmp_path / "old.gguf")), logits(model), rtol=1e-4, atol=1e-4)


def test_heads_of_values_in_tiles(tmp_path: Path) -> None:
    """Files of Qwen3.5 have the heads of values that share a key apart; rows of matrices stay in their blocks."""
    model, path = saved("qwen3_5", tmp_path)
    for kind, close in (("f32", 1e-5), ("q8_0", 0.2)):
        quantize_file(path, tmp_path / f"{kind}.gguf", kind, view=gguf_view(path))
        found = load(tmp_path / f"{kind}.gguf", None)
        assert found.config.tiled_values and found.config.linear_num_value_heads == 4
        assert np.abs(logits(found) - logits(model)).mean() < close * np.abs(logits(model)).mean()
    own, theirs = (m.model.layers[0].linear_attn.in_proj_z.weight.detach().numpy() for m in (model, load(
        tmp_path / "f32.gguf")))  # fmt: skip
    np.testing.assert_array_equal(theirs, own.reshape(2, 2, 16, -1).transpose(1, 0, 2, 3).reshape(own.shape))


def test_names_are_llama_cpps() -> None:
    for architecture, names in json.loads(NAMES.read_text()).items():
        forms = [importlib.import_module(f"pyapp.models.{name}").GGUF for name in set(MODEL_TYPES.values())
            if hasattr(importlib.import_module(f"pyapp.models.{name}"), "GGUF")]  # fmt: skip
        mine = [form.named(architecture) for form in forms]
        mine = [form for form in mine if form.architecture == architecture]
        for key, expected in names.items():
            known = {form.tensors(key) for form in mine}
            known |= {(name.replace("{}", "0") + ".weight",) for form in mine for name in form.older.values()}
            assert (expected,) in known, (architecture, key, expected)


def test_mixtures_know_the_names_of_both_kinds_of_files() -> None:
    """Matrices get the same types from folders of Hugging Face's as from GGUF files."""
    for names in json.loads(NAMES.read_text()).values():
        roles = {key: (role_of(key), role_of(known)) for key, known in names.items()}
        assert {key: pair for key, pair in roles.items() if pair[0] != pair[1]} == {}


def test_what_gguf_cannot_say_is_refused(tmp_path: Path) -> None:
    """Files that readers would take for another model are not written."""
    for name, more, told in (
        ("falcon-alibi", {}, "post_attention_layernorm.weight"), ("falcon", {"alibi": True}, "alibi True"),
        ("gemma2", {"query_pre_attn_scalar": 10}, "query_pre_attn_scalar 10"),
        ("qwen2", {"rope_scaling": LLAMA3}, "llama3"), ("smollm3", {"no_rope_layers": [1, 0]}, "no_rope_layers"),
        ("gemma2", {"final_logit_softcapping": None}, "final_logit_softcapping None"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse"),
        ("gpt_neox", {"attention_bias": False}, "attention_bias False"),
        ("qwen3_moe", {"norm_topk_prob": False}, "norm_topk_prob False"),
        ("mistral", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}}, "rope_parameters"),
        ("olmoe", {"clip_qkv": 1.5}, "clip_qkv"), ("deepseek_v2", {}, "best two experts"),
        ("deepseek_v3", {"rope_interleave": False}, "rope_interleave"),
        ("deepseek_v3", CONFIGS["deepseek_v3"], "rope_parameters"),
        ("hyperclovax", {"use_post_norm": False}, "no form for hyperclovax"),
        ("afmoe", {"global_attn_every_n_layers": 2}, "layer_types"), ("afmoe", {"mup_enabled": False}, "mup_enabled"),
        ("cohere2", {"sliding_window_pattern": 2}, "layer_types"), ("nemotron", {"hidden_act": "silu"}, "hidden_act"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual"),
        ("mpt", {"attn_config": {"softmax_scale": 0.5}}, "attn_config"), ("lfm2-bias", {}, "conv_bias True"),
        ("gpt_oss", {"swiglu_limit": 0.8}, "swiglu_limit"), ("qwen3_next", {"mlp_only_layers": [1]}, "in each layer"),
        ("qwen3_next", {"layer_types": ["linear_attention", "full_attention", "full_attention"]}, "layer_types"),
        ("falcon_h1-norm", {"mamba_norm_before_gate": True}, "mamba_norm_before"),
        ("falcon_h1", {"tie_word_embeddings": True}, "factors"), ("falcon_h1", {"time_step_limit": [0.1, 1]}, "step"),
        ("gemma", {"tie_word_embeddings": False}, "apart"), ("gemma2", {"tie_word_embeddings": False}, "apart"),
        ("cohere", {"tie_word_embeddings": False}, "apart"), ("cohere2", {"tie_word_embeddings": False}, "apart"),
    ):  # fmt: skip
        _, path = saved(name, tmp_path, **more)
        with pytest.raises(ModelError, match=told):
            quantize_file(path, tmp_path / "model.gguf", "f16", view=gguf_view(path))


def test_what_only_some_models_say_is_written(tmp_path: Path) -> None:
    yarn = {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0, "beta_slow": 2.0,
        "attention_factor": 1.3,
    }  # fmt: skip
    kinds = ["sliding_attention", "full_attention"]
    local = dict(zip(kinds, ({"rope_theta": 100.0}, {"rope_theta": 1e6}), strict=True))
    for name, more in (
        ("qwen3", {"rope_scaling": yarn}), ("stablelm", {"partial_rotary_factor": 1.0}),
        ("granite", {"mlp_bias": True}), ("mpt", {"attn_config": {"alibi_bias_max": 16}}),
        ("gemma3", {"rope_parameters": local}),
    ):  # fmt: skip
        model, path = saved(name, tmp_path, **more)
        quantize_file(path, tmp_path / "model.gguf", "f32", view=gguf_view(path))
        np.testing.assert_allclose(logits(load(tmp_path / "model.gguf")), logits(model), rtol=1e-4, atol=1e-4)


def test_unknown_architectures_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, {}, {"general.architecture": "rwkv9"})
    with pytest.raises(ModelError, match="'rwkv9' is not known.*llama"):
        load(path)
    write_gguf(path, {}, {"general.architecture": "llama"})
    with pytest.raises(ModelError, match="has a vocabulary and no weights"):
        load(path)


def test_tensors_of_another_shape_are_named(tmp_path: Path) -> None:
    _, path = saved("mamba", tmp_path)
    quantize_file(path, tmp_path / "new.gguf", "f32", view=gguf_view(path))
    with open_checkpoint(tmp_path / "new.gguf") as new:
        tensors: dict[str, Any] = {name: new.read(name) for name in new.tensors}
        tensors["blk.0.ssm_conv1d.weight"] = tensors["blk.0.ssm_conv1d.weight"][0]
        values = new.values  # type: ignore[attr-defined]
        types = {name: kind for name, kind in new.types.items() if name in values}  # type: ignore[attr-defined]
        write_gguf(tmp_path / "old.gguf", tensors, values, types)
    with pytest.raises(ModelError, match=r"do not fit the configuration: blk\.0\.ssm_conv1d\.weight \[4\]"):
        load(tmp_path / "old.gguf")


def test_latent_attention_of_older_files(tmp_path: Path) -> None:
    """Keys and values from latent vectors were one matrix, and the cache's heads those of the queries."""
    model, path = saved("deepseek_v2-lite", tmp_path)
    quantize_file(path, tmp_path / "new.gguf", "f32", view=gguf_view(path))
    with open_checkpoint(tmp_path / "new.gguf") as new:
        tensors: dict[str, Any] = {name: new.read(name) for name in new.tensors}
        values = new.values | {  # type: ignore[attr-defined]
            "deepseek2.attention.head_count_kv": 4, "deepseek2.attention.key_length": 12,
            "deepseek2.attention.value_length": 6,
        }  # fmt: skip
        for key in ("key", "value"):
            del values[f"deepseek2.attention.{key}_length_mla"]
        for layer in range(2):
            del tensors[f"blk.{layer}.attn_k_b.weight"], tensors[f"blk.{layer}.attn_v_b.weight"]
            weight = model.get_parameter(f"model.layers.{layer}.self_attn.kv_b_proj.weight")
            tensors[f"blk.{layer}.attn_kv_b.weight"] = weight.detach()
        types = {name: kind for name, kind in new.types.items() if name in values}  # type: ignore[attr-defined]
        write_gguf(tmp_path / "old.gguf", tensors, values, types)
    np.testing.assert_allclose(logits(load(tmp_path / "old.gguf")), logits(model), rtol=1e-4, atol=1e-4)


def test_a_folder_becomes_a_file_with_its_tokenizer(tmp_path: Path) -> None:
    """The folder of a model and the GGUF file that is made of it give the same text."""
    tokenizer = Tokenizer.from_llama2c(*make_vocabulary())
    settings = CONFIGS["llama"] | {"vocab_size": tokenizer.vocab_size}
    module = importlib.import_module("pyapp.models.llama")
    pyapp.manual_seed(0)
    model = module.LlamaForCausalLM(module.Config.from_dict(settings))
    folder = tmp_path / "folder"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", dict(model.state_dict()))
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    file, beside = files_to_convert(folder)
    quantize_file(file, tmp_path / "model.gguf", "f32", view=gguf_view(file, beside))
    (tmp_path / "tokenizer.json").write_text("{}")  # of another model: the file has its own
    loaded = [load_model(folder), load_model(tmp_path / "model.gguf")]
    options = SamplingOptions(temperature=0.0, max_new_tokens=12)
    texts = [
        [event.to_dict() for event in generate(Session(own.model), own.tokenizer, "the dog", options)
         if event.type == "token"] for own in loaded
    ]  # fmt: skip
    assert texts[0] == texts[1] and len(texts[0]) >= 12
