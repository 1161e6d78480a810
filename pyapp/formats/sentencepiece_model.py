"""sentencepiece's .model files: the vocabulary and its settings, read without protobuf and without running code.

Source of the format: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto (a protobuf
message; the wire format is described at https://protobuf.dev/programming-guides/encoding). Every length is compared
with the end of the message that contains it, and the number of pieces with a limit.
"""

from __future__ import annotations

from dataclasses import field
from math import isfinite

from pyapp.dataclass import dataclass

from .protobuf import Field, MessageReader
from .source import DOCUMENT_LIMIT, ByteSource, BytesSource, read_whole

PIECES_LIMIT = 1 << 21
PIECE_BYTES = 1 << 12
FIELDS_LIMIT = 1 << 12  # of a message other than the list of pieces
HINT = "The file is damaged, or not a sentencepiece model: download it again"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclass
class SentencePieceModel:
    """`pieces[i]` with its `scores[i]` and `types[i]` (NORMAL … BYTE); `kind` is "unigram", "bpe", "word" or "char".

    `charsmap` is the compiled table of the normaliser (empty: text is not changed). The ids of special pieces are -1
    where there is none.
    """

    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    kind: str = "unigram"
    byte_fallback: bool = False
    whitespace_as_suffix: bool = False
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = -1
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


def read_sentencepiece_model(source: ByteSource) -> SentencePieceModel:
    """The content of a .model file. FileFormatError for a damaged or hostile one."""
    whole = BytesSource(read_whole(source), source.name)
    model = SentencePieceModel()
    reader = _Reader(whole)
    for part in reader.fields(0, whole.size, PIECES_LIMIT + FIELDS_LIMIT):
        if part.number == 1:
            _read_piece(reader, part, model)
        elif part.number == 2:
            _read_trainer(reader, part, model)
        elif part.number == 3:
            _read_normalizer(reader, part, model)
    if not model.pieces:
        raise reader.broken("it has no pieces")
    count = len(model.pieces)
    for name in ("unk_id", "bos_id", "eos_id", "pad_id"):
        if not -1 <= getattr(model, name) < count:
            setattr(model, name, -1)
    return model


class _Reader(MessageReader):
    """Scores are finite, numbers have 32 bits."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source, "sentencepiece model", HINT)

    def float_of(self, field: Field) -> float:
        score = super().float_of(field)
        if not isfinite(score):
            raise self.broken(f"a score is {score}")
        return score

    def int_of(self, field: Field) -> int:
        return max(-(1 << 31), min(super().int_of(field), (1 << 31) - 1))


def _read_piece(reader: _Reader, message: Field, model: SentencePieceModel) -> None:
    piece, score, kind = b"", 0.0, NORMAL
    if message.size > PIECE_BYTES + 64:
        raise reader.broken(f"piece {len(model.pieces)} has {message.size:,} bytes")
    for part in reader.fields(message.start, message.end, FIELDS_LIMIT):
        if part.number == 1:
            piece = reader.bytes_of(part, PIECE_BYTES + 64)
        elif part.number == 2:
            score = reader.float_of(part)
        elif part.number == 3:
            kind = reader.int_of(part)
    if len(model.pieces) == PIECES_LIMIT:
        raise reader.broken(f"it has more than {PIECES_LIMIT:,} pieces")
    try:
        model.pieces.append(piece.decode())
    except UnicodeDecodeError:
        raise reader.broken(f"piece {len(model.pieces)} is not UTF-8") from None
    model.scores.append(score)
    model.types.append(kind if NORMAL <= kind <= BYTE else NORMAL)


def _read_trainer(reader: _Reader, message: Field, model: SentencePieceModel) -> None:
    names = {40: "unk_id", 41: "bos_id", 42: "eos_id", 43: "pad_id"}
    for part in reader.fields(message.start, message.end, FIELDS_LIMIT):
        if part.number == 3:
            code = reader.int_of(part)
            if code not in KINDS:
                raise reader.broken(f"the kind of model is {code}")
            model.kind = KINDS[code]
        elif part.number == 35:
            model.byte_fallback = reader.int_of(part) != 0
        elif part.number == 24:
            model.whitespace_as_suffix = reader.int_of(part) != 0
        elif part.number in names:
            setattr(model, names[part.number], reader.int_of(part))


def _read_normalizer(reader: _Reader, message: Field, model: SentencePieceModel) -> None:
    names = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
    for part in reader.fields(message.start, message.end, FIELDS_LIMIT):
        if part.number == 2:
            model.charsmap = reader.bytes_of(part, DOCUMENT_LIMIT)
        elif part.number in names:
            setattr(model, names[part.number], reader.int_of(part) != 0)
