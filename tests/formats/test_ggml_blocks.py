"""GGML's blocks: equal to the `gguf` package bit for bit, in both directions."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine.blocks.conversion import convert_blocks
from pyapp.engine.blocks.layout import BLOCK_TYPES, CHUNK, FILE_TYPES, READ_AS, READABLE, block_bytes
from pyapp.formats import GgmlBlocks, dequantize_blocks, open_checkpoint, quantize_blocks
from tests.random_blocks import random_blocks

np = pytest.importorskip("numpy")
LEGACY = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
IN_PACKAGE = [kind for kind in READABLE if kind not in ("q8_1", "q8_K", "q1_0")]


def assert_same_bits(found: Any, expected: Any) -> None:
    """All NaNs count as equal, because their bits differ between machines."""
    found, expected = found.reshape(-1), expected.reshape(-1)
    assert found.dtype == expected.dtype == np.float32
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])


@pytest.fixture
def arrays(golden: Path) -> Any:
    with np.load(golden / "ggml_blocks.npz") as loaded:
        return dict(loaded)


def test_numpy_packs_the_structs_as_c_does() -> None:
    for block in READABLE.values():
        assert np.dtype(list(block.fields)).itemsize == block.nbytes


@pytest.mark.parametrize("kind", IN_PACKAGE)
def test_dequantization(golden: Path, arrays: Any, kind: str) -> None:
    with open_checkpoint(golden / "types.gguf") as file:
        assert file.tensors[f"blocks.{kind}"].shape == arrays[kind].shape
        data = file.read_bytes(f"blocks.{kind}")
    assert_same_bits(dequantize_blocks(data, kind), arrays[kind])


@pytest.mark.parametrize("kind", LEGACY)
def test_quantization(arrays: Any, kind: str) -> None:
    blocks = quantize_blocks(arrays["numbers"], kind)
    expected = arrays[f"quantized_{kind}"]
    assert blocks.kind == kind and blocks.shape == (24, 64)
    np.testing.assert_array_equal(np.frombuffer(blocks.data, np.uint8).reshape(expected.shape), expected)


@pytest.mark.parametrize("kind", LEGACY)
def test_quantization_keeps_the_numbers_within_a_step(kind: str) -> None:
    numbers = np.random.default_rng(1).standard_normal((8, 96)).astype(np.float32)
    back = dequantize_blocks(quantize_blocks(numbers, kind).data, kind).reshape(8, 3, 32)
    levels = {"q4_0": 8, "q4_1": 15, "q5_0": 16, "q5_1": 31, "q8_0": 127}[kind]
    blocks = numbers.reshape(8, 3, 32)
    span = np.ptp(blocks, axis=2) if kind.endswith("1") else np.abs(blocks).max(axis=2)
    assert (np.abs(back - blocks).max(axis=2) <= 1.01 * span / levels).all()


def test_the_types_that_the_package_lacks() -> None:
    """Value by value from ggml's structs: a scale times each int8; the sums are there for products only."""
    quants = list(range(-128, 128))
    q8_1 = struct.pack("<ee32b", 0.37, 9.0, *quants[:32]) + struct.pack("<ee32b", -2.5, 9.0, *quants[100:132])
    scales = [struct.unpack("<e", struct.pack("<e", scale))[0] for scale in (0.37, -2.5)]
    expected = [scales[0] * q for q in quants[:32]] + [scales[1] * q for q in quants[100:132]]
    assert_same_bits(dequantize_blocks(q8_1, "q8_1"), np.array(expected, np.float32))
    (scale,) = struct.unpack("<f", struct.pack("<f", 0.1))
    q8_k = struct.pack("<f256b16h", 0.1, *quants, *[7] * 16)
    assert_same_bits(dequantize_blocks(q8_k, "q8_K"), np.array([scale * q for q in quants], np.float32))
    q1_0 = struct.pack("<e16B", 0.5, *range(0, 256, 16))
    expected = [0.5 if byte >> bit & 1 else -0.5 for byte in range(0, 256, 16) for bit in range(8)]
    assert_same_bits(dequantize_blocks(q1_0, "q1_0"), np.array(expected, np.float32))


