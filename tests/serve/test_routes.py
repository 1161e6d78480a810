"""The routes, in the forms of their interfaces, and what is refused."""

from __future__ import annotations

import base64
import json
import math
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.audio import open_audio, write_wav
from pyapp.audio.transcribe import transcribe_events
from pyapp.models.loading.speech import load_speech_model
from tests.audio.networks import speaker_network, speech_network
from tests.models.sound_configs import SAMPLES, recording
from tests.models.test_sounds import make as make_sound_model
from tests.models.test_sounds import write as write_sound_model
from tests.serve.conftest import ROOT
from tests.serve.in_process import serving
from tests.text.chat_model import write_chat_model
from tests.text.embedder import write_classifier
from tests.together import check_each

pytestmark = pytest.mark.native_only

ASK = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 6, "temperature": 0}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {  # with a reference, as pydantic writes classes in classes
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/City"}},
            "required": ["city"],
            "$defs": {"City": {"enum": ["Oslo", "Rome"]}},
        },
    },
}
SOUND = ROOT / "web/models/speech/samples/weather.wav"


def post(client: Any, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def named_events(answer: Any) -> list[Any]:
    """The events of a stream in which each has its type as its name."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    blocks = [block.split("\n") for block in answer.text.removesuffix("\n\n").split("\n\n")]
    found = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name for name, _ in blocks] == [f"event: {event['type']}" for event in found]
    return found


def events(client: Any, path: str, **body: Any) -> list[Any]:
    """The objects of a stream; its last line must be [DONE]."""
    answer = client.post(path, json=body | {"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_chat(client: Any) -> None:
    found = post(client, "/v1/chat/completions", **ASK, n=2, logprobs=True, top_logprobs=2)
    first, second = found["choices"]
    assert first["message"] == second["message"] and first["finish_reason"] == "length"
    assert found["usage"]["completion_tokens"] == 12 and found["usage"]["prompt_tokens"] > 5
    assert found["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}
    assert len(first["logprobs"]["content"]) == 6 and len(first["logprobs"]["content"][0]["top_logprobs"]) == 2
    stream = events(client, "/v1/chat/completions", **ASK, stream_options={"include_usage": True})
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in stream if chunk["choices"])
    assert text == first["message"]["content"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in stream if chunk["choices"]][-1] == "length"
    assert stream[-1]["usage"]["total_tokens"] == stream[-1]["usage"]["prompt_tokens"] + 6
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    asked = ASK | {"messages": [{"role": "user", "content": parts}], "max_completion_tokens": 6, "max_tokens": 500}
    assert post(client, "/v1/chat/completions", **asked)["choices"][0]["message"]["content"] == text


def test_what_clients_of_other_servers_send(client: Any) -> None:
    """llama.cpp's max_tokens -1, vLLM's usage with each piece, litellm's form of /rerank."""
    endless = post(client, "/v1/completions", model="chat", prompt="ab", max_tokens=-1, temperature=0)
    assert endless["choices"][0]["finish_reason"] == "length" and endless["usage"]["total_tokens"] >= 512
    options = {"include_usage": True, "continuous_usage_stats": True}
    for path, body in (
        ("/v1/chat/completions", ASK),
        ("/v1/completions", {"prompt": "ab", "max_tokens": 6, "temperature": 0}),
    ):
        stream = events(client, path, **body, stream_options=options)
        counts = [chunk["usage"]["completion_tokens"] for chunk in stream]
        assert counts == sorted(counts) and counts[-1] == 6 and counts[0] < 6, counts
        assert {chunk["usage"]["prompt_tokens"] for chunk in stream} == {stream[-1]["usage"]["prompt_tokens"]}
    ask = {"model": "embedder", "query": "a cat slept", "documents": ["the boat", "a cat slept"]}
    found = post(client, "/rerank", **ask, top_n=1, return_documents=True)
    assert [(r["index"], r["document"]["text"]) for r in found["results"]] == [(1, "a cat slept")]
    by_field = ask | {"documents": [{"title": "boat", "body": "x"}, {"title": "cat", "body": "y"}]}
    assert post(client, "/rerank", **by_field, rank_fields=["title"])["results"]
    assert client.post("/rerank", json=by_field).status_code == 400
    infinity = post(client, "/infinity/rerank", **ask, top_n=1, return_documents=True)
    assert infinity["results"] == [{**found["results"][0], "document": "a cat slept"}]
    assert post(client, "/infinity/embeddings", input="the cat") == post(client, "/v1/embeddings", input="the cat")


def test_filling_in_the_middle(tmp_path: Path) -> None:
    """StarCoder's tokens among the model's: the prompt is prefix, suffix and middle, and such a token ends the text."""

    from pyapp.text.generation.fill_in_middle import between
    from pyapp.text.tokenization.tokenizer import Tokenizer

    write_chat_model(tmp_path / "chat", dim=32)
    path = tmp_path / "chat" / "tokenizer.json"
    document = json.loads(path.read_text())
    names = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    vocabulary = document["model"]["vocab"]
    for number, name in zip((253, 254, 255), names, strict=True):  # bytes that no text has
        del vocabulary[next(letter for letter, id in vocabulary.items() if id == number)]
        vocabulary[name] = number
        document["added_tokens"].insert(0, document["added_tokens"][-1] | {"id": number, "content": name})
    document["added_tokens"].sort(key=lambda entry: entry["id"])
    path.write_text(json.dumps(document))
    gap = between(Tokenizer.from_json(path.read_text()), "ab<fim_suffix>", "c")
    assert gap.ids == [253, 97, 98, *b"<fim_suffix>", 254, 99, 255] and gap.stops == {253, 254, 255}
    with serving(f"chat={tmp_path / 'chat'}") as other:
        ask = {"model": "chat", "max_tokens": 4, "temperature": 0}
        filled = post(other, "/v1/completions", **ask, prompt="ab", suffix="c")
        plain = post(other, "/v1/completions", **ask, prompt=[253, 97, 98, 254, 99, 255])
        assert filled["choices"] == plain["choices"] and filled["usage"]["prompt_tokens"] == 6
        lines = {"input_prefix": "a", "prompt": "b", "input_suffix": "c", "n_predict": 4, "temperature": 0}
        infilled = post(other, "/infill", **lines)
        assert infilled["content"] == plain["choices"][0]["text"] and infilled["tokens_evaluated"] == 6
        beside = post(other, "/infill", **lines, input_extra=[{"filename": "b.py", "text": "x"}])
        assert beside["tokens_evaluated"] == 6 + len("\n\n--- snippet ---\n\nx")


def test_forms_and_tools(client: Any) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 1, "maximum": 9}}}
    schema["required"] = ["age"]
    form = {"type": "json_schema", "json_schema": {"name": "age", "schema": schema, "strict": True}}
    found = post(client, "/v1/chat/completions", **ASK | {"max_tokens": 40}, response_format=form)
    assert 1 <= json.loads(found["choices"][0]["message"]["content"])["age"] <= 9
    forced = {"type": "function", "function": {"name": "weather"}}
    for choice in ("required", forced):
        call = ASK | {"max_tokens": 80, "tools": [WEATHER], "tool_choice": choice}
        chosen = post(client, "/v1/chat/completions", **call)["choices"][0]
        function = chosen["message"]["tool_calls"][0]["function"]
        assert chosen["finish_reason"] == "tool_calls" and chosen["message"]["content"] is None
        assert function["name"] == "weather" and json.loads(function["arguments"])["city"] in ("Oslo", "Rome")
    both = [WEATHER, {"type": "function", "function": {**WEATHER["function"], "name": "climate"}}]
    either = post(client, "/v1/chat/completions", **call | {"tools": both, "tool_choice": "required"})["choices"][0]
    assert json.loads(either["message"]["tool_calls"][0]["function"]["arguments"])["city"] in ("Oslo", "Rome")
    other = {"type": "function", "function": {"name": "other", "parameters": None}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [forced]}}
    several = call | {"tools": [other, WEATHER], "tool_choice": allowed}
    calls = post(client, "/v1/chat/completions", **several)["choices"][0]["message"]["tool_calls"]
    assert [called["function"]["name"] for called in calls] == ["weather"]
    bare = ASK | {"max_tokens": 60, "response_format": {"type": "json_schema", "json_schema": {"name": "any"}}}
    assert post(client, "/v1/chat/completions", **bare)["choices"][0]["message"]["content"].startswith("{")
    chunks = [chunk["choices"][0] for chunk in events(client, "/v1/chat/completions", **call)]
    pieces = [piece for chunk in chunks for piece in chunk["delta"].get("tool_calls", ())]
    assert len(pieces) > 3 and {piece["index"] for piece in pieces} == {0}  # the arguments as they are written
    assert pieces[0]["id"] and pieces[0]["function"] == {"name": "weather", "arguments": ""}
    assert all("id" not in piece for piece in pieces[1:])
    arguments = "".join(piece["function"]["arguments"] for piece in pieces)
    assert arguments == calls[0]["function"]["arguments"] and json.loads(arguments)["city"] in ("Oslo", "Rome")
    assert chunks[-1]["finish_reason"] == "tool_calls"


