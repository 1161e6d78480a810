"""Layers called with numbers that are fixed. Each case takes the `keras` module, and gives numbers.

Layers that change pictures at random are given the numbers that they would draw: `transform_images(pictures,
transformation)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.keras.scripts import start

CASES: dict[str, Callable[[Any], Any]] = {}


def noise(*shape: int, seed: int = 0) -> Any:
    """Normally distributed float32 numbers of a shape."""
    return np.random.RandomState(seed).randn(*shape).astype("float32")


def pictures(most: float = 255.0, size: Any = (2, 6, 5, 3)) -> Any:
    """Pictures with values from 0 to `most`."""
    return (np.random.RandomState(3).rand(*size) * most).round(3).astype("float32")


def case(name: str) -> Callable[[Callable[[Any], Any]], Any]:
    def add(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CASES[name] = function
        return function

    return add


def _floats(keras: Any, value: Any) -> Any:
    """Lists of a transformation as tensors."""
    if isinstance(value, dict):
        return {key: _floats(keras, inner) for key, inner in value.items()}
    array = np.asarray(value)
    return keras.ops.convert_to_tensor(array.astype("float32") if array.dtype.kind == "f" else array)


def transformed(layer: str, settings: dict[str, Any], transformation: dict[str, Any], most: float = 255.0) -> None:
    """A case: a layer's pictures by a transformation, with the channels last and first."""

    @case(f"{layer} {settings}")
    def run(keras: Any) -> Any:
        found = []
        for order in ("channels_last", "channels_first"):
            if order == "channels_first" and layer in ("RandomElasticTransform",):
                continue
            made = getattr(keras.layers, layer)(**settings, data_format=order)
            x = keras.ops.convert_to_tensor(pictures(most))
            x = x if order == "channels_last" else keras.ops.moveaxis(x, -1, 1)
            y = made.transform_images(x, _floats(keras, transformation), training=True)
            found.append(y if order == "channels_last" else keras.ops.moveaxis(y, 1, -1))
        return found


_EACH = {"factor": [[[[0.3]]], [[[-0.4]]]]}
transformed("RandomColorDegeneration", {"factor": 0.5}, _EACH)
transformed("RandomContrast", {"factor": 0.5, "value_range": (0, 255)}, {"contrast_factor": [[[[0.4]]], [[[1.7]]]]})
transformed("RandomHue", {"factor": 0.5, "value_range": (0, 255)}, {"factor": [0.2, -0.3]})
transformed("RandomHue", {"factor": 0.5, "value_range": (0, 1)}, {"factor": [0.2, -0.3]}, 1.0)
transformed("RandomInvert", {"value_range": (0, 255)}, {"apply_inversion": [True, False]})
transformed("RandomSaturation", {"factor": (0.1, 0.9)}, {"factor": [0.3, 1.5]})
transformed("RandomSharpness", {"factor": 0.5}, {"factor": [0.1, 0.9]})
transformed("RandomGaussianBlur", {"kernel_size": 3}, {"should_apply_blur": [True, False], "blur_factor": [0.6, 0.9]})
transformed("MixUp", {}, {"mix_weight": [0.3, 0.8], "permutation_order": [1, 0]})
transformed(
    "RandomShear", {"x_factor": 0.3, "y_factor": 0.3}, {"shear_factor": [[0.2, 0.1], [-0.3, 0.0]]},
)  # fmt: skip
transformed(
    "RandomShear", {"x_factor": 0.3, "interpolation": "nearest", "fill_mode": "constant", "fill_value": 7.0},
    {"shear_factor": [[0.21, 0.13], [-0.33, 0.0]]},
)  # fmt: skip
transformed("RandomShear", {"x_factor": 0.3, "fill_mode": "wrap"}, {"shear_factor": [[0.2, 0.1], [-0.3, 0.0]]})
_CORNERS = [[0.0, 0.0], [4.0, 0.0], [0.0, 5.0], [4.0, 5.0]]
transformed(
    "RandomPerspective", {"fill_value": 9.0},
    {"apply_perspective": [True, False], "start_points": [_CORNERS] * 2,
     "end_points": [[[0.3, 0.2], [4.5, 0.4], [0.5, 4.1], [3.2, 5.6]]] * 2},
)  # fmt: skip


@case("RandomPosterization")
def posterization(keras: Any) -> Any:
    layer = keras.layers.RandomPosterization((1, 8))
    shift = keras.ops.convert_to_tensor(np.array([3, 6], "uint8"))
    return layer.transform_images(keras.ops.convert_to_tensor(pictures()), {"shift_factor": shift})


