"""Files of Keras 3: those that it wrote (golden_files.zip, by make_golden_files.py), and those that it is to read."""

from __future__ import annotations

import io
import json
import struct
import sys
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras
from pyapp.errors import FileFormatError, PyappError
from pyapp.formats import open_checkpoint, write_safetensors
from pyapp.keras import archives
from pyapp.keras.structures import flatten
from tests.hostile import hostile_documents, survives
from tests.keras.file_models import LAMBDA, LORA, MODELS, register
from tests.together import check_each

h5py = pytest.importorskip("h5py")

GOLDEN = Path(__file__).with_name("golden_files.zip")
SETTINGS: Any = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keras")
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def classes() -> Iterator[None]:
    known = dict(keras.saving.get_custom_objects())
    register(keras)
    yield
    keras.saving.get_custom_objects().clear()
    keras.saving.get_custom_objects().update(known)


def predicted(model: Any, x: Any) -> list[Any]:
    return flatten(model.predict(x, verbose=0))


def golden(files: Path, name: str) -> list[Any]:
    numbers = np.load(files / "numbers.npz")
    return [numbers[key] for key in numbers.files if key.rsplit(".", 1)[0] == name]


def test_models_of_keras_load_and_train_on(files: Path, tmp_path: Path) -> None:
    def check(name: str, make: Any) -> None:
        _, x, y = make(keras)
        model = keras.models.load_model(files / f"{name}.keras")
        for a, b in zip(predicted(model, x), golden(files, name), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        model.save(tmp_path / f"{name}.keras")
        again = keras.models.load_model(tmp_path / f"{name}.keras")
        for one in (model, again):  # with the optimiser's state, and the compiled losses
            one.fit(x, y, **SETTINGS)
            for a, b in zip(predicted(one, x), golden(files, f"{name}.after"), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)

    check_each(check, list(MODELS.items()))


def contents(path: Path) -> tuple[Any, dict[str, Any]]:
    """The configuration, and {path of a dataset: shape} of the weights."""
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
        shapes: dict[str, Any] = {}
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as weights:
            weights.visititems(lambda name, item: shapes.update({name: item.shape} if hasattr(item, "shape") else {}))
    return config, shapes


def outline(config: Any) -> Any:
    """What names classes, layers and tensors in a configuration."""
    if isinstance(config, list):
        return [outline(value) for value in config]
    if not isinstance(config, dict):
        return config
    if config.get("class_name") == "__keras_tensor__":
        return config["config"]["keras_history"]
    kept = ("module", "class_name", "registered_name", "layers", "inbound_nodes", "input_layers", "output_layers")
    found = {key: outline(config[key]) for key in (*kept, "args", "layer", "cell", "cells") if key in config}
    return found | ({"config": outline(config["config"])} if isinstance(config.get("config"), dict) else {})


def test_files_for_keras_have_its_form(files: Path, tmp_path: Path) -> None:
    """The same layers by the same names, classes, modules and calls, and the same paths of weights."""

    def check(name: str, make: Any) -> None:
        keras.utils.clear_session()
        model, x, y = make(keras)
        model.fit(x, y, **SETTINGS)
        model.save(tmp_path / f"{name}.keras")
        (config, shapes), (wanted, wanted_shapes) = (
            contents(tmp_path / f"{name}.keras"),
            contents(files / f"{name}.keras"),
        )
        assert shapes == wanted_shapes
        ours, theirs = outline(config), outline(wanted)
        if name == "own":
            assert [one["class_name"] for one in (config, wanted)] == ["Own"] * 2
            assert config["registered_name"] == wanted["registered_name"] == "tests>FileModel"
            assert config["build_config"]["input_shape"] == [None, 5]
            return
        assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)

    check_each(check, list(MODELS.items()))


def test_json_goes_both_ways(files: Path) -> None:
    """What `to_json` of Keras gives makes the same model here, and ours has its form."""

    def check(name: str, make: Any) -> None:
        keras.utils.clear_session()
        model, x, y = make(keras)
        model.fit(x, y, **SETTINGS)
        with zipfile.ZipFile(files / f"{name}.keras") as archive:
            text = archive.read("config.json").decode()
        ours, theirs = outline(json.loads(model.to_json())), outline(json.loads(text))
        for given in (text, model.to_json()):
            again = keras.models.model_from_json(given)
            assert again.compiled and type(again.optimizer) is type(model.optimizer)
            if name != "own" and given is not text:  # Keras writes (1, 1) for strides=1
                assert again.get_config() == model.get_config()
                assert type(model).from_config(again.get_config()).name == model.name
            again(x)
            again.set_weights(model.get_weights())
            for a, b in zip(predicted(again, x), predicted(model, x), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert name == "own" or json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)

    check_each(check, list(MODELS.items()))


