"""Ollama's interface: its forms, and answers that are those of OpenAI's routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.native_only
HELLO = [{"role": "user", "content": "hello"}]
SHORT = {"num_predict": 6, "temperature": 0}


def asked(client: Any, route: str, status: int = 200, **body: Any) -> Any:
    answer = client.post(f"/api/{route}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if body.get("stream") is False or status != 200 else lines_of(answer)


def lines_of(answer: Any) -> list[Any]:
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_conversation(client: Any) -> None:
    reference = client.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 6, "temperature": 0}).json()
    text = reference["choices"][0]["message"]["content"]
    whole = asked(client, "chat", model="chat:latest", messages=HELLO, options=SHORT, stream=False)
    assert whole["message"] == {"role": "assistant", "content": text} and whole["model"] == "chat"
    assert (whole["done"], whole["done_reason"], whole["eval_count"]) == (True, "length", 6)
    assert whole["prompt_eval_count"] == reference["usage"]["prompt_tokens"]
    assert whole["total_duration"] == whole["prompt_eval_duration"] + whole["eval_duration"] > 0
    more: Any = {"logprobs": True, "top_logprobs": 2}
    scored = client.post("/v1/chat/completions", json={"messages": HELLO, "max_tokens": 6, "temperature": 0} | more)
    scores = scored.json()["choices"][0]["logprobs"]["content"]
    assert asked(client, "chat", messages=HELLO, options=SHORT, stream=False, **more)["logprobs"] == scores
    pieces = asked(client, "chat", messages=HELLO, options=SHORT, **more)
    assert [score for piece in pieces for score in piece.get("logprobs", ())] == scores and len(scores) == 6
    raw = asked(client, "generate", prompt="hello", raw=True, options=SHORT, stream=False, logprobs=True)
    assert len(raw["logprobs"]) == 6 and not raw["logprobs"][0]["top_logprobs"]
    pieces = asked(client, "chat", model="chat", messages=HELLO, options=SHORT | {"num_ctx": 512, "num_gpu": 1})
    assert "".join(piece["message"]["content"] for piece in pieces) == text
    assert [piece["done"] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    schema = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"]}
    long = SHORT | {"num_predict": 60}
    shaped = asked(client, "chat", messages=HELLO, format=schema, options=long, stream=False)
    assert json.loads(shaped["message"]["content"])["age"] in (3, 4)
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    called = asked(client, "chat", messages=HELLO, tools=[tool], tool_choice="required", options=long)
    [calls] = [piece["message"]["tool_calls"] for piece in called if "tool_calls" in piece["message"]]
    assert calls[0]["function"]["name"] == "look" and calls[0]["function"]["arguments"]["age"] in (3, 4)
    again = [*HELLO, {"role": "assistant", "content": "", "tool_calls": calls}]
    again.append({"role": "tool", "content": "four", "tool_name": "look"})
    assert asked(client, "chat", messages=again, options=SHORT, stream=False)["message"]["content"]


def test_a_text(client: Any) -> None:
    talk = asked(client, "chat", messages=[{"role": "system", "content": "Be brief"}, *HELLO], options=SHORT)
    spoken = asked(client, "generate", prompt="hello", system="Be brief", options=SHORT)
    assert [piece["response"] for piece in spoken] == [piece["message"]["content"] for piece in talk]
    reference = client.post("/v1/completions", json={"prompt": "hello", "max_tokens": 6, "temperature": 0}).json()
    raw = asked(client, "generate", prompt="hello", raw=True, options=SHORT, stream=False)
    assert raw["response"] == reference["choices"][0]["text"] and raw["done_reason"] == "length"
    shaped = asked(client, "generate", prompt="hello", format="json", options={"num_predict": 2}, stream=False)
    assert shaped["response"].startswith("{")
    for route in ("chat", "generate"):
        assert client.post(f"/api/{route}", json={"model": "chat"}).json()["done_reason"] == "load"


def test_models_and_vectors(client: Any) -> None:
    assert client.get("/").text.startswith("pyapp is running") and client.head("/").status_code == 200
    models = {entry["name"]: entry for entry in client.get("/api/tags").json()["models"]}
    assert "chat" in models and models["embedder"]["size"] > 0
    assert "chat" in {entry["model"] for entry in client.get("/api/ps").json()["models"]}
    found = client.post("/api/show", json={"model": "chat"}).json()
    assert found["capabilities"][0] == "completion" and found["details"]["family"] == "llama" and found["template"]
    assert client.post("/api/show", json={"name": "embedder"}).json()["capabilities"] == ["embedding"]
    assert client.get("/api/version").json()["version"]
    texts = ["the cat", "a boat"]
    wanted = [entry["embedding"] for entry in client.post("/v1/embeddings", json={"input": texts}).json()["data"]]
    assert client.post("/api/embed", json={"input": texts}).json()["embeddings"] == wanted
    assert client.post("/api/embeddings", json={"prompt": texts[0]}).json()["embedding"] == wanted[0]


def test_what_is_refused(client: Any) -> None:
    """Errors are texts. curl sends JSON as a form, and so could the pages of other sites, which may not."""
    for body, what in (
        ({"model": "none", "messages": HELLO}, "'none' does not exist"),
        ({"messages": HELLO, "options": {"temperature": -1}}, "options.temperature"),
        ({"messages": HELLO, "options": {"mirostat": 2}}, "options.mirostat: must be 0"),
        ({"messages": HELLO, "options": {"num_predict": "a"}}, "options.num_predict"),
        ({"messages": HELLO, "options": {"nobodys": 1}}, "options.nobodys: there is no such field"),
        ({"messages": HELLO, "format": "yaml"}, "format"),
        ({"messages": HELLO, "think": True}, "think: the model 'chat' does not reason"),
        ({"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]}, "reads no pictures"),
    ):
        assert what in asked(client, "chat", 404 if "model" in body else 400, **body)["error"]
    for what in ("pull", "push"):
        assert "models are given to `pyapp serve`" in asked(client, what, 404, model="a")["error"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    text = json.dumps({"prompt": "a", "options": {"num_predict": 1}})
    assert lines_of(client.post("/api/generate", content=text, headers=form))[-1]["done"]
    foreign = client.post("/api/generate", content=text, headers=form | {"Origin": "https://elsewhere.example"})
    assert foreign.status_code == 415
