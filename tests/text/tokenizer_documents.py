"""Documents of the form of tokenizer.json, in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def document(model: Mapping[str, Any], special: Mapping[str, int], **parts: Any) -> dict[str, Any]:
    """A tokenizer of a model, with the numbers of its special tokens; `parts`: pre_tokenizer and others by name."""
    flags = {"special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": number, "content": name, **flags} for name, number in special.items()]
    others = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return {"version": "1.0", **others, "added_tokens": added, "model": dict(model)} | parts


def numbered(words: Iterable[str]) -> dict[str, int]:
    """The words with their places as numbers."""
    return {word: number for number, word in enumerate(words)}


def whole_words(words: Sequence[str], unknown: str = "[UNK]") -> dict[str, Any]:
    """A model whose tokens are words."""
    return {"type": "WordLevel", "vocab": numbered(words), "unk_token": unknown}


def byte_pairs(vocabulary: Mapping[str, int], merges: Sequence[Any] = (), unknown: str | None = None) -> dict[str, Any]:
    """A model of byte-pair encoding."""
    return {
        "type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": dict(vocabulary),
        "merges": list(merges),
    }  # fmt: skip


def template(numbers: Mapping[str, int], single: str, pair: str = "") -> dict[str, Any]:
    """What stands around a text and two, as the library `tokenizers` writes it: "[CLS] $A [SEP] $B:1 [SEP]:1"."""

    def parts(text: str) -> list[dict[str, Any]]:
        found = []
        for part in text.split():
            name, _, kind = part.rpartition(":") if part[-2:] == ":1" else (part, "", "0")
            owner, name = ("Sequence", name[1:]) if name.startswith("$") else ("SpecialToken", name)
            found.append({owner: {"id": name, "type_id": int(kind)}})
        return found

    return {
        "type": "TemplateProcessing", "single": parts(single), "pair": parts(pair),
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in numbers.items()
        },
    }  # fmt: skip
