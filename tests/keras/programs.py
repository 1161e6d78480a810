"""Longer programs in Keras' style, as users write them: steps of their own, several inputs, masks, files, other losses.

They are scripts as those of scripts.py, which imports them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.keras.script_tools import fitted, numbers, script, start


@script
def variational_autoencoder_with_its_own_step(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    class Sampling(layers.Layer):
        """The mean plus a given share of the deviation: no random numbers."""

        def call(self, inputs: Any) -> Any:
            mean, log_variance = inputs
            self.add_loss(-0.05 * ops.mean(1 + log_variance - ops.square(mean) - ops.exp(log_variance)))
            return mean + 0.3 * ops.exp(0.5 * log_variance)

    class VAE(keras.Model):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.hidden = layers.Dense(8, activation="gelu")
            self.mean, self.spread = layers.Dense(2, name="mean"), layers.Dense(2, name="spread")
            self.sampling = Sampling()
            self.decoder = keras.Sequential([layers.Dense(8, activation="mish"), layers.Dense(6, "sigmoid")])
            self.total = keras.metrics.Mean(name="total")
            self.rebuilt = keras.metrics.MeanMetricWrapper(keras.losses.mean_squared_error, name="rebuilt")

        def call(self, x: Any) -> Any:
            h = self.hidden(x)
            return self.decoder(self.sampling([self.mean(h), self.spread(h)]))

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **_: Any
        ) -> Any:
            loss = ops.mean(ops.sum(keras.losses.binary_crossentropy(x[..., None], y_pred[..., None]), axis=-1))
            self.rebuilt.update_state(x, y_pred)
            return loss + sum(self.losses)

        @property
        def metrics(self) -> Any:
            return [*super().metrics[:1], self.rebuilt]

    x = (numbers(24, 6, 2)[0] > 0).astype("float32")
    model = VAE()
    model(x[:2])
    start(model)
    model.compile(keras.optimizers.Lion(0.02, weight_decay=0.01))
    history = model.fit(x, epochs=3, batch_size=8, shuffle=False, verbose=0).history
    return {"loss": history["loss"], "rebuilt": history["rebuilt"], "again": model.predict(x[:3], verbose=0)}


@script
def adversaries_with_two_optimizers(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    class Clip(keras.constraints.Constraint):
        def __call__(self, w: Any) -> Any:
            return ops.clip(w, -0.3, 0.3)

    critic = keras.Sequential(
        [keras.Input((4,)), layers.Dense(8, kernel_constraint=Clip()), layers.LeakyReLU(0.2), layers.Dense(1)]
    )
    maker = keras.Sequential([keras.Input((3,)), layers.Dense(8, "swish"), layers.Dense(4, "tanh")])
    start(critic, 1)
    start(maker, 2)
    both = keras.Sequential([maker, critic])
    critic.compile(keras.optimizers.RMSprop(0.01), lambda t, p: ops.mean(t * p, axis=-1), jit_compile=False)
    critic.trainable = False
    both.compile(keras.optimizers.Adam(0.01, beta_1=0.5, amsgrad=True), lambda t, p: ops.mean(t * p, axis=-1))
    critic.trainable = True
    random, found = np.random.RandomState(3), []
    for _ in range(4):
        noise, real = random.randn(8, 3).astype("float32"), np.tanh(random.randn(8, 4)).astype("float32")
        x = np.concatenate([real, maker.predict_on_batch(noise)])
        y = np.concatenate([-np.ones((8, 1)), np.ones((8, 1))])
        critic.trainable = True
        found.append(float(critic.train_on_batch(x, y)))
        critic.trainable = False
        found.append(float(both.train_on_batch(noise, -np.ones((8, 1)))))
    return {"losses": found, "made": maker.predict_on_batch(noise), "largest": np.abs(critic.get_weights()[0]).max()}


@script
def text_classifier_with_masks_and_attention(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    @keras.saving.register_keras_serializable(package="programs")
    class Positions(layers.Layer):
        def __init__(self, length: int, size: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.length, self.size, self.supports_masking = length, size, True

        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=(self.length, self.size), initializer="glorot_normal", name="table")

        def call(self, x: Any) -> Any:
            return x + self.table[: ops.shape(x)[1]]

        def get_config(self) -> Any:
            return {**super().get_config(), "length": self.length, "size": self.size}

    class Pooled(layers.Layer):
        def call(self, x: Any, mask: Any = None) -> Any:
            share = ops.ones(ops.shape(x)[:2]) if mask is None else ops.cast(mask, x.dtype)
            return ops.einsum("bsd,bs->bd", x, share) / ops.sum(share, axis=1, keepdims=True)

    texts = ["the cat sat", "a dog ran far away", "the dog sat", "a cat", "cat and dog and cat", "far far away"]
    vocabulary = sorted({word for text in texts for word in text.split()})
    ids = keras.utils.pad_sequences(
        [[vocabulary.index(word) + 2 for word in text.split()] for text in texts], maxlen=6, padding="post"
    )
    words = keras.Input((6,), dtype="int32", name="words")
    x = layers.Embedding(12, 8, mask_zero=True, embeddings_regularizer=keras.regularizers.L2(1e-3))(words)
    x = Positions(6, 8, name="positions")(x)
    a = layers.MultiHeadAttention(2, 4, dropout=0.0)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization(epsilon=1e-5)(layers.add([x, a]))
    h = layers.Bidirectional(layers.GRU(4, return_sequences=True, reset_after=False), merge_mode="sum")(x)
    last = layers.LSTM(5, go_backwards=True, unit_forget_bias=False, recurrent_activation="hard_sigmoid")(x)
    pooled = Pooled()(h)
    topic = layers.Dense(3, "softmax", name="topic")(layers.concatenate([pooled, last]))
    length = layers.Dense(1, "softplus", name="length")(pooled)
    model = keras.Model(words, {"topic": topic, "length": length})
    start(model)
    model.compile(
        keras.optimizers.Nadam(0.02, clipvalue=0.5),
        loss={"topic": keras.losses.SparseCategoricalCrossentropy(), "length": keras.losses.LogCosh()},
        loss_weights={"topic": 1.0, "length": 0.2},
        metrics={"topic": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)], "length": "mae"},
    )
    y = {"topic": np.array([0, 1, 1, 0, 2, 2]), "length": (ids > 0).sum(1, keepdims=True).astype("float32")}
    found = model.fit(ids, y, epochs=3, batch_size=3, shuffle=False, verbose=0).history
    values = model.evaluate(ids, y, verbose=0, return_dict=True)
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return {"ids": ids, "history": found, "values": values, "topic": twin.predict(ids, verbose=0)["topic"]}


@script
def transfer_with_frozen_layers_and_files(keras: Any) -> Any:
    layers = keras.layers
    inputs = keras.Input((8, 8, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    x = layers.SeparableConv2D(6, 3, padding="same", use_bias=False, name="stem")(x)
    x = layers.BatchNormalization(momentum=0.8, name="norm")(x)
    x = layers.Activation("relu6")(x)
    x = layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2, name="depth")(
        layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    )
    outputs = layers.GlobalAveragePooling2D()(layers.MaxPooling2D(2, padding="same")(x))
    base = keras.Model(inputs, outputs, name="base")
    start(base)
    base.trainable = False
    model = keras.Sequential([base, layers.GaussianNoise(0.1), layers.Dense(5, "selu"), layers.Dense(3)], name="whole")
    model.build((None, 8, 8, 3))
    for at, layer in enumerate(model.layers[2:]):
        start(layer, at + 5)
    pictures = np.random.RandomState(4).randint(0, 255, (12, 8, 8, 3)).astype("float32")
    y = np.eye(3)[np.arange(12) % 3].astype("float32")
    model.compile("adam", keras.losses.CategoricalFocalCrossentropy(from_logits=True), metrics=["categorical_accuracy"])
    counts = [len(model.trainable_weights), len(model.non_trainable_weights), model.count_params()]
    head = [float(model.evaluate(pictures, y, verbose=0)[0])]
    base.trainable = True
    for layer in base.layers[:3]:
        layer.trainable = False
    schedule = keras.optimizers.schedules.CosineDecay(1e-3, 10, alpha=0.1, warmup_target=5e-3, warmup_steps=3)
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=1e-3), keras.losses.CategoricalCrossentropy(from_logits=True)
    )
    counts += [len(model.trainable_weights), sum(layer.trainable for layer in base.layers)]
    tuned = [float(model.test_on_batch(pictures, y, return_dict=True)["loss"])]
    features = keras.Model(base.input, [base.get_layer("norm").output, base.output])
    maps, pooled = features.predict(pictures[:2], verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.keras")
        model.save(path)
        again = keras.models.load_model(path)
    same = float(np.abs(again.predict(pictures, verbose=0) - model.predict(pictures, verbose=0)).max())
    rates = [float(schedule(step)) for step in (0, 2, 5, 12)]
    found = {"head": head, "tuned": tuned, "counts": counts, "same": same, "rates": rates}
    return found | {"maps": maps.sum(axis=(1, 2)), "pooled": pooled}


@script
def siamese_net_with_shared_layers(keras: Any) -> Any:
    layers, ops = keras.layers, keras.ops

    class Distance(layers.Layer):
        def call(self, a: Any, b: Any) -> Any:
            return ops.sqrt(ops.maximum(ops.sum(ops.square(a - b), axis=1, keepdims=True), keras.config.epsilon()))

    @keras.saving.register_keras_serializable(package="programs")
    def contrastive(y_true: Any, y_pred: Any, margin: float = 1.0) -> Any:
        far = ops.square(ops.relu(margin - y_pred))
        return ops.mean((1 - y_true) * ops.square(y_pred) + y_true * far, axis=-1)

    class Share(keras.metrics.Metric):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.right = self.add_weight(name="right", initializer="zeros")
            self.count = self.add_variable(shape=(), initializer="zeros", name="count")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            right = ops.cast(ops.equal(ops.cast(y_pred > 0.5, y_true.dtype), y_true), self.dtype)
            self.right.assign_add(ops.sum(right))
            self.count.assign_add(ops.cast(ops.size(right), self.dtype))

        def result(self) -> Any:
            return self.right / self.count

    tower = keras.Sequential(
        [keras.Input((5,)), layers.UnitNormalization(), layers.Dense(6), layers.PReLU(), layers.Dense(3)], name="tower"
    )
    left, right = keras.Input((5,), name="left"), keras.Input((5,), name="right")
    model = keras.Model([left, right], Distance(name="distance")(tower(left), tower(right)))
    start(model)
    seen: list[float] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(logs["loss"])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                self.model.stop_training = True

    a, b = numbers(20, 5, 2)[0], numbers(20, 5, 2, seed=7)[0]
    y = (np.arange(20) % 2).astype("float32")[:, None]
    model.compile(keras.optimizers.Adafactor(0.05), loss=contrastive, metrics=[Share(name="share")])
    history = model.fit(
        {"left": a, "right": b}, y, epochs=6, batch_size=5, shuffle=False, verbose=0, validation_data=([a, b], y),
        callbacks=[Watch(), keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=1)],
    ).history  # fmt: skip
    history = {key: value for key, value in history.items() if key != "learning_rate"}
    return {
        "history": history,
        "batches": seen,
        "shared": len(model.weights),
        "found": model.predict([a, b], verbose=0),
    }


@script
def policy_gradients_with_values(keras: Any) -> Any:
    """Actor and critic with gradients of the framework below, applied by Keras' optimisers."""
    layers, ops = keras.layers, keras.ops
    inputs = keras.Input((4,))
    common = layers.Dense(8, "relu", kernel_initializer="he_uniform")(inputs)
    model = keras.Model(inputs, [layers.Dense(3, name="policy")(common), layers.Dense(1, name="value")(common)])
    start(model)
    optimizer = keras.optimizers.Adagrad(0.05, initial_accumulator_value=0.2)
    optimizer.build(model.trainable_variables)
    random, found = np.random.RandomState(5), []
    for _ in range(4):
        states = random.randn(10, 4).astype("float32")
        actions, rewards = random.randint(0, 3, 10), random.randn(10).astype("float32")
        returns = np.zeros(10, "float32")
        running = 0.0
        for t in range(9, -1, -1):
            running = returns[t] = rewards[t] + 0.9 * running
        for weight in model.trainable_variables:
            value = weight if getattr(weight, "_value", None) is None else weight.value
            value.grad = None
        logits, values = model(states, training=True)
        chosen = ops.sum(ops.one_hot(actions, 3) * ops.log_softmax(logits, axis=-1), axis=-1)
        gain = ops.convert_to_tensor(returns) - ops.squeeze(values, -1)
        entropy = -ops.mean(ops.sum(ops.softmax(logits) * ops.log_softmax(logits), axis=-1))
        loss = -ops.mean(chosen * ops.stop_gradient(gain)) + 0.5 * ops.mean(ops.square(gain)) - 0.01 * entropy
        loss.backward()
        gradients = []
        for weight in model.trainable_variables:
            value = weight if getattr(weight, "_value", None) is None else weight.value
            gradients.append(value.grad)
        optimizer.apply(gradients, model.trainable_variables)
        found += [float(ops.stop_gradient(v)) for v in (loss, entropy, ops.max(ops.abs(gradients[0])))]
    return {"found": found, "weights": model.get_weights()[2]}


