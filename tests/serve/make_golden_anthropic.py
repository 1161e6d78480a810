"""Records what Anthropic's clients send, and checks that they understand the answers.

    pip install anthropic langchain-anthropic
    python -m pyapp serve --port 8123 chat=FOLDER &      # tests.text.chat_model.write_chat_model(FOLDER, dim=32)
    python tests/serve/make_golden_anthropic.py http://127.0.0.1:8123

writes golden_anthropic.json: the paths, headers and bodies of the requests, which tests/serve/test_anthropic.py sends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2 as httpx
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage

HEADERS = ("authorization", "x-api-key", "anthropic-version", "anthropic-beta", "content-type")
FORM = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"], "additionalProperties": False}
LOOK: Any = {"name": "look", "description": "Looks", "input_schema": FORM}
HELLO: Any = [{"role": "user", "content": "hello"}]
GREEDY: Any = {"temperature": 0}  # newer versions of the client have no such argument
ASK: Any = {"model": "chat", "messages": HELLO, "max_tokens": 6, "extra_body": GREEDY}

recorded: list[dict[str, Any]] = []


def record(request: Any) -> None:
    headers = {name: value for name, value in request.headers.items() if name.lower() in HEADERS}
    body = json.loads(request.content) if request.content else None
    recorded.append({"method": request.method, "path": request.url.path, "headers": headers, "body": body})


def check_anthropic(url: str) -> None:
    client = anthropic.Anthropic(
        base_url=url, api_key="secret", max_retries=0, http_client=httpx.Client(event_hooks={"request": [record]})
    )
    whole = client.messages.create(**ASK, system="Be brief", stop_sequences=["~"])
    assert len(whole.content[0].text) == 6 and whole.stop_reason == "max_tokens", whole
    with client.messages.stream(**ASK, system="Be brief") as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        found = stream.get_final_message()
    assert (found.content[0].text, found.stop_reason) == (whole.content[0].text, whole.stop_reason), (found, whole)
    assert found.usage.input_tokens + (found.usage.cache_read_input_tokens or 0) > 10 and found.usage.output_tokens == 6
    long = ASK | {"max_tokens": 80}
    with client.messages.stream(**long, tools=[LOOK], tool_choice={"type": "any"}) as stream:
        kinds = [event.type for event in stream]
        called = stream.get_final_message()
    [use] = called.content
    assert use.name == "look" and use.input["age"] in (3, 4) and called.stop_reason == "tool_use", called
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop" and "input_json" in kinds, kinds
    result: Any = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "four"}]}
    again = [*HELLO, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    assert client.messages.create(**ASK | {"messages": again}, tools=[LOOK]).content
    counted = client.messages.count_tokens(model="chat", messages=HELLO, system="Be brief", tools=[LOOK])
    assert counted.input_tokens == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
    thought = client.messages.create(
        **ASK | thinking | {"extra_body": GREEDY | {"choice": ["<think>hm</think>Hi"]}}
    ).content
    assert [block.type for block in thought] == ["thinking", "text"] and thought[0].thinking == "hm", thought
    output: Any = {"format": {"type": "json_schema", "schema": FORM}, "effort": "low"}
    shaped = client.messages.create(**long, output_config=output)
    assert json.loads(shaped.content[0].text)["age"] in (3, 4)
    assert [model.id for model in client.models.list()] == ["chat"] and client.models.retrieve("chat").created_at
    for error, more in (
        (anthropic.NotFoundError, {"model": "none"}),
        (anthropic.BadRequestError, {"extra_body": {"top_p": 3}}),
    ):
        try:
            client.messages.create(**ASK | more)
        except error as caught:
            assert caught.body["error"]["type"].endswith("_error"), caught.body
        else:
            raise AssertionError(error)


def check_langchain(url: str) -> None:
    model: Any = ChatAnthropic(model="chat", base_url=url, api_key="secret", max_tokens=6, temperature=0, max_retries=0)
    model._client._client.event_hooks["request"].append(record)
    text = model.invoke([("system", "Be brief"), HumanMessage("hello")]).text
    assert len(text) == 6
    assert "".join(part.text for part in model.stream([("system", "Be brief"), HumanMessage("hello")])) == text
    model.max_tokens = 80
    [call] = model.bind_tools([LOOK], tool_choice="look").invoke("hello").tool_calls
    assert call["name"] == "look" and call["args"]["age"] in (3, 4)


if __name__ == "__main__":
    check_anthropic(sys.argv[1])
    check_langchain(sys.argv[1])
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":")).replace('},{"method"', '},\n{"method"')
    Path(__file__).with_name("golden_anthropic.json").write_text(text + "\n", encoding="utf-8")
