"""Vocabulary pieces to bytes, as the `decoder` of a tokenizer.json describes it (Hugging Face tokenizers).

The decoders of that library work on whole lists of pieces. The decoders supported here work on one piece at a time and
need only know whether the piece is the first of the text. So text can stream, and is the same natively and in the page.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, overload

from pyapp.errors import FileFormatError, ModelError

Step = Callable[[str, bool], str]
SETTING_LIMIT = 1 << 10  # characters of a replacement
PIECE_LIMIT = 1 << 12  # characters of a token that a decoder changes: replacing may multiply them
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Replacements of BERT's decoder after joining words with spaces.
WORDPIECE_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


@cache
def byte_of_character() -> dict[str, int]:
    """GPT-2's printable characters for the 256 bytes: printable Latin-1 for itself, the rest from U+0100 up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(0x100 + count): byte for count, byte in enumerate(others)}


def utf8_bytes(piece: str) -> bytes:
    """UTF-8, with U+FFFD for lone surrogates."""
    return piece.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()


def byte_level_bytes(piece: str) -> bytes:
    """The bytes of a piece of byte-level BPE; a piece with other characters (an added token) is text."""
    table = byte_of_character()
    try:
        return bytes([table[character] for character in piece])
    except KeyError:
        return utf8_bytes(piece)


def byte_fallback_bytes(piece: str) -> bytes:
    """`<0x0A>` is the byte 10; every other piece is text."""
    match = BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else utf8_bytes(piece)


