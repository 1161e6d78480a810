"""What is said of replies that a language model writes: without the marks of Markdown, sentence by sentence."""

from __future__ import annotations

import re

from pyapp.text.passages import sentences

# Marks that are not said, and what is said instead.
_MARKS = (
    (re.compile(r"^[ \t]*(```|~~~).*$", re.MULTILINE), ""),  # the ends of code
    (re.compile(r"^[ \t]*([-*_][ \t]*){3,}$", re.MULTILINE), ""),  # a line between parts
    (re.compile(r"^[ \t|:-]*-{3,}[ \t|:-]*$", re.MULTILINE), ""),  # below the head of a table
    (re.compile(r"^[ \t]*(#{1,6}|[-*+>])[ \t]+", re.MULTILINE), ""),  # of headings, lists and quotations
    (re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)"), r"\1"),  # links and pictures
    (re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
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

    def push(self, text: str) -> list[str]:
        """The sentences that are complete with this part of the text."""
        self._rest += text
        found = sentences(self._rest)
        if len(found) < 2:  # the last one may go on
            return []
        begins = found[-1][0]
        complete = [self._rest[start:end] for start, end in found[:-1]]
        self._rest = self._rest[begins:]
        return complete

    def finish(self) -> list[str]:
        """The last sentence, if there is one."""
        found, self._rest = [self._rest[start:end] for start, end in sentences(self._rest)], ""
        return found
