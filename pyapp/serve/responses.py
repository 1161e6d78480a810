"""OpenAI's interface of today: /v1/responses. The answers are those of chat completions, in another form; they are kept
for a while, so that a request can go on from an earlier one.
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.dataclass import dataclass
from pyapp.events import Done, Event, Token
from pyapp.text.generation.options import SamplingOptions

from .answers import typed_event
from .chat import AnswerParser, chat_prompt, effort_variables, named_logprobs, with_forced_call
from .context import Context
from .fields import Fields
from .generation import Choice, Prompt, collect, priority_of, submit
from .problems import Problem, PromptTooLong, of_exception
from .response_items import Output, Value, input_items, messages_of, texts_of
from .response_store import Item, encoded
from .running import stream_of
from .sampling import RESPONSES, Asked, asked_of
from .served import ServedModel
from .tool_calls import Tools

LOGPROBS = "message.output_text.logprobs"
# What `include` may ask for; thoughts are given as they are, so that nothing encrypted is needed to go on.
INCLUDED = (LOGPROBS, "reasoning.encrypted_content")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WITHOUT_EFFECT = (
    "user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "max_tool_calls",
)  # fmt: skip
# OpenAI's fields that are not read here, and why.
REFUSED = {
    "background": "answers are not written in the background: ask for a stream",
    "background_options": "answers are not written in the background: ask for a stream",
    "conversation": "conversations are not kept here: give previous_response_id, or all items as input",
    "prompt": "prompts are not kept here: give instructions and input",
    "context_management": "is not supported: truncation auto leaves the oldest turns out",
    "moderation": "is not supported", "access_programs": "is not supported", "image": "pictures are not read here",
    "prompt_cache_options": "is not supported: what begins alike is always read once",
}  # fmt: skip
MOST_METADATA, KEY_LENGTH, VALUE_LENGTH = 16, 64, 512
PAGE = 20  # items, by default
MOST_ITEMS = 100  # of a page


@dataclass(eq=False)
class Question:
    """What a request asks: `earlier` are the items of the responses before, `given` its own."""

    name: str | None
    earlier: list[Item]
    given: list[Item]
    messages: list[Value]
    asked: Asked
    tools: Tools
    effort: str | None
    cuts: bool  # the oldest turns are left out if the context does not hold all
    scored: bool
    variables: Value
    echo: Value  # what the response repeats


def question_of(fields: Fields, context: Context) -> Question:
    """The fields that say what the model reads and how it writes."""
    for name, why in REFUSED.items():
        if fields.any(name):
            raise fields.wrong(name, why, "unsupported_parameter")
    previous = fields.text("previous_response_id")
    earlier: list[Item] = []
    if previous is not None:
        stored = context.responses.find(previous, "previous_response_id", "previous_response_not_found")
        earlier = [*stored.items]
    given = input_items(fields, context.responses, {item.id for item in earlier})
    instructions = fields.text("instructions")
    items = [item.value for item in (*earlier, *given)]
    messages = messages_of(items, instructions)
    if not messages:
        raise fields.wrong("input", "has no message")
    context.check_length([instructions or "", *texts_of(items)], "input")
    included = fields.array("include", ())
    for index, value in enumerate(included):
        if value not in INCLUDED:
            at = f"include[{index}]"
            raise fields.wrong(at, f"must be one of {', '.join(INCLUDED)}, not {value!r:.60}", "unsupported_parameter")
    top = fields.whole("top_logprobs", None, 0, 20)
    scored = LOGPROBS in included or bool(top)
    text, given_text = fields.object("text"), fields.mapping("text") or {}
    form = None if text is None else text.object("format")
    asked = asked_of(fields, context.settings, (top or 0) if scored else None, form, interface=RESPONSES)
    if text is not None:
        text.end(("verbosity",))
    tools = Tools(fields, flat=True)
    reasoning, effort = fields.object("reasoning"), None
    if reasoning is not None:
        effort = reasoning.text("effort", choices=EFFORTS)
        for name in ("summary", "generate_summary"):
            if reasoning.text(name) not in (None, "auto"):
                raise reasoning.wrong(name, "thoughts are given whole, without a summary", "unsupported_parameter")
        reasoning.end()
    cuts = fields.text("truncation", "disabled", ("auto", "disabled")) == "auto"
    shape = {"format": {"type": "text"}, **{name: one for name, one in given_text.items() if one is not None}}
    echo = {
        "instructions": instructions, "previous_response_id": previous, "parallel_tool_calls": tools.several,
        "tool_choice": fields.any("tool_choice", "auto"), "tools": fields.array("tools", []),
        "text": shape, "top_logprobs": top or 0,
        "truncation": "auto" if cuts else "disabled", "reasoning": {"effort": effort, "summary": None},
        "max_output_tokens": fields.any("max_output_tokens"),
    }  # fmt: skip
    return Question(
        fields.text("model"), earlier, given, messages,
        with_forced_call(fields, asked, tools, "text.format"), tools, effort, cuts, scored,
        fields.mapping("chat_template_kwargs") or {}, echo,
    )  # fmt: skip


def metadata_of(fields: Fields) -> dict[str, str]:
    found = fields.mapping("metadata") or {}
    if len(found) > MOST_METADATA:
        raise fields.wrong("metadata", f"has {len(found)} entries; {MOST_METADATA} are allowed")
    for key, value in found.items():
        if not isinstance(value, str) or len(key) > KEY_LENGTH or len(value) > VALUE_LENGTH:
            what = f"must be names of at most {KEY_LENGTH} characters with texts of at most {VALUE_LENGTH}"
            raise fields.wrong("metadata", what)
    return found


def prompt_of(model: ServedModel, question: Question, options: SamplingOptions) -> Prompt:
    """The prompt of a question. If it is too long and may be cut, the oldest turns are left out, so that there is room
    for the answer too: for as many tokens as it may have, or half of the context.
    """
    variables = {**effort_variables(model, question.effort), **question.variables}

    def ready(messages: list[Value]) -> Prompt:
        prompt = chat_prompt(model, messages, question.asked, options, question.tools, variables, RESPONSES)
        try:
            model.runner.check(prompt.ids, options)
        except PromptTooLong as error:
            raise of_exception(error, RESPONSES.names) from None
        return prompt

    def fits(messages: list[Value], room: int) -> bool:
        try:
            return len(ready(messages).ids) + room <= model.runner.capacity
        except Problem as problem:
            if problem.code != "context_length_exceeded":
                raise
            return False

    messages = question.messages
    try:
        return ready(messages)
    except Problem as problem:
        if not question.cuts or problem.code != "context_length_exceeded":
            raise
    head = next((place for place, one in enumerate(messages) if one["role"] != "system"), len(messages))
    starts = [place for place, one in enumerate(messages) if one["role"] == "user" and place >= head]
    shorter = [[*messages[:head], *messages[place:]] for place in starts] or [messages]
    half = model.runner.capacity // 2
    room = min(options.max_new_tokens or half, half)
    return ready(shorter[bisect_left(shorter, True, hi=len(shorter) - 1, key=lambda kept: fits(kept, room))])


def usage_of(choice: Choice) -> Value:
    return {
        "input_tokens": choice.prompt_tokens, "output_tokens": choice.tokens,
        "total_tokens": choice.prompt_tokens + choice.tokens,
        "input_tokens_details": {"cached_tokens": choice.reused, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": choice.thought_tokens},
    }  # fmt: skip


class Answering:
    """One answer: what comes of its text becomes items, events, and in the end the response, which is kept."""

    def __init__(
        self, request: Request, context: Context, model: ServedModel, question: Question, prompt: Prompt, head: Value,
        keep: bool,
    ) -> None:  # fmt: skip
        self._request, self._context, self._model, self._question = request, context, model, question
        self._head, self._keep = head, keep
        self._choice = Choice(0, prompt_tokens=len(prompt.ids))
        self._parser = AnswerParser(prompt, question.tools)
        self._output = Output()
        self._scores: list[Value] = []  # of tokens whose text has not come yet
        self.whole: Value = {}  # the complete response

    def response(self, status: str, **more: Any) -> Value:
        return {
            **self._head, "status": status, "error": None, "incomplete_details": None, "usage": None,
            "output": self._output.items, **more,
        }  # fmt: skip

    def begin(self) -> list[Value]:
        return [self._output.event(kind, response=self.response("in_progress")) for kind in ("created", "in_progress")]

    def take(self, event: Event) -> list[Value]:
        """The events that an event of the text becomes."""
        choice, output, scored = self._choice, self._output, self._question.scored
        thinking = self._parser.thinking  # before and after: the tags belong to the thoughts
        thought, text, calls = self._parser.take(self._request, choice, event, False)
        if self._parser.thinking:
            self._scores.clear()
        elif scored and isinstance(event, Token) and not thinking:
            self._scores += named_logprobs(self._model, [event])
        events = output.add(thought, text, calls, self._scores)
        if text or calls:
            self._scores.clear()
        if isinstance(event, Done) and event.reason != "cancelled":
            events += output.finish(choice.reason == "length")
            response = self.end()
            events.append(output.event(response["status"], response=response))
        return events

    def end(self) -> Value:
        """Completes the response."""
        if self._choice.reason == "length":
            response = self.response("incomplete", incomplete_details={"reason": "max_output_tokens"})
        else:
            response = self.response("completed", completed_at=int(time.time()))
        response["usage"] = usage_of(self._choice)
        self.whole = response
        if self._keep:
            read = (*self._question.earlier, *self._question.given)
            self._context.responses.add(response, read, map(Item.of, self._output.items))
        return response

    def failed(self, error: Exception) -> str:
        """The last events of a stream that breaks off."""
        problem = of_exception(error, RESPONSES.names)
        code, why = problem.code or "server_error", problem.message
        broken = self._output.event("error", code=code, message=why, param=problem.param)
        whole = self.response("failed", error={"code": "server_error", "message": why})  # OpenAI's codes are few here
        end = self._output.event("failed", response=whole)
        return "".join(typed_event(**one) for one in (broken, end))


async def create(request: Request, context: Context) -> Response:
    fields = Fields(await context.json(request))
    question = question_of(fields, context)
    stream, stream_options = fields.flag("stream"), fields.object("stream_options")
    if stream_options is not None:
        if not stream:
            raise fields.wrong("stream_options", "goes together with stream")
        stream_options.end(("include_obfuscation",))
    priority, keep, metadata = priority_of(fields), fields.flag("store", True), metadata_of(fields)
    fields.end(WITHOUT_EFFECT)
    model = await context.model(request, question.name, "generate")
    options = question.asked.of(model, context.settings)
    prompt = await context.aside(lambda: prompt_of(model, question, options))
    running = await submit(context, model, [prompt], 1, "input", priority, interface=RESPONSES,
                           tools=question.tools)  # fmt: skip
    head = {
        "id": f"resp_{secrets.token_hex(24)}", "object": "response", "created_at": int(time.time()),
        "model": model.name, **question.echo, "temperature": options.temperature, "top_p": options.top_p,
        "metadata": metadata, "store": keep, "background": False, "service_tier": "default", "user": None,
    }  # fmt: skip
    answering = Answering(request, context, model, question, prompt, head, keep)

    async def events() -> AsyncGenerator[str, None]:
        begin = "".join(typed_event(**one) for one in answering.begin())
        async with aclosing(running.events()) as found:
            async for _, event in found:
                if begin:
                    yield begin
                    begin = ""
                if text := "".join(typed_event(**one) for one in answering.take(event)):
                    yield text

    if stream:
        return stream_of(context, running, events(), answering.failed)
    await collect(request, running, lambda _, event: answering.take(event))
    return Response(encoded(answering.whole), media_type="application/json")


async def count_tokens(request: Request, context: Context) -> Response:
    """How many tokens the model would read."""
    fields = Fields(await context.json(request))
    question = question_of(fields, context)
    fields.end()
    model = await context.model(request, question.name, "generate")
    options = question.asked.of(model, context.settings)
    prompt = await context.aside(lambda: prompt_of(model, question, options))
    return JSONResponse({"object": "response.input_tokens", "input_tokens": len(prompt.ids)})


# -- what is kept


async def retrieve(request: Request, context: Context) -> Response:
    if request.query_params.get("stream", "false").lower() == "true":
        raise Problem("stream: a kept response is given whole", param="stream", code="unsupported_parameter")
    found = context.responses.find(request.path_params["id"], "response_id")
    return Response(found.data, media_type="application/json")


async def delete(request: Request, context: Context) -> Response:
    id = request.path_params["id"]
    context.responses.delete(id, "response_id")
    return JSONResponse({"id": id, "object": "response", "deleted": True})


async def list_input(request: Request, context: Context) -> Response:
    """The items that the model read, those of the responses before included, in pages: the latest first, unless `order`
    is asc.
    """
    query = Fields(request.query_params)
    items = [*context.responses.find(request.path_params["id"], "response_id").read]
    if query.text("order", "desc", ("asc", "desc")) == "desc":
        items.reverse()
    limit = query.text("limit", str(PAGE))
    if not (limit.isdecimal() and len(limit) < 4 and 1 <= int(limit) <= MOST_ITEMS):
        raise query.wrong("limit", f"must be from 1 to {MOST_ITEMS}, not {limit!r:.40}")
    after = query.text("after")
    if after is not None:
        places = [place for place, item in enumerate(items) if item.id == after]
        if not places:
            raise query.wrong("after", f"the response has no item {after!r:.80}")
        items = items[places[0] + 1 :]
    page = items[: int(limit)]
    return JSONResponse({
        "object": "list", "data": [item.value for item in page], "has_more": len(items) > len(page),
        "first_id": page[0].id if page else "", "last_id": page[-1].id if page else "",
    })  # fmt: skip
