"""Small trainings in Keras' own style. Each runs with Keras and with pyapp.keras; only the import differs.

A script takes the `keras` module and returns numbers. Weights begin with the same numbers in both: `start(model)`.
"""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.keras import programs, user_classes  # noqa: F401 (their scripts too)
from tests.keras.script_tools import SCRIPTS as SCRIPTS
from tests.keras.script_tools import fitted, numbers, script, start


@script
def classifier(keras: Any) -> Any:
    x, y = numbers(40, 6, 3)
    model = keras.Sequential(
        [
            keras.layers.Input((6,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, x, y)


@script
def one_hot_labels_and_top_k(keras: Any) -> Any:
    x, y = numbers(40, 6, 7)
    model = keras.Sequential()
    model.add(keras.Input(shape=(6,)))
    model.add(keras.layers.Dense(12, activation="tanh"))
    model.add(keras.layers.Dense(7))
    start(model)
    model.compile(
        optimizer=keras.optimizers.SGD(learning_rate=0.1, momentum=0.9, nesterov=True),
        loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        metrics=["accuracy", keras.metrics.TopKCategoricalAccuracy(k=2, name="top2")],
    )
    return fitted(model, x, keras.utils.to_categorical(y, 7))


@script
def binary_with_weights(keras: Any) -> Any:
    x, y = numbers(36, 5, 2)
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4, activation="elu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    start(model)
    model.compile(
        optimizer=keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True), loss="binary_crossentropy",
        metrics=["acc", keras.metrics.AUC(), keras.metrics.Precision(name="p"), keras.metrics.Recall(name="r")],
        weighted_metrics=["mse"],
    )  # fmt: skip
    weights = np.linspace(0.5, 1.5, 36).astype("float32")
    return fitted(model, x, y, sample_weight=weights, validation_split=0.25)


@script
def class_weights(keras: Any) -> Any:
    x, y = numbers(30, 4, 2)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])
    start(model)
    model.compile("adagrad", "sparse_categorical_crossentropy", metrics=["sparse_categorical_accuracy"])
    return fitted(model, x, y, class_weight={0: 0.7, 1: 2.0})


@script
def regression(keras: Any) -> Any:
    x, _ = numbers(40, 4, 2)
    y = (x @ np.array([[1.0], [2.0], [-1.0], [0.5]], "float32")) + 0.3
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "swish"), keras.layers.Dense(1)])
    start(model)
    model.compile(
        optimizer="nadam",
        loss="mse",
        metrics=["mae", "mape", keras.metrics.RootMeanSquaredError(), keras.metrics.R2Score()],
    )
    found = fitted(model, x, y, validation_data=(x[:10], y[:10]))
    found["evaluated"] = model.evaluate(x, y, verbose=0, batch_size=16)
    return found


@script
def image_classifier(keras: Any) -> Any:
    x, y = numbers(24, (8, 8, 2), 3)
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 2)),
            keras.layers.Conv2D(4, (3, 3), activation="relu", padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D((2, 2)),
            keras.layers.Conv2D(5, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, x, y)


@script
def separable_and_depthwise(keras: Any) -> Any:
    x, y = numbers(16, (9, 7, 3), 2)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((9, 7, 3)),
            layers.SeparableConv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.DepthwiseConv2D(2, depth_multiplier=2, padding="valid"),
            layers.AveragePooling2D(2, padding="same"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2, activation="softmax"),
        ]
    )
    start(model)
    model.compile(optimizer=keras.optimizers.Adamax(0.01), loss="sparse_categorical_crossentropy")
    return fitted(model, x, y)


@script
def upsampling_autoencoder(keras: Any) -> Any:
    x, _ = numbers(12, (8, 8, 1), 2)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(3, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(3, 3, strides=2, padding="same", activation="relu"),
            layers.UpSampling2D(2),
            layers.ZeroPadding2D(1),
            layers.Cropping2D(((2, 0), (0, 2))),
            layers.MaxPooling2D(2),
            layers.Conv2D(1, 3, padding="same"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="mae")
    return fitted(model, x, x)


@script
def sequence_convolution(keras: Any) -> Any:
    x, y = numbers(16, (12, 3), 2)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((12, 3)),
            layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="relu"),
            layers.MaxPooling1D(2),
            layers.SpatialDropout1D(0.0),
            layers.Conv1DTranspose(3, 4, strides=2, padding="valid"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    start(model)
    model.compile(optimizer=keras.optimizers.AdamW(0.01), loss="binary_crossentropy", metrics=["binary_accuracy"])
    return fitted(model, x, y)


@script
def lstm(keras: Any) -> Any:
    x, y = numbers(16, (6, 3), 2)
    model = keras.Sequential(
        [
            keras.layers.Input((6, 3)),
            keras.layers.LSTM(5, return_sequences=True),
            keras.layers.LSTM(4),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, x, y)


@script
def gru_both_forms(keras: Any) -> Any:
    x, y = numbers(16, (5, 3), 2)
    model = keras.Sequential(
        [
            keras.layers.Input((5, 3)),
            keras.layers.GRU(4, return_sequences=True),
            keras.layers.GRU(4, reset_after=False, go_backwards=True),
            keras.layers.Dense(1),
        ]
    )
    start(model)
    model.compile(optimizer="sgd", loss=keras.losses.Huber(delta=0.5))
    return fitted(model, x, y.astype("float32"))


@script
def bidirectional_and_time_distributed(keras: Any) -> Any:
    x, _ = numbers(10, (5, 3), 2)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((5, 3)),
            layers.Bidirectional(layers.SimpleRNN(3, return_sequences=True), merge_mode="ave"),
            layers.Bidirectional(layers.GRU(2, return_sequences=True)),
            layers.TimeDistributed(layers.Dense(3)),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="mse")
    return fitted(model, x, x)


@script
def embedding_of_words(keras: Any) -> Any:
    random = np.random.RandomState(3)
    x = random.randint(0, 20, (24, 7))
    y = (x.sum(1) % 2).astype("float32")
    model = keras.Sequential(
        [
            keras.layers.Input((7,), dtype="int32"),
            keras.layers.Embedding(20, 6, embeddings_regularizer=keras.regularizers.L2(0.01)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["acc"])
    return fitted(model, x, y)


@script
def functional_two_inputs(keras: Any) -> Any:
    a, y = numbers(20, 4, 2, 1)
    b, _ = numbers(20, 3, 2, 2)
    first, second = keras.Input((4,), name="first"), keras.Input((3,), name="second")
    left = keras.layers.Dense(5, activation="relu")(first)
    right = keras.layers.Dense(5, activation="relu")(second)
    both = keras.layers.Concatenate()([left, right, left * right])
    output = keras.layers.Dense(1, activation="sigmoid", name="answer")(both + 0.5)
    model = keras.Model(inputs=[first, second], outputs=output)
    start(model)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return fitted(model, [a, b], y)


@script
def functional_two_outputs(keras: Any) -> Any:
    x, y = numbers(20, 4, 3)
    inputs = keras.Input(shape=(4,), name="in")
    hidden = keras.layers.Dense(6, activation="relu")(inputs)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(hidden)
    size = keras.layers.Dense(1, name="size")(keras.layers.add([hidden, hidden]))
    model = keras.Model(inputs, {"kind": kind, "size": size})
    start(model)
    model.compile(
        optimizer="adam", loss={"kind": "sparse_categorical_crossentropy", "size": "mse"},
        loss_weights={"kind": 0.7, "size": 0.3}, metrics={"kind": ["accuracy"], "size": ["mae"]},
    )  # fmt: skip
    found = fitted(model, {"in": x}, {"kind": y, "size": x.sum(1)})
    found["evaluated"] = model.evaluate({"in": x}, {"kind": y, "size": x.sum(1)}, verbose=0, return_dict=True)
    return found


@script
def shared_layer_and_residual(keras: Any) -> Any:
    a, _ = numbers(14, 4, 2, 1)
    b, y = numbers(14, 4, 2, 2)
    shared = keras.layers.Dense(4, activation="tanh")
    one, two = keras.Input((4,)), keras.Input((4,))
    x, z = shared(one), shared(two)
    distance = keras.layers.Dot(axes=1, normalize=True)([x, z])
    joined = keras.layers.Concatenate()([keras.layers.subtract([x, z]), distance, keras.layers.maximum([x, z])])
    model = keras.Model([one, two], keras.layers.Dense(1)(joined))
    start(model)
    model.compile(optimizer="adadelta", loss="hinge")
    return fitted(model, [a, b], y.astype("float32"))


@script
def subclass(keras: Any) -> Any:
    class Net(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(5, activation="relu")
            self.norm = keras.layers.LayerNormalization()
            self.last = keras.layers.Dense(2)

        def call(self, inputs: Any, training: bool = False) -> Any:
            return self.last(self.norm(self.first(inputs), training=training))

    x, y = numbers(20, 4, 2)
    model = Net()
    model(x[:1])
    start(model)
    model.compile(
        optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    return fitted(model, x, y)


@script
def layer_of_ones_own(keras: Any) -> Any:
    class Linear(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, units: int = 4) -> None:
            super().__init__()
            self.units = units

        def build(self, input_shape: Any) -> None:
            self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer="random_normal", trainable=True)
            self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True)

        def call(self, inputs: Any) -> Any:
            return keras.ops.matmul(inputs, self.w) + self.b

    x, y = numbers(20, 4, 2)
    model = keras.Sequential([keras.Input((4,)), Linear(5), keras.layers.ReLU(), Linear(2), keras.layers.Softmax()])
    start(model)
    model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy")
    return fitted(model, x, y)


@script
def functional_with_ops(keras: Any) -> Any:
    x, y = numbers(20, (3, 4), 2)
    inputs = keras.Input((3, 4))
    mean = keras.ops.mean(inputs, axis=1)
    top = keras.ops.max(inputs, axis=1)
    hidden = keras.layers.Dense(4)(keras.ops.concatenate([mean, top], axis=-1))
    outputs = keras.layers.Dense(1)(keras.ops.relu(hidden) - keras.ops.sqrt(keras.ops.abs(hidden) + 1.0))
    model = keras.Model(inputs, outputs)
    start(model)
    model.compile(optimizer="adam", loss="log_cosh")
    return fitted(model, x, y.astype("float32"))


@script
def multi_head_attention(keras: Any) -> Any:
    x, y = numbers(12, (5, 6), 2)
    layers = keras.layers
    inputs = keras.Input((5, 6))
    attended = layers.MultiHeadAttention(num_heads=2, key_dim=3)(inputs, inputs)
    h = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([inputs, attended]))
    attended = layers.MultiHeadAttention(2, 3, value_dim=4, use_bias=False)(h, inputs, use_causal_mask=True)
    h = layers.GlobalAveragePooling1D()(attended)
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(h))
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, x, y)


@script
def regularizers_and_constraints(keras: Any) -> Any:
    x, y = numbers(24, 5, 2)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(
                6, activation="relu", kernel_regularizer="l2", bias_regularizer=keras.regularizers.L1(0.02),
                activity_regularizer=keras.regularizers.L1L2(0.01, 0.02), kernel_constraint="max_norm",
            ),
            keras.layers.Dense(1, kernel_constraint="non_neg", activation="sigmoid"),
        ]
    )  # fmt: skip
    start(model)
    model.compile(optimizer=keras.optimizers.SGD(0.2, clipnorm=0.1), loss="binary_crossentropy")
    return fitted(model, x, y)


@script
def learning_rates(keras: Any) -> Any:
    found = {}
    schedules = keras.optimizers.schedules
    every = {
        "exponential": schedules.ExponentialDecay(0.1, 4, 0.5, staircase=True),
        "piecewise": schedules.PiecewiseConstantDecay([3, 6], [0.1, 0.05, 0.01]),
        "polynomial": schedules.PolynomialDecay(0.1, 5, 0.01, power=2.0, cycle=True),
        "inverse": schedules.InverseTimeDecay(0.1, 3, 0.5),
        "cosine": schedules.CosineDecay(0.0, 6, alpha=0.1, warmup_target=0.1, warmup_steps=3),
        "restarts": schedules.CosineDecayRestarts(0.1, 3),
    }
    for name, schedule in every.items():
        x, y = numbers(24, 4, 2)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        start(model)
        model.compile(optimizer=keras.optimizers.SGD(schedule), loss="mse")
        found[name] = fitted(model, x, y.astype("float32"))["history"]
        found[f"{name}_rates"] = [float(schedule(k)) for k in range(10)]
    return found


