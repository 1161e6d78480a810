"""Calls with other values of the variables: they leave the layer, the optimiser and the metric as they are.

The numbers are those of Keras 3.15 on torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import keras


def model() -> Any:
    layers = keras.layers
    made = keras.Sequential(
        [keras.Input((2,)), layers.Dense(2, name="a", kernel_regularizer="l2"), layers.BatchNormalization(name="b")],
        name="m",
    )
    made.set_weights([np.eye(2) * 2, np.ones(2), np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)])
    return made


X = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)


def test_stateless_call() -> None:
    net = model()
    before = net.get_weights()
    trained, others = net.trainable_variables, net.non_trainable_variables
    doubled = [pyapp.tensor(w.numpy()) * 2 for w in trained]
    outputs, after, losses = net.stateless_call(doubled, others, X, training=True, return_losses=True)
    assert outputs.tolist() == [pytest.approx([-2.0, -2.0], abs=1e-3), pytest.approx([2.0, 2.0], abs=1e-3)]
    assert [v.tolist() for v in after] == [pytest.approx([0.1, 0.18]), pytest.approx([1.15, 1.63])]
    assert [float(loss) for loss in losses] == [pytest.approx(0.32)]
    for own, kept in zip(net.get_weights(), before, strict=True):
        assert np.array_equal(own, kept)

    def loss(values: Any) -> Any:
        return net.stateless_call(values, others, X)[0].sum()

    gradient = pyapp.func.grad(loss)([pyapp.tensor(w.numpy()) for w in trained])
    scale = 1 / np.sqrt(1.001)
    assert gradient[0].tolist() == [pytest.approx([4 * scale] * 2), pytest.approx([8 * scale] * 2)]
    net.stateless_call(trained, others, X)[0].sum().backward()
    assert trained[0].grad.tolist() == gradient[0].tolist()
    with pytest.raises(ValueError, match="each of 4 variables, got 0"):
        net.stateless_call([], others, X)
    with pytest.raises(ValueError, match="shape"):
        net.stateless_call([pyapp.ones(1)] * 4, others, X)
    with pytest.raises(ValueError, match="no variables yet"):
        keras.layers.Dense(1).stateless_call([], [], X)


def test_stateless_steps_and_metrics() -> None:
    net = model()
    weights = net.trainable_variables[:1]
    optimizer = keras.optimizers.SGD(0.5, momentum=0.5)
    optimizer.build(weights)
    states: Any = optimizer.variables
    values: Any = weights
    for _ in range(2):
        values, states = optimizer.stateless_apply(states, [pyapp.ones(2, 2)], values)
    assert values[0].tolist() == [[0.75, -1.25], [-1.25, 0.75]] and int(states[0]) == 2
    assert weights[0].tolist() == [[2.0, 0.0], [0.0, 2.0]] and int(optimizer.variables[0]) == 0
    assert float(optimizer.variables[2].abs().sum()) == 0
    metric = keras.metrics.MeanSquaredError()
    state: Any = metric.variables
    for error in (1.0, 3.0):
        state = metric.stateless_update_state(state, X, X + error)
    assert float(metric.stateless_result(state)) == 5.0 and float(metric.result()) == 0.0
    assert [float(v) for v in metric.stateless_reset_state()] == [0.0, 0.0]
    assert repr(metric) == "<MeanSquaredError name=mean_squared_error>"


def test_trees_of_state() -> None:
    net = model()
    net.compile(keras.optimizers.SGD(0.5, name="sgd"), "mse", metrics=["mae"])
    net.fit(X, X, epochs=1, verbose=0)
    tree = net.get_state_tree("numpy_array")
    assert {name.removesuffix("_variables") for name in tree} == {"trainable", "non_trainable", "optimizer", "metrics"}
    assert list(tree["trainable_variables"]["m"]["a"]) == ["kernel", "bias"]
    assert list(tree["optimizer_variables"]["sgd"]) == ["iteration", "learning_rate"]
    other = model()
    other.compile(keras.optimizers.SGD(0.1, name="sgd"), "mse", metrics=["mae"])
    other.fit(X, X, epochs=1, verbose=0)
    other.set_state_tree(tree)
    assert other.predict(X, verbose=0).tolist() == net.predict(X, verbose=0).tolist()
    assert other.optimizer.learning_rate == 0.5
    loss, (_, others, _) = net.stateless_compute_loss(
        net.trainable_variables, net.non_trainable_variables, net.metrics_variables, x=X, y=X, y_pred=net(X)
    )
    assert float(loss) == pytest.approx(float(net.compute_loss(X, X, net(X)))) and len(others) == 2
    with pytest.raises(ValueError, match="none of"):
        net.set_state_tree({"weights": {}})
