"""pyapp reads files of torch, safetensors and NumPy with every dtype, and they read pyapp's."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.formats import open_checkpoint, write_npz, write_safetensors

torch = pytest.importorskip("torch")
library = pytest.importorskip("safetensors.torch")

SHARED = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()
STORED = [*SHARED, "float8_e4m3fn", "float8_e5m2"]
FOREIGN = ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


def bits(name: str) -> Any:
    """Any bytes, as a tensor (3, 8) of torch."""
    size = getattr(torch, name).itemsize
    raw = torch.from_numpy(np.random.RandomState(1).randint(0, 256, 24 * size).astype("uint8"))
    return (raw % 2 == 0).reshape(3, 8) if name == "bool" else raw.view(getattr(torch, name)).reshape(3, 8)


def raw_bytes(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def files() -> dict[str, bytes]:
    tensors = {name: bits(name) for name in (*STORED, *FOREIGN, "complex64")}
    stream = io.BytesIO()
    torch.save(tensors, stream)
    found = {"safetensors": library.save(tensors), "pt": stream.getvalue()}
    stream = io.BytesIO()
    lacking = ("bfloat16", "float8_e4m3fn", "float8_e5m2", *FOREIGN)
    np.savez(stream, **{name: tensor.numpy() for name, tensor in tensors.items() if name not in lacking})
    return {**found, "npz": stream.getvalue()}


@pytest.mark.parametrize(("kind", "data"), files().items(), ids=["safetensors", "pt", "npz"])
def test_what_others_wrote(kind: str, data: bytes) -> None:
    with open_checkpoint(data) as read:
        assert len(read.tensors) == (12 + 1 if kind == "npz" else len(STORED) + 4)
        for name, info in read.tensors.items():
            tensor, wanted = read.read(name), bits(name)
            assert info.dtype == name and info.shape == (3, 8)
            if name in STORED:
                assert tensor.dtype.name == name and bytes(tensor.data_view().cast("B")) == raw_bytes(wanted)
            else:
                wanted = wanted if name == "complex64" else wanted.float()
                np.testing.assert_array_equal(tensor.numpy(), wanted.numpy())


def test_what_we_wrote(tmp_path: Path) -> None:
    wanted = {name: bits(name) for name in STORED}
    ours = {name: pyapp.Tensor.from_buffer(raw_bytes(tensor), (3, 8), name) for name, tensor in wanted.items()}
    write_safetensors(tmp_path / "w.safetensors", {**ours, "turned": ours["uint16"].T})
    for name, tensor in library.load_file(tmp_path / "w.safetensors").items():
        expected = wanted["uint16"].T if name == "turned" else wanted[name]
        assert tensor.dtype is expected.dtype and raw_bytes(tensor) == raw_bytes(expected)
    lacking = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    write_npz(tmp_path / "w.npz", {name: tensor for name, tensor in ours.items() if name not in lacking})
    with np.load(tmp_path / "w.npz") as read:
        for name in read.files:
            assert read[name].dtype.name == name and read[name].tobytes() == raw_bytes(wanted[name])


def test_shards_of_wide_types(tmp_path: Path) -> None:
    import json

    tensors = {"a": bits("uint16"), "b": bits("uint64"), "c": bits("complex64")}
    for i, (name, tensor) in enumerate(tensors.items()):
        library.save_file({name: tensor}, tmp_path / f"model-{i}.safetensors")
    places = {name: f"model-{i}.safetensors" for i, name in enumerate(tensors)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    with open_checkpoint(tmp_path / "model.safetensors.index.json") as read:
        assert [read.read(name).dtype.name for name in "abc"] == ["uint16", "uint64", "complex64"]
        for name, tensor in tensors.items():
            assert read.read(name).shape == (3, 8)
            assert read.read(name).numpy().tobytes() == raw_bytes(tensor)


def test_torch_reads_sparse_tensors(tmp_path: Path) -> None:
    coo = pyapp.sparse_coo_tensor([[1, 0, 1], [2, 0, 1]], [3.0, 4.0, 5.0], (2, 3))
    hybrid = pyapp.sparse_coo_tensor([[1, 0]], [[1, 2], [3, 4]], (2, 2))
    value = {"coo": coo, "csr": coo.to_sparse_csr(), "csc": coo.to_sparse_csc(), "hybrid": hybrid}
    pyapp.save({**value, "parameter": pyapp.nn.Parameter(coo)}, tmp_path / "m.pt")
    found = torch.load(tmp_path / "m.pt", weights_only=True)
    assert isinstance(found.pop("parameter"), torch.nn.Parameter)
    for name, theirs in found.items():
        assert repr(theirs).replace("torch.", "pyapp.") == repr(value[name])


def test_torch_reads_block_quantised_tensors_as_dicts(tmp_path: Path) -> None:
    from pyapp.engine import quant
    from pyapp.formats.pytorch import BLOCKS

    matrix = quant.quantize(pyapp.randn(6, 64), "q8_0")
    pyapp.save({"w": matrix, "b": pyapp.ones(2)}, tmp_path / "m.pt")
    found = torch.load(tmp_path / "m.pt", weights_only=True)
    assert found["b"].tolist() == [1, 1] and found["w"][BLOCKS] == "q8_0"
    assert found["w"]["rows"].dtype is torch.uint8 and tuple(found["w"]["rows"].shape) == (6, 68)
    assert found["w"]["rows"].numpy().tobytes() == bytes(quant.to_blocks(matrix).data)
    write_safetensors(tmp_path / "m.safetensors", {"w": matrix})
    assert library.load_file(tmp_path / "m.safetensors")["w"].tolist() == found["w"]["rows"].tolist()
    torch.save(found, tmp_path / "back.pt")
    back = pyapp.load(tmp_path / "back.pt")["w"]
    assert back.dtype is matrix.dtype and quant.dequantize(back).tolist() == quant.dequantize(matrix).tolist()