@script
def table_with_prepared_columns(keras: Any) -> Any:
    layers = keras.layers
    random = np.random.RandomState(6)
    ages, places = random.randint(18, 80, (16, 1)), np.array([[0], [1], [2], [0]] * 4)
    size = random.randn(16, 2).astype("float32") * 5 + 3
    scale, bands = layers.Normalization(axis=-1), layers.Discretization(bin_boundaries=[30, 45.5, 60])
    scale.adapt(size)
    columns = [
        scale(size), layers.CategoryEncoding(5, output_mode="multi_hot")(bands(ages.astype("float32"))),
        layers.CategoryEncoding(3, output_mode="one_hot")(places), layers.UnitNormalization()(size),
    ]  # fmt: skip
    x = np.concatenate([np.asarray(keras.ops.convert_to_numpy(c), "float32").reshape(16, -1) for c in columns], axis=1)
    y = (size[:, :1] + (ages > 40) > 3).astype("float32")
    wide, deep = keras.Input((x.shape[1],)), keras.Input((x.shape[1],))
    h = layers.Dense(6, "elu", bias_regularizer="l1", activity_regularizer=keras.regularizers.L1L2(1e-4, 1e-4))(deep)
    h = layers.Maximum()([h, layers.Dense(6, "hard_silu")(deep)])
    output = layers.Dense(1, "sigmoid")(
        layers.Concatenate(axis=-1)([wide, layers.Reshape((6,))(layers.RepeatVector(1)(h))])
    )
    model = keras.Model([wide, deep], output)
    start(model)
    metrics = [
        keras.metrics.AUC(num_thresholds=20), keras.metrics.Precision(0.4), keras.metrics.SensitivityAtSpecificity(0.5),
        keras.metrics.F1Score(threshold=0.5), keras.metrics.BinaryCrossentropy(label_smoothing=0.1),
    ]  # fmt: skip
    model.compile(keras.optimizers.Ftrl(0.1), keras.losses.BinaryFocalCrossentropy(apply_class_balancing=True),
                  weighted_metrics=metrics)  # fmt: skip
    history = model.fit(
        [x, x], y, epochs=3, batch_size=4, shuffle=False, verbose=0, class_weight={0: 1.0, 1: 2.0}
    ).history
    return {"x": x, "history": list(history.values()), "found": model.predict([x, x], verbose=0)}


