"""Ollama's interface: /api/chat, /api/generate, /api/embed, and what its clients ask about the models.

The answers are those of the other interfaces, in the form of https://github.com/ollama/ollama/blob/main/docs/api.md:
streams of JSON lines, times in nanoseconds, and errors as a text in `error`. A model is found under its name with
":latest" after it, too. Settings that a request does not have are as in the other interfaces, not as Ollama's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import __version__
from pyapp.events import Done, Event, Token
from pyapp.formats.safe_json import parse_json
from pyapp.text.chat.chat_template import sources
from pyapp.text.chat.thinking import THINKING_TAGS
from pyapp.text.pictures import sees

from .answers import EventStream
from .chat import (
    PICTURE,
    Added,
    AnswerParser,
    Chat,
    begin_chat,
    content_of,
    effort_variables,
    messages_of,
    named_logprobs,
    with_forced_call,
)
from .context import Context
from .fields import Fields
from .generation import Choice, Prompt, RunningTexts, collect, submit
from .openai_text import completion_prompts
from .problems import Problem, of_exception
from .sampling import OLLAMA, Asked, asked_of
from .served import ServedModel, bytes_of_files
from .tool_calls import Tools
from .vectors import MOST_INPUTS, embedded, fitting, refuse_cut, shortened

LATEST = ":latest"
# Options of Ollama's for its own memory and machine, and for details of methods that are not here.
WITHOUT_EFFECT = (
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "low_vram", "use_mmap", "use_mlock",
    "numa", "vocab_only", "f16_kv", "logits_all", "repeat_last_n", "penalize_newline", "mirostat_eta",
    "mirostat_tau", "draft_num_predict",
)  # fmt: skip
METHODS = {"mirostat": 0, "tfs_z": 1}  # that are not here, and the values that say so
EFFORTS = ("low", "medium", "high")
MOST_TOP = 20  # of the likeliest tokens beside each


class LineStream(EventStream):
    """JSON objects, one a line."""

    media_type = "application/x-ndjson"
    comment = None  # clients read every line as an object


def line(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def answer_of(problem: Problem) -> Response:
    """The answer of a problem."""
    return JSONResponse({"error": problem.message}, problem.status, headers=problem.headers)


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


# -- the models


def name_of(fields: Fields, context: Context) -> str | None:
    """The name of a request's model, without ":latest"."""
    name, former = fields.text("model"), fields.text("name")  # as older versions call it
    name = name or former
    if name is None or name in context.models.by_name:
        return name
    return name.removesuffix(LATEST)


def details_of(model: ServedModel) -> dict[str, Any]:
    """`details` of a model; what is known only of a loaded one is empty before."""
    network = getattr(model.loaded, "model", None)
    config = getattr(network, "config", None)
    family = type(config).__module__.rpartition(".")[2] if config is not None else ""
    count = 0 if network is None else sum(parameter.numel() for parameter in network.parameters())
    return {
        "parent_model": "", "format": "gguf" if str(model.source).endswith(".gguf") else "safetensors",
        "family": family, "families": [family] if family else [], "quantization_level": "",
        "parameter_size": f"{count / 1e6:.1f}M" if count else "",
    }  # fmt: skip


def entry_of(model: ServedModel) -> dict[str, Any]:
    """A model in a list. Its digest is that of its name: clients only tell models apart by it."""
    return {
        "name": model.name, "model": model.name, "size": model.nbytes or bytes_of_files(model.source),
        "digest": hashlib.sha256(model.name.encode()).hexdigest(), "details": details_of(model),
    }  # fmt: skip


def capabilities_of(model: ServedModel) -> list[str]:
    """What a model can do, in Ollama's words."""
    if model.task != "generate":
        return ["embedding"] if model.task == "embed" else []
    found = ["completion"]
    if model.loaded is not None:
        template = "".join(sources(model.loaded.tokenizer.settings).values())
        found += ["tools"] if "tools" in template else []
        found += ["thinking"] if "enable_thinking" in template or any(tag in template for tag in THINKING_TAGS) else []
        found += ["vision"] if sees(model.loaded.model) else []
    return found


