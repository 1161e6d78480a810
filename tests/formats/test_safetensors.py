"""safetensors files: read as the library reads, written byte for byte as it writes, hostile headers refused."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.engine import quant
from pyapp.engine.ops import from_numpy
from pyapp.errors import FileFormatError, ModelError
from pyapp.formats import BytesSource, open_checkpoint, quantize_blocks, write_safetensors
from pyapp.formats.safetensors import CODES, HEADER_LIMIT, SafetensorsFile
from tests.together import check_each


def build(header: Any, data: bytes = b"", pad: bool = True) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    if pad:
        raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


# -- reading


def test_every_type_that_the_library_writes(golden: Path) -> None:
    raw = bytes(range(48))
    with open_checkpoint(golden / "all_types.safetensors") as read:
        assert read.metadata == {"format": "pt"} and read.config == {} and read.format == "safetensors"
        for name in set(CODES) - {"bool", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"}:
            assert read.tensors[name].dtype == name and read.tensors[name].nbytes == 48
            assert bytes(read.read_bytes(name)) == raw
        assert bytes(read.read_bytes("bool")) == bytes([1, 0]) * 24
        half_bytes = read.tensors["float4_e2m1fn_x2"]  # torch counts pairs, the file single values
        assert (half_bytes.dtype, half_bytes.shape, half_bytes.nbytes) == ("float4_e2m1fn", (96,), 48)
        assert read.tensors["empty"].shape == (0, 3) and read.tensors["scalar"].shape == ()


def test_tensors(golden: Path) -> None:
    import numpy as np

    raw = bytes(range(48))
    with open_checkpoint(golden / "all_types.safetensors") as read:
        for name in "uint8 int8 int16 int32 int64 float16 float32 float64".split():
            tensor = read.read(name)
            assert tensor.dtype.name == name
            assert tensor.numpy().tobytes() == raw
        wide = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        np.testing.assert_array_equal(read.read("bfloat16").numpy(), wide)
        assert read.read("uint32").data_view().tobytes() == raw
        assert read.read("float8_e4m3fn").data_view().tobytes() == read.read("float8_e5m2").data_view().tobytes() == raw
        assert read.read("bool").numpy().tolist() == [True, False] * 24
        assert read.read("matrix é").numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read.read("scalar").numpy() == 2.5
        assert read.read("empty").numpy().shape == (0, 3)
        for name in read.tensors:  # the rest: test_foreign_dtypes.py
            assert read.read(name).numel() == read.tensors[name].numel


def test_a_config_in_the_metadata(tmp_path: Path) -> None:
    import numpy as np

    write_safetensors(tmp_path / "m.safetensors", {"w": np.zeros(2)}, {"config": '{"dim": 64}'})
    with open_checkpoint(tmp_path / "m.safetensors") as read:
        assert read.config == {"dim": 64}
    for other in ("[1]", "not json", "[" * 100_000):
        write_safetensors(tmp_path / "m.safetensors", {"w": np.zeros(2)}, {"config": other})
        with open_checkpoint(tmp_path / "m.safetensors") as read:
            assert read.config == {} and read.metadata == {"config": other}


def test_a_header_of_any_length_is_read() -> None:
    """The library pads headers to 8 bytes, the format does not ask for it."""
    for extra in range(9):
        raw = json.dumps({"w": entry()}).encode() + b" " * extra
        with open_checkpoint(build(raw, b"12345678", pad=False)) as read:
            assert bytes(read.read_bytes("w")) == b"12345678"


def test_an_empty_file_of_tensors() -> None:
    with open_checkpoint(build({})) as read:
        assert read.tensors == {}


def test_damaged_values_are_named() -> None:
    import struct

    data = struct.pack("<4e", 1, 2, float("inf"), 4)
    with open_checkpoint(build({"half": entry("F16", [4])}, data)) as read:
        read.read("half")
        with pytest.raises(ModelError, match="'half' are damaged: element 2 is infinite"):
            read.read("half", finite=True)


# -- writing, beside the library


def arrays(seed: int) -> dict[str, Any]:
    """Random arrays of random types, shapes and names."""
    import numpy as np

    chance = random.Random(seed)
    types = "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64".split()
    letters = 'abcz.é日_0\n\t\x01\x7f"\\/😀'
    made = {}
    for _ in range(chance.randint(0, 8)):
        name = "".join(chance.choices(letters, k=chance.randint(0, 6)))
        shape = tuple(chance.randint(0, 4) for _ in range(chance.randint(0, 4)))
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            numbers = np.frombuffer(chance.randbytes(8 * count), "<u8")[:count].astype(chance.choice(types))
        made[name] = numbers.reshape(shape)
    return made


@pytest.mark.native_only
@pytest.mark.parametrize("seed", range(60))
def test_writes_the_librarys_bytes(seed: int) -> None:
    library = pytest.importorskip("safetensors.numpy")
    made = arrays(seed)
    metadata = {1: {"format": "np"}, 2: {"a": 'é"\\\n\x01'}}.get(seed % 3)
    out = io.BytesIO()
    write_safetensors(out, made, metadata)
    assert out.getvalue() == library.save(made, metadata=metadata)


@pytest.mark.native_only
@pytest.mark.parametrize("seed", range(60, 80))
def test_reads_what_the_library_writes_and_the_library_what_we_write(seed: int, tmp_path: Path) -> None:
    import numpy as np

    library = pytest.importorskip("safetensors.numpy")
    made = arrays(seed)
    with open_checkpoint(library.save(made)) as read:
        assert {name: (info.dtype, info.shape) for name, info in read.tensors.items()} == {
            name: (array.dtype.name, array.shape) for name, array in made.items()
        }
        for name, array in made.items():
            assert bytes(read.read_bytes(name)) == array.tobytes()
    write_safetensors(tmp_path / "ours.safetensors", made, {"b": "1", "a": "2"})
    for name, array in library.load_file(tmp_path / "ours.safetensors").items():
        np.testing.assert_array_equal(array, made[name])


@pytest.mark.native_only
@pytest.mark.oracle
def test_writes_torchs_bytes_for_our_tensors(golden: Path) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    with open_checkpoint(golden / "all_types.safetensors") as read:
        kept = [
            n for n in read.tensors if n in "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 bool".split()
        ]
        ours = {name: read.read(name) for name in [*kept, "empty", "scalar", "matrix é"]}
    loaded = library.load_file(golden / "all_types.safetensors")
    out = io.BytesIO()
    write_safetensors(out, ours)
    assert out.getvalue() == library.save({name: loaded[name] for name in ours})
    assert torch.equal(library.load(out.getvalue())["bfloat16"].view(torch.uint8), torch.arange(48, dtype=torch.uint8))


def test_writes_views_row_by_row(tmp_path: Path) -> None:
    import pyapp

    matrix = pyapp.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    write_safetensors(tmp_path / "m.safetensors", {"t": matrix.T, "row": matrix[1]})
    with open_checkpoint(tmp_path / "m.safetensors") as read:
        assert read.read("t").tolist() == [[1, 4], [2, 5], [3, 6]]
        assert read.read("row").tolist() == [4, 5, 6]


def test_bad_arguments_of_the_writer() -> None:
    import numpy as np

    with pytest.raises(TypeError, match="str to str"):
        write_safetensors(io.BytesIO(), {}, {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="reserves that name"):
        write_safetensors(io.BytesIO(), {"__metadata__": np.zeros(1)})
    with pytest.raises(TypeError, match="object elements"):
        write_safetensors(io.BytesIO(), {"a": np.array([None])})
    with pytest.raises(ValueError, match="complex128, which safetensors cannot store"):
        write_safetensors(io.BytesIO(), {"a": np.zeros(1, np.complex128)})


# -- damage

DATA = bytes(16)
GOOD = entry("F32", [2], [0, 8])
BROKEN: list[tuple[str, bytes, str]] = [
    ("huge header", (HEADER_LIMIT + 1).to_bytes(8, "little") + b"{" + bytes(50), "expected at most 100,000,000"),
    ("header past the end", (1000).to_bytes(8, "little") + b"{}", "needs 1,000 bytes, 998 are missing"),
    ("not json", build(b"{nope}"), "not valid JSON"),
    ("not utf-8", build(b'{"\xff": 1}'), "not UTF-8 at byte 10"),
    ("trailing text", build(b"{} {}"), "not valid JSON: Extra data"),
    ("nested", build(b"{" + b'"a":[' * 200_000), "not valid JSON"),
    ("nan", build(b'{"w": NaN}'), "NaN is not JSON"),
    ("huge number", build(b'{"w": ' + b"9" * 5000 + b"}"), "not valid JSON"),
    ("duplicate tensor", build(b'{"w": 1, "w": 2}'), "the key 'w' appears twice"),
    ("duplicate field", build(b'{"w": {"dtype": "U8", "dtype": "F32"}}'), "the key 'dtype' appears twice"),
    ("list for a tensor", build({"w": []}), "must have exactly dtype, shape and data_offsets"),
    ("missing field", build({"w": {"dtype": "F32", "shape": [2]}}), "must have exactly dtype, shape and data_offsets"),
    ("extra field", build({"w": GOOD | {"x": 1}}), "must have exactly dtype, shape and data_offsets"),
    ("unknown dtype", build({"w": entry("F33")}), "dtype 'F33', expected one of BOOL"),
    ("dtype of another type", build({"w": entry(dtype=[])}), "dtype '[]', expected one of"),  # type: ignore[arg-type]
    ("negative size", build({"w": entry(shape=[-2])}), "shape [-2]"),
    ("fractional size", build({"w": entry(shape=[2.0])}), "shape [2.0]"),
    ("boolean size", build({"w": entry(shape=[True])}), "shape [True]"),
    ("endless shape", build({"w": entry(shape=[1] * 65)}), "expected at most 64 sizes"),
    ("overflowing shape", build({"w": entry(shape=[2**62] * 8)}, DATA), "its data_offsets hold 8"),
    ("shape is text", build({"w": entry(shape="2")}), "shape 2, expected"),
    ("backward offsets", build({"w": entry(offsets=[8, 0])}), "data_offsets [8, 0], expected"),
    ("three offsets", build({"w": entry(offsets=[0, 8, 16])}), "data_offsets [0, 8, 16], expected"),
    ("negative offset", build({"w": entry(offsets=[-8, 0])}), "data_offsets [-8, 0], expected"),
    ("offset 2^64", build({"w": entry(offsets=[0, 2**64])}), "expected [begin, end]"),
    ("wrong byte count", build({"w": entry(shape=[3])}, DATA), "needs 12 bytes, its data_offsets hold 8"),
    ("half a byte", build({"w": entry("F4", [3], [0, 1])}, DATA), "needs 1.5 bytes, its data_offsets hold 1"),
    (
        "overlap",
        build({"a": GOOD, "b": entry(offsets=[4, 12])}, DATA[:12]),
        "overlaps the tensor before it, expected 8",
    ),
    ("same place", build({"a": GOOD, "b": GOOD}, DATA[:8]), "overlaps the tensor before it"),
    ("hole", build({"a": GOOD, "b": entry(offsets=[12, 20])}, bytes(20)), "leaves a hole before it, expected 8"),
    ("hole at the start", build({"a": entry(offsets=[8, 16])}, DATA), "leaves a hole before it, expected 0"),
    ("truncated", build({"a": GOOD}, DATA[:5]), "its tensors need 8 bytes, 3 are missing"),
    ("too long", build({"a": GOOD}, DATA[:9]), "need 8 bytes, 1 follow that belong to none"),
    ("metadata of numbers", build({"__metadata__": {"a": 1}}), "__metadata__ must map names to strings"),
    ("metadata is a list", build({"__metadata__": []}), "__metadata__ must map names to strings"),
    ("half a surrogate", build(b'{"\\ud800": {"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "not valid Unicode"),
]


@pytest.mark.parametrize("data,message", [pytest.param(data, message, id=name) for name, data, message in BROKEN])
def test_broken_files(peak_memory: Any, data: bytes, message: str) -> None:
    with peak_memory(32 << 20), pytest.raises(FileFormatError) as caught:
        open_checkpoint(data)
    assert message in str(caught.value)
    assert caught.value.where == "<bytes>" and caught.value.hint and len(str(caught.value)) < 700


def test_a_file_shorter_than_the_headers_length() -> None:
    with pytest.raises(FileFormatError, match="the header's length has 8 bytes, 5 are missing"):
        SafetensorsFile(BytesSource(b"\x05\0\0"))


@pytest.mark.native_only
@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data, _ in BROKEN])
def test_whatever_the_library_refuses_is_refused(data: bytes) -> None:
    """Where we are stricter (duplicates, unknown fields), the format's text is on our side."""
    library = pytest.importorskip("safetensors")
    try:
        library.deserialize(data)
    except library.SafetensorError:
        with pytest.raises(FileFormatError):
            open_checkpoint(data)


