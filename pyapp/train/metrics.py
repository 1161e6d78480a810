"""Metrics: numbers that are gathered over batches. Their state is in tensors on the device of the predictions, so a
batch costs no copy to the host; `result()` reads it.

Labels and predictions are (B, ...); a metric's mean is over all of their elements. `sample_weight` is (B,) or has a
weight for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from ..engine import Tensor, as_dtype, no_grad, ops
from .names import unique_name
from .variable import Variable, as_variable

__all__ = [
    "AUC", "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "F1Score", "FBetaScore", "FalseNegatives",
    "FalsePositives", "Mean", "MeanIoU", "MeanMetricWrapper", "Metric", "Precision", "PrecisionAtRecall", "R2Score",
    "Recall", "RecallAtPrecision", "RootMeanSquaredError", "SensitivityAtSpecificity", "SparseCategoricalAccuracy",
    "SparseTopKCategoricalAccuracy", "SpecificityAtSensitivity", "Sum", "TopKCategoricalAccuracy", "TrueNegatives",
    "TruePositives",
]  # fmt: skip


class Metric:
    """Base: `update_state` takes a batch, `result` gives the number so far, `reset_state` begins again.

    A metric of one's own makes its state in the constructor with `add_weight` and writes it with `assign_add`.
    """

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        self.name = name or unique_name(type(self).__name__)
        self.dtype = "float32" if dtype is None else as_dtype(dtype).name
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
        label = name if name and name not in self._state else f"state_{len(self._state)}"
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
            self._state[name] = value.clone()
        else:
            held.add_(value)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        raise NotImplementedError

    def result(self) -> float:
        raise NotImplementedError

    def reset_state(self) -> None:
        """Begins again. States stay where they are, as a Graph may write to them."""
        with no_grad():
            for name, held in self._state.items():
                if name in self._first:
                    held.copy_(self._first[name].to(held.dtype))
                else:
                    held.zero_()

    def state_tensors(self) -> list[Tensor]:
        """The tensors of the state."""
        return list(self._state.values())

    def __call__(self, *args: Any, **kwargs: Any) -> float:
        """Takes a batch and gives the result so far."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"name": self.name}

    def _value(self, name: str) -> Tensor:
        held = self._state.get(name)
        return ops.zeros(()) if held is None else held


def as_tensors(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    """Labels and predictions that may be arrays or lists."""
    return ops.as_tensor(y_true), ops.as_tensor(y_pred)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class _Reduced(Metric):
    """Base of sums and means of values."""

    def gather(self, values: Tensor, sample_weight: Any = None) -> None:
        """Adds values (B, ...); a weight for each of B counts for all of its values."""
        with no_grad():
            values = values.detach()
            if not values.dtype.is_floating_point:
                values = values.float()
            if sample_weight is None:
                self.add("total", values.sum())
                self.add("count", ops.full((), float(values.numel()), device=values.device))
                return
            weights = ops.as_tensor(sample_weight).float().to(values.device)
            if weights.ndim > values.ndim:
                weights = weights.reshape(weights.shape[: values.ndim])
            weights = weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim)).expand(values.shape)
            self.add("total", (values * weights).sum())
            self.add("count", weights.sum())


class Mean(_Reduced):
    """The weighted mean of the values so far."""

    def __init__(self, name: str = "mean") -> None:
        super().__init__(name)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        self.gather(ops.as_tensor(values), sample_weight)

    def result(self) -> float:
        return _ratio(self._value("total").item(), self._value("count").item())


class Sum(_Reduced):
    """The weighted sum of the values so far."""

    def __init__(self, name: str = "sum") -> None:
        super().__init__(name)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        self.gather(ops.as_tensor(values), sample_weight)

    def result(self) -> float:
        return float(self._value("total").item())


