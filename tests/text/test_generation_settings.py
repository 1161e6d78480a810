"""Settings of generation against transformers (golden_generation.json), and several texts of one prompt."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Progress, Token
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler, log_probabilities
from pyapp.text.generation.several import generate_several
from pyapp.text.generation.speculation import DraftModel, PromptLookup
from tests.text.parrot import Parrot
from tests.text.small_model import write_model
from tests.text.table_model import EOS, VOCABULARY, TableModel, TableTokenizer, logit
from tests.together import check_each

GOLDEN = json.loads(Path(__file__).with_name("golden_generation.json").read_text())
TOKENIZER: Any = TableTokenizer()


def options_of(**settings: Any) -> SamplingOptions:
    plain = {"temperature": 0.0, "top_p": 1.0, "max_new_tokens": 8}
    return SamplingOptions.from_dict(plain | settings)


def run(prompt: str = "c", model: Any = None, **settings: Any) -> list[Event]:
    return list(generate(Session(model or TableModel()), TOKENIZER, prompt, options_of(**settings)))


def tokens_of(events: list[Event]) -> list[int]:
    return [event.id for event in events if isinstance(event, Token) and event.id is not None]


def done_of(events: list[Event]) -> Done:
    assert isinstance(events[-1], Done)
    return events[-1]


@pytest.mark.parametrize("case", GOLDEN["steps"], ids=lambda case: str(case["settings"]))
def test_settings_draw_what_transformers_draws(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    last = GOLDEN["text"][-1]
    logits = Tensor.from_buffer(bytes(4 * VOCABULARY), (VOCABULARY,), "float32")
    logits.assign([logit(last, token) for token in range(VOCABULARY)])
    sampler = Sampler(options_of(**case["settings"]), VOCABULARY, 64, ends=(EOS,))
    sampler.accept(GOLDEN["prompt"], prompt=True)
    for token in GOLDEN["text"]:
        sampler.accept([token])
    draws = iter(GOLDEN["draws"])
    monkeypatch.setattr(sampler._uniform, "draw", lambda: next(draws))
    assert [sampler.sample(logits) for _ in case["tokens"]] == case["tokens"]


@pytest.mark.parametrize("case", GOLDEN["beams"], ids=lambda case: str(case["settings"]))
def test_beams_find_what_transformers_finds(case: dict[str, Any]) -> None:
    model = TableModel()
    found = list(generate_several(model, TOKENIZER, "c", options_of(**case["settings"])))
    texts = done_of(found).results["texts"]
    assert [text["tokens"] for text in texts] == [text["tokens"] for text in case["texts"]]
    for text, expected in zip(texts, case["texts"], strict=True):
        assert math.isclose(text["score"], expected["score"], rel_tol=1e-4)
        written = [event for event in found if isinstance(event, Token) and event.sample == texts.index(text)]
        assert text["text"] == "".join(event.text for event in written)
    assert model.passes[0] == 2  # the prompt is read once


# transformers' names of settings of generation_config.json that have others here.
OWN_NAMES = {"no_repeat_ngram_size": "no_repeat_ngram"}


def test_greedy_texts_are_those_of_transformers() -> None:
    def check(case: dict[str, Any]) -> None:
        settings = {name: value for name, value in case["settings"].items() if name != "forced_bos_token_id"}
        settings = {OWN_NAMES.get(name, name): value for name, value in settings.items()}
        events = run(**settings)
        ended = [EOS] if done_of(events).reason == "stop" else []
        assert tokens_of(events) + ended == case["tokens"]
        several = done_of(list(generate_several(TableModel(), TOKENIZER, "c", options_of(samples=2, **settings))))
        text = "".join(event.text for event in events if isinstance(event, Token))
        assert {found["text"] for found in several.results["texts"]} == {text}

    check_each(check, [(case,) for case in GOLDEN["greedy"]])


def test_no_new_tokens() -> None:
    for events in (
        run(max_new_tokens=0),
        list(generate_several(TableModel(), TOKENIZER, "c", options_of(samples=2, max_new_tokens=0))),
    ):
        assert not tokens_of(events) and done_of(events).results["new_tokens"] == 0


def test_beams_end_at_stop_strings() -> None:
    settings = {"beams": 3, "samples": 3, "stop": ["sg"], "logit_bias": {"2": -8.0}, "max_new_tokens": 12}
    texts = done_of(list(generate_several(TableModel(), TOKENIZER, "c", options_of(**settings)))).results["texts"]
    assert {text["reason"] for text in texts} >= {"stop_string"}
    for text in texts:
        whole = "".join(TOKENIZER.letters[token] for token in text["tokens"] if token > EOS)
        if text["reason"] == "stop_string":  # the stop string is not part of the text
            assert whole == text["text"] + "sg"


def test_beams_over_nan() -> None:
    model = TableModel()
    model.table.fill_(math.nan)
    with pytest.raises(ModelError, match="NaN"):
        list(generate_several(model, TOKENIZER, "c", options_of(beams=2)))


def test_log_probabilities() -> None:
    events = [event for event in run(logprobs=3) if isinstance(event, Token) and event.id is not None]
    before = TOKENIZER.encode("c")[-1]
    for event in events:
        weights = [math.exp(logit(before, token)) for token in range(VOCABULARY)]
        expected = [math.log(weight / sum(weights)) for weight in weights]
        best = sorted(range(VOCABULARY), key=lambda token: -expected[token])[:3]
        assert event.id is not None and event.logprob is not None and event.top_logprobs is not None
        assert math.isclose(event.logprob, expected[event.id], rel_tol=1e-4)
        assert [entry["id"] for entry in event.top_logprobs] == best
        assert event.top_logprobs[0]["text"] == TOKENIZER.token_bytes(best[0]).decode()
        assert event.to_dict()["top_logprobs"][2]["logprob"] == pytest.approx(expected[best[2]], rel=1e-4)
        before = event.id
    (event, *_) = (event for event in run(logprobs=0) if isinstance(event, Token))
    assert event.logprob is not None and "top_logprobs" not in event.to_dict()
    certain = Tensor.from_buffer(bytes(8), (2,), "float32")
    certain.assign([0.0, -math.inf])
    assert log_probabilities(certain, 0, 2) == (0.0, [(0, 0.0), (1, -math.inf)])
    assert Token("", 1, 0, logprob=-math.inf).to_dict()["logprob"] is None


def test_stop_tokens_end_a_text() -> None:
    whole = tokens_of(run())
    events = run(stop_tokens=[whole[2]])
    assert tokens_of(events) == whole[: whole.index(whole[2])] and done_of(events).reason == "stop"


def test_samples_are_the_texts_of_their_seeds() -> None:
    settings: dict[str, Any] = {"temperature": 1.3, "seed": 7, "frequency_penalty": 0.5}
    model = TableModel()
    events = list(generate_several(model, TOKENIZER, "cd", options_of(samples=4, **settings)))
    texts = done_of(events).results["texts"]
    for number, text in enumerate(texts):
        alone = run("cd", **(settings | {"seed": 7 + number}))
        assert text["text"] == "".join(event.text for event in alone if isinstance(event, Token))
        assert text["seed"] == 7 + number and text["reason"] == done_of(alone).reason
    assert len({text["text"] for text in texts}) > 1
    assert model.passes[0] == 3 and sum(isinstance(event, Progress) for event in events) == 1


def test_several_texts_stop_at_once() -> None:
    for settings in ({"samples": 3, "temperature": 1.0, "seed": 1}, {"beams": 3}):
        cancel = Cancel()
        events = []
        for event in generate_several(TableModel(), TOKENIZER, "c", options_of(stop_tokens=[], **settings), cancel):
            events.append(event)
            if isinstance(event, Token) or (isinstance(event, Progress) and event.what == "search"):
                cancel.set()
        assert done_of(events).reason == "cancelled" and len(done_of(events).results["texts"]) in (1, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beams": 2, "logprobs": 1}, "beams: excludes logprobs"),
        ({"beams": 2, "samples": 3}, "beams: excludes more samples"),
        ({"cache_type": "q4_0"}, "cache_type: must be auto, f32, f16, bf16, q8_0, not 'q4_0'"),
        ({"cache_type": 8}, "cache_type: must be auto"),
        ({"samples": 2, "rolling": True}, "samples: excludes rolling"),
        ({"regex": "a", "choice": ["b"]}, "regex: excludes choice"),
        ({"early_stopping": "soon"}, "early_stopping: must be true, false"),
        ({"logit_bias": {"x": 1}}, "logit_bias: must give a bias for each"),
        ({"logit_bias": {"3": 101}}, "logit_bias: must be a number from -100 to 100"),
        ({"frequency_penalty": 3}, "frequency_penalty: must be a number from -2 to 2"),
        ({"stop_tokens": "abc"}, "stop_tokens: must be a list"),
        ({"choice": []}, "choice: has no texts"),
        ({"logprobs": 101}, "logprobs: must be a whole number from 0 to 100"),
        ({"rolling": 1}, "rolling: must be true or false"),
        ({"json_schema": "x"}, "json_schema: must be an object"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SamplingOptions.from_dict(settings)


def test_a_bias_for_a_token_that_the_model_lacks() -> None:
    with pytest.raises(OptionError, match="logit_bias: the model has no token 24: it has 24"):
        run(logit_bias={24: 1.0})


# -- sessions


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pyapp.models import load_model

    return load_model(write_model(tmp_path_factory.mktemp("model"), max_seq_len=96))


def test_a_session_reads_only_what_is_new() -> None:
    model = TableModel()
    session = Session(model)
    session.continue_from([1, 5, 6, 7])
    session.continue_from([1, 5, 6, 7, 8, 9])
    session.continue_from([1, 5, 11, 12, 13])
    session.continue_from([1, 5, 11, 12, 13])  # the logits of the last token are not kept
    session.continue_from([3])
    assert model.passes == [4, 2, 3, 1, 1]
    assert session.tokens == [3] and session.position == 1


def test_the_cache_of_earlier_turns_gives_the_same_logits(small: Any) -> None:
    ids = [1, 40, 50, 60, 70, 80, 90, 100]
    session, fresh = Session(small.model), Session(small.model)
    session.continue_from([*ids[:5], 7, 8, 9, 10, 11])
    again = session.continue_from(ids).tolist()
    assert again == pytest.approx(fresh.continue_from(ids).tolist(), abs=1e-5)


def test_a_rolling_context(small: Any) -> None:
    """It goes on past the window; what is left of the text is the first tokens and the last ones."""
    session = Session(small.model, capacity=32)
    options = options_of(rolling=True, keep=4, max_new_tokens=80, logit_bias={1: -100, 2: -100})
    events = list(generate(session, small.tokenizer, "Once upon a time there was a dog", options))
    ids, prompt = tokens_of(events), small.tokenizer.encode("Once upon a time there was a dog", eos=False)
    assert len(ids) == 80 and done_of(events).reason == "length"
    assert session.tokens[:4] == prompt[:4]
    kept = session.tokens[4:]
    assert (prompt + ids)[-len(kept) - 1 : -1] == kept  # the last token has not been read
    # As a text that was not longer: the same tokens come from what is left.
    fresh = Session(small.model, capacity=32).continue_from(session.tokens)
    assert fresh.tolist() == pytest.approx(session.continue_from(session.tokens).tolist(), abs=1e-4)
    long = "the dog " * 40
    assert done_of(list(generate(Session(small.model), small.tokenizer, long, options))).reason == "length"
    with pytest.raises(OptionError, match="keep: must be less than the context of 32"):
        list(generate(Session(small.model, 32), small.tokenizer, long, options_of(rolling=True, keep=32)))


# -- several texts and caches of a real model


@pytest.mark.parametrize("cache_type", ["f32", "f16", "q8_0"])
def test_several_texts_in_one_pass_are_those_alone(small: Any, cache_type: str) -> None:
    """Samples end at different times, so that fewer texts are decoded; each is what its seed gives alone."""
    prompt, common = (
        "Once upon a time",
        {"temperature": 1.2, "stop": ["e"], "max_new_tokens": 40, "cache_type": cache_type},
    )
    done = done_of(
        list(generate_several(small.model, small.tokenizer, prompt, options_of(samples=5, seed=3, **common)))
    )
    lengths = set()
    for number, text in enumerate(done.results["texts"]):
        session = Session(small.model, cache_type=cache_type)
        alone = list(generate(session, small.tokenizer, prompt, options_of(seed=3 + number, **common)))
        assert text["text"] == "".join(event.text for event in alone if isinstance(event, Token))
        lengths.add(len(tokens_of(alone)))
    assert len(lengths) > 2


def test_beams_of_a_real_model_are_scored_as_the_model_says(small: Any) -> None:
    """The score of each text is the sum of the log-probabilities that the model gives to its tokens."""
    prompt = "Once upon a time"
    settings = options_of(beams=4, samples=4, max_new_tokens=10, length_penalty=0.5)
    texts = done_of(list(generate_several(small.model, small.tokenizer, prompt, settings))).results["texts"]
    ids = small.tokenizer.encode(prompt, eos=False)
    for text in texts:
        session, score = Session(small.model), 0.0
        logits = session.feed(ids)
        for token in text["tokens"]:
            score += log_probabilities(logits, token, 0)[0]
            logits = session.step(token)
        assert text["score"] == pytest.approx(score / len(text["tokens"]) ** 0.5, abs=1e-4)
    assert len({tuple(text["tokens"]) for text in texts}) == 4


def test_types_of_the_cache(small: Any) -> None:
    """Fewer bytes, nearly the same logits, and a model that has no such cache is named."""
    ids, found = [1, 40, 50, 60, 70], {}
    for kind in ("f32", "f16", "q8_0"):
        session = Session(small.model, 32, cache_type=kind)
        found[kind] = session.cache.nbytes, session.continue_from(ids).tolist()
    assert found["f32"][0] == 2 * found["f16"][0] > 3 * found["q8_0"][0]
    scale = max(map(abs, found["f32"][1]))
    for kind, most in (("f16", 1e-3), ("q8_0", 2e-2)):
        apart = max(abs(a - b) for a, b in zip(found[kind][1], found["f32"][1], strict=True))
        assert 0 < apart < most * scale
    with pytest.raises(OptionError, match="cache_type: this model has no caches in q8_0"):
        Session(Parrot([1, 2], 8, 16), cache_type="q8_0")
    with pytest.raises(OptionError, match="cache_type: bf16 is for CUDA"):
        Session(Parrot([1, 2], 8, 16), cache_type="bf16")
    with pytest.raises(OptionError, match="samples: this model has no caches of several texts"):
        list(generate_several(Parrot([1, 2], VOCABULARY, 16), TOKENIZER, "c", options_of(samples=2)))


# -- speculation

PROMPTS = ["Once upon a time", "the dog and the girl and the dog", "She said", "", "one two one two one two one"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_speculation_changes_no_token(temperature: float, small: Any) -> None:
    """Over many texts, greedy and with seeds, by prompt lookup and with two draft models."""
    plain, session, draft = Session(small.model), Session(small.model), Session(small.model, 90)
    right = guessed = 0
    for seed, prompt in enumerate(PROMPTS * 3):
        settings: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_new_tokens": 60}
        expected = list(generate(plain, small.tokenizer, prompt, options_of(**settings)))
        drafter = [None, DraftModel(draft), PromptLookup()][seed % 3]
        options = options_of(lookup=[5, 3, 8][seed % 3], **settings)
        found = list(generate(session, small.tokenizer, prompt, options, drafter=drafter))
        assert tokens_of(found) == tokens_of(expected)
        assert session.tokens == plain.tokens
        results = done_of(found).results
        assert done_of(found).reason == done_of(expected).reason
        right, guessed = right + results["accepted_tokens"], guessed + results["guessed_tokens"]
        if drafter is not None and isinstance(drafter, DraftModel) and not temperature:
            assert results["accepted_tokens"] >= 0.9 * results["guessed_tokens"] - 3  # the same model guesses right
            assert results["passes"] < 0.5 * results["new_tokens"] + 4
    assert 0 < right < guessed


def test_speculation_to_the_end_of_the_context(small: Any) -> None:
    for capacity in range(20, 24):
        sessions = [Session(small.model, capacity) for _ in range(2)]
        found = [
            list(
                generate(session, small.tokenizer, "one two one two one two", options_of(lookup=n, max_new_tokens=None))
            )
            for n, session in zip((0, 6), sessions, strict=True)
        ]
        assert tokens_of(found[0]) == tokens_of(found[1])
        assert done_of(found[0]).reason == done_of(found[1]).reason == "context"


def test_prompt_lookup() -> None:
    lookup = PromptLookup()
    assert lookup.guess([1, 2, 3, 4, 9, 2, 3], 3) == [4, 9, 2]
    assert lookup.guess([1, 2, 3, 4, 9, 2, 3, 5], 3) == []
    assert lookup.guess([1, 2, 3, 4, 9, 2, 3, 5, 9, 2, 3], 8) == [5, 9, 2, 3]  # three tokens, the latest occurrence
    assert lookup.guess([7, 8, 7, 8], 8) == [7, 8]  # another text
    assert PromptLookup().guess([1], 4) == []


def test_a_draft_model_of_another_family(small: Any) -> None:
    with pytest.raises(ValueError, match="the draft model has 24 tokens"):
        drafter = DraftModel(Session(TableModel()))
        list(generate(Session(small.model), small.tokenizer, "", options_of(), drafter=drafter))


def test_the_end_of_text_is_found_in_a_table() -> None:
    assert any(done_of(run(text)).reason == "stop" for text in "abcdefgh"), f"token {EOS} is never the likeliest"
