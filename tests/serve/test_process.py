"""A real server in a process of its own: clients that leave, limits, keys, the end."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import cli
from tests.serve.conftest import ROOT, Process
from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only

KEY = {"Authorization": "Bearer secret"}
LONG = {"prompt": "hello", "max_tokens": 400, "temperature": 0}
CHANNELS = 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("server")
    write_chat_model(folder / "chat", context=1 << 17, dim=32)
    keys = folder / "keys.txt"
    keys.write_text("# of the tests\nother\nsecret\n")
    with Process(
        f"chat={folder / 'chat'}", "--api-key-file", str(keys), "--parallel", "2", "--queue", "3",
        "--body-timeout", "0.5", "--grace", "20", "--cors", "https://page.example", "--connections", "20",
        "--output-limit", "100000",
    ) as found:  # fmt: skip
        yield found


def wait_until(condition: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_real_client_streams(server: Process) -> None:
    answer = server.post("/v1/completions", LONG | {"max_tokens": 5, "stream": True}, **KEY)
    assert answer.status == 200 and answer.getheader("transfer-encoding") == "chunked"
    assert answer.read().decode().endswith("data: [DONE]\n\n")


def test_keys_and_origins(server: Process) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
        answer = server.post("/v1/completions", LONG, **headers)
        assert answer.status == 401 and json.loads(answer.read())["error"]["code"] == "invalid_api_key"
    connection = server.connect()
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    asking = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    connection = server.connect()
    connection.request("OPTIONS", "/v1/completions", headers=asking)
    assert connection.getresponse().getheader("access-control-allow-origin") == "https://page.example"
    connection = server.connect()
    connection.request("OPTIONS", "/v1/responses/x", headers=asking | {"Access-Control-Request-Method": "DELETE"})
    assert connection.getresponse().status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_stops_its_text(server: Process, stream: bool) -> None:
    """The texts would take minutes, so that none ends before a busy machine notices that the client is gone."""
    before, most = server.metric("pyapp_new_tokens_total"), 100_000
    body = json.dumps(LONG | {"stream": stream, "n": 2, "max_tokens": most, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body)}"
        )
        connection.sendall(head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body)
        wait_until(lambda: server.metric("pyapp_new_tokens_total") > before)
    wait_until(lambda: server.metric("pyapp_requests_in_flight") == 0)
    assert server.metric("pyapp_new_tokens_total") - before < 2 * most


def test_more_requests_than_may_wait(server: Process) -> None:
    endless = LONG | {"stream": True, "max_tokens": 3000}  # on fast machines too they run when the next one comes
    with ThreadPoolExecutor() as pool:  # the answer of the third one begins when one of the others has ended
        answers = [pool.submit(lambda: server.post("/v1/completions", endless, **KEY).read()) for _ in range(3)]
        wait_until(lambda: server.metric("pyapp_requests_in_flight") == 3)
        for stream in (False, True):
            refused = server.post("/v1/completions", LONG | {"stream": stream}, **KEY)
            assert refused.status == 429 and refused.getheader("retry-after") == "1"
            assert json.loads(refused.read())["error"]["code"] == "rate_limit_exceeded"
        texts = [answer.result() for answer in answers]
    assert all(text.endswith(b"[DONE]\n\n") for text in texts)
    assert server.post("/v1/completions", LONG | {"max_tokens": 1}, **KEY).status == 200


def test_slow_and_huge_bodies(server: Process) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
    for length, status in ((50, b"408"), (1 << 40, b"413")):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(head + f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{".encode())
            assert connection.recv(1000).split(b" ")[1] == status
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(b"\x16\x03\x01 no http\r\n\r\n")
        assert b" 400 " in connection.recv(1000)
    both = b"Content-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    whole = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    for first, then, statuses in ((head + both, b"", [b"400"]), (head, b"", []), (whole, b"G", [b"200"])):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(first)
            found = connection.recv(1000)
            connection.sendall(then)
            while part := connection.recv(1000):  # until the server closes the connection: a head has no end
                found += part
            assert re.findall(rb"HTTP/1.1 (\d+)", found) == statuses, found


def test_many_connections(server: Process) -> None:
    """More than are allowed: the others go on, and afterwards all is as before."""
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    answer = server.post("/v1/completions", LONG | {"max_tokens": 1}, **KEY)
    assert answer.status == 503 and answer.getheader("retry-after") == "1"
    assert json.loads(answer.read())["error"]["code"] == "too_many_connections"
    alive = server.connect()
    alive.request("GET", "/health")
    assert alive.getresponse().status == 200
    for connection in held:
        connection.close()
    wait_until(lambda: server.post("/v1/completions", LONG | {"max_tokens": 1}, **KEY).status == 200)


def test_requests_whose_grace_is_over_are_told(tmp_path: Path) -> None:
    write_chat_model(tmp_path, context=8192, dim=256)  # seconds of work on any machine
    endless = LONG | {"ignore_eos": True, "max_tokens": 8000}
    with Process(f"chat={tmp_path}", "--grace", "0") as server:
        stream = server.post("/v1/completions", endless | {"stream": True})
        stream.read(10)
        more = {"model": "chat", "input": "hello", "max_output_tokens": 8000, "ignore_eos": True, "stream": True}
        items = server.post("/v1/responses", more)
        items.read(10)
        plain = server.connect()
        body = json.dumps(endless | {"n": 16})
        plain.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        wait_until(lambda: server.metric("pyapp_requests_in_flight") == 18)
        server.process.send_signal(signal.SIGTERM)
        last = stream.read().decode().strip().splitlines()[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "server_ends"
        *_, error, failed = items.read().decode().strip().split("\n\n")
        assert error.startswith("event: error\n") and '"code": "server_ends"' in error
        assert failed.startswith("event: response.failed\n")
        answer = plain.getresponse()
        assert answer.status == 503 and json.loads(answer.read())["error"]["code"] == "server_ends"
        assert server.process.wait(30) == 0
        assert not any("traceback" in line for line in server.log)


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    write_chat_model(tmp_path, context=8192, dim=256)
    with Process(f"chat={tmp_path}") as server:
        stream = server.post("/v1/completions", LONG | {"ignore_eos": True, "max_tokens": 8000, "stream": True})
        stream.read(10)
        server.process.send_signal(signal.SIGINT)
        server.wait_for("ending")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        assert not any("Traceback" in json.dumps(line) for line in server.log), server.log


def test_a_model_that_cannot_be_loaded(model_folders: dict[str, Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(model_folders["chat"], bad)
    whole = (bad / "model.safetensors").read_bytes()
    (bad / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with Process(f"bad={bad}", f"chat={model_folders['chat']}", "--no-preload", ready=False) as server:
        answer = server.post("/v1/completions", LONG | {"model": "bad"})
        error = json.loads(answer.read())["error"]
        assert answer.status == 500 and error["code"] == "model_not_loaded" and str(tmp_path) not in error["message"]
        assert "truncated" in server.wait_for("a model cannot be loaded")["why"]
        assert server.post("/v1/completions", LONG | {"model": "chat", "max_tokens": 1}).status == 200


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limits of another process")
def test_connections_wait_where_no_more_files_may_be_open(model_folders: dict[str, Path]) -> None:
    """The log says so once, and not for each; afterwards all is as before."""
    import resource

    with Process(f"chat={model_folders['chat']}") as server:
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        assert soft >= min(hard, 2024)  # the default of --connections, and more
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, hard))
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(60)]
        assert "ulimit" in server.wait_for("connections wait")["hint"]
        for connection in held:
            connection.close()
        wait_until(lambda: server.post("/v1/completions", LONG | {"max_tokens": 1}).status == 200)
        assert sum(line["event"] == "connections wait" for line in server.log) == 1
        assert not any("traceback" in line for line in server.log)


def test_the_host_of_all_addresses_takes_both_families() -> None:
    pytest.importorskip("uvicorn")
    from pyapp.serve.server import ListenError, both_families
    from pyapp.serve.settings import Settings

    assert both_families(Settings(host="127.0.0.1", port=0)) is None
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    [listening] = both_families(Settings(host="::", port=0)) or []
    with listening:
        port = listening.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=5).close()
        with pytest.raises(ListenError):
            both_families(Settings(host="::", port=port))


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_the_limit_of_open_files_is_raised() -> None:
    pytest.importorskip("uvicorn")
    code = (
        "import resource as r; from pyapp.serve.server import allow_files; r.setrlimit(r.RLIMIT_NOFILE, (200, 400));"
        "soft = lambda: r.getrlimit(r.RLIMIT_NOFILE)[0];"
        "[print((allow_files(wanted), soft())[1]) for wanted in (100, 300, 5000)]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["200", "300", "400"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of another process")
def test_memory_of_large_recordings_goes_back_to_the_system() -> None:
    """They pass through several threads, each of which would keep as much for itself."""
    with wave.open(str(ROOT / "web/models/speech/samples/weather.wav")) as reader:
        settings, samples = reader.getparams(), np.frombuffer(reader.readframes(1 << 30), "<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as writer:  # many channels: much to keep and little to hear
        writer.setparams(settings._replace(nchannels=CHANNELS))
        writer.writeframes(samples.repeat(CHANNELS).tobytes() + bytes(6 << 20))
    edge = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n', b"\r\n--B--\r\n"
    body = edge[0] + buffer.getvalue() + edge[1]
    with Process("speech") as server:

        def resident() -> int:
            """MiB, without files."""
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            return int(status.partition("RssAnon:")[2].split()[0]) >> 10

        def upload() -> None:
            connection = server.connect()
            headers = {"Content-Type": "multipart/form-data; boundary=B"}
            connection.request("POST", "/v1/audio/transcriptions", body, headers)
            assert b"snow" in connection.getresponse().read()

        before = resident()
        for _ in range(2):
            with ThreadPoolExecutor(4) as threads:
                for done in [threads.submit(upload) for _ in range(4)]:
                    done.result()
        wait_until(lambda: resident() < before + 30)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyapp", "serve", "--port", "0", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 1 and "there is no file of weights" in done.stderr


@pytest.mark.parametrize(
    "model, told", [("nosuchmodel", "no model has this name"), ("./no/folder", "there is no such file or folder")]
)
def test_a_name_that_no_model_has_is_told_before_the_server_listens(
    model: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyapp.serve.server.Server.serve", lambda server: pytest.fail("it serves"))
    assert cli.run(["serve", "--port", "0", "--no-preload", model]) == 1
    assert told in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvicorn")
    with socket.create_server(("::", 0), family=socket.AF_INET6) as taken:
        port = str(taken.getsockname()[1])
        assert cli.run(["serve", "--host", "::", "--port", port, "--no-preload"]) == 1
    assert f"cannot listen on port {port}: Address already in use" in capsys.readouterr().err


def test_the_end_waits_for_running_requests(server: Process) -> None:
    """The last test of this server."""
    answer = server.post("/v1/completions", LONG | {"stream": True}, **KEY)
    answer.read(10)
    texts: list[bytes] = []
    reading = threading.Thread(target=lambda: texts.append(answer.read()))
    reading.start()
    server.process.send_signal(signal.SIGTERM)
    reading.join(30)
    assert texts and texts[0].endswith(b"[DONE]\n\n")
    assert server.process.wait(30) == 0
    server.wait_for("ending")
    logged = json.dumps(server.log)
    assert "hello" not in logged and "secret" not in logged  # neither texts nor keys
    assert server.wait_for("request", route="/v1/completions", status=200)["new_tokens"]


def test_what_other_libraries_warn_of_is_json_too() -> None:
    pytest.importorskip("uvicorn")
    code = (
        "import logging; from pyapp.serve.server import log_as_json; log_as_json();"
        "logging.getLogger('asyncio').warning('a client left'); logging.getLogger('some.library').warning('odd');"
        "logging.getLogger('pyapp.serve').info('own')"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stderr
    found = [json.loads(line) for line in lines.splitlines()]
    assert [(line["event"], line.get("logger")) for line in found] == [("odd", "some.library"), ("own", None)]
