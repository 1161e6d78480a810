"""Split texts into passages for search: whole sentences, paragraphs where they fit, with an overlap inside paragraphs.

Sizes are in tokens. A passage is a span of characters, so that it can be shown in its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

Span = tuple[int, int]  # characters: begin, end
Count = Callable[[str], int]  # tokens of a text

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
# The end of a sentence: its mark with closing quotes, before white space and no small letter; a mark of East Asian
# scripts; or a line's end.
_SENTENCE = re.compile(r"""(?<=[.!?…])["')\]»”’]*\s+(?![a-z\s])|(?<=[。！？।۔])["')\]»”’]*\s*|\n\s*""")
SMALLEST = 8  # tokens of a passage


def paragraphs(text: str, start: int = 0) -> list[Span]:
    """The paragraphs from a character on, which blank lines separate, without white space around them."""
    return _between(text, (start, len(text)), _PARAGRAPH)


def sentences(text: str, span: Span | None = None) -> list[Span]:
    """The sentences and lines of a text, or of a part of it, without white space around them."""
    return _between(text, (0, len(text)) if span is None else span, _SENTENCE)


def _between(text: str, span: Span, mark: re.Pattern[str]) -> list[Span]:
    """The parts of a span between the matches of `mark`; closing quotes in a match belong to the part before it."""
    found, start = [], span[0]
    for match in mark.finditer(text, *span):
        quotes = len(match.group().rstrip())
        found.append((start, match.start() + quotes))
        start = match.end()
    found.append((start, span[1]))
    return [part for part in (_stripped(text, one) for one in found) if part[0] < part[1]]


def _stripped(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    tokens: int


def split(text: str, count: Count, size: int = 200, overlap: int = 40, start: int = 0) -> Iterator[Span | None]:
    """The passages of a text in order, each at most `size` tokens by `count`; None between steps of the work.

    `start`: the character at which the first one begins. From the start of an earlier passage on they are the same
    passages, unless that one begins in the middle of a divided sentence.

    A passage ends with a paragraph if the next paragraph does not fit and it is at least half full. Inside a paragraph
    the next passage repeats the last sentences, at most `overlap` tokens. A sentence that is longer than `size` is
    divided between words. OptionError for sizes that do not fit.
    """
    if type(size) is not int or size < SMALLEST:
        raise OptionError(f"{size!r} is not a number of tokens from {SMALLEST}", where="size")
    if type(overlap) is not int or not 0 <= overlap <= size // 2:
        raise OptionError(
            f"{overlap!r} is not a number of tokens from 0 to half the size, {size // 2}", where="overlap"
        )
    if type(start) is not int or not 0 <= start <= len(text):
        raise OptionError(f"{start!r} is not a place in a text of {len(text):,} characters", where="start")
    passage: list[_Sentence] = []
    for paragraph in paragraphs(text, start):
        parts = [
            _Sentence(part, count(text[slice(*part)]))
            for sentence in sentences(text, paragraph)
            for part in _fitting(text, sentence, count, size)
        ]
        yield None
        full = _tokens(passage)
        if full + _tokens(parts) > size and full * 2 >= size:
            yield _span(passage)
            passage = []
        for part in parts:
            if passage and _tokens(passage) + part.tokens > size:
                yield _span(passage)
                passage = _end(passage, min(overlap, size - part.tokens), paragraph[0])
            passage.append(part)
    if passage:
        yield _span(passage)


def _end(passage: list[_Sentence], most: int, begin: int) -> list[_Sentence]:
    """The last sentences of a passage that begin at character `begin` or later, at most `most` tokens."""
    kept: list[_Sentence] = []
    for sentence in reversed(passage):
        most -= sentence.tokens
        if most < 0 or sentence.span[0] < begin:
            break
        kept.insert(0, sentence)
    return kept


def _tokens(passage: list[_Sentence]) -> int:
    return sum(sentence.tokens for sentence in passage)


def _span(passage: list[_Sentence]) -> Span:
    return passage[0].span[0], passage[-1].span[1]


def _fitting(text: str, span: Span, count: Count, size: int) -> Iterator[Span]:
    """The span, halved between words until every part has at most `size` tokens."""
    start, end = span
    if end - start <= 1 or count(text[start:end]) <= size:
        yield span
        return
    middle = (start + end) // 2
    left, right = text.rfind(" ", start + 1, middle), text.find(" ", middle, end - 1)
    near = [place for place in (left, right) if place > 0]
    at = min(near, key=lambda place: abs(place - middle)) if near else middle
    for part in ((start, at), (at, end)):
        stripped = _stripped(text, part)
        if stripped[0] < stripped[1]:
            yield from _fitting(text, stripped, count, size)
