"""Models of pyapp.keras: captured steps, files, modules of nn among the layers, and clear errors."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import Tensor, keras, nn, zeros
from pyapp.engine.storage import default_pool
from pyapp.errors import FileFormatError
from pyapp.formats import write_safetensors
from pyapp.keras import symbolic_tensors
from tests.hostile import peak_memory
from tests.keras.scripts import numbers, start
from tests.together import check_each, fewer_in_browser

layers = keras.layers


@pytest.fixture(autouse=True)
def same_names() -> None:
    keras.utils.clear_session()


def small(optimizer: Any = "adam", **settings: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.ReLU(),
            layers.Dropout(0.25, seed=3), layers.Dense(3, activation="softmax", kernel_regularizer="l2"),
        ]
    )  # fmt: skip
    start(model)
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"], **settings)
    return model


OPTIMIZERS = "sgd rmsprop adam adamw adagrad adadelta adamax nadam lion schedulefreeadamw".split()


@pytest.mark.parametrize("name", fewer_in_browser(OPTIMIZERS))
def test_a_captured_step_gives_the_numbers_of_an_eager_one(name: str) -> None:
    x, y = numbers(30, 6, 3)  # the last batch is smaller
    found = []
    for eager in (False, True):
        model = small(name, run_eagerly=eager)
        history = model.fit(x, y, batch_size=8, epochs=4, shuffle=False, verbose=0).history
        assert model.compiled_step == ("not captured yet" if eager else "captured")
        found.append((history, model.get_weights()))
    assert found[0][0] == found[1][0]
    assert all((a == b).all() for a, b in zip(found[0][1], found[1][1], strict=True))


def test_a_step_that_cannot_be_captured_says_why_and_gives_the_same_numbers() -> None:
    class Peeking(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any) -> Any:
            return inputs * float(inputs.abs().max().item() > 0)

    x, y = numbers(24, 6, 3)
    found = []
    for peeks in (False, True):
        keras.utils.clear_session()
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(4),
                keras.layers.BatchNormalization(),
                *([Peeking()] if peeks else []),
            ]
        )
        start(model)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found.append(model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history)
        assert model.compiled_step == ("captured" if not peeks else model.compiled_step)
    assert found[0] == found[1]
    assert model.compiled_step.startswith("eager: ") and "item" in model.compiled_step


def test_a_model_and_its_training_go_on_from_a_file(tmp_path: Path) -> None:
    x, y = numbers(24, 6, 3)
    settings: Any = {"batch_size": 8, "shuffle": False, "verbose": 0}
    whole, first = small(), small()
    whole.fit(x, y, epochs=4, **settings)
    first.fit(x, y, epochs=2, **settings)
    path = tmp_path / "model.keras"
    first.save(path)
    after = keras.models.load_model(path)
    after.layers[3].generator.set_state(first.layers[3].generator.get_state())
    after.fit(x, y, initial_epoch=2, epochs=4, **settings)
    for a, b in zip(after.get_weights(), whole.get_weights(), strict=True):
        assert (a == b).all()


def test_optimizers_around_others_go_on_from_a_file(tmp_path: Path) -> None:
    o = keras.optimizers
    x, y = numbers(24, 6, 3)
    settings: Any = {"batch_size": 8, "shuffle": False, "verbose": 0}

    def trained(optimizer: Any) -> Any:
        keras.utils.clear_session()
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(3)])
        start(model)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    def check(name: str, made: Any) -> None:
        whole, first = trained(made()), trained(made())
        whole.fit(x, y, epochs=4, **settings)
        first.fit(x, y, epochs=2, **settings)
        first.save(tmp_path / f"{name}.keras")
        after = keras.models.load_model(tmp_path / f"{name}.keras")
        after.fit(x, y, initial_epoch=2, epochs=4, **settings)
        for a, b in zip(after.get_weights(), whole.get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
        assert len(after.optimizer.variables) == len(whole.optimizer.variables) > 0

    check_each(check, fewer_in_browser([
        ("scaled", lambda: o.LossScaleOptimizer(o.Adam(0.02), initial_scale=64.0, dynamic_growth_steps=3)),
        ("several", lambda: o.MultiOptimizer(o.OptimizerMap("adam", {".*bias": o.SGD(0.1, momentum=0.9)}))),
        ("muon", lambda: o.Muon(o.schedules.CosineDecay(0.02, 20))),
    ]))  # fmt: skip
    scaled = o.LossScaleOptimizer("adam")
    weight = keras.Variable([1.0, 2.0])
    scaled.apply([np.array([np.inf, 1.0], "float32")], [weight])
    assert weight.tolist() == [1, 2] and scaled.dynamic_scale == 2.0**14 and scaled.iterations == 0
    rate = o.SGD(0.5).learning_rate
    assert rate == 0.5 and rate.numpy() == np.float32(0.5)


@keras.saving.register_keras_serializable("tests", "Scaling")
class Scaled(keras.layers.Layer):  # type: ignore[misc, name-defined]
    def __init__(self, factor: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.factor = factor

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor * self.scale

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


@keras.saving.register_keras_serializable("tests", "squared")
def own_activation(x: Any) -> Any:
    return x**2


def own_loss(y_true: Any, y_pred: Any) -> Any:
    return ((y_true - y_pred) ** 2).mean(-1)


class TwoDense(keras.Model):  # type: ignore[misc, name-defined]
    def __init__(self, units: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.units = units
        self.first, self.last = keras.layers.Dense(units, own_activation), keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.last(self.first(inputs["x"]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


def test_classes_and_functions_of_ones_own_go_on_from_a_file(tmp_path: Path) -> None:
    x, _ = numbers(12, 4, 3)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(3, activation=own_activation)(Scaled(2.0, trainable=False)(inputs))
    functional = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    for model, data in ((functional, x), (TwoDense(5), {"x": x})):
        model.predict(data, verbose=0)
        start(model)
        model.compile("adam", own_loss, metrics=[keras.metrics.Precision(thresholds=0.3)])
        model.fit(data, x[:, :1], verbose=0)
        path = tmp_path / "own.keras"
        model.save(path)
        known = {"own_loss": own_loss, "TwoDense": TwoDense}
        again = keras.models.load_model(path, custom_objects=known)
        settings: Any = {"verbose": 0, "shuffle": False}
        assert again.fit(data, x[:, :1], **settings).history == model.fit(data, x[:, :1], **settings).history
        np.testing.assert_array_equal(again.predict(data, verbose=0), model.predict(data, verbose=0))
        assert [type(layer) for layer in again.layers] == [type(layer) for layer in model.layers]
    with pytest.raises(ValueError, match="'TwoDense', which is not known; pass it in custom_objects"):
        keras.models.load_model(path)
    assert not functional.layers[1].trainable
    built = TwoDense(3)
    built.build({"x": (None, 4)})
    assert [tuple(weight.shape) for weight in built.weights] == [(4, 3), (3,), (3, 1), (1,)]


@pytest.mark.parametrize("metrics", [["mae"], {"b": "mse", "a": ["mae"]}])
def test_metrics_that_have_settings_come_back_from_a_file_without_h5py(metrics: Any, tmp_path: Path) -> None:
    x, _ = numbers(6, 4, 3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[[keras.metrics.Precision(thresholds=0.3)], metrics])
    model.save(tmp_path / "model.safetensors")
    again = keras.models.load_model(tmp_path / "model.safetensors")
    wanted = model.evaluate(x, x[:, :1], verbose=0, return_dict=True)
    assert again.evaluate(x, x[:, :1], verbose=0, return_dict=True) == wanted and "precision" in wanted


def test_a_functional_model_is_the_same_from_a_file(tmp_path: Path) -> None:
    layers = keras.layers
    one, two = keras.Input((5, 4), name="one"), keras.Input((3,), name="two")
    h = layers.Bidirectional(layers.LSTM(3))(one)
    h = layers.Concatenate()([h, layers.Dense(2, activation="relu")(two)])
    model = keras.Model({"one": one, "two": two}, [layers.Dense(1, name="a")(h), layers.Add(name="b")([h, h])])
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    random = np.random.RandomState(0)
    data = {"one": random.randn(2, 5, 4).astype("float32"), "two": random.randn(2, 3).astype("float32")}
    for a, b in zip(model.predict(data, verbose=0), again.predict(data, verbose=0), strict=True):
        assert (a == b).all()
    assert again.output_names == ["a", "b"]


def test_weights_alone_and_foreign_files(tmp_path: Path) -> None:
    model, other = small(), small()
    start(other, 5)
    model.save_weights(tmp_path / "weights.safetensors")
    other.load_weights(tmp_path / "weights.safetensors")
    assert all((a == b).all() for a, b in zip(model.get_weights(), other.get_weights(), strict=True))
    wide = keras.Sequential([keras.Input((6,)), keras.layers.Dense(9)])
    with pytest.raises(ValueError, match="has 8 weights, sequential_2 has 2"):
        wide.load_weights(tmp_path / "weights.safetensors")
    with pytest.raises(FileFormatError, match="weights alone"):
        keras.models.load_model(tmp_path / "weights.safetensors")
    write_safetensors(tmp_path / "damaged.safetensors", {"x": zeros(2)}, {"pyapp.keras": "{"})
    with pytest.raises(FileFormatError, match="the configuration in .*damaged"):
        keras.models.load_model(tmp_path / "damaged.safetensors")
    (tmp_path / "real.keras").write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(FileFormatError, match="not a usable ZIP archive"):
        keras.models.load_model(tmp_path / "real.keras")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.save(tmp_path / "real.keras", overwrite=False)


def test_files_without_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where h5py is missing, files have pyapp's own form, and those of Keras say what to install."""
    model, other = small(), small()
    start(other, 5)
    path, weights = tmp_path / "model.keras", tmp_path / "model.weights.h5"
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.warns(UserWarning, match=r"own form.*pip install 'pyapp\[keras\]'"):
        model.save(path)
    with pytest.warns(UserWarning, match="which Keras does not read"):
        model.save_weights(weights)
    other.load_weights(weights)
    for again in (other, keras.models.load_model(path)):
        assert all((a == b).all() for a, b in zip(model.get_weights(), again.get_weights(), strict=True))
    monkeypatch.undo()
    keras.models.load_model(path)  # with h5py too: a file is told by what it holds
    monkeypatch.setitem(sys.modules, "h5py", None)
    weights.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(ImportError, match=r"pip install 'pyapp\[keras\]'"):
        other.load_weights(weights)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", '{"class_name": "Sequential", "config": {"layers": []}}')
        archive.writestr("model.weights.h5", "x")
    with pytest.raises(ImportError, match="the package h5py"):
        keras.models.load_model(path)


