"""Conversations: their messages, and the answers of a model to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyapp.errors import FileFormatError, OptionError, PyappError
from pyapp.events import Cancel, Done, Event, Thought, Token
from pyapp.formats.safe_json import parse_json
from pyapp.text.chat.chat_template import ChatTemplate
from pyapp.text.chat.plain_chat import STOP, PlainChat
from pyapp.text.chat.thinking import ThinkingSplitter
from pyapp.text.generation.generate import check_tokenizer, fitting, generate_from
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import Session, context_hint
from pyapp.text.generation.speculation import Drafter

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")
FORMAT = "pyapp chat"  # of saved conversations
DEFAULTS = SamplingOptions(max_new_tokens=None)


class Conversation:
    """The messages of a conversation, and what may be done to them: all changes keep user and assistant in turns.

    `messages` have `role` and `content`; an assistant's message may have `reasoning_content`, its thoughts. With
    pictures the content is a list of parts (pyapp/text/pictures.py).
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]] = ()) -> None:
        self.messages: list[Message] = [dict(message) for message in messages]

    @property
    def system(self) -> str:
        """The instructions before the first turn; empty if there are none."""
        first = self.messages[0] if self.messages else {}
        return str(first["content"]) if first.get("role") == "system" else ""

    @system.setter
    def system(self, text: str) -> None:
        if self.messages and self.messages[0]["role"] == "system":
            del self.messages[0]
        if text:
            self.messages.insert(0, {"role": "system", "content": text})

    def ask(self, text: str, pictures: Sequence[str] = (), recordings: Sequence[str] = ()) -> None:
        """A message of the user, with the pictures and recordings in these files before it."""
        parts = [{"type": "image", "image": picture} for picture in pictures]
        parts += [{"type": "audio", "audio": recording} for recording in recordings]
        self.messages.append({"role": "user", "content": [*parts, {"type": "text", "text": text}] if parts else text})

    def answer(self, text: str, thoughts: str = "") -> None:
        """The assistant's answer to the last message."""
        more = {"reasoning_content": thoughts} if thoughts else {}
        self.messages.append({"role": "assistant", "content": text, **more})

    def undo(self) -> str | None:
        """Removes the user's last message and what came after it; returns its text, None if there is none."""
        place = self._last_question()
        if place is None:
            return None
        content = self.messages[place]["content"]
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        del self.messages[place:]
        return text

    def reopen(self) -> bool:
        """Removes the answer to the user's last message; returns whether there is one to answer again."""
        place = self._last_question()
        if place is None:
            return False
        del self.messages[place + 1 :]
        return True

    def edit(self, index: int, text: str) -> None:
        """Changes the message `index`, and removes those after it. OptionError if there is none."""
        if not 0 <= index < len(self.messages):
            raise OptionError(f"there is no message {index}, only {len(self.messages)}", where="index")
        self.messages[index] = {**self.messages[index], "content": text}
        del self.messages[index + 1 :]

    def _last_question(self) -> int | None:
        found = [place for place, message in enumerate(self.messages) if message["role"] == "user"]
        return found[-1] if found else None

    def to_json(self) -> str:
        """The conversation as a JSON text."""
        return json.dumps({"format": FORMAT, "version": 1, "messages": self.messages}, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str = "conversation") -> Conversation:
        """A conversation that `to_json` wrote. FileFormatError for anything else."""
        try:
            document = parse_json(text)
        except ValueError as error:
            raise FileFormatError(f"not valid JSON: {error}", where=where) from None
        if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("version") != 1:
            raise FileFormatError("this is not a conversation that pyapp saved", where=where)
        given = document.get("messages")
        messages: list[Any] = given if isinstance(given, list) else [None]
        for index, message in enumerate(messages):
            fits = isinstance(message, dict) and message.get("role") in ROLES
            if not fits or not _is_content(message.get("content")):
                raise FileFormatError(f"messages[{index}] has no role and content", where=where)
        return cls(messages)


