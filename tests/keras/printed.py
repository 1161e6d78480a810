"""What a user reads: summaries, names and lines of callbacks. Each function takes the `keras` module and returns texts,
which are Keras' own to the letter (make_golden_printed.py).
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

PRINTED: dict[str, Callable[[Any], list[str]]] = {}


def printed(function: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    PRINTED[function.__name__] = function
    return function


def shown(run: Callable[[], Any]) -> str:
    """What it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    return out.getvalue()


def summary_of(model: Any, **settings: Any) -> str:
    """The summary, with spaces at the ends of lines left out."""
    lines: list[str] = []
    model.summary(print_fn=lines.append, **settings)
    return "\n".join(line.rstrip() for line in "".join(lines).splitlines())


@printed
def summaries_of_sequential_models(keras: Any) -> list[str]:
    layers = keras.layers
    model = keras.Sequential([layers.Dense(3)])
    found = [summary_of(model)]
    model.build((None, 4))
    found += [summary_of(model), repr(model), repr(model.layers)]
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(),
            layers.BatchNormalization(), layers.Conv2DTranspose(4, 3), layers.Flatten(), layers.Dropout(0.5),
            layers.Dense(2000, name="a_name_that_is_much_too_long_for_the_column"),
        ],
        name="pictures",
    )  # fmt: skip
    model.layers[0].trainable = False
    found += [summary_of(model), summary_of(model, show_trainable=True), summary_of(model, line_length=70)]
    found.append(summary_of(model, layer_range=["max.*", "conv.*"], positions=[0.5, 0.8, 1.0]))
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return [*found, summary_of(model), shown(model.summary)]


@printed
def summaries_of_functional_models(keras: Any) -> list[str]:
    layers, ops = keras.layers, keras.ops
    words, picture = keras.Input((None,), name="words"), keras.Input((6, 6, 3), name="picture")
    inside = keras.Sequential([keras.Input((6, 6, 3)), layers.Conv2D(4, 3), layers.GlobalMaxPooling2D()], name="inside")
    states = layers.LSTM(5, return_state=True)(layers.Embedding(30, 8)(words))
    joined = layers.concatenate([states[0], inside(picture)])
    dense = layers.Dense(9)
    twice = dense(dense(joined))
    end = layers.Dense(1, name="end")(ops.mean(twice[:, None] * 2.0 + joined[:, None], axis=1))
    model = keras.Model({"words": words, "picture": picture}, {"end": end, "state": states[2]})
    chain = keras.Model(words, states)
    more = keras.Model(picture, layers.Dense(2)(inside(picture)), name="again")
    return [
        summary_of(model), summary_of(model, expand_nested=True), summary_of(chain), summary_of(more),
        summary_of(more, expand_nested=True, show_trainable=True), repr(model), repr(words),
        repr([one.name for one in model.layers]), repr([one.name for one in model.operations]), type(model).__name__,
    ]  # fmt: skip


