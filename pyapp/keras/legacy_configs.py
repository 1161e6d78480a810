"""Configurations of Keras 1 and 2 as those of Keras 3: layers, calls and what a model was compiled with.

Keras 1 and 2 named no modules, wrote the calls of a functional model as [[layer, call, output, arguments], …], and
called some settings otherwise. Files with the ending .h5 that Keras 3 writes have its own settings in this form.
Source: the configurations of tf_keras 2 and of Keras 3.15.1 in such files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RENAMED = {  # by class: what Keras 3 calls a setting
    "LeakyReLU": {"alpha": "negative_slope"},
    "Input": {"batch_input_shape": "batch_shape"},
    "InputLayer": {"batch_input_shape": "batch_shape"},
}
# Settings that say how Keras 2 computed, not what, or that are at their only value in Keras 3.
_LEFT_OUT = frozenset(
    "implementation time_major input_length fused virtual_batch_size adjustment query_shape key_shape value_shape "
    "is_legacy_optimizer jit_compile decay sample_weight_mode rng_type fn".split()
)
_LAMBDA_LEFT_OUT = frozenset("module function_type output_shape_type output_shape_module".split())
_CLASSES = {"Model": "Functional", "Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "Convolution3D": "Conv3D"}
_BY_OUTPUT = ("accuracy", "acc", "crossentropy", "ce")  # metrics that compile chooses by the shape of the output


def as_keras_3(given: Any) -> Any:
    """A model or layer of a configuration, {"class_name", "config"}, in the form of Keras 3. A Sequential model of
    Keras 1 is a list of layers."""
    if isinstance(given, list):
        return [as_keras_3(value) for value in given]
    if not isinstance(given, Mapping):
        return given
    if "class_name" not in given or "config" not in given:
        return {key: as_keras_3(value) for key, value in given.items()}
    name = _CLASSES.get(str(given["class_name"]), str(given["class_name"]))
    if name in ("Policy", "__lambda__", "__keras_tensor__", "function"):
        policy = name == "Policy" and isinstance(given["config"], Mapping)
        return str(given["config"].get("name")) if policy else dict(given)
    config = given["config"]
    if name == "Sequential" and isinstance(config, list):
        config = {"layers": config}
    made = {key: value for key, value in given.items() if key not in ("class_name", "config")}
    if isinstance(config, Mapping):
        config = _settings(name, config if "input_layers" not in config else _numbered(config))
    if "inbound_nodes" in made:
        made["inbound_nodes"] = [_node(node) for node in made["inbound_nodes"]]
    return {**made, "class_name": name, "config": config}


def _settings(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    renamed = _RENAMED.get(name, {})
    left_out = _LEFT_OUT | _LAMBDA_LEFT_OUT if name == "Lambda" else _LEFT_OUT
    # Keras 2 wrote the settings of Conv2D for these layers, too.
    if name.startswith("Separable"):
        left_out |= {"groups", "kernel_initializer", "kernel_regularizer", "kernel_constraint"}
    elif name.startswith("Depthwise") or name.endswith("Transpose"):
        left_out |= {"groups"}
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in left_out and key not in renamed:
            continue
        if key == "batch_input_shape" and key not in renamed:
            found["input_shape"] = list(value)[1:]
        elif key == "axis" and isinstance(value, list) and len(value) == 1 and name == "BatchNormalization":
            found[key] = value[0]
        elif key == "function" and name == "Lambda" and isinstance(value, list):
            found[key] = {"class_name": "__lambda__", "config": value}
        else:
            found[renamed.get(key, key)] = as_keras_3(value)
    if name == "LSTM" and found.get("recurrent_activation") is None and "inner_activation" in found:
        found["recurrent_activation"] = found.pop("inner_activation")
    return found


def _numbered(config: Mapping[str, Any]) -> dict[str, Any]:
    """A functional model whose calls are numbered from 0: Keras 2 counted that with which a model inside was made."""
    calls = {str(layer.get("name")): len(layer.get("inbound_nodes") or ()) for layer in config["layers"]}
    used: dict[str, int] = {}  # the largest number of a call

    def places(value: Any, shift: bool) -> Any:
        if isinstance(value, Mapping):
            return {key: places(inner, shift) for key, inner in value.items()}
        if not isinstance(value, list):
            return value
        if len(value) >= 3 and isinstance(value[0], str) and isinstance(value[1], int) and value[0] in calls:
            used[value[0]] = max(used.get(value[0], 0), value[1])
            number = value[1] - 1 if shift and 0 < calls[value[0]] <= used[value[0]] else value[1]
            return [value[0], number, value[2], *(places(inner, shift) for inner in value[3:])]
        return [places(inner, shift) for inner in value]

    for shift in (False, True):
        layers = [
            {**layer, "inbound_nodes": places(layer.get("inbound_nodes") or [], shift)} for layer in config["layers"]
        ]
        outputs = places(config["output_layers"], shift)
    return {**config, "layers": layers, "output_layers": outputs}


def _node(node: Any) -> Any:
    """A call: [[layer, call, output, arguments], …], or a dict of such by name, as {"args", "kwargs"}."""
    if isinstance(node, Mapping) and "args" in node:
        return node
    kwargs: dict[str, Any] = {}

    def tensor(entry: Any) -> Any:
        if len(entry) > 3 and isinstance(entry[3], Mapping):
            kwargs.update({key: argument(value) for key, value in entry[3].items()})
        return {"class_name": "__keras_tensor__", "config": {"keras_history": list(entry[:3])}}

    def argument(value: Any) -> Any:
        """An argument of a call; another layer's output is [layer, call, output]."""
        if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and isinstance(value[1], int):
            return tensor(value)
        return [argument(inner) for inner in value] if isinstance(value, list) else as_keras_3(value)

    if isinstance(node, Mapping):
        return {"args": [{key: tensor(entry) for key, entry in node.items()}], "kwargs": kwargs}
    if node and isinstance(node[0], str):  # one tensor, not in a list
        node = [node]
    tensors = [tensor(entry) for entry in node]
    return {"args": tensors if len(tensors) == 1 else [tensors], "kwargs": kwargs}