def test_calls_in_what_a_model_writes() -> None:
    pytest.importorskip("starlette")
    from pyapp.serve.fields import Fields
    from pyapp.serve.tool_calls import Tools, ToolSplitter

    tools = Tools(Fields({"tools": [WEATHER]}))
    call = '{"name": "weather", "arguments": {"city": "Oslo"}}'
    rows = [
        (f"<tool_call>\n{call}\n</tool_call>", "", 1),
        (f"I look.\n<tool_call>{call}</tool_call><tool_call>{call}</tool_call>", "I look.", 2),
        (call, "", 1),
        (call.replace("arguments", "parameters"), "", 1),
        (f"<tool_call>{call}", "", 1),  # the end of the text came first
        (f" [{call}, {call}]", "", 2),
        (f"<tool_call>[{call}, {call}]</tool_call>", "", 2),
        (f'[{call}, {{"name": "other"}}]', f'[{call}, {{"name": "other"}}]', 0),
        ("[1] is a note", "[1] is a note", 0),
        ("[]", "[]", 0),
        ('{"name": "other", "arguments": {}}', '{"name": "other", "arguments": {}}', 0),
        ("a < b and <tool", "a < b and <tool", 0),
        ("<tool_call>none</tool_call> left", "<tool_call>none</tool_call> left", 0),
    ]

    def check(written: str, text: str, calls: int) -> None:
        for size in (1, 7, 1000):  # of the parts in which it arrives
            splitter, shown = ToolSplitter(tools), ""
            for start in range(0, len(written), size):
                shown += splitter.push(written[start : start + size])[0]
            shown += splitter.finish()[0]
            assert (shown.strip(), len(splitter.calls)) == (text, calls), size

    check_each(check, rows)
    one = Tools(Fields({"tools": [WEATHER], "parallel_tool_calls": False}))
    splitter = ToolSplitter(one)
    found = splitter.push(f"<tool_call>{call}</tool_call>")[1] + splitter.push(f"<tool_call>{call}</tool_call>!")[1]
    assert len(found) == len(splitter.calls) == 1
    assert len(ToolSplitter(one)._told(one.calls(f"[{call}, {call}]"))) == 1
    assert Tools(Fields({"tools": [WEATHER], "tool_choice": "weather"})).choice == "=weather"  # TGI's form


