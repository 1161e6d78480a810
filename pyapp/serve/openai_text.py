"""OpenAI's interface: /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.errors import PyappError
from pyapp.events import Done, Event, Item, Token
from pyapp.text.fill_in_middle import between
from pyapp.text.generate import prompt_ids
from pyapp.text.options import SamplingOptions

from .answers import DONE, data_line
from .chat import LOWEST, Added, Chat, Voice, begin_chat, messages_of, named_logprobs, with_forced_call
from .context import Context
from .fields import Fields
from .generation import Choice, Prompt, collect, note_done, priority_of, stream_of, submit
from .problems import Problem, of_exception
from .sampling import MOST_TEXTS, NAMES, WITHOUT_EFFECT, Asked, asked_of
from .served import ServedModel
from .tool_calls import Tools


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


# -- chat


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
    chat = Chat(name, messages, with_forced_call(fields, asked, tools), tools, priority)
    model, prompt, running = await begin_chat(request, context, chat, lambda _: variables, count)
    voices = [Voice(prompt, tools) for _ in range(count)]
    choices = [Choice(index, prompt_tokens=len(prompt.ids)) for index in range(count)]
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}

    def take(index: int, event: Event) -> Added:
        return voices[index].take(request, choices[index], event, wanted)

    async def chunks() -> AsyncGenerator[str, None]:
        def chunk(index: int, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> str:
            choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
            more = {"usage": usage_of(choices) if continuous else None} if usage else {}
            return data_line({**head, "object": "chat.completion.chunk", "choices": [choice], **more})

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
            yield data_line({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage_of(choices)})
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
    context.check_length([suffix or "", *(prompt for prompt in prompts if isinstance(prompt, str))], "prompt")
    model = await context.model(request, name, "generate")
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
            return data_line({**head, "choices": [choice], **more})

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
            yield data_line({**head, "choices": [], "usage": usage_of(choices, len(ready))})
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
