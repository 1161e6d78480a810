"""Named datasets from a server, a folder or the package; folders of pictures, tables, texts, shards."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import struct
import tarfile
import tracemalloc
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import datasets, keras
from pyapp.datasets import archives, pictures, texts
from pyapp.datasets.files import DataFile
from pyapp.errors import DownloadError, FileFormatError, ModelNotFoundError, OptionError, StorageFullError
from pyapp.formats import write_safetensors
from pyapp.utils.data import (
    DataLoader,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
)
from tests import hostile
from tests import hub_server as server


def idx(array: Any) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def packed(files: dict[str, bytes]) -> bytes:
    """A .tar.gz."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


IMAGES = np.random.default_rng(1).integers(0, 256, (5, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 1, 9, 0, 2], np.uint8)
MNIST = {
    "train-images-idx3-ubyte.gz": gzip.compress(idx(IMAGES)), "train-labels-idx1-ubyte.gz": gzip.compress(idx(LABELS))
}  # fmt: skip
RECORDS = np.random.default_rng(0).integers(0, 10, (3, 3073)).astype(np.uint8)  # of CIFAR-10: the class, and pixels
ARCHIVES = {
    "cifar-10-binary.tar.gz": packed(
        {f"cifar-10-batches-bin/data_batch_{k}.bin": RECORDS.tobytes() for k in range(1, 6)}
        | {"cifar-10-batches-bin/batches.meta.txt": b"".join(b"kind%d\n" % k for k in range(10))}
    ),
    "aclImdb_v1.tar.gz": packed({"aclImdb/train/pos/0_9.txt": b"Good", "aclImdb/train/neg/1_2.txt": b"Bad"}),
}
STORIES = "One day.\nShe ran.\n<|endoftext|>\nTwo dogs.\n<|endoftext|>\n\nThree.\n<|endoftext|>\n"


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A server with small files in the real formats, under the names and addresses of the real ones."""
    running = server.Hub({
        "data": MNIST | ARCHIVES, "datasets/roneneldan/TinyStories": {"TinyStories-valid.txt": STORIES.encode()}
    }, large=(".gz", ".txt"))  # fmt: skip
    running.start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HF_ENDPOINT", running.address)
    monkeypatch.setenv("PYAPP_DATASETS", str(tmp_path / "cache"))
    monkeypatch.setattr("pyapp.hub.http.RETRY_SECONDS", 0.01)
    for name, data in MNIST.items():
        urls = (f"http://127.0.0.1:1/{name}", f"{running.address}/storage/data/{name}")  # nobody answers at the first
        file = DataFile(name, urls, len(data), hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(pictures.IDX_FILES["mnist"], name, file)
    for name, data in ARCHIVES.items():
        file = DataFile(name, (f"{running.address}/storage/data/{name}",), len(data), hashlib.sha256(data).hexdigest())
        if name in pictures.CIFAR_FILES:
            monkeypatch.setitem(pictures.CIFAR_FILES, name, file)
        else:
            monkeypatch.setattr(texts, "IMDB", file)
    yield running
    running.stop()


@pytest.mark.native_only
def test_a_dataset_is_downloaded_once_and_verified(remote: Any, tmp_path: Path) -> None:
    remote.faults = [server.Fault("cut", 50)]  # the connection breaks: the rest is fetched
    found = datasets.mnist()
    assert found.images.shape == (5, 1, 28, 28) and (found.images[:, 0].numpy() == IMAGES).all()
    assert found.labels.tolist() == LABELS.tolist() and found[1][1] == 1 and len(found.classes) == 10
    requests = len(remote.log)
    assert any(request.start == 50 for request in remote.log)
    assert all(request.authorization is None for request in remote.log)  # the hub's token goes to nobody else
    remote.stop()
    assert len(datasets.mnist(transform=lambda picture: picture.float() / 255)) == 5 and len(remote.log) == requests
    again = datasets.mnist(folder=tmp_path / "cache" / "mnist")
    assert again.images.equal(found.images)


@pytest.mark.native_only
@pytest.mark.parametrize(
    "fault, message",
    [
        (server.Fault("flip"), "arrived damaged: its checksum"),
        (server.Fault("more"), "sends more than"),
        (server.Fault("status", status=404), "status 404"),
    ],
)
def test_a_wrong_download_leaves_nothing(remote: Any, tmp_path: Path, fault: Any, message: str) -> None:
    data = MNIST["train-labels-idx1-ubyte.gz"]
    file = DataFile(
        "labels", (f"{remote.address}/storage/data/train-labels-idx1-ubyte.gz",), len(data),
        hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    from pyapp.datasets.files import obtain

    remote.faults = [fault]
    with pytest.raises(DownloadError, match=message) as caught:
        obtain("x", file)
    assert "HF_ENDPOINT" not in str(caught.value)
    assert not [path for path in (tmp_path / "cache" / "x").glob("*") if path.is_file()]
    assert obtain("x", file).read_bytes() == data  # the next attempt succeeds


@pytest.mark.native_only
def test_archives_are_downloaded_and_verified(remote: Any) -> None:
    remote.faults = [server.Fault("cut", 100)]
    found = datasets.cifar10()
    assert found.images.shape == (15, 3, 32, 32) and found.classes[9] == "kind9"
    assert (found.images[3].numpy().reshape(-1) == RECORDS[0, 1:]).all() and found.labels[4] == int(RECORDS[1, 0])
    assert any(request.start == 100 for request in remote.log)
    remote.faults = [server.Fault("flip")]
    with pytest.raises(DownloadError, match="arrived damaged: its checksum"):
        datasets.imdb()
    assert list(datasets.imdb()) == [("Bad", 0), ("Good", 1)]
    remote.stop()
    assert len(datasets.cifar10()) == 15 and len(datasets.imdb()) == 2  # of the cache


@pytest.mark.native_only
def test_no_network_and_no_space(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
        with pytest.raises(StorageFullError, match="bytes are needed.*PYAPP_DATASETS"):
            datasets.mnist()
    remote.stop()
    with pytest.raises(DownloadError, match="train-images.*(cannot be reached|broke off)"):
        datasets.mnist()


@pytest.mark.native_only
def test_stories_of_the_hub(remote: Any) -> None:
    found = datasets.tiny_stories("validation")
    assert list(found) == ["One day.\nShe ran.", "Two dogs.", "Three."]
    assert list(DataLoader(found, None, num_workers=2)) == ["One day.\nShe ran.", "Two dogs.", "Three."]


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(IMAGES))[:-200], "damaged"),
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(IMAGES)[:-1]), "fewer"),
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(IMAGES) + b"x"), "more"),
        ("train-images-idx3-ubyte.gz", gzip.compress(bytes((0, 0, 8, 3)) + b"\xff" * 12), "shape is"),
        ("train-images-idx3-ubyte.gz", b"<html>no such bucket</html>", "not an IDX file"),
        ("train-images-idx3-ubyte.gz", idx(IMAGES)[:-1], "needs 3,936"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS[:4])), "expected"),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(LABELS + 7)), "a label is 16, there are 10 classes"),
    ],
)
def test_damaged_files_of_pictures(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        datasets.mnist(folder=write(tmp_path, MNIST | {name: data}))


def test_cifar(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (3, 3074)).astype(np.uint8)
    rows[:, 0], rows[:, 1] = [1, 0, 19], [5, 99, 0]
    names = {"fine_label_names.txt": 100, "coarse_label_names.txt": 20}
    files = {f"cifar-100-binary/{name}": "".join(f"k{k}\n" for k in range(n)).encode() for name, n in names.items()}
    folder = write(tmp_path, {"cifar-100-binary.tar.gz": packed(files | {"cifar-100-binary/test.bin": rows.tobytes()})})
    found = datasets.cifar100("test", folder=folder)
    assert found.labels.tolist() == [5, 99, 0] and found.classes[99] == "k99"
    assert (found.images.numpy() == rows[:, 2:].reshape(3, 3, 32, 32)).all()
    assert datasets.cifar100("test", coarse=True, folder=folder).labels.tolist() == [1, 0, 19]
    with pytest.raises(FileFormatError, match="has no train.bin"):
        datasets.cifar100(folder=folder)
    both = {f"cifar-100-binary/{part}.bin": rows.tobytes() for part in ("train", "test")}
    write(tmp_path, {"cifar-100-binary.tar.gz": packed(files | both)})
    (x, y), _ = keras.datasets.cifar100.load_data(label_mode="coarse", folder=folder)
    assert y.tolist() == [[1], [0], [19]] and (x[1].transpose(2, 0, 1).reshape(-1) == rows[1, 2:]).all()
    ten = {f"cifar-10-batches-bin/data_batch_{k}.bin": rows[:, 1:].tobytes()[:-k] for k in range(1, 6)}
    ten["cifar-10-batches-bin/batches.meta.txt"] = b"a\n" * 10
    write(tmp_path, {"cifar-10-binary.tar.gz": packed(ten)})
    with pytest.raises(FileFormatError, match="records have 3,073"):
        datasets.cifar10(folder=folder)
    write(tmp_path, {"cifar-10-binary.tar.gz": packed(ten)[:-300]})
    with pytest.raises(FileFormatError, match="damaged|has no"):
        datasets.cifar10(folder=folder)
    with pytest.raises(OptionError, match="'train' or 'test'"):
        datasets.cifar10("validation")
    with pytest.raises(ModelNotFoundError, match="no file cifar-10-binary"):
        datasets.cifar10(folder=tmp_path / "empty")


def test_reviews(tmp_path: Path) -> None:
    files = {
        "train/pos/1_9.txt": "Good — ja".encode(), "train/neg/0_2.txt": b"Bad", "train/pos/0_7.txt": b"Nice",
        "train/unsup/0_0.txt": b"?", "../x": b"!",
    }  # fmt: skip
    files = {f"aclImdb/{name}": data for name, data in files.items()}
    folder = write(tmp_path, {texts.IMDB.name: packed(files)})
    found = datasets.imdb(folder=folder, transform=str.upper)
    assert list(found) == [("BAD", 0), ("NICE", 1), ("GOOD — JA", 1)] and found.texts[2] == "Good — ja"
    with pytest.raises(FileFormatError, match="no reviews of 'test'"):
        datasets.imdb("test", folder=folder)


def test_archives_that_are_larger_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few packed kilobytes that announce a name of gigabytes, or many of them."""
    monkeypatch.setattr(archives, "WHOLE_LIMIT", 8 << 20)

    def archive(kind: bytes, size: int, name: str = "x") -> bytes:
        member = tarfile.TarInfo(name)
        member.size, member.type = size, kind
        return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(10 << 20))

    review = "aclImdb/train/pos/1_9.txt"
    cases = [
        (archive(b"x", 1 << 40), "a head of more than 1,048,576 bytes"),
        (archive(b"L", 9 << 20), "a head of more than 1,048,576 bytes"),
        (archive(b"0", 9 << 20), "more than 8,388,608 bytes"),
        (archive(b"0", 2 << 20, review), "2,097,152 bytes, at most 1,048,576 are read"),
    ]
    for data, message in cases:
        folder = write(tmp_path, {texts.IMDB.name: data})
        with hostile.peak_memory(4 << 20), pytest.raises(FileFormatError, match=f"aclImdb_v1.tar.gz: .*{message}"):
            datasets.imdb(folder=folder)


