"""Cohere's interface for conversations: /v2/chat. The answers are those of chat completions, in another form."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.events import Done, Event, Token

from .answers import typed_event
from .chat import Added, AnswerParser, Chat, begin_chat, effort_variables, messages_of, named_logprobs, with_forced_call
from .context import Context
from .fields import Fields
from .generation import Choice, collect, priority_of
from .problems import of_exception
from .running import stream_of
from .sampling import COHERE, asked_of
from .served import ServedModel
from .tool_calls import Tools

WITHOUT_EFFECT = ("safety_mode", "strict_tools")  # a forced call always fits its tool here
# By task: Cohere's names of what a model does.
ENDPOINTS = {
    "generate": ("chat",), "embed": ("embed", "rerank"), "classify": ("rerank",), "rerank": ("rerank",),
}  # fmt: skip
REASONS = {"length": "MAX_TOKENS", "tool_calls": "TOOL_CALL", "stop": "COMPLETE"}


def plain_message(message: Any) -> Any:
    """A message in OpenAI's form: documents are the JSON of what they have, thoughts reasoning_content, and a plan of
    calls is the text before them.
    """
    if not isinstance(message, dict):
        return message
    found = dict(message)
    plan, parts = found.pop("tool_plan", None), found.get("content")
    if parts is None and plan is not None:
        found["content"] = plan
    if isinstance(parts, list):
        thoughts = [part["thinking"] for part in parts if _is(part, "thinking", str)]
        found["content"] = [_text_part(part) for part in parts if not _is(part, "thinking", str)]
        found |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
    return found


def _is(part: Any, kind: str, of: type) -> bool:
    return isinstance(part, dict) and part.get("type") == kind and isinstance(part.get(kind), of)


def _text_part(part: Any) -> Any:
    if not _is(part, "document", dict):
        return part
    data = part["document"].get("data")
    return {"type": "text", "text": data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}


def form_of(fields: Fields) -> Fields | None:
    """`response_format` in OpenAI's form: here a json_object may have a `json_schema`, in Cohere's guide a `schema`."""
    given = fields.mapping("response_format")
    name = next((name for name in ("json_schema", "schema") if given and given.get(name) is not None), None)
    if given is None or name is None:
        return fields.object("response_format")
    if given.get("type") != "json_object":
        raise fields.wrong(f"response_format.{name}", "goes together with the type json_object")
    rest = {key: value for key, value in given.items() if key != name}
    return Fields({**rest, "type": "json_schema", "json_schema": {"schema": given[name]}}, "response_format")


def reason_of(choice: Choice) -> str:
    by_text = choice.reason == "stop" and choice.ended == "stop_string"
    return "STOP_SEQUENCE" if by_text else REASONS[choice.reason]


def usage_of(choice: Choice) -> dict[str, Any]:
    tokens = {"input_tokens": choice.prompt_tokens, "output_tokens": choice.tokens}
    return {"billed_units": tokens, "tokens": tokens, "cached_tokens": choice.reused}


def logprob_of(model: ServedModel, token: Token) -> dict[str, Any]:
    [entry] = named_logprobs(model, [token])
    return {"text": entry["token"], "token_ids": [token.id], "logprobs": [entry["logprob"]]}


class Blocks:
    """The events of a stream: blocks of thoughts, text and calls, each with a beginning and an end."""

    def __init__(self) -> None:
        self._open: str | None = None  # "thinking", "text", or "call"
        self._content = self._calls = -1  # the last block of each kind

    def events(self, added: Added, score: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """What a model has written; `score`: the log-probability of its last token."""
        thought, text, calls = added
        found = []
        for kind, part in (("thinking", thought), ("text", text)):
            if part:
                found += self._begin(kind)
                delta = {"message": {"content": {kind: part}}}
                more = {"logprobs": score} if score is not None and kind == "text" else {}
                found.append({"type": "content-delta", "index": self._content, "delta": delta, **more})
        for piece in calls:
            if "id" in piece:
                found += self.end()
                self._open, self._calls = "call", self._calls + 1
                begun = {name: piece[name] for name in ("id", "type")}
                begun["function"] = {"name": piece["function"]["name"], "arguments": ""}
                found.append(self._of_call("start", begun))
            if arguments := piece["function"]["arguments"]:
                found.append(self._of_call("delta", {"function": {"arguments": arguments}}))
        return found

    def _of_call(self, kind: str, call: dict[str, Any]) -> dict[str, Any]:
        return {"type": f"tool-call-{kind}", "index": self._calls, "delta": {"message": {"tool_calls": call}}}

    def _begin(self, kind: str) -> list[dict[str, Any]]:
        if self._open == kind:
            return []
        found = self.end()
        self._open, self._content = kind, self._content + 1
        delta = {"message": {"content": {"type": kind, kind: ""}}}
        return [*found, {"type": "content-start", "index": self._content, "delta": delta}]

    def end(self) -> list[dict[str, Any]]:
        """The end of the open block, if there is one."""
        if self._open is None:
            return []
        call, self._open = self._open == "call", None
        kind, index = ("tool-call-end", self._calls) if call else ("content-end", self._content)
        return [{"type": kind, "index": index}]


def effort_of(fields: Fields) -> str | None:
    """How much to think, in the words of effort_variables."""
    thinking = fields.object("thinking")
    if thinking is None:
        return None
    kind = thinking.text("type", "enabled", ("enabled", "disabled"))
    if thinking.given("token_budget"):
        raise thinking.wrong("token_budget", "is not supported: give max_tokens", "unsupported_parameter")
    thinking.end(("token_budget",))
    return "none" if kind == "disabled" else "high"


async def chat(request: Request, context: Context) -> Response:
    body = await context.json(request)
    if body.get("tool_choice") in ("REQUIRED", "NONE"):
        body["tool_choice"] = body["tool_choice"].lower()
    fields = Fields(body)
    name, messages = fields.text("model"), messages_of(fields, plain_message)
    scored = fields.flag("logprobs")
    form = form_of(fields)
    asked = asked_of(fields, context.settings, 0 if scored else None, form, interface=COHERE)
    stream, priority, tools = fields.flag("stream"), priority_of(fields), Tools(fields)
    for refused in ("documents", "citation_options"):
        if fields.any(refused):
            raise fields.wrong(refused, "is not supported: put texts into messages", "unsupported_parameter")
    effort = effort_of(fields)
    fields.end(WITHOUT_EFFECT)
    asked_for = Chat(name, messages, with_forced_call(fields, asked, tools), tools, priority)
    variables = lambda model: effort_variables(model, effort, "thinking")  # noqa: E731
    model, prompt, running = await begin_chat(request, context, asked_for, variables, interface=COHERE)
    parser, choice = AnswerParser(prompt, tools), Choice(0, prompt_tokens=len(prompt.ids))
    id = request.scope["pyapp.id"]

    async def events() -> AsyncGenerator[str, None]:
        blocks = Blocks()
        start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        begin = typed_event(type="message-start", id=id, delta={"message": start})
        async with aclosing(running.events()) as found:
            async for _, event in found:
                if begin:
                    yield begin
                    begin = ""
                score = None
                if scored and isinstance(event, Token) and event.id is not None:
                    score = logprob_of(model, event)
                for one in blocks.events(parser.take(request, choice, event, False), score):
                    yield typed_event(**one)
                if isinstance(event, Done):
                    for one in blocks.end():
                        yield typed_event(**one)
                    delta = {"finish_reason": reason_of(choice), "usage": usage_of(choice)}
                    yield typed_event(type="message-end", id=id, delta=delta)

    def broken(error: Exception) -> str:
        why = of_exception(error, COHERE.names).message
        delta = {"finish_reason": "ERROR", "error": why, "usage": usage_of(choice)}
        return typed_event(type="message-end", id=id, delta=delta)

    if stream:
        return stream_of(context, running, events(), broken)

    def take(_: int, event: Event) -> Any:
        return parser.take(request, choice, event, scored)

    await collect(request, running, take)
    content = [{"type": "thinking", "thinking": choice.thoughts}] if choice.thoughts else []
    content += [{"type": "text", "text": choice.text}] if choice.text or not choice.calls else []
    message = {"role": "assistant", "content": content, **({"tool_calls": choice.calls} if choice.calls else {})}
    return JSONResponse(
        {
            "id": id, "finish_reason": reason_of(choice), "message": message, "usage": usage_of(choice),
            "logprobs": [logprob_of(model, token) for token in choice.logprobs] if scored else None,
        }
    )  # fmt: skip