@case("Solarization")
def solarization(keras: Any) -> Any:
    drawn = {"additions": [[[[10.0]]], [[[60.0]]]], "thresholds": [[[[100.0]]], [[[200.0]]]]}
    return [
        keras.layers.Solarization(0.5, 0.5, value_range=(0, most)).transform_images(
            keras.ops.convert_to_tensor(pictures(most)), _floats(keras, drawn), training=True
        )
        for most in (255, 1)
    ]


@case("RandomGrayscale")
def grayscale(keras: Any) -> Any:
    chosen = keras.ops.convert_to_tensor(np.array([True, False]).reshape(2, 1, 1, 1))
    return keras.layers.RandomGrayscale().transform_images(keras.ops.convert_to_tensor(pictures()), chosen)


@case("AutoContrast, Equalization, CLAHE")
def contrasts(keras: Any) -> Any:
    layers, flat = keras.layers, np.full((1, 4, 4, 3), 8.0, "float32")
    large = pictures(size=(2, 16, 13, 3))
    return [
        layers.AutoContrast()(pictures()), layers.AutoContrast((0, 1))(pictures(0.5)), layers.AutoContrast()(flat),
        layers.Equalization()(pictures()), layers.Equalization(bins=16)(large), layers.Equalization()(flat),
        layers.Equalization((0, 1))(pictures(1.0)),
        # A limit that is no whole number is cut to one in Keras on torch: these are 1 and 2.
        layers.ContrastLimitedAdaptiveHistogramEqualization(tile_grid_size=(3, 4))(pictures(size=(2, 22, 31, 3))),
        layers.ContrastLimitedAdaptiveHistogramEqualization((0, 1), 8.0, (2, 2))(pictures(1.0, (1, 16, 16, 1))),
    ]  # fmt: skip


@case("MixUp and CutMix of labels")
def mixed_labels(keras: Any) -> Any:
    x = {"images": pictures(size=(4, 6, 5, 3)), "labels": np.eye(4, dtype="float32")}
    drawn = {"mix_weight": [0.3, 0.8, 0.5, 1.0], "permutation_order": [1, 0, 3, 2]}
    found = [keras.layers.MixUp().transform_labels(keras.ops.convert_to_tensor(x["labels"]), _floats(keras, drawn))]
    layer = keras.layers.CutMix()
    masks = np.zeros((4, 6, 5, 3), bool)
    masks[:, 1:3, 2:4] = True
    drawn = {"batch_masks": masks, **drawn}
    for name in ("images", "labels"):
        value = keras.ops.convert_to_tensor(x[name])
        found.append(getattr(layer, f"transform_{name}")(value, _floats(keras, drawn)))
    return found


@case("RandomErasing")
def erasing(keras: Any) -> Any:
    masks = np.zeros((2, 6, 5, 3), bool)
    masks[:, 1:3, 2:4] = True
    drawn = {"apply_erasing": [True, False], "batch_masks": masks, "fill_value": np.full((2, 6, 5, 3), 5.0)}
    return keras.layers.RandomErasing().transform_images(keras.ops.convert_to_tensor(pictures()), _floats(keras, drawn))


@case("layers for pictures in evaluation")
def evaluated(keras: Any) -> Any:
    layers = keras.layers
    made = [
        layers.MixUp(), layers.CutMix(), layers.RandAugment(), layers.AugMix(), layers.RandomErasing(),
        layers.RandomColorJitter((0, 255), 0.2, 0.2, 0.2, 0.2), layers.RandomShear(0.2, 0.2),
        layers.RandomPerspective(), layers.RandomElasticTransform(), layers.Equalization(), layers.RandomInvert(),
        layers.Pipeline([layers.RandomFlip(), layers.Rescaling(0.5)]), layers.RandomHue(0.1),
    ]  # fmt: skip
    return [keras.ops.mean(layer(pictures(), training=False)) for layer in made]


def with_numbers(keras: Any, layer: Any, *inputs: Any, **settings: Any) -> Any:
    """The outputs of a layer whose weights are fixed."""
    layer(*inputs)
    start(layer, 5)
    return layer(*inputs, **settings)


