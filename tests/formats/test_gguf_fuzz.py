"""Damaged and hostile GGUF files: nothing but FileFormatError comes out, quickly and in little memory."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyapp.errors import FileFormatError
from pyapp.formats import inspect, open_checkpoint
from pyapp.formats.gguf_header import ELEMENTS_LIMIT
from tests.together import examples, fewer_in_browser

QUICK = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MEMORY = 8 << 20


@pytest.fixture
def data(golden: Path) -> bytes:
    return (golden / "types.gguf").read_bytes()


@pytest.fixture
def header(data: bytes) -> int:
    with open_checkpoint(data) as file:
        return len(data) - sum(-(-info.nbytes // 32) * 32 for info in file.tensors.values())


def survives(data: bytes, read: bool = False) -> bool:
    """Whether the file was accepted; anything but FileFormatError passes through and fails the test. With `read`, so
    are its tensors."""
    try:
        file = open_checkpoint(data)
    except FileFormatError as error:
        assert error.where and error.hint and len(str(error)) < 1000
        return False
    for name, info in file.tensors.items():
        assert info.nbytes <= len(data) and info.numel * 2 <= 64 * max(info.nbytes, 1) or "ggml_type" in info.dtype
        if read:
            try:
                file.read(name)
            except FileFormatError as error:
                assert "which pyapp cannot read" in str(error)
    return True


def test_truncation_all_over_the_header(data: bytes, header: int, peak_memory: Any) -> None:
    with peak_memory(MEMORY):
        for length in fewer_in_browser([*range(4, header + 64, 7), len(data) - 33]):
            assert not survives(data[:length])


def test_flipped_header_bits(data: bytes, header: int, peak_memory: Any) -> None:
    damaged = bytearray(data)
    accepted = 0
    with peak_memory(MEMORY):
        for bit in fewer_in_browser(range(0, 8 * header, 51), every=5):  # all bits of a byte, though not of every byte
            damaged[bit // 8] ^= 1 << bit % 8
            accepted += survives(bytes(damaged))
            damaged[bit // 8] ^= 1 << bit % 8
    assert accepted  # texts and numbers of the metadata may be anything


def test_random_damage(data: bytes, header: int, peak_memory: Any) -> None:
    chance = random.Random(0)
    with peak_memory(2 * MEMORY):
        for _ in fewer_in_browser(range(300)):
            damaged = bytearray(data)
            for _ in range(chance.randint(1, 6)):
                at = chance.randrange(header)
                damaged[at : at + chance.choice((0, 1, 4, 8))] = chance.randbytes(chance.choice((0, 1, 4, 8)))
            survives(bytes(damaged), read=True)


@pytest.mark.parametrize("field", [2**16, 2**24, 2**31 - 1, 2**32, 2**40, 2**63 - 1, 2**64 - 1])
def test_hostile_numbers_anywhere(data: bytes, header: int, peak_memory: Any, field: int) -> None:
    """A huge count, length, size or offset all over the header."""
    start = time.perf_counter()
    with peak_memory(MEMORY):
        for at in fewer_in_browser([*range(4, 100), *range(100, header - 8, 31 + field % 5)]):
            damaged = bytearray(data)
            struct.pack_into("<Q", damaged, at, field)
            survives(bytes(damaged))
    assert time.perf_counter() - start < 20


def test_data_of_every_kind_is_read(data: bytes, header: int) -> None:
    """Any bytes are weights: blocks have no wrong values."""
    chance = random.Random(1)
    for _ in range(20):
        assert survives(data[:header] + chance.randbytes(len(data) - header), read=True)


def test_many_small_things_stay_bounded(peak_memory: Any) -> None:
    """Arrays of empty arrays and of empty strings take more memory than file, but by a bounded factor."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9)
    count = 20_000
    arrays = head + struct.pack("<IQ", 9, count) + struct.pack("<IQ", 0, 0) * count
    strings = head + struct.pack("<IQ", 8, count) + bytes(8 * count)
    with peak_memory(16 * len(arrays)):
        assert survives(arrays + bytes(-len(arrays) % 32)) and survives(strings + bytes(-len(strings) % 32))
    twice = struct.pack("<IQ", 9, 2) + (struct.pack("<IQ", 0, ELEMENTS_LIMIT // 2)) * 2
    assert not survives(head + twice)


@QUICK
@given(st.binary(max_size=300), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))
def test_any_bytes(tail: bytes, version: int, tensors: int, metadata: int) -> None:
    survives(b"GGUF" + tail)
    survives(b"GGUF" + struct.pack("<IQQ", version, tensors, metadata) + tail, read=True)


@QUICK
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 32, 256]), max_size=5),
            st.integers(0, 45),
            st.integers(0, 2**64 - 1) | st.sampled_from([0, 32, 64, 320]),
        ),
        max_size=4,
    ),
    st.binary(max_size=800),
)
def test_any_tensors(entries: list[tuple[list[int], int, int]], tail: bytes) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, len(entries), 0)
    for number, (sizes, code, offset) in enumerate(entries):
        data += struct.pack("<QBI", 1, 65 + number, len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        data += struct.pack("<IQ", code, offset)
    data += bytes(-len(data) % 32) + tail
    if survives(data, read=True):
        assert inspect(data)["totals"]["tensors"] == len(entries)
