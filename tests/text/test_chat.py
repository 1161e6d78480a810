"""Conversations, and answers to them: templates, the end of a turn, thoughts, the cache of earlier turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyapp import tasks
from pyapp.errors import FileFormatError, ModelError, OptionError
from pyapp.events import Cancel, Done, Error, Event, Metric, Thought, Token
from pyapp.text.chat.chat import Conversation, answer
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import Session
from tests.text.small_model import write_model
from tests.together import collect

pytest.importorskip("jinja2")

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% for t in tools or [] %}tool {{ t.name }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% if think is defined %}<think>{% endif %}{% endif %}"
)
OPTIONS = SamplingOptions(temperature=0, max_new_tokens=12)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pyapp.models import load_model

    return load_model(write_model(tmp_path_factory.mktemp("model"), max_seq_len=512))


@pytest.fixture
def template(loaded: Any) -> ChatTemplate:
    return ChatTemplate(loaded.tokenizer, source=TEMPLATE)


def done_of(events: list[Event]) -> Any:
    assert isinstance(events[-1], Done)
    return events[-1].results


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def test_a_turn_reads_only_what_is_new(loaded: Any, template: ChatTemplate) -> None:
    session, conversation = Session(loaded.model), Conversation()
    read = 0
    for turn, question in enumerate(["Can I play with it?", "The dog said", "One day"]):
        conversation.ask(question)
        ids = template.encode(conversation.messages)
        events = list(answer(session, template, conversation.messages, OPTIONS))
        results = done_of(events)
        assert results["prompt_tokens"] == len(ids) and results["context_size"] == 512
        assert results["text"] == text_of(events) and results["thoughts"] == ""
        # What is new: the end of the answer, as the template writes it, and the question.
        new = len(ids) - results.get("reused_tokens", 0)
        assert new == len(ids) if turn == 0 else new < read + 40 and results["reused_tokens"] >= read - 5
        fresh = list(answer(Session(loaded.model), template, conversation.messages, OPTIONS))
        assert text_of(fresh) == text_of(events)
        read = len(ids)
        conversation.answer(results["text"])
    assert conversation.reopen()
    again = done_of(list(answer(session, template, conversation.messages, OPTIONS)))
    assert again["reused_tokens"] == again["prompt_tokens"] - 1 and again["text"] == results["text"]
    conversation.edit(2, "The cat said")
    edited = done_of(list(answer(session, template, conversation.messages, OPTIONS)))
    assert 0 < edited["reused_tokens"] < again["reused_tokens"]


class Scripted:
    """A model that writes a text, after whatever prompt, and keeps the positions at which it read tokens."""

    def __init__(self, loaded: Any, text: str, start: int) -> None:
        from tests.text.parrot import Parrot

        ids = [*[0] * start, *loaded.tokenizer.encode(text, bos=False, eos=False), *loaded.tokenizer.eos_ids]
        self.inner = Parrot(ids, loaded.model.config.vocab_size, 512)
        self.config, self.new_cache = self.inner.config, self.inner.new_cache

    def forward_cached(self, tokens: Any, position: Any, cache: Any, last_only: bool = True) -> Any:
        last = tokens.narrow(0, tokens.shape[0] - 1, 1)
        return self.inner.forward_cached(last, position + (tokens.shape[0] - 1), cache)


@pytest.mark.parametrize(("variables", "text"), [({}, "<think>the park</think> with her dog"),
                                                 ({"think": True}, "the park</think> with her dog")])  # fmt: skip
def test_thoughts_are_no_answer(variables: dict[str, Any], text: str, loaded: Any, template: ChatTemplate) -> None:
    messages = [{"role": "user", "content": "a"}]
    start = len(template.encode(messages, **variables))
    model: Any = Scripted(loaded, text, start)
    options = SamplingOptions(temperature=0, max_new_tokens=60)
    events = list(answer(Session(model), template, messages, options, variables=variables))
    assert "".join(event.text for event in events if isinstance(event, Thought)) == "the park"
    assert text_of(events) == "with her dog"
    assert done_of(events)["thoughts"] == "the park" and done_of(events)["text"] == "with her dog"
    assert Thought("a").to_dict() == {"type": "thought", "text": "a"}


def test_tools_and_system_reach_the_template(loaded: Any, template: ChatTemplate) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "a"}]
    plain = done_of(list(answer(Session(loaded.model), template, messages, OPTIONS)))
    tools = [{"name": "look up", "parameters": {}}]
    more = done_of(list(answer(Session(loaded.model), template, messages, OPTIONS, tools=tools)))
    assert more["prompt_tokens"] == len(template.encode(messages, tools)) > plain["prompt_tokens"]


def test_a_conversation_that_is_too_long(loaded: Any, template: ChatTemplate) -> None:
    messages = [{"role": "user", "content": "the dog " * 400}]
    with pytest.raises(OptionError, match="messages: the conversation has .* room for 512.*rolling"):
        list(answer(Session(loaded.model), template, messages, OPTIONS))
    options = SamplingOptions(temperature=0, max_new_tokens=5, rolling=True, keep=8)
    assert done_of(list(answer(Session(loaded.model), template, messages, options)))["new_tokens"] <= 5


def test_a_form_in_a_conversation(loaded: Any, template: ChatTemplate) -> None:
    options = SamplingOptions(temperature=0, max_new_tokens=40, choice=("yes", "no"))
    events = list(answer(Session(loaded.model), template, [{"role": "user", "content": "Woof?"}], options))
    assert done_of(events)["text"] in ("yes", "no")


def test_a_model_without_a_template(loaded: Any) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        ChatTemplate(loaded.tokenizer)


# -- the messages


def test_a_conversation() -> None:
    talk = Conversation()
    talk.system = "one"
    talk.system = "two"
    talk.ask("a")
    talk.answer("b", "thoughts")
    talk.ask("c")
    talk.answer("d")
    assert [message["content"] for message in talk.messages] == ["two", "a", "b", "c", "d"]
    again = Conversation.from_json(talk.to_json())
    assert again.messages == talk.messages and again.messages[2]["reasoning_content"] == "thoughts"
    assert again.reopen() and len(again.messages) == 4
    assert again.undo() == "c" and again.undo() == "a" and again.undo() is None and not again.reopen()
    assert again.system == "two"
    again.system = ""
    assert again.messages == []
    talk.edit(1, "x")
    assert [message["content"] for message in talk.messages] == ["two", "x"]
    with pytest.raises(OptionError, match="no message 7"):
        talk.edit(7, "")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "pyapp chat", "version": 2, "messages": []}',
             '{"format": "pyapp chat", "version": 1}',
             '{"format": "pyapp chat", "version": 1, "messages": [{"role": "x"}]}',
             '{"format": "pyapp chat", "version": 1, "messages": [{"role": "user", "content": 3}]}', "[" * 100_000],
)  # fmt: skip
def test_foreign_conversations_are_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match="talk.json"):
        Conversation.from_json(text, "talk.json")


# -- the task


@pytest.fixture
def forgotten() -> Iterator[None]:
    tasks.unload()
    yield
    tasks.unload()


@pytest.mark.native_only
def test_the_task_keeps_the_session(loaded: Any, forgotten: None) -> None:
    messages = [{"role": "user", "content": "Once upon a time"}]
    first = collect(tasks.chat(loaded, messages, {"temperature": 0, "max_new_tokens": 6}, template=TEMPLATE))
    again = collect(tasks.chat(loaded, messages, {"temperature": 0, "max_new_tokens": 6}, template=TEMPLATE))
    assert done_of(again)["reused_tokens"] == done_of(first)["prompt_tokens"] - 1
    assert done_of(again)["text"] == done_of(first)["text"]
    assert any(isinstance(event, Metric) and event.name == "decode_speed" for event in again)
    with_draft = collect(
        tasks.chat(loaded, messages, {"temperature": 0, "max_new_tokens": 6}, template=TEMPLATE, draft=loaded)
    )
    assert done_of(with_draft)["text"] == done_of(first)["text"] and done_of(with_draft)["accepted_tokens"] > 0
    (wrong,) = collect(tasks.chat(loaded, [{"content": "x"}], template=TEMPLATE))
    assert isinstance(wrong, Error) and wrong.where == "messages[0]"
    cancel = Cancel()
    cancel.set()
    stopped = collect(tasks.chat(loaded, messages, template=TEMPLATE, cancel=cancel))
    assert isinstance(stopped[-1], Done) and stopped[-1].reason == "cancelled"


@pytest.mark.native_only
def test_generate_runs_several_and_draws_drafts(loaded: Any) -> None:
    events = collect(tasks.generate(loaded, "Once", {"samples": 2, "seed": 1, "max_new_tokens": 5}))
    assert len(done_of(events)["texts"]) == 2
    events = collect(tasks.generate(loaded, "Once", {"temperature": 0, "max_new_tokens": 20}, draft=loaded))
    assert done_of(events)["accepted_tokens"] > 0
    (error,) = collect(tasks.generate(loaded, "Once", {"samples": 2}, draft=loaded))
    assert isinstance(error, Error) and error.where == "draft"
