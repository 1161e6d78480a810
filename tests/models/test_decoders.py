"""Decoder-only language models against transformers (make_golden_decoders.py): names, logits, tokens through the cache,
padding and gradients.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine.buffers import int32_tensor
from pyapp.engine.ops import indexer
from pyapp.errors import ModelError
from pyapp.formats import write_safetensors
from pyapp.models import load_model
from pyapp.nn import functional
from pyapp.nn.decoders import sparse_attention
from pyapp.nn.decoders.caches import FixedCache
from pyapp.nn.module import Module
from pyapp.text.generation.generate import Session
from tests.models.decoder_configs import CONFIGS
from tests.models.seeded import direction, draw
from tests.models.small_models import exported, golden_in, module_for
from tests.tasks.test_texts import tokenizer_json
from tests.together import fewer_in_browser

TEXT = [3, 17, 5, 60, 8, 44, 2, 9, 71, 30, 12, 1]
BATCH = [[0, 0, 0, 5, 9, 33, 21], [7, 90, 14, 2, 65, 11, 40]]
MASK = [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
golden = golden_in("golden_decoders")


def module_of(config: dict[str, Any]) -> Any:
    """The module of a configuration's architecture."""
    return module_for(config)


def make(name: str, salt: int, **changed: Any) -> Any:
    """The model of a configuration, with its seeded weights."""
    config = CONFIGS[name] | changed
    module = module_of(config)
    model = module.TASKS["causal-lm"](module.Config.from_dict(config))
    with pyapp.no_grad():
        parameters = dict(model.named_parameters())
        files = exported(model, parameters)
        plans = module.stored(model.config, files) if files is not parameters and hasattr(module, "stored") else {}
        renames = {module.renamed(name): name for name in files} if hasattr(module, "renamed") else {}
        for key, parameter in parameters.items():
            names = plans[key].names if key in plans else (renames.get(key, key),)
            values = [pyapp.from_numpy(draw(name, tuple(files[name].shape), salt)) for name in names]
            parameter.copy_(plans[key].join(values) if key in plans else values[0])
    return model


def numbers(x: pyapp.Tensor) -> np.ndarray:
    return np.asarray(x.detach().cpu().numpy(), np.float64)


@pytest.fixture(scope="module", params=fewer_in_browser(CONFIGS))
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], Module]:
    expected = golden(request.param)
    return request.param, expected, make(request.param, expected["salt"])


def test_names_and_shapes(case: Any) -> None:
    _, expected, model = case
    # What gets no gradients is a parameter here, a buffer there.
    state = {*expected["state"]}
    parameters = exported(model, dict(model.named_parameters()))
    found = {key: list(parameter.shape) for key, parameter in parameters.items() if key not in state}
    assert found == {key: shape for key, (shape, *_) in expected["parameters"].items()}
    assert set(exported(model, dict(model.state_dict()))) == {*found, *expected["state"]}


def test_logits(case: Any) -> None:
    _, expected, model = case
    with pyapp.no_grad():
        logits = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]
    np.testing.assert_allclose(logits[[0, -1]].reshape(-1), expected["logits"], **CLOSE)


def test_padding(case: Any) -> None:
    _, expected, model = case
    with pyapp.no_grad():
        logits = model(pyapp.tensor(BATCH, dtype="int32"), pyapp.tensor(MASK, dtype="int32"))
    np.testing.assert_allclose(numbers(logits)[:, -1].reshape(-1), expected["padded"], **CLOSE)


def test_greedy_tokens_through_the_cache(case: Any) -> None:
    _, expected, model = case
    session = Session(model, capacity=len(TEXT) + len(expected["tokens"]))
    logits, found = session.feed(TEXT), []
    for _ in expected["tokens"]:
        found.append(int(numbers(logits).argmax()))
        logits = session.step(found[-1])
    assert found == expected["tokens"]


