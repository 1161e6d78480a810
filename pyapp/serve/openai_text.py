"""OpenAI's interface: /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from itertools import accumulate
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.events import Cancel, Done, Error, Event, Item, Token
from pyapp.text.chat_template import ChatTemplate, sources
from pyapp.text.fill_in_middle import between
from pyapp.text.generate import prompt_ids
from pyapp.text.options import SamplingOptions
from pyapp.text.plain_chat import STOP, PlainChat
from pyapp.text.thinking import ThinkingSplitter

from .answers import EventStream, cancelled_by_leaving
from .context import Context
from .fields import Fields
from .problems import Problem, PromptTooLong, of_event, of_exception
from .sampling import COMPLETIONS, MOST_TEXTS, NAMES, WITHOUT_EFFECT, Asked, Interface, asked_of, reason_of
from .scheduler import Text
from .served import ServedModel
from .tool_calls import Tools, ToolSplitter, joined

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
DONE = "data: [DONE]\n\n"
LOWEST = -9999.0  # what OpenAI sends for the logarithm of 0
Added = tuple[str, str, list[dict[str, Any]]]  # thoughts, text, pieces of calls
_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each token


@dataclass(eq=False)
class Choice:
    """One text of an answer: its parts so far."""

    index: int
    text: str = ""
    thoughts: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[Token] = field(default_factory=list)
    prompt: list[Token] = field(default_factory=list)  # its tokens with their log-probabilities, if asked for
    reason: str = ""  # OpenAI's finish_reason
    ended: str = ""  # the reason of Done
    tokens: int = 0
    thought_tokens: int = 0  # those of them that belong to thoughts and their tags
    prompt_tokens: int = 0
    reused: int = 0

    @property
    def mean_logprob(self) -> float:
        """Of a new token: what best_of chooses by."""
        return sum(token.logprob or 0.0 for token in self.logprobs) / max(len(self.logprobs), 1)


@dataclass(frozen=True)
class Prompt:
    """What a model is to continue."""

    ids: list[int]
    options: SamplingOptions
    stops: frozenset[int]
    continuing: bool
    rendered: str = ""  # the text of a conversation
    plain: bool = False  # a conversation without a chat template


# -- running texts


class Running:
    """The texts of one request. `close` cancels those that are not complete, and gives their places free."""

    def __init__(self, context: Context, model: ServedModel, form: Any, interface: Interface) -> None:
        self.context, self.model, self._form, self._interface = context, model, form, interface
        self._cancels: list[Cancel] = []
        self._events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._tokens = 0
        self._open = True

    def add(self, prompt: Prompt, count: int, priority: int, scored: int | None = None) -> None:
        """`count` texts of a prompt, with seeds one after the other; `scored` as in Text."""
        for number in range(count):
            options, cancel = prompt.options, Cancel()
            if options.seed is not None:
                options = replace(options, seed=(options.seed + number) % (1 << 64))
            emit = self._emitter(len(self._cancels), cancel)
            self._cancels.append(cancel)
            self.context.in_flight += 1
            self.context.tokens_in_flight += len(prompt.ids)
            self._tokens += len(prompt.ids)
            text = Text(
                prompt.ids, options, prompt.stops, emit, prompt.continuing, cancel, priority, self._form, scored
            )
            self.context.models.submit(self.model, text)

    def _emitter(self, index: int, cancel: Cancel) -> Callable[[Event], None]:
        """What takes the events of a text on the engine's thread."""
        post, put = self.context.deliveries.post, self._events.put_nowait

        def emit(event: Event) -> None:
            if not post(put, (index, event)):
                cancel.set()

        return emit

    def close(self) -> None:
        if self._open:
            self._open = False
            self.context.in_flight -= len(self._cancels)
            self.context.tokens_in_flight -= self._tokens
            for cancel in self._cancels:
                cancel.set()

    async def events(self) -> AsyncGenerator[tuple[int, Event], None]:
        """(index of the text, event) as they come. Problem for an Error. Counts for the metrics."""
        metrics, name = self.context.metrics, self.model.name
        first, between = metrics.first.labels(name).observe, metrics.between.labels(name).observe
        start = time.perf_counter()
        last: dict[int, float] = {}
        left = len(self._cancels)
        try:
            while left:
                index, event = await self._events.get()
                if isinstance(event, Error):
                    raise of_event(event, names=self._interface.names)
                if isinstance(event, Token) and event.id is not None:
                    now = time.perf_counter()
                    if index in last:
                        between(now - last[index])
                    else:
                        first(now - start)
                    last[index] = now
                left -= isinstance(event, Done)
                yield index, event
        finally:
            self.close()