@printed
def summaries_of_subclasses(keras: Any) -> list[str]:
    layers = keras.layers

    class Blocks(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = layers.Dense(3)
            self.dropout = layers.Dropout(0.2)
            self.others = [layers.Dense(4), layers.BatchNormalization()]

        def call(self, x: Any) -> Any:
            x = self.dropout(self.first(x))
            for layer in self.others:
                x = layer(x)
            return x

    model = Blocks()
    found = [summary_of(model)]
    model(keras.ops.ones((2, 3)))
    return [*found, summary_of(model), repr(model)]


@printed
def names_of_variables(keras: Any) -> list[str]:
    found = []
    for name, settings in (
        ("Adam", {}), ("Adam", {"amsgrad": True}), ("AdamW", {"use_ema": True}), ("Adadelta", {}), ("Adagrad", {}),
        ("Adamax", {"gradient_accumulation_steps": 2}), ("Ftrl", {}), ("Lamb", {}), ("Lion", {}), ("Muon", {}),
        ("RMSprop", {"momentum": 0.9, "centered": True}), ("SGD", {}), ("SGD", {"momentum": 0.9}),
        ("ScheduleFreeAdamW", {}),
    ):  # fmt: skip
        keras.utils.clear_session()
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
        optimizer = getattr(keras.optimizers, name)(**settings)
        optimizer.build(model.trainable_variables)
        found.append(" ".join(f"{v.path}{tuple(v.shape)}".replace(" ", "") for v in optimizer.variables))
        found.append(" ".join(v.name for v in optimizer.variables))
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(model.trainable_variables)
    names = [keras.optimizers.Adam().name, keras.optimizers.get("adam").name, keras.optimizers.Adam(name="own").name]
    return [*found, " ".join(v.path for v in optimizer.variables), *names, *(repr(w) for w in model.weights[1:3])]


@printed
def lines_of_callbacks(keras: Any) -> list[str]:
    x = np.linspace(-1, 1, 24).reshape(12, 2).astype("float32")
    y = (x.sum(1, keepdims=True) > 0).astype("float32")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, activation="sigmoid")])
    model.set_weights([np.array([[0.5], [-0.25]], "float32"), np.array([0.1], "float32")])
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    calls = keras.callbacks
    with tempfile.TemporaryDirectory() as folder:
        best = calls.ModelCheckpoint(
            f"{folder}/{{epoch}}.weights.h5", "val_accuracy", 1, save_best_only=True, save_weights_only=True
        )
        always = calls.ModelCheckpoint(f"{folder}/last.keras", verbose=1)
        slower = calls.ReduceLROnPlateau("val_accuracy", factor=0.5, patience=1, verbose=1, min_delta=0.2)
        stop = calls.EarlyStopping("val_accuracy", patience=3, verbose=1, restore_best_weights=True, min_delta=0.2)
        schedule = calls.LearningRateScheduler(lambda epoch, rate: np.float32(rate * 0.5), verbose=1)
        fit = functools.partial(model.fit, x, y, verbose=2, shuffle=False, batch_size=4)
        texts = [
            shown(lambda: fit(epochs=6, validation_data=(x, y), callbacks=[best, slower, stop])),
            shown(lambda: fit(epochs=2, callbacks=[always, schedule])),
            shown(lambda: fit()),
            shown(lambda: fit(epochs=4, initial_epoch=3)),
            shown(lambda: model.evaluate(x, y, verbose=2)),
            shown(lambda: model.predict(x, verbose=2)),
        ]
        model.compile("adam", "mse", metrics=["accuracy"])  # a rate of 0.001, and an accuracy of 0
        model.set_weights([np.zeros((2, 1), "float32"), np.ones(1, "float32")])
        texts.append(
            shown(lambda: model.fit(x, y * 0, verbose=2, callbacks=[calls.LearningRateScheduler(lambda _, rate: rate)]))
        )
    return [re.sub(r"\d+s - \S+/(step|epoch)", "TIME", text.replace(folder, "FOLDER")) for text in texts]


@printed
def configurations(keras: Any) -> list[str]:
    """What `get_config` gives of layers, losses and metrics that are made with their defaults."""
    layers, losses, metrics = keras.layers, keras.losses, keras.metrics
    made = [
        layers.Add(), layers.Concatenate(), layers.Identity(), layers.Dense(2), layers.Flatten(), layers.Cropping2D(),
        layers.Conv2D(2, 3), layers.AveragePooling1D(2), layers.MaxPooling2D(3), layers.GlobalMaxPooling2D(),
        layers.ZeroPadding1D((1, 2)), layers.ZeroPadding2D(), layers.SimpleRNN(2), layers.LSTM(2),
        layers.Conv1D(2, 3, padding="SAME"), layers.MelSpectrogram(),
        losses.MeanSquaredError(), losses.BinaryCrossentropy(), losses.Dice(), metrics.Mean(), metrics.AUC(name="auc"),
        metrics.MeanSquaredError(dtype="float64"), metrics.MeanIoU(2), metrics.Precision(), metrics.BinaryIoU(),
        layers.MultiHeadAttention(2, 3), layers.MultiHeadAttention(2, 3, 4, output_shape=5), layers.Embedding(5, 2),
        layers.Bidirectional(layers.GRU(2, return_sequences=True)), layers.ConvLSTM1D(2, 2), layers.Dot(1),
        layers.PReLU(), layers.BatchNormalization(renorm=True), layers.EinsumDense("ab,bc->ac", 3),
    ]  # fmt: skip
    configs = [one.get_config() for one in made]
    wrapped = metrics.MeanMetricWrapper(losses.mean_squared_error, name="error")
    configs += [keras.saving.serialize_keras_object(wrapped), losses.serialize(losses.mean_squared_error)]
    return [re.sub(r"_\d+\b", "", json.dumps(one, sort_keys=True, default=str)) for one in configs]