@script
def callbacks(keras: Any) -> Any:
    x, y = numbers(32, 4, 2)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")]
    )
    start(model)
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    seen: list[Any] = []
    listening = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append([epoch, float(logs["loss"])]),
        on_train_batch_end=lambda batch, logs: seen.append([batch, float(logs["loss"])]),
    )
    every = [
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_lr=1e-4),
        keras.callbacks.TerminateOnNaN(),
        listening,
    ]
    found = fitted(model, x, y, epochs=12, callbacks=every, validation_split=0.5)
    found["seen"] = seen[:20]
    return found


@script
def rate_by_epoch(keras: Any) -> Any:
    x, y = numbers(16, 4, 2)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    start(model)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch else rate)
    return fitted(model, x, y.astype("float32"), callbacks=[schedule], initial_epoch=1, epochs=4)


@script
def generator_of_batches(keras: Any) -> Any:
    x, y = numbers(40, 4, 2)

    def batches() -> Any:
        k = 0
        while True:
            part = slice(8 * (k % 5), 8 * (k % 5) + 8)
            yield x[part], y[part].astype("float32").reshape(-1, 1)
            k += 1

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    start(model)
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    history = model.fit(batches(), steps_per_epoch=3, epochs=4, verbose=0).history
    return {"history": history, "predictions": model.predict(x[:4], verbose=0)}


@script
def dataset_of_batches(keras: Any) -> Any:
    x, y = numbers(30, 4, 2)

    class Batches(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            part = slice(8 * index, 8 * index + 8)
            return x[part], y[part]

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])
    start(model)
    model.compile(optimizer="lion", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(Batches(), epochs=2, shuffle=False, verbose=0).history
    return {"history": history, "evaluated": model.evaluate(Batches(), verbose=0)}


@script
def batch_by_batch(keras: Any) -> Any:
    x, y = numbers(24, 4, 2)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, activation="gelu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    start(model)
    model.compile(optimizer=keras.optimizers.Adam(amsgrad=True), loss="binary_crossentropy", metrics=["accuracy"])
    found = [model.train_on_batch(x[k : k + 8], y[k : k + 8], return_dict=True) for k in (0, 8, 16)]
    model.reset_metrics()
    return [*found, model.test_on_batch(x, y, return_dict=True), model.predict_on_batch(x[:3])]


@script
def frozen_layers(keras: Any) -> Any:
    x, y = numbers(20, 4, 2)
    base = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, activation="relu"), keras.layers.BatchNormalization()], name="base"
    )
    base.trainable = False
    model = keras.Sequential([keras.Input((4,)), base, keras.layers.Dense(1, activation="sigmoid")])
    start(model)
    model.compile(optimizer=keras.optimizers.Adam(0.01, weight_decay=0.1), loss="binary_crossentropy")
    found = fitted(model, x, y)
    found["trained"] = len(model.trainable_weights)
    found["weights"] = model.get_weights()
    return found


@script
def step_of_ones_own(keras: Any) -> Any:
    class Scaled(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            return keras.ops.mean((y_pred - keras.ops.reshape(y, (-1, 1))) ** 2) * 2.0

    x, y = numbers(20, 4, 2)
    model = Scaled()
    model(x[:1])
    start(model)
    model.compile(optimizer="sgd", metrics=["mae"])
    return fitted(model, x, y.astype("float32"))


@script
def losses_and_metrics(keras: Any) -> Any:
    random = np.random.RandomState(5)
    truth, guess = random.rand(6, 4).astype("float32"), random.rand(6, 4).astype("float32")
    labels = (truth > 0.5).astype("float32")
    weights = random.rand(6).astype("float32")
    found = {}
    kinds = (
        "MeanSquaredError MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredLogarithmicError Huber LogCosh "
        "Hinge SquaredHinge CategoricalHinge KLDivergence Poisson CosineSimilarity CategoricalCrossentropy "
        "BinaryCrossentropy BinaryFocalCrossentropy CategoricalFocalCrossentropy Dice"
    )
    for name in kinds.split():
        loss = getattr(keras.losses, name)
        for reduction in ("sum_over_batch_size", "sum", "none"):
            value = loss(reduction=reduction)(labels, guess, sample_weight=None if name == "Dice" else weights)
            found[f"{name} {reduction}"] = keras.ops.convert_to_numpy(value)
    for name in "TruePositives FalsePositives TrueNegatives FalseNegatives Precision Recall AUC".split():
        metric = getattr(keras.metrics, name)()
        metric.update_state(keras.ops.convert_to_tensor(labels), keras.ops.convert_to_tensor(guess))
        metric.update_state(keras.ops.convert_to_tensor(labels[:2]), keras.ops.convert_to_tensor(truth[:2]))
        found[name] = float(metric.result())
    pr = keras.metrics.AUC(num_thresholds=20, curve="PR")
    pr.update_state(keras.ops.convert_to_tensor(labels), keras.ops.convert_to_tensor(guess))
    found["AUC PR"] = float(pr.result())
    f1 = keras.metrics.F1Score(average="macro", threshold=0.5)
    f1.update_state(keras.ops.convert_to_tensor(labels), keras.ops.convert_to_tensor(guess))
    found["F1"] = float(f1.result())
    iou = keras.metrics.MeanIoU(num_classes=2)
    iou.update_state(keras.ops.convert_to_tensor(labels), keras.ops.convert_to_tensor((guess > 0.5).astype("float32")))
    found["IoU"] = float(iou.result())
    return found


@script
def activations(keras: Any) -> Any:
    x = np.linspace(-4, 4, 16).astype("float32").reshape(2, 8)
    names = (
        "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid "
        "log_softmax mish relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign squareplus tanh "
        "tanh_shrink"
    )
    return {
        name: keras.ops.convert_to_numpy(keras.activations.get(name)(keras.ops.convert_to_tensor(x)))
        for name in names.split()
    }


@script
def words_to_numbers(keras: Any) -> Any:
    texts = ["The cat sat.", "The dog sat on the cat!", "a bird"]
    found = {
        "padded": keras.utils.pad_sequences([[1, 2, 3], [4]], maxlen=2),
        "post": keras.utils.pad_sequences([[1], [2, 3, 4]], padding="post"),
    }
    layer = keras.layers.Normalization()
    layer.adapt(np.arange(12, dtype="float32").reshape(4, 3))
    found["normalized"] = keras.ops.convert_to_numpy(layer(np.ones((2, 3), "float32")))
    found["rescaled"] = keras.ops.convert_to_numpy(
        keras.layers.Rescaling(1 / 127.5, offset=-1)(np.arange(4, dtype="uint8"))
    )
    found["encoded"] = keras.ops.convert_to_numpy(
        keras.layers.CategoryEncoding(4, output_mode="count")(np.array([[1, 1], [0, 3]]))
    )
    found["texts"] = len(texts)
    return found


def _padded(seed: int = 4, count: int = 24, steps: int = 7) -> tuple[Any, Any]:
    """Ids 1 to 9 of texts of several lengths, then zeros (count, steps); and class numbers."""
    random = np.random.RandomState(seed)
    ids = random.randint(1, 10, (count, steps))
    ids[np.arange(steps) >= random.randint(2, steps + 1, (count, 1))] = 0
    return ids.astype("int64"), (ids.sum(1) % 3).astype("int64")


@script
def masked_words(keras: Any) -> Any:
    ids, y = _padded()
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((7,), dtype="int64"),
            layers.Embedding(10, 6, mask_zero=True),
            layers.Dropout(0.0),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
            layers.LayerNormalization(),
            layers.GRU(5),
            layers.Dense(3, activation="softmax"),
        ]
    )
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, ids, y)