async def submit(
    context: Context, model: ServedModel, prompts: Sequence[Prompt], count: int, param: str, priority: int = 0,
    scored: int | None = None, interface: Interface = COMPLETIONS,
) -> Running:  # fmt: skip
    """`count` texts of each prompt, which the field `param` gave. Those with a lower priority go first. `scored` as in
    Text.
    """
    for prompt in prompts:
        try:
            model.runner.check(prompt.ids, prompt.options)
        except PromptTooLong as error:
            raise of_exception(error, {"prompt": param}) from None
    form = None
    if prompts[0].options.has_form:
        try:
            form = await context.aside(lambda: model.runner.form_of(prompts[0].options))
        except PyappError as error:
            raise of_exception(error, interface.names) from error
    context.admit(count * len(prompts), count * sum(len(prompt.ids) for prompt in prompts))
    running = Running(context, model, form, interface)
    for prompt in prompts:
        running.add(prompt, count, priority, scored)
    return running


def note_done(request: Request, choice: Choice, event: Done) -> None:
    choice.reason, choice.ended = reason_of(event.reason), event.reason
    choice.tokens = event.results.get("new_tokens", 0)
    choice.prompt_tokens = event.results.get("prompt_tokens", 0)
    choice.reused = event.results.get("reused_tokens", 0)
    log = request.scope["pyapp.log"]
    log["prompt_tokens"] = log.get("prompt_tokens", 0) + choice.prompt_tokens
    log["new_tokens"] = log.get("new_tokens", 0) + choice.tokens
    log["reason"] = event.reason


def usage_of(choices: Sequence[Choice], prompts: int = 1) -> dict[str, Any]:
    """OpenAI's `usage`: the tokens of each prompt count once."""
    per_prompt = len(choices) // prompts
    prompt = sum(choice.prompt_tokens for choice in choices[::per_prompt])
    new = sum(choice.tokens for choice in choices)
    return {
        "prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new,
        "prompt_tokens_details": {"cached_tokens": sum(choice.reused for choice in choices[::per_prompt])},
    }  # fmt: skip


def stream_options(fields: Fields) -> tuple[bool, bool, bool]:
    """(whether to stream, whether to send the usage at the end, and with each piece what it is so far: vLLM's)."""
    stream, options = fields.flag("stream"), fields.object("stream_options")
    if options is None:
        return stream, False, False
    if not stream:
        raise fields.wrong("stream_options", "goes together with stream")
    usage, continuous = options.flag("include_usage"), options.flag("continuous_usage_stats")
    options.end(("include_obfuscation",))
    return stream, usage, usage and continuous


def priority_of(fields: Fields) -> int:
    """vLLM's `priority`: requests with a lower one go first."""
    found: int = fields.whole("priority", 0, -(1 << 31), (1 << 31) - 1)
    return found


def line(value: dict[str, Any]) -> str:
    return f"data: {_encode(value)}\n\n"


def broken(error: Exception) -> str:
    return line(of_exception(error, NAMES).body())


def stream_of(
    context: Context, running: Running, source: AsyncGenerator[str, None], broken: Callable[[Exception], str] = broken
) -> EventStream:
    return EventStream(source, broken, running.close, context.settings.seconds, context.settings.ping_seconds)


# -- chat


def parts_of(content: Any, at: str, *kinds: str) -> list[tuple[str, str]]:
    """The (type, text) of the parts of a message's content, which are of these types; a string is one of the first."""
    if isinstance(content, str):
        return [(kinds[0], content)]
    if content is None:
        return []
    if not isinstance(content, list):
        raise Problem(f"{at}: must be a string or an array of parts", param=at, code="invalid_type")
    found = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        if kind not in kinds or not isinstance(text, str):
            raise Problem(
                f"{at}[{index}]: only parts of type {kinds[0]} are read here, not {kind!r:.40}",
                param=f"{at}[{index}]", code="unsupported_content",
            )  # fmt: skip
        found.append((kind, text))
    return found


def text_of(content: Any, at: str) -> str:
    """The text of a message's content: a string, or parts of type text."""
    return "".join(text for _, text in parts_of(content, at, "text", "refusal"))


