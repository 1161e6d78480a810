"""The tokenizer of RWKV's World models: at every place of a text, the longest piece of the vocabulary that fits there.

Sources: rwkv_tokenizer.py and rwkv_vocab_v20230424.txt of https://github.com/BlinkDL/ChatRWKV, whose lines are the id,
Python's literal of the piece and its number of bytes; llama.cpp's src/llama-vocab.cpp for GGUF files. In a
tokenizer.json such a model has the type KIND, and pieces as byte-level BPE writes them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from pyapp.errors import FileFormatError
from pyapp.text.documents import DECODE_STEPS, added_token, document
from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.post_processor import LARGEST_ID
from pyapp.text.tokenization.vocabulary_files import more_tokens

KIND = "LongestMatch"
HEAD = re.compile(rb"\d{1,7} b?['\"]")  # how a file begins
LINE = re.compile(r"(\d{1,7}) (b?(?:'.*'|\".*\")) (\d{1,7})\s*")
END = "<|endoftext|>"  # token 0, which the files leave out
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}
LONGEST = 1 << 12  # characters of a line


def read_world(text: str, where: str) -> dict[int, bytes]:
    """The pieces of a file, by id. FileFormatError for a line of another form."""
    found: dict[int, bytes] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = LINE.fullmatch(line) if len(line) <= LONGEST else None
        try:
            piece = ast.literal_eval(match[2]) if match else None
            data = piece.encode() if isinstance(piece, str) else piece
        except (ValueError, SyntaxError, UnicodeEncodeError):
            data = None
        if match is None or not isinstance(data, bytes) or len(data) != int(match[3]) or not data:
            raise FileFormatError(f"line {number} is {line!r:.60}, expected an id, a piece and its length", where=where)
        if int(match[1]) in found:
            raise FileFormatError(f"line {number} has the id {match[1]} again", where=where)
        found[int(match[1])] = data
    return found


def unescaped(piece: str) -> bytes:
    """The bytes of a piece of a GGUF file, in which others than ASCII are escaped."""

    def plain(match: re.Match[str]) -> str:
        own = match[1]
        return chr(int(own[1:], 16)) if len(own) == 3 else ESCAPES.get(own, own)

    return ESCAPE.sub(plain, piece).encode("latin-1", "replace")


def escaped(data: bytes) -> str:
    """As llama.cpp's tool writes a piece."""
    return repr(data)[2:-1]


def longest_match_document(
    pieces: Mapping[int, bytes], settings: Mapping[str, Any], where: str, added: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """The tokenizer.json. `added`: the special tokens where the settings name none. FileFormatError unless every byte
    is a piece.
    """
    letters = {byte: character for character, byte in byte_of_character().items()}
    vocabulary: dict[str, int] = {}
    for number, data in pieces.items():
        piece = "".join(letters[byte] for byte in data)
        if vocabulary.setdefault(piece, number) != number or number >= LARGEST_ID:
            raise FileFormatError(f"the tokens {vocabulary[piece]} and {number} are both {data!r:.60}", where=where)
    missing = sum(letter not in vocabulary for letter in letters.values())
    if missing:
        raise FileFormatError(f"the vocabulary lacks {missing} of the 256 bytes", where=where)
    usual = {0: END} if added is None else added
    named = {number: added_token(number, name) for number, name in usual.items() if number not in pieces}
    named |= {number: entry for number, entry in more_tokens(settings).items() if number not in pieces}
    return document(
        {"type": KIND, "vocab": vocabulary},
        added_tokens=named.values(),
        decoder=DECODE_STEPS["byte_level"],
    )


class LongestMatch:
    """Splits texts by such a tokenizer.json; names of added tokens are these tokens."""

    def __init__(self, json_text: str, where: str = "tokenizer.json") -> None:
        whole = json.loads(json_text)
        table = byte_of_character()
        self._numbers: dict[bytes, int] = {}
        lengths: dict[bytes, set[int]] = {}  # of the pieces that begin with two bytes
        try:
            for piece, number in whole["model"]["vocab"].items():
                data = bytes([table[character] for character in piece])
                self._numbers[data] = number
                lengths.setdefault(data[:2], set()).add(len(data))
        except (KeyError, AttributeError) as error:
            raise FileFormatError(f"a piece of the vocabulary is not bytes: {error!s:.60}", where=where) from error
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items() if len(start) == 2}
        if any(bytes([byte]) not in self._numbers for byte in range(256)):
            raise FileFormatError("the vocabulary lacks some of the 256 bytes", where=where)
        self._names = {entry["content"]: entry["id"] for entry in whole.get("added_tokens") or []}
        names = sorted(filter(None, self._names), key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, names)) + ")") if names else None

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        found: list[int] = []
        for part in [text] if self._split is None else self._split.split(text):
            if part in self._names:
                found.append(self._names[part])
            else:
                self._add(part.encode("utf-8", "replace"), found)
        return found

    def _add(self, data: bytes, found: list[int]) -> None:
        numbers, lengths, at = self._numbers, self._lengths, 0
        while at < len(data):
            for length in lengths.get(data[at : at + 2], ()):
                number = numbers.get(data[at : at + length])
                if number is not None and at + length <= len(data):
                    break
            else:
                length, number = 1, numbers[data[at : at + 1]]
            found.append(number)
            at += length
