"""Questions about tables, documents and web pages as functions with the arguments and the results of transformers'
pipelines: "table-question-answering" and "document-question-answering"; web pages, for which transformers has none, are
asked about as these, "markup-question-answering".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyapp.errors import OptionError, shown
from pyapp.events import Item
from pyapp.text.spans import LONGEST_ANSWER

from .documents import answer_pages
from .markup import answer_markup
from .tables import answer_table
from .text_batches import Work

FITS = (None, True, "drop_rows_to_fit")  # values of `truncation` that say what is done


def _values(work: Work) -> Iterator[Mapping[str, Any]]:
    """The values of a task's items."""
    for event in work:
        if isinstance(event, Item):
            yield event.values


def _listed(given: Any, where: str) -> tuple[list[Any], bool]:
    """One question or several, as a list, and whether it is one. OptionError for what is missing."""
    if given is None:
        raise OptionError("is missing", where=where, hint=f"Give {where}=…")
    return ([given], True) if isinstance(given, str) else (list(given), False)


def _each(
    first: Any, name: str, second: str, ask: Callable[[Mapping[str, Any]], Any], given: Mapping[str, Any]
) -> Any:  # fmt: skip
    """What `ask` makes of {name: …, second: …}, which `first` is, or of each of a list of these, or of `first` as the
    value of `name` with the others `given` beside it.
    """
    if isinstance(first, Mapping) and second in first and given.get(second) is None:
        return ask({**given, **first})
    if isinstance(first, list) and first and all(isinstance(one, Mapping) and second in one for one in first):
        return [ask({**given, **one}) for one in first]
    return ask({**given, name: first})


def ask_tables(
    loaded: Any, table: Any = None, query: Any = None, *, sequential: bool = False, padding: Any = None,
    truncation: Any = None,
) -> Any:  # fmt: skip
    """The answer to a `query` (a list for several) about a `table` (as for answer_table), or to each of a list of
    {"table": …, "query": …}: mappings with `answer`, `coordinates` (row and column of each cell, from 0), `cells` and,
    of models that aggregate, `aggregator`, whose name stands before the answer unless it is none.

    sequential: each question is asked with what the one before chose, as models of conversations need it (SQA).
    padding: of no effect on the answers. truncation: rows that the model does not read are left out; other values are
    refused.
    """
    if truncation not in FITS:
        raise OptionError(f"{shown(truncation, 40)} is not supported", where="truncation", hint="Leave it out")

    def ask(one: Mapping[str, Any]) -> Any:
        queries, alone = _listed(one["query"], "query")
        found = [_cells(loaded, values) for values in _values(
            answer_table(loaded, queries, one["table"], sequential=sequential)
        )]  # fmt: skip
        return found[0] if alone or len(found) == 1 else found

    return _each(table, "table", "query", ask, {"query": query})


def _cells(loaded: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """An answer in transformers' form."""
    config, texts = loaded.model.config, [cell["text"] for cell in values["cells"]]
    name = values["aggregation"]
    answer = ", ".join(texts) if name is None else f"{name} > {', '.join(texts)}"
    found = {
        "answer": answer,
        "coordinates": [(cell["row"], cell["column"]) for cell in values["cells"]],
        "cells": texts,
    }
    if config.aggregations:
        found["aggregator"] = config.aggregations[config.no_aggregation_label_index] if name is None else name
    return found


def ask_documents(
    loaded: Any, image: Any = None, question: Any = None, word_boxes: Any = None, *, top_k: int = 1,
    max_answer_len: int = LONGEST_ANSWER, handle_impossible_answer: bool = False, password: str | None = None,
) -> Any:  # fmt: skip
    """The `top_k` best answers to a `question` about a page, `image` (as for answer_pages), or to each of a list of
    {"image": …, "question": …, "word_boxes": …}: mappings with `score`, `answer`, and `start` and `end`, the first and
    the last word. word_boxes: (word, box in thousandths of the page) of each word, instead of reading the picture.

    max_answer_len: tokens of an answer. handle_impossible_answer: an empty one may be among them. password: opens a PDF
    that is locked.
    """

    def ask(one: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked, boxes = one.get("question"), one.get("word_boxes")
        if not isinstance(asked, str):
            raise OptionError(f"{shown(asked, 40)} is not a text", where="question", hint="Give question=…")
        if one.get("image") is None and boxes is None:
            raise OptionError("a picture or the words are missing", where="image", hint="Give image= or word_boxes=")
        page = one.get("image") if boxes is None else _page(boxes, one.get("image"))
        work = answer_pages(  # chances count the empty answer, also where it is left out
            loaded, [asked], [page], top=top_k + 1, longest=max_answer_len, impossible=True, password=password
        )
        [values] = _values(work)
        found = [
            {"score": answer["score"], "answer": answer["answer"], "start": answer["start"],
             "end": max(answer["end"] - 1, 0)}
            for answer in values["answers"] if answer["answer"] or handle_impossible_answer
        ]  # fmt: skip
        return found[:top_k]

    return _each(image, "image", "question", ask, {"question": question, "word_boxes": word_boxes})


def _page(word_boxes: Any, image: Any) -> dict[str, Any]:
    """The page of words and their boxes."""
    pairs = list(word_boxes)
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise OptionError("they are not (word, box) each", where="word_boxes")
    words, boxes = [word for word, _ in pairs], [[*box] for _, box in pairs]
    return {"words": words, "boxes": boxes} | ({} if image is None else {"image": image})


def ask_markup(
    loaded: Any, question: Any = None, html: Any = None, *, top_k: int = 1, max_answer_len: int = LONGEST_ANSWER,
    handle_impossible_answer: bool = False,
) -> Any:  # fmt: skip
    """The best answer to a `question` (a list for several) from the texts of a web page `html`, or to each of a list of
    {"question": …, "html": …}: mappings with `score`, `start`, `end` (characters of the texts with line feeds between
    them) and `answer`; lists of them with top_k above 1. The options are those of ask_documents.
    """

    def ask(one: Mapping[str, Any]) -> Any:
        questions, alone = _listed(one["question"], "question")
        work = answer_markup(
            loaded, questions, one["html"], top=top_k, longest=max_answer_len, impossible=handle_impossible_answer
        )
        found: list[Any] = []
        for values in _values(work):
            answers = [
                {"score": answer["score"], "start": answer["start"], "end": answer["end"], "answer": answer["answer"]}
                for answer in values["answers"]
            ]  # fmt: skip
            found.append(answers[0] if top_k == 1 and answers else answers)
        return found[0] if alone else found

    return _each(question, "question", "html", ask, {"html": html})


# By the name of the pipeline: what it runs, and the task whose models it loads.
ASKING: Mapping[str, tuple[Callable[..., Any], str]] = {
    "table-question-answering": (ask_tables, "answer-table"),
    "document-question-answering": (ask_documents, "question-answering"),
    "markup-question-answering": (ask_markup, "question-answering"),
}
