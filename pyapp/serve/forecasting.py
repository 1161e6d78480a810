"""POST /v1/forecast: the next values of series, and their quantiles. /models/NAME takes the same body."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks

from .context import Context
from .fields import Fields
from .items import by_task

MOST_SERIES = 1 << 10  # of one request
MOST_VALUES = 1 << 20  # of all of them
LONGEST = 1 << 12  # values of a forecast
MOST_SAMPLES = 1 << 10


async def forecast(
    request: Request, context: Context, given: dict[str, Any] | None = None, name: str | None = None
) -> Response:
    """`name` and `given`: the model and the body, where another route has read them."""
    fields = Fields(await context.json(request) if given is None else given)
    name = fields.text("model") if name is None else name
    series = _series(fields)
    options: dict[str, Any] = {
        "horizon": fields.whole("horizon", None, 1, LONGEST), "samples": fields.whole("samples", None, 1, MOST_SAMPLES),
        "quantiles": fields.array("quantiles"), "seed": fields.whole("seed", 0, 0, (1 << 63) - 1),
        "frequency": fields.whole("frequency", 0, 0, 2),
    }  # fmt: skip
    fields.end(("model", "user"))
    model = await context.model(request, name, "forecast")
    # A model that reads several together may forecast some of them.
    count = len(series) // model.loaded.model.together * len(model.loaded.model.chosen)
    found = await by_task(request, context, model, count, partial(tasks.forecast, series, **options))
    return JSONResponse({"object": "list", "model": model.name, "data": [values for values in found if values]})


def _series(fields: Fields) -> dict[str, Any]:
    """The series by name: `series` is an array of numbers, an array of such, or an object with one under each name."""
    given = fields.needed("series", fields.any("series"))
    if isinstance(given, list):
        several = bool(given) and all(isinstance(part, list) for part in given)
        given = {str(number): part for number, part in enumerate(given if several else [given])}
    if not isinstance(given, dict) or not all(isinstance(part, list) for part in given.values()):
        raise fields.wrong("series", "must be an array of numbers, or several", "invalid_type")
    if len(given) > MOST_SERIES or sum(map(len, given.values())) > MOST_VALUES:
        raise fields.wrong("series", f"at most {MOST_SERIES:,} series of {MOST_VALUES:,} values are allowed")
    return given
