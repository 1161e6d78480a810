"""Models as wholes: clones, drawings, inputs that may be missing, and other values for a while."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.parse
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pyapp import keras
from tests.keras.scripts import numbers, start

layers, utils = keras.layers, keras.utils


def residual() -> Any:
    """Two inputs, a model inside, a connection that passes by a layer, two outputs."""
    inside = keras.Sequential([keras.Input((4,)), layers.Dense(4, "relu", name="inner")], name="inside")
    pixels, side = keras.Input((4,), name="pixels"), keras.Input((2,), name="side")
    first = inside(pixels)
    total = layers.Add(name="total")([first, layers.Dense(4, name="middle")(first)])
    joined = layers.Concatenate(name="joined")([total, side])
    model = keras.Model([pixels, side], [layers.Dense(1, name="left")(joined), joined * 2.0], name="whole")
    start(model)
    return model


def boxes_and_arrows(dot: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The labels of a drawing's boxes, and the pairs that arrows join."""
    labels = dict(re.findall(r"(box_\d+) \[label=<.*?<font[^>]*>(.*?)</font>", dot))
    return set(labels.values()), {(labels[a], labels[b]) for a, b in re.findall(r"(box_\d+) -> (box_\d+)", dot)}


def test_drawings_have_the_layers_and_what_they_pass_on(tmp_path: Path) -> None:
    model = residual()
    boxes, arrows = boxes_and_arrows(utils.model_to_dot(model, show_layer_names=False).to_string())
    assert boxes == {"InputLayer", "Sequential", "Dense", "Add", "Concatenate", "Multiply"} and len(arrows) == 8
    drawing = utils.model_to_dot(model, expand_nested=True, show_shapes=True, show_trainable=True)
    boxes, arrows = boxes_and_arrows(drawing.to_string())
    assert "inside (Sequential)" not in boxes and "subgraph cluster" in drawing.to_string()
    assert {("pixels (InputLayer)", "inner (Dense)"), ("inner (Dense)", "total (Add)")} <= arrows
    for direction in ("TB", "LR", "BT", "RL"):
        utils.plot_model(model, tmp_path / "model.svg", True, expand_nested=True, rankdir=direction)
        root = ElementTree.parse(tmp_path / "model.svg").getroot()
        parts = [part.tag.rpartition("}")[2] for part in root.iter()]
        assert parts.count("path") == 1 + 8  # the head of an arrow, and the arrows
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert "Output shape: (None, 6)" in texts and "inside" in texts
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            place = [float(box.get(name)) for name in ("x", "y", "width", "height")]
            assert min(place) >= 0 and place[0] + place[2] <= float(root.get("width"))
            assert place[1] + place[3] <= float(root.get("height"))
    with pytest.raises(RuntimeError, match=r"install Graphviz, or choose a name that ends in \.svg"):
        utils.model_to_dot(model).create("no format")
    with pytest.raises(ValueError, match="has no weights yet"):
        utils.plot_model(keras.Sequential([layers.Dense(2)]))


def test_clones_have_new_weights_and_calls_of_ones_own() -> None:
    model = residual()
    model.compile("adam", "mse", metrics=[keras.metrics.MeanAbsoluteError(name="off")])

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        found = layer(*args, **kwargs)
        return layers.ReLU()(found) if layer.name == "middle" else found

    names: list[str] = []

    def renamed(layer: Any) -> Any:
        names.append(layer.name)
        return type(layer).from_config(layer.get_config())

    inputs = [keras.Input((4,), name="a"), keras.Input((2,), name="b")]
    cloned = keras.models.clone_model(model, inputs, renamed, call, recursive=True)
    assert "inner" in names and cloned.compiled and cloned.optimizer is not model.optimizer
    assert [layer.name for layer in cloned.inputs] == ["a", "b"]
    assert len(cloned.layers) == len(model.layers) + 1
    cloned.set_weights(model.get_weights())
    x = [np.ones((2, 4), "float32"), np.ones((2, 2), "float32")]
    part = keras.Model(model.inputs, model.get_layer("middle").output)
    above = keras.Model(model.inputs, model.get_layer("middle").input)
    wanted = np.maximum(part.predict(x, verbose=0), 0) + above.predict(x, verbose=0)
    np.testing.assert_allclose(cloned.predict(x, verbose=0)[1][:, :4], 2 * wanted, rtol=1e-6)
    for wrong, words in (({"input_tensors": inputs[0]}, "structure"), ({"input_tensors": inputs[:1]}, "structure")):
        with pytest.raises(ValueError, match=words):
            keras.models.clone_model(model, **wrong)