async def version(request: Request, context: Context) -> Response:
    return JSONResponse({"version": __version__})


async def tags(request: Request, context: Context) -> Response:
    """The models."""
    models = context.models.by_name.values()
    dated = [datetime.fromtimestamp(model.created, UTC).isoformat() for model in models]
    return JSONResponse(
        {"models": [entry_of(model) | {"modified_at": at} for model, at in zip(models, dated, strict=True)]}
    )


async def running_models(request: Request, context: Context) -> Response:
    """The models that are loaded."""
    loaded = [model for model in context.models.by_name.values() if model.loaded is not None]
    far = datetime(9999, 1, 1, tzinfo=UTC).isoformat()
    return JSONResponse({"models": [entry_of(model) | {"expires_at": far, "size_vram": 0} for model in loaded]})


async def show(request: Request, context: Context) -> Response:
    """A model."""
    fields = Fields(await context.json(request, typed=False))
    name = name_of(fields, context)
    fields.end(("verbose", "system", "template", "options"))
    model = context.models.find(name, tuple({found.task for found in context.models.by_name.values()}))
    writes = model.task == "generate" and model.loaded is not None
    template = sources(model.loaded.tokenizer.settings).get("default", "") if writes else ""
    known = {"general.context_length": model.runner.capacity} if writes else {}
    return JSONResponse(
        {
            "modelfile": "", "parameters": "", "template": template, "details": details_of(model),
            "model_info": known, "capabilities": capabilities_of(model),
            "modified_at": datetime.fromtimestamp(model.created, UTC).isoformat(),
        }
    )  # fmt: skip


# -- texts


def settings_of(fields: Fields, context: Context) -> Asked:
    """The settings in `options`, the form in `format`, and `logprobs`."""
    options = dict(fields.mapping("options") or {})
    if options.get("num_predict") == -2:  # until the context is full
        options["num_predict"] = -1
    inner, form = Fields(options, "options"), fields.any("format")
    wanted = None
    if form == "json":
        wanted = Fields({"type": "json_object"}, "format")
    elif isinstance(form, dict):
        wanted = Fields({"type": "json_schema", "json_schema": {"schema": form}}, "format")
    elif form not in (None, ""):
        raise fields.wrong("format", 'must be "json" or a JSON schema', "invalid_type")
    scored, top = fields.flag("logprobs"), fields.whole("top_logprobs", None, 0, MOST_TOP)
    if top and not scored:
        raise fields.wrong("top_logprobs", "goes together with logprobs")
    asked = asked_of(inner, context.settings, (top or 0) if scored else None, wanted, interface=OLLAMA)
    for name, off in METHODS.items():
        if inner.any(name, off) != off:
            raise inner.wrong(name, f"must be {off}: pyapp does not draw tokens by this method")
    inner.end(WITHOUT_EFFECT)
    return asked


def effort_of(fields: Fields) -> str | None:
    """How much to think, in the words of effort_variables."""
    value = fields.any("think")
    if value is None or value in EFFORTS:
        return value
    if not isinstance(value, bool):
        raise fields.wrong("think", f"must be true, false, or one of {', '.join(EFFORTS)}", "invalid_type")
    return "high" if value else "none"


def as_url(picture: Any) -> str:
    """The data: URL of a picture in base64."""
    return f"data:image/png;base64,{picture}"


def plain_message(message: Any) -> Any:
    """A message in OpenAI's form: pictures are parts, and thoughts reasoning_content."""
    if not isinstance(message, dict):
        return message
    found = dict(message)
    pictures, thoughts, tool = (found.pop(name, None) for name in ("images", "thinking", "tool_name"))
    if pictures and isinstance(pictures, list):
        parts = [{"type": PICTURE, PICTURE: {"url": as_url(picture)}} for picture in pictures]
        found["content"] = [*parts, {"type": "text", "text": found.get("content") or ""}]
    if isinstance(thoughts, str):
        found["reasoning_content"] = thoughts
    if isinstance(tool, str):
        found["name"] = tool
    return found


