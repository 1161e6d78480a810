"""The tokenizer of the small Blenderbot: byte-pair encoding of words in small letters, in whose vocabulary a piece ends
with "@@" if its word goes on (Sennrich et al. 2016, arXiv 1508.07909).

Source: tokenization_blenderbot_small.py of transformers (Apache 2.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError
from pyapp.text.documents import added_token, bpe_model, document
from pyapp.text.tokenization.vocabulary_files import END_OF_WORD, more_tokens, token_name

NAMES = {"bos_token": "__start__", "eos_token": "__end__", "pad_token": "__null__", "unk_token": "__unk__"}
GOES_ON = "@@"
# A stop begins a word, an apostrophe is one; the end of a line is a word where another character is before it.
WORDS = r"'|[.,!?()][^\s.,!?()']*|[^\s.,!?()']+"
LINE = {"type": "Replace", "pattern": {"Regex": r"(?<=[^\s'])\n"}, "content": " __newln__ "}


def joined_pieces_document(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], settings: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tokenizer.json of a vocab.json with its merges, and the settings (tokenizer_config.json) with the names of
    special tokens. FileFormatError where the vocabulary has no token for what it does not know.
    """
    names = {role: token_name(settings, role, usual) for role, usual in NAMES.items()}
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
    for left, right in merges:  # a piece that is no token may be a part of one
        for piece in (left, right, left + right):
            pieces.setdefault(piece, vocabulary[unknown])
    steps = [LINE, {"type": "Lowercase"}]
    made = document(
        bpe_model(pieces, list(merges), unk_token=unknown, end_of_word_suffix=END_OF_WORD),
        added_tokens=list((special | listed).values()),
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer={"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Removed", "invert": True},
        decoder={"type": "BPEDecoder", "suffix": END_OF_WORD},
    )
    return made, {**names, **settings}
