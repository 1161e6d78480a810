"""A model hub on localhost that fails on purpose: it drops connections, changes files, answers slowly or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class HubFile:
    """`data` as the hub has it. `drop_after`: for each of the next requests, bytes until the connection is cut.
    `statuses`: what the next requests are answered instead. `pause`: seconds between pieces of `piece` bytes.
    `compressed`: whole answers are, with the length of their compressed bytes; ranges are not."""

    data: bytes
    etag: str = '"one"'
    drop_after: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    pause: float = 0.0
    piece: int = 1 << 16
    compressed: bool = False


@dataclass
class HubRequest:
    path: str
    range: str | None


class FakeHub(ThreadingHTTPServer):
    """Serves `files` (by path, in the layout of huggingface.co) with CORS, ranges and entity tags, on any free port."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.files: dict[str, HubFile] = {}
        self.requests: list[HubRequest] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}/"

    def add(self, repo: str, path: str, data: bytes) -> HubFile:
        file = self.files[f"/{repo}/resolve/main/{path}"] = HubFile(data)
        return file

    def listing(self, repo: str) -> bytes | None:
        """The files of a repository as the hub's API lists them; None for an unknown one."""
        start = f"/{repo}/resolve/main/"
        found = {path.removeprefix(start): file for path, file in self.files.items() if path.startswith(start)}
        entries: list[dict[str, object]] = []
        for path, file in found.items():
            entry: dict[str, object] = {"type": "file", "path": path, "size": len(file.data), "oid": "0" * 40}
            if path.endswith((".gguf", ".safetensors", ".bin")):
                entry["lfs"] = {"oid": hashlib.sha256(file.data).hexdigest(), "size": len(file.data)}
            entries.append(entry)
        folders = {path.rpartition("/")[0] for path in found if "/" in path}
        entries += [{"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in sorted(folders)]
        return json.dumps(entries).encode() if found else None

    def asked(self, name: str) -> list[HubRequest]:
        """The requests for files whose path ends so."""
        return [request for request in self.requests if request.path.endswith(name)]

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes the connection is not an error of the hub."""


class Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def do_OPTIONS(self) -> None:
        self.send_response(204)
        self.cors()
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        path = unquote(self.path)
        self.server.requests.append(HubRequest(path, self.headers["Range"]))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/main\?recursive=true", path):
            listing = self.server.listing(match.group(1))
            return self.empty(404) if listing is None else self.answer(listing)
        file = self.server.files.get(path)
        if file is None:
            return self.empty(404)
        if file.statuses and (status := file.statuses.pop(0)) != 200:
            return self.empty(status)
        start = self.start_of(file)
        if start is not None and start >= len(file.data):
            return self.empty(416)
        if file.compressed and start is None:
            return self.answer(gzip.compress(file.data, 1), **{"Content-Encoding": "gzip"})
        self.send_response(200 if start is None else 206)
        self.cors()
        self.send_header("ETag", file.etag)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(file.data) - (start or 0)))
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{len(file.data) - 1}/{len(file.data)}")
        self.end_headers()
        self.body(file, start or 0)

    def answer(self, data: bytes, **fields: str) -> None:
        self.send_response(200)
        self.cors()
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def start_of(self, file: HubFile) -> int | None:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        return int(match.group(1)) if match else None

    def body(self, file: HubFile, start: int) -> None:
        end = start + file.drop_after.pop(0) if file.drop_after else len(file.data)
        for position in range(start, min(end, len(file.data)), file.piece):
            try:
                self.wfile.write(file.data[position : min(position + file.piece, end)])
            except OSError:
                self.close_connection = True
                return
            if file.pause:
                time.sleep(file.pause)
        if end < len(file.data):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def cors(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Headers", "Range")
        self.send_header("Access-Control-Expose-Headers", "ETag, Content-Range, Content-Length, Accept-Ranges")

    def empty(self, status: int) -> None:
        self.send_response(status)
        self.cors()
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing: `requests` has the requests."""
