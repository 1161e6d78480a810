"""The error of quantisation compared with llama.cpp's quantisers (golden/quantizers.json), the effect of importance,
and the bits, which are the same on every machine (golden/quantized_bits.json)."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import QUANTIZABLE, quantize_blocks
from tests.together import fewer_in_browser

np = pytest.importorskip("numpy")
KINDS = (
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs", "mxfp4",
)  # fmt: skip
BITS = Path(__file__).parent / "golden" / "quantized_bits.json"
MARGIN = 1.03  # of llama.cpp's error; most types lose less than it does


def numbers_to_quantize() -> dict[str, tuple[Any, Any]]:
    """Matrices (48, 1024) with the importance of their columns: even, with far outliers, and not centred."""
    generator = np.random.default_rng(11)
    shape = (48, 1024)
    normal = generator.standard_normal(shape)
    matrices = {
        "normal": normal,
        "outliers": normal[::-1] * np.exp(generator.standard_normal(shape) / 2) * 0.02,
        "shifted": generator.standard_normal(shape) + 1,
    }
    importance = np.square(generator.standard_normal(1024)).astype(np.float32)
    return {name: (np.ascontiguousarray(x, np.float32), importance) for name, x in matrices.items()}


def error(x: Any, back: Any, importance: Any) -> float:
    """Root of the mean squared difference, each column weighted by its importance."""
    weight = 1.0 if importance is None else importance.astype(np.float64)
    return float(np.sqrt((weight * np.square(back.reshape(x.shape).astype(np.float64) - x)).mean()))


CASES = [(kind, name) for kind in KINDS for name in ("normal", "outliers", "shifted")]


@pytest.mark.parametrize(("kind", "name"), fewer_in_browser(CASES, every=4))
def test_the_error_is_that_of_llama_cpp(golden: Path, kind: str, name: str) -> None:
    theirs = json.loads((golden / "quantizers.json").read_text())[name][kind]
    x, importance = numbers_to_quantize()[name]
    for weights, limit in zip((None, importance), theirs, strict=True):
        back = dequantize_blocks(quantize_blocks(x, kind, weights).data, kind)
        assert error(x, back, weights) <= MARGIN * limit


def test_q8_k_and_q8_1_keep_the_sums_that_products_need() -> None:
    x = np.random.default_rng(2).standard_normal((3, 512)).astype(np.float32)
    blocks = np.frombuffer(quantize_blocks(x, "q8_K").data, np.dtype(list(BLOCK_TYPES["q8_K"].fields)))
    np.testing.assert_array_equal(blocks["low"].reshape(-1, 16, 16).sum(axis=2), blocks["sums"].reshape(-1, 16))
    assert np.abs(dequantize_blocks(blocks, "q8_K").reshape(x.shape) - x).max() <= 0.51 * np.abs(x).max() / 127
    blocks = np.frombuffer(quantize_blocks(x, "q8_1").data, np.dtype(list(BLOCK_TYPES["q8_1"].fields)))
    means = blocks["low"].sum(axis=1) * blocks["d"].astype(np.float32)
    np.testing.assert_allclose(blocks["sum"], means, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("kind", QUANTIZABLE)
def test_odd_numbers(kind: str) -> None:
    """Zeros stay zeros; one value, equal values, and the smallest and largest of float16 survive in their size."""
    x = np.zeros((6, 256), np.float32)
    x[1] = 5
    x[2, 7] = -3
    x[3] = np.where(np.arange(256) % 2, 6e4, -6e4)
    x[4] = 1e-38
    x[5] = -0.25
    back = dequantize_blocks(quantize_blocks(x, kind).data, kind).reshape(x.shape)
    assert np.isfinite(back).all()
    assert not back[0].any()
    rough = 0.35 if kind in ("q2_K", "mxfp4") else 0.15
    for row in (1, 2, 3, 5):
        assert np.abs(back[row] - x[row]).max() <= rough * np.abs(x[row]).max()
    assert np.abs(back[4]).max() <= 1e-4


@pytest.mark.parametrize("kind", ["q4_0", "q5_1", "q2_K", "q4_K", "q6_K", "iq4_xs"])
def test_importance_moves_the_error_to_where_it_counts_less(kind: str) -> None:
    x = np.random.default_rng(3).standard_normal((16, 512)).astype(np.float32)
    importance = np.where(np.arange(512) % 4, 0.01, 1).astype(np.float32)
    plain, weighted = (
        dequantize_blocks(quantize_blocks(x, kind, weights).data, kind) for weights in (None, importance)
    )
    assert error(x, weighted, importance) < 0.95 * error(x, plain, importance)


def test_importance_is_checked() -> None:
    x = np.ones((2, 256), np.float32)
    with pytest.raises(ValueError, match=r"shape \(255,\), expected one number for each of 256 columns"):
        quantize_blocks(x, "q4_K", np.ones(255))
    for bad in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite and not negative"):
            quantize_blocks(x, "q4_K", np.full(256, bad))
    nothing = quantize_blocks(x, "q4_K", np.zeros(256)).data
    assert np.abs(dequantize_blocks(nothing, "q4_K") - 1).max() < 0.01


def test_a_row_gets_the_same_bytes_wherever_it_stands() -> None:
    """The division into chunks has no effect, and importance stays with its columns."""
    x = np.random.default_rng(4).standard_normal((90, 768)).astype(np.float32)
    importance = np.random.default_rng(5).random(768).astype(np.float32)
    for kind in ("q4_K", "q5_0"):
        whole = bytes(quantize_blocks(x, kind, importance).data)
        size = len(whole) // 90
        for row in (0, 84, 89):
            assert bytes(quantize_blocks(x[row], kind, importance).data) == whole[row * size : (row + 1) * size]


def checksums(kind: str) -> list[int]:
    """CRC-32 of blocks of numbers that are made without functions that differ between machines: without importance, and
    with it."""
    random = np.random.default_rng(12)
    x = random.random((5, 768), np.float32) + random.random((5, 768), np.float32) - np.float32(0.9)
    x[1] *= np.exp2(random.integers(-9, 9, 768)).astype(np.float32)
    x[2] = np.rint(8 * x[2])
    x[3] *= random.random(768) < 0.05
    importance = np.square(random.random(768, np.float32))
    return [zlib.crc32(quantize_blocks(x, kind, weights).data) for weights in (None, importance)]


@pytest.mark.parametrize("kind", QUANTIZABLE)
def test_the_bits_do_not_depend_on_the_machine(kind: str) -> None:
    assert checksums(kind) == json.loads(BITS.read_text())[kind]
