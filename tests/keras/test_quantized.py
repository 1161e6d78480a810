"""Quantised layers: numbers, scales, predictions, trainings and files of Keras (golden_quantized.zip, by
make_golden_quantized.py).
"""

from __future__ import annotations

import copy
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras
from pyapp.engine import quant
from pyapp.engine.ops.int8_product import int8_linear
from tests.keras.quantized_models import MODELS, cases, is_trained, quantize, train
from tests.together import check_each, fewer_in_browser

GOLDEN = Path(__file__).with_name("golden_quantized.zip")
FILES = ("int8", "int4", "int4 blocks", "float8")  # whose files are there
layers, quantizers = keras.layers, keras.quantizers


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("quantized")
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(folder)
    return folder, np.load(folder / "numbers.npz")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Layers that stay in floats are warned of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not quantised to.*")
        yield


def made(name: str, way: str) -> tuple[Any, Any, Any]:
    keras.utils.clear_session()
    model, x, y = MODELS[name](keras)
    quantize(keras, model, way)
    return model, x, y


def close(found: Any, wanted: Any, what: str) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5, err_msg=what)


def test_numbers_scales_predictions_and_trainings_are_those_of_keras(golden: Any) -> None:
    """int8 inputs may be rounded the other way where a float lies between two numbers: one in 127 of a factor."""
    _, numbers = golden

    def check(name: str, way: str) -> None:
        model, x, y = made(name, way)
        key = f"{name}.{way}"
        weights = model.get_weights()
        assert f"{key}.weight.{len(weights)}" not in numbers
        for number, weight in enumerate(weights):
            wanted = numbers[f"{key}.weight.{number}"]
            assert weight.dtype == wanted.dtype
            close(weight, wanted, f"weight {number}")
        close(model.predict(x, verbose=0), numbers[f"{key}.predictions"], "predictions")
        if is_trained(name, way):
            losses, after = train(keras, model, x, y, None if way == "float8" else 2)
            close(losses, numbers[f"{key}.losses"], "losses")
            close(after, numbers[f"{key}.after"], "after training")

    check_each(check, fewer_in_browser(cases(), every=6))