@script
def a_label_for_each_masked_step(keras: Any) -> Any:
    x, _ = numbers(16, (6, 3), 2)
    x[3, 2:] = x[5, 4:] = x[6, 0] = x[7, 1:3] = 0.0
    y = (x.sum(-1) > 0).astype("int64")
    weights = np.linspace(0.5, 1.5, 96).astype("float32").reshape(16, 6)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((6, 3)),
            layers.Masking(),
            layers.SimpleRNN(5, return_sequences=True),
            layers.BatchNormalization(),
            layers.TimeDistributed(layers.Dense(4, activation="tanh")),
            layers.Dense(2, activation="softmax"),
        ]
    )
    start(model)
    # Weighted metrics are left out: on torch, Keras multiplies their weights by the loss' in place.
    model.compile(optimizer="sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return {"plain": fitted(model, x, y), "weighted": fitted(model, x, y, sample_weight=weights)}


@script
def masked_attention(keras: Any) -> Any:
    ids, y = _padded(5)
    others, _ = _padded(6)
    layers = keras.layers
    first, second = keras.Input((7,), dtype="int64"), keras.Input((7,), dtype="int64")
    table = layers.Embedding(10, 6, mask_zero=True)
    a, b = table(first), table(second)
    x = layers.Add()([a, layers.MultiHeadAttention(2, 3)(a, a)])
    x = layers.MultiHeadAttention(2, 4)(x, b, use_causal_mask=True)
    z = layers.Attention()([a, b])
    joined = layers.Concatenate()([x, z])
    pooled = layers.GlobalAveragePooling1D()(joined)
    model = keras.Model([first, second], layers.Dense(3, activation="softmax")(pooled))
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return fitted(model, [ids, others], y)


@script
def masks_of_layers(keras: Any) -> Any:
    layers = keras.layers
    ids = np.array([[1, 2, 0, 0], [3, 0, 4, 0]])
    x = np.array([[[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]], "float32")
    embedding, masking = layers.Embedding(5, 2, mask_zero=True), layers.Masking()

    def shown(mask: Any) -> Any:
        return keras.ops.convert_to_numpy(mask).astype("float32")

    given = keras.ops.convert_to_tensor(np.array([[True, False], [True, True]]))
    other = keras.ops.convert_to_tensor(np.array([[False, False], [True, False]]))
    pair = [keras.ops.convert_to_tensor(np.ones((2, 2, k), "float32")) for k in (2, 3)]
    scores = layers.Softmax()(keras.ops.convert_to_tensor(np.ones((2, 2), "float32")), mask=given)
    loss = keras.losses.MeanSquaredError(reduction="sum")
    values = masking(keras.ops.convert_to_tensor(x))
    return {
        "embedding": shown(embedding.compute_mask(keras.ops.convert_to_tensor(ids))),
        "masking": shown(masking.compute_mask(keras.ops.convert_to_tensor(x))),
        "values": keras.ops.convert_to_numpy(values),
        "concatenate": shown(layers.Concatenate().compute_mask(pair, [given, other])),
        "add": shown(layers.Add().compute_mask(pair, [given, other])),
        "softmax": keras.ops.convert_to_numpy(scores),
        "loss": float(loss(keras.ops.convert_to_tensor(np.zeros_like(x)), values)),
    }


@script
def tickets_with_dicts(keras: Any) -> Any:
    random = np.random.RandomState(3)
    title = random.randint(1, 30, (32, 5))
    body = random.randint(1, 30, (32, 8))
    tags = random.randint(0, 2, (32, 4)).astype("float32")
    priority = random.rand(32, 1).astype("float32")
    department = random.randint(0, 2, (32, 4)).astype("float32")
    title_input = keras.Input(shape=(None,), name="title")
    body_input = keras.Input(shape=(None,), name="body")
    tags_input = keras.Input(shape=(4,), name="tags")
    title_features = keras.layers.Embedding(30, 6)(title_input)
    body_features = keras.layers.Embedding(30, 6)(body_input)
    title_features = keras.layers.LSTM(5)(title_features)
    body_features = keras.layers.LSTM(4)(body_features)
    x = keras.layers.concatenate([title_features, body_features, tags_input])
    priority_pred = keras.layers.Dense(1, name="priority")(x)
    department_pred = keras.layers.Dense(4, name="department")(x)
    model = keras.Model(
        inputs=[title_input, body_input, tags_input], outputs={"priority": priority_pred, "department": department_pred}
    )
    start(model)
    model.compile(
        optimizer=keras.optimizers.RMSprop(1e-2),
        loss={
            "priority": keras.losses.BinaryCrossentropy(from_logits=True),
            "department": keras.losses.CategoricalCrossentropy(from_logits=True),
        },
        loss_weights={"priority": 1.0, "department": 0.2},
        metrics={"priority": ["mae"], "department": ["accuracy"]},
    )
    history = model.fit(
        {"title": title, "body": body, "tags": tags},
        {"priority": priority, "department": department},
        epochs=2,
        batch_size=8,
        shuffle=False,
        verbose=0,
    )
    out = model.predict({"title": title, "body": body, "tags": tags}, verbose=0)
    return {
        "history": history.history,
        "p": out["priority"],
        "d": out["department"],
        "eval": model.evaluate(
            {"title": title, "body": body, "tags": tags},
            {"priority": priority, "department": department},
            verbose=0,
            return_dict=True,
        ),
    }


@script
def nested_subclass_with_add_loss(keras: Any) -> Any:
    class Rows(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, rate: Any = 1e-2, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.rate = rate

        def call(self, inputs: Any) -> Any:
            self.add_loss(self.rate * keras.ops.mean(keras.ops.square(inputs)))
            return inputs

    class Linear(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, units: Any = 32, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.units = units

        def build(self, input_shape: Any) -> None:
            self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer="random_normal", trainable=True)
            self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True)
            self.seen = self.add_weight(shape=(1,), initializer="zeros", trainable=False, name="seen")

        def call(self, inputs: Any, training: Any = None) -> Any:
            if training:
                self.seen.assign_add(1.0)
            return keras.ops.matmul(inputs, self.w) + self.b

        def get_config(self) -> Any:
            return {**super().get_config(), "units": self.units}

    class MLP(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [Linear(8), Linear(6)]
            self.rows = Rows()
            self.norm = keras.layers.LayerNormalization()
            self.head = keras.layers.Dense(
                1, activity_regularizer="l2", kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-2)
            )

        def call(self, x: Any, training: Any = False) -> Any:
            for block in self.blocks:
                x = keras.activations.gelu(block(x, training=training))
            return self.head(self.norm(self.rows(x)))

    x, y = numbers(30, 5, 2)
    model = MLP()
    model(x[:1])
    start(model)
    model.compile(optimizer=keras.optimizers.Adam(1e-2, clipnorm=0.5), loss="mse", metrics=["mae"])
    got = fitted(model, x, y.astype("float32")[:, None])
    got["seen"] = [np.asarray(w) for w in model.get_weights() if w.shape == (1,)][:2]
    got["count"] = [len(model.trainable_weights), len(model.non_trainable_weights), model.count_params()]
    return got


@script
def transformer_block(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    class TransformerBlock(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, embed_dim: Any, num_heads: Any, ff_dim: Any, rate: Any = 0.0) -> None:
            super().__init__()
            self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
            self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
            self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
            self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
            self.dropout1 = layers.Dropout(rate)
            self.dropout2 = layers.Dropout(rate)

        def call(self, inputs: Any) -> Any:
            attn_output = self.att(inputs, inputs)
            attn_output = self.dropout1(attn_output)
            out1 = self.layernorm1(inputs + attn_output)
            ffn_output = self.dropout2(self.ffn(out1))
            return self.layernorm2(out1 + ffn_output)

    class TokenAndPositionEmbedding(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, maxlen: Any, vocab_size: Any, embed_dim: Any) -> None:
            super().__init__()
            self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
            self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

        def call(self, x: Any) -> Any:
            maxlen = ops.shape(x)[-1]
            positions = ops.arange(start=0, stop=maxlen, step=1)
            return self.token_emb(x) + self.pos_emb(positions)

    random = np.random.RandomState(1)
    x = random.randint(0, 20, (24, 7))
    y = (x.sum(1) % 2).astype("int64")
    inputs = layers.Input(shape=(7,))
    h = TokenAndPositionEmbedding(7, 20, 8)(inputs)
    h = TransformerBlock(8, 2, 12)(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dropout(0.0)(h)
    h = layers.Dense(10, activation="relu")(h)
    outputs = layers.Dense(2, activation="softmax")(h)
    model = keras.Model(inputs=inputs, outputs=outputs)
    start(model)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return {**fitted(model, x, y), "weights": [list(w.shape) for w in model.get_weights()]}


@script
def custom_losses_and_metrics(keras: Any) -> Any:
    ops = keras.ops

    class Huberish(keras.losses.Loss):  # type: ignore[misc, name-defined]
        def __init__(self, threshold: Any = 1.0, **kw: Any) -> None:
            super().__init__(**kw)
            self.threshold = threshold

        def call(self, y_true: Any, y_pred: Any) -> Any:
            error = ops.abs(y_true - y_pred)
            return ops.mean(
                ops.where(error < self.threshold, 0.5 * error**2, self.threshold * error - 0.5 * self.threshold**2),
                axis=-1,
            )

    class Within(keras.metrics.Metric):  # type: ignore[misc, name-defined]
        def __init__(self, limit: Any = 0.5, name: Any = "within", **kw: Any) -> None:
            super().__init__(name=name, **kw)
            self.limit = limit
            self.hits = self.add_weight(name="hits", initializer="zeros")
            self.count = self.add_variable(shape=(), initializer="zeros", name="count")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            ok = ops.cast(ops.abs(y_true - y_pred) < self.limit, "float32")
            if sample_weight is not None:
                ok = ok * ops.reshape(ops.cast(sample_weight, "float32"), (-1, 1))
            self.hits.assign(self.hits + ops.sum(ok))
            self.count.assign_add(ops.cast(ops.size(y_true), "float32"))

        def result(self) -> Any:
            return self.hits / self.count

    def rms(y_true: Any, y_pred: Any) -> Any:
        return ops.sqrt(ops.mean(ops.square(y_true - y_pred)))

    x, _ = numbers(40, 4, 2)
    y = np.stack([x.sum(1), x[:, 0] * 2], 1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "softplus"), keras.layers.Dense(2)])
    start(model)
    model.compile(
        keras.optimizers.Adamax(0.02),
        Huberish(0.7),
        metrics=[Within(), rms, "cosine_similarity", keras.metrics.MeanSquaredLogarithmicError()],
    )
    return {
        **fitted(model, x, y),
        "e": model.evaluate(x, y, verbose=0, return_dict=True, sample_weight=np.linspace(0, 1, 40).astype("float32")),
    }


@script
def transfer_learning(keras: Any) -> Any:
    x, y = numbers(32, (6, 6, 3), 2)
    base = keras.Sequential(
        [
            keras.Input((6, 6, 3)),
            keras.layers.Conv2D(4, 3),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.GlobalAveragePooling2D(),
        ],
        name="base",
    )
    start(base, 5)
    base.trainable = False
    inputs = keras.Input((6, 6, 3))
    h = keras.layers.Rescaling(1 / 2.0, offset=-0.1)(inputs)
    h = base(h, training=False)
    outputs = keras.layers.Dense(1)(h)
    model = keras.Model(inputs, outputs)
    model.get_layer(index=-1).set_weights([np.full((4, 1), 0.3, "float32"), np.zeros(1, "float32")])
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=[keras.metrics.BinaryAccuracy()])
    first = fitted(model, x, y.astype("float32")[:, None], epochs=2)
    counts = [len(model.trainable_weights), len(model.non_trainable_weights)]
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy()],
    )
    second = fitted(model, x, y.astype("float32")[:, None], epochs=2)
    return {
        "first": first,
        "second": second,
        "counts": counts,
        "again": [len(model.trainable_weights), len(model.non_trainable_weights)],
        "names": len(model.layers),
    }


@script
def seq2seq(keras: Any) -> Any:
    random = np.random.RandomState(2)
    enc = random.randn(20, 6, 4).astype("float32")
    dec = random.randn(20, 5, 4).astype("float32")
    target = random.randint(0, 4, (20, 5))
    ei = keras.Input((None, 4))
    encoder = keras.layers.LSTM(6, return_state=True)
    _, h, c = encoder(ei)
    di = keras.Input((None, 4))
    do, _, _ = keras.layers.LSTM(6, return_sequences=True, return_state=True)(di, initial_state=[h, c])
    out = keras.layers.TimeDistributed(keras.layers.Dense(4, activation="softmax"))(do)
    model = keras.Model([ei, di], out)
    start(model)
    model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    hist = model.fit([enc, dec], target, batch_size=5, epochs=2, validation_split=0.2, shuffle=False, verbose=0).history
    encoder_model = keras.Model(ei, [h, c])
    return {"h": hist, "p": model.predict([enc, dec], verbose=0), "s": encoder_model.predict(enc, verbose=0)}


@script
def stacked_rnn_cells(keras: Any) -> Any:
    x, y = numbers(24, (6, 3), 2)
    model = keras.Sequential(
        [
            keras.Input((6, 3)),
            keras.layers.RNN([keras.layers.GRUCell(4), keras.layers.LSTMCell(5)], return_sequences=True),
            keras.layers.SimpleRNN(4, go_backwards=True),
            keras.layers.Dense(2),
        ]
    )
    start(model)
    model.compile(
        keras.optimizers.Adam(amsgrad=True),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["acc"],
    )
    return fitted(model, x, y)


@script
def optimizers_and_schedules(keras: Any) -> Any:
    o = keras.optimizers
    s = o.schedules
    x, y = numbers(32, 5, 3)
    found = {}
    for name, opt in {
        "polynomial": o.SGD(s.PolynomialDecay(0.1, 6, 0.01, power=2.0, cycle=True)),
        "piecewise": o.Adam(s.PiecewiseConstantDecay([3, 6], [0.05, 0.01, 0.001])),
        "restarts": o.RMSprop(s.CosineDecayRestarts(0.02, 4, t_mul=1.5)),
        "warmup": o.AdamW(s.CosineDecay(0.0, 10, warmup_target=0.05, warmup_steps=3), weight_decay=0.01),
        "inverse": o.Nadam(s.InverseTimeDecay(0.05, 4, 0.5, staircase=True)),
        "lion": o.Lion(1e-2),
        "adafactor": o.Adafactor(1e-2),
        "ftrl": o.Ftrl(0.05, l1_regularization_strength=0.001),
        "ftrl_with_a_power": o.Ftrl(
            0.05, -0.25, l1_regularization_strength=0.001, l2_shrinkage_regularization_strength=0.1, beta=0.3
        ),
        "ftrl_with_a_fixed_rate": o.Ftrl(0.05, 0.0, l2_regularization_strength=0.1),
        "adadelta": o.Adadelta(0.5),
        "clipvalue": o.SGD(0.1, clipvalue=0.01),
        "global": o.SGD(0.1, global_clipnorm=0.1),
    }.items():
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(3, "softmax")])
        start(model)
        model.compile(opt, "sparse_categorical_crossentropy")
        found[name] = fitted(model, x, y, epochs=2)
    return found


@script
def many_metrics(keras: Any) -> Any:
    m = keras.metrics
    random = np.random.RandomState(5)
    y = random.randint(0, 2, (40, 1))
    p = random.rand(40, 1).astype("float32")
    w = random.rand(40).astype("float32")
    found = {}
    for metric in [
        m.Precision(thresholds=[0.2, 0.7]),
        m.Recall(thresholds=0.3),
        m.AUC(curve="PR"),
        m.AUC(num_thresholds=20, summation_method="minoring"),
        m.SensitivityAtSpecificity(0.5),
        m.SpecificityAtSensitivity(0.4),
        m.PrecisionAtRecall(0.6),
        m.RecallAtPrecision(0.5),
        m.TruePositives(),
        m.FalseNegatives(thresholds=0.6),
        m.BinaryCrossentropy(),
        m.Hinge(),
        m.KLDivergence(),
        m.Poisson(),
        m.LogCoshError(),
    ]:
        metric.update_state(y, p)
        a = np.array(keras.ops.convert_to_numpy(metric.result()))
        metric.update_state(y, 1 - p, sample_weight=w)
        found[metric.name] = [a, metric.result()]
    c = random.randint(0, 3, 30)
    q = random.rand(30, 3).astype("float32")
    hot = np.eye(3, dtype="float32")[c]
    for metric in [
        m.F1Score(average="macro"),
        m.F1Score(average=None, name="each"),
        m.FBetaScore(beta=2.0, average="weighted"),
        m.CategoricalCrossentropy(),
        m.CategoricalHinge(),
        m.CosineSimilarity(),
        m.R2Score(),
    ]:
        metric.update_state(hot, q)
        found[metric.name + "_"] = metric.result()
    iou = m.MeanIoU(3)
    iou.update_state(c, q.argmax(1))
    found["iou"] = iou.result()
    s = m.SparseTopKCategoricalAccuracy(2)
    s.update_state(c, q)
    found["top"] = s.result()
    mean = m.Mean()
    mean.update_state([1, 2, 3, 4], sample_weight=[1, 0, 1, 0])
    found["mean"] = mean.result()
    return found


