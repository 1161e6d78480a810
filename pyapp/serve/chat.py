"""What the interfaces for conversations share: messages, the prompt of a conversation, and its answer in parts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.events import Done, Event, Token
from pyapp.text.chat.chat_template import ChatTemplate, sources
from pyapp.text.chat.plain_chat import STOP, PlainChat
from pyapp.text.chat.thinking import THINKING_TAGS, ThinkingSplitter
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.pictures import known_ids

from .context import Context
from .fields import Fields
from .generation import Choice, Prompt, RunningTexts, submit
from .pictures import with_pictures
from .problems import Problem, of_exception
from .sampling import COMPLETIONS, Asked, Interface
from .served import ServedModel
from .tool_calls import Tools, ToolSplitter, joined

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
PICTURE, RECORDING = "image_url", "input_audio"  # the types of parts with pictures, and with recordings
LOWEST = -9999.0  # what OpenAI sends for the logarithm of 0
Added = tuple[str, str, list[dict[str, Any]]]  # thoughts, text, pieces of calls


@dataclass(frozen=True)
class Chat:
    """A conversation that a request wants to be continued. `name` is that of the model."""

    name: str | None
    messages: list[dict[str, Any]]
    asked: Asked
    tools: Tools
    priority: int


def parts_of(
    content: Any, at: str, *kinds: str, picture: str | None = None, recording: str | None = None
) -> list[tuple[str, str]]:  # fmt: skip
    """The (type, text) of the parts of a message's content, which are of these types; a string is one of the first.
    picture, recording: the types of these, where the content may have some; their text is the URL, or base64.
    """
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
        if kind == picture is not None and isinstance(part, dict):
            found.append((picture, url_of(part, f"{at}[{index}]")))
            continue
        if kind == recording is not None and isinstance(part, dict):
            found.append((recording, data_of(part, f"{at}[{index}]")))
            continue
        if kind in kinds and not isinstance(text, str):
            raise Problem(f"{at}[{index}].text: must be a string", param=f"{at}[{index}].text", code="invalid_type")
        if kind not in kinds:
            raise Problem(
                f"{at}[{index}]: only parts of type {kinds[0]} are read here, not {kind!r:.40}",
                param=f"{at}[{index}]", code="unsupported_content",
            )  # fmt: skip
        found.append((kind, text))
    return found


def url_of(part: dict[str, Any], at: str) -> str:
    """The URL of a part with a picture."""
    found = part.get("image_url")
    found = found.get("url") if isinstance(found, dict) else found
    if not isinstance(found, str) or found[:5].lower() != "data:":
        raise Problem(
            f"{at}: a picture comes as a data: URL in image_url; other addresses are not opened", param=at,
            code="unsupported_content",
        )  # fmt: skip
    return found


def data_of(part: dict[str, Any], at: str) -> str:
    """The base64 of a part with a recording, whose file says its form itself."""
    found = part.get(RECORDING)
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, str):
        raise Problem(f"{at}: a recording comes as input_audio with data, base64", param=at, code="invalid_type")
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        raise Problem(f"{at}: data is not base64", param=at) from None
    return data


def content_of(parts: Sequence[tuple[str, str]], picture: str) -> str | list[dict[str, Any]]:
    """The content of a message, as pyapp.text.pictures.taken reads it: a text where there is nothing else."""

    def part_of(kind: str, text: str) -> dict[str, Any]:
        if kind == picture:
            return {"type": "image_url", "image_url": {"url": text}}
        if kind == RECORDING:
            return {"type": "audio", "audio": base64.b64decode(text)}
        return {"type": "text", "text": text}

    if all(kind not in (picture, RECORDING) for kind, _ in parts):
        return "".join(text for _, text in parts)
    return [part_of(*part) for part in parts]


def texts_of_messages(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of messages, without their pictures."""
    contents = [message["content"] for message in messages]
    parts = [[{"text": content}] if isinstance(content, str) else content for content in contents]
    return [part["text"] for content in parts for part in content if "text" in part]


