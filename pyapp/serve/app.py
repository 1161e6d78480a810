"""The application: the routes, and what surrounds each request: keys, request ids, errors, figures, the log."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketState

from pyapp.errors import OptionError

from . import (
    anthropic_text,
    cohere_text,
    drawing,
    forecasting,
    llama_cpp,
    ollama,
    openai_text,
    responses,
    speaking,
    speech,
    tgi,
    vectors,
)
from .answers import EventStream, server_ends
from .context import Context, Handler, is_foreign
from .openapi import description
from .page import WithPage, check_site
from .problems import Problem, of_exception
from .realtime import realtime
from .sampling import NAMES

log = logging.getLogger("pyapp.serve")
OPEN = ("/health", "/v1/health", "/ready")  # without a key
ENDING_STEPS = 150  # of 10 ms
KEY_PROTOCOL = "openai-insecure-api-key."  # OpenAI's subprotocol that carries a key
# Routes of OpenAI's, Anthropic's and Ollama's that are not here, and what does their work.
REALTIME = "/v1/realtime"
INSTEAD = {
    "/chat": "ask /v1/chat/completions",
    "/complete": "ask /v1/messages",
    "/messages/batches": "ask /v1/messages for each of them",
    **dict.fromkeys(
        ("/api/pull", "/api/create", "/api/copy", "/api/delete", "/api/push"), "models are given to `pyapp serve`"
    ),
}
REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


# -- operation


async def health(request: Request, context: Context) -> Response:
    """200 while the engine's thread lives."""
    alive = context.engine.alive
    return JSONResponse({"status": "ok" if alive else "the engine died"}, 200 if alive else 503)


async def ready(request: Request, context: Context) -> Response:
    """200 when the models are loaded, until the server is told to end."""
    state = "ending" if context.draining else "ready" if context.models.ready else "loading"
    state = state if context.engine.alive else "the engine died"
    return JSONResponse({"status": state}, 200 if state == "ready" else 503, headers={"Retry-After": "1"})


async def running(request: Request, context: Context) -> Response:
    """Programs that know Ollama ask for this before anything else."""
    return PlainTextResponse("pyapp is running, without a page (--page gives one). /openapi.json lists the routes.\n")


async def metrics(request: Request, context: Context) -> Response:
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(request: Request, context: Context) -> Response:
    return JSONResponse(description(bool(context.settings.keys)))


async def models(request: Request, context: Context) -> Response:
    """All models, in the forms of OpenAI and Anthropic (`data`), and of Cohere (`models`: those for `endpoint`, or the
    one that requests for it get which name none).
    """
    found = [describe(model) for model in context.models.by_name.values()]
    page = {"has_more": False, "first_id": found[0]["id"], "last_id": found[-1]["id"]}  # Anthropic's, always the whole
    asked, listed = request.query_params, found
    if endpoint := asked.get("endpoint"):
        listed = [model for model in found if endpoint in model["endpoints"]]
        listed = listed[:1] if asked.get("default_only") == "true" else listed
    return JSONResponse({"object": "list", "data": found, **page, "models": listed, "next_page_token": None})


async def model(request: Request, context: Context) -> Response:
    name = request.path_params["name"]
    found = context.models.by_name.get(name)
    if found is None:
        raise Problem(f"the model {name!r:.100} does not exist", status=404, param="model", code="model_not_found")
    return JSONResponse(describe(found))


def describe(found: Any) -> dict[str, Any]:
    """A model in the forms of OpenAI, Anthropic (`type`, `display_name`, `created_at`), Cohere (`name`, `endpoints`,
    `context_length`) and vLLM (`root`, `parent`, and `max_model_len`, the tokens of its context).
    """
    writes = found.task == "generate" and found.loaded is not None
    return {
        "id": found.name, "object": "model", "created": found.created, "owned_by": "pyapp", "task": found.task,
        "loaded": found.loaded is not None, "root": found.name, "parent": None,
        "type": "model", "display_name": found.name,
        "created_at": datetime.fromtimestamp(found.created, UTC).isoformat().replace("+00:00", "Z"),
        "name": found.name, "endpoints": list(cohere_text.ENDPOINTS.get(found.task, ())), "finetuned": False,
        "is_deprecated": False,
        **(dict.fromkeys(("max_model_len", "context_length"), found.runner.capacity) if writes else {}),
        **({"voices": found.loaded.speakers} if found.task == "speak" and found.loaded is not None else {}),
        **(heard_by(found.loaded.tokenizer) if found.task == "transcribe" and found.loaded is not None else {}),
    }  # fmt: skip