@script
def siamese(keras: Any) -> Any:
    ops = keras.ops
    x, y = numbers(32, 6, 2)
    x2, y2 = numbers(32, 6, 2, 7)
    tower = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(3, use_bias=False)]
    )
    a, b = keras.Input((6,)), keras.Input((6,))
    d = keras.layers.Lambda(
        lambda v: ops.sqrt(ops.maximum(ops.sum(ops.square(v[0] - v[1]), axis=1, keepdims=True), 1e-7))
    )([tower(a), tower(b)])
    dot = keras.layers.Dot(axes=1, normalize=True)([tower(a), tower(b)])
    out = keras.layers.Dense(1, activation="sigmoid")(
        keras.layers.BatchNormalization()(keras.layers.Concatenate()([d, dot]))
    )
    model = keras.Model([a, b], out)
    start(model)

    def contrastive(y_true: Any, y_pred: Any) -> Any:
        return ops.mean((1 - y_true) * ops.square(y_pred) + y_true * ops.square(ops.maximum(1 - y_pred, 0)))

    model.compile("RMSprop", loss=contrastive, metrics=["accuracy"])
    same = (y == y2).astype("float32")[:, None]
    h = model.fit([x, x2], same, batch_size=8, epochs=3, shuffle=False, verbose=0)
    return {"h": h.history, "p": model.predict([x, x2], verbose=0)}


@script
def saving(keras: Any) -> Any:
    @keras.saving.register_keras_serializable(package="mine")
    class Scale(keras.layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, factor: Any, **kw: Any) -> None:
            super().__init__(**kw)
            self.factor = factor

        def build(self, shape: Any) -> None:
            self.s = self.add_weight(shape=(shape[-1],), initializer=keras.initializers.Constant(self.factor), name="s")

        def call(self, x: Any) -> Any:
            return x * self.s

        def get_config(self) -> Any:
            return {**super().get_config(), "factor": self.factor}

    x, y = numbers(24, 4, 3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            Scale(0.5),
            keras.layers.Dense(6, "selu", kernel_initializer="lecun_normal"),
            keras.layers.Dense(3, "softmax"),
        ]
    )
    start(model)
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
    first = fitted(model, x, y)
    with tempfile.TemporaryDirectory() as folder:
        path, weights = str(Path(folder) / "m.keras"), str(Path(folder) / "m.weights.h5")
        model.save(path)
        again = keras.models.load_model(path)
        model.save_weights(weights)
        clone = keras.models.clone_model(model)
        clone.load_weights(weights)
        js = keras.models.model_from_json(model.to_json())
        js.set_weights(model.get_weights())
    second = fitted(again, x, y)
    return {
        "first": first,
        "second": second,
        "clone": clone.predict(x, verbose=0),
        "js": js.predict(x, verbose=0),
        "same": keras.Sequential.from_config(model.get_config()).count_params(),
    }


@script
def image_pipeline(keras: Any) -> Any:
    L = keras.layers
    x, y = numbers(16, (12, 12, 3), 2)
    inputs = keras.Input((12, 12, 3))
    h = L.Rescaling(1.0 / 3)(inputs)
    h = L.Conv2D(6, 3, strides=2, padding="same")(h)
    h = L.BatchNormalization(momentum=0.9)(h)
    h = L.Activation("relu")(h)
    prev = h
    for size in [8, 10]:
        h = L.Activation("relu")(h)
        h = L.SeparableConv2D(size, 3, padding="same")(h)
        h = L.GroupNormalization(groups=2)(h)
        h = L.MaxPooling2D(3, strides=2, padding="same")(h)
        residual = L.Conv2D(size, 1, strides=2, padding="same")(prev)
        h = L.add([h, residual])
        prev = h
    h = L.SpatialDropout2D(0.0)(h)
    h = L.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(h)
    h = L.ZeroPadding2D(((1, 0), (0, 1)))(h)
    h = L.Cropping2D(1)(h)
    h = L.AveragePooling2D(2)(h)
    h = L.GlobalMaxPooling2D()(h)
    h = L.UnitNormalization()(h)
    model = keras.Model(inputs, L.Dense(1, activation="sigmoid")(h))
    start(model)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="binary_crossentropy",
        metrics=[keras.metrics.BinaryAccuracy(name="acc")],
    )
    return fitted(model, x, y.astype("float32")[:, None])


def torch_beside(keras: Any) -> Any:
    """The package whose tensors the layers take: a script with a step of its own imports it, too."""
    return importlib.import_module("torch" if keras.__name__ == "keras" else "pyapp")


@script
def guide_custom_train_step(keras: Any) -> Any:
    torch = torch_beside(keras)

    class CustomModel(keras.Model):
        def train_step(self, data: Any) -> Any:
            x, y = data
            self.zero_grad()
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
            loss.backward()
            trainable_weights = list(self.trainable_weights)
            gradients = [v.value.grad for v in trainable_weights]
            with torch.no_grad():
                self.optimizer.apply(gradients, trainable_weights)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {m.name: m.result() for m in self.metrics}

    x, y = numbers(40, 6, 2)
    inputs = keras.Input(shape=(6,))
    outputs = keras.layers.Dense(1)(keras.layers.Dense(5, activation="relu")(inputs))
    model = CustomModel(inputs, outputs)
    start(model)
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return fitted(model, x, y[:, None].astype("float32"))


@script
def guide_own_trackers(keras: Any) -> Any:
    torch = torch_beside(keras)

    class VAEish(keras.Model):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.encoder = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(4)])
            self.decoder = keras.Sequential(
                [keras.layers.Dense(5, activation="relu"), keras.layers.Dense(6, activation="sigmoid")]
            )
            self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
            self.kl_loss_tracker = keras.metrics.Mean(name="kl_loss")

        def call(self, x: Any) -> Any:
            mean, log_var = keras.ops.split(self.encoder(x), 2, axis=-1)
            return self.decoder(mean)

        @property
        def metrics(self) -> Any:
            return [self.total_loss_tracker, self.kl_loss_tracker]

        def losses_of(self, data: Any) -> Any:
            z = self.encoder(data)
            mean, log_var = keras.ops.split(z, 2, axis=-1)
            rec = self.decoder(mean)
            rl = keras.ops.mean(
                keras.ops.sum(
                    keras.losses.binary_crossentropy(keras.ops.expand_dims(data, -1), keras.ops.expand_dims(rec, -1)),
                    axis=1,
                )
            )
            kl = -0.5 * (1 + log_var - keras.ops.square(mean) - keras.ops.exp(log_var))
            kl = keras.ops.mean(keras.ops.sum(kl, axis=1))
            return rl + kl, kl

        def train_step(self, data: Any) -> Any:
            data = data[0] if isinstance(data, tuple) else data
            self.zero_grad()
            total, kl = self.losses_of(data)
            total.backward()
            w = self.trainable_weights
            with torch.no_grad():
                self.optimizer.apply([v.value.grad for v in w], w)
            self.total_loss_tracker.update_state(total)
            self.kl_loss_tracker.update_state(kl)
            return {m.name: m.result() for m in self.metrics}

        def test_step(self, data: Any) -> Any:
            data = data[0] if isinstance(data, tuple) else data
            total, kl = self.losses_of(data)
            self.total_loss_tracker.update_state(total)
            self.kl_loss_tracker.update_state(kl)
            return {"total_loss": self.total_loss_tracker.result(), "kl_loss": self.kl_loss_tracker.result()}

    x = np.random.RandomState(0).rand(32, 6).astype("float32")
    m = VAEish()
    m(x[:2])
    start(m)
    m.compile(optimizer=keras.optimizers.Adam(0.01))
    h = m.fit(x, epochs=3, batch_size=8, shuffle=False, verbose=0)
    return {"h": h.history, "e": m.evaluate(x, verbose=0, return_dict=True), "p": m.predict(x, verbose=0)}


@script
def functions_by_name(keras: Any) -> Any:
    o, x = keras.ops, np.random.RandomState(0).randn(3, 2, 2).astype("float32")
    t = o.convert_to_tensor(x)
    return {
        "a": o.sum(t, axis=(0, 2)),
        "b": o.argmax(t, axis=-1),
        "c": o.softmax(t, axis=1),
        "d": o.where(t > 0, t, 0.0),
        "e": o.clip(t, -0.5, 0.5),
        "f": o.einsum("abc,adc->abd", t, t),
        "g": o.top_k(t, 2)[0],
        "h": o.pad(t, ((0, 0), (1, 1), (0, 0))),
        "i": o.cumsum(t, axis=1),
        "j": o.tile(t[:1], (2, 1, 1)),
        "k": o.std(t, axis=0),
        "l": o.var(t),
        "m": o.norm(t, axis=-1),
        "n": o.logsumexp(t, axis=-1),
        "o": o.squeeze(t[:1], 0),
        "p": o.swapaxes(t, 0, 1),
        "q": o.matmul(t, o.transpose(t, (0, 2, 1))),
        "r": o.one_hot(np.array([1, 2]), 4),
        "s": o.take_along_axis(t, o.argsort(t, axis=-1), axis=-1),
        "t": o.sort(t, axis=1),
        "u": o.maximum(t, 0.1),
        "v": o.mean(t, axis=1, keepdims=True),
        "w": o.zeros((2, 3)),
        "x": o.ones_like(t),
        "y": o.linspace(0.0, 1.0, 5),
        "z": o.stack([t, t], axis=1),
        "aa": o.roll(t, 1, axis=0),
        "bb": o.flip(t, axis=1),
        "cc": o.sigmoid(t),
        "dd": o.relu(t),
        "ee": o.log1p(o.abs(t)),
        "ff": o.normalize(t, axis=-1),
        "gg": o.segment_sum(t[:, 0, 0], np.array([0, 0, 1]), 2),
        "hh": o.split(t, 2, axis=1)[1],
        "ii": o.unstack(t, axis=0)[1],
        "jj": o.isnan(t),
        "kk": o.eye(3),
        "ll": o.tril(t[0]),
        "mm": o.outer(t[0, 0], t[0, 1]),
        "nn": o.dot(t[0], o.transpose(t[0])),
        "oo": o.count_nonzero(t > 0),
        "qq": o.scatter(np.array([[0], [2]]), np.array([1.0, 2.0], "float32"), (4,)),
        "rr": o.meshgrid(np.arange(2), np.arange(3))[0],
        "ss": o.floor_divide(t, 0.3),
        "tt": o.moveaxis(t, 0, -1),
        "uu": o.all(t > -9),
        "vv": o.any(t > 9, axis=0),
        "ww": o.expand_dims(t, 1),
        "xx": o.prod(t, axis=0),
        "yy": o.bincount(np.array([1, 1, 3])),
        "zz": o.silu(t),
    }


