"""pyapp's server on Ray Serve: replicas on the machines of a cluster, as many as the load needs. Requests that begin
alike go to the same replica, which has read their beginning already.

    pip install 'pyapp[server]' 'ray[serve]'
    serve run deploy.ray_serve:build models=path/to/model replicas=2 most=8

Arguments: `models` (as of pyapp serve, separated by commas), `replicas` and `most` (the least and the most of them),
`ongoing` (requests of a replica at a time), `cpus` and `gpus` of a replica, `device`, `context`, `parallel`, `routing`
("prefix", or "load": the less busy of two).

The front reads a request and gives it to a replica, and passes on what comes back, piece by piece. A replica is the
same application as `pyapp serve`, so every route is there. When a replica dies, Ray starts another one; requests that
it had not begun to answer are asked again elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ray import serve
from ray.exceptions import RayActorError
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.request_router import FIFOMixin, PendingRequest, RequestRouter, RunningReplica
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from pyapp.serve.app import make_app
from pyapp.serve.context import Context
from pyapp.serve.settings import Settings

BEGINNING = 512  # characters of a prompt by which it is routed
BODY = 100 << 20  # bytes of a request
TRIES = 3  # replicas that are asked, one after another, when they die
OPEN = ("/health", "/ready")
HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "host")


@dataclass
class Asked:
    """A request on its way to a replica. `prompt` is what Ray's routers look at."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    prompt: str = field(default="", repr=False)


def beginning(body: bytes) -> str:
    """The beginning of the prompt of a request's body; "" if it has none."""
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(found, dict):
        return ""
    for name in ("messages", "prompt", "inputs", "input"):
        if name in found:
            value = found[name]
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return f"{found.get('model', '')}\n{text[:BEGINNING]}"
    return ""


class PrefixRouter(FIFOMixin, RequestRouter):
    """Prompts that begin alike go to the same replica, by rendezvous hashing (Thaler and Ravishankar 1998): when a
    replica comes or goes, only its own prompts move. A replica that is full is passed over for the next in the order.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The replicas in the order in which they are asked."""
        args = () if pending_request is None else pending_request.args
        prompt = next((arg.prompt for arg in args if isinstance(arg, Asked)), "")
        key = prompt or str(id(pending_request))
        return [[replica] for replica in sorted(candidate_replicas, key=lambda one: _weight(key, one), reverse=True)]


def _weight(key: str, replica: RunningReplica) -> bytes:
    return hashlib.blake2b(f"{replica.replica_id.unique_id}\n{key}".encode(), digest_size=8).digest()


class Models:
    """A replica: the application of `pyapp serve` in an actor."""

    def __init__(self, settings: Settings) -> None:
        self.context = Context(settings)
        self.app = make_app(self.context)
        self._stopping = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lifespan = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        """The application's lifespan: loads the models, and ends its engine."""
        begun = False

        async def receive() -> dict[str, str]:
            nonlocal begun
            if begun:
                await self._stopping.wait()
                return {"type": "lifespan.shutdown"}
            begun = True
            return {"type": "lifespan.startup"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._ready.set_result(None)

        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    def check_health(self) -> None:
        """Ray replaces a replica whose engine has died."""
        if not self.context.engine.alive and self._ready.done():
            raise RuntimeError("the engine died")

    async def answer(self, asked: Asked) -> AsyncIterator[Any]:
        """The status and the headers of the answer, then its body in pieces."""
        await self._ready
        pieces: asyncio.Queue[Any] = asyncio.Queue()
        left = asyncio.Event()
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await left.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": asked.body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            await pieces.put(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": asked.method, "scheme": "http",
            "path": asked.path, "raw_path": asked.path.encode(), "query_string": asked.query, "root_path": "",
            "headers": asked.headers, "client": None, "server": None,
        }  # fmt: skip
        running = asyncio.ensure_future(self.app(scope, receive, send))
        running.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (message := await pieces.get()) is not None:
                if message["type"] == "http.response.start":
                    yield message["status"], message["headers"]
                elif message.get("body"):
                    yield message["body"]
            await running
        finally:
            left.set()  # a client that left, which ends its texts

    async def __del__(self) -> None:
        self._stopping.set()
        await self._lifespan


class Front:
    """Takes requests by HTTP, and gives each to a replica; to another one if that dies before its answer begins."""

    def __init__(self, models: Any) -> None:
        self._models = models.options(stream=True)

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        if len(body) > BODY:
            return refusal(413, "the request is too large")
        headers = [(name, value) for name, value in request.headers.raw if name.decode() not in HOP]
        headers.append((b"content-length", str(len(body)).encode()))
        asked = Asked(request.method, request.url.path, request.url.query.encode(), headers, body, beginning(body))
        for _ in range(TRIES):
            try:
                pieces = self._models.answer.remote(asked)
                status, given = await anext(pieces)
                kept = [pair for pair in given if pair[0].decode().lower() not in HOP]
                streamed = any(name.lower() == b"content-type" and b"event-stream" in value for name, value in kept)
                # Of an answer that is not streamed nothing has been sent yet: it can be asked again as a whole.
                content = pieces if streamed else b"".join([piece async for piece in pieces])
            except RayActorError:  # the replica died
                continue
            answer = StreamingResponse(content, status) if streamed else Response(content, status)
            sizes = [pair for pair in answer.raw_headers if pair[0] == b"content-length"]
            answer.raw_headers = [*kept, *sizes]
            return answer
        return refusal(503, "the replicas die")


def refusal(status: int, what: str) -> Response:
    """An error in OpenAI's form."""
    error = {"message": what, "type": "server_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers={"Retry-After": "1"})


def build(given: dict[str, str]) -> serve.Application:
    """The application of `serve run deploy.ray_serve:build NAME=VALUE …`."""
    known = {
        "models": "", "replicas": "1", "most": "", "ongoing": "32", "cpus": "1", "gpus": "0", "device": "",
        "context": "", "parallel": "16", "routing": "prefix",
    }  # fmt: skip
    unknown = set(given) - set(known)
    if unknown:
        raise ValueError(f"there is no argument {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    options = known | given
    if options["routing"] not in ("prefix", "load"):
        raise ValueError(f"routing is 'prefix' or 'load', not {options['routing']!r}")
    settings = Settings(
        models=tuple(filter(None, options["models"].split(","))), device=options["device"] or None,
        context=int(options["context"]) if options["context"] else None, rows=int(options["parallel"]),
    )  # fmt: skip
    least, ongoing = int(options["replicas"]), int(options["ongoing"])
    more: dict[str, Any] = {}
    if options["routing"] == "prefix":
        more["request_router_config"] = RequestRouterConfig(request_router_class=PrefixRouter)
    models = serve.deployment(
        Models,
        name="models",
        autoscaling_config=AutoscalingConfig(
            min_replicas=least, max_replicas=int(options["most"] or least), target_ongoing_requests=ongoing / 2
        ),
        max_ongoing_requests=ongoing,
        max_queued_requests=-1,
        health_check_period_s=5,
        graceful_shutdown_timeout_s=30,
        ray_actor_options={"num_cpus": float(options["cpus"]), "num_gpus": float(options["gpus"])},
        **more,
    )
    front = serve.deployment(Front, name="front", max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0})
    return front.bind(models.bind(settings))
