"""GGML's files before GGUF: each kind and version with blocks packed here as ggml.c of the time did it, and damage."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest

from pyapp.errors import FileFormatError
from pyapp.formats import inspect, open_checkpoint
from pyapp.formats.legacy_ggml import LegacyGgmlFile

KINDS = [("ggml", 0), ("ggmf", 1), ("ggjt", 1), ("ggjt", 2), ("ggjt", 3)]
CODES = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}
VALUES = np.random.RandomState(0).randint(0, 16, (2, 32))


def pack_nibbles(quants: np.ndarray, halves: bool) -> bytes:
    pairs = zip(quants[:16], quants[16:], strict=True) if halves else zip(quants[0::2], quants[1::2], strict=True)
    return bytes(int(low & 15) | int(high & 15) << 4 for low, high in pairs)


def block(name: str, quants: np.ndarray, version: int) -> bytes:
    """One block with scale ½ and, in q4_1 and q5_1, minimum -3."""
    scale, wide = struct.pack("<e" if version == 3 or name[:2] == "q5" else "<f", 0.5), version in (2, 3)
    minimum = struct.pack("<e" if version == 3 or name[:2] == "q5" else "<f", -3.0) if name[-1] == "1" else b""
    if name == "q8_0":
        return scale + quants.astype("int8").tobytes()
    fifth = b""
    if name[:2] == "q5":
        fifth = struct.pack("<I", sum(int(q >> 4 & 1) << i for i, q in enumerate(quants)))
    return scale + minimum + fifth + pack_nibbles(quants, wide)


def file_of(kind: str, version: int, tensors: list[tuple[bytes, int, tuple[int, ...], bytes]]) -> bytes:
    out = {"ggml": b"lmgg", "ggmf": b"fmgg", "ggjt": b"tjgg"}[kind] + (struct.pack("<i", version) if version else b"")
    out += struct.pack("<7i", 3, 64, 256, 4, 2, 16, 2)
    for piece in (b"<unk>", b" a", b"\xff"):
        out += struct.pack("<i", len(piece)) + piece + (struct.pack("<f", -1.5) if version else b"")
    for name, code, shape, data in tensors:
        out += struct.pack(f"<3i{len(shape)}i", len(shape), len(name), code, *reversed(shape)) + name
        out += bytes(-len(out) % 32) if kind == "ggjt" else b""
        out += data
    return out


def sample(kind: str, version: int) -> bytes:
    dense = np.arange(4, dtype="float32")
    tensors = [(b"norm.weight", 0, (4,), dense.tobytes()), (b"half", 1, (2, 2), dense.astype("float16").tobytes())]
    for name, code in CODES.items():
        rows = b"".join(block(name, row + (8 if name[:2] == "q5" else 0), version) for row in VALUES)
        tensors.append((name.encode(), code, (2, 32), rows))
    return file_of(kind, version, tensors)


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_every_kind(kind: str, version: int) -> None:
    with open_checkpoint(sample(kind, version)) as file:
        assert isinstance(file, LegacyGgmlFile)
        assert file.format == (f"{kind} v{version}" if version else kind)
        assert file.config == {
            "model_type": "llama", "n_vocab": 3, "n_embd": 64, "n_mult": 256, "n_head": 4, "n_layer": 2, "n_rot": 16,
        }  # fmt: skip
        assert file.pieces == [b"<unk>", b" a", b"\xff"] and file.scores == [-1.5 if version else 0] * 3
        assert file.read("norm.weight").tolist() == [0, 1, 2, 3]
        assert file.read("half").tolist() == [[0, 1], [2, 3]]
        wanted = {
            "q4_0": (VALUES - 8) / 2, "q4_1": VALUES / 2 - 3, "q5_0": (VALUES + 8 - 16) / 2,
            "q5_1": (VALUES + 8) / 2 - 3, "q8_0": VALUES / 2,
        }  # fmt: skip
        for name, values in wanted.items():
            found = file.read(name)
            if found.dtype.is_quantized:
                from pyapp.engine import quant

                found = quant.dequantize(found)
            np.testing.assert_array_equal(found.numpy(), values.astype("float32"), err_msg=name)
    assert kind in str(inspect(sample(kind, version)))


BROKEN = {
    "the version of ggjt is 4": b"tjgg" + struct.pack("<i", 4) + bytes(64),
    "truncated in the file type": b"fmgg" + struct.pack("<7i", 1, 3, 64, 256, 4, 2, 16),
    "n_embd at byte 12 is -1": b"tjgg" + struct.pack("<3i", 1, 3, -1) + bytes(64),
    "truncated in a token's length": file_of("ggjt", 1, [])[:-17],
    "there is no tensor": file_of("ggjt", 3, []),
    "a tensor's rank at byte": file_of("ggml", 0, [(b"w", 0, (1, 1, 1), bytes(4))]),
    "has the type 77": file_of("ggjt", 3, [(b"w", 77, (32,), bytes(18))]),
    "has the type 10, which ggjt v1": file_of("ggjt", 1, [(b"w", 10, (256,), bytes(84))]),
    "rows of 16 values": file_of("ggjt", 1, [(b"w", 2, (16,), bytes(20))]),
    "appears twice": file_of("ggmf", 1, [(b"w", 0, (1,), bytes(4)), (b"w", 0, (1,), bytes(4))]),
    "truncated in tensor 'w'": file_of("ggjt", 2, [(b"w", 0, (1 << 29,), bytes(4))]),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_files(message: str, peak_memory: Any) -> None:
    with peak_memory(8 << 20), pytest.raises(FileFormatError) as caught:
        open_checkpoint(BROKEN[message])
    assert message in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_random_damage(kind: str, version: int, peak_memory: Any) -> None:
    original, chance, refused = sample(kind, version), random.Random(version), 0
    with peak_memory(8 << 20):
        for turn in range(150):
            data = bytearray(original)
            if turn % 3 == 0:
                del data[chance.randrange(4, len(data)) :]
            for _ in range(chance.randint(1, 4) if turn % 3 else 0):
                at = chance.randrange(4, 200)
                data[at : at + chance.choice((1, 4))] = chance.randbytes(chance.choice((1, 4)))
            try:
                with open_checkpoint(bytes(data)) as file:
                    for name in file.tensors:
                        file.read(name)
            except FileFormatError as error:
                assert error.where and error.hint and len(str(error)) < 1000
                refused += 1
    assert refused > 40