@script
def changed_pictures(keras: Any) -> Any:
    """Layers that change pictures, by factors that leave nothing to chance."""
    layers, x = keras.layers, (np.random.RandomState(0).rand(2, 5, 6, 2) * 255).astype("float32")
    found = {}
    for fill in ("reflect", "nearest", "constant"):
        found[f"turned {fill}"] = layers.RandomRotation((0.1, 0.1), fill, fill_value=7.0)(x, training=True)
        found[f"moved {fill}"] = layers.RandomTranslation((0.2, 0.2), (-0.3, -0.3), fill)(x, training=True)
        found[f"zoomed {fill}"] = layers.RandomZoom((0.3, 0.3), (-0.2, -0.2), fill)(x, training=True)
    found["bright"] = layers.RandomBrightness((0.2, 0.2))(x, training=True)
    found["evaluation"] = layers.RandomRotation(0.2)(x, training=False)
    found["resized"] = layers.Resizing(3, 8)(x)
    found["nearest"] = layers.Resizing(9, 4, interpolation="nearest")(x)
    found["cropped"] = layers.Resizing(4, 4, crop_to_aspect_ratio=True)(x)
    found["padded"] = layers.Resizing(4, 4, pad_to_aspect_ratio=True)(x)
    found["middle"] = layers.CenterCrop(3, 4)(x)
    found["enlarged middle"] = layers.CenterCrop(7, 7)(x)
    found["one"] = layers.RandomTranslation((0.2, 0.2), (0.1, 0.1))(x[0], training=True)
    return found


@script
def einsum_layers(keras: Any) -> Any:
    layers, einsum = keras.layers, keras.layers.EinsumDense
    inputs = keras.Input((5, 6))
    x = einsum("abc,cd->abd", output_shape=(5, 7), bias_axes="d", activation="relu")(inputs)
    x = einsum("abc,cde->abde", output_shape=(5, 2, 3), bias_axes="de")(x)
    model = keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))
    start(model)
    model.compile("adam", "mse")
    x, y = numbers(16, (5, 6), 3)
    return fitted(model, x, keras.utils.to_categorical(y, 3))


@script
def volumes(keras: Any) -> Any:
    layers = keras.layers
    inputs = keras.Input((4, 4, 4, 2))
    x = layers.ZeroPadding3D(1)(layers.Conv3D(3, 2, activation="relu")(inputs))
    x = layers.UpSampling3D(2)(layers.Cropping3D(((0, 1), (1, 0), (1, 1)))(x))
    x = layers.Conv3DTranspose(2, 3, strides=2, padding="same")(x)
    outputs = layers.Dense(1)(layers.GlobalMaxPooling3D()(layers.AveragePooling3D(2)(x)))
    model = keras.Model(inputs, outputs)
    start(model)
    model.compile("sgd", "mse")
    x, y = numbers(8, (4, 4, 4, 2), 2)
    return fitted(model, x, y.astype("float32"), batch_size=4)


@script
def metric_of_the_model(keras: Any) -> Any:
    """A metric that is an attribute, a loss of one's own, and a model from its configuration."""

    class Pulled(keras.Model):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner
            self.pull = keras.metrics.Mean(name="pull")

        def call(self, x: Any) -> Any:
            return self.inner(x)

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            pull = keras.ops.mean(keras.ops.square(y_pred))
            self.pull.update_state(pull)
            return keras.ops.mean(keras.ops.square(y - y_pred)) + 0.1 * pull

    class Correct(keras.Metric):  # type: ignore[misc]
        def __init__(self, name: str = "correct") -> None:
            super().__init__(name=name)
            self.count = self.add_variable(shape=(), initializer="zeros", name="count")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            ops = keras.ops
            same = ops.equal(ops.cast(ops.reshape(y_true, (-1,)), "int64"), ops.cast(ops.argmax(y_pred, 1), "int64"))
            self.count.assign_add(ops.sum(ops.cast(same, "float32")))

        def result(self) -> Any:
            return self.count.value

    inputs = keras.Input((4,))
    inner = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Dense(5, activation="tanh")(inputs)))
    start(inner)
    copy = keras.Model.from_config(inner.get_config())
    copy.set_weights(inner.get_weights())
    features = keras.Model(copy.input, copy.layers[-1].output)
    model, (x, y) = Pulled(inner), numbers(20, 4, 2)
    model.compile("sgd")
    history = model.fit(x, np.eye(2, dtype="float32")[y], batch_size=6, epochs=2, shuffle=False, verbose=0).history
    copy.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=[Correct()])
    own = copy.fit(x, y, batch_size=6, epochs=2, shuffle=False, verbose=0).history
    return {"history": history, "own": own, "features": features.predict(x, verbose=0)}


@script
def averages_and_gathered_gradients(keras: Any) -> Any:
    x, y = numbers(32, 5, 2)
    found = {}
    for name, optimizer in {
        "gathered": keras.optimizers.SGD(0.1, momentum=0.5, gradient_accumulation_steps=2),
        "gathered and clipped": keras.optimizers.Adam(0.1, gradient_accumulation_steps=3, clipnorm=0.5),
        "averages": keras.optimizers.Adam(0.05, use_ema=True, ema_momentum=0.9),
        "averages in between": keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    }.items():
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
        start(model)
        model.compile(optimizer, "mse")
        found[name] = fitted(model, x, y.astype("float32"))
    return found


@script
def functions_of_arrays(keras: Any) -> Any:
    ops, random = keras.ops, np.random.RandomState(5)
    x = random.rand(2, 5, 4, 3).astype("float32")
    whole, row = (x * 255).astype("uint8"), np.arange(5, dtype="float32")
    found = {
        "resized": ops.image.resize(x, (4, 7)),
        "nearest": ops.image.resize(x[0], (4, 7), interpolation="nearest"),
        "smoothed": ops.image.resize(x, (3, 2), antialias=True),
        "bytes": ops.image.resize(whole[1:], (7, 5), interpolation="bicubic"),
        "cropped to proportions": ops.image.resize(x, (4, 4), crop_to_aspect_ratio=True),
        "padded to proportions": ops.image.resize(x, (4, 4), pad_to_aspect_ratio=True, fill_value=0.5),
        "gray": ops.image.rgb_to_grayscale(x),
        "gray bytes": ops.image.rgb_to_grayscale(whole),
        "padded": ops.image.pad_images(x[0], 1, 2, target_height=7, target_width=6),
        "cropped": ops.image.crop_images(x, bottom_cropping=1, left_cropping=2, target_height=3, target_width=2),
        "gelu": ops.gelu(x),
        "exact gelu": ops.nn.gelu(x, approximate=False),
        "layer_normalization": ops.layer_normalization(x, np.ones(3, "float32") * 2, row[:3]),
        "argmax": ops.argmax(x, axis=1, keepdims=True),
        "argmax of truth": ops.argmax(x > 0.5, axis=2),
        "argmin": ops.argmin(x),
        "argsort": ops.argsort(x, axis=2),
        "argsort of all": ops.argsort(x[0], axis=None),
        "var": ops.var(whole, axis=1),
        "std": ops.std(whole),
        "median": ops.median(whole, axis=(0, 1)),
        "nanmedian": ops.nanmedian(np.where(x > 0.8, np.float32("nan"), x), axis=1),
        "percentile": ops.percentile(whole, 30, axis=1),
        "average": ops.average(whole[0, :, 0, 0], weights=row),
        "outer": ops.outer(x[0, 0], row),
        "by name": ops.subtract(x1=x, x2=ops.sum(x=x, axis=(1, 2), keepdims=True)),
        "lists": ops.concatenate([x, ops.numpy.zeros_like(x=x)], axis=-1),
        "norm": ops.linalg.norm(x, axis=-1),
    }  # fmt: skip
    numbers = {name: keras.ops.convert_to_numpy(value) for name, value in found.items()}
    kinds = {name: str(value.dtype) == ops.dtype(found[name]) for name, value in numbers.items()}
    assert all(kinds.values()), kinds
    return {**numbers, "int32": [int(ops.dtype(found[name]) == "int32") for name in ("argmax", "argmin", "argsort")]}


