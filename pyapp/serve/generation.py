"""The texts that a request asks a language model for: their prompts, their events, and what is reported of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from time import perf_counter
from typing import Any

from starlette.requests import Request

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.events import Cancel, Done, Error, Event, Item, Token
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.pictures import Known

from .answers import cancelled_by_leaving
from .context import Context
from .fields import Fields
from .problems import Problem, PromptTooLong, of_event, of_exception
from .sampling import COMPLETIONS, Interface, reason_of
from .served import ServedModel
from .tool_calls import Tools
from .writing import Text


@dataclass(eq=False)
class Choice:
    """One text of an answer: its parts so far."""

    index: int
    text: str = ""
    thoughts: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[Token] = field(default_factory=list)
    prompt: list[Token] = field(default_factory=list)  # its tokens with their log-probabilities, if asked for
    reason: str = ""  # OpenAI's finish_reason
    ended: str = ""  # the reason of Done
    stop: str | None = None  # the stop string that ended it
    tokens: int = 0
    thought_tokens: int = 0  # those of them that belong to thoughts and their tags
    prompt_tokens: int = 0
    reused: int = 0

    @property
    def mean_logprob(self) -> float:
        """The mean log-probability of the new tokens, by which best_of chooses."""
        return sum(token.logprob or 0.0 for token in self.logprobs) / max(len(self.logprobs), 1)

    def take(self, request: Request, event: Event, scored: bool = True) -> str:
        """Notes an event of the text; what it adds to it. `scored`: the log-probabilities of its tokens are kept."""
        if isinstance(event, Item):
            self.prompt = list(event.values["tokens"])
        elif isinstance(event, Token):
            if event.id is not None:
                self.tokens += 1
                self.logprobs += [event] if scored else []
            self.text += event.text
            return event.text
        elif isinstance(event, Done):
            self.end(request, event)
        return ""

    def end(self, request: Request, done: Done) -> None:
        """Notes the end of the text, also in the log."""
        self.reason, self.ended = reason_of(done.reason), done.reason
        self.stop = done.results.get("stop_string")
        self.tokens = done.results.get("new_tokens", 0)
        self.prompt_tokens = done.results.get("prompt_tokens", 0)
        self.reused = done.results.get("reused_tokens", 0)
        log = request.scope["pyapp.log"]
        log["prompt_tokens"] = log.get("prompt_tokens", 0) + self.prompt_tokens
        log["new_tokens"] = log.get("new_tokens", 0) + self.tokens
        log["reason"] = done.reason


@dataclass(frozen=True)
class Prompt:
    """What a model is to continue."""

    ids: list[int]
    options: SamplingOptions
    stops: frozenset[int]
    continuing: bool
    rendered: str = ""  # the text of a conversation
    plain: bool = False  # a conversation without a chat template
    known: Known = field(default_factory=dict)  # the vectors of its pictures


class RunningTexts:
    """The texts of one request. `close` cancels those that are not complete, and gives their places free."""

    def __init__(self, context: Context, model: ServedModel, form: Any, interface: Interface) -> None:
        self.context, self.model, self._form, self._interface = context, model, form, interface
        self._cancels: list[Cancel] = []
        self._events: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()
        self._tokens = self._bytes = 0
        self._open = True

    def add(self, prompt: Prompt, count: int, priority: int, scored: int | None = None) -> None:
        """`count` texts of a prompt, with seeds one after the other; `scored` as in Text."""
        held = bytes_of(prompt)
        self._bytes += held
        self.context.bytes_of_pictures += held
        for number in range(count):
            options, cancel = prompt.options, Cancel()
            if options.seed is not None:
                options = replace(options, seed=(options.seed + number) % (1 << 64))
            emit = self._emitter(len(self._cancels), cancel)
            self._cancels.append(cancel)
            self.context.in_flight += 1
            self.context.tokens_in_flight += len(prompt.ids)
            self._tokens += len(prompt.ids)
            text = Text(
                prompt.ids, options, prompt.stops, emit, prompt.continuing, cancel, priority, self._form, scored,
                prompt.known,
            )  # fmt: skip
            self.context.models.submit(self.model, text)

    def _emitter(self, index: int, cancel: Cancel) -> Callable[[Event], None]:
        """What takes the events of a text on the engine's thread."""
        post, put = self.context.deliveries.post, self._events.put_nowait

        def emit(event: Event) -> None:
            if not post(put, (index, event)):
                cancel.set()

        return emit

    def close(self) -> None:
        if self._open:
            self._open = False
            self.context.in_flight -= len(self._cancels)
            self.context.tokens_in_flight -= self._tokens
            self.context.bytes_of_pictures -= self._bytes
            for cancel in self._cancels:
                cancel.set()

    async def events(self) -> AsyncGenerator[tuple[int, Event], None]:
        """(index of the text, event) as they come. Problem for an Error. Counts for the metrics."""
        metrics, name = self.context.metrics, self.model.name
        first, between = metrics.first.labels(name).observe, metrics.between.labels(name).observe
        start = perf_counter()
        last: dict[int, float] = {}
        left = len(self._cancels)
        try:
            while left:
                index, event = await self._events.get()
                if isinstance(event, Error):
                    raise of_event(event, names=self._interface.names)
                if isinstance(event, Token) and event.id is not None:
                    now = perf_counter()
                    if index in last:
                        between(now - last[index])
                    else:
                        first(now - start)
                    last[index] = now
                left -= isinstance(event, Done)
                yield index, event
        finally:
            self.close()


async def submit(
    context: Context, model: ServedModel, prompts: Sequence[Prompt], count: int, param: str, priority: int = 0,
    scored: int | None = None, interface: Interface = COMPLETIONS, tools: Tools | None = None,
) -> RunningTexts:  # fmt: skip
    """`count` texts of each prompt, which the field `param` gave. Those with a lower priority go first. `scored` as in
    Text. `tools`: those that the form of the texts may be of.
    """
    for prompt in prompts:
        try:
            model.runner.check(prompt.ids, prompt.options)
        except PromptTooLong as error:
            raise of_exception(error, {"prompt": param}) from None
    form = None
    if prompts[0].options.has_form:
        try:
            form = await context.aside(lambda: model.runner.form_of(prompts[0].options))
        except PyappError as error:
            if tools is not None and tools.forced:
                error = tools.in_request(error, interface.parameters)
            raise of_exception(error, interface.names) from error
    pictures = sum(map(bytes_of, prompts))
    context.admit(count * len(prompts), count * sum(len(prompt.ids) for prompt in prompts), pictures)
    running = RunningTexts(context, model, form, interface)
    for prompt in prompts:
        running.add(prompt, count, priority, scored)
    return running


def bytes_of(prompt: Prompt) -> int:
    """The bytes of a prompt's pictures."""
    return sum(picture.nbytes for picture, number in prompt.known.values() if number == 0)


def priority_of(fields: Fields) -> int:
    """vLLM's `priority`: requests with a lower one go first."""
    found: int = fields.whole("priority", 0, -(1 << 31), (1 << 31) - 1)
    return found


async def collect(request: Request, running: RunningTexts, take: Callable[[int, Event], Any]) -> None:
    """Takes all events; a client that leaves cancels the texts."""
    async with cancelled_by_leaving(request, running.close, running.context.settings.seconds):
        async with aclosing(running.events()) as events:
            async for index, event in events:
                take(index, event)
                if isinstance(event, Done) and event.reason == "cancelled":
                    raise Problem("the client has left", status=499)
