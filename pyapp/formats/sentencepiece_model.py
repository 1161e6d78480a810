"""sentencepiece's .model files: the vocabulary and its settings, read without protobuf and without running code.

Source of the format: https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto (a protobuf
message; the wire format is described at https://protobuf.dev/programming-guides/encoding). Every length is compared
with the end of the message that contains it, and the number of pieces with a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from pyapp.errors import FileFormatError

from .source import ByteSource, read_whole

PIECES_LIMIT = 1 << 21
PIECE_BYTES = 1 << 12
FIELDS_LIMIT = 1 << 12  # of a message other than the list of pieces
HINT = "The file is damaged, or not a sentencepiece model: download it again"

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


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
    data = read_whole(source)
    model = SentencePieceModel()
    reader = _Reader(data, source.name)
    for number, value in reader.fields(0, len(data), PIECES_LIMIT + FIELDS_LIMIT):
        if number == 1:
            _read_piece(reader, value, model)
        elif number == 2:
            _read_trainer(reader, value, model)
        elif number == 3:
            _read_normalizer(reader, value, model)
    if not model.pieces:
        raise reader.broken("it has no pieces")
    count = len(model.pieces)
    for name in ("unk_id", "bos_id", "eos_id", "pad_id"):
        if not -1 <= getattr(model, name) < count:
            setattr(model, name, -1)
    return model


@dataclass(frozen=True)
class _Value:
    """A field: a whole number, or the bytes [start, end) of the file."""

    kind: int
    number: int = 0
    start: int = 0
    end: int = 0


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name

    def broken(self, what: str) -> FileFormatError:
        return FileFormatError(f"not a usable sentencepiece model: {what}", where=self._name, hint=HINT)

    def fields(self, at: int, end: int, limit: int = FIELDS_LIMIT) -> Iterator[tuple[int, _Value]]:
        """(number, value) of the fields between two places."""
        count = 0
        while at < end:
            count += 1
            if count > limit:
                raise self.broken(f"a message has more than {limit:,} fields")
            tag, at = self._varint(at, end)
            kind, number = tag & 7, tag >> 3
            if kind == VARINT:
                value, at = self._varint(at, end)
                yield number, _Value(kind, value)
                continue
            if kind == BYTES:
                length, at = self._varint(at, end)
            elif kind in (FIXED32, FIXED64):
                length = 4 if kind == FIXED32 else 8
            else:
                raise self.broken(f"there is a field of the unknown kind {kind} at byte {at:,}")
            if length > end - at:
                raise self.broken(f"a field of {length:,} bytes at byte {at:,} does not fit")
            yield number, _Value(kind, 0, at, at + length)
            at += length

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise self.broken(f"it is truncated at byte {at:,}")
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, at
        raise self.broken(f"the number before byte {at:,} is too long")

    def bytes_of(self, value: _Value) -> bytes:
        if value.kind != BYTES:
            raise self.broken("a text has another type")
        return self._data[value.start : value.end]

    def float_of(self, value: _Value) -> float:
        if value.kind != FIXED32:
            raise self.broken("a score has another type")
        (score,) = struct.unpack_from("<f", self._data, value.start)
        if not isfinite(score):
            raise self.broken(f"a score is {score}")
        return float(score)

    def int_of(self, value: _Value) -> int:
        """A signed number of 32 bits."""
        if value.kind != VARINT:
            raise self.broken("a number has another type")
        number = value.number - (1 << 64) if value.number >> 63 else value.number
        return max(-(1 << 31), min(number, (1 << 31) - 1))


def _read_piece(reader: _Reader, message: _Value, model: SentencePieceModel) -> None:
    piece, score, kind = b"", 0.0, NORMAL
    if message.end - message.start > PIECE_BYTES + 64:
        raise reader.broken(f"piece {len(model.pieces)} has {message.end - message.start:,} bytes")
    for number, value in reader.fields(message.start, message.end):
        if number == 1:
            piece = reader.bytes_of(value)
        elif number == 2:
            score = reader.float_of(value)
        elif number == 3:
            kind = reader.int_of(value)
    if len(model.pieces) == PIECES_LIMIT:
        raise reader.broken(f"it has more than {PIECES_LIMIT:,} pieces")
    try:
        model.pieces.append(piece.decode())
    except UnicodeDecodeError:
        raise reader.broken(f"piece {len(model.pieces)} is not UTF-8") from None
    model.scores.append(score)
    model.types.append(kind if NORMAL <= kind <= BYTE else NORMAL)


def _read_trainer(reader: _Reader, message: _Value, model: SentencePieceModel) -> None:
    names = {40: "unk_id", 41: "bos_id", 42: "eos_id", 43: "pad_id"}
    for number, value in reader.fields(message.start, message.end):
        if number == 3:
            code = reader.int_of(value)
            if code not in KINDS:
                raise reader.broken(f"the kind of model is {code}")
            model.kind = KINDS[code]
        elif number == 35:
            model.byte_fallback = reader.int_of(value) != 0
        elif number == 24:
            model.whitespace_as_suffix = reader.int_of(value) != 0
        elif number in names:
            setattr(model, names[number], reader.int_of(value))


def _read_normalizer(reader: _Reader, message: _Value, model: SentencePieceModel) -> None:
    names = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
    for number, value in reader.fields(message.start, message.end):
        if number == 2:
            model.charsmap = reader.bytes_of(value)
        elif number in names:
            setattr(model, names[number], reader.int_of(value) != 0)
