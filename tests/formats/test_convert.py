"""Conversion of whole files: every input format, tensors that keep their type, the effect of importance, clear
errors."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pyapp.engine import quant
from pyapp.engine.blocks.reading import dequantize_blocks
from pyapp.engine.blocks.writing import quantize_blocks
from pyapp.errors import Cancelled, FileFormatError, ModelError, OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats import GgufFile, open_checkpoint, write_gguf, write_safetensors
from pyapp.formats.convert import quantize_file, type_name
from pyapp.formats.imatrix import read_imatrix
from tests.formats.test_legacy_ggml import KINDS, sample

np = pytest.importorskip("numpy")


def tensors() -> dict[str, Any]:
    generator = np.random.default_rng(8)
    shapes = {
        "embed.weight": (40, 256), "layers.0.wq.weight": (256, 512), "layers.0.w2.weight": (24, 96),
        "layers.0.experts.weight": (3, 8, 256), "layers.0.norm.weight": (256,), "layers.0.pos_emb.weight": (16, 256),
        "odd.weight": (8, 33), "conv.weight": (4, 4, 32),
    }  # fmt: skip
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_safetensors(tmp_path / "model.safetensors", tensors(), {"config": json.dumps({"dim": 256}), "made_by": "us"})
    return tmp_path / "model.safetensors"


def values(path: Path, name: str) -> Any:
    with open_checkpoint(path) as file:
        info = file.tensors[name]
        data = file.read_bytes(name)
        if info.dtype == "float32":
            return np.frombuffer(data, np.float32).reshape(info.shape)
        return dequantize_blocks(data, info.dtype).reshape(info.shape)


def test_matrices_change_and_the_rest_stays(source: Path, tmp_path: Path) -> None:
    reports: list[Event] = []
    result = quantize_file(source, tmp_path / "out.gguf", "Q4_K", report=reports.append)
    assert result["types"] == {"q4_K": 3, "q5_0": 1, "float32": 4} and result["weighted"] == 0
    assert result["size"] == (tmp_path / "out.gguf").stat().st_size
    original = tensors()
    with open_checkpoint(tmp_path / "out.gguf") as file:
        kinds = {name: info.dtype for name, info in file.tensors.items()}
        assert file.config == {"dim": 256} and file.metadata["source.made_by"] == "us"
        assert isinstance(file, GgufFile) and file.values["general.file_type"] == 14
    assert kinds["layers.0.w2.weight"] == "q5_0" and kinds["layers.0.experts.weight"] == "q4_K"
    for name, kind in kinds.items():
        found = values(tmp_path / "out.gguf", name)
        if kind == "float32":
            np.testing.assert_array_equal(found, original[name])
        else:
            expected = dequantize_blocks(quantize_blocks(original[name], kind).data, kind)
            np.testing.assert_array_equal(found.reshape(-1), expected)
    done = [event.done for event in reports if isinstance(event, Progress)]
    assert done == sorted(done) and reports[-1].done == reports[-1].total  # type: ignore[attr-defined]


def test_keep_and_float_types(source: Path, tmp_path: Path) -> None:
    result = quantize_file(source, tmp_path / "a.gguf", "q8_0", keep=r"^embed|wq")
    assert result["types"] == {"float32": 6, "q8_0": 2}
    result = quantize_file(source, tmp_path / "b.safetensors", "bf16")
    assert result["types"] == {"bfloat16": 5, "float32": 3}
    with open_checkpoint(tmp_path / "b.safetensors") as file:
        assert file.config == {"dim": 256} and file.metadata["made_by"] == "us"
        found = file.read("odd.weight").numpy()
    np.testing.assert_allclose(found, tensors()["odd.weight"], rtol=2**-8)
    quantize_file(tmp_path / "b.safetensors", tmp_path / "c.safetensors", "f16")
    with open_checkpoint(tmp_path / "c.safetensors") as file:
        again = file.read("odd.weight").numpy()
    np.testing.assert_array_equal(again.astype(np.float32), found)


def test_a_gguf_file_keeps_its_metadata(tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama", "llama.block_count": 1, "tokenizer.ggml.tokens": ["a", "b"], "x": 7}
    matrix = tensors()["layers.0.wq.weight"]
    blocks = {"a.weight": quantize_blocks(matrix, "q8_0"), "b.weight": quantize_blocks(matrix, "q4_K")}
    write_gguf(tmp_path / "in.gguf", blocks, metadata, {"x": "uint64"})
    quantize_file(tmp_path / "in.gguf", tmp_path / "out.gguf", "q4_K")
    with open_checkpoint(tmp_path / "out.gguf") as file:
        assert isinstance(file, GgufFile)
        assert file.values == metadata | {"general.file_type": 14, "general.quantization_version": 2}
        assert file.types["x"] == "uint64" and file.config["block_count"] == 1
        assert bytes(file.read_bytes("b.weight")) == bytes(blocks["b.weight"].data)
    twice = dequantize_blocks(quantize_blocks(dequantize_blocks(blocks["a.weight"].data, "q8_0"), "q4_K").data, "q4_K")
    np.testing.assert_array_equal(values(tmp_path / "out.gguf", "a.weight").reshape(-1), twice)


@pytest.mark.parametrize("name", ["v0_untied.bin", "v1_tied.bin", "v2_straddling.bin", "torch_zip.pt", "numpy.npz"])
def test_every_format_can_be_read(golden: Path, tmp_path: Path, name: str) -> None:
    with open_checkpoint(golden / name) as file:
        names = set(file.tensors)
        storable = all(info.dtype in GGUF_TYPES for info in file.tensors.values())
    if not storable:
        with pytest.raises(ValueError, match="GGUF cannot store"):
            quantize_file(golden / name, tmp_path / "out.gguf", "q8_0")
        return
    quantize_file(golden / name, tmp_path / "out.gguf", "q8_0")
    with open_checkpoint(tmp_path / "out.gguf") as file:
        assert set(file.tensors) == names


GGUF_TYPES = {"float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "q8_0", "q8_group"}


def old_imatrix(entries: dict[str, Any], calls: int = 3) -> bytes:
    data = struct.pack("<i", len(entries))
    for name, array in entries.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", calls, array.size)
        data += (array * calls).astype("<f4").tobytes()
    return data + struct.pack("<ii", 9, 4) + b"wiki"


def test_importance(source: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(9)
    first, experts = generator.random((1, 512)).astype(np.float32), generator.random((3, 256)).astype(np.float32)
    write_gguf(
        tmp_path / "imatrix.gguf",
        {
            "layers.0.wq.weight.in_sum2": first * 5, "layers.0.wq.weight.counts": np.full((1, 1), 5, np.float32),
            "layers.0.experts.weight.in_sum2": experts * np.array([[2], [1], [0]], np.float32),
            "layers.0.experts.weight.counts": np.array([[2], [1], [0]], np.float32),
        },
        {"general.type": "imatrix"},
    )  # fmt: skip
    (tmp_path / "imatrix.dat").write_bytes(old_imatrix({"layers.0.wq.weight": first[0], "other": experts[0]}))
    read = read_imatrix(tmp_path / "imatrix.gguf")
    np.testing.assert_allclose(read["layers.0.wq.weight"], first, rtol=1e-6)
    np.testing.assert_allclose(read["layers.0.experts.weight"][:2], experts[:2], rtol=1e-6)
    np.testing.assert_allclose(read_imatrix(tmp_path / "imatrix.dat")["layers.0.wq.weight"], first, rtol=1e-6)
    plain = tmp_path / "plain.gguf"
    quantize_file(source, plain, "q4_0")
    for name, count in (("imatrix.gguf", 2), ("imatrix.dat", 1)):
        result = quantize_file(source, tmp_path / "out.gguf", "q4_0", imatrix=tmp_path / name)
        assert result["weighted"] == count
        for tensor, weight in (("layers.0.wq.weight", first), ("layers.0.experts.weight", experts[:, None])):
            exact = tensors()[tensor]
            ours, theirs = (
                (weight * np.square(values(path, tensor) - exact))[:2].mean() for path in (tmp_path / "out.gguf", plain)
            )
            assert ours < 0.95 * theirs if count == 2 or tensor.endswith("wq.weight") else ours == theirs


def test_clear_errors(source: Path, tmp_path: Path) -> None:
    def fails(error: type[Exception], match: str, *arguments: Any, **settings: Any) -> None:
        with pytest.raises(error, match=match):
            quantize_file(*arguments, **settings)

    out = tmp_path / "out.gguf"
    fails(OptionError, "unknown type 'q9'", source, out, "q9")
    fails(OptionError, "q8_1 is llama.cpp's type of activations", source, out, "q8_1")
    fails(OptionError, "cannot tell the format", source, tmp_path / "out.bin", "q8_0")
    fails(OptionError, "the output is the input", source, source, "f16")
    fails(OptionError, "not a regular expression", source, out, "q8_0", keep="(")
    fails(FileNotFoundError, "missing", tmp_path / "missing", out, "q8_0")
    (tmp_path / "imatrix.dat").write_bytes(old_imatrix({"nothing": np.ones(4, np.float32)}))
    fails(OptionError, "none of the 1 names", source, out, "q8_0", imatrix=tmp_path / "imatrix.dat")
    (tmp_path / "imatrix.dat").write_bytes(old_imatrix({"embed.weight": np.ones(4, np.float32)}))
    fails(OptionError, r"shape \(1, 4\)", source, out, "q8_0", imatrix=tmp_path / "imatrix.dat")
    damaged = tensors()
    damaged["embed.weight"][3, 5] = np.nan
    write_safetensors(tmp_path / "nan.safetensors", damaged)
    fails(ModelError, "'embed.weight' are damaged: element 773 is NaN", tmp_path / "nan.safetensors", out, "q8_0")
    cancel = Cancel()
    cancel.set()
    fails(Cancelled, "stopped", source, out, "q8_0", cancel=cancel)
    assert not out.exists() and not list(tmp_path.glob(".*partial"))
    assert type_name("f16") == "float16" and type_name("q6_k") == "q6_K"


def test_broken_imatrix_files_give_clear_errors() -> None:
    good = old_imatrix({"a": np.ones(8, np.float32), "bb": np.ones(4, np.float32)})
    assert set(read_imatrix(good)) == {"a", "bb"}
    for size in range(len(good) - 12):
        with pytest.raises(FileFormatError):
            read_imatrix(good[:size])
    generator = np.random.default_rng(1)
    for _ in range(300):
        data = bytearray(good)
        data[generator.integers(len(data))] = generator.integers(256)
        try:
            read_imatrix(bytes(data))
        except FileFormatError:
            pass
    with pytest.raises(FileFormatError, match="negative or not finite"):
        read_imatrix(old_imatrix({"a": np.array([1, -1], np.float32)}))
    empty = io.BytesIO()
    write_gguf(empty, {"a.in_sum2": np.ones((2, 0), np.float32), "a.counts": np.ones((2, 1), np.float32)}, {})
    with pytest.raises(FileFormatError, match="expected a matrix"):
        read_imatrix(empty.getvalue())


def test_a_hugging_face_model_is_not_called_what_other_programs_would_misread(tmp_path: Path) -> None:
    """Names and order of the tensors are Hugging Face's: llama.cpp must not take them for its own llama."""
    names = ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight")
    write_safetensors(tmp_path / "m.safetensors", {name: tensors()["embed.weight"] for name in names})
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 256}')
    quantize_file(tmp_path / "m.safetensors", tmp_path / "out.gguf", "q8_0")
    with open_checkpoint(tmp_path / "out.gguf") as file:
        assert isinstance(file, GgufFile) and file.values["general.architecture"] == "pyapp"
        assert file.config == {"model_type": "llama", "hidden_size": 256}
        assert not any(key.startswith("llama.") for key in file.values) and set(file.tensors) == set(names)