def compiled_with(training: Mapping[str, Any]) -> dict[str, Any]:
    """The "training_config" of an .h5 file as what `Reading.compile` takes."""
    metrics = [_of(training.get(key), "keras.metrics") for key in ("metrics", "weighted_metrics")]
    return {
        "optimizer": _of(training["optimizer_config"], "keras.optimizers"),
        "loss": _of(training.get("loss"), "keras.losses"), "loss_weights": training.get("loss_weights"),
        "metrics": _one_list(metrics[0]), "weighted_metrics": _one_list(metrics[1]),
        "run_eagerly": bool(training.get("run_eagerly", False)),
    }  # fmt: skip


def _one_list(metrics: Any) -> Any:
    """Keras 2 wrote the metrics of a model with one output as a list in a list."""
    nested = isinstance(metrics, list) and len(metrics) == 1 and isinstance(metrics[0], list)
    return metrics[0] if nested else metrics


def _of(value: Any, module: str) -> Any:
    """Losses, metrics or an optimiser, with Keras 3's module; of a metric around a function that function's name."""
    if isinstance(value, list):
        return [_of(inner, module) for inner in value if inner is not None]  # [None] are the metrics of an output
    if not isinstance(value, Mapping):
        return value
    if "class_name" not in value or "config" not in value:
        return {key: _of(inner, module) for key, inner in value.items()}
    name, config = str(value["class_name"]), value["config"]
    if name == "function":
        return dict(value)
    name = name.removeprefix("Custom>") if module == "keras.optimizers" else name
    settings = _settings(name, config) if isinstance(config, Mapping) else config
    if name in ("MeanMetricWrapper", "SumOverBatchSizeMetricWrapper", "LossFunctionWrapper"):
        end = str(settings.get("name")).rsplit("_", 1)[-1]  # after the name of the output
        return end if end in _BY_OUTPUT else config.get("fn", settings.get("name"))
    if settings.get("reduction") == "auto":
        settings["reduction"] = "sum_over_batch_size"
    if "lr" in settings:
        settings["learning_rate"] = settings.pop("lr")
    rate = settings.get("learning_rate")
    if isinstance(rate, Mapping) and "module" not in rate:
        settings["learning_rate"] = {**rate, "module": "keras.optimizers.schedules"}
    found = {key: inner for key, inner in value.items() if key not in ("class_name", "config", "shared_object_id")}
    return {"module": module, **found, "class_name": name, "config": settings}
