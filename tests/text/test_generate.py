"""The generate loop, with a model that has learnt one text by heart: logits depend on token and position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Metric, Progress, Token
from pyapp.text.generation.generate import Session, check_tokenizer, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.text.parrot import STORY, Config, Parrot

GREEDY = SamplingOptions(temperature=0)


@pytest.fixture(scope="module")
def tokenizer(small_vocabulary: tuple[list[bytes], list[float]]) -> Tokenizer:
    return Tokenizer.from_llama2c(*small_vocabulary)


@pytest.fixture
def parrot(tokenizer: Tokenizer) -> Parrot:
    return Parrot(tokenizer.encode(STORY, eos=True), tokenizer.vocab_size, 200)


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def run(model: Any, tokenizer: Tokenizer, prompt: str = "", **settings: Any) -> list[Event]:
    options = SamplingOptions.from_dict({"temperature": 0} | settings)
    return list(generate(Session(model), tokenizer, prompt, options))


@pytest.mark.parametrize("eager", [False, True])
def test_the_whole_story(eager: bool, parrot: Parrot, tokenizer: Tokenizer) -> None:
    session = Session(parrot, eager=eager)
    ids = tokenizer.encode(STORY)
    for _ in range(2):  # a session can be used again
        parrot.passes.clear()
        events = list(generate(session, tokenizer, "", GREEDY))
        assert text_of(events) == STORY
        assert [event.id for event in events if isinstance(event, Token)] == ids[1:]
        assert [event.index for event in events if isinstance(event, Token)] == list(range(len(ids) - 1))
        done = events[-1]
        assert isinstance(done, Done) and done.reason == "stop"
        assert done.results["prompt_tokens"] == 1 and done.results["new_tokens"] == len(ids) - 1
        assert eager or len(parrot.passes) <= 2  # the Graph replays; the model's Python code runs no more
        assert session.position == len(ids)


def test_every_character_is_whole(parrot: Parrot, tokenizer: Tokenizer) -> None:
    events = run(parrot, tokenizer)
    assert not any("\ufffd" in event.text for event in events if isinstance(event, Token))
    assert "😀" in [event.text.strip() for event in events if isinstance(event, Token)]


def test_a_prompt_is_continued_with_its_space(parrot: Parrot, tokenizer: Tokenizer) -> None:
    events = run(parrot, tokenizer, "Once upon a time")
    assert text_of(events) == STORY[len("Once upon a time") :]
    assert parrot.passes[0] == len(tokenizer.encode("Once upon a time"))
    metrics = {event.name: event for event in events if isinstance(event, Metric)}
    assert set(metrics) == {"time_to_first_token", "prompt_speed", "decode_speed"}
    assert all(metric.value > 0 for metric in metrics.values())


def test_a_long_prompt_goes_in_passes(tokenizer: Tokenizer) -> None:
    text = "the dog and the girl " * 60
    ids = tokenizer.encode(text, eos=True)
    parrot = Parrot(ids, tokenizer.vocab_size, 2000)
    events = run(parrot, tokenizer, text)
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.done for event in progress] == [*range(128, len(ids) - 1, 128), len(ids) - 1]
    assert parrot.passes == [128] * (len(progress) - 1) + [(len(ids) - 1) % 128]
    assert isinstance(events[-1], Done) and events[-1].reason == "stop"


def test_the_tokens_reach_the_model(parrot: Parrot, tokenizer: Tokenizer) -> None:
    """A token that changes the logits is seen in replays too."""
    ids = tokenizer.encode(STORY)
    parrot.refuse(ids[7])
    got = [event.id for event in run(parrot, tokenizer) if isinstance(event, Token)]
    assert got[:8] == [*ids[1:8], 0]


def test_reasons_to_end(parrot: Parrot, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(STORY)

    def reason(events: list[Event]) -> str:
        assert isinstance(events[-1], Done)
        return events[-1].reason

    events = run(parrot, tokenizer, max_new_tokens=5)
    assert reason(events) == "length" and text_of(events) == tokenizer.decode(ids[:6])
    events = run(parrot, tokenizer, stop=["zebra", "was a d"])
    assert reason(events) == "stop_string" and text_of(events) == STORY[: STORY.index("was a d")]
    assert events[-1].to_dict()["stop_string"] == "was a d"
    small = Parrot(ids, tokenizer.vocab_size, 10)
    events = run(small, tokenizer)
    assert reason(events) == "context" and text_of(events) == tokenizer.decode(ids[:11])
    assert small.config.max_seq_len == 10
    bos = Parrot([*ids[:4], 1], tokenizer.vocab_size, 20)
    assert reason(run(bos, tokenizer)) == "stop"


def test_held_back_text_comes_at_the_end(parrot: Parrot, tokenizer: Tokenizer) -> None:
    events = run(parrot, tokenizer, stop=["endless"])
    assert text_of(events) == STORY
    last = [event for event in events if isinstance(event, Token)][-1]
    assert last.id is None and last.text.endswith("end")


def test_a_character_that_is_cut_short(tokenizer: Tokenizer) -> None:
    parrot = Parrot([1, 3 + 0x61, 3 + 0xF0, 3 + 0x9F], tokenizer.vocab_size, 3)
    assert text_of(run(parrot, tokenizer)) == "a\ufffd"


def test_cancel(parrot: Parrot, tokenizer: Tokenizer) -> None:
    cancel = Cancel()
    events = []
    for event in generate(Session(parrot), tokenizer, "", GREEDY, cancel):
        events.append(event)
        if isinstance(event, Token) and event.index == 3:
            cancel.set()
    assert isinstance(events[-1], Done) and events[-1].reason == "cancelled"
    assert events[-1].results["new_tokens"] == 4
    parrot.passes.clear()
    events = list(generate(Session(parrot), tokenizer, "Once", GREEDY, cancel))
    assert [event.type for event in events] == ["done"] and not parrot.passes


def test_a_prompt_that_is_too_long(tokenizer: Tokenizer) -> None:
    parrot = Parrot(tokenizer.encode(STORY), tokenizer.vocab_size, 20)
    text = "the dog " * 500
    with pytest.raises(OptionError, match=r"^prompt: [\d,]+ tokens are too long: there is room for 20") as caught:
        run(parrot, tokenizer, text)
    assert caught.value.hint is not None and "from 4,000 to about" in caught.value.hint
    full = tokenizer.decode(tokenizer.encode(STORY)[:20])
    events = run(parrot, tokenizer, full)  # one that fits exactly gives one token
    assert isinstance(events[-1], Done) and events[-1].reason == "context"
    assert events[-1].results["new_tokens"] == 1


def test_a_model_that_reads_long_texts_gets_a_cache_of_a_plain_size(tokenizer: Tokenizer) -> None:
    parrot = Parrot(tokenizer.encode(STORY), tokenizer.vocab_size, 1 << 17)
    assert Session(parrot).capacity == 8192 and Session(parrot, 9000).capacity == 9000
    with pytest.raises(OptionError, match="^context: must be from 1 to 131,072"):
        Session(parrot, 1 << 18)
    with pytest.raises(OptionError) as caught:
        list(generate(Session(parrot, 20), tokenizer, "the dog " * 500))
    assert caught.value.hint is not None and "can read 131,072: choose a larger `context`" in caught.value.hint


def test_the_seed_is_told(parrot: Parrot, tokenizer: Tokenizer) -> None:
    first = run(parrot, tokenizer, temperature=3, max_new_tokens=20)
    assert isinstance(first[-1], Done)
    again = run(parrot, tokenizer, temperature=3, max_new_tokens=20, seed=first[-1].results["seed"])
    assert text_of(first) == text_of(again)
    assert text_of(first) != text_of(run(parrot, tokenizer, temperature=3, max_new_tokens=20, seed=1))


def test_weights_that_give_nan(parrot: Parrot, tokenizer: Tokenizer) -> None:
    parrot.by_token.data_view().cast("B").cast("f")[tokenizer.encode(STORY)[3] * tokenizer.vocab_size] = math.nan
    with pytest.raises(ModelError, match="NaN"):
        run(parrot, tokenizer)


def test_a_tokenizer_of_another_model(tokenizer: Tokenizer) -> None:
    parrot = Parrot([1, 5], 64, 20)
    with pytest.raises(ModelError, match=f"{tokenizer.vocab_size} tokens, the model 64"):
        run(parrot, tokenizer)
    assert check_tokenizer(tokenizer, Config(tokenizer.vocab_size + 60, 64)) is None  # padding of the vocabulary
    notice = check_tokenizer(tokenizer, Config(32000, 64))
    assert notice is not None and f"{tokenizer.vocab_size} tokens, the model 32,000" in notice.what


def test_tokens_that_the_tokenizer_does_not_know_have_no_text(tokenizer: Tokenizer) -> None:
    ids, nameless = tokenizer.encode(STORY, eos=True), tokenizer.vocab_size + 200
    events = run(Parrot([*ids[:4], nameless, *ids[4:]], tokenizer.vocab_size + 300, 200), tokenizer)
    assert nameless in [event.id for event in events if isinstance(event, Token)]
    assert text_of(events) == STORY


def test_session_refuses_what_it_cannot_do(parrot: Parrot) -> None:
    session = Session(parrot, capacity=4)
    with pytest.raises(ValueError, match="at least one token"):
        session.feed([])
    with pytest.raises(ModelError, match="outside the model's vocabulary"):
        session.step(-1)
    with pytest.raises(ModelError, match="outside the model's vocabulary"):
        session.feed([0, parrot.config.vocab_size])
    session.feed(parrot.script[:4])
    with pytest.raises(ModelError, match="5 tokens do not fit the context of 4"):
        session.step(1)
    for capacity in (0, 201):
        with pytest.raises(OptionError, match="from 1 to 200"):
            Session(parrot, capacity=capacity)


def test_logits_have_the_vocabularys_shape(parrot: Parrot) -> None:
    session = Session(parrot)
    assert session.feed(parrot.script[:3]).shape == (parrot.config.vocab_size,)
    assert session.step(parrot.script[3]).shape == (parrot.config.vocab_size,)
    session.reset()
    assert session.position == 0
