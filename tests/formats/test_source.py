"""Sources of bytes, and inspect, which reads no tensors."""

from __future__ import annotations

import json
import struct
import time
from math import prod
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import BytesSource, FileSource, check_finite, inspect, open_checkpoint, open_source
from pyapp.formats.source import read_into
from tests.together import fewer_in_browser


class Remote:
    """A source with only the methods of the protocol."""

    name = "remote.bin"

    def __init__(self, data: bytes) -> None:
        self.data, self.size, self.reads = data, len(data), 0

    def read(self, offset: int, length: int) -> bytes:
        self.reads += 1
        return self.data[offset : offset + length]


def test_files_and_bytes_read_the_same(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10
    (tmp_path / "f").write_bytes(data)
    with FileSource(tmp_path / "f") as file:
        for source in (file, BytesSource(data), Remote(data)):
            assert source.size == 2560
            for offset, length in ((0, 2560), (0, 0), (2560, 0), (300, 500)):
                assert bytes(source.read(offset, length)) == data[offset : offset + length]
            target = bytearray(500)
            read_into(source, 300, memoryview(target))
            assert target == data[300:800]


@pytest.mark.parametrize("offset,length", [(0, 11), (10, 1), (11, 0), (-1, 2), (0, -1), (2**70, 1)])
def test_reads_beyond_the_end(tmp_path: Path, offset: int, length: int) -> None:
    (tmp_path / "f").write_bytes(bytes(10))
    with FileSource(tmp_path / "f") as file:
        for source in (file, BytesSource(bytes(10))):
            with pytest.raises(FileFormatError, match="there are 10 bytes"):
                source.read(offset, length)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(1000))
    with FileSource(path) as source:
        path.write_bytes(bytes(400))
        with pytest.raises(FileFormatError, match="ended at byte 400 while being read; it had 1,000 bytes before"):
            source.read(0, 1000)


@pytest.mark.native_only
def test_a_sparse_file_of_many_gigabytes(tmp_path: Path, peak_memory: Any) -> None:
    path = tmp_path / "huge.safetensors"
    length = 12 << 30
    header = json.dumps({"w": {"dtype": "F16", "shape": [length // 2], "data_offsets": [0, length]}}).encode()
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + length)
    with peak_memory(1 << 20), open_checkpoint(path) as read:
        assert read.tensors["w"].nbytes == length
        assert bytes(read.source.read(8 + len(header) + length - 4, 4)) == bytes(4)


def test_what_open_source_takes(tmp_path: Path) -> None:
    remote = Remote(b"abc")
    assert open_source(remote) is remote
    assert open_source(bytearray(b"abc")).size == 3
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        open_source(tmp_path)
    with pytest.raises(TypeError, match="expected a path, bytes or a ByteSource"):
        open_source(7)  # type: ignore[arg-type]


def test_tensors_come_from_any_source(golden: Path) -> None:
    remote = Remote((golden / "v1_tied.bin").read_bytes())
    read = open_checkpoint(remote)
    opened = remote.reads
    assert opened < 10
    with open_checkpoint(golden / "v1_tied.safetensors") as wanted:
        expected = wanted.read("norm.weight").tolist()
    assert read.read("norm.weight").tolist() == expected
    assert remote.reads == opened + 1


def test_a_refused_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad").write_bytes(bytes(100))
    closed = []
    monkeypatch.setattr(FileSource, "close", lambda self: closed.append(self.name) or self._file.close())
    with pytest.raises(FileFormatError):
        open_checkpoint(tmp_path / "bad")
    assert closed == [str(tmp_path / "bad")]


# -- inspect


@pytest.mark.parametrize("name,kind", [("v0_untied.bin", "llama2.c v0"), ("v2_straddling.bin", "llama2.c v2")])
def test_inspect_of_a_checkpoint(golden: Path, name: str, kind: str) -> None:
    found = inspect(golden / name)
    size = (golden / name).stat().st_size
    assert (found["format"], found["size"], found["file"]) == (kind, size, str(golden / name))
    assert found["totals"]["tensors"] == len(found["tensors"]) == 21
    header = 28 + 2 * 4 * 8 * 2 if kind.endswith("0") else 256  # version 0 has the rotary tables, too
    assert found["totals"]["bytes"] == size - header
    assert found["totals"]["parameters"] == sum(prod(tensor["shape"]) for tensor in found["tensors"])
    assert json.loads(json.dumps(found)) == found


def test_inspect_of_other_files(golden: Path) -> None:
    found = inspect(golden / "all_types.safetensors")
    assert found["format"] == "safetensors" and found["metadata"] == {"format": "pt"}
    assert {"name": "matrix é", "dtype": "float32", "shape": [2, 3], "bytes": 24} in found["tensors"]
    assert inspect(golden / "tokenizer.bin")["config"] == {"vocab_size": 320}
    with pytest.raises(FileFormatError, match="zip archive"):
        inspect(b"PK\x03\x04" + bytes(60))


# -- NaN and infinity


@pytest.mark.parametrize("code,dtype", fewer_in_browser([("e", "float16"), ("f", "float32"), ("d", "float64")]))
def test_check_finite_finds_the_first_bad_element_wherever_it_is(code: str, dtype: str) -> None:
    size = struct.calcsize(code)
    largest = {"e": 65504.0, "f": 3.4028234e38, "d": 1.7976931348623157e308}[code]
    good = struct.pack(f"<5{code}", 0.0, -1.0, largest, -largest, 2.0**-14) * (440_000 // size)
    for data in (good, bytearray(good)):  # a kernel searches what is writable
        check_finite(data, dtype, "w")  # the largest finite values share their highest byte with infinity
    places = ((1 << 20) // size - 1, 0, 3, (1 << 20) // size, len(good) // size - 1)
    for index in fewer_in_browser(places):
        for bad, word in ((float("nan"), "NaN"), (float("-inf"), "infinite")):
            data = bytearray(good)
            struct.pack_into(f"<{code}", data, index * size, bad)
            for given in (data, bytes(data)):
                with pytest.raises(ModelError, match=f"'w' are damaged: element {index:,} is {word}"):
                    check_finite(given, dtype, "w")


def test_check_finite_of_every_16_bit_pattern() -> None:
    for dtype, mask in (("float16", 0x7C00), ("bfloat16", 0x7F80)):
        for bits in range(0, 1 << 16, 7):
            data = bits.to_bytes(2, "little")
            if bits & mask == mask:
                with pytest.raises(ModelError, match="infinite" if not bits & ~mask & 0x7FFF else "NaN"):
                    check_finite(data, dtype, "w")
            else:
                check_finite(data, dtype, "w")


def test_check_finite_is_fast_enough_for_the_page() -> None:
    data = struct.pack("<4f", 1e-3, -0.5, 2.0, 1e10) * (4 << 20 >> 2)  # read-only: without the kernel
    start = time.perf_counter()
    check_finite(data, "float32", "w")
    assert time.perf_counter() - start < 2.0  # 64 MiB takes about 0.05 s; a loop over elements would take 4 s
    check_finite(b"\xff" * 100, "int8", "w")