def test_whole_text_and_cache_agree(case: Any) -> None:
    _, _, model = case
    cache = model.new_cache(len(TEXT))
    with pyapp.no_grad():
        whole = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]
        parts = [
            numbers(model.forward_cached(int32_tensor(TEXT[a:b], model.device), int32_tensor([a], model.device), cache,
                    last_only=False))
            for a, b in ((0, 5), (5, 6), (6, len(TEXT)))
        ]  # fmt: skip
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)


def test_gradients(case: Any) -> None:
    _, expected, model = case
    model.requires_grad_()
    model.zero_grad()
    loss = functional.cross_entropy(model(pyapp.tensor([TEXT[:-1]], dtype="int32"))[0], pyapp.tensor(TEXT[1:]))
    assert abs(loss.item() - expected["loss"]) < 1e-4
    loss.backward()
    parameters = dict(model.named_parameters())
    assert all(parameters[key].grad is None for key in expected["state"] if key in parameters)
    grads = {
        key: pyapp.zeros(*parameter.shape) if parameter.grad is None else parameter.grad
        for key, parameter in parameters.items() if key not in expected["state"]
    }  # fmt: skip
    for key, gradient in exported(model, grads).items():
        grad = numbers(gradient)
        _, total, product = expected["parameters"][key]
        np.testing.assert_allclose(
            [grad.sum(), (grad * direction(key, grad.shape)).sum()], [total, product], rtol=2e-3, atol=2e-4, err_msg=key
        )
    model.zero_grad()
    model.requires_grad_(False)


def test_texts_in_a_batch_decode_as_alone(case: Any) -> None:
    """Two texts of unequal lengths: prompts by themselves, then one token of each in one pass."""
    _, _, model = case
    cache, texts, starts = model.new_cache(12, texts=2), [TEXT[:9], TEXT[4:9]], [8, 4]
    with pyapp.no_grad():
        for slot, (text, start) in enumerate(zip(texts, starts, strict=True)):
            model.forward_cached(int32_tensor(text[:start]), int32_tensor([0]), cache.text(slot))
        tokens = int32_tensor([text[-1] for text in texts]).reshape(2, 1)
        found = numbers(model.forward_cached(tokens, int32_tensor(starts), cache, last_only=False))[:, 0]
        alone = [
            numbers(model.forward_cached(int32_tensor(text), int32_tensor([0]), model.new_cache(12)))[0]
            for text in texts
        ]
    np.testing.assert_allclose(found, alone, **CLOSE)


def test_pieces_of_texts_in_one_pass_are_as_alone(case: Any) -> None:
    """The next tokens of two texts beside the rest of one prompt and the whole of another, in blocks out of order."""
    _, _, model = case
    texts, reads = [TEXT[:6], TEXT[2:9], TEXT, TEXT[3:8]], [1, 1, 5, 5]  # the last `reads` tokens are in the pass
    starts = [len(text) - count for text, count in zip(texts, reads, strict=True)]
    cache = model.new_cache(4, texts=1).paged(4, 13, 4, 12)
    with pyapp.no_grad():
        for slot, (text, start) in enumerate(zip(texts, starts, strict=True)):
            cache.place(slot, 0, [1 + slot, 9 - slot, 9 + slot])
            if start:
                own = cache.packed([(slot, start)], [start - 1])
                tokens, at = int32_tensor(text[:start]).reshape(start, 1), int32_tensor(list(range(start)))
                model.forward_cached(tokens, at, own)
        tokens = [token for text, start in zip(texts, starts, strict=True) for token in text[start:]]
        places = [at for text, start in zip(texts, starts, strict=True) for at in range(start, len(text))]
        together = cache.packed(list(enumerate(reads)), [0, 1, 6, 11])
        rows = int32_tensor(tokens).reshape(len(tokens), 1)
        found = numbers(model.forward_cached(rows, int32_tensor(places), together))[:, 0]  # (4, V)
        alone = [
            numbers(model.forward_cached(int32_tensor(text), int32_tensor([0]), model.new_cache(12)))[0]
            for text in texts
        ]
    np.testing.assert_allclose(found, alone, **CLOSE)


