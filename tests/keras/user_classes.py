"""Small trainings with classes of a user's own, in Keras' own style (see scripts.py): layers that say the shapes of
their outputs, builds for several inputs, subclasses of attention, models with metrics of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.script_tools import fitted, numbers, script, start


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@script
def layers_that_say_their_shapes(keras: Any) -> Any:
    seen: list[Any] = []

    class Places(keras.layers.Layer):
        """A table of eight places: longer inputs are refused."""

        def build(self, input_shape: Any) -> None:
            seen.append([-1 if n is None else n for n in input_shape])
            self.table = self.add_weight(shape=(8, input_shape[-1]), name="table")

        def call(self, inputs: Any) -> Any:
            length = keras.ops.shape(inputs)[1]
            return inputs + keras.ops.broadcast_to(self.table[:length], (length, inputs.shape[-1]))

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape

    class Both(keras.layers.Layer):
        def build(self, query_shape: Any, context_shape: Any) -> None:
            self.first = self.add_weight(shape=(query_shape[-1], 2), name="first")
            self.second = self.add_weight(shape=(context_shape[-1], 2), name="second")

        def call(self, query: Any, context: Any) -> Any:
            return keras.ops.matmul(query, self.first) + keras.ops.matmul(context, self.second)

        def compute_output_shape(self, query_shape: Any, context_shape: Any) -> Any:
            return (*query_shape[:-1], 2)

    query, context = keras.Input((None, 3)), keras.Input((None, 5))
    both = Both()
    model = keras.Model([query, context], both(Places()(query), context=context))
    start(model)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    found = fitted(model, [_normal(6, 4, 3), _normal(6, 4, 5, seed=1)], _normal(6, 4, 2, seed=2))
    shapes = both.get_build_config()["shapes_dict"]
    said = [-1 if n is None else n for shape in (*shapes.values(), model.output.shape) for n in shape]
    return [found, seen, said, len(shapes), [int(np.prod(w.shape)) for w in model.weights]]


@script
def short_tables_of_positions(keras: Any) -> Any:
    """Layers without `compute_output_shape`, whose tables are shorter than the inputs that a length could have."""

    class Embedded(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = keras.layers.Embedding(9, 4), keras.layers.Embedding(6, 4)

        def call(self, inputs: Any) -> Any:
            return self.tokens(inputs) + self.places(keras.ops.arange(keras.ops.shape(inputs)[-1]))

    class Block(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.attention = keras.layers.MultiHeadAttention(2, 3)
            self.dense = keras.Sequential([keras.layers.Dense(5, "relu"), keras.layers.Dense(4)])

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs + self.attention(inputs, inputs))

    inputs = keras.Input((None,), dtype="int64")
    x = Block()(Embedded()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x)))
    start(model)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    found = fitted(model, np.arange(24).reshape(4, 6) % 9, _normal(4, 2))
    alone = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(3)])
    alone(_normal(2, 4, 3))
    start(alone)
    return [
        found,
        keras.ops.convert_to_numpy(alone(_normal(3, 7, 3, seed=1))),
    ]  # of another length than the first batch


@script
def attention_of_ones_own(keras: Any) -> Any:
    """The parts of MultiHeadAttention, which packages for Keras call and replace."""
    ops = keras.ops

    class Cached(keras.layers.MultiHeadAttention):
        def call(
            self, query: Any, value: Any, key: Any = None, attention_mask: Any = None, training: Any = None
        ) -> Any:
            key = ops.concatenate(
                [self._key_dense(value), ops.ones((query.shape[0], 1, self._num_heads, self._key_dim))], 1
            )
            values = ops.concatenate([self._value_dense(value), ops.zeros(key[:, :1].shape)], 1)
            found, _ = self._compute_attention(
                self._query_dense(query), key, values, attention_mask=attention_mask, training=training
            )
            return self._output_dense(found)

    class Rescaled(keras.layers.MultiHeadAttention):
        def build(self, shape: Any) -> None:
            options = {**self._get_common_kwargs_for_sublayer(), "dtype": self.dtype_policy}
            self._query_dense = keras.layers.EinsumDense(
                "abc,cde->abde", (None, self._num_heads, self._key_dim), bias_axes="de", name="query", **options
            )
            self._query_dense.build(shape)
            self._build_attention(4)
            self.built = True

        def call(self, x: Any, mask: Any = None) -> Any:
            heads = self._query_dense(x)
            scores = ops.einsum(self._dot_product_equation, heads, heads) * self._inverse_sqrt_key_dim
            scores = self._masked_softmax(scores, mask)
            return ops.einsum(self._combine_equation, self._dropout_layer(scores), heads)

    x, places = _normal(2, 3, 4), np.ones((2, 3, 4), bool)
    places[0, 1], places[1, 2, 1:] = False, False
    cached, rescaled = Cached(2, 3), Rescaled(2, 3, dropout=0.1)
    cached(x, x)
    start(cached)
    rescaled(x)
    start(rescaled)
    whole = keras.layers.MultiHeadAttention(2, 3, dropout=0.1)
    whole(x, x)
    start(whole)
    mask = places[:, :, :3]
    results = [
        cached(x, x), cached(x, x, attention_mask=places), rescaled(x), rescaled(x, mask),
        whole(x, x, attention_mask=mask), *whole(x, x, attention_mask=mask, return_attention_scores=True),
        ops.dot_product_attention(*(_normal(2, 3, 2, 4, seed=k) for k in range(3)), mask=mask[:, None]),
        ops.take_along_axis(x, np.array([[[2], [0]], [[1], [-1]]]), 1),
        keras.layers.Softmax()(x[..., :3], mask=np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]])),
    ]  # fmt: skip
    return [[ops.convert_to_numpy(one) for one in results], len(cached.weights), len(rescaled.weights)]


@script
def functions_of_symbols(keras: Any) -> Any:
    x = keras.Input((4,))
    names = ("relu", "gelu", "silu", "softplus", "tanh", "elu", "selu", "relu6", "softmax", "log_softmax", "leaky_relu")
    every = [getattr(keras.activations, name)(x) for name in names]
    every += [keras.activations.gelu(x, approximate=True), keras.activations.relu(x, max_value=0.5)]
    found = keras.Model(x, every)(_normal(3, 4))
    function = keras.Function(x, keras.ops.tanh(keras.ops.matmul(x, np.ones((4, 2), "float32"))))
    again = keras.Input((4,))
    config = keras.saving.serialize_keras_object({"a": keras.activations.relu, "b": [keras.losses.mean_squared_error]})
    read = keras.saving.deserialize_keras_object(config)
    sizes = keras.ops.shape(keras.Input((None, 3)))
    return [
        found, function(_normal(3, 4)), keras.Model(again, function(again))(_normal(3, 4)), len(function.outputs),
        read["a"](_normal(3)), read["b"][0](_normal(2, 3), _normal(2, 3, seed=1)),
        config["a"]["class_name"] == "function",
        [sizes[0] is None, sizes[1] is None, sizes[2]], keras.activations.get(config["a"])(_normal(2)),
    ]  # fmt: skip


@script
def models_with_attributes_and_metrics_of_their_own(keras: Any) -> Any:
    class Named(keras.Model):
        def __init__(self) -> None:
            inputs = keras.Input((6,))
            dense = keras.layers.Dense(3, "tanh")
            super().__init__(inputs, keras.layers.Dense(1)(dense(inputs)))
            self.dense = dense  # a layer of the graph, by another name
            self.distance = keras.metrics.Mean(name="distance")

        @property
        def metrics(self) -> list[Any]:
            return [self.distance]

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            loss = keras.ops.mean(keras.ops.square(y - y_pred))
            self.distance.update_state(keras.ops.sqrt(loss))
            return loss

    x, y = numbers(24, 6, 2)
    model = Named()
    start(model)
    model.compile(keras.optimizers.Adam(0.01))
    found = fitted(model, x, y[:, None].astype("float32"))
    state: dict[str, Any] = {}
    model.optimizer.save_own_variables(state)
    other = keras.optimizers.Adam(0.5)
    other.build(model.trainable_variables)
    other.load_own_variables(state)
    read = [np.asarray(keras.ops.convert_to_numpy(variable)) for variable in other.variables]
    model.layers[1].trainable = False
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(2)])
    outer = keras.Sequential([inner, keras.layers.Dense(1)])
    inner.trainable = False
    inner.layers[0].trainable = True
    trained = [len(one.trainable_weights) for one in (model, outer, inner)]
    shared = keras.layers.Dense(2)
    a, b = keras.Input((3,)), keras.Input((3,))
    shared(a), shared(b)
    first = keras.Model(a, shared.output)  # that of the first call
    return [found, len(model.layers), read, trained, first.count_params(), bool(inner.run_eagerly)]


@script
def renormalized_batches(keras: Any) -> Any:
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.BatchNormalization(renorm=True, renorm_momentum=0.8, momentum=0.9, name="free"),
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(
                renorm=True, renorm_clipping={"rmax": 1.5, "rmin": 0.7, "dmax": 0.3}, scale=False, name="clipped"
            ),
            keras.layers.Dense(1),
        ]
    )
    start(model)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    return [fitted(model, 2 * _normal(24, 4) + 1, _normal(24, 1, seed=1)), model.get_layer("free").get_weights()]


@script
def layers_that_are_computed_again(keras: Any) -> Any:
    found = []
    for settings in (
        {"mode": "full"}, {"mode": "activations"}, {"mode": "larger_than", "output_size_threshold": 10},
        {"mode": "list_of_layers", "layer_names": ["first"]}, {"mode": None},
    ):  # fmt: skip
        with keras.RematScope(**settings):
            inputs = keras.Input((5, 3))
            x = keras.layers.Dense(4, activation="gelu", name="first")(inputs)
            x = keras.layers.LayerNormalization()(keras.layers.MultiHeadAttention(2, 2)(x, x))
            model = keras.Model(inputs, keras.layers.Dense(2)(x))
        start(model)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        found.append(fitted(model, _normal(8, 5, 3), _normal(8, 5, 2, seed=1)))
    return [found, keras.remat(lambda x: keras.ops.sin(x) * 2)(_normal(3))]
