"""Keras' models on a device whose memory the host cannot see: they take arrays of the host, and give the bits that
they give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras

from . import device as _device  # noqa: F401 (registers the mirror)

layers, ops = keras.layers, keras.ops
RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.integers(0, 9, (24, 6))
PICTURES = RANDOM.normal(size=(24, 6, 6, 2)).astype("float32")
CLASSES = RANDOM.integers(0, 3, 24)
NUMBERS = RANDOM.normal(size=(24, 4)).astype("float32")


def texts() -> Any:
    """Recurrent, with masks, dropout and a state."""
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int64"), layers.Embedding(9, 4, mask_zero=True),
            layers.Bidirectional(layers.LSTM(3, recurrent_dropout=0.1, seed=3)), layers.Dropout(0.2, seed=1),
            layers.Dense(3, activation="softmax", kernel_regularizer="l2"),
        ]
    )  # fmt: skip


def pictures() -> Any:
    """A functional model with two inputs, and statistics of batches."""
    image, more = keras.Input((6, 6, 2)), keras.Input((4,))
    x = layers.BatchNormalization()(layers.Conv2D(3, 3, activation="relu")(layers.RandomFlip(seed=5)(image)))
    x = layers.Concatenate()([layers.GlobalAveragePooling2D()(x), layers.Normalization(mean=0.5, variance=2.0)(more)])
    return keras.Model([image, more], layers.Dense(3, activation="softmax")(x))


class Own(keras.Model):
    """A step of one's own, with a tensor that it makes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.dense = layers.MultiHeadAttention(2, 2), layers.Dense(3, activation="softmax")
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, x: Any) -> Any:
        rows = ops.reshape(x, (-1, 2, 2))
        return self.dense(ops.reshape(self.attention(rows, rows), (-1, 4)))

    def train_step(self, data: Any) -> Any:
        self.seen.assign_add(np.float32(2.0))
        return super().train_step(data)


MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "texts": (texts, TOKENS), "pictures": (pictures, [PICTURES, NUMBERS]), "own": (Own, NUMBERS)
}  # fmt: skip


def trained(name: str, folder: Path, place: str | None = None) -> list[Any]:
    """Histories, predictions and weights. `place`: where the model is moved after it was made."""
    pyapp.manual_seed(0)
    keras.utils.set_random_seed(0)
    make, x = MODELS[name]
    model = make()
    model(x) if name == "own" else None
    if place is not None:
        model.to(place)
    model.compile(keras.optimizers.Adam(np.float32(0.01)), "sparse_categorical_crossentropy", metrics=["accuracy"])
    best = keras.callbacks.ModelCheckpoint(str(folder / "best.weights.h5"), save_best_only=True, save_weights_only=True)
    stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
    held = (x, CLASSES, np.ones(24, "float32"))
    fitted = model.fit(
        x, CLASSES, epochs=2, batch_size=7, validation_data=held, class_weight={0: 2.0, 1: 1.0}, verbose=0,
        callbacks=[best, stop],
    )  # fmt: skip
    first = [part[:5] for part in x] if isinstance(x, list) else x[:5]
    found = [fitted.history, model.train_on_batch(first, CLASSES[:5], sample_weight=NUMBERS[:5, 0] ** 2)]
    found += [model.evaluate(x, CLASSES, verbose=0), model.predict(x, verbose=0).tolist(), model(first).tolist()]
    found += [model.predict(iter([first]), verbose=0).tolist()] if name != "pictures" else []
    model.load_weights(str(folder / "best.weights.h5"))
    assert {str(weight.device) for weight in model.weights} == {place or str(pyapp.get_default_device())}
    return [*found, [weight.tolist() for weight in model.get_weights()]]


@pytest.mark.parametrize("name", MODELS)
def test_models_train_on_arrays_of_the_host(name: str, tmp_path: Path) -> None:
    """By the default device, and moved."""
    pytest.importorskip("h5py")
    expected = trained(name, tmp_path)
    assert trained(name, tmp_path, "mirror") == expected
    with pyapp.device("mirror"):
        assert trained(name, tmp_path) == expected


def test_what_has_no_weights_yet_is_not_moved() -> None:
    with pytest.raises(ValueError, match=r"has no weights yet: .*keras\.device"):
        layers.Dense(3).to("mirror")
    assert layers.Flatten().to("mirror")(np.ones((1, 2, 2))).shape == (1, 4)


def test_labels_follow_predictions() -> None:
    """Losses and metrics of arrays beside tensors of the device."""
    with pyapp.device("mirror"):
        found = pyapp.tensor([[0.1, 0.9], [0.8, 0.2]])
    assert round(float(keras.losses.sparse_categorical_crossentropy(np.array([1, 0]), found).mean()), 4) == 0.1643
    metric = keras.metrics.SparseCategoricalAccuracy()
    metric.update_state(np.array([1, 1]), found, sample_weight=np.array([3.0, 1.0]))
    assert float(metric.result()) == 0.75
