"""Types that pyapp has no dtype for, read as the values that torch makes of them; complex numbers; arrays of NumPy
beside tensors.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import map_npy, open_checkpoint, write_npy, write_npz, write_safetensors

PICKLES = ["arrays_zip.pt", "arrays_zip5.pt", "arrays_legacy.pt"]


def test_values_are_those_of_torch(golden: Path) -> None:
    with (
        open_checkpoint(golden / "foreign.safetensors") as read,
        open_checkpoint(golden / "foreign.expected.safetensors") as expected,
    ):
        for name in expected.tensors:
            found, wanted = read.read(name), expected.read(name)
            assert read.tensors[name].dtype == name and found.dtype is wanted.dtype
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
        assert read.read("complex64").tolist() == [[0, 1 - 1j, 2 - 2j], [3 - 3j, 4 - 4j, 5 - 5j]]


def test_four_bits_are_read_from_the_lower_half(golden: Path) -> None:
    with open_checkpoint(golden / "foreign.safetensors") as read:
        found = read.read("float4_e2m1fn")
        assert found.shape == read.tensors["float4_e2m1fn"].shape == (16, 32)
        sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
        values = [*sizes, *(-value for value in sizes)]
        assert found[1, ::2].tolist() == values and found[3, 1::2].tolist() == [values[3]] * 16


def test_wide_unsigned_integers(golden: Path, tmp_path: Path) -> None:
    with open_checkpoint(golden / "foreign.safetensors") as read:
        tensors = {name: read.read(name) for name in ("uint16", "uint64")}
    assert tensors["uint64"].tolist() == [[0, 1, 2], [3, 4, 2**64 - 1]]
    assert tensors["uint16"].dtype is pyapp.uint16 and tensors["uint16"][1, 2].item() == 65535
    write_safetensors(tmp_path / "w.safetensors", tensors)
    write_npz(tmp_path / "w.npz", tensors)
    for file in ("w.safetensors", "w.npz"):
        with open_checkpoint(tmp_path / file) as read:
            for name, tensor in tensors.items():
                assert read.tensors[name].dtype == name and read.read(name).tolist() == tensor.tolist()
    assert np.load(tmp_path / "w.npz")["uint64"].dtype == "uint64"
    write_npy(tmp_path / "w.npy", tensors["uint16"].T)
    assert map_npy(tmp_path / "w.npy").tolist() == tensors["uint16"].T.tolist()


def test_complex_arrays(tmp_path: Path) -> None:
    numbers = np.arange(6).reshape(2, 3) * (1 - 2j)
    for dtype, kind in (("complex64", "complex64"), ("complex128", "complex128"), (">c16", "complex128")):
        for order in (np.ascontiguousarray, np.asfortranarray):
            np.save(tmp_path / "c.npy", order(numbers.astype(dtype)))
            with open_checkpoint(tmp_path / "c.npy") as read:
                found = read.read("array", finite=True)
            assert found.dtype.name == kind and found.tolist() == numbers.tolist()
            write_npy(tmp_path / "d.npy", found)
            np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), numbers.astype(kind))
            assert map_npy(tmp_path / "d.npy").tolist() == numbers.tolist()
    write_safetensors(tmp_path / "c.safetensors", {"c": pyapp.tensor(numbers).to(pyapp.complex64).mT})
    with open_checkpoint(tmp_path / "c.safetensors") as read:
        assert read.tensors["c"].dtype == "complex64" and read.read("c").tolist() == numbers.T.tolist()


def test_the_first_complex_number_that_is_not_finite_is_told(tmp_path: Path) -> None:
    for kind in ("complex64", "complex128"):
        np.save(tmp_path / "c.npy", np.array([1, 2j, complex(3, np.inf)], kind))
        with open_checkpoint(tmp_path / "c.npy") as read, pytest.raises(ModelError, match="element 2 is infinite"):
            read.read("array", finite=True)


def test_torchs_files_of_complex_numbers(golden: Path, tmp_path: Path) -> None:
    """One is stored as it is, one to be conjugated, and one is the negated imaginary part of that."""
    expected = {"plain": [1 + 2j, 3 - 1j], "conjugated": [1 - 2j, 3 + 1j], "negated": [-2, 1], "wide": [[1j]]}
    found = pyapp.load(golden / "complex.pt")
    assert {name: x.tolist() for name, x in found.items()} == expected and found["plain"].requires_grad
    with open_checkpoint(golden / "complex.pt") as read:
        assert {name: read.read(name).tolist() for name in read.tensors} == expected
    pyapp.save(found, tmp_path / "c.pt")
    again = pyapp.load(tmp_path / "c.pt")
    assert {name: x.tolist() for name, x in again.items()} == expected and again["wide"].dtype is pyapp.complex128


def test_what_has_no_order_of_bits_is_bytes() -> None:
    header = b'{"six":{"dtype":"F6_E2M3","shape":[8],"data_offsets":[0,6]}}'
    data = len(header).to_bytes(8, "little") + header + bytes(range(6))
    with open_checkpoint(data) as read:
        assert read.tensors["six"].dtype == "float6_e2m3fn" and read.tensors["six"].shape == (8,)
        assert read.read("six").tolist() == list(range(6)) and read.read("six").dtype is pyapp.uint8


def test_what_is_not_finite_is_told(golden: Path) -> None:
    with open_checkpoint(golden / "foreign.safetensors") as read:
        read.read("float4_e2m1fn", finite=True)
        with pytest.raises(ModelError, match="element 255 is NaN"):
            read.read("float8_e8m0fnu", finite=True)


@pytest.mark.parametrize("name", PICKLES)
def test_arrays_beside_tensors(golden: Path, name: str) -> None:
    with open_checkpoint(golden / name) as read:
        assert sorted(read.tensors) == sorted(
            f"net.{key}" for key in ("w", "a", "fortran", "big", "bools", "pairs", "zero", "scalar")
        )
        a = np.arange(6, dtype="float32").reshape(2, 3)
        for key in ("a", "fortran", "big"):
            np.testing.assert_array_equal(read.read(f"net.{key}").numpy(), a)
        assert read.read("net.big").dtype is pyapp.float64 and read.tensors["net.fortran"].nbytes == 24
        assert read.read("net.bools").tolist() == (a > 2).tolist() and read.read("net.w").tolist() == [1, 1]
        np.testing.assert_array_equal(read.read("net.pairs").numpy(), a + 2j * a)
        assert read.read("net.zero").shape == (0, 3) and read.read("net.scalar").item() == 3
        assert read.metadata == {"loss": "0.5", "note": "é"}


def _pickled(state: bytes) -> bytes:
    """A zip archive with an array that gets a state."""
    array = b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x04" + array + state + b"b.")
    return out.getvalue()


FLOAT = b"cnumpy\ndtype\nU\x02f4\x89\x88\x87R"
HOSTILE: list[tuple[str, Any]] = [
    ("no state", b"N"),
    ("short state", b"(K\x01t"),
    ("no dtype", b"(K\x01K\x02\x85N\x89C\x08aaaabbbbt"),
    ("too few bytes", b"(K\x01K\x03\x85" + FLOAT + b"\x89C\x08aaaabbbbt"),
    ("too many bytes", b"(K\x01K\x01\x85" + FLOAT + b"\x89C\x08aaaabbbbt"),
    ("negative", b"(K\x01J\xff\xff\xff\xff\x85" + FLOAT + b"\x89C\x08aaaabbbbt"),
    ("huge", b"(K\x01\x8a\x06\xff\xff\xff\xff\xff\x7f\x85" + FLOAT + b"\x89C\x08aaaabbbbt"),
    ("no bytes", b"(K\x01K\x02\x85" + FLOAT + b"\x89Nt"),
    ("no shape", b"(K\x01N" + FLOAT + b"\x89C\x08aaaabbbbt"),
    ("itself", b"(K\x01K\x02\x85cnumpy\nndarray\n\x89C\x08aaaabbbbt"),
]


@pytest.mark.parametrize(("what", "state"), HOSTILE, ids=[what for what, _ in HOSTILE])
def test_hostile_arrays(what: str, state: bytes) -> None:
    with pytest.raises(FileFormatError, match="sets a state that does not fit|no tensor in the file"):
        open_checkpoint(_pickled(state))


def test_a_fitting_state() -> None:
    with open_checkpoint(_pickled(b"(K\x01K\x02\x85" + FLOAT + b"\x89C\x08\0\0\x80\x3f\0\0\0\x40t")) as read:
        assert read.read("tensor").tolist() == [1, 2]


def test_damaged_arrays_raise_only_clear_errors(golden: Path) -> None:
    random = np.random.RandomState(0)
    for name in PICKLES:
        data = (golden / name).read_bytes()
        for _ in range(150):
            damaged = bytearray(data)
            for _ in range(random.randint(1, 4)):
                damaged[random.randint(len(data))] ^= 1 << random.randint(8)
            if random.rand() < 0.3:
                damaged = damaged[: random.randint(len(data))]
            try:
                with open_checkpoint(bytes(damaged)) as read:
                    for key in read.tensors:
                        read.read(key)
            except (FileFormatError, ModelError):
                continue
