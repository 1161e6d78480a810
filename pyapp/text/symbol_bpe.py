"""Byte-pair encoding of a few signs by a tokenizer.json's merges, where a tokenizer for whole texts would be made for
these alone: in a browser that takes 0.1 s.

Source: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units (2016); the bytes of GPT-2's
vocabulary as Hugging Face's tokenizers write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.text.pieces import byte_of_character
from pyapp.text.rank_bpe import NO_RANK, merge

# Settings of a model of type BPE that change what merges give, with the values that do not.
PLAIN_MODEL = {
    "byte_fallback": False,
    "continuing_subword_prefix": "",
    "dropout": 0,
    "end_of_word_suffix": "",
    "ignore_merges": False,
}


def is_plain(document: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is byte-level BPE as GPT-2 has it: then signs without white space between them, after
    at most one space, are one word, and merges alone decide its tokens."""
    model, splitter = document["model"], document.get("pre_tokenizer")
    if model.get("type", "BPE") != "BPE" or document.get("normalizer") or not isinstance(splitter, Mapping):
        return False
    splits = splitter.get("type") == "ByteLevel" and splitter.get("use_regex", True) is True
    return (
        splits
        and splitter.get("add_prefix_space") is False
        and all((model.get(name) or plain) == plain for name, plain in PLAIN_MODEL.items())
    )


def encode_signs(document: Mapping[str, Any], texts: Sequence[str]) -> list[list[int]] | None:
    """The ids of each text, as Hugging Face's tokenizers give them; None where only a library can.

    Each text is a space or nothing, then signs that are neither letters, digits nor white space.
    """
    try:
        return _encode(document, texts) if is_plain(document) else None
    except (LookupError, TypeError, AttributeError, ValueError):  # malformed: the library says what is wrong
        return None


def _encode(document: Mapping[str, Any], texts: Sequence[str]) -> list[list[int]] | None:
    character_of = {byte: character for character, byte in byte_of_character().items()}
    words = [[character_of[byte] for byte in text.encode()] for text in texts]
    letters = "".join({letter for word in words for letter in word})
    vocabulary, merges = document["model"]["vocab"], document["model"]["merges"]
    if merges and not isinstance(merges[0], str):
        merges = [" ".join(pair) for pair in merges]
    among = f"{letters} "
    ranks = {pair: rank for rank, pair in enumerate(merges) if not pair.strip(among)}

    def rank(left: str, right: str) -> int:
        return ranks.get(f"{left} {right}", NO_RANK)

    found = [[vocabulary.get(part) for part in merge(word, rank)] for word in words]
    return found if all(type(token) is int for tokens in found for token in tokens) else None