def test_completions(client: Any) -> None:
    body = {"model": "chat", "prompt": ["ab", "cd"], "max_tokens": 4, "temperature": 0, "n": 2, "logprobs": 2}
    found = post(client, "/v1/completions", **body, echo=True)
    assert [choice["text"][:2] for choice in found["choices"]] == ["ab", "ab", "cd", "cd"]
    assert {name: count for name, count in found["usage"].items() if not name.endswith("details")} == {
        "prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20}  # fmt: skip
    scores = found["choices"][0]["logprobs"]
    lengths = [len(token) for token in scores["tokens"]]
    assert len(lengths) == 6 and scores["text_offset"] == [sum(lengths[:place]) for place in range(6)]
    streamed = [c["choices"][0]["logprobs"] for c in events(client, "/v1/completions", **body | {"n": 1}, echo=True)
                if c["choices"][0]["index"] == 0]  # fmt: skip
    assert [offset for part in streamed if part for offset in part["text_offset"]] == scores["text_offset"]
    ids = post(client, "/v1/completions", model="chat", prompt=[97, 98], max_tokens=4, temperature=0)
    assert (
        "ab" + post(client, "/v1/completions", prompt="ab", max_tokens=4, temperature=0)["choices"][0]["text"]
        == (found["choices"][0]["text"])
    )
    assert len(ids["choices"]) == 1
    whole = "".join(
        c["choices"][0]["text"] for c in events(client, "/v1/completions", **body | {"n": 1, "prompt": "ab"})
    )
    assert "ab" + whole == found["choices"][0]["text"]
    stopped = post(client, "/v1/completions", prompt="ab", max_tokens=50, temperature=0, stop=[whole[1:3]])
    assert stopped["choices"][0] | {"logprobs": 0} == {
        "text": whole[: whole.index(whole[1:3])], "finish_reason": "stop", "index": 0, "logprobs": 0}  # fmt: skip


def test_scores_of_prompts(client: Any) -> None:
    """What lm-evaluation-harness asks for, with max_tokens 1 and 0, texts and tokens, alone, together and streamed."""
    text = "the cat sat on the mat, " * 12  # more than one pass
    ids = list(text.encode())
    ask = {"model": "chat", "max_tokens": 1, "temperature": 0, "logprobs": 1, "seed": 1234, "echo": True}
    found = post(client, "/v1/completions", **ask, prompt=ids)["choices"][0]["logprobs"]
    assert len(found["token_logprobs"]) == len(found["top_logprobs"]) == len(ids) + 1
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    assert found["text_offset"] == list(range(len(ids) + 1))
    model = client.context.models.by_name["chat"].loaded.model
    logits = model(pyapp.tensor(ids, dtype="int32").reshape(1, -1)).log_softmax(-1)[0]  # (T, V)
    wanted = [logits[place, following].item() for place, following in enumerate(ids[1:])]
    assert found["token_logprobs"][1:-1] == pytest.approx(wanted, abs=1e-4)
    for place, (top, logprob) in enumerate(zip(found["top_logprobs"], found["token_logprobs"], strict=True)):
        assert not top or (max(top.values()) == logprob) == (place == len(ids) or wanted[place - 1] == max(
            logits[place - 1].tolist()))  # fmt: skip
    others = [list(b"hello"), ids, list(b"an old man")]
    together = post(client, "/v1/completions", **ask, prompt=others)["choices"]
    assert together[1]["logprobs"] == found and [len(c["logprobs"]["tokens"]) for c in together] == [
        6,
        len(ids) + 1,
        11,
    ]
    none = post(client, "/v1/completions", **ask | {"max_tokens": 0}, prompt=text)
    assert none["choices"][0]["text"] == text and none["choices"][0]["finish_reason"] == "length"
    assert none["choices"][0]["logprobs"] == {name: values[:-1] for name, values in found.items()}
    assert none["usage"]["completion_tokens"] == 0
    parts = [c["choices"][0] for c in events(client, "/v1/completions", **ask | {"max_tokens": 3}, prompt=text)]
    assert parts[0]["text"] == text and parts[0]["logprobs"] == none["choices"][0]["logprobs"]
    assert [len(part["logprobs"]["tokens"]) for part in parts[1:] if part["logprobs"]] == [1, 1, 1]
    with serving("stories") as other:  # whose tokenizer puts a space before a text
        heard = post(other, "/v1/completions", **ask | {"model": "stories"}, prompt="Once upon")["choices"][0]
    assert heard["logprobs"]["text_offset"][:4] == [0, 0, 4, 9] and heard["text"][4:9] == " upon"
    assert post(client, "/v1/completions", prompt="a", max_tokens=0)["choices"][0]["text"] == ""


def test_best_of(client: Any) -> None:
    ask = {"model": "chat", "prompt": ["ab", "cd"], "max_tokens": 5, "seed": 3, "temperature": 1.5}
    whole = post(client, "/v1/completions", **ask, n=4, logprobs=0)
    all_of = whole["choices"]

    def mean(choice: Any) -> float:
        scores = choice["logprobs"]["token_logprobs"]
        return float(sum(scores) / len(scores))

    found = post(client, "/v1/completions", **ask, n=2, best_of=4)
    ranked = [sorted(all_of[first : first + 4], key=lambda choice: -mean(choice))[:2] for first in (0, 4)]
    assert [choice["text"] for choice in found["choices"]] == [choice["text"] for row in ranked for choice in row]
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2, 3]
    assert found["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] > 20
    assert found["choices"][0]["logprobs"] is None


def test_settings_of_a_models_generation_config(client: Any, model_folders: dict[str, Path]) -> None:
    served = client.context.models.by_name["chat"]
    ask = {"model": "chat", "prompt": "ab", "max_tokens": 8}
    greedy = post(client, "/v1/completions", **ask, temperature=0)["choices"][0]["text"]
    loaded = served.loaded
    served.loaded = replace(loaded, generation={"temperature": 0.0, "suppress_tokens": [ord(greedy[0])]})
    try:
        own = post(client, "/v1/completions", **ask)["choices"][0]["text"]
        assert greedy[0] not in own and post(client, "/v1/completions", **ask)["choices"][0]["text"] == own
        several = post(client, "/v1/completions", **ask | {"prompt": ["hello", "ab", "zz"]})["choices"]
        assert several[1]["text"] == own  # in company too
        drawn = [post(client, "/v1/completions", **ask, temperature=2, seed=s)["choices"][0]["text"] for s in range(4)]
        assert len(set(drawn)) > 1 and greedy[0] not in "".join(drawn)
        free = post(client, "/v1/completions", **ask, suppress_tokens=[0])["choices"][0]["text"]
        assert free == greedy  # what a request says goes first
        talk = post(client, "/v1/chat/completions", **{**ASK, "temperature": None})["choices"][0]["message"]["content"]
        assert greedy[0] not in talk
    finally:
        served.loaded = loaded


def test_embeddings_and_ranking(client: Any) -> None:
    found = post(client, "/v1/embeddings", input=["the cat", "a boat on the river"], model="embedder")
    vectors = [entry["embedding"] for entry in found["data"]]
    assert len(vectors[0]) == 64 and found["usage"]["prompt_tokens"] == 4 + 7
    coded = post(client, "/v1/embeddings", input="the cat", encoding_format="base64")["data"][0]["embedding"]
    assert struct.unpack("<64f", base64.b64decode(coded)) == pytest.approx(vectors[0])
    short = post(client, "/v1/embeddings", input="the cat", dimensions=8)["data"][0]["embedding"]
    assert len(short) == 8 and sum(x * x for x in short) == pytest.approx(1)
    assert post(client, "/embed", inputs=["the cat"]) == [pytest.approx(vectors[0], abs=1e-6)]
    texts = ["the boat sailed", "the cat slept", "bread"]
    ranked = post(client, "/v1/rerank", query="a cat slept", documents=texts, top_n=2, return_documents=True)["results"]
    assert ranked[0]["index"] == 1 and ranked[0]["document"] == {"text": texts[1]} and len(ranked) == 2
    assert post(client, "/rerank", query="a cat slept", texts=texts)[0]["index"] == 1
    inputs = {"source_sentence": "a cat slept", "sentences": texts}
    scores = post(client, "/similarity", inputs=inputs)
    assert max(scores) == scores[1]
    asked, text = (
        post(client, "/embed", inputs=given, prompt_name=name)[0]
        for name, given in (("query", "a cat slept"), ("passage", texts[1]))
    )  # each with the prompt of its role
    assert ranked[0]["relevance_score"] == pytest.approx(sum(x * y for x, y in zip(asked, text, strict=True)))


def test_the_role_of_texts_chooses_their_prompt(client: Any) -> None:
    texts = ["the cat", "a boat on the river"]

    def check(path: str, key: str, role: dict[str, str], prompt: str | None) -> None:
        vectors = post(client, "/embed", inputs=texts, **({"prompt_name": prompt} if prompt else {}))
        found = post(client, path, **{key: texts}, **role)
        got = found["embeddings"]["float"] if key == "texts" else [entry["embedding"] for entry in found["data"]]
        assert np.allclose(got, vectors, atol=1e-6)

    rows: list[tuple[str, str, dict[str, str], str | None]] = [
        ("/v2/embed", "texts", {"input_type": "search_query"}, "query"),
        ("/v2/embed", "texts", {"input_type": "search_document"}, "passage"),
        ("/v2/embed", "texts", {"input_type": "classification"}, None),
        ("/v1/embeddings", "input", {"task": "retrieval.passage"}, "passage"),
        ("/v1/embeddings", "input", {"input_type": "query"}, "query"),
    ]
    check_each(check, rows)


def test_vectors_in_bytes_and_bits(client: Any) -> None:
    """As sentence-transformers packs bits (Reimers; embedding quantization, 2024), and each number in a byte."""
    texts = ["the cat", "a boat on the river"]
    kinds = ["float", "int8", "uint8", "binary", "ubinary"]
    found = post(client, "/v2/embed", texts=texts, embedding_types=kinds)["embeddings"]
    vectors = np.array(found["float"])
    bits = np.packbits(vectors > 0).reshape(2, -1)
    assert found["ubinary"] == bits.tolist()
    assert found["binary"] == (bits.astype(int) - 128).tolist()
    expected = np.round(127 * vectors / abs(vectors).max(1, keepdims=True))
    assert found["int8"] == expected.tolist() and found["uint8"] == (expected + 128).tolist()
    jina = {"input": [{"text": text} for text in texts], "normalized": True, "late_chunking": False}
    for name in ("embedding_type", "output_dtype"):
        answer = post(client, "/v1/embeddings", model="embedder", **jina, **{name: "ubinary"})
        assert [entry["embedding"] for entry in answer["data"]] == bits.tolist()
    odd = post(client, "/v1/embeddings", input=texts[0], dimensions=9, output_dtype="ubinary")["data"][0]["embedding"]
    assert odd == np.packbits(vectors[0, :9] > 0).tolist()
    for more, param in (({"normalized": False}, "normalized"), ({"output_dtype": "int4"}, "output_dtype")):
        answer = client.post("/v1/embeddings", json={"input": "a", **more})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_embeddings_in_coheres_form(client: Any) -> None:
    texts = ["the cat", "a boat on the river"]
    vectors = [entry["embedding"] for entry in post(client, "/v1/embeddings", input=texts)["data"]]
    ask = {"model": "embedder", "texts": texts, "input_type": "clustering"}
    found = post(client, "/v2/embed", **ask, embedding_types=["float", "base64"])
    assert found["embeddings"]["float"] == vectors and found["texts"] == texts
    assert found["meta"]["billed_units"] == {"input_tokens": 4 + 7} and found["response_type"] == "embeddings_by_type"
    assert struct.unpack("<64f", base64.b64decode(found["embeddings"]["base64"][1])) == pytest.approx(vectors[1])
    assert list(post(client, "/v2/embed", **ask)["embeddings"]) == ["float"]
    short = post(client, "/v2/embed", **ask, output_dimension=8)["embeddings"]["float"][0]
    assert len(short) == 8 and sum(x * x for x in short) == pytest.approx(1)
    assert post(client, "/v2/embed", **ask, truncate="NONE")["embeddings"]["float"] == vectors
    long = ask | {"texts": ["the cat " * 100]}
    assert post(client, "/v2/embed", **long)
    for more, param in (
        ({"truncate": "NONE"}, "truncate"), ({"truncate": "START"}, "truncate"), ({"texts": []}, "texts"),
        ({"embedding_types": ["int4"]}, "embedding_types[0]"), ({"images": ["x"]}, "images"),
        ({"output_dimension": 65}, "output_dimension"), ({"texts": None}, "texts"),
    ):  # fmt: skip
        answer = client.post("/v2/embed", json={**long, **more})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_vectors_of_many_tokens(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed and sent in pieces, and are those of one piece."""
    from pyapp.serve import items, vectors

    texts = ["the cat", "a boat on the river", "bread", "the cat slept", "fish"]
    whole = client.post("/embed_all", json={"inputs": texts})
    assert "content-length" in whole.headers and len(whole.json()) == 5
    begun: list[int] = []
    values_of = vectors.values_of

    async def counted(context: Any, model: Any, count: int, *more: Any) -> Any:
        begun.append(count)
        return await values_of(context, model, count, *more)

    for module in (items, vectors):
        monkeypatch.setattr(module, "values_of", counted)
    monkeypatch.setattr(vectors, "PIECE_TOKENS", 8)
    parts = client.post("/embed_all", json={"inputs": texts})
    assert begun == [1, 1, 2, 1] and parts.headers["content-type"] == "application/json"
    assert "content-length" not in parts.headers
    for found, wanted in zip(parts.json(), whole.json(), strict=True):
        assert [x for row in found for x in row] == pytest.approx([x for row in wanted for x in row], abs=1e-6)
    assert client.context.in_flight == 0

    async def failing(context: Any, model: Any, count: int, *more: Any) -> Any:
        if len(begun) > 5:
            raise RuntimeError("none of the client's business")
        return await counted(context, model, count, *more)

    monkeypatch.setattr(vectors, "values_of", failing)
    broken = client.post("/embed_all", json={"inputs": texts})
    assert broken.status_code == 200 and "its log says why" in broken.text and "none of" not in broken.text
    with pytest.raises(ValueError, match="delimiter"):
        broken.json()
    assert client.context.in_flight == 0


def test_recordings_beside_parameters(client: Any) -> None:
    """As huggingface_hub sends them: in base64, with the times of the parts on demand."""
    coded = base64.b64encode(SOUND.read_bytes()).decode()
    text = client.post("/", content=SOUND.read_bytes()).json()["text"]
    timed = post(client, "/", inputs=coded, parameters={"return_timestamps": True})
    assert timed["text"] == text and "".join(chunk["text"] for chunk in timed["chunks"]).strip() == text
    assert timed["chunks"][0]["timestamp"][0] < timed["chunks"][-1]["timestamp"][1] < 8
    words = post(client, "/", inputs=coded, parameters={"return_timestamps": "word"})["chunks"]
    assert len(words) == len(text.split()) > len(timed["chunks"])
    plain = post(client, "/", inputs=coded, parameters={"generation_parameters": {"num_beams": 2, "temperature": 0}})
    assert plain["text"] and "chunks" not in plain
    for parameters, param in (
        ({"return_timestamps": "day"}, "parameters.return_timestamps"),
        ({"generation_parameters": {"top_k": 3}}, "parameters.generation_parameters.top_k"),
        ({"generate_kwargs": {"language": "xx"}}, "parameters.language"),
        ({"return_timestamps": True, "surprise": 1}, "parameters.surprise"),
    ):  # fmt: skip
        answer = client.post("/", json={"inputs": coded, "parameters": parameters})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    for wrong in ("no base64", None):
        answer = client.post("/", json={"inputs": wrong, "parameters": {"return_timestamps": True}})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "inputs")


def test_classifiers(client: Any, tmp_path: Path) -> None:

    write_classifier(tmp_path / "rank")
    write_classifier(tmp_path / "three", labels=3)
    models = tuple(f"{name}={tmp_path / name}" for name in ("three", "rank"))
    with serving(*models) as other:
        one = post(other, "/predict", inputs="the cat")
        assert len(one) == 3 and sum(label["score"] for label in one) == pytest.approx(1)
        several = post(other, "/predict", inputs=["the cat", "a boat"])
        assert post(other, "/predict", inputs=[["the cat"], ["a boat"]]) == several
        assert [label["score"] for label in several[0]] == pytest.approx([label["score"] for label in one], abs=1e-5)
        pairs = post(other, "/predict", inputs=[["the cat", "a boat"], ["bread", "fish"]])
        assert len(pairs) == 2 and pairs[0] != several[0]
        raw = post(other, "/predict", inputs="the cat", raw_scores=True)
        assert [label["label"] for label in raw] == [label["label"] for label in one]
        top = max(label["score"] for label in raw)
        weights = [math.exp(label["score"] - top) for label in raw]
        assert [w / sum(weights) for w in weights] == pytest.approx([label["score"] for label in one], abs=1e-5)
        wrong = other.post("/predict", json={"inputs": [["a"], ["a", "b"]]})
        assert wrong.status_code == 400 and wrong.json()["error"]["param"] == "inputs"
        ask = {"model": "rank", "query": "a cat", "texts": ["the boat", "the cat", "bread"]}
        scores = post(other, "/rerank", **ask)
        plain = post(other, "/rerank", **ask, raw_scores=True)
        assert [entry["index"] for entry in plain] == [entry["index"] for entry in scores]
        assert [1 / (1 + math.exp(-entry["score"])) for entry in plain] == pytest.approx(
            [e["score"] for e in scores], abs=1e-5
        )
        documents = [{"text": text} for text in ask["texts"]]
        found = post(other, "/v1/rerank", model="rank", query="a cat", documents=documents, max_chunks_per_doc=3)
        fits = [entry["relevance_score"] for entry in found["results"]]
        assert fits == pytest.approx([entry["score"] for entry in scores], abs=1e-5)
        inner = post(other, "/tokenize", model="rank", inputs="the cat", add_special_tokens=False)
        assert [token["text"].strip() for token in inner] == ["the", "cat"]
        assert len(post(other, "/tokenize", model="rank", inputs="the cat")) == 4
        sent = {"inputs": "the cat", "parameters": {"top_k": 1}}  # as huggingface_hub does
        assert post(other, "/predict", **sent) == post(other, "/", **sent)[0] == one[:1]
        assert post(other, "/predict", inputs="the cat", parameters={"function_to_apply": "none"}) == raw
        assert post(other, "/", inputs=["the cat", "a boat"]) == several
    short = post(client, "/embed", inputs="the cat", dimensions=8)[0]
    assert len(short) == 8 and sum(x * x for x in short) == pytest.approx(1)


def test_batches_of_several_requests(client: Any) -> None:
    from pyapp.events import Done, Item, Progress
    from pyapp.serve.batching import TOGETHER, Batch, Batcher

    rounds: list[list[str]] = []

    def work(texts: list[str]) -> Any:
        rounds.append(texts)
        for index, text in enumerate(texts):
            yield Item(index, {"text": text})
        yield Progress("texts", len(texts), len(texts))
        yield Done("complete")

    batcher, got = Batcher(work), [[], [], []]  # type: ignore[var-annotated]
    texts = [[f"{who}{index}" for index in range(size)] for who, size in (("a", 2 * TOGETHER), ("b", 3), ("c", 1))]
    batches = [Batch(own, events.append) for own, events in zip(texts, got, strict=True)]
    for batch in batches:
        batcher.add(batch)
    while batcher.turn():
        pass
    assert "b2" in rounds[0] and "c0" in rounds[0]  # the small ones do not wait for the large one
    for own, events in zip(texts, got, strict=True):
        assert [event.values["text"] for event in events[:-1]] == own
        assert isinstance(events[-1], Done)


def test_speech(client: Any) -> None:
    sound = SOUND.read_bytes()

    def hear(form: str, **fields: Any) -> Any:
        answer = client.post(
            "/v1/audio/transcriptions", files={"file": ("a.wav", sound)}, data={"response_format": form, **fields}
        )
        assert answer.status_code == 200, answer.text
        return answer

    verbose = hear("verbose_json", **{"timestamp_granularities[]": "word"}).json()
    assert "snow" in verbose["text"] and verbose["duration"] == pytest.approx(7.1, abs=0.1)
    assert [word["word"] for word in verbose["words"]][:2] == verbose["text"].split()[:2]
    assert hear("vtt").text.startswith("WEBVTT")
    streamed = [json.loads(line[6:]) for line in hear("json", stream="true").text.split("\n\n") if "{" in line]
    assert streamed[-1] == {"type": "transcript.text.done", "text": verbose["text"], "usage": verbose["usage"]}
    assert verbose["usage"] == {"type": "duration", "seconds": 8}
    assert "".join(part["delta"] for part in streamed[:-1]) == verbose["text"]
    timed = hear("verbose_json", stream="true", **{"timestamp_granularities[]": "word"}).text
    *parts, whole = [json.loads(line[6:]) for line in timed.split("\n\n") if "{" in line]
    assert whole == {"type": "transcript.text.done", **verbose}
    segments = [part for part in parts if part["type"] == "transcript.text.segment"]
    found, wanted = (
        [(one["start"], one["end"], one["text"]) for one in some] for some in (segments, verbose["segments"])
    )
    assert found == wanted
    words = [word for segment in segments for word in segment["words"]]
    assert [word["word"].strip() for word in words] == [word["word"] for word in verbose["words"]]
    assert "".join(part["delta"] for part in parts if "delta" in part).strip() == verbose["text"]
    [entry] = [one for one in client.get("/v1/models").json()["data"] if one["id"] == "speech"]
    assert entry["languages"] == ["en"] and entry["translates"] is False


def test_speakers(tmp_path: Path) -> None:

    files = {"vad": tmp_path / "vad.onnx", "speaker_model": tmp_path / "speakers.onnx"}
    files["vad"].write_bytes(speech_network())
    files["speaker_model"].write_bytes(speaker_network(metadata={"feature_normalize_type": ""}))
    sound = {"file": ("a.wav", SOUND.read_bytes())}
    with serving("speech", **{name: str(path) for name, path in files.items()}) as other:

        def hear(form: str, **fields: Any) -> Any:
            data = {"response_format": form, **fields}
            answer = other.post("/v1/audio/transcriptions", files=sound, data=data)
            assert answer.status_code == 200, answer.text
            return answer

        found = hear("diarized_json").json()
        assert [one["id"] for one in found["segments"]][:1] == ["seg_001"] and found["duration"] > 7
        assert {one["speaker"] for one in found["segments"]} == {"Speaker 1"} and found["usage"]["seconds"] == 8
        words = {"timestamp_granularities[]": "word"}
        lines = hear("verbose_json", speakers="1", stream="true", **words).text.split("\n\n")
        *parts, verbose = [json.loads(line[6:]) for line in lines if "{" in line]
        parts = [part for part in parts if part["type"] == "transcript.text.segment"]
        every = [*parts, *(word for part in parts for word in part["words"]), *verbose["segments"], *verbose["words"]]
        assert len(parts) == len(verbose["segments"]) and {one["speaker"] for one in every} == {"Speaker 1"}
        assert hear("vtt", speakers="auto").text.count("<v Speaker 1>") == len(verbose["segments"])
        assert hear("text", speakers="1").text.startswith("Speaker 1: ")
        assert "speaker" not in hear("verbose_json").text
        wrong = other.post("/v1/audio/transcriptions", files=sound, data={"speakers": "many"})
        assert wrong.status_code == 400 and wrong.json()["error"]["param"] == "speakers"


def test_inference_servers_routes(client: Any) -> None:
    settings = {"max_new_tokens": 5, "details": True, "top_n_tokens": 2}
    found = post(client, "/generate", inputs="ab", parameters=settings)
    assert found["details"]["finish_reason"] == "length" and len(found["details"]["tokens"]) == 5
    assert [top[0]["id"] for top in found["details"]["top_tokens"]] == [t["id"] for t in found["details"]["tokens"]]
    assert post(client, "/", inputs="ab", parameters=settings)[0] == found
    answer = client.post("/generate_stream", json={"inputs": "ab", "parameters": settings})
    chunks = [json.loads(line[5:]) for line in answer.text.split("\n\n") if line]
    assert "".join(chunk["token"]["text"] for chunk in chunks) == found["generated_text"]
    assert chunks[-1]["generated_text"] == found["generated_text"] and chunks[0]["generated_text"] is None
    grammar = {"grammar": {"type": "regex", "value": "[0-9]{3}"}}
    assert post(client, "/generate", inputs="ab", parameters=grammar)["generated_text"].isdigit()
    prefill = post(client, "/generate", inputs="zzab", parameters=settings | {"decoder_input_details": True,
                                                                             "truncate": 2})  # fmt: skip
    assert prefill["generated_text"] == found["generated_text"]
    assert [entry["text"] for entry in prefill["details"]["prefill"]] == ["a", "b"]
    assert prefill["details"]["prefill"][0]["logprob"] is None and prefill["details"]["prefill"][1]["logprob"] < 0
    drawn = {"do_sample": True, "temperature": 1.5, "seed": 1, "max_new_tokens": 5, "details": True, "best_of": 3}
    best = post(client, "/generate", inputs="ab", parameters=drawn)
    means = [sum(token["logprob"] for token in details["tokens"]) / len(details["tokens"])
             for details in (best["details"], *best["details"]["best_of_sequences"])]  # fmt: skip
    assert len(means) == 3 and means == sorted(means, reverse=True)
    assert [token["id"] for token in post(client, "/tokenize", inputs="ab")] == [97, 98]
    assert client.get("/info").json()["model_id"] == "chat"


def test_operation(client: Any) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert {model["id"]: model["task"] for model in listed} == {
        "chat": "generate", "embedder": "embed", "voice": "speak", "painter": "imagine",
        "speech": "transcribe"}  # fmt: skip
    assert client.get("/v1/models/chat").json()["object"] == "model"
    answer = client.get("/health", headers={"X-Request-ID": "mine-1"})
    assert answer.status_code == 200 and answer.headers["x-request-id"] == "mine-1"
    post(client, "/v1/completions", prompt="a", max_tokens=3)
    figures = client.get("/metrics").text
    assert 'pyapp_model_loaded{model="chat",task="generate"} 1.0' in figures
    assert 'pyapp_time_to_first_token_seconds_count{model="chat"}' in figures
    assert 'pyapp_new_tokens_total{model="chat"} ' in figures and 'pyapp_sound_windows_total{model="speech"}' in figures
    assert "pyapp_memory_kept_bytes " in figures and "process_resident_memory_bytes " in figures
    assert client.context.in_flight == 0


REFUSED = [
    # route, body, status, field
    ("/v1/chat/completions", {}, 400, "messages"),
    ("/v1/chat/completions", {"messages": []}, 400, "messages"),
    ("/v1/chat/completions", {"messages": "hi"}, 400, "messages"),
    ("/v1/chat/completions", {"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0].role"),
    ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "messages[0].content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400,
     "messages[0].content[0]"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, 400,
     "messages[0].content[0].text"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}, 400,
     "messages[0].tool_calls"),
    ("/v1/chat/completions", ASK | {"model": "none"}, 404, "model"),
    ("/v1/chat/completions", ASK | {"model": "embedder"}, 400, "model"),
    ("/v1/chat/completions", ASK | {"temperature": "hot"}, 400, "temperature"),
    ("/v1/chat/completions", ASK | {"top_p": 2}, 400, "top_p"),
    ("/v1/chat/completions", ASK | {"n": 0}, 400, "n"),
    ("/v1/chat/completions", ASK | {"max_tokens": 10**9}, 400, "max_tokens"),
    ("/v1/chat/completions", ASK | {"stream": "yes"}, 400, "stream"),
    ("/v1/chat/completions", ASK | {"logit_bias": {"x": 1}}, 400, "logit_bias"),
    ("/v1/chat/completions", ASK | {"stop": [1]}, 400, "stop"),
    ("/v1/chat/completions", ASK | {"surprise": 1}, 400, "surprise"),
    ("/v1/chat/completions", ASK | {"modalities": ["text", "video"]}, 400, "modalities"),
    ("/v1/chat/completions", ASK | {"tool_choice": {"type": "function"}}, 400, "tool_choice"),
    ("/v1/chat/completions", ASK | {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "auto", "tools": [{"type": "function", "function": {"name": "none"}}]}}}, 400,
     "tool_choice.allowed_tools.tools[0]"),
    ("/v1/chat/completions", ASK | {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools"}}, 400,
     "tool_choice.allowed_tools"),
    ("/v1/chat/completions", ASK | {"tools": [{}]}, 400, "tools[0]"),
    ("/v1/chat/completions", ASK | {"tool_choice": "required"}, 400, "tool_choice"),
    ("/v1/chat/completions", ASK | {"response_format": {"type": "xml"}}, 400, "response_format.type"),
    ("/v1/chat/completions", ASK | {"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema"),
    ("/v1/chat/completions", ASK | {"messages": [{"role": "user", "content": "x" * 30_000}]}, 400, "messages"),
    ("/v1/chat/completions", ASK | {"messages": [{"role": "user", "content": "x" * 3_000}]}, 400, "messages"),
    ("/v1/chat/completions", ASK | {"messages": [{"role": "user", "content": "\ud800"}]}, 400, "messages"),
    ("/v1/chat/completions", ASK | {"response_format": {"type": "json_schema", "json_schema": {
        "name": "n", "schema": {"type": "string", "minLength": 5, "maxLength": 2}}}}, 400, "response_format"),
    ("/v1/chat/completions", ASK | {"regex": "(a{999}){999}"}, 400, "regex"),
    ("/v1/chat/completions", ASK | {"regex": "(a+)+("}, 400, "regex"),
    ("/v1/chat/completions", ASK | {"response_format": {"type": "json_schema", "json_schema": {  # seconds of work
        "name": "n", "schema": {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(900)}}}}},
     400, "response_format"),
    ("/v1/chat/completions", ASK | {"priority": 0.5}, 400, "priority"),
    ("/embed_all", {"inputs": [3]}, 400, "inputs"),
    ("/v1/completions", {"prompt": {"file": "/etc/passwd"}}, 400, "prompt"),
    ("/v1/completions", {"prompt": [5, 999999]}, 400, "prompt"),
    ("/v1/completions", {"prompt": "a", "suffix": "b"}, 400, "suffix"),
    ("/v1/completions", {"prompt": [1, 2], "suffix": "b"}, 400, "suffix"),
    ("/v1/completions", {"prompt": "a", "max_tokens": -2}, 400, "max_tokens"),
    ("/v1/embeddings", {"input": []}, 400, "input"),
    ("/v1/embeddings", {"input": [1, "a"]}, 400, "input"),
    ("/v1/embeddings", {"input": "a", "dimensions": 999}, 400, "dimensions"),
    ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
    ("/v1/rerank", {"documents": ["a"]}, 400, "query"),
    ("/v1/rerank", {"query": "a", "documents": [3]}, 400, "documents[0]"),
    ("/predict", {"inputs": "a"}, 404, "model"),
    ("/generate", {"inputs": 5}, 400, "inputs"),
    ("/generate", {"inputs": "a", "parameters": {"temperature": -1}}, 400, "parameters.temperature"),
    ("/generate", {"inputs": "a", "parameters": {"watermark": True}}, 400, "parameters.watermark"),
    ("/generate", {"inputs": "a", "parameters": {"best_of": 2}}, 400, "parameters.best_of"),
    ("/v1/completions", {"prompt": "a", "best_of": 1, "n": 2}, 400, "best_of"),
    ("/v1/completions", {"prompt": "a", "best_of": 2, "stream": True}, 400, "best_of"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 4, "min_tokens": 5}, 400, "min_tokens"),
    ("/v1/completions", {"prompt": "a", "bad_words_ids": [1]}, 400, "bad_words_ids"),
    ("/v1/completions", {"prompt": "a", "stop_token_ids": ["x"]}, 400, "stop_token_ids"),
    ("/nowhere", {}, 404, None),
]  # fmt: skip


def test_errors_in_the_schema_of_a_forced_call(client: Any) -> None:
    """They name the tool, not the form that the server makes of it."""
    wrong = {"properties": {"a": {"pattern": "(?=x)"}}}
    hello: dict[str, Any] = {"messages": ASK["messages"], "max_tokens": 5}

    def nested(*schemas: Any) -> dict[str, Any]:
        named = [{"name": f"f{index}", "parameters": schema} for index, schema in enumerate(schemas)]
        return {"tools": [{"type": "function", "function": function} for function in named]}

    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "f1"}}]}
    rows: list[tuple[str, dict[str, Any], str]] = [
        ("/v1/chat/completions", hello | nested(wrong) | {"tool_choice": "required"}, "tools[0].function.parameters"),
        ("/v1/chat/completions", hello | nested({}, wrong) | {"tool_choice": "f1"}, "tools[1].function.parameters"),
        ("/v1/chat/completions", hello | nested({}, wrong) | {"tool_choice": {
            "type": "allowed_tools", "allowed_tools": allowed}}, "tools[1].function.parameters"),
        ("/v2/chat", hello | nested({}, wrong) | {"tool_choice": "REQUIRED"}, "tools[1].function.parameters"),
        ("/v1/responses", {"input": "hi", "tool_choice": "required", "tools": [
            {"type": "function", "name": "f", "parameters": wrong}]}, "tools[0].parameters"),
        ("/v1/messages", hello | {"tool_choice": {"type": "any"}, "tools": [
            {"name": "f", "input_schema": wrong}]}, "tools[0].input_schema"),
        ("/v1/chat/completions", hello | nested({"$ref": "#"}) | {"tool_choice": "required"}, "tools"),
    ]  # fmt: skip

    def check(path: str, body: dict[str, Any], field: str) -> None:
        answer = client.post(path, json={"model": "chat", **body})
        error = answer.json()["error"]
        told = f"{field}: " if field == "tools" else f"{field}: #/properties/a/pattern: this regular expression has"
        assert answer.status_code == 400 and error["message"].startswith(told), error
        assert error.get("param", field) == field

    check_each(check, rows)


def test_a_message_without_a_plain_form(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model without a chat template has no form for a tool's message: the error names the message."""
    tokenizer = client.context.models.by_name["chat"].loaded.tokenizer
    settings = {name: value for name, value in tokenizer.settings.items() if name != "chat_template"}
    monkeypatch.setattr(tokenizer, "settings", settings)
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    for route, body, field in [
        ("/v1/chat/completions", {"messages": [*ASK["messages"], result]}, "messages[1]"),
        ("/v2/chat", {"messages": [result]}, "messages[0]"),
        ("/v1/responses", {"input": [output], "instructions": "Be short."}, "input"),  # the message has another number
    ]:
        answer = client.post(route, json={"model": "chat", **body})
        error = answer.json().get("error") or answer.json()
        assert answer.status_code == 400 and error["message"].startswith(f"{field}: the role 'tool' has no plain form")


def test_fields_that_are_null_are_not_there(client: Any) -> None:
    """Clients send null for what they do not set, also for fields of OpenAI that pyapp has not."""
    empty = dict.fromkeys(("audio", "prediction", "web_search_options", "functions", "stop", "seed", "tools", "n"))
    assert post(client, "/v1/chat/completions", **ASK | {"max_tokens": 2} | empty)["choices"]


def test_what_is_wrong_before_a_stream_begins_has_a_status(client: Any) -> None:
    """As of an answer in one piece: the model's runner finds it, not the reading of the fields."""
    schema = {"const": "a" * 40}
    form: Any = {"type": "json_schema", "name": "n", "schema": schema}
    nested: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    hello: Any = {"messages": [{"role": "user", "content": "hi"}]}
    asked: tuple[tuple[str, Any, str], ...] = (
        ("/v1/chat/completions", hello | {"max_tokens": 4, "response_format": nested}, "max_tokens"),
        ("/v1/chat/completions", hello | {"max_tokens": 4, "n": 2, "logit_bias": {"999999": 1}}, "logit_bias"),
        ("/v1/completions", {"prompt": "a", "logit_bias": {"999999": 1}}, "logit_bias"),
        ("/v1/responses", {"input": "a", "max_output_tokens": 4, "text": {"format": form}}, "max_output_tokens"),
        ("/v2/chat", hello | {"max_tokens": 4, "response_format": {"type": "json_object", "json_schema":
         schema}}, "max_tokens"),
        ("/api/generate", {"prompt": "a", "options": {"num_predict": 4}, "format": schema}, "num_predict"),
        ("/generate", {"inputs": "a", "parameters": {"max_new_tokens": 4, "grammar":
         {"type": "json", "value": schema}}}, "max_new_tokens"),
    )  # fmt: skip
    for path, body, told in asked:
        whole, streamed = (client.post(path, json=body | {"stream": stream}) for stream in (False, True))
        assert whole.status_code == streamed.status_code == 400, (path, streamed.text)
        assert whole.json() == streamed.json() and told in streamed.text, streamed.text


def test_routes_with_another_beginning(client: Any) -> None:
    """As of clients whose base URL lacks /v1, or has one too many."""
    for path, told in (("/completions", "ask /v1/completions"), ("/v1/v1/messages", "ask /v1/messages"),
                       ("/v1/files", "GET /openapi.json lists")):  # fmt: skip
        answer = client.post(path, json={})
        assert answer.status_code == 404 and f"there is no route {path}: {told}" in answer.text


def test_ranges_in_words(client: Any) -> None:
    for limit, told in ((0, "at least 1"), (10**9, "at most 8,192")):
        answer = client.post("/v1/chat/completions", json=ASK | {"max_tokens": limit})
        assert f"max_tokens: must be {told}, not" in answer.json()["error"]["message"]


def test_refusals_name_the_field(client: Any) -> None:
    def check(path: str, body: Any, status: int, field: str | None) -> None:
        answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, field), error
        assert error["type"] == "invalid_request_error" and error["message"]

    check_each(check, REFUSED)


def test_bodies_that_are_none(client: Any) -> None:
    rows = [
        (b"{", "application/json", 400), (b"\xff\xfe{}", "application/json", 400), (b"[1]", "application/json", 400),
        (b"", "application/json", 400), (b'{"a": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400), (b"{}", "text/plain", 415),
        (b" " * (1 << 20) + b"{}", "application/json", 413),
    ]  # fmt: skip

    def check(body: bytes, kind: str, status: int) -> None:
        answer = client.post("/v1/completions", content=body, headers={"content-type": kind})
        assert answer.status_code == status and answer.json()["error"]["message"]

    check_each(check, rows)
    marked = b"\xef\xbb\xbf" + json.dumps({"prompt": "a", "max_tokens": 1}).encode()  # as files of Windows begin
    assert client.post("/v1/completions", content=marked).status_code == 200
    packed = client.post(
        "/v1/completions", content=b"\x1f\x8b", headers={"content-type": "application/json", "content-encoding": "gzip"}
    )
    assert packed.status_code == 415 and "encoded as gzip" in packed.json()["error"]["message"]
    answer = client.get("/v1/completions")
    assert answer.status_code == 405 and answer.json()["error"]["type"] == "invalid_request_error"


def test_what_the_fields_of_a_body_ask_for(client: Any) -> None:
    """/, with a language model, an embedder and a speech model."""
    vectors = post(client, "/embed", inputs=["the cat", "a boat"])
    assert post(client, "/", inputs=["the cat", "a boat"]) == vectors
    assert post(client, "/", inputs="the cat", normalize=True)[0] == pytest.approx(vectors[0], abs=1e-6)
    ask = {"inputs": "the cat", "parameters": {"max_new_tokens": 3}}
    assert post(client, "/", **ask) == [post(client, "/generate", **ask)]
    assert "generated_text" in client.post("/", json={"inputs": "the cat", "stream": True}).text
    pair = {"inputs": {"source_sentence": "the cat", "sentences": ["a cat", "bread"]}}
    near, far = post(client, "/", **pair)
    assert near > far and [near, far] == post(client, "/similarity", **pair)


def test_texts_that_must_be_read_whole(client: Any) -> None:
    """TEI's `truncate` and `truncation_direction`: where nothing would be lost they change nothing."""
    long = "the cat " * 100
    whole = post(client, "/embed", inputs="the cat")
    for more, param in (({"truncate": False}, "truncate"), ({"truncation_direction": "left"}, "truncation_direction")):
        assert post(client, "/embed", inputs="the cat", **more) == whole
        for path, body in (
            ("/embed", {"inputs": ["the cat", long]}), ("/embed_all", {"inputs": long}),
            ("/rerank", {"query": "a", "texts": [long]}),
        ):  # fmt: skip
            assert client.post(path, json=body).status_code == 200
            answer = client.post(path, json={**body, **more})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), path


def test_prompts_of_an_embedder(client: Any) -> None:
    named = post(client, "/embed", inputs="the cat", prompt_name="query")
    assert named[0] == pytest.approx(post(client, "/embed", inputs="query : the cat")[0], abs=1e-6)
    assert named != post(client, "/embed", inputs="the cat")
    for path, wrong in (("/embed", "none"), ("/embed_all", "query"), ("/tokenize", "query")):
        answer = client.post(path, json={"inputs": "the cat", "prompt_name": wrong})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt_name"), path


def test_prompts_that_are_too_long_have_openais_code(client: Any) -> None:
    """Clients shorten a conversation by it, or by the words that OpenAI's and vLLM's messages have."""
    for text in ("a" * 600, "a" * 15_000):  # too many tokens; too long to be divided into tokens
        for path, body in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}),
            ("/v1/completions", {"prompt": text}), ("/generate", {"inputs": text}),
        ):  # fmt: skip
            answer = client.post(path, json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "context_length_exceeded"), path
            assert "this model's maximum context length is 512 tokens. Shorten it" in error["message"]
            assert "--context" not in error["message"]  # the model itself reads no more


