"""Hugging Face's interface for tasks over texts: POST /models/NAME.

Requests and answers have the form of each task's specification:
https://huggingface.co/docs/inference-providers/tasks/index (huggingface_hub's InferenceClient sends and reads them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pyapp import tasks
from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.text.generation.sequence_to_sequence import SearchOptions
from pyapp.text.spans import AGGREGATIONS, softmax

from .context import Context
from .fields import Fields, decoded
from .file_tasks import MOST_LABELS
from .items import by_task
from .pictures import picture_in
from .problems import of_exception
from .running import Stream
from .served import ServedModel
from .vectors import MOST_INPUTS

LONGEST_TEXT = 1 << 12  # tokens that are written for a text
TEMPLATE = "This example is {}."  # of transformers' pipeline
Values = Mapping[str, Any]


@dataclass(frozen=True)
class TextTask:
    """What a model does with texts: the stream of pyapp.tasks, how the `parameters` of a request become its options,
    and how the values of an Item become the answer.
    """

    stream: Stream
    read: Callable[[Fields], dict[str, Any]]
    answer: Callable[[Values], Any]


def _top(fields: Fields) -> dict[str, Any]:
    return {"top": fields.whole("top_k", 5, 1)}


def _aggregation(fields: Fields) -> dict[str, Any]:
    ignored = fields.texts("ignore_labels", MOST_LABELS)
    found = {"aggregation": fields.text("aggregation_strategy", "none", AGGREGATIONS)}
    return found | ({} if ignored is None else {"ignore": ignored})


def _writing(fields: Fields) -> dict[str, Any]:
    """Languages, and how the text is sought: `generate_parameters`, or the same beside them."""
    inner = fields.object("generate_parameters") or Fields({}, fields.name("generate_parameters"))
    options: dict[str, Any] = {}
    for one in (fields, inner):
        options |= {
            "max_new_tokens": one.whole("max_new_tokens", None, 1, LONGEST_TEXT),
            "num_beams": one.whole("num_beams", None, 1, 64), "length_penalty": one.number("length_penalty"),
            "no_repeat_ngram_size": one.whole("no_repeat_ngram_size", None, 0, 1000),
        }  # fmt: skip
        options = {name: value for name, value in options.items() if value is not None}
    inner.end()
    languages = {"source": fields.text("src_lang"), "target": fields.text("tgt_lang"), "prefix": fields.text("prefix")}
    fields.flag("clean_up_tokenization_spaces")
    fields.text("truncation", choices=("longest_first", "only_first"))
    return options | {name: value for name, value in languages.items() if value is not None}


def _words(values: Values) -> Any:
    """The candidates for one masked word; for several, an array of them for each."""
    found = [
        [{"score": word["score"], "token": word["id"], "token_str": word["word"], "sequence": word["text"]}
         for word in words]
        for words in values["masks"]
    ]  # fmt: skip
    return found[0] if len(found) == 1 else found


def _entities(values: Values) -> Any:
    return [
        {"entity_group": span["label"], **{name: span[name] for name in ("score", "word", "start", "end")}}
        for span in values["entities"]
    ]


def _written(values: Values) -> Any:
    """By the names that the tasks give to it: what a model was trained for is not in its files."""
    return dict.fromkeys(("translation_text", "summary_text", "generated_text"), values["text"])


TEXT_TASKS: Mapping[str, TextTask] = {
    "fill-mask": TextTask(tasks.fill_mask, _top, _words),
    "token-classification": TextTask(tasks.label, _aggregation, _entities),
    "translate": TextTask(tasks.translate, _writing, _written),
}
ANSWERS, LABELS = "question-answering", "token-classification"
# pyapp's names of what may be wrong, and those of requests.
NAMES = {
    "texts": "inputs", "top": "parameters.top_k", "source": "parameters.src_lang", "target": "parameters.tgt_lang",
    "questions": "inputs.question", "contexts": "inputs.context", "longest": "parameters.max_answer_len",
    "pages": "parameters.word_boxes",
    **{name: f"parameters.{name}" for name in ("max_new_tokens", "num_beams", "prefix")},
}  # fmt: skip


async def of_text(request: Request, context: Context, name: str | None, given: dict[str, Any]) -> Response:
    """What a model finds in the texts of a request. `name`: None for the first such model; `given`: the body."""
    known = (*TEXT_TASKS, ANSWERS)
    kind = context.models.find(name, known).task
    fields = Fields(given)
    parameters = fields.parameters
    if kind == ANSWERS:
        return await _answered(request, context, name, fields, parameters)
    if kind == LABELS and isinstance(fields.any("inputs"), dict):
        return await _labelled(request, context, name, fields, parameters)
    task, alone = TEXT_TASKS[kind], isinstance(fields.any("inputs"), str)
    texts = fields.needed_texts("inputs", MOST_INPUTS)
    options = task.read(parameters)
    parameters.end()
    fields.end(("model", "options"))
    context.check_length(texts, "inputs")
    model = await context.model(request, name, kind)
    if kind == "translate":
        check_search(model, options)
    found = [task.answer(values) for values in await _items(request, context, model, texts, task.stream, options)]
    return JSONResponse(found[0] if alone and kind != "translate" else found)


def check_search(model: ServedModel, options: Mapping[str, Any]) -> None:
    """Problem for what a search of this model cannot be told; its language is checked later."""
    of_search = {name: value for name, value in options.items() if name not in ("source", "target", "prefix")}
    try:
        SearchOptions.from_files(model.loaded.settings, model.loaded.generation, of_search)
    except PyappError as error:
        raise of_exception(error, NAMES) from error


async def _items(
    request: Request, context: Context, model: ServedModel, texts: list[str], stream: Callable[..., Any],
    options: Mapping[str, Any],
) -> list[Any]:  # fmt: skip
    return await by_task(request, context, model, len(texts), partial(stream, texts, **options), NAMES)


async def _answered(
    request: Request, context: Context, name: str | None, fields: Fields, parameters: Fields
) -> Response:  # fmt: skip
    """The answers to a question in a text, or on the `image` of a page: one as an object, several as an array; those on
    a page always as an array.
    """
    inputs = fields.needed_object("inputs")
    on_page = inputs.has("image") or parameters.has("word_boxes")
    question, text = inputs.text("question"), None if on_page else inputs.text("context")
    page = await _page(context, inputs, parameters) if on_page else None
    inputs.end()
    for key, value in (("question", question), *([] if on_page else [("context", text)])):
        if not (value or "").strip():
            raise inputs.missing(key)
    top = parameters.whole("top_k", 1, 1, MOST_LABELS)
    options = {"top": top, "impossible": parameters.flag("handle_impossible_answer")}
    if (longest := parameters.whole("max_answer_len", None, 1, 1 << 16)) is not None:
        options["longest"] = longest
    parameters.end(("doc_stride", "max_seq_len", "max_question_len", "align_to_words", "lang"))
    fields.end(("model", "options"))
    context.check_length([part for part in (question, text) if part is not None], "inputs")
    model = await context.model(request, name, ANSWERS)
    if on_page:
        stream = partial(tasks.answer_from_pages, [question], [page], **options)
    else:
        stream = partial(tasks.answer, [question], [text], **options)
    [values] = await by_task(request, context, model, 1, stream, NAMES)
    found = values["answers"]
    if on_page:  # the last word of an answer, as in transformers' pipeline
        return JSONResponse([answer | {"end": answer["end"] - 1} for answer in found])
    return JSONResponse(found[0] if top == 1 and found else found)


async def _labelled(
    request: Request, context: Context, name: str | None, fields: Fields, parameters: Fields
) -> Response:  # fmt: skip
    """The labelled parts of a page: as those of a text, with the box of each, and with words as its start and end."""
    inputs = fields.needed_object("inputs")
    if not inputs.has("image") and not parameters.has("word_boxes"):
        raise inputs.missing("image")
    page = await _page(context, inputs, parameters)
    inputs.end()
    options = _aggregation(parameters)
    if not parameters.given("aggregation_strategy"):
        del options["aggregation"]  # words are labelled by their first tokens
    parameters.end()
    fields.end(("model", "options"))
    model = await context.model(request, name, LABELS)
    [values] = await by_task(request, context, model, 1, partial(tasks.label_on_pages, [page], **options), NAMES)
    boxes = [{"box": span["box"]} for span in values["entities"]]
    return JSONResponse([span | box for span, box in zip(_entities(values), boxes, strict=True)])


async def _page(context: Context, inputs: Fields, parameters: Fields) -> Any:
    """The picture of a page, or its words with their boxes in thousandths, `word_boxes`, beside the picture."""
    coded, boxes = inputs.text("image"), parameters.array("word_boxes")
    picture: Any = None
    if coded is not None:
        data = decoded(coded, inputs, "image")
        picture = await context.aside(lambda: picture_in(data, inputs.name("image")))
    if boxes is None:
        return picture
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in boxes):
        raise parameters.wrong("word_boxes", "must have pairs of a word and its box", "invalid_type")
    return {"words": [pair[0] for pair in boxes], "boxes": [pair[1] for pair in boxes], "image": picture}


# -- labels that a request gives, by a classifier that was trained to compare two texts


def is_zero_shot(given: Mapping[str, Any]) -> bool:
    """Whether a request for a classifier gives the labels itself."""
    parameters = given.get("parameters")
    return isinstance(parameters, dict) and "candidate_labels" in parameters


async def with_given_labels(
    request: Request, context: Context, name: str | None, given: dict[str, Any]
) -> Response:  # fmt: skip
    """Labels of the request with probabilities: how surely a text entails the sentence of each, by a model of natural
    language inference (Yin et al., 2019, arXiv 1909.00161). As transformers' pipeline: the labels' probabilities add up
    to 1, unless with `multi_label`, where each label is entailed or contradicted.
    """
    fields = Fields(given)
    alone, texts = isinstance(fields.any("inputs"), str), fields.needed_texts("inputs", MOST_INPUTS)
    parameters = fields.parameters
    labels = parameters.needed_texts("candidate_labels", MOST_LABELS)
    template, several = parameters.text("hypothesis_template", TEMPLATE), parameters.flag("multi_label")
    parameters.end()
    fields.end(("model", "options"))
    if not labels or not all(labels):
        raise parameters.wrong("candidate_labels", "has no label, or an empty one")
    if "{}" not in template:
        raise parameters.wrong("hypothesis_template", "must have {} where the label stands")
    if len(texts) * len(labels) > MOST_INPUTS:
        raise fields.wrong("inputs", f"{len(texts) * len(labels):,} pairs with labels; {MOST_INPUTS:,} are allowed")
    context.check_length([*texts, *labels], "inputs")
    model = await context.model(request, name, "classify")
    names = [label.lower() for label in model.loaded.model.config.labels]
    entails = next((label for label in names if label.startswith("entail")), None)
    if entails is None or len(names) < 2:
        shown = ", ".join(names[:10])
        raise parameters.wrong("candidate_labels", f"the model has labels of its own ({shown}) and compares no texts")
    contradicts = next((label for label in names if label.startswith("contra")), None)
    denied = contradicts or next(label for label in names if label != entails)
    pairs = [(text, template.replace("{}", label)) for text in texts for label in labels]
    stream = partial(tasks.classify, [text for text, _ in pairs], [other for _, other in pairs], raw_scores=True)
    rows = [
        {entry["label"].lower(): entry["score"] for entry in values["labels"]}
        for values in await by_task(request, context, model, len(pairs), stream)
    ]
    found = []
    for first in range(0, len(rows), len(labels)):
        of_text = rows[first : first + len(labels)]
        if several or len(labels) == 1:
            chances = [1 / (1 + math.exp(min(row[denied] - row[entails], 700))) for row in of_text]
        else:
            chances = softmax([row[entails] for row in of_text])
        order = sorted(range(len(labels)), key=lambda index: -chances[index])
        found.append([{"label": labels[index], "score": chances[index]} for index in order])
    return JSONResponse(found[0] if alone else found)
