"""The tokenizer of OPUS-MT's translators as a tokenizer.json: source.spm splits a text into pieces, vocab.json has the
numbers of the pieces of both languages (Tiedemann and Thottingal 2020, OPUS-MT).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.sentencepiece_model import NORMAL, USER_DEFINED, SentencePieceModel
from pyapp.text.documents import added_token, sequence, template
from pyapp.text.tokenization.sentencepiece_vocabulary import sentencepiece_document

SPECIAL = ("</s>", "<unk>", "<pad>")
LANGUAGE = re.compile(r">>[^<>]+<<")  # the token of a language, at the start of a text
NEVER = -1e4  # the score of characters of the other language: any way to split a text into own pieces is better
FOREIGN = "\ue000"  # put before the other language's pieces, so that no text has them; removed when ids become text


def marian_document(source: SentencePieceModel, numbers: Mapping[str, int], where: str) -> dict[str, Any]:
    """The tokenizer.json of the pieces of `source` with the ids of vocab.json, `numbers`; a text ends with </s>.

    Pieces of source.spm without a number are left out. A character that only the other language has is its piece; in a
    run of several of them each is, where OPUS-MT's own tokenizer takes the run as unknown. FileFormatError for ids
    with gaps or without the special tokens, ModelError for pieces that are not chosen by their scores (a unigram
    model).
    """
    if source.kind != "unigram":
        raise ModelError(f"its kind {source.kind!r} is not supported", where=where, hint="Supported: unigram")
    pieces = sorted(numbers, key=lambda piece: numbers[piece])
    if [numbers[piece] for piece in pieces] != list(range(len(pieces))):
        raise FileFormatError("the numbers of its pieces are not 0, 1, 2 … without gaps", where=where)
    missing = [name for name in SPECIAL if name not in numbers]
    if missing:
        raise FileFormatError(f"it has no {', '.join(missing)}", where=where)
    kinds = source.types or [NORMAL] * len(source.pieces)
    own = {
        piece: score
        for piece, score, kind in zip(source.pieces, source.scores, kinds, strict=True)
        if kind in (NORMAL, USER_DEFINED)
    }
    known = replace(
        source,
        pieces=[piece if piece in own or piece in SPECIAL or len(piece) == 1 else FOREIGN + piece for piece in pieces],
        scores=[own.get(piece, NEVER) for piece in pieces],
        types=[NORMAL] * len(pieces),
        unk_id=numbers["<unk>"],
    )
    ending = template([], [("</s>", numbers["</s>"])], between=[("</s>", numbers["</s>"])], second_type=0)
    found = sentencepiece_document(known, ending, where)
    removed = {"type": "Replace", "pattern": {"String": FOREIGN}, "content": ""}
    found["decoder"] = sequence("decoders", [removed, *found["decoder"]["decoders"]])
    names = [*SPECIAL, *(piece for piece in pieces if LANGUAGE.fullmatch(piece))]
    found["added_tokens"] = sorted((added_token(numbers[name], name) for name in names), key=lambda entry: entry["id"])
    numbered = found["model"]["vocab"]
    for name in names:
        numbered[numbers[name]][0] = name
    return found