@pytest.mark.parametrize(
    ("field", "value"),
    [("include[]", "logprobs"), ("chunking_strategy", "server_vad"), ("chunking_strategy[type]", "server_vad"),
     ("known_speaker_names[]", "Ann")],
)  # fmt: skip
def test_fields_for_speech_that_are_not_read(client: Any, field: str, value: str) -> None:
    answer = client.post("/v1/audio/transcriptions", files={"file": ("a.wav", SOUND.read_bytes())}, data={field: value})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", field)


def test_a_recording_for_which_there_is_no_room(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from starlette.formparsers import MultiPartParser

    monkeypatch.setattr(MultiPartParser, "spool_max_size", 1000)  # larger ones become temporary files
    hear = lambda: client.post("/v1/audio/transcriptions", files={"file": ("a.wav", SOUND.read_bytes())})  # noqa: E731
    with monkeypatch.context() as full:
        full.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        answer = hear()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_room")
    assert answer.headers["retry-after"] == "5" and "a file cannot be kept" in caplog.text
    assert hear().status_code == 200


def test_sound_without_a_type(client: Any) -> None:
    """As huggingface_hub sends the bytes of a recording."""
    for headers in ({}, {"content-type": "application/octet-stream"}):
        answer = client.post("/", content=SOUND.read_bytes(), headers=headers)
        assert answer.status_code == 200 and "snow" in answer.json()["text"]


def test_sound_that_is_none(client: Any) -> None:
    file = {"file": ("a.wav", SOUND.read_bytes()[:4000])}
    rows: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"file": ("a.wav", b"no sound")}, {}, "file"),
        ({"file": ("a.wav", b"")}, {}, "file"),
        ({}, {"file": "/etc/passwd"}, "file"),
        ({}, {"file": "https://example.org/a.wav"}, "file"),
        (file, {"language": "xx"}, "language"),
        (file, {"response_format": "mp3"}, "response_format"),
        (file, {"temperature": "hot"}, "temperature"),
        (file, {"model": "chat"}, "model"),
        (file, {"timestamp_granularities[]": "day"}, "timestamp_granularities"),
        (file, {"surprise": "1"}, "surprise"),
        (file, {"speakers": "2"}, "speakers"),
        (file, {"response_format": "diarized_json"}, "response_format"),
    ]

    def check(files: Any, data: Any, field: str) -> None:
        # Without a file, the body must be a form of several parts all the same.
        answer = client.post("/v1/audio/transcriptions", files=files or {"none": (None, "")}, data=data)
        error = answer.json()["error"]
        assert answer.status_code == 400 and error["param"] in (field, "none" if not files else field), error

    check_each(check, rows)
    sound = {"file": ("a.wav", SOUND.read_bytes())}
    assert (
        client.post("/v1/audio/translations", files=sound).json()["error"]["param"] == "model"
    )  # it knows English only
    broken = client.post("/v1/audio/transcriptions", content=b"xx", headers={"content-type": "multipart/form-data"})
    assert broken.status_code == 400 and broken.json()["error"]["code"] == "invalid_form"


