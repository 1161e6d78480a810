"""The product's page at "/": the files of a built site (`make site`), for browsers that come to the server."""

from __future__ import annotations

import mimetypes
import os
import re
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from pyapp.errors import OptionError

# The page may use several threads only if these isolate it from other sites (HTML, "cross-origin isolation").
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'self'",
}
# Tells the page's scripts, which cannot read its headers, that the server behind it computes too.
HERE = "pyapp-server=1; Path=/; Max-Age=31536000; SameSite=Strict"
TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm", ".webmanifest": "application/manifest+json"}
ENCODINGS = (("br", ".br"), ("gzip", ".gz"))  # of the copies beside the files


class Site(StaticFiles):
    """The files of a folder, with their compressed copies where the browser takes them."""

    def file_response(
        self, full_path: Any, stat_result: os.stat_result, scope: Any, status_code: int = 200
    ) -> Response:
        headers, name = Headers(scope=scope), os.fspath(full_path)
        accepted = re.findall(r"[a-z]+", headers.get("accept-encoding", "")) if "range" not in headers else []
        encoding, suffix = next(
            ((code, end) for code, end in ENCODINGS if code in accepted and os.path.isfile(name + end)), ("", "")
        )
        found = super().file_response(name + suffix, os.stat(name + suffix), scope, status_code)
        found.headers.update({**ISOLATION, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
        if found.status_code != 304:
            kind = TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
            found.headers["Content-Type"] = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
            if encoding:
                found.headers["Content-Encoding"] = encoding
        return found


def check_site(folder: str) -> None:
    """OptionError for a folder that is not a built page."""
    if not (Path(folder) / "index.html").is_file():
        raise OptionError("has no index.html", where=folder, hint="Build the page with `make site` and give dist/")


class WithPage:
    """Answers GET and HEAD of the site's files, which need no key, before the application."""

    def __init__(self, app: Any, folder: str) -> None:
        self._app, self._site = app, Site(directory=folder, html=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            path = self._site.get_path(scope)
            try:
                answer = await self._site.get_response(path, scope)
            except HTTPException:  # no such file: perhaps a route
                pass
            else:
                if answer.status_code in (200, 206, 304):
                    if path in (".", "index.html"):
                        answer.headers["Set-Cookie"] = HERE
                    await answer(scope, receive, send)
                    return
        await self._app(scope, receive, send)