class MeanMetricWrapper(_Reduced):
    """The mean of fn(y_true, y_pred, **settings) over the examples."""

    def __init__(self, fn: Callable[..., Tensor], name: str | None = None, **settings: Any) -> None:
        super().__init__(name or str(getattr(fn, "__name__", "metric")))
        self.fn, self.settings = fn, settings

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        self.gather(self.fn(*as_tensors(y_true, y_pred), **self.settings), sample_weight)

    def result(self) -> float:
        return _ratio(self._value("total").item(), self._value("count").item())

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, **self.settings}


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


def accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the two are equal."""
    y_true = same_shape(y_true, y_pred)
    return (y_true.to(y_pred.dtype) == y_pred).float()


def binary_accuracy(y_true: Tensor, y_pred: Tensor, threshold: float = 0.5) -> Tensor:
    """1 where prediction > threshold is the label."""
    y_true = same_shape(y_true, y_pred)
    return (y_true.to(y_pred.dtype) == (y_pred > threshold).to(y_pred.dtype)).float()


def categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the largest prediction is at the largest label."""
    return (y_true.argmax(-1) == y_pred.argmax(-1)).float()


def sparse_categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 where the largest prediction is that of the class."""
    found = y_pred.argmax(-1)
    return (_classes(y_true, y_pred).to(found.dtype) == found).float()


def top_k_categorical_accuracy(y_true: Tensor, y_pred: Tensor, k: int = 5) -> Tensor:
    """1 where the class of a one-hot label is among the k largest predictions."""
    return sparse_top_k_categorical_accuracy(y_true.argmax(-1), y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Tensor, y_pred: Tensor, k: int = 5) -> Tensor:
    """1 where the class is among the k largest predictions; equal ones count as larger only if they are strictly so."""
    classes = _classes(y_true, y_pred).to("int64")
    own = y_pred.gather(-1, classes.unsqueeze(-1))
    return ((y_pred > own).sum(-1) < k).float()


class Accuracy(MeanMetricWrapper):
    """How often labels and predictions are equal."""

    def __init__(self, name: str = "accuracy") -> None:
        super().__init__(accuracy, name)


class BinaryAccuracy(MeanMetricWrapper):
    """How often a prediction is on the label's side of the threshold."""

    def __init__(self, name: str = "binary_accuracy", threshold: float = 0.5) -> None:
        super().__init__(binary_accuracy, name, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    """How often the largest prediction is that of the one-hot label."""

    def __init__(self, name: str = "categorical_accuracy") -> None:
        super().__init__(categorical_accuracy, name)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    """How often the largest prediction is that of the class."""

    def __init__(self, name: str = "sparse_categorical_accuracy") -> None:
        super().__init__(sparse_categorical_accuracy, name)


class TopKCategoricalAccuracy(MeanMetricWrapper):
    """How often a one-hot label is among the k largest predictions."""

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy") -> None:
        super().__init__(top_k_categorical_accuracy, name, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    """How often a class is among the k largest predictions."""

    def __init__(self, k: int = 5, name: str = "sparse_top_k_categorical_accuracy") -> None:
        super().__init__(sparse_top_k_categorical_accuracy, name, k=k)


class RootMeanSquaredError(_Reduced):
    """The root of the mean of squared differences."""

    def __init__(self, name: str = "root_mean_squared_error") -> None:
        super().__init__(name)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        difference = y_pred - same_shape(y_true, y_pred).to(y_pred.dtype)
        self.gather(difference * difference, sample_weight)

    def result(self) -> float:
        return float(_ratio(self._value("total").item(), self._value("count").item()) ** 0.5)


class _Confusion(Metric):
    """Base of what is counted from true and false positives and negatives at thresholds."""

    def __init__(self, name: str | None, thresholds: Any = None) -> None:
        super().__init__(name)
        several = isinstance(thresholds, (list, tuple))
        self.thresholds = [0.5 if thresholds is None else thresholds] if not several else list(thresholds)
        if not all(0 <= t <= 1 for t in self.thresholds):
            raise ValueError(f"{type(self).__name__}: thresholds are in [0, 1], got {thresholds}")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            y_pred = y_pred.detach()
            limits = ops.tensor(self.thresholds, device=y_pred.device).reshape(-1, 1)  # (K, 1)
            y_true = same_shape(y_true, y_pred)
            weights = _weights_like(y_pred, sample_weight).reshape(1, -1)  # (1, N)
            truth = (y_true.reshape(1, -1).float() > 0).float()  # (1, N)
            positive = (y_pred.reshape(1, -1) > limits).float()  # (K, N)
            self.add("true_positives", (truth * positive * weights).sum(1))
            self.add("false_positives", ((1 - truth) * positive * weights).sum(1))
            self.add("true_negatives", ((1 - truth) * (1 - positive) * weights).sum(1))
            self.add("false_negatives", (truth * (1 - positive) * weights).sum(1))

    def counts(self, name: str) -> list[float]:
        """The weighted count at each threshold."""
        held = self._state.get(name)
        return [0.0] * len(self.thresholds) if held is None else [float(n) for n in held.tolist()]

    def _result(self, values: list[float]) -> Any:
        return values[0] if len(values) == 1 else values


def _weights_like(y_pred: Tensor, sample_weight: Any) -> Tensor:
    """A weight for each prediction."""
    if sample_weight is None:
        return ops.ones(y_pred.shape, device=y_pred.device)
    weights = ops.as_tensor(sample_weight).float().to(y_pred.device)
    return weights.reshape(weights.shape + (1,) * (y_pred.ndim - weights.ndim)).expand(y_pred.shape)


class _Count(_Confusion):
    what: str

    def __init__(self, thresholds: Any = None, name: str | None = None) -> None:
        super().__init__(name, thresholds)

    def result(self) -> Any:
        return self._result(self.counts(self.what))


class TruePositives(_Count):
    what = "true_positives"


class FalsePositives(_Count):
    what = "false_positives"


class TrueNegatives(_Count):
    what = "true_negatives"


class FalseNegatives(_Count):
    what = "false_negatives"


class Precision(_Confusion):
    """True positives of all predicted positives."""

    def __init__(self, thresholds: Any = None, name: str | None = None) -> None:
        super().__init__(name, thresholds)

    def result(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_positives"), strict=True)
        return self._result([_ratio(t, t + f) for t, f in pairs])


class Recall(_Confusion):
    """True positives of all that are positive."""

    def __init__(self, thresholds: Any = None, name: str | None = None) -> None:
        super().__init__(name, thresholds)

    def result(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_negatives"), strict=True)
        return self._result([_ratio(t, t + f) for t, f in pairs])


class AUC(_Confusion):
    """The area under the curve of true against false positives (`curve="ROC"`) or of precision against recall
    (`"PR"`), from so many thresholds. `summation_method`: "interpolation", the trapezoidal rule, and for precision that
    of Davis and Goadrich (2006); "minoring" and "majoring" take the lower and the higher end of each step.
    """

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
        name: str | None = None, dtype: Any = None, from_logits: bool = False,
    ) -> None:  # fmt: skip
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(
                f"AUC: summation_method is interpolation, minoring or majoring, not {summation_method!r:.40}"
            )
        self.summation_method = summation_method
        if num_thresholds < 2 or curve not in ("ROC", "PR"):
            raise ValueError("AUC: takes at least two thresholds, and the curve ROC or PR")
        inner = [(k + 1) / (num_thresholds - 1) for k in range(num_thresholds - 2)]
        super().__init__(name)
        self.thresholds = [-1e-7, *inner, 1 + 1e-7]
        self.curve, self.from_logits, self.num_thresholds = curve, from_logits, num_thresholds

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        super().update_state(y_true, y_pred.sigmoid() if self.from_logits else y_pred, sample_weight)

    def result(self) -> float:
        tp, fp = self.counts("true_positives"), self.counts("false_positives")
        tn, fn = self.counts("true_negatives"), self.counts("false_negatives")
        steps = range(len(tp) - 1)
        if self.summation_method != "interpolation":
            chosen = min if self.summation_method == "minoring" else max
            x = [_ratio(t, t + f) for t, f in zip(tp, fn, strict=True)]
            y = [_ratio(t, t + f) for t, f in zip(tp, fp, strict=True)]
            if self.curve == "ROC":
                x, y = [_ratio(f, f + t) for f, t in zip(fp, tn, strict=True)], x
            return sum((x[k] - x[k + 1]) * chosen(y[k], y[k + 1]) for k in steps)
        if self.curve == "PR":
            area = 0.0
            for k in steps:
                found, more = tp[k] - tp[k + 1], tp[k] + fp[k] - tp[k + 1] - fp[k + 1]
                slope = _ratio(found, max(more, 0.0))
                start = tp[k + 1] - slope * (tp[k + 1] + fp[k + 1])
                both = tp[k] + fp[k] > 0 and tp[k + 1] + fp[k + 1] > 0
                ratio = _ratio(tp[k] + fp[k], max(tp[k + 1] + fp[k + 1], 0.0)) if both else 1.0
                area += _ratio(slope * (found + start * log(ratio)), max(tp[k + 1] + fn[k + 1], 0.0))
            return area
        recall = [_ratio(t, t + f) for t, f in zip(tp, fn, strict=True)]
        fallout = [_ratio(f, f + t) for f, t in zip(fp, tn, strict=True)]
        return sum((fallout[k] - fallout[k + 1]) * (recall[k] + recall[k + 1]) / 2 for k in steps)

    def get_config(self) -> dict[str, Any]:
        settings = {"num_thresholds": self.num_thresholds, "curve": self.curve, "from_logits": self.from_logits}
        settings["summation_method"] = self.summation_method
        return {**super().get_config(), **settings}


class _AtLimit(_Confusion):
    """Base: the best of one rate over the thresholds at which another rate fits `value`."""

    def __init__(self, value: float, num_thresholds: int = 200, name: str | None = None) -> None:
        if not 0 <= value <= 1 or num_thresholds < 1:
            raise ValueError(f"{type(self).__name__}: takes a rate from 0 to 1, and at least one threshold")
        super().__init__(name)
        self.value, self.num_thresholds = value, num_thresholds
        inner = [(k + 1) / (num_thresholds - 1) for k in range(num_thresholds - 2)]
        self.thresholds = [0.5] if num_thresholds == 1 else [0.0, *inner, 1.0]

    def rate(self, part: str, rest: str) -> list[float]:
        return [_ratio(a, a + b) for a, b in zip(self.counts(part), self.counts(rest), strict=True)]

    def best(self, rates: list[float], limited: list[float]) -> float:
        return max((rate for rate, limit in zip(rates, limited, strict=True) if limit >= self.value), default=0.0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "value": self.value, "num_thresholds": self.num_thresholds}


class SensitivityAtSpecificity(_AtLimit):
    """The best sensitivity where the specificity is at least `value`."""

    def result(self) -> float:
        return self.best(self.rate("true_positives", "false_negatives"), self.rate("true_negatives", "false_positives"))


class SpecificityAtSensitivity(_AtLimit):
    """The best specificity where the sensitivity is at least `value`."""

    def result(self) -> float:
        return self.best(self.rate("true_negatives", "false_positives"), self.rate("true_positives", "false_negatives"))


class PrecisionAtRecall(_AtLimit):
    """The best precision where the recall is at least `value`."""

    def result(self) -> float:
        return self.best(self.rate("true_positives", "false_positives"), self.rate("true_positives", "false_negatives"))


class RecallAtPrecision(_AtLimit):
    """The best recall where the precision is at least `value`."""

    def result(self) -> float:
        return self.best(self.rate("true_positives", "false_negatives"), self.rate("true_positives", "false_positives"))


class FBetaScore(Metric):
    """(1 + beta²) * precision * recall / (beta² * precision + recall) of each class. `average`: None, "micro", "macro"
    or "weighted". Without a threshold the largest prediction counts as positive.
    """

    def __init__(
        self, average: str | None = None, beta: float = 1.0, threshold: float | None = None, name: str = "fbeta_score"
    ) -> None:
        super().__init__(name)
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(f"{type(self).__name__}: average is None, micro, macro or weighted, not {average!r}")
        if not beta > 0:
            raise ValueError(f"{type(self).__name__}: beta is above 0, not {beta!r}")
        self.average, self.beta, self.threshold = average, beta, threshold

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            if self.threshold is None:
                found = (y_pred >= y_pred.max(-1, keepdim=True)[0]).float() * (y_pred.abs() > 1e-9).float()
            else:
                found = (y_pred > self.threshold).float()
            truth, weights = y_true.float(), _weights_like(found, sample_weight)
            self.add("true_positives", (found * truth * weights).sum(0))
            self.add("false_positives", (found * (1 - truth) * weights).sum(0))
            self.add("false_negatives", ((1 - found) * truth * weights).sum(0))

    def result(self) -> Any:
        tp, fp, fn = (
            self._value(n).reshape(-1).tolist() for n in ("true_positives", "false_positives", "false_negatives")
        )
        if self.average == "micro":
            tp, fp, fn = [sum(tp)], [sum(fp)], [sum(fn)]
        square = self.beta**2
        scores = [
            _ratio((1 + square) * t, (1 + square) * t + p + square * n + 1e-7)
            for t, p, n in zip(tp, fp, fn, strict=True)
        ]
        if self.average is None:
            return scores
        if self.average != "weighted":
            return sum(scores) / len(scores)
        sizes = [t + n for t, n in zip(tp, fn, strict=True)]
        return _ratio(sum(s * n for s, n in zip(scores, sizes, strict=True)), sum(sizes))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "average": self.average, "beta": self.beta, "threshold": self.threshold}


class F1Score(FBetaScore):
    """2 * precision * recall / (precision + recall) of each class: FBetaScore with beta 1."""

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str = "f1_score") -> None:
        super().__init__(average, 1.0, threshold, name)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_config().items() if name != "beta"}


