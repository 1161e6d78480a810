"""llama2.c's tokenizer.bin: the pieces of a SentencePiece vocabulary and their scores, read and written.

Source of the format: tokenizer.py and run.c of https://github.com/karpathy/llama2.c (MIT). Little-endian: uint32 length
of the longest piece; then for each token, in the order of ids, an f32 score, an int32 length and that many bytes. The
vocabulary's size is not stored: the file simply ends. By convention id 0 is <unk>, 1 and 2 are the pieces "\\n<s>\\n"
and "\\n</s>\\n", byte tokens are spelled "<0x0A>", and SentencePiece's mark for a space is a plain space.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite

from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError

from .sink import AnySink, open_sink
from .source import AnySource, looks_like_text, opened_source, read_whole

FILE_LIMIT = 16 << 20  # bytes; Llama's 32,000 pieces take 434 kB
PIECE_LIMIT = 1 << 9  # bytes of one piece: joining a vocabulary takes the sum of their squares
VOCABULARY_LIMIT = 1 << 22
HINT = "The file is damaged, or no llama2.c tokenizer: give a tokenizer.bin or tokenizer.json"


@dataclass(frozen=True, slots=True)
class TokenizerBin:
    """`pieces[id]` are the bytes of a token, `scores[id]` its score (higher merges first)."""

    pieces: list[bytes]
    scores: list[float]
    max_token_length: int

    def __len__(self) -> int:
        return len(self.pieces)


def read_tokenizer_bin(source: AnySource) -> TokenizerBin:
    """Reads a tokenizer.bin from a path, bytes or a ByteSource. FileFormatError names the token whose record is
    broken."""
    with opened_source(source) as opened:
        return _parse(read_whole(opened, FILE_LIMIT), opened.name)


def _parse(data: bytes, name: str) -> TokenizerBin:
    def broken(what: str) -> FileFormatError:
        return FileFormatError(what, where=name, hint=HINT)

    size = len(data)
    if size and looks_like_text(data[:256]):
        raise FileFormatError(
            "this is a text, not a tokenizer.bin or tokenizer.json",
            where=name,
            hint="Give the tokenizer.json of the model: vocab.txt, vocab.json and merges.txt are parts of one",
        )
    if size < 4:
        raise broken(f"the file is truncated: the header has 4 bytes, {4 - size} are missing")
    (longest,) = struct.unpack_from("<I", data)
    if not 1 <= longest <= PIECE_LIMIT:
        raise broken(f"max_token_length is {longest}, expected a number from 1 to {PIECE_LIMIT:,}")
    pieces: list[bytes] = []
    scores: list[float] = []
    at = 4
    record = struct.Struct("<fi")
    while at < size:
        token = len(pieces)
        if size - at < 8:
            raise broken(
                f"the file is truncated in token {token}: {8 - (size - at)} bytes of its score and length are missing"
            )
        score, length = record.unpack_from(data, at)
        if not 0 <= length <= longest:
            raise broken(
                f"token {token} has the length {length}, expected a number from 0 to max_token_length = {longest}"
            )
        if not isfinite(score):
            raise broken(f"token {token} has the score {score}, expected a finite number")
        at += 8 + length
        if at > size:
            raise broken(
                f"the file is truncated in token {token}: {at - size} of the {length} bytes of its piece are missing"
            )
        if token == VOCABULARY_LIMIT:
            raise broken(f"there are more than {VOCABULARY_LIMIT:,} tokens")
        pieces.append(data[at - length : at])
        scores.append(score)
    if not pieces:
        raise broken("the file is truncated: there are no tokens after the header")
    return TokenizerBin(pieces, scores, longest)


def write_tokenizer_bin(target: AnySink, pieces: Sequence[bytes], scores: Sequence[float]) -> None:
    """Writes a tokenizer.bin to a path or a binary file. ValueError when the two differ in length or break a limit."""
    if len(pieces) != len(scores):
        raise ValueError(f"there are {len(pieces)} pieces but {len(scores)} scores")
    if not 1 <= len(pieces) <= VOCABULARY_LIMIT:
        raise ValueError(f"a tokenizer has 1 to {VOCABULARY_LIMIT:,} pieces, not {len(pieces):,}")
    longest = max(1, *map(len, pieces))
    if longest > PIECE_LIMIT:
        raise ValueError(f"a piece has at most {PIECE_LIMIT:,} bytes, not {longest:,}")
    if not all(map(isfinite, scores)):
        raise ValueError("scores must be finite numbers")
    records = (struct.pack("<fi", score, len(piece)) + piece for piece, score in zip(pieces, scores, strict=True))
    with open_sink(target) as file:
        file.write(struct.pack("<I", longest))
        file.write(b"".join(records))