def mutated(seed: int) -> bytes:
    """A file that the library wrote, with a few bytes of its header changed, or another number in it."""
    library = pytest.importorskip("safetensors.numpy")
    chance = random.Random(seed)
    data = bytearray(library.save(arrays(seed + 1000) | {"w": np.zeros((2, 3), np.float32)}, metadata={"a": "b"}))
    end = 8 + int.from_bytes(data[:8], "little")
    for _ in range(chance.randint(1, 3)):
        at = chance.choice((chance.randrange(end), chance.randrange(8, end)))
        data[at] = chance.choice((data[at] ^ 1 << chance.randrange(8), *b'0123456789[]{},:" \0'))
    return bytes(data)


@pytest.mark.native_only
def test_the_library_and_our_reader_agree(tmp_path: Path) -> None:
    """Verdict, names, types and shapes of damaged files; ours may be stricter where the format's text is."""
    pytest.importorskip("safetensors")
    check_each(check_damaged, ((seed, tmp_path) for seed in range(300)))


def check_damaged(seed: int, tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    data = mutated(seed)
    try:
        theirs = dict(library.deserialize(data))
    except library.SafetensorError:
        theirs = None
    try:
        ours = SafetensorsFile(BytesSource(data)).tensors
    except FileFormatError as error:
        stricter = ("appears twice", "must have exactly", "not JSON", "at most 64 sizes", "not valid Unicode")
        assert theirs is None or any(text in str(error) for text in stricter), str(error)
        return
    assert theirs is not None
    shapes = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in theirs.items()}
    assert {name: (CODES[info.dtype], info.shape) for name, info in ours.items()} == shapes
    (tmp_path / "m.safetensors").write_bytes(data)
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        for name, entry in theirs.items():
            assert bytes(file.read_bytes(name)) == bytes(entry["data"])


