"""keras.datasets of texts and houses, from files that a script makes in the real formats."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from pyapp.datasets.files import DataFile, obtain
from pyapp.errors import DownloadError, FileFormatError, ModelNotFoundError
from tests import hub_server as server
from tests.keras.dataset_case import CALLS, GOLDEN, WORDS, described, write
from tests.together import check_each

datasets = keras.datasets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("datasets")
    write(found)
    return found


def test_datasets_have_the_order_and_numbers_of_keras(folder: Path) -> None:
    def check(name: str, settings: Any, wanted: Any) -> None:
        found = getattr(datasets, name).load_data(folder=folder, **settings)
        assert described(found) == wanted

    golden = json.loads(GOLDEN.read_text())
    check_each(check, [(*call, wanted) for call, wanted in zip(CALLS, golden, strict=True)])
    assert datasets.imdb.get_word_index(folder=folder) == datasets.reuters.get_word_index(folder=folder) == WORDS
    names = datasets.reuters.get_label_names()
    assert len(names) == 46 and names[3:5] == ("earn", "acq")
    (rows, labels), _ = datasets.imdb.load_data(num_words=12, folder=folder)
    assert keras.utils.pad_sequences(rows, maxlen=5).shape == (9, 5) and labels.shape == (9,)


NO_ELEMENTS = (
    b"\x93NUMPY\x01\x00\x3e\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9999999,)}".ljust(71) + b"\n"
)


class Runs:
    def __reduce__(self) -> Any:
        return (os.system, ("touch should_not_be_there",))


def test_what_is_no_dataset_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.datasets.arrays.MEMBER_LIMIT", 100_000)
    whole = (folder / "reuters.npz").read_bytes()

    def packed(**arrays: Any) -> bytes:
        target = io.BytesIO()
        np.savez(target, **arrays)
        return target.getvalue()

    def objects(*values: Any) -> Any:
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    def with_member(data: bytes) -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", data)
            archive.writestr("y.npy", data)
        return target.getvalue()

    def refused(_: str, words: str, data: bytes) -> None:
        (tmp_path / "reuters.npz").write_bytes(data)
        with pytest.raises(FileFormatError, match=words):
            datasets.reuters.load_data(folder=tmp_path)

    check_each(refused, [
        ("code", r"asks for (posix|nt)\.system, which is not run", packed(x=objects([1], Runs()), y=np.zeros(2))),
        ("texts", "something else than lists of whole numbers", packed(x=objects([1], ["a"]), y=np.zeros(2))),
        ("no lists", "something else than lists", packed(x=objects(1, 2), y=np.zeros(2))),
        ("no labels", "has no y.npy", packed(x=objects([1], [2]))),
        ("no array", "x.npy cannot be read", with_member(b"\x93NUMPY\x01\x00")),
        ("a shape without elements", r"an array of \(9999999,\) has", with_member(NO_ELEMENTS)),
        ("a huge member", "announces 200,000 bytes", with_member(b"\0" * 200_000)),
        *[(f"cut at {size}", "damaged|cannot be read", whole[:size]) for size in (0, 30, len(whole) - 9)],
    ])  # fmt: skip
    assert not Path("should_not_be_there").exists()
    (tmp_path / "imdb_word_index.json").write_text("[1]")
    with pytest.raises(FileFormatError, match="no index of words"):
        datasets.imdb.get_word_index(folder=tmp_path)
    with pytest.raises(ModelNotFoundError, match=r"no file boston_housing.npz.*Download https://storage"):
        datasets.boston_housing.load_data(folder=tmp_path)
    with pytest.raises(ValueError, match="test_split is from 0"):
        datasets.boston_housing.load_data(test_split=1.0, folder=folder)
    with pytest.raises(ValueError, match="no text is shorter"):
        datasets.reuters.load_data(maxlen=2, folder=folder)


@pytest.mark.native_only
def test_files_are_downloaded_once_and_verified(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {name: (folder / name).read_bytes() for name in ("imdb.npz", "imdb_word_index.json")}
    running = server.Hub({"data": data}, large=(".npz", ".json"))
    running.start()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("PYAPP_DATASETS", str(tmp_path))
    monkeypatch.setattr("pyapp.hub.http.RETRY_SECONDS", 0.01)

    def at(name: str, **sums: str) -> DataFile:
        return DataFile(name, (f"{running.address}/storage/data/{name}",), **sums)

    files = datasets.imdb._files
    right = hashlib.md5(data["imdb_word_index.json"]).hexdigest()
    monkeypatch.setattr(files, "archive", at("imdb.npz", sha256=hashlib.sha256(data["imdb.npz"]).hexdigest()))
    monkeypatch.setattr(files, "index", at("imdb_word_index.json", sha256="", md5=right))
    assert len(datasets.imdb.load_data()[0][0]) == 9 and datasets.imdb.get_word_index() == WORDS
    with pytest.raises(DownloadError, match="has not the MD5 0000"):
        obtain("other", at("imdb_word_index.json", sha256="", md5="0" * 32))
    assert not list((tmp_path / "other").glob("*.json"))
    with pytest.raises(DownloadError, match="checksum"):
        obtain("other", at("imdb.npz", sha256="0" * 64))
    running.stop()
    assert len(datasets.imdb.load_data()[0][0]) == 9  # of the cache
    with pytest.raises(DownloadError, match="reuters.npz.*(cannot be reached|broke off)"):
        monkeypatch.setattr(datasets.reuters._files, "archive", at("reuters.npz", sha256="0" * 64))
        datasets.reuters.load_data()
