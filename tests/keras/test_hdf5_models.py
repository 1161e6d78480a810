"""Whole models in .h5 files: those of Keras 2 and 3 (golden_hdf5.zip, by make_golden_hdf5.py), and our own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from pyapp.errors import FileFormatError
from pyapp.keras.structures import flatten
from tests.hostile import hostile_documents, survives
from tests.together import check_each

h5py = pytest.importorskip("h5py")

SETTINGS: Any = {"batch_size": 4, "shuffle": False, "verbose": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hdf5")
    with zipfile.ZipFile(Path(__file__).with_name("golden_hdf5.zip")) as archive:
        archive.extractall(folder)
    return folder


def names_inside(path: Path) -> dict[str, Any]:
    """{path of a dataset: shape} of the weights, and the lists of names."""
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        found[name] = (
            getattr(item, "shape", None),
            [list(item.attrs[key]) for key in item.attrs if key == "weight_names"],
        )

    with h5py.File(path) as file:
        file["model_weights"].visititems(note)
        return found | {"layers": list(file["model_weights"].attrs["layer_names"])}


def test_models_load_and_train_on(files: Path, tmp_path: Path) -> None:
    """With the numbers that Keras gives, and those of the file that is written here of the model."""
    golden = np.load(files / "numbers.npz")

    def check(name: str) -> None:
        x, y, made, (loss,) = (
            [golden[key] for key in golden.files if key.startswith(f"{name}.{part}.")]
            for part in ("x", "y", "made", "loss")
        )
        x, y = (one[0] if len(one) == 1 else one for one in (x, y))
        model = keras.models.load_model(files / f"{name}.h5")
        model.save(tmp_path / f"{name}.h5")
        if name.endswith("3"):
            assert names_inside(tmp_path / f"{name}.h5") == names_inside(files / f"{name}.h5")
        for one in (model, keras.models.load_model(tmp_path / f"{name}.h5")):
            for a, b in zip(flatten(one.predict(x, verbose=0)), made, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)
            np.testing.assert_allclose(one.fit(x, y, epochs=2, **SETTINGS).history["loss"], loss, rtol=2e-5)

    check_each(check, [(path.stem,) for path in sorted(files.glob("*.h5"))])


def test_what_h5_files_cannot_have(files: Path, tmp_path: Path) -> None:
    class Own(keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs

    with pytest.raises(ValueError, match=r"an \.h5 file describes Sequential and functional models; save a Own"):
        Own().save(tmp_path / "own.h5")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / "model.h5")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model.h5", overwrite=False)
    with h5py.File(tmp_path / "model.h5", "r+") as file:
        del file.attrs["model_config"]
    with pytest.raises(FileFormatError, match="has weights alone"):
        keras.models.load_model(tmp_path / "model.h5")
    model.load_weights(tmp_path / "model.h5")
    text = json.dumps({"class_name": "Sequential", "config": [{"class_name": "Dense", "config": {
        "units": 2, "batch_input_shape": [None, 3]}}], "keras_version": "1.2.2"})  # fmt: skip
    assert keras.models.model_from_json(text).weights[0].shape == (3, 2)


def test_hostile_files(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "hostile.h5"
    whole = (files / "several2.h5").read_bytes()
    for attribute in ("model_config", "training_config"):
        with h5py.File(files / "several2.h5") as file:
            config = json.loads(file.attrs[attribute])
        for changed in hostile_documents(config, 10):
            path.write_bytes(whole)
            with h5py.File(path, "r+") as file:
                file.attrs[attribute] = json.dumps(changed)
            survives(keras.models.load_model, path)
    for at in np.random.RandomState(1).randint(0, len(whole), 15):
        data = bytearray(whole)
        data[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(data))
        survives(keras.models.load_model, path)
