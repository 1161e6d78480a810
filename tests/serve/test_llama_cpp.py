"""llama.cpp's own routes: its forms, and answers that are those of OpenAI's routes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.serve.test_routes import post
from tests.together import check_each

pytestmark = pytest.mark.native_only

ASK: dict[str, Any] = {"prompt": "hello", "n_predict": 6, "temperature": 0}


def streamed(client: Any, **more: Any) -> list[Any]:
    answer = client.post("/completion", json=ASK | more | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return [json.loads(block.removeprefix("data: ")) for block in answer.text.removesuffix("\n\n").split("\n\n")]


def test_completions(client: Any) -> None:
    plain = {"prompt": "hello", "max_tokens": 6, "temperature": 0}
    reference = post(client, "/v1/completions", **plain, logprobs=2)["choices"][0]
    text, scores = reference["text"], reference["logprobs"]
    found = post(client, "/completion", **ASK, n_probs=2, return_tokens=True, cache_prompt=True)
    assert (found["content"], found["stop"], found["stop_type"]) == (text, True, "limit")
    assert (found["tokens_predicted"], found["tokens_evaluated"], found["prompt"]) == (6, 5, "hello")
    assert [entry["logprob"] for entry in found["completion_probabilities"]] == scores["token_logprobs"]
    assert [entry["id"] for entry in found["completion_probabilities"]] == found["tokens"]
    assert len(found["completion_probabilities"][0]["top_logprobs"]) == 2
    pieces = streamed(client, n_predict=6, return_tokens=True)
    assert "".join(piece["content"] for piece in pieces) == text
    assert [id for piece in pieces for id in piece["tokens"]] == found["tokens"]
    assert [piece["stop"] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    stopped = post(client, "/completion", **ASK | {"n_predict": -1, "stop": [text[3]]})
    assert (stopped["stop_type"], stopped["stopping_word"]) == ("word", text[3])
    assert stopped["content"] == text[: text.index(text[3])]
    both = post(client, "/completion", **ASK | {"prompt": ["hello", [104, 101, 108, 108, 111]]})
    assert [entry["content"] for entry in both] == [text, text] and "tokens_evaluated" in both[1]
    biased = post(client, "/completion", **ASK, logit_bias=[[found["tokens"][0], False]], seed=-1)
    assert biased["content"][0] != text[0]
    shaped = post(client, "/completion", **ASK | {"n_predict": 40}, json_schema={"enum": [34, 35]})
    assert json.loads(shaped["content"]) in (34, 35) and shaped["stop_type"] == "eos"


def test_tokens_and_the_server(client: Any) -> None:
    assert post(client, "/tokenize", content="hé") == {"tokens": [104, 195, 169]}
    pieces = post(client, "/tokenize", content="hé", with_pieces=True)["tokens"]
    assert pieces == [{"id": 104, "piece": "h"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]
    named = post(client, "/tokenize", content="<|im_end|>", parse_special=False)["tokens"]
    assert post(client, "/tokenize", content="<|im_end|>") == {"tokens": [257]} and len(named) == 10
    assert post(client, "/detokenize", tokens=[104, 195, 169]) == {"content": "hé"}
    talk = [{"role": "user", "content": "hi"}]
    prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert post(client, "/apply-template", messages=talk) == {"prompt": prompt}
    shown = client.get("/props").json()
    assert shown["model_alias"] == "chat" and "im_start" in shown["chat_template"]
    assert shown["default_generation_settings"]["n_ctx"] > 256 and shown["eos_token"] == "<|im_end|>"
    assert client.get("/lora-adapters").json() == []
    slots = client.get("/slots?model=chat&fail_on_no_slot=1").json()
    assert len(slots) == shown["total_slots"] and not any(slot["is_processing"] for slot in slots)
    assert client.get("/props?model=none").status_code == 404


def test_vectors(client: Any) -> None:
    """In arrays of their own, by each norm; what has an `input` is answered as by OpenAI."""
    [known] = post(client, "/v1/embeddings", input="the cat")["data"]
    vector = np.array(known["embedding"])
    found = post(client, "/embedding", content=["the cat", "a boat"])
    assert [entry["index"] for entry in found] == [0, 1] and np.allclose(found[0]["embedding"], [vector], atol=1e-6)
    for norm, length in ((-1, 1.0), (0, abs(vector).max() / 32760), (1, abs(vector).sum()), (2, 1.0)):
        [entry] = post(client, "/embeddings", content="the cat", embd_normalize=norm)
        assert np.allclose(entry["embedding"], [vector / length], rtol=1e-5, atol=1e-6), norm
    assert post(client, "/embeddings", input="the cat")["data"] == [known]
    documents = {"query": "a cat", "documents": ["the cat", "a boat"]}
    assert post(client, "/reranking", **documents)["results"] == post(client, "/v1/rerank", **documents)["results"]
    assert client.get("/models").json() == client.get("/v1/models").json()
    assert client.get("/v1/health").json() == {"status": "ok"}
    talk = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "temperature": 0}
    assert (
        post(client, "/chat/completions", **talk)["choices"] == post(client, "/v1/chat/completions", **talk)["choices"]
    )


def test_refusals_name_the_field(client: Any) -> None:
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("/completion", ASK | {"mirostat": 2}, "mirostat"), ("/completion", ASK | {"grammar": "root ::= a"}, "grammar"),
        ("/completion", {"n_predict": 2}, "prompt"), ("/completion", ASK | {"n_predict": "a"}, "n_predict"),
        ("/completion", ASK | {"logit_bias": [["a", 1]]}, "logit_bias[0]"), ("/completion", ASK | {"odd": 1}, "odd"),
        ("/completion", ASK | {"json_schema": {"type": "none"}}, "json_schema"), ("/infill", {}, "input_prefix"),
        ("/infill", {"input_prefix": "a", "input_extra": [1]}, "input_extra[0]"),
        ("/detokenize", {"tokens": [258]}, "tokens"), ("/detokenize", {}, "tokens"),
        ("/embedding", {}, "content"), ("/embedding", {"content": "a", "embd_normalize": 3}, "embd_normalize"),
        ("/tokenize", {"content": 3}, "content"), ("/apply-template", {"messages": []}, "messages"),
    ]  # fmt: skip

    def check(path: str, body: dict[str, Any], param: str) -> None:
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text

    check_each(check, rows)