def messages_of(fields: Fields, plain: Callable[[Any], Any] = lambda message: message) -> list[dict[str, Any]]:
    """The messages, with contents as strings, as chat templates read them. `plain` brings those of other interfaces
    into OpenAI's form.
    """
    given = fields.array("messages")
    if given is None:
        raise fields.missing("messages")
    if not given:
        raise fields.wrong("messages", "is empty")
    found = []
    for index, message in enumerate(map(plain, given)):
        at = f"messages[{index}]"
        if not isinstance(message, dict):
            raise fields.wrong(at, "must be an object", "invalid_type")
        role = message.get("role")
        if role not in ROLES:
            raise fields.wrong(f"{at}.role", f"must be one of {', '.join(ROLES)}, not {role!r:.40}")
        if message.get("content") is None and role != "assistant":
            raise fields.wrong(f"{at}.content", "is missing", "missing_required_parameter")
        clean = {name: value for name, value in message.items() if value is not None}
        clean |= {"role": "system" if role == "developer" else role}
        clean["content"] = text_of(message.get("content"), f"{at}.content")
        calls = clean.get("tool_calls", [])
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise fields.wrong(f"{at}.tool_calls", "must be an array of objects", "invalid_type")
        if calls:
            clean["tool_calls"] = [with_parsed_arguments(call) for call in calls]
        found.append(clean)
    return found


