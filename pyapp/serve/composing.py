"""Music of texts, as Hugging Face's clients ask for it: POST /models/NAME with `inputs`, a WAVE file as the answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pyapp import tasks
from pyapp.audio.composing import MOST_SECONDS, ComposeOptions
from pyapp.audio.sound_files import FORMATS, encoded
from pyapp.events import Sound
from pyapp.formats.source import BytesSource

from .context import Context
from .fields import Fields, decoded
from .running import RunningTask
from .speaking import form_of

SEEDS = 1 << 63


class Composing(RunningTask):
    """Music that is made."""

    names: Mapping[str, str] = {
        "text": "inputs", "melody": "parameters.melody", "guidance": "parameters.guidance_scale",
        **{name: f"parameters.{name}" for name in ("seconds", "seed", "temperature", "top_k")},
    }  # fmt: skip

    def count(self, results: Mapping[str, Any]) -> None:
        self._context.metrics.composed.labels(self._model.name).inc(results["duration"])


async def of_inputs(request: Request, context: Context, given: dict[str, Any]) -> Response:
    """The music that the text `inputs` describes. `given`: the body."""
    fields = Fields(given)
    text, parameters = fields.needed_text("inputs"), fields.parameters
    context.check_length([text], "inputs")
    usual = ComposeOptions()
    options = ComposeOptions(
        seconds=parameters.number("seconds", usual.seconds, 0.05, MOST_SECONDS),
        seed=parameters.whole("seed", usual.seed, 0, SEEDS - 1),
        guidance=parameters.number("guidance_scale", usual.guidance, 1, 100),
        temperature=parameters.number("temperature", usual.temperature, 0, 100),
        top_k=parameters.whole("top_k", usual.top_k, 1, 1 << 20),
    )
    coded = parameters.text("melody")
    melody = None if coded is None else BytesSource(decoded(coded, parameters, "melody"), "parameters.melody")
    form = form_of(parameters, "wav")
    parameters.end()
    fields.end(("model", "options"))
    model = await context.model(request, None, "compose")
    context.admit()
    request.scope["pyapp.log"]["characters"] = len(text)
    running = Composing(context, model, partial(tasks.compose, text, options, melody=melody))
    [sound] = await running.all_of(request, Sound)
    data = await context.aside(lambda: encoded(sound.pcm, sound.rate, form))
    return Response(data, media_type=FORMATS[form].media)