def test_texts_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.txt"
    path.write_text("one<|endoftext|>two\n<|endoftext|><|endoftext|>three\n\nlines\n", encoding="utf-8")
    assert list(datasets.Stories(path)) == ["one", "two", "three\n\nlines"]
    monkeypatch.setattr(texts, "STORY_LIMIT", 100)
    for endless in ("x" * 101, "x\n" * 51):
        path.write_text(f"one<|endoftext|>{endless}", encoding="utf-8")
        with pytest.raises(FileFormatError, match="text 2 has more than 100 characters.*between texts"):
            list(datasets.Stories(path))


def test_digits() -> None:
    found = datasets.digits(transform=lambda picture: picture.float() / 16)
    picture, label = found[17]
    assert len(found) == 1797 and picture.shape == (1, 8, 8) and int(found.images.amax()) == 16
    assert np.bincount(found.labels.numpy()).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert label == 7 and int(found.images.long().sum()) == 561718


def test_folders_of_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("cat/2.png", (255, 0, 0)), ("cat/1.jpg", (0, 0, 9)), ("ant/x/a.bmp", (1, 2, 3))):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (4, 3), colour).save(path)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    found = datasets.ImageFolder(tmp_path)
    assert found.classes == ["ant", "cat"] and [path.name for path, _ in found.samples] == ["a.bmp", "1.jpg", "2.png"]
    picture, label = found[0]
    assert picture.shape == (3, 3, 4) and picture[:, 0, 0].tolist() == [1, 2, 3] and label == 0
    assert datasets.ImageFolder(tmp_path, mode="L")[2][0].shape == (1, 3, 4)
    (tmp_path / "cat" / "2.png").write_bytes((tmp_path / "cat" / "2.png").read_bytes()[:40])
    with pytest.raises(FileFormatError, match="2.png"):
        found[2]
    (tmp_path / "dog").mkdir()
    with pytest.raises(ModelNotFoundError, match="classes dog have no pictures"):
        datasets.ImageFolder(tmp_path)


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('\ufeffage,height,city\n30,1.8,"Ulm, Old"\n41,,Bonn\n')
    table = datasets.read_csv(path)
    assert table["age"].dtype is pyapp.int64 and table["city"] == ["Ulm, Old", "Bonn"]
    assert table[0] == {"age": 30, "height": 1.8, "city": "Ulm, Old"} and np.isnan(table[1]["height"])
    assert table.features(without="city").shape == (2, 2) and table.codes("city")[0].tolist() == [1, 0]
    assert table.codes("height")[0].tolist() == [0, 1]
    batch = next(iter(DataLoader(table, 2)))
    assert batch["age"].tolist() == [30, 41] and batch["city"] == ["Ulm, Old", "Bonn"]
    assert datasets.read_csv(path, header=False)["0"][0].endswith("age")
    with pytest.raises(OptionError, match="'city' has texts"):
        table.features()
    with pytest.raises(KeyError, match="no column 'name'"):
        table["name"]
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(FileFormatError, match="line 3 has 1 cells, expected 2"):
        datasets.read_csv(path)
    path.write_bytes(b"a,b\n\xff,2\n")
    with pytest.raises(FileFormatError, match="line 2 is not text in utf-8"):
        datasets.read_csv(path)
    with pytest.raises(FileNotFoundError):
        datasets.read_parquet(tmp_path / "none.parquet")