def test_files_of_keras_are_read_and_written(golden: Any, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    folder, numbers = golden

    def check(name: str, way: str) -> None:
        _, x, _ = MODELS[name](keras)
        model = keras.models.load_model(folder / f"{name}.{way.replace(' ', '_')}.keras")
        close(model.predict(x, verbose=0), numbers[f"{name}.{way}.predictions"], "of Keras")
        model.save(tmp_path / "again.keras")
        model.save(tmp_path / "own.safetensors")
        for again in ("again.keras", "own.safetensors"):
            found = keras.models.load_model(tmp_path / again)
            np.testing.assert_array_equal(found.predict(x, verbose=0), model.predict(x, verbose=0))
        for a, b in zip(found.layers, model.layers, strict=True):
            assert a.dtype_policy == b.dtype_policy

    check_each(check, [(name, way) for name, way in cases() if way in FILES])


def test_files_have_lora_added_up(tmp_path: Path) -> None:
    """The sum is quantised again: predictions differ by its rounding."""

    def check(way: str, most: float) -> None:
        model, x, y = made("dense", way)
        train(keras, model, x, y, 2)
        model.save(tmp_path / "model.safetensors")
        again = keras.models.load_model(tmp_path / "model.safetensors")
        assert all(
            float(layer.lora_kernel_b.abs().sum()) == 0 for layer in again.layers if hasattr(layer, "lora_enabled")
        )
        error = np.abs(again.predict(x, verbose=0) - model.predict(x, verbose=0)).max()
        assert error < most, error

    check_each(check, [("int8", 0.05), ("int4 blocks", 0.5)])


def test_int8_products_are_exact() -> None:
    """By the kernels, for every size of a block; sums are beyond the range of int16."""
    random = np.random.RandomState(0)

    def check(rows: int, inputs: int, outputs: int) -> None:
        x, w = random.randint(-127, 128, (rows, inputs)), random.randint(-128, 128, (outputs, inputs))
        given, packed = (pyapp.tensor(v.astype("int8")) for v in (x, w))
        found = int8_linear(given, quant.pack_int8(packed))
        np.testing.assert_array_equal(found.numpy(), (x @ w.T).astype("float32"))

    check_each(check, [(1, 1, 1), (3, 31, 7), (5, 32, 8), (17, 33, 9), (2, 500, 40), (64, 96, 24), (0, 5, 3)])
    with pytest.raises(TypeError, match="takes int8"):
        int8_linear(pyapp.ones(2, 4), quant.pack_int8(pyapp.ones(3, 4, dtype="int8")))
    with pytest.raises(ValueError, match="does not fit"):
        int8_linear(pyapp.ones(2, 5, dtype="int8"), quant.pack_int8(pyapp.ones(3, 4, dtype="int8")))


def test_the_packed_matrix_follows_the_weight() -> None:
    layer = layers.Dense(3, dtype="int8_from_float32")
    x = np.random.RandomState(0).randn(2, 5).astype("float32")
    assert not layer(x).detach().numpy().any()
    assert layer.quantization_mode == layer.kernel.dtype.name == "int8"
    layer.kernel.assign(np.full((5, 3), 2, "int8"))
    first = layer(x).detach().numpy()
    assert first.any()
    other = copy.deepcopy(layer)
    layer.kernel.assign(np.full((5, 3), -2, "int8"))
    np.testing.assert_array_equal(layer(x).detach().numpy(), -first)
    np.testing.assert_array_equal(other(x).detach().numpy(), first)


def test_policies_quantise_layers_and_are_quantised() -> None:
    policies = keras.dtype_policies
    for name, kind in (
        ("int8_from_mixed_bfloat16", policies.QuantizedDTypePolicy), ("int4/32_from_float32", policies.Int4DTypePolicy),
        ("float8_from_float32", policies.QuantizedFloat8DTypePolicy),
    ):  # fmt: skip
        policy = policies.get(name)
        assert type(policy) is kind and policy.name == name and policies.get(policies.serialize(policy)) == policy
    assert policies.get("int8_from_mixed_bfloat16").compute_dtype == "bfloat16"
    layer = layers.Dense(3)
    layer.build((None, 40))
    layer.dtype_policy = "int4/16_from_float32"
    assert layer.kernel_scale.shape == (3, 3) and layer.kernel.shape == (40, 3) and len(layer.trainable_weights) == 1
    try:
        keras.config.set_dtype_policy("int8_from_float32")
        assert keras.config.dtype_policy().quantization_mode == "int8"
        assert layers.EinsumDense("ab,bc->ac", 3)(np.ones((2, 4), "float32")).shape == (2, 3)
        with pytest.raises(NotImplementedError, match="cannot be quantised"):
            layers.LayerNormalization()(np.ones((2, 4), "float32"))
    finally:
        keras.config.set_dtype_policy("float32")
    short = layers.Dense(3, dtype="mixed_bfloat16")
    short.build((None, 4))
    short.quantize("int8")
    assert short.dtype_policy.name == "int8_from_mixed_bfloat16"
    assert short(np.ones((2, 4), "float32")).dtype.name == "bfloat16"


def test_what_cannot_be_quantised_is_refused() -> None:
    built = layers.Dense(2)
    built.build((None, 4))
    built.quantize("int8")
    half = layers.Dense(2, dtype="float16")
    half.build((None, 4))
    plain = layers.Dense(2)
    plain.build((None, 4))
    rows = layers.Embedding(3, 2)
    rows.build()
    with_lora = layers.Dense(2, lora_rank=1)
    with_lora.build((None, 4))

    class Own(layers.Dense):  # type: ignore[misc, name-defined]
        pass

    own = Own(2)
    own.build((None, 4))

    def refused(_: str, kind: Any, words: str, call: Any) -> None:
        with pytest.raises(kind, match=words):
            call()

    config = quantizers.Int4QuantizationConfig
    four_bits = quantizers.AbsMaxQuantizer(value_range=(-8, 7))
    check_each(refused, [
        ("not built", ValueError, "takes a layer that is built", lambda: layers.Dense(2).quantize("int8")),
        ("twice", ValueError, "is quantised already", lambda: built.quantize("int8")),
        ("an unknown mode", ValueError, "is not a mode", lambda: plain.quantize("int7")),
        ("data", NotImplementedError, "needs data", lambda: plain.quantize("gptq")),
        ("data of configs", NotImplementedError, "needs data", lambda: quantizers.GPTQConfig),
        ("data of policies", NotImplementedError, "needs data", lambda: layers.Dense(2, dtype="awq/4/32_from_float32")),
        ("float16", ValueError, "mixed_bfloat16", lambda: half.quantize("int8")),
        ("float16 of policies", ValueError, "mixed_bfloat16", lambda: keras.dtype_policies.get("int8_from_float16")),
        ("two modes", ValueError, "that of the config", lambda: plain.quantize("int8", config())),
        ("no config", ValueError, "QuantizationConfig", lambda: plain.quantize(config=3)),
        ("rows in float8", NotImplementedError, "cannot be quantised to float8", lambda: rows.quantize("float8")),
        ("LoRA in float8", NotImplementedError, "LoRA", lambda: with_lora.quantize("float8")),
        ("a class of one's own", NotImplementedError, "type_check", lambda: own.quantize("int8")),
        ("a convolution", NotImplementedError, "cannot be quantised", lambda: layers.Conv1D(2, 2).quantize("int8")),
        ("a block size", ValueError, "block_size", lambda: config(block_size=0)),
        ("blocks of one's own", ValueError, "of one's own", lambda: config(four_bits)),
        ("a range", ValueError, "-128", lambda: quantizers.AbsMaxQuantizer(value_range=(-200, 127))),
        ("a policy's mode", ValueError, "int4/128", lambda: keras.dtype_policies.get("int4/0_from_float32")),
    ])  # fmt: skip
    own.quantize("int8", type_check=False)
    assert own.quantization_mode == "int8"


def test_models_quantise_the_layers_that_filters_choose() -> None:
    def modes(filters: Any) -> list[Any]:
        model, _, _ = MODELS["dense"](keras)
        model.quantize("int8", filters=filters)
        return [model.layers[0].quantization_mode, model.layers[1].layers[0].quantization_mode,
                model.layers[2].quantization_mode]  # fmt: skip

    assert modes("first") == ["int8", None, None]
    assert modes(["one", "last"]) == [None, "int8", "int8"]
    assert modes(lambda layer: layer.name != "last") == ["int8", "int8", None]
    model, _, _ = MODELS["dense"](keras)
    with pytest.warns(UserWarning, match="not quantised to int4: layer_normalization"):
        model.quantize("int4")


def test_attention_has_quantised_projections() -> None:
    """Their sums are those of Keras' EinsumDense; the error is that of 8 bits."""
    x = np.random.RandomState(0).randn(2, 6, 8).astype("float32")
    heads = layers.MultiHeadAttention(2, 5)
    before = heads(x, x).detach().numpy()
    model = keras.Sequential([keras.Input((6, 8)), layers.Dense(8)])
    for part in (heads.query_dense, heads.key_dense, heads.value_dense, heads.output_dense):
        part.quantize("int8")
    after = heads(x, x).detach().numpy()
    assert 0 < np.abs(after - before).max() < 0.05
    assert model.quantization_mode is None


def test_int8_steps_of_lora_are_captured() -> None:
    model, x, y = made("dense", "int8")
    for layer in (model.layers[0], model.layers[2]):
        layer.enable_lora(2)
    model.compile("sgd", "mse")
    model.fit(x, y, batch_size=3, epochs=3, verbose=0)
    assert model.compiled_step == "captured"
