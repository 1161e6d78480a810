"""NumPy's and PyTorch's files: read as the libraries read them; hostile ones are refused and nothing of theirs runs."""

from __future__ import annotations

import io
import os
import pickle
import random
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pyapp import save, tensor
from pyapp.errors import FileFormatError
from pyapp.formats import inspect, open_checkpoint, open_source, write_npy, write_npz
from pyapp.formats.pytorch_objects import InspectedFile
from tests.together import fewer_in_browser

GOLDENS = [
    "script.pt", "torch_zip.pt", "torch_zip4.pt", "torch_legacy.pt", "numpy.npz", "numpy_packed.npz", "numpy.npy",
]  # fmt: skip


def zipped(data: bytes, storage: bytes = bytes(16), method: int = zipfile.ZIP_STORED, constants: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("m/data.pkl", data)
        if constants:
            archive.writestr("m/constants.pkl", constants)
        archive.writestr("m/data/0", storage)
    return out.getvalue()


def everything(data: Any) -> None:
    with open_checkpoint(data) as file:
        for name, info in file.tensors.items():
            assert file.read(name).numel() >= info.numel


@pytest.mark.parametrize("name", GOLDENS[:-1])
def test_content_is_what_the_libraries_saved(golden: Path, name: str) -> None:
    with (
        open_checkpoint(golden / f"{name.split('_')[0].split('.')[0]}.expected.safetensors") as expected,
        open_checkpoint(golden / name) as read,
    ):
        absent = {"a.uint16"} if "legacy" in name else set()
        assert set(read.tensors) == set(expected.tensors) - absent
        for key, info in read.tensors.items():
            assert (info.dtype, info.shape) == (expected.tensors[key].dtype, expected.tensors[key].shape), key
            assert bytes(read.read_bytes(key)) == bytes(expected.read_bytes(key)), key
            assert read.read(key).tolist() == expected.read(key).tolist(), key
        if name.startswith("torch"):
            assert read.metadata == {"epoch": "3", "note": "é"}
    assert inspect(golden / name)["totals"]["tensors"] == len(read.tensors)


def test_a_big_endian_fortran_array(golden: Path) -> None:
    with open_checkpoint(golden / "numpy.npy") as read:
        assert read.read("array").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_writes_numpys_bytes(tmp_path: Path) -> None:
    import numpy as np

    for array in (np.arange(6, dtype=np.int64).reshape(2, 3), np.float32(3), np.zeros((0, 2)), np.ones(3, bool)):
        ours, theirs = io.BytesIO(), io.BytesIO()
        write_npy(ours, array)
        np.save(theirs, array)
        assert ours.getvalue() == theirs.getvalue()
    for compressed in (False, True):
        write_npz(tmp_path / "a.npz", {"a": np.arange(4.0), "b/c": np.ones((2, 2), "f2")}, compressed=compressed)
        with np.load(tmp_path / "a.npz") as loaded:
            assert loaded["a"].tolist() == [0, 1, 2, 3] and loaded["b/c"].dtype == np.float16
        with open_checkpoint(tmp_path / "a.npz") as read:
            assert read.format == "npz" and read.read("b/c").tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="cannot be called"):
        write_npz(io.BytesIO(), {"../a": np.ones(1)})


