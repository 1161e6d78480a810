"""Models in Keras' form: Sequential, functional (`Model(inputs, outputs)`) and subclasses; compile, fit, evaluate,
predict.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..compiler import Compiled
from ..engine import Tensor, as_dtype, no_grad, ops
from ..engine.lazy import np
from ..train import fit as loops
from ..train.batches import ArrayBatches, as_batch, batches_of, class_weighted, is_array
from ..train.callbacks import CallbackList, History
from ..train.floats import floatx
from ..train.metrics import Mean, Metric
from ..train.names import unique_name
from ..train.progress import ProgressBar
from ..train.stateless import check_count, holding, values_of
from . import optimizers, quantizers, saving, summaries
from .call_graph import CallGraph, as_batch_of
from .call_state import training_mode, weights_of
from .compiling import CompiledLoss, CompiledMetrics, batch_size_of, by_path, parts_of, weights_of_outputs
from .core import Function, InputLayer, Layer, arguments_of, as_layer
from .held_values import values_in
from .keras_configs import Reading, compile_config, describe, functional_config, sequential_config
from .settings import SETTINGS
from .structures import flatten, is_nested, map_shapes, map_structure, paths_of, unflatten
from .symbolic_tensors import KerasTensor, record

__all__ = ["Functional", "Model", "Sequential", "clone_model"]


class Model(Layer):
    """A layer that can be trained. `Model(inputs, outputs)` is functional; a subclass writes `call`.

    `compiled_step` says after training how steps ran: as one call ("captured"), or why not.
    """

    keras_module = "keras"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(Functional if cls is Model and (args or "inputs" in kwargs) else cls)

    def __init__(
        self, inputs: Any = None, outputs: Any = None, *, name: str | None = None, trainable: bool = True,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name=name, trainable=trainable, dtype=dtype)
        if (inputs is None) != (outputs is None):
            raise ValueError("Model: inputs and outputs are given together")
        object.__setattr__(self, "graph", None)
        self.stop_training = False
        self.run_eagerly = False
        self._last_batch: Any = (None, None, None)
        self.optimizer: Any = None
        self.loss: Any = None  # what compile was given
        self._first_inputs: Any = None  # the shapes and dtypes of the first batch of a subclass
        self.history: History | None = None
        self._compiled: dict[str, Any] | None = None
        if inputs is not None:
            inputs, outputs = _single(inputs), _single(outputs)
            object.__setattr__(self, "graph", CallGraph(inputs, outputs))
            early = dict(self._modules)  # attributes that were assigned before super().__init__()
            self._modules.clear()
            for number, layer in enumerate(self.graph.layers):
                self._modules[f"layer_{number}"] = layer
            self._modules.update(early)
            self.built = True

    def _in_compute_dtype(self, tensor: Tensor) -> Tensor:
        if self.graph is None and not isinstance(self, Sequential):
            return super()._in_compute_dtype(tensor)
        wanted = as_dtype(self.variable_dtype)  # the layers inside convert it further
        return tensor.to(wanted) if tensor.dtype.is_floating_point and tensor.dtype is not wanted else tensor

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        return None  # the layers inside have set the masks of the outputs

    # -- structure

    @property
    def layers(self) -> list[Layer]:
        """The layers directly inside, in order; functions of `keras.ops` and operators are in `operations`."""
        return [layer for layer in self.operations if not (layer.is_operation or layer.is_own_operation)]

    @property
    def operations(self) -> list[Layer]:
        """The layers directly inside, and the functions among them that have no weights, in order."""
        if self.graph is not None:
            return list(self.graph.layers)  # without attributes that a subclass of a functional model has
        return [child for child in self._modules.values() if isinstance(child, Layer)]

    @property
    def inputs(self) -> list[KerasTensor]:
        """The symbolic inputs of a functional model."""
        return [] if self.graph is None else flatten(self.graph.inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs of a functional model."""
        return [] if self.graph is None else flatten(self.graph.outputs)

    @property
    def input(self) -> Any:
        """The symbolic input of the model, or its inputs."""
        if not self.inputs:
            return super().input
        return self.inputs[0] if len(self.inputs) == 1 else self._structure("inputs")

    @property
    def output(self) -> Any:
        """The symbolic output of the model, or its outputs."""
        if not self.outputs:
            return super().output
        return self.outputs[0] if len(self.outputs) == 1 else self._structure("outputs")

    def _structure(self, of: str) -> Any:
        return getattr(self, of) if self.graph is None else getattr(self.graph, of)

    @property
    def input_shape(self) -> Any:
        shapes = [leaf.shape for leaf in self.inputs]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def output_shape(self) -> Any:
        shapes = [leaf.shape for leaf in self.outputs]
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def output_names(self) -> list[str]:
        """The names that losses, metrics and labels of several outputs have."""
        if self.graph is None:
            return []
        if isinstance(self.graph.outputs, Mapping):
            return sorted(self.graph.outputs)
        names: list[str] = []
        for leaf in self.outputs:
            name = leaf.call.layer.name if leaf.call is not None else leaf.name
            names.append(name if name not in names else f"{name}_{len(names)}")
        return names

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name or number. ValueError if there is none."""
        if index is not None:
            if not -len(self.layers) <= index < len(self.layers):
                raise ValueError(f"{self.name} has {len(self.layers)} layers, but none with the number {index}")
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(
            f"{self.name} has no layer {name!r}; there are {', '.join(layer.name for layer in self.layers)}"
        )

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        if self.graph is None:
            raise NotImplementedError(f"{type(self).__name__} has no call()")
        return self.graph.run(inputs, training)

    def summary(
        self, line_length: int | None = None, positions: Any = None, print_fn: Callable[[str], Any] | None = None,
        expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None,
    ) -> None:  # fmt: skip
        """Prints a table of the layers, their output shapes and numbers of parameters. `expand_nested` shows the layers
        of models inside, `show_trainable` whether layers train, `layer_range` those from a name to another;
        `positions` are the ends of the columns, as parts of a line."""
        text = summaries.summary(self, line_length, positions, expand_nested, show_trainable, layer_range)
        if print_fn is None:
            print(text)
        else:
            print_fn(text + "\n")

    # -- weights of subclasses

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights of a subclass: a call with zeros of the shapes, the batch's size (or None) first."""
        if self.graph is None and input_shape is not None and not self.built:
            self.built = True  # the call shall not build again
            self._first_inputs = map_shapes(lambda shape: {"batch_shape": list(shape), "dtype": floatx()}, input_shape)
            self.compute_output_shape(input_shape)

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        leaves = flatten(inputs)
        if all(isinstance(leaf, Tensor) for leaf in leaves):  # what a file says, so that weights can be read
            self._first_inputs = map_structure(
                lambda leaf: {"batch_shape": [None, *leaf.shape[1:]], "dtype": leaf.dtype.name}, inputs
            )
        if type(self).build is not Model.build:
            super()._build_for(inputs, args, kwargs)
        self.built = True

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, *, type_check: bool = True) -> None:
        """Quantises the layers inside that can be: to "int8" or "int4" numbers, or for training in "float8"; `config`
        says how (see `keras.quantizers`). `filters` chooses layers: a regular expression that their names contain, a
        list of them, or a function of a layer. Layers that cannot be quantised stay as they are, and a warning names
        them. A compiled model is to be compiled again. ValueError for a layer that is not built or is quantised."""
        config = quantizers.resolved(mode, config)
        left: list[str] = []
        chosen = 0
        for layer in (module for module in self.modules() if isinstance(module, Layer)):
            inside = any(isinstance(other, Layer) for other in layer._modules.values())
            if inside or layer is self or not _is_chosen(layer, filters):
                continue
            try:
                layer.quantize(config=config, type_check=type_check)
                chosen += 1
            except NotImplementedError:
                left += [layer.name] if layer.weights else []
        if left:
            warnings.warn(f"{self.name}: not quantised to {config.mode}: {', '.join(left)}", stacklevel=2)
        if chosen and self.compiled:
            self._steps.clear()

    # -- compile

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, metrics: Any = None,
        weighted_metrics: Any = None, run_eagerly: bool = False, steps_per_execution: int = 1,
        jit_compile: Any = "auto", auto_scale_loss: bool = True,
    ) -> None:  # fmt: skip
        """Sets the optimiser, the losses and the metrics. Steps with inputs of steady shapes run as one call, unless
        `run_eagerly`, or `jit_compile` is False. `steps_per_execution` is accepted: a step is one call already. With
        `auto_scale_loss` the optimiser of a model with the policy mixed_float16 is put into a LossScaleOptimizer.
        """
        found = optimizers.get(optimizer)
        if not isinstance(found, optimizers.Optimizer):
            raise TypeError(f"compile: takes a name or an optimiser of keras.optimizers, not {optimizer!r:.60}")
        scales = isinstance(found, optimizers.LossScaleOptimizer)
        if auto_scale_loss and self.dtype_policy.name == "mixed_float16" and not scales:
            found = optimizers.LossScaleOptimizer(found, name="loss_scale_optimizer")
        self.optimizer, self.loss = found, loss
        self._compiled = {
            "optimizer": found, "loss": loss, "loss_weights": loss_weights, "metrics": metrics,
            "weighted_metrics": weighted_metrics,
        }  # fmt: skip
        self.run_eagerly = run_eagerly
        self.jit_compile = bool(jit_compile)
        self._loss_tracker = Mean(name="loss")
        self._output_trackers: list[Mean] = []
        self._compiled_loss: CompiledLoss | None = None
        self._compiled_metrics: CompiledMetrics | None = None
        self._steps: dict[Any, Compiled] = {}
        self._steps_of = id(self)  # whose weights they change: a copy of the model has another
        self._last_logs: dict[str, Any] | None = None

    def get_compile_config(self) -> dict[str, Any]:
        """What `compile` was given, as JSON values."""
        return compile_config(self)

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        """Compiles the model as `get_compile_config` says, here or in Keras. FileFormatError where that fails."""
        Reading("compile_from_config").compile(self, config)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has, and a pickle: all but the captured steps, which change the weights of this model."""
        return {**self.__dict__, "_steps": {}, "_last_batch": (None, None, None)}

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    def _must_be_compiled(self) -> dict[str, Any]:
        if self._compiled is None:
            raise ValueError(f"{self.name}: call compile() before training and evaluation")
        return self._compiled

    def _prepare(self, y_pred: Any) -> None:
        """Fits losses and metrics to the outputs, which a subclass shows only when it runs."""
        given, outputs = self._must_be_compiled(), flatten(y_pred)
        if self._compiled_metrics is None:
            names = self.output_names
            if not names and isinstance(y_pred, Mapping):
                names = sorted(y_pred)
            measured = names
            if is_nested(y_pred):
                paths = paths_of(y_pred)
                given = {what: by_path(value, paths, what) for what, value in given.items() if what != "optimizer"}
                measured = self._leaf_names(len(paths))
                names = [
                    "/".join(map(str, path if isinstance(path[-1], str) else (*path[:-1], name)))
                    for path, name in zip(paths, measured, strict=True)
                ]
            if len(names) != len(outputs):
                names = measured = [f"output_{k + 1}" for k in range(len(outputs))]
            if given["loss"] is not None:
                self._compiled_loss = CompiledLoss(given["loss"], given["loss_weights"], names)
                wanted = self._compiled_loss.tracked
                if len(wanted) > 1:  # of one the total says the same
                    self._output_trackers = [Mean(name=f"{name}_loss") for name in wanted]
            self._compiled_metrics = CompiledMetrics(given["metrics"], given["weighted_metrics"], measured)

    def _leaf_names(self, count: int) -> list[str]:
        """Names of outputs in lists and dicts within one another: of the layers that gave them, or numbers."""
        names = [leaf.name if leaf.call is None else leaf.call.layer.name for leaf in self.outputs]
        return names if len(names) == count else [f"output_{k + 1}" for k in range(count)]

    # -- one step

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        """The loss of a batch, with the penalties of regularisers. A subclass may write its own."""
        outputs = flatten(y_pred)
        self._prepare(y_pred)
        total: Tensor | None = None
        if self._compiled_loss is not None:
            names = self._compiled_loss.names
            total, found = self._compiled_loss(
                self._compiled_loss.labels(y),
                outputs,
                weights_of_outputs(sample_weight, names),
            )
            values = [value for value in found if value is not None]
            for tracker, value in zip(self._output_trackers, values, strict=False):
                _track(tracker, value, batch_size_of(x))
        for penalty in self.losses:
            total = penalty if total is None else total + penalty
        if total is None:
            raise ValueError(f"{self.name}: there is no loss: compile() was given none, and no layer adds one")
        return total

    def stateless_compute_loss(
        self, trainable_variables: Any, non_trainable_variables: Any, metrics_variables: Any, x: Any = None,
        y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True,
    ) -> tuple[Tensor, tuple[Any, list[Tensor], list[Tensor]]]:  # fmt: skip
        """`compute_loss` with these values of the model's variables, which keep their own: (loss, (the trained ones,
        the others, those of metrics afterwards)).
        """
        trained, others, measured = self.trainable_variables, self.non_trainable_variables, self.metrics_variables
        own, values = [*trained, *others], [*trainable_variables, *non_trainable_variables]
        check_count(f"{self.name}.stateless_compute_loss", [*values, *metrics_variables], [*own, *measured])
        with values_in(self, own, values) as held, holding(measured, metrics_variables):
            loss = self.compute_loss(x, y, y_pred, sample_weight=sample_weight, training=training)
            return loss, (trainable_variables, values_of(held[len(trained) :]), values_of(measured))

    def _groups_of_state(self) -> dict[str, list[Any]]:
        """All variables, by the names that Keras' state trees have."""
        optimizer = getattr(self, "optimizer", None)
        return {
            "trainable_variables": self.trainable_variables,
            "non_trainable_variables": self.non_trainable_variables,
            "optimizer_variables": [] if optimizer is None else optimizer.variables,
            "metrics_variables": self.metrics_variables,
        }

    def get_state_tree(self, value_format: str = "backend_tensor") -> dict[str, Any]:
        """The values of the model's, the optimiser's and the metrics' variables as dicts within dicts, by the parts of
        their paths: tensors, or arrays with "numpy_array". ValueError where two variables have one path.
        """
        if value_format not in ("backend_tensor", "numpy_array"):
            raise ValueError(f"get_state_tree: value_format is backend_tensor or numpy_array, not {value_format!r}")
        tree: dict[str, Any] = {}
        for group, variables in self._groups_of_state().items():
            tree[group] = {}
            for variable in variables:
                *parts, last = variable.path.split("/")
                inner = tree[group]
                for part in parts:
                    inner = inner.setdefault(part, {})
                if last in inner:
                    raise ValueError(f"get_state_tree: two variables have the path {variable.path!r}: rename a layer")
                inner[last] = variable.value if value_format == "backend_tensor" else variable.numpy()
        return tree

    def set_state_tree(self, state_tree: Mapping[str, Any]) -> None:
        """Writes the values of such a tree, or of parts of one, into the variables. Paths that are not there are left
        out; ValueError for names of groups that are not Keras'.
        """
        groups = self._groups_of_state()
        for group, tree in state_tree.items():
            if group not in groups:
                raise ValueError(f"set_state_tree: {group!r} is none of {', '.join(groups)}")
            for variable in groups[group]:
                found: Any = tree
                for part in variable.path.split("/"):
                    found = found.get(part) if isinstance(found, Mapping) else None
                if found is not None:
                    variable.assign(found)

    def _forward(self, x: Any, y: Any, sample_weight: Any, training: bool) -> tuple[Any, Tensor]:
        self.clear_losses()
        # As in Keras: a `call` without the argument `training` runs its layers as in evaluation.
        y_pred = self(x, training=training) if "training" in arguments_of(type(self).call) else self(x)
        # A compute_loss of one's own may lack `training`.
        more = {"training": training} if "training" in arguments_of(type(self).compute_loss) else {}
        loss = self.compute_loss(x, y, y_pred, sample_weight, **more)
        return y_pred, loss

    def _gather(self, x: Any, y: Any, y_pred: Any, loss: Tensor, sample_weight: Any) -> None:
        _track(self._loss_tracker, loss, batch_size_of(x))
        if type(self).compute_metrics is Model.compute_metrics:
            self._update_metrics(y, y_pred, sample_weight)
        else:
            self._last_logs = dict(self.compute_metrics(x, y, y_pred, sample_weight))

    def _update_metrics(self, y: Any, y_pred: Any, sample_weight: Any) -> None:
        outputs = flatten(y_pred)
        if self._compiled_metrics is None:
            self._prepare(y_pred)
        assert self._compiled_metrics is not None
        if y is not None:
            compiled, names = self._compiled_loss, self._compiled_metrics.names
            labels = parts_of(y, names) if compiled is None else compiled.labels(y)
            self._compiled_metrics.update(labels, outputs, weights_of_outputs(sample_weight, names))

    def _train_step(self, x: Any, y: Any, sample_weight: Any) -> None:
        for weight in self.trainable_weights:
            weight.grad = None
        y_pred, loss = self._forward(x, y, sample_weight, True)
        weights = self.trainable_weights
        if weights:
            self.optimizer.scale_loss(loss).backward()
            self.optimizer.apply([w.grad for w in weights], weights)
        for weight in weights:
            weight.grad = None
        with no_grad():
            self._gather(x, y, y_pred, loss.detach(), sample_weight)
        self.detach_losses()

    def train_step(self, data: Any) -> dict[str, Any]:
        """A step from (x, y, sample_weight); returns the numbers so far. A subclass may write its own."""
        x, y, sample_weight = as_batch(data)
        self._train_step(x, y, sample_weight)
        return self.logs()

    def test_step(self, data: Any) -> dict[str, Any]:
        """Losses and metrics of a batch. A subclass may write its own."""
        x, y, sample_weight = as_batch(data)
        with no_grad():
            y_pred, loss = self._forward(x, y, sample_weight, False)
            self._gather(x, y, y_pred, loss, sample_weight)
        return self.logs()

    def train_batch(self, x: Any, y: Any, sample_weight: Any) -> None:
        """A step of the training, as one call where that is possible."""
        self._must_be_compiled()
        self._last_batch = x, y, sample_weight
        if type(self).train_step is not Model.train_step:
            self._last_logs = dict(self.train_step(_as_data(x, y, sample_weight)))
            return
        leaves = flatten([x, y, sample_weight])
        if (
            self.run_eagerly
            or not self.jit_compile
            or type(self).compute_metrics is not Model.compute_metrics  # it runs in Python, for each batch
            or not all(leaf is None or isinstance(leaf, Tensor) for leaf in leaves)
        ):
            self._train_step(x, y, sample_weight)
            return
        if self._steps_of != id(self):
            self._steps, self._steps_of = {}, id(self)
        structure = map_structure(lambda leaf: leaf is None, [x, y, sample_weight])
        key = repr(structure)
        step = self._steps.get(key)
        if step is None:

            def run(*flat: Tensor | None) -> None:
                self._train_step(*unflatten(structure, iter(flat)))

            step = self._steps[key] = Compiled(run, warns=False)
        try:
            step(*leaves)
        except IndexError:  # a number outside a table, found by a kernel of a Graph that knows no layers
            with no_grad():
                self._forward(x, y, sample_weight, False)
            raise

    @property
    def compiled_step(self) -> str:
        """How training steps run: "captured", "not captured yet", or why they cannot be captured."""
        if self._compiled is None or not self._steps:
            return "not captured yet"
        reasons = [step.reason for step in self._steps.values() if step.reason]
        if reasons:
            return f"eager: {reasons[0]}"
        return "captured" if any(step.captured for step in self._steps.values()) else "not captured yet"

    def where_not_finite(self) -> str | None:
        """After a loss that is not a number: where the batch, or else the weights, have the first such one; or None."""
        x, y, sample_weight = self._last_batch
        for what, part in (("the inputs", x), ("the labels", y), ("the weights of the examples", sample_weight)):
            for leaf in flatten(part):
                if isinstance(leaf, Tensor) and leaf.dtype.is_floating_point:
                    rows = (~leaf.isfinite()).reshape(leaf.shape[0], -1).any(1).nonzero().flatten().tolist()
                    if rows:
                        return f"{what} have NaN or infinity, first in example {rows[0]} of the batch"
        for layer in self.layers:
            if any(not bool(weight.isfinite().all()) for weight in layer.weights if weight.dtype.is_floating_point):
                return f"the weights of layer {layer.name} are not numbers any more; try a smaller learning rate"
        return None

    def test_batch(self, x: Any, y: Any, sample_weight: Any) -> None:
        """Losses and metrics of a batch."""
        self._must_be_compiled()
        found = self.test_step(_as_data(x, y, sample_weight))
        if type(self).test_step is not Model.test_step:
            self._last_logs = dict(found)

    def logs(self) -> dict[str, Any]:
        """Losses and metrics since the last reset, by name."""
        found = self.get_metrics_result() if self._last_logs is None else self._last_logs
        return dict(sorted(_flat_logs(found).items()))

    def get_metrics_result(self) -> dict[str, Any]:
        """The mean of the loss and the metrics since the last reset, by name."""
        if type(self).metrics is not Model.metrics:  # a subclass says which there are
            own = [(metric.name, metric.result()) for metric in self.metrics]
            return {key: value for name, one in own for key, value in _by_name(name, one).items()}
        found: dict[str, Any] = {"loss": self._loss_tracker.result()}
        found |= {tracker.name: tracker.result() for tracker in self._output_trackers}
        if self._compiled_metrics is not None:
            found |= self._compiled_metrics.results()
        for metric in self._own_metrics:
            found |= _by_name(metric.name, metric.result())
        return dict(sorted(found.items()))

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Adds a batch to the metrics of `compile`; returns all numbers so far. A subclass may write its own, which
        returns what is reported."""
        self._update_metrics(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def reset_metrics(self) -> None:
        """Begins the numbers again."""
        self._must_be_compiled()
        self._last_logs = None
        for tracker in (self._loss_tracker, *self._output_trackers):
            tracker.reset_state()
        if self._compiled_metrics is not None:
            self._compiled_metrics.reset_state()
        for metric in self.metrics:
            metric.reset_state()

    @property
    def metrics(self) -> list[Any]:
        """The mean of the loss, the metrics of `compile` as one, "compile_metrics", the losses of several outputs, and
        the metrics that are attributes of the model or its layers. All begin again with each epoch. A subclass may say
        which it has.
        """
        if self._compiled is None:
            return [*self._own_metrics]
        compiled = [] if self._compiled_metrics is None else [self._compiled_metrics]
        return [self._loss_tracker, *compiled, *self._output_trackers, *self._own_metrics]

    @property
    def _own_metrics(self) -> list[Metric]:
        """The metrics that are attributes of the model or its layers."""
        return [
            value
            for module in self.modules()
            for name, value in vars(module).items()
            if isinstance(value, Metric) and name != "_loss_tracker"
        ]

    @property
    def metrics_names(self) -> list[str]:
        """The names in the order of `evaluate`'s list; of a subclass that says which metrics it has, theirs."""
        if type(self).metrics is not Model.metrics:
            return [metric.name for metric in self.metrics]
        if self._compiled is None:
            return ["loss", *(metric.name for metric in self._own_metrics)]
        return self._order(self.get_metrics_result())

    def _loss_names(self) -> list[str]:
        """The names of the outputs' losses, in the order that compile was given them in for outputs in a dict."""
        names, given = [tracker.name for tracker in self._output_trackers], self.loss
        if isinstance(given, Mapping) and self.graph is not None and isinstance(self.graph.outputs, Mapping):
            order = list(given)
            names.sort(key=lambda name: order.index(name.removesuffix("_loss").split("/")[0]))
        return names

    def _order(self, logs: Mapping[str, Any]) -> list[str]:
        """The names of numbers in Keras' order: those of `metrics`, the losses of the outputs, then by name. As in
        Keras, a name that several metrics have stands there once for each of them."""
        names: list[str] = []
        listed: list[Any] = []  # the trackers of the outputs' losses, whose names stand with the compiled metrics
        for metric in self.metrics:
            if isinstance(metric, CompiledMetrics):
                listed = self._output_trackers
                names += [one.name for _, one, _ in metric.metrics or ()] if len(metric.names) == 1 else ()
                names += self._loss_names()
            elif all(metric is not one for one in listed):
                names.append(metric.name)
        names = [name for name in names if name in logs]
        return [*names, *sorted(logs.keys() - set(names))]

    def _in_order(self, logs: Mapping[str, Any]) -> Any:
        """Numbers by name as a list, or the number alone if there is one."""
        values = [logs[name] for name in self._order(logs)]
        return values[0] if len(values) == 1 else values

    # -- loops

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None, sample_weight: Any = None, initial_epoch: int = 0,
        steps_per_epoch: int | None = None, validation_steps: int | None = None,
        validation_batch_size: int | None = None, validation_freq: Any = 1,
    ) -> History:  # fmt: skip
        """Trains the model on arrays, tensors, a generator or a dataset; returns the History."""
        self._must_be_compiled()
        if x is None:
            raise ValueError("fit: there is no data: x is None")
        batches = batches_of(x, y, sample_weight, batch_size, shuffle)
        validation = None
        if validation_split and validation_data is None:
            if not hasattr(batches, "split"):
                raise ValueError("fit: validation_split takes arrays; give validation_data for a generator or dataset")
            batches, validation = batches.split(validation_split)
            if validation_batch_size:
                validation.size = validation_batch_size
        elif validation_data is not None:
            size = validation_batch_size or batch_size
            if isinstance(validation_data, (tuple, list)) and not is_array(validation_data):
                x_held, y_held, weights = (*validation_data, None, None)[:3]
                validation = batches_of(x_held, y_held, weights, size)
            else:
                validation = batches_of(validation_data, batch_size=size)
        if SETTINGS.max_epochs:
            epochs = min(epochs, SETTINGS.max_epochs)
        _divide(batches, batch_size, steps_per_epoch)
        steps_per_epoch = self._limited(steps_per_epoch, batches)
        if validation is not None:
            _divide(validation, validation_batch_size or batch_size, validation_steps)
            validation_steps = self._limited(validation_steps, validation)

        def finish() -> None:
            if epochs > 0:
                self.optimizer.finalize_variable_values(self.trainable_weights)

        self.history = loops.fit(
            self, batches, epochs=epochs, callbacks=_listed(callbacks), validation=validation,
            class_weight=class_weight, initial_epoch=initial_epoch, steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps, validation_freq=validation_freq,
            verbose=_verbosity(verbose), finish=finish,
        )  # fmt: skip
        return self.history

    @staticmethod
    def _limited(steps: int | None, batches: Any) -> int | None:
        """Steps of a pass, no more than keras.config.set_max_steps_per_epoch allows."""
        most = SETTINGS.max_steps_per_epoch
        if most is None:
            return steps
        wanted = steps or batches.count()
        return most if wanted is None else min(wanted, most)

    def _listeners(self, callbacks: Any, steps: int | None, verbose: Any) -> CallbackList:
        """The callbacks of one pass."""
        params = {"verbose": _verbosity(verbose), "epochs": 1, "steps": steps}
        return CallbackList(_listed(callbacks), self, params)

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
        sample_weight: Any = None, steps: int | None = None, callbacks: Any = None, return_dict: bool = False,
    ) -> Any:  # fmt: skip
        """The loss and the metrics of data: a list in the order of metrics_names, a number if there is one, or a
        dict."""
        self._must_be_compiled()
        batches = batches_of(x, y, sample_weight, batch_size)
        _divide(batches, batch_size, steps)
        steps = self._limited(steps, batches)
        listeners = self._listeners(callbacks, steps or batches.count(), verbose)
        logs = loops.evaluate(self, batches, listeners, steps, verbose=_verbosity(verbose))
        if return_dict:
            return logs
        return self._in_order(logs)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """The outputs for data, as NumPy arrays."""
        batches = batches_of(x, batch_size=batch_size)
        _divide(batches, batch_size, steps)
        steps = self._limited(steps, batches)
        listeners = self._listeners(callbacks, steps or batches.count(), verbose)
        listeners.tell("on_predict_begin", {})
        bar = ProgressBar(steps or batches.count(), _verbosity(verbose))
        found: list[list[Any]] = []
        structure: Any = None
        for k, (inputs, _, _) in enumerate(islice(batches, steps)):  # no batch more: a generator goes on from there
            listeners.tell("on_predict_batch_begin", k, {})
            structure = self.predict_on_batch(inputs)
            found.append(flatten(structure))
            listeners.tell("on_predict_batch_end", k, {"outputs": structure})
            bar.update(k + 1, {})
        if not found:
            raise ValueError("predict: there is no data")
        bar.update(len(found), {}, finished=True)
        listeners.tell("on_predict_end", {})
        return unflatten(structure, iter([np.concatenate(same) for same in zip(*found, strict=True)]))

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for one batch, as NumPy arrays."""
        with no_grad():
            outputs = self.predict_step((x,))
        self.clear_losses()
        return map_structure(lambda leaf: leaf.numpy(), outputs)

    def predict_step(self, data: Any) -> Any:
        """The outputs for a batch. A subclass may write its own."""
        x, _, _ = as_batch(data) if isinstance(data, tuple) else (data, None, None)
        return self(x, training=False)

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """One step; returns the loss and metrics of this batch."""
        self.reset_metrics()
        if class_weight is not None:
            x, y, sample_weight = class_weighted(as_batch((x, y, sample_weight)), class_weight)
        self.train_batch(*as_batch((x, y, sample_weight)))
        return self._numbers(return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """The loss and metrics of a batch."""
        self.reset_metrics()
        self.test_batch(*as_batch((x, y, sample_weight)))
        return self._numbers(return_dict)

    def _numbers(self, return_dict: bool) -> Any:
        logs = self.logs()
        return logs if return_dict else self._in_order(logs)

    # -- files

    def save(self, filepath: str | Path, overwrite: bool = True, zipped: bool | None = None) -> None:
        """Writes the model, its weights and what it was compiled with to one file (see `keras.saving`). It is one file
        in any case: `zipped=False`, a folder, is refused."""
        if zipped is False:
            raise ValueError("save: writes one file; leave `zipped` out")
        saving.save_model(self, filepath, overwrite)

    def save_weights(self, filepath: str | Path, overwrite: bool = True) -> None:
        """Writes the weights: with a name that ends in `.weights.h5` as Keras does, by the layers' paths, else to a
        safetensors file, in the order of `weights`."""
        saving.save_weights(self, filepath, overwrite)

    def save_training(self, filepath: str | Path) -> None:
        """Writes what the training needs to go on (see `callbacks.BackupAndRestore`)."""
        saving.save_training(self, filepath)

    def restore_training(self, filepath: str | Path) -> None:
        """Reads what `save_training` wrote. ValueError where it does not fit."""
        saving.restore_training(self, filepath)

    def load_weights(self, filepath: str | Path, skip_mismatch: bool = False) -> None:
        """Reads weights that `save_weights` or `save` wrote, here or in Keras. ValueError where they do not fit; with
        `skip_mismatch` those of another shape are left as they are."""
        saving.load_weights(self, filepath, skip_mismatch)

    def export(
        self, filepath: str | Path, format: str = "tf_saved_model", verbose: bool | None = None,
        input_signature: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        """Writes what the model computes, without its training, as an ONNX file (`format="onnx"`). Its inputs have the
        sizes of `input_signature` (InputSpec, KerasTensor or tensors), or of the model's inputs; None in them becomes
        1. NotImplementedError for other formats: they need TensorFlow, OpenVINO, LiteRT or torch."""
        from .exporting import export_model  # loaded late: with the package of ONNX

        export_model(self, filepath, format, verbose, input_signature, settings)

    def to_json(self, **_: Any) -> str:
        """The configuration as JSON, here or for Keras."""
        return saving.to_json(self)

    def get_config(self) -> dict[str, Any]:
        return functional_config(self) if self.graph is not None else super().get_config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """The model that `get_config` describes, here or in Keras, with new weights."""
        if "input_layers" in config:
            with saving.custom_object_scope(custom_objects):
                return Reading("from_config", keeps_training=True).functional(cls, config)
        return super().from_config(config)


class Functional(Model):
    """What `Model(inputs, outputs)` gives: the calls between symbolic inputs and outputs."""

    keras_module = "keras.src.models.functional"


class Sequential(Model):
    """Layers one after the other. With an Input first, or an `input_shape` of the first layer, the weights are made at
    once, else by the first batch.
    """

    def __init__(self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None) -> None:
        super().__init__(name=name, trainable=trainable)
        self._end: Any = None  # the symbolic output so far
        self._first: KerasTensor | None = None
        for layer in layers or ():
            self._add(layer)
        self._count_graph()

    def _count_graph(self) -> None:
        """Uses a name up, as Keras does: its Sequential models have a functional one inside, made with each change."""
        if self._end is not None and self.layers:
            unique_name("functional")

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Adds a layer at the end."""
        self._add(layer)
        self._count_graph()

    def _add(self, layer: Any) -> None:
        if isinstance(layer, (InputLayer, KerasTensor)):
            if self.layers or self._first is not None:
                raise ValueError(f"{self.name}: an Input can only be the first layer")
            self._begin(layer if isinstance(layer, KerasTensor) else layer.tensor)
            return
        layer = as_layer(layer)
        if any(layer is other for other in self.layers):
            raise ValueError(f"{self.name}: layer {layer.name} is in the model already")
        if any(other.name == layer.name for other in self.layers):
            raise ValueError(f"{self.name}: two layers are called {layer.name!r}")
        if not self.layers and self._first is None and layer.first_input_shape is not None:
            self._begin(KerasTensor(layer.first_input_shape, layer.dtype))
        if len(self.layers) == 1 and self._first is None and isinstance(self.layers[0], Model):
            self._begin_as(self.layers[0])
        self._modules[f"layer_{len(self._modules)}"] = layer
        if self._end is not None:
            with weights_of(self):
                self._end = record(layer, (self._end,), {})
            self.built = True
        self._changed_structure()

    def pop(self, rebuild: bool = True) -> Layer:
        """Removes the last layer."""
        if not self.layers:
            raise ValueError(f"{self.name} has no layers")
        layer = self.layers[-1]
        self._modules.popitem()
        if self._first is not None:
            self._end = self._first
            for other in self.layers:
                self._end = other._symbolic_calls[-1].outputs
        self._changed_structure()
        return layer

    def _changed_structure(self) -> None:
        if self._compiled is not None:
            self.compile(**self._compiled, run_eagerly=self.run_eagerly)

    def _begin(self, tensor: KerasTensor) -> None:
        object.__setattr__(self, "_first", tensor)
        self._end = tensor

    def _begin_as(self, model: Model) -> None:
        """With the input of a model that comes first, if it has one that is known, as Keras does for two layers."""
        inputs = getattr(model, "inputs", None) or []
        if len(inputs) == 1 and isinstance(inputs[0], KerasTensor):
            self._begin(KerasTensor(inputs[0].shape, inputs[0].dtype))
            with weights_of(self):
                self._end = record(model, (self._end,), {})

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights for inputs of a shape (with the batch's size first, which may be None). ValueError where
        the model has an Input of another shape."""
        if self._first is not None and input_shape is not None:
            wanted = self._first.shape
            sizes = zip(wanted[1:], tuple(input_shape)[1:], strict=False)
            if len(wanted) != len(input_shape) or any(None not in (a, b) and a != b for a, b in sizes):
                raise ValueError(f"{self.name}: the model takes inputs of shape {wanted}, not {tuple(input_shape)}")
        if self._end is None and input_shape is not None:
            self._begin(KerasTensor(input_shape, self.dtype))
            for layer in self.layers:
                self._end = record(layer, (self._end,), {})
            self.built = True
            self._count_graph()

    def _build_for(self, inputs: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        if self._first is None and hasattr(inputs, "shape") and self.layers:
            try:
                self.build((None, *inputs.shape[1:]))
            except NotImplementedError:  # a layer that cannot say its shapes: the model runs without symbolic tensors
                self._first = self._end = None
        self.built = True

    def symbolic_outputs(self, *args: Any, **kwargs: Any) -> Any:
        if self._first is None and args and isinstance(args[0], KerasTensor):
            self.build(args[0].shape)  # with the sides that are not known, which the zeros of `infer` would fix
        return super().symbolic_outputs(*args, **kwargs)

    @property
    def inputs(self) -> list[KerasTensor]:
        return [] if self._first is None else [self._first]

    @property
    def outputs(self) -> list[KerasTensor]:
        return [] if self._end is None else flatten(self._end)

    @property
    def output_names(self) -> list[str]:
        return [self.layers[-1].name] if self.layers else []

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        if isinstance(inputs, (list, tuple)) and len(inputs) == 1 and isinstance(self._first, KerasTensor):
            inputs = inputs[0]
        if self._first is not None and hasattr(inputs, "shape"):
            # Other sizes than those of the first batch are for the layers to take or refuse, as in Keras.
            inputs = as_batch_of(self._first, inputs, f"model {self.name} takes inputs of", any_size=True)
        if not self.layers:
            raise ValueError(f"{self.name} has no layers: add some before it is called")
        x = inputs
        with training_mode(training):
            for layer in self.layers:
                x = layer(x)
        return x

    def get_config(self) -> dict[str, Any]:
        return sequential_config(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        with saving.custom_object_scope(custom_objects):
            return Reading("from_config", keeps_training=True).sequential(cls, {}, config)


def clone_model(
    model: Model, input_tensors: Any = None, clone_function: Callable[[Layer], Any] | None = None,
    call_function: Callable[..., Any] | None = None, recursive: bool = False,
) -> Any:  # fmt: skip
    """A model of the same layers with new weights, compiled as the model is.

    `clone_function` gives the layer that takes the place of each, for a Sequential or a functional model; `recursive`
    does so within models inside, too. `input_tensors` are symbolic inputs in the structure of `model.input`.
    `call_function(layer, *args, **kwargs)` makes the calls of a functional model: it may add layers.
    """
    if not isinstance(model, Sequential) and model.graph is None:
        if clone_function is not None or call_function is not None or input_tensors is not None:
            raise ValueError(
                f"clone_model: {model.name} is a subclass; input_tensors, clone_function and call_function go with "
                "Sequential and functional models"
            )
    plain = clone_function is None and call_function is None and input_tensors is None
    if plain and type(model) not in (Sequential, Functional):
        with saving.custom_object_scope({type(model).__name__: type(model)}):
            return Reading("clone_model", keeps_training=True).object(describe(model, first=False))
    copies: dict[int, Any] = {}  # a layer that is called twice has one copy

    def copy_of(layer: Layer) -> Any:
        if id(layer) not in copies:
            if recursive and isinstance(layer, (Functional, Sequential)):
                calls = None if isinstance(layer, Sequential) else call_function
                copies[id(layer)] = clone_model(layer, None, clone_function, calls, recursive=True)
            else:
                copies[id(layer)] = as_layer((clone_function or _copied)(layer))
        return copies[id(layer)]

    if isinstance(model, Sequential):
        cloned = _cloned_sequential(model, input_tensors, copy_of, call_function)
    else:
        cloned = _cloned_functional(model, input_tensors, copy_of, call_function or _called)
    if not model.trainable:
        cloned.trainable = False
    if model._compiled is not None:
        optimizer = model._compiled["optimizer"]
        given = {key: map_structure(_fresh, value) for key, value in model._compiled.items() if key != "optimizer"}
        cloned.compile(type(optimizer).from_config(optimizer.get_config()), **given, run_eagerly=model.run_eagerly)
    return cloned


def _called(layer: Any, *args: Any, **kwargs: Any) -> Any:
    return layer(*args, **kwargs)


def _fresh(given: Any) -> Any:
    """What compile is given anew: a metric without what it has measured."""
    return type(given).from_config(given.get_config()) if isinstance(given, Metric) else given


def _cloned_sequential(model: Sequential, input_tensors: Any, copy_of: Callable[[Layer], Any], calls: Any) -> Model:
    if calls is not None:
        raise ValueError("clone_model: call_function goes with functional models: a Sequential has no calls of layers")
    given = flatten(input_tensors) if input_tensors is not None else []
    if len(given) > 1:
        raise ValueError(f"clone_model: a Sequential has one input, got {len(given)} input_tensors")
    found = Sequential(name=model.name)
    first = given[0] if given else model._first
    if first is not None:
        found.add(InputLayer(batch_shape=first.shape, dtype=first.dtype, name=first.name))
    for layer in model.layers:
        found.add(copy_of(layer))
    return found


def _cloned_functional(
    model: Model, input_tensors: Any, copy_of: Callable[[Layer], Any], call: Callable[..., Any]
) -> Model:
    inputs = map_structure(lambda leaf: _input_like(leaf), model.graph.inputs)
    if input_tensors is not None:
        if map_structure(lambda _: 0, _single(input_tensors)) != map_structure(lambda _: 0, inputs):
            raise ValueError("clone_model: input_tensors have not the structure of model.input")
        inputs = _single(input_tensors)
    symbols = {id(old): new for old, new in zip(flatten(model.graph.inputs), flatten(inputs), strict=True)}

    def symbol(leaf: Any) -> Any:
        return symbols[id(leaf)] if isinstance(leaf, KerasTensor) else leaf

    for made in model.graph.calls:
        layer = made.layer if isinstance(made.layer, Function) else copy_of(made.layer)  # an operator has no weights
        outputs = call(layer, *map_structure(symbol, made.args), **map_structure(symbol, made.kwargs))
        symbols |= {id(old): new for old, new in zip(flatten(made.outputs), flatten(outputs), strict=True)}
    return Functional(inputs, map_structure(symbol, model.graph.outputs), name=model.name)


def _input_like(leaf: KerasTensor) -> KerasTensor:
    found = KerasTensor(leaf.shape, leaf.dtype, leaf.name)
    found.optional = leaf.optional
    return found


def _copied(layer: Layer) -> Any:
    """A layer like another, with new weights."""
    if type(layer) in (Sequential, Functional):
        return clone_model(layer)  # type: ignore[arg-type]
    if isinstance(layer, Function):  # a Lambda: its function cannot be a configuration
        return type(layer)(**{**(layer._arguments or {}), "name": layer.name})
    return type(layer).from_config(layer.get_config())


def _is_chosen(layer: Layer, filters: Any) -> bool:
    """Whether the filters of `quantize` take a layer."""
    if filters is None:
        return True
    if isinstance(filters, (str, list, tuple)):
        return any(re.search(one, layer.name) for one in ([filters] if isinstance(filters, str) else filters))
    if callable(filters):
        return bool(filters(layer))
    raise ValueError(f"quantize: filters are regular expressions or a function of a layer, not {filters!r:.60}")


def _single(tensors: Any) -> Any:
    """What a list of one has; anything else as it is."""
    return tensors[0] if isinstance(tensors, list) and len(tensors) == 1 else tensors


def _track(tracker: Mean, value: Tensor, examples: int) -> None:
    """Adds the mean of a batch to a mean over all examples."""
    with no_grad():
        tracker.add("total", value.detach().to(tracker.dtype) * float(examples))
        tracker.add("count", ops.full((), float(examples), dtype=tracker.dtype, device=value.device))


def _by_name(name: str, result: Any) -> Mapping[str, Any]:
    """What a metric gives, by the names in the logs."""
    return result if isinstance(result, Mapping) else {name: result}


def _flat_logs(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Plain numbers, or lists of them, by name; those of a dict inside are beside the others."""
    found: dict[str, Any] = {}
    for name, value in logs.items():
        if isinstance(value, Mapping):
            found |= _flat_logs(value)
        elif isinstance(value, Tensor):
            found[name] = float(value.item()) if value.numel() == 1 else value.tolist()
        else:
            found[name] = value
    return found


def _as_data(x: Any, y: Any, sample_weight: Any) -> Any:
    """A batch as `train_step` and `test_step` get it."""
    if y is None:
        return x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def _verbosity(verbose: Any) -> int:
    return 1 if verbose == "auto" else int(verbose)


def _divide(batches: Any, batch_size: int | None, steps: Any) -> None:
    """Divides arrays, where no batch_size is given, into as many batches as one pass is to have steps."""
    if batch_size is None and isinstance(batches, ArrayBatches) and isinstance(steps, int) and steps > 0:
        batches.divide(steps)


def _listed(callbacks: Any) -> list[Any]:
    return [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]


load_model, save_model, model_from_json = saving.load_model, saving.save_model, saving.model_from_json
__all__ += ["load_model", "model_from_json", "save_model"]
