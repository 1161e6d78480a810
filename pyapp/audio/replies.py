"""What is said of replies that a language model writes: without the marks of Markdown, sentence by sentence."""

from __future__ import annotations

import re

from pyapp.text.passages import sentences

SHARE = 32  # by this part a long rest grows before it is searched again

# Marks that are not said, and what is said instead. Links and emphasis end within 500 characters: else a text of marks
# alone would take minutes.
_MARKS = (
    (re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE), ""),  # the ends of code
    (re.compile(r"^[ \t]*([-*_][ \t]*){3,}$", re.MULTILINE), ""),  # a line between parts
    (re.compile(r"^[ \t|:-]*-{3,}[ \t|:-]*$", re.MULTILINE), ""),  # below the head of a table
    (re.compile(r"^[ \t]*(#{1,6}|[-*+>])[ \t]+", re.MULTILINE), ""),  # of headings, lists and quotations
    (re.compile(r"!?\[([^\]\n]{0,500})\]\([^)\n]{0,500}\)"), r"\1"),  # links and pictures
    (re.compile(r"(\*\*|__|~~)(?=\S)(.{1,500}?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)([*_])(?=\S)(.{1,500}?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"`+"), ""),
    (re.compile(r"[ \t]*\|[ \t]*"), ", "),  # cells of tables
    (re.compile(r"^[ \t]*,[ \t]*|,[ \t]*$", re.MULTILINE), ""),
)  # fmt: skip


def said_of(text: str) -> str:
    """What is said of a text in Markdown."""
    for mark, instead in _MARKS:
        text = mark.sub(instead, text)
    return text


class SentencesInParts:
    """The sentences and lines of a text that comes in parts."""

    def __init__(self) -> None:
        self._rest = ""
        self._looked = 0  # characters of the rest in which no sentence ends

    def push(self, text: str) -> list[str]:
        """The sentences that are complete with this part of the text."""
        self._rest += text
        if len(self._rest) < self._looked + self._looked // SHARE:
            return []
        found = sentences(self._rest)
        if len(found) < 2:  # the last one may go on
            self._looked = len(self._rest)
            return []
        begins = found[-1][0]
        complete = [self._rest[start:end] for start, end in found[:-1]]
        self._rest, self._looked = self._rest[begins:], 0
        return complete

    def finish(self) -> list[str]:
        """The last sentence, if there is one."""
        found, self._rest = [self._rest[start:end] for start, end in sentences(self._rest)], ""
        return found