def heard_by(tokenizer: Any) -> dict[str, Any]:
    """The codes of the languages of a speech model, and whether it translates into English. One that names characters
    does not say its language.
    """
    if not hasattr(tokenizer, "multilingual"):
        return {"languages": [], "translates": False}
    several = tokenizer.multilingual
    return {"languages": list(tokenizer.all_language_codes) if several else ["en"], "translates": several}


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/health", health),
    ("GET", "/v1/health", health),
    ("GET", "/ready", ready),
    ("GET", "/", running),
    ("GET", "/metrics", metrics),
    ("GET", "/openapi.json", openapi),
    ("GET", "/v1/models", models),
    ("GET", "/models", models),
    ("GET", "/v1/models/{name:path}", model),
    ("POST", "/v1/chat/completions", openai_text.chat_completions),
    ("POST", "/chat/completions", openai_text.chat_completions),
    ("POST", "/v1/completions", openai_text.completions),
    ("POST", "/v1/responses", responses.create),
    ("POST", "/v1/responses/input_tokens", responses.count_tokens),
    ("GET", "/v1/responses/{id}", responses.retrieve),
    ("DELETE", "/v1/responses/{id}", responses.delete),
    ("GET", "/v1/responses/{id}/input_items", responses.list_input),
    ("POST", "/v1/messages", anthropic_text.messages),
    ("POST", "/v1/messages/count_tokens", anthropic_text.count_tokens),
    ("POST", "/v1/embeddings", vectors.embeddings),
    ("POST", "/v2/chat", cohere_text.chat),
    ("POST", "/v2/embed", vectors.embeddings_by_type),
    ("POST", "/v1/rerank", vectors.rerank),
    ("POST", "/v2/rerank", vectors.rerank),
    ("POST", "/v1/reranking", vectors.rerank),
    ("POST", "/reranking", vectors.rerank),
    ("POST", "/v1/forecast", forecasting.forecast),
    ("POST", "/infinity/embeddings", vectors.embeddings),
    ("POST", "/infinity/rerank", vectors.rerank),
    ("POST", "/v1/audio/transcriptions", speech.transcriptions),
    ("POST", "/v1/audio/translations", speech.translations),
    ("POST", "/v1/audio/speech", speaking.speech),
    ("POST", "/v1/images/generations", drawing.generations),
    ("POST", "/v1/images/edits", drawing.edits),
    ("POST", "/", tgi.either),
    ("POST", "/models/{name:path}", tgi.of_model),
    ("GET", "/info", tgi.info),
    ("POST", "/generate", tgi.generate),
    ("POST", "/generate_stream", tgi.generate_stream),
    ("POST", "/tokenize", tgi.tokenize),
    ("POST", "/embed", vectors.embed),
    ("POST", "/embed_all", vectors.embed_all),
    ("POST", "/rerank", vectors.rerank),
    ("POST", "/similarity", vectors.similarity),
    ("POST", "/predict", vectors.predict),
    ("POST", "/v1/score", vectors.score),
    ("POST", "/classify", vectors.classes),
    ("POST", "/completion", llama_cpp.completion),
    ("POST", "/infill", llama_cpp.infill),
    ("POST", "/embedding", llama_cpp.embedding),
    ("POST", "/embeddings", llama_cpp.embedding),
    ("POST", "/detokenize", llama_cpp.detokenize),
    ("POST", "/apply-template", llama_cpp.apply_template),
    ("GET", "/props", llama_cpp.props),
    ("GET", "/slots", llama_cpp.slots),
    ("GET", "/lora-adapters", llama_cpp.lora_adapters),
    ("GET", "/api/version", ollama.version),
    ("GET", "/api/tags", ollama.tags),
    ("GET", "/api/ps", ollama.running_models),
    ("POST", "/api/show", ollama.show),
    ("POST", "/api/chat", ollama.chat),
    ("POST", "/api/generate", ollama.generate),
    ("POST", "/api/embed", ollama.embed),
    ("POST", "/api/embeddings", ollama.embeddings),
)