class Around(layers.Layer):  # type: ignore[misc, name-defined]
    """A layer whose configuration has a model, as it is or as JSON."""

    def __init__(self, inside: Any, plain: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.inside, self.plain = keras.saving.deserialize_keras_object(inside), plain

    def call(self, inputs: Any) -> Any:
        return self.inside(inputs)

    def get_config(self) -> dict[str, Any]:
        inside = self.inside if self.plain else keras.saving.serialize_keras_object(self.inside)
        return {**super().get_config(), "inside": inside, "plain": self.plain}


def test_configurations_have_models_inside(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    inputs = keras.Input((4,))
    shared = layers.Dense(3)
    inside = keras.Model(inputs, layers.Add()([shared(inputs), layers.Dense(3)(inputs) + shared(inputs)]))
    x = np.ones((2, 4), "float32")
    for plain in (False, True):
        model = keras.Sequential([keras.Input((4,)), Around(inside, plain)])
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras", {"Around": Around})
        np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
        assert len(again.weights) == 4


def test_states_of_weights_without_a_gradient_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    inputs = keras.Input((3,))
    model = keras.Model(inputs, [layers.Dense(1, name="used")(inputs), layers.Dense(1, name="other")(inputs)])
    model.compile("adam", ["mse", None])
    x, _ = numbers(8, 3, 2)
    model.fit(x, [x[:, :1], None], verbose=0)
    assert len(model.optimizer.variables) == 2 + 2 * 4
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.optimizer.iterations == 1
    frozen = keras.Variable(1.0)
    with pytest.raises(ValueError, match="none of 1 weights has a gradient"):
        model.optimizer.apply([None], [frozen])


def test_inputs_may_be_missing_or_have_other_forms() -> None:
    class Plus(layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any, more: Any = None) -> Any:
            return x if more is None else x + more

    x, more = keras.Input((2,), name="x"), keras.Input((2,), name="more", optional=True)
    model = keras.Model({"x": x, "more": more}, layers.Dense(1, kernel_initializer="ones")(Plus()(x, more)))
    ones = np.ones((4, 2), "float32")
    for given, number in (({"x": ones, "more": None}, 2), ({"x": ones, "more": ones}, 4), ({"x": ones}, 2)):
        assert model.predict(given, verbose=0).tolist() == [[number]] * 4
    model.compile("sgd", "mse")
    model.fit({"x": ones, "more": None}, ones[:, :1], verbose=0)
    assert model.predict({"x": ones[..., None], "more": None}, verbose=0).shape == (4, 1)
    again = keras.Model.from_config(model.get_config(), {"Plus": Plus})
    assert again.predict({"x": ones, "more": None}, verbose=0).shape == (4, 1)
    for wrong, words in (
        ({"more": ones}, "no 'x'"),
        ({"x": None, "more": ones}, "optional=True"),
        ([ones], "a dict"),
    ):
        with pytest.raises(ValueError, match=words):
            model(wrong)
    with pytest.warns(UserWarning, match="does not take the inputs 'z'"):
        model({"x": ones, "z": ones})

    class Sum(keras.Model):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any) -> Any:
            return inputs[0] + inputs[1]

    assert Sum().predict((ones, ones), verbose=0).tolist() == [[2, 2]] * 4


def test_variables_have_other_values_in_a_stateless_scope() -> None:
    model = keras.Sequential([keras.Input((3,)), layers.BatchNormalization(), layers.Dense(2)])
    x, _ = numbers(6, 3, 2)
    metric = keras.metrics.Mean()
    metric.update_state([1.0, 3.0])
    before = [variable.numpy() for variable in model.variables]
    moving = model.layers[0].moving_mean
    with keras.StatelessScope([(v, keras.ops.ones_like(v)) for v in model.trainable_variables]) as scope:
        outputs = model(x, training=True)
        metric.update_state([11.0])
        assert float(metric.result()) == 5.0
        inside = scope.get_current_value(moving).numpy()
    np.testing.assert_allclose(inside, 0.01 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(outputs.numpy(), np.repeat(outputs.numpy()[:, :1], 2, 1))  # all weights were 1
    np.testing.assert_array_equal(scope.get_current_value(moving).numpy(), inside)
    assert scope.get_current_value(keras.Variable(1.0)) is None and float(metric.result()) == 2.0
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    with pytest.raises(ValueError, match="has the shape"):
        keras.StatelessScope([(moving, np.zeros(2))])


@pytest.mark.native_only
def test_numbers_go_to_a_server() -> None:
    bodies: list[tuple[str, str, Any]] = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            as_json = self.headers["Content-Type"] == "application/json"
            numbers = json.loads(text if as_json else urllib.parse.parse_qs(text)["data"][0])
            bodies.append((self.path, self.headers.get("X-Key", ""), numbers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        monitors = [
            keras.callbacks.RemoteMonitor(root, headers={"X-Key": "a"}),
            keras.callbacks.RemoteMonitor(root, "/numbers", send_as_json=True),
        ]
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        loss = model.fit(np.ones((4, 2)), np.ones((4, 1)), callbacks=monitors, verbose=0).history["loss"]
        server.shutdown()
    assert bodies == [
        ("/publish/epoch/end/", "a", {"epoch": 0, "loss": loss[0]}), ("/numbers", "", {"epoch": 0, "loss": loss[0]}),
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="cannot be reached"):
        keras.callbacks.RemoteMonitor(root).on_epoch_end(0, {})
    with pytest.raises(ValueError, match="the address of a server"):
        keras.callbacks.RemoteMonitor("localhost:9000")


def test_a_layer_may_come_twice(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    twice, x = layers.Dense(4, name="twice"), np.float32([[0.5, -1, 2, 0.1]])
    model = keras.Sequential([keras.Input((4,)), twice, layers.ReLU(), twice])
    start(model)
    kernel, bias = model.get_weights()
    wanted = np.maximum(x @ kernel + bias, 0) @ kernel + bias
    for path in ("model.keras", "model.safetensors"):
        model.save(tmp_path / path)
        again = keras.models.load_model(tmp_path / path)
        np.testing.assert_allclose(again.predict(x, verbose=0), wanted, rtol=1e-5)
        assert again.count_params() == 20 and [layer.name for layer in again.layers].count("twice") == 2
    model.pop()
    np.testing.assert_allclose(model.predict(x, verbose=0), np.maximum(x @ kernel + bias, 0), rtol=1e-5)
    with pytest.raises(ValueError, match="has no weights yet"):
        keras.Sequential([layers.Dense(2)]).count_params()


def test_what_evaluate_makes_is_in_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(1)])
    model.compile("adam", "mse")
    model.predict(np.ones((2, 4)), verbose=0)
    model.summary()
    model.evaluate(np.ones((2, 4)), np.ones((2, 1)), verbose=0)
    model.summary()
    assert re.findall("Total params: (.*)", capsys.readouterr().out) == ["19 (76.00 B)", "59 (236.00 B)"]


def test_pictures_are_prepared_by_the_layers_of_keras() -> None:
    x = keras.Input((4, 4, 3), name="picture")
    model = keras.Model(x, keras.applications.mobilenet_v2.preprocess_input(x))
    assert [one.name.rstrip("_0123456789") for one in model.operations] == ["picture", "true_divide", "subtract"]
    assert model.layers[0].get_config() == {
        "batch_shape": (None, 4, 4, 3), "dtype": "float32", "sparse": False, "ragged": False, "name": "picture",
        "optional": False,
    }  # fmt: skip


def test_progbar_logger_draws_in_place_of_the_line_of_fit(capsys: pytest.CaptureFixture[str]) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    logger = keras.callbacks.ProgbarLogger()
    model.fit(x, y, epochs=2, batch_size=4, callbacks=[logger], validation_data=(x, y))
    model.evaluate(x, y, callbacks=[logger])
    model.predict(x, callbacks=[logger])
    lines = capsys.readouterr().out.replace("\r", "\n").split("\n")
    assert [line for line in lines if line.startswith("Epoch")] == ["Epoch 1/2", "Epoch 2/2"]
    assert sum("val_loss" in line for line in lines) == 2 and sum(line.startswith("1/1 ━") for line in lines) >= 2
    model.fit(x, y, verbose=0, callbacks=[logger])
    assert capsys.readouterr().out == ""


def test_progbar_logger_of_a_loop_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    callbacks = keras.callbacks.CallbackList(add_progbar=True, verbose=2, epochs=3, steps=None)
    callbacks.on_epoch_begin(1)
    callbacks.on_train_batch_end(4, {"loss": 2.0})
    callbacks.on_epoch_end(1, {"loss": 0.5})
    printed = capsys.readouterr().out
    assert printed.startswith("Epoch 2/3\n5/5 - ") and "loss: 0.5000" in printed


@pytest.mark.parametrize(
    "name",
    ["callbacks.OrbaxCheckpoint", "layers.JaxLayer", "dtype_policies.AWQDTypePolicy", "optimizers.legacy", "export"],
)
def test_what_is_not_there_says_what_to_use(name: str) -> None:
    *around, last = name.split(".")
    module: Any = getattr(keras, around[0]) if around else keras
    assert not hasattr(module, last)
    with pytest.raises(NotImplementedError, match=f"keras.{name} is not there: .*(use|write)"):
        getattr(module, last)
