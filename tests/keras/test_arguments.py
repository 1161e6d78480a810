"""Arguments that are wrong, rare or left out: as in Keras 3.15, or refused by name."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from pyapp import keras
from tests.together import check_each

L = keras.layers


def compiled(**settings: Any) -> Any:
    model = keras.Sequential([keras.Input((1,)), L.Dense(1)])
    model.compile("sgd", "mse", **settings)
    return model


X = np.ones((2, 3, 4), "float32")


def two_outputs(metrics: Any = None, sample_weight: Any = None) -> Any:
    """Trains a model with the outputs u and v."""
    inputs = keras.Input((4,))
    model = keras.Model(inputs, [L.Dense(1, name="u")(inputs), L.Dense(1, name="v")(inputs)])
    model.compile("sgd", "mse", metrics=metrics)
    labels = {"u": np.ones((3, 1)), "v": np.ones((3, 1))}
    return model.fit(X[0], labels, sample_weight=sample_weight, verbose=0)


# (a layer that is made, or made and called; what its error says)
REFUSED: list[tuple[Any, str]] = [
    (lambda: L.Conv2D(2.5, 3), "Conv2D: filters is a positive integer, not 2.5"),
    (lambda: L.Conv2D(2, 3, padding=None), "Conv2D: padding is valid or same, not None"),
    (lambda: L.Conv2D(2, 3, data_format=()), "Conv2D: data_format is"),
    (lambda: L.Conv2DTranspose(0, 3), "Conv2DTranspose: filters"),
    (lambda: L.Conv1DTranspose(2, 3, output_padding=1), "output_padding 1 must be below strides"),
    (lambda: L.MaxPooling1D(padding=2.5), "MaxPooling1D: padding"),
    (lambda: L.GaussianDropout(1000), "GaussianDropout: rate is a number from 0 to 1, not 1000"),
    (lambda: L.MultiHeadAttention(1, 2, dropout=()), "MultiHeadAttention: dropout"),
    (lambda: L.AlphaDropout(0.5, noise_shape=(-1,)), "AlphaDropout: noise_shape"),
    (lambda: L.Masking(None), "Masking: mask_value"),
    (lambda: L.ReLU(threshold=""), "ReLU: threshold"),
    (lambda: L.Reshape(("x",)), "Reshape: target_shape"),
    (lambda: L.ZeroPadding2D(-2), "ZeroPadding2D: padding"),
    (lambda: L.UpSampling1D()(keras.ops.ones((2, 3))), "takes 3 dims"),
    (lambda: L.GlobalMaxPooling3D()(keras.ops.ones((2, 3, 4, 5))), "takes 5 dims"),
    (lambda: L.SpatialDropout1D(0.5)(keras.ops.ones((2, 3))), "takes 3 dims"),
    (lambda: L.Cropping1D(1)(keras.ops.ones((2, 2, 1))), "leaves nothing of the 2 of dim 1"),
    (lambda: L.Add()([keras.ops.ones((2, 3)), keras.ops.ones((1, 3))]), "the batches differ: (2, 3), (1, 3)"),
    (lambda: L.LayerNormalization(axis=2)(keras.ops.ones((2, 3))), "there is no axis 2: there are 2 dims"),
    (lambda: L.Dot(axes=3)([keras.ops.ones((2, 3))] * 2), "there is no axis 3"),
    (lambda: keras.ops.sum(keras.ops.ones((2, 3)), axis=-3), "axis -3"),
    (lambda: L.Dense(2, trainable=1), "Dense: trainable is True or False, not 1"),
    (lambda: L.Layer().add_weight("kernel", initializer="ones"), "write name='kernel'"),
    (lambda: keras.losses.BinaryCrossentropy()(np.ones((3, 1)), np.ones((3, 3))), "the same shape, got (3, 1)"),
    (lambda: keras.KerasTensor((2,), sparse=True), "no sparse"),
    (lambda: keras.callbacks.ModelCheckpoint("best.pt"), "must end in `.keras`"),
    (lambda: keras.Sequential([keras.Input((1,)), L.Dense(1)]).save_weights("w.bin"), "must end in `.weights.h5`"),
    (lambda: L.BatchNormalization(axis=3)(keras.Input((4,))), "no axis 3: the inputs have 2 dims"),
    (lambda: keras.optimizers.Adam("a"), "Adam: learning_rate is a number, a schedule or a function, not 'a'"),
    (
        lambda: keras.Sequential([keras.Input((1,)), L.Dense(1)])(np.array([["a"]])),
        "of numbers (float32), got an array",
    ),
    (lambda: keras.metrics.AUC(10**15), "num_thresholds is at most 1,048,576"),
    (lambda: L.Dense(3)(keras.Input((None,))), "last dim, which must be known, got shape (None, None)"),
    (
        lambda: compiled(loss_weights=[1.0, 2.0]).fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0),
        "a number for each of 1",
    ),
    (lambda: L.Concatenate()(X), "a list of at least 1 input"),
    (lambda: L.Attention()(X), "namely [query, value]"),
    (lambda: L.Embedding("a", 3), "input_dim is a positive integer"),
    (lambda: keras.Input("a"), "is no size"),
    (lambda: L.Dense(3, name="a/b"), "cannot contain character `/`"),
    (lambda: L.Dense(3, name=3), "must be a string"),
    (lambda: keras.Variable("zeros"), "needs a shape"),
    (lambda: keras.metrics.F1Score(threshold="a"), "threshold is a number or None"),
    (lambda: compiled().get_layer("dense", 0), "Provide only a layer name or a layer index"),
    (lambda: compiled().get_layer(), "Provide either a layer name or layer index"),
    (lambda: compiled().predict({"a": X}, verbose=0), "takes one tensor, got a dict"),
    (lambda: two_outputs(metrics=["mse"] * 3), "a list of 3, the model has 2 outputs"),
    (lambda: keras.optimizers.SGD().apply([X]), "a gradient or None for each of 0 weights, got 1; without"),
    (lambda: two_outputs(sample_weight={"w": np.ones(3)}), "sample_weight names 'w'"),
]


def test_wrong_arguments_are_named() -> None:
    def check(number: int, make: Any, says: str) -> None:
        with pytest.raises((ValueError, TypeError, IndexError, NotImplementedError)) as caught:
            make()
        assert says in str(caught.value), caught.value

    check_each(check, [(number, *case) for number, case in enumerate(REFUSED)])


def test_merged_inputs_of_fewer_dims_stand_beside_the_batch() -> None:
    x, y = np.arange(4.0, dtype="float32").reshape(2, 1, 2), np.array([[10.0, 20.0], [30.0, 40.0]], "float32")
    found = L.Add()([x, y]).numpy()
    np.testing.assert_array_equal(found, [[[10, 21]], [[32, 43]]])
    np.testing.assert_array_equal(L.Maximum()([x]).numpy(), x)


def test_masks_leave_places_out_of_merged_inputs_and_of_statistics() -> None:
    """The numbers of Keras 3.15."""
    masked = L.Masking()
    x, y = (
        np.array([[[0, 0], [1, 2], [0, 0], [3, 4]]], "float32"),
        np.array([[[0, 0], [0, 0], [1, 2], [3, 4]]], "float32"),
    )
    for kind, sign, one, both in (
        (L.Maximum, -1, [[0, 0], [0, 0], [-1, -2], [-3, -4]], [[0, 0], [-1, -2], [-1, -2], [-3, -4]]),
        (L.Minimum, 1, [[0, 0], [0, 0], [1, 2], [3, 4]], [[0, 0], [1, 2], [1, 2], [3, 4]]),
        (L.Multiply, 1, [[0, 0], [0, 0], [1, 2], [9, 16]], [[0, 0], [1, 2], [1, 2], [9, 16]]),
    ):  # fmt: skip
        first, second = masked(sign * x), keras.ops.convert_to_tensor(sign * y)
        np.testing.assert_array_equal(kind()([first, second]).numpy(), [one])
        np.testing.assert_array_equal(kind()([first, masked(sign * y)]).numpy(), [both])
    layer, values = L.BatchNormalization(axis=1, momentum=0.0), np.arange(12.0, dtype="float32").reshape(2, 3, 2)
    layer(values, training=True, mask=np.array([[True, True, False], [True, False, False]]))
    np.testing.assert_allclose(layer.moving_mean.numpy(), [3.5, 2.5, 0.0], rtol=1e-6)
    np.testing.assert_allclose(layer.moving_variance.numpy(), [9.25, 0.25, 0.0], rtol=1e-6)


def test_each_step_of_time_distributed_has_its_own_statistics_and_mask() -> None:
    x = np.arange(12.0, dtype="float32").reshape(2, 3, 2)
    y = L.TimeDistributed(L.BatchNormalization(epsilon=0.0))(x, training=True).detach().numpy()
    np.testing.assert_allclose(y, np.broadcast_to([[[-1.0]], [[1.0]]], x.shape), rtol=1e-6)  # two examples each step
    seen: list[Any] = []

    class Seeing(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any, mask: Any = None) -> Any:
            seen.append(mask.numpy().tolist())
            return inputs

    mask = np.array([[True, False, True], [True, True, False]])
    L.TimeDistributed(Seeing())(keras.ops.convert_to_tensor(x), mask=keras.ops.convert_to_tensor(mask))
    assert seen == mask.T.tolist()


def test_defaults_and_rare_values() -> None:
    x = keras.ops.ones((1, 9, 4, 2))
    assert L.Cropping2D()(x).shape == x.shape  # nothing is cropped, unlike in one and three dims
    assert float(keras.ops.sum(L.Softmax(axis=None)(x))) == pytest.approx(1)
    assert not L.SpatialDropout2D(1)(x, training=True).numpy().any()
    shared = L.AlphaDropout(0.5, noise_shape=(1, 9, 1, 1), seed=1)(x, training=True).numpy()
    assert (shared == shared[:, :, :1, :1]).all() and len(np.unique(shared)) == 2
    gates = L.GRU(1, recurrent_activation="softmax", reset_after=False)
    gates(x[0])
    gates.set_weights([np.full(w.shape, 0.5, "float32") for w in gates.get_weights()])
    assert not gates(x[0]).detach().numpy().any()  # a softmax over a gate's one unit is 1: the state stays


def small_model() -> Any:
    model = keras.Sequential([keras.Input((2,)), L.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def test_steps_of_arrays_end_with_a_pass_and_divide_it() -> None:
    """Numbers of Keras 3.15: three batches make an epoch of two steps and one of one; without batch_size two steps are
    the whole."""
    x, y = np.arange(16, dtype="float32").reshape(8, 2) / 8, np.arange(8, dtype="float32").reshape(8, 1) / 8

    def fit(**settings: Any) -> list[float]:
        history = small_model().fit(x, y, shuffle=False, verbose=0, steps_per_epoch=2, **settings).history
        return [float(loss) for loss in history["loss"]]

    assert fit(batch_size=3, epochs=3) == pytest.approx([1.237679, 0.929923, 0.16219], rel=1e-4)
    assert fit(epochs=2) == pytest.approx([2.029114, 0.072529], rel=1e-4)
    for name, value in (("epochs", None), ("epochs", -1), ("steps_per_epoch", {}), ("initial_epoch", 0.5)):
        with pytest.raises(ValueError, match=f"{name} is "):
            small_model().fit(x, y, verbose=0, **{name: value})


def test_the_best_weights_are_restored_after_averages_are() -> None:
    x, y = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    model = small_model()
    model.compile(keras.optimizers.SGD(3.0, use_ema=True, ema_momentum=0.5), "mse")  # it overshoots, and gets worse
    stop = keras.callbacks.EarlyStopping("loss", patience=0, restore_best_weights=True)
    model.fit(x, y, epochs=4, verbose=0, shuffle=False, callbacks=[stop])
    np.testing.assert_allclose(model.get_weights()[0].ravel(), [-11, -11], rtol=1e-5)


def test_masks_of_short_floats() -> None:
    x = np.arange(12, dtype="float32").reshape(1, 3, 4) / 12
    kept = np.array([[True, True, False]])
    for dtype in ("mixed_float16", "mixed_bfloat16"):
        found = L.Attention(dtype=dtype)([x, x], mask=[None, keras.ops.convert_to_tensor(kept)])
        exact = L.Attention()([x, x[:, :2]])
        np.testing.assert_allclose(found.float().numpy(), exact.numpy(), atol=1e-2)
        scores = L.Softmax(dtype=dtype)(x[0], mask=keras.ops.convert_to_tensor(np.array([True, False, True, True])))
        assert not scores.float().numpy()[:, 1].any()


def test_configurations_have_the_arguments_that_keras_takes() -> None:
    """Its constructors refuse others; its own files have numbers of pictures' layers as pairs."""
    for layer in (L.SpatialDropout1D(0.5), L.Cropping1D(1), L.Discretization([1.0]), L.SpatialDropout2D(0.5)):
        config = layer.get_config()
        assert "trainable" not in config or type(layer) is L.Cropping1D
        assert "data_format" not in config or type(layer) is L.SpatialDropout2D
        assert type(layer).from_config(config).get_config() == config
    assert L.RandomSaturation.from_config({"factor": (-0.1, 0.1)}).limits((-0.1, 0.1), 0.0) == (0.0, 0.1)
    assert keras.InputSpec.from_config(keras.InputSpec(shape=(None, 2)).get_config()).shape == (None, 2)
    scaled = L.LayerNormalization(rms_scaling=True, epsilon=0.0)(np.array([[1.0, 3.0]], "float32"))
    np.testing.assert_allclose(scaled.detach().numpy(), [[1.0, 3.0]], rtol=1e-6)


