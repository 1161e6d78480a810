"""OpenAI's interface for pictures: /v1/images/generations and /v1/images/edits."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks
from pyapp.engine import Tensor
from pyapp.events import Item
from pyapp.models.diffusion.read_schedule import NAMES as SCHEDULES
from pyapp.models.diffusion.sampling import SEEDS, SIDES

from .answers import data_line
from .context import Context, upload_of
from .fields import Fields
from .pictures import picture_in
from .problems import Problem
from .running import RunningTask, stream_of

MOST = 10  # pictures of a request
STEPS = 1000
FILES = ("image", "image[]", "mask")
# Of a form, whose values are texts.
NUMBERS = ("n", "seed", "steps", "guidance", "true_cfg_scale", "strength", "partial_images")
WITHOUT_EFFECT = ("user", "quality", "style", "moderation", "output_compression", "input_fidelity", "partial_images")


async def generations(request: Request, context: Context) -> Response:
    """Pictures of a text."""
    return await _drawn(request, context, Fields(await context.json(request)), {}, "image_generation")


async def edits(request: Request, context: Context) -> Response:
    """A picture that is changed as a text says, or filled in where a mask is transparent."""
    form = await context.form(request, files=2)
    try:
        given = {name: form.get(name) for name in form if name not in FILES}
        fields = Fields({name: _number(name, value) for name, value in given.items()})
        if "image[]" in form and "image" in form or len(form.getlist("image") + form.getlist("image[]")) > 1:
            raise Problem("image: one picture can be changed", param="image", code="unsupported_value")
        data = await upload_of(form, "image[]" if "image[]" in form else "image").read()
        mask = await upload_of(form, "mask").read() if "mask" in form else None
    finally:
        await form.close()
    pictures = {"image": await context.aside(lambda: picture_in(data, "image"))}
    opacity = await context.aside(lambda: _opacity(data if mask is None else mask, "image" if mask is None else "mask"))
    if mask is not None or int(opacity.amin()) < 255:
        pictures["mask"] = 255 - opacity
    return await _drawn(request, context, fields, pictures, "image_edit")


async def of_inputs(request: Request, context: Context, given: dict[str, Any]) -> Response:
    """A PNG file of the text `inputs`, as Hugging Face's clients ask for it. `given`: the body."""
    fields = Fields(given)
    prompt, parameters = fields.needed_text("inputs"), fields.parameters
    context.check_length([prompt], "inputs")
    options = {
        "seed": parameters.whole("seed", None, 0, SEEDS - 1), "negative_prompt": parameters.text("negative_prompt"),
        "steps": parameters.whole("num_inference_steps", None, 1, STEPS),
        "guidance": parameters.number("guidance_scale", None, 0, 100),
        "height": parameters.whole("height", None, 1, SIDES), "width": parameters.whole("width", None, 1, SIDES),
        "schedule": parameters.text("scheduler", None, tuple(SCHEDULES)),
    }  # fmt: skip
    parameters.end()
    fields.end(("model", "options"))
    options = {name: value for name, value in options.items() if value is not None}
    model = await context.model(request, None, "imagine")
    context.admit()
    request.scope["pyapp.log"] |= {"characters": len(prompt), "pictures": 1}
    [item] = await Drawing(context, model, partial(tasks.imagine, [prompt], **options)).all_of(request, Item)
    return Response(base64.b64decode(item.values["png"]), media_type="image/png")


def _number(name: str, value: Any) -> Any:
    """The value of a form's field. Problem for a file, and for a text that is not a number where one is needed."""
    if isinstance(value, UploadFile):
        raise Problem(f"{name:.80}: must not be a file", param=name[:80], code="invalid_type")
    if name == "stream":
        return {"true": True, "false": False}.get(str(value).lower(), value)
    if name not in NUMBERS:
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise Problem(f"{name}: must be a number", param=name, code="invalid_type")


def _opacity(data: bytes, param: str) -> Tensor:
    """uint8 (H, W, 1): 0 where a picture is transparent."""
    return picture_in(data, param, "RGBA").narrow(2, 3, 1).contiguous()


async def _drawn(
    request: Request, context: Context, fields: Fields, pictures: Mapping[str, Tensor], kind: str
) -> Response:  # fmt: skip
    prompt, name = fields.needed_text("prompt"), fields.text("model")
    context.check_length([prompt], "prompt")
    count = fields.whole("n", 1, 1, MOST)
    if fields.text("response_format", "b64_json", ("b64_json", "url")) == "url":
        raise fields.wrong("response_format", "pictures are in the answer: ask for b64_json", "unsupported_value")
    fields.text("output_format", "png", ("png",))
    fields.text("background", "auto", ("auto", "opaque"))
    stream = fields.flag("stream")
    options: dict[str, Any] = {
        "seed": fields.whole("seed", None, 0, SEEDS - 1), "steps": fields.whole("steps", None, 1, STEPS),
        "guidance": fields.number("guidance", None, 0, 100), "negative_prompt": fields.text("negative_prompt"),
        "true_cfg_scale": fields.number("true_cfg_scale", None, 1, 100),
        "schedule": fields.text("schedule", None, tuple(SCHEDULES)), **_size(fields),
    }  # fmt: skip
    if pictures:
        options["strength"] = fields.number("strength", None, 0, 1)
    fields.end(WITHOUT_EFFECT)
    options = {name: value for name, value in options.items() if value is not None}
    model = await context.model(request, name, "imagine")
    context.admit()
    request.scope["pyapp.log"] |= {"characters": len(prompt), "pictures": count}
    running = Drawing(context, model, partial(tasks.imagine, [prompt] * count, **pictures, **options))
    if stream:
        return stream_of(context, running, running.lines(kind))
    items = await running.all_of(request, Item)
    data = [{"b64_json": item.values["png"]} for item in items]
    return JSONResponse({"created": int(time.time()), "data": data, **_about(items[-1])})


def _size(fields: Fields) -> dict[str, int]:
    """The height and the width that a request asks for; none for the usual ones."""
    size = fields.text("size", "auto")
    if size == "auto":
        return {}
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", size)
    width, height = map(int, match.groups()) if match else (0, 0)
    if not (1 <= width <= SIDES and 1 <= height <= SIDES):
        raise fields.wrong("size", f"must be auto, or as 512x512, to {SIDES}x{SIDES}, not {size!r:.40}")
    return {"height": height, "width": width}


class Drawing(RunningTask):
    """Pictures that are drawn."""

    names: Mapping[str, str] = {"height": "size", "width": "size", "prompts": "prompt"}

    def count(self, results: Mapping[str, Any]) -> None:
        self._context.metrics.drawn.labels(self._model.name).inc(results["count"])

    async def lines(self, kind: str) -> AsyncGenerator[str, None]:
        """OpenAI's events: one for each picture when it is done."""
        async with aclosing(self.events()) as events:
            async for event in events:
                if isinstance(event, Item):
                    made = {
                        "type": f"{kind}.completed",
                        "b64_json": event.values["png"],
                        "created_at": int(time.time()),
                    }
                    made["quality"] = "auto"  # OpenAI's types demand it
                    yield data_line(made | _about(event))


def _about(item: Item) -> dict[str, Any]:
    """What an answer says of a picture."""
    height, width = item.values["size"]
    return {"background": "opaque", "output_format": "png", "size": f"{width}x{height}"}