def test_blocks_in_safetensors(source: Path, tmp_path: Path) -> None:
    result = quantize_file(source, tmp_path / "out.safetensors", "Q4_K")
    quantize_file(source, tmp_path / "out.gguf", "Q4_K")
    assert result["types"] == {"q4_K": 3, "q5_0": 1, "float32": 4}
    with open_checkpoint(tmp_path / "out.safetensors") as ours, open_checkpoint(tmp_path / "out.gguf") as gguf:
        assert ours.config == {"dim": 256} and ours.metadata["layers.0.wq.weight"] == "q4_K"
        for name, info in gguf.tensors.items():
            assert (ours.tensors[name].dtype, ours.tensors[name].shape) == (info.dtype, info.shape)
            assert bytes(ours.read_bytes(name)) == bytes(gguf.read_bytes(name))
    quantize_file(tmp_path / "out.safetensors", tmp_path / "again.gguf", "Q4_K")  # blocks are copied
    with open_checkpoint(tmp_path / "again.gguf") as again, open_checkpoint(tmp_path / "out.gguf") as gguf:
        assert all(bytes(again.read_bytes(name)) == bytes(gguf.read_bytes(name)) for name in gguf.tensors)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "complex64"])
def test_types_that_the_target_lacks(tmp_path: Path, dtype: str) -> None:
    from pyapp.formats import write_npz

    write_npz(tmp_path / "in.npz", {"w": np.zeros((8, 32), np.float32), "x": np.zeros(4, dtype)})
    with pytest.raises(OptionError, match=f"tensor 'x' is {dtype}, which GGUF cannot store.*Write a .safetensors file"):
        quantize_file(tmp_path / "in.npz", tmp_path / "out.gguf", "q8_0")
    quantize_file(tmp_path / "in.npz", tmp_path / "out.safetensors", "f16")
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize("suffix", ["gguf", "safetensors"])
@pytest.mark.parametrize("kind", ["q8_0", "float16"])
@pytest.mark.parametrize("old", KINDS)
def test_ggml_files_of_before_gguf(tmp_path: Path, suffix: str, kind: str, old: tuple[str, int]) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(sample(*old))
    quantize_file(path, tmp_path / f"out.{suffix}", kind)
    with open_checkpoint(path) as before, open_checkpoint(tmp_path / f"out.{suffix}") as after:
        assert set(before.tensors) == set(after.tensors)
        for name, info in after.tensors.items():
            assert info.shape == before.tensors[name].shape
            exact = quant.dequantize(before.read(name)).numpy()
            np.testing.assert_allclose(quant.dequantize(after.read(name)).numpy(), exact, atol=0.1)


@pytest.mark.native_only
def test_a_large_member_of_an_archive_is_not_inflated_into_memory(tmp_path: Path, peak_memory: Any) -> None:
    """A megabyte that becomes 256 MiB, with a checksum that is wrong."""
    path = tmp_path / "in.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("w.npy", "w", force_zip64=True) as member:
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (262144, 256), }"
            header += b" " * (-(11 + len(header)) % 64) + b"\n"
            member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
            for _ in range(256):
                member.write(bytes(1 << 20))
        info = archive.getinfo("w.npy")
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\1\2")
    data[at + 16 : at + 20] = (info.CRC ^ 1).to_bytes(4, "little")
    path.write_bytes(data)
    with peak_memory(48 << 20), pytest.raises(FileFormatError, match="the checksum of its bytes"):
        quantize_file(path, tmp_path / "out.gguf", "q8_0")
    assert not (tmp_path / "out.gguf").exists()