def test_sparse_attention_in_pieces_and_of_q8_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long prompts attend a few tokens at a time; rows of a cache in q8_0 become numbers after they are chosen."""
    expected = golden("glm_moe_dsa-sparse")
    model = make("glm_moe_dsa-sparse", expected["salt"])
    for module in (sparse_attention, indexer):
        monkeypatch.setattr(module, "NUMBERS", 200)
    with pyapp.no_grad():
        cache = model.new_cache(20)
        logits = numbers(model.forward_cached(int32_tensor(TEXT), int32_tensor([0]), cache, last_only=False))
    np.testing.assert_allclose(logits[[0, -1]].reshape(-1), expected["logits"], **CLOSE)
    cache = FixedCache(3, 1, 40, "q8_0")
    rows = pyapp.from_numpy(draw("rows", (3, 1, 40), 1))
    cache.write(rows, rows, int32_tensor([0]))
    found = sparse_attention.numbers_of(cache.keys.reshape(3, -1), 40)
    np.testing.assert_array_equal(numbers(found), numbers(cache.stored(3)[0]).reshape(3, 40))


def test_phi4_multimodal_is_read_as_its_language_model(tmp_path: Path) -> None:
    """Without the parts that see and hear, and without the adapters beside the matrices."""
    expected = golden("phi3")
    values = {name: draw(name, tuple(shape), expected["salt"]) for name, (shape, *_) in expected["parameters"].items()}
    written = {
        name.replace("_proj.", "_proj.base_layer."): pyapp.from_numpy(value) for name, value in values.items()
    } | {
        name: pyapp.zeros(2, 3)
        for name in ("model.layers.0.mlp.down_proj.lora_A.speech.weight", "model.embed_tokens_extend.image_embed.proj")
    }
    write_safetensors(tmp_path / "model.safetensors", written)
    config = CONFIGS["phi3"] | {"model_type": "phi4mm", "architectures": ["Phi4MMForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    with pyapp.no_grad():
        model: Any = load_model(str(tmp_path)).model
        logits = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]
    np.testing.assert_allclose(logits[[0, -1]].reshape(-1), expected["logits"], **CLOSE)


def test_based_is_read_from_its_authors_files(tmp_path: Path) -> None:
    """Their config.json has GPT-2's names and does not say the architecture; queries, keys and values are in one."""
    expected, config = golden("based"), CONFIGS["based"]
    values = {name: draw(name, tuple(shape), expected["salt"]) for name, (shape, *_) in expected["parameters"].items()}
    at = "transformer.layers.2.mixer."
    joined = np.concatenate([values.pop(f"{at}{part}_proj.weight") for part in "qkv"])
    values |= {
        f"{at}Wqkv.weight": joined, "transformer.embeddings.word_embeddings.weight": values["transformer.wte.weight"],
        "transformer.layers.0.mixer.conv.conv.weight": values.pop("transformer.layers.0.mixer.conv.weight"),
        "lm_head.weight": values.pop("transformer.wte.weight"),
    }  # fmt: skip
    write_safetensors(tmp_path / "model.safetensors", {key: pyapp.from_numpy(value) for key, value in values.items()})
    (tmp_path / "config.json").write_text(json.dumps({
        "vocab_size": config["vocab_size"] - 3, "pad_vocab_size_multiple": 8, "n_embd": config["hidden_size"],
        "n_layer": 3, "n_head": config["num_attention_heads"], "n_inner": config["intermediate_size"],
        "layer_norm_epsilon": 1e-5, "activation_function": "swiglu", "rms_norm": True, "max_position_embeddings": 0,
        "mixer": {"expand_proj": 4, "kernel_size": 3}, "alt_mixer": {"feature_dim": 3, "num_heads": 2},
        "alt_mixer_2": {"window_size": 12, "num_heads": 4}, "alt_mixer_layers": [1], "alt_mixer_2_layers": [2],
    }))  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    with pyapp.no_grad():
        model: Any = load_model(str(tmp_path)).model
        logits = numbers(model(pyapp.tensor([TEXT], dtype="int32")))[0]
    np.testing.assert_allclose(logits[[0, -1]].reshape(-1), expected["logits"], **CLOSE)


