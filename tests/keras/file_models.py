"""Models whose files tests exchange with Keras. Each takes the `keras` module, and gives (model, inputs, labels)."""

from __future__ import annotations

from typing import Any

import numpy as np


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def functional(keras: Any) -> Any:
    """A shared layer, functions of keras.ops, operators, two inputs and two outputs."""
    layers, ops = keras.layers, keras.ops
    one, two = keras.Input((6,)), keras.Input((3,), name="two")
    shared = layers.Dense(4, activation="relu")
    x = layers.Dropout(0.0)(shared(one))
    y = layers.Concatenate()([x, two])
    y = ops.mean(1 - ops.relu(y)[:, None] * 2, axis=1)
    y = layers.BatchNormalization()(y)
    model = keras.Model([one, two], [layers.Dense(2, name="a")(y), layers.Dense(1, name="b")(shared(one) + x)])
    model.compile("adam", {"a": "mse", "b": keras.losses.Huber(0.5)}, metrics={"a": ["mae"]})
    return model, [_numbers(4, 6), _numbers(4, 3)], [_numbers(4, 2), _numbers(4, 1)]


def recurrent(keras: Any) -> Any:
    """Cells within layers within Bidirectional, masks, regularisers and initialisers."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((5,), dtype="int32"), layers.Embedding(7, 3, mask_zero=True),
        layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
        layers.RNN([layers.GRUCell(2), layers.LSTMCell(3)]),
        layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1), kernel_initializer="he_normal"),
    ])  # fmt: skip
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.compile(keras.optimizers.RMSprop(schedule, momentum=0.5), keras.losses.MeanSquaredError(), metrics=["mse"])
    return model, np.random.RandomState(0).randint(0, 7, (4, 5)), _numbers(4, 2)


def nested(keras: Any) -> Any:
    """Attention, a Sequential and a functional model within a model that takes and gives dicts."""
    layers = keras.layers
    query = keras.Input((4, 6))
    y = layers.LayerNormalization()(layers.MultiHeadAttention(2, 3)(query, query, use_causal_mask=True) + query)
    inner = keras.Sequential([layers.Dense(3), layers.TimeDistributed(layers.Dense(2, "gelu"))])
    encoder = keras.Model(query, [inner(y), layers.GlobalAveragePooling1D()(y)], name="encoder")
    left, right = keras.Input((4, 6), name="left"), keras.Input((4, 6), name="right")
    (a, b), (c, d) = encoder(left), encoder(right)
    outputs = {"sum": layers.Add()([a, c]), "both": keras.ops.concatenate([b, d], axis=-1)}
    model = keras.Model({"left": left, "right": right}, outputs)
    model.compile(keras.optimizers.AdamW(0.01, use_ema=True), {"sum": "mse", "both": "mae"})
    x = {"left": _numbers(3, 4, 6), "right": _numbers(3, 4, 6, seed=1)}
    return model, x, {"sum": _numbers(3, 4, 2), "both": _numbers(3, 12)}


def pictures(keras: Any) -> Any:
    """Convolutions, moving statistics, layers that change pictures at random."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((6, 6, 3)), layers.RandomRotation(0.0), layers.Rescaling(0.5), layers.Conv2D(3, 3, padding="same"),
        layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(), layers.SeparableConv2D(4, 2),
        layers.GroupNormalization(2), layers.PReLU(), layers.Flatten(), layers.Dense(3, "softmax"),
    ])  # fmt: skip
    model.layers[2].trainable = False
    model.compile(keras.optimizers.Nadam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, _numbers(4, 6, 6, 3), np.array([0, 1, 2, 0])


def own(keras: Any) -> Any:
    """Classes and functions of one's own: a registered layer, layers in a list and a dict, a loss."""
    known = register(keras)
    model = known["Own"](3)
    x = _numbers(4, 5)
    model.predict(x, verbose=0)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), known["own_loss"])
    return model, x, _numbers(4, 1)


def lambda_layer(keras: Any) -> Any:
    """A function without a name; it is compiled here, so that the file does not name a folder."""
    function = eval(compile("lambda x: x * 2 + 1", "lambda", "eval"))
    return keras.Sequential([keras.Input((3,)), keras.layers.Lambda(function)]), _numbers(2, 3), None


def register(keras: Any) -> dict[str, Any]:
    """The classes and functions of `own`, registered with a keras module."""
    registered = keras.saving.register_keras_serializable

    @registered("tests", "FileScale")
    class Scale(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, factor: float, **settings: Any) -> None:
            super().__init__(**settings)
            self.factor = factor

        def build(self, shape: Any) -> None:
            self.moving = self.add_weight(shape=(), initializer="ones", trainable=False, name="moving")
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
            self.built = True

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor * self.scale + self.moving

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "factor": self.factor}

    @registered("tests", "FileModel")
    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self, units: int, **settings: Any) -> None:
            super().__init__(**settings)
            self.units = units
            self.start = keras.layers.Dense(units, activation="tanh")
            self.blocks = [[Scale(2.0), keras.layers.Dense(units)], [keras.layers.Dense(units)]]
            self.ends = {"last": keras.layers.Dense(1), "scale": Scale(0.5)}

        def call(self, inputs: Any) -> Any:
            x = self.start(inputs)
            for block in self.blocks:
                for layer in block:
                    x = layer(x)
            return self.ends["scale"](self.ends["last"](x))

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "units": self.units}

    @registered("tests", "file_loss")
    def own_loss(y_true: Any, y_pred: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(y_true - y_pred), axis=-1)

    return {"Own": Own, "own_loss": own_loss}


def scaled(keras: Any) -> Any:
    """A loss that is scaled, with the optimiser's scale and counter, and a policy of its own in each layer."""
    layers, o = keras.layers, keras.optimizers
    model = keras.Sequential([
        keras.Input((5,)), layers.Dense(4, "relu", dtype=keras.DTypePolicy("float32")), layers.Dense(1),
    ])  # fmt: skip
    model.compile(o.LossScaleOptimizer(o.Adam(0.01), initial_scale=64.0, dynamic_growth_steps=3), "mse")
    return model, _numbers(8, 5), _numbers(8, 1)


def adapted(keras: Any, rank: int | None = 2) -> Any:
    """LoRA of each kind of layer that can have it: of the last by the constructor, of the others once they are built.
    Without `rank` the same layers have none."""
    layers, set_up = keras.layers, {} if rank is None else {"lora_rank": rank}
    model = keras.Sequential([
        keras.Input((8,), dtype="int32"), layers.Embedding(9, 6), layers.Conv1D(5, 3, activation="relu"),
        layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), layers.GlobalAveragePooling1D(),
        layers.Dense(3, **set_up),
    ])  # fmt: skip
    if rank is not None:
        for number, settings in enumerate(({}, {"lora_alpha": 4}, {"lora_alpha": 1, "b_initializer": "ones"})):
            model.layers[number].enable_lora(rank, **settings)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    random = np.random.RandomState(0)
    return model, random.randint(0, 9, (8, 8)), random.randint(0, 3, 8)


MODELS = {made.__name__: made for made in (functional, recurrent, nested, pictures, own, scaled)}
LAMBDA, LORA = lambda_layer, adapted