def test_metrics_of_equal_predictions_and_of_gains() -> None:
    """The numbers of Keras 3.15: exactly `top_k` predictions are positive."""
    y_true = np.array([[0, 1, 1, 0, 1], [1, 0, 0, 1, 1]])
    y_pred = np.array([[0.2, 0.6, 0.4, 0.2, 0.2], [0.3, 0.3, 0.3, 0.3, 0.1]])
    for kind, expected in ((keras.metrics.Precision, 0.5), (keras.metrics.Recall, 0.5)):
        metric = kind(top_k=3)
        metric.update_state(y_true, y_pred)
        assert float(metric.result()) == pytest.approx(expected)
    for method, expected in (("interpolation", 0.375), ("minoring", 0.25), ("majoring", 0.5)):
        area = keras.metrics.AUC(5, "PRGAIN", method)
        area.update_state([0, 0, 1, 1, 1, 0], [0, 0.5, 0.3, 0.9, 0.3, 0.8], sample_weight=[1, 2, 3, 4, 1, 1])
        assert float(area.result()) == pytest.approx(expected)


def test_steps_get_several_inputs_as_one_part() -> None:
    """Without labels a list of inputs is no (x, y), and `predict_step` gets what Keras gives it."""
    seen: list[Any] = []

    class Own(keras.Model):  # type: ignore[misc, name-defined]
        def predict_step(self, data: Any) -> Any:
            seen.append(type(data).__name__)
            return super().predict_step(data)

    class Mean(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            self.add_loss(keras.ops.mean(x))
            return x

    a, b = keras.Input((3,)), keras.Input((3,))
    model = Own([a, b], Mean()(keras.layers.Add()([a, b])))
    model.compile("sgd")
    ones = np.ones((4, 3), "float32")
    assert model.evaluate([ones, 2 * ones], verbose=0) == 3.0
    assert model.predict([ones, 2 * ones], verbose=0).sum() == 36.0
    single = keras.Input((3,))
    Own(single, keras.layers.Dense(1)(single)).predict(ones, verbose=0)
    assert seen == ["tuple", "Tensor"]
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        model.fit([ones, ones], verbose=0)


def test_values_that_constructors_make_are_written() -> None:
    layers = keras.layers
    assert layers.RandomContrast(0.1).get_config()["factor"] == [0, 0.1]
    assert layers.RandomRotation(0.1).get_config()["factor"] == [-0.1, 0.1]
    assert layers.RandomTranslation(0.1, 0.2).get_config()["height_factor"] == 0.1  # as Keras has it
    rate = keras.optimizers.SGD(0.25).learning_rate
    assert copy.deepcopy(rate) == 0.25 and pickle.loads(pickle.dumps(keras.optimizers.SGD().iterations)) == 0
    wrapped = keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error, name="error")
    written = keras.saving.serialize_keras_object(wrapped)
    for again in (keras.saving.deserialize_keras_object(written), type(wrapped).from_config(wrapped.get_config())):
        assert again(np.ones((2, 1)), np.zeros((2, 1))).item() == 1.0


def test_windows_without_batches() -> None:
    found = list(keras.utils.timeseries_dataset_from_array(np.arange(6.0), np.arange(6), 3, batch_size=None))
    assert [(x.tolist(), int(y)) for x, y in found] == [([k, k + 1.0, k + 2.0], k) for k in range(4)]
