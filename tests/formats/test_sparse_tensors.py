"""Sparse tensors in files of torch.save."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp.errors import FileFormatError
from pyapp.formats import open_checkpoint
from pyapp.formats.source import BytesSource
from tests.hostile import survives

GOLDEN = Path(__file__).with_name("golden") / "sparse.pt"  # make_golden_pickles.py
ELEMENTS = [[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    pyapp.save(value, stream)
    return stream.getvalue()


def test_what_torch_wrote() -> None:
    found = pyapp.load(GOLDEN)
    assert {name: x.layout for name, x in found.items()} == {
        "coo": pyapp.sparse_coo, "csr": pyapp.sparse_csr, "csc": pyapp.sparse_csc, "parameter": pyapp.sparse_coo,
    }  # fmt: skip
    assert all(x.to_dense().tolist() == ELEMENTS for x in found.values())
    assert found["coo"].is_coalesced() and not found["parameter"].is_coalesced()
    assert isinstance(found["parameter"], pyapp.nn.Parameter) and found["parameter"].requires_grad
    assert list(open_checkpoint(GOLDEN).tensors)[:5] == [
        "coo.indices", "coo.values", "csr.crow_indices", "csr.col_indices", "csr.values",
    ]  # fmt: skip


def test_what_we_wrote() -> None:
    value = pyapp.load(GOLDEN)
    value["hybrid"] = pyapp.sparse_coo_tensor([[1, 0]], [[1.0, 2.0], [3.0, 4.0]], (2, 2))
    value["again"], value["none"] = value["coo"], pyapp.sparse_coo_tensor((2, 3))
    found = pyapp.load(saved(value))
    for name, x in value.items():
        y = found[name]
        assert (y.layout, y.shape, y.requires_grad, repr(y)) == (x.layout, x.shape, x.requires_grad, repr(x))
    assert found["again"] is found["coo"]


def test_damaged_files() -> None:
    x = pyapp.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], (2, 3))
    x.places[0, 1] = 7  # outside of the size
    with pytest.raises(FileFormatError, match="does not fit together: indices 0 .. 7"):
        pyapp.load(saved(x))
    y = pyapp.load(GOLDEN)["csr"]
    y.crow_indices()[1] = 9
    with pytest.raises(FileFormatError, match="does not fit together"):
        pyapp.load(saved(y))
    data, chance = GOLDEN.read_bytes(), random.Random(0)
    for _ in range(60):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        survives(pyapp.load, BytesSource(bytes(changed), "sparse.pt"))
