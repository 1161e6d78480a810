"""A hub on 127.0.0.1 for tests: answers as huggingface.co does, and fails on demand.

Large files are redirected to another origin ("localhost"), as to the real hub's storage.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Fault:
    """A fault of the next download. `after`: bytes that are sent correctly before it."""

    kind: str  # "cut", "stall", "status", "no range", "flip", "more", "less"
    after: int = 0
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)  # of an answer with a status


@dataclass
class Request:
    method: str
    path: str
    start: int
    authorization: str | None


@dataclass
class Hub:
    """`files` maps repo to path to bytes; names that end in .bin or .safetensors are large files."""

    files: dict[str, dict[str, bytes]]
    port: int = 0
    faults: list[Fault] = field(default_factory=list)
    busy: list[Fault] = field(default_factory=list)  # answers to the next questions for a file's metadata or a list
    log: list[Request] = field(default_factory=list)
    token: str | None = None  # that private repositories ask for
    gated: set[str] = field(default_factory=set)
    commit: str = COMMIT
    large: tuple[str, ...] = (".bin", ".safetensors")  # files that are redirected
    wrong_size: int = 0  # added to what the hub says of a file
    plain: bool = False  # answers like any web server, without the hub's headers
    # By the beginning of a path: status, headers and the pieces of the body, which may have no end. With status 0 the
    # pieces are the whole answer.
    answers: dict[str, tuple[int, dict[str, str], Iterable[bytes]]] = field(default_factory=dict)
    sent: int = 0  # bytes of such bodies
    release: threading.Event = field(default_factory=threading.Event)  # ends a stall

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def use(self, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
        """Makes this the hub that pyapp asks, with a cache of its own."""
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_TOKEN", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv("HF_ENDPOINT", self.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(cache))

    def downloads(self) -> list[Request]:
        return [request for request in self.log if request.method == "GET" and request.path.startswith("/storage/")]

    def start(self) -> None:
        hub = self

        class BoundHandler(Handler):
            state = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), BoundHandler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    state: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        wanted = self.headers.get("Range", "bytes=0-")
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        path = unquote(urlsplit(self.path).path)
        self.state.log.append(Request(self.command, path, start, self.headers.get("Authorization")))
        for start_of_path, (status, headers, pieces) in self.state.answers.items():
            if path.startswith(start_of_path) and self.command == "GET":
                return self.send_as_told(status, headers, pieces)
        if path.startswith("/storage/"):
            return self.download(
                self.state.files[path.split("/", 4)[2].replace("~", "/")][path.split("/", 3)[3]], start
            )
        if self.state.busy:
            fault = self.state.busy.pop(0)
            return self.fail(fault.status, None, fault.headers)
        if path.startswith("/api/models/"):
            return self.info(path)
        repo, _, rest = path[1:].partition("/resolve/")
        revision, _, name = rest.partition("/")
        if not self.allowed(repo, revision, name):
            return None
        return self.resolve(repo, name, start)

    def send_as_told(self, status: int, headers: dict[str, str], pieces: Iterable[bytes]) -> None:
        if status:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
        self.close_connection = True
        try:
            for piece in pieces:
                self.wfile.write(piece)
                self.state.sent += len(piece)
        except OSError:  # nobody reads any more
            pass

    def allowed(self, repo: str, revision: str, name: str | None) -> bool:
        state = self.state
        if repo not in state.files:
            self.fail(401, "RepoNotFound")
        elif repo in state.gated:
            self.fail(403, "GatedRepo")
        elif state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
            self.fail(401, None)
        elif revision not in ("main", state.commit):
            self.fail(404, "RevisionNotFound")
        elif name is not None and name not in state.files[repo]:
            self.fail(404, "EntryNotFound")
        else:
            return True
        return False

    def fail(self, status: int, code: str | None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", self.state.commit)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def info(self, path: str) -> None:
        """/api/models/OWNER/REPO/revision/REVISION"""
        repo, _, revision = path.removeprefix("/api/models/").partition("/revision/")
        if not self.allowed(repo, revision, None):
            return
        siblings = [{"rfilename": name} for name in self.state.files[repo]]
        body = json.dumps({"id": repo, "sha": self.state.commit, "siblings": siblings}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def resolve(self, repo: str, name: str, start: int) -> None:
        state, data = self.state, self.state.files[repo][name]
        large = name.endswith(state.large)
        if not large and self.command == "GET":
            return self.download(data, start)
        self.send_response(302 if large else 200)
        if state.plain:
            pass
        elif large:
            self.send_header("X-Linked-Etag", f'"{hashlib.sha256(data).hexdigest()}"')
            self.send_header("X-Linked-Size", str(len(data) + state.wrong_size))
        else:
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            self.send_header("ETag", f'"{blob}"')
        if not state.plain:
            self.send_header("X-Repo-Commit", state.commit)
        if large:
            self.send_header("Location", f"http://localhost:{state.port}/storage/{repo.replace('/', '~')}/{name}")
        self.send_header("Content-Length", "0" if large else str(len(data)))
        self.end_headers()
        return None

    def download(self, data: bytes, start: int) -> None:
        fault = self.state.faults.pop(0) if self.state.faults else Fault("none")
        if fault.kind == "status":
            return self.fail(fault.status, None, fault.headers)
        if start >= len(data) > 0:
            return self.fail(416, None)
        if fault.kind == "no range":
            start = 0
        if fault.kind == "flip":
            data = bytes(byte ^ 0xFF for byte in data)
        if fault.kind == "more":
            data += bytes(1000)
        if fault.kind == "less":
            data = data[:-10]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + fault.after if fault.kind in ("cut", "stall") else len(data)
        self.wfile.write(data[start:end])
        if fault.kind == "cut":
            self.close_connection = True
            time.sleep(0.02)
            self.connection.close()
        elif fault.kind == "stall":
            self.state.release.wait(30)
            self.close_connection = True
        return None
