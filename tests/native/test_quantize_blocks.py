"""Quantisation to GGML's types: bit for bit the definition in NumPy, for numbers of every size."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from pyapp.engine.blocks.layout import BLOCK_TYPES, block_bytes
from pyapp.engine.blocks.writing import QUANTIZABLE, write_by_definition
from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels, unaligned

# The wasm libraries have no room for the kernel.
pytestmark = pytest.mark.native_only
COLUMNS = 768  # three blocks of 256: an odd number, as two of some types are computed together


@cache
def numbers() -> np.ndarray:
    """Rows of many kinds: even, with far outliers, not centred, of one sign, whole, with zeros, of extreme sizes."""
    random = np.random.default_rng(7)
    x = normal(33, COLUMNS, seed=5)
    x[1] *= np.exp(random.standard_normal(COLUMNS)).astype(np.float32)
    x[2] += 1
    x[3] = -np.abs(x[3])
    x[4] = np.abs(x[4]) + 3
    x[5] = np.rint(4 * x[5])  # many values half-way between two numbers
    x[6] = np.rint(x[6]) / 2
    x[7] = 0
    x[8] = -0.0
    x[9, ::2], x[9, 1::2] = 0, -0.0
    x[10] = 5
    x[11] = -0.25
    x[12] *= random.random(COLUMNS) < 0.05
    x[13] = 0
    x[13, [3, 300, 301]] = -3, 1e-30, 7
    x[14] = np.where(np.arange(COLUMNS) % 2, 6e4, -6e4)
    x[15] *= np.float32(1e-38)
    x[16] *= np.float32(3e-45)
    x[17] = np.float32(1e-45)
    x[18] *= np.float32(1e30)
    x[19] *= np.float32(7e37)
    x[20] = np.where(np.arange(COLUMNS) % 3, np.float32(3.4e38), np.float32(-3.4e38))
    x[21, :256] *= np.float32(1e-20)
    x[22, 7::32] = 1e6
    x[23] = np.abs(x[23]) * np.float32(1e-40)
    x[24:] *= np.exp2(random.integers(-149, 125, (9, COLUMNS))).astype(np.float32)
    return x


def importances() -> dict[str, np.ndarray | None]:
    random = np.random.default_rng(8)
    even = np.square(random.standard_normal(COLUMNS)).astype(np.float32)
    return {
        "none": None,
        "some": even,
        "few": np.where(random.random(COLUMNS) < 0.03, even, np.float32(0)),
        "far apart": even * np.exp2(random.integers(-100, 30, COLUMNS)).astype(np.float32),
    }


@cache
def expected(kind: str, name: str, rows: int) -> np.ndarray:
    x = numbers()[:rows]
    result = np.full(block_bytes(kind, x.shape), 0xAA, np.uint8)
    write_by_definition(x, kind, importances()[name], result)
    return result


@pytest.mark.parametrize("name", importances())
@pytest.mark.parametrize("kind", QUANTIZABLE)
def test_the_definition_bit_for_bit(kernels: Kernels, kind: str, name: str) -> None:
    for rows in (1, 33):
        known, importance = expected(kind, name, rows), importances()[name]
        blocks = unaligned(np.full(known.shape, 0x55, np.uint8))
        arguments = dict(x=unaligned(numbers()[:rows]), rows=rows, columns=COLUMNS, type=BLOCK_TYPES[kind].code)
        if importance is not None:
            arguments["importance"] = unaligned(importance)
        run_checked(kernels, "quantize_blocks", "blocks", blocks=blocks, **arguments)
        size = BLOCK_TYPES[kind].nbytes
        wrong = np.flatnonzero((blocks.reshape(-1, size) != known.reshape(-1, size)).any(axis=1))
        each = COLUMNS // BLOCK_TYPES[kind].values
        assert not len(wrong), f"{len(wrong)} blocks, the first of row {wrong[0] // each}"


def test_blocks_do_not_depend_on_those_beside_them(kernels: Kernels) -> None:
    """Of types that are computed sixteen, two and one at a time, from every first row on."""
    for kind in ("q4_1", "q5_K", "q6_K"):
        size = block_bytes(kind, (1, COLUMNS))
        known = expected(kind, "none", 33).reshape(33, size)
        for first in range(1, 20):
            x, blocks = numbers()[first : first + 5].copy(), np.zeros((5, size), np.uint8)
            arguments = dict(blocks=blocks, x=x, rows=5, columns=COLUMNS, type=BLOCK_TYPES[kind].code)
            assert kernels.run("quantize_blocks", **arguments) == OK
            assert (blocks == known[first : first + 5]).all()


def test_wrong_arguments(kernels: Kernels) -> None:
    nothing = np.zeros(4096, np.uint8)
    for code, columns in ((12, 128), (2, 33), (99, 256), (-1, 256), (16, 256)):
        arguments = dict(blocks=nothing, x=nothing, rows=1, columns=columns, type=code)
        assert kernels.run("quantize_blocks", **arguments) == BAD_ARGUMENT
    assert kernels.run("quantize_blocks", blocks=nothing, x=nothing, rows=0, columns=256, type=12) == OK
