"""Models with an encoder and a decoder against transformers (make_golden_sequences.py): names, logits, gradients, the
cache, and the texts of greedy and beam search.
"""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.models._index import MODEL_TYPES
from pyapp.nn.sequence_to_sequence import CachedMemory
from pyapp.text.sequence_to_sequence import SearchOptions, search
from tests.models.seeded import direction, draw
from tests.models.sequence_configs import CONFIGS, IDS, MASK, MOST, QUANTISED, SEARCHES, TEXTS

FOLDER = Path(__file__).with_name("golden_sequences")


@cache
def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def module_of(name: str) -> Any:
    return importlib.import_module(f"pyapp.models.{MODEL_TYPES[CONFIGS[name]['model_type']]}")


def make(name: str, **changes: Any) -> Any:
    module = module_of(name)
    settings = CONFIGS[name] | changes
    settings = module.adapted(settings, {}) if hasattr(module, "adapted") else settings
    model = module.TASKS["seq2seq-lm"](module.Config.from_dict(settings))
    with pyapp.no_grad():
        for key, parameter in model.named_parameters(remove_duplicate=False):
            if key in golden(name)["parameters"]:
                scale = 4.0 if "shared" in key or "embed_tokens" in key else 1.0
                values = draw(key, tuple(parameter.shape), golden(name)["salt"])
                parameter.copy_(pyapp.from_numpy((scale * values).astype(np.float32)))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(pyapp.from_numpy(draw("bias", model.final_logits_bias.shape)))
    return model


def sources() -> tuple[pyapp.Tensor, pyapp.Tensor]:
    return pyapp.tensor(IDS, dtype="int32"), pyapp.tensor(MASK, dtype="int32")


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients_are_those_of_transformers(name: str) -> None:
    model, expected = make(name).requires_grad_(), golden(name)
    found = dict(model.named_parameters(remove_duplicate=False))
    assert {key: list(found[key].shape) for key in expected["parameters"]} == {
        key: shape for key, (shape, _) in expected["parameters"].items()
    }
    assert {id(found[key]) for key in expected["parameters"]} == {id(parameter) for parameter in model.parameters()}
    ids, mask = sources()
    logits = model(ids, pyapp.tensor(TEXTS), mask)
    picked = np.stack([logits.detach().numpy()[:, 0], logits.detach().numpy()[:, -1]], 1)
    np.testing.assert_allclose(picked.reshape(-1), expected["logits"], atol=1e-4)
    (logits * pyapp.tensor(direction("logits", logits.shape).astype(np.float32))).sum().backward()
    for key, (_, product) in expected["parameters"].items():
        grad = found[key].grad.numpy().astype(np.float64)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=1e-3, atol=2e-3, err_msg=key
        )


@pytest.mark.parametrize("name", CONFIGS)
def test_the_cache_gives_the_logits_of_whole_texts(name: str) -> None:
    """Two hypotheses of each source that change places at every step."""
    model, (ids, mask) = make(name), sources()
    with pyapp.no_grad():
        whole = model(ids, pyapp.tensor(TEXTS), mask).numpy()
        memory = CachedMemory(model.encode(ids, mask), mask, 2, len(TEXTS[0]))
        for step in range(len(TEXTS[0])):
            tokens = pyapp.tensor([[TEXTS[row][step]] for row in (0, 0, 1, 1)])
            found = model.decode(tokens, memory).numpy()[:, 0]
            np.testing.assert_allclose(found, whole[[0, 0, 1, 1], step], atol=1e-4)
            memory.advance([1, 0, 3, 2])
        with pytest.raises(IndexError, match="do not fit"):
            model.decode(pyapp.tensor([[1]] * 4), memory)


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", CONFIGS)
def test_searches_find_the_texts_of_transformers(name: str, kind: str) -> None:
    model = cached_model(name)
    ends = {"t5": 1, "bart": 2, "mbart": 2, "marian": 0}[CONFIGS[name]["model_type"]]
    config = model.config.to_dict() | {"eos_token_id": ends}
    options = SearchOptions.from_files(config, {}, {"max_new_tokens": MOST} | SEARCHES[kind])
    *steps, found = search(model, *sources(), options)
    assert found == golden(name)["searches"][kind]
    assert len(steps) < MOST and set(steps) <= {None}


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_memory_grows_with_the_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.nn.sequence_to_sequence.FIRST_CAPACITY", 3)
    test_searches_find_the_texts_of_transformers(name, "beams")
    test_the_cache_gives_the_logits_of_whole_texts(name)


@cache
def cached_model(name: str) -> Any:
    return make(name)


def test_padding_of_texts_is_hidden() -> None:
    model, (ids, mask) = make("bart"), sources()
    with pyapp.no_grad():
        alone = model(ids, pyapp.tensor(TEXTS)[:, :3], mask).numpy()
        padded = model(ids, pyapp.tensor(TEXTS), mask, pyapp.tensor([[1, 1, 1, 0, 0]] * 2)).numpy()
    np.testing.assert_allclose(padded[:, :3], alone, atol=1e-5)


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    model, (ids, mask) = make(name, d_model=32, d_ff=64, d_kv=8), sources()
    with pyapp.no_grad():
        exact = model(ids, pyapp.tensor(TEXTS), mask).numpy()
        assert nn.quantize(model, "q8_0")
        found = model(ids, pyapp.tensor(TEXTS), mask).numpy()
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


@pytest.mark.parametrize(
    "change",
    [{"num_beams": 0}, {"num_beams": 65}, {"length_penalty": float("nan")}, {"early_stopping": "late"},
     {"repetition_penalty": 0}, {"bad_words_ids": [[]]}, {"bad_words_ids": "no"}, {"colour": 1},
     {"max_new_tokens": 0}, {"forced_bos_token_id": -1}],
)  # fmt: skip
def test_wrong_options_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        SearchOptions.from_files({"eos_token_id": 1, "decoder_start_token_id": 0}, {}, change)


def test_files_of_options() -> None:
    """generation_config.json has priority over config.json, and what the caller says over both."""
    config = {"eos_token_id": 2, "decoder_start_token_id": 0, "num_beams": 3, "max_length": 9, "length_penalty": 2.0}
    found = SearchOptions.from_files(config, {"num_beams": 4, "eos_token_id": [2, 5]}, {"length_penalty": 0.5})
    assert (found.num_beams, found.max_new_tokens, found.length_penalty, found.eos_token_ids) == (4, 8, 0.5, (2, 5))
    with pytest.raises(OptionError, match="eos_token_id"):
        SearchOptions.from_files({}, {}, {})
    forced = SearchOptions.from_files(config, {}, {"forced_bos_token_id": 1000})
    with pytest.raises(OptionError, match="token 1000 is none of 40"):
        list(search(cached_model("bart"), *sources(), forced))


def test_hostile_configurations_and_shapes_are_refused() -> None:
    for name, change in (("bart", {"encoder_attention_heads": 3}), ("t5", {"num_layers": 10**9}),
                         ("t5", {"feed_forward_proj": "gated-"}), ("t5", {"relative_attention_num_buckets": 2}),
                         ("marian", {"pad_token_id": 40}), ("mbart", {"activation_function": "none"})):  # fmt: skip
        with pytest.raises(ModelError):
            make(name, **change)
    model, (ids, mask) = cached_model("bart"), sources()
    with pytest.raises(ArgumentError, match="T from 1 to 40"):
        model(pyapp.ones(1, 41, dtype="int32"), ids[:1])
    with pytest.raises(ArgumentError, match="a mask is"):
        model(ids, ids, mask[:1])
