"""OpenAI's interface: /v1/chat/completions and /v1/completions."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.events import Done, Event, Item, Token
from pyapp.text.generation.fill_in_middle import between
from pyapp.text.generation.generate import prompt_ids
from pyapp.text.generation.options import SamplingOptions

from .answers import DONE, data_line
from .chat import LOWEST, Added, AnswerParser, Chat, begin_chat, messages_of, named_logprobs, with_forced_call
from .context import Context
from .fields import Fields
from .generation import Choice, Prompt, RunningTexts, collect, priority_of, submit
from .problems import Problem, of_exception
from .running import stream_of
from .sampling import MOST_TEXTS, NAMES, WITHOUT_EFFECT, Asked, asked_of
from .served import ServedModel
from .spoken_replies import AskedSpeech, SpokenStream
from .tool_calls import Tools


def usage_of(choices: Sequence[Choice], prompts: int = 1) -> dict[str, Any]:
    """OpenAI's `usage`: the tokens of each prompt count once."""
    per_prompt = len(choices) // prompts
    prompt = sum(choice.prompt_tokens for choice in choices[::per_prompt])
    new = sum(choice.tokens for choice in choices)
    return {
        "prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new,
        "prompt_tokens_details": {"cached_tokens": sum(choice.reused for choice in choices[::per_prompt])},
        "completion_tokens_details": {"reasoning_tokens": sum(choice.thought_tokens for choice in choices)},
    }  # fmt: skip


@dataclass(frozen=True)
class Streaming:
    """Whether an answer is a stream; whether the usage comes at its end, and with each piece what it is so far."""

    on: bool
    usage: bool
    continuous: bool


def streaming_of(fields: Fields) -> Streaming:
    """`stream` and `stream_options`, with vLLM's continuous_usage_stats."""
    on, options = fields.flag("stream"), fields.object("stream_options")
    if options is None:
        return Streaming(on, False, False)
    if not on:
        raise fields.wrong("stream_options", "goes together with stream")
    usage, continuous = options.flag("include_usage"), options.flag("continuous_usage_stats")
    options.end(("include_obfuscation",))
    return Streaming(on, usage, usage and continuous)


# -- chat