@script
def forecast_of_series(keras: Any) -> Any:
    layers = keras.layers
    series = np.sin(np.arange(60) * 0.4).astype("float32")[:, None] * np.linspace(1, 2, 60, dtype="float32")[:, None]
    x, y = np.stack([series[i : i + 8] for i in range(52)]), series[8:]
    model = keras.Sequential(
        [
            keras.Input((8, 1)),
            layers.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="tanh"),
            layers.SpatialDropout1D(0.0),
            layers.TimeDistributed(layers.Dense(4, "leaky_relu")),
            layers.RNN([layers.LSTMCell(5), layers.GRUCell(4)], return_sequences=True),
            layers.GroupNormalization(2),
            layers.Permute((2, 1)),
            layers.Cropping1D((1, 0)),
            layers.Flatten(),
            layers.Lambda(lambda t: t * 2.0),
            layers.Dense(1, input_dim=24),
        ]
    )
    start(model)
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True, start_from_epoch=1)
    model.compile(
        keras.optimizers.Adadelta(1.0, rho=0.9),
        keras.losses.Huber(0.5),
        metrics=["mape", "r2_score", "cosine_similarity"],
    )
    found = fitted(model, x, y.reshape(-1, 1), epochs=4, batch_size=16, validation_split=0.2, callbacks=[stop])
    naive = keras.metrics.RootMeanSquaredError()
    naive.update_state(y.ravel()[1:], y.ravel()[:-1])
    return {**found, "naive": float(naive.result()), "stopped": stop.stopped_epoch}


