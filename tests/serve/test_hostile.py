"""A real server and clients that are mistaken or mean harm: each is refused by name, and the others go on."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import Process
from tests.serve.test_process import wait_until
from tests.text.chat_model import write_chat_model
from tests.together import check_each

pytestmark = pytest.mark.native_only

ONE = {"prompt": "a", "max_tokens": 1}
QUICK = 15  # seconds, on a machine that others use


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path]) -> Iterator[Process]:
    with Process(f"chat={model_folders['chat']}", "--prompt-limit", "20000000", "--body-limit", "16") as found:
        yield found


def memory(server: Process) -> int:
    """MiB of the server."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 50}


def form(schema: Any) -> dict[str, Any]:
    return said("a") | {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
FORM = "response_format"
BOMB = {"type": "string", "pattern": "^(b{1,500}){1,500}$"}
NONE = {"type": "integer", "minimum": 5, "maximum": 3}
MANY = {"enum": [f"{number} " * 9 for number in range(30_000)]}
# (what is sent, the route, status, the field and what the message says)
BODIES: list[tuple[str, str, Any, int, str | None, str]] = [
    ("bytes that are not UTF-8", TEXT, b'{"prompt": "\xff\xfe"}', 400, None, "UTF-8: byte 12"),
    ("half a surrogate pair", TEXT, b'{"prompt": "\\ud800"}', 400, "prompt", "surrogate"),
    ("nested too deeply", TEXT, b"[" * 200_000, 400, None, "nested too deeply"),
    ("a number of many digits", TEXT, b'{"max_tokens": ' + b"9" * 100_000 + b"}", 400, None, "too many digits"),
    ("half a token", TEXT, ONE | {"max_tokens": 1.5}, 400, "max_tokens", "must be a whole number, not 1.5"),
    ("a prompt of 10 MB", TEXT, {"prompt": "hello world " * 850_000}, 400, "prompt", "10,200,000 characters"),
    ("a message of 10 MB", CHAT, said("x" * 10_000_000), 400, "messages", "too long"),
    ("a regex that grows", TEXT, ONE | {"regex": "(a{1,1000}){1,1000}"}, 400, "regex", "too large"),
    ("a regex that looks back", TEXT, ONE | {"regex": r"(a)\1"}, 400, "regex", "not supported"),
    ("a regex of brackets", TEXT, ONE | {"regex": "(" * 5000 + ")" * 5000}, 400, "regex", "not a regular expression"),
    ("a pattern that grows", CHAT, form(BOMB), 400, FORM, "too large"),
    ("a schema without an end", CHAT, form({"$ref": "#"}), 400, FORM, "no text of this form"),
    ("a schema elsewhere", CHAT, form({"$ref": "file:///etc/passwd"}), 400, FORM, "does not point into"),
    ("a schema nobody meets", CHAT, form(NONE), 400, FORM, "no whole number"),
    ("many values", CHAT, form(MANY), 400, FORM, "too large"),
    ("a deep schema", CHAT, form(nested(500)), 400, None, "nested too deeply"),
]  # fmt: skip


def test_bodies(server: Process) -> None:
    before = memory(server)

    def check(name: str, path: str, body: Any, status: int, param: str | None, says: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection, began = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60), time.monotonic()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        error = json.loads(answer.read())["error"]
        assert (answer.status, error["param"]) == (status, param), error
        assert says in error["message"] and time.monotonic() - began < QUICK
        assert server.post(TEXT, ONE).status == 200

    check_each(check, BODIES)
    regex = json.loads(server.post(TEXT, ONE | {"max_tokens": 30, "regex": "(a|a)*b", "temperature": 0}).read())
    assert set(regex["choices"][0]["text"]) <= {"a", "b"}  # a bomb elsewhere, no more than a form here
    assert memory(server) < before + 300


def test_an_upload_without_a_length_ends(server: Process) -> None:
    head = "Host: x\r\nTransfer-Encoding: chunked\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n"
    block = b"%x\r\n" % (1 << 20) + bytes(1 << 20) + b"\r\n"
    sent, answer = 0, b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"POST /v1/audio/transcriptions HTTP/1.1\r\n{head}".encode())
        start = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        connection.sendall(b"%x\r\n" % len(start) + start + b"\r\n")
        try:
            while sent < 1000:
                connection.sendall(block)
                sent += 1
        except OSError:
            answer = connection.recv(1000)
    assert sent < 100 and b" 413 " in answer  # the limit is 16 MiB; the rest was on its way


def test_a_client_that_hardly_reads(server: Process) -> None:
    """Twenty streams that nobody reads: the others go on, and the texts end when the clients leave."""
    body = json.dumps(ONE | {"max_tokens": 450, "stream": True, "logprobs": 5}).encode()
    held = []
    for _ in range(20):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        head = (
            f"POST {TEXT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        held.append(connection)
    for _ in range(3):
        held[0].recv(1)
        assert server.post(TEXT, ONE).status == 200
    for connection in held:
        connection.close()
    wait_until(lambda: server.metric("pyapp_requests_in_flight") == 0)


def test_a_killed_server_starts_again(tmp_path: Path) -> None:
    """Clients see at once that their answers broke off; the port is free at once, also while they were connected; and a
    client that goes on finds the new server, which does not know the old answers.
    """
    openai = pytest.importorskip("openai")
    write_chat_model(tmp_path, context=8192, dim=256)  # seconds of work on any machine
    with Process(f"chat={tmp_path}") as server:
        client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{server.port}/v1", api_key="unused", max_retries=0, timeout=60
        )
        asked: Any = {"model": "chat", "temperature": 0}
        endless: Any = asked | {"extra_body": {"ignore_eos": True}, "stream": True}
        kept = client.responses.create(**asked, input="hello", max_output_tokens=2)
        chat = client.chat.completions.create(**endless, messages=said("hello")["messages"], max_tokens=8000)
        items = client.responses.create(**endless, input="hello", max_output_tokens=8000)
        raw = server.post(TEXT, ONE | {"max_tokens": 8000, "ignore_eos": True, "stream": True})
        waiting = server.connect()
        body = json.dumps(ONE | {"max_tokens": 8000, "ignore_eos": True, "n": 16})
        waiting.request("POST", TEXT, body, {"Content-Type": "application/json"})
        assert raw.read(10) and next(chat) and next(items).type == "response.created"
        wait_until(lambda: server.metric("pyapp_requests_in_flight") == 19)
        killed = time.monotonic()
        server.process.kill()
        server.process.wait()
        for stream in (chat, items):  # which must not look like a complete answer
            with pytest.raises(openai.APIConnectionError):
                list(stream)
        with pytest.raises(http.client.IncompleteRead):
            raw.read()
        with pytest.raises(ConnectionError):
            waiting.getresponse()
        with pytest.raises(openai.APIConnectionError):
            client.responses.create(**asked, input="hello", max_output_tokens=2)
        assert time.monotonic() - killed < QUICK
    with Process(f"chat={tmp_path}", "--port", str(server.port)) as again:
        assert again.port == server.port and again.post(TEXT, ONE).status == 200
        whole = client.responses.create(**asked, input="hello", max_output_tokens=2)
        assert whole.output_text == kept.output_text
        with pytest.raises(openai.NotFoundError) as caught:
            client.responses.create(**asked, input="more", previous_response_id=kept.id)
        assert caught.value.code == "previous_response_not_found"
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(30) == 0
