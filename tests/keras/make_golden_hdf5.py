"""Writes golden_hdf5.zip: whole models in .h5 files that Keras 2 (tf_keras) and Keras 3 saved, with inputs, labels,
predictions, and the losses of a training that goes on (numbers.npz).

python -m tests.keras.make_golden_hdf5 (needs tensorflow, tf_keras, keras and h5py)
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.keras.make_golden_files import write_archive

GOLDEN = Path(__file__).with_name("golden_hdf5.zip")


def table(keras: Any, numbers: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Dense(8, activation="relu", input_shape=(6,)),
            layers.BatchNormalization(),
            layers.LeakyReLU(0.2),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, numbers(8, 6), np.arange(8) % 3


def pictures(keras: Any, numbers: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Conv2D(4, (3, 3), padding="same", activation="relu", input_shape=(8, 8, 3)),
            layers.MaxPooling2D((2, 2)),
            layers.DepthwiseConv2D(3),
            layers.SeparableConv2D(5, 3, padding="same"),
            layers.Conv2DTranspose(2, 2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.RMSprop(0.01), keras.losses.Huber(), metrics=["mae"])
    return model, numbers(8, 8, 8, 3), numbers(8, 1)


def words(keras: Any, numbers: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Embedding(20, 5, mask_zero=True),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
            layers.GRU(3),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    metrics = ["acc", keras.metrics.AUC()]
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.BinaryCrossentropy(), metrics=metrics)
    return model, (np.abs(numbers(8, 6)) * 7).astype("int64"), (np.arange(8) % 2)[:, None]


def several(keras: Any, numbers: Any) -> Any:
    """Shared layers, a frozen model inside, inputs and outputs by name, a schedule."""
    layers = keras.layers
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    shared = layers.Dense(4, activation="tanh", kernel_regularizer="l2", name="shared")
    inner = keras.Sequential([layers.Dense(4, activation="relu"), layers.BatchNormalization()], name="inner")
    joined = inner(layers.Concatenate()([shared(a), shared(b)]))
    inner.trainable = False
    one = layers.Dense(1, name="one")(layers.Add()([joined, shared(a)]))
    two = layers.Dense(2, activation="softmax", name="two")(joined)
    model = keras.Model([a, b], [one, two])
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    losses = {"one": "mse", "two": "sparse_categorical_crossentropy"}
    model.compile(keras.optimizers.Adam(rate), losses, loss_weights={"one": 1.0, "two": 0.5})
    return model, [numbers(8, 5), numbers(8, 5)], [numbers(8, 1), np.arange(8) % 2]


def attention(keras: Any, numbers: Any) -> Any:
    """Calls with several arguments, states, and the optimiser of Keras 2 up to 2.10."""
    layers = keras.layers
    x = keras.Input((6, 4))
    h = layers.LayerNormalization()(layers.Add()([layers.MultiHeadAttention(2, 3)(x, x), x]))
    h, state, memory = layers.LSTM(4, return_state=True, return_sequences=True)(h)
    h = layers.LSTM(4)(h, initial_state=[state, memory])
    model = keras.Model(x, layers.Dense(2)(layers.PReLU()(h)))
    older = keras.optimizers.legacy if hasattr(keras, "__internal__") else keras.optimizers
    model.compile(older.Adam(0.01), "mse")
    return model, numbers(8, 6, 4), numbers(8, 2)


def main() -> None:
    import keras
    import tf_keras

    found: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        for version, package in ((2, tf_keras), (3, keras)):
            for make in (table, pictures, words, several, attention):
                if package is keras and make not in (table, several):
                    continue
                random = np.random.RandomState(1)
                package.utils.set_random_seed(1)
                model, x, y = make(package, lambda *size, r=random: r.randn(*size).astype("float32"))
                settings: Any = {"batch_size": 4, "shuffle": False, "verbose": 0}
                model.fit(x, y, **settings)
                name = f"{make.__name__}{version}"
                path = Path(folder) / f"{name}.h5"
                model.save(path)
                files[path.name] = path.read_bytes()
                found |= {f"{name}.x.{k}": one for k, one in enumerate(x if isinstance(x, list) else [x])}
                found |= {f"{name}.y.{k}": one for k, one in enumerate(y if isinstance(y, list) else [y])}
                made = model.predict(x, verbose=0)
                found |= {f"{name}.made.{k}": one for k, one in enumerate(made if isinstance(made, list) else [made])}
                found[f"{name}.loss.0"] = np.array(model.fit(x, y, epochs=2, **settings).history["loss"])
    write_archive(GOLDEN, files, found)


if __name__ == "__main__":
    main()
