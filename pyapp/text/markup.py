"""The texts of a web page, each with its path in the page's tree (Li et al. 2021, arXiv 2110.08518)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import unescape
from html.parser import HTMLParser
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

# Tags that have no end, and nothing in them.
EMPTY = frozenset(
    "area base basefont bgsound br col command embed frame hr image img input isindex keygen link menuitem meta nextid "
    "param source spacer track wbr".split()
)
UNSEEN = ("script", "style")  # tags whose texts no page shows
DEEPEST = 1 << 10  # tags around a text
MOST_TEXTS = 1 << 18


class _Tag:
    """A tag of the tree: its name, the tag around it, how many tags of each name it holds, and which of its like it is,
    from 1.
    """

    def __init__(self, name: str, around: _Tag | None) -> None:
        self.name, self.around = name, around
        self.inside: dict[str, int] = {}
        self.number = 0
        self.depth: int = 0 if around is None else around.depth + 1
        if around is not None:
            self.number = around.inside[name] = around.inside.get(name, 0) + 1


@dataclass(frozen=True)
class MarkedText:
    """A text, and its path: the names of the tags around it, the outermost first, and which of the tags of this name
    beside it each is, from 1; 0 for the only one.
    """

    text: str
    tags: tuple[str, ...]
    numbers: tuple[int, ...]


class _Reader(HTMLParser):
    """Collects the texts of a page with their tags. An end closes the nearest tag of its name, and those in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = _Tag("", None)
        self.found: list[tuple[str, _Tag]] = []
        self.pieces: list[str] = []

    def _text_ends(self) -> None:
        text = unescape("".join(self.pieces)).strip()
        self.pieces.clear()
        if text and self.open.around is not None and self.open.name not in UNSEEN:
            self.found.append((text, self.open))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._text_ends()
        made = _Tag(tag, self.open)
        if made.depth > DEEPEST or len(self.found) > MOST_TEXTS:
            raise OptionError("the page has too many texts, or tags in one another", where="page")
        if tag not in EMPTY:
            self.open = made

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._text_ends()
        _Tag(tag, self.open)

    def handle_endtag(self, tag: str) -> None:
        self._text_ends()
        place: _Tag | None = self.open
        while place is not None and place.name != tag:
            place = place.around
        if place is not None and place.around is not None:
            self.open = place.around

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    def handle_comment(self, data: str) -> None:
        self._text_ends()

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """<![…>, which is a comment in HTML; html.parser has an AssertionError for most."""
        return self.parse_bogus_comment(i)


def marked_texts(page: str) -> list[MarkedText]:
    """The texts of a page of HTML in order, without comments, scripts and styles. OptionError for too many."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    reader._text_ends()
    made = []
    for text, place in reader.found:
        tags, numbers = [], []
        tag: _Tag = place
        while tag.around is not None:
            tags.append(tag.name)
            numbers.append(tag.number if tag.around.inside[tag.name] > 1 else 0)
            tag = tag.around
        made.append(MarkedText(text, tuple(reversed(tags)), tuple(reversed(numbers))))
    return made


def path_units(
    text: MarkedText | None, names: Mapping[str, int], depth: int, most: int, padding: tuple[int, int]
) -> tuple[Sequence[int], Sequence[int]]:
    """The ids of the tags of a text's path, and their numbers among their like, up to `most`; both are `depth` long.
    names: the ids of tags; other tags have the next id. padding: what fills each of the two, and is all of them where
    there is no text.
    """
    tags = [] if text is None else [names.get(tag, len(names)) for tag in text.tags[:depth]]
    numbers = [] if text is None else [min(number, most) for number in text.numbers[:depth]]
    rest = depth - len(tags)
    return [*tags, *[padding[0]] * rest], [*numbers, *[padding[1]] * rest]
