"""The compiled table of sentencepiece's normaliser, for the page: its library only knows the most usual table.

Source: https://github.com/google/sentencepiece, src/normalizer.cc: the size of a trie in bytes (uint32), the trie (a
double array of uint32, https://github.com/s-yata/darts-clone), then the replacements, each ended by a zero byte. At
each place of a text the longest entry of the trie is replaced.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import unicodedata
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyapp.errors import FileFormatError
from pyapp.formats.safe_json import parse_json

KIND = "Precompiled"


class CharsMap:
    """`normalize` replaces what the table lists. FileFormatError for a damaged table."""

    def __init__(self, data: bytes, where: str = "tokenizer.json") -> None:
        size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else -1
        if not 0 <= size <= len(data) - 4 or size % 4:
            raise FileFormatError("the table of its normaliser is damaged", where=where, hint="Download it again")
        self._units = array("I", data[4 : 4 + size])
        self._replacements = data[4 + size :]

    def check(self, where: str) -> None:
        """FileFormatError for replacements that are not UTF-8."""
        try:
            self._replacements.decode()
        except UnicodeDecodeError as error:
            what = f"the table of its normaliser is damaged: {error.reason} at byte {error.start}"
            raise FileFormatError(what, where=where, hint="Download it again") from error

    def normalize(self, text: str) -> str:
        data = text.encode("utf-8", "replace")
        found = bytearray()
        at = 0
        while at < len(data):
            length, value = self._longest(data, at)
            if length:
                end = self._replacements.find(b"\0", value)
                found += self._replacements[value : end if end >= 0 else None]
            else:
                length = _width(data[at])
                found += data[at : at + length]
            at += length
        return found.decode("utf-8", "replace")

    def _longest(self, data: bytes, at: int) -> tuple[int, int]:
        """(bytes, place of the replacement) of the longest entry at a place; 0 bytes if there is none."""
        units, best, value = self._units, 0, 0
        if not units:
            return 0, 0
        node = _offset(units[0])
        for index in range(at, len(data)):
            node ^= data[index]
            if node >= len(units) or units[node] & 0x800000FF != data[index]:
                break
            unit = units[node]
            node ^= _offset(unit)
            if unit >> 8 & 1 and node < len(units):
                best, value = index + 1 - at, units[node] & 0x7FFFFFFF
        return best, value


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _width(byte: int) -> int:
    """The bytes of the UTF-8 character that begins with `byte`."""
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


# Steps that may come before the table, by their type.
BEFORE: Mapping[str, Callable[[str], str]] = {
    "Lowercase": str.lower,
    "StripAccents": lambda text: "".join(sign for sign in text if unicodedata.category(sign) != "Mn"),
    "NFC": partial(unicodedata.normalize, "NFC"),
    "NFD": partial(unicodedata.normalize, "NFD"),
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "NFKD": partial(unicodedata.normalize, "NFKD"),
}


def before_of(step: Mapping[str, Any]) -> Callable[[str], str] | None:
    """The function of a step that may come before the table; None for any other."""
    pattern, content = step.get("pattern"), step.get("content")
    old = pattern.get("String") if step.get("type") == "Replace" and isinstance(pattern, Mapping) else None
    if isinstance(old, str) and old and isinstance(content, str):
        return lambda text: text.replace(old, content)
    return BEFORE.get(str(step.get("type")))


class TextNormalizer:
    """What is left to do before the page's library: `text` without its charsmap, applied between added tokens. `before`
    are the steps that come first.
    """

    def __init__(self, charsmap: CharsMap, names: list[str], before: Sequence[Callable[[str], str]] = ()) -> None:
        self._charsmap, self._before = charsmap, before
        ordered = sorted(filter(None, names), key=len, reverse=True)
        self._names = re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None

    def __call__(self, text: str) -> str:
        parts = self._names.split(text) if self._names else [text]
        parts[::2] = map(self._normalized, parts[::2])
        return "".join(parts)

    def _normalized(self, text: str) -> str:
        for step in self._before:
            text = step(text)
        return self._charsmap.normalize(text)


def _decoded(table: str, where: str) -> bytes:
    try:
        return base64.b64decode(table, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FileFormatError("its precompiled_charsmap is not base64", where=where) from error


def check_charsmaps(normalizer: Any, where: str) -> None:
    """FileFormatError for a damaged table in a normaliser of a tokenizer.json: a library could end on it."""
    if not isinstance(normalizer, Mapping):
        return
    steps = normalizer.get("normalizers")
    for step in steps if isinstance(steps, list) else ():
        check_charsmaps(step, where)
    table = normalizer.get("precompiled_charsmap") if normalizer.get("type") == KIND else None
    if isinstance(table, str) and table:
        CharsMap(_decoded(table, where), where).check(where)


def take_charsmap(json_text: str) -> tuple[str, TextNormalizer | None]:
    """A tokenizer.json without its normaliser's charsmap and the steps before it, and what does their work."""
    if f'"{KIND}"' not in json_text:
        return json_text, None
    document: dict[str, Any] = parse_json(json_text)
    normalizer = document.get("normalizer")
    if not isinstance(normalizer, Mapping):
        return json_text, None
    steps = list(normalizer.get("normalizers") or []) if normalizer.get("type") == "Sequence" else [normalizer]
    before: list[Callable[[str], str]] = []
    while steps and (step := before_of(steps[0])) is not None:
        before.append(step)
        del steps[0]
    table = steps[0].get("precompiled_charsmap") if steps and steps[0].get("type") == KIND else None
    if not isinstance(table, str) or not table:
        return json_text, None
    data = _decoded(table, "tokenizer.json")
    document["normalizer"] = {"type": "Sequence", "normalizers": steps[1:]} if len(steps) > 1 else None
    names = [entry["content"] for entry in document.get("added_tokens") or [] if not entry.get("normalized")]
    return json.dumps(document, ensure_ascii=False), TextNormalizer(CharsMap(data), names, before)