class ChatAnswer:
    """The answers to a conversation: what comes of their texts, as pieces of a stream and as a whole. `scored`: with
    log-probabilities.
    """

    def __init__(
        self, request: Request, model: ServedModel, running: RunningTexts, prompt: Prompt, tools: Tools, count: int,
        scored: bool, streaming: Streaming,
    ) -> None:  # fmt: skip
        self._request, self._model, self._running = request, model, running
        self._scored, self._streaming = scored, streaming
        self._parsers = [AnswerParser(prompt, tools) for _ in range(count)]
        self._choices = [Choice(index, prompt_tokens=len(prompt.ids)) for index in range(count)]
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}

    def take(self, index: int, event: Event) -> Added:
        return self._parsers[index].take(self._request, self._choices[index], event, self._scored)

    async def chunks(self) -> AsyncGenerator[str, None]:
        begun = False
        async with aclosing(self._running.events()) as events:
            async for index, event in events:
                if not begun:
                    begun = True
                    for choice in self._choices:
                        yield self._chunk(choice, {"role": "assistant", "content": ""})
                choice = self._choices[index]
                thought, text, calls = self.take(index, event)
                scores = self.scores_of(event)
                if thought:
                    yield self._chunk(choice, {"reasoning_content": thought})
                if text or scores:
                    yield self._chunk(choice, {"content": text}, logprobs=scores)
                if calls:
                    yield self._chunk(choice, {"tool_calls": calls})
                if isinstance(event, Done):
                    yield self._chunk(choice, {}, choice.reason)
        for line in self.usage_lines():
            yield line
        yield DONE

    def events(self) -> AsyncGenerator[tuple[int, Event], None]:
        """As RunningTexts.events."""
        return self._running.events()

    def scores_of(self, event: Event) -> dict[str, Any] | None:
        """The log-probabilities of a token, if they are asked for."""
        if self._scored and isinstance(event, Token) and event.id is not None:
            return self._scores([event])
        return None

    def usage_lines(self) -> list[str]:
        """The piece with the usage, if it is asked for."""
        return [self._line([], {"usage": usage_of(self._choices)})] if self._streaming.usage else []

    def piece(self, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> str:
        """A piece of the first choice."""
        return self._chunk(self._choices[0], delta, reason, logprobs)

    @property
    def first(self) -> Choice:
        """The first choice, which is the only one of answers that are spoken."""
        return self._choices[0]

    def _chunk(self, choice: Choice, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None) -> str:
        piece = {"index": choice.index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        usage = usage_of(self._choices) if self._streaming.continuous else None
        return self._line([piece], {"usage": usage} if self._streaming.usage else {})

    def _line(self, choices: list[Any], more: dict[str, Any]) -> str:
        return data_line({**self._head, "object": "chat.completion.chunk", "choices": choices, **more})

    def _scores(self, tokens: Sequence[Token]) -> dict[str, Any]:
        return {"content": named_logprobs(self._model, tokens), "refusal": None}

    def whole(self, audio: dict[str, Any] | None = None) -> dict[str, Any]:
        """The complete answer; `audio`: that of a spoken one."""
        return {
            **self._head, "object": "chat.completion", "usage": usage_of(self._choices), "service_tier": None,
            "choices": [
                {
                    "index": choice.index, "finish_reason": choice.reason, "message": message_of(choice, audio),
                    "logprobs": self._scores(choice.logprobs) if self._scored else None,
                }
                for choice in self._choices
            ],
        }  # fmt: skip


def message_of(choice: Choice, audio: dict[str, Any] | None = None) -> dict[str, Any]:
    """The message of a complete answer. A spoken one has its text as the transcript of `audio`."""
    written = audio is None and (choice.text or not choice.calls)
    return {
        "role": "assistant", "content": choice.text if written else None, "refusal": None,
        **({} if audio is None else {"audio": audio}),
        **({"reasoning_content": choice.thoughts} if choice.thoughts else {}),
        **({"tool_calls": choice.calls} if choice.calls else {}),
    }  # fmt: skip


async def chat_completions(request: Request, context: Context) -> Response:
    fields = Fields(await context.json(request))
    name = fields.text("model")
    messages = messages_of(fields, context.spoken_texts.told)
    scored = fields.flag("logprobs")
    top = fields.whole("top_logprobs", None, 0, 20)
    if top is not None and not scored:
        raise fields.wrong("top_logprobs", "goes together with logprobs")
    asked = asked_of(fields, context.settings, (top or 0) if scored else None, fields.object("response_format"))
    count = fields.whole("n", 1, 1, MOST_TEXTS)
    streaming, priority, tools = streaming_of(fields), priority_of(fields), Tools(fields)
    variables = fields.mapping("chat_template_kwargs") or {}
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if fields.given(old):
            raise fields.wrong(old, f"is an old field that is not read here: use {new}", "unsupported_parameter")
    speech = AskedSpeech(fields, streaming.on, count)
    effort = fields.text("reasoning_effort")
    if effort is not None:
        variables = {"reasoning_effort": effort, **variables}
    fields.end(WITHOUT_EFFECT)
    chat = Chat(name, messages, with_forced_call(fields, asked, tools), tools, priority)
    reply = await speech.begin(request, context, messages) if speech.wanted else None
    model, prompt, running = await begin_chat(request, context, chat, lambda _: variables, count)
    if reply is not None:
        reply.writer = model.loaded
    answer = ChatAnswer(request, model, running, prompt, tools, count, scored, streaming)
    if streaming.on:
        source = answer.chunks() if reply is None else SpokenStream(answer, reply).chunks()
        return stream_of(context, running, source)
    await collect(request, running, answer.take)
    said = answer.first.text
    return JSONResponse(answer.whole(await reply.whole(request, said) if reply is not None and said else None))


# -- completions


def prompts_of(fields: Fields) -> list[str | list[int]]:
    """The prompts: a string, strings, tokens, or arrays of tokens."""
    value = fields.needed("prompt", fields.any("prompt"))
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
    model: ServedModel, prompts: Sequence[str | list[int]], options: SamplingOptions, asked: Asked, suffix: str | None,
    names: Mapping[str, str] = NAMES,
) -> list[Prompt]:  # fmt: skip
    """The prompts; with a `suffix`, of the texts between each of them and the suffix. `names`: as in Interface."""
    tokenizer = model.loaded.tokenizer
    stops = asked.stops(tokenizer)
    if suffix is not None:
        try:
            for text in (*prompts, suffix):
                model.runner.check_text(text)
            gaps = [between(tokenizer, str(prompt), suffix) for prompt in prompts]
        except PyappError as error:
            raise of_exception(error, names) from error
        ends = frozenset[int]() if asked.ignore_eos else gaps[0].stops
        return [Prompt(gap.ids, options, stops | ends, True) for gap in gaps]
    return [completion_prompt(model, prompt, options, stops) for prompt in prompts]


def legacy_logprobs(model: ServedModel, tokens: Sequence[Token], start: int) -> dict[str, Any]:
    """`logprobs` of completions. `start`: characters of the choice before the first of the tokens (below 0: those of
    the tokens before the choice). The first token of a prompt has none: nothing is before it.
    """
    text_of = model.loaded.tokenizer.token_bytes
    texts = [text_of(token.id).decode("utf-8", "replace") for token in tokens]
    offsets = [max(offset, 0) for offset in accumulate(map(len, texts[:-1]), initial=start)] if texts else []

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


@dataclass(frozen=True)
class Completion:
    """What a request for completions asks: `count` texts of each prompt, the best of `best`, with the `top` likeliest
    tokens in the place of each token (None: without log-probabilities). `echo`: the texts begin with their prompts.
    """

    name: str | None
    prompts: list[str | list[int]]
    suffix: str | None
    asked: Asked
    top: int | None
    count: int
    best: int
    echo: bool
    priority: int
    streaming: Streaming

    @property
    def scored(self) -> int | None:
        """As in Text: whether the tokens of the prompts have log-probabilities, too."""
        return self.top if self.echo else None


def completion_of(fields: Fields, context: Context) -> Completion:
    """The fields of a request."""
    name, prompts = fields.text("model"), prompts_of(fields)
    top = fields.whole("logprobs", None, 0, 20)
    asked = asked_of(fields, context.settings, top, fields.object("response_format"), most=16, least=0)
    count, priority, echo = fields.whole("n", 1, 1, MOST_TEXTS), priority_of(fields), fields.flag("echo")
    streaming = streaming_of(fields)
    best = fields.whole("best_of", count, 1, MOST_TEXTS)
    if best < count:
        raise fields.wrong("best_of", f"must be at least n, which is {count}, not {best}")
    if best > count and streaming.on:
        raise fields.wrong("best_of", "a stream cannot choose among texts: it must equal n")
    suffix = fields.text("suffix") or None
    if suffix is not None and (echo or not all(isinstance(prompt, str) for prompt in prompts)):
        raise fields.wrong("suffix", "goes together with a prompt of text, and without echo")
    fields.end(WITHOUT_EFFECT)
    if best * len(prompts) > MOST_TEXTS:
        raise fields.wrong("n", f"{best * len(prompts)} texts are too many; {MOST_TEXTS} are allowed")
    context.check_length([suffix or "", *(prompt for prompt in prompts if isinstance(prompt, str))], "prompt")
    return Completion(name, prompts, suffix, asked, top, count, best, echo, priority, streaming)


class CompletionAnswer:
    """The completions of prompts: what comes of their texts, as pieces of a stream and as a whole."""

    def __init__(
        self, request: Request, model: ServedModel, running: RunningTexts, asked: Completion, prompts: Sequence[Prompt]
    ) -> None:  # fmt: skip
        self._request, self._model, self._running, self._asked = request, model, running, asked
        self._count = len(prompts)
        text_of = model.loaded.tokenizer.decode
        starts = [(one if isinstance(one, str) else text_of(one)) if asked.echo else "" for one in asked.prompts]
        self._starts = [start for start in starts for _ in range(asked.best)]
        self._choices = [
            Choice(index, start, prompt_tokens=len(prompts[index // asked.best].ids))
            for index, start in enumerate(self._starts)
        ]
        self._keeps_logprobs = prompts[0].options.logprobs is not None
        self._head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time()),
                      "model": model.name}  # fmt: skip

    def take(self, index: int, event: Event) -> str:
        """The text that an event adds to a choice."""
        return self._choices[index].take(self._request, event, self._keeps_logprobs)

    async def chunks(self) -> AsyncGenerator[str, None]:
        written = [len(start) for start in self._starts]  # characters of each choice
        begun = False
        async with aclosing(self._running.events()) as events:
            async for index, event in events:
                if not begun:
                    begun = True
                    for number, start in enumerate(self._starts if self._asked.scored is None else ()):
                        if start:
                            yield self._chunk(number, start)
                text = self.take(index, event)
                scores = None
                if isinstance(event, Item):
                    before = self._added(index)
                    scores = legacy_logprobs(self._model, self._choices[index].prompt, -before)
                    written[index] = sum(map(len, scores["tokens"])) - before
                    text = self._starts[index]
                if self._asked.top is not None and isinstance(event, Token) and event.id is not None:
                    scores = legacy_logprobs(self._model, [event], written[index])
                    written[index] += sum(map(len, scores["tokens"]))
                if text or scores:
                    yield self._chunk(index, text, logprobs=scores)
                if isinstance(event, Done):
                    yield self._chunk(index, "", self._choices[index].reason)
        if self._asked.streaming.usage:
            yield data_line({**self._head, "choices": [], "usage": self._usage()})
        yield DONE

    def _chunk(self, index: int, text: str, reason: str | None = None, logprobs: Any = None) -> str:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        usage = self._usage() if self._asked.streaming.continuous else None
        more = {"usage": usage} if self._asked.streaming.usage else {}
        return data_line({**self._head, "choices": [choice], **more})

    def _usage(self) -> dict[str, Any]:
        return usage_of(self._choices, self._count)

    def whole(self) -> dict[str, Any]:
        """The complete answer: the best texts of each prompt."""
        best, chosen = self._asked.best, self._choices
        if best > self._asked.count:
            groups = [self._choices[first : first + best] for first in range(0, len(self._choices), best)]
            chosen = [
                choice
                for group in groups
                for choice in sorted(group, key=lambda choice: -choice.mean_logprob)[: self._asked.count]
            ]
        return {
            **self._head, "usage": self._usage(),
            "choices": [
                {"index": index, "text": choice.text, "finish_reason": choice.reason, "logprobs": self._scores(choice)}
                for index, choice in enumerate(chosen)
            ],
        }  # fmt: skip

    def _added(self, index: int) -> int:
        """Characters of a prompt's tokens that its text has not: the space that some tokenizers put before it."""
        token_bytes = self._model.loaded.tokenizer.token_bytes
        read, written = (
            b"".join(token_bytes(token.id) for token in self._choices[index].prompt),
            self._starts[index].encode(),
        )
        return len(read.removesuffix(written).decode("utf-8", "replace")) if read.endswith(written) else 0

    def _scores(self, choice: Choice) -> dict[str, Any] | None:
        if self._asked.top is None:
            return None
        start = -self._added(choice.index) if choice.prompt else len(self._starts[choice.index])
        return legacy_logprobs(self._model, [*choice.prompt, *choice.logprobs], start)


async def completions(request: Request, context: Context) -> Response:
    asked = completion_of(Fields(await context.json(request)), context)
    model = await context.model(request, asked.name, "generate")
    options = asked.asked.of(model, context.settings)
    if asked.best > asked.count and asked.top is None:
        options = replace(options, logprobs=0)  # they choose
    prompts = await context.aside(
        lambda: completion_prompts(model, asked.prompts, options, asked.asked, asked.suffix)
    )  # fmt: skip
    running = await submit(context, model, prompts, asked.best, "prompt", asked.priority, asked.scored)
    answer = CompletionAnswer(request, model, running, asked, prompts)
    if asked.streaming.on:
        return stream_of(context, running, answer.chunks())
    await collect(request, running, answer.take)
    return JSONResponse(answer.whole())
