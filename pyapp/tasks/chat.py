"""Chat with a language model as a stream of events: a turn reads only what is new in the conversation."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyapp.errors import OptionError, PyappError
from pyapp.events import Cancel, Done, Notice, Token
from pyapp.text.options import SamplingOptions, check_number

from .core import Breath, Events, Result, task
from .keeper import keeper

if TYPE_CHECKING:
    from pyapp.text.chat_template import ChatTemplate
    from pyapp.text.plain_chat import PlainChat
    from pyapp.text.session import Session

CONTEXT = 4096  # tokens, unless the caller wants more or the model has fewer: the cache's memory grows with them
NO_TEMPLATE = Notice(
    "This model has no chat template, so it was perhaps not trained to chat",
    hint='The conversation is given to it as plain text: lines that begin with "User:" and "Assistant:"',
)


@dataclass
class Conversation:
    """What a model has read and written last: the session, and the rendered text of which `ids` are the tokens."""

    session: Session
    form: ChatTemplate | PlainChat
    begin: Sequence[int]  # tokens before the rendered text
    text: str = ""
    ids: tuple[int, ...] = ()


class Kept:
    """The conversation of the model that was used last; given up with its model, because its cache needs memory."""

    def __init__(self) -> None:
        self._model: weakref.ref[Any] | None = None
        self._conversation: Conversation | None = None

    def drop(self, *_: object) -> None:
        self._model = self._conversation = None

    def get(self, loaded: Any, context: int) -> Conversation:
        """The conversation with a loaded model, whose session holds `context` tokens."""
        from pyapp.text.plain_chat import PlainChat
        from pyapp.text.session import Session

        kept = self._conversation if self._model is not None and self._model() is loaded else None
        if kept is None or kept.session.capacity != context:
            kept = None
            self.drop()  # before the new cache needs the memory
            form = form_of(loaded.tokenizer)
            begin = form.begin() if isinstance(form, PlainChat) else ()
            self._conversation = Conversation(Session(loaded.model, context), form, begin)
            self._model = weakref.ref(loaded, self.drop)
        assert self._conversation is not None
        return self._conversation


kept = Kept()


def form_of(tokenizer: Any) -> ChatTemplate | PlainChat:
    """The chat template of a tokenizer, or the plain form."""
    from pyapp.text.chat_template import ChatTemplate, sources
    from pyapp.text.plain_chat import PlainChat

    return ChatTemplate(tokenizer) if sources(tokenizer.settings) else PlainChat(tokenizer)


@task
async def load_chat(model: Any = None, *, key: object = None, cancel: Cancel | None = None) -> Events:
    """Loads a model ahead of its first turn. A Notice tells that it has no chat template. Done carries `name`,
    `config`, `template` (whether it has one) and `context`, the most tokens that it reads.
    """
    from pyapp.text.plain_chat import PlainChat

    async with aclosing(keeper.get("generate", model, None, key, cancel or Cancel())) as events:
        async for event in events:
            if not isinstance(event, Result):
                yield event
                continue
            loaded = event.value
            plain = isinstance(form_of(loaded.tokenizer), PlainChat)
            if plain:
                yield NO_TEMPLATE
            results = {"name": loaded.name, "config": loaded.config, "template": not plain}
            yield Done("complete", results | {"context": loaded.model.config.max_seq_len})


@task
async def chat(
    model: Any = None,
    messages: Sequence[Mapping[str, Any]] = (),
    options: SamplingOptions | Mapping[str, Any] | None = None,
    *,
    context: int | None = None,
    key: object = None,
    cancel: Cancel | None = None,
) -> Events:
    """The model's next turn: the events of `tasks.generate`. A conversation that ends with the assistant's message is
    continued inside it.

    `messages` have `role` ("system", "user", "assistant") and `content`. `context` is the number of tokens that the
    conversation may have; by default CONTEXT, or the model's if that is less. Done carries the results of `generate`,
    `context` and `context_used`.
    """
    from pyapp.text.generate import check_tokenizer, generate_from
    from pyapp.text.plain_chat import STOP, PlainChat

    cancel = cancel or Cancel()
    if not isinstance(options, SamplingOptions):
        options = SamplingOptions.from_dict(options or {})
    check_messages(messages)
    async with aclosing(keeper.get("generate", model, None, key, cancel)) as events:
        async for event in events:
            if isinstance(event, Result):
                loaded = event.value
            else:
                yield event
    breath = Breath()
    await breath.take()
    check_tokenizer(loaded.tokenizer, loaded.model.config.vocab_size)
    conversation = kept.get(loaded, _context(context, loaded.model.config.max_seq_len))
    session = conversation.session
    ids = _prompt(conversation, messages)
    if len(ids) > session.capacity:
        raise OptionError(
            f"the conversation has {len(ids):,} tokens, the context has room for {session.capacity:,}", where="messages",
            hint=_more_room(session.capacity, loaded.model.config.max_seq_len),
        )  # fmt: skip
    conversation.text, conversation.ids = "", ()
    options = replace(options, stop_tokens=tuple({*options.stop_tokens, *conversation.form.stop_ids()}))
    if isinstance(conversation.form, PlainChat):
        options = replace(options, stop=(*options.stop, STOP))
    goes_on = messages[-1]["role"] == "assistant"
    written = messages[-1]["content"] if goes_on else ""
    tokens: list[int] = []
    for event in generate_from(session, loaded.tokenizer, ids, options, cancel, continuing=True):
        if isinstance(event, Token):
            event = event if written else replace(event, text=event.text.lstrip())  # as templates trim it
            written += event.text
            tokens += [] if event.id is None else [event.id]
        elif isinstance(event, Done):
            if event.reason != "stop_string":  # the last tokens are not all text
                turns = messages[:-1] if goes_on else messages
                conversation.text = _rendered(conversation.form, [*turns, {"role": "assistant", "content": written}])
                conversation.ids = (*ids, *tokens)
            used = {"context": session.capacity, "context_used": len(ids) + len(tokens)}
            event = Done(event.reason, {**event.results, **used})
        yield event
        await breath.take()


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """OptionError for messages without a role or a text, and for a conversation that nobody is to answer."""
    for index, message in enumerate(messages):
        if not isinstance(message.get("role"), str) or not isinstance(message.get("content"), str):
            raise OptionError("it has no role or no content", where=f"message {index}")
    if not messages or messages[-1]["role"] not in ("user", "assistant"):
        raise OptionError("there is nothing to answer", where="messages", hint="End with a message of the user")


def _context(wanted: int | None, longest: int) -> int:
    if wanted is None:
        return min(CONTEXT, longest)
    check_number("context", wanted, 1, 1 << 30, whole=True)
    return min(wanted, longest)


def _more_room(context: int, longest: int) -> str:
    wider = f"set a larger context (this model has up to {longest:,}), " if context < longest else ""
    return f"Begin a new conversation, {wider}or edit an earlier turn to go on from there"


def _render(form: ChatTemplate | PlainChat, messages: Sequence[Mapping[str, Any]]) -> str:
    """The text of a conversation to which the model adds its turn, or the rest of its turn. Names of special tokens in
    the messages are marked as text.
    """
    guard = form.tokenizer.guard
    guarded = [{**message, "content": guard(message["content"])} for message in messages]
    goes_on = messages[-1]["role"] == "assistant"
    return form.render(guarded, add_generation_prompt=not goes_on, continue_final_message=goes_on)


def _rendered(form: ChatTemplate | PlainChat, messages: Sequence[Mapping[str, Any]]) -> str:
    """As `_render`; "" for a template that has no such text, because it changes the last message."""
    try:
        return _render(form, messages)
    except PyappError:
        return ""


def _prompt(conversation: Conversation, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """The tokens of a conversation. For what the model itself has written they are its own, because the tokenizer
    might divide the same text otherwise, and all of it would have to be read again.
    """
    form, known = conversation.form, conversation.text
    tokenizer = form.tokenizer
    text = _render(form, messages)
    rest = text[len(known) :] if known and text.startswith(known) else None
    # The border is exact only at a special token: no token extends across it.
    if rest is not None and (not rest or rest.startswith(tuple(tokenizer.special_names))):
        return [*conversation.ids, *(tokenizer.encode_guarded(rest) if rest else ())]
    return [*conversation.begin, *tokenizer.encode_guarded(text)]
