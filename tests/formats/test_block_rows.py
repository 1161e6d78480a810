"""Block-quantised tensors in safetensors, GGUF and PyTorch files: they come back bit for bit, as the same type."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.engine import quant
from pyapp.engine.blocks.layout import BLOCK_TYPES
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import inspect, open_checkpoint, write_gguf, write_npz, write_safetensors
from pyapp.formats.block_rows import matrix_of_rows
from pyapp.formats.pytorch import BLOCKS

KINDS = [*sorted(set(BLOCK_TYPES) - {"q8_1", "q8_K"}), "q8_group", "odd"]


def matrix(kind: str, seed: int = 0) -> Any:
    """A packed matrix; "odd" is q8_0 whose rows end in half a block."""
    generator = np.random.default_rng(seed)
    if kind == "q8_group":
        quants = generator.integers(-127, 128, 20 * 256, dtype=np.int8)
        return quant.from_groups(quants, generator.random(20 * 4, np.float32), (20, 256), 64)
    shape = (13, 50) if kind == "odd" else (20, 512)
    values = pyapp.from_numpy(generator.standard_normal(shape).astype(np.float32))
    return quant.quantize(values, "q8_0" if kind == "odd" else kind)


def same(a: Any, b: Any) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape and quant.dequantize(a).tolist() == quant.dequantize(b).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", ["safetensors", "pt", "gguf"])
def test_a_tensor_comes_back(tmp_path: Path, kind: str, suffix: str) -> None:
    path, tensors = tmp_path / f"m.{suffix}", {"w": matrix(kind), "b": pyapp.arange(3.0)}
    if suffix == "safetensors":
        write_safetensors(path, tensors)
    elif suffix == "pt":
        pyapp.save(tensors, path)
        assert same(pyapp.load(path)["w"], tensors["w"])
    elif kind in ("q8_group", "odd"):
        with pytest.raises(ValueError, match=r"'w' is .*, which GGUF cannot store: write it with write_safetensors"):
            write_gguf(path, tensors)
        return
    else:
        write_gguf(path, tensors)
    with open_checkpoint(path) as file:
        assert (file.tensors["w"].dtype, file.tensors["w"].shape) == (tensors["w"].dtype.name, tensors["w"].shape)
        assert same(file.read("w", finite=True), tensors["w"])
        assert file.read("b").tolist() == [0, 1, 2]
    assert inspect(path)["totals"]["parameters"] == tensors["w"].numel() + 3


def test_a_state_dict_of_a_quantised_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 8))
    model[0].weight = nn.Parameter(matrix("odd"), requires_grad=False)
    state = model.state_dict()
    pyapp.save(state, tmp_path / "m.pt")
    found = pyapp.load(tmp_path / "m.pt")
    assert list(found) == list(state) and same(found["0.weight"], state["0.weight"])
    pyapp.save([state["0.weight"], state["0.weight"]], tmp_path / "two.pt")
    one, two = pyapp.load(tmp_path / "two.pt")
    assert one is two
    pyapp.save(matrix("q4_K"), tmp_path / "one.pt")
    assert same(pyapp.load(tmp_path / "one.pt"), matrix("q4_K"))
    with open_checkpoint(tmp_path / "one.pt") as file:
        assert list(file.tensors) == ["tensor"] and same(file.read("tensor"), matrix("q4_K"))


def test_shards(tmp_path: Path) -> None:
    from pyapp.formats import write_sharded_safetensors

    tensors = {f"w{i}": matrix("q8_0", i) for i in range(3)}
    size = quant.packed_bytes(tensors["w0"].shape, "q8_0")
    index = write_sharded_safetensors(tmp_path, tensors, limit=2 * size)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    with open_checkpoint(index) as file:
        assert all(same(file.read(name), tensor) for name, tensor in tensors.items())


def test_experts_in_blocks_become_float32(tmp_path: Path) -> None:
    from pyapp.formats import GgmlBlocks, quantize_blocks

    values = np.random.default_rng(1).standard_normal((3, 4, 64)).astype(np.float32)
    blocks = GgmlBlocks("q8_0", (3, 4, 64), quantize_blocks(values, "q8_0").data)
    write_safetensors(tmp_path / "m.safetensors", {"w": blocks})
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        assert file.tensors["w"].shape == (3, 4, 64)
        assert np.abs(file.read("w").numpy() - values).max() < 0.05


def test_other_writers_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="write it with write_gguf, write_safetensors or save"):
        write_npz(io.BytesIO(), {"w": matrix("q4_0")})
    with pytest.raises(ValueError, match="the metadata have the key 'w'"):
        write_safetensors(io.BytesIO(), {"w": matrix("q4_0")}, {"w": "mine"})


@pytest.mark.parametrize(
    "text,row_bytes",
    [
        ("q8_0", 33), ("q8_0:32", 68), ("q8_0:65", 68), ("q8_0:", 68), ("q8_0:-1", 34), ("q4_K:100", 144),
        ("q8_group", 35), ("q8_0:" + "9" * 30, 34),
    ],
)  # fmt: skip
def test_texts_that_do_not_fit_their_rows(text: str, row_bytes: int) -> None:
    with pytest.raises(ValueError, match="whole blocks"):
        matrix_of_rows(text, row_bytes)


def test_texts_of_matrices() -> None:
    assert matrix_of_rows("q8_0", 68) == ("q8_0", 64) and matrix_of_rows("q8_0:50", 68) == ("q8_0", 50)
    assert matrix_of_rows("q8_group", 72) == ("q8_group", 64) and matrix_of_rows("q4_K", 288) == ("q4_K", 512)
    assert matrix_of_rows("pt", 68) is None


ROWS = pyapp.zeros((2, 34), dtype=pyapp.uint8)
BROKEN = [
    {BLOCKS: "q8_0", "rows": ROWS},
    {BLOCKS: "q8_0", "rows": ROWS, "parameter": 1},
    {BLOCKS: "q9_0", "rows": ROWS, "parameter": False},
    {BLOCKS: 7, "rows": ROWS, "parameter": False},
    {BLOCKS: "q8_0", "rows": ROWS[:, :33].contiguous(), "parameter": False},
    {BLOCKS: "q8_0", "rows": ROWS[:, :17], "parameter": False},
    {BLOCKS: "q8_0", "rows": ROWS.float(), "parameter": False},
    {BLOCKS: "q8_0", "rows": [1], "parameter": False},
    {BLOCKS: "q8_0", "rows": pyapp.zeros((0, 34), dtype=pyapp.uint8), "parameter": False},
]


@pytest.mark.parametrize("value", BROKEN)
def test_dicts_that_pyapp_did_not_write(value: Any) -> None:
    stream = io.BytesIO()
    pyapp.save({"w": value}, stream)
    with pytest.raises(FileFormatError):
        pyapp.load(io.BytesIO(stream.getvalue()))
    with pytest.raises(FileFormatError), open_checkpoint(stream.getvalue()) as file:
        file.read("w")


def test_damaged_scales_are_found(tmp_path: Path) -> None:
    quants, scales = np.zeros(64, np.int8), np.array([1, np.nan], np.float32)
    tensor = quant.from_groups(quants, scales, (2, 32), 32)
    write_safetensors(tmp_path / "m.safetensors", {"w": tensor})
    pyapp.save({"w": tensor}, tmp_path / "m.pt")
    for name in ("m.safetensors", "m.pt"):
        with open_checkpoint(tmp_path / name) as file, pytest.raises(ModelError, match="element 1 is NaN"):
            file.read("w", finite=True)
