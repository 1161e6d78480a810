"""Answers to questions from a web page, by models such as MarkupLM, which read where texts are in its tree, or by those
that read its texts alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from pyapp.engine import no_grad
from pyapp.engine.buffers import int32_tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Item, Progress
from pyapp.text.markup import MarkedText, marked_texts, path_units
from pyapp.text.spans import LONGEST_ANSWER, Part
from pyapp.text.tokenization.encoding import Encoding

from .spans import OVERLAP, answer_questions, answers_in, check_limits, checked_questions, most_tokens
from .text_batches import BATCH_SIZE, Work, grouped
from .texts import stream_of

MOST_NUMBER = 1000  # of a tag among its like, in MarkupLM's training


def texts_of(page: Any) -> list[MarkedText]:
    """The texts of a page. OptionError where there are none."""
    if not isinstance(page, str):
        raise OptionError(f"{type(page).__name__} is not a text of HTML", where="page")
    found = marked_texts(page)
    if not found:
        raise OptionError("the page has no text in a tag", where="page")
    return found


def check_markup(questions: Sequence[str], page: Any, **more: Any) -> None:
    """OptionError for a page without texts, and an empty question."""
    checked_questions(questions)
    texts_of(page)


def answer_markup(
    loaded: Any,
    questions: Sequence[str],
    page: str,
    *,
    top: int = 1,
    longest: int = LONGEST_ANSWER,
    impossible: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `answers`: the `top` best answers to each question from the texts of a page of HTML, mappings with
    answer, score, start and end (characters of the texts with line feeds between them). The options are those of
    answer_questions.
    """
    check_limits(top, longest)
    questions, texts = checked_questions(questions), texts_of(page)
    whole = "\n".join(text.text for text in texts)
    if not getattr(loaded.model.encoder, "reads_markup", False):
        yield from answer_questions(
            loaded, questions, [whole], top=top, longest=longest, impossible=impossible, batch_size=batch_size
        )
        return
    starts = [0]
    for text in texts[:-1]:
        starts.append(starts[-1] + len(text.text) + 1)
    most = most_tokens(loaded)
    for index, question in enumerate(questions):
        windows = loaded.tokenizer.windows(
            [text.text for text in texts], most, min(OVERLAP, most // 4), question, parse_special=False
        )
        parts: list[Part] = []
        for chosen, rows in grouped(loaded, windows, batch_size):
            ids = rows("ids")  # (B, T)
            paths = _paths(loaded, texts, starts, [windows[i] for i in chosen], ids.shape[1])
            with no_grad():
                scores = loaded.model(ids, rows("attention_mask"), rows("type_ids"), *paths)
            if bool((scores != scores).any().item()):
                raise ModelError("the model computes NaN", where=loaded.name, hint="Its weights may be damaged")
            parts += [(windows[i], values) for i, values in zip(chosen, scores.tolist(), strict=True)]
            yield None
        yield Item(index, {"answers": answers_in(whole, parts, longest, top, impossible)})
        yield Progress("questions", index + 1, len(questions), "questions")
    yield Done("complete", {"count": len(questions)})


def _paths(
    loaded: Any, texts: Sequence[MarkedText], starts: Sequence[int], windows: Sequence[Encoding], length: int
) -> list[Any]:
    """The ids of the tags (B, T, depth) in the paths of windows' tokens, and the tags' numbers (B, T, depth)."""
    config, names = loaded.model.config, loaded.tokenizer.settings.get("tags_dict")
    tags = config.max_xpath_tag_unit_embeddings
    known = isinstance(names, dict) and all(type(one) is int and 0 <= one < tags for one in names.values())
    if not known or len(names) >= tags:
        raise ModelError(
            f"the tokenizer's settings do not have the ids of tags (tags_dict), from 0 to {tags - 1:,}",
            where=loaded.name, hint="Put the model's tokenizer_config.json beside it",
        )  # fmt: skip
    most = min(MOST_NUMBER, config.max_xpath_subs_unit_embeddings - 1)
    padding = config.tag_pad_id, config.subs_pad_id
    found: tuple[list[int], list[int]] = ([], [])
    for window in windows:
        for place in range(length):
            text = None
            if place < len(window) and window.texts[place] == 1 and window.offsets is not None:
                text = texts[bisect_right(starts, window.offsets[place][0]) - 1]
            for flat, units in zip(found, path_units(text, names, config.max_depth, most, padding), strict=True):
                flat.extend(units)
    shape = (len(windows), length, config.max_depth)
    return [int32_tensor(flat, loaded.model.device).reshape(*shape) for flat in found]


answer_from_markup = stream_of("question-answering", answer_markup, remote=False, check=check_markup)
