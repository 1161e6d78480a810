"""Chat: the answer of a language model to a conversation."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pyapp.events import Cancel, Done, Event, Notice
from pyapp.text.generation.options import SamplingOptions

from .core import Breath, Events, Remote, Result, Step, given, only_here, reported, task
from .keeper import keeper, load_text

NO_TEMPLATE = Notice(
    "This model has no chat template, so it was perhaps not trained to chat",
    hint='The conversation is given to it as plain text: lines that begin with "User:" and "Assistant:"',
)


@task
async def load_chat(
    model: Any = None, *, tokenizer: Any = None, key: object = None, dtype: str | None = None,
    cancel: Cancel | None = None,
) -> Events:  # fmt: skip
    """Loads a model ahead of its first answer. A Notice says that it has no chat template. Done carries `name`,
    `config`, `template` (whether it has one), `context`, the most tokens that it reads, and `pictures`, whether it sees
    them.
    """
    from pyapp.text.chat.chat_template import sources

    chosen = {} if dtype is None else {"dtype": dtype}
    async with aclosing(keeper.get("generate", model, tokenizer, key, cancel or Cancel(), **chosen)) as events:
        async for event in events:
            if not isinstance(event, Result):
                yield event
                continue
            loaded = event.value
            template = bool(sources(loaded.tokenizer.settings))
            if not template:
                yield NO_TEMPLATE
            context = loaded.model.config.max_seq_len
            known = {"name": loaded.name, "config": loaded.config, "template": template, "context": context}
            yield Done("complete", known | {"pictures": getattr(loaded.model, "sees", None) == "image"})


@task
async def chat(
    model: Any = None,
    messages: Sequence[Mapping[str, Any]] = (),
    options: SamplingOptions | Mapping[str, Any] | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    template: str | None = None,
    plain: bool = False,
    variables: Mapping[str, Any] | None = None,
    tokenizer: Any = None,
    draft: Any = None,
    adapter: str | os.PathLike[str] | None = None,
    projector: Any = None,
    key: object = None,
    cancel: Cancel | None = None,
) -> Events:
    """The model's answer to `messages`, mappings with role (system, user, assistant, tool) and content: Progress and
    the Metric load_time while the model is loaded, then the events of pyapp.text.chat.chat.answer. A content is a text,
    or, for models that see pictures, a list of parts: {"type": "text", "text": …}, {"type": "image", "image": a path,
    bytes, a ByteSource or a tensor uint8 (height, width, 3)}; for those that hear {"type": "audio", "audio": a path,
    bytes, a ByteSource or float samples (N,) at 16 kHz}.

    `model`, `tokenizer`, `draft`, `adapter`, `projector`, `key` and `options` as for `generate`; max_new_tokens is None
    by default. `tools` are JSON schemas of functions. `template` is a text in jinja's language to use instead of the
    model's chat template; `variables` go to it (`enable_thinking` …). `plain`: a model without a chat template gets the
    conversation as plain text (pyapp/text/chat/plain_chat.py), instead of an error. The next answer reads only what
    differs from this conversation.
    """
    from pyapp.text.chat.chat import DEFAULTS, answer
    from pyapp.text.chat.chat_template import ChatTemplate, sources
    from pyapp.text.chat.plain_chat import PlainChat

    cancel = cancel or Cancel()
    named = None if isinstance(options, SamplingOptions) else list(options or {})
    if not isinstance(options, SamplingOptions):
        options = SamplingOptions.from_dict({"max_new_tokens": DEFAULTS.max_new_tokens} | dict(options or {}))
    if isinstance(model, Remote):
        only_here(template=template, tokenizer=tokenizer, draft=draft, adapter=adapter, projector=projector)
        async with aclosing(model.chat(messages, options, tools, variables, cancel, named)) as forwarded:
            async for sent in forwarded:
                yield sent
        return
    more = {"adapter": adapter, "projector": projector}
    async with Step(model_and_drafter(model, draft, tokenizer, key, cancel, **more)) as loading:
        async for event in loading:
            yield event
    loaded, drafter = loading.value
    options = of_the_model(options, loaded, named)
    breath = Breath()
    await breath.take()
    without = plain and template is None and not sources(loaded.tokenizer.settings)
    session = keeper.session_of(loaded.model, options.context, options.cache_type)
    chosen: Any = None
    if any(not isinstance(message.get("content"), str | None) for message in messages) or hasattr(session, "see"):
        from .conversation_media import with_pictures

        async with Step(with_pictures(loaded, session, messages, template, cancel)) as seeing:
            async for event in seeing:
                yield event
        messages, chosen = seeing.value
    if chosen is None:
        chosen = PlainChat(loaded.tokenizer) if without else ChatTemplate(loaded.tokenizer, source=template)
    stream = answer(
        session, chosen, messages, options, tools=tools, variables=variables, cancel=cancel, drafter=drafter
    )
    for event in stream:
        yield event
        await breath.take()


def of_the_model(options: SamplingOptions, loaded: Any, given: Collection[str] | None) -> SamplingOptions:
    """The options with the settings of a model's generation_config.json: see with_model_settings."""
    settings = getattr(loaded, "generation", None)
    if not settings:
        return options
    from pyapp.text.generation.generation_config import with_model_settings

    return with_model_settings(options, settings, given)


async def model_and_drafter(
    model: Any, draft: Any, tokenizer: Any, key: object, cancel: Cancel, **settings: Any
) -> AsyncGenerator[Event | Result[tuple[Any, Any]], None]:
    """The events of loading, if needed; then (the model, the drafter of `draft` or None). `settings` are those of the
    loader, where they are not None.
    """
    drafter = None
    async with Step(keeper.get("generate", model, tokenizer, key, cancel, **given(**settings))) as loading:
        async for event in loading:
            yield event
    if draft is not None:
        async with Step(drafter_of(draft, cancel)) as drafting:
            async for event in drafting:
                yield event
        drafter = drafting.value
    yield Result((loading.value, drafter))


async def drafter_of(source: Any, cancel: Cancel) -> AsyncGenerator[Event | Result[Any], None]:
    """The events of loading a draft model, and its drafter."""
    from pyapp.text.generation.session import Session
    from pyapp.text.generation.speculation import DraftModel

    if hasattr(source, "tokenizer"):
        yield Result(DraftModel(Session(source.model)))
        return

    def work(report: Callable[[Event], None]) -> Any:
        return load_text(source, None, report, cancel)

    async with aclosing(reported(work, cancel)) as events:
        async for event in events:
            yield Result(DraftModel(Session(event.value.model))) if isinstance(event, Result) else event