@printed
def models_of_json(keras: Any) -> list[str]:
    """What is built and compiled comes along: shapes, paths of weights and the optimiser's variables."""
    layers, o = keras.layers, keras.optimizers
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="a"), layers.Dense(2, name="b")], name="net")
    model.compile(o.LossScaleOptimizer(o.Adam(), name="scaled"), "mse")
    found = [summary_of(model)]
    model.fit(np.ones((4, 4)), np.ones((4, 2)), verbose=0)
    found += [summary_of(model), str([one.path for one in model.optimizer.variables])]
    again = keras.models.model_from_json(model.to_json())
    found += [summary_of(again), str([weight.path for weight in again.weights])]
    found.append(str([one.path for one in again.optimizer.variables]))
    tokens = keras.Input((None,), dtype="int32")
    h = layers.Embedding(9, 4, name="embedding")(tokens)
    h = layers.MultiHeadAttention(2, 3, name="attention")(h, h)
    h = layers.Bidirectional(layers.LSTM(2, name="lstm"), name="both")(h)
    described = json.loads(keras.Model(tokens, layers.Dense(1, name="last")(h)).to_json())["config"]["layers"]
    found += [json.dumps(one.get("build_config"), sort_keys=True) for one in described]
    return found


@printed
def summaries_with_operations(keras: Any) -> list[str]:
    class Scale(keras.Operation):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return x * 2

    inputs = keras.Input((3,))
    model = keras.Model(inputs, Scale(name="twice")(keras.layers.Dense(2)(inputs)))
    return [summary_of(model), str([one.name for one in model.layers]), str(Scale(name="s").get_config())]


@printed
def structures_of_inputs_and_outputs(keras: Any) -> list[str]:
    """A model keeps the lists, tuples and dicts that it was made with; a layer has a list of several tensors."""
    layers, x = keras.layers, np.ones((2, 3), "float32")

    def kinds(*values: Any) -> str:
        known = (list, tuple, dict)
        return " ".join(next((kind.__name__ for kind in known if isinstance(one, kind)), "single") for one in values)

    found = []
    first = keras.Input((3,), name="first")
    last = layers.Dense(2, name="last")(first)
    for inputs in (first, [first], (first,), {"q": first}):
        for outputs in (last, [last], (last,), {"z": last}):
            model = keras.Model(inputs, outputs)
            config = json.loads(model.to_json())["config"]
            again, cloned = keras.models.model_from_json(model.to_json()), keras.models.clone_model(model)
            given = {"q": x} if isinstance(inputs, dict) else x
            found.append(f"{config['input_layers']} {config['output_layers']} {model.input_shape} {model.output_shape}")
            found.append(kinds(model.input, model.output, model.inputs, model(given), model.predict(given, verbose=0)))
            found.append(kinds(again.input, again.output, cloned.input, cloned.output))
    sequence, other = keras.Input((4, 3)), keras.Input((4, 3))
    recurrent, added, attention = layers.LSTM(2, return_state=True), layers.Add(), layers.MultiHeadAttention(1, 2)
    recurrent(sequence)
    attention(added([sequence, other]), other, return_attention_scores=True)
    states = keras.Model(sequence, recurrent.output[1:])
    found.append(kinds(recurrent.output, recurrent.input, added.input, added.output, attention.output, states.output))
    found.append(kinds(states.predict(np.ones((1, 4, 3)), verbose=0)))
    return found


@printed
def shapes_of_one_dim_and_nested_metrics(keras: Any) -> list[str]:
    layers = keras.layers
    scalar = keras.Input(())
    found = [summary_of(keras.Model(scalar, scalar * 2))]
    first = keras.Input((3,), name="first")
    last = layers.Dense(1, name="last", kernel_initializer="ones")(first)
    x, y = np.ones((2, 3), "float32"), np.zeros((2, 1), "float32")
    nested: list[Any] = [[["mae"]], [["mae", "mse"]], {"last": [["mae"]]}, {"other": ["mae", "mse"]}]
    for outputs in (last, [last]):
        for metrics in nested:
            model = keras.Model(first, outputs)
            model.compile("sgd", "mse", metrics=metrics)
            numbers = model.evaluate(x, y, verbose=0, return_dict=True)
            found.append(" ".join(f"{name} {value:.3f}" for name, value in sorted(numbers.items())))
    return found
