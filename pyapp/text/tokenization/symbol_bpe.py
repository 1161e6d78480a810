"""Byte-pair encoding of a few symbols by a tokenizer.json's merges. It avoids constructing a tokenizer for whole texts,
which takes 0.1 s in a browser.

Source: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units (2016); the bytes of GPT-2's
vocabulary as Hugging Face's tokenizers write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.text.tokenization.pieces import byte_of_character
from pyapp.text.tokenization.rank_bpe import NO_RANK, merge

# Settings of a BPE model that change the result of the merges, with the values that do not.
PLAIN_MODEL = {
    "byte_fallback": False,
    "continuing_subword_prefix": "",
    "dropout": 0,
    "end_of_word_suffix": "",
    "ignore_merges": False,
}


def is_plain(document: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is byte-level BPE as in GPT-2. Then symbols without white space between them, after at
    most one space, are one word, and only merges determine its tokens.
    """
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
    """The ids of each text, equal to those of Hugging Face's tokenizers; None if only a library can compute them.

    Each text is an optional space, then symbols that are neither letters, digits nor white space.
    """
    try:
        return _encode(document, texts) if is_plain(document) else None
    except (LookupError, TypeError, AttributeError, ValueError):  # malformed: the library reports the error
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
