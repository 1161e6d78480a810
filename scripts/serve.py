"""A static file server for dist/, as a plain static host would serve it.

    python -m scripts.serve dist [--port 8080] [--prefix /some/path/] [--isolated]

It gives the right MIME types, the precompressed .br or .gz copy when the browser accepts it, entity tags, byte ranges,
and with --isolated the headers that make a page cross-origin isolated: it may then have threads from the first visit.
Tests and benches use `SiteServer`.
"""

from __future__ import annotations

import argparse
import contextlib
import posixpath
import re
import socket
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

MIME_TYPES = {
    ".bin": "application/octet-stream",
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".safetensors": "application/octet-stream",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".zip": "application/zip",
}
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'self'",
}
CHUNK = 1 << 18


class SiteServer(ThreadingHTTPServer):
    """Serves `folder` under `prefix` on localhost, from `start()` (or `with`) until `stop()`.

    `mounts` adds folders under further paths ("/tests/": folder), `headers` adds headers to every reply.
    Without `compressed` it sends the files themselves, which costs a browser on the same machine less.
    `requests` lists the paths asked for, in order. `url` is the address of the site's folder.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        folder: Path | str,
        *,
        prefix: str = "/",
        port: int = 0,
        isolated: bool = False,
        mounts: Mapping[str, Path | str] | None = None,
        headers: Mapping[str, str] | None = None,
        compressed: bool = True,
    ) -> None:
        self.prefix = "/" + prefix.strip("/") + "/" if prefix.strip("/") else "/"
        folders = {self.prefix: folder, **(mounts or {})}
        # The longest path first, so that a mount inside the site's folder wins.
        self.folders = sorted(
            ((path, Path(place).resolve()) for path, place in folders.items()), key=lambda item: -len(item[0])
        )
        self.compressed = compressed
        self.headers = {**(ISOLATION if isolated else {}), **(headers or {})}
        self.requests: list[str] = []
        self._thread: threading.Thread | None = None
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return self.origin + self.prefix

    def find(self, path: str) -> Path | None:
        """The file that `path` (decoded, absolute) names, or None; never one outside the folders served."""
        for prefix, folder in self.folders:
            if path.startswith(prefix):
                place = (folder / path[len(prefix) :]).resolve()
                if place.is_dir():
                    place = place / "index.html"
                return place if place.is_relative_to(folder) and place.is_file() else None
        return None

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes the connection (a closed tab, for example) is not an error to print."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def start(self) -> SiteServer:
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def stop(self) -> None:
        """Closes the connections too: a browser would go on asking through those that it keeps open."""
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> SiteServer:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()


class Handler(BaseHTTPRequestHandler):
    """One connection. Compressed copies are only sent whole; ranges are of the file itself."""

    server: SiteServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply(with_body=True)

    def do_HEAD(self) -> None:
        self.reply(with_body=False)

    def reply(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(path)
        if not path.endswith("/") and f"{path}/" == self.server.prefix:
            return self.empty(HTTPStatus.MOVED_PERMANENTLY, Location=self.server.prefix)
        # normpath drops the last slash, which index.html needs no longer.
        place = self.server.find(posixpath.normpath(path) if not path.endswith("/") else path)
        if place is None:
            return self.missing(with_body)
        encoding, source = self.encoded(place)
        status = source.stat()
        tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}{encoding[:1]}"'
        if self.headers.get("If-None-Match") == tag:
            return self.empty(HTTPStatus.NOT_MODIFIED, ETag=tag)
        part = self.range_asked(status.st_size, tag) if not encoding else None
        if part == (0, 0):
            return self.empty(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, **{"Content-Range": f"bytes */{status.st_size}"}
            )
        first, last = part or (0, status.st_size)
        fields = {
            "Content-Type": MIME_TYPES.get(place.suffix, "application/octet-stream"),
            "Content-Length": str(last - first),
            "Cache-Control": "no-cache",
            "Accept-Ranges": "bytes",
            "ETag": tag,
            "Vary": "Accept-Encoding",
        }
        if encoding:
            fields["Content-Encoding"] = encoding
        if part:
            fields["Content-Range"] = f"bytes {first}-{last - 1}/{status.st_size}"
        self.head(HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK, fields)
        if with_body:
            self.body(source, first, last)

    def encoded(self, place: Path) -> tuple[str, Path]:
        """The best precompressed copy that the browser accepts: (name of the encoding or "", file)."""
        accepted = re.findall(r"[a-z]+", self.headers.get("Accept-Encoding", ""))
        if self.server.compressed and "Range" not in self.headers:
            for encoding, suffix in (("br", ".br"), ("gzip", ".gz")):
                copy = place.with_name(place.name + suffix)
                if encoding in accepted and copy.is_file():
                    return encoding, copy
        return "", place

    def range_asked(self, size: int, tag: str) -> tuple[int, int] | None:
        """(first, end) of a single byte range, (0, 0) for one that cannot be satisfied, None for the whole file."""
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not match or match.group(0) == "bytes=-" or self.headers.get("If-Range", tag) != tag:
            return None
        start, end = match.groups()
        if not start:
            return max(0, size - int(end)), size
        first, last = int(start), min(int(end) + 1 if end else size, size)
        return (first, last) if first < last else (0, 0)

    def body(self, source: Path, first: int, last: int) -> None:
        with source.open("rb") as file:
            file.seek(first)
            while first < last and (chunk := file.read(min(CHUNK, last - first))):
                try:
                    self.wfile.write(chunk)
                except (BrokenPipeError, ConnectionResetError):  # the browser cancelled
                    self.close_connection = True
                    return
                first += len(chunk)

    def missing(self, with_body: bool) -> None:
        """404 with a text: browsers offer an answer without a type as a download."""
        text = b"There is nothing at this address.\n"
        self.head(HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain", "Content-Length": str(len(text))})
        if with_body:
            self.wfile.write(text)

    def empty(self, status: HTTPStatus, **fields: str) -> None:
        self.head(status, {"Content-Length": "0", **fields})

    def head(self, status: HTTPStatus, fields: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**fields, **self.server.headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        return "pyapp"

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing: `requests` has the requests."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a folder as a static host would.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, help="8000 or, when that is taken, any free port; 0: any free port")
    parser.add_argument("--prefix", default="/", help="serve under this path")
    parser.add_argument("--isolated", action="store_true", help="send the headers for cross-origin isolation")
    arguments = parser.parse_args()

    def listen(port: int) -> SiteServer:
        return SiteServer(arguments.folder, prefix=arguments.prefix, port=port, isolated=arguments.isolated)

    try:
        server = listen(8000 if arguments.port is None else arguments.port)
    except OSError as error:
        if arguments.port is not None:
            parser.exit(1, f"Cannot listen on port {arguments.port}: {error.strerror}. Try another.\n")
        server = listen(0)
    print(f"The page is at {server.url} (stop with Ctrl-C)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