def test_objects_and_strings_are_refused() -> None:
    import numpy as np

    single, several = io.BytesIO(), io.BytesIO()
    np.save(single, np.array([None, {}]), allow_pickle=True)
    with pytest.raises(FileFormatError, match="Python objects"):
        open_checkpoint(single.getvalue())
    np.savez(several, good=np.ones(2), bad=np.array([None]), text=np.array(["a"]))
    with open_checkpoint(several.getvalue()) as read:
        assert read.read("good").tolist() == [1, 1] and read.tensors["bad"].dtype == "object"
        for name in ("bad", "text"):
            with pytest.raises(FileFormatError, match="not numbers"):
                read.read(name)
    records = io.BytesIO()
    np.save(records, np.zeros(3, [("a", "f4"), ("b", "i4")]))
    with pytest.raises(FileFormatError, match="structured array.*Save each field as an array of its own"):
        open_checkpoint(records.getvalue())


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo ran > pyapp_was_here",)


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\0K\x04\x85K\x01\x85\x89NtR"
# A list that holds a pair of pairs of pairs …: 2^60 times the same list, which cannot be written out. It is memo 60.
DOUBLED = b"]q\x00" + b"".join(b"h" + bytes([k]) + b"h" + bytes([k]) + b"\x86q" + bytes([k + 1]) for k in range(60))
DEEP = b"]" + b"\x85" * 50_000
FRACTION = b"cbuiltins\ncomplex\nG?\xf0\0\0\0\0\0\0K\1\x86R"
SHAPE = b"\x8a\x06" + bytes(5) + b"\x7f"  # 2^47 - 2^40
EMPTY_ARRAY = b"cnumpy.core.numeric\n_frombuffer\n(C\0cnumpy\ndtype\n(X\2\0\0\0f4\x89\x88tR(K\0" + SHAPE * 2
TEXT = b"X\0\0\x10\0" + bytes(1 << 20)
COPIED = b"\x80\x02]q\0" + TEXT + b"q\x010" + b"h\0c_codecs\nencode\nh\1X\6\0\0\0latin1\x86Ra0" * 16_000
SWAPPED = (
    b"\x80\x02]q\0cnumpy.core.multiarray\n_reconstruct\nq\1(cnumpy\nndarray\nK\0\x85C\1btq\2(K\1J\0\0\4\0\x85"
    b"cnumpy\ndtype\n(X\2\0\0\0f4\x89\x88tR(K\3X\1\0\0\0>tb\x89c_codecs\nencode\n"
    + TEXT + b"X\6\0\0\0latin1\x86Rtq\x0300" + b"h\0h\1h\2Rh\3ba0" * 16_000
)  # fmt: skip
HOSTILE = [
    ("os.system", pickle.dumps({"w": Evil()}, 2), "system, which is neither"),
    ("os.system in protocol 4", pickle.dumps({"w": Evil()}, 4), "system, which is neither"),
    ("eval", b"\x80\x02c__builtin__\neval\nX\x01\0\0\x001\x85R.", "__builtin__.eval"),
    ("protocol 0", b"\x80\x00cos\nsystem\n.", "protocol 0"),
    ("inst", b"\x80\x02(ios\nsystem\n.", "opcode b'i'"),
    ("new object", b"\x80\x02ccollections\nOrderedDict\n)\x81.", "not a class"),
    ("program's class", b"\x80\x02c__torch__.m\nM\n)\x81.", "__torch__.m.M, which is neither"),
    ("huge integer", b"\x80\x02\x8b\xff\xff\xff\x7f" + bytes(50), "integer of 2,147,483,647 bytes"),
    ("huge string", b"\x80\x02X\xff\xff\xff\xff" + bytes(50), "string of 4,294,967,295 bytes"),
    ("never stored", b"\x80\x02h\x05.", "recalls the value 5"),
    ("no value", b"\x80\x02R.", "takes a value where there is none"),
    ("no mark", b"\x80\x02t.", "mark where there is none"),
    ("list as a key", b"\x80\x02}]K\x01s.", "key of the type list"),
    ("tuple as a key", b"\x80\x02})K\x01s.", "key of the type tuple"),
    ("calls a number", b"\x80\x02K\x01)R.", "not a function"),
    ("holds itself", b"\x80\x02]q\0h\0a.", "nested too deeply"),
    ("name without an end", b"\x80\x02" + DOUBLED + b"h\x3cX\1\0\0\0x\x93.", "whose name is not a text"),
    ("deep name", b"\x80\x02" + DEEP + b"X\1\0\0\0x\x93.", "nested too deeply"),
    ("deep lists", b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".", "nested too deeply"),
    ("deep and damaged", b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b"?", "uses the opcode"),
    ("device without an end", b"\x80\x02" + DOUBLED + b"ctorch\ndevice\n(h\x3ctR.", "calls device with arguments"),
    ("pair of nothing", b"\x80\x02ccollections\nOrderedDict\n])a\x85R.", "calls OrderedDict with arguments"),
    ("equal hashes", b"\x80\x02cbuiltins\nset\n]\x8a\x09" + bytes(8) + b"\x01a\x85R.", "calls set with arguments"),
    ("hashes of choice", b"\x80\x02cbuiltins\nset\n]" + FRACTION + b"a\x85R.", "calls set with arguments"),
    ("empty array of no size", b"\x80\x02" + EMPTY_ARRAY + b"tX\1\0\0\0CtR.", "calls _frombuffer with arguments"),
    ("marks", b"\x80\x02" + b"(" * 1001, "nested too deeply"),
    ("doubling", b"\x80\x02]q\x000" + b"]h\0ah\0aq\x000" * 60 + b"h\0.", "nested too deeply"),
    ("deep", b"\x80\x02" + b"]" * 1000 + b"a" * 999 + b".", "nested too deeply"),
    ("past the end", b"\x80\x02" + TENSOR.replace(b"K\0K\x04", b"K\x01K\x04") + b".", "do not fit"),
    ("huge shape", b"\x80\x02" + TENSOR.replace(b"K\x04\x85K\x01", b"J\xff\xff\xff\x7f\x85K\0") + b".", "do not fit"),
    ("negative", b"\x80\x02" + TENSOR.replace(b"K\0K\x04", b"J\xff\xff\xff\xffK\x04") + b".", "do not fit"),
    ("a text that is copied often", COPIED, "gives the same values to its calls too often"),
    ("an array that is swapped often", SWAPPED, "gives the same values to its calls too often"),
    ("no storage", b"\x80\x02" + TENSOR.replace(b"\x000X", b"\x009X") + b".", "'9' needs 16 bytes"),
    ("no tensor", b"\x80\x02}.", "no tensor"),
    ("no end", b"\x80\x02}", "truncated: 1 bytes are needed at byte 3. The file is damaged: download or copy it again"),
]