def test_modules_of_nn_stand_among_the_layers() -> None:
    x, y = numbers(16, 6, 3)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), keras.layers.Dense(3)])
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    losses = model.fit(x, y, epochs=8, verbose=0, batch_size=8).history["loss"]
    assert losses[-1] < losses[0] and model.compiled_step == "captured"
    assert model.output_shape == (None, 3) and len(model.trainable_weights) == 6


def test_the_summary_shows_layers_shapes_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(4, 3), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    model.summary()
    shown = capsys.readouterr().out
    assert 'Model: "sequential"' in shown and "(None, 6, 6, 4)" in shown and "(None, 144)" in shown
    assert "Total params: 330" in shown


def test_progress_is_shown_as_keras_does(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = numbers(16, 6, 3)
    small().fit(x, y, epochs=2, batch_size=8, verbose=2)
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "Epoch 1/2" and lines[1].startswith("2/2 - ") and "accuracy: " in lines[1] and "loss: " in lines[1]
    )


def test_checkpoints_and_tables_of_an_interrupted_training(tmp_path: Path) -> None:
    x, y = numbers(16, 6, 3)
    model = small()

    class Stop(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise KeyboardInterrupt

    table = tmp_path / "log.csv"
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch:02d}.keras", monitor="loss", save_best_only=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, epochs=5, verbose=0, callbacks=[keras.callbacks.CSVLogger(table), kept, Stop()])
    assert (
        table.read_text().splitlines()[0] == "epoch,accuracy,loss,val_accuracy,val_loss"
        and len(table.read_text().splitlines()) == 3
    )
    assert (tmp_path / "01.keras").exists()
    assert keras.models.load_model(tmp_path / "01.keras").optimizer.iterations == 1