# -- around each request


def check_alive(context: Context) -> None:
    """Problem where the engine died."""
    if not context.engine.alive:
        raise Problem("the engine died; the server ends", status=503, code="engine_dead")


def noted_problem(error: Exception, scope: Any) -> Problem:
    """The problem of an exception. The log has those that are not the request's fault."""
    problem = of_exception(error, NAMES)
    if problem.status >= 500 and not isinstance(error, Problem):
        log.error("a request failed", exc_info=error, extra={"fields": {"request": scope["pyapp.id"]}})
    return problem


def endpoint_of(handler: Handler, context: Context, answer: Callable[[Problem], Response]) -> Callable[[Request], Any]:
    """A route's function: errors become answers."""

    async def endpoint(request: Request) -> Response:
        try:
            if request.url.path not in OPEN:
                check_alive(context)
            found = await handler(request, context)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.CancelledError:
            if not context.draining:
                raise
            return answer(server_ends())
        except Exception as error:
            return refused(error, request)
        if isinstance(found, EventStream):
            found.refused = partial(refused, request=request)
        return found

    def refused(error: Exception, request: Request) -> Response:
        return answer(noted_problem(error, request.scope))

    return endpoint


def socket_endpoint(context: Context) -> Callable[[WebSocket], Any]:
    """/v1/realtime: what is refused before the connection stands is an answer as of every route."""

    async def endpoint(socket: WebSocket) -> None:
        try:
            check_alive(context)
            await realtime(socket, context)
        except Exception as error:
            problem = noted_problem(error, socket.scope)
            if socket.client_state is WebSocketState.CONNECTING:
                await socket.send_denial_response(answer_of(problem))

    return endpoint


def answer_of(problem: Problem) -> Response:
    """The answer to a problem, in OpenAI's form."""
    return JSONResponse(problem.body(), problem.status, headers=problem.headers)


def answer_for(path: str) -> Callable[[Problem], Response]:
    """What makes answers of problems in the form of a path's interface."""
    if path.startswith("/v1/messages"):
        return anthropic_text.answer_of
    return ollama.answer_of if path.startswith("/api/") else answer_of


def instead_of(method: str, path: str) -> str:
    """What to ask instead of a route that there is not."""
    known = {(method, path) for method, path, _ in ROUTES}
    if (method, f"/v1{path}") in known:
        return f"ask /v1{path} (end the client's base URL with /v1)"
    if (method, path.removeprefix("/v1")) in known:
        return f"ask {path.removeprefix('/v1')} (leave /v1 out of the client's base URL)"
    return INSTEAD.get(path.removeprefix("/v1"), "GET /openapi.json lists those that there are")


