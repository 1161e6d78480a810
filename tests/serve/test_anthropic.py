"""Anthropic's /v1/messages: what its clients have sent (make_golden_anthropic.py), and the answers of chat completions
in its form.
"""

from __future__ import annotations

import base64
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.formats.png import encode_png
from tests.serve.in_process import serving
from tests.serve.test_routes import WEATHER, named_events, post
from tests.together import check_each

pytestmark = pytest.mark.native_only

PATH = "/v1/messages"
GOLDEN = Path(__file__).with_name("golden_anthropic.json")
ASK: dict[str, Any] = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6,
                       "temperature": 0}  # fmt: skip
TOOL = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}  # type: ignore[index]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
PICTURE = base64.b64encode(encode_png(np.zeros((8, 8, 3), np.uint8))).decode()


def streamed(client: Any, **more: Any) -> list[Any]:
    return named_events(client.post(PATH, json=ASK | more | {"stream": True}))


def joined(events: list[Any]) -> dict[str, Any]:
    """The message of a stream's events, as Anthropic's client joins them."""
    message, inputs = events[0]["message"], dict[int, str]()
    for event in events:
        delta = event.get("delta", {})
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            name = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": ""}[delta["type"]]
            if name:
                message["content"][event["index"]][name] += delta[name]
            else:
                inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
        elif event["type"] == "message_delta":
            message |= delta | {"usage": event["usage"]}
    for index, text in inputs.items():
        message["content"][index]["input"] = json.loads(text)
    return message


