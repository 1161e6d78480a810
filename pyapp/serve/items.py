"""The work of requests whose answer has an Item for each text or file: given to the engine, and collected in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.requests import Request

from pyapp.events import Item

from .answers import Answer, cancelled_by_leaving
from .context import Context
from .running import Stream, checked, start_task
from .served import ServedModel

TEXTS = {"texts": "input"}  # pyapp's name of what is wrong, and that of requests


async def items_of(
    request: Request, context: Context, model: ServedModel, count: int, start: Callable[[Answer], None],
    names: Mapping[str, str] = TEXTS,
) -> list[Any]:  # fmt: skip
    """The values of `count` Items, in order. `start` gives the work to the engine; `names` as in values_of."""
    context.admit()
    request.scope["pyapp.log"]["texts"] = count
    answer = Answer(context.deliveries)
    context.in_flight += 1
    try:
        start(answer)
        async with cancelled_by_leaving(request, answer.cancel.set, context.settings.seconds):
            return await values_of(context, model, count, answer, names)
    finally:
        context.in_flight -= 1


async def values_of(
    context: Context, model: ServedModel, count: int, answer: Answer, names: Mapping[str, str] = TEXTS
) -> list[Any]:  # fmt: skip
    """The values of `count` Items of an answer, in order. `names`: those of settings, in the request."""
    found: list[Any] = [None] * count
    async with aclosing(checked(answer, names)) as events:
        async for event in events:
            if isinstance(event, Item):
                found[event.index] = event.values
    context.metrics.texts.labels(model.name).inc(count)
    return found


async def by_task(
    request: Request, context: Context, model: ServedModel, count: int, stream: Stream,
    names: Mapping[str, str] = TEXTS,
) -> list[Any]:  # fmt: skip
    """The values of the Items of a stream of pyapp.tasks; `names` as in values_of."""
    return await items_of(request, context, model, count, partial(start_task, context, model, stream), names)