@pytest.mark.parametrize("data,message", [pytest.param(d, m, id=n) for n, d, m in HOSTILE])
def test_hostile_pickles(tmp_path: Path, monkeypatch: Any, peak_memory: Any, data: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyapp.formats.pytorch.VISITS_LIMIT", 1 << 16)  # seconds less; the real limit ends likewise
    magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."
    system = b"\x80\x02}X\x0d\0\0\0little_endian\x88s."
    with peak_memory(64 << 20), pytest.raises(FileFormatError) as caught:
        open_checkpoint(zipped(data))
    assert message in str(caught.value) and len(str(caught.value)) < 1000
    with pytest.raises(FileFormatError):
        open_checkpoint(magic + system + data)
    with pytest.raises(FileFormatError, match=re.escape(message)):
        inspect(zipped(data))
    assert not list(tmp_path.iterdir())
    with open_checkpoint(zipped(b"\x80\x02" + TENSOR + b".", struct.pack("<4f", 1, 2, 3, 4))) as read:
        assert read.read("tensor").tolist() == [1, 2, 3, 4]


def test_many_numbers_beside_the_weights(monkeypatch: Any) -> None:
    """A checkpoint of a training may have its losses; values that occur again and again are still too many."""
    monkeypatch.setattr("pyapp.formats.pytorch.VISITS_LIMIT", 100)
    monkeypatch.setattr("pyapp.formats.pytorch.VALUES_LIMIT", 1000)
    for count, many in ((990, False), (1001, True)):
        file = io.BytesIO()
        save({"w": tensor([1.0]), "losses": [0.5] * count}, file)
        if not many:
            with open_checkpoint(file.getvalue()) as opened:
                assert list(opened.tensors) == ["w"]
            continue
        with pytest.raises(FileFormatError, match="its containers hold more than 1,000 values"):
            open_checkpoint(file.getvalue())


def test_what_whole_models_have(golden: Path) -> None:
    """Nothing of their classes is imported; torch's state_dict has these names in this order."""
    names = ["0.weight", "0.bias", *(f"1.0.{name}" for name in "weight bias running_mean running_var".split())]
    names.append("1.0.num_batches_tracked")
    classes = ["batchnorm.BatchNorm1d", "container.Sequential", "linear.Linear"]
    with pytest.raises(FileFormatError, match="Linear, which is neither.*`pyapp inspect` shows what it has"):
        open_checkpoint(golden / "model_legacy.pt")
    found = inspect(golden / "model_legacy.pt")
    assert [entry["name"] for entry in found["tensors"]] == ["weight", "bias"]
    assert found["metadata"]["class"] == "torch.nn.modules.linear.Linear" and len(found["classes"]) == 1
    found = inspect(golden / "model_zip.pt")
    assert [entry["name"] for entry in found["tensors"]] == names
    classes = ["argparse.Namespace", "pathlib.PurePosixPath", *(f"torch.nn.modules.{name}" for name in classes)]
    assert found["classes"] == classes and found["metadata"] == {"epoch": "3"}
    with InspectedFile(open_source(golden / "model_zip.pt")) as read:
        assert read.read("0.weight").tolist() == [[0, 1, 2], [3, 4, 5]]


HOSTILE_PROGRAMS = [
    ("os.system", pickle.dumps({"w": Evil()}, 2), "system, which is neither"),
    ("arguments", b"\x80\x02c__torch__.m\nM\nK\x01\x85\x81.", "not a class"),
    ("a list as its state", b"\x80\x02c__torch__.m\nM\n)\x81]b.", "not a dict of names"),
    ("holds itself", b"\x80\x02c__torch__.m\nM\n)\x81q\0}X\x01\0\0\0ah\0sb.", "nested too deeply"),
    ("a list of itself", b"\x80\x02]q\0(" + b"h\0" * 50_000 + b"e.", "hold themselves"),
    (
        "two of a name", b"\x80\x02}(X\x03\0\0\0a.b" + TENSOR + b"X\x01\0\0\0a}X\x01\0\0\0b" + TENSOR + b"su.",
        "two tensors",
    ),
]  # fmt: skip


@pytest.mark.parametrize("data,message", [pytest.param(d, m, id=n) for n, d, m in HOSTILE_PROGRAMS])
def test_hostile_programs(peak_memory: Any, data: bytes, message: str) -> None:
    """TorchScript archives: objects of their classes are only their attributes."""
    with peak_memory(64 << 20), pytest.raises(FileFormatError) as caught:
        open_checkpoint(zipped(data, constants=b"\x80\x02)."))
    assert message in str(caught.value) and len(str(caught.value)) < 1000


def test_a_frozen_program_has_no_weights(golden: Path) -> None:
    with pytest.raises(FileFormatError, match=r"constants of its code. Save it before torch\.jit\.freeze"):
        open_checkpoint(golden / "frozen.pt")


def test_zip_tricks(golden: Path) -> None:
    with pytest.raises(FileFormatError, match="too much for its file"):
        open_checkpoint(zipped(b"\x80\x02" + b"]" * 290_000 + b".", method=zipfile.ZIP_DEFLATED))
    bomb = bytearray(zipped(b"\x80\x02" + TENSOR + b".", bytes(1 << 16), zipfile.ZIP_DEFLATED))
    at = bomb.rfind(b"PK\1\2")
    bomb[at + 24 : at + 28] = struct.pack("<I", 1 << 31)
    with pytest.raises(FileFormatError, match="would inflate"):
        open_checkpoint(bytes(bomb))
    overlapping = bytearray(zipped(b"\x80\x02" + TENSOR + b"."))
    at = overlapping.rfind(b"PK\1\2")
    overlapping[at + 42 : at + 46] = bytes(4)
    with pytest.raises(FileFormatError, match="overlaps"):
        open_checkpoint(bytes(overlapping))
    for name in ("../data.pkl", "/data.pkl", "c:/data.pkl"):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, b"")
        with pytest.raises(FileFormatError, match="not a path inside a folder"):
            open_checkpoint(out.getvalue())
    damaged = bytearray((golden / "numpy.npz").read_bytes())
    damaged[damaged.index(b"\x93NUMPY") + 130] ^= 1
    with pytest.raises(FileFormatError, match="checksum"):
        everything(bytes(damaged))


