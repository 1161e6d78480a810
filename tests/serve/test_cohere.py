"""Cohere's /v2/chat: the answers of chat completions in its form."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import pytest

from tests.serve.test_routes import WEATHER, named_events, post
from tests.together import check_each

pytestmark = pytest.mark.native_only

PATH = "/v2/chat"
ASK: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6,
                       "temperature": 0}  # fmt: skip
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


def streamed(client: Any, **more: Any) -> list[Any]:
    return named_events(client.post(PATH, json=ASK | more | {"stream": True}))


def kinds(events: list[Any]) -> list[str]:
    return [kind for kind, _ in groupby(event["type"] for event in events)]


BLOCK = ["content-start", "content-delta", "content-end"]
FUNCTION = ["tool-call-start", "tool-call-delta", "tool-call-end"]


def test_answers(client: Any) -> None:
    chat = post(client, "/v1/chat/completions", **ASK)
    found = post(client, PATH, **ASK, logprobs=True)
    text = chat["choices"][0]["message"]["content"]
    assert found["message"] == {"role": "assistant", "content": [{"type": "text", "text": text}]}
    assert found["finish_reason"] == "MAX_TOKENS"
    assert found["usage"]["tokens"] == {"input_tokens": chat["usage"]["prompt_tokens"], "output_tokens": 6}
    assert "".join(entry["text"] for entry in found["logprobs"]) == text
    assert all(len(entry["token_ids"]) == 1 and entry["logprobs"][0] < 0 for entry in found["logprobs"])
    assert post(client, PATH, **ASK, k=1)["logprobs"] is None
    stopped = post(client, PATH, **ASK | {"stop_sequences": [text[3]], "max_tokens": 30})
    assert stopped["finish_reason"] == "STOP_SEQUENCE"
    assert stopped["message"]["content"][0]["text"] == text[: text.index(text[3])]
    assert post(client, PATH, **ASK, choice=["abc"])["finish_reason"] == "COMPLETE"
    thinking = post(client, PATH, **ASK | {"max_tokens": 40}, choice=["<think>hm</think>Hi"])["message"]["content"]
    assert thinking == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hi"}]
    schema = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"]}
    for name in ("json_schema", "schema"):
        form = {"response_format": {"type": "json_object", name: schema}, "max_tokens": 60}
        assert json.loads(post(client, PATH, **ASK | form)["message"]["content"][0]["text"])["age"] in (3, 4)


def test_streams(client: Any) -> None:
    events = streamed(client, choice=["<think>hm</think>Hi"], max_tokens=40)
    assert kinds(events) == ["message-start", *BLOCK, *BLOCK, "message-end"]
    parts = [event["delta"]["message"]["content"] for event in events if event["type"] == "content-delta"]
    assert "".join(part.get("thinking", "") for part in parts) == "hm"
    assert "".join(part.get("text", "") for part in parts) == "Hi"
    assert [event["index"] for event in events if event["type"] == "content-end"] == [0, 1]
    end = events[-1]["delta"]
    assert end["finish_reason"] == "COMPLETE" and end["usage"]["tokens"]["output_tokens"] > 4
    scored = [event["logprobs"] for event in streamed(client, logprobs=True) if event["type"] == "content-delta"]
    assert scored == post(client, PATH, **ASK, logprobs=True)["logprobs"]


def test_tools(client: Any) -> None:
    tools = {"tools": [WEATHER], "max_tokens": 160}
    for more, most in (({"choice": [CALL]}, 1), ({"tool_choice": "REQUIRED"}, 99)):
        events = streamed(client, **tools, **more)
        assert kinds(events) == ["message-start", *FUNCTION, "message-end"]
        start = next(event for event in events if event["type"] == "tool-call-start")["delta"]["message"]["tool_calls"]
        deltas = [event["delta"]["message"]["tool_calls"] for event in events if event["type"] == "tool-call-delta"]
        assert start["function"] == {"name": "weather", "arguments": ""} and 1 <= len(deltas) <= most
        called = json.loads("".join(delta["function"]["arguments"] for delta in deltas))
        assert called["city"] in ("Oslo", "Rome") and events[-1]["delta"]["finish_reason"] == "TOOL_CALL"
        whole = post(client, PATH, **ASK | tools | more)
        assert json.loads(whole["message"]["tool_calls"][0]["function"]["arguments"]) == called
        assert whole["finish_reason"] == "TOOL_CALL" and whole["message"]["content"] == []
    none = post(client, PATH, **ASK | tools, tool_choice="NONE", choice=[CALL])
    assert none["message"]["content"][0]["text"] == CALL


def test_the_models_of_an_endpoint(client: Any) -> None:
    def names(**asked: Any) -> list[str]:
        return [model["name"] for model in client.get("/v1/models", params=asked).json()["models"]]

    assert names() == ["chat", "embedder", "voice", "painter", "speech"]
    assert (names(endpoint="chat"), names(endpoint="rerank", default_only="true"), names(endpoint="rate")) == (
        ["chat"], ["embedder"], [])  # fmt: skip
    assert client.get("/v1/models/embedder").json()["endpoints"] == ["embed", "rerank"]


def test_messages() -> None:
    """Cohere's parts of messages in OpenAI's form."""
    pytest.importorskip("starlette")
    from pyapp.serve.cohere_text import plain_message

    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    rows: list[tuple[Any, Any]] = [
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a"}),
        ({"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"data": {"rain": True}}}]},
         {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": '{"rain": true}'}]}),
        ({"role": "tool", "content": [{"type": "document", "document": {"data": "rain"}}]},
         {"role": "tool", "content": [{"type": "text", "text": "rain"}]}),
        ({"role": "assistant", "tool_plan": "I look.", "tool_calls": [call]},
         {"role": "assistant", "content": "I look.", "tool_calls": [call]}),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]},
         {"role": "assistant", "content": [{"type": "text", "text": "a"}], "reasoning_content": "hm"}),
        ("none", "none"),
    ]  # fmt: skip

    def check(given: Any, wanted: Any) -> None:
        assert plain_message(given) == wanted

    check_each(check, rows)


def test_refusals_name_the_field(client: Any) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"messages": [3]}, "messages[0]"), ({"p": 2}, "p"), ({"k": -1}, "k"),
        ({"stop_sequences": [1]}, "stop_sequences"),
        ({"top_p": 0.5}, "top_p"), ({"documents": ["a"]}, "documents"), ({"thinking": {"type": "enabled"}}, "thinking"),
        ({"thinking": {"type": "enabled", "token_budget": 5}}, "thinking.token_budget"),
        ({"tool_choice": "REQUIRED"}, "tool_choice"), ({"stop_sequences": [""]}, "stop_sequences"),
        ({"response_format": {"type": "text", "json_schema": {}}}, "response_format.json_schema"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
    ]  # fmt: skip

    def check(more: dict[str, Any], field: str) -> None:
        answer = client.post(PATH, json=ASK | more)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, field), answer.text

    check_each(check, rows)
    assert post(client, PATH, **ASK, thinking={"type": "disabled"})["message"]
