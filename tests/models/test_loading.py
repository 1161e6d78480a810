"""Models from the files that people have: folders of Hugging Face's in their older and newer forms."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine import Tensor
from pyapp.errors import ModelError, OptionError, PyappError
from pyapp.events import Cancel
from pyapp.formats import open_checkpoint, write_safetensors, write_sharded_safetensors
from pyapp.models import gemma, gemma4, jamba, olmo3
from pyapp.models._index import MODEL_TYPES
from pyapp.models.load import build, load_model, module_of, read_model, read_settings
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.heads import check_task
from pyapp.models.loading.weights import load_weights
from pyapp.text.generation.session import capacity_of
from tests.models.decoder_configs import CONFIGS, QUANTISED, SENSITIVE
from tests.models.small_models import module_for
from tests.models.test_decoders import TEXT, golden, make, numbers
from tests.together import check_each, fewer_in_browser


def logits(model: Any) -> np.ndarray:
    with pyapp.no_grad():
        return numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]


def load(path: Path, name: str, dtype: str | None = None, **changed: Any) -> Any:
    with open_checkpoint(path) as checkpoint:
        return build(checkpoint, lambda event: None, Cancel(), CONFIGS[name] | changed, dtype)


def model_and_state(name: str, **changed: Any) -> tuple[Any, dict[str, Tensor]]:
    model = make(name, golden(name)["salt"], **changed)
    return model, dict(model.state_dict())


@pytest.mark.parametrize("prefix", ["", "-model.", "+language_model.", "+model.language_model."])
def test_prefixes(prefix: str, tmp_path: Path) -> None:
    """A file may leave the model's first name out, or put others before it."""
    model, state = model_and_state("llama")
    if prefix.startswith("-"):
        state = {name.removeprefix(prefix[1:]): value for name, value in state.items()}
    else:
        state = {prefix[1:] + name.removeprefix("model.") if prefix[1:].startswith("model") and "lm_head" not in name
                 else prefix[1:] + name: value for name, value in state.items()}  # fmt: skip
        state = {name.replace("model.language_model.lm_head", "lm_head"): value for name, value in state.items()}
    path = tmp_path / "model.safetensors"
    write_safetensors(path, state)
    np.testing.assert_array_equal(logits(load(path, "llama")), logits(model))


def test_old_buffers_and_a_tied_head_are_left_out(tmp_path: Path) -> None:
    model, state = model_and_state("llama-tied")
    del state["lm_head.weight"]
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = pyapp.ones(6)
    write_safetensors(tmp_path / "model.safetensors", state)
    found = load(tmp_path / "model.safetensors", "llama-tied")
    np.testing.assert_array_equal(logits(found), logits(model))
    assert found.lm_head.weight is found.model.embed_tokens.weight


def test_one_layer_cannot_have_two_values(tmp_path: Path) -> None:
    """A layer that a model has under two names is read once; a file with other values under each is refused."""

    def twice() -> Any:
        model = nn.Module()
        model.first = model.second = nn.Linear(2, 2)
        return model

    path, state = tmp_path / "model.safetensors", dict(twice().state_dict())
    write_safetensors(path, state)
    with open_checkpoint(path) as checkpoint:
        assert load_weights(twice(), checkpoint) == []
    for name in ("first.bias", "second.bias"):  # one of them with fewer bits: the other is read
        write_safetensors(path, state | {name: state[name].to("bfloat16")})
        with open_checkpoint(path) as checkpoint:
            assert load_weights(model := twice(), checkpoint) == []
            assert model.first.bias.tolist() == state["first.bias"].tolist()
    write_safetensors(path, state | {"second.bias": state["first.bias"] + 1})
    with open_checkpoint(path) as checkpoint, pytest.raises(ModelError, match=r"'first\.bias' and 'second\.bias'"):
        load_weights(twice(), checkpoint)


@pytest.mark.parametrize("name", ["gemma3", "gemma3n", "gemma4"])
def test_the_language_model_of_one_that_sees_pictures(name: str, tmp_path: Path) -> None:
    """Its settings are the text_config, which leaves out what is usual, and its other tensors are not read."""
    model, state = model_and_state(name, num_attention_heads=8)
    newer = name != "gemma3"
    before = "model.language_model." if newer else "language_model."
    state = {before + key.removeprefix("model." if newer else ""): state[key] for key in state
        if key != "lm_head.weight"}  # fmt: skip
    seen = ["vision_tower.embeddings.patch_embedding.bias", "multi_modal_projector.norm"]
    if newer:  # the last two: of a layer that attends to the keys and values of another
        own = f"{before}layers.3.self_attn."
        seen = ["model.vision_tower.a", "model.audio_tower.b", "model.embed_audio.c", f"{own}k_proj.weight",
                f"{own}k_norm.weight"]  # fmt: skip
    write_safetensors(tmp_path / "model.safetensors", state | {key: pyapp.ones(2) for key in seen})
    own_settings = {key: value for key, value in CONFIGS[name].items() if key != "num_attention_heads"}
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        settings = {"model_type": name, "text_config": own_settings, "vision_config": {}}
        found = build(checkpoint, lambda event: None, Cancel(), settings)
    np.testing.assert_array_equal(logits(found), logits(model))