# The error of a conversion, as a share of the values' mean square root: none, the last bit of a half, or q8_0's.
ERRORS = {"tq1_0": 0.0, "tq2_0": 0.0, "q1_0": 0.0, "iq1_m": 0.0, "iq3_xxs": 0.0}
ERRORS |= {"iq1_s": 5e-4, "iq2_xxs": 3e-4, "iq3_s": 5e-4, "iq2_xs": 6e-3, "iq2_s": 6e-3, "nvfp4": 7e-3}


@pytest.mark.parametrize("kind", FILE_TYPES)
def test_conversion_to_types_of_tensors(kind: str) -> None:
    raw = random_blocks(kind, 3000, 0.017)
    wanted = dequantize_blocks(raw, kind)
    found = dequantize_blocks(convert_blocks(raw, kind), READ_AS[kind])
    error = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
    assert error <= ERRORS[kind] and (error > 0 or ERRORS[kind] == 0)
    with pytest.raises(ValueError, match="are not whole blocks"):
        convert_blocks(raw.tobytes()[:-1], kind)


@pytest.mark.parametrize("kind", ["q4_0", "q6_K"])
def test_more_blocks_than_a_chunk_holds(kind: str) -> None:
    block = BLOCK_TYPES[kind]
    one = np.random.default_rng(2).integers(0, 60, block.nbytes, dtype=np.uint8)
    count = CHUNK // block.values + 3
    found = dequantize_blocks(np.tile(one, count), kind)
    assert_same_bits(found, np.tile(dequantize_blocks(one, kind), count))
    if kind in LEGACY:
        values = np.random.default_rng(3).standard_normal(CHUNK + 64).astype(np.float32)
        data = bytes(quantize_blocks(values, kind).data)
        assert data[-block.nbytes :] == quantize_blocks(values[-32:], kind).data
        assert data[: block.nbytes] == quantize_blocks(values[:32], kind).data


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="cannot quantize to iq1_s; use one of q4_0"):
        quantize_blocks(np.zeros((2, 256)), "iq1_s")
    with pytest.raises(ValueError, match=r"rows of whole blocks of 32 values, not the shape \(2, 33\)"):
        quantize_blocks(np.zeros((2, 33)), "q4_0")
    with pytest.raises(ValueError, match=r"not the shape \(\)"):
        quantize_blocks(1.0, "q4_0")
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="NaN or infinite"):
            quantize_blocks(np.full(32, value), "q8_0")
    with pytest.raises(ValueError, match="18 bytes: 19 bytes are not whole blocks"):
        dequantize_blocks(bytes(19), "q4_0")
    with pytest.raises(ValueError, match="unknown block type 'q9_9'; known: q4_0"):
        dequantize_blocks(b"", "q9_9")
    with pytest.raises(ValueError, match=r"out must be float32 of shape \(32,\)"):
        dequantize_blocks(bytes(18), "q4_0", np.empty(31, np.float32))
    with pytest.raises(ValueError, match="needs 36 bytes, not 35"):
        GgmlBlocks("q4_0", (2, 32), bytes(35))


def test_nothing_to_do() -> None:
    assert dequantize_blocks(b"", "q4_K").shape == (0,)
    assert quantize_blocks(np.zeros((0, 32)), "q4_0").data == quantize_blocks(np.zeros((3, 0)), "q4_0").data == b""
    assert block_bytes("q6_K", (0, 256)) == 0


@pytest.mark.native_only
@pytest.mark.parametrize("kind", IN_PACKAGE)
def test_beside_the_package(kind: str) -> None:
    """Thousands of random blocks, where the package is installed."""
    gguf = pytest.importorskip("gguf")
    code = gguf.GGMLQuantizationType[kind.upper()]
    generator = np.random.default_rng(5)
    data = generator.integers(0, 256, (2000, READABLE[kind].nbytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        assert_same_bits(dequantize_blocks(data, kind), gguf.quants.dequantize(data, code))
        if kind in LEGACY:
            numbers = generator.standard_normal((2000, 64)).astype(np.float32)
            numbers *= np.exp2(generator.integers(-149, 127, (2000, 1))).astype(np.float32)
            expected = gguf.quants.quantize(numbers, code).tobytes()
            assert quantize_blocks(numbers, kind).data == expected
