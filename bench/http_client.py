"""A small HTTP/1.1 client for loads: one connection for each client, answers read line by line, little work."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

LONGEST_LINE = 1 << 26


class Connection:
    """A connection to a server, opened anew when it has been closed."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._key = key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.status = 0

    async def lines(self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
                    ) -> AsyncIterator[bytes]:  # fmt: skip
        """Sends a request and gives the lines of its answer as they come; `status` is its status."""
        reader, writer = await self._opened()
        head = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(body)}",
                f"Content-Type: {kind}"]  # fmt: skip
        if self._key:
            head.append(f"Authorization: Bearer {self._key}")
        complete = False
        try:
            writer.write("\r\n".join([*head, "", ""]).encode() + body)
            await writer.drain()
            self.status, headers = await self._head(reader)
            rest = b""
            async for data in self._body(reader, headers):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    yield line
            if rest:
                yield rest
            complete = headers.get("connection", "").lower() != "close"
        finally:
            if not complete:
                self.close()

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """The object that a request gives."""
        data = b"" if body is None else json.dumps(body).encode()
        return json.loads(b"\n".join([line async for line in self.lines(method, path, data)]) or b"null")

    async def upload(self, path: str, sound: bytes, fields: Mapping[str, str]) -> Any:
        """The object that a form with a file gives."""
        boundary = secrets.token_hex(16)
        parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
                 for name, value in fields.items()]  # fmt: skip
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        body = b"".join([*parts, head.encode(), sound, f"\r\n--{boundary}--\r\n".encode()])
        kind = f"multipart/form-data; boundary={boundary}"
        return json.loads(b"\n".join([line async for line in self.lines("POST", path, body, kind)]) or b"null")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof() or self._streams[1].is_closing():
            self._streams = await asyncio.open_connection(self.host, self.port, limit=LONGEST_LINE)
        return self._streams

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}

    @staticmethod
    async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            yield await reader.readexactly(int(headers.get("content-length", 0)))
            return
        while size := int(await reader.readline(), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
