"""Metrics: numbers that are gathered over batches. Their state is in tensors on the device of the predictions, so a
batch costs no copy to the host; `result()` reads it, and gives a tensor as Keras does.

Labels and predictions are (B, ...); a metric's mean is over all of their elements. `sample_weight` is (B,) or has a
weight for each element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..engine import Tensor, as_dtype, bfloat16, float16, float32, no_grad, ops
from .floats import floatx
from .names import unique_name
from .stateless import about_to_write, check_count, holding, values_of
from .variable import Variable, as_variable

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "Mean", "MeanMetricWrapper", "Metric", "R2Score",
    "RootMeanSquaredError", "SparseCategoricalAccuracy", "SparseTopKCategoricalAccuracy", "Sum",
    "TopKCategoricalAccuracy",
]  # fmt: skip


class Metric:
    """Base: `update_state` takes a batch, `result` gives the number so far, `reset_state` begins again.

    A metric of one's own makes its state in the constructor with `add_weight` and writes it with `assign_add`.
    """

    keras_module = "keras.metrics"  # in the configurations of pyapp.keras

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        self.name = name or unique_name(type(self).__name__)
        self.dtype = as_dtype(dtype or floatx()).name
        self._state: dict[str, Tensor] = {}
        self._first: dict[str, Tensor] = {}  # what states other than zero begin with

    def add_weight(
        self, shape: Any = (), initializer: Any = None, dtype: Any = None, name: str | None = None
    ) -> Variable:
        """A new state: "zeros", "ones", a number, or a function of the shape. `reset_state` makes it so again."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = as_dtype(dtype or self.dtype)
        given = (
            {"zeros": 0.0, "ones": 1.0, None: 0.0}.get(initializer, initializer) if not callable(initializer) else 0.0
        )
        if isinstance(given, str):
            raise ValueError(
                f"{self.name}: the initializer of a metric is zeros, ones or a function, not {given!r:.40}"
            )
        with no_grad():
            value = initializer(shape) if callable(initializer) else ops.full(shape, float(given))
            state = as_variable(value.to(kind).clone())
        name = name or unique_name("variable")
        state._path = f"{self.name}/{name}"
        label = name if name not in self._state else f"state_{len(self._state)}"
        self._state[label] = state
        if callable(initializer) or given:
            self._first[label] = value.clone()
        return state

    add_variable = add_weight

    @property
    def variables(self) -> list[Tensor]:
        """The tensors of the state."""
        return self.state_tensors()

    def add(self, name: str, value: Tensor) -> None:
        """Adds to a state that begins with zeros."""
        held = self._state.get(name)
        if held is None or held.device is not value.device:
            self._state[name] = state = as_variable(value.clone())
            state._path = f"{self.name}/{name}"
        else:
            about_to_write(held)
            held.add_(value)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        raise NotImplementedError

    def read(self) -> Any:
        """The number so far, or a list of numbers."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `result`")

    def result(self) -> Any:
        """What has been measured so far: a tensor of the metric's dtype on the CPU, () or a number for each class."""
        return ops.tensor(self.read(), dtype=self.dtype, device="cpu")

    def reset_state(self) -> None:
        """Begins again. States stay where they are, as a Graph may write to them."""
        for name in self._state:
            self._begin_again(name)

    def _begin_again(self, name: str) -> None:
        held = self._state[name]
        about_to_write(held)
        with no_grad():
            if name in self._first:
                held.copy_(self._first[name].to(held.dtype))
            else:
                held.zero_()

    def stateless_update_state(self, metric_variables: Any, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The states after a batch, beginning with these; the metric keeps its own."""
        own = self.variables
        check_count(f"{self.name}.stateless_update_state", metric_variables, own)
        before = set(self._state)
        with holding(own, metric_variables):
            self.update_state(*args, **kwargs)
            after = values_of(self.variables)
        for name in self._state.keys() - before:  # states that the first batch made
            self._begin_again(name)
        return after

    def stateless_result(self, metric_variables: Any) -> Any:
        """The result of these states."""
        own = self.variables
        check_count(f"{self.name}.stateless_result", metric_variables, own)
        with holding(own, metric_variables):
            return self.result()

    def stateless_reset_state(self) -> list[Tensor]:
        """The states that `reset_state` would make; the metric keeps its own."""
        own = self.variables
        with holding(own, own):
            self.reset_state()
            return values_of(own)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"

    def state_tensors(self) -> list[Tensor]:
        """The tensors of the state."""
        return list(self._state.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Takes a batch and gives the result so far."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """A metric made with the arguments of `get_config`."""
        return cls(**config)

    def _value(self, name: str) -> Tensor:
        held = self._state.get(name)
        return ops.zeros(()) if held is None else held


def as_tensors(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """Labels and predictions that may be arrays or lists. Predictions are floats, if they are not truth values."""
    predictions = in_float32(ops.as_tensor(y_pred))
    if not predictions.dtype.is_floating_point and predictions.dtype.name != "bool":
        predictions = predictions.to(floatx())
    return in_float32(ops.as_tensor(y_true, device=predictions.device)), predictions


def in_float32(x: Tensor) -> Tensor:
    """A tensor of short floats, as mixed precision gives, in float32; any other as it is."""
    return x.float() if x.dtype in (float16, bfloat16) else x


def ratio(part: float, whole: float) -> float:
    """part / whole; 0 for 0 of 0."""
    return part / whole if whole else 0.0


def of_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of labels and predictions that also takes arrays and lists of them."""

    @functools.wraps(function)
    def call(y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Tensor:
        predictions = ops.as_tensor(y_pred)
        if not predictions.dtype.is_floating_point:
            predictions = predictions.to(floatx())
        return function(ops.as_tensor(y_true, device=predictions.device), predictions, *args, **kwargs)

    return call


class _Reduced(Metric):
    """Base of sums and means of values."""

    def gather(self, values: Tensor, sample_weight: Any = None) -> None:
        """Adds values (B, ...); a weight for each of B counts for all of its values."""
        with no_grad():
            values = values.detach().to(self.dtype)
            if sample_weight is None:
                self.add("total", values.sum())
                self.add("count", ops.full((), float(values.numel()), dtype=values.dtype, device=values.device))
                return
            weights = ops.as_tensor(sample_weight, values.dtype, values.device)
            if weights.ndim > values.ndim:
                weights = weights.reshape(weights.shape[: values.ndim])
            weights = weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim)).expand(values.shape)
            self.add("total", (values * weights).sum())
            self.add("count", weights.sum())

    def mean(self) -> float:
        """The weighted mean of the values so far; 0 if there are none."""
        return ratio(self._value("total").item(), self._value("count").item())