BAD = [
    (lambda m, x, y: m.fit(x, y[:5]), ValueError, "different numbers of examples: 5, 24"),
    (lambda m, x, y: m.fit(x[:, :4], y), ValueError, r"built for inputs whose last dim is 6, got shape \(24, 4\)"),
    (lambda m, x, y: m.fit(x[:0], y[:0]), ValueError, "no data"),
    (lambda m, x, y: m.fit(iter([]), steps_per_epoch=2), ValueError, "no data"),
    (lambda m, x, y: m.fit(x, y + 3), (ValueError, IndexError), "labels are classes 0 … 2"),
    (lambda m, x, y: m.fit(x, np.eye(4)[y]), ValueError, "labels of shape"),
    (lambda m, x, y: m.fit(x, y, validation_split=1.5), ValueError, "between 0 and 1"),
    (lambda m, x, y: m.fit(iter([(x, y)]), y, steps_per_epoch=1), ValueError, "`y` should not be passed"),
    (lambda m, x, y: m.fit(x, y, callbacks=[print]), TypeError, "subclass of Callback"),
    (lambda m, x, y: m.compile("adm", "mse"), ValueError, "no optimizer 'adm'"),
    (lambda m, x, y: m.compile("adam", "mes") or m.fit(x, y, verbose=0), ValueError, "no loss 'mes'"),
    (lambda m, x, y: m.get_layer("dens"), ValueError, "there are dense, batch_normalization"),
    (lambda m, x, y: m.add(keras.layers.Dense), ValueError, "not the class"),
    (lambda m, x, y: m.add(keras.layers.Dense(3, activaton="relu")), ValueError, "no argument 'activaton'"),
    (lambda m, x, y: keras.layers.Dense(0), ValueError, "positive integer"),
    (lambda m, x, y: keras.layers.Conv2D(4, 3)(zeros(2, 8, 8)), ValueError, "conv2d .Conv2D..*takes 4 dims"),
    (lambda m, x, y: keras.Model(keras.Input((3,)), keras.Input((3,)) + 1), ValueError, "gap"),
    (lambda m, x, y: keras.Sequential([keras.layers.Dense(2)]).fit(x, y), ValueError, r"call compile\(\)"),
    (lambda m, x, y: nn.Sequential(nn.Linear(2, 2)).compile(optimizer="adam", loss="mse"), TypeError, "pyapp.keras"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_input_is_named(number: int) -> None:
    act, error, text = BAD[number]
    x, y = numbers(24, 6, 3)
    with pytest.raises(error, match=text):  # type: ignore[arg-type]
        act(small(), x, y)


def test_a_generator_that_ends_early_ends_the_training(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = numbers(24, 6, 3)
    history = small().fit(((x[k : k + 8], y[k : k + 8]) for k in (0, 8, 16)), steps_per_epoch=2, epochs=3, verbose=0)
    assert history.epoch == [0, 1] and "ended after 1 of 2 steps" in capsys.readouterr().out


def test_texts_become_numbers() -> None:
    layer = keras.layers.TextVectorization(max_tokens=6, output_sequence_length=4)
    layer.adapt(["the cat sat", "The cat!", "a dog, the end"])
    assert layer.get_vocabulary()[:4] == ["", "[UNK]", "the", "cat"]
    assert layer(["the cat flew away far", "dog"]).tolist()[0] == [2, 3, 1, 1]
    counted = keras.layers.TextVectorization(output_mode="count", vocabulary=["cat", "dog"])
    assert counted(["dog dog bird"]).tolist() == [[1.0, 0.0, 2.0]]


def test_masks_in_captured_steps_and_where_they_are_lost() -> None:
    ids = np.random.default_rng(0).integers(0, 5, (16, 6))
    layers = keras.layers
    words = keras.Input((None,), dtype="int64")
    model = keras.Sequential([words, layers.Embedding(10, 4, mask_zero=True), layers.LSTM(3), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(ids, np.ones(16), batch_size=8, verbose=0, epochs=2)
    assert model.compiled_step == "captured"
    tail = np.concatenate([ids, np.zeros((16, 3), ids.dtype)], 1)  # more padding changes nothing
    np.testing.assert_allclose(model.predict(tail), model.predict(ids), atol=1e-6)
    with pytest.warns(UserWarning, match=r"layer flatten.* \(Flatten\) got a mask, and does not pass masks on"):
        keras.layers.Flatten()(keras.layers.Embedding(10, 4, mask_zero=True)(ids))


@pytest.mark.parametrize("kind", ["SimpleRNN", "GRU", "LSTM"])
def test_recurrent_dropout_follows_its_seed(kind: str) -> None:
    x = np.ones((2, 3, 4), "float32")
    first, second, other = (
        getattr(keras.layers, kind)(5, dropout=0.5, recurrent_dropout=0.3, seed=seed) for seed in (1, 1, 2)
    )
    for layer in (first, second, other):
        layer(x)
        layer.set_weights(first.get_weights())
    y = first(x, training=True)
    assert y.equal(second(x, training=True)) and not y.equal(other(x, training=True))
    assert not first(x, training=True).equal(y)


def classifier(*inner: Any, loss: Any = "sparse_categorical_crossentropy") -> Any:
    model = keras.Sequential([*inner, keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", loss)
    return model


def test_errors_name_the_layer_the_labels_and_the_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    layers = keras.layers
    x, y = np.random.default_rng(0).random((40, 6)).astype("float32"), np.zeros(40, int)
    late = np.where(np.arange(40) == 39, 7, 0)  # when steps are captured
    for model, inputs, labels, error, message in (
        (classifier(), x, late, ValueError, r"labels are classes 0 … 2, got 0 … 7"),
        (classifier(layers.Embedding(5, 3), layers.LSTM(3)), late.reshape(-1, 1), y, IndexError,
         r"layer embedding.* \(Embedding\) takes ids 0 … 4, got 0 … 7"),
        (classifier(loss="mse"), x, np.ones((40, 2)), ValueError,
         r"output 'dense.*': the loss mean_squared_error cannot compare labels of shape \(8, 2\) with predictions of "
         r"shape \(8, 3\)"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            model.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0)
    pair = [np.ones((2, 3), "float32"), np.ones((2, 4), "float32")]
    with pytest.raises(
        ValueError, match=r"layer add.* \(Add\) with inputs of shape \(2, 3\) and \(2, 4\): add: The size .* shapes"
    ):
        layers.Add()(pair)
    stop = keras.callbacks.TerminateOnNaN()
    bad = np.where(np.arange(40)[:, None] == 17, np.nan, x)
    classifier().fit(bad, y, batch_size=8, shuffle=False, verbose=0, callbacks=[stop])
    assert "Batch 2: Invalid loss, terminating training: the inputs have NaN" in capsys.readouterr().out
    wild = keras.Sequential([layers.Dense(3), layers.Dense(1)])
    wild.compile(keras.optimizers.SGD(1e30), "mse")
    wild.fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[stop])
    assert re.search(r"the weights of layer dense\w* are not numbers any more", capsys.readouterr().out)


def test_a_generator_that_ends(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.ones((8, 6), "float32"), np.zeros(8, int)
    model = classifier()
    history = model.fit(((x, y) for _ in range(3)), steps_per_epoch=5, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 1 and "ended after 3 of 5 steps" in capsys.readouterr().out
    with pytest.raises(ValueError, match="the data ended with epoch 1: the source of batches cannot begin anew"):
        model.fit(((x, y) for _ in range(3)), epochs=2, verbose=0)
    with pytest.raises(ValueError, match="a generator that has ended gives no more"):
        model.fit(x, y, epochs=2, verbose=0, validation_data=((x, y) for _ in range(3)))
    with pytest.raises(TypeError, match="class_weight: a dict of classes and weights"):
        model.fit(x, y, verbose=0, class_weight=[1, 2, 3])  # type: ignore[arg-type]
    for count in (1, 3):
        start = keras.Input((6,))
        pair = keras.Model(start, [keras.layers.Dense(1, name="a")(start), keras.layers.Dense(1)(start)])
        pair.compile("sgd", "mse")
        with pytest.raises(ValueError, match=rf"model: 2 \(a, dense\w*\), labels in the data: {count}"):
            pair.fit(x, [x[:, :1]] * count, verbose=0)
    two = keras.layers.GRU(2), keras.layers.GRU(2)
    with pytest.raises(ValueError, match="needs go_backwards=True"):
        keras.layers.Bidirectional(two[0], backward_layer=two[1])
    for pairs, text in (([], "got none"), ([(None, w) for w in model.trainable_weights], "none of 2 weights")):
        with pytest.raises(ValueError, match=text):
            keras.optimizers.SGD().apply_gradients(pairs)


class Mixed(layers.Layer):
    """Weights of both kinds, made before and after each other."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.inner = keras.layers.Dense(3)

    def build(self, input_shape: Any) -> None:
        self.w = self.add_weight(shape=(input_shape[-1], 4), initializer="ones")
        self.count = self.add_weight(shape=(1,), trainable=False)
        self.inner.build((None, 4))

    def call(self, x: Any) -> Any:
        return self.inner(x @ self.w)


def test_weights_that_can_be_trained_come_first() -> None:
    """The order of Keras, in which its files number the weights; also of a layer that is not trained."""
    layer = Mixed()
    layer(np.ones((2, 2), np.float32))
    for trainable in (True, False):
        layer.trainable = trainable
        assert [tuple(weight.shape) for weight in layer.weights] == [(2, 4), (), (1,), (4, 3), (3,)]
        assert [weight.shape for weight in layer.get_weights()] == [(2, 4), (), (1,), (4, 3), (3,)]


def test_masks_of_arrays_are_tensors() -> None:
    mask = keras.layers.Embedding(10, 4, mask_zero=True).compute_mask(np.array([[1, 2, 0]]))
    assert isinstance(mask, Tensor) and mask.tolist() == [[True, True, False]]
    mask = keras.layers.Masking().compute_mask(np.array([[[0.0, 0.0], [1.0, 0.0]]]))
    assert isinstance(mask, Tensor) and mask.tolist() == [[False, True]]


def test_lists_of_numbers_have_the_order_of_keras() -> None:
    """The order of evaluate's list, as Keras 3.15 gives it for losses by name, and for metrics of one output."""
    inputs = keras.Input((4,))
    outputs = {"later": layers.Dense(1, name="later")(inputs), "first": layers.Dense(1, name="first")(inputs)}
    model = keras.Model(inputs, outputs)
    x, y = np.ones((4, 4), "float32"), {"later": np.ones((4, 1)), "first": np.zeros((4, 1))}
    model.compile("sgd", {"later": "mse", "first": "mae"}, metrics={"first": ["mse"], "later": ["mae"]})
    found, by_name = model.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0, return_dict=True)
    order = ["loss", "later_loss", "first_loss", "first_mse", "later_mae"]
    assert found == [by_name[name] for name in order] and model.metrics_names == order

    class Counted(keras.Model):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.calls = keras.metrics.Mean(name="zeros")

    counted = Counted(inputs, outputs["later"])
    counted.compile("sgd", "mse", metrics=["mae", "mape"])
    names = list(counted.evaluate(x, y["later"], verbose=0, return_dict=True))
    assert sorted(names) == ["loss", "mae", "mape", "zeros"]
    by_name = counted.evaluate(x, y["later"], verbose=0, return_dict=True)
    assert counted.evaluate(x, y["later"], verbose=0) == [by_name[n] for n in ("loss", "mae", "mape", "zeros")]


def test_outputs_of_all_layers_make_a_model() -> None:
    inputs = keras.Input((4,), name="begin")
    model = keras.Model([inputs], [layers.Dense(2)(layers.Dense(3)(inputs))])
    x = np.ones((2, 4), "float32")
    assert model.predict(x, verbose=0).shape == (2, 2)  # lists of one are no lists
    every = keras.Model(model.input, [layer.output for layer in model.layers])
    assert [tuple(one.shape) for one in every(x)] == [(2, 4), (2, 3), (2, 2)]
    assert model.layers[0].output is inputs and model.layers[0].input is inputs
    with pytest.raises(ValueError, match="layer dense.* takes tensors, not 'x'"):
        layers.Dense(2)("x")


def test_models_without_weights_and_callbacks_of_batches() -> None:
    class Penalty(layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any) -> Any:
            self.add_loss(0.01 * keras.ops.mean(inputs))
            return inputs

    class Penalised(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = layers.Dense(2, name="dense")

        def call(self, inputs: Any) -> Any:
            return self.inner(inputs)

    seen: list[Any] = []

    class Told(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(("train", batch, sorted(logs)))

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(("test", batch, sorted(logs)))

    inputs = keras.Input((3,))
    model, x = keras.Model(inputs, Penalty()(inputs)), np.ones((4, 3))
    model.compile("sgd", "mse")
    history = model.fit(x, x, batch_size=2, verbose=0, callbacks=[Told()], validation_data=(x, x))
    np.testing.assert_allclose(history.history["loss"], [0.01], rtol=1e-5)
    assert seen == [(kind, k, ["loss"]) for kind in ("train", "test") for k in (0, 1)]
    own = Penalised()
    own.build((None, 4))
    assert [weight.path for weight in own.weights] == ["penalised/dense/kernel", "penalised/dense/bias"]
    lstm = layers.LSTM(3, stateful=True)
    lstm(np.ones((2, 4, 5), "float32"))
    assert [state.shape for state in lstm.states] == [(2, 3), (2, 3)]
    assert type(keras.optimizers.get({"class_name": "rmsprop", "config": {}})).__name__ == "RMSprop"
    assert np.asarray(lstm.weights[0].numpy()).shape == (5, 12)  # of a weight that is trained


def test_inputs_become_what_the_model_says() -> None:
    """Bits and numbers of classes among floats, as Keras' example of a text by characters gives them."""
    x = np.eye(3)[np.array([[0, 1, 2], [2, 2, 0]])].astype("bool")
    model = keras.Sequential([keras.Input((3, 3)), layers.LSTM(2), layers.Dense(1)])
    assert model.predict(x, verbose=0).shape == (2, 1)
    inputs = keras.Input((3,), dtype="int32")
    assert keras.Model(inputs, inputs * 2).predict(np.array([[1.0, 2.0, 3.7]]), verbose=0).tolist() == [[2, 4, 6]]
    assert model.predict(x.astype("int64"), verbose=0).tolist() == model.predict(x, verbose=0).tolist()


def test_copies_and_pickles_train_on() -> None:
    """Their optimisers have the states of their own weights, and their steps are captured anew."""
    x, y = numbers(16, 6, 3)
    inputs = keras.Input((6,))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(layers.Dense(8, activation="relu")(inputs)))
    start(model)
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "sparse_categorical_crossentropy")
    settings: Any = {"batch_size": 8, "epochs": 2, "shuffle": False, "verbose": 0}
    model.fit(x, y, **settings)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    losses = [one.fit(x, y, **settings).history["loss"] for one in (model, *copies)]
    assert losses[0] == losses[1] == losses[2]
    assert all(one.compiled_step == "captured" and len(one.optimizer.state_dict()["states"]) == 4 for one in copies)


def test_functions_of_metrics_take_arrays_and_lists() -> None:
    labels, shares = np.array([1, 0]), np.array([[0.2, 0.8], [0.3, 0.7]])
    for one, two in ((labels, shares), (labels.tolist(), shares.tolist())):
        assert keras.metrics.sparse_categorical_accuracy(one, two).tolist() == [1, 0]
        assert keras.metrics.sparse_top_k_categorical_accuracy(one, two, k=2).tolist() == [1, 1]
        assert keras.losses.sparse_categorical_crossentropy(one, two).shape == (2,)
    assert keras.metrics.binary_accuracy([[1.0, 0.0]], [[0.9, 0.8]]).tolist() in ([0.5], [[1, 0]])


def test_batches_by_number_come_in_another_order_each_time() -> None:
    class Batches(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        asked: list[int] = []

        def __len__(self) -> int:
            return 6

        def __getitem__(self, k: int) -> Any:
            self.asked.append(k)
            return np.ones((2, 6), "float32"), np.ones(2, "int64")

    batches = Batches()
    keras.utils.set_random_seed(1)
    small().fit(batches, epochs=3, verbose=0)
    passes = [batches.asked[k : k + 6] for k in (0, 6, 12)]
    assert [sorted(one) for one in passes] == [list(range(6))] * 3 and passes[0] != passes[1] != passes[2]
    batches.asked.clear()
    small().fit(batches, shuffle=False, verbose=0)
    small().evaluate(batches, verbose=0)
    assert batches.asked == [*range(6)] * 2


def test_layers_of_a_package_come_back_from_their_configuration() -> None:
    @keras.saving.register_keras_serializable(package="own")
    class Times(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, factor: float, **settings: Any) -> None:
            super().__init__(**settings)
            self.factor = factor

        def call(self, x: Any) -> Any:
            return x * self.factor

    config = keras.saving.serialize_keras_object(Times(3.0, name="three"))
    again = keras.saving.deserialize_keras_object(config)
    assert (again.factor, again.name, type(again)) == (3.0, "three", Times)


def test_a_gathered_gradient_is_kept_in_files(tmp_path: Path) -> None:
    x, y = numbers(24, 6, 3)
    found = []
    for stops in (False, True):  # after the first of two gradients
        model = keras.Sequential([keras.Input((6,)), layers.Dense(3, "softmax")])
        start(model)
        model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "sparse_categorical_crossentropy")
        for k, first in enumerate(range(0, 24, 8)):
            model.train_on_batch(x[first : first + 8], y[first : first + 8])
            if k == 0 and stops:
                model.save(tmp_path / "model.safetensors")
                model = keras.models.load_model(tmp_path / "model.safetensors")
        assert (model.optimizer.iterations, model.optimizer.batches) == (1, 3)
        found.append(model.get_weights())
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_validation_sees_the_same_batches_each_time() -> None:
    x = np.arange(12.0).reshape(12, 1).astype("float32")
    seen: list[float] = []

    class Watched(keras.Model):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return x

        def train_step(self, data: Any) -> dict[str, float]:
            return {"n": 1.0}

        def test_step(self, data: Any) -> dict[str, float]:
            seen.append(float(data[0][0, 0]))
            return {"n": 1.0}

    class Numbered(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        told = 0

        def __len__(self) -> int:
            return 3

        def __getitem__(self, k: int) -> Any:
            return x[4 * k : 4 * k + 4], x[4 * k : 4 * k + 4]

        def on_epoch_begin(self) -> None:
            self.told += 1

    model, numbered = Watched(), Numbered()
    model.compile("sgd", "mse")
    model.fit(x, x, epochs=2, verbose=0, validation_data=(x, x), validation_steps=2, validation_batch_size=4)
    model.fit(x, x, epochs=2, verbose=0, validation_data=numbered, validation_steps=2)
    assert seen == [0.0, 4.0] * 4 and numbered.num_batches == 3
    model.fit(numbered, epochs=2, verbose=0)
    assert numbered.told == 4  # two validations and two epochs


def test_a_list_of_callbacks_in_a_loop_of_ones_own() -> None:
    told: list[Any] = []

    class Told(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, logs: Any = None) -> None:
            told.append((self.params["epochs"], self.model.name))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append((batch, logs))

    model = small()
    listed = keras.callbacks.CallbackList(Told(), add_history=True, model=model, epochs=2)
    listed.append(keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: told.append((epoch, logs))))
    listed.on_train_begin()
    listed.on_train_batch_end(0, logs={"loss": 1.0})
    listed.on_epoch_end(0, {"loss": 2.0})
    assert told == [(2, model.name), (0, {"loss": 1.0}), (0, {"loss": 2.0})]
    assert model.history.history == {"loss": [2.0]}


def test_a_checkpoint_without_its_number_saves_and_values_are_copies(tmp_path: Path) -> None:
    x, y = numbers(16, 6, 3)
    model = small()
    kept = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}-{batch}.keras", save_best_only=True, save_freq=1)
    before = model.weights[0].numpy()
    same = before.copy()
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[kept])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1-1.keras", "1-2.keras"]
    np.testing.assert_array_equal(before, same)
    assert (model.weights[0].numpy() != before).any()
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: "slow")
    with pytest.raises(ValueError, match="the schedule gives a number, not 'slow'"):
        model.fit(x, y, verbose=0, callbacks=[schedule])
    with pytest.raises(ValueError, match=r"has \d layers, but none with the number 9"):
        model.get_layer(index=9)


def test_losses_of_the_last_batch_are_kept_without_their_history() -> None:
    class Penalised(layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(0.01 * keras.ops.mean(inputs))
            return inputs

    model = keras.Sequential(
        [keras.Input((2,)), Penalised(), layers.Dense(1, kernel_initializer="ones", kernel_regularizer="l2")]
    )
    model.compile("sgd", "mse")
    x = np.array([[0.0, 1.0], [2.0, 3.0]], "float32")
    model.fit(x, np.ones((2, 1), "float32"), batch_size=1, shuffle=False, verbose=0)
    # Keras 3.15: 0.01 times the mean of the last batch, and the penalty of the weights after its step
    assert [float(loss) for loss in model.losses] == pytest.approx([0.025, 0.012820789])
    assert not model.losses[0].requires_grad


def test_seeds_can_be_drawn() -> None:
    seeds = keras.random.SeedGenerator(42)
    assert seeds.state.tolist() == [42, 0]
    first, second = seeds.next(), seeds.next()
    assert (first.tolist(), second.tolist()) == ([42, 0], [42, 1])
    drawn = [keras.random.normal((3,), seed=seed).tolist() for seed in (first, first, second, seeds)]
    assert drawn[0] == drawn[1] and len({tuple(values) for values in drawn}) == 3
    assert keras.random.SeedGenerator.from_config(seeds.get_config()).seed == 42
    with pytest.raises(ValueError, match="the seed is a whole number"):
        keras.random.SeedGenerator("a")


def test_layers_may_be_assigned_before_the_constructor_runs_and_taken_away(tmp_path: Path) -> None:
    class Early(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            self.dense, self.size = keras.layers.Dense(3), 3
            self.blocks = [keras.layers.Dense(2), keras.layers.Dense(1)]
            inputs = keras.Input((4,))
            super().__init__(inputs, self.blocks[0](self.dense(inputs)))

    model = Early()
    assert [layer.name for layer in model.layers] == [model.inputs[0].name, "dense", "dense_1"] and model.size == 3
    assert len(model.weights) == 4  # the last block was never called

    class Said(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def compute_output_shape(self, input_shape: Any) -> Any:
            return (*input_shape[:-1], 3)

    inputs = keras.Input((4,))
    assert len(keras.Model(inputs, Said()(inputs)).weights) == 2  # its layers are made though it says its shape
    model.dense = 0.5  # a number in the place of a layer, which stays in the graph
    assert model.dense == 0.5 and len(model.weights) == 4 and model(zeros(2, 4)).shape == (2, 2)


def test_functions_in_the_files_of_layers_of_ones_own(tmp_path: Path) -> None:
    class Around(keras.layers.Layer):
        def __init__(self, inside: Any, act: Any, **settings: Any) -> None:
            super().__init__(**settings)
            self.inside, self.act = inside, act

        def call(self, inputs: Any) -> Any:
            return self.act(self.inside(inputs))

        def get_config(self) -> dict[str, Any]:
            own = {"inside": self.inside, "act": self.act}
            written = {key: keras.saving.serialize_keras_object(value) for key, value in own.items()}
            return {**super().get_config(), **written}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Any:
            read = {key: keras.saving.deserialize_keras_object(config.pop(key)) for key in ("inside", "act")}
            return cls(**config, **read)

    inputs = keras.Input((4,))
    x = keras.activations.gelu(Around(keras.layers.Dense(3), keras.activations.relu)(inputs))
    model = keras.Model(inputs, x)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras", custom_objects={"Around": Around})
    given = keras.ops.ones((2, 4))
    assert bool((again(given) == model(given)).all())


def test_parts_of_modules_can_be_imported() -> None:
    for part, name in (
        ("optimizers.schedules", "CosineDecay"), ("preprocessing.image", "load_img"), ("ops.nn", "relu"),
        ("preprocessing.sequence", "pad_sequences"), ("datasets.mnist", "load_data"), ("ops.image", "resize"),
        ("utils.bounding_boxes", "convert_format"), ("utils.legacy", "serialize_keras_object"),
        ("ops.numpy", "take"), ("ops.linalg", "norm"),
    ):  # fmt: skip
        assert callable(getattr(importlib.import_module(f"pyapp.keras.{part}"), name)), part
    written = keras.utils.legacy.serialize_keras_object(keras.optimizers.schedules.CosineDecay(0.5, 9))
    assert written["class_name"] == "CosineDecay" and set(written) == {"class_name", "config"}
    kinds = {"CosineDecay": keras.optimizers.schedules.CosineDecay}
    assert keras.utils.legacy.deserialize_keras_object(written, kinds).get_config() == written["config"]


def test_mistakes_with_layers_are_named() -> None:
    sequences, state = np.ones((2, 5, 3), "float32"), np.linspace(0, 1, 4, dtype="float32")[None]
    for kind, count in ((keras.layers.LSTM, 2), (keras.layers.GRU, 1), (keras.layers.SimpleRNN, 1)):
        layer = kind(4)
        for wrong in (np.ones((2, 5), "float32"), np.ones((3, 4), "float32")):
            with pytest.raises(ValueError, match=r"initial states of shapes \[\(2, 4\)"):
                layer(sequences, initial_state=[wrong] * count)
        one, all_rows = (layer(sequences, initial_state=[s] * count) for s in (state, np.repeat(state, 2, 0)))
        np.testing.assert_allclose(one.detach().numpy(), all_rows.detach().numpy(), rtol=1e-5)
    with pytest.raises(TypeError, match="without inputs"):
        keras.layers.Dense(2)()
    x = keras.Input((3,))
    with pytest.raises(ValueError, match="two layers are called 'same'"):
        keras.Model(x, keras.layers.Dense(1, name="same")(keras.layers.Dense(1, name="same")(x)))


def test_what_follows_predict_on_a_generator_begins_where_it_ended() -> None:
    model = keras.Sequential([keras.Input((1,)), layers.Identity()])
    batches = ((np.full((1, 1), k, "float32"),) for k in range(9))
    assert [model.predict(batches, steps=2, verbose=0).ravel().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    assert model.predict(([1.0],), verbose=0).tolist() == [[1.0]] and model((np.ones((2, 1)),)).shape == (2, 1)

    class Bare(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.size = 3

    with pytest.raises(AttributeError, match=r"Bare.__init__ does not call super\(\).__init__\(\)"):
        Bare()(np.ones((2, 1)))


def test_state_is_not_made_in_call() -> None:
    class Wrong(layers.Layer):
        def call(self, x: Any) -> Any:
            return x @ self.add_weight(shape=(3, 2), name="kernel")

    class Lazy(layers.Layer):
        """With a layer inside, the first call may make one more."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers.Dense(3), None

        def call(self, x: Any) -> Any:
            if self.second is None:
                self.second = layers.Dense(2)
            return self.second(self.first(x))

    x = np.ones((2, 3), "float32")
    with pytest.raises(ValueError, match=r"You cannot add new elements of state .*\(Wrong\) makes the weight 'kernel'"):
        Wrong()(x)
    lazy = Lazy()
    assert tuple(lazy(x).shape) == (2, 2) and lazy(x) is not None and len(lazy.weights) == 4
    model = keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="`class_weight` and `sample_weight`"):
        model.fit(x, np.array([0, 1]), sample_weight=np.ones(2), class_weight={0: 1.0}, verbose=0)


def test_sizes_beyond_memory_are_refused_before_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations of files say sizes; a model that is made keeps little beside its weights."""
    monkeypatch.setattr("pyapp.keras.symbolic_tensors.half_of_memory", lambda: 1 << 24)
    x = keras.Input((2, 2, 2, 3))
    for layer in (keras.layers.UpSampling3D(1 << 10), keras.layers.Conv3D(1 << 20, 3), keras.layers.ZeroPadding3D(99)):
        with peak_memory(1 << 22), pytest.raises(MemoryError, match="layer .* needs .* that it may take"):
            layer(x)
    with pytest.raises(ValueError, match="groups is 1 or more"):
        keras.layers.GroupNormalization(groups=0)
    wide = keras.layers.UpSampling3D(16)(x)
    assert wide.shape == (None, 32, 32, 32, 3) and default_pool.cached <= symbolic_tensors.KEPT + (1 << 22)
