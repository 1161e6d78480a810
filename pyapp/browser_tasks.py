"""The page's tasks that a first story and a first transcript do not need: fetched with the page's later parts."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import Any

from pyapp import tasks
from pyapp.browser_models import PageSource, bytes_of, settings_of, sources_of, text_files, with_model
from pyapp.engine.device import as_device
from pyapp.errors import ModelError
from pyapp.events import Cancel, Done, Item
from pyapp.formats.safe_json import json_object
from pyapp.formats.source import BytesSource
from pyapp.tasks.keeper import keeper

# By the page's task: the tasks of its models in pyapp.models._index, the usual one first. A model that is dropped on
# the page goes to the first of these that has one of its tasks (scripts/site.py).
MODEL_TASKS = {
    "chat": ("causal-lm", "image-text-to-text", "text-diffusion"),
    "generate": ("causal-lm", "text-diffusion"),
    "translate": ("seq2seq-lm",),
    "embed": ("features",),
    "image-to-text": ("image-to-text",),
    "read": ("image-to-text", "line-reading"),
    "detect": ("object-detection",),
    "segment": ("semantic-segmentation",),
    "cut-out": ("mask-generation",),
    "depth": ("depth-estimation",),
    "match-image": ("zero-shot-image-classification",),
    "classify-image": ("image-classification",),
    "transcribe": ("speech-recognition",),
    "speak": ("text-to-speech",),
    "forecast": ("time-series-forecasting",),
    "answer": ("question-answering",),
    "label-sound": ("audio-frame-classification",),
}


# -- files


def inspect(params: Any, cancel: Cancel) -> tasks.Events:
    return tasks.inspect(sources_of(params)["model"])


@tasks.task
async def check_config(params: Any, cancel: Cancel) -> tasks.Events:
    """Refuses the model of a config.json (`json`, its text) that `task` does not know, before any weight is there."""
    from pyapp.models.load import TEXT, module_of, task_of
    from pyapp.models.loading.heads import completed
    from pyapp.models.loading.speech import hears_samples
    from pyapp.models.loading.text_readers import LINE_READERS
    from pyapp.models.whisper.files import check_architecture

    settings = completed(json_object(params.json))
    if not settings:
        raise ModelError("this is not a configuration: a JSON object is expected", where=params.where)
    if params.task == "transcribe":
        if not hears_samples(settings):
            check_architecture(settings, params.where)
    elif params.task != "read" or settings.get("model_type") not in LINE_READERS:
        task = MODEL_TASKS[params.task][0]
        module_of(settings, params.where, task_of(settings) if task == TEXT else task)
    yield Done("complete", {"model_type": settings.get("model_type")})


@tasks.task
async def check_header(params: Any, cancel: Cancel) -> tasks.Events:
    """Refuses a GGUF file whose first bytes (`bytes`) name an architecture that no task here knows."""
    from pyapp.formats.gguf_header import architecture_of
    from pyapp.models._index import GGUF_ARCHITECTURES, TASKS

    name = architecture_of(params.bytes.to_bytes(), params.where)
    task = MODEL_TASKS[params.task][0]
    known = [key for key, module in GGUF_ARCHITECTURES.items() if task in TASKS[module]]
    if name is not None and name not in known and name != "pyapp":
        raise ModelError(
            f"the architecture {name!r:.60} is not known here", where=params.where,
            hint=f"Known in GGUF files: {', '.join(known) or 'none for this task'}",
        )  # fmt: skip
    yield Done("complete", {"architecture": name})


def loads(
    task: str | None, about: Callable[[Any], dict[str, Any]], then: str | None = None
) -> Callable[[Any, Cancel], tasks.Events]:
    """A task that loads a model before it is needed: Done carries its `name`, and what `about(model)` says. task: None:
    the request's `task`. then: a module that the model's first use needs, imported while the page shows the model.
    """

    def load(params: Any, cancel: Cancel) -> tasks.Events:
        @tasks.task
        async def work(model: Any) -> tasks.Events:
            yield Done("complete", {"name": model.name, **about(model)})
            if then is not None:
                import_module(then)

        return with_model(params.task if task is None else task, params, cancel, work)

    return load


# -- conversations


def load_chat(params: Any, cancel: Cancel) -> tasks.Events:
    model, tokenizer = text_files(params)
    return tasks.load_chat(model, tokenizer=tokenizer, cancel=cancel, **settings_of(params))


def chat(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `messages` and `options` of tasks.chat. The `image` of a part is the number of one of the `pictures`,
    which have a `name` and `bytes`.
    """
    values = json.loads(params.json)
    files = [BytesSource(bytes_of(picture.bytes), picture.name) for picture in params.pictures]
    parts = (message["content"] for message in values["messages"] if isinstance(message["content"], list))
    for part in (part for content in parts for part in content if part["type"] == "image"):
        part["image"] = files[part["image"]]

    def work(model: Any) -> tasks.Events:
        return tasks.chat(model, values["messages"], values["options"], plain=True, cancel=cancel)

    return with_model("generate", params, cancel, work)


