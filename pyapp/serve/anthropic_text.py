"""Anthropic's interface for conversations: /v1/messages and /v1/messages/count_tokens.

The answers are those of chat completions, in the form of https://docs.claude.com/en/api/messages: blocks of thoughts,
text and calls. Unlike OpenAI's, a message of the user may hold the results of several tools, so one message becomes
several for the chat template; errors name the places of the request.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.dataclass import dataclass
from pyapp.events import Done
from pyapp.formats.safe_json import parse_json
from pyapp.text.chat.chat_template import sources

from .answers import typed_event
from .chat import (
    PICTURE,
    Added,
    AnswerParser,
    Chat,
    begin_chat,
    chat_prompt,
    effort_variables,
    messages_of,
    texts_of_messages,
    with_forced_call,
)
from .context import Context
from .fields import Fields
from .generation import Choice, collect
from .problems import Problem, of_exception
from .running import stream_of
from .sampling import ANTHROPIC, asked_of
from .served import ServedModel
from .tool_calls import Tools

# Fields that say how Anthropic's own service works. `cache_control`: what begins alike is always read once here.
WITHOUT_EFFECT = (
    "metadata", "service_tier", "inference_geo", "cache_control", "context_management", "diagnostics", "speed",
    "user_profile_id", "workspace_id",
)  # fmt: skip
REFUSED = {
    "container": "the server runs no tools of its own", "mcp_servers": "the server calls no tools of its own",
}  # fmt: skip
OF_TOOLS_WITHOUT_EFFECT = ("cache_control", "eager_input_streaming", "input_examples", "strict")
REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("enabled", "adaptive", "between_tools", "disabled")
TYPES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error",
}  # fmt: skip
Value = dict[str, Any]


def body_of(problem: Problem) -> Value:
    """A problem in Anthropic's form."""
    kind = TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": problem.message}}


def answer_of(problem: Problem) -> Response:
    """The answer of a problem."""
    return JSONResponse(body_of(problem), problem.status, headers=problem.headers)


# -- what a request gives


def blocks_of(content: Any, at: str) -> list[Fields]:
    """The blocks of a content; a string is one block of text."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Problem(f"{at}: must be a string or an array of blocks", param=at, code="invalid_type")
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise Problem(f"{at}[{index}]: must be an object", param=f"{at}[{index}]", code="invalid_type")
    return [Fields(block, f"{at}[{index}]") for index, block in enumerate(content)]


def other_block(block: Fields, kind: Any, kinds: str) -> Problem:
    return block.wrong("type", f"blocks of type {kind!r:.40} are not read here, only {kinds}", "unsupported_content")


def text_of(content: Any, at: str) -> str:
    """The text of a content that has nothing else."""
    found = []
    for block in blocks_of(content, at):
        if block.any("type") != "text":
            raise other_block(block, block.any("type"), "text")
        found.append(block.needed_text("text"))
    return "".join(found)


def picture_part(block: Fields) -> Value:
    """A picture in OpenAI's form."""
    source = block.needed_object("source")
    kind = source.text("type")
    if kind != "base64":
        what = f"a picture comes as base64, not as {kind!r:.40}: other addresses and files by id are not opened"
        raise source.wrong("type", what, "unsupported_content")
    data, media = source.needed_text("data"), source.text("media_type") or "image/png"
    return {"type": PICTURE, PICTURE: {"url": f"data:{media};base64,{data}"}}


def document_text(block: Fields) -> str:
    """The text of a document, after its title."""
    source = block.needed_object("source")
    kind, title = source.text("type"), block.text("title")
    if kind == "text":
        text = source.needed_text("data")
    elif kind == "content":
        text = text_of(source.any("content"), source.name("content"))
    else:
        what = f"documents of type {kind!r:.40} are not read here: give their text"
        raise source.wrong("type", what, "unsupported_content")
    return f"{title}\n{text}" if title else text


