"""/v1/responses: items and events in OpenAI's form and order, conversations that go on, what is kept or refused."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.serve.in_process import serving
from tests.serve.test_routes import WEATHER, named_events, post
from tests.together import check_each

pytestmark = pytest.mark.native_only

PATH = "/v1/responses"
ASK: dict[str, Any] = {"model": "chat", "input": "hello", "max_output_tokens": 6, "temperature": 0}
LOOK = {"type": "function", **WEATHER["function"], "strict": True}  # type: ignore[dict-item]
SCHEMA = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"], "additionalProperties": False}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


def respond(client: Any, **more: Any) -> Any:
    return post(client, PATH, **ASK | more)


def text_of(response: Any) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def streamed(client: Any, **more: Any) -> list[Any]:
    """The events of a stream; each must have its name, its number, and the fields that OpenAI's package asks for."""
    found = named_events(client.post(PATH, json=ASK | more | {"stream": True}))
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    check_form(found, found[-1]["response"])
    return found


def check_form(events: list[Any], response: Any) -> None:
    types = pytest.importorskip("openai.types.responses")
    union = get_args(types.ResponseStreamEvent)[0]
    models = {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(union)}
    for event in events:
        models[event["type"]].model_validate(event)
    types.Response.model_validate(response)


def kinds(events: list[Any]) -> list[str]:
    """The types in their order; several of one in a row once."""
    return [kind.removeprefix("response.") for kind, _ in groupby(event["type"] for event in events)]


MESSAGE = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
           "output_item.done"]  # fmt: skip
FUNCTION = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"]
THOUGHT = [kind.replace("output_text", "reasoning_text") for kind in MESSAGE]


def test_a_text(client: Any) -> None:
    chat = post(client, "/v1/chat/completions", model="chat", max_tokens=6, temperature=0, messages=[
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])  # fmt: skip
    found = respond(client, instructions="Be brief.", metadata={"a": "b"}, user="me")
    assert text_of(found) == chat["choices"][0]["message"]["content"]
    assert (found["object"], found["model"], found["metadata"]) == ("response", "chat", {"a": "b"})
    assert found["status"] == "incomplete" and found["incomplete_details"] == {"reason": "max_output_tokens"}
    assert found["output"][0]["status"] == "incomplete" and found["error"] is None
    usage = found["usage"]
    assert usage["input_tokens"] == chat["usage"]["prompt_tokens"] and usage["output_tokens"] == 6
    assert usage["total_tokens"] == usage["input_tokens"] + 6
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    check_form([], found)
    assert post(client, f"{PATH}/input_tokens", model="chat", input="hello", instructions="Be brief.") == {
        "object": "response.input_tokens", "input_tokens": usage["input_tokens"]}  # fmt: skip
    respond(client, instructions="Be brief. " * 30)
    again = respond(client, instructions="Be brief. " * 30, store=False)
    assert again["usage"]["input_tokens_details"]["cached_tokens"] > 0 and again["store"] is False
    whole = respond(client, choice=["abc"])
    assert (whole["status"], text_of(whole)) == ("completed", "abc") and whole["completed_at"] >= whole["created_at"]
    system = {"role": "developer", "content": "Be brief."}
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hel"},
                                                          {"type": "input_text", "text": "lo"}]}  # fmt: skip
    assert text_of(respond(client, input=[system, user])) == text_of(found)