def test_stablelm_is_read_under_its_older_name() -> None:
    config = CONFIGS["stablelm"]
    older = {name: value for name, value in config.items() if name != "partial_rotary_factor"}
    older |= {"model_type": "stablelm_epoch", "rope_pct": config["partial_rotary_factor"], "norm_eps": 1e-5}
    own = module_of(older).Config
    assert own.from_dict(older) == own.from_dict(config)


def test_fields_that_an_architecture_does_not_have_are_ignored() -> None:
    """Each head has its own keys and values, whatever a config.json says; MiMo's share of rotated features is that of
    plain angles.
    """
    both = {"num_key_value_heads": 1, "head_dim": 4}
    for name in ("opt", "biogpt", "xglm", "bloom"):
        own = module_of(CONFIGS[name]).Config
        assert own.from_dict(CONFIGS[name] | both) == own.from_dict(CONFIGS[name]), name
    for name in ("gpt_neox", "persimmon"):
        own = module_of(CONFIGS[name]).Config
        assert own.from_dict(CONFIGS[name] | {"num_key_value_heads": 1}) == own.from_dict(CONFIGS[name]), name
    yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000.0, "original_max_position_embeddings": 32}
    kinds = {"full_attention": yarn, "sliding_attention": {"rope_type": "default", "rope_theta": 1000.0}}
    config = CONFIGS["mimo_v2_flash"] | {"rope_parameters": kinds}
    found = module_of(config).Config.from_dict(config).rope_parameters
    assert [own.get("partial_rotary_factor") for own in found.values()] == [None, 0.334]


def test_apertus_with_the_weights_of_another_activation_is_refused(tmp_path: Path) -> None:
    expected = golden("apertus")
    values = {name: pyapp.zeros(*shape) for name, (shape, *_) in expected["parameters"].items()}
    write_safetensors(tmp_path / "model.safetensors", values)
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["apertus"] | {"hidden_act": "silu"}))
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    with pytest.raises(ModelError, match="hidden_act is 'silu', and the file has the weights of xielu"):
        load_model(str(tmp_path))


def test_dory_is_read_in_the_layout_of_its_authors() -> None:
    """Attention and feed-forward are layers of their own, in the names of weights and in config.json."""
    module, config = module_of(CONFIGS["dory"]), CONFIGS["dory"]
    pairs = {
        "backbone.layers.2.mixer.g_proj.weight": "model.layers.1.self_attn.gate_proj.weight",
        "backbone.layers.3.mixer.up_proj.weight": "model.layers.1.mlp.up_proj.weight",
        "backbone.layers.3.mlp_alpha": "model.layers.1.lambda_2",
        "backbone.layers.2.attn_alpha": "model.layers.1.lambda_1",
        "backbone.embeddings.weight": "model.embed_tokens.weight", "lm_head.logit_scale": "lm_head.logit_scale",
    }  # fmt: skip
    assert {name: module.renamed(name) for name in pairs} == pairs
    doubled = {"layer_types": [part for kind in config["layer_types"] for part in (kind, "mlp")]} | {
        name: 2 * config[name] for name in ("num_hidden_layers", "n_input_layers", "n_output_layers")
    }
    assert module.Config.from_dict(config | doubled) == module.Config.from_dict(config)


def test_uses_of_a_shared_block_are_tied_as_embeddings_are() -> None:
    for name, block in (("zamba", "shared_transf"), ("zamba2", "shared_transformer")):
        module = module_of(CONFIGS[name])
        for tied in (True, False):
            config = module.Config.from_dict(CONFIGS[name] | {"tie_word_embeddings": tied})
            layers = module.TASKS["causal-lm"](config).model.layers
            blocks = [layer.get_submodule(block) for layer in layers if block in layer._modules]
            count = getattr(config, "num_mem_blocks", 1) if tied else len(blocks)
            assert len({id(one) for one in blocks}) == count, (name, tied)