def part_of(block: Fields) -> Value:
    """A block of text, of a picture, or of a document, as a part in OpenAI's form."""
    kind = block.text("type")
    if kind == "image":
        return picture_part(block)
    if kind == "text":
        return {"type": "text", "text": block.needed_text("text")}
    if kind == "document":
        return {"type": "text", "text": document_text(block)}
    if kind == "search_result":
        text = text_of(block.any("content"), block.name("content"))
        return {"type": "text", "text": f"{block.text('title') or ''}\n{block.text('source') or ''}\n{text}".strip()}
    raise other_block(block, kind, "text, image, document, search_result and tool_result")


def of_user(blocks: list[Fields], called: dict[str, str]) -> list[Value]:
    """The messages of a message of the user: the results of tools, each one, then the rest. The pictures of results are
    among the rest: templates read none in the message of a tool. `called`: the names of the calls by their ids.
    """
    results: list[Value] = []
    rest: list[Value] = []
    for block in blocks:
        if block.any("type") != "tool_result":
            rest.append(part_of(block))
            continue
        id = block.needed_text("tool_use_id")
        if id not in called:
            raise block.wrong("tool_use_id", f"no message before has a tool_use with the id {id!r:.80}")
        parts = [part_of(one) for one in blocks_of(block.any("content", ""), block.name("content"))]
        text = "".join(part.get("text", "") for part in parts)
        results.append({"role": "tool", "tool_call_id": id, "name": called[id], "content": text})
        rest += [part for part in parts if part["type"] == PICTURE]
    return [*results, *([{"role": "user", "content": rest}] if rest or not results else [])]


def of_assistant(blocks: list[Fields], called: dict[str, str]) -> list[Value]:
    """The message of a message of the assistant."""
    text, thoughts = "", ""
    calls: list[Value] = []
    for block in blocks:
        kind = block.text("type")
        if kind == "text":
            text += block.needed_text("text")
        elif kind == "thinking":
            thoughts += block.needed_text("thinking")
        elif kind == "tool_use":
            id, name, arguments = block.needed_text("id"), block.needed_text("name"), block.mapping("input") or {}
            called[id] = name
            calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        elif kind != "redacted_thinking":  # only the server that wrote it can read it
            raise other_block(block, kind, "text, thinking and tool_use")
    found: Value = {"role": "assistant", "content": text}
    found |= {"reasoning_content": thoughts} if thoughts else {}
    return [found | ({"tool_calls": calls} if calls else {})]


def conversation_of(fields: Fields) -> list[Value]:
    """The conversation in OpenAI's form, as chat templates read it."""
    given, system = fields.needed("messages", fields.array("messages")), fields.any("system")
    if not given:
        raise fields.wrong("messages", "is empty")
    found = [] if system is None else [{"role": "system", "content": text_of(system, "system")}]
    called: dict[str, str] = {}
    for index, message in enumerate(given):
        at = f"messages[{index}]"
        if not isinstance(message, dict):
            raise fields.wrong(at, "must be an object", "invalid_type")
        one = Fields(message, at)
        role, content = one.text("role", choices=("user", "assistant", "system")), one.any("content")
        if role is None or content is None:
            raise one.missing("role" if role is None else "content")
        if role == "system":
            found.append({"role": role, "content": text_of(content, f"{at}.content")})
        else:
            found += (of_user if role == "user" else of_assistant)(blocks_of(content, f"{at}.content"), called)
    return messages_of(Fields({"messages": found}))


def tools_of(fields: Fields) -> Tools:
    """The tools and how they must be used: their fields get OpenAI's form."""
    given, choice = fields.array("tools") or [], fields.object("tool_choice")
    fields.put("tools", [tool_of(fields, f"tools[{index}]", tool) for index, tool in enumerate(given)])
    if choice is not None:
        kind, name = choice.text("type", choices=(*CHOICES, "tool")), choice.text("name")
        if kind is None or (kind == "tool" and name is None):
            raise choice.missing("type" if kind is None else "name")
        fields.put("tool_choice", {"function": {"name": name}} if kind == "tool" else CHOICES[kind])
        if choice.flag("disable_parallel_tool_use"):
            fields.put("parallel_tool_calls", False)
        choice.end()
    return Tools(fields)


