"""keras.utils.FeatureSpace, and layers with vocabularies within models and files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from pyapp.errors import FileFormatError
from tests.keras.feature_case import columns, numbers_of, read_golden, spaces, texts
from tests.together import check_each

FeatureSpace, layers = keras.utils.FeatureSpace, keras.layers


def near(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, "float64"), np.asarray(wanted), rtol=1e-4, atol=2e-5)


def test_feature_spaces_have_the_numbers_of_keras() -> None:
    (wanted, _), _ = read_golden()
    data = columns()
    batches = [({key: column[start : start + 8] for key, column in data.items()}, 0) for start in (0, 8, 16)]
    for dataset in (data, {key: column.tolist() for key, column in data.items()}, batches):
        for made, golden in zip(numbers_of(keras, data, dataset), wanted, strict=True):
            assert made.keys() == golden.keys()
            for key in golden:
                near(made[key], golden[key])


def test_models_take_columns_and_what_is_made_of_them() -> None:
    data = columns()
    space = spaces(keras)[0]
    space.adapt(data)
    inputs, encoded = space.get_inputs(), space.get_encoded_features()
    assert inputs["colour"].dtype == "string" and inputs["class"].dtype == "int32" and encoded.shape == (None, 40)
    outputs = layers.Dense(1, activation="sigmoid")(encoded)
    trained, whole = keras.Model(encoded, outputs), keras.Model(inputs, outputs)
    trained.compile("adam", "binary_crossentropy")
    prepared, labels = space(data), (data["class"] > 2).astype("float32")
    trained.fit(prepared, labels, epochs=2, verbose=0)
    assert trained.compiled_step == "captured"
    near(whole.predict(data, verbose=0), trained.predict(prepared, verbose=0))
    one = {key: column[:1].tolist() for key, column in data.items()}
    near(whole({key: np.array(value) for key, value in one.items()}).detach().numpy(), trained(prepared[:1]).tolist())


def test_files_of_what_has_learned(tmp_path: Path) -> None:
    (wanted, outputs), files = read_golden()
    for name in ("features.keras", "texts.keras"):
        (tmp_path / name).write_bytes(files[name])
    data, (model, given) = columns(), texts(keras)

    def check_space(_: str, path: Path) -> None:
        near(keras.models.load_model(path)(data), wanted[0]["all"])

    def check_model(_: str, path: Path) -> None:
        for found, golden in zip(keras.models.load_model(path).predict(given, verbose=0), outputs, strict=True):
            near(found, golden)

    space = spaces(keras)[0]
    space.adapt(data)
    space.save(tmp_path / "own.safetensors")
    model.save(tmp_path / "own_texts.safetensors")
    for found, golden in zip(model.predict(given, verbose=0), outputs, strict=True):
        near(found, golden)
    check_each(check_space, [("own form", tmp_path / "own.safetensors")])
    check_each(check_model, [("own form", tmp_path / "own_texts.safetensors")])
    pytest.importorskip("h5py")
    space.save(tmp_path / "own.keras")
    model.save(tmp_path / "own_texts.keras")
    check_each(check_space, [("of Keras", tmp_path / "features.keras"), ("for Keras", tmp_path / "own.keras")])
    check_each(check_model, [("of Keras", tmp_path / "texts.keras"), ("for Keras", tmp_path / "own_texts.keras")])
    with zipfile.ZipFile(tmp_path / "features.keras") as old, zipfile.ZipFile(tmp_path / "bad.keras", "w") as new:
        for member in old.namelist():
            new.writestr(member, b"x\ny\nz" if member.endswith("integer_lookup/vocabulary.txt") else old.read(member))
    with pytest.raises(FileFormatError, match=r"lookup/vocabulary.txt is not a vocabulary of class_preprocessor"):
        keras.models.load_model(tmp_path / "bad.keras")


def test_feature_spaces_refuse_what_does_not_fit() -> None:
    def refused(_: str, words: str, call: Any) -> None:
        with pytest.raises(ValueError, match=words):
            call()

    plain = FeatureSpace({"a": "float", "b": FeatureSpace.integer_categorical(output_mode="int")})
    check_each(refused, [
        ("none", "there are no features", lambda: FeatureSpace({})),
        ("a kind", "'a' is one of float, float_rescaled", lambda: FeatureSpace({"a": "floats"})),
        ("a mode", "output_mode is concat or dict", lambda: FeatureSpace({"a": "float"}, output_mode="list")),
        ("a cross", "has 'b', which is not a feature", lambda: FeatureSpace({"a": "float"}, crosses=[("a", "b")])),
        ("not adapted", "call adapt\\(data\\) first; 'b' needs it", lambda: plain({"a": [1.0], "b": [1]})),
        ("no column to learn", "no column 'b'; there are a", lambda: plain.adapt({"a": [1.0]})),
        ("numbers among floats", "take output_mode='dict'", lambda: plain.adapt({"a": [1.0], "b": [1]})),
        ("no dict", "takes a dict of columns, not list", lambda: FeatureSpace({"a": "float"})([1.0])),
        ("no column", "no column 'a'; there are b", lambda: FeatureSpace({"a": "float"})({"b": [1.0]})),
        ("no data", "there is no data", lambda: plain.adapt([])),
        ("unknown count", "not known how many numbers", lambda: FeatureSpace(
            {"a": FeatureSpace.feature("int32", layers.Identity(), "one_hot")})({"a": [1]})),
    ])  # fmt: skip
