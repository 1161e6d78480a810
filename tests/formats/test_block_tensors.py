"""Matrices in GGML's blocks, read piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from pyapp.engine import quant
from pyapp.engine.blocks.layout import FILE_TYPES, READABLE
from pyapp.errors import ModelError
from pyapp.formats import block_tensors
from pyapp.formats.checkpoint import TensorInfo
from pyapp.formats.source import BytesSource

ROWS, COLUMNS = 21, 512  # three pieces, the last of them no whole band
TYPES = [name for name in READABLE if name != "q8_1"]
AT = 5  # bytes before the blocks


def blocks_of(kind: str) -> np.ndarray:
    """(blocks, bytes) of some finite matrix."""
    block = READABLE[kind]
    raw = np.random.default_rng(7).integers(0, 256, (ROWS * COLUMNS // block.values, block.nbytes), dtype=np.uint8)
    raw[raw >= 0x70] &= 0x3F  # no scale is NaN or infinite, wherever it lies
    return raw


def read(kind: str, raw: np.ndarray, monkeypatch: pytest.MonkeyPatch, finite: bool = True) -> quant.Tensor:
    monkeypatch.setattr(block_tensors, "PIECE", 9 * raw.nbytes // ROWS)
    info = TensorInfo("w", kind, (ROWS, COLUMNS), raw.nbytes)
    return block_tensors.read_blocks(BytesSource(b"\xff" * AT + raw.tobytes()), AT, info, finite)


@pytest.mark.parametrize("kind", TYPES)
def test_pieces_make_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = blocks_of(kind)
    found, whole = read(kind, raw, monkeypatch), quant.from_blocks(raw.tobytes(), (ROWS, COLUMNS), kind)
    size = quant.packed_bytes(whole.shape, whole.dtype)
    assert bytes(found._storage.bytes_view()[:size]) == bytes(whole._storage.bytes_view()[:size])
    assert found.shape == whole.shape and found.dtype is whole.dtype


@pytest.mark.parametrize("kind", FILE_TYPES)
def test_damaged_scales_of_types_of_files(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = blocks_of(kind)
    if kind == "nvfp4":  # whose scales are always finite
        assert quant.dequantize(read(kind, np.full_like(raw, 255), monkeypatch)).isfinite().all()
        return
    blocks = raw.view(np.dtype(list(READABLE[kind].fields)))[:, 0]
    if kind == "iq1_m":
        blocks["words"][-1] |= 0xF000  # four bits of the scale in each
    else:
        blocks["d"][-1] = np.inf
    with pytest.raises(ModelError, match=r"'w \(scales\)' are damaged"):
        read(kind, raw, monkeypatch)


@pytest.mark.parametrize("kind", ["q4_0", "q8_0", "q5_1"])
@pytest.mark.parametrize("row", [0, 10, 20])
def test_damage_is_found_in_every_piece(kind: str, row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = blocks_of(kind)
    bad = row * COLUMNS // 32 + 3
    raw[bad, :2] = np.array([np.inf], "<f2").view(np.uint8)
    with pytest.raises(ModelError, match=rf"'w \(scales\)' are damaged: element {bad} is infinite"):
        read(kind, raw, monkeypatch)
    assert np.isinf(quant.dequantize(read(kind, raw, monkeypatch, finite=False)).numpy()).sum() > 0