@case("ConvLSTM")
def convolutional_lstm(keras: Any) -> Any:
    layers = keras.layers
    mask = np.array([[True, True, False], [False, True, True]])
    return [
        with_numbers(keras, layers.ConvLSTM1D(2, 3), noise(2, 3, 6, 2)),
        with_numbers(keras, layers.ConvLSTM1D(3, 2, 2, "same", go_backwards=True), noise(2, 3, 5, 2), mask=mask),
        with_numbers(
            keras,
            layers.ConvLSTM2D(3, (3, 2), padding="same", return_sequences=True, recurrent_activation="hard_sigmoid"),
            noise(2, 3, 5, 4, 2),
            mask=mask,
        ),
        *with_numbers(
            keras, layers.ConvLSTM2D(2, 2, dilation_rate=2, return_state=True, use_bias=False), noise(2, 3, 5, 4, 2)
        ),
        with_numbers(keras, layers.ConvLSTM3D(2, 2, strides=2), noise(1, 2, 4, 5, 4, 2)),
    ]


@case("recurrent layers whose masked outputs are zeros")
def zero_outputs(keras: Any) -> Any:
    mask = np.array([[True, True, False], [False, True, True]])
    return [
        with_numbers(
            keras, keras.layers.GRU(2, return_sequences=many, zero_output_for_mask=zeros), noise(2, 3, 4), mask=mask
        )
        for many in (True, False)
        for zeros in (True, False)
    ]


@case("SpectralNormalization")
def spectral_normalization(keras: Any) -> Any:
    layers, found = keras.layers, []
    for layer, x in (
        (layers.SpectralNormalization(layers.Dense(3)), noise(2, 4)),
        (layers.SpectralNormalization(layers.Conv2D(3, 2), power_iterations=3), noise(1, 4, 4, 2)),
    ):
        y = with_numbers(keras, layer, x, training=True)
        found += [y, layer(x), *layer.get_weights()]
    return found


@case("GroupQueryAttention and MultiHeadAttention")
def attention(keras: Any) -> Any:
    layers, q, v = keras.layers, noise(2, 4, 6), noise(2, 5, 6, seed=1)
    mask = np.array([[True] * 3 + [False] * 2, [True] * 5])
    allowed = np.random.RandomState(4).rand(2, 4, 5) < 0.7
    found = [
        with_numbers(keras, layers.GroupQueryAttention(3, 4, 2), q, v),
        with_numbers(keras, layers.GroupQueryAttention(3, 4, 1, use_bias=False), q, q, use_causal_mask=True),
        with_numbers(
            keras, layers.GroupQueryAttention(3, 4, 2, use_gate=True, sliding_window=2), q, v, value_mask=mask,
            attention_mask=allowed,
        ),
        *with_numbers(keras, layers.GroupQueryAttention(2, 4, 2), q, v, return_attention_scores=True),
        with_numbers(keras, layers.MultiHeadAttention(2, 3, 4, use_gate=True), q, v),
        with_numbers(keras, layers.MultiHeadAttention(2, 3, sliding_window=2, output_shape=5), q, q),
        with_numbers(keras, layers.MultiHeadAttention(2, 3, output_shape=(2, 3)), q, v, noise(2, 5, 7, seed=2)),
        with_numbers(keras, layers.MultiHeadAttention(2, 3, attention_axes=2), noise(2, 3, 4, 5), noise(2, 3, 4, 5)),
    ]  # fmt: skip
    layer = layers.MultiHeadAttention(2, 3, activity_regularizer="l2")
    with_numbers(keras, layer, q, v)
    one = allowed[0] | np.eye(4, 5, dtype=bool)  # for all examples and heads
    found.append(with_numbers(keras, layers.MultiHeadAttention(2, 3), q, v, attention_mask=one))
    return [*found, sum(float(loss) for loss in layer.losses)]


@case("weights in the order in which they are made")
def order_of_weights(keras: Any) -> Any:
    class Ordered(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, input_shape: Any) -> None:
            self.one = keras.Variable(np.full(2, 1.0, "float32"))
            self.two = self.add_weight(shape=(2,), initializer="ones")
            self.three = keras.Variable(np.full(2, 3.0, "float32"), trainable=False)
            self.four = self.add_weight(shape=(2,), initializer="zeros", trainable=False)
            self.five = keras.Variable(np.full(2, 5.0, "float32"))

        def call(self, x: Any) -> Any:
            return x * self.one + self.two + self.three + self.four * self.five

    ordered, steps = Ordered(), keras.layers.TimeDistributed(keras.layers.Dense(2))
    ordered(noise(1, 2))
    steps.build((None, 3, 4))
    start(steps, 5)
    return [*ordered.get_weights(), steps(noise(2, 3, 4))]