def _is_content(content: Any) -> bool:
    """Whether a saved content is a text, or texts and names of pictures' and recordings' files."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return all(
        isinstance(part, dict)
        and part.get("type") in ("text", "image", "audio")
        and isinstance(part.get(part["type"]), str)
        for part in parts
    )


def answer(
    session: Session,
    template: ChatTemplate | PlainChat,
    messages: Sequence[Mapping[str, Any]],
    options: SamplingOptions | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
    cancel: Cancel | None = None,
    drafter: Drafter | None = None,
) -> Iterator[Event]:
    """The model's answer to a conversation: the events of pyapp.text.generation.generate.generate, and a Thought for
    text between thinking tags, which is not part of the Tokens' text.

    A conversation that ends with an assistant's message is continued inside it. What the session has read of the
    conversation is not read again. `template` may be a PlainChat, for models without a chat template. `tools` and
    `variables` go to the template (`enable_thinking` …). The answer ends with the tokens that end a turn. Done also
    carries `text`, `thoughts`, `context_tokens` and `context_size`. OptionError for a conversation that does not fit
    the context, unless `options.rolling`: then the oldest tokens are left out.
    """
    options = options or DEFAULTS
    tokenizer = template.tokenizer
    check_tokenizer(tokenizer, session.model.config)
    more = dict(variables or {})
    goes_on = bool(messages) and messages[-1].get("role") == "assistant"
    if goes_on:
        more |= {"add_generation_prompt": False, "continue_final_message": True}
    ids = template.placed(conversation_ids(session, template, template.render_guarded(messages, tools, **more)))
    if not ids:
        raise OptionError("the template gives no text for these messages", where="messages")
    if len(ids) > session.capacity and not options.rolling:
        earlier = ", remove or edit earlier ones, start anew," if len(messages) > 1 else ""
        raise OptionError(
            f"the conversation has {len(ids):,} tokens: there is room for {session.capacity:,}", where="messages",
            hint=f"Shorten the message{earlier} or set `rolling`, which leaves out the oldest tokens. "
            f"{context_hint(session)}".rstrip(),
        )  # fmt: skip
    ids = fitting(ids, session.capacity, options.keep)
    splitter = ThinkingSplitter(template.render(messages, tools, **more))
    options = replace(options, stop_tokens=tuple(sorted(template.stop_ids().union(options.stop_tokens))))
    thoughts, text, index = "", "", 0
    plain = isinstance(template, PlainChat)
    if plain:
        options = replace(options, stop=(*options.stop, STOP))
    tokens: list[int] = []
    for event in generate_from(session, tokenizer, ids, options, cancel, drafter, continuing=goes_on or plain):
        if isinstance(event, Token):
            tokens += [] if event.id is None else [event.id]
            thought, part = splitter.push(event.text)
            part = part.lstrip() if plain and not (goes_on or text) else part  # the space after "Assistant:"
            thoughts, text, index = thoughts + thought, text + part, event.index + 1
            if thought:
                yield Thought(thought)
            if part or event.id is not None:
                yield replace(event, text=part)
        elif isinstance(event, Done):
            thought, part = splitter.finish()
            thoughts, text = thoughts + thought, text + part
            if thought:
                yield Thought(thought)
            if part:
                yield Token(part, None, index)
            begun = messages[-1]["content"] if goes_on else ""
            turns = [*(messages[:-1] if goes_on else messages), {"role": "assistant", "content": begun + text}]
            written = getattr(template, "part", None) not in tokens  # a token of pictures has no picture here
            if not thoughts and event.reason != "stop_string" and written:  # else the tokens are more than the text
                session.rendered = rendered(template, turns, tools, variables), (*ids, *tokens)
            context = {"context_tokens": session.position, "context_size": session.capacity}
            yield Done(event.reason, {**event.results, "text": text, "thoughts": thoughts, **context})
        else:
            yield event


def conversation_ids(session: Session, template: ChatTemplate | PlainChat, text: str) -> list[int]:
    """The token ids of a rendered conversation. For what the model itself has written they are its own, because the
    tokenizer might divide the same text otherwise, and all of it would have to be read again.
    """
    known, ids = session.rendered
    if known and text.startswith(known):
        rest = text[len(known) :]
        # The border is exact only at a special token: no token extends across it.
        if not rest or rest.startswith(tuple(template.tokenizer.special_names)):
            return [*ids, *(template.tokenizer.encode_guarded(rest) if rest else ())]
    return template.encode_guarded(text)


def rendered(
    template: ChatTemplate | PlainChat,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    variables: Mapping[str, Any] | None,
) -> str:
    """A conversation up to the end of the last message; "" by a template that changes the message."""
    more = {**(variables or {}), "add_generation_prompt": False, "continue_final_message": True}
    try:
        return template.render_guarded(messages, tools, **more)
    except PyappError:
        return ""