@script
def own_operations_and_metrics_of_one_name(keras: Any) -> Any:
    """Operations of one's own in a functional model, called twice and with several outputs, described and made anew."""

    @keras.saving.register_keras_serializable("programs")
    class Scale(keras.Operation):  # type: ignore[misc, name-defined]
        def __init__(self, factor: float = 2.0, name: str | None = None) -> None:
            super().__init__(name=name)
            self.factor = factor

        def call(self, x: Any, y: Any = None) -> Any:
            return x * self.factor + (0 if y is None else y)

    @keras.saving.register_keras_serializable("programs")
    class Halves(keras.Operation):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return x[:, :2], x[:, 2:]

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor((x.shape[0], 2), x.dtype), keras.KerasTensor((x.shape[0], 2), x.dtype)

    x, _ = numbers(12, 3, 2)
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(4)(inputs)
    scale = Scale(0.5)
    first, second = Halves()(scale(scale(dense), y=dense))
    model = keras.Model(inputs, [keras.layers.Dense(1, name="a")(first), keras.layers.Dense(1, name="b")(second)])
    start(model)
    y = [x.sum(1, keepdims=True), x[:, :1]]
    same = keras.metrics.MeanAbsoluteError(name="mae")
    model.compile("sgd", ["mse", "mse"], metrics=[["mse", "mse"], ["mae", same]], weighted_metrics=[["mse"], ["mae"]])
    found = fitted(model, x, y)
    found["evaluated"] = [
        model.evaluate(x, y, verbose=0),
        sorted(model.evaluate(x, y, verbose=0, return_dict=True).values()),
    ]
    again = keras.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    found["again"] = again.predict(x, verbose=0)
    found["eager"] = Scale(3.0)(x)
    found["kinds"] = [isinstance(kind, keras.Operation) for kind in (scale, dense, keras.layers.Dense(1))]
    found["layers"] = [len(model.layers), len(model.operations)]
    one = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    start(one)
    one.compile("sgd", "mse", metrics=["mse", "mae", "mse", keras.metrics.MeanSquaredError(name="loss")])
    found["one"] = [one.evaluate(x, y[0], verbose=0), one.fit(x, y[0], batch_size=6, shuffle=False, verbose=0).history]
    overlap = keras.metrics.MeanIoU(num_classes=2, dtype="int32")
    overlap.update_state([0, 1, 1, 0], [0, 1, 0, 0])
    found["overlap"] = overlap.result()
    return found


