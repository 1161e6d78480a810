"""Vocabulary pieces to bytes, as the `decoder` of a tokenizer.json describes it (Hugging Face tokenizers).

Decoders there work on whole lists of pieces. All of those read here can be taken one piece at a time, if one knows
whether the piece is the first of the text; that is what streaming needs, and it gives the same text natively and in the
page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pyapp.errors import FileFormatError, ModelError

Step = Callable[[str, bool], str]
SETTING_LIMIT = 1 << 10  # characters that stand in place of others
PIECE_LIMIT = 1 << 12  # characters of a token that a decoder changes: replacing may multiply them
BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# What BERT's decoder undoes after joining words with spaces.
WORDPIECE_CLEANUP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


@cache
def byte_of_character() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes: printable Latin-1 stands for itself, the rest from U+0100 up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(0x100 + count): byte for count, byte in enumerate(others)}


def utf8_bytes(piece: str) -> bytes:
    """UTF-8, with U+FFFD for lone surrogates."""
    return piece.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()


def byte_level_bytes(piece: str) -> bytes:
    """A piece of byte-level BPE; one with other characters (an added token) stands for itself."""
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
        raise ModelError(f"the tokenizer's decoder has the pattern {pattern!r:.60}, which is none ({error})") from error


def metaspace_step(settings: Mapping[str, Any]) -> Step:
    """The replacement character is a space; where a space was put before the text, it falls away again."""
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
    """Takes up to `start` and `stop` of the character `content` from the ends of each piece."""
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


def spaced_step(piece: str, first: bool) -> str:
    """What a tokenizer.json without a decoder means: words with spaces between them."""
    return piece if first else " " + piece


STEPS = {
    "Replace": replace_step,
    "Metaspace": metaspace_step,
    "WordPiece": wordpiece_step,
    "Strip": piece_strip_step,
}


def flatten(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The decoders of nested sequences in order."""
    if settings.get("type") != "Sequence":
        return [settings]
    return [inner for entry in settings["decoders"] for inner in flatten(entry)]


class PieceDecoder:
    """Gives each piece its bytes; `strip_left` is how many leading spaces the text as a whole loses."""

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
                    hint="Supported: ByteLevel, ByteFallback, Metaspace, WordPiece, Replace, Strip and Fuse",
                )

    def bytes_of(self, piece: str, first: bool = False) -> bytes:
        """The bytes that `piece` adds to the text; `first`: no piece came before it."""
        for step in self._steps:
            if len(piece) > PIECE_LIMIT:
                raise FileFormatError(f"a token grows to {len(piece):,} characters", where=self._where)
            piece = step(piece, first)
        return self._to_bytes(piece)


class PieceJoiner:
    """Joins the bytes of one token after another; knows the beginning of the text, where spaces fall away."""

    def __init__(self, lookup: Callable[[int, bool], bytes | None], strip_left: int, continuing: bool = False) -> None:
        """`lookup(id, first)` gives a token's bytes, None for one that is not text; `continuing`: other text stands
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
