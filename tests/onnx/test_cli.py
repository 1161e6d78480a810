"""pyapp run-onnx."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.mirror import device as _device  # noqa: F401 (registers the mirror)

from . import builder as b

pytestmark = pytest.mark.native_only


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    graph = b.graph(
        [b.node("Add", ["x", "y"], ["sum"]), b.node("Mul", ["x", "y"], ["product"])],
        [b.value("x", ["n"]), b.value("y", ["n"])], [b.value("sum"), b.value("product")],
    )  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(b.model(graph))
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    np.save(tmp_path / "y.npy", np.array([4, 5, 6], np.float32))
    np.savez(tmp_path / "both.npz", x=np.array([1, 2], np.float32), y=np.array([3, 4], np.float32))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    from pyapp.cli import run as run_command

    code = run_command(["run-onnx", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_arrays_in_and_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, folder / "m.onnx", "-i", folder / "x.npy", "-i", f"y={folder / 'y.npy'}", "-o", folder / "out.npz"
    )
    assert code == 0, err
    assert out.splitlines() == ["sum: float32 3: 5, 7, 9", "product: float32 3: 4, 10, 18"]
    assert " ms" in err and "written to" in err
    found = np.load(folder / "out.npz")
    np.testing.assert_array_equal(found["sum"], [5, 7, 9])
    np.testing.assert_array_equal(found["product"], [4, 10, 18])


def test_on_a_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "-i", folder / "x.npy", "-i", folder / "y.npy", "--device"
    code, out, err = run(capsys, folder / "m.onnx", *arguments, "mirror")
    assert code == 0 and out.splitlines() == ["sum: float32 3: 5, 7, 9", "product: float32 3: 4, 10, 18"], err
    code, _, err = run(capsys, folder / "m.onnx", *arguments, "tpu")
    assert code == 2 and "--device" in err


def test_json_and_several_arrays_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, folder / "m.onnx", "-i", folder / "both.npz", "--repeats", 3, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [event["type"] for event in events] == ["item", "item", "metric", "done"]
    assert events[0] == {
        "type": "item",
        "index": 0,
        "output": "sum",
        "dtype": "float32",
        "shape": [2],
        "first": [4.0, 6.0],
    }


def test_mistakes_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.onnx").write_bytes((folder / "m.onnx").read_bytes()[:50])
    np.save(folder / "whole.npy", np.array([1, 2, 3]))
    for arguments, message in (
        ((folder / "m.onnx",), "the input 'x' is missing"),
        ((folder / "m.onnx", "-i", folder / "whole.npy", "-i", folder / "y.npy"), "is float32, not int64"),
        ((folder / "m.onnx", "-i", folder / "both.npz", "-i", f"z={folder / 'x.npy'}"), "no input 'z'"),
        ((folder / "broken.onnx",), "not a usable ONNX model"),
        ((folder / "x.npy",), "not an ONNX model"),
        ((folder / "none.onnx",), "no such file"),
        ((folder / "m.onnx", "-i", folder / "m.onnx"), "this is ONNX"),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 1 and message in err, err