def text_setting(settings: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A setting that is a short text. TypeError or ValueError otherwise."""
    value = settings[name] if default is None else settings.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.60}, not a text")
    if len(value) > SETTING_LIMIT:
        raise ValueError(f"{name} has {len(value):,} characters")
    return value


def count_setting(settings: Mapping[str, Any], name: str) -> int:
    """A setting that is a number of characters. TypeError or ValueError otherwise."""
    value = settings[name]
    if type(value) is not int or value < 0:
        raise TypeError(f"{name} is {value!r:.60}, not a number of characters")
    return value


def replace_step(settings: Mapping[str, Any]) -> Step:
    pattern, content = settings["pattern"], text_setting(settings, "content")
    if "String" in pattern:
        old = text_setting(pattern, "String")
        return lambda piece, first: piece.replace(old, content)
    expression = compiled(text_setting(pattern, "Regex"))
    return lambda piece, first: expression.sub(lambda match: content, piece)


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern whose search takes at most the square of a piece's length. ModelError for others."""
    outside = re.sub(r"\\.|\[(?:\\.|[^\]\\])+\]", "c", pattern)  # escapes and sets are characters
    if len(re.findall(r"[*+?{]", outside)) > 1 or re.search(r"\)[*+?{]", outside) or "(?" in outside:
        raise ModelError(
            f"the tokenizer's decoder has the pattern {pattern!r:.60}, which is not supported",
            hint="Supported are patterns with one repetition, of a character",
        )
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ModelError(f"the tokenizer's decoder has the invalid pattern {pattern!r:.60} ({error})") from error


def metaspace_step(settings: Mapping[str, Any]) -> Step:
    """Turns the replacement character into a space; removes the space that the tokenizer put before the text."""
    mark = text_setting(settings, "replacement", "▁")
    scheme = settings.get("prepend_scheme", "always" if settings.get("add_prefix_space", True) else "never")
    return lambda piece, first: piece.replace(mark, "" if first and scheme != "never" else " ")


def wordpiece_step(settings: Mapping[str, Any]) -> Step:
    prefix, cleanup = text_setting(settings, "prefix", "##"), settings.get("cleanup", True)

    def step(piece: str, first: bool) -> str:
        if not first:
            piece = piece[len(prefix) :] if piece.startswith(prefix) else " " + piece
        for raw, clean in WORDPIECE_CLEANUP if cleanup else ():
            piece = piece.replace(raw, clean)
        return piece

    return step


def piece_strip_step(settings: Mapping[str, Any]) -> Step:
    """Strips up to `start` and `stop` of the character `content` from the ends of each piece."""
    content, start, stop = (
        text_setting(settings, "content"),
        count_setting(settings, "start"),
        count_setting(settings, "stop"),
    )

    def step(piece: str, first: bool) -> str:
        left = min(len(piece) - len(piece.lstrip(content)), start)
        right = min(len(piece) - len(piece.rstrip(content)), stop)
        return piece[left : max(left, len(piece) - right)]

    return step


def word_end_step(settings: Mapping[str, Any]) -> Step:
    """Turns the mark of a word's last piece into a space, that of a text's last word too."""
    suffix = text_setting(settings, "suffix", "</w>")
    return lambda piece, first: piece.replace(suffix, " ") if suffix else piece


def spaced_step(piece: str, first: bool) -> str:
    """The decoder of a tokenizer.json without one: words with spaces between them."""
    return piece if first else " " + piece


STEPS = {
    "BPEDecoder": word_end_step,
    "Replace": replace_step,
    "Metaspace": metaspace_step,
    "WordPiece": wordpiece_step,
    "Strip": piece_strip_step,
}


def flatten(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The decoders of nested sequences in order."""
    if not isinstance(settings, Mapping):
        raise ValueError(f"a decoder is {settings!r:.40}, expected an object")
    if settings.get("type") != "Sequence":
        return [settings]
    return [inner for entry in settings["decoders"] for inner in flatten(entry)]


class PieceTable(Sequence[str | None]):
    """A large vocabulary in a tenth of the memory of a list of texts: all pieces one after the other in UTF-8, and the
    place where each ends. Some tokens have no piece (None).
    """

    def __init__(self, pieces: Sequence[str | None]) -> None:
        parts = [(piece or "").encode("utf-8", "surrogatepass") for piece in pieces]
        self._text = b"".join(parts)
        self._ends = array("Q", accumulate(map(len, parts)))
        self._missing = frozenset(i for i, piece in enumerate(pieces) if piece is None)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[str | None]: ...

    def __getitem__(self, index: int | slice) -> str | None | list[str | None]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return (
            None
            if at in self._missing
            else self._text[self._start(at) : self._ends[at]].decode("utf-8", "surrogatepass")
        )

    def __iter__(self) -> Iterator[str | None]:
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, piece: object) -> bool:
        return next(self._places(piece), None) is not None

    def index(self, piece: object, start: int = 0, stop: int | None = None) -> int:
        """The lowest id of a piece from `start` up to `stop`; ValueError if there is none."""
        within = range(len(self))[start:stop]
        found = next((at for at in self._places(piece) if at in within), None)
        if found is None:
            raise ValueError(f"{piece!r} is not in the vocabulary")
        return found

    def _start(self, at: int) -> int:
        return self._ends[at - 1] if at else 0

    def _places(self, piece: object) -> Iterator[int]:
        """The ids of a piece, in rising order."""
        if not isinstance(piece, str) or not piece:
            yield from (at for at in range(len(self)) if self[at] == piece)
            return
        wanted = piece.encode("utf-8", "surrogatepass")
        begin = self._text.find(wanted)
        while begin >= 0:
            at = bisect_left(self._ends, begin + len(wanted))
            if self._ends[at] == begin + len(wanted) and self._start(at) == begin:
                yield at
            begin = self._text.find(wanted, begin + 1)


class PieceDecoder:
    """Converts pieces to bytes; `strip_left` is the number of leading spaces that are stripped from the whole text."""

    def __init__(self, settings: Mapping[str, Any] | None, where: str = "tokenizer.json") -> None:
        self.strip_left = 0
        self._where = where
        self._steps: list[Step] = [] if settings else [spaced_step]
        self._to_bytes: Callable[[str], bytes] = utf8_bytes
        fused = False
        for entry in flatten(settings) if settings else []:
            kind = entry.get("type")
            if kind == "Fuse":
                fused = True
            elif kind == "ByteFallback":
                self._to_bytes = byte_fallback_bytes
            elif kind == "ByteLevel":
                self._to_bytes = byte_level_bytes
            elif kind == "Strip" and fused and entry["content"] == " " and not entry["stop"]:
                self.strip_left += count_setting(entry, "start")
            elif kind in STEPS and not fused and self._to_bytes is utf8_bytes:
                self._steps.append(STEPS[kind](entry))
            else:
                raise ModelError(
                    f"the tokenizer's decoder has a step {kind!r:.40} that is not supported in this place",
                    where=where,
                    hint=f"Supported: ByteLevel, ByteFallback, {', '.join(sorted(STEPS))} and Fuse",
                )

    def bytes_of(self, piece: str, first: bool = False) -> bytes:
        """The bytes that `piece` adds to the text; `first`: it is the first piece."""
        for step in self._steps:
            if len(piece) > PIECE_LIMIT:
                raise FileFormatError(f"a token grows to {len(piece):,} characters", where=self._where)
            piece = step(piece, first)
        return self._to_bytes(piece)


class PieceJoiner:
    """Joins the bytes of one token after another; strips spaces at the beginning of the text."""

    def __init__(self, lookup: Callable[[int, bool], bytes | None], strip_left: int, continuing: bool = False) -> None:
        """`lookup(id, first)` gives a token's bytes, None for a token that is not text; `continuing`: other text comes
        before.
        """
        self._lookup = lookup
        self._first = not continuing
        self._strip = 0 if continuing else strip_left

    def push(self, token: int) -> bytes:
        data = self._lookup(token, self._first)
        if data is None:
            return b""
        self._first = False
        while self._strip and data:
            if not data.startswith(b" "):
                self._strip = 0
                break
            data = data[1:]
            self._strip -= 1
        return data
