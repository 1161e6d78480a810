"""The tokenizers of the small Blenderbot and of CTRL: byte-pair encoding of words, in whose vocabulary a piece ends
with "@@" if its word goes on (Sennrich et al. 2016, arXiv 1508.07909). The small Blenderbot's words are in small
letters.

Source: tokenization_blenderbot_small.py and tokenization_ctrl.py of transformers (Apache 2.0).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from pyapp.errors import FileFormatError
from pyapp.text.documents import added_token, bpe_model, document
from pyapp.text.tokenization.vocabulary_files import END_OF_WORD, more_tokens, token_name

NAMES = {"bos_token": "__start__", "eos_token": "__end__", "pad_token": "__null__", "unk_token": "__unk__"}
OF_CTRL = {"unk_token": "<unk>"}
GOES_ON = "@@"
KNOWN = "known_tokens"  # the key of a tokenizer.json: pieces from this id on are no tokens of the model
# A stop begins a word, an apostrophe is one; the end of a line is a word where another character is before it.
WORDS = r"'|[.,!?()][^\s.,!?()']*|[^\s.,!?()']+"
SPACED = r"\S+\n?"  # CTRL's words, with the end of the line behind them
LINE = {"type": "Replace", "pattern": {"Regex": r"(?<=[^\s'])\n"}, "content": " __newln__ "}


def joined_pieces_document(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], settings: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tokenizer.json of a vocab.json with its merges, and the settings (tokenizer_config.json) with the names of
    special tokens. FileFormatError where the vocabulary has no token for what it does not know.
    """
    spaced = settings.get("tokenizer_class") == "CTRLTokenizer"
    names = {role: token_name(settings, role, usual) for role, usual in (OF_CTRL if spaced else NAMES).items()}
    unknown = names["unk_token"]
    if unknown not in vocabulary:
        raise FileFormatError(f"the vocabulary has no {unknown!r:.40}", where=where)
    listed = more_tokens(settings)
    special = {vocabulary[name]: added_token(vocabulary[name], name) for name in names.values() if name in vocabulary}
    pieces: dict[str, int] = {}
    for token, number in vocabulary.items():
        if number in special:
            pieces[token] = number
        else:
            pieces[token.removesuffix(GOES_ON) if token.endswith(GOES_ON) else token + END_OF_WORD] = number
    numbers = {*vocabulary.values()}
    pieces |= {entry["content"]: number for number, entry in listed.items() if number not in numbers}
    known = max(pieces.values()) + 1
    others = count(known)
    for left, right in merges:  # a piece that is no token may be a part of one
        for piece in (left, right, left + right):
            if piece not in pieces:
                pieces[piece] = next(others)
    steps: list[Any] = [] if spaced else [LINE, {"type": "Lowercase"}]
    pattern = SPACED if spaced else WORDS
    made = document(
        bpe_model(pieces, list(merges), unk_token=unknown, end_of_word_suffix=END_OF_WORD),
        added_tokens=list((special | listed).values()),
        normalizer={"type": "Sequence", "normalizers": steps} if steps else None,
        pre_tokenizer={"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True},
        decoder={"type": "BPEDecoder", "suffix": END_OF_WORD},
    ) | {KNOWN: known}
    return made, {**names, **settings}


class KnownPieces:
    """Splits texts by such a tokenizer.json: pieces that are no tokens become the unknown one. `library` makes what
    does the byte-pair encoding. FileFormatError where no token is the unknown one.
    """

    def __init__(self, json_text: str, library: Callable[[str], Any], where: str = "tokenizer.json") -> None:
        whole = json.loads(json_text)
        self._known, model = whole.pop(KNOWN), whole["model"]
        names, unknown = model["vocab"], model.get("unk_token")
        if not isinstance(names, dict) or not isinstance(unknown, str) or unknown not in names:
            raise FileFormatError(f"its unk_token {unknown!r:.40} is no token, which {KNOWN} needs", where=where)
        self._unknown = names[unknown]
        self._library = library(json.dumps(whole, ensure_ascii=False))
        if hasattr(self._library, "encode_with_offsets"):  # the page's library gives none
            self.encode_with_offsets = self._with_offsets

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [number if number < self._known else self._unknown for number in self._library.encode(text)]

    def _with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text, and the characters [start, end) of each."""
        ids, spans = self._library.encode_with_offsets(text)
        return [number if number < self._known else self._unknown for number in ids], list(spans)
