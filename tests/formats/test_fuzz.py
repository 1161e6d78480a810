"""Damaged and hostile files: nothing but FileFormatError comes out, quickly and in little memory."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyapp.errors import FileFormatError
from pyapp.formats import inspect, open_checkpoint, read_tokenizer_bin
from pyapp.formats.llama2c import tensor_shapes
from tests.together import examples, fewer_in_browser

CHECKPOINTS = ["v0_tied.bin", "v0_untied.bin", "v1_tied.bin", "v2_straddling.bin", "all_types.safetensors"]
QUICK = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Whether the file was accepted; anything but FileFormatError passes through and fails the test."""
    try:
        read(data)
    except FileFormatError as error:
        assert error.where and error.hint and len(str(error)) < 1000
        return False
    return True


def reader_of(name: str) -> Callable[[bytes], Any]:
    return read_tokenizer_bin if name.startswith("tokenizer") else open_checkpoint


@pytest.mark.parametrize("name", [*CHECKPOINTS, "tokenizer.bin"])
def test_truncation_all_over_the_header(golden: Path, peak_memory: Any, name: str) -> None:
    data = (golden / name).read_bytes()
    read = reader_of(name)
    whole_records = 0
    with peak_memory(8 << 20):
        for length in fewer_in_browser(
            [*range(min(len(data), 400)), *range(400, min(len(data), 1200), 7), len(data) - 1]
        ):
            whole_records += survives(read, data[:length])
    # A vocabulary's size is not stored, so a tokenizer may end after any token; other formats know their length.
    assert (whole_records > 0) == (name == "tokenizer.bin")


@pytest.mark.parametrize("name", [*CHECKPOINTS, "tokenizer.bin"])
def test_flipped_header_bits(golden: Path, peak_memory: Any, name: str) -> None:
    data = bytearray((golden / name).read_bytes())
    header = {"v0": 28, "v1": 41, "v2": 41, "al": 8 + int.from_bytes(data[:8], "little"), "to": 200}[name[:2]]
    read = reader_of(name)
    step = 1 if name.startswith("v") else 11  # of a long header each byte has its turn, but not each of its bits
    with peak_memory(8 << 20):
        for bit in fewer_in_browser(range(0, 8 * header, step)):
            data[bit // 8] ^= 1 << bit % 8
            survives(read, bytes(data))
            data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_changed_size_field_never_fits(golden: Path, name: str) -> None:
    """The file's length determines every size except max_seq_len, for which only version 0 stores data."""
    if not name.startswith("v"):
        return
    data = bytearray((golden / name).read_bytes())
    start = 0 if name.startswith("v0") else 8
    for field in (0, 1, 2, 5):
        for delta in (-1, 1, 2, 100):
            changed = bytearray(data)
            (value,) = struct.unpack_from("<i", data, start + 4 * field)
            struct.pack_into("<i", changed, start + 4 * field, value + delta)
            assert not survives(open_checkpoint, bytes(changed))


@pytest.mark.parametrize("name", [*CHECKPOINTS, "tokenizer.bin"])
def test_random_damage(golden: Path, peak_memory: Any, name: str) -> None:
    original = (golden / name).read_bytes()
    chance = random.Random(name)
    with peak_memory(16 << 20):
        for _ in fewer_in_browser(range(300)):
            data = bytearray(original)
            for _ in range(chance.randint(1, 6)):
                at = chance.randrange(min(len(data), 1500))
                data[at : at + chance.choice((0, 1, 4))] = chance.randbytes(chance.choice((0, 1, 4, 8)))
            survives(reader_of(name), bytes(data))


@QUICK
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    survives(open_checkpoint, data)
    survives(read_tokenizer_bin, data)
    survives(inspect, data)


@QUICK
@given(
    fields=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(1, 64), min_size=7, max_size=7),
    version=st.integers(0, 2),
    shared=st.integers(0, 1),
    group=st.integers(-1, 70),
)
def test_any_llama2c_header(fields: list[int], version: int, shared: int, group: int) -> None:
    if version:
        data = struct.pack("<Ii7iBi", 0x616B3432, version, *fields, shared, group).ljust(256, b"\0")
    else:
        data = struct.pack("<7i", *fields)
    survives(open_checkpoint, data)


@QUICK
@given(
    st.dictionaries(
        st.text(max_size=5) | st.just("__metadata__"),
        st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3))
        | st.fixed_dictionaries(
            {
                "dtype": st.sampled_from(["F32", "F4", "F6_E2M3", "U8", "X", ""]),
                "shape": st.lists(st.integers(-1, 2**64), max_size=4),
                "data_offsets": st.lists(st.integers(-1, 2**64) | st.integers(0, 16), min_size=1, max_size=3),
            }
        ),
        max_size=4,
    ),
    st.binary(max_size=32),
)
def test_any_safetensors_header(header: dict[str, Any], data: bytes) -> None:
    import json

    packed = json.dumps(header).encode()
    survives(open_checkpoint, len(packed).to_bytes(8, "little") + packed + data)


def test_the_shapes_add_up_for_any_configuration() -> None:
    """A header is accepted only if its configuration needs exactly the file's bytes."""
    chance = random.Random(0)
    for _ in range(100):
        heads, head_dim, kv = 2 ** chance.randint(0, 3), 2 * chance.randint(1, 4), 2 ** chance.randint(0, 3)
        fields = [
            heads * head_dim,
            chance.randint(1, 30),
            chance.randint(1, 3),
            heads,
            min(kv, heads),
            chance.randint(1, 30),
            4,
        ]
        config = dict(
            zip("dim hidden_dim n_layers n_heads n_kv_heads vocab_size max_seq_len".split(), fields, strict=True)
        )
        tied = chance.random() < 0.5
        count = 0
        for _, shape in tensor_shapes(config, tied):
            count += shape[0] * (shape[1] if len(shape) == 2 else 1)
        v1 = struct.pack("<Ii7iB", 0x616B3432, 1, *fields, tied).ljust(256, b"\0") + bytes(4 * count)
        assert survives(open_checkpoint, v1) and not survives(open_checkpoint, v1[:-1])
        fields[5] *= 1 if tied else -1
        v0 = struct.pack("<7i", *fields) + bytes(4 * count + 4 * 4 * head_dim)
        assert survives(open_checkpoint, v0) and not survives(open_checkpoint, v0 + b"\0")
