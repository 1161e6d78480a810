"""GGML's block types: dequantised bit for bit, packed, looked up and multiplied, against definitions in NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.formats.ggml_file import TYPE_CODES as BLOCK_CODES
from tests.native.checks import run_checked
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, INDEX_RANGE, OK, Kernels, aligned, unaligned
from tests.native.test_quant import ACTIVATIONS, activations, normal

KINDS = tuple(BLOCK_TYPES)
# Of the types that are packed: the bits of the planes that their numbers are cut into, the lowest first.
PACKED = {
    "q4_0": (4,), "q4_1": (4,), "q5_0": (4, 1), "q5_1": (4, 1), "q2_K": (2,), "q3_K": (2, 1), "q4_K": (4,),
    "q5_K": (4, 1), "q6_K": (6,),
}  # fmt: skip
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


@cache
def values_of_bytes(kind: str, raw: bytes) -> np.ndarray:
    found = dequantize_blocks(raw, kind)
    found.flags.writeable = False  # all libraries share it
    return found


def values_of(kind: str, blocks: np.ndarray) -> np.ndarray:
    rows, count = blocks.shape
    return values_of_bytes(kind, blocks.tobytes()).reshape(rows, count * BLOCK_TYPES[kind].values)


def shapes(kind: str) -> list[tuple[int, int]]:
    values = BLOCK_TYPES[kind].values
    return [(1, values), (3, 3 * values), (8, values), (9, 2 * values), (33, 5 * values)]


def plane_of(numbers: np.ndarray, bits: int) -> np.ndarray:
    """A plane of bands.h: of (8 rows, 32 columns) of small numbers, so many bits each. A byte has numbers of steps s
    and s + 4, then those of the next step."""
    steps = (numbers & (1 << bits) - 1).reshape(8, 2, 4, 4).transpose(2, 1, 0, 3)  # s, s or s + 4, row, column
    if bits == 6:  # steps 0, 1, 4, 5, 2, 3, and the bits of 6, 7 above them
        above = steps[2:, 1] >> np.array([4, 2, 0])[:, None, None, None] & 3
        return (np.stack([steps[:2, 0], steps[:2, 1], steps[2:, 0]]) | above << 6).astype(np.uint8).reshape(-1)
    each = 4 // bits  # steps in a byte
    if bits == 1:
        parts = steps.transpose(1, 0, 2, 3).reshape(1, 8, 8, 4)
    else:
        parts = steps.reshape(4 // each, each * 2, 8, 4) if bits == 2 else steps
    shifts = (np.arange(parts.shape[1]) * bits).astype(np.uint8)[None, :, None, None]
    return np.bitwise_or.reduce(parts << shifts, axis=1).reshape(-1)


def run_scales(kind: str, block: np.void) -> np.ndarray:
    """The bytes of a row that a band has beside the numbers of each run: (8, 2)."""
    s = block["scales"].view(np.uint8)
    if kind == "q3_K":
        low, high = (s[:8, None] >> np.array([0, 4]) & 15).T.reshape(-1), s[8:, None] >> np.array([0, 2, 4, 6]) & 3
        return (low.astype(np.int64) + 16 * high.T.reshape(-1) - 32).astype(np.int8).view(np.uint8).reshape(8, 2)
    if kind in ("q2_K", "q6_K"):
        return s.reshape(8, 2)
    low, high = s[:8].reshape(2, 4), s[8:]
    upper = np.stack([high & 15 | low[0] >> 6 << 4, high >> 4 | low[1] >> 6 << 4])
    return np.concatenate([low & 63, upper], axis=1).T


def numbers_of(kind: str, blocks: np.ndarray) -> np.ndarray:
    """The numbers of blocks (rows, count), without bias: the values where scales are 1 and minimums 0, plus the bias.
    (rows, count, values); 0 for rows past the last, whose blocks are 0.
    """
    plain = np.zeros(blocks.shape, blocks.dtype)
    names = blocks.dtype.names or ()
    for name in set(names) & {"low", "high"}:
        plain[name] = blocks[name]
    plain["d"] = 1
    if "scales" in names:
        ones = {"q2_K": 1, "q6_K": 1, "q3_K": [17] * 8 + [170] * 4, "q4_K": [1] * 4 + [0] * 4 + [1] * 4}
        plain["scales"] = ones.get(kind, ones["q4_K"])
    bias = {"q4_0": 8, "q5_0": 16, "q3_K": 4, "q6_K": 32}.get(kind, 0)
    numbers = (values_of(kind, plain) + bias).astype(np.uint8).reshape(*blocks.shape, BLOCK_TYPES[kind].values)
    numbers[~np.ascontiguousarray(blocks).view(np.uint8).reshape(*blocks.shape, BLOCK_TYPES[kind].nbytes).any(-1)] = 0
    return numbers


@cache
def packed(kind: str, raw: bytes, rows: int, count: int) -> np.ndarray:
    """Definition of the packed layouts in bands.h, once for all libraries."""
    blocks = np.frombuffer(raw, np.dtype(list(BLOCK_TYPES[kind].fields))).reshape(rows, count)
    values = BLOCK_TYPES[kind].values
    padded = np.zeros((-(-rows // 8) * 8, count), blocks.dtype)
    padded[:rows] = blocks
    out, numbers = [np.zeros(0, np.uint8)], numbers_of(kind, padded)
    for band in range(0, len(padded), 8):
        for at in range(count):
            column = padded[band : band + 8, at]
            out += [column[name].copy().view(np.uint8) for name in ("d", "m") if name in (column.dtype.names or ())]
            if values == 256:
                scales = np.array([run_scales(kind, block) for block in column])
                scales[[not block.tobytes().strip(b"\0") for block in column]] = 0
            for run in range(values // 32):
                part = numbers[band : band + 8, at, run * 32 : run * 32 + 32]
                if values == 256:
                    out.append(scales[:, run].T.reshape(-1))
                for bits in PACKED[kind]:
                    out.append(plane_of(part, bits))
                    part = part >> bits
    return np.concatenate(out)


def pack(kind: str, blocks: np.ndarray) -> np.ndarray:
    return packed(kind, blocks.tobytes(), *blocks.shape)


def weights_of(kernels: Kernels, kind: str, blocks: np.ndarray) -> np.ndarray:
    """Weights as linear_blocks reads them."""
    raw = np.frombuffer(blocks.tobytes(), np.uint8)
    return unaligned(pack(kind, blocks) if kind in PACKED else raw)


@pytest.mark.parametrize("kind", KINDS)
def test_unpack_is_the_definition_bit_for_bit(kernels: Kernels, kind: str) -> None:
    for rows, columns in shapes(kind):
        blocks = random_blocks(kind, rows, columns)
        expected = values_of(kind, blocks)
        y = np.full_like(expected, np.nan)
        arguments = dict(rows=rows, columns=columns, type=BLOCK_CODES[kind])
        run_checked(kernels, "unpack_blocks", "y", y=y, blocks=weights_of(kernels, kind, blocks), **arguments)
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
    arguments |= dict(type=BLOCK_CODES[kind])
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
    check_linear(kernels, kind, 1, 19, 4096 + 512)
    check_linear(kernels, kind, 5, 9, 4096 + 512)
    check_linear(kernels, kind, 17, 41, 768)


@pytest.mark.parametrize("kind", ["q4_0", "q4_K", "q6_K"])
def test_a_long_row_that_is_quantised_there(kernels: Kernels, kind: str) -> None:
    """CUDA alone has it: the bits of a row that another kernel has quantised. Warps have three chunks, two and one."""
    outputs, inputs = 19, 4096 + 1024
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("quantize_linear_blocks") == BAD_ARGUMENT
        return
    w, x = weights_of(kernels, kind, random_blocks(kind, outputs, inputs)), aligned(normal(1, inputs))
    y, xq = np.full((1, outputs), np.nan, np.float32), activations(x)
    made = np.zeros_like(xq[0])
    sizes = dict(outputs=outputs, inputs=inputs, type=BLOCK_CODES[kind])
    assert kernels.run("quantize_linear_blocks", x=x, w=w, xq=made, y=y, before=0, **sizes) == OK
    assert made.tobytes() == xq.tobytes()
    assert y.tobytes() == products(kernels, "linear_blocks", kind, 1, xq, w, np.zeros(outputs, np.float32)).tobytes()


def products(
    kernels: Kernels, kernel: str, kind: str, rows: int, xq: np.ndarray, w: np.ndarray, add: np.ndarray
) -> np.ndarray:
    """The first `rows` rows of x w^T + add (rows, outputs)."""
    outputs, inputs = add.size, xq.shape[1] * 32
    y = np.full((rows, outputs), np.nan, np.float32)
    arguments = dict(rows=rows, outputs=outputs, inputs=inputs, y_stride=outputs, residual=add, residual_stride=0)
    if kernel == "linear_blocks":
        arguments["type"] = BLOCK_CODES[kind]
    run_checked(kernels, kernel, "y", y=y, xq=xq, w=w, **arguments)
    return y


def packed_weights(kernels: Kernels, kind: str, blocks: np.ndarray) -> tuple[str, np.ndarray]:
    """The kernel of a linear map by packed weights, and these."""
    if kind != "q8_0":
        return "linear_blocks", weights_of(kernels, kind, blocks)
    rows, columns = blocks.shape[0], blocks.shape[1] * 32
    w = np.zeros(-(-rows // 8) * (columns // 32) * 272, np.uint8)
    raw = np.frombuffer(blocks.tobytes(), np.uint8)
    assert kernels.run("pack_q8_0", packed=w, blocks=raw, rows=rows, columns=columns) == OK
    return "linear_q8_0", w


@pytest.mark.parametrize(
    "kind, large",
    [
        *((kind, large) for kind in (*PACKED, "q8_0") for large in ("nothing", "scales", "infinite", "activations")),
        *((kind, "minimums") for kind in PACKED if any(name == "m" for name, *_ in BLOCK_TYPES[kind].fields)),
    ],
)
def test_a_row_is_the_same_in_any_company(kernels: Kernels, kind: str, large: str) -> None:
    """Streams, tiles of few rows and of many: to the last bit. Bands that fill no vector, more columns than a chunk.
    Large values take another way in some libraries.
    """
    outputs, inputs = 43, 1280
    blocks = random_blocks(kind, outputs, inputs)
    xq, add = activations(normal(21, inputs)), normal(outputs)
    if large == "scales":
        blocks["d"][5, 1], blocks["d"][12, -1], blocks["d"][42, 0] = 2, -3, 65504
    elif large == "infinite":
        blocks["d"][5, 1], blocks["d"][12, -1], blocks["d"][42, 0] = np.inf, -np.inf, np.nan
    elif large == "minimums":
        blocks["m"][5, 1], blocks["m"][13, 0], blocks["m"][42, -1] = -2, np.inf, 65504
    elif large == "activations":
        xq["scale"][:, 3] = 2.0**17
    kernel, w = packed_weights(kernels, kind, blocks)
    known = products(kernels, kernel, kind, 21, xq, w, add)
    odd = {"infinite": [5, 12, 42], "minimums": [13]}.get(large, [])
    assert np.isfinite(known).all(axis=0).tolist() == [output not in odd for output in range(outputs)]
    known[np.isnan(known)] = np.nan  # which of its many bits does not matter
    for rows in (1, 2, 3, 4, 5, 8, 9, 11, 13, 16):
        found = products(kernels, kernel, kind, rows, xq, w, add)
        found[np.isnan(found)] = np.nan
        assert found.tobytes() == known[:rows].tobytes(), f"{rows} rows"


@pytest.mark.parametrize("block", [0, 300, 600])
@pytest.mark.parametrize("kind", ["q4_0", "q5_1", "q8_0"])
def test_a_large_scale_in_a_long_row(kernels: Kernels, kind: str, block: int) -> None:
    """Rows of more blocks than are prepared at once, added to y itself."""
    outputs, inputs = 37, 601 * 32
    blocks, xq, start = random_blocks(kind, outputs, inputs), activations(normal(5, inputs)), normal(5, outputs)
    blocks["d"][20, block] = 5
    kernel, w = packed_weights(kernels, kind, blocks)
    arguments = dict(xq=xq, w=w, outputs=outputs, inputs=inputs, y_stride=outputs, residual_stride=outputs)
    if kernel == "linear_blocks":
        arguments["type"] = BLOCK_CODES[kind]
    found = {}
    for rows in (1, 5):
        y = start.copy()
        assert kernels.run(kernel, y=y, residual=y, rows=rows, **arguments) == OK
        found[rows] = y
    assert found[1][0].tobytes() == found[5][0].tobytes()
    w64 = values_of(kind, blocks).astype(np.float64)
    x64 = (xq["values"] * xq["scale"][..., None].astype(np.float64)).reshape(5, inputs)
    np.testing.assert_allclose(found[5], x64 @ w64.T + start, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PACKED])
def test_four_rows_are_the_same_among_more(kernels: Kernels, kind: str) -> None:
    """Types that lie row after row: for multiples of four rows, which servers pad to."""
    blocks, xq, add = random_blocks(kind, 43, 1280), activations(normal(12, 1280)), normal(43)
    w = weights_of(kernels, kind, blocks)
    known = products(kernels, "linear_blocks", kind, 12, xq, w, add)
    for rows in (4, 8):
        found = products(kernels, "linear_blocks", kind, rows, xq, w, add)
        assert found.tobytes() == known[:rows].tobytes(), f"{rows} rows"


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
        assert kernels.run(kernel, packed=nothing, blocks=nothing, rows=1, columns=256, type=23) == BAD_ARGUMENT
