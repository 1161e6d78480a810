"""Streaming text: only whole UTF-8 characters, and stop strings across the borders of tokens."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from copy import copy

from pyapp.text.tokenization.pieces import PieceJoiner
from pyapp.text.tokenization.tokenizer import Tokenizer


class StreamDecoder:
    """Turns one token after another into text; incomplete characters wait for their last bytes.

    `continuing`: the tokens follow other text, so a leading space is kept. The joined texts of `push` and `finish`
    equal the result of `Tokenizer.decode`.
    """

    def __init__(self, tokenizer: Tokenizer, continuing: bool = False) -> None:
        self._joiner: PieceJoiner = tokenizer.joiner(continuing)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The characters that this token completes, possibly none."""
        return self._utf8.decode(self._joiner.push(token))

    def copy(self) -> StreamDecoder:
        """A text that goes on from here by itself."""
        other = StreamDecoder.__new__(StreamDecoder)
        other._joiner = copy(self._joiner)
        other._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        other._utf8.setstate(self._utf8.getstate())
        return other

    def finish(self) -> str:
        """The rest at the end: U+FFFD for an incomplete character."""
        return self._utf8.decode(b"", final=True)


class StopMatcher:
    """Finds the first of several stop strings in text that arrives in parts.

    Only an ending that may be the start of a stop string is held back.
    """

    def __init__(self, stop_strings: Sequence[str] = ()) -> None:
        self._stops = tuple(text for text in stop_strings if text)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """The text that is safe to show now; once `matched` is set, the text before the stop string, and nothing after
        it.
        """
        if self.matched is not None:
            return ""
        text = self._held + text
        self._held = ""
        found = [(position, stop) for stop in self._stops if (position := text.find(stop)) >= 0]
        if found:
            position, self.matched = min(found, key=lambda match: match[0])
            return text[:position]
        keep = self._ending(text)
        if keep:
            self._held = text[-keep:]
            return text[:-keep]
        return text

    def finish(self) -> str:
        """The text that was held back when the text ended."""
        held, self._held = self._held, ""
        return held

    def _ending(self, text: str) -> int:
        """Length of the longest ending of `text` that begins a stop string."""
        for length in range(min(len(text), max(map(len, self._stops), default=1) - 1), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