@pytest.mark.native_only
def test_reads_without_numpy(golden: Path) -> None:
    code = """
import sys
from pyapp.formats import open_checkpoint
for path in sys.argv[1:]:
    with open_checkpoint(path) as file:
        for name in file.tensors:
            file.read(name, finite=False)
assert "numpy" not in sys.modules and "pickle" not in sys.modules, "imported"
"""
    import pyapp

    subprocess.run(
        [sys.executable, "-c", code, *(str(golden / name) for name in GOLDENS)],
        check=True,
        cwd=Path(pyapp.__file__).parents[1],
    )


def test_a_llama2c_width_that_looks_like_a_pickle() -> None:
    for dim in (0x280, 0x480):  # their first bytes are those of protocols 2 and 4
        with pytest.raises(FileFormatError) as caught:
            open_checkpoint(struct.pack("<7i", dim, 64, 1, 8, 8, 32, 16) + bytes(40))
        assert "pickle" not in str(caught.value) and "truncated" in str(caught.value)
    with pytest.raises(FileFormatError, match="a Python pickle, not PyTorch's"):
        open_checkpoint(pickle.dumps({"a": 1}, 4))


@pytest.mark.parametrize("name", GOLDENS)
def test_random_damage(golden: Path, name: str) -> None:
    original = (golden / name).read_bytes()
    chance = random.Random(name)
    refused = 0
    tracemalloc.start()
    turns = fewer_in_browser(range(150), every=2)
    for turn in turns:
        data = bytearray(original)
        if turn % 3 == 0:
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.randint(1, 6) if turn % 3 else 0):
            at = chance.randrange(len(data))
            data[at : at + chance.choice((1, 4))] = chance.randbytes(chance.choice((1, 4)))
        try:
            everything(bytes(data))
        except FileFormatError as error:
            assert error.where and error.hint and len(str(error)) < 1000
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > len(turns) // 4 and peak < 64 << 20
