"""keras.applications beside Keras (golden_applications.zip, by make_golden_applications.py)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras
from pyapp.errors import FileFormatError
from pyapp.keras import applications
from pyapp.keras.applications import imagenet_utils
from tests.hostile import survives
from tests.keras.application_cases import CASES, NUMBERS, described, filled, nested, picture
from tests.together import check_each

GOLDEN = Path(__file__).with_name("golden_applications.zip")


def golden(name: str) -> dict[str, Any]:
    with zipfile.ZipFile(GOLDEN) as archive:
        found: dict[str, Any] = json.loads(archive.read("golden.json"))[name]
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.native_only) if name != "mobilenet_v2" else name for name in CASES]
)
def test_models_are_those_of_keras(name: str) -> None:
    """The layers, their names and order, and the shapes of their weights; of small models the predictions."""
    keras.utils.clear_session()
    kind, settings = CASES[name]
    model = getattr(applications, kind)(weights=None, **settings)
    wanted = golden(name)
    outputs = wanted.pop("outputs", None)
    assert described(model) == wanted
    if outputs is not None:
        filled(model)
        np.testing.assert_allclose(model.predict(picture(), verbose=0).ravel(), outputs, rtol=1e-4, atol=1e-6)


@pytest.fixture
def by_layer(tmp_path: Path) -> Path:
    pytest.importorskip("h5py")
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_files_of_keras_1_and_2(by_layer: Path) -> None:
    for name in ("weights.h5", "whole.h5"):
        model = nested(keras)
        model.load_weights(by_layer / name)
        found = model.predict(NUMBERS, verbose=0)
        np.testing.assert_allclose(found.ravel(), golden("nested")["outputs"], rtol=1e-5)


def test_files_of_keras_1_and_2_that_do_not_fit(by_layer: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = by_layer / "weights.h5"
    whole = path.read_bytes()
    x = keras.Input((4,))
    other = keras.Model(x, keras.layers.Dense(2)(keras.layers.Dense(5)(x)))
    with pytest.raises(ValueError, match=r"weights of 'inner' have the shapes .* those of dense"):
        other.load_weights(path)
    before = [weight.numpy().copy() for weight in other.weights]
    other.load_weights(path, skip_mismatch=True)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, other.weights, strict=True))
    with pytest.raises(ValueError, match="2 layers have weights, 1 of model"):
        keras.Model(x, keras.layers.Dense(2)(x)).load_weights(path)

    def refused(_: str, change: Any, words: str) -> None:
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            change(file)
        with pytest.raises(FileFormatError, match=words):
            nested(keras).load_weights(path)

    def linked(file: Any) -> None:
        del file["out/out/kernel"]
        file["out/out/kernel"] = h5py.ExternalLink("whole.h5", "/x")

    check_each(refused, [
        ("no group", lambda file: file.__delitem__("out"), "'out' is in the list and has no group"),
        ("no dataset", lambda file: file.__delitem__("out/out/kernel"), "is not a dataset of numbers"),
        ("a link", linked, "is a link to another place"),
        ("numbers", lambda file: file.attrs.__setitem__("layer_names", [1, 2]), "is not a list of names"),
    ])  # fmt: skip
    generator = np.random.RandomState(0)
    for _ in range(30):
        data = bytearray(whole)
        data[generator.randint(len(data))] ^= 1 << generator.randint(8)
        path.write_bytes(bytes(data))
        survives(nested(keras).load_weights, path)


def test_parted_lists(by_layer: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(by_layer / "weights.h5", "r+") as file:
        names = list(file.attrs["layer_names"])
        del file.attrs["layer_names"]
        file.attrs["layer_names0"], file.attrs["layer_names1"] = names[:2], names[2:]
    model = nested(keras)
    model.load_weights(by_layer / "weights.h5")
    found = model.predict(NUMBERS, verbose=0)
    np.testing.assert_allclose(found.ravel(), golden("nested")["outputs"], rtol=1e-5)


def test_transfer(by_layer: Path) -> None:
    """A part of a model of one's own, whose sides need not be known; it is saved and loaded with it."""
    base = applications.MobileNetV2(input_shape=(32, 32, 3), alpha=0.35, include_top=False, weights=None)
    base.trainable = False
    model = keras.Sequential([base, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(2)])
    assert model.output_shape == (None, 2) and model.input_shape == (None, 32, 32, 3)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    kept = base.get_weights()
    x = applications.mobilenet_v2.preprocess_input(picture())
    model.fit(x, np.array([1]), epochs=1, verbose=0)
    assert len(model.trainable_weights) == 2
    assert all(np.array_equal(a, b) for a, b in zip(kept, base.get_weights(), strict=True))
    model.save(by_layer / "model.keras")
    again = keras.models.load_model(by_layer / "model.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)


def test_a_model_in_a_model_of_any_size() -> None:
    """Sequential, which is called with sides that are not known."""
    x = keras.Input((None, None, 3))
    inner = keras.Sequential([keras.layers.Conv2D(4, 3), keras.layers.Conv2D(2, 1)])
    model = keras.Model(x, keras.layers.GlobalAveragePooling2D()(inner(x)))
    for side in (5, 9):
        assert model.predict(np.zeros((1, side, side + 1, 3), "float32"), verbose=0).shape == (1, 2)


def test_pictures_are_prepared() -> None:
    """tf, torch and caffe (He et al. 2015): the numbers are those of their papers."""
    x = np.array([[[0.0, 127.5, 255.0]]], "float32")
    wanted = {
        "tf": [-1.0, 0.0, 1.0],
        "torch": [(0 - 0.485) / 0.229, (0.5 - 0.456) / 0.224, (1 - 0.406) / 0.225],
        "caffe": [255 - 103.939, 127.5 - 116.779, -123.68],
    }
    for mode, numbers in wanted.items():
        for data_format in ("channels_last", "channels_first"):
            axis = -1 if data_format == "channels_last" else 0
            given = x if axis else np.moveaxis(x, -1, 0)
            for one in (given, pyapp.tensor(given)):
                found = imagenet_utils.preprocess_input(one, data_format, mode)
                assert isinstance(found, type(one))
                np.testing.assert_allclose(np.asarray(found).ravel(), numbers, rtol=1e-5, atol=1e-6)
    assert x.ravel().tolist() == [0.0, 127.5, 255.0]
    assert applications.convnext.preprocess_input(x) is x
    with pytest.raises(ValueError, match="mode is"):
        imagenet_utils.preprocess_input(x, mode="keras")


def test_predictions_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "classes.json"
    path.write_text(json.dumps({str(i): [f"n{i:08}", f"class_{i}"] for i in range(1000)}))
    monkeypatch.setattr(imagenet_utils, "get_file", lambda **_: str(path))
    imagenet_utils._names.cache_clear()
    probabilities = np.zeros((1, 1000), "float32")
    probabilities[0, [5, 900]] = 0.25, 0.75
    assert imagenet_utils.decode_predictions(probabilities, top=2) == [
        [("n00000900", "class_900", 0.75), ("n00000005", "class_5", 0.25)]
    ]
    with pytest.raises(ValueError, match="1000 classes"):
        imagenet_utils.decode_predictions(probabilities[0])
    path.write_text("[]")
    imagenet_utils._names.cache_clear()
    with pytest.raises(FileFormatError, match="has not the names"):
        imagenet_utils.decode_predictions(probabilities)
    imagenet_utils._names.cache_clear()


def test_arguments_are_checked() -> None:
    def refused(_: str, words: str, settings: Any) -> None:
        with pytest.raises(ValueError, match=words):
            applications.ResNet50(**{"weights": None, **settings})

    check_each(refused, [
        ("file", "the path of a file, not 'no.h5'", {"weights": "no.h5"}),
        ("classes", "have 1000 classes, not 3", {"weights": "imagenet", "classes": 3}),
        ("activation", "'softmax' or None", {"weights": "imagenet", "classifier_activation": "relu"}),
        ("channels", "for 3 channels, not 1", {
            "weights": "imagenet", "include_top": False, "input_shape": (64, 64, 1)}),
        ("shape", r"are for \(224, 224, 3\)", {"weights": "imagenet", "input_shape": (64, 64, 3)}),
        ("small", "at least 32 x 32", {"input_shape": (16, 40, 3)}),
        ("dims", "has three numbers", {"input_shape": (32, 32)}),
        ("sides", "needs the sides", {"input_shape": (None, None, 3)}),
        ("pooling", "'avg' or 'max'", {"include_top": False, "pooling": "sum"}),
        ("tensor", "what keras.Input gives", {"input_tensor": np.zeros(3)}),
    ])  # fmt: skip
    with pytest.raises(ValueError, match="alpha of published weights"):
        applications.MobileNetV2(alpha=0.4)
    assert not hasattr(keras, "SymbolicScope")
