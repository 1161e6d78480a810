"""Where tokens stand in a text, by its words: for libraries that split texts and do not tell this, as the page's.

A word is encoded alone, with the spaces before it and without them. Whichever gives the tokens that the whole text has
there is what the library has made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pyapp.errors import ModelError

from .encoding import Span

_WORD = re.compile(r"\s*(\S+)")


def by_words(encode: Callable[[str], Sequence[int]], text: str) -> tuple[list[int], list[Span]]:
    """The ids of a text, and for each the characters [start, end) of the word that it is of. ModelError for a tokenizer
    whose tokens reach from one word into the next.
    """
    ids, known = list(encode(text)), dict[str, list[int]]()
    spans: list[Span] = []
    for found in _WORD.finditer(text):
        for form in (found[0], found[1]):
            if form not in known:
                known[form] = list(encode(form))
            part = known[form]
            if ids[len(spans) : len(spans) + len(part)] == part:
                spans += [found.span(1)] * len(part)
                break
        else:
            raise ModelError(
                f"its tokenizer joins {found[1]!r:.40} with another word: the places of its tokens are not known here",
                hint="Use pyapp outside the browser, or another model",
            )
    return ids, spans + [(len(text), len(text))] * (len(ids) - len(spans))
