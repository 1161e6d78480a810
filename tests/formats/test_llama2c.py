"""llama2.c checkpoints against files packed by torch, against the real stories260K, and against damage."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import BytesSource, Checkpoint, open_checkpoint, write_llama2c
from pyapp.formats.llama2c import FIELDS, LIMITS

V0_FIELDS = (16, 24, 2, 4, 2, 20, 8)
FILES = [
    ("v0_untied", "v0_untied"),
    ("v0_tied", "v1_tied"),
    ("v1_tied", "v1_tied"),
    ("v2_straddling", "v2_straddling"),
    ("v2_short_groups", "v2_short_groups"),
]


def legacy(**changes: int) -> bytes:
    """A version 0 header with some fields changed, and nothing after it."""
    return struct.pack("<7i", *(dict(zip(FIELDS, V0_FIELDS, strict=True)) | changes).values())


def modern(version: int = 1, shared: int = 1, group: int = 16, **changes: int) -> bytes:
    fields = (dict(zip(FIELDS, V0_FIELDS, strict=True)) | changes).values()
    return struct.pack("<Ii7iBi", 0x616B3432, version, *fields, shared, group).ljust(256, b"\0")


def dequantized(checkpoint: Checkpoint, name: str) -> Any:
    import numpy as np

    tensor = checkpoint.read(name, finite=True)
    if tensor.dtype.is_quantized:
        from pyapp.engine import quant

        tensor = quant.dequantize(tensor)
    return np.array(tensor.numpy())


# -- reading


@pytest.mark.parametrize("name,expected", FILES)
def test_names_and_shapes_are_the_exporters(golden: Path, name: str, expected: str) -> None:
    with open_checkpoint(golden / f"{name}.bin") as read, open_checkpoint(golden / f"{expected}.safetensors") as wanted:
        assert {n: t.shape for n, t in read.tensors.items()} == {n: t.shape for n, t in wanted.tensors.items()}
        assert read.format == f"llama2.c {name[:2]}"
        assert ("output.weight" in read.tensors) == (read.metadata["tied"] == "false")
        assert list(read.config) == list(FIELDS)


@pytest.mark.parametrize("name,expected", FILES[:3])
def test_float_weights_have_the_expected_bytes(golden: Path, name: str, expected: str) -> None:
    with open_checkpoint(golden / f"{name}.bin") as read, open_checkpoint(golden / f"{expected}.safetensors") as wanted:
        for tensor in wanted.tensors:
            assert bytes(read.read_bytes(tensor)) == bytes(wanted.read_bytes(tensor)), tensor


@pytest.mark.parametrize("name,expected", FILES)
def test_tensors_have_the_expected_values(golden: Path, name: str, expected: str) -> None:
    import numpy as np

    with open_checkpoint(golden / f"{name}.bin") as read, open_checkpoint(golden / f"{expected}.safetensors") as wanted:
        for tensor in wanted.tensors:
            np.testing.assert_array_equal(dequantized(read, tensor), wanted.read(tensor).numpy(), err_msg=tensor)


def test_whole_groups_stay_quantised_and_straddling_ones_become_float(golden: Path) -> None:
    with open_checkpoint(golden / "v2_straddling.bin") as read:
        assert read.metadata["group_size"] == "32"
        assert read.read("layers.1.attention.wq.weight").dtype.name == "q8_group"
        assert read.read("layers.1.feed_forward.w2.weight").dtype.name == "float32"  # rows of 48, groups of 32
        info = read.tensors["layers.1.feed_forward.w2.weight"]
        assert (info.dtype, info.nbytes) == ("q8_group", 32 * 48 + 4 * 48)


def test_only_the_header_is_read_on_opening(golden: Path) -> None:
    class Counting(BytesSource):
        total = 0

        def read(self, offset: int, length: int) -> memoryview:
            Counting.total += length
            return super().read(offset, length)

    open_checkpoint(Counting((golden / "v2_straddling.bin").read_bytes()))
    assert Counting.total < 1000


@pytest.mark.native_only
def test_reading_needs_no_numpy(golden: Path) -> None:
    """In the page importing it costs 0.4 s, before the first token."""
    script = (
        "import sys; from pyapp.formats import inspect, open_checkpoint\n"
        "for path in sys.argv[1:]:\n"
        "    inspect(path)\n"
        "    checkpoint = open_checkpoint(path)\n"
        "    for name in checkpoint.tensors: checkpoint.read(name, finite=True)\n"
        "assert 'numpy' not in sys.modules"
    )
    names = ("v0_untied.bin", "v1_tied.bin", "v2_straddling.bin", "v1_tied.safetensors")
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script, *(str(golden / name) for name in names)], cwd=root, check=True)


def test_an_unknown_tensor_is_a_key_error(golden: Path) -> None:
    with open_checkpoint(golden / "v1_tied.bin") as read, pytest.raises(KeyError, match=r"no tensor 'output.weight'"):
        read.read("output.weight")


def test_stories260k(real_data: Any) -> None:
    with open_checkpoint(real_data("stories260K.bin")) as read:
        assert read.format == "llama2.c v0"
        assert read.config == dict(zip(FIELDS, (64, 172, 5, 8, 4, 512, 512), strict=True))
        assert sum(info.numel for info in read.tensors.values()) == 260_032
        first = struct.unpack("<3f", bytes(read.read_bytes("tok_embeddings.weight")[:12]))
        assert first == pytest.approx((-0.2947488, 0.5618956, 0.1754225), abs=1e-6)
        norm = struct.unpack("<64f", bytes(read.read_bytes("norm.weight")))
        assert all(0.5 < value < 20 for value in norm)  # a norm's gains, not some other tensor's values
        for name in read.tensors:
            read.read(name, finite=True)


# -- writing


@pytest.mark.parametrize(
    "name,weights,version,group",
    [
        ("v1_tied", "v1_tied", 1, 64),
        ("v2_straddling", "v2_straddling.original", 2, 64),
        ("v2_short_groups", "v2_short_groups.original", 2, 64),
    ],
)
def test_writes_what_the_exporter_writes(golden: Path, name: str, weights: str, version: int, group: int) -> None:
    out = io.BytesIO()
    with (
        open_checkpoint(golden / f"{weights}.safetensors") as source,
        open_checkpoint(golden / f"{name}.bin") as wanted,
    ):
        tensors = {tensor: source.read(tensor) for tensor in source.tensors}
        write_llama2c(out, wanted.config, tensors, version, group)
    assert out.getvalue() == (golden / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", ["v0_untied", "v0_tied"])
def test_writes_version_0_with_its_rotary_tables(golden: Path, name: str) -> None:
    import numpy as np

    out = io.BytesIO()
    with open_checkpoint(golden / f"{name}.bin") as source:
        write_llama2c(out, source.config, {tensor: source.read(tensor) for tensor in source.tensors}, version=0)
    wanted = (golden / f"{name}.bin").read_bytes()
    assert out.getvalue()[:28] == wanted[:28]
    written = np.frombuffer(out.getvalue(), "<f4", offset=28)
    np.testing.assert_allclose(written, np.frombuffer(wanted, "<f4", offset=28), rtol=0, atol=1e-6)


def test_an_equal_head_is_stored_once(golden: Path, tmp_path: Path) -> None:
    with open_checkpoint(golden / "v1_tied.bin") as source:
        tensors = {name: source.read(name) for name in source.tensors}
        tensors["output.weight"] = source.read("tok_embeddings.weight")
        write_llama2c(tmp_path / "model.bin", source.config, tensors, 1)
    assert (tmp_path / "model.bin").read_bytes() == (golden / "v1_tied.bin").read_bytes()


def test_writing_zeros_in_groups(tmp_path: Path) -> None:
    import numpy as np

    config = dict(zip(FIELDS, V0_FIELDS, strict=True))
    with open_checkpoint(legacy() + bytes(17116 - 28)) as source:
        tensors = {name: np.zeros(info.shape, np.float32) for name, info in source.tensors.items()}
    write_llama2c(tmp_path / "zeros.bin", config, tensors, 2)
    with open_checkpoint(tmp_path / "zeros.bin") as read:
        assert not dequantized(read, "tok_embeddings.weight").any()


def test_bad_arguments_of_the_writer(golden: Path) -> None:
    with open_checkpoint(golden / "v1_tied.bin") as source:
        tensors: dict[str, Any] = {name: source.read(name) for name in source.tensors}
        config = source.config
    with pytest.raises(ValueError, match="versions 0, 1 and 2"):
        write_llama2c(io.BytesIO(), config, tensors, 3)
    with pytest.raises(ValueError, match=r"missing, first 'norm.weight'"):
        write_llama2c(io.BytesIO(), config, {k: v for k, v in tensors.items() if k != "norm.weight"})
    with pytest.raises(ValueError, match=r"shape \(16,\), expected \(20, 16\)"):
        write_llama2c(io.BytesIO(), config, tensors | {"tok_embeddings.weight": tensors["norm.weight"]})
    with pytest.raises(ValueError, match="n_heads is 5"):
        write_llama2c(io.BytesIO(), config | {"n_heads": 5}, tensors)


def test_a_failed_write_leaves_the_old_file(golden: Path, tmp_path: Path) -> None:
    import numpy as np

    target = tmp_path / "model.bin"
    target.write_bytes(b"old")
    with open_checkpoint(golden / "v1_tied.bin") as source:
        tensors: dict[str, Any] = {name: source.read(name) for name in source.tensors}
        tensors["layers.1.feed_forward.w3.weight"] = np.full((24, 16), np.nan, np.float32)
        with pytest.raises(ModelError, match=r"'layers.1.feed_forward.w3.weight'.*element 0 is NaN"):
            write_llama2c(target, source.config, tensors, 2)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.bin"]


# -- damage


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [0, -7, 2**31 - 1, -(2**31), 10**9])
def test_absurd_fields_are_named_before_anything_is_allocated(peak_memory: Any, field: str, value: int) -> None:
    if field == "vocab_size" and value == -7:
        return  # version 0: a head of its own
    for data in (legacy(**{field: value}), modern(1, **{field: value}), modern(2, **{field: value})):
        with peak_memory(1 << 20), pytest.raises(FileFormatError) as caught:
            open_checkpoint(data + bytes(64))
        shown = abs(value) if len(data) == 28 and field == "vocab_size" else value
        assert f"{field} is {shown}, expected a number from 1 to {LIMITS[field]:,}" in str(caught.value)
        assert caught.value.hint and caught.value.where == "<bytes>"


@pytest.mark.parametrize(
    "data,message",
    [
        (legacy(n_heads=5), "n_heads is 5, expected a divisor of dim = 16"),
        (legacy(dim=12, n_heads=4), "dim / n_heads is 3, expected an even number"),
        (legacy(n_kv_heads=3), "n_kv_heads is 3, expected a divisor of n_heads = 4"),
        (modern(3), "version is 3, expected 1 or 2"),
        (modern(-1 & 0x7FFFFFFF), "version is 2147483647"),
        (modern(1)[:200], "the header has 256 bytes, 56 are missing"),
        (modern(1, shared=7), "shared_classifier is 7, expected 0 or 1"),
        (modern(2, group=0), "group_size is 0"),
        (modern(2, group=-32), "group_size is -32"),
        (modern(2, group=48), "group_size is 48, expected a divisor of the 320 values of tok_embeddings.weight"),
        (legacy()[:27], "1 are missing (27 are there)"),
        (b"", "the file is empty"),
    ],
)
def test_inconsistent_headers(data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        open_checkpoint(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [name for name, _ in FILES])
def test_truncated_and_overlong_files_say_by_how_much(golden: Path, name: str) -> None:
    data = (golden / f"{name}.bin").read_bytes()
    with pytest.raises(FileFormatError, match=r"truncated: a llama2.c v\d .* 1,000 are missing at the end"):
        open_checkpoint(data[:-1000])
    with pytest.raises(FileFormatError, match=r"too long: .* 3 follow that do not belong to it"):
        open_checkpoint(data + b"abc")


def test_a_huge_but_legal_header_allocates_nothing(peak_memory: Any) -> None:
    biggest = dict(zip(FIELDS, (1 << 16, 1 << 19, 1 << 10, 1 << 10, 1 << 10, 1 << 22, 1 << 20), strict=True))
    with peak_memory(8 << 20), pytest.raises(FileFormatError, match="are missing at the end"):
        open_checkpoint(legacy(**biggest))


@pytest.mark.parametrize("value,word", [(float("nan"), "NaN"), (float("inf"), "infinite"), (float("-inf"), "infinite")])
def test_damaged_weights_are_named(golden: Path, value: float, word: str) -> None:
    for name in ("v0_untied", "v1_tied"):
        data = bytearray((golden / f"{name}.bin").read_bytes())
        with open_checkpoint(bytes(data)) as read:
            offset = bytes(data).index(bytes(read.read_bytes("layers.1.feed_forward.w2.weight")))
        struct.pack_into("<f", data, offset + 4 * 5, value)
        with open_checkpoint(bytes(data)) as read:
            read.read("layers.1.feed_forward.w2.weight")  # without being asked, nothing is checked
            with pytest.raises(
                ModelError, match=rf"'layers.1.feed_forward.w2.weight' are damaged: element 5 is {word}"
            ):
                read.read("layers.1.feed_forward.w2.weight", finite=True)


def test_damaged_scales_are_named(golden: Path) -> None:
    data = bytearray((golden / "v2_straddling.bin").read_bytes())
    data[-4:] = struct.pack("<f", float("nan"))  # the head's last scale
    with open_checkpoint(bytes(data)) as read, pytest.raises(ModelError, match=r"'output.weight \(scales\)' .* NaN"):
        read.read("output.weight", finite=True)


@pytest.mark.parametrize(
    "head,message",
    [
        (b"PK\x05\x06" + bytes(18), "a zip archive"),
        (b"\x80\x02}q" + bytes(50), "a Python pickle"),
        (b"<!DOCTYPE html><html>Not found</html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
        (b'{"error": "Entry not found"}', "a JSON text"),
        (b"\x1f\x8b\x08" + bytes(50), "a gzip archive"),
    ],
)
def test_files_that_people_pick_by_mistake(head: bytes, message: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        open_checkpoint(head)
    assert message in str(caught.value) and "safetensors" in str(caught.value)


def test_a_tokenizer_is_not_a_model(golden: Path, real_data: Any) -> None:
    with pytest.raises(FileFormatError, match="a llama2.c tokenizer with 320 tokens, not a model"):
        open_checkpoint(golden / "tokenizer.bin")
    with pytest.raises(FileFormatError, match="a llama2.c tokenizer with 512 tokens, not a model"):
        open_checkpoint(real_data("tok512.bin"))
