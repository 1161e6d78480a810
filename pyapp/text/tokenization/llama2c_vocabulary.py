"""llama2.c's tokenizer.bin as a tokenizer.json: byte-pair encoding with byte fallback.

llama2.c (https://github.com/karpathy/llama2.c, `encode` in run.c) puts a space before the text and splits it into
characters; a character without a token becomes its bytes. Then it repeatedly joins the two neighbours whose union has
the best score. Here the unions become merges in the order of their scores, the form of the same rule in the tokenizers
libraries. (One difference is left: between unions of exactly equal score llama2.c takes the leftmost, a merge list the
first in the list. Scores of real vocabularies are all different.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyapp.errors import FileFormatError

UNKNOWN, BOS, EOS, FIRST_BYTE = 0, 1, 2, 3
PREFIX = " "
# llama2.c starts its search for the best pair here; a score below never wins.
LOWEST_SCORE = -1e10


def piece_texts(pieces: Sequence[bytes | str], where: str) -> list[str]:
    """The pieces as text; FileFormatError if they break an assumption of llama2.c's encoder."""
    hint = "Take the tokenizer.bin that belongs to the model, or export it again with llama2.c's tokenizer.py"

    def refuse(what: str) -> FileFormatError:
        return FileFormatError(what, where=where, hint=hint)

    texts: list[str] = []
    for number, piece in enumerate(pieces):
        if isinstance(piece, bytes):
            try:
                piece = piece.decode()
            except UnicodeDecodeError:
                raise refuse(f"token {number} is not valid UTF-8: {piece!r:.60}") from None
        texts.append(piece)
    if len(texts) < FIRST_BYTE + 256:
        raise refuse(f"a vocabulary of {len(texts)} tokens is too small: <unk>, <s>, </s> and 256 bytes are needed")
    for byte in range(256):
        if texts[FIRST_BYTE + byte].upper() != f"<0X{byte:02X}>":
            raise refuse(f"token {FIRST_BYTE + byte} is {texts[FIRST_BYTE + byte]!r:.60}, not the byte <0x{byte:02X}>")
    seen: dict[str, int] = {}
    for number, text in enumerate(texts):
        if seen.setdefault(text, number) != number:
            raise refuse(f"tokens {seen[text]} and {number} are both {text!r:.60}")
    return texts


def merges_by_score(texts: Sequence[str], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to join two pieces into a third, best score first; for one piece the longest left part first."""
    known = set(texts)
    found = [
        (-score, number, -cut)
        for number, (text, score) in enumerate(zip(texts, scores, strict=True))
        if score > LOWEST_SCORE
        for cut in range(1, len(text))
        if text[:cut] in known and text[cut:] in known
    ]
    found.sort()
    return [(texts[number][:-cut], texts[number][-cut:]) for _, number, cut in found]


def bos_template(text: str) -> dict[str, Any]:
    """A post-processor that puts the token `text`, number 1, before each text."""
    bos: dict[str, Any] = {"SpecialToken": {"id": text, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": kind}} for name, kind in (("A", 0), ("B", 1)))
    return {
        "type": "TemplateProcessing",
        "single": [bos, first],
        "pair": [bos, first, bos | {"SpecialToken": {"id": text, "type_id": 1}}, second],
        "special_tokens": {text: {"id": text, "ids": [BOS], "tokens": [text]}},
    }


def tokenizer_document(
    pieces: Sequence[bytes | str], scores: Sequence[float], where: str = "tokenizer.bin"
) -> dict[str, Any]:
    """The tokenizer.json (as a dict) of a llama2.c vocabulary: pieces as in tokenizer.bin, with plain spaces.

    Control tokens are not "added tokens": as in llama2.c, `<s>` inside a text stays text. `where` names the file in
    errors.
    """
    if len(pieces) != len(scores):
        raise FileFormatError(f"{len(pieces)} tokens but {len(scores)} scores", where=where)
    texts = piece_texts(pieces, where)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Prepend", "prepend": PREFIX},
        "pre_tokenizer": None,
        "post_processor": bos_template(texts[BOS]),
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": PREFIX, "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": texts[UNKNOWN],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {text: number for number, text in enumerate(texts)},
            "merges": merges_by_score(texts, scores),
        },
    }