def with_parsed_arguments(call: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments are an object, as templates expect them; OpenAI sends their JSON."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def check_length(context: Context, texts: Sequence[str], param: str) -> None:
    most = context.settings.prompt_characters
    length = sum(map(len, texts))
    if length > most:
        raise Problem(
            f"{param}: {length:,} characters are too long; at most {most:,} are read", param=param,
            code="context_length_exceeded",
        )  # fmt: skip
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Problem(
                f"{param}: character {error.start} is half of a surrogate pair", param=param, code="invalid_utf8"
            ) from None


def chat_prompt(
    model: ServedModel, messages: list[dict[str, Any]], asked: Asked, options: SamplingOptions, tools: Tools,
    variables: dict[str, Any], interface: Interface = COMPLETIONS,
) -> Prompt:  # fmt: skip
    tokenizer = model.loaded.tokenizer
    plain = not sources(tokenizer.settings)
    template = PlainChat(tokenizer) if plain else ChatTemplate(tokenizer)
    more = dict(variables)
    goes_on = messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls")
    if goes_on:
        more |= {"add_generation_prompt": False, "continue_final_message": True}
    try:
        rendered = template.render(messages, tools.shown, **more)
        model.runner.check_text(rendered)
        ids = template.encode_guarded(template.render_guarded(messages, tools.shown, **more))
    except PyappError as error:
        raise of_exception(error, interface.conversation) from error
    if not ids:
        at = interface.messages
        raise Problem(f"{at}: the chat template gives no text for them", param=at)
    if plain:
        options = replace(options, stop=(*options.stop, STOP))
    stops = asked.stops(tokenizer).union(() if asked.ignore_eos else template.stop_ids())
    return Prompt(ids, options, stops, goes_on or plain, rendered, plain and not goes_on)


def with_forced_call(fields: Fields, asked: Asked, tools: Tools, form: str = "response_format") -> Asked:
    """The settings with the form of the call that the request forces; `form` is its field for other forms."""
    if not tools.forced:
        return asked
    if asked.options.has_form:
        raise fields.wrong("tool_choice", f"excludes {form}, regex and choice")
    return replace(asked, options=replace(asked.options, json_schema=tools.schema()))


class Voice:
    """Divides the tokens of a chat answer into thoughts, text and calls."""

    def __init__(self, prompt: Prompt, tools: Tools) -> None:
        self._thinking, self._tools, self._plain = ThinkingSplitter(prompt.rendered), ToolSplitter(tools), prompt.plain
        self._fresh = True

    @property
    def thinking(self) -> bool:
        """Whether the text that comes next is a thought."""
        return self._thinking.thinking

    def take(self, request: Request, choice: Choice, event: Event, scored: bool) -> Added:
        """What an event of its text adds to a choice. `scored`: its log-probabilities are kept."""
        thought = text = ""
        calls: list[dict[str, Any]] = []
        if isinstance(event, Token):
            choice.tokens += event.id is not None
            if event.id is not None and scored:
                choice.logprobs.append(event)
            before = self.thinking
            thought, text, calls = self.push(event.text)
            choice.thought_tokens += event.id is not None and (before or self.thinking)
        elif isinstance(event, Done):
            thought, text, calls = self.finish()
            note_done(request, choice, event)
        choice.thoughts, choice.text = choice.thoughts + thought, choice.text + text
        joined(choice.calls, calls)
        if choice.calls and choice.reason == "stop":
            choice.reason = "tool_calls"
        return thought, text, calls

    def push(self, text: str) -> Added:
        """(thoughts, text, calls) that this text adds."""
        thought, part = self._thinking.push(text)
        if self._plain and self._fresh:  # the space after "Assistant:"
            part = part.lstrip()
            self._fresh = not part
        shown, calls = self._tools.push(part)
        return thought, shown, calls

    def finish(self) -> Added:
        thought, part = self._thinking.finish()
        shown, calls = self._tools.push(part)
        rest, more = self._tools.finish()
        return thought, shown + rest, [*calls, *more]


def named_logprobs(model: ServedModel, tokens: Sequence[Token]) -> list[dict[str, Any]]:
    """`logprobs.content` of chat: tokens with their bytes."""

    def entry(id: int, logprob: float | None) -> dict[str, Any]:
        data = model.loaded.tokenizer.token_bytes(id)
        return {"token": data.decode("utf-8", "replace"), "logprob": max(logprob or 0.0, LOWEST), "bytes": list(data)}

    return [
        entry(token.id, token.logprob)
        | {"top_logprobs": [entry(other["id"], other["logprob"]) for other in token.top_logprobs or ()]}
        for token in tokens
        if token.id is not None
    ]


async def chat_completions(request: Request, context: Context) -> Response:
    fields = Fields(await context.json(request))
    name = fields.text("model")
    messages = messages_of(fields)
    wanted = fields.flag("logprobs")
    top = fields.whole("top_logprobs", None, 0, 20)
    if top is not None and not wanted:
        raise fields.wrong("top_logprobs", "goes together with logprobs")
    asked = asked_of(fields, context.settings, (top or 0) if wanted else None, fields.object("response_format"))
    count = fields.whole("n", 1, 1, MOST_TEXTS)
    stream, usage, continuous = stream_options(fields)
    priority = priority_of(fields)
    tools = Tools(fields)
    variables = fields.mapping("chat_template_kwargs") or {}
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if fields.given(old):
            raise fields.wrong(old, f"is an old field that is not read here: use {new}", "unsupported_parameter")
    if any(kind != "text" for kind in fields.array("modalities", ())):
        raise fields.wrong("modalities", 'must be ["text"]: answers are texts', "unsupported_parameter")
    effort = fields.text("reasoning_effort")
    if effort is not None:
        variables = {"reasoning_effort": effort, **variables}
    fields.end(WITHOUT_EFFECT)
    asked = with_forced_call(fields, asked, tools)
    check_length(context, [message["content"] for message in messages], "messages")
    model = await context.models.get(name, "generate", receive=request.receive)
    request.scope["pyapp.log"]["model"] = model.name
    options = asked.of(model, context.settings)
    prompt = await context.aside(lambda: chat_prompt(model, messages, asked, options, tools, variables))
    running = await submit(context, model, [prompt], count, "messages", priority)
    voices = [Voice(prompt, tools) for _ in range(count)]
    choices = [Choice(index, prompt_tokens=len(prompt.ids)) for index in range(count)]
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}

    def take(index: int, event: Event) -> Added:
        return voices[index].take(request, choices[index], event, wanted)

    async def chunks() -> AsyncGenerator[str, None]:
        def chunk(index: int, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> str:
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
            more = {"usage": usage_of(choices) if continuous else None} if usage else {}
            return line({**head, "object": "chat.completion.chunk", "choices": [choice], **more})

        for index in range(count):
            yield chunk(index, {"role": "assistant", "content": ""})
        async with aclosing(running.events()) as events:
            async for index, event in events:
                choice = choices[index]
                thought, text, calls = take(index, event)
                scores = None
                if wanted and isinstance(event, Token) and event.id is not None:
                    scores = {"content": named_logprobs(model, [event]), "refusal": None}
                if thought:
                    yield chunk(index, {"reasoning_content": thought})
                if text or scores:
                    yield chunk(index, {"content": text}, logprobs=scores)
                if calls:
                    yield chunk(index, {"tool_calls": calls})
                if isinstance(event, Done):
                    yield chunk(index, {}, choice.reason)
        if usage:
            yield line({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage_of(choices)})
        yield DONE

    if stream:
        return stream_of(context, running, chunks())
    await collect(request, running, take)
    return JSONResponse(
        {
            **head, "object": "chat.completion", "usage": usage_of(choices), "service_tier": None,
            "choices": [
                {
                    "index": choice.index, "finish_reason": choice.reason,
                    "message": {
                        "role": "assistant", "content": choice.text if choice.text or not choice.calls else None,
                        "refusal": None,
                        **({"reasoning_content": choice.thoughts} if choice.thoughts else {}),
                        **({"tool_calls": choice.calls} if choice.calls else {}),
                    },
                    "logprobs": {"content": named_logprobs(model, choice.logprobs), "refusal": None}
                    if wanted else None,
                }
                for choice in choices
            ],
        }
    )  # fmt: skip


async def collect(request: Request, running: Running, take: Callable[[int, Event], Any]) -> None:
    """Takes all events; a client that leaves cancels the texts."""
    async with cancelled_by_leaving(request, running.close, running.context.settings.seconds):
        async with aclosing(running.events()) as events:
            async for index, event in events:
                take(index, event)
                if isinstance(event, Done) and event.reason == "cancelled":
                    raise Problem("the client has left", status=499)


# -- completions


def prompts_of(fields: Fields) -> list[str | list[int]]:
    """The prompts: a string, strings, tokens, or arrays of tokens."""
    value = fields.any("prompt")
    if value is None:
        raise fields.missing("prompt")
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(type(entry) is int for entry in value):
        return [value]
    good = isinstance(value, list) and value and all(
        isinstance(entry, str) or (isinstance(entry, list) and entry and all(type(id) is int for id in entry))
        for entry in value
    )  # fmt: skip
    if not good:
        raise fields.wrong("prompt", "must be a string, an array of strings, or an array of tokens", "invalid_type")
    if len(value) > MOST_TEXTS:
        raise fields.wrong("prompt", f"has {len(value)} entries; {MOST_TEXTS} are allowed")
    return list(value)


def completion_prompt(
    model: ServedModel, prompt: str | list[int], options: SamplingOptions, stops: frozenset[int]
) -> Prompt:  # fmt: skip
    tokenizer = model.loaded.tokenizer
    if isinstance(prompt, str):
        model.runner.check_text(prompt)
        return Prompt(prompt_ids(tokenizer, prompt), options, stops, bool(prompt))
    size = model.runner.vocab_size
    if not 0 <= min(prompt) <= max(prompt) < size:
        raise Problem(f"prompt: tokens are from 0 to {size - 1}", param="prompt")
    return Prompt(prompt, options, stops, True)


def completion_prompts(
    model: ServedModel, prompts: Sequence[str | list[int]], options: SamplingOptions, asked: Asked, suffix: str | None
) -> list[Prompt]:  # fmt: skip
    """The prompts; with a `suffix`, of the texts between each of them and the suffix."""
    tokenizer = model.loaded.tokenizer
    stops = asked.stops(tokenizer)
    if suffix is not None:
        try:
            for text in (*prompts, suffix):
                model.runner.check_text(text)
            gaps = [between(tokenizer, str(prompt), suffix) for prompt in prompts]
        except PyappError as error:
            raise of_exception(error, NAMES) from error
        ends = frozenset[int]() if asked.ignore_eos else gaps[0].stops
        return [Prompt(gap.ids, options, stops | ends, True) for gap in gaps]
    return [completion_prompt(model, prompt, options, stops) for prompt in prompts]


def legacy_logprobs(model: ServedModel, tokens: Sequence[Token], start: int) -> dict[str, Any]:
    """`logprobs` of completions. `start`: characters of the choice before the first of the tokens. The first token of
    a prompt has none: nothing is before it.
    """
    text_of = model.loaded.tokenizer.token_bytes
    texts = [text_of(token.id).decode("utf-8", "replace") for token in tokens]
    offsets = list(accumulate(map(len, texts[:-1]), initial=start)) if texts else []

    def top(token: Token, text: str) -> dict[str, float] | None:
        """The likeliest tokens, and this one; of those with one text (parts of characters) the likeliest."""
        if token.logprob is None:
            return None
        found: dict[str, float] = {}
        for entry in token.top_logprobs or ():
            found.setdefault(entry["text"], max(entry["logprob"], LOWEST))
        found.setdefault(text, max(token.logprob, LOWEST))
        return found

    return {
        "tokens": texts,
        "token_logprobs": [None if token.logprob is None else max(token.logprob, LOWEST) for token in tokens],
        "top_logprobs": [top(token, text) for token, text in zip(tokens, texts, strict=True)],
        "text_offset": offsets,
    }


async def completions(request: Request, context: Context) -> Response:
    fields = Fields(await context.json(request))
    name = fields.text("model")
    prompts = prompts_of(fields)
    wanted = fields.whole("logprobs", None, 0, 20)
    asked = asked_of(fields, context.settings, wanted, fields.object("response_format"), most=16, least=0)
    count = fields.whole("n", 1, 1, MOST_TEXTS)
    priority = priority_of(fields)
    echo = fields.flag("echo")
    stream, usage, continuous = stream_options(fields)
    best = fields.whole("best_of", count, 1, MOST_TEXTS)
    if best < count:
        raise fields.wrong("best_of", f"must be at least n, which is {count}, not {best}")
    if best > count and stream:
        raise fields.wrong("best_of", "a stream cannot choose among texts: it must equal n")
    suffix = fields.text("suffix") or None
    if suffix is not None and (echo or not all(isinstance(prompt, str) for prompt in prompts)):
        raise fields.wrong("suffix", "goes together with a prompt of text, and without echo")
    fields.end(WITHOUT_EFFECT)
    if best * len(prompts) > MOST_TEXTS:
        raise fields.wrong("n", f"{best * len(prompts)} texts are too many; {MOST_TEXTS} are allowed")
    check_length(context, [suffix or "", *(prompt for prompt in prompts if isinstance(prompt, str))], "prompt")
    model = await context.models.get(name, "generate", receive=request.receive)
    request.scope["pyapp.log"]["model"] = model.name
    options = asked.of(model, context.settings)
    if best > count and wanted is None:
        options = replace(options, logprobs=0)  # they choose
    scored = wanted if echo else None
    ready = await context.aside(lambda: completion_prompts(model, prompts, options, asked, suffix))
    running = await submit(context, model, ready, best, "prompt", priority, scored)
    starts = [
        (prompt if isinstance(prompt, str) else model.loaded.tokenizer.decode(prompt)) if echo else ""
        for prompt in prompts for _ in range(best)
    ]  # fmt: skip
    choices = [Choice(index, start, prompt_tokens=len(ready[index // best].ids)) for index, start in enumerate(starts)]
    head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()),
            "model": model.name}  # fmt: skip

    def take(index: int, event: Event) -> str:
        choice = choices[index]
        if isinstance(event, Item):
            choice.prompt = list(event.values["tokens"])
        if isinstance(event, Token):
            choice.tokens += event.id is not None
            if options.logprobs is not None and event.id is not None:
                choice.logprobs.append(event)
            choice.text += event.text
            return event.text
        if isinstance(event, Done):
            note_done(request, choice, event)
        return ""

    async def chunks() -> AsyncGenerator[str, None]:
        def chunk(index: int, text: str, reason: str | None = None, logprobs: Any = None) -> str:
            choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
            more = {"usage": usage_of(choices, len(ready)) if continuous else None} if usage else {}
            return line({**head, "choices": [choice], **more})

        written = [len(start) for start in starts]
        for index, start in enumerate(starts if scored is None else ()):
            if start:
                yield chunk(index, start)
        async with aclosing(running.events()) as events:
            async for index, event in events:
                text = take(index, event)
                scores = None
                if isinstance(event, Item):
                    scores = legacy_logprobs(model, choices[index].prompt, 0)
                    written[index] = sum(map(len, scores["tokens"]))
                    text = starts[index]
                if wanted is not None and isinstance(event, Token) and event.id is not None:
                    scores = legacy_logprobs(model, [event], written[index])
                    written[index] += sum(map(len, scores["tokens"]))
                if text or scores:
                    yield chunk(index, text, logprobs=scores)
                if isinstance(event, Done):
                    yield chunk(index, "", choices[index].reason)
        if usage:
            yield line({**head, "choices": [], "usage": usage_of(choices, len(ready))})
        yield DONE

    if stream:
        return stream_of(context, running, chunks())
    await collect(request, running, take)
    chosen = [
        choice
        for first in range(0, len(choices), best)
        for choice in sorted(choices[first : first + best], key=lambda choice: -choice.mean_logprob)[:count]
    ] if best > count else choices  # fmt: skip

    def scores_of(choice: Choice) -> dict[str, Any] | None:
        if wanted is None:
            return None
        start = 0 if choice.prompt else len(starts[choice.index])
        return legacy_logprobs(model, [*choice.prompt, *choice.logprobs], start)

    return JSONResponse(
        {
            **head, "usage": usage_of(choices, len(ready)),
            "choices": [
                {"index": index, "text": choice.text, "finish_reason": choice.reason, "logprobs": scores_of(choice)}
                for index, choice in enumerate(chosen)
            ],
        }
    )  # fmt: skip