class Mean(_Reduced):
    """The weighted mean of the values so far."""

    def __init__(self, name: str = "mean", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        self.gather(ops.as_tensor(values), sample_weight)

    def read(self) -> float:
        return self.mean()


class Sum(_Reduced):
    """The weighted sum of the values so far."""

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        self.gather(ops.as_tensor(values), sample_weight)

    def read(self) -> float:
        return float(self._value("total").item())


class MeanMetricWrapper(_Reduced):
    """The mean of fn(y_true, y_pred, **settings) over the examples."""

    def __init__(self, fn: Callable[..., Tensor], name: str | None = None, dtype: Any = None, **settings: Any) -> None:
        of_function = None if type(self) is MeanMetricWrapper else str(getattr(fn, "__name__", "metric"))
        super().__init__(name or of_function, dtype)
        self.fn, self.settings = fn, settings

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        self.gather(ops.as_tensor(self.fn(*as_tensors(y_true, y_pred), **self.settings)), sample_weight)

    def read(self) -> float:
        return self.mean()

    def get_config(self) -> dict[str, Any]:
        own = {"fn": self.fn} if type(self) is MeanMetricWrapper else {}  # other classes know their function
        return {**super().get_config(), **own, **self.settings}


def same_shape(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Labels in the shape of the predictions: (B,) and (B, 1) are the same."""
    if y_true.shape != y_pred.shape:
        if y_true.ndim == y_pred.ndim + 1 and y_true.shape[-1] == 1:
            return y_true.squeeze(-1)
        if y_pred.ndim == y_true.ndim + 1 and y_pred.shape[-1] == 1:
            return y_true.unsqueeze(-1)
    return y_true


def _classes(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Labels without a last dim of one: (B, 1) as (B,)."""
    return y_true.squeeze(-1) if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1 else y_true


@of_tensors
def accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the two are equal."""
    y_true = same_shape(y_true, y_pred)
    return (y_true.to(y_pred.dtype) == y_pred).float()


@of_tensors
def binary_accuracy(y_true: Tensor, y_pred: Tensor, threshold: float = 0.5) -> Tensor:
    """1 where prediction > threshold is the label."""
    y_true = same_shape(y_true, y_pred)
    return (y_true.to(y_pred.dtype) == (y_pred > threshold).to(y_pred.dtype)).float()


@of_tensors
def categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the largest prediction is at the largest label."""
    return (y_true.argmax(-1) == y_pred.argmax(-1)).float()


@of_tensors
def sparse_categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the largest prediction is that of the class."""
    found = y_pred.argmax(-1)
    return (_classes(y_true, y_pred).to(found.dtype) == found).float()


@of_tensors
def top_k_categorical_accuracy(y_true: Tensor, y_pred: Tensor, k: int = 5) -> Tensor:
    """1 where the class of a one-hot label is among the k largest predictions."""
    return sparse_top_k_categorical_accuracy(y_true.argmax(-1), y_pred, k)


@of_tensors
def sparse_top_k_categorical_accuracy(
    y_true: Tensor, y_pred: Tensor, k: int = 5, from_sorted_ids: bool = False
) -> Tensor:
    """1 where the class is among the k largest predictions; equal ones count as larger only if they are strictly so.
    With `from_sorted_ids` the predictions are class numbers, the best first."""
    classes = _classes(y_true, y_pred).to("int64")
    if from_sorted_ids:
        return (y_pred[..., :k].to("int64") == classes.unsqueeze(-1)).any(-1).float()
    own = y_pred.gather(-1, classes.unsqueeze(-1))
    return ((y_pred > own).sum(-1) < k).float()


class Accuracy(MeanMetricWrapper):
    """How often labels and predictions are equal."""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(accuracy, name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    """How often a prediction is on the label's side of the threshold."""

    def __init__(self, name: str = "binary_accuracy", dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """How often the largest prediction is that of the one-hot label."""

    def __init__(self, name: str = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """How often the largest prediction is that of the class."""

    def __init__(self, name: str = "sparse_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """How often a one-hot label is among the k largest predictions."""

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """How often a class is among the k largest predictions."""

    def __init__(
        self, k: int = 5, name: str = "sparse_top_k_categorical_accuracy", dtype: Any = None,
        from_sorted_ids: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            sparse_top_k_categorical_accuracy, name, dtype, k=k, from_sorted_ids=from_sorted_ids
        )  # fmt: skip


class RootMeanSquaredError(_Reduced):
    """The root of the mean of squared differences."""

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        difference = y_pred - same_shape(y_true, y_pred).to(y_pred.dtype)
        self.gather(difference * difference, sample_weight)

    def read(self) -> float:
        return self.mean() ** 0.5


def weights_like(y_pred: Tensor, sample_weight: Any) -> Tensor:
    """A weight for each prediction."""
    if sample_weight is None:
        return ops.ones(y_pred.shape, device=y_pred.device)
    weights = ops.as_tensor(sample_weight, float32, y_pred.device)
    return weights.reshape(weights.shape + (1,) * (y_pred.ndim - weights.ndim)).expand(y_pred.shape)


class R2Score(Metric):
    """The coefficient of determination, 1 - residual / total, of each output (`class_aggregation` None), their mean
    (uniform_average), or their mean by the outputs' variances (variance_weighted_average). `num_regressors` corrects it
    for the number of inputs.
    """

    def __init__(
        self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0, name: str = "r2_score",
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype)
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ValueError(
                "R2Score: class_aggregation is None, uniform_average or variance_weighted_average, not "
                f"{class_aggregation!r:.40}"
            )
        if num_regressors < 0:
            raise ValueError(f"R2Score: num_regressors is at least 0, not {num_regressors}")
        self.class_aggregation, self.num_regressors = class_aggregation, num_regressors

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            truth = same_shape(y_true, y_pred).to(y_pred.dtype)
            weights = weights_like(y_pred, sample_weight)
            self.add("sum", (truth * weights).sum(0))
            self.add("squared_sum", (truth * truth * weights).sum(0))
            self.add("residual", ((truth - y_pred) * (truth - y_pred) * weights).sum(0))
            self.add("count", weights.sum(0))
            self.add("num_samples", ops.full((), float(y_pred.numel()), device=y_pred.device))

    def read(self) -> Any:
        parts = [self._value(n).reshape(-1).tolist() for n in ("sum", "squared_sum", "residual", "count")]
        scores, spreads = [], []
        for total, squares, residual, count in zip(*parts, strict=True):
            spread = squares - total * ratio(total, count)
            scores.append(1 - residual / spread if spread else 0.0)
            spreads.append(spread)
        if self.class_aggregation is None:
            found: Any = scores
        elif self.class_aggregation == "uniform_average":
            found = sum(scores) / len(scores)
        else:
            found = ratio(sum(a * b for a, b in zip(scores, spreads, strict=True)), sum(spreads))
        if not self.num_regressors:
            return found
        examples = self._value("num_samples").item()
        left = examples - self.num_regressors - 1
        if left <= 0:
            return found  # there are too few examples for a correction, as Keras has it
        corrected = [1 - (1 - one) * (examples - 1) / left for one in (found if isinstance(found, list) else [found])]
        return corrected if isinstance(found, list) else corrected[0]

    def get_config(self) -> dict[str, Any]:
        settings = {"class_aggregation": self.class_aggregation, "num_regressors": self.num_regressors}
        return {**super().get_config(), **settings}
