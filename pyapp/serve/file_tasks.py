"""Hugging Face's interface for tasks over pictures, pages, videos and sounds: POST /models/NAME.

The body is the file, or an object with it in base64 as `inputs`, beside `parameters`. Answers have the form of each
task's specification: https://huggingface.co/docs/inference-providers/tasks/index (huggingface_hub's InferenceClient
reads them), and matches of points that of transformers' pipeline. A depth's picture comes with the depths of black and
white.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks
from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np
from pyapp.events import Item
from pyapp.formats.png import encode_png
from pyapp.formats.source import BytesSource
from pyapp.tasks.reading import LAYOUTS

from .context import Context
from .fields import Fields, decoded
from .pictures import picture_in
from .problems import Problem
from .running import RunningTask, Stream

MOST_LABELS = 1000
LONGEST_TEXT = 1 << 12  # tokens that are written about a picture
OF_PAGES = ("regions", "width", "height", "angle")  # what is told of a page beside its text
Values = Mapping[str, Any]
# What the object of a request gives beside its parameters: the names and bytes of files, and arguments of the stream
# before those of the parameters.
Given = tuple[list[tuple[str, bytes]], list[Any]]


def _coded(fields: Fields, name: str = "inputs") -> bytes:
    """The bytes of a field's file: base64, or a data: URL of it."""
    return decoded(fields.needed_text(name), fields, name)


def _one_file(fields: Fields) -> Given:
    """The file of `inputs`."""
    return [("inputs", _coded(fields))], []


def _question(fields: Fields) -> Given:
    """A picture and a `question` about it: beside `inputs`, as huggingface_hub sends them, or in it."""
    inside = not fields.given("question") and isinstance(fields.any("inputs"), dict)
    inputs = fields.needed_object("inputs") if inside else fields
    name = "image" if inside or fields.given("image") else "inputs"
    data, question = _coded(inputs, name), inputs.text("question")
    if not (question or "").strip():
        raise inputs.missing("question")
    if inside:
        inputs.end()
    return [(inputs.name(name), data)], [question]


def _two_files(fields: Fields) -> Given:
    """The files of `inputs`, an array of two."""
    coded = fields.needed("inputs", fields.array("inputs"))
    if len(coded) != 2:
        raise fields.wrong("inputs", f"must be an array of two pictures, not of {len(coded):,}")
    names = ["inputs[0]", "inputs[1]"]
    each = Fields(dict(zip(names, coded, strict=True)))
    return [(name, _coded(each, name)) for name in names], []


@dataclass(frozen=True)
class FileTask:
    """What a model does with a file: the stream of pyapp.tasks, how the `parameters` of a request become its arguments
    (after the file) and options, and how the values of its Item become the answer; `pages`: its Items, of which a
    file may have several, become an array.
    """

    stream: Stream
    read: Callable[[Fields], tuple[list[Any], dict[str, Any]]]
    answer: Callable[[Values], Any]  # bytes: a picture, as PNG
    as_file: bool = False  # else its picture is read first
    given: Callable[[Fields], Given] = _one_file
    pages: bool = False


