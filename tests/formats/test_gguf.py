"""GGUF files: read as the `gguf` package reads, written byte for byte as it writes, broken ones refused."""

from __future__ import annotations

import importlib.util
import io
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine import quant
from pyapp.engine.blocks.layout import FILE_TYPES, READ_AS, READABLE
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import BytesSource, GgmlBlocks, GgufFile, inspect, open_checkpoint, quantize_blocks, write_gguf
from pyapp.formats.ggml_file import TENSOR_TYPES

# The folder of tests is not a package, so that the same tests run inside Pyodide: the builder is loaded by its path.
_spec = importlib.util.spec_from_file_location("gguf_builder", Path(__file__).with_name("gguf_builder.py"))
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
Builder = _module.Builder

np = pytest.importorskip("numpy")


def opened(data: bytes) -> GgufFile:
    found = open_checkpoint(data)
    assert isinstance(found, GgufFile)
    return found


def refused(data: bytes) -> str:
    with pytest.raises(FileFormatError) as caught:
        open_checkpoint(data)
    assert caught.value.where and caught.value.hint
    return str(caught.value)


# -- reading


def test_metadata_of_every_type(golden: Path) -> None:
    with opened((golden / "types.gguf").read_bytes()) as file:
        expected = {
            "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4_000_000_000,
            "int32": -2_000_000_000, "float32": 1.5, "uint64": 2**63 + 1, "int64": -(2**62), "float64": 1e300,
            "bool": True, "string": "na\u00efve \u65e5\u672c",
        }  # fmt: skip
        for kind, value in expected.items():
            assert file.values[f"test.{kind}"] == value and type(file.values[f"test.{kind}"]) is type(value)
            assert file.types[f"test.{kind}"] == kind
        assert file.values["test.strings"] == ["a", "", "\u2581the"]
        assert file.values["test.floats"] == [0.5, -2.0] and file.types["test.floats"] == "array of float32"
        assert file.values["test.ints"] == [1, -2, 3] and file.values["test.bools"] == [True, False]
        assert file.format == "GGUF v3" and file.alignment == 32
        assert file.metadata["test.bool"] == "true" and file.metadata["test.ints"] == "[1, -2, 3]"
        assert file.config["model_type"] == "llama" and file.config["block_count"] == 2
        assert file.config["attention.layer_norm_rms_epsilon"] == pytest.approx(1e-5)


def test_dense_tensors(golden: Path) -> None:
    with open_checkpoint(golden / "types.gguf") as file:
        for name in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
            tensor = file.read(f"dense.{name}")
            assert tensor.dtype.name == name and tensor.shape == (2, 3)
            np.testing.assert_array_equal(tensor.numpy(), np.arange(6).reshape(2, 3).astype(name))
        wide = (np.arange(0x3F80, 0x3F86, dtype=np.uint32) << 16).view(np.float32).reshape(2, 3)
        np.testing.assert_array_equal(file.read("dense.bfloat16").numpy(), wide)
        assert file.tensors["cube"].shape == (2, 3, 4)
        np.testing.assert_array_equal(file.read("cube").numpy(), np.arange(24).reshape(2, 3, 4))


def test_matrices_stay_in_their_blocks(golden: Path) -> None:
    arrays = np.load(golden / "ggml_blocks.npz")
    with open_checkpoint(golden / "types.gguf") as file:
        for name, info in file.tensors.items():
            if not name.startswith("blocks."):
                continue
            tensor = file.read(name)
            assert tensor.dtype.name == READ_AS.get(info.dtype, info.dtype) and tensor.shape == info.shape
            found, wanted = quant.dequantize(tensor).numpy(), arrays[info.dtype]
            if info.dtype in FILE_TYPES:
                found, wanted = found.reshape(-1, 32), wanted.reshape(-1, 32)
                ordinary = (np.abs(wanted) < 1e3).all(axis=1)  # some blocks have very large scales
                assert ordinary.sum() >= len(wanted) // 4
                found, wanted = found[ordinary], wanted[ordinary]
                assert (np.abs(found - wanted) <= 0.005 * np.abs(wanted).max(axis=1, keepdims=True) + 1e-4).all()
            else:
                np.testing.assert_array_equal(found, wanted)