@script
def distillation_of_logits_and_features(keras: Any) -> Any:
    layers, distillation = keras.layers, keras.distillation
    x, y = numbers(24, 6, 3)

    def made(size: int, seed: int) -> Any:
        model = keras.Sequential(
            [keras.Input((6,)), layers.Dense(size, "relu"), layers.Dense(4, name="feature"), layers.Dense(3)]
        )
        start(model, seed)
        return model

    found = []
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for losses, settings in (
        (distillation.LogitsDistillation(2.0, keras.losses.KLDivergence()), {}),
        (distillation.LogitsDistillation(loss=keras.losses.CategoricalCrossentropy(from_logits=True)),
         {"student_loss_weight": 0.2}),
        ([distillation.LogitsDistillation(), distillation.FeatureDistillation("mae", "feature", "feature")],
         {"distillation_loss_weights": [1.0, 0.5]}),
    ):  # fmt: skip
        teacher, student = made(16, 1), made(8, 2)
        distiller = distillation.Distiller(teacher, student, losses, **settings)
        again = distillation.Distiller.from_config(distiller.get_config())
        again.teacher.set_weights(teacher.get_weights())
        again.student.set_weights(student.get_weights())
        for one in (distiller, again):
            one.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
            found.append(fitted(one, x, y, validation_split=0.25))
        found.append([student.get_weights()[0], teacher.get_weights()[0]])
    return found


@script
def kernels_of_ones_own(keras: Any) -> Any:
    ops = keras.ops

    class Standardized(keras.layers.Conv2D):  # type: ignore[misc, name-defined]
        def convolution_op(self, inputs: Any, kernel: Any) -> Any:
            mean, variance = ops.moments(kernel, axes=(0, 1, 2), keepdims=True)
            return super().convolution_op(inputs, (kernel - mean) / ops.sqrt(variance + 1e-4))

    x, y = numbers(12, (6, 6, 2), 2)
    model = keras.Sequential(
        [keras.Input((6, 6, 2)), Standardized(3, 3, strides=2, padding="same"), keras.layers.Flatten(),
         keras.layers.Dense(2, "softmax")]
    )  # fmt: skip
    start(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
    return fitted(model, x, y)