def _top(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    fields.text("function_to_apply", choices=("softmax",))
    return [], {"top": fields.whole("top_k", 5, 1)}


def _threshold(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    return [], {"threshold": fields.number("threshold", 0.5, 0, 1)}


def _candidates(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    labels = fields.needed_texts("candidate_labels", MOST_LABELS)
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


def _boxes(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    """The `boxes` of the persons in a picture; without them one person fills it."""
    boxes = fields.array("boxes")
    return [], {} if boxes is None else {"boxes": [boxes]}


def _best_points(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    return [], {"top": fields.whole("top_k", None, 1), "descriptors": fields.flag("descriptors")}


def _best_matches(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    return [], {"top": fields.whole("top_k", None, 1)}


def _reading(fields: Fields) -> tuple[list[Any], dict[str, Any]]:
    options = {
        "layout": fields.text("layout", choices=LAYOUTS), "threshold": fields.number("threshold", None, 0, 1),
        "max_new_tokens": fields.whole("max_new_tokens", None, 1, LONGEST_TEXT), "password": fields.text("password"),
        "tables": fields.flag("tables", True), "straighten": fields.flag("straighten", True),
    }  # fmt: skip
    return [], {name: value for name, value in options.items() if value is not None}


def _labels(values: Values) -> Any:
    return values["labels"]


def _answers(values: Values) -> Any:
    return [{"answer": entry["label"], "score": entry["score"]} for entry in values["labels"]]


def _key_points(values: Values) -> Any:
    found = [{"x": x, "y": y, "score": score} for x, y, score in values["points"]]
    if "descriptors" not in values:
        return found
    return [point | {"descriptor": row} for point, row in zip(found, values["descriptors"], strict=True)]


def _matches(values: Values) -> Any:
    return [
        {"keypoint_image_0": {"x": x, "y": y}, "keypoint_image_1": {"x": u, "y": v}, "score": score}
        for x, y, u, v, score in values["matches"]
    ]


def _poses(values: Values) -> Any:
    found = []
    for person in values["objects"]:
        points = [
            {"label": name, "x": x, "y": y, "score": score}
            for name, (x, y, score) in zip(values["points"], person["points"], strict=True)
        ]
        found.append({"label": person["label"], "box": _box(person["box"]), "points": points})
    return found


def _objects(values: Values) -> Any:
    found = []
    for entry in values["objects"]:
        more = {"points": entry["points"]} if "points" in entry else {}
        found.append({"score": entry["score"], "label": entry["label"], "box": _box(entry["box"])} | more)
    return found


def _box(box: Any) -> dict[str, int]:
    return dict(zip(("xmin", "ymin", "xmax", "ymax"), map(round, box), strict=True))


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


def _page(values: Values) -> Any:
    return {"generated_text": values["text"], **{name: values[name] for name in OF_PAGES}}


def _vector(values: Values) -> Any:
    return values["embedding"]


def _picture(values: Values) -> Any:
    return base64.b64decode(values["png"])


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
    "answer-image": FileTask(tasks.answer_images, _top, _answers, given=_question),
    "key-points": FileTask(tasks.detect_points, _best_points, _key_points),
    "match-points": FileTask(
        lambda pictures, **more: tasks.match_points(pictures[0], pictures[1:], **more),
        _best_matches,
        _matches,
        given=_two_files,
    ),
    "pose": FileTask(tasks.estimate_poses, _boxes, _poses),
    "upscale": FileTask(tasks.upscale_images, _nothing, _picture),
    "embed-image": FileTask(tasks.embed_images, _nothing, _vector),
    "embed-sound": FileTask(tasks.embed_sounds, _nothing, _vector, as_file=True),
    "read": FileTask(tasks.read, _reading, _page, as_file=True, pages=True),
}


# Settings of tasks that requests give in `parameters` under the same name.
OF_PARAMETERS = (
    "threshold", "prompt", "max_new_tokens", "points", "box", "boxes", "layout", "password", "tables", "straighten",
)  # fmt: skip


class Looking(RunningTask):
    """What a model finds in a file."""

    names: Mapping[str, str] = {
        "template": "parameters.hypothesis_template", "labels": "parameters.candidate_labels",
        **{name: f"parameters.{name}" for name in OF_PARAMETERS},
        "images": "inputs",
    }  # fmt: skip


async def of_file(request: Request, context: Context, name: str | None) -> Response:
    """What a model finds in the picture, video or recording of a request. `name`: None for the first such model."""
    task = FILE_TASKS[context.models.find(name, tuple(FILE_TASKS)).task]
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        fields = Fields(await context.json(request))
        files, given = task.given(fields)
    else:  # clients give files many types, and curl that of a form
        fields = Fields({})
        files, given = [("inputs", await context.body(request))], []
        if task.given is not _one_file:
            raise Problem(
                "the body must be JSON: this model reads more than one file alone", param="inputs", code="invalid_type"
            )
    parameters = fields.parameters
    arguments, options = task.read(parameters)
    parameters.end()
    fields.end(("model", "options", "inputs"))
    for param, data in files:
        if not data:
            raise Fields({}).missing(param)
    sources: list[Any] = [
        BytesSource(data, param) if task.as_file else await context.aside(partial(picture_in, data, param))
        for param, data in files
    ]
    model = await context.model(request, name, *FILE_TASKS)
    context.admit()
    request.scope["pyapp.log"]["bytes"] = sum(len(data) for _, data in files)
    running = Looking(context, model, partial(task.stream, sources, *given, *arguments, **options))
    found = [item.values for item in await running.all_of(request, Item)]
    answers = await context.aside(lambda: [task.answer(values) for values in found])
    if task.pages:
        return JSONResponse(answers)
    [answer] = answers
    return Response(answer, media_type="image/png") if isinstance(answer, bytes) else JSONResponse(answer)