def test_the_page(model_folders: dict[str, Path], tmp_path: Path) -> None:

    from pyapp.errors import OptionError
    from pyapp.serve.app import make_app
    from pyapp.serve.context import Context
    from pyapp.serve.settings import Settings

    (tmp_path / "site" / "modules").mkdir(parents=True)
    files = {
        "index.html": b"<title>page</title>",
        "modules/a.mjs": b"let a",
        "k.wasm": b"\0asm",
        "k.wasm.gz": b"zipped",
    }
    for name, data in files.items():
        (tmp_path / "site" / name).write_bytes(data)
    (tmp_path / "secret.txt").write_text("secret")
    with serving(str(model_folders["chat"]), keys=("key",), page=str(tmp_path / "site")) as browser:
        page = browser.get("/")
        assert page.content == files["index.html"] and page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cross-origin-embedder-policy"] == "require-corp"
        assert page.headers["set-cookie"].startswith("pyapp-server=1;")  # the page's scripts see it
        assert "set-cookie" not in browser.get("/k.wasm", headers={"Accept-Encoding": "identity"}).headers
        assert browser.get("/modules/a.mjs").headers["content-type"] == "text/javascript; charset=utf-8"
        module = browser.get("/k.wasm", headers={"Accept-Encoding": "identity"})
        assert module.content == files["k.wasm"] and module.headers["content-type"] == "application/wasm"
        with browser.stream("GET", "/k.wasm", headers={"Accept-Encoding": "gzip"}) as packed:
            assert packed.headers["content-encoding"] == "gzip" and b"".join(packed.iter_raw()) == files["k.wasm.gz"]
        again = browser.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert again.status_code == 304
        for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/modules/../../secret.txt", "/nothing", "/v1/models"):
            assert browser.get(path).status_code == 401, path  # what is not a file is a route, and needs the key
        assert browser.post("/", json={"inputs": "x"}).status_code == 401
    with pytest.raises(OptionError, match="index.html"):
        make_app(Context(Settings(page=str(tmp_path))))


