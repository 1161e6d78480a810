"""Files appear complete or not at all, and nothing is left behind; writers take their arguments in either order."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.errors import StorageFullError
from pyapp.formats import open_checkpoint, write_gguf, write_npz, write_safetensors
from pyapp.formats.folders import made_folder
from pyapp.formats.sharded import write_sharded_safetensors
from pyapp.formats.sink import open_sink

VALUES = {"w": np.arange(6.0, dtype=np.float32).reshape(2, 3)}


@pytest.mark.parametrize("write", [write_safetensors, write_gguf, write_npz])
def test_the_tensors_may_come_first(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "one", VALUES)
    write(VALUES, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with open_checkpoint(tmp_path / "two") as file:
        assert file.read("w").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("write", [write_safetensors, write_gguf, write_npz])
def test_what_cannot_be_written_is_named(tmp_path: Path, write: Any) -> None:
    with pytest.raises(TypeError, match=r"tensors must map names to tensors, got Linear; give its state_dict\(\)"):
        write(tmp_path / "m", pyapp.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="the target must be a path or a binary file, got int"):
        write(7, VALUES)
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), open_sink(tmp_path / "f") as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert (tmp_path / "f").read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_the_longest_name_that_the_system_takes(tmp_path: Path) -> None:
    name = "n" * 255
    with open_sink(tmp_path / name) as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.native_only
def test_a_file_has_the_usual_rights(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with open_sink(tmp_path / "f") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


@pytest.mark.native_only
def test_an_old_file_keeps_its_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o600)
    with open_sink(tmp_path / "f") as file:
        file.write(b"new")
    assert (tmp_path / "f").read_bytes() == b"new" and (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for other users than root, who may write all files
    with pytest.raises(PermissionError, match="the file is read-only: .*f'$"), open_sink(tmp_path / "f") as file:
        file.write(b"newer")
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.native_only
def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "latest").symlink_to("versions/1")
    for content in (b"first", b"second"):  # the file that the link names is missing, then there
        with open_sink(tmp_path / "latest") as file:
            file.write(content)
        assert (tmp_path / "latest").is_symlink() and (tmp_path / "versions/1").read_bytes() == content
    (tmp_path / "lost").symlink_to("gone/1")
    with pytest.raises(FileNotFoundError, match="there is no folder .*gone' to write to"), open_sink(tmp_path / "lost"):
        pass


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(OSError, match="f/x'$"), open_sink(tmp_path / "f" / "x"):
        pass


@pytest.mark.native_only
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files without a name")
def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pyapp.formats.sink import open_sink\n"
        "with open_sink(sys.argv[1]) as file:\n"
        "    file.write(bytes(1 << 20)); file.flush(); print('written', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "f")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == []


@pytest.mark.native_only
def test_where_files_need_names_the_next_write_tidies_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", 0, raising=False)
    done = subprocess.Popen([sys.executable, "-c", "pass"])
    done.wait()
    left, ours = tmp_path / f".pyapp.{done.pid}.0a1b2c3d.partial", tmp_path / f".pyapp.{os.getpid()}.00000000.partial"
    left.write_bytes(b"x")
    ours.write_bytes(b"x")
    with open_sink(tmp_path / "f") as file:
        file.write(b"y")
    assert sorted(os.listdir(tmp_path)) == [ours.name, "f"] and (tmp_path / "f").read_bytes() == b"y"


@pytest.mark.native_only
def test_a_device_is_written_to_not_replaced() -> None:
    write_safetensors("/dev/null", VALUES)
    assert not Path("/dev/null").is_file() and Path("/dev/null").exists()


@pytest.mark.native_only
def test_a_full_disk_is_named() -> None:
    with pytest.raises(StorageFullError, match="/dev/full: the disk is full"):
        write_safetensors("/dev/full", {"w": np.zeros(1 << 20)})


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, "the disk is full"), (errno.EFBIG, "file too large")])
def test_a_folder_that_could_not_be_filled_is_gone(tmp_path: Path, number: int, told: str) -> None:
    def fill(folder: Path) -> None:
        with made_folder(folder) as place:
            (place / "half").write_bytes(b"x")
            raise OSError(number, "full", "half")

    with pytest.raises(StorageFullError, match=told):
        fill(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kept").write_bytes(b"y")
    with pytest.raises(StorageFullError):
        fill(tmp_path / "old")
    assert (tmp_path / "old" / "kept").read_bytes() == b"y"


@pytest.mark.native_only
def test_shards_that_are_not_all_there_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, done: Any = os.fsync) -> None:
        if any(tmp_path.glob("*.safetensors")):
            raise OSError(errno.ENOSPC, "full")
        done(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="00002-of-00002"):
        write_sharded_safetensors(tmp_path, {"a": pyapp.ones(4), "b": pyapp.ones(4)}, limit=16)
    assert os.listdir(tmp_path) == []


def test_the_bytes_are_those_of_an_open_file(tmp_path: Path) -> None:
    stream = io.BytesIO()
    write_safetensors(stream, VALUES)
    write_safetensors(tmp_path / "f", VALUES)
    assert stream.getvalue() == (tmp_path / "f").read_bytes()