def calls_of(choice: Choice) -> list[dict[str, Any]]:
    """The calls of a text; their arguments are objects."""
    found = []
    for call in choice.calls:
        try:
            arguments = parse_json(call["function"]["arguments"])
        except ValueError:  # cut off, or nested too deeply
            arguments = {}
        found.append({"function": {"name": call["function"]["name"], "arguments": arguments}})
    return found


class Lines:
    """An answer in pieces, and as a whole. `chat`: it is a message, and else a text. What goes on a prompt that no chat
    template made has neither thoughts nor calls. Log-probabilities come if the prompt's options ask for them.
    """

    def __init__(self, request: Request, model: ServedModel, prompt: Prompt, tools: Tools, chat: bool) -> None:
        self._request, self._model, self._chat = request, model, chat
        self._scored, self._told = prompt.options.logprobs is not None, 0  # so many tokens have been sent
        self._parser, self._choice = AnswerParser(prompt, tools), Choice(0, prompt_tokens=len(prompt.ids))
        self._raw = not prompt.rendered
        self._began, self._first = perf_counter_ns(), 0

    def take(self, _: int, event: Event) -> Added:
        if isinstance(event, Token) and not self._first:
            self._first = perf_counter_ns()
        if not self._raw:
            return self._parser.take(self._request, self._choice, event, self._scored)
        return "", self._choice.take(self._request, event, self._scored), []

    def _said(self, text: str, thought: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"model": self._model.name, "created_at": now()}
        more: dict[str, Any] = {"thinking": thought} if thought else {}
        if not self._chat:
            return head | {"response": text, **more}
        more |= {"tool_calls": calls} if calls else {}
        return head | {"message": {"role": "assistant", "content": text, **more}}

    def _scores(self) -> dict[str, Any]:
        """The log-probabilities of the tokens that were not sent yet."""
        tokens = self._choice.logprobs[self._told :]
        self._told += len(tokens)
        return {"logprobs": named_logprobs(self._model, tokens)} if tokens else {}

    def _end(self) -> dict[str, Any]:
        end, choice = perf_counter_ns(), self._choice
        first = self._first or end
        return {
            "done": True, "done_reason": "length" if choice.reason == "length" else "stop",
            "total_duration": end - self._began, "load_duration": 0, "prompt_eval_count": choice.prompt_tokens,
            "prompt_eval_duration": first - self._began, "eval_count": choice.tokens, "eval_duration": end - first,
        }  # fmt: skip

    async def stream(self, running: RunningTexts) -> AsyncGenerator[str, None]:
        async with aclosing(running.events()) as events:
            async for index, event in events:
                thought, text, _ = self.take(index, event)
                scores = self._scores()
                if thought or text or scores:
                    yield line(self._said(text, thought, []) | scores | {"done": False})
                if isinstance(event, Done):
                    if self._choice.calls:
                        yield line(self._said("", "", calls_of(self._choice)) | {"done": False})
                    yield line(self._said("", "", []) | self._end())

    def whole(self) -> dict[str, Any]:
        return (
            self._said(self._choice.text, self._choice.thoughts, calls_of(self._choice)) | self._scores() | self._end()
        )


async def answered(
    request: Request, context: Context, begun: tuple[ServedModel, Prompt, RunningTexts], tools: Tools, stream: bool,
    chat: bool,
) -> Response:  # fmt: skip
    model, prompt, running = begun
    lines = Lines(request, model, prompt, tools, chat)
    if not stream:
        await collect(request, running, lines.take)
        return JSONResponse(lines.whole())

    def broken(error: Exception) -> str:
        return line({"error": of_exception(error, OLLAMA.names).message})

    seconds, ping = context.settings.seconds, context.settings.ping_seconds
    return LineStream(lines.stream(running), broken, running.close, seconds, ping)


async def loaded(request: Request, context: Context, name: str | None, said: dict[str, Any]) -> Response:
    """The answer to a request without a text, which only wants the model to be loaded."""
    model = await context.model(request, name, "generate")
    return JSONResponse({"model": model.name, "created_at": now(), **said, "done": True, "done_reason": "load"})