@case("STFTSpectrogram and MelSpectrogram")
def spectrograms(keras: Any) -> Any:
    layers, x = keras.layers, noise(2, 100, 2)
    modes = ("log", "magnitude", "psd", "real", "imag", "stft")
    found = [layers.STFTSpectrogram(mode, 32, 10, expand_dims=k % 2 == 0)(x) for k, mode in enumerate(modes)]
    found.append(layers.STFTSpectrogram("magnitude", 20, fft_length=32, window="hamming", padding="same")(x))
    found.append(layers.STFTSpectrogram("psd", 16, window=None, scaling=None)(x))
    found.append(layers.STFTSpectrogram("psd", 16, window="blackman", scaling="spectrum", periodic=True)(x))
    sound = noise(2, 600)
    found.append(layers.MelSpectrogram(128, 40, num_mel_bins=8, sampling_rate=8000)(sound))
    found.append(
        layers.MelSpectrogram(
            128, 40, 100, window="hamming", num_mel_bins=8, sampling_rate=8000, power_to_db=False, max_freq=3000
        )(sound[0])
    )
    return found


@case("ReversibleEmbedding")
def reversible_embedding(keras: Any) -> Any:
    ids, vectors, found = np.array([[1, 2], [0, 4]]), noise(2, 3, 4), []
    for layer in (
        keras.layers.ReversibleEmbedding(6, 4, mask_zero=True),
        keras.layers.ReversibleEmbedding(6, 4, tie_weights=False, logit_soft_cap=2.0),
    ):
        found += [with_numbers(keras, layer, ids), layer(vectors, reverse=True)]
    return found


@case("masked recurrent layers of short floats")
def masked_in_short_floats(keras: Any) -> Any:
    layers, x, found = keras.layers, noise(2, 4, 3), []
    mask = keras.ops.convert_to_tensor(np.array([[True, True, False, False], [False, False, True, True]]))
    for kind in (layers.LSTM, layers.GRU, layers.SimpleRNN):
        layer = kind(2, return_sequences=True, return_state=True, dtype="mixed_float16")
        layer.build((2, 4, 3))
        start(layer, 5)
        found.append(list(layer(x, mask=mask)))
    return found


@case("Bidirectional without a merge, with states")
def both_ways_with_states(keras: Any) -> Any:
    layer = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True, return_state=True), merge_mode=None)
    layer.build((2, 4, 3))
    start(layer, 5)
    return list(layer(noise(2, 4, 3)))


@case("Discretization")
def ranges(keras: Any) -> Any:
    """Boundaries that are chosen of one array and of batches, and outputs in the layer's dtype."""
    layers, found = keras.layers, []
    for batches, settings in (
        ([noise(900)], {"num_bins": 5}),
        ([noise(70), noise(2, 95, seed=1), noise(3, seed=2)], {"num_bins": 4, "epsilon": 0.05}),
        ([noise(9)], {"num_bins": 3}),
    ):
        layer = layers.Discretization(**settings)
        if keras.__name__ == "keras":  # its adapt needs TensorFlow
            layer.reset_state()
            for batch in batches:
                layer.update_state(batch)
            layer.finalize_state()
        else:
            layer.adapt(batches)
        found.append(layer.bin_boundaries)
    for mode in ("int", "one_hot", "multi_hot", "count"):
        made = layers.Discretization([-0.5, 0.0, 0.5], output_mode=mode, dtype="float16")
        found.append(made(np.array([[-0.7, 0.5], [0.0, 0.2]], "float32")))
    return found


@case("MaxNumBoundingBoxes")
def number_of_boxes(keras: Any) -> Any:
    found = []
    for most in (2, 5):
        layer = keras.layers.MaxNumBoundingBoxes(most, fill_value=-1, bounding_box_format="xyxy")
        boxes = {"boxes": noise(2, 3, 4), "labels": np.array([[1, 2, 3], [4, 5, 6]], "int64")}
        y = layer({"images": pictures(), "bounding_boxes": boxes})["bounding_boxes"]
        found += [y["boxes"], y["labels"]]
    return found


@case("a metric with weights and a class that does not count")
def weighted_without_a_class(keras: Any) -> Any:
    metric = keras.metrics.SparseCategoricalCrossentropy(ignore_class=0)
    metric.update_state(np.array([0, 1, 2, 0]), pictures(1.0, (4, 3)), sample_weight=np.array([1.0, 2.0, 0.5, 3.0]))
    return metric.result()