@script
def layers_with_seldom_arguments(keras: Any) -> Any:
    """Channels that come first, output_padding, adaptive pools, several axes: outputs, names and shapes of weights."""
    layers, random = keras.layers, np.random.RandomState(5)
    row, picture, volume = (1, 3, 9), (1, 3, 5, 6), (1, 2, 4, 5, 4)
    cases = [
        (layers.Conv1D(2, 3, strides=2, padding="same", data_format="channels_first"), row),
        (layers.Conv2D(2, 3, data_format="channels_first"), picture),
        (layers.Conv3D(2, 2, padding="same", data_format="channels_first"), volume),
        (layers.DepthwiseConv2D(3, data_format="channels_first"), picture),
        (layers.SeparableConv1D(2, 3, data_format="channels_first"), row),
        (layers.Conv1DTranspose(2, 3, strides=2, output_padding=1), row),
        (layers.Conv2DTranspose(2, 3, strides=2, padding="same", output_padding=(1, 0)), picture),
        (layers.Conv2DTranspose(2, 2, strides=3, data_format="channels_first"), picture),
        (layers.MaxPooling2D(2, padding="same", data_format="channels_first"), picture),
        (layers.AveragePooling3D(2, data_format="channels_first"), volume),
        (layers.AdaptiveAveragePooling1D(4), row),
        (layers.AdaptiveMaxPooling2D((2, 3), data_format="channels_first"), picture),
        (layers.ZeroPadding2D(1, data_format="channels_first"), picture),
        (layers.ZeroPadding3D(1, data_format="channels_first"), volume),
        (layers.Cropping2D(1, data_format="channels_first"), picture),
        (layers.UpSampling2D((2, 1), data_format="channels_first"), picture),
        (layers.UpSampling3D(2, data_format="channels_first"), volume),
        (layers.Softmax(axis=(1, 2)), row),
        (layers.RMSNormalization(axis=[1, 2]), row),
        (layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 2.0], axis=1, invert=True), row),
        (layers.Discretization([-1.0, 0.0, 1.0]), row),
    ]  # fmt: skip
    found = []
    for layer, shape in cases:
        x = random.randn(*shape).astype("float32")
        layer(x)
        layer.set_weights([random.randn(*w.shape).astype("float32") for w in layer.get_weights()])
        y = keras.ops.convert_to_numpy(layer(x))
        found.append([list(y.shape), [len(w.name) for w in layer.weights], y.reshape(-1)[:: y.size // 20 + 1]])
    attention = layers.MultiHeadAttention(2, 3, attention_axes=(1, 2))
    x = random.randn(1, 2, 3, 4, 5).astype("float32")
    attention(x, x)
    attention.set_weights([random.randn(*w.shape).astype("float32") * 0.3 for w in attention.get_weights()])
    regularised = layers.ActivityRegularization(l1=0.1, l2=0.2)
    regularised(x)
    regularised(x)
    found.append([keras.ops.convert_to_numpy(attention(x, x)), [float(loss) for loss in regularised.losses]])
    return found


@script
def losses_by_name(keras: Any) -> Any:
    y = np.array([[0, 1, 1], [1, 0, 0]], "float32")
    p = np.array([[0.2, 0.7, 0.6], [0.9, 0.3, 0.1]], "float32")
    logits = np.random.RandomState(2).randn(2, 5, 4).astype("float32")
    losses, metrics = keras.losses, keras.metrics
    made = [
        losses.Tversky(alpha=0.3, beta=0.6, axis=1, reduction=None)(y, p), losses.Tversky()(y, p),
        losses.Dice(axis=(1,), reduction=None)(y, p), losses.dice(y, p), losses.tversky(y, p),
        losses.CategoricalGeneralizedCrossEntropy(q=0.3, reduction="sum")(np.array([1, 0]), p),
        losses.CTC()(np.array([[1, 2, 0], [3, 3, 1]]), logits),
        losses.deserialize(losses.serialize(losses.BinaryCrossentropy(label_smoothing=0.2)))(y, p),
        metrics.binary_crossentropy(y, p), metrics.mean_squared_error(y, p), metrics.kl_divergence(y, p),
        keras.activations.deserialize("sparse_plus")(keras.ops.convert_to_tensor(logits[0, 0])),
    ]  # fmt: skip
    return [keras.ops.convert_to_numpy(one) for one in made]


@script
def newer_optimizers(keras: Any) -> Any:
    x, y = numbers(24, 5, 3)
    o, found = keras.optimizers, {}
    scaled = o.Adam(0.02, loss_scale_factor=64.0, global_clipnorm=0.8)
    by_path = o.OptimizerMap(o.SGD(0.05, momentum=0.9), {".*/bias": o.RMSprop(0.01)})
    for name, optimizer in {
        "lamb": o.Lamb(0.02, weight_decay=0.01),
        "muon": o.Muon(0.02, exclude_layers=["last"], momentum=0.9),
        "muon with gradients": o.Muon(0.02, rms_rate=None, nesterov=False, ns_steps=3, weight_decay=None),
        "schedule free": o.ScheduleFreeAdamW(0.02, warmup_steps=4, weight_decay=0.01),
        "loss scale": o.LossScaleOptimizer(o.SGD(0.1), initial_scale=8.0, dynamic_growth_steps=2),
        "scaled": scaled,
        "several": o.MultiOptimizer(by_path),
    }.items():
        keras.utils.clear_session()
        layers = keras.layers
        model = keras.Sequential([
            keras.Input((5,)), layers.Dense(8, activation="tanh", name="first"), layers.Dense(4, name="middle"),
            layers.Dense(3, activation="softmax", name="last"),
        ])  # fmt: skip
        start(model)
        model.compile(optimizer, "sparse_categorical_crossentropy")
        found[name] = fitted(model, x, y, epochs=2)["history"]
    return found


@script
def overlaps_and_correlations(keras: Any) -> Any:
    random = np.random.RandomState(3)
    m, found = keras.metrics, {}
    truth, guess = random.randint(0, 4, (2, 40))
    weights = random.randint(1, 4, 40)
    for name, metric in {
        "IoU": m.IoU(4, [0, 2]), "mean": m.MeanIoU(4), "ignored": m.MeanIoU(4, ignore_class=1),
        "out of range": m.MeanIoU(3),
    }.items():  # fmt: skip
        metric.update_state(truth, guess, sample_weight=weights)
        found[name] = float(metric.result())
    logits = random.randn(40, 4).astype("float32")
    one_hot = np.eye(4, dtype="float32")[truth]
    for name, metric in {
        "one hot": m.OneHotIoU(4, [1, 3]), "one hot mean": m.OneHotMeanIoU(4),
        "sparse labels": m.MeanIoU(4, sparse_y_pred=False),
    }.items():  # fmt: skip
        metric.update_state(truth if name == "sparse labels" else one_hot, logits)
        found[name] = float(metric.result())
    binary = m.BinaryIoU([0, 1], threshold=0.3)
    chance = random.rand(3, 10).astype("float32")
    binary.update_state(random.randint(0, 2, (3, 10)), chance)
    found["binary"] = float(binary.result())
    a, b = random.randn(2, 5, 7).astype("float32")
    for kind in (m.PearsonCorrelation, m.ConcordanceCorrelation):
        metric = kind()
        metric.update_state(a, b + a)
        metric.update_state(b, a)
        found[kind.__name__] = [float(metric.result()), float(kind(axis=0)(a, b))]
    return found


@script
def settings_of_metrics(keras: Any) -> Any:
    random = np.random.RandomState(4)
    m, found = keras.metrics, {}
    one_hot = np.eye(4, dtype="float32")[random.randint(0, 4, 30)]
    p = random.rand(30, 4).astype("float32")
    several = (random.rand(30, 4) < 0.4).astype("float32")
    weights = (random.rand(30) + 0.5).astype("float32")
    for name, metric in {
        "top 2": m.Precision(top_k=2), "top of a class": m.Recall(top_k=2, class_id=1),
        "class": m.Precision(class_id=2, thresholds=0.4), "thresholds": m.Recall([0.2, 0.8], class_id=0),
        "limit": m.SensitivityAtSpecificity(specificity=0.6, class_id=1), "recall": m.PrecisionAtRecall(recall=0.6),
        "labels": m.AUC(multi_label=True), "weighed": m.AUC(multi_label=True, label_weights=[1.0, 2.0, 0.5, 1.0]),
        "curve": m.AUC(curve="PR", multi_label=True, num_labels=4, num_thresholds=20),
        "own thresholds": m.AUC(thresholds=[0.2, 0.5, 0.7]),
        "outputs": m.R2Score(class_aggregation=None), "by variance": m.R2Score("variance_weighted_average"),
        "corrected": m.R2Score(num_regressors=3), "huber": m.MeanMetricWrapper(keras.losses.huber, delta=0.2),
    }.items():  # fmt: skip
        metric.update_state(several if "label" in name or name in ("weighed", "curve") else one_hot, p)
        metric.update_state(several[:10], p[:10], sample_weight=weights[:10])
        value = metric.result()
        found[name] = np.asarray(value if isinstance(value, (float, list)) else keras.ops.convert_to_numpy(value))
    ids = m.SparseTopKCategoricalAccuracy(2, from_sorted_ids=True)
    ids.update_state(np.array([1, 2, 0]), np.array([[1, 0, 2], [0, 1, 2], [3, 0, 1]], "float32"))
    found["ids"] = float(ids.result())
    return found


@script
def circle_loss(keras: Any) -> Any:
    random = np.random.RandomState(5)
    vectors = random.randn(6, 4).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    classes = np.array([0, 0, 1, 1, 2, 0])
    number = keras.ops.convert_to_numpy
    return [
        number(keras.losses.Circle(gamma=8.0)(classes, vectors)),
        number(keras.losses.Circle(remove_diagonal=False, reduction="sum")(classes, vectors)),
        number(keras.losses.circle(classes, vectors, gamma=4.0)),
    ]


@script
def cells_of_ones_own(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    class Minimal(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, units: int, **settings: Any) -> None:
            super().__init__(**settings)
            self.units = self.state_size = units

        def build(self, input_shape: Any) -> None:
            self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="uniform", name="kernel")
            self.recurrent = self.add_weight(shape=(self.units, self.units), initializer="normal", name="recurrent")

        def call(self, inputs: Any, states: Any) -> Any:
            output = ops.matmul(inputs, self.kernel) + ops.matmul(states[0], self.recurrent)
            return output, [output]

    class Two(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self, units: int, **settings: Any) -> None:
            super().__init__(**settings)
            self.units, self.state_size, self.output_size = units, [units, units], units

        def build(self, input_shape: Any) -> None:
            self.kernel = self.add_weight(shape=(input_shape[-1], self.units), name="kernel")

        def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
            a, b = states
            new = ops.tanh(a + ops.matmul(inputs, self.kernel))
            return new * b + 1, [new, b + new]

        def get_initial_state(self, batch_size: int | None = None) -> Any:
            return [ops.zeros((batch_size, self.units)), ops.ones((batch_size, self.units))]

    x = numbers(8, (3, 5), 2)[0]
    inputs, found = keras.Input((None, 5)), []
    for layer in (
        layers.RNN(Minimal(4)),
        layers.RNN([Minimal(4), layers.GRUCell(3), Two(2)], return_sequences=True, return_state=True),
    ):
        model = keras.Model(inputs, layer(inputs))
        start(model)
        found.append(model.predict(x, verbose=0))
    keras.utils.clear_session()
    model = keras.Sequential([keras.Input((3, 5)), layers.RNN(Two(4), return_sequences=True), layers.Dense(1)])
    start(model)
    model.compile("adam", "mse")
    return [found, fitted(model, x, numbers(8, (3, 1), 2, 4)[0])]


@script
def losses_that_users_write(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops
    x, y = numbers(9, (6,), 2)

    def contrastive(y_true: Any, y_pred: Any) -> Any:  # labels are (B,), predictions (B, 1)
        near, far = ops.square(y_pred), ops.square(ops.maximum(1 - y_pred, 0))
        return ops.mean((1 - y_true) * near + y_true * far)

    class Student(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [layers.Dense(4, activation=lambda x: ops.tanh(x)), layers.BatchNormalization()]
            self.heads = {"a": layers.Dense(1, activation="sigmoid"), "b": layers.Dense(2)}

        def call(self, x: Any, training: bool = False) -> Any:
            for block in self.blocks:
                x = block(x)
            return {name: head(x) for name, head in self.heads.items()}

        def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            return {**super().compute_metrics(x, y, y_pred, sample_weight), "more": 1.0}

        def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
            return super().compute_loss(x, y, y_pred, sample_weight) + 0.01 * ops.mean(ops.square(y_pred["b"]))

    found = []
    model = Student()
    model(x)
    start(model)
    model.compile(keras.optimizers.SGD(0.1), {"a": contrastive, "b": "mse"}, metrics={"a": ["AUC"]})
    labels = {"a": y.astype("float32"), "b": x[:, :2]}
    found.append(fitted(model, x, labels, batch_size=4))  # the last batch has one example
    frozen = keras.Sequential([keras.Input((6,)), layers.Dense(3), layers.Dense(1)])
    frozen.trainable = False
    frozen.layers[0].trainable = True
    return [found, len(frozen.trainable_weights), len(frozen.weights)]


@script
def operators_and_masks_of_symbols(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops
    inputs = keras.Input((4,))
    x = abs(1 - (inputs * 2 + 1 - inputs / 3)) ** 2
    y = ops.concatenate([x[:, 0:2], x[:, 2:]], axis=-1)
    kept = ops.where((y > 0.5) & (y <= 2), y, 0 * y)
    model = keras.Model(inputs, [kept, x % 0.7, x // 0.5, 2.0 / x, 2 % (x + 1), -x, ops.cast(~(x >= 1), "float32")])

    class Softmax(layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any, mask: Any = None) -> Any:
            shares = ops.exp(inputs) * ops.expand_dims(ops.cast(mask, "float32"), -1)
            return shares / ops.sum(shares, axis=1, keepdims=True)

    words = keras.Input((None,), dtype="int32")
    scores = layers.Dense(1)(layers.Embedding(10, 4, mask_zero=True)(words))
    attention = keras.Model(words, Softmax()(scores))
    start(attention)
    x = np.abs(numbers(3, 4, 2)[0])
    return [model.predict(x, verbose=0), attention.predict(np.array([[1, 2, 0], [3, 0, 0]]), verbose=0)]


@script
def frames_and_an_orthogonal_regularizer(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops
    frames = np.abs(numbers(4, (3, 6, 6, 1), 2)[0]) / 3

    class Orthogonal(keras.regularizers.Regularizer):  # type: ignore[misc, name-defined]
        def __call__(self, x: Any) -> Any:
            x = ops.reshape(x, (-1, 2, 2))
            return 0.1 * ops.sum(ops.square(ops.tensordot(x, x, axes=(2, 2))))

    model = keras.Sequential([
        keras.Input((None, 6, 6, 1)), layers.ConvLSTM2D(3, 3, padding="same", return_sequences=True),
        layers.BatchNormalization(), layers.ConvLSTM2D(2, (2, 1), activation="relu"),
        layers.Conv2D(2, 2, activation="sigmoid"), layers.GlobalAveragePooling2D(),
        layers.Dense(4, activity_regularizer=Orthogonal()), layers.Dense(1),
    ])  # fmt: skip
    start(model)
    model.compile("adam", "mse")
    settings = model.optimizer.get_config()
    found = fitted(model, frames, frames.mean((1, 2, 3)), batch_size=2, epochs=2)
    return [found, settings["beta_1"], len(settings["name"]), model.count_params()]


@script
def mixed_precision(keras: Any) -> Any:
    """In short floats the numbers agree to their digits."""
    layers, found = keras.layers, []
    x, y = numbers(16, (8, 8, 3), 3)
    try:
        for policy in ("mixed_bfloat16", "mixed_float16"):
            keras.mixed_precision.set_dtype_policy(policy)
            inputs = keras.Input((8, 8, 3))
            h = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same", activation="relu")(inputs))
            h = layers.LSTM(5, return_sequences=True)(layers.Reshape((16, 4))(layers.MaxPooling2D()(h)))
            h = layers.LayerNormalization()(h)
            h = layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 3)(h, h) + h)
            outputs = layers.Activation("softmax", dtype="float32")(layers.Dense(3)(h) * 2.0)
            model = keras.Model(inputs, outputs)
            start(model)
            model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
            found.append(fitted(model, x, y))
    finally:
        keras.mixed_precision.set_dtype_policy("float32")
    return found


@script
def lora_of_layers(keras: Any) -> Any:
    layers = keras.layers
    x, y = numbers(32, (8, 6), 3)
    model = keras.Sequential([
        keras.Input((8, 6)), layers.Conv1D(5, 3, activation="relu"), layers.EinsumDense("abc,cd->abd", (6, 4)),
        layers.Flatten(), layers.Dense(3, lora_rank=2),
    ])  # fmt: skip
    start(model)
    model.layers[0].enable_lora(2, lora_alpha=4)
    model.layers[1].enable_lora(1)
    start(model)
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return [fitted(model, x, y), [len(model.trainable_weights), len(model.weights)]]


@script
def floats_of_64_bits(keras: Any) -> Any:
    keras.utils.clear_session()
    keras.config.set_floatx("float64")
    try:
        layers = keras.layers
        x, y = numbers(24, (6, 6, 2), 3)
        model = keras.Sequential([
            keras.Input((6, 6, 2)), layers.Conv2D(3, 3, activation="gelu", padding="same"), layers.BatchNormalization(),
            layers.MaxPooling2D(), layers.SeparableConv2D(3, 2), layers.Flatten(), layers.LayerNormalization(),
            layers.Dense(3, "softmax", kernel_regularizer="l2"),
        ])  # fmt: skip
        start(model)
        model.compile(
            keras.optimizers.Adam(0.01, clipnorm=1.0), "sparse_categorical_crossentropy", metrics=["accuracy"]
        )
        found = {"pictures": fitted(model, x.astype("float64"), y)}
        x, y = numbers(20, (5, 4), 2)
        model = keras.Sequential(
            [keras.Input((5, 4)), layers.Bidirectional(layers.LSTM(3)), layers.Dense(1, "sigmoid")]
        )
        start(model)
        model.compile("rmsprop", "binary_crossentropy", metrics=["mae", "auc"])
        found["sequences"] = fitted(model, x.astype("float64"), y)
        dtypes = {str(w.dtype).rpartition(".")[2] for w in model.weights}
        return {**found, "dtypes": len(dtypes), "exact": float("float64" in dtypes)}
    finally:
        keras.config.set_floatx("float32")
        keras.utils.clear_session()


@script
def schedules_with_gathered_gradients(keras: Any) -> Any:
    """A schedule counts batches, also where several are gathered for a step; training goes on from a file."""
    x, y = numbers(32, 6, 3)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
    start(model)
    rate = keras.optimizers.schedules.CosineDecay(0.0, 8, warmup_target=0.05, warmup_steps=4, alpha=0.1)
    model.compile(
        keras.optimizers.SGD(rate, 0.9, gradient_accumulation_steps=3, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"],
    )  # fmt: skip
    found = fitted(model, x, y, batch_size=4)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        again = keras.models.load_model(f"{folder}/model.keras")
    return {"before": found, "after": fitted(again, x, y, batch_size=4)}


@script
def losses_without_a_class(keras: Any) -> Any:
    x, _ = numbers(24, (5, 4), 2)
    y = np.random.RandomState(5).randint(0, 3, (24, 5))
    model = keras.Sequential([keras.Input((5, 4)), keras.layers.Dense(6, "relu"), keras.layers.Dense(3, "softmax")])
    start(model)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(ignore_class=0))
    found = fitted(model, x, y)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1, reduction="sum")
    weights = np.linspace(0, 1, 120).reshape(24, 5).astype("float32")
    return {**found, "sum": float(loss(y, x[..., :3])), "weighted": float(loss(y, x[..., :3], weights))}


@script
def activations_that_are_taken_away(keras: Any) -> Any:
    """A classifier whose last activation is taken away gives logits; copies and files have the new activation."""
    layers = keras.layers
    x, _ = numbers(4, (6, 6, 2), 2)
    inputs = keras.Input((6, 6, 2))
    hidden = layers.Conv2D(3, 3, activation="relu", name="last")(inputs)
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(hidden)))
    start(model)
    before = model.predict(x, verbose=0)
    model.layers[-1].activation = None
    model.get_layer("last").activation = keras.activations.tanh
    both = keras.Model(model.inputs, [model.get_layer("last").output, model.output])
    logits = both.predict(x, verbose=0)
    model.layers[-1].activation = keras.activations.linear  # Keras cannot copy a layer without one
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return {"before": before, "both": logits, "copy": copy.predict(x, verbose=0)}


@script
def batches_by_number(keras: Any) -> Any:
    x, y = numbers(24, 6, 3)

    class Batches(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, k: int) -> Any:
            return x[8 * k : 8 * k + 8], y[8 * k : 8 * k + 8]

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
    start(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
    history = model.fit(Batches(), epochs=3, shuffle=False, verbose=0, validation_data=Batches()).history
    return {"history": history, "predictions": model.predict(Batches(), verbose=0)}


@script
def boxes_in_pictures(keras: Any) -> Any:
    tools, layers, ops = keras.utils.bounding_boxes, keras.layers, keras.ops
    random = np.random.RandomState(0)
    corner = random.rand(2, 5, 2) * 50
    boxes = np.concatenate([corner, corner + random.rand(2, 5, 2) * 40 + 1], -1).astype("float32")
    found: dict[str, Any] = {}
    formats = ("xyxy", "yxyx", "xywh", "center_xywh")
    for source in (*formats, "center_yxhw", *(f"rel_{name}" for name in formats)):
        given = tools.convert_format(boxes, "xyxy", source, height=80, width=100)
        back = tools.convert_format(given, source, "rel_yxyx", height=80, width=100)
        found[source] = [given, back, tools.convert_format(given, source, "center_yxhw", height=80, width=100)]
    found["overlap"] = [
        tools.compute_iou(boxes, boxes[0], "xyxy"), tools.compute_iou(boxes[0], boxes[1], "xywh"),
        tools.compute_ciou(boxes[0], boxes[1], "xyxy"), tools.compute_ciou(boxes, boxes[::-1].copy(), "center_xywh"),
    ]  # fmt: skip
    labels = ops.convert_to_tensor(np.arange(10).reshape(2, 5))
    moved = {"boxes": ops.convert_to_tensor(boxes * 2 - 30), "labels": labels}
    found["clipped"] = tools.clip_to_image_size(moved, height=60, width=70)
    moved = {"boxes": ops.convert_to_tensor(boxes / 50 - 0.4), "labels": labels}
    found["clipped parts"] = tools.clip_to_image_size(moved, bounding_box_format="rel_xyxy")
    found["cropped"] = tools.crop(ops.convert_to_tensor(boxes), 10, 5, 30, 40)
    found["padded"] = tools.pad(ops.convert_to_tensor(boxes), 3, 4)
    for kind in ("center_xywh", "center_yxhw"):
        delta = tools.encode_box_to_deltas(boxes[0], boxes, "xyxy", "xywh", kind, [0.1, 0.1, 0.2, 0.2])
        settings = (kind, [0.1, 0.1, 0.2, 0.2], (80, 100, 3))
        found[f"deltas {kind}"] = [delta, tools.decode_deltas_to_boxes(boxes[0], delta, "xyxy", "rel_xywh", *settings)]
    images = ops.convert_to_tensor(random.rand(2, 20, 24, 3).astype("float32"))
    boxes = boxes / 4
    boxes[0, 4], boxes[1, 3] = -1, 0
    for name, layer in {
        "middle": layers.CenterCrop(12, 10, bounding_box_format="xyxy"),
        "enlarged": layers.CenterCrop(10, 40, bounding_box_format="xyxy"),
        "by centres": layers.CenterCrop(12, 10, bounding_box_format="center_xywh"),
        "resized": layers.Resizing(10, 30, bounding_box_format="xyxy"),
        "with borders": layers.Resizing(10, 30, pad_to_aspect_ratio=True, bounding_box_format="xyxy"),
    }.items():
        given = {"boxes": ops.convert_to_tensor(boxes), "labels": ops.convert_to_tensor(np.arange(10).reshape(2, 5))}
        found[name] = layer({"images": images, "bounding_boxes": given})["bounding_boxes"]

    def numbers_of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: numbers_of(inner) for key, inner in value.items()}
        return [numbers_of(inner) for inner in value] if isinstance(value, list) else ops.convert_to_numpy(value)

    return numbers_of(found)


@script
def functions_of_quantizers(keras: Any) -> Any:
    q, ops = keras.quantizers, keras.ops
    random = np.random.RandomState(0)
    x = (random.randn(10, 6) * 3).astype("float32")
    x[:, 2] = 0
    found = [
        q.abs_max_quantize(x, -1), q.abs_max_quantize(x, (0, 1), (-8, 7)), q.abs_max_quantize(x, 0, to_numpy=True),
        q.AbsMaxQuantizer(axis=(0,), value_range=(-31, 31))(x), q.AbsMaxQuantizer()(x, axis=0),
        *(q.abs_max_quantize_grouped_with_zero_point(x, size, to_numpy=to) for size in (4, 16) for to in (True, False)),
    ]  # fmt: skip
    numbers = random.randint(-8, 8, (5, 3, 4)).astype("int8")
    for axis in (0, 1, -1):
        packed, shape, length = q.pack_int4(ops.convert_to_tensor(numbers), axis)
        found.append([packed, shape, length, q.unpack_int4(packed, length, axis)])
    found.append(q.unpack_int4(ops.convert_to_tensor(numbers.astype("uint8")), 8, -1, dtype="uint8"))
    wide = np.concatenate([random.randn(300), random.randn(100) * 1e-3, random.randn(100) * 1e5]).astype("float32")
    for kind in ("float8_e4m3fn", "float8_e5m2"):
        found += [q.quantize_and_dequantize(ops.convert_to_tensor(wide), s, kind, "float32") for s in (1.0, 0.37)]
    found += [q.compute_float8_scale(ops.convert_to_tensor(np.float32(a)), 0.5, 448.0, m)
              for a in (0.0, 3.0, np.inf) for m in (0, 2)]  # fmt: skip
    history = ops.convert_to_tensor(np.arange(5, dtype="float32"))
    found += [q.compute_float8_amax_history(ops.convert_to_tensor(x), history)]
    found += [q.compute_float8_amax_history(ops.convert_to_tensor(x), history[:n]) for n in (1, 2)]
    ends = (
        ops.convert_to_tensor(np.array([-1.3, -2, 0, -0.2, 0.1, -5], "float32")),
        ops.convert_to_tensor(np.array([2.5, 1, 3, 0.4, 0.3, 6], "float32")),
    )
    for settings in ({}, {"num_bits": 4, "narrow_range": True}):
        found.append(q.fake_quant_with_min_max_vars(ops.convert_to_tensor(x), -1.3, 2.1, **settings))
        found.append(q.fake_quant_with_min_max_vars(ops.convert_to_tensor(x), *ends, axis=1, **settings))
    names = [q.get("abs_max_quantizer") is not None, q.deserialize(q.serialize(q.AbsMaxQuantizer(axis=1))).axis]
    return keras.tree.map_structure(
        lambda one: ops.convert_to_numpy(one).astype("float32") if hasattr(one, "detach") else one, [found, names]
    )


@script
def quantised_attention_and_short_floats(keras: Any) -> Any:
    layers = keras.layers
    x = numbers(4, (6, 8), 2)[0]
    inputs = keras.Input((6, 8))
    hidden = layers.MultiHeadAttention(2, 5)(inputs, inputs)
    model = keras.Model(inputs, layers.Dense(3)(hidden + inputs))
    start(model)
    model.quantize("int8")
    found = [model.predict(x, verbose=0)]
    for mode in ("int8", "int4", "float8"):
        short = keras.Sequential([keras.Input((6, 8)), layers.Dense(5, "relu", dtype="mixed_bfloat16"),
                                  layers.EinsumDense("abc,cd->abd", (None, 4), dtype="mixed_bfloat16")])  # fmt: skip
        start(short)
        short.quantize(mode)
        found += [short.predict(x, verbose=0).astype("float32"), *short.get_weights()]
    return found


@script
def masks_that_layers_make(keras: Any) -> Any:
    """A layer with a `compute_mask` makes masks of its own; a loss that is one number is masked as Keras does it."""
    layers, ops = keras.layers, keras.ops
    words = np.random.RandomState(0).randint(1, 9, (6, 8))
    words[::2, 5:], words[1, 3:] = 0, 0

    class Rows(layers.Layer):  # type: ignore[misc, name-defined]
        def build(self, shape: Any) -> None:
            self.rows = self.add_weight(shape=(9, 4), initializer="random_normal")

        def call(self, x: Any) -> Any:
            return ops.take(self.rows, ops.cast(x, "int32"), axis=0)

        def compute_mask(self, x: Any, mask: Any = None) -> Any:
            return ops.not_equal(x, 0)

    class Halves(layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return ops.split(x, 2, axis=1)

        def compute_mask(self, x: Any, mask: Any = None) -> Any:
            return ops.split(mask, 2, axis=1)

    class MeanOfTags(keras.losses.Loss):  # type: ignore[misc, name-defined]
        def call(self, y_true: Any, y_pred: Any) -> Any:
            values = keras.losses.SparseCategoricalCrossentropy(reduction=None)(y_true, y_pred)
            counts = ops.cast(y_true > 0, "float32")
            return ops.sum(values * counts) / ops.sum(counts)

    inputs = keras.Input((8,))
    left, right = Halves()(Rows()(inputs))
    model = keras.Model(inputs, layers.Dense(1)(layers.LSTM(3)(left) + layers.GRU(3)(right)))
    start(model)
    model.compile("adam", "mse")
    found = {"halves": fitted(model, words, words[:, :1].astype("float32"))}
    model = keras.Sequential([
        keras.Input((8,)), layers.Embedding(9, 6, mask_zero=True),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(5, activation="relu")), layers.Dense(4, activation="softmax"),
    ])  # fmt: skip
    start(model)
    model.compile("adam", MeanOfTags())
    return {**found, "tags": fitted(model, words, np.where(words > 0, words % 3 + 1, 0), batch_size=4)}


@script
def weights_for_outputs_by_name(keras: Any) -> Any:
    layers = keras.layers
    x, y = numbers(24, 6, 3)
    inputs = keras.Input((6,), name="in")
    hidden = layers.Dense(8, "relu")(inputs)
    outputs = {"kind": layers.Dense(3, "softmax", name="kind")(hidden), "size": layers.Dense(1, name="size")(hidden)}
    model = keras.Model(inputs, outputs)
    start(model)
    model.compile(
        "adam", {"kind": "sparse_categorical_crossentropy", "size": keras.losses.LogCosh()},
        loss_weights={"kind": 0.3, "size": 2.0}, weighted_metrics={"kind": ["accuracy"], "size": ["mse"]},
        metrics={"kind": [keras.metrics.SparseTopKCategoricalAccuracy(2)], "size": ["mae"]},
    )  # fmt: skip
    labels, ramp = {"kind": y, "size": x[:, :1]}, np.linspace(0, 1, 24).astype("float32")
    weights = {"kind": ramp, "size": ramp[::-1].copy()}
    found = fitted(model, {"in": x}, labels, sample_weight=weights, validation_data=(x, labels, weights))
    return {**found, "again": model.evaluate(x, labels, verbose=0, return_dict=True)}


@script
def subclass_without_the_argument_training(keras: Any) -> Any:
    """Its layers run as in evaluation, in `fit` too; layers of one's own without it do what the model is told."""
    layers = keras.layers
    x, y = numbers(16, 5, 3)

    class Block(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.Sequential([layers.BatchNormalization(), layers.Dense(4, "gelu")])

        def call(self, x: Any) -> Any:
            return self.inner(x)

    class Without(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.block, self.last = Block(), layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.last(self.block(x))

    class With(Without):
        def call(self, x: Any, training: bool = False) -> Any:
            return super().call(x)

    found = []
    for kind in (Without, With):
        model = kind()
        model(x)
        start(model)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found += [fitted(model, x, y), model.get_weights()]
    return found


@script
def weights_that_do_not_decay_by_name(keras: Any) -> Any:
    x, y = numbers(24, 5, 3)
    found = []
    for make in (keras.optimizers.AdamW, keras.optimizers.Adamax, keras.optimizers.Lion):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "relu"), keras.layers.Dense(3)])
        start(model)
        optimizer = make(0.01, weight_decay=0.2)
        optimizer.exclude_from_weight_decay(var_list=[model.weights[0]], var_names=["bias"])
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        found.append([fitted(model, x, y), model.get_weights()])
    return found


@script
def what_callbacks_are_told(keras: Any) -> Any:
    x, y = numbers(16, 5, 2)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1, "sigmoid")])
    start(model)
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    told: list[Any] = []

    class Listener(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def set_params(self, params: Any) -> None:
            super().set_params(params)
            told.append({name: value or 0 for name, value in params.items()})

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told.append(dict(logs))

        def on_train_end(self, logs: Any = None) -> None:
            told.append(dict(logs))

        def on_test_end(self, logs: Any = None) -> None:
            told.append(dict(logs))

    slower = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_delta=0.5)
    history = model.fit(x, y, epochs=4, batch_size=8, shuffle=False, verbose=0, callbacks=[slower, Listener()]).history
    model.predict(x, verbose=0, batch_size=4, callbacks=[Listener()])
    model.evaluate(x, y, verbose=0, callbacks=[Listener()])
    return [told, history]