def test_shards(tmp_path: Path) -> None:
    for number, count in enumerate((3, 2)):
        rows = pyapp.arange(count * 2).reshape(count, 2) + 10 * number
        write_safetensors(tmp_path / f"{number}.safetensors", {"x": rows.float(), "y": pyapp.arange(count)})
    shards = datasets.TensorShards(sorted(tmp_path.glob("*.safetensors")))
    assert len(shards) == 5 and shards[3]["x"].tolist() == [10, 11] and shards[-1]["y"].item() == 1
    assert next(iter(DataLoader(shards, 5, shuffle=True)))["x"].shape == (5, 2)
    write_safetensors(tmp_path / "z.safetensors", {"x": pyapp.ones(2, 3), "y": pyapp.arange(2)})
    with pytest.raises(FileFormatError, match="z.safetensors: it has the tensors"):
        datasets.TensorShards(sorted(tmp_path.glob("*.safetensors")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,a\n1,2\n", "two columns have the name 'a'.*header=False"),
        (b"a,b\n", "no rows"),
        (b"a;b\n1;2,5\n", "line 2 has 2 cells, expected 1.*delimiter="),
        ("a\nä\n".encode("latin-1"), "line 2 is not text in utf-8.*encoding="),
    ],
)
def test_damaged_csv(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(FileFormatError, match=message):
        datasets.read_csv(tmp_path / "t.csv")


@pytest.mark.oracle
def test_damaged_parquet(tmp_path: Path) -> None:
    """Whatever pyarrow raises for a file: what it does not implement has no built-in error's class."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 is not enough")
    with pytest.raises(FileFormatError, match="not a Parquet file that can be read"):
        datasets.read_parquet(path)
    parquet.write_table(pyarrow.table({"a": pyarrow.array([2**63], pyarrow.uint64())}), path)
    assert datasets.read_parquet(path)["a"] == [2**63]  # which no int64 holds
    text = pyarrow.array([b"\xff"], pyarrow.binary()).view(pyarrow.string())
    late = pyarrow.array([2**30], pyarrow.date32())  # a day that Python has no date for
    for column in (text, late):
        parquet.write_table(pyarrow.table({"a": column}), path)
        with pytest.raises(FileFormatError, match="not a Parquet file that can be read"):
            datasets.read_parquet(path)


@pytest.mark.oracle
def test_parquet_files_that_are_larger_in_memory(tmp_path: Path) -> None:
    """Numbers that repeat, lists of them, and texts that rows share: refused before they are made, or shared."""
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    path, count = tmp_path / "t.parquet", 20_000
    mixed = {
        "whole": list(range(count)), "some": [None if k % 3 else k for k in range(count)],
        "text": [None if k % 5 == 0 else f"t{k % 9}" for k in range(count)], "other": [f"u{k}" for k in range(count)],
        "list": [[k, k + 1] for k in range(count)], "none": pyarrow.array([None] * count, pyarrow.int32()),
    }  # fmt: skip
    parquet.write_table(pyarrow.table(mixed), path, row_group_size=7_000, dictionary_pagesize_limit=10_000)
    table = datasets.read_parquet(path)
    assert table["whole"].tolist() == mixed["whole"] and table["none"] == [None] * count
    assert [None if x != x else x for x in table["some"].tolist()] == mixed["some"]
    assert all(table[name] == mixed[name] for name in ("text", "other", "list"))
    assert len(datasets.read_parquet(path, ["whole"], most_bytes=8 * count)) == count
    with pytest.raises(FileFormatError, match="no column 'where'; there are whole, some"):
        datasets.read_parquet(path, ["where"])
    zeros, long = pyarrow.array([0] * 1_000_000, pyarrow.int8()), "y" * 100_000
    for column in (
        pyarrow.chunked_array([zeros] * 5), pyarrow.array([[0] * 1_000_000]).take([0] * 3),
        [long + str(k) for k in range(500)],
    ):  # fmt: skip
        parquet.write_table(pyarrow.table({"a": column}), path, compression="zstd")
        assert path.stat().st_size < 4_000_000
        tracemalloc.start()
        with pytest.raises(FileFormatError, match=r"rows of 1 columns would take [\d,]+ bytes in memory or more"):
            datasets.read_parquet(path, most_bytes=30_000_000)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
        tracemalloc.stop()
    parquet.write_table(pyarrow.table({"a": [long] * 5_000}), path)
    assert datasets.read_parquet(path, most_bytes=1_000_000)["a"] == [long] * 5_000


def test_lines_and_windows_of_tokens(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("first\r\n\nä — third".encode())
    (tmp_path / "b.txt").write_bytes(b"fourth\n\xff\n")
    (tmp_path / "c.txt").write_bytes(b"")
    lines = datasets.TextLines([tmp_path / "a.txt", tmp_path / "c.txt", tmp_path / "b.txt"])
    assert [lines[k] for k in range(4)] == ["first", "", "ä — third", "fourth"] and len(lines) == 5
    with pytest.raises(FileFormatError, match="b.txt, line 2: the line is not UTF-8"):
        lines[4]
    windows = datasets.TokenWindows(list(range(10)), 3)
    assert [w[0].tolist() + [w[1].tolist()[-1]] for w in windows] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "ids.bin")
    mapped = datasets.TokenWindows(tmp_path / "ids.bin", 4, stride=2)
    assert len(mapped) == 3 and mapped[-1][1].tolist() == [5, 6, 7, 8]
    with pytest.raises(OptionError, match="windows of 10 need 11 tokens"):
        datasets.TokenWindows(list(range(10)), 10)


def test_batches_of_tensors_are_their_rows() -> None:
    """One selection for each tensor gives what a batch of examples gives, for a part of a set and places from the end
    too."""
    rows = TensorDataset(pyapp.arange(12.0).reshape(6, 2), pyapp.arange(6))
    part = Subset(rows, pyapp.tensor([5, 0, 3]))
    for dataset, order in ((rows, [4, -1, 0]), (part, [2, 0, -2])):
        for batch in (order, order[:1]):
            found = next(iter(DataLoader(dataset, batch_sampler=[batch])))
            expected = default_collate([dataset[i] for i in batch])
            assert type(found) is list and [x.tolist() for x in found] == [x.tolist() for x in expected]
    with pytest.raises(IndexError, match="9"):
        next(iter(DataLoader(rows, batch_sampler=[[0, 9]])))


def test_batches_keep_the_types_of_mappings() -> None:
    """As torch.utils.data.default_collate, of a mapping of any type, and of arrays of complex numbers."""
    ordered, counted = [OrderedDict(a=i, b="x") for i in (1, 2)], [defaultdict(list, a=[i]) for i in (1, 2)]
    found, later = default_collate(ordered), default_collate(counted)
    assert type(found) is OrderedDict and found["a"].tolist() == [1, 2] and found["b"] == ["x", "x"]
    assert later.default_factory is list and later["a"][0].tolist() == [1, 2] and counted[0]["a"] == [1]
    assert type(default_collate([UserDict(a=1)])) is UserDict
    fixed = default_collate([MappingProxyType({"a": i}) for i in (1, 2)])
    assert type(fixed) is MappingProxyType and fixed["a"].tolist() == [1, 2]
    assert type(default_convert(ordered[0])) is OrderedDict
    assert default_collate([np.array([1j]), np.array([2j])]).tolist() == [[1j], [2j]]
    with pytest.raises(RuntimeError, match=r"of one shape, got shapes \(3,\), \(2,\)"):
        default_collate([np.arange(3), np.arange(2)])


class Batched:
    """A dataset that gives several examples at once."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        raise AssertionError("asked one by one")

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [10 * i for i in indices]


def test_loaders_refuse_what_torch_refuses() -> None:
    assert [b.tolist() for b in DataLoader(Subset(Batched(), [5, 1, 2]), batch_size=2)] == [[50, 10], [20]]
    loader = DataLoader(range(3), batch_size=2)
    for wrong in (lambda: setattr(loader, "batch_size", 3), lambda: DataLoader([1], multiprocessing_context="spawn")):
        with pytest.raises(ValueError, match="DataLoader"):
            wrong()
    with pytest.raises(ValueError, match="list of numbers"):
        WeightedRandomSampler([[0.5, 0.5]], 2)
    with pytest.raises(TypeError, match="replacement is True or False"):
        RandomSampler(range(3), replacement=3)
