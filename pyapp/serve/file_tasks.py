"""Hugging Face's interface for tasks over pictures, videos and sounds: POST /models/NAME.

The body is the file, or an object with it in base64 as `inputs`, beside `parameters`. Answers have the form of each
task's specification: https://huggingface.co/docs/inference-providers/tasks/index (huggingface_hub's InferenceClient
reads them). A depth's picture comes with the depths of black and white.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.events import Event, Item
from pyapp.formats.png import encode_png
from pyapp.formats.source import BytesSource

from .answers import cancelled_by_leaving
from .context import Context
from .fields import Fields
from .pictures import picture_in
from .running import Running

MOST_LABELS = 1000
LONGEST_TEXT = 1 << 12  # tokens that are written about a picture
Values = Mapping[str, Any]


@dataclass(frozen=True)
class FileTask:
    """What a model does with a file: the stream of pyapp.tasks, how the `parameters` of a request become its arguments
    (after the file) and options, and how the values of its Item become the answer.
    """

    stream: Callable[..., AsyncGenerator[Event, None]]
    read: Callable[[Fields], tuple[list[Any], dict[str, Any]]]
    answer: Callable[[Values], Any]
    as_file: bool = False  # else its picture is read first


def _top(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    fields.text("function_to_apply", choices=("softmax",))
    return [], {"top": fields.whole("top_k", 5, 1)}


def _threshold(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    return [], {"threshold": fields.number("threshold", 0.5, 0, 1)}


def _candidates(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    labels = fields.texts("candidate_labels", MOST_LABELS)
    template = fields.text("hypothesis_template")
    return [labels], {"top": None} | ({} if template is None else {"template": template})


def _nothing(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    return [], {}


def _segmentation(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    fields.text("subtask", choices=("semantic",))
    return [], {}


def _given_labels(fields: Fields, usual: float | None) -> tuple[list[Any], dict[str, Any]]:
    """Labels of the request, and how probable what they name must be (None: as the model says)."""
    arguments, options = _candidates(fields)
    del options["top"]
    return arguments, options | {"threshold": fields.number("threshold", usual, 0, 1)}


def _points(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    """The place of an object, in pixels: `points` [x, y], for each a label (1: of the object, 0: not), and a `box`."""
    points, labels, box = fields.array("points", []), fields.array("labels"), fields.array("box")
    for name, places, count in (("points", points, 2), ("box", [] if box is None else [box], 4)):
        for place in places:
            numbers = isinstance(place, list) and len(place) == count
            if not numbers or not all(type(number) in (int, float) for number in place):
                raise fields.wrong(name, f"must have {count} numbers for each place", "invalid_type")
    if not points and box is None:
        raise fields.missing("points")
    if labels is not None and (len(labels) != len(points) or any(label not in (0, 1) for label in labels)):
        raise fields.wrong("labels", f"must be 1 or 0 for each of {len(points)} points")
    return [], {"points": points, "labels": labels, "box": box}


def _length(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    count = fields.whole("max_new_tokens", None, 1, LONGEST_TEXT)
    prompt = fields.text("prompt")
    options = {"max_new_tokens": count, "prompt": prompt}
    return [], {name: value for name, value in options.items() if value is not None}


def _labels(values: Values) -> Any:
    return values["labels"]


def _objects(values: Values) -> Any:
    found = []
    for entry in values["objects"]:
        box = dict(zip(("xmin", "ymin", "xmax", "ymax"), map(round, entry["box"]), strict=True))
        more = {"points": entry["points"]} if "points" in entry else {}
        found.append({"score": entry["score"], "label": entry["label"], "box": box} | more)
    return found


def _segments(values: Values) -> Any:
    """A mask for each label, a PNG file in base64: 255 where the picture shows it."""
    numbers, lengths = np.asarray(values["runs"]).T
    pixels = np.repeat(numbers, lengths).reshape(*values["size"], 1)  # (H, W, 1)
    return [
        {
            "score": entry.get("score"),
            "label": entry["label"],
            "share": entry["share"],
            "mask": _png(pixels == entry["number"]),
        }
        for entry in values["segments"]
    ]  # fmt: skip


def _png(inside: Any) -> str:
    return base64.b64encode(encode_png(inside.astype("uint8") * 255)).decode()


def _depth(values: Values) -> Any:
    """The picture of depths, a PNG file in base64 of 16 bits: 0 is `least`, 65535 is `most`."""
    return {"depth": values["png"], **{name: values[name] for name in ("least", "most", "metric")}}


def _text(values: Values) -> Any:
    return [{"generated_text": values["text"]}]


FILE_TASKS: Mapping[str, FileTask] = {
    "classify-image": FileTask(tasks.classify_images, _top, _labels),
    "match-image": FileTask(tasks.match_images, _candidates, _labels),
    "detect": FileTask(tasks.detect_objects, _threshold, _objects),
    "segment": FileTask(tasks.segment_images, _segmentation, _segments),
    "depth": FileTask(tasks.estimate_depth, _nothing, _depth),
    "image-to-text": FileTask(tasks.read_images, _length, _text),
    "detect-labels": FileTask(tasks.detect_labels, partial(_given_labels, usual=None), _objects),
    "segment-labels": FileTask(tasks.segment_labels, partial(_given_labels, usual=0.5), _segments),
    "cut-out": FileTask(tasks.cut_out_objects, _points, _segments),
    "classify-video": FileTask(tasks.classify_videos, _top, _labels, as_file=True),
    "classify-sound": FileTask(tasks.classify_sounds, _top, _labels, as_file=True),
    "label-sound": FileTask(tasks.label_moments, _threshold, _labels, as_file=True),
    "match-sound": FileTask(tasks.match_sounds, _candidates, _labels, as_file=True),
}


class Looking(Running):
    """What a model finds in a file."""

    names: Mapping[str, str] = {
        "template": "parameters.hypothesis_template", "labels": "parameters.candidate_labels",
        **{name: f"parameters.{name}" for name in ("threshold", "prompt", "max_new_tokens", "points", "box")},
    }  # fmt: skip


async def of_file(request: Request, context: Context, name: str | None) -> Response:
    """What a model finds in the picture, video or recording of a request. `name`: None for the first such model."""
    task = FILE_TASKS[context.models.find(name, tuple(FILE_TASKS)).task]
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    fields = Fields(await context.json(request) if kind == "application/json" else {})
    if kind == "application/json":
        data = _coded(fields)
    else:  # clients give files many types, and curl that of a form
        data = await context.body(request)
    parameters = fields.object("parameters") or Fields({}, "parameters")
    arguments, options = task.read(parameters)
    parameters.end()
    fields.end(("model", "options"))
    if not data:
        raise fields.missing("inputs")
    source: Any = (
        BytesSource(data, "inputs") if task.as_file else await context.aside(lambda: picture_in(data, "inputs"))
    )
    model = await context.model(request, name, *FILE_TASKS)
    context.admit()
    request.scope["pyapp.log"]["bytes"] = len(data)
    running = Looking(
        context, model, lambda cancel: task.stream([source], *arguments, model=model.loaded, cancel=cancel, **options)
    )
    async with cancelled_by_leaving(request, running.close, context.settings.seconds):
        async with aclosing(running.events()) as events:
            [values] = [event.values async for event in events if isinstance(event, Item)]
    return JSONResponse(await context.aside(lambda: task.answer(values)))


def _coded(fields: Fields) -> bytes:
    """The bytes of `inputs`: base64, or a data: URL of it."""
    coded = fields.text("inputs")
    if coded is None:
        raise fields.missing("inputs")
    return decoded(coded, fields, "inputs")


def decoded(coded: str, fields: Fields, name: str) -> bytes:
    """The bytes of a file in base64, or in a data: URL of it, which the field `name` gave."""
    if coded[:5].lower() == "data:":
        coded = coded.partition(",")[2]
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError:
        raise fields.wrong(name, "must be the bytes of a file in base64") from None
