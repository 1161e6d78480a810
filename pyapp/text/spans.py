"""Parts of a text from the scores of its tokens: labelled spans, and answers to a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.text.tokenization.encoding import Encoding

AGGREGATIONS = ("simple", "first", "average", "max", "none")
LONGEST_ANSWER = 15  # tokens

Part = tuple[Encoding, list[list[float]]]  # a window of a text, and the scores (T, labels) of its tokens


def softmax(scores: Sequence[float]) -> list[float]:
    """The probabilities of scores."""
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


# -- labelled tokens


@dataclass
class _Token:
    """A token of a text: its characters, the probabilities of its labels, and whether it goes on with a word."""

    start: int
    end: int
    chances: list[float]
    goes_on: bool


def labelled_spans(
    tokenizer: Any, text: str, parts: Sequence[Part], names: Sequence[str], aggregation: str,
    owners: Sequence[int] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The spans of a text from the scores of its tokens: label, score, word, start, end. `names` are the labels.
    owners: the word of each character, where it is known; None: words are as the vocabulary marks them.
    """
    tokens = _tokens(tokenizer, text, parts, owners)
    if aggregation in ("none", "simple"):
        spans = [_span(names, [token], token.chances) for token in tokens]
    else:
        spans = [_word(names, group, aggregation) for group in _words(tokens)]
    spans = spans if aggregation == "none" else _joined(spans, names)
    return [span | {"word": text[span["start"] : span["end"]]} for span in spans]


def _tokens(tokenizer: Any, text: str, parts: Sequence[Part], owners: Sequence[int] | None) -> list[_Token]:
    """The tokens of a text in order. One in two windows is taken from that in which it is farther from an edge."""
    found: dict[tuple[int, int, int], tuple[int, _Token]] = {}  # by the characters and the token
    for window, values in parts:
        for place, (owner, token) in enumerate(zip(window.texts, window.ids, strict=True)):
            if owner is None:
                continue
            start, end = window.offsets[place]  # type: ignore[index]
            key, room = (start, end, token), min(place, len(window) - place)
            if key not in found or room > found[key][0]:
                goes_on = tokenizer.continues_word(token)
                if goes_on is None:
                    goes_on = start > 0 and " " not in text[start - 1 : start + 1]
                found[key] = room, _Token(start, end, softmax(values[place]), goes_on)
    tokens = [one for _, (_, one) in sorted(found.items(), key=lambda entry: entry[0][:2])]
    if owners is not None:
        words = [word_at(owners, one.end) for one in tokens]
        for one, word, before in zip(tokens, words, [-1, *words], strict=False):
            one.goes_on = word == before
    return tokens


def word_at(owners: Sequence[int], end: int) -> int:
    """The word of a token that ends before the character `end`. owners: the word of each character."""
    return owners[max(end, 1) - 1]


def _words(tokens: Sequence[_Token]) -> list[list[_Token]]:
    groups: list[list[_Token]] = []
    for token in tokens:
        if groups and token.goes_on:
            groups[-1].append(token)
        else:
            groups.append([token])
    return groups


def _word(names: Sequence[str], tokens: Sequence[_Token], aggregation: str) -> dict[str, Any]:
    """The span of a word, labelled as `aggregation` says."""
    match aggregation:
        case "first":
            chances = tokens[0].chances
        case "max":
            chances = max((token.chances for token in tokens), key=max)
        case _:
            columns = zip(*(token.chances for token in tokens), strict=True)
            chances = [sum(column) / len(tokens) for column in columns]
    return _span(names, tokens, chances)


def _span(names: Sequence[str], tokens: Sequence[_Token], chances: Sequence[float]) -> dict[str, Any]:
    score = max(chances)
    return {
        "label": names[chances.index(score)], "score": score, "word": "", "start": tokens[0].start,
        "end": tokens[-1].end,
    }  # fmt: skip


def _joined(spans: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Neighbours of one label as one span, without "B-", "I-", "E-" and "S-"."""
    tags = {name: _tag(name, names) for name in names}
    groups: list[list[dict[str, Any]]] = []
    ended, last = True, ""
    for span in spans:
        place, kind = tags[span["label"]]
        if ended or place in "BS" or kind != last:
            groups.append([])
        groups[-1].append(span)
        ended, last = place in "ES", kind
    return [
        {
            "label": tags[group[0]["label"]][1], "score": sum(span["score"] for span in group) / len(group), "word": "",
            "start": group[0]["start"], "end": group[-1]["end"],
        }
        for group in groups
    ]  # fmt: skip


def _tag(label: str, names: Sequence[str]) -> tuple[str, str]:
    """The place of a label's token in its span, "B" (first), "I" (inside), "E" (last) or "S" (alone), and what the
    label names. "E-" and "S-" say the place only where another of all labels begins with "B-" and the same name.
    """
    place, kind = label[:1], label[2:]
    if label[:2] in ("B-", "I-") or (label[:2] in ("E-", "S-") and f"B-{kind}" in names):
        return place, kind
    return "I", label


# -- answers


def best_answers(
    window: Encoding, values: Sequence[Sequence[float]], longest: int, top: int, impossible: bool
) -> list[tuple[tuple[int, int], float]]:
    """The best answers in a window: characters and score. The scores of other tokens than the context's do not count;
    (0, 0), the first token, stands for no answer.
    """
    places = [place for place, owner in enumerate(window.texts) if owner == 1]
    counted = [0, *places] if impossible else places
    chances = [softmax([values[place][side] for place in counted]) for side in (0, 1)]
    starts, ends = (dict(zip(counted, column, strict=True)) for column in chances)
    found = [((0, 0), starts[0] * ends[0])] if impossible else []
    pairs = [
        (starts[first] * ends[last], first, last)
        for at, first in enumerate(places)
        for last in places[at : at + longest]
    ]
    for score, first, last in sorted(pairs, reverse=True)[:top]:
        found.append(((window.offsets[first][0], window.offsets[last][1]), score))  # type: ignore[index]
    return found


def without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """The part of a text without the spaces at its ends, which tokens of many vocabularies begin with."""
    part = text[start:end]
    if not part.strip():
        return start, end
    return end - len(part.lstrip()), start + len(part.rstrip())