async def chat(request: Request, context: Context) -> Response:
    fields = Fields(await context.json(request, typed=False))
    name, stream = name_of(fields, context), fields.flag("stream", True)
    asked, effort, tools = settings_of(fields, context), effort_of(fields), Tools(fields)
    empty = not fields.array("messages", ())
    messages: list[dict[str, Any]] = [] if empty else messages_of(fields, plain_message)
    fields.end(("keep_alive",))
    if empty:
        return await loaded(request, context, name, {"message": {"role": "assistant", "content": ""}})
    asked = with_forced_call(fields, asked, tools, "format")
    variables = lambda model: effort_variables(model, effort, "think")  # noqa: E731
    begun = await begin_chat(request, context, Chat(name, messages, asked, tools, 0), variables, interface=OLLAMA)
    return await answered(request, context, begun, tools, stream, chat=True)


async def generate(request: Request, context: Context) -> Response:
    """The answer to a text, by the model's chat template; `raw`, or a model without one: the text goes on."""
    fields = Fields(await context.json(request, typed=False))
    name, stream = name_of(fields, context), fields.flag("stream", True)
    asked, effort, tools = settings_of(fields, context), effort_of(fields), Tools(Fields({}, "tools"))
    prompt, suffix = fields.text("prompt") or "", fields.text("suffix") or None
    system, raw = fields.text("system"), fields.flag("raw")
    seen = [(PICTURE, as_url(picture)) for picture in fields.texts("images", MOST_INPUTS) or ()]
    seen.append(("text", prompt))
    if fields.any("template"):
        raise fields.wrong("template", "is not read: the model's own is used", "unsupported_parameter")
    fields.end(("keep_alive", "context"))
    if not prompt and suffix is None:
        return await loaded(request, context, name, {"response": ""})
    model = await context.model(request, name, "generate")
    if raw or suffix is not None or not sources(model.loaded.tokenizer.settings):
        context.check_length([prompt, suffix or ""], "prompt")
        options = asked.of(model, context.settings)
        [ready] = await context.aside(lambda: completion_prompts(model, [prompt], options, asked, suffix))
        running = await submit(context, model, [ready], 1, "prompt", interface=OLLAMA)
        return await answered(request, context, (model, ready, running), tools, stream, chat=False)
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": content_of(seen, PICTURE)})
    variables = lambda model: effort_variables(model, effort, "think")  # noqa: E731
    begun = await begin_chat(request, context, Chat(name, messages, asked, tools, 0), variables, interface=OLLAMA)
    return await answered(request, context, begun, tools, stream, chat=False)


# -- vectors


async def embed(request: Request, context: Context) -> Response:
    fields, began = Fields(await context.json(request, typed=False)), perf_counter_ns()
    name, texts = name_of(fields, context), fields.needed_texts("input", MOST_INPUTS)
    dimensions, cut = fields.whole("dimensions", None, 1), fields.flag("truncate", True)
    fields.end(("options", "keep_alive"))
    context.check_length(texts, "input")
    model = await context.model(request, name, "embed")
    if not cut:
        too_long = fields.wrong("input", "is longer than the model reads", "context_length_exceeded")
        await refuse_cut(context, model, too_long, texts)
    vectors = await embedded(request, context, model, texts)
    vectors = [shortened(vector, dimensions) for vector in fitting(vectors, fields, "dimensions", dimensions)]
    return JSONResponse(
        {
            "model": model.name, "embeddings": vectors, "total_duration": perf_counter_ns() - began, "load_duration": 0,
            "prompt_eval_count": request.scope["pyapp.log"].get("prompt_tokens", 0),
        }
    )  # fmt: skip


async def embeddings(request: Request, context: Context) -> Response:
    """The older form, of one text."""
    fields = Fields(await context.json(request, typed=False))
    name, text = name_of(fields, context), fields.needed_text("prompt")
    fields.end(("options", "keep_alive"))
    context.check_length([text], "prompt")
    model = await context.model(request, name, "embed")
    [vector] = await embedded(request, context, model, [text])
    return JSONResponse({"embedding": vector})