@script
def what_a_model_is_compiled_with(keras: Any) -> Any:
    x, y = numbers(20, 5, 3)
    labels = keras.utils.to_categorical(y, 3)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(3, "softmax")])
    start(model)
    rate = keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.9)
    model.compile(keras.optimizers.Adam(rate, amsgrad=True), "categorical_crossentropy", metrics=["accuracy", "AUC"])
    weights = {0: 1.0, 1: 2.0, 2: 0.5}
    history = model.fit(
        x, labels, epochs=4, initial_epoch=2, batch_size=6, class_weight=weights, validation_split=0.2,
        validation_batch_size=2, validation_freq=2, shuffle=False, verbose=0,
    )  # fmt: skip
    again = keras.Sequential.from_config(model.get_config())
    again.set_weights(model.get_weights())
    again.compile_from_config(model.get_compile_config())
    found = [history.history, history.epoch, again.evaluate(x, labels, verbose=0, return_dict=True)]
    return [*found, fitted(again, x, labels, epochs=2)]


@script
def optimizers_of_ones_own(keras: Any) -> Any:
    class Heavy(keras.optimizers.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, learning_rate: float = 0.1, decay: float = 0.8, **settings: Any) -> None:
            super().__init__(learning_rate=learning_rate, **settings)
            self.decay = decay

        def build(self, variables: Any) -> None:
            if self.built:
                return
            super().build(variables)
            self.speeds = self.add_optimizer_variables(variables, "speed")
            self.first, self.second = self.add_optimizer_variables(variables, ["first", "second"], ["ones", "zeros"])

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            place = self._get_variable_index(variable)
            speed, first, second = self.speeds[place], self.first[place], self.second[place]
            self.assign(speed, speed * self.decay + gradient)
            self.assign_add(second, gradient * gradient)
            self.assign_sub(first, 0.01 * gradient)
            step = speed / (1.0 + keras.ops.sqrt(second)) * first
            self.assign_sub(variable, keras.ops.cast(learning_rate, variable.dtype) * step)

    x, y = numbers(24, 4, 3)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    start(model)
    model.compile(Heavy(weight_decay=0.01, clipnorm=1.0), "sparse_categorical_crossentropy")
    found = fitted(model, x, y)
    variables = model.optimizer.variables
    found["variables"] = [keras.ops.convert_to_numpy(v) for v in variables]
    found["iterations"] = [int(model.optimizer.iterations), int(model.optimizer.iterations.numpy())]
    for variable in variables[2:]:
        variable.assign(keras.ops.zeros_like(variable))
    variables[0].assign(0)
    variables[1].assign(0.5)
    found |= {"again": fitted(model, x, y, epochs=1), "steps": int(model.optimizer.iterations)}
    model.optimizer.learning_rate.assign(0.25)
    model.optimizer.iterations.assign(40)
    return found | {"rate": float(model.optimizer.variables[1]), "count": int(model.optimizer.variables[0])}


