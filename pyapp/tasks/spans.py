"""Parts of texts: labelled tokens joined to names and other spans, and answers to questions within a text.

A text longer than the model reads is split into windows that overlap. Both need the places of tokens in the text,
which the page's library of tokenizers does not give.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from pyapp.errors import OptionError
from pyapp.events import Done, Event, Item, Progress
from pyapp.text.spans import AGGREGATIONS, LONGEST_ANSWER, Part, best_answers, labelled_spans, without_spaces
from pyapp.text.tokenization.encoding import Encoding

from .text_batches import BATCH_SIZE, ENCODED_AT_ONCE, Work, batches, checked_texts

OVERLAP = 128  # tokens of neighbouring windows, or a quarter of a window


def label_tokens(
    loaded: Any,
    texts: Sequence[str],
    *,
    aggregation: str = "simple",
    ignore: Sequence[str] = ("O",),
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `entities`: the labelled parts of each text, mappings with label, score, word (as it stands in the
    text), start and end (characters).

    `aggregation`: "simple" joins neighbouring tokens of one label, of which "B-" begins a new part (Ramshaw and Marcus,
    1995); "first", "average" and "max" give all tokens of a word the label of its first token, of the mean of its
    scores, or of its best score, before that; "none" gives every token. A part's score is the mean of its tokens'.
    `ignore`: labels that are left out. The rules are those of transformers' pipeline.
    """
    if aggregation not in AGGREGATIONS:
        raise OptionError(f"{aggregation!r:.40} is none of {', '.join(AGGREGATIONS)}", where="aggregation")
    names = loaded.model.config.labels
    texts = checked_texts(texts)
    left_out = frozenset(checked_texts(ignore))
    owners, windows = yield from _windows(loaded, texts)
    for index, parts in _by_text(loaded, owners, windows, batch_size):
        if isinstance(parts, Event):
            yield parts
            continue
        spans = labelled_spans(loaded.tokenizer, texts[index], parts, names, aggregation)
        yield Item(index, {"entities": [span for span in spans if span["label"] not in left_out]})
    yield Done("complete", {"count": len(texts)})


def answer_questions(
    loaded: Any,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    top: int = 1,
    longest: int = LONGEST_ANSWER,
    impossible: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Work:
    """Items with `answers`: the `top` best answers to each question in its context, mappings with answer, score, start
    and end (characters of the context).

    An answer is a part of the context of at most `longest` tokens; its score is the probability of its start times that
    of its end, in the window that it is in (Devlin et al., 2019, section 4.2). `impossible`: an empty answer may be
    among them, for models that were trained with questions that have no answer (SQuAD 2). One context serves several
    questions, if it is the only one.
    """
    check_limits(top, longest)
    questions, contexts = checked_questions(questions), checked_questions(contexts, "contexts")
    contexts = contexts * len(questions) if len(contexts) == 1 else contexts
    if len(contexts) != len(questions):
        raise OptionError(f"there are {len(questions):,} questions and {len(contexts):,} contexts", where="contexts")
    owners, windows = yield from _windows(loaded, contexts, questions)
    for index, parts in _by_text(loaded, owners, windows, batch_size):
        if isinstance(parts, Event):
            yield parts
            continue
        yield Item(index, {"answers": answers_in(contexts[index], parts, longest, top, impossible)})
    yield Done("complete", {"count": len(questions)})


def check_limits(top: int, longest: int) -> None:
    """OptionError for what is no number of answers, or of an answer's tokens."""
    for name, value in (("top", top), ("longest", longest)):
        if type(value) is not int or not 1 <= value <= 1 << 16:
            raise OptionError(f"{value!r:.40} is not a whole number from 1 to {1 << 16:,}", where=name)


def checked_questions(questions: Sequence[str], where: str = "questions") -> list[str]:
    """Questions, or other texts, as a list. OptionError for one without words."""
    found = checked_texts(questions)
    for index, question in enumerate(found):
        if not question.strip():
            raise OptionError(f"number {index} is empty", where=where)
    return found


def answers_in(text: str, parts: Iterable[Part], longest: int, top: int, impossible: bool) -> list[dict[str, Any]]:
    """The best answers in a text, from its windows with their scores: answer, score, start and end (characters)."""
    best: dict[tuple[int, int], float] = {}  # by the characters
    for window, values in parts:
        for span, score in best_answers(window, values, longest, top, impossible):
            span = without_spaces(text, *span)
            best[span] = max(score, best.get(span, 0.0))
    order = sorted(best, key=lambda span: -best[span])[:top]
    return [{"answer": text[start:end], "score": best[start, end], "start": start, "end": end} for start, end in order]


def most_tokens(loaded: Any) -> int:
    """The most tokens of a window."""
    most: int = loaded.model.encoder.most
    return min(most, loaded.tokenizer.max_length or most)


def _windows(
    loaded: Any, texts: Sequence[str], questions: Sequence[str] | None = None
) -> Generator[Event, None, tuple[list[int], list[Encoding]]]:
    """The windows of all texts, each behind its question if there are some: yields Progress, and returns the number of
    each window's text, and the windows.
    """
    most = most_tokens(loaded)
    owners: list[int] = []
    windows: list[Encoding] = []
    for index, text in enumerate(texts):
        before = None if questions is None else questions[index]
        found = loaded.tokenizer.windows(text, most, min(OVERLAP, most // 4), before)
        windows += found
        owners += [index] * len(found)
        if index % ENCODED_AT_ONCE == 0:
            yield Progress("tokens", index + 1, len(texts), "texts")
    return owners, windows


def _by_text(loaded: Any, owners: Sequence[int], windows: Sequence[Encoding], batch_size: int) -> Iterator[Any]:
    """(text, its windows in order with the model's scores) when all windows of a text are done, and (-1, Progress)."""
    places: dict[int, list[int]] = {}
    for place, owner in enumerate(owners):
        places.setdefault(owner, []).append(place)
    done: dict[int, list[list[float]]] = {}
    missing = {owner: len(found) for owner, found in places.items()}
    for place, values in batches(loaded, windows, loaded.model, batch_size):
        if isinstance(values, Event):
            yield place, values
            continue
        done[place] = values
        owner = owners[place]
        missing[owner] -= 1
        if not missing[owner]:
            yield owner, [(windows[one], done.pop(one)) for one in places[owner]]