@pytest.mark.native_only
def test_what_only_the_library_refuses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("safetensors")

    def refuse(*_: Any, **__: Any) -> Any:
        raise library.SafetensorError("not this one")

    write_safetensors(tmp_path / "m.safetensors", {"w": np.zeros(2)})
    for limit, function in ((1 << 20, "deserialize"), (0, "safe_open")):
        with monkeypatch.context() as patch:
            patch.setattr(library, function, refuse)
            patch.setattr("pyapp.formats.safetensors.LIBRARY_COPIES", limit)
            with pytest.raises(FileFormatError, match="the safetensors library refuses it: not this one"):
                open_checkpoint(tmp_path / "m.safetensors")
    with open_checkpoint(tmp_path / "m.safetensors") as file:
        assert file.read("w").tolist() == [0, 0]


@pytest.mark.native_only
@pytest.mark.parametrize("seed", range(80, 100))
def test_both_writers_write_the_same_bytes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("safetensors")
    calls = []
    serialize = library.serialize
    monkeypatch.setattr(library, "serialize", lambda *a, **k: calls.append(1) or serialize(*a, **k))
    made = arrays(seed)
    write_safetensors(tmp_path / "a", made, {"format": "pt"})
    assert calls == [1]
    monkeypatch.setattr("pyapp.formats.safetensors.LIBRARY_WRITES", -1)
    write_safetensors(tmp_path / "b", made, {"format": "pt"})
    assert calls == [1] and (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_blocks_in_a_uint8_tensor(tmp_path: Path) -> None:
    """A convention of pyapp: the metadata name the matrices that are GGML's q8_0 blocks."""
    values = np.random.default_rng(3).standard_normal((6, 64)).astype(np.float32)
    blocks = quantize_blocks(values, "q8_0")
    table = np.frombuffer(blocks.data, np.uint8).reshape(6, 68)
    path = tmp_path / "blocks.safetensors"
    write_safetensors(path, {"w": from_numpy(table.copy()), "b": from_numpy(values[0])}, {"w": "q8_0"})
    with open_checkpoint(path) as checkpoint:
        assert (checkpoint.tensors["w"].dtype, checkpoint.tensors["w"].shape) == ("q8_0", (6, 64))
        assert checkpoint.tensors["b"].dtype == "float32"
        read = checkpoint.read("w", finite=True)
        assert read.dtype.name == "q8_0" and bytes(checkpoint.read_bytes("w")) == bytes(blocks.data)
        assert np.abs(quant.dequantize(read).numpy() - values).max() <= np.abs(values).max() / 127
    for wrong, metadata in ((table[:, :67], {"w": "q8_0"}), (table.astype(np.float32), {"w": "q8_0"})):
        write_safetensors(path, {"w": from_numpy(wrong.copy())}, metadata)
        with pytest.raises(FileFormatError, match="does not fit that type|not whole blocks"):
            open_checkpoint(path)
