"""Errors name what a file is if it is not a model. Only llama2.c checkpoints are called damaged llama2.c
checkpoints."""

from __future__ import annotations

import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine.device import Backend, HiddenAddress, register
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import open_checkpoint, read_tokenizer_bin, write_gguf, write_npz, write_safetensors
from pyapp.formats.source import looks_like_text
from tests.together import fewer_in_browser

ONNX = b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x10" + random.Random(1).randbytes(3000)
OTHERS = {
    "a text": (b"Once upon a time there was a text of some length.\n", "this is a text"),
    "a text in Greek": ("Μια φορά κι έναν καιρό ήταν ένα κείμενο.\n".encode(), "this is a text"),
    "a short text": (b"hello\nworld\n", "this is a text"),
    "a broken ONNX model": (ONNX, "not a usable ONNX model"),
    "msgpack": (b"\x82\xa7weights\x93\x01\x02\x03" + random.Random(2).randbytes(300), "does not know"),
    "noise": (random.Random(3).randbytes(100), "does not know"),
    "few bytes": (b"\x93\xff\x80", "does not know"),
    "WAVE": (b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(100), "this is a WAVE recording. Transcribe it with"),
    "MP3": (b"ID3\x03" + bytes(100), "an MP3 recording"),
    "PNG": (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG picture"),
    "PDF": (b"%PDF-1.7\n" + bytes(100), "a PDF document"),
    "a program": (b"\x7fELF" + bytes(100), "a program or library"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_files(name: str) -> None:
    data, message = OTHERS[name]
    with pytest.raises(FileFormatError, match=message) as caught:
        open_checkpoint(data)
    assert "llama2.c checkpoint: download" not in str(caught.value)
    assert "Supported are" in str(caught.value) or "ONNX" in name
    with pytest.raises(FileFormatError):
        pyapp.load(io.BytesIO(data))


def test_a_damaged_llama2c_checkpoint_is_still_one() -> None:
    header = [64, 172, 5, 8, 4, 512, 512]
    for at in (0, 2, 3, 4, 5, 6):
        broken = list(header)
        broken[at] = -7 if at != 5 else 1 << 30
        with pytest.raises(FileFormatError, match="download it again"):
            open_checkpoint(struct.pack("<7i", *broken) + bytes(100))


def test_tokenizers_that_are_none() -> None:
    for data in (b"hello\nworld\n", b"[UNK]\n[CLS]\n##s\n", "é\n".encode() * 200):
        with pytest.raises(FileFormatError, match=r"this is a text, not a tokenizer.bin or tokenizer.json.*vocab.txt"):
            read_tokenizer_bin(data)


def test_what_is_text() -> None:
    assert looks_like_text("abc é\n\t".encode()) and looks_like_text("é€😀".encode()[:-1])
    assert not looks_like_text(b"\0abc") and not looks_like_text(b"ab\xffcd efgh")


def test_a_model_that_is_none_before_its_tokenizer(tmp_path: Path) -> None:
    """A recording given as a model is a recording, not a model without a tokenizer."""
    from pyapp.models import load_model

    with pytest.raises(FileFormatError, match="this is a WAVE recording"):
        load_model(OTHERS["WAVE"][0])
    write_safetensors(tmp_path / "m.safetensors", {"w": np.zeros(2)}, {"config": '{"model_type": "bert"}'})
    with pytest.raises(ModelError, match="architecture 'bert' are not for causal-lm. They are for features, masked-lm"):
        load_model(tmp_path / "m.safetensors")


def test_the_first_missing_number_is_named(tmp_path: Path) -> None:
    from pyapp.models.llama2c import Config

    with pytest.raises(KeyError, match="dim"):
        Config.from_dict({})


# -- load


def test_load_takes_every_file_of_tensors(tmp_path: Path) -> None:
    values = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.arange(3)}
    for name, write in (("m.safetensors", write_safetensors), ("m.gguf", write_gguf), ("m.npz", write_npz)):
        write(tmp_path / name, values)
        found = pyapp.load(tmp_path / name)
        assert {key: value.tolist() for key, value in found.items()} == {k: v.tolist() for k, v in values.items()}
        with open(tmp_path / name, "rb") as file:
            assert sorted(pyapp.load(file)) == ["n", "w"]


def test_a_sharded_model(tmp_path: Path) -> None:
    from pyapp.formats import write_sharded_safetensors

    index = write_sharded_safetensors(tmp_path, {"a": pyapp.ones(4), "b": pyapp.zeros(4)}, limit=16)
    assert {name: value.tolist() for name, value in pyapp.load(index).items()} == {"a": [1] * 4, "b": [0] * 4}


@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 256, "é" * 200, "\ud800.safetensors", "a\nb", 7, None])
def test_names_of_shards_that_are_no_files(tmp_path: Path, name: Any) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(FileFormatError, match="which is not a file beside it"):
        open_checkpoint(index)


def arrays_in_a_pickle(value: Any) -> bytes:
    """As torch.save writes it: a zip of a pickle."""
    import pickle
    import zipfile

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
        archive.writestr("archive/byteorder", "little")
    return stream.getvalue()