def test_quiet_streams_send_comments(model_folders: dict[str, Path]) -> None:
    """While the engine is busy with others: proxies keep the connection, and the answer is as usual."""
    with serving(f"chat={model_folders['chat']}", preload=True, ping_seconds=0.05) as quiet:
        usual = events(quiet, "/v1/completions", prompt="a", max_tokens=3, temperature=0)
        free = threading.Event()
        quiet.context.engine.post(lambda: free.wait(20))
        timer = threading.Timer(0.5, free.set)
        timer.start()
        answer = quiet.post("/v1/completions", json={"prompt": "a", "max_tokens": 3, "temperature": 0, "stream": True})
        assert answer.text.count(": ping\n\n") >= 3 and answer.text.startswith(": ping")
        data = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")]
        texts = [[chunk["choices"][0]["text"] for chunk in found] for found in (data, usual)]
        assert texts[0] == texts[1] and answer.text.endswith("data: [DONE]\n\n")


def test_speech_by_characters(tmp_path: Path) -> None:
    """A model that names characters: its text, with times of words; translations are refused."""

    name = "wav2vec2"
    folder = write_sound_model(tmp_path / "model", name, dict(make_sound_model(name).state_dict()))
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["Wav2Vec2ForCTC"]}
    (folder / "config.json").write_text(json.dumps(config))
    write_wav(tmp_path / "a.wav", recording(SAMPLES[0]), 16000)
    sound = {"file": ("a.wav", (tmp_path / "a.wav").read_bytes())}
    with serving(f"ears={folder}") as other:
        data = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
        found = other.post("/v1/audio/transcriptions", files=sound, data=data).json()
        events = transcribe_events(load_speech_model(folder), next(iter(open_audio(tmp_path / "a.wav"))))
        expected = list(events)[-1].to_dict()["text"].split()
        assert found["text"].split() == [word["word"] for word in found["words"]] == expected and len(expected) > 2
        assert other.post("/v1/audio/transcriptions", files=sound).json()["usage"]["seconds"] == 1
        wrong = other.post("/v1/audio/translations", files=sound)
        assert wrong.status_code == 400 and "does not translate" in wrong.text
        [entry] = other.get("/v1/models").json()["data"]
        assert entry["task"] == "transcribe" and "ears" in other.get("/metrics").text


def test_what_is_served_has_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the embedded models for which there are routes; others are refused by name."""
    pytest.importorskip("starlette")
    from pyapp.errors import OptionError
    from pyapp.serve import served
    from pyapp.serve.context import Context
    from pyapp.serve.settings import Settings

    assert set(Context(Settings(preload=False)).models.by_name) == {"stories", "speech", "reader"}
    with pytest.raises(OptionError, match="its task is 'text-to-audio', for which the server has no route"):
        monkeypatch.setattr(served, "task_of", lambda source: "text-to-audio")
        Context(Settings(models=("music",), preload=False))
