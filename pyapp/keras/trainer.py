"""Compile, fit, evaluate and predict, as Keras' models have them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import islice
from typing import Any

from ..compiler import Compiled
from ..engine import Tensor, no_grad, ops
from ..engine.lazy import np
from ..train import fit as loops
from ..train.batches import ArrayBatches, as_batch, batches_of, class_weighted, is_array
from ..train.callbacks import CallbackList, History
from ..train.metrics import Mean
from ..train.progress import ProgressBar
from . import optimizers
from .call_arguments import arguments_of
from .compiling import CompiledLoss, CompiledMetrics, batch_size_of, by_path, parts_of, weights_of_outputs
from .config_reading import Reading
from .config_writing import compile_config
from .devices import at_weights, moved_to
from .model_state import WithState
from .reported_metrics import ReportsMetrics
from .settings import SETTINGS
from .structures import flatten, is_nested, map_structure, paths_of, unflatten
from .symbolic_tensors import KerasTensor

__all__ = ["Trainer"]


class Trainer(ReportsMetrics, WithState):
    """A layer that can be trained: what models have of Keras' compile, fit, evaluate and predict."""

    def __init__(self, *, name: str | None = None, trainable: bool = True, dtype: Any = None) -> None:
        super().__init__(name=name, trainable=trainable, dtype=dtype)
        self.stop_training = False
        self.run_eagerly = False
        self._last_batch: Any = (None, None, None)
        self.optimizer: Any = None
        self.loss: Any = None  # what compile was given
        self.history: History | None = None
        self.was_evaluated = False
        self._compiled: dict[str, Any] | None = None

    @property
    def outputs(self) -> list[KerasTensor]:
        """The symbolic outputs, of models that have them."""
        return []

    @property
    def output_names(self) -> list[str]:
        """The names that losses, metrics and labels of several outputs have."""
        return []

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
        if run_eagerly and jit_compile is True:
            warnings.warn("compile: with run_eagerly, jit_compile has no effect", stacklevel=2)
            jit_compile = False
        self.run_eagerly, self.was_evaluated = run_eagerly, False
        self.jit_compile, self.steps_per_execution = bool(jit_compile), steps_per_execution
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
            raise ValueError(
                f"You must call `compile()` before using the model: {self.name}: call compile() before training and "
                "evaluation"
            )
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
        if type(self).compute_metrics is Trainer.compute_metrics:
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
        else:
            warnings.warn("The model does not have any trainable weights.", stacklevel=2)
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
        with at_weights(self, (x, y, sample_weight)) as place:
            self._train_batch(*moved_to(place, (x, y, sample_weight)))

    def _train_batch(self, x: Any, y: Any, sample_weight: Any) -> None:
        self._last_batch = x, y, sample_weight
        if type(self).train_step is not Trainer.train_step:
            self._last_logs = dict(self.train_step(_as_data(x, y, sample_weight)))
            return
        leaves = flatten([x, y, sample_weight])
        if (
            self.run_eagerly
            or not self.jit_compile
            or type(self).compute_metrics is not Trainer.compute_metrics  # it runs in Python, for each batch
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
        with at_weights(self, (x, y, sample_weight)) as place:
            found = self.test_step(_as_data(*moved_to(place, (x, y, sample_weight))))
        if type(self).test_step is not Trainer.test_step:
            self._last_logs = dict(found)

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
        self.was_evaluated = True
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
        bar = ProgressBar(steps or batches.count(), 0 if listeners.draws_progress else _verbosity(verbose))
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
        with no_grad(), at_weights(self, x) as place:
            outputs = self.predict_step(_as_data(moved_to(place, x), None, None))
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


def _track(tracker: Mean, value: Tensor, examples: int) -> None:
    """Adds the mean of a batch to a mean over all examples."""
    with no_grad():
        tracker.add("total", value.detach().to(tracker.dtype) * float(examples))
        tracker.add("count", ops.full((), float(examples), dtype=tracker.dtype, device=value.device))


def _as_data(x: Any, y: Any, sample_weight: Any) -> Any:
    """A batch as the steps of a model get it. Several inputs are a tuple of one: as a list they would be (x, y)."""
    if y is None:
        return (x,) if isinstance(x, (list, tuple)) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def _verbosity(verbose: Any) -> int:
    return 1 if verbose == "auto" else int(verbose)


def _divide(batches: Any, batch_size: int | None, steps: Any) -> None:
    """Divides arrays, where no batch_size is given, into as many batches as one pass is to have steps."""
    if batch_size is None and isinstance(batches, ArrayBatches) and isinstance(steps, int) and steps > 0:
        batches.divide(steps)


def _listed(callbacks: Any) -> list[Any]:
    return [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