def test_the_events_of_a_text(client: Any) -> None:
    events = streamed(client, choice=["hello there"], max_output_tokens=20)
    assert kinds(events) == ["created", "in_progress", *MESSAGE, "completed"]
    assert events[0]["response"]["status"] == "in_progress" and events[0]["response"]["output"] == []
    assert events[2]["item"]["content"] == [] and events[3]["part"]["text"] == ""
    deltas = [event["delta"] for event in events if event["type"].endswith("delta")]
    assert len(deltas) > 3 and "".join(deltas) == "hello there"
    response = events[-1]["response"]
    assert [event["text"] for event in events if event["type"].endswith("text.done")] == ["hello there"]
    assert events[-2]["item"] == response["output"][0] and response["usage"]["output_tokens"] > 5
    assert len({event["item_id"] for event in events if "item_id" in event} | {response["output"][0]["id"]}) == 1
    cut = streamed(client)
    assert kinds(cut)[-1] == "incomplete" and cut[-1]["response"]["incomplete_details"]
    plain = respond(client, choice=["hello there"], max_output_tokens=20)
    same = {"output": 0, "id": 0, "created_at": 0, "completed_at": 0, "usage": 0}
    assert plain | same == response | same and text_of(plain) == text_of(response)


def test_thoughts_and_calls(client: Any) -> None:
    events = streamed(client, choice=["<think>hm, so</think>\n\nHi"], max_output_tokens=40)
    assert kinds(events) == ["created", "in_progress", *THOUGHT, *MESSAGE, "completed"]
    thought, message = events[-1]["response"]["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm, so"}] and thought["summary"] == []
    assert message["content"][0]["text"] == "Hi"
    usage = events[-1]["response"]["usage"]
    assert len("hm, so") < usage["output_tokens_details"]["reasoning_tokens"] < usage["output_tokens"]
    tools = {"tools": [LOOK], "max_output_tokens": 160}
    events = streamed(client, **tools, choice=[f"Well. {CALL}\n{CALL}"])
    assert kinds(events) == ["created", "in_progress", *MESSAGE, *FUNCTION, *FUNCTION, "completed"]
    first, second = events[-1]["response"]["output"][1:]
    assert json.loads(first["arguments"]) == {"city": "Oslo"} and first["call_id"] != second["call_id"]
    assert [event["output_index"] for event in events if "arguments" in event] == [1, 2]
    one = respond(client, **tools, choice=[CALL + CALL], parallel_tool_calls=False)["output"]
    assert [item["type"] for item in one] == ["function_call"]
    for choice in ("required", {"type": "function", "name": "weather"}, {
        "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]}):  # fmt: skip
        events = streamed(client, **tools, tool_choice=choice)
        assert kinds(events) == ["created", "in_progress", *FUNCTION, "completed"]
        assert len([event for event in events if event["type"].endswith("arguments.delta")]) > 3  # as it is written
        [called] = events[-1]["response"]["output"]
        assert json.loads(called["arguments"])["city"] in ("Oslo", "Rome") and called["status"] == "completed"
        assert events[-1]["response"]["tool_choice"] == choice and events[-1]["response"]["tools"] == [LOOK]
    written = respond(client, **tools, tool_choice="none", choice=[CALL])
    assert text_of(written) == CALL


def test_forms(client: Any) -> None:
    form = {"type": "json_schema", "name": "age", "schema": SCHEMA, "strict": True}
    found = respond(client, max_output_tokens=60, text={"format": form, "verbosity": "low"})
    assert json.loads(text_of(found))["age"] in (3, 4) and found["text"]["format"] == form
    anything = respond(client, max_output_tokens=60, text={"format": {"type": "json_object"}})
    assert text_of(anything).startswith("{")
    assert respond(client, text={"format": {"type": "text"}}, top_k=1)["text"] == {"format": {"type": "text"}}


def test_log_probabilities(client: Any) -> None:
    found = respond(client, top_logprobs=2)["output"][0]["content"][0]
    assert len(found["logprobs"]) == 6 and all(len(entry["top_logprobs"]) == 2 for entry in found["logprobs"])
    assert "".join(entry["token"] for entry in found["logprobs"]) == found["text"]
    events = streamed(client, include=["message.output_text.logprobs"])
    parts = [entry for event in events if event["type"].endswith("delta") for entry in event["logprobs"]]
    assert [entry["logprob"] for entry in parts] == [entry["logprob"] for entry in found["logprobs"]]
    [done] = [event for event in events if event["type"].endswith("text.done")]
    assert done["logprobs"] == parts
    thinking = respond(client, choice=["<think>hm</think>Hi"], top_logprobs=1, max_output_tokens=40)["output"][1]
    assert [entry["token"] for entry in thinking["content"][0]["logprobs"]] == ["H", "i"]


def test_conversations_go_on(client: Any) -> None:
    """From a response that is kept as from its items; instructions are those of the last request."""
    first = respond(client, instructions="Be brief.", choice=["well"])
    second = respond(client, input="and now?", previous_response_id=first["id"])
    spelled = [{"role": "user", "content": "hello"}, *first["output"], {"role": "user", "content": "and now?"}]
    assert text_of(respond(client, input=spelled)) == text_of(second)
    assert second["usage"]["input_tokens"] == respond(client, input=spelled)["usage"]["input_tokens"]
    assert second["previous_response_id"] == first["id"] and second["instructions"] is None
    third = respond(client, input="more", previous_response_id=second["id"])
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"] + 6
    goes_on = respond(client, input=[], previous_response_id=second["id"])  # the answer that was cut
    whole = respond(client, input="and now?", previous_response_id=first["id"], max_output_tokens=12)
    assert text_of(second) + text_of(goes_on) == text_of(whole)
    reference = [{"type": "item_reference", "id": first["output"][0]["id"]}, {"role": "user", "content": "and now?"}]
    assert text_of(respond(client, input=[spelled[0], *reference])) == text_of(second)
    own = respond(client, input=[{"role": "user", "content": "mine", "id": "msg_1"}])  # others may call theirs so too
    assert client.get(f"{PATH}/{own['id']}/input_items").json()["data"][0]["id"] == "msg_1"
    changed = [{**first["output"][0], "content": "changed"}, {"role": "user", "content": "and?"}]
    respond(client, input=changed)
    assert client.post(PATH, json=ASK | {"input": [{"type": "item_reference", "id": "msg_1"}]}).status_code == 404
    assert text_of(respond(client, input=[spelled[0], *reference])) == text_of(second)
    listed = client.get(f"{PATH}/{second['id']}/input_items", params={"order": "asc"}).json()
    assert [item["role"] for item in listed["data"]] == ["user", "assistant", "user"] and not listed["has_more"]
    assert listed["first_id"] == listed["data"][0]["id"] and listed["data"][1]["id"] == first["output"][0]["id"]
    page = client.get(f"{PATH}/{second['id']}/input_items", params={"limit": "1"}).json()
    assert page["data"] == listed["data"][2:] and page["has_more"]
    after = client.get(f"{PATH}/{second['id']}/input_items", params={"after": page["last_id"]}).json()
    assert after["data"] == listed["data"][1::-1] and not after["has_more"]
    twice = respond(client, input=[{"role": "user", "content": "a", "id": "msg_1"}] * 3)
    ids = [item["id"] for item in client.get(f"{PATH}/{twice['id']}/input_items?order=asc").json()["data"]]
    assert ids[0] == "msg_1" and len(set(ids)) == 3  # pages are found by them
    for query in ("limit=0", "limit=101", "limit=" + "9" * 5000, "order=up", "after=none"):
        answer = client.get(f"{PATH}/{second['id']}/input_items?{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, query.partition("=")[0]), query


def test_results_of_calls(client: Any) -> None:
    """Calls and their results are the messages that chat has for them."""
    pytest.importorskip("starlette")
    from pyapp.serve.fields import Fields
    from pyapp.serve.response_items import input_items, messages_of
    from pyapp.serve.response_store import ResponseStore

    asked = {"role": "user", "content": "where?"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    parts = result | {"call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]}
    given = [asked, thought, said, call, call | {"call_id": "c2", "arguments": "{"}, result, parts, asked]
    items = input_items(Fields({"input": given}), ResponseStore(0))
    function = {"name": "weather", "arguments": {"city": "Oslo"}}
    assert messages_of([item.value for item in items], "Be brief.") == [
        {"role": "system", "content": "Be brief."}, asked,
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
            {"id": "c1", "type": "function", "function": function},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain", "name": "weather"},
        {"role": "tool", "tool_call_id": "c2", "content": "sun", "name": "weather"}, asked,
    ]  # fmt: skip
    alone = [item.value for item in input_items(Fields({"input": [call, result]}), ResponseStore(0))]
    assert messages_of(alone, None)[0]["role"] == "assistant" and len(messages_of(alone, None)) == 2
    first = respond(client, tools=[LOOK], tool_choice="required", max_output_tokens=90)
    outcome = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "rain"}
    second = respond(client, tools=[LOOK], previous_response_id=first["id"], input=[outcome])
    spelled = [{"role": "user", "content": "hello"}, *first["output"], outcome]
    assert text_of(second) == text_of(respond(client, tools=[LOOK], input=spelled))


def test_what_is_kept(client: Any) -> None:
    for found in (respond(client), streamed(client)[-1]["response"]):
        assert client.get(f"{PATH}/{found['id']}").json() == found
        assert client.delete(f"{PATH}/{found['id']}").json() == {
            "id": found["id"], "object": "response", "deleted": True}  # fmt: skip
        for answer in (client.get(f"{PATH}/{found['id']}"), client.delete(f"{PATH}/{found['id']}"),
                       client.get(f"{PATH}/{found['id']}/input_items")):  # fmt: skip
            error = answer.json()["error"]
            assert (answer.status_code, error["param"], error["code"]) == (404, "response_id", "response_not_found")
        answer = client.post(PATH, json=ASK | {"previous_response_id": found["id"]})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (404, "previous_response_id")
        assert error["code"] == "previous_response_not_found" and "send the whole conversation" in error["message"]
    forgotten = respond(client, store=False)
    assert client.get(f"{PATH}/{forgotten['id']}").status_code == 404
    kept = respond(client)
    figures = client.get("/metrics").text
    assert f"pyapp_responses_kept_bytes {float(client.context.responses.nbytes)}" in figures
    assert client.get(f"{PATH}/{kept['id']}?stream=true").json()["error"]["param"] == "stream"


def test_the_store_has_a_size() -> None:
    pytest.importorskip("starlette")
    from pyapp.serve.problems import Problem
    from pyapp.serve.response_store import Item, ResponseStore

    def item(id: str, size: int = 1000) -> Item:
        return Item.of({"id": id, "text": "x" * size})

    store = ResponseStore(12_000)
    question, answer = item("q"), item("a")
    store.add({"id": "r1"}, [question], [answer])
    alone = store.nbytes
    store.add({"id": "r2"}, [question, answer, item("q2")], [item("a2")])
    assert store.nbytes < 2.5 * alone  # what both have counts once
    store.delete("r1", "id")
    assert store.item("q", "id") is question and len(store) == 1
    store.add({"id": "r3"}, [item("q3")], [])
    store.find("r2", "id")  # used last
    store.add({"id": "r4"}, [item("q4", 3000)], [])
    assert store.nbytes <= 12_000
    with pytest.raises(Problem, match="r3"):
        store.find("r3", "id")
    with pytest.raises(Problem, match="q3"):
        store.item("q3", "id")
    store.add({"id": "large"}, [item("q5", 20_000)], [])  # changes nothing
    assert store.find("r2", "id").items[0] is question and len(store) == 2
    store.delete("r2", "id")
    store.delete("r4", "id")
    assert (store.nbytes, len(store)) == (0, 0)
    with pytest.raises(Problem, match="'q'"):
        store.item("q", "id")


def test_old_turns_are_left_out(client: Any) -> None:
    """With truncation auto, the oldest ones, until there is room for the answer; instructions stay."""
    turns = [{"role": role, "content": f"{number} {'x' * 60}"} for number in range(9) for role in ("user", "assistant")]
    asked = {"input": [*turns, {"role": "user", "content": "hello"}], "instructions": "Be brief."}
    answer = client.post(PATH, json=ASK | asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert answer.json()["error"]["param"] == "input"
    found = respond(client, **asked, truncation="auto", max_output_tokens=50)
    same = [respond(client, **asked | {"input": asked["input"][start:]}, max_output_tokens=50)
            for start in range(12, 18, 2)]  # fmt: skip
    fits = next(one for one in same if one["usage"]["total_tokens"] <= 512)
    assert text_of(found) == text_of(fits) and found["usage"] | {"input_tokens_details": 0} == fits["usage"] | {
        "input_tokens_details": 0}  # fmt: skip
    assert 512 - 50 - 145 < found["usage"]["input_tokens"] <= 512 - 50
    huge = client.post(PATH, json=ASK | {"input": "x" * 3000, "truncation": "auto"})
    assert (huge.status_code, huge.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_how_much_a_model_reasons(client: Any) -> None:
    """What the chat template has a switch for; the model here has none and does not think."""
    from pyapp.serve.chat import effort_variables
    from pyapp.serve.problems import Problem

    assert respond(client, reasoning={"effort": "none", "summary": "auto"})["status"] == "incomplete"
    model = client.context.models.by_name["chat"]
    tokenizer, settings = model.loaded.tokenizer, model.loaded.tokenizer.settings

    def with_template(template: str, effort: str | None) -> Any:
        tokenizer.settings = {**settings, "chat_template": template}
        try:
            return effort_variables(model, effort)
        except Problem as problem:
            return problem.param
        finally:
            tokenizer.settings = settings

    rows = [
        ("{{ reasoning_effort }}", "low", {"reasoning_effort": "low"}),
        ("{% if enable_thinking %}", "high", {"enable_thinking": True}),
        ("{% if enable_thinking %}", "none", {"enable_thinking": False}),
        ("assistant<think>", "high", {}), ("assistant<think>", "none", "reasoning.effort"),
        ("assistant", "high", "reasoning.effort"), ("assistant", "none", {}), ("assistant", None, {}),
    ]  # fmt: skip
    check_each(lambda template, effort, wanted: _same(with_template(template, effort), wanted), rows)


def _same(found: Any, wanted: Any) -> None:
    assert found == wanted


def test_streams_that_break_off(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, then the response as it failed, in the same numbering."""
    from pyapp.serve import generation
    from pyapp.serve.problems import Problem

    known = generation.RunningTexts.events

    async def breaking(self: Any) -> Any:
        number = 0
        async for event in known(self):
            number += 1
            if number == 4:
                raise Problem("the server ends", status=503, code="server_ends")
            yield event

    monkeypatch.setattr(generation.RunningTexts, "events", breaking)
    events = streamed(client)
    assert kinds(events)[-2:] == ["error", "failed"]
    assert events[-2]["message"] == "the server ends" and events[-2]["code"] == "server_ends"
    response = events[-1]["response"]
    assert response["status"] == "failed" and response["error"]["message"] == "the server ends"
    assert len(text_of(response)) == 3
    assert client.get(f"{PATH}/{response['id']}").status_code == 404
    assert client.context.in_flight == 0


IMAGE = {"type": "input_image", "image_url": "https://example.org/a.png"}
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"input": None}, 400, "input"),
    ({"input": []}, 400, "input"),
    ({"input": 5}, 400, "input"),
    ({"input": [{"role": "user", "content": "a"}] * 10_001}, 400, "input"),
    ({"input": ["hello"]}, 400, "input[0]"),
    ({"input": [{"role": "robot", "content": "x"}]}, 400, "input[0].role"),
    ({"input": [{"role": "user"}]}, 400, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}, IMAGE]}]}, 400,
     "input[0].content[1]"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, 400, "input[0].content[0]"),
    ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, 400, "input[0].type"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, 400, "input[0].arguments"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, 400, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": [IMAGE]}]}, 400, "input[0].output[0]"),
    ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, 400, "input[0].encrypted_content"),
    ({"input": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}]}]}, 400, "input"),
    ({"input": [{"type": "item_reference", "id": "msg_none"}]}, 404, "input[0].id"),
    ({"input": [{}]}, 400, "input[0].id"),
    ({"input": "\ud800"}, 400, "input"),
    ({"input": [{"role": "user", "content": "a", "id": "\ud800"}]}, 400, "input"),
    ({"input": "x" * 30_000}, 400, "input"),
    ({"input": "x" * 3_000}, 400, "input"),
    ({"model": "none"}, 404, "model"),
    ({"previous_response_id": "resp_none"}, 404, "previous_response_id"),
    ({"background": True}, 400, "background"),
    ({"conversation": "conv_1"}, 400, "conversation"),
    ({"prompt": {"id": "p"}}, 400, "prompt"),
    ({"context_management": [{"type": "compaction"}]}, 400, "context_management"),
    ({"tools": [{"type": "web_search"}]}, 400, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, 400, "tools[0].name"),
    ({"tools": [{"type": "function", "name": "f", "parameters": 3}]}, 400, "tools[0].parameters"),
    ({"tools": [{"type": "function", "name": "f", "defer_loading": True}]}, 400, "tools[0].defer_loading"),
    ({"tools": [LOOK], "tool_choice": {"type": "file_search"}}, 400, "tool_choice"),
    ({"tools": [LOOK], "tool_choice": {"type": "function", "name": "none"}}, 400, "tool_choice"),
    ({"tool_choice": "required"}, 400, "tool_choice"),
    ({"tools": [LOOK], "tool_choice": "required", "text": {"format": {"type": "json_object"}}}, 400, "tool_choice"),
    ({"text": {"format": {"type": "xml"}}}, 400, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": 3}}}, 400, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"$ref": "#"}}}}, 400, "text.format"),
    ({"text": {"format": {"type": "json_object"}}, "regex": "a"}, 400, "text.format"),
    ({"include": ["file_search_call.results"]}, 400, "include[0]"),
    ({"reasoning": {"effort": "high"}}, 400, "reasoning.effort"),
    ({"reasoning": {"summary": "detailed"}}, 400, "reasoning.summary"),
    ({"truncation": "left"}, 400, "truncation"),
    ({"top_logprobs": 21}, 400, "top_logprobs"),
    ({"max_output_tokens": 0}, 400, "max_output_tokens"),
    ({"max_output_tokens": 10**9}, 400, "max_output_tokens"),
    ({"temperature": "hot"}, 400, "temperature"),
    ({"metadata": {"a": 1}}, 400, "metadata"),
    ({"metadata": dict.fromkeys(map(str, range(17)), "")}, 400, "metadata"),
    ({"stream_options": {}}, 400, "stream_options"),
    ({"max_tokens": 5}, 400, "max_tokens"),
    ({"messages": []}, 400, "messages"),
]  # fmt: skip


def test_refusals_name_the_field(client: Any) -> None:
    def check(more: dict[str, Any], status: int, field: str) -> None:
        answer = client.post(PATH, content=json.dumps(ASK | more), headers={"content-type": "application/json"})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, field), error
        assert error["type"] == "invalid_request_error" and field.partition("[")[0] in error["message"]

    check_each(check, REFUSED)
    assert client.context.in_flight == 0


def test_texts_that_no_json_has(client: Any) -> None:
    """Half a surrogate pair where it is only repeated: the answer is JSON all the same."""
    body = json.dumps(ASK | {"metadata": {"a": "\ud800"}})
    answer = client.post(PATH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200 and answer.json()["metadata"] == {"a": "?"}
    assert client.get(f"{PATH}/{answer.json()['id']}").json() == answer.json()


def test_nothing_is_kept_where_there_is_no_memory_for_it(model_folders: dict[str, Path]) -> None:

    with serving(f"chat={model_folders['chat']}", response_bytes=0) as other:
        found = respond(other)
        assert found["status"] == "incomplete" and other.get(f"{PATH}/{found['id']}").status_code == 404