def test_arrays_of_numpy(golden: Path) -> None:
    value = {"a": np.arange(6, dtype="<i4").reshape(2, 3), "f": np.asfortranarray(np.eye(3)), "n": np.float32(2.5)}
    value |= {"big": np.arange(3, dtype=">f8"), "t": np.dtype("float16")}
    found = pyapp.load(arrays_in_a_pickle(value))
    for name in ("a", "f", "big"):
        assert isinstance(found[name], np.ndarray) and found[name].tolist() == value[name].tolist()
        found[name][0] = 7  # memory of its own
    again = pyapp.load(arrays_in_a_pickle([value["a"]] * 2 + [0] * 400_000))
    assert again[0] is again[1] and len(again) == 400_002  # as many numbers as a pickle may have
    assert found["f"].flags.f_contiguous and found["n"] == 2.5 and found["t"] == np.dtype("float16")
    with pytest.raises(FileFormatError, match="an array of objects, strings or records"):
        pyapp.load(arrays_in_a_pickle(np.array(["a", "b"])))


def test_what_is_no_data_is_refused() -> None:
    from collections import OrderedDict

    with pytest.raises(FileFormatError, match="'OrderedDict', which is neither a tensor nor plain data"):
        pyapp.load(arrays_in_a_pickle([OrderedDict]))


def test_integers_that_require_gradients() -> None:
    stream = io.BytesIO()
    pyapp.save({"w": pyapp.ones(3, dtype="int64")}, stream)
    data = stream.getvalue().replace(b"LongStorage", b"LongStorage")
    at = data.index(b"\x89", data.index(b"_rebuild_tensor_v2"))  # requires_grad: False
    broken = data[:at] + b"\x88" + data[at + 1 :]
    with pytest.raises(FileFormatError, match="it says that a tensor of int64 requires a gradient"):
        pyapp.load(io.BytesIO(broken))


# -- other devices


class Shelf(Backend):
    """A device of memory alone, which the host cannot see."""

    def __init__(self) -> None:
        self.blocks: dict[int, bytearray] = {}
        self.largest = 0

    def allocate(self, nbytes: int) -> Any:
        base = (len(self.blocks) + 1) << 40
        self.blocks[base >> 40] = bytearray(nbytes)
        return HiddenAddress(base)

    def free(self, address: Any) -> None:
        del self.blocks[address.value >> 40]

    def write(self, address: Any, data: Any) -> None:
        view = memoryview(data).cast("B")
        self.largest = max(self.largest, len(view))
        at = address.value & (1 << 40) - 1
        self.blocks[address.value >> 40][at : at + len(view)] = view

    def read(self, address: Any, into: Any) -> None:
        view = memoryview(into).cast("B")
        at = address.value & (1 << 40) - 1
        view[:] = self.blocks[address.value >> 40][at : at + len(view)]


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    made = Shelf()
    register("shelf", lambda index: made)
    return made


KINDS = ("float32", "float16", "int64", "q8_0", "q4_K", "q5_K")


@pytest.mark.parametrize("suffix", fewer_in_browser(["gguf", "safetensors", "pt", "npz"], every=4))
def test_tensors_travel_to_a_device_in_pieces(tmp_path: Path, shelf: Shelf, suffix: str) -> None:
    from pyapp.engine import quant

    values = pyapp.from_numpy(np.random.default_rng(0).standard_normal((1500, 512)).astype(np.float32))
    kinds = KINDS if suffix != "npz" else KINDS[:3]
    tensors = {k: quant.quantize(values, k) if k.startswith("q") else values.to(k) for k in kinds}
    path = tmp_path / f"m.{suffix}"
    if suffix == "pt":
        pyapp.save(tensors, path)
    else:
        {"safetensors": write_safetensors, "gguf": write_gguf, "npz": write_npz}[suffix](path, tensors)
    with open_checkpoint(path) as file:
        for kind, wanted in tensors.items():
            shelf.largest = 0
            there = file.read(kind, device="shelf", finite=True)
            assert str(there.device) == "shelf" and there.dtype is wanted.dtype and there.shape == wanted.shape
            here, ours = there._storage.read(), wanted._storage.read()
            size = quant.packed_bytes(wanted.shape, wanted.dtype) if kind[0] == "q" else wanted.nbytes
            assert here[:size] == ours[:size]
            if suffix in ("safetensors", "gguf"):
                assert shelf.largest <= 1 << 20
        with pytest.raises(ValueError, match="there is no device"):
            file.read("float32", device="nowhere")
    if suffix == "pt":
        found = pyapp.load(path, map_location="shelf")
        assert all(str(tensor.device) == "shelf" for tensor in found.values())
        write_safetensors(tmp_path / "back.safetensors", found)
        pyapp.save(found, tmp_path / "back.pt")
        for back in (pyapp.load(tmp_path / "back.safetensors"), pyapp.load(tmp_path / "back.pt")):
            for kind, wanted in tensors.items():
                assert (quant.dequantize(back[kind]).numpy() == quant.dequantize(wanted).numpy()).all()


def test_damage_is_found_on_the_way(tmp_path: Path, shelf: Shelf) -> None:
    values = np.zeros((1500, 512), np.float32)
    values[1499, 5] = np.nan
    write_safetensors(tmp_path / "m.safetensors", {"w": values})
    with open_checkpoint(tmp_path / "m.safetensors") as file, pytest.raises(ModelError, match="element 767,493 is NaN"):
        file.read("w", finite=True, device="shelf")