def same(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what is new each time: ids, and how much of the prompt was read before."""
    usage, content = message["usage"], [{**block, "id": None} for block in message["content"]]
    read = usage["input_tokens"] + usage["cache_read_input_tokens"]
    return message | {"id": None, "content": content, "usage": (read, usage["output_tokens"])}


def test_what_the_clients_have_sent(client: Any) -> None:
    """A stream is the whole answer, in pieces."""
    kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop"]

    def check(number: int, sent: dict[str, Any]) -> None:
        path, body = sent["path"], sent["body"]
        answer = client.request(sent["method"], path, json=body, headers=sent["headers"])
        wrong = path == PATH and (body["model"] == "none" or "top_p" in body)
        if wrong:
            kind = "not_found_error" if body["model"] == "none" else "invalid_request_error"
            assert answer.json()["error"]["type"] == kind and answer.json()["type"] == "error"
            return
        assert answer.status_code == 200, answer.text
        if path.endswith("count_tokens"):
            whole = post(client, PATH, **ASK, system=body["system"])["usage"]
            assert answer.json()["input_tokens"] == whole["input_tokens"] + whole["cache_read_input_tokens"]
        elif path == "/v1/models":
            assert answer.json()["has_more"] is False and answer.json()["first_id"] == "chat"
        elif path == PATH:
            whole = post(client, PATH, **body | {"stream": False})
            events = streamed(client, **body)
            assert [kind for kind, _ in groupby(event["type"] for event in events)][:4] == kinds
            assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
            assert same(joined(events)) == same(whole)

    check_each(check, enumerate(json.loads(GOLDEN.read_text(encoding="utf-8"))))


def test_answers(client: Any) -> None:
    system = [{"type": "text", "text": "Be brief", "cache_control": {"type": "ephemeral"}}]
    talk = [{"role": "system", "content": "Be brief"}, *ASK["messages"]]
    text = post(client, "/v1/chat/completions", **ASK | {"messages": talk})["choices"][0]["message"]["content"]
    found = post(client, PATH, **ASK, system=system, metadata={"user_id": "a"})
    assert found["content"] == [{"type": "text", "text": text}] and found["stop_reason"] == "max_tokens"
    assert found["role"] == "assistant" and found["type"] == "message" and found["usage"]["output_tokens"] == 6
    stopped = post(client, PATH, **ASK | {"max_tokens": 9999, "stop_sequences": ["~", text[3]]}, system="Be brief")
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", text[3])
    assert stopped["content"][0]["text"] == text[: text.index(text[3])]
    assert post(client, PATH, **ASK, choice=["abc"])["stop_reason"] == "end_turn"
    full = post(client, PATH, **ASK | {"max_tokens": 9999, "ignore_eos": True})  # a context of 512 tokens
    assert full["stop_reason"] == "model_context_window_exceeded"
    begun = [*ASK["messages"], {"role": "assistant", "content": text[:2]}]
    gone_on = post(client, PATH, **ASK | {"messages": begun, "max_tokens": 4})
    chat = post(client, "/v1/chat/completions", **ASK | {"messages": begun, "max_tokens": 4})
    assert gone_on["content"][0]["text"] == chat["choices"][0]["message"]["content"]


def test_tools_and_thoughts(client: Any) -> None:
    tools = {"tools": [TOOL], "max_tokens": 160}
    for more in ({"choice": [f"<think>hm</think>I look. {CALL}"]}, {"tool_choice": {"type": "any"}}):
        events = streamed(client, **tools, **more)
        found = joined(events)
        use = found["content"][-1]
        assert (use["type"], use["name"], found["stop_reason"]) == ("tool_use", "weather", "tool_use")
        assert use["input"]["city"] in ("Oslo", "Rome")
        assert sum(event["type"] == "content_block_stop" for event in events) == len(found["content"])
        if "choice" in more:
            shown = [block.get("thinking", block.get("text")) for block in found["content"][:-1]]
            assert shown == ["hm", "I look. "]
        assert same(post(client, PATH, **ASK | tools | more)) == same(found)
    twice = {"choice": [CALL + CALL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    assert len(post(client, PATH, **ASK | tools | twice)["content"]) == 1
    none = post(client, PATH, **ASK | tools, tool_choice={"type": "none"}, choice=[CALL])
    assert none["content"][0]["text"] == CALL and none["stop_reason"] == "end_turn"


def test_messages() -> None:
    """Anthropic's blocks as messages of OpenAI's form."""
    pytest.importorskip("starlette")
    from pyapp.serve.anthropic_text import conversation_of
    from pyapp.serve.fields import Fields

    use = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Oslo"}}
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    call = {"id": "t", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    result = {"type": "tool_result", "tool_use_id": "t", "is_error": False,
              "content": [{"type": "text", "text": "rain"}, {"type": "image", "source": source}]}  # fmt: skip
    document = {"type": "document", "title": "News", "source": {"type": "text", "data": "dry"}}
    given = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, document]},
        {"role": "assistant", "content": [thought, {"type": "redacted_thinking", "data": "x"}, use]},
        {"role": "user", "content": [result, {"type": "text", "text": "more"}]},
    ]
    assert conversation_of(Fields({"messages": given, "system": "s"})) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "aNews\ndry"},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "name": "weather", "content": "rain"},
        {"role": "user", "content": [shown, {"type": "text", "text": "more"}]},
    ]


def test_refusals_name_the_field(client: Any) -> None:
    def user(**block: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": [block]}]}

    rows: list[tuple[dict[str, Any], str]] = [
        ({"messages": [3]}, "messages[0]: "), ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role: "),
        ({"max_tokens": None}, "max_tokens: is missing"), ({"stop_sequences": [""]}, "stop_sequences: "),
        ({"surprise": 1}, "surprise: there is no such field"), ({"mcp_servers": [{}]}, "mcp_servers: "),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type: the server has no tools"),
        ({"tools": [{"name": "look"}]}, "tools[0].input_schema: is missing"),
        ({"tool_choice": {"type": "any"}}, "tool_choice: there are no tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "none"}}, "tool_choice: there is no tool 'none'"),
        ({"thinking": {"type": "enabled", "budget_tokens": "a"}}, "thinking.budget_tokens: "),
        (user(type="image", source={"type": "url", "url": "http://a"}), "messages[0].content[0].source.type: "),
        (user(type="image", source={"type": "base64", "data": PICTURE}), "messages: this model reads no pictures"),
        (user(type="tool_result", tool_use_id="x"), "messages[0].content[0].tool_use_id: no message before"),
        (user(type="server_tool_use"), "messages[0].content[0].type: blocks of type 'server_tool_use'"),
        ({"system": [{"type": "image"}]}, "system[0].type: "),
    ]  # fmt: skip

    def check(more: dict[str, Any], start: str) -> None:
        answer = client.post(PATH, json={name: value for name, value in (ASK | more).items() if value is not None})
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), answer.text
        assert error["message"].startswith(start), error

    check_each(check, rows)
    assert client.post(f"{PATH}/batches", json={}).json()["error"]["type"] == "not_found_error"


def test_keys(model_folders: dict[str, Path]) -> None:
    """A key comes as in OpenAI's interface, or as x-api-key; errors before a route is found have its form."""

    with serving(f"chat={model_folders['chat']}", keys=("secret",)) as client:
        for headers, status in (
            ({"x-api-key": "secret"}, 200), ({"Authorization": "Bearer secret"}, 200), ({"x-api-key": "other"}, 401),
            ({"x-api-key": "secret", "Authorization": "Bearer other"}, 401),
        ):  # fmt: skip
            assert client.get("/v1/models", headers=headers).status_code == status, headers
        refused = client.post(PATH, json=ASK)
        assert refused.status_code == 401 and refused.json()["error"]["type"] == "authentication_error"
        assert client.post("/api/chat", json={}).json()["error"].startswith("the key is wrong")
