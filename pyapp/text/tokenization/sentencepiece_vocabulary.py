"""A vocabulary of sentencepiece as a tokenizer.json: byte-pair encoding and unigram models.

Kudo and Richardson, SentencePiece (2018). Byte-pair encoding joins the two neighbours whose union has the best score,
which a list of merges in the order of the scores expresses. The steps of the normaliser are its compiled table, the
removal of superfluous spaces, a space before the text, and U+2581 for each space.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats.sentencepiece_model import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, SentencePieceModel
from pyapp.text.documents import SPACE, added_token, bpe_model, document, sequence
from pyapp.text.tokenization.llama2c_vocabulary import merges_by_score

MERGE_WORK = 1 << 28  # characters compared when merges are sought: all cuts of all pieces


def sentencepiece_document(
    model: SentencePieceModel, post_processor: dict[str, Any] | None = None, where: str = "tokenizer.model"
) -> dict[str, Any]:
    """The tokenizer.json of a model. ModelError for one that splits text into words."""
    letters = all(len(piece) == 1 for piece, type in zip(model.pieces, model.types, strict=True) if type == NORMAL)
    if model.kind not in ("bpe", "unigram") and not (model.kind == "char" and letters):
        raise ModelError(
            f"its kind {model.kind!r} is not supported",
            where=where,
            hint="Supported: bpe, unigram and char",
        )
    if model.whitespace_as_suffix or not model.escape_whitespaces:
        raise ModelError("it treats spaces in a way that is not supported", where=where)
    check_pieces(model, where)
    return document(
        _bpe(model, where) if model.kind == "bpe" else _unigram(model),
        added_tokens=_added(model),
        normalizer=_normalizer(model),
        pre_tokenizer=_pre_tokenizer(model),
        post_processor=post_processor,
        decoder=_decoder(model),
    )


def check_pieces(model: SentencePieceModel, where: str) -> None:
    """FileFormatError for two equal pieces, or an unknown piece that is missing."""
    seen: dict[str, int] = {}
    for number, piece in enumerate(model.pieces):
        if seen.setdefault(piece, number) != number:
            raise FileFormatError(f"pieces {seen[piece]} and {number} are both {piece!r:.60}", where=where)
    if not 0 <= model.unk_id < len(model.pieces):
        raise FileFormatError("it has no unknown piece", where=where)


def _added(model: SentencePieceModel) -> list[dict[str, Any]]:
    """Control pieces are found in text as special tokens, the user's own pieces as ordinary ones."""
    found: list[dict[str, Any]] = []
    for number, (piece, kind) in enumerate(zip(model.pieces, model.types, strict=True)):
        if not piece:
            continue
        if kind in (CONTROL, UNKNOWN):
            found.append(added_token(number, piece))
        elif kind == USER_DEFINED:
            # They match normalised text. The libraries normalise them too, which would put a space before them.
            plain = model.add_dummy_prefix
            content = piece.replace(SPACE, " ") if plain else piece
            found.append(added_token(number, content, special=False, normalized=not plain))
    return found


def _bpe(model: SentencePieceModel, where: str) -> dict[str, Any]:
    work = sum(len(piece) ** 2 for piece in model.pieces)
    if work > MERGE_WORK:
        raise FileFormatError("its pieces are too long to seek their merges", where=where)
    kinds = [NORMAL] * len(model.pieces) if not model.types else model.types
    usable = [number for number, kind in enumerate(kinds) if kind == NORMAL and model.pieces[number]]
    texts, scores = [model.pieces[i] for i in usable], [model.scores[i] for i in usable]
    names = {entry["content"]: entry["id"] for entry in _added(model)}
    vocabulary = {piece: number for number, piece in enumerate(model.pieces) if piece not in names}
    return bpe_model(
        vocabulary | names,
        merges_by_score(texts, scores),
        unk_token=model.pieces[model.unk_id],
        fuse_unk=True,
        byte_fallback=has_bytes(model.pieces, model.types),
    )


def has_bytes(pieces: Sequence[str], types: Sequence[int]) -> bool:
    """Whether all 256 bytes are pieces: characters without a piece become their bytes."""
    return {f"<0x{byte:02X}>" for byte in range(256)} <= {
        piece for piece, kind in zip(pieces, types, strict=True) if kind == BYTE
    }


def _unigram(model: SentencePieceModel) -> dict[str, Any]:
    return {
        "type": "Unigram",
        "unk_id": model.unk_id,
        "vocab": [[piece, score] for piece, score in zip(model.pieces, model.scores, strict=True)],
        "byte_fallback": has_bytes(model.pieces, model.types),
    }


def _normalizer(model: SentencePieceModel) -> dict[str, Any] | None:
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(model.charsmap).decode()})
    if model.remove_extra_whitespaces:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    else:
        if model.add_dummy_prefix:
            steps.append({"type": "Prepend", "prepend": SPACE})
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return sequence("normalizers", steps)


def _pre_tokenizer(model: SentencePieceModel) -> dict[str, Any] | None:
    if not model.remove_extra_whitespaces:
        return None
    # An empty text stays empty: the space before a text is put there after superfluous ones are gone.
    scheme = "always" if model.add_dummy_prefix else "never"
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False}


def _decoder(model: SentencePieceModel) -> dict[str, Any] | None:
    steps: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    if has_bytes(model.pieces, model.types):
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if model.add_dummy_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return sequence("decoders", steps)