def messages_of(fields: Fields, plain: Callable[[Any], Any] = lambda message: message) -> list[dict[str, Any]]:
    """The messages, with contents as strings, as chat templates read them, or as lists of parts where they have
    pictures or recordings. `plain` brings those of other interfaces into OpenAI's form.
    """
    given = fields.needed("messages", fields.array("messages"))
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
        seen, heard = (PICTURE, RECORDING) if role == "user" else (None, None)
        given_parts = message.get("content")
        parts = parts_of(given_parts, f"{at}.content", "text", "refusal", picture=seen, recording=heard)
        clean["content"] = content_of(parts, PICTURE)
        calls = clean.get("tool_calls", [])
        if not isinstance(calls, list) or not all(map(is_call, calls)):
            form = '{"id": …, "type": "function", "function": {"name": …, "arguments": …}}'
            raise fields.wrong(f"{at}.tool_calls", f"must be an array of objects {form}", "invalid_type")
        if calls:
            clean["tool_calls"] = [with_parsed_arguments(call) for call in calls]
        found.append(clean)
    return found


def is_call(call: Any) -> bool:
    """Whether this is a call of a function, in OpenAI's form, or flat, as templates also read it."""
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return False
    return isinstance(function.get("arguments", ""), str | dict)


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


def chat_prompt(
    model: ServedModel, messages: list[dict[str, Any]], asked: Asked, options: SamplingOptions, tools: Tools,
    variables: dict[str, Any], interface: Interface = COMPLETIONS,
) -> Prompt:  # fmt: skip
    tokenizer = model.loaded.tokenizer
    plain = not sources(tokenizer.settings)
    messages, seeing = with_pictures(model, messages, interface.messages, interface.counted)
    template: Any = seeing or (PlainChat(tokenizer) if plain else ChatTemplate(tokenizer))
    known = {} if seeing is None else known_ids(seeing.pictures)
    more = dict(variables)
    goes_on = messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls")
    if goes_on:
        more |= {"add_generation_prompt": False, "continue_final_message": True}
    try:
        rendered = template.render(messages, tools.shown, **more)
        model.runner.check_text(rendered)
        ids = template.placed(template.encode_guarded(template.render_guarded(messages, tools.shown, **more)))
    except PyappError as error:
        raise of_exception(error, interface.names_in_conversation(error.where)) from error
    if not ids:
        at = interface.messages
        raise Problem(f"{at}: the chat template gives no text for them", param=at)
    if plain:
        options = replace(options, stop=(*options.stop, STOP))
    stops = asked.stops(tokenizer).union(() if asked.ignore_eos else template.stop_ids())
    return Prompt(ids, options, stops, goes_on or plain, rendered, plain and not goes_on, known)


def with_forced_call(fields: Fields, asked: Asked, tools: Tools, form: str = "response_format") -> Asked:
    """The settings with the form of the call that the request forces; `form` is its field for other forms."""
    if not tools.forced:
        return asked
    if asked.options.has_form:
        raise fields.wrong("tool_choice", f"excludes {form}, regex and choice")
    return replace(asked, options=replace(asked.options, json_schema=tools.schema()))


def effort_variables(model: ServedModel, effort: str | None, param: str = "reasoning.effort") -> dict[str, Any]:
    """What tells the model's template how much to think. Problem for a model that does not, or cannot be told: `param`
    is the field that asks for it.
    """
    if effort is None:
        return {}
    template = "".join(sources(model.loaded.tokenizer.settings).values())
    if "reasoning_effort" in template:
        return {"reasoning_effort": effort}
    if "enable_thinking" in template:
        return {"enable_thinking": effort != "none"}
    thinks = any(tag in template for tag in THINKING_TAGS)
    if thinks == (effort != "none"):
        return {}
    what = "always reasons" if thinks else "does not reason"
    raise Problem(f"{param}: the model {model.name!r} {what}", param=param, code="unsupported_parameter")


async def begin_chat(
    request: Request, context: Context, chat: Chat, variables: Callable[[ServedModel], dict[str, Any]],
    count: int = 1, interface: Interface = COMPLETIONS,
) -> tuple[ServedModel, Prompt, RunningTexts]:  # fmt: skip
    """Has a model write `count` answers. `variables` gives what the template of a model gets beside the messages."""
    context.check_length(texts_of_messages(chat.messages), interface.messages)
    model = await context.model(request, chat.name, "generate")
    options = chat.asked.of(model, context.settings)
    prompt = await context.aside(
        lambda: chat_prompt(model, chat.messages, chat.asked, options, chat.tools, variables(model), interface)
    )
    running = await submit(context, model, [prompt], count, interface.messages, chat.priority, interface=interface,
                           tools=chat.tools)  # fmt: skip
    return model, prompt, running


class AnswerParser:
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
            choice.end(request, event)
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
