"""Files on disk are mapped: tensors are there at once, writes to them never reach the file, pipes are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import (
    BytesSource,
    FileSource,
    inspect,
    open_checkpoint,
    quantize_blocks,
    write_gguf,
    write_safetensors,
)
from pyapp.formats.convert import quantize_file
from pyapp.formats.llama2c import FIELDS, tensor_shapes, write_llama2c

pytestmark = pytest.mark.native_only
ROWS, COLUMNS = 128, 256  # 128 kB as float32: large enough to be mapped


def values(seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def safetensors(path: Path) -> None:
    write_safetensors(path, {"w": values(), "half": values(1).astype(np.float16), "small": np.arange(3.0)})


def gguf(path: Path) -> None:
    blocks = quantize_blocks(values(), "q5_K")
    write_gguf(path, {"w": values(), "half": values(1).astype(np.float16), "blocks": blocks})


def llama2c(path: Path) -> None:
    config = dict(zip(FIELDS, (128, 256, 1, 4, 4, 256, 32), strict=True))
    write_llama2c(path, config, {name: np.ones(shape, np.float32) for name, shape in tensor_shapes(config, True)})


def pytorch(path: Path) -> None:
    pyapp.save({"w": pyapp.from_numpy(values()), "half": pyapp.from_numpy(values(1)).half()}, path)


WRITERS = {"m.safetensors": safetensors, "m.gguf": gguf, "m.bin": llama2c, "m.pt": pytorch}


@pytest.mark.parametrize("name", WRITERS)
def test_mapped_and_copied_tensors_are_equal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    with open_checkpoint(path) as mapped, open_checkpoint(path, mapping=False) as copied:
        owners = set()
        for key, info in mapped.tensors.items():
            ours, theirs = mapped.read(key, finite=True), copied.read(key)
            assert theirs._storage.owner is None
            owners.add(ours._storage.owner is not None)
            assert (ours._storage.owner is not None) == (info.nbytes >= 1 << 16), key
            assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
            assert quant.dequantize(ours).tolist() == quant.dequantize(theirs).tolist()
        assert True in owners


def test_pytorchs_tensors_are_read_where_they_cannot_be_mapped(tmp_path: Path) -> None:
    """Two that share a storage, one in another order, one that is compressed."""
    w = pyapp.from_numpy(values())
    pyapp.save({"one": w, "other": w, "turned": pyapp.from_numpy(values(1)).T}, tmp_path / "shared.pt")
    with open_checkpoint(tmp_path / "shared.pt") as file:
        read = {name: file.read(name) for name in file.tensors}
    assert all(tensor._storage.owner is None for tensor in read.values())
    with pyapp.no_grad():
        read["one"].zero_()
    np.testing.assert_array_equal(read["other"].numpy(), values())
    np.testing.assert_array_equal(read["turned"].numpy(), values(1).T)
    pyapp.save({"w": w}, tmp_path / "stored.pt")
    deflated = tmp_path / "deflated.pt"
    with zipfile.ZipFile(tmp_path / "stored.pt") as old, zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with open_checkpoint(deflated) as file:
        found = file.read("w")
    assert found._storage.owner is None
    np.testing.assert_array_equal(found.numpy(), values())


@pytest.mark.parametrize("name", WRITERS)
def test_writes_stay_in_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    before = path.read_bytes()
    with open_checkpoint(path) as first, open_checkpoint(path) as second:
        key = next(key for key, info in first.tensors.items() if info.dtype == "float32" and info.nbytes > 1 << 16)
        one, other = first.read(key), second.read(key)
        kept = other.tolist()
    with pyapp.no_grad():
        one.fill_(7.0)
        one[0, 0] = float("nan")
    assert float(one[1, 1]) == 7.0 and other.tolist() == kept
    assert path.read_bytes() == before


def test_a_tensor_outlives_the_file(tmp_path: Path) -> None:
    safetensors(tmp_path / "m.safetensors")
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        tensor = file.read("w")
    write_safetensors(tmp_path / "m.safetensors", {"w": values(5)})  # by renaming: the mapping keeps the old file
    np.testing.assert_array_equal(tensor.numpy(), values())
    (tmp_path / "m.safetensors").unlink()
    np.testing.assert_array_equal((tensor * 1).numpy(), values())


def test_misaligned_tensors_are_copied(tmp_path: Path) -> None:
    header = b'{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    header += b'"w":{"dtype":"F32","shape":[32768],"data_offsets":[1,131073]}}'
    header += b" " * (-len(header) % 8)
    data = len(header).to_bytes(8, "little") + header + b"\1" + values().tobytes()
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with open_checkpoint(path) as file:
        tensor = file.read("w")
    assert tensor._storage.owner is None
    np.testing.assert_array_equal(tensor.numpy(), values().reshape(-1))


def test_damaged_weights_of_a_mapped_file(tmp_path: Path) -> None:
    broken = values()
    broken[100, 3] = np.inf
    write_safetensors(tmp_path / "m.safetensors", {"w": broken})
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        file.read("w")
        with pytest.raises(ModelError, match="element 25,603 is infinite"):
            file.read("w", finite=True)


def test_a_file_that_was_shortened_is_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    safetensors(path)
    with open_checkpoint(path) as file:
        os.truncate(path, 1000)
        with pytest.raises(FileFormatError, match="ended at byte 1,000 while being read"):
            file.read("w")


def test_large_weights_take_no_memory_of_their_own(tmp_path: Path) -> None:
    """300 MB are loaded in a process that may not have 200 MB of private memory."""
    path = tmp_path / "m.safetensors"
    header = b'{"w":{"dtype":"F32","shape":[75000000],"data_offsets":[0,300000000]}}   '
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 300_000_000)
    code = (
        "import sys; from pyapp.formats import open_checkpoint\n"
        "c = open_checkpoint(sys.argv[1]); w = c.read('w'); assert float(w.sum()) == 0\n"
        "status = open('/proc/self/status').read()\n"
        "print(int(status.split('RssAnon:')[1].split()[0]))\n"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000  # kB


def test_the_source_gives_the_memory_of_a_range(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)))
    with FileSource(tmp_path / "f") as source:
        found = source.mapped(16, 4)
        assert found is not None
        address, owner = found
        assert bytes(owner)[16:20] == bytes([16, 17, 18, 19])  # type: ignore[call-overload]
        assert source.mapped(17, 1) == (address + 1, owner)
        with pytest.raises(FileFormatError, match="there are 256 bytes"):
            source.mapped(250, 10)
    with FileSource(tmp_path / "f", mapping=False) as source:
        assert source.mapped(0, 1) is None
    (tmp_path / "empty").write_bytes(b"")
    with FileSource(tmp_path / "empty") as source:
        assert source.mapped(0, 0) is None


# -- sources that are not files


def within(seconds: float, function: Any) -> Any:
    """The result or the error of `function`. Fails if it takes too long."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(function())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert box, "it waits for ever"
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


READS = {
    "open_checkpoint": open_checkpoint,
    "inspect": inspect,
    "FileSource": FileSource,
    "quantize": lambda path: quantize_file(path, f"{path}.gguf", "q8_0"),
    "imatrix": lambda path: quantize_file(BytesSource(b"x"), f"{path}.gguf", "q8_0", imatrix=path),
    "map_npy": lambda path: __import__("pyapp.formats").formats.map_npy(path),
    "load": pyapp.load,
}


@pytest.mark.parametrize("name", READS)
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="this is a pipe, not a file"):
        within(5, lambda: READS[name](tmp_path / "pipe"))


def test_a_device_is_refused() -> None:
    for path in ("/dev/zero", "/dev/null"):
        with pytest.raises(FileFormatError, match="this is a device, not a file"):
            open_checkpoint(path)


def test_a_shard_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"w": "a.safetensors"}}')
    with pytest.raises(FileFormatError, match="this is a pipe"):
        within(5, lambda: open_checkpoint(index))


def test_a_name_with_a_zero_byte() -> None:
    with pytest.raises(FileNotFoundError):
        open_checkpoint("a\0b")
