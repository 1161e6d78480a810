"""saving.KerasFileEditor: what it shows, changes and refuses. Keras' own files are in golden_files.zip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from pyapp.errors import FileFormatError

h5py = pytest.importorskip("h5py")


def model_of(width: int) -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="first"), keras.layers.Dense(width)])


@pytest.fixture
def editor(tmp_path: Path) -> Any:
    model = model_of(2)
    model.save(tmp_path / "model.keras")
    return keras.saving.KerasFileEditor(tmp_path / "model.keras")


def test_summary_shows_layers_and_shapes(editor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    editor.summary()
    printed = capsys.readouterr().out
    assert "dense ('first')" in printed and "0: shape=(4, 2), dtype=float32" in printed
    assert editor.config["class_name"] == "Sequential" and editor.metadata["keras_version"] == keras.version()


def test_compare_counts_what_fits(editor: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert editor.compare(model_of(2)) == {"status": "success", "error_count": 0, "match_count": 4}
    assert editor.compare(model_of(5)) == {"status": "error", "error_count": 2, "match_count": 2}
    editor.delete_object("layers/dense_1")
    assert editor.compare(model_of(2)) == {"status": "error", "error_count": 1, "match_count": 2}
    assert "Object layers/dense_1 present in reference model, missing from saved file" in capsys.readouterr().out


def test_a_changed_file_is_read_by_a_model(editor: Any, tmp_path: Path) -> None:
    path = tmp_path / "changed.weights.h5"
    kernel, bias = np.full((4, 5), 0.5, "float32"), np.arange(5, dtype="float32")
    kept = editor.weights_dict["layers"]["dense"]["0"]
    editor.delete_object("dense_1")
    editor.add_object("layers/other", {"0": kernel})
    editor.add_weights("other", {"1": bias, "2": bias})
    editor.delete_weight("layers/other", "2")
    editor.rename_object("layers/other", "dense_1")
    editor.save(path)
    model = model_of(5)
    model.load_weights(path)
    for weight, wanted in zip(model.get_weights()[::2], (kept, kernel), strict=True):
        np.testing.assert_array_equal(weight, wanted)
    np.testing.assert_array_equal(model.get_weights()[3], bias)


def test_what_is_not_there_is_named(editor: Any, tmp_path: Path) -> None:
    for call, wanted in (
        (lambda: editor.delete_object("layers/none"), "has nothing at 'layers/none'"),
        (lambda: editor.delete_object("0"), "2 objects with the name '0'.*whole path"),
        (lambda: editor.rename_object("layers/dense", "dense_1"), "a last name that is not taken"),
        (lambda: editor.add_object("none/new", {"0": 1}), "no group 'none'"),
        (lambda: editor.add_weights("layers/dense", [1]), "a dict of names"),
        (lambda: editor.delete_weight("layers/dense", "7"), "no weight '7'; it has 0, 1"),
        (lambda: editor.save(tmp_path / "model.h5"), "end in .weights.h5"),
        (lambda: keras.saving.KerasFileEditor(tmp_path / "model.txt"), "end in .keras or .weights.h5"),
    ):
        with pytest.raises(ValueError, match=wanted):
            call()


def test_files_that_read_as_larger_than_they_are_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "hostile.weights.h5"
    with h5py.File(path, "w") as file:
        file["layers/one/0"] = np.ones(3)
        file["layers/one/again"] = file["layers"]
    with pytest.raises(FileFormatError, match="under another name"):
        keras.saving.KerasFileEditor(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("0", (1 << 20,), "float64", compression="gzip")
    with pytest.raises(FileFormatError, match="compressed"):
        keras.saving.KerasFileEditor(path)