class R2Score(Metric):
    """The coefficient of determination, 1 - residual / total, averaged over the outputs."""

    def __init__(self, name: str = "r2_score") -> None:
        super().__init__(name)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            truth = same_shape(y_true, y_pred).to(y_pred.dtype)
            weights = _weights_like(y_pred, sample_weight)
            self.add("sum", (truth * weights).sum(0))
            self.add("squares", (truth * truth * weights).sum(0))
            self.add("residual", ((truth - y_pred) * (truth - y_pred) * weights).sum(0))
            self.add("count", weights.sum(0))

    def result(self) -> float:
        parts = [self._value(n).reshape(-1).tolist() for n in ("sum", "squares", "residual", "count")]
        scores = []
        for total, squares, residual, count in zip(*parts, strict=True):
            spread = squares - total * _ratio(total, count)
            scores.append(1 - residual / spread if spread else 0.0)
        return sum(scores) / len(scores)


class MeanIoU(Metric):
    """The mean over the classes of intersection / union of labels and predictions, which are class numbers."""

    def __init__(self, num_classes: int, name: str | None = None) -> None:
        super().__init__(name)
        self.num_classes = num_classes

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            weights = _weights_like(y_pred.float(), sample_weight).reshape(-1, 1)  # (N, 1)
            kinds = ops.arange(self.num_classes, device=y_pred.device)
            truth = (y_true.reshape(-1, 1).to("int64") == kinds).float()  # (N, C)
            found = (y_pred.reshape(-1, 1).to("int64") == kinds).float()
            self.add("confusion", (truth * weights).T @ found)  # (C, C)

    def result(self) -> float:
        if not self._state:
            return 0.0
        table = self._state["confusion"].tolist()
        ratios = []
        for k in range(self.num_classes):
            union = sum(table[k]) + sum(row[k] for row in table) - table[k][k]
            if union:
                ratios.append(table[k][k] / union)
        return sum(ratios) / len(ratios) if ratios else 0.0

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_classes": self.num_classes}
