"""Chat templates: a conversation as the text on which a model was trained.

A model's files have a template in jinja's language (`chat_template` in tokenizer_config.json, chat_template.jinja, or
`tokenizer.chat_template` in GGUF). It runs in a sandbox, with the variables and functions that transformers gives to it
(https://huggingface.co/docs/transformers/chat_templating).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyapp.errors import ModelError, OptionError, PyappError
from pyapp.text.documents import SPECIAL_ROLES
from pyapp.text.tokenization.tokenizer import Tokenizer

DEPTH_LIMIT = 50  # of lists and objects in messages and tools
REASONING = ("reasoning_content", "thinking", "reasoning")  # names under which a message has its thoughts
CONTINUE = "CONTINUE_FINAL_MESSAGE_TAG "
PROBE = "answer7f3a"  # a text that no template contains
Message = Mapping[str, Any]


def render(
    template: str,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None = None,
    add_generation_prompt: bool = True,
    *,
    continue_final_message: bool | str = False,
    documents: Sequence[Mapping[str, Any]] | None = None,
    now: datetime | None = None,
    **variables: Any,
) -> str:
    """The text of a conversation by a template in jinja's language.

    `messages` have `role` (system, user, assistant, tool) and `content`, and what else the template reads
    (`tool_calls`, `reasoning_content` …); `tools` are JSON schemas. `add_generation_prompt` adds the beginning of the
    assistant's turn; `continue_final_message` ends the text inside the last message instead, or inside its field of
    that name ("reasoning_content"). `now` is the time for templates with a date. Other variables are passed to the
    template (`bos_token`, `enable_thinking` …). Raises OptionError for messages that do not fit the template,
    ModelError for a broken template and one that reaches a limit of time or size.
    """
    if continue_final_message and add_generation_prompt:
        raise OptionError("it cannot go together with add_generation_prompt", where="continue_final_message")
    chat = [_with_reasoning(_message(message, index)) for index, message in enumerate(messages)]
    field = continue_final_message if isinstance(continue_final_message, str) else "content"
    final = _mark_final(chat, field) if continue_final_message else ""
    values: dict[str, Any] = {name: plain(value, f"variable {name}") for name, value in variables.items()}
    values |= {
        "messages": chat, "tools": None if tools is None else plain(list(tools), "tools"),
        "documents": None if documents is None else plain(list(documents), "documents"),
        "add_generation_prompt": add_generation_prompt,
    }  # fmt: skip
    text = _run(template, values, now)
    return _cut(text, final) if continue_final_message else text


def _run(template: str, values: Mapping[str, Any], now: datetime | None) -> str:
    try:
        from pyapp.text.chat.template_sandbox import TEMPLATE_ERRORS, TemplateRefusal, render_source
    except ImportError as error:
        raise PyappError("the Python package `jinja2` is missing", hint="pip install jinja2") from error
    try:
        return render_source(template, values, now)
    except TemplateRefusal as refusal:
        raise OptionError(f"the messages do not fit: {refusal!s:.500}", where="chat template") from None
    except TEMPLATE_ERRORS as error:
        name = "it is nested too deeply" if isinstance(error, RecursionError) else f"{error!s:.300}".rstrip(".")
        line = getattr(error, "lineno", None)
        where = f"chat template, line {line}" if line else "chat template"
        raise ModelError(
            name or type(error).__name__, where=where, hint="Give another template, or messages without what it lacks"
        ) from error


def _message(message: Any, index: int) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise OptionError("it has no role", where=f"messages[{index}]", hint='Give {"role": "user", "content": "…"}')
    found: dict[str, Any] = plain(message, f"messages[{index}]")
    return found


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """A copy made of JSON's types, so that a template sees no other objects. OptionError for others."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if depth > DEPTH_LIMIT:
        raise OptionError("it is nested too deeply", where=where)
    if isinstance(value, Mapping):
        return {plain(key, where, depth + 1): plain(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, where, depth + 1) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    raise OptionError(f"a {type(value).__name__} is not text, a number, a list or an object", where=where)


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Thoughts under the names that templates read."""
    thoughts = next((message[name] for name in REASONING if message.get(name) is not None), None)
    return message if thoughts is None else {"thinking": thoughts, **message, "reasoning_content": thoughts}


def _mark_final(chat: list[dict[str, Any]], field: str) -> str:
    """Puts a mark at the end of a field of the last message; the text of that field."""
    content = chat[-1].get(field) if chat else None
    if isinstance(content, str):
        names = [name for name in REASONING if chat[-1].get(name) == content] if field in REASONING else [field]
        chat[-1] |= dict.fromkeys(names, content + CONTINUE)
        return content
    for block in reversed(content if isinstance(content, list) else []):
        if isinstance(block, dict) and isinstance(text := block.get("text"), str):
            block["text"] = text + CONTINUE
            return text
    what = "text" if field == "content" else f"{field!r:.60}"
    raise OptionError(f"the last message has no {what} to continue", where="continue_final_message")


def _cut(text: str, final: str) -> str:
    """The text up to the mark."""
    if final.strip() not in text or CONTINUE.strip() not in text:
        raise OptionError("the template changes the last message", where="continue_final_message")
    place = text.rindex(CONTINUE.strip())
    return text[:place] if text[place : place + len(CONTINUE)] == CONTINUE else text[:place].rstrip()


def no_template() -> ModelError:
    """What is said of a model that has no chat template."""
    hint = (
        "Give an instruction-tuned model, or put its chat_template.jinja beside the tokenizer; `pyapp generate` writes "
        "texts on"
    )
    return ModelError("the model has no chat template", where="chat template", hint=hint)


class ChatTemplate:
    """The chat template of a tokenizer; `name` chooses one of several (default: "tool_use" for conversations with
    tools, else "default"). `source` is a template to use instead. ModelError if there is none.
    """

    def __init__(self, tokenizer: Tokenizer, name: str | None = None, source: str | None = None) -> None:
        self.tokenizer = tokenizer
        self._name = name
        self.sources = sources(tokenizer.settings) if source is None else {"default": source}
        if not self.sources:
            raise no_template()
        if name is not None and name not in self.sources:
            raise OptionError(f"there is no {name!r:.60}, only {', '.join(self.sources)}", where="chat template")
        self._special = {
            role: token for role in SPECIAL_ROLES if (token := _token(tokenizer.settings.get(role))) is not None
        }

    def source(self, tools: bool = False) -> str:
        """The template for conversations with tools or without."""
        if self._name is not None:
            return self.sources[self._name]
        if tools and "tool_use" in self.sources:
            return self.sources["tool_use"]
        return self.sources.get("default", next(iter(self.sources.values())))

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        """The text of a conversation; the options are those of `render`."""
        return render(self.source(tools is not None), messages, tools, **{**self._special, **options})

    def encode(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> list[int]:
        """The token ids of a conversation. Names of special tokens in messages and tools stay ordinary text."""
        return self.encode_guarded(self.render_guarded(messages, tools, **options))

    def render_guarded(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        """As `render`; names of special tokens in messages and tools are marked as text."""
        guarded = [_map_text(message, self.tokenizer.guard) for message in messages]
        return self.render(guarded, None if tools is None else _map_text(list(tools), self.tokenizer.guard), **options)

    def encode_guarded(self, text: str) -> list[int]:
        """The token ids of a text of `render_guarded`."""
        return self.tokenizer.encode_guarded(text)

    def placed(self, ids: Sequence[int]) -> list[int]:
        """The ids with those of pictures (pyapp/text/pictures.py)."""
        return list(ids)

    def stop_ids(self) -> frozenset[int]:
        """The ids that end the assistant's turn: those of the tokenizer, and the special token that the template puts
        after the assistant's text.
        """
        ends = self.tokenizer.stop_ids
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": PROBE}]
        try:
            text = self.render(turns, add_generation_prompt=False)
        except PyappError:  # a template for other conversations
            return ends
        _, found, behind = text.rpartition(PROBE)
        end = self.tokenizer.first_special(behind) if found else None
        return ends if end is None else ends | {end}


def sources(settings: Mapping[str, Any]) -> dict[str, str]:
    """The templates by name in a tokenizer_config.json: a text, or a list of objects with name and template."""
    value = settings.get("chat_template")
    if isinstance(value, str):
        return {"default": value}
    entries = value if isinstance(value, list) else []
    if isinstance(value, Mapping):
        entries = [{"name": name, "template": template} for name, template in value.items()]
    return {
        entry["name"]: entry["template"]
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str)
    }


def _token(value: Any) -> str | None:
    value = value.get("content") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) else None


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """The value with each text changed; keys and everything else stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(item, change) for item in value]
    return value