def tool_of(fields: Fields, at: str, given: Any) -> Value:
    """A tool in OpenAI's form."""
    if not isinstance(given, dict):
        raise fields.wrong(at, "must be an object", "invalid_type")
    tool = Fields(given, at)
    if (kind := tool.text("type", "custom")) != "custom":
        what = f"the server has no tools of its own, such as {kind!r:.40}: give tools with an input_schema"
        raise tool.wrong("type", what, "unsupported_parameter")
    for name in ("defer_loading", "allowed_callers"):
        if tool.any(name) not in (None, False, ["direct"]):
            raise tool.wrong(name, "is not supported: every tool is shown to the model", "unsupported_parameter")
    function = {"name": tool.needed_text("name"), "description": tool.text("description")}
    function["parameters"] = tool.mapping("input_schema")
    if not function["name"] or function["parameters"] is None:
        raise tool.missing("input_schema" if function["name"] else "name")
    tool.end(OF_TOOLS_WITHOUT_EFFECT)
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def thinking_of(fields: Fields) -> str | None:
    """The type of `thinking`. Its budget is not a limit here: `max_tokens` limits thoughts and text together."""
    thinking = fields.object("thinking")
    if thinking is None:
        return None
    kind = thinking.needed_text("type", THINKING)
    thinking.whole("budget_tokens", None, 1)
    thinking.end(("display",))
    return kind


def variables_of(model: ServedModel, thinking: str | None, effort: str | None) -> Value:
    """What tells a model's template how much to think. A model that cannot do it goes on without, as a budget and an
    effort are only the most that it may; one that always reasons cannot be told not to.
    """
    template = "".join(sources(model.loaded.tokenizer.settings).values())
    if thinking == "disabled":
        return effort_variables(model, "none", "thinking")
    found: Value = {"reasoning_effort": effort} if effort is not None and "reasoning_effort" in template else {}
    return found | ({"enable_thinking": True} if thinking == "enabled" and "enable_thinking" in template else {})


@dataclass(frozen=True)
class Question:
    """What the model is to answer."""

    chat: Chat
    thinking: str | None
    effort: str | None

    def variables(self, model: ServedModel) -> Value:
        return variables_of(model, self.thinking, self.effort)


def question_of(fields: Fields, context: Context, counted: bool = False) -> Question:
    """The fields of a request. `counted`: it is read and not answered, so that it needs no max_tokens."""
    name, messages, tools = fields.text("model"), conversation_of(fields), tools_of(fields)
    for refused, why in REFUSED.items():
        if fields.any(refused):
            raise fields.wrong(refused, why, "unsupported_parameter")
    thinking, output = thinking_of(fields), fields.object("output_config")
    effort = form = None
    if output is not None:
        effort, form = output.text("effort", choices=EFFORTS), output.object("format")
        output.end()
    given = 1 if counted else fields.needed("max_tokens", fields.whole("max_tokens", None, 1))
    # It is the most that a client takes, and not what it asks for: clients send what Anthropic's models can write.
    fields.put("max_tokens", min(given, context.settings.output_tokens))
    asked = asked_of(fields, context.settings, None, form, interface=ANTHROPIC)
    asked = with_forced_call(fields, asked, tools, "output_config.format")
    return Question(Chat(name, messages, asked, tools, 0), thinking, effort)


# -- the answer


def stop_of(choice: Choice) -> Value:
    """Why a text ended, and the stop sequence that ended it."""
    if choice.reason == "stop" and choice.ended == "stop_string":
        return {"stop_reason": "stop_sequence", "stop_sequence": choice.stop}
    full = choice.ended == "context"
    return {
        "stop_reason": "model_context_window_exceeded" if full else REASONS[choice.reason], "stop_sequence": None
    }  # fmt: skip


def usage_of(choice: Choice) -> dict[str, int]:
    """The tokens; those of the prompt that were read before are not among `input_tokens`."""
    return {
        "input_tokens": choice.prompt_tokens - choice.reused, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": choice.reused, "output_tokens": choice.tokens,
    }  # fmt: skip


def input_of(arguments: str) -> Any:
    """The arguments of a call; none of a call that was cut off."""
    try:
        return parse_json(arguments)
    except ValueError:
        return {}