# -- voices


def about_voice(model: Any) -> dict[str, Any]:
    """Its `config`, how many `speakers` it has, and the names of its `voices`, if they have such."""
    return {"config": model.config, "speakers": model.speakers, "voices": list(model.voices)}


def speak(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `text`, and `options` of tasks.speak."""
    values = json.loads(params.json)
    return with_model(
        "speak", params, cancel,
        lambda model: tasks.speak(values["text"], values.get("options"), model=model, cancel=cancel),
    )  # fmt: skip


# -- search


def packed(vector: Sequence[float]) -> str:
    """A vector as base64 of float32 numbers: a fifth of the length of a JSON list."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode("ascii")


def about_embedder(model: Any) -> dict[str, Any]:
    """What tasks.search.describe_embedder says, `probe` as base64."""
    from pyapp.tasks.search import describe_embedder

    known = describe_embedder(model)
    return {**known, "name": model.name, "probe": packed(known["probe"])}


def search(name: str) -> Callable[[Any, Cancel], tasks.Events]:
    """A task of tasks.search by name; `json` has `arguments` and `options`. Embeddings are sent as base64."""

    def start(params: Any, cancel: Cancel) -> tasks.Events:
        values = json.loads(params.json)

        @tasks.task
        async def work(model: Any) -> tasks.Events:
            from pyapp.tasks import search as module

            stream = getattr(module, name)(*values["arguments"], model=model, cancel=cancel, **values["options"])
            async with aclosing(stream) as events:
                async for event in events:
                    if isinstance(event, Item) and "embedding" in event.values:
                        event = Item(event.index, {**event.values, "embedding": packed(event.values["embedding"])})
                    yield event

        return with_model("embed", params, cancel, work)

    return start


# -- translation


def about_translator(model: Any) -> dict[str, Any]:
    """The `languages` that a text may have and be translated into (none of models for one pair of languages), and
    `prefixes`, texts that tell it what to do, if it has such.
    """
    from pyapp.tasks.texts import languages_of, prefixes_of

    return {"languages": languages_of(model.tokenizer), "prefixes": prefixes_of(model.settings)}


def translate(params: Any, cancel: Cancel) -> tasks.Events:
    """tasks.translate_text; `json` has the `text` and the `options`."""
    values = json.loads(params.json)
    return with_model(
        "translate", params, cancel,
        lambda model: tasks.translate_text(values["text"], model=model, cancel=cancel, **values["options"]),
    )  # fmt: skip


# -- series


def about_forecaster(model: Any) -> dict[str, Any]:
    """How many values of the past it `reads` and `needs`, and series `together`; the `horizon` that it was trained for,
    the `longest` one; the `levels` of quantiles that it knows (null: any); whether it `draws`; how many `frequencies`
    it knows.
    """
    names = ("reads", "needs", "together", "horizon", "longest", "levels", "draws", "frequencies")
    return {name: getattr(model.model, name) for name in names}


def forecast(params: Any, cancel: Cancel) -> tasks.Events:
    """tasks.forecast; `json` has the `series` by name, and the `options`."""
    values = json.loads(params.json)
    return with_model(
        "forecast", params, cancel,
        lambda model: tasks.forecast(values["series"], model=model, cancel=cancel, **values["options"]),
    )  # fmt: skip


# -- pictures


def read(params: Any, cancel: Cancel) -> tasks.Events:
    """Reads a picture: `pixels` of a canvas, row by row, `height`, `width`; `options` of tasks.read as JSON."""
    options = json.loads(params.options)

    def work(model: Any) -> tasks.Events:
        from pyapp.vision.reading import from_pixels

        grey = from_pixels(bytes_of(params.pixels), int(params.height), int(params.width), "L", params.name)
        return tasks.read([grey], model=model, cancel=cancel, **options)

    return with_model("read", params, cancel, work)


def look(params: Any, cancel: Cancel) -> tasks.Events:
    """Looks at a picture, as `read` gets it, for `task`; `options` of the task as JSON. They may have the name of the
    picture, by which the model remembers it.
    """
    options = json.loads(params.options)

    def work(model: Any) -> tasks.Events:
        from pyapp.tasks.pictures import LOOKS
        from pyapp.vision.reading import from_pixels

        image = None
        if options.get("picture") not in model.seen:
            image = from_pixels(bytes_of(params.pixels), int(params.height), int(params.width), "RGB", params.name)
        return LOOKS[params.task]([image], model=model, cancel=cancel, **options)

    return with_model(params.task, params, cancel, work)


def answer(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: a `question`, the `page` that it is about (values of an Item of tasks.read; the text of lines and cells
    may have been edited) and `options` of tasks.answer_from_pages. `pixels`, `height` and `width`: its picture as
    `read` gets it, for models that see pages. Each answer has the `corners` of its words, too.
    """
    values = json.loads(params.json)

    @tasks.task
    async def work(model: Any) -> tasks.Events:
        from pyapp.vision.page.corrections import corrected

        page = corrected(values["page"])
        lines = [line for region in page["regions"] for line in region["lines"]]
        words = [word for line in lines for word in line["words"] if word["text"].strip()]
        size = page["width"], page["height"]
        boxes = [[min(max(side, 0), size[i % 2]) for i, side in enumerate(word["box"])] for word in words]
        given = {"words": [word["text"] for word in words], "boxes": boxes, "width": size[0], "height": size[1]}
        if params.pixels:
            from pyapp.vision.reading import from_pixels

            given["image"] = from_pixels(bytes_of(params.pixels), int(params.height), int(params.width))
        stream = tasks.answer_from_pages([values["question"]], [given], model=model, cancel=cancel, **values["options"])
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, Item):
                    found = event.values["answers"]
                    places = [[word["corners"] for word in words[one["start"] : one["end"]]] for one in found]
                    answers = [one | {"corners": corners} for one, corners in zip(found, places, strict=True)]
                    event = Item(event.index, {"answers": answers})
                yield event

    return with_model("question-answering", params, cancel, work)


@tasks.task
async def export_pages(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `pages` (values of Items of tasks.read; the text of lines and cells may have been edited), their `names`,
    `format` (one of pyapp.vision.page.writers.FORMATS). Done carries `text`, the content of the file.
    """
    from pyapp.vision.page.corrections import corrected
    from pyapp.vision.page.writers import written

    values = json.loads(params.json)
    yield Done("complete", {"text": written(values["format"], list(map(corrected, values["pages"])), values["names"])})


# -- sounds


def label_sound(params: Any, cancel: Cancel) -> tasks.Events:
    """tasks.label_moments of the recording `audio`; `json` has the `options`."""
    options = json.loads(params.json)["options"]
    sound = PageSource(params.audio)
    return with_model(
        "label-sound", params, cancel, lambda model: tasks.label_moments([sound], model=model, cancel=cancel, **options)
    )


# -- transcripts


@tasks.task
async def export(params: Any, cancel: Cancel) -> tasks.Events:
    """`json`: `segments` of events (their text may have been edited), `format`, `language`, `duration`, `task`. Done
    carries `text`, the content of the file.
    """
    from pyapp.audio.transcript import Transcript
    from pyapp.audio.transcript_writers import format_transcript

    values = json.loads(params.json)
    yield Done("complete", {"text": format_transcript(Transcript.from_dict(values), values["format"])})


# -- the engine


@tasks.task
async def choose_card(params: Any, cancel: Cancel) -> tasks.Events:
    """Language models compute on the graphics card from now on: Done carries its `name`. ModelError without one."""
    from pyapp import webgpu

    if why := webgpu.reason():
        raise ModelError(why)
    card: Any = as_device("webgpu").backend
    card.foresee()
    keeper.devices["generate"] = "webgpu"
    yield Done("complete", {"name": card.name})


TASKS: dict[str, Callable[[Any, Cancel], tasks.Events]] = {
    "answer": answer,
    "answer.load": loads("question-answering", lambda model: {"sees": model.processor is not None}),
    "card": choose_card,
    "chat": chat,
    "chat.load": load_chat,
    "check.config": check_config,
    "check.header": check_header,
    "export": export,
    "forecast": forecast,
    "forecast.load": loads("forecast", about_forecaster),
    "inspect": inspect,
    "label-sound": label_sound,
    "label-sound.load": loads("label-sound", lambda model: {"labels": list(model.model.config.labels)}),
    "look": look,
    "look.load": loads(None, lambda model: {}, then="pyapp.tasks.pictures"),
    "read": read,
    "read.export": export_pages,
    "read.load": loads("read", lambda model: {}, then="pyapp.tasks.reading"),
    "search.index": search("index"),
    "search.load": loads("embed", about_embedder),
    "search.embed": search("vectors"),
    "search.sentences": search("nearest_sentences"),
    "speak": speak,
    "speak.load": loads("speak", about_voice),
    "translate": translate,
    "translate.load": loads("translate", about_translator),
}
