"""GGML's block types: dequantised bit for bit, packed, looked up and multiplied, against definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.formats.ggml_file import TYPE_CODES as BLOCK_CODES
from tests.native.checks import run_checked
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, Kernels, unaligned
from tests.native.test_quant import ACTIVATIONS, activations, normal

KINDS = tuple(BLOCK_TYPES)
PACKED = ("q4_0", "q4_K", "q6_K")
# Fields that hold scales in each struct; random bytes there would be NaN, infinite, or beyond all proportion.
SCALES = ("d", "m", "sum")


def random_blocks(kind: str, rows: int, columns: int, seed: int = 1) -> np.ndarray:
    """Blocks of any bits, with moderate scales: (rows, blocks), structured."""
    block = BLOCK_TYPES[kind]
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, (rows * columns // block.values, block.nbytes), np.uint8)
    blocks = raw.view(np.dtype(list(block.fields))).reshape(rows, columns // block.values)
    for name in SCALES:
        if name in (blocks.dtype.names or ()):
            blocks[name] = random.uniform(-0.02, 0.02, blocks.shape).astype(blocks[name].dtype)
    if kind == "mxfp4":
        blocks["exponent"] = random.integers(110, 124, blocks.shape)
    return blocks


def values_of(kind: str, blocks: np.ndarray) -> np.ndarray:
    rows, count = blocks.shape
    return dequantize_blocks(blocks.tobytes(), kind).reshape(rows, count * BLOCK_TYPES[kind].values)


def shapes(kind: str) -> list[tuple[int, int]]:
    values = BLOCK_TYPES[kind].values
    return [(1, values), (3, 3 * values), (8, values), (9, 2 * values), (33, 5 * values)]


def nibbles_of(numbers: np.ndarray) -> np.ndarray:
    """(8 rows, 32 columns) to the 128 bytes of kernels.h."""
    first, second = (part.reshape(8, 4, 4).transpose(1, 0, 2) for part in (numbers[:, :16], numbers[:, 16:]))
    return ((first & 15) | (second & 15) << 4).reshape(-1)


def two_bits_of(numbers: np.ndarray) -> np.ndarray:
    """(8 rows, 32 columns) of 0 .. 3 to the 64 bytes of kernels.h."""
    first, second = (part.reshape(8, 4, 4).transpose(1, 0, 2) for part in (numbers[:, :16], numbers[:, 16:]))
    pairs = first | second << 2
    return np.concatenate([pairs[0] | pairs[1] << 4, pairs[2] | pairs[3] << 4]).reshape(-1)


def parts_of(kind: str, block: np.void) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, scales [and minimums] as bytes, a row for each 32 columns) of one block of a packed type."""
    low = block["low"].astype(np.uint8)
    if kind == "q4_0":
        return np.concatenate([low & 15, low >> 4]), np.zeros((1, 0), np.uint8)
    if kind == "q6_K":
        high = block["high"]
        numbers = [
            (low[half * 64 + r % 2 * 32 :][:32] >> (r // 2 * 4) & 15)
            | (high[half * 32 : half * 32 + 32] >> (2 * r) & 3) << 4
            for half in range(2)
            for r in range(4)
        ]
        return np.concatenate(numbers), block["scales"].view(np.uint8).reshape(8, 2)
    s = block["scales"]
    pairs = []
    for run in range(8):
        if run < 4:
            pairs.append((s[run] & 63, s[run + 4] & 63))
        else:
            pairs.append(((s[run + 4] & 15) | s[run - 4] >> 6 << 4, s[run + 4] >> 4 | s[run] >> 6 << 4))
    return np.concatenate([low[run // 2 * 32 :][:32] >> (run % 2 * 4) & 15 for run in range(8)]), np.array(pairs)


def pack(kind: str, blocks: np.ndarray) -> np.ndarray:
    """Definition of the packed layouts in kernels.h."""
    rows, count = blocks.shape
    padded = np.zeros((-(-rows // 8) * 8, count), blocks.dtype)
    padded[:rows] = blocks
    out = [np.zeros(0, np.uint8)]
    for band in padded.reshape(len(padded) // 8, 8, count):
        for column in band.T:
            out.append(column["d"].copy().view(np.uint8))
            if kind == "q4_K":
                out.append(column["m"].copy().view(np.uint8))
            numbers, scales = zip(*(parts_of(kind, block) for block in column), strict=True)
            for run in range(BLOCK_TYPES[kind].values // 32):
                part = np.array(numbers)[:, run * 32 : run * 32 + 32]
                out.append(np.array(scales, np.uint8)[:, run].T.reshape(-1))
                out.append(nibbles_of(part))
                if kind == "q6_K":
                    out.append(two_bits_of(part >> 4))
    return np.concatenate(out)


def weights_of(kernels: Kernels, kind: str, blocks: np.ndarray) -> np.ndarray:
    """As linear_blocks wants them."""
    raw = np.frombuffer(blocks.tobytes(), np.uint8)
    return unaligned(pack(kind, blocks) if kind in PACKED else raw)


@pytest.mark.parametrize("kind", KINDS)
def test_unpack_is_the_definition_bit_for_bit(kernels: Kernels, kind: str) -> None:
    for rows, columns in shapes(kind):
        blocks = random_blocks(kind, rows, columns)
        expected = values_of(kind, blocks)
        y = np.full_like(expected, np.nan)
        raw = unaligned(np.frombuffer(blocks.tobytes(), np.uint8))
        arguments = dict(rows=rows, columns=columns, type=BLOCK_CODES[kind])
        run_checked(kernels, "unpack_blocks", "y", y=y, blocks=raw, **arguments)
        np.testing.assert_array_equal(y.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", PACKED)
def test_pack_and_unpack_packed(kernels: Kernels, kind: str) -> None:
    for rows, columns in shapes(kind):
        blocks = random_blocks(kind, rows, columns)
        expected = pack(kind, blocks)
        packed = np.full(expected.shape, 0xAA, np.uint8)
        raw = unaligned(np.frombuffer(blocks.tobytes(), np.uint8))
        arguments = dict(rows=rows, columns=columns, type=BLOCK_CODES[kind])
        run_checked(kernels, "pack_blocks", "packed", packed=packed, blocks=raw, **arguments)
        assert (packed == expected).all()
        y = np.zeros((rows, columns), np.float32)
        assert kernels.run("unpack_blocks", y=y, blocks=packed, packed=1, **arguments) == OK
        np.testing.assert_array_equal(y.view(np.uint32), values_of(kind, blocks).view(np.uint32))


@pytest.mark.parametrize("kind", [*PACKED, "q8_0"])
def test_bands_become_blocks_again(kernels: Kernels, kind: str) -> None:
    for rows, columns in shapes(kind):
        blocks = random_blocks(kind, rows, columns)
        raw = unaligned(np.frombuffer(blocks.tobytes(), np.uint8))
        packed = np.full(-(-rows // 8) * 8 * columns * 2, 0xAA, np.uint8)
        arguments = dict(rows=rows, columns=columns)
        code = {} if kind == "q8_0" else {"type": BLOCK_CODES[kind]}
        kernel = "pack_q8_0" if kind == "q8_0" else "pack_blocks"
        assert kernels.run(kernel, packed=packed, blocks=raw, **arguments, **code) == OK
        found = unaligned(np.full(raw.size + 8, 7, np.uint8))
        arguments |= {"type": BLOCK_CODES[kind]}
        run_checked(kernels, "unpack_bands", "blocks", blocks=found, packed=packed, **arguments)
        assert (found[:-8] == raw).all() and (found[-8:] == 7).all()


@pytest.mark.parametrize("kind", KINDS)
def test_embedding(kernels: Kernels, kind: str) -> None:
    rows, columns = 11, 2 * BLOCK_TYPES[kind].values
    blocks = random_blocks(kind, rows, columns)
    expected, w = values_of(kind, blocks), weights_of(kernels, kind, blocks)
    ids = np.array([10, 0, 7, 0], np.int32)
    y = np.full((4, columns + 1), np.nan, np.float32)
    arguments = dict(tokens=4, columns=columns, vocabulary=rows, y_stride=columns + 1)
    arguments |= dict(type=BLOCK_CODES[kind], packed=int(kind in PACKED))
    assert kernels.run("embedding_blocks", y=y, w=w, ids=unaligned(ids), **arguments) == OK
    assert (y[:, :columns] == expected[ids]).all() and np.isnan(y[:, columns]).all()
    for bad in (-1, rows):
        ids[2] = bad
        assert kernels.run("embedding_blocks", y=y, w=w, ids=ids, **arguments) == INDEX_RANGE


def check_linear(kernels: Kernels, kind: str, rows: int, outputs: int, inputs: int) -> None:
    blocks = random_blocks(kind, outputs, inputs, seed=rows + outputs)
    xq = activations(normal(rows, inputs))
    w = values_of(kind, blocks).astype(np.float64)
    x = (xq["values"] * xq["scale"][..., None].astype(np.float64)).reshape(rows, inputs)
    expected = x @ w.T
    # numbers and minimums are larger than their difference
    sizes = np.abs(x) @ (np.abs(w).T + np.abs(w).max(initial=0))
    y = unaligned(np.full((rows, outputs + 2), 7, np.float32))
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs + 2, type=BLOCK_CODES[kind])
    variant = (rows + outputs) % 3
    if variant == 1:
        y[:, :outputs] = start = normal(rows, outputs)
        arguments |= dict(residual=y, residual_stride=outputs + 2)
        expected = expected + start
    elif variant == 2:
        start = unaligned(normal(outputs))
        arguments |= dict(residual=start, residual_stride=0)
        expected = expected + start
    run_checked(kernels, "linear_blocks", "y", y=y, xq=xq, w=weights_of(kernels, kind, blocks), **arguments)
    assert (np.abs(y[:, :outputs] - expected) <= 2e-6 * sizes + 1e-6).all()
    assert (y[:, outputs:] == 7).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 2, 4, 7])
def test_linear(kernels: Kernels, kind: str, rows: int) -> None:
    for outputs, inputs in [(0, 256), (5, 0), *shapes(kind)]:
        check_linear(kernels, kind, rows, outputs, inputs)


@pytest.mark.parametrize("kind", PACKED)
def test_linear_of_long_rows(kernels: Kernels, kind: str) -> None:
    check_linear(kernels, kind, 1, 50, 4096 + 512)
    check_linear(kernels, kind, 5, 17, 4096 + 512)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_is_exact_for_extreme_numbers(kernels: Kernels, kind: str) -> None:
    """All bits set and none, times 127 and -127: no sum in between may be cut off."""
    block = BLOCK_TYPES[kind]
    for rows in (1, 4):
        for bits, x in ((0xFF, 127), (0xFF, -127), (0, 127), (0, -127)):
            blocks = np.full((8, 512 // block.values), bits, np.uint8).repeat(block.nbytes, axis=1)
            blocks = blocks.reshape(-1).view(np.dtype(list(block.fields))).reshape(8, -1)
            for name in ("d", "m"):
                if name in (blocks.dtype.names or ()):
                    blocks[name] = 2.0**-6
            if kind == "mxfp4":
                blocks["exponent"] = 120
            xq = np.zeros((rows, 16), ACTIVATIONS)
            xq["values"], xq["scale"], xq["sum"] = x, 1, 32 * x
            y = np.zeros((rows, 8), np.float32)
            arguments = dict(rows=rows, outputs=8, inputs=512, y_stride=8, type=BLOCK_CODES[kind])
            assert kernels.run("linear_blocks", y=y, xq=xq, w=weights_of(kernels, kind, blocks), **arguments) == OK
            w = values_of(kind, blocks).astype(np.float64)
            np.testing.assert_allclose(y, np.full((rows, 1), x) * w.sum(axis=1)[None], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 6])
def test_what_is_not_finite_stays_so(kernels: Kernels, kind: str, rows: int) -> None:
    """A NaN among the activations, or for a scale, makes NaN of its row or output, and of no other."""
    x = normal(rows, 512)
    x[-1, 300] = np.nan
    xq = np.zeros((rows, 16), ACTIVATIONS)
    assert kernels.run("quantize_rows", xq=xq, x=x, rows=rows, columns=512, x_stride=512) == OK
    blocks = random_blocks(kind, 9, 512)
    if kind != "mxfp4":
        blocks["d"][4, 0] = np.nan
    y = np.zeros((rows, 9), np.float32)
    arguments = dict(rows=rows, outputs=9, inputs=512, y_stride=9, type=BLOCK_CODES[kind])
    assert kernels.run("linear_blocks", y=y, xq=xq, w=weights_of(kernels, kind, blocks), **arguments) == OK
    assert np.isnan(y[-1]).all()
    if rows > 1:
        assert np.isnan(y[0]).tolist() == [kind != "mxfp4" and i == 4 for i in range(9)]


def test_wrong_arguments(kernels: Kernels) -> None:
    nothing = np.zeros(4096, np.uint8)
    for kernel, pointers in (
        ("unpack_blocks", "y blocks"),
        ("pack_blocks", "packed blocks"),
        ("unpack_bands", "blocks packed"),
        ("linear_blocks", "y xq w"),
    ):
        arrays = dict.fromkeys(pointers.split(), nothing)
        width, more = ("inputs", {"outputs": 1}) if kernel == "linear_blocks" else ("columns", {})
        for code, columns in ((12, 128), (2, 33), (4, 256), (99, 256), (-1, 256)):
            assert kernels.run(kernel, **arrays, rows=1, type=code, **{width: columns}, **more) == BAD_ARGUMENT
    for kernel in ("pack_blocks", "unpack_bands"):
        assert kernels.run(kernel, packed=nothing, blocks=nothing, rows=1, columns=256, type=13) == BAD_ARGUMENT
    arguments = dict(rows=1, columns=256, type=10, packed=1)
    assert kernels.run("unpack_blocks", y=nothing, blocks=nothing, **arguments) == BAD_ARGUMENT
