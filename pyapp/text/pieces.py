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

from pyapp.errors import ModelError

Step = Callable[[str, bool], str]
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


def replace_step(settings: Mapping[str, Any]) -> Step:
    pattern, content = settings["pattern"], settings["content"]
    if "String" in pattern:
        return lambda piece, first: piece.replace(pattern["String"], content)
    expression = re.compile(pattern["Regex"])
    return lambda piece, first: expression.sub(lambda match: content, piece)


def metaspace_step(settings: Mapping[str, Any]) -> Step:
    """The replacement character is a space; where a space was put before the text, it falls away again."""
    mark = settings.get("replacement", "▁")
    scheme = settings.get("prepend_scheme", "always" if settings.get("add_prefix_space", True) else "never")
    return lambda piece, first: piece.replace(mark, "" if first and scheme != "never" else " ")


def wordpiece_step(settings: Mapping[str, Any]) -> Step:
    prefix, cleanup = settings.get("prefix", "##"), settings.get("cleanup", True)

    def step(piece: str, first: bool) -> str:
        if not first:
            piece = piece[len(prefix) :] if piece.startswith(prefix) else " " + piece
        for raw, clean in WORDPIECE_CLEANUP if cleanup else ():
            piece = piece.replace(raw, clean)
        return piece

    return step


def piece_strip_step(settings: Mapping[str, Any]) -> Step:
    """Takes up to `start` and `stop` of the character `content` from the ends of each piece."""
    content, start, stop = settings["content"], settings["start"], settings["stop"]

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
                self.strip_left += entry["start"]
            elif kind in STEPS and not fused and self._to_bytes is utf8_bytes:
                self._steps.append(STEPS[kind](entry))
            else:
                raise ModelError(
                    f"the tokenizer's decoder has a step {kind!r} that is not supported in this place",
                    where=where,
                    hint="Supported: ByteLevel, ByteFallback, Metaspace, WordPiece, Replace, Strip and Fuse",
                )

    def bytes_of(self, piece: str, first: bool = False) -> bytes:
        """The bytes that `piece` adds to the text; `first`: no piece came before it."""
        for step in self._steps:
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
