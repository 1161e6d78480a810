"""Models with an encoder and a decoder against transformers (make_golden_sequences.py): names, logits, gradients, the
cache, and the texts of greedy and beam search.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ArgumentError, ModelError, OptionError
from pyapp.nn.positions.relative_positions import distance_buckets
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models.seeded import direction, draw
from tests.models.sequence_configs import (
    CONFIGS,
    HEAD_IDS,
    HEAD_MASK,
    HEAD_TOKENS,
    HEADS,
    IDS,
    MASK,
    MOST,
    QUANTISED,
    SEARCHES,
    TEXTS,
)
from tests.models.small_models import along, exported, golden_in, module_for

golden = golden_in("golden_sequences")


def module_of(name: str) -> Any:
    return module_for(CONFIGS[name])


def make(name: str, **changes: Any) -> Any:
    module = module_of(name)
    settings = CONFIGS[name] | changes
    settings = module.adapted(settings, {}) if hasattr(module, "adapted") else settings
    model = module.TASKS["seq2seq-lm"](module.Config.from_dict(settings))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    files = exported(model, parameters)
    plans = {} if files is parameters else module.stored(model.config, files)

    def drawn(key: str) -> pyapp.Tensor:
        scale = 4.0 if "shared" in key or "embed_tokens" in key else 1.0
        values = draw(key, tuple(files[key].shape), golden(name)["salt"])
        return pyapp.from_numpy((scale * values).astype(np.float32))

    with pyapp.no_grad():
        for key, parameter in parameters.items():
            if key in plans:
                parameter.copy_(plans[key].values(pyapp.cat([drawn(own) for own in plans[key].names])))
            elif key in golden(name)["parameters"]:
                parameter.copy_(drawn(key))
        if getattr(model, "final_logits_bias", None) is not None:
            model.final_logits_bias.copy_(pyapp.from_numpy(draw("bias", model.final_logits_bias.shape)))
    return model


def sources() -> tuple[pyapp.Tensor, pyapp.Tensor]:
    return pyapp.tensor(IDS, dtype="int32"), pyapp.tensor(MASK, dtype="int32")


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients_are_those_of_transformers(name: str) -> None:
    model, expected = make(name).requires_grad_(), golden(name)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    found = exported(model, parameters)
    assert {key: list(found[key].shape) for key in expected["parameters"]} == {
        key: shape for key, (shape, _) in expected["parameters"].items()
    }
    known = {*expected["parameters"]}
    missing = {key for key in {*found} - known if all(found[key] is not found[one] for one in known)}
    ids, mask = sources()
    logits = model(ids, pyapp.tensor(TEXTS), mask)
    picked = np.stack([logits.detach().numpy()[:, 0], logits.detach().numpy()[:, -1]], 1)
    np.testing.assert_allclose(picked.reshape(-1), expected["logits"], atol=1e-4)
    along(logits, "logits").backward()
    grads = exported(model, {key: parameter.grad for key, parameter in parameters.items()})
    assert all((grads[key] == 0).all() for key in missing)  # experts that no token has
    for key, (_, product) in expected["parameters"].items():
        grad = grads[key].numpy().astype(np.float64)
        np.testing.assert_allclose(
            (grad * direction(key, grad.shape)).sum(), product, rtol=1e-3, atol=2e-3, err_msg=key
        )


@pytest.mark.parametrize("name", CONFIGS)
def test_the_cache_gives_the_logits_of_whole_texts(name: str) -> None:
    """Two hypotheses of each source that change places at every step. Experts have room for all tokens of a text."""
    model, (ids, mask) = make(name, expert_capacity=64), sources()
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
    config = model.config.to_dict() | {"forced_eos_token_id": None}
    settings = SearchOptions.from_files(config, {}, {"max_new_tokens": MOST} | SEARCHES[kind])
    *steps, found = search(model, *sources(), settings)
    assert found == golden(name)["searches"][kind]
    assert len(steps) < MOST and set(steps) <= {None}


@pytest.mark.parametrize(("name", "task"), HEADS)
def test_heads_are_those_of_transformers(name: str, task: str) -> None:
    module = module_of(name)
    labels = {"id2label": {"0": "no", "1": "perhaps", "2": "yes"}}
    model, expected = (
        module.TASKS[task](module.Config.from_dict(CONFIGS[name] | HEAD_TOKENS | labels)),
        golden(f"{name}_heads")[task],
    )
    with pyapp.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(pyapp.from_numpy(draw(key, tuple(parameter.shape))))
    ids = pyapp.tensor(HEAD_IDS)
    outputs = model.requires_grad_()(ids, pyapp.tensor(HEAD_MASK))
    np.testing.assert_allclose(outputs.detach().numpy().reshape(-1), expected["outputs"], atol=1e-4)
    along(outputs, task).backward()
    found = dict(model.named_parameters())
    assert set(expected["parameters"]) == set(found)
    for key, product in expected["parameters"].items():
        grad = found[key].grad.numpy().astype(np.float64)
        assert abs((grad * direction(key, grad.shape)).sum() - product) < 2e-3 + 1e-3 * abs(product), key
    if task == "sequence-classification":
        with pytest.raises(ArgumentError, match="no end token"):
            model(pyapp.tensor([[5, 6]]))


@pytest.mark.parametrize("name", ["t5", "marian", "t5gemma2"])
def test_memory_grows_with_the_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.nn.sequence_to_sequence.sequence_to_sequence.FIRST_CAPACITY", 3)
    test_searches_find_the_texts_of_transformers(name, "beams")
    test_the_cache_gives_the_logits_of_whole_texts(name)


def test_long_sources_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.models.longt5.MOST_BIASES", 1)
    test_logits_and_gradients_are_those_of_transformers("longt5_global")


def test_sources_shorter_than_a_block_have_no_sums() -> None:
    model = cached_model("longt5_global")
    with pyapp.no_grad():
        alone = model.encode(pyapp.tensor([[5]], dtype="int32")).numpy()
        padded = model.encode(pyapp.tensor([[5, 1, 1]], dtype="int32"), pyapp.tensor([[1, 0, 0]])).numpy()
    np.testing.assert_allclose(padded[:, :1], alone, atol=1e-5)


@cache
def cached_model(name: str) -> Any:
    return make(name)


def test_padding_of_texts_is_hidden() -> None:
    model, (ids, mask) = make("bart"), sources()
    with pyapp.no_grad():
        alone = model(ids, pyapp.tensor(TEXTS)[:, :3], mask).numpy()
        padded = model(ids, pyapp.tensor(TEXTS), mask, pyapp.tensor([[1, 1, 1, 0, 0]] * 2)).numpy()
    np.testing.assert_allclose(padded[:, :3], alone, atol=1e-5)


def test_the_encoder_of_t5_alone() -> None:
    """Sentence-T5's hidden states are those of the whole model's encoder."""
    whole, module, (ids, mask) = make("t5"), module_of("t5"), sources()
    alone = module.TASKS["features"](whole.config)
    missing, more = alone.load_state_dict(whole.state_dict(), strict=False)
    assert not missing and all(name.startswith(("decoder.", "lm_head.")) for name in more)
    with pyapp.no_grad():
        assert (alone(ids, mask) == whole.encode(ids, mask)).all()


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_weights_run(name: str) -> None:
    sizes = {"d_ff": 64, "d_kv": 8} if "t5" in name else {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    model, (ids, mask) = make(name, d_model=32, **sizes), sources()
    with pyapp.no_grad():
        exact = model(ids, pyapp.tensor(TEXTS), mask).numpy()
        assert nn.quantize(model, "q8_0")
        found = model(ids, pyapp.tensor(TEXTS), mask).numpy()
    assert 0 < np.abs(found - exact).max() < 0.2 * np.abs(exact).max()


@pytest.mark.parametrize(
    "change",
    [{"num_beams": 0}, {"num_beams": 65}, {"length_penalty": float("nan")}, {"early_stopping": "late"},
     {"repetition_penalty": 0}, {"bad_words_ids": [[]]}, {"bad_words_ids": "no"}, {"colour": 1},
     {"max_new_tokens": 0}, {"forced_bos_token_id": -1}, {"decoder_start_token_id": 1 << 40}],
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
    with pytest.raises(OptionError, match="forced_bos_token_id: the model has no token 1000"):
        list(search(cached_model("bart"), *sources(), forced))
    begun = SearchOptions.from_files(config, {}, {"decoder_start_token_id": 1000})
    with pytest.raises(OptionError, match="decoder_start_token_id: the model has no token 1,000"):
        list(search(cached_model("bart"), *sources(), begun))


# The buckets that transformers (T5Attention._relative_position_bucket) gives keys so many tokens before the query.
DISTANCES = (0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 15, 16, 17, 19, 20, 30, 60, 200)
BUCKETS = {
    (True, 32, 16): (0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 15, 15, 15, 15, 15, 15, 15, 15),
    (True, 30, 20): (0, 1, 2, 3, 5, 7, 8, 8, 9, 11, 12, 13, 13, 14, 14, 14, 14, 14),
    (True, 7, 3): (0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
    (False, 32, 20): (0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 15, 16, 20, 28, 31, 31, 31, 31),
    (False, 10, 64): (0, 1, 2, 3, 5, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 8, 9, 9),
    # transformers computes nothing for distances of 16 and more here.
    (False, 32, 16): (0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 15, 31, 31, 31, 31, 31, 31, 31),
}


def test_buckets_of_any_number_and_distance() -> None:
    for (both, buckets, most), expected in BUCKETS.items():
        found = distance_buckets(1, 201, buckets, most, both, first=200).numpy()[0]  # key s is 200 - s tokens before
        assert tuple(found[200 - distance] for distance in DISTANCES) == expected, (both, buckets, most)
    model = make("t5", relative_attention_num_buckets=30, relative_attention_max_distance=15)
    ids, mask = sources()
    assert model(ids, pyapp.tensor(TEXTS, dtype="int32"), mask).isfinite().all()


def test_hostile_configurations_and_shapes_are_refused() -> None:
    for name, change in (("bart", {"encoder_attention_heads": 3}), ("t5", {"num_layers": 10**9}),
                         ("t5", {"feed_forward_proj": "gated-"}), ("t5", {"relative_attention_num_buckets": 2}),
                         ("t5gemma2", {"encoder": {"text_config": 3}}), ("t5gemma2", {"eoi_token_index": "last"}),
                         ("t5gemma2", {"tie_word_embeddings": False}), ("t5gemma2", {"decoder": {"hidden_size": 8}}),
                         ("switch_transformers", {"num_experts": 1 << 20}),
                         ("switch_transformers", {"is_gated_act": True}),
                         ("longt5", {"encoder_attention_type": "far"}), ("longt5", {"local_radius": 1 << 20}),
                         ("marian", {"pad_token_id": 40}),
                         ("marian_two_vocabularies", {"decoder_vocab_size": 3}), ("t5", {"decoder_start_token_id": 40}),
                         ("t5gemma", {"decoder": [1]}),
                         ("t5gemma", {"encoder": {"head_dim": 1 << 40}}), ("t5gemma", {"bos_token_id": "first"}),
                         ("m2m_100", {"d_model": 2, "decoder_attention_heads": 1, "encoder_attention_heads": 1}),
                         ("mbart", {"activation_function": "none"})):  # fmt: skip
        with pytest.raises(ModelError):
            make(name, **change)
    model, (ids, mask) = cached_model("bart"), sources()
    with pytest.raises(ArgumentError, match="T from 1 to 40"):
        model(pyapp.ones(1, 41, dtype="int32"), ids[:1])
    with pytest.raises(ArgumentError, match="a mask is"):
        model(ids, ids, mask[:1])


def test_the_activation_beside_the_name_of_both_counts() -> None:
    """T5's feed_forward_proj names gate and activation; transformers writes both beside it, and reads them there."""
    ids, mask = sources()
    for form, same in (
        ({"dense_act_fn": "silu"}, {"feed_forward_proj": "gated-silu"}),
        ({"feed_forward_proj": "gelu", "dense_act_fn": "gelu_new", "is_gated_act": True}, {}),
    ):
        with pyapp.no_grad():
            found, wanted = (
                make("flan_t5", **change)(ids, pyapp.tensor(TEXTS), mask).numpy() for change in (form, same)
            )
        np.testing.assert_array_equal(found, wanted)