def test_shapes_of_a_file_are_checked_before_layers_are_built() -> None:
    text = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)]).to_json()

    def check(units: int, shape: Any, said: str) -> None:
        described = json.loads(text)
        layer = described["config"]["layers"][1]
        layer["config"]["units"], layer["build_config"]["input_shape"] = units, shape
        with pytest.raises(FileFormatError, match=said):
            keras.models.model_from_json(json.dumps(described))

    check_each(check, [
        (10**9, [None, 4], "it needs"), (3, [None, 10**12], "is built for inputs of"),
        (3, [None, -4], "sizes that are"), (3, {"a": [1]}, "cannot be made"), (3, [None, 5], "to have value 5"),
    ])  # fmt: skip


def test_weights_of_keras_load_by_their_paths(files: Path, tmp_path: Path) -> None:
    model, x, _ = MODELS["functional"](keras)
    before = model.get_weights()
    model.load_weights(files / "functional.weights.h5")
    for a, b in zip(predicted(model, x), golden(files, "functional"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert model.optimizer.iterations == 2
    model.save_weights(tmp_path / "model.weights.h5")
    with h5py.File(tmp_path / "model.weights.h5") as one, h5py.File(files / "functional.weights.h5") as two:
        for key in ("layers/dense/vars/0", "layers/batch_normalization/vars/3", "optimizer/vars/5"):
            np.testing.assert_array_equal(one[key][()], two[key][()])
    model.set_weights(before)
    model.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(predicted(model, x)[0], golden(files, "functional")[0], rtol=1e-5, atol=1e-5)
    model.load_weights(files / "functional.keras")
    o = keras.optimizers
    for other in (o.SGD(0.1), o.Adam(o.schedules.CosineDecay(0.1, 9)), o.LossScaleOptimizer("adam")):
        model.compile(other, "mse")
        model.load_weights(tmp_path / "model.weights.h5")  # the weights, with a warning if the state does not fit
        model.save_weights(tmp_path / "other.weights.h5")
        model.compile("adamax", "mse")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.load_weights(tmp_path / "other.weights.h5")
        assert np.allclose(predicted(model, x)[0], golden(files, "functional")[0], rtol=1e-5, atol=1e-5)
    model.compile(o.Lion(o.schedules.CosineDecay(0.1, 9)), "mse")
    with pytest.warns(UserWarning, match="state is not read: it does not fit Lion"):
        model.load_weights(files / "functional.weights.h5")
    with pytest.raises(ValueError, match="has no weights yet"):
        keras.Sequential([keras.layers.Dense(9)]).load_weights(files / "functional.weights.h5")
    wide = keras.Sequential([keras.Input((6,)), keras.layers.Dense(9)])
    with pytest.raises(ValueError, match=r"layers/dense/vars/0 has shape \(6, 4\), layer dense_\d wants \(6, 9\)"):
        wide.load_weights(files / "functional.weights.h5")
    kept = wide.get_weights()
    wide.load_weights(files / "functional.weights.h5", skip_mismatch=True)
    assert all((a == b).all() for a, b in zip(kept, wide.get_weights(), strict=True))
    with pytest.raises(FileFormatError, match="call load_weights"):
        keras.models.load_model(files / "functional.weights.h5")
    with pytest.raises(FileExistsError):
        model.save_weights(tmp_path / "model.weights.h5", overwrite=False)


def test_lora_is_added_up_in_files(files: Path, tmp_path: Path) -> None:
    model = keras.models.load_model(files / "lora.keras")
    _, x, y = LORA(keras)
    wanted = golden(files, "lora")[0]
    np.testing.assert_allclose(predicted(model, x)[0], wanted, rtol=1e-5, atol=1e-5)
    names = [weight.name for weight in model.trainable_weights]
    a_and_b = ["lora_kernel_a", "lora_kernel_b"]
    assert names == ["lora_embeddings_a", "lora_embeddings_b", *["bias", *a_and_b] * 3]
    assert model.layers[1].get_config()["lora_alpha"] == 4
    before = predicted(model, x)[0]
    model.fit(x, y, **SETTINGS)  # A is not zero: the training goes on
    assert all(np.abs(weight.numpy()).max() > 0 for weight in model.layers[1].lora_weights)
    assert np.abs(predicted(model, x)[0] - before).max() > 1e-3
    for name in ("again.keras", "again.safetensors", "again.weights.h5"):
        model.save(tmp_path / name) if name != "again.weights.h5" else model.save_weights(tmp_path / name)
        plain, _, _ = LORA(keras, rank=None)
        with_lora, _, _ = LORA(keras)
        for one in (plain, with_lora):
            if name == "again.safetensors":
                one = keras.models.load_model(tmp_path / name)
            else:
                one.load_weights(tmp_path / name)
            np.testing.assert_allclose(predicted(one, x)[0], predicted(model, x)[0], rtol=1e-5, atol=1e-5)
    assert contents(tmp_path / "again.keras")[1] == contents(files / "lora.keras")[1]
    model.save_training(tmp_path / "training")  # goes on from A and B as they are
    kept = [weight.numpy().copy() for weight in model.weights]
    model.fit(x, y, **SETTINGS)
    model.restore_training(tmp_path / "training")
    for weight, value in zip(model.weights, kept, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


NOTES: list[dict[str, Any]] = [
    {"steps": -1}, {"steps": 1e400}, {"rate": "fast"}, {"rate": -1.0}, {"scaling": 3}, {"scaling": {"gathered": "a"}},
    {"generators": [[0]]}, {"generators": 5}, {"generators": [[-1, 0]]}, {"generators": [[0, 2**70]]},
    {"input_shape": "a"},
]  # fmt: skip


def test_hostile_states_of_a_training(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss="mse")
    model.fit(np.ones((4, 3), "f4"), np.ones((4, 2), "f4"), verbose=0)
    path = tmp_path / "training.safetensors"
    model.save_training(path)
    with open_checkpoint(path) as file:
        tensors = {name: file.read(name) for name in file.tensors}
        note = json.loads(file.metadata["training"])

    def refused(without: str = "", tensors: Any = tensors, **changed: Any) -> None:
        own = {name: value for name, value in (note | changed).items() if name != without}
        write_safetensors(path, tensors, {"training": json.dumps(own)})
        with pytest.raises((FileFormatError, ValueError), match="training|generators|set_state|weights|fit"):
            model.restore_training(path)

    for changed in NOTES:
        refused(**changed)
    for name in note:
        if name != "scaling":
            refused(without=name)
    for name in ("optimizer.x", "optimizer.9.m", "optimizer.-1.m", "optimizer."):
        refused(tensors=tensors | {name: pyapp.ones(1)})
    weights = tmp_path / "a.weights.h5"
    model.save_weights(weights)
    with h5py.File(weights, "r+") as opened:
        del opened["optimizer/vars/0"]
        opened["optimizer/vars/0"] = np.float32("nan")
    with pytest.raises(FileFormatError, match="expected its steps and its rate"):
        model.load_weights(weights)


def test_lambdas_are_code(files: Path) -> None:
    with pytest.raises(FileFormatError, match="safe_mode=False"):
        keras.models.load_model(files / "lambda.keras")
    _, x, _ = LAMBDA(keras)
    if sys.version_info[:2] == (3, 11):  # the bytecode is that of one version of Python
        model = keras.models.load_model(files / "lambda.keras", safe_mode=False)
        np.testing.assert_allclose(predicted(model, x)[0], golden(files, "lambda")[0], rtol=1e-6)


EARLIER = """{"class_name": "Model", "config": {"name": "f", "inputs": {"batch_shape": [null, 3], "dtype": "float32",
"name": "x"}, "layers": [{"class_name": "Sequential", "config": {"name": "s", "input": {"batch_shape": [null, 3],
"dtype": "float32"}, "layers": [{"class_name": "Dense", "config": {"units": 2, "activation": "relu",
"kernel_regularizer": "l2", "name": "a", "kernel_initializer": "glorot_uniform", "trainable": true, "dtype":
"float32"}}, {"class_name": "Dropout", "config": {"rate": 0.1, "name": "dropout", "dtype": "float32"}}]}},
{"class_name": "Dense", "config": {"units": 2, "name": "d", "dtype": "float32"}}, {"class_name": "Add",
"config": {"autocast": true, "name": "add", "input_shape": null}}], "calls": [{"layer": 0, "args": [{"tensor":
{"input": 0}}], "kwargs": {}}, {"layer": 1, "args": [{"tensor": {"input": 0}}], "kwargs": {}}, {"layer": 2,
"args": [[{"tensor": {"call": 0, "output": 0}}, {"tensor": {"call": 1, "output": 0}}]], "kwargs": {}}],
"outputs": {"tensor": {"call": 2, "output": 0}}}}"""  # what version 1 of pyapp's own form has


def test_configurations_of_earlier_versions_are_read() -> None:
    model = keras.models.model_from_json(EARLIER)
    assert [layer.name for layer in model.layers] == ["x", "s", "d", "add"] and model.output_shape == (None, 2)
    x = np.ones((1, 3), "float32")
    model.set_weights([np.full(weight.shape, 0.5, "float32") for weight in model.get_weights()])
    np.testing.assert_array_equal(model.predict(x, verbose=0), [[4.0, 4.0]])
    assert type(model.get_layer("s").layers[0]._regularized[0][1]).__name__ == "L2"


def test_lambdas_are_written_and_cloned(tmp_path: Path) -> None:
    x = np.ones((2, 4), "float32")
    times = 3.0
    layers = [keras.Input((4,)), keras.layers.Lambda(lambda t, a=2.0: t * a * times), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    cloned = keras.models.clone_model(model)
    assert [layer.name for layer in cloned.layers] == [layer.name for layer in model.layers]
    assert cloned.layers[1].kernel is not model.layers[1].kernel
    cloned.set_weights(model.get_weights())
    np.testing.assert_array_equal(cloned.predict(x, verbose=0), model.predict(x, verbose=0))
    for name in ("model.keras", "model.safetensors"):
        model.save(tmp_path / name)
        with pytest.raises(FileFormatError, match="safe_mode=False"):
            keras.models.load_model(tmp_path / name)
        again = keras.models.load_model(tmp_path / name, safe_mode=False)
        np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    with pytest.raises(TypeError, match="Lambda: takes a function, not 3"):
        keras.layers.Lambda(3)


@keras.saving.register_keras_serializable("tests", "FileFunctional")
class Functional(keras.Model):  # type: ignore[misc, name-defined]
    """A functional model whose constructor makes the graph."""

    def __init__(self, units: int = 3, **settings: Any) -> None:
        inputs = keras.Input((5,))
        super().__init__(inputs=inputs, outputs=keras.layers.Dense(units)(inputs), **settings)
        self.units = units

    def get_config(self) -> dict[str, Any]:
        return {"units": self.units, "name": self.name}


def test_functional_subclasses_are_made_by_their_constructor(tmp_path: Path) -> None:
    model, x = Functional(4), np.ones((2, 5), "float32")
    model.save(tmp_path / "model.keras")
    config, shapes = contents(tmp_path / "model.keras")
    assert config["config"] == {"units": 4, "name": model.name} and "layers/dense/vars/0" in shapes
    again = keras.models.load_model(tmp_path / "model.keras", {"Functional": Functional})
    assert type(again) is Functional and (again.predict(x, verbose=0) == model.predict(x, verbose=0)).all()


def test_operations_are_written_with_the_classes_of_keras(tmp_path: Path) -> None:
    """Each is in its module, with its settings; what it is called with is among the arguments."""
    ops = keras.ops
    cases: list[tuple[str, Any, Any]] = [
        ("numpy.Mean", lambda x: ops.mean(x, axis=1), {"axis": 1}),
        ("numpy.Power", lambda x: 2.0**x, {}),
        ("numpy.Take", lambda x: ops.take(x, [1, 0], axis=1), {"axis": 1}),
        ("numpy.Einsum", lambda x: ops.einsum("bij,bkj->bik", x, x), {"subscripts": "bij,bkj->bik"}),
        ("numpy.GetItem", lambda x: x[:, ::2], {}),
        ("nn.Softmax", lambda x: ops.softmax(x, axis=1), {"axis": 1}),
        ("core.Cast", lambda x: ops.cast(x, "float64"), {"dtype": "float64"}),
        ("math.Logsumexp", lambda x: ops.logsumexp(x, axis=-1), {"axis": -1}),
        ("linalg.Norm", lambda x: ops.norm(x, axis=-1), {"axis": -1}),
    ]

    def check(name: str, function: Any, settings: Any) -> None:
        inputs = keras.Input((4, 3))
        model = keras.Model(inputs, function(inputs))
        model.save(tmp_path / "model.keras")
        entry = contents(tmp_path / "model.keras")[0]["config"]["layers"][1]
        assert f"{entry['module']}.{entry['class_name']}" == f"keras.src.ops.{name}"
        assert {key: entry["config"].get(key) for key in settings} == settings
        again = keras.models.load_model(tmp_path / "model.keras")
        x = np.random.RandomState(0).rand(2, 4, 3).astype("float32")
        np.testing.assert_array_equal(model.predict(x, verbose=0), again.predict(x, verbose=0))

    check_each(check, cases)


def test_states_of_optimizers_go_on(tmp_path: Path) -> None:
    """The order of Keras: groups of states, one after the other."""
    o = keras.optimizers
    x, y = np.random.RandomState(0).randn(2, 6, 3).astype("float32")

    def check(name: str, optimizer: Any, count: int) -> None:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(3)])
        model.compile(optimizer, "mse")
        model.fit(x, y, **SETTINGS)
        model.save(tmp_path / "model.keras")
        found = [place for place in contents(tmp_path / "model.keras")[1] if place.startswith("optimizer/vars/")]
        assert len(found) == count  # that of Keras 3.15.1
        again = keras.models.load_model(tmp_path / "model.keras")
        for one in (model, again):
            one.fit(x, y, **SETTINGS)
        for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)

    check_each(check, [
        ("sgd", o.SGD(0.1), 2), ("amsgrad", o.Adam(0.01, amsgrad=True), 14), ("ema", o.Adam(0.01, use_ema=True), 14),
        ("rmsprop", o.RMSprop(0.01, centered=True, momentum=0.5), 14), ("nadam", o.Nadam(0.01), 11),
        ("muon", o.Muon(0.01), 8), ("adafactor", o.Adafactor(0.01), 14),
        ("schedule", o.Adam(o.schedules.CosineDecay(0.1, 20)), 9),
    ])  # fmt: skip


def test_classes_that_are_not_registered(files: Path) -> None:
    known = register(keras)
    keras.saving.get_custom_objects().pop("tests>FileModel")
    with pytest.raises(ValueError, match="'Own', which is not known; pass it in custom_objects"):
        keras.models.load_model(files / "own.keras")
    model = keras.models.load_model(files / "own.keras", {"Own": known["Own"]}, compile=False)
    assert type(model) is known["Own"] and not model.compiled


def altered(
    files: Path, target: Path, config: Any = None, weights: bytes | None = None, name: str = "pictures"
) -> Path:
    """A copy of a file with another configuration or other weights."""
    with zipfile.ZipFile(files / f"{name}.keras") as given, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for part in given.namelist():
            data = given.read(part)
            if part == "config.json" and config is not None:
                data = json.dumps(config).encode()
            if part == "model.weights.h5" and weights is not None:
                data = weights
            made.writestr(part, data)
    return target


def layer_named(module: str, name: str, config: Any) -> Any:
    """A Sequential model with one layer after its input."""
    first = {"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [None, 4], "name": "x"}}
    second = {"module": module, "class_name": name, "config": config, "registered_name": None}
    model = {"name": "m", "layers": [{**first, "registered_name": None}, second]}
    return {"module": "keras", "class_name": "Sequential", "config": model, "registered_name": None}


CODE = {"class_name": "__lambda__", "config": {"value": "x"}}
SYSTEM = {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"}
HOSTILE: dict[str, Any] = {
    "module os": layer_named("os", "system", {"command": "touch x"}),
    "builtins": layer_named("builtins", "eval", {"source": "1"}),
    "module of this package": layer_named("pyapp.keras.saving", "save_model", {}),
    "a tensor": layer_named("keras.layers", "Tensor", {"data": 1}),
    "a private class": layer_named("keras.layers", "_Scaled", {}),
    "a module": layer_named("keras.layers", "wrapping", {}),
    "keras' own other module": layer_named("keras.utils", "get_file", {"origin": "http://x"}),
    "a function": layer_named("keras.models", "load_model", {"filepath": "x"}),
    "a huge layer": layer_named("keras.layers", "Dense", {"units": 10**13}),
    "negative units": layer_named("keras.layers", "Dense", {"units": -1}),
    "no configuration": layer_named("keras.layers", "Dense", None),
    "a huge input": layer_named("keras.layers", "InputLayer", {"batch_shape": [None, 10**12]}),
    "a vocabulary in a file": layer_named("keras.layers", "StringLookup", {"vocabulary": "/etc/passwd"}),
    "a lambda": layer_named("keras.layers", "Lambda", {"function": CODE}),
    "a function of Python's": layer_named("keras.layers", "Dense", {"units": 1, "activation": SYSTEM}),
    "deep": {"class_name": "Sequential", "config": {"layers": json.loads("[" * 150 + "]" * 150)}},
    "no model": {"module": "keras.initializers", "class_name": "Zeros", "config": {}},
    "an operation of the engine": {
        "module": "keras.src.models.functional", "class_name": "Functional", "registered_name": "Functional",
        "config": {
            "name": "m", "input_layers": [["x", 0, 0]], "output_layers": [["load", 0, 0]],
            "layers": [
                {"module": "keras.layers", "class_name": "InputLayer", "name": "x", "inbound_nodes": [],
                 "config": {"batch_shape": [None, 4], "name": "x"}},
                {"module": "keras.src.ops.numpy", "class_name": "Load", "name": "load", "config": {"name": "load"},
                 "inbound_nodes": [{"args": [{"class_name": "__keras_tensor__", "config": {
                     "shape": [None, 4], "dtype": "float32", "keras_history": ["x", 0, 0]}}], "kwargs": {}}]},
            ],
        },
    },
}  # fmt: skip


def test_hostile_configurations(files: Path, tmp_path: Path) -> None:
    def check(name: str, config: Any) -> None:
        path = altered(files, tmp_path / "hostile.keras", config)
        assert not survives(keras.models.load_model, path), name

    check_each(check, list(HOSTILE.items()))
    for name in ("functional", "own"):
        with zipfile.ZipFile(files / f"{name}.keras") as archive:
            config = json.loads(archive.read("config.json"))
        for changed in hostile_documents(config, 40):
            survives(keras.models.load_model, altered(files, tmp_path / "hostile.keras", changed))


def test_hostile_weights(files: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(4096))
    with zipfile.ZipFile(files / "pictures.keras") as archive:
        whole = archive.read("model.weights.h5")

    def changed(change: Any) -> bytes:
        target = io.BytesIO(whole)
        with h5py.File(target, "r+") as file:
            del file["layers/dense/vars/0"]
            change(file)
        return target.getvalue()

    place = "layers/dense/vars/0"
    many = (10**9, 10**6)
    cases: list[tuple[str, bytes]] = [
        ("no HDF5", b"x" * 100), ("empty", b""), ("cut off", whole[: len(whole) // 2]),
        ("a place far away", whole[:48] + b"\xf0" * 8 + whole[56:]),
        ("absent", changed(lambda file: None)),
        ("huge", changed(lambda file: file.create_dataset(place, many, "f4", chunks=(64, 64)))),
        ("times", changed(lambda file: h5py.h5d.create(file.id, place.encode(), h5py.h5t.UNIX_D32LE,
                                                       h5py.h5s.create_simple((16, 3))))),
        ("texts", changed(lambda file: file.create_dataset(place, data=[b"a", b"b"]))),
        ("soft link", changed(lambda file: file.__setitem__(place, h5py.SoftLink("/layers/conv2d/vars/0")))),
        ("other file", changed(lambda file: file.__setitem__(place, h5py.ExternalLink("secret", "/x")))),
        ("raw file", changed(lambda file: file.create_dataset(
            place, (16, 3), "f4", external=[(str(tmp_path / "secret"), 0, 192)]))),
        ("a group", changed(lambda file: file.create_group(place))),
    ]  # fmt: skip

    def check(name: str, weights: bytes) -> None:
        path = altered(files, tmp_path / "hostile.keras", weights=weights)
        assert not survives(keras.models.load_model, path), name

    check_each(check, cases)
    generator = np.random.RandomState(0)
    for _ in range(40):  # flipped bits: an error or other weights, nothing else
        data = bytearray(whole)
        data[generator.randint(2000)] ^= 1 << generator.randint(8)
        survives(keras.models.load_model, altered(files, tmp_path / "hostile.keras", weights=bytes(data)))


def test_hostile_archives(files: Path, tmp_path: Path) -> None:
    whole = (files / "functional.keras").read_bytes()
    path = tmp_path / "hostile.keras"
    for end in range(4, len(whole), len(whole) // 25):
        path.write_bytes(whole[:end])
        assert not survives(keras.models.load_model, path), end
    for at in np.random.RandomState(1).randint(0, len(whole), 60):
        data = bytearray(whole)
        data[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(data))
        survives(keras.models.load_model, path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # 300 MB of zeros in 300 kB
        archive.writestr("config.json", "{}")
        with archive.open("model.weights.h5", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    with pytest.raises(FileFormatError, match="announces 314,572,800 bytes"):
        keras.models.load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../config.json", "{}")
    with pytest.raises(FileFormatError, match="has no config.json"):
        keras.models.load_model(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("config.json", "{}")
    with pytest.raises(FileFormatError, match="packed in a way that Keras does not use"):
        keras.models.load_model(path)
    at = whole.rindex(b"PK\5\6") + 16  # where the end says that the table of contents begins
    begins = struct.unpack_from("<I", whole, at)[0] + 5000
    path.write_bytes(whole[:at] + struct.pack("<I", begins) + whole[at + 4 :])
    with pytest.raises(FileFormatError, match="json lies before the beginning"):
        keras.models.load_model(path)
    entry = whole.index(b"PK\1\2")  # a name that is no text
    path.write_bytes(whole[: entry + 9] + b"\x08" + whole[entry + 10 : entry + 46] + b"\xff" + whole[entry + 47 :])
    with pytest.raises(FileFormatError, match="not a usable ZIP archive"):
        keras.models.load_model(path)
    assert archives.is_archive(whole[:8]) and issubclass(FileFormatError, PyappError)


def test_layers_write_and_read_what_they_want(tmp_path: Path) -> None:
    """By `save_own_variables` and `load_own_variables`; `build_from_config` makes the weights of a layer in a file."""

    @keras.saving.register_keras_serializable("tests")
    class Counted(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, units: int, **settings: Any) -> None:
            super().__init__(**settings)
            self.units, self.steps = units, 0

        def build(self, shape: Any) -> None:
            self.matrix = self.add_weight((shape[-1], self.units), name="matrix")

        def call(self, x: Any) -> Any:
            return keras.ops.matmul(x, self.matrix)

        def save_own_variables(self, store: Any) -> None:
            super().save_own_variables(store)
            store["steps"] = np.array(self.steps)

        def load_own_variables(self, store: Any) -> None:
            self.steps = int(store["steps"])
            self.matrix.assign(store["0"])

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "units": self.units}

        def get_build_config(self) -> dict[str, Any]:
            return {"inputs": self.matrix.shape[0]}

        def build_from_config(self, config: dict[str, Any]) -> None:
            self.build((None, config["inputs"]))

    model = keras.Sequential([keras.Input((4,)), Counted(3), keras.layers.Dense(2)])
    model.layers[0].steps = 7
    x = np.ones((2, 4), "float32")
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.layers[0].steps == 7 and contents(tmp_path / "model.keras")[1]["layers/counted/vars/steps"] == ()
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    model.save_weights(tmp_path / "model.weights.h5")
    other = keras.Sequential([keras.Input((4,)), Counted(3), keras.layers.Dense(2)])
    other.load_weights(tmp_path / "model.weights.h5")
    assert other.layers[0].steps == 7
    np.testing.assert_array_equal(other.predict(x, verbose=0), model.predict(x, verbose=0))


def test_weights_of_subclasses_where_earlier_versions_put_them(files: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    known = register(keras)
    model = keras.models.load_model(files / "own.keras", {"Own": known["Own"]}, compile=False)
    path, before = tmp_path / "own.weights.h5", [weight.numpy().copy() for weight in model.weights]
    model.save_weights(path)
    with h5py.File(path, "r+") as file:
        assert "start" not in file and "vars" in file["layers/dense"]  # as Keras has it: after "layers"
        file.move("layers/dense", "start")
        del file["layers"]
    for weight in model.weights:
        weight.assign(weight * 0)
    model.load_weights(path)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.weights, strict=True))