def test_q8_0_that_is_no_matrix_becomes_float32() -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32)
    file = opened(written({"experts": quantize_blocks(values, "q8_0"), "row": quantize_blocks(values[0, 0], "q8_0")}))
    assert file.read("experts").dtype.name == "float32" and file.read("experts").shape == (2, 3, 64)
    assert np.abs(file.read("experts").numpy() - values).max() < 0.02
    np.testing.assert_array_equal(file.read("row").numpy(), file.read("experts").numpy()[0, 0])


def test_a_tensor_larger_than_a_piece() -> None:
    values = np.random.default_rng(0).standard_normal((4, 16, 65536)).astype(np.float32)  # 2.25 MiB of q4_0
    file = opened(written({"w": quantize_blocks(values, "q4_0")}))
    found = file.read("w").numpy()
    np.testing.assert_array_equal(
        found[-1], opened(written({"w": quantize_blocks(values[-1:], "q4_0")})).read("w").numpy()[0]
    )
    assert np.abs(found - values).max() < 0.6


@pytest.mark.native_only
def test_a_packed_matrix_needs_no_numpy(golden: Path) -> None:
    code = (
        "import sys\nfrom pyapp.formats import open_checkpoint\n"
        f"file = open_checkpoint({str(golden / 'types.gguf')!r})\n"
        "print(file.read('blocks.q8_0').dtype, file.read('dense.float32').dtype, 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["pyapp.q8_0", "pyapp.float32", "False"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version(version: int) -> None:
    b = Builder(version)
    nested = b.array(9, 2, b.array(5, 2, struct.pack("<2i", 1, -1)) + b.array(5, 0, b""))
    values = [
        b.value("general.architecture", 8, b.string("llama")),
        b.value("llama.block_count", 4, struct.pack("<I", 7)),
        b.value("nested", 9, nested),
        b.value("bad text", 8, b.string(b"\xff\xfe")),
    ]
    file = opened(b.file([b.entry("w", (2, 2))], values, struct.pack("<4f", 1, 2, 3, 4)))
    assert file.format == f"GGUF v{version}" and file.config == {"model_type": "llama", "block_count": 7}
    assert file.values["nested"] == [[1, -1], []] and file.types["nested"] == "array of array of int32"
    assert file.values["bad text"].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert file.metadata["bad text"] == "??"
    assert file.read("w").tolist() == [[1, 2], [3, 4]]


def test_an_unknown_type_spoils_only_its_own_tensor() -> None:
    b = Builder()
    entries = [b.entry("future", (3, 7), 99, 32), b.entry("a", (2,), 0, 0), b.entry("iq", (256,), 16, 96)]
    file = opened(b.file([*entries, b.entry("b", (1,), 0, 192)], (), bytes(range(196))))
    assert (file.tensors["future"].dtype, file.tensors["future"].shape) == ("ggml_type_99", (3, 7))
    assert bytes(file.read_bytes("future")) == bytes(range(32, 96))
    assert (file.tensors["iq"].dtype, file.tensors["iq"].nbytes) == ("iq2_xxs", 66)
    assert file.read("a").shape == (2,) and file.read("b").shape == (1,)
    assert file.read("iq").dtype.name == "float32"
    with pytest.raises(FileFormatError, match="'future' is ggml_type_99, which pyapp cannot read"):
        file.read("future")
    with pytest.raises(KeyError, match="has no tensor 'c'"):
        file.read("c")


def test_zero_sizes_and_scalars() -> None:
    b = Builder()
    entries = [b.entry("empty", (0, 32), 8, 0), b.entry("none", (3, 0), 2, 0), b.entry("scalar", (), 0, 0)]
    file = opened(b.file(entries, (), struct.pack("<f", 2.5)))
    assert file.read("empty").shape == (0, 32) and file.read("none").shape == (3, 0)
    assert file.read("scalar").item() == 2.5


def test_only_what_is_asked_for_is_read() -> None:
    values = np.zeros((512, 4096), np.float32)
    data = written({"w": values, "q": quantize_blocks(values[:1], "q4_0")}, {"general.name": "n"})
    ranges: list[tuple[int, int]] = []

    class Watched(BytesSource):
        def read(self, offset: int, length: int) -> memoryview:
            ranges.append((offset, length))
            return super().read(offset, length)

    file = open_checkpoint(Watched(data))
    assert sum(length for _, length in ranges) <= 1 << 17
    ranges.clear()
    file.read("q")
    assert ranges == [(len(data) - 2304, 2304)]


def test_not_finite_weights() -> None:
    values = np.ones((2, 32), np.float32)
    values[1, 3] = np.nan
    blocks = bytearray(quantize_blocks(np.ones((2, 64), np.float32), "q8_0").data)
    blocks[34 * 3 : 34 * 3 + 2] = b"\x00\x7c"
    legacy = bytearray(quantize_blocks(np.ones((1, 32), np.float32), "q4_0").data)
    legacy[:2] = b"\x00\xfc"
    q8_0, q4_0 = GgmlBlocks("q8_0", (2, 64), bytes(blocks)), GgmlBlocks("q4_0", (1, 32), bytes(legacy))
    file = opened(written({"w": values, "q8": q8_0, "q4": q4_0}))
    for name, message in (("w", "element 35 is NaN"), ("q8", r"\(scales\)' .* 3 is infinite"), ("q4", "0 is infinite")):
        file.read(name)
        with pytest.raises(ModelError, match=message):
            file.read(name, finite=True)


def test_inspect_is_json(golden: Path) -> None:
    found = inspect(golden / "types.gguf")
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["format"] == "GGUF v3" and found["totals"]["tensors"] == 32
    assert {"name": "blocks.q6_K", "dtype": "q6_K", "shape": [2, 1024], "bytes": 1680} in found["tensors"]


def test_numbers_that_json_lacks_stay_out_of_the_configuration() -> None:
    b = Builder()
    values = [b.value("general.architecture", 8, b.string("x")), b.value("x.scale", 6, struct.pack("<f", float("nan")))]
    data = b.file((), values)
    assert opened(data).config == {"model_type": "x"}
    assert json.dumps(inspect(data), allow_nan=False)


@pytest.mark.parametrize(
    "name,architecture,tokens",
    [("bert-bge", "bert", 30522), ("gpt-2", "gpt2", 50257), ("llama-spm", "llama", 32000)],
)
def test_public_vocabularies(real_data: Callable[[str], Path], name: str, architecture: str, tokens: int) -> None:
    path = real_data(f"ggml-vocab-{name}.gguf")
    with open_checkpoint(path) as file:
        assert isinstance(file, GgufFile) and file.config["model_type"] == architecture
        pieces = file.values["tokenizer.ggml.tokens"]
        assert len(pieces) == len(file.values["tokenizer.ggml.token_type"]) == tokens and not file.tensors
        assert file.metadata["tokenizer.ggml.tokens"] == f"{tokens:,} elements"
        rewritten = written({}, file.values, file.types)
    original = path.read_bytes()  # without tensors it ends where their padded data would begin
    assert rewritten[: len(original)] == original and not any(rewritten[len(original) :])


@pytest.mark.native_only
def test_the_package_reads_the_same(real_data: Callable[[str], Path]) -> None:
    gguf = pytest.importorskip("gguf")
    path = real_data("ggml-vocab-bert-bge.gguf")
    reader = gguf.GGUFReader(path)
    with open_checkpoint(path) as file:
        assert isinstance(file, GgufFile)
        expected = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        assert file.values == expected


# -- writing


def written(tensors: Any, metadata: Any = None, types: Any = None) -> bytes:
    target = io.BytesIO()
    write_gguf(target, tensors, metadata, types)
    return target.getvalue()


def test_a_file_of_the_package_is_written_again_byte_for_byte(golden: Path) -> None:
    with opened((golden / "types.gguf").read_bytes()) as file:
        tensors = {}
        for name, info in file.tensors.items():
            raw = GgmlBlocks(info.dtype, info.shape, file.read_bytes(name)) if info.dtype in READABLE else None
            tensors[name] = raw or file.read(name)
        found = written(tensors, file.values, file.types)
    assert found == (golden / "types.gguf").read_bytes()


def test_natural_types_and_alignment(tmp_path: Path) -> None:
    metadata = {
        "general.alignment": 64, "a": 1, "b": -1, "c": 2**32, "d": -(2**40), "e": 0.5, "f": "text", "g": False,
        "h": [1, 2], "i": [1, -2], "j": [], "k": ["x"], "l": [[], [1.5]], "m": [True],
        "n": [[1], [-1]], "o": [[], []],
    }  # fmt: skip
    path = tmp_path / "m.gguf"
    write_gguf(path, {"v": np.arange(3, dtype=np.float32), "w": np.ones((1, 2), np.int8)}, metadata)
    with open_checkpoint(path) as file:
        assert isinstance(file, GgufFile)
        assert file.values == metadata and file.alignment == 64
        kinds = "uint32 uint32 int32 uint64 int64 float32 string bool".split()
        assert [file.types[key] for key in ("general.alignment", *"abcdefg")] == kinds
        assert [file.types[key] for key in "hijk"] == [
            f"array of {kind}" for kind in "uint32 int32 uint32 string".split()
        ]
        assert [file.types[key] for key in "lno"] == [
            f"array of array of {kind}" for kind in "float32 int32 uint32".split()
        ]
        assert file.read("v").tolist() == [0, 1, 2] and file.read("w").tolist() == [[1, 1]]
    assert path.stat().st_size % 64 == 0


def test_what_cannot_be_written() -> None:
    for tensors, metadata, types, error, message in [
        ({"w": np.zeros(2, np.uint16)}, None, None, ValueError, "'w' is uint16, which GGUF cannot store"),
        ({"w": np.zeros((1,) * 5)}, None, None, ValueError, "at most 4"),
        ({}, {"general.alignment": 3}, None, ValueError, "power of two"),
        ({}, {"a": 300}, {"a": "uint8"}, ValueError, "'a' does not fit uint8"),
        ({}, {"a": 1e300}, {"a": "float32"}, ValueError, "'a' does not fit float32"),
        ({}, {"a": 1}, {"a": "u8"}, ValueError, "unknown type 'u8'"),
        ({}, {"a": 1}, {"b": "uint8"}, ValueError, "'b', which is not among the metadata"),
        ({}, {"a": [1, "x"]}, None, TypeError, "mixes string and uint32"),
        ({}, {"a": None}, None, TypeError, "'a' is a NoneType"),
        ({}, {"a": [[[[[1]]]]]}, None, ValueError, "nested more than 4"),
        ({}, {"a" * 70_000: 1}, None, ValueError, "70,000 bytes, the limit is 65,536"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            written(tensors, metadata, types)


# -- refusing


def test_other_byte_orders_and_versions() -> None:
    assert "a big-endian GGUF file" in refused(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    for version in (0, 4, 70_000):
        assert f"version {version:,} of GGUF" in refused(b"GGUF" + struct.pack("<IQQ", version, 0, 0))


def test_limits_of_the_header() -> None:
    b = Builder()
    huge = 1 << 62
    for data, message in [
        (b.file(counts=(huge, 0)), "4,611,686,018,427,387,904 tensors, expected at most"),
        (b.file(counts=(0, huge)), "metadata, expected at most 65,536"),
        (b.file(counts=(1000, 0)), "truncated in its header"),
        (b.file((), [b.size(huge)]), "a key of the metadata has 4,611,686,018,427,387,904 bytes, expected at most"),
        (b.file((), [b.value("k", 8, b.size(huge))]), "the value of 'k' has 4,611,686,018,427,387,904 bytes"),
        (b.file((), [b.value("k", 9, b.array(0, huge, b""))]), "more than 16,777,216 elements"),
        (b.file((), [b.value("k", 9, b.array(8, 1 << 24, b""))]), "bytes of the value of 'k' are missing"),
        (b.file((), [b.value("k", 9, b.array(12, 1 << 24, b""))]), "bytes of the value of 'k' are missing"),
        (b.file((), [b.value("k", 9, b.array(9, 1, b"") * 9)]), "nested more than 4 arrays deep"),
        (b.file((), [b.value("k", 13, b"")]), "the unknown type 13"),
        (b.file((), [b.value("k", 9, b.array(13, 1, b""))]), "elements of the unknown type 13"),
        (b.file((), [b.value("k", 7, b"\2")]), "expected 0 or 1 for a bool"),
        (b.file((), [b.value("k", 9, b.array(7, 3, b"\0\2\1"))]), "neither 0 nor 1"),
        (b.file((), [b.value(b"\xff", 7, b"\1")]), "a key of the metadata is not UTF-8"),
        (b.file((), [b.value("k", 7, b"\1")] * 2), "the key 'k' appears twice"),
        (b.file((), [b.value("general.alignment", 4, struct.pack("<I", 24))]), r"general.alignment is 24 (uint32)"),
        (b.file((), [b.value("general.alignment", 4, bytes(4))]), "general.alignment is 0"),
        (b.file((), [b.value("general.alignment", 8, b.string("32"))]), "general.alignment is 32 (string)"),
    ]:
        assert message in refused(data)


def test_limits_of_a_tensor() -> None:
    b = Builder()
    for entries, message in [
        ([b.entry("w", (1,) * 5)], "tensor 'w' has 5 dimensions, expected at most 4"),
        ([b.entry("w", (1 << 40, 1 << 40))], "is larger than any file"),
        ([b.entry("w", (0, 1 << 63))], "is larger than any file"),
        ([b.entry("w", (2,), 0, 1 << 63)], "is larger than any file"),
        ([b.entry("w", (2,), 0, 8)], "begins at byte 8 of the data, expected a multiple of 32"),
        ([b.entry("w", (2, 33), 8)], "tensor 'w' of q8_0 has rows of 33 values, not whole blocks"),
        ([b.entry("w", (), 8)], "rows of 1 values, not whole blocks"),
        ([b.entry("w", (2,)), b.entry("w", (2,), 0, 32)], "the tensor 'w' appears twice"),
        ([b.entry("w", (2,)), b.entry("x", (2,))], "overlaps the one before it"),
        ([b.entry("w", (9,)), b.entry("x", (2,), 0, 32)], "overlaps the one before it"),
        ([b.entry("w", (64,))], "the file is truncated: tensor 'w' ends at byte"),
        ([b.entry("w", (1,), 99, 96)], "the file is truncated: tensor 'w' ends at byte"),
    ]:
        assert message in refused(b.file(entries, (), bytes(64)))


def test_sizes_of_types_are_those_of_the_package() -> None:
    gguf = pytest.importorskip("gguf")
    names = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
    names |= {f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)}
    for code, (name, values, nbytes) in TENSOR_TYPES.items():
        if code not in (9,):  # the package still has q8_1 as it was before its sum became an f16
            kind = gguf.GGMLQuantizationType(code)
            assert kind.name == names.get(name, name.upper()) and gguf.GGML_QUANT_SIZES[kind] == (values, nbytes)


def test_strings_across_the_pieces_in_which_headers_are_read(tmp_path: Path) -> None:
    """Texts of no bytes, of several bytes a character, and longer than a piece; and a length past the end."""
    texts = ["é" * (number % 40) for number in range(9000)] + ["", "x" * 200_000, "\u6f22" * 30_000, "end"]
    path = tmp_path / "texts.gguf"
    write_gguf(path, {}, {"general.architecture": "x", "texts": texts})
    with open_checkpoint(path) as file:
        assert file.values["texts"] == texts  # type: ignore[attr-defined]
    data = path.read_bytes()
    place = data.index(b"x" * 1000) - 8
    for length in (1 << 26 | 1, 1 << 40, len(data)):
        with pytest.raises(FileFormatError, match="expected at most|are missing"):
            GgufFile(BytesSource(data[:place] + length.to_bytes(8, "little") + data[place + 8 :]))
