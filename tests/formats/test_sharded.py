"""safetensors in several files, and .npy files that are mapped into memory."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError
from pyapp.formats import (
    ShardedFile,
    inspect,
    map_npy,
    open_checkpoint,
    open_source,
    write_npy,
    write_sharded_safetensors,
)
from pyapp.formats.source import BytesSource
from pyapp.hub import resolve
from pyapp.models.loading.task_files import given_files


def tensors() -> dict[str, Any]:
    return {f"layer.{i}.weight": pyapp.arange(6, dtype="float32").reshape(2, 3) + i for i in range(5)}


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    index = write_sharded_safetensors(tmp_path, tensors(), {"format": "pt"}, limit=50)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"model-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)] + ["model.safetensors.index.json"]
    stored = json.loads(index.read_text())
    assert stored["metadata"] == {"total_size": 120}
    assert stored["weight_map"]["layer.2.weight"] == "model-00002-of-00003.safetensors"
    assert inspect(index)["size"] == sum(path.stat().st_size for path in tmp_path.iterdir())
    with open_checkpoint(index) as file:
        assert file.format == "safetensors in 3 shards"
        assert file.metadata == {"format": "pt", "total_size": "120"}
        assert {n: file.read(n).tolist() for n in file.tensors} == {n: t.tolist() for n, t in tensors().items()}
        assert file.read_bytes("layer.0.weight") == np.arange(6, dtype="float32").tobytes()
        with pytest.raises(KeyError, match="no tensor 'other'"):
            file.read("other")


def test_shards_from_anywhere(tmp_path: Path) -> None:
    """In the page they are picked files."""
    index = write_sharded_safetensors(tmp_path, tensors(), limit=1)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    picked = {name: BytesSource(data, name) for name, data in files.items()}
    with open_checkpoint(given_files(picked)["model"]) as chosen:
        assert chosen.read("layer.3.weight").tolist() == [[3, 4, 5], [6, 7, 8]]
    text = files.pop(index.name)
    file = ShardedFile(open_source(text), files.__getitem__)
    assert file.read("layer.4.weight").tolist() == [[4, 5, 6], [7, 8, 9]]
    del files["model-00003-of-00005.safetensors"]
    with pytest.raises(FileFormatError, match=r"the shard 'model-00003-of-00005.safetensors' is missing"):
        ShardedFile(open_source(text), files.__getitem__)
    with pytest.raises(FileFormatError, match="not a file on disk"):
        ShardedFile(open_source(text))


def test_shards_of_pytorchs_files(tmp_path: Path) -> None:
    values = tensors()
    parts = [dict(list(values.items())[:3]), dict(list(values.items())[3:])]
    places = {}
    for number, part in enumerate(parts, 1):
        name = f"pytorch_model-{number:05d}-of-00002.bin"
        pyapp.save(part, tmp_path / name)
        places |= dict.fromkeys(part, name)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 120}, "weight_map": places}))
    assert resolve(tmp_path).model == index
    with open_checkpoint(index) as file:
        assert file.format == "pytorch in 2 shards"
        assert {n: file.read(n).tolist() for n in file.tensors} == {n: t.tolist() for n, t in values.items()}
    write_sharded_safetensors(tmp_path, values)
    assert resolve(tmp_path).model.name == "model.safetensors.index.json"


BROKEN = {
    "not JSON": b"{",
    "no weight_map": b'{"weight_map": []}',
    "0 shards": b'{"weight_map": {}}',
    "is not JSON": b"[" * 100_000,
    "not a file beside it": b'{"weight_map": {"w": "../secret.safetensors"}}',
    "'/etc/passwd', which is not a file": b'{"weight_map": {"w": "/etc/passwd"}}',
    "'3', which is not a file": b'{"weight_map": {"w": 3}}',
    "'model-00009.safetensors' is missing": b'{"weight_map": {"w": "model-00009.safetensors"}}',
    "has no tensor 'w'": b'{"weight_map": {"w": "model-00001-of-00001.safetensors"}}',
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_indices(tmp_path: Path, message: str) -> None:
    index = write_sharded_safetensors(tmp_path, tensors())
    index.write_bytes(BROKEN[message])
    with pytest.raises(FileFormatError) as caught:
        open_checkpoint(index)
    assert message.removeprefix("is ") in str(caught.value) and caught.value.hint


def test_random_damage(tmp_path: Path, peak_memory: Any) -> None:
    index = write_sharded_safetensors(tmp_path, tensors(), limit=50)
    chance, refused = random.Random(0), 0
    originals = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    with peak_memory(8 << 20):
        for turn in range(150):
            path = chance.choice(list(originals))
            data = bytearray(originals[path])
            if turn % 3 == 0:
                del data[chance.randrange(len(data)) :]
            else:
                at = chance.randrange(len(data))
                data[at : at + chance.choice((1, 4))] = chance.randbytes(chance.choice((1, 4)))
            path.write_bytes(data)
            try:
                with open_checkpoint(index) as file:
                    for name in file.tensors:
                        file.read(name)
            except FileFormatError as error:
                assert error.where and error.hint and len(str(error)) < 1000
                refused += 1
            path.write_bytes(originals[path])
    assert refused > 60


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool"])
def test_a_mapped_array_is_the_file(tmp_path: Path, dtype: str) -> None:
    x = (pyapp.arange(12).reshape(3, 4) % 5).to(dtype)
    path = tmp_path / "x.npy"
    write_npy(path, x)
    before = path.read_bytes()
    mapped = map_npy(path)
    assert (mapped.dtype, mapped.tolist()) == (x.dtype, x.tolist())
    mapped[0, 0] = 1
    assert mapped[0, 0].item() == 1 and path.read_bytes() == before
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    turned = map_npy(tmp_path / "fortran.npy")
    assert turned.tolist() == [[0, 1, 2], [3, 4, 5]] and turned.strides == (1, 2)


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.arange(3, dtype=">f4"))
    with pytest.raises(FileFormatError, match="big-endian"):
        map_npy(tmp_path / "big.npy")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3), "float32"))
    assert map_npy(tmp_path / "empty.npy").shape == (0, 3)
    (tmp_path / "short.npy").write_bytes((tmp_path / "empty.npy").read_bytes()[:40])
    with pytest.raises(FileFormatError):
        map_npy(tmp_path / "short.npy")