def content_of(choice: Choice) -> list[Value]:
    """The blocks of a complete answer."""
    found: list[Value] = []
    if choice.thoughts:
        found.append({"type": "thinking", "thinking": choice.thoughts, "signature": ""})
    if choice.text:
        found.append({"type": "text", "text": choice.text})
    return found + [
        {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
         "input": input_of(call["function"]["arguments"])}
        for call in choice.calls
    ]  # fmt: skip


class Blocks:
    """The events of a stream: blocks, each with a beginning and an end."""

    def __init__(self) -> None:
        self._index, self._open = -1, ""  # the type of the block that has no end yet

    def events(self, added: Added) -> str:
        """What a model has written."""
        thought, text, calls = added
        found = ""
        if thought:
            found += self._begin("thinking", {"thinking": "", "signature": ""})
            found += self._delta("thinking_delta", thinking=thought)
        if text:
            found += self._begin("text", {"text": ""}) + self._delta("text_delta", text=text)
        for piece in calls:
            if "id" in piece:
                found += self.end()
                begun: Value = {"id": piece["id"], "name": piece["function"]["name"], "input": {}}
                found += self._begin("tool_use", begun)
            if arguments := piece["function"]["arguments"]:
                found += self._delta("input_json_delta", partial_json=arguments)
        return found

    def _begin(self, kind: str, block: Value) -> str:
        if self._open == kind:
            return ""
        found = self.end()
        self._index, self._open = self._index + 1, kind
        return found + typed_event("content_block_start", index=self._index, content_block={"type": kind, **block})

    def _delta(self, kind: str, **values: Any) -> str:
        return typed_event("content_block_delta", index=self._index, delta={"type": kind, **values})

    def end(self) -> str:
        """The end of the open block, if there is one."""
        if not self._open:
            return ""
        self._open = ""
        return typed_event("content_block_stop", index=self._index)


def broken(error: Exception) -> str:
    """The last event of a stream that breaks off."""
    return typed_event(**body_of(of_exception(error, ANTHROPIC.names)))


async def messages(request: Request, context: Context) -> Response:
    """/v1/messages."""
    fields = Fields(await context.json(request))
    question, stream = question_of(fields, context), fields.flag("stream")
    fields.end(WITHOUT_EFFECT)
    tools = question.chat.tools
    model, prompt, running = await begin_chat(
        request, context, question.chat, question.variables, interface=ANTHROPIC
    )  # fmt: skip
    parser, choice = AnswerParser(prompt, tools), Choice(0, prompt_tokens=len(prompt.ids))
    head = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": model.name}

    async def events() -> AsyncGenerator[str, None]:
        blocks = Blocks()
        begun: Value = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_of(choice)}
        begin = typed_event("message_start", message=begun)
        async with aclosing(running.events()) as found:
            async for _, event in found:
                if begin:
                    yield begin
                    begin = ""
                if text := blocks.events(parser.take(request, choice, event, False)):
                    yield text
                if isinstance(event, Done):
                    end = typed_event("message_delta", delta=stop_of(choice), usage=usage_of(choice))
                    yield blocks.end() + end + typed_event("message_stop")

    if stream:
        return stream_of(context, running, events(), broken)
    await collect(request, running, lambda _, event: parser.take(request, choice, event, False))
    return JSONResponse({**head, "content": content_of(choice), **stop_of(choice), "usage": usage_of(choice)})


async def count_tokens(request: Request, context: Context) -> Response:
    """/v1/messages/count_tokens: how many tokens the model would read."""
    fields = Fields(await context.json(request))
    question = question_of(fields, context, counted=True)
    fields.end(WITHOUT_EFFECT)
    chat = question.chat
    context.check_length(texts_of_messages(chat.messages), ANTHROPIC.messages)
    model = await context.model(request, chat.name, "generate")
    options = chat.asked.of(model, context.settings)
    variables = question.variables(model)
    prompt = await context.aside(
        lambda: chat_prompt(model, chat.messages, chat.asked, options, chat.tools, variables, ANTHROPIC)
    )  # fmt: skip
    return JSONResponse({"input_tokens": len(prompt.ids)})