async def on_http_error(request: Request, error: Exception) -> Response:
    """Unknown routes and methods."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    if path == REALTIME:
        what = f"{REALTIME} is a websocket: connect to it with ws://"
        return answer_of(Problem(what, status=426, headers={"upgrade": "websocket"}))
    what = f"{path:.100} does not take {method}"
    if error.status_code == 404:
        what = f"there is no route {path:.100}: {instead_of(method, path)}"
    return answer_for(path)(Problem(what, status=error.status_code, headers=error.headers))


class Gate:
    """Around the application: the request's id, its key, its line in the log, its figures."""

    def __init__(self, app: Any, context: Context) -> None:
        self._app, self._context = app, context

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        start, headers = time.perf_counter(), Headers(scope=scope)
        given = headers.get("x-request-id", "")
        scope["pyapp.id"] = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope["pyapp.log"] = {}
        status = 0

        async def sending(message: Any) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = scope["pyapp.id"]
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        self._context.answering += 1
        try:
            refusal = self._refusal(scope, headers)
            if refusal is None:
                with self._context.models.holding():
                    await self._app(scope, receive, sending)
            elif scope["type"] == "http":
                await answer_for(scope["path"])(refusal)(scope, receive, sending)
            else:
                await WebSocket(scope, receive, sending).send_denial_response(answer_of(refusal))
        finally:
            self._context.answering -= 1
            self._note(scope, status, time.perf_counter() - start)

    def _refusal(self, scope: Any, headers: Headers) -> Problem | None:
        """Why a request may not go on: its key, or a page of another site that opens a websocket."""
        settings = self._context.settings
        if self._context.connections() > settings.connections and scope["path"] not in OPEN:
            return Problem(
                f"more than {settings.connections:,} connections are open", status=503, code="too_many_connections",
                headers={"Retry-After": "1", "Connection": "close"},
            )  # fmt: skip
        if "content-length" in headers and "transfer-encoding" in headers:  # proxies may not agree where it ends
            return Problem(
                "the request has Content-Length and Transfer-Encoding: send one of them",
                code="invalid_request", headers={"Connection": "close"},
            )  # fmt: skip
        if scope["type"] == "websocket" and is_foreign(headers, settings):  # browsers ask for no permission (CORS) here
            return Problem("pages of other sites may not ask: see --cors", status=403, code="origin_not_allowed")
        if not settings.keys or scope["path"] in OPEN or scope.get("method") == "OPTIONS":
            return None
        kind, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip() if kind.lower() == "bearer" else headers.get("x-api-key", "")  # as Anthropic's clients
        for protocol in scope.get("subprotocols", ()):  # browsers cannot send the header with a websocket
            given = given or protocol.removeprefix(KEY_PROTOCOL) if protocol.startswith(KEY_PROTOCOL) else given
        fits = [hmac.compare_digest(given.encode(), known.encode()) for known in settings.keys]  # always all of them
        if any(fits):
            return None
        return Problem(
            "the key is wrong or missing: send Authorization: Bearer KEY", status=401, code="invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )  # fmt: skip

    def _note(self, scope: Any, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        fields, metrics = scope["pyapp.log"], self._context.metrics
        metrics.requests.labels(route, fields.get("model", ""), str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        if route in (*OPEN, "/metrics") and status < 500:
            return
        method = scope.get("method", "WEBSOCKET")
        about = {"request": scope["pyapp.id"], "method": method, "route": route, "status": status}
        log.info("request", extra={"fields": about | {"seconds": round(seconds, 4)} | fields})


def make_app(context: Context, on_failure: Callable[[Exception], None] = lambda error: None) -> Any:
    """The ASGI application. `on_failure` is called with the error of a model that cannot be loaded at the start."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        context.engine.start()
        tasks = []
        if context.settings.preload:
            tasks.append(asyncio.ensure_future(preload()))
        if context.settings.idle:
            tasks.append(asyncio.ensure_future(unload()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for _ in range(ENDING_STEPS):  # those whose grace is over tell their clients so
                if not context.answering:
                    break
                await asyncio.sleep(0.01)
            context.close()

    async def preload() -> None:
        try:
            await context.models.load_all()
            log.info("ready", extra={"fields": {"models": list(context.models.by_name)}})
        except Problem as problem:
            hint = "Give a larger --memory, or a smaller --cache-memory"
            on_failure(OptionError(problem.message, where="memory", hint=hint))
        except Exception as error:
            on_failure(error)

    async def unload() -> None:
        while True:
            await asyncio.sleep(min(max(context.settings.idle / 4, 0.05), 10))
            await context.models.unload_idle()

    routes: list[BaseRoute] = [
        Route(path, endpoint_of(handler, context, answer_for(path)), methods=[method])
        for method, path, handler in ROUTES
    ]
    routes.append(WebSocketRoute(REALTIME, socket_endpoint(context)))
    middleware = [Middleware(Gate, context=context)]
    if context.settings.page is not None:
        check_site(context.settings.page)
        middleware.insert(0, Middleware(WithPage, folder=context.settings.page))
    if context.settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware, allow_origins=list(context.settings.origins), allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"], expose_headers=["x-request-id"],
            )
        )  # fmt: skip
    errors: Any = {HTTPException: on_http_error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=errors, lifespan=lifespan)
