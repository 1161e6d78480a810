"""Tasks as functions that return when everything is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Item

from .keeper import LOADERS, known
from .questions import ASKING
from .ranking import embed_tokens, rerank_texts
from .sounds import label_sounds, labels_of_moments, match_labels
from .spans import answer_questions, label_tokens
from .speaking import speak_texts
from .text_batches import Work
from .texts import LOADED_FOR, classify_texts, embed_texts, fill_masks, sparse_texts, translate_texts
from .videos import label_videos

__top_level__ = ["pipeline"]

WORK: Mapping[str, Callable[..., Work]] = {
    "embed": embed_texts,
    "embed-sparse": sparse_texts,
    "embed-tokens": embed_tokens,
    "classify": classify_texts,
    "rerank": rerank_texts,
    "fill-mask": fill_masks,
    "translate": translate_texts,
    "token-classification": label_tokens,
    "question-answering": answer_questions,
    "speak": speak_texts,
    "audio-classification": label_sounds,
    "audio-frame-classification": labels_of_moments,
    "zero-shot-audio-classification": match_labels,
    "video-classification": label_videos,
}


class Pipeline:
    """A task and its model as a function: `pipeline("embed", "owner/name")(texts)`.

    The result is a list with the values of each text in order; of one text given as a str, its values alone. Options
    are those of the task. Those of ASKING have the arguments and the results of transformers' pipelines.
    """

    def __init__(self, name: str, loaded: Any) -> None:
        self.name, self.loaded = name, loaded

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.name in ASKING:
            return ASKING[self.name][0](self.loaded, *arguments, **options)
        found: dict[int, Any] = {}
        for event in WORK[self.name](self.loaded, *arguments, **options):
            if isinstance(event, Item):
                found[event.index] = _only(event.values)
        texts = arguments[1] if self.name == "rerank" and len(arguments) > 1 else arguments[0] if arguments else None
        ordered = [found[index] for index in sorted(found)]
        alone = isinstance(texts, str | bytes) or hasattr(texts, "__array__")
        return ordered[0] if alone and ordered else ordered

    def __repr__(self) -> str:
        return f"<pipeline {self.name} of {self.loaded.name}>"


def _only(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def pipeline(
    name: str,
    model: Any,
    *,
    dtype: str | None = None,
    device: Any = None,
    report: Callable[[Event], None] | None = None,
) -> Pipeline:
    """A function over texts: "embed" → vectors, "embed-sparse" → words with weights, "embed-tokens" → a vector for each
    token, "classify" → labels, "rerank"
    (query, texts) → scores, "fill-mask" → words, "translate" → texts, "token-classification" → labelled parts,
    "question-answering" (questions, contexts) → answers, "speak" → (samples, samples a second); over recordings (files,
    or samples at 16 kHz): "audio-classification" → labels,
    "audio-frame-classification" → labels with times, "zero-shot-audio-classification" (recordings,
    labels) → labels; over a list of videos: "video-classification" → labels; as in transformers:
    "table-question-answering" (table=, query=) → {"answer", "coordinates", "cells", "aggregator"},
    "document-question-answering" (image=, question=) → [{"score", "answer", "start", "end"}], and in this form
    "markup-question-answering" (question=, html=), for web pages (pyapp.tasks.questions).

    `model` is a folder, a name on the hub, or a model that is loaded already. dtype: the type of the matrices
    ("q8_0", "q4_0" …). Blocks while it loads and computes; the streams of pyapp.tasks do not.
    """
    if name not in WORK and name not in ASKING:
        raise OptionError(f"{name!r:.60} is not a task", where="name", hint=f"Tasks: {', '.join([*WORK, *ASKING])}")
    if hasattr(model, "tokenizer"):
        return Pipeline(name, model)
    task = ASKING[name][1] if name in ASKING else LOADED_FOR.get(name, name)
    found = LOADERS[task](
        known(model, task if name in ASKING else name),
        None,
        report or (lambda event: None),
        Cancel(),
        dtype=dtype,
        device=device,
    )
    return Pipeline(name, found)