@pytest.mark.parametrize(("kind", "grouped"), [("grouped_query_attention", 2), ("multiquery_attention", None)])
def test_grouped_heads_of_mpt(kind: str, grouped: int | None, tmp_path: Path) -> None:
    """As the same model with the heads of keys and values repeated (Replit Code 1.5)."""
    own = {"attn_type": kind, "kv_n_heads": grouped}
    model, state = model_and_state("mpt")
    count, size = grouped or 1, 8
    few = dict(state)
    for name in [name for name in state if name.endswith("Wqkv.weight")]:
        queries, keys, values = state[name].chunk(3)
        first = [part.reshape(4, size, 32)[:count] for part in (keys, values)]  # the heads that are kept
        few[name] = pyapp.cat([queries, *(part.reshape(-1, 32) for part in first)]).contiguous()
        again = [part.repeat_interleave(4 // count, 0).reshape(32, 32) for part in first]
        state[name] = pyapp.cat([queries, *again]).contiguous()
    write_safetensors(tmp_path / "many.safetensors", state)
    write_safetensors(tmp_path / "few.safetensors", few)
    wanted = logits(load(tmp_path / "many.safetensors", "mpt"))
    found = load(tmp_path / "few.safetensors", "mpt", attn_config=own)
    np.testing.assert_allclose(logits(found), wanted, rtol=1e-5, atol=1e-5)


def test_chatglm_is_glm_under_other_names(tmp_path: Path) -> None:
    model, state = model_and_state("glm", attention_bias=True)
    theirs: dict[str, Tensor] = {"transformer.rotary_pos_emb.inv_freq": pyapp.ones(3)}
    for name, value in state.items():
        for new, old in (
            ("model.embed_tokens", "transformer.embedding.word_embeddings"), ("lm_head", "transformer.output_layer"),
            ("model.layers", "transformer.encoder.layers"), ("model.norm", "transformer.encoder.final_layernorm"),
            (".self_attn.o_proj", ".self_attention.dense"), (".mlp.gate_up_proj", ".mlp.dense_h_to_4h"),
            (".mlp.down_proj", ".mlp.dense_4h_to_h"),
        ):  # fmt: skip
            name = name.replace(new, old)
        place, _, part = name.partition(".self_attn.")
        theirs[f"{place}.self_attention.{part}" if part else name] = value
    for layer in range(2):
        own = f"transformer.encoder.layers.{layer}.self_attention."
        for last in ("weight", "bias"):
            parts = [theirs.pop(f"{own}{part}_proj.{last}") for part in "qkv"]
            theirs[f"{own}query_key_value.{last}"] = pyapp.cat(parts)
    write_safetensors(tmp_path / "model.safetensors", theirs)
    settings = {
        "model_type": "chatglm", "num_layers": 2, "padded_vocab_size": 96, "kv_channels": 12, "hidden_size": 32,
        "ffn_hidden_size": 48, "layernorm_epsilon": 1e-5, "add_qkv_bias": True, "seq_length": 128,
        "multi_query_group_num": 2, "num_attention_heads": 4, "rmsnorm": True,
    }  # fmt: skip
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        found = build(checkpoint, lambda event: None, Cancel(), settings)
        np.testing.assert_array_equal(logits(found), logits(model))
        with pytest.raises(ModelError, match="rmsnorm is False"):
            build(checkpoint, lambda event: None, Cancel(), settings | {"rmsnorm": False})


GATED, NUMBERED = ("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")
# Where published files keep each expert's matrices, and what else they call by other names.
APART: dict[str, tuple[str, tuple[str, ...], tuple[str, str]]] = {
    "mixtral": ("block_sparse_moe.experts", NUMBERED, (".mlp.gate.", ".block_sparse_moe.gate.")),
    "qwen2_moe": ("mlp.experts", GATED, ("", "")), "qwen3_moe": ("mlp.experts", GATED, ("", "")),
    "phimoe": ("block_sparse_moe.experts", NUMBERED, (".mlp.router.", ".block_sparse_moe.gate.")),
    "jamba": ("feed_forward.experts", GATED, ("", "")), "hunyuan-moe": ("mlp.experts", GATED, ("", "")),
    "ernie4_5_moe": ("mlp.experts", GATED, (".mlp.gate.moe_statics.", ".mlp.moe_statics.")),
    "nemotron_h": ("mixer.experts", ("up_proj", "down_proj"), ("model.", "backbone.")),
    "minimax": ("block_sparse_moe.experts", NUMBERED, (".mlp.", ".block_sparse_moe.")),
    "minimax_m2": ("block_sparse_moe.experts", NUMBERED, (".mlp.", ".block_sparse_moe.")),
    "lfm2_moe": ("feed_forward.experts", NUMBERED, ("", "")),
    "kimi_linear": ("block_sparse_moe.experts", NUMBERED, (".self_attn.forget_gate.", ".self_attn.")),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_experts_apart(name: str, tmp_path: Path) -> None:
    """Published files keep each expert's matrices apart."""
    model, state = model_and_state(name)
    place, parts, (ours, theirs) = APART[name]
    for key in [key for key in state if ".experts." in key]:
        block, last = key.rpartition(".")[0].rpartition(".experts")[0], key.endswith("down_proj")
        before, value = block.rpartition(".")[0], state.pop(key)
        chosen = parts[-1:] if last else parts[:-1]
        for expert in range(value.shape[0]):
            pieces = value[expert].split(value.shape[1] // len(chosen))
            for part, piece in zip(chosen, pieces, strict=True):
                state[f"{before}.{place}.{expert}.{part}.weight"] = piece.contiguous()
    state = {key.replace(ours, theirs, 1) if ours else key: value for key, value in state.items()}
    if name == "kimi_linear":  # whose convolutions are apart, too
        parts = state.pop("model.layers.0.self_attn.conv1d.weight").chunk(3)
        state |= {
            f"model.layers.0.self_attn.{p}_conv1d.weight": x.contiguous() for p, x in zip("qkv", parts, strict=True)
        }
    write_safetensors(tmp_path / "model.safetensors", state)
    np.testing.assert_array_equal(logits(load(tmp_path / "model.safetensors", name)), logits(model))
    if name in ("mixtral", "qwen3_moe"):
        wider = {"intermediate_size" if name == "mixtral" else "moe_intermediate_size": 96}
        with pytest.raises(ModelError, match=r"experts\.gate_up_proj has \d+ rows of 32, expected \[4, 192, 32\]"):
            load(tmp_path / "model.safetensors", name, **wider)


def test_experts_in_mxfp4_as_they_are_published(tmp_path: Path) -> None:
    """The numbers are those of transformers' convert_moe_packed_tensors, and the matrices stay in their blocks."""
    sizes = {"hidden_size": 64, "intermediate_size": 32}
    quantised = {"quantization_config": {"quant_method": "mxfp4"}, "architectures": ["GptOssForCausalLM"]}
    model = make("gpt_oss", 0, **sizes)
    files: dict[str, Tensor] = model.exported(dict(model.state_dict()))
    generator, halves = np.random.default_rng(0), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    for name in [name for name in files if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, columns, rows = files.pop(name).shape
        blocks = generator.integers(0, 256, (experts, rows, columns // 32, 16), dtype=np.uint8)
        exponents = generator.integers(122, 127, blocks.shape[:3], dtype=np.uint8)
        files |= {f"{name}_blocks": pyapp.from_numpy(blocks), f"{name}_scales": pyapp.from_numpy(exponents)}
        numbers_of = np.concatenate([halves, -halves])[np.stack([blocks & 15, blocks >> 4], -1)]
        matrix = numbers_of.reshape(*blocks.shape[:3], 32) * 2.0 ** (exponents[..., None] - 127.0)
        matrix = matrix.reshape(experts, rows, columns)
        if "gate_up" in name:
            matrix = np.concatenate([matrix[:, ::2], matrix[:, 1::2]], 1)
        with pyapp.no_grad():
            model.get_parameter(name).copy_(pyapp.from_numpy(matrix.astype(np.float32)))
    write_safetensors(tmp_path / "model.safetensors", files)
    found = load(tmp_path / "model.safetensors", "gpt_oss", **sizes, **quantised)
    np.testing.assert_allclose(logits(found), logits(model), atol=1e-5)
    module = importlib.import_module("pyapp.models.gpt_oss")
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        kept = read_model(module, module.GptOssForCausalLM, checkpoint, CONFIGS["gpt_oss"] | sizes | quantised)
    stacks = {name: value for name, value in kept.named_parameters() if name.endswith(("gate_up_proj", "down_proj"))}
    assert len(stacks) == 4 and {value.dtype.name for value in stacks.values()} == {"mxfp4"}
    for name, value in stacks.items():
        expected = model.get_parameter(name)
        np.testing.assert_array_equal(value.to("float32").reshape(*expected.shape).numpy(), expected.detach().numpy())
    name = "model.layers.0.mlp.experts.down_proj_scales"
    for wrong in (files[name][:, :, :, None], files[name].to("int16")):
        write_safetensors(tmp_path / "model.safetensors", files | {name: wrong.contiguous()})
        with pytest.raises(ModelError, match="exponents"):
            load(tmp_path / "model.safetensors", "gpt_oss", **sizes, **quantised)


def test_old_names_of_gpt_neox_and_falcon(tmp_path: Path) -> None:
    model, state = model_and_state("gpt_neox")
    state["embed_out.weight"] = state.pop("lm_head.weight")
    state["gpt_neox.layers.0.attention.bias"] = pyapp.ones(1, 1, 4, 4, dtype="bool")
    state["gpt_neox.layers.0.attention.masked_bias"] = pyapp.tensor(-1e9)
    write_safetensors(tmp_path / "model.safetensors", state)
    np.testing.assert_array_equal(logits(load(tmp_path / "model.safetensors", "gpt_neox")), logits(model))
    model, state = model_and_state("falcon")
    write_safetensors(tmp_path / "falcon.safetensors", state)
    older = {"num_attention_heads": None, "n_head": 4, "num_hidden_layers": None, "n_layer": 2}
    found = load(tmp_path / "falcon.safetensors", "falcon", model_type="RefinedWebModel", **older)
    np.testing.assert_array_equal(logits(found), logits(model))


def test_qwens_that_also_see_pictures(tmp_path: Path) -> None:
    """The language model of such a folder: settings in text_config, tensors under language_model, and others."""
    model, state = model_and_state("qwen3_5")
    own = {f"model.language_model.{key.removeprefix('model.')}": value for key, value in state.items()}
    more = {"model.visual.blocks.0.weight": pyapp.ones(2), "mtp.norm.weight": pyapp.ones(2)}
    write_safetensors(tmp_path / "model.safetensors", own | more)
    found = load(tmp_path / "model.safetensors", "qwen3_5", model_type="qwen3_5", text_config=CONFIGS["qwen3_5"])
    np.testing.assert_array_equal(logits(found), logits(model))


def test_steps_without_a_limit(tmp_path: Path) -> None:
    model, state = model_and_state("granitemoehybrid")
    write_safetensors(tmp_path / "model.safetensors", state)
    for limits in ([0.0, float("inf")], [0.0, {"__float__": "Infinity"}]):
        found = load(tmp_path / "model.safetensors", "granitemoehybrid", time_step_limit=limits)
        np.testing.assert_array_equal(logits(found), logits(model))


def test_published_names_of_granites_experts(tmp_path: Path) -> None:
    model, state = model_and_state("granitemoe-shared")
    names = {"router.weight": "router.layer.weight", "experts.gate_up_proj": "input_linear.weight",
             "experts.down_proj": "output_linear.weight"}  # fmt: skip
    for new, old in names.items():
        state = {key.replace(f"block_sparse_moe.{new}", f"block_sparse_moe.{old}"): x for key, x in state.items()}
    assert len(set(state) - set(model.state_dict())) == 6
    write_safetensors(tmp_path / "model.safetensors", state)
    np.testing.assert_array_equal(logits(load(tmp_path / "model.safetensors", "granitemoe-shared")), logits(model))


def test_files_of_exaone_have_names_of_their_own(tmp_path: Path) -> None:
    """As LG AI Research publishes them: other names of tensors, and of fields of config.json."""
    model, state = model_and_state("exaone")
    names = {
        "model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "model.layers": "transformer.h",
        "self_attn.o_proj": "attn.attention.out_proj", "self_attn": "attn.attention", "input_layernorm": "ln_1",
        "post_attention_layernorm": "ln_2", "gate_proj": "c_fc_0", "up_proj": "c_fc_1", "down_proj": "c_proj",
    }  # fmt: skip
    for ours, own in names.items():
        state = {key.replace(ours, own): value for key, value in state.items()}
    assert set(state) & set(model.state_dict()) == {"lm_head.weight"}
    settings = dict(CONFIGS["exaone"]) | {"layer_norm_epsilon": 1e-5, "activation_function": "silu", "num_layers": 2}
    del settings["num_hidden_layers"]
    write_safetensors(tmp_path / "model.safetensors", state)
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        found = build(checkpoint, lambda event: None, Cancel(), settings)
    assert found.config == model.config
    np.testing.assert_array_equal(logits(found), logits(model))


def test_files_of_dbrx_have_the_rows_of_all_experts(tmp_path: Path) -> None:
    model, state = model_and_state("dbrx")
    state = model.exported(state)
    assert tuple(state["transformer.blocks.1.ffn.experts.mlp.w2"].shape) == (4 * 24, 32)
    write_safetensors(tmp_path / "model.safetensors", {name: value.contiguous() for name, value in state.items()})
    np.testing.assert_array_equal(logits(load(tmp_path / "model.safetensors", "dbrx")), logits(model))
    assert type(model.config).from_dict(model.config.saved()) == model.config


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_stay_halves(dtype: str, tmp_path: Path) -> None:
    model, state = model_and_state("gpt2")
    write_sharded_safetensors(tmp_path, {key: value.to(dtype) for key, value in state.items()}, limit=20000)
    found = load(tmp_path / "model.safetensors.index.json", "gpt2")
    assert {parameter.dtype.name for parameter in found.parameters()} == {"float32", dtype}
    np.testing.assert_allclose(logits(found), logits(model), atol=0.1)
    wide = load(tmp_path / "model.safetensors.index.json", "gpt2", "float32")
    assert {parameter.dtype.name for parameter in wide.parameters()} == {"float32"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    fewer_in_browser([("llama", "Q4_K_M"), ("llama", "q4_0"), ("gpt2", "q4_0"), *((n, "q8_0") for n in QUANTISED)]),
)
def test_quantised_while_it_loads(name: str, dtype: str, tmp_path: Path) -> None:
    model, state = model_and_state(name)
    write_safetensors(tmp_path / "model.safetensors", state)
    found = load(tmp_path / "model.safetensors", name, dtype)
    assert any(parameter.dtype.is_quantized for parameter in found.parameters())
    expected = logits(model)
    close = 0.5 if dtype != "q8_0" else 0.2 if name in SENSITIVE else 0.06
    assert np.abs(logits(found) - expected).mean() < close * np.abs(expected).mean()


def test_sarvams_own_files(tmp_path: Path) -> None:
    """The names of Ling 2.0, with queries, keys and values in one."""
    model, state = model_and_state("sarvam_moe")
    names = {
        "model.embed_tokens.": "model.word_embeddings.", ".self_attn.o_proj.": ".attention.dense.",
        ".self_attn.q_norm.": ".attention.query_layernorm.", ".self_attn.k_norm.": ".attention.key_layernorm.",
        ".mlp.gate.e_score_correction_bias": ".mlp.gate.expert_bias",
    }  # fmt: skip
    own = {}
    for name, value in state.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        own[name] = value
    for layer in range(3):
        parts = [own.pop(f"model.layers.{layer}.self_attn.{part}_proj.weight") for part in "qkv"]
        own[f"model.layers.{layer}.attention.query_key_value.weight"] = pyapp.cat(parts)
    write_safetensors(tmp_path / "model.safetensors", own)
    np.testing.assert_allclose(logits(load(tmp_path / "model.safetensors", "sarvam_moe")), logits(model), atol=1e-5)


def test_everything_that_does_not_fit_is_named_at_once(tmp_path: Path) -> None:
    _, state = model_and_state("llama")
    del state["model.layers.1.mlp.up_proj.weight"]
    state["model.norm.weight"] = pyapp.ones(7)
    state["model.extra"] = pyapp.ones(2)
    write_safetensors(tmp_path / "model.safetensors", state)
    with pytest.raises(ModelError) as caught:
        load(tmp_path / "model.safetensors", "llama")
    missing, misshapen = "missing: model.layers.1.mlp.up_proj.weight", "model.norm.weight is [7], expected [32]"
    for told in (missing, misshapen, "model.extra"):
        assert told in str(caught.value)


def test_unknown_architectures_and_types_are_refused_before_weights_are_read(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not even weights")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "rwkv9"}))
    with pytest.raises(ModelError, match="'rwkv9' is not known.*llama2c, .*qwen3"):
        load_model(tmp_path)
    _, state = model_and_state("llama")
    write_safetensors(tmp_path / "model.safetensors", state)
    with pytest.raises(OptionError, match="q9_9"):
        load(tmp_path / "model.safetensors", "llama", "q9_9")


def test_models_of_other_kinds_say_what_they_are_for(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="this is an adapter .LoRA., not a model. Give the model that it belongs to"):
        load_model(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(ModelError, match="'whisper' are not for causal-lm. They transcribe speech"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match="CLIPModel. is made for zero-shot-image.*It chooses among labels"):
        check_task({"model_type": "clip", "architectures": ["CLIPModel"]}, "config.json", "image-classification")
    with pytest.raises(ModelError, match="'align' are not for image-classification. It chooses among labels"):
        module_of({"model_type": "align"}, "config.json", "image-classification")


def test_weights_that_other_libraries_quantised_are_refused_before_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not even weights")
    for task, name in (("causal-lm", "llama"), ("masked-lm", "bert")):
        for given, told in {
            '{"quant_method": "quanto"}': "'quanto', which pyapp does not read. It reads GGUF files, and fp8, .*awq",
            '{"quant_method": "gptq", "bits": 5}': "by gptq, and bits is 5.*GGUF",
            '{"quant_method": "awq", "version": "gemv"}': "by awq, and version is 'gemv', expected 'gemm'",
            '{"quant_method": "compressed-tensors", "format": "marlin-24"}': "by compressed-tensors, and format is 'ma",
            '{"quant_method": "auto-round", "packing_format": "x"}': "by 'auto-round, packed as x'",
        }.items():
            config = {"model_type": name, "quantization_config": json.loads(given)}
            (tmp_path / "config.json").write_text(json.dumps(config))
            with pytest.raises(ModelError, match=f"config.json: its weights are quantised .*{told}"):
                load_model(tmp_path) if task == "causal-lm" else load_task_model(tmp_path, task)


def test_weights_of_whole_numbers_are_refused(tmp_path: Path) -> None:
    _, state = model_and_state("llama")
    name = "model.layers.1.mlp.up_proj.weight"
    write_safetensors(tmp_path / "model.safetensors", state | {name: state[name].to("int8")})
    with pytest.raises(ModelError, match=f"'{name}' are int8: another library has quantised them.*GGUF"):
        load(tmp_path / "model.safetensors", "llama")


def test_what_is_wrong_with_a_config_is_told(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not even weights")
    for data, told in {
        b'{"model_type": "llama",}': "it is not valid JSON: .* line 1 column 2", b"[]": "a JSON object is expected",
        b"{}": "it is empty", json.dumps({"model_type": "rwkv9"}).encode("utf-8-sig"): "'rwkv9' is not known",
    }.items():  # fmt: skip
        (tmp_path / "config.json").write_bytes(data)
        with pytest.raises(PyappError, match=told):
            load_model(tmp_path)


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"vocab_size": 1 << 40}, "vocab_size"), ("llama", {"hidden_size": -32}, "hidden_size"),
    ("llama", {"num_attention_heads": 5, "head_dim": None}, "divide"), ("llama", {"num_key_value_heads": 3}, "divide"),
    ("llama", {"num_hidden_layers": "many"}, "num_hidden_layers"), ("llama", {"hidden_act": "exec"}, "activation"),
    ("phi3", {"hidden_act": "exec"}, "activation"),
    ("llama", {"max_position_embeddings": 1 << 24, "head_dim": 4096}, "positions"),
    ("llama", {"rope_theta": float("nan")}, "rope_theta"), ("llama", {"intermediate_size": None}, "intermediate_size"),
    ("llama", {"rope_scaling": {"rope_type": "odd"}}, "odd"), ("llama", {"rope_scaling": 5}, "rope_scaling"),
    ("llama", {"rms_norm_eps": "x"}, "rms_norm_eps"), ("llama", {"head_dim": 7}, "pairs"),
    ("qwen2", {"layer_types": ["odd", "odd"]}, "layer_types"), ("gemma3", {"layer_types": 3}, "layer_types"),
    ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok"), ("gpt2", {"n_head": 3}, "n_head"),
    ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers"), ("falcon", {"num_attention_heads": 0}, "num_attention"),
    ("deepseek_v2", {"n_group": 3}, "n_group"), ("deepseek_v2", {"topk_group": 9}, "topk_group"),
    ("deepseek_v2", {"num_experts_per_tok": 7}, "num_experts_per_tok"),
    ("deepseek_v2", {"kv_lora_rank": "x"}, "kv_lora_rank"),
    ("deepseek_v3", {"n_group": 8, "topk_group": 8}, "one expert"),
    ("deepseek_v2", {"topk_method": "odd"}, "topk_method"),
    ("olmoe", {"num_experts_per_tok": 9}, "num_experts_per_tok"), ("glm4", {"hidden_act": "exec"}, "activation"),
    ("mamba", {"state_size": 1 << 20}, "state_size"), ("mamba", {"expand": float("nan")}, "expand"),
    ("mamba", {"hidden_size": "x"}, "hidden_size"), ("mamba", {"conv_kernel": 1}, "conv_kernel"),
    ("mamba2", {"n_groups": 3}, "n_groups"), ("mamba2", {"time_step_limit": [0.1]}, "time_step_limit"),
    ("qwen3_next", {"linear_num_key_heads": 3}, "divide"), ("qwen3_5", {"layer_types": ["odd"] * 3}, "layer_types"),
    ("qwen3_5", {"linear_value_head_dim": 1 << 30}, "1 to 4,096"), ("qwen3_5", {"linear_conv_kernel_dim": 1}, "kernel"),
    ("granitemoehybrid", {"layer_types": ["mamba"]}, "layer_types"), ("falcon_h1", {"mamba_n_groups": 3}, "divide"),
    ("granitemoehybrid-dense", {"mamba_expand": 1 << 40}, "mamba_expand"),
    ("granitemoehybrid", {"position_embedding_type": "odd"}, "position_embedding_type"),
    ("falcon_h1", {"mamba_d_state": 1 << 30}, "too many"), ("falcon_h1", {"mlp_multipliers": [1.0]}, "mlp_multipliers"),
    ("falcon_h1", {"mamba_d_head": "auto", "mamba_d_ssm": 65}, "mamba_n_heads"),
    ("rwkv", {"hidden_size": "wide"}, "hidden_size"), ("rwkv", {"context_length": 0}, "context_length"),
    ("rwkv6", {"head_size": 12}, "head_size"), ("rwkv6", {"time_mix_extra_dim": 1 << 20}, "at most 65,536"),
    ("internlm3", {"mlp_bias": False}, "qkv_bias and bias"), ("iquestcoder", {"clip_qkv": 2.0}, "clip_qkv"),
    ("dbrx", {"attn_config": [1]}, "attn_config"), ("dbrx", {"n_heads": 5}, "divide"),
    ("dbrx", {"ffn_config": {"moe_num_experts": 1 << 40}}, "num_local_experts"),
    ("dbrx", {"ffn_config": {"moe_normalize_expert_weights": 2.0}}, "only 1 or null"),
    ("hyperclovax", {"head_dim": "wide"}, "head_dim"), ("hyperclovax", {"logits_scaling": 0.0}, "logits_scaling"),
    ("rwkv5", {"hidden_size": "wide"}, "hidden_size"), ("rwkv6", {"halved_every": -1}, "halved_every"),
    ("rwkv7", {"head_dim": 48}, "head_dim"), ("rwkv7", {"value_dim": [128, 256]}, "value_dim"),
    ("rwkv7", {"gate_low_rank_dim": 1 << 20}, "at most 65,536"), ("rwkv7", {"hidden_act": "exec"}, "hidden_act"),
    ("rwkv7", {"attn": {"layers": [0]}}, "attn"),
    ("gemma3n", {"num_kv_shared_layers": 3}, "num_kv_shared_layers"),
    ("gemma3n", {"altup_active_idx": 3}, "altup_active"), ("gemma3n", {"activation_sparsity_pattern": [1]}, "sparsity"),
    ("gemma3n", {"intermediate_size": [8, 8, 8]}, "intermediate_size"),
    ("gemma3n", {"vocab_size_per_layer_input": 1 << 30, "hidden_size_per_layer_input": 1 << 20}, "too many"),
    ("zamba2", {"layers_block_type": ["odd"] * 4}, "layers_block_type"), ("zamba2", {"mamba_ngroups": 3}, "divide"),
    ("zamba2", {"hidden_size": None}, "hidden_size"),
    ("zamba2", {"adapter_rank": 1 << 20}, "adapter_rank"), ("zamba2", {"num_key_value_heads": 2}, "adapters"),
    ("jetmoe", {"num_key_value_heads": "two"}, "num_key"), ("jetmoe", {"num_experts_per_tok": 5}, "of 4 experts"),
    ("afmoe", {"score_func": "softmax"}, "score_func"), ("afmoe", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ("bamba", {"attn_layer_indices": [2]}, "attn_layer_indices"), ("jamba", {"attn_layer_offset": 3}, "attn_layer"),
    ("jamba", {"mamba_expand": 1 << 20}, "expand"), ("nemotron_h", {"hybrid_override_pattern": "MX"}, "layers_block"),
    ("nemotron_h", {"moe_latent_size": 1 << 30}, "moe_latent_size"), ("phimoe", {"num_experts_per_tok": 3}, "per_tok"),
    ("hunyuan-moe", {"moe_topk": [5, 1]}, "num_experts_per_tok"), ("hunyuan-moe", {"moe_topk": ["a"]}, "moe_topk"),
    ("ernie4_5_moe", {"moe_k": 5}, "moe_k"), ("ministral", {"layer_types": ["odd"] * 2}, "layer_types"),
    ("minicpm3", {"kv_lora_rank": 0}, "kv_lora_rank"), ("minicpm3", {"scale_depth": -1.0}, "scale_depth"),
    ("ministral3", {"rope_parameters": {"rope_theta": 1e4, "llama_4_scaling_beta": "b"}}, "llama_4"),
    ("glm4_moe", {"n_group": 3}, "n_group"), ("glm4_moe", {"num_experts_per_tok": 9}, "num_experts_per_tok"),
    ("glm4_moe_lite", {"mlp_layer_types": ["sparse", "dense"]}, "mlp_layer_types"),
    ("mistral4", {"n_group": 2}, "n_group"), ("exaone_moe", {"mlp_layer_types": ["odd"] * 3}, "mlp_layer_types"),
    ("exaone_moe", {"topk_group": 2}, "topk_group"),
    ("axk1", {"mlp_layer_types": ["sparse", "dense"]}, "mlp_layer_types"),
    ("granitemoe_swa", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ("granitemoe_swa", {"layer_rope_theta": [1e4]}, "layer_rope_theta"),
    ("deepseek_v32-sparse", {"index_topk": 0}, "index_topk"),
    ("deepseek_v32-sparse", {"index_head_dim": 2}, "index_head_dim"),
    ("deepseek_v32-sparse", {"q_lora_rank": None}, "q_lora_rank"),
    ("mimo_v2_flash", {"v_head_dim": 13}, "v_head_dim"), ("mimo_v2_flash", {"swa_num_key_value_heads": 3}, "swa_num"),
    ("mimo_v2_flash", {"layer_types": None, "hybrid_layer_pattern": [2]}, "hybrid_layer_pattern"),
    ("laguna", {"num_attention_heads_per_layer": [4, 5, 6]}, "per_layer"), ("laguna", {"gating": "no"}, "gating"),
    ("laguna", {"sliding_window": None}, "sliding_window"),
    ("glm_moe_dsa", {"index_topk_pattern": "SFF"}, "indexer_types"),
    ("glm_moe_dsa", {"index_topk_pattern": "FX"}, "index_topk_pattern"),
    ("glm_moe_dsa", {"indexer_types": ["full"]}, "indexer_types"),
    ("cohere2_moe", {"expert_selection_fn": "odd"}, "expert_selection_fn"),
    ("cohere2_moe", {"first_k_dense_replace": 4}, "first_k_dense_replace"),
    ("cohere2_moe", {"shared_expert_combination_strategy": "odd"}, "shared_expert_combination_strategy"),
    ("mellum", {"mlp_layer_types": ["odd"] * 3}, "mlp_layer_types"),
    ("mellum", {"sliding_window": None}, "sliding_window"),
    ("hy_v3", {"route_norm": False}, "route_norm"), ("hy_v3", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ("sarvam_moe", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ("minimax", {"layer_types": ["full_attention"]}, "layer_types"), ("minimax", {"rotary_dim": 14}, "rotary_dim"),
    ("minimax", {"attn_type_list": [2], "layer_types": None}, "attn_type_list"),
    ("minimax", {"postnorm": False}, "postnorm"),
    ("minimax_m2", {"rotary_dim": 14}, "rotary_dim"), ("lfm2_moe", {"num_experts_per_tok": 5}, "num_experts_per_tok"),
    ("gemma4", {"num_kv_shared_layers": 3}, "num_kv_shared_layers"), ("gemma4", {"global_head_dim": 7}, "7 features"),
    ("gemma4-experts", {"num_experts": None}, "num_experts"), ("gemma4", {"layer_types": ["odd"] * 4}, "layer_types"),
    ("openai-gpt", {"afn": "tanh"}, "afn"), ("openai-gpt", {"n_head": 5}, "n_head"),
    ("gpt_neo", {"attention_types": [["local"]]}, "attention_types"), ("bitnet", {"ternary": "x"}, "ternary"),
    ("gpt_neo", {"attention_types": [[["local"], 3]]}, "attention_layers"), ("xglm", {"ffn_dim": 0}, "ffn_dim"),
    ("kimi_linear", {"linear_conv_kernel_dim": 1}, "linear_conv"),
    ("kimi_linear", {"layer_types": ["a"]}, "layer_types"),
    ("opt", {"ffn_dim": 0}, "ffn_dim"), ("opt", {"word_embed_proj_dim": 1 << 40}, "word_embed_proj_dim"),
    ("opt", {"activation_function": "exec"}, "activation"), ("bloom", {"n_head": 3}, "divide"),
    ("bloom", {"seq_length": 1 << 40}, "max_position_embeddings"), ("mpt", {"n_heads": 5}, "divide"),
    ("mpt", {"attn_config": {"kv_n_heads": 3}}, "kv_n_heads"),
    ("mpt", {"attn_config": 3}, "attn_config"), ("mpt", {"attn_config": {"qk_ln": True}}, "qk_ln"),
    ("mpt", {"attn_config": {"alibi_bias_max": float("inf")}}, "alibi_bias_max"),
    ("mpt", {"no_bias": False}, "no_bias"), ("gptj", {"rotary_dim": 10}, "rotary_dim"),
    ("codegen", {"n_embd": 6, "n_head": 1, "rotary_dim": 2}, "multiple"),
    ("cohere", {"num_key_value_heads": 3}, "divide"), ("cohere2", {"sliding_window_pattern": 0}, "pattern"),
    ("nemotron", {"hidden_act": "exec"}, "activation"),
    ("phi3", {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": "x"}}, "factor"),
    ("llama", {"rms_norm_eps": 10**400}, "a finite number"), ("llama", {"rope_theta": 10**400}, "rope_theta"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0, expected a number > 0"),
    ("gemma3", {"query_pre_attn_scalar": -256.0}, "query_pre_attn_scalar"),
    ("gemma2", {"attn_logit_softcapping": -2.0}, "attn_logit_softcapping is -2.0, expected a number > 0"),
    ("recurrent_gemma", {"logits_soft_cap": 0.0}, "logits_soft_cap"), ("llama", {"rms_norm_eps": 1e308}, "a finite"),
    ("rwkv6", {"hidden_size": 10**400}, "hidden_size"), ("phi3", {"hidden_act": ["silu"]}, "hidden_act|activation"),
    ("granitemoe", {"logits_scaling": 0}, "logits_scaling"), ("qwen3_next", {"kind": ["a"]}, "kind is"),
    ("falcon_h1", {"mlp_multipliers": [1.0, 10**400]}, "mlp_multipliers has 1000.*fit into float32"),
    ("falcon_h1", {"ssm_multipliers": [1.0, float("nan"), 1.0, 1.0, 1.0]}, "ssm_multipliers has nan"),
    ("llama", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 1e38}}, "131,072 columns"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": float("nan")}}, "rope_parameters has nan"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changed", "told"), HOSTILE)
def test_hostile_configurations(name: str, changed: dict[str, Any], told: str, tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"a": pyapp.ones(1)})
    with pytest.raises(ModelError, match=told):
        load(tmp_path / "model.safetensors", name, **changed)


def test_errors_of_a_configuration_name_its_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"a": pyapp.ones(1)})
    with pytest.raises(ModelError, match=r"model\.safetensors: the activation 'exec'"):  # there is no other file
        load(tmp_path / "model.safetensors", "llama", hidden_act="exec")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"config\.json: the activation 'exec'"):
        load(tmp_path / "model.safetensors", "llama", hidden_act="exec")


@pytest.mark.native_only
def test_index_is_what_the_modules_say() -> None:
    from scripts.model_index import TARGET, source

    assert TARGET.read_text() == source(), "run python -m scripts.model_index"
    assert {config["model_type"] for config in CONFIGS.values()} <= set(MODEL_TYPES)
    for name in set(MODEL_TYPES.values()):  # names before those of tensors
        assert isinstance(getattr(importlib.import_module(f"pyapp.models.{name}"), "BASE", ""), str | dict), name


def test_saved_configurations_are_read_again() -> None:
    """They mean the same, with transformers' names for what it would read otherwise."""

    def check(name: str) -> None:
        settings = CONFIGS[name]
        module = module_for(settings)
        config = module.Config.from_dict(settings)
        saved = json.loads(json.dumps(getattr(config, "saved", config.to_dict)()))
        assert module.Config.from_dict(saved).to_dict() == config.to_dict()
        if settings["model_type"] == "falcon":
            assert "head_dim" not in saved and saved["num_kv_heads"] == config.num_key_value_heads
        if settings["model_type"].startswith(("deepseek_v2", "deepseek_v3")):
            assert "head_dim" not in saved and saved["num_key_value_heads"] == settings["num_attention_heads"]

    check_each(check, [(name,) for name in CONFIGS])


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    """transformers 5 writes infinite limits as objects."""
    (tmp_path / "config.json").write_text(
        '{"time_step_limit": [0.0, {"__float__": "Infinity"}], "a": {"__float__": 1}}'
    )
    assert read_settings(tmp_path / "config.json") == {"time_step_limit": [0.0, math.inf], "a": {"__float__": 1}}


def test_activations_of_gemma_are_those_of_transformers() -> None:
    for given, expected in (("gelu", "gelu_pytorch_tanh"), ("silu", "silu"), (None, "gelu_pytorch_tanh")):
        assert gemma.Config.from_dict(CONFIGS["gemma"] | {"hidden_act": given}).hidden_act == expected


def test_longrope_has_its_first_context_unless_more_is_asked_for() -> None:
    """Its frequencies are others for longer texts: a short text in a cache for long ones would be read otherwise."""
    for name, expected in (("phi3", 80), ("phi3-long", 8), ("llama", 128)):
        model = make(name, 0)
        assert capacity_of(model, None) == expected and capacity_of(model, 100) == 100, name


def test_scaled_positions_lengthen_the_context() -> None:
    """Configurations with these scalings often still say the length of the first training (Qwen's for long texts)."""
    scalings: list[tuple[dict[str, Any], int]] = [
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 96}, 384),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}, 128),
        ({"rope_type": "yarn", "factor": 4.0}, 512), ({"type": "linear", "factor": 1.5}, 192),
        ({"rope_type": "dynamic", "factor": 2.0}, 256), ({"type": "linear", "factor": 1e30}, 1 << 24),
    ]  # fmt: skip
    for scaling, expected in scalings:
        model = make("llama", 0, rope_scaling=scaling)
        assert capacity_of(model, None) == 128, scaling
        assert capacity_of(model, expected) == expected, scaling
        with pytest.raises(OptionError, match="which the model can read"):
            capacity_of(model, expected + 1)


def test_fields_that_transformers_writes_beside_others() -> None:
    """Rotary positions of each kind of layers beside older ones, heads of all layers alike, no experts."""
    kinds = {kind: {"rope_type": "default", "rope_theta": 7.0} for kind in ("sliding_attention", "full_attention")}
    rotary = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0} | kinds
    found = olmo3.Config.from_dict(CONFIGS["olmo3"] | {"rope_parameters": rotary})
    assert found.rope_parameters == kinds
    alike = {name: value for name, value in CONFIGS["gemma4"].items() if name != "global_head_dim"}
    assert gemma4.Config.from_dict(alike | {"per_layer_config": {}}).global_head_dim == alike["head_dim"]
    assert jamba.Config.from_dict(CONFIGS["jamba"] | {"num_experts": 1}).num_experts_per_tok == 2
