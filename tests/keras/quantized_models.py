"""Models that tests quantise here and in Keras. Each takes the `keras` module, and gives (model, inputs, labels)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.scripts import start


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def dense(keras: Any) -> Any:
    """Layers within a model within a model, a size that is no multiple of 2, and a layer that stays in floats."""
    layers = keras.layers
    inner = keras.Sequential([keras.Input((37,)), layers.Dense(9, "tanh", name="one"), layers.LayerNormalization()])
    model = keras.Sequential([
        keras.Input((70,)), layers.Dense(37, "relu", name="first"), inner, layers.Dense(3, use_bias=False, name="last")
    ])  # fmt: skip
    start(model)
    return model, _numbers(6, 70), _numbers(6, 3)


def einsum(keras: Any) -> Any:
    """Equations whose kernels sum over one dim and over two, with outputs in another order."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((5, 12)), layers.EinsumDense("abc,cde->adbe", (3, 5, 4), bias_axes="de", activation="relu"),
        layers.EinsumDense("adbe,def->abf", (5, 7)), layers.EinsumDense("abf,fg->abg", (None, 3), bias_axes="g"),
    ])  # fmt: skip
    start(model)
    return model, _numbers(4, 5, 12), _numbers(4, 5, 3)


def words(keras: Any) -> Any:
    """Rows of a matrix."""
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((6,), dtype="int32"), layers.Embedding(11, 9), layers.GlobalAveragePooling1D(), layers.Dense(2)
    ])  # fmt: skip
    start(model)
    return model, np.random.RandomState(0).randint(0, 11, (5, 6)), _numbers(5, 2)


def _back(keras: Any, tied: bool) -> Any:
    embedding = keras.layers.ReversibleEmbedding(11, 9, tie_weights=tied, logit_soft_cap=5.0, name="both")
    ids = keras.Input((6,), dtype="int32")
    hidden = keras.layers.Dense(9, "tanh", name="hidden")(embedding(ids))
    model = keras.Model(ids, embedding(hidden, reverse=True))
    start(model)
    return model, np.random.RandomState(0).randint(0, 11, (5, 6)), _numbers(5, 6, 11)


def back(keras: Any) -> Any:
    """Rows of a matrix and products with it."""
    return _back(keras, True)


def back_by_another(keras: Any) -> Any:
    """Rows of a matrix and products with another."""
    return _back(keras, False)


MODELS = {made.__name__: made for made in (dense, einsum, words, back, back_by_another)}


def quantize(keras: Any, model: Any, how: str) -> None:
    """Quantises a model in one of the ways of WAYS."""
    q = keras.quantizers
    six_bits = q.AbsMaxQuantizer(value_range=(-31, 31))
    configs = {
        "int8": lambda: None, "int4": lambda: None, "float8": lambda: None,
        "int8 weights": lambda: q.Int8QuantizationConfig(activation_quantizer=None),
        "int8 of 6 bits": lambda: q.Int8QuantizationConfig(activation_quantizer=six_bits),
        "int4 columns": lambda: q.Int4QuantizationConfig(block_size=None),
        "int4 blocks": lambda: q.Int4QuantizationConfig(block_size=8),
        "int4 inputs": lambda: q.Int4QuantizationConfig(block_size=-1, activation_quantizer=q.AbsMaxQuantizer()),
    }  # fmt: skip
    config = configs[how]()
    if config is None:
        model.quantize(how)
    else:
        model.quantize(config=config)


WAYS = ("int8", "int4", "float8", "int8 weights", "int8 of 6 bits", "int4 columns", "int4 blocks", "int4 inputs")


def cases() -> list[tuple[str, str]]:
    """(model, way): float8 for the layers that have it."""
    return [(name, way) for name in MODELS for way in WAYS if way != "float8" or name in ("dense", "einsum")]


def is_trained(name: str, way: str) -> bool:
    """Whether trainings are compared: Keras 3.15 has no gradient of inputs that ReversibleEmbedding quantises."""
    return not (name.startswith("back") and way in ("int8", "int8 of 6 bits", "int4 inputs"))


def train(keras: Any, model: Any, x: Any, y: Any, rank: int | None) -> Any:
    """The predictions after some steps; with `rank` of LoRA, that begins with numbers that both know."""
    if rank is not None:
        random = np.random.RandomState(3)
        for layer in _flat(model):
            if hasattr(layer, "enable_lora") and type(layer).__name__ != "ReversibleEmbedding":
                layer.enable_lora(rank, lora_alpha=3)
                for weight in layer.trainable_weights:
                    if "lora" in weight.path:
                        weight.assign((random.randn(*weight.shape) * 0.1).astype("float32"))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    losses = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
    return np.array(losses), model.predict(x, verbose=0)


def _flat(model: Any) -> list[Any]:
    found = []
    for layer in model.layers:
        found += _flat(layer) if hasattr(layer, "layers") else [layer]
    return found
