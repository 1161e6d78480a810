"""tokenizer.bin against a vocabulary that sentencepiece made, against the real tok512.bin, and against damage."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError
from pyapp.formats import read_tokenizer_bin, write_tokenizer_bin


def record(score: float, piece: bytes, length: int | None = None) -> bytes:
    return struct.pack("<fi", score, len(piece) if length is None else length) + piece


def test_pieces_and_scores_of_sentencepiece(golden: Path) -> None:
    expected = json.loads((golden / "tokenizer.expected.json").read_text())
    read = read_tokenizer_bin(golden / "tokenizer.bin")
    assert [piece.decode() for piece in read.pieces] == expected["pieces"]
    assert read.scores == expected["scores"]
    assert len(read) == 320 and read.max_token_length == max(map(len, read.pieces))


def test_writes_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    read = read_tokenizer_bin(golden / "tokenizer.bin")
    write_tokenizer_bin(tmp_path / "t.bin", read.pieces, read.scores)
    assert (tmp_path / "t.bin").read_bytes() == (golden / "tokenizer.bin").read_bytes()


def test_tok512(real_data: Any) -> None:
    path = real_data("tok512.bin")
    read = read_tokenizer_bin(path)
    assert len(read) == 512
    assert read.pieces[:4] == [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x00>"]
    assert read.pieces[3 + 255] == b"<0xFF>" and b" the" in read.pieces
    out = io.BytesIO()
    write_tokenizer_bin(out, read.pieces, read.scores)
    assert out.getvalue() == path.read_bytes()


def test_any_bytes_may_be_a_piece() -> None:
    pieces = [b"", b"\0", b"\xff\xfe", "é".encode(), b"x" * 300]
    out = io.BytesIO()
    write_tokenizer_bin(out, pieces, [0.0, -1.5, 3e38, -3e38, 1e-45])
    assert read_tokenizer_bin(out.getvalue()).pieces == pieces


@pytest.mark.parametrize(
    "data,message",
    [
        (b"", "the header has 4 bytes, 4 are missing"),
        (b"\x05\0", "2 are missing"),
        (struct.pack("<I", 5), "there are no tokens after the header"),
        (struct.pack("<I", 0) + record(0, b""), "max_token_length is 0"),
        (struct.pack("<I", 1 << 31) + record(0, b"a"), "max_token_length is 2147483648"),
        (struct.pack("<I", 5) + record(0, b"a") + b"\0\0\0", "in token 1: 5 bytes of its score and length are missing"),
        (struct.pack("<I", 5) + record(0, b"abc", 5), "in token 0: 2 of the 5 bytes of its piece are missing"),
        (struct.pack("<I", 5) + record(0, b"a", -1), "token 0 has the length -1"),
        (struct.pack("<I", 5) + record(0, b"a", 1 << 30), "token 0 has the length 1073741824"),
        (struct.pack("<I", 2) + record(0, b"abc"), "token 0 has the length 3, expected a number from 0 to max_token"),
        (struct.pack("<I", 5) + record(0, b"a") + record(float("nan"), b"b"), "token 1 has the score nan"),
    ],
)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_tokenizer_bin(data)
    assert message in str(caught.value) and caught.value.hint


def test_an_enormous_file_is_not_read(peak_memory: Any) -> None:
    class Enormous:
        name, size = "enormous.bin", 10**12

        def read(self, offset: int, length: int) -> bytes:
            raise AssertionError("nothing should be read")

    with peak_memory(1 << 20), pytest.raises(FileFormatError, match="1,000,000,000,000 bytes"):
        read_tokenizer_bin(Enormous())


def test_bad_arguments_of_the_writer() -> None:
    for pieces, scores, message in (
        ([b"a"], [], "1 pieces but 0 scores"),
        ([], [], "1 to 4,194,304 pieces"),
        ([b"a"], [float("inf")], "finite"),
        ([b"a" * 70_000], [0.0], "at most 512 bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            write_tokenizer_bin(io.BytesIO(), pieces, scores)
