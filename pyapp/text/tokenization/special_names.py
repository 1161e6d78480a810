"""Names of special tokens in text from outside: they must not become special tokens.

A chat template writes `<|im_end|>` into a conversation; a user may do so too. `guard` marks the names in the user's
text before the template runs, and `split_guarded` tells the template's names from the user's afterwards. Text with
names that stay text is encoded by a tokenizer whose special tokens have other names (`plain_document`), so that it is
split exactly as any other text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

# Noncharacters of Unicode: text that is exchanged does not contain them. Replaced by U+FFFD where it does.
OPEN, CLOSE = "\ufdd0", "\ufdd1"
_CLEAN = str.maketrans(dict.fromkeys((OPEN, CLOSE), "\ufffd"))


@lru_cache(maxsize=8)
def _pattern(names: frozenset[str]) -> re.Pattern[str] | None:
    """Finds the longest name at a place; a name of one character cannot be marked and is left out."""
    ordered = sorted((name for name in names if len(name) > 1), key=lambda name: (-len(name), name))
    return re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None


def has_name(text: str, names: frozenset[str]) -> bool:
    """Whether a name occurs in the text, or would after compatibility normalisation (fullwidth letters)."""
    pattern = _pattern(names)
    if pattern is None:
        return False
    if pattern.search(text):
        return True
    return not text.isascii() and pattern.search(unicodedata.normalize("NFKC", text)) is not None


def guard(text: str, names: frozenset[str]) -> str:
    """The text with a mark inside each name."""
    pattern = _pattern(names)
    text = text.translate(_CLEAN)
    while pattern is not None and pattern.search(text):
        text = pattern.sub(lambda match: match[0][0] + OPEN + match[0][1:], text)
    return text


def split_guarded(text: str, names: frozenset[str]) -> str:
    """The text in the names of `plain_document`: names without marks become special tokens, those with marks text."""
    pattern = _pattern(names)
    parts = pattern.split(text) if pattern else [text]
    parts[::2] = [part.replace(OPEN, "") for part in parts[::2]]
    parts[1::2] = [f"{OPEN}{part}{CLOSE}" for part in parts[1::2]]
    return "".join(parts)


def plain_text(text: str) -> str:
    """Text for the tokenizer of `plain_document`, none of it special."""
    return text.translate(_CLEAN)


def plain_document(document: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The tokenizer.json with other names for the special tokens `names`; their ids stay."""

    def renamed(name: Any) -> Any:
        return f"{OPEN}{name}{CLOSE}" if isinstance(name, str) and name in names else name

    model = dict(document["model"])
    vocabulary = model["vocab"]
    if isinstance(vocabulary, Mapping):
        model["vocab"] = {renamed(name): number for name, number in vocabulary.items()}
    else:
        model["vocab"] = [[renamed(name), score] for name, score in vocabulary]
    if "unk_token" in model:
        model["unk_token"] = renamed(model["unk_token"])
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if not _merges_into(merge, names)]
    added = [
        {**entry, "content": renamed(entry["content"]), "normalized": False} if entry["content"] in names else entry
        for entry in document.get("added_tokens") or []
    ]
    return {**document, "model": model, "added_tokens": added}


def _merges_into(merge: str | Sequence[str], names: Collection[str]) -> bool:
    """Whether a merge reads or makes one of the names."""
    parts = merge.split(" ") if isinstance(merge, str) else list(merge)
    return "".join(parts) in names or any(part in names for part in parts)