@script
def averages_of_gathered_gradients(keras: Any) -> Any:
    found = []
    for frequency in (None, 2):
        settings = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": frequency}
        optimizer = keras.optimizers.Adam(0.1, gradient_accumulation_steps=2, **settings)
        variable = keras.Variable(np.array([1.0, -2.0], "float32"))
        for step in range(5):
            optimizer.apply([keras.ops.convert_to_tensor(np.array([0.5 - step, 0.25 * step], "float32"))], [variable])
            found.append(np.array(keras.ops.convert_to_numpy(variable)))
        optimizer.finalize_variable_values([variable])
        found.append(np.array(keras.ops.convert_to_numpy(variable)))
    return found


@script
def softmax_where_all_is_masked(keras: Any) -> Any:
    x = np.linspace(-1, 1, 12).reshape(2, 2, 3).astype("float32")
    mask = np.array([[[1, 0, 1], [0, 0, 0]], [[1, 1, 1], [0, 1, 0]]], bool)
    first = keras.layers.Conv2D(2, 2, activation="softmax", data_format="channels_first")
    pictures = np.linspace(-1, 1, 32).reshape(1, 2, 4, 4).astype("float32")
    first(pictures)
    start(first)
    larger = keras.layers.UpSampling2D((2, 3), interpolation="bicubic")
    found = [keras.layers.Softmax()(x, mask=mask), first(pictures), larger(pictures)]
    return [keras.ops.convert_to_numpy(one) for one in found]


@script
def constraints_in_a_loop_of_ones_own(keras: Any) -> Any:
    """The optimiser's step moves weights back into their sets."""
    x, y = numbers(24, 5, 3)
    hidden = keras.layers.Dense(4, "tanh", kernel_constraint="non_neg", bias_constraint=keras.constraints.MaxNorm(0.1))
    model = keras.Sequential([keras.Input((5,)), hidden, keras.layers.Dense(3, kernel_constraint="unit_norm")])
    start(model)
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9, clipnorm=1.0)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = []
    for first in range(0, 24, 8):
        loss = loss_of(y[first : first + 8], model(x[first : first + 8], training=True))
        model.zero_grad()
        loss.backward()
        optimizer.apply([weight.value.grad for weight in model.trainable_weights], model.trainable_weights)
        found.append(float(loss))
    return [found, [keras.ops.convert_to_numpy(weight) for weight in model.weights]]


@script
def several_losses_of_an_output(keras: Any) -> Any:
    x, y = numbers(24, 5, 2)
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4, "relu")(inputs)
    first = keras.layers.Dense(1, name="first")(hidden)
    second = keras.layers.Dense(1, "sigmoid", name="second")(hidden)
    model = keras.Model(inputs, [first, second])
    start(model)
    model.compile("sgd", ["mse", ["binary_crossentropy"]], loss_weights=[0.5, 2.0], metrics=["mae", ["accuracy"]])
    return fitted(model, x, [x[:, :1], y])


@script
def losses_of_outputs_within_one_another(keras: Any) -> Any:
    x, _ = numbers(16, 4, 2)
    random = np.random.RandomState(0)
    y = [random.randn(16, size).astype("float32") for size in (1, 2, 3)]
    inputs = keras.Input((4,))
    a, b, c = (keras.layers.Dense(size, name=f"dense_{size}")(inputs) for size in (1, 2, 3))
    found = []
    for outputs, labels, loss, weights, metrics in (
        ([a, [b, c]], [y[0], [y[1], y[2]]], ["mse", ["mae", "mse"]], [1.0, [0.5, 0.2]], [["mae"], [["mse"], ["mae"]]]),
        ([[a, b], c], [[y[0], y[1]], y[2]], ["mse", "mae", "mse"], None, None),
        ({"a": a, "rest": {"b": b, "c": c}}, {"a": y[0], "rest": {"b": y[1], "c": y[2]}},
         {"a": "mse", "rest": {"b": "mae"}}, None, {"a": ["mse"], "rest": {"b": ["mse"], "c": ["mae"]}}),
    ):  # fmt: skip
        model = keras.Model(inputs, outputs)
        start(model, 1)
        model.compile(keras.optimizers.SGD(0.05), loss, loss_weights=weights, metrics=metrics)
        found.append([fitted(model, x, labels, epochs=2), model.evaluate(x, labels, verbose=0)])
    return found
