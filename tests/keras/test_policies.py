"""keras.dtype_policies: dtypes of weights, computation and outputs; LoRA that is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from tests.keras.scripts import numbers, start
from tests.together import check_each, fewer_in_browser

layers, ops = keras.layers, keras.ops
ONES = np.ones((2, 4, 3), "float32")


@pytest.fixture(autouse=True)
def policy() -> Iterator[None]:
    yield
    keras.config.set_dtype_policy("float32")


def name_of(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]


def test_policies_have_their_dtypes() -> None:
    policies = keras.dtype_policies
    mixed = keras.DTypePolicy("mixed_bfloat16")
    assert (mixed.compute_dtype, mixed.variable_dtype, mixed.name) == ("bfloat16", "float32", "mixed_bfloat16")
    assert repr(keras.DTypePolicy("float64")) == '<DTypePolicy "float64">'
    assert policies.deserialize(policies.serialize(mixed)) == mixed == policies.get("mixed_bfloat16")
    keras.mixed_precision.set_global_policy("mixed_float16")
    assert keras.config.dtype_policy() == keras.DTypePolicy() == keras.DTypePolicy("mixed_float16")
    assert layers.Dense(2).compute_dtype == "float16" and layers.Dense(2, dtype="float32").compute_dtype == "float32"
    keras.config.set_dtype_policy("float32")
    by_path = policies.DTypePolicyMap("float32", {"model/a": mixed, "model/b.*": "float16"})
    assert by_path["model/a"] == mixed and by_path["model/b1"].name == "float16" and by_path["c"].name == "float32"
    assert policies.deserialize(policies.serialize(by_path)) == by_path
    made = layers.Dense(2, dtype=by_path, name="a")
    keras.Sequential([keras.Input((3,)), made], name="model")
    assert name_of(made(np.ones((1, 3)))) == "bfloat16" and made.path == "model/a"
    for wrong, kind in (("gptq/4/128_from_float32", NotImplementedError), ("float33", ValueError), (3.5, ValueError)):
        with pytest.raises(kind):
            policies.get(wrong)
    with pytest.raises(ValueError, match="floating-point"):
        keras.config.set_dtype_policy("int32")


def test_outputs_have_the_dtype_of_the_computation() -> None:
    """The dtypes are those of Keras 3.15."""
    made: list[Any] = [
        layers.Dense(2), layers.Conv1D(2, 2), layers.LSTM(3), layers.GRU(3, return_sequences=True),
        layers.BatchNormalization(), layers.LayerNormalization(), layers.GroupNormalization(1),
        layers.RMSNormalization(), layers.Normalization(mean=0.0, variance=1.0), layers.Softmax(), layers.PReLU(),
        layers.Rescaling(0.5), layers.EinsumDense("abc,cd->abd", (None, 2), lora_rank=1), layers.GaussianNoise(0.1),
    ]  # fmt: skip

    def check(_: str, layer: Any, policy: str) -> None:
        layer = type(layer).from_config({**layer.get_config(), "dtype": policy})
        assert layer.dtype_policy.name == policy == layer.get_config()["dtype"]["config"]["name"]
        for training in (False, True):
            assert name_of(layer(ONES, training=training)) == policy.removeprefix("mixed_")
        assert all(name_of(weight) == "float32" for weight in layer.weights)

    check_each(check, [(type(one).__name__, one, p) for one in made for p in ("mixed_bfloat16", "mixed_float16")])
    heads = layers.MultiHeadAttention(2, 3, dtype="mixed_bfloat16")
    assert name_of(heads(ONES, ONES)) == "bfloat16" and name_of(heads.query_dense.kernel) == "float32"
    assert name_of(layers.Embedding(5, 3, dtype="mixed_float16")([[1, 2]])) == "float16"
    assert name_of(layers.Bidirectional(layers.GRU(3, dtype="mixed_float16"), dtype="mixed_float16")(ONES)) == "float16"


def test_layers_of_ones_own_read_weights_in_the_dtype_of_the_computation() -> None:
    class Own(layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.matrix = self.add_weight(shape=(shape[-1], 2), initializer="ones", name="kernel")
            self.exact = self.add_weight(shape=(), initializer="ones", name="exact", autocast=False)
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")
            self.outside = keras.Variable(2.0)

        def call(self, inputs: Any) -> Any:
            self.calls.assign_add(1.0)
            self.seen = [name_of(x) for x in (inputs, self.matrix, self.exact, self.calls, self.outside)]
            return ops.matmul(inputs, self.matrix) * self.calls

    own = Own(dtype="mixed_bfloat16")
    first, second = own(ONES), own(ONES)
    assert own.seen == ["bfloat16", "bfloat16", "float32", "bfloat16", "bfloat16"]
    assert name_of(own.matrix) == name_of(own.calls) == "float32" and float(own.calls) == 2
    assert float(first[0, 0, 0]) == 3 and float(second[0, 0, 0]) == 6
    plain = Own()
    plain(ONES)
    assert set(plain.seen) == {"float32"}
    second.float().sum().backward()
    assert name_of(own.matrix.grad) == "float32" and float(own.matrix.grad[0, 0]) == 16
    model = keras.Sequential([keras.Input((4, 3)), own, layers.Dense(1, dtype="float32")])
    assert [name_of(layer.output) for layer in model.layers] == ["bfloat16", "float32"]


def test_mixed_steps_are_captured_and_files_keep_policies(tmp_path: Path) -> None:
    x, y = numbers(32, 6, 3)
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras.Sequential([keras.Input((6,)), layers.Dense(16, "relu"), layers.Dense(3, "softmax", dtype="float32")])
    model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy", metrics=["accuracy"])
    losses = model.fit(x, y, epochs=6, batch_size=8, verbose=0).history["loss"]
    assert model.compiled_step == "captured" and losses[-1] < losses[0]
    model.save(tmp_path / "model.safetensors")
    keras.config.set_dtype_policy("mixed_float16")
    scaled = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
    scaled.compile("sgd", "mse")
    assert type(scaled.optimizer).__name__ == "LossScaleOptimizer"
    scaled.compile("sgd", "mse", auto_scale_loss=False)
    assert type(scaled.optimizer).__name__ == "SGD"
    keras.config.set_dtype_policy("float32")
    again = keras.models.load_model(tmp_path / "model.safetensors")
    assert [layer.dtype_policy.name for layer in again.layers] == ["mixed_bfloat16", "float32"]
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    assert keras.losses.MeanSquaredError()(ops.cast(x, "bfloat16"), ops.cast(x, "bfloat16")).dtype.name == "float32"


def test_scaled_steps_in_graphs_leave_out_what_eager_ones_do() -> None:
    """Weights, states, scales and the number of steps are equal to the last bit, where gradients overflow too."""
    o = keras.optimizers
    x, y = numbers(44, 6, 3)
    x[17] *= 300
    made: list[tuple[str, Any]] = [
        ("descent", lambda: o.SGD(0.1, momentum=0.9)),
        ("averages", lambda: o.AdamW(o.schedules.ExponentialDecay(0.05, 3, 0.5), use_ema=True, clipnorm=1.0)),
        ("several", lambda: o.MultiOptimizer(o.OptimizerMap(o.SGD(0.1), {"sequential/dense/.*": o.Nadam(0.05)}))),
    ]

    def trained(make: Any, eagerly: bool) -> tuple[Any, str]:
        keras.utils.clear_session()
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential([keras.Input((6,)), layers.Dense(8, "relu"), layers.BatchNormalization(),
                                  layers.Dense(3, "softmax", dtype="float32")])  # fmt: skip
        start(model)
        scaled = o.LossScaleOptimizer(make(), initial_scale=2.0**21, dynamic_growth_steps=3)
        model.compile(scaled, "sparse_categorical_crossentropy", run_eagerly=eagerly)
        model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
        again = copy.deepcopy(model)
        seen = (scaled.iterations, scaled.dynamic_scale, scaled.step_counter)
        assert (again.optimizer.iterations, again.optimizer.dynamic_scale, again.optimizer.step_counter) == seen
        state = [np.asarray(v.numpy()) for v in scaled.variables]
        return (*seen, *model.get_weights(), *state, model.history.history["loss"]), model.compiled_step

    def check(_: str, make: Any) -> None:
        (found, how), (wanted, _) = trained(make, False), trained(make, True)
        assert how == "captured" and wanted[0] < 18 and wanted[1] < 2.0**21  # some were left out
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)

    check_each(check, fewer_in_browser(made))


def test_lora_that_does_not_fit_is_refused() -> None:
    def refused(_: str, words: str, call: Any) -> None:
        with pytest.raises(ValueError, match=words):
            call()

    def built(**settings: Any) -> Any:
        layer = layers.Dense(3, **settings)
        layer.build((None, 4))
        return layer

    check_each(refused, [
        ("not built", "layer dense.* takes a layer that is built", lambda: layers.Dense(3).enable_lora(2)),
        ("twice", "has LoRA already, of rank 2", lambda: built(lora_rank=2).enable_lora(2)),
        ("a constraint", "kernel_constraint", lambda: built(kernel_constraint="non_neg").enable_lora(2)),
        ("a rank", "a rank is a whole number", lambda: built().enable_lora(0)),
        ("a rank of the constructor", "a rank is a whole number", lambda: layers.Embedding(3, 4, lora_rank=-1)),
        ("an alpha", "an alpha is a number", lambda: built().enable_lora(2, float("nan"))),
    ])  # fmt: skip
    layer = built(lora_rank=2, lora_alpha=6)
    assert layer.lora_alpha == 6 and layer.kernel.shape == (4, 3) and len(layer.trainable_weights) == 3
    layer.trainable = False
    layer.trainable = True
    assert [weight.name for weight in layer.trainable_weights] == ["bias", "lora_kernel_a", "lora_kernel_b"]


def test_convolutions_of_short_floats_are_captured() -> None:
    x, y = numbers(16, (8, 8, 2), 3)
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras.Sequential([
        keras.Input((8, 8, 2)), layers.Conv2D(3, 3, padding="same"), layers.SeparableConv2D(3, 3),
        layers.Conv2DTranspose(2, 3), layers.Flatten(), layers.Dense(3, "softmax", dtype="float32"),
    ])  # fmt: skip
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    assert model.compiled_step == "captured" and model.layers[0].output.dtype == "bfloat16"
