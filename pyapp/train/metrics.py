"""Metrics: numbers that are gathered over batches. Their state is in tensors on the device of the predictions, so a
batch costs no copy to the host; `result()` reads it.

Labels and predictions are (B, ...); a metric's mean is over all of their elements. `sample_weight` is (B,) or has a
weight for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from ..engine import Tensor, no_grad, ops

__all__ = [
    "AUC", "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "F1Score", "FalseNegatives", "FalsePositives", "Mean",
    "MeanIoU", "MeanMetricWrapper", "Metric", "Precision", "R2Score", "Recall", "RootMeanSquaredError",
    "SparseCategoricalAccuracy", "SparseTopKCategoricalAccuracy", "Sum", "TopKCategoricalAccuracy", "TrueNegatives",
    "TruePositives",
]  # fmt: skip


class Metric:
    """Base: `update_state` takes a batch, `result` gives the number so far, `reset_state` begins again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._state: dict[str, Tensor] = {}

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
            for held in self._state.values():
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
        self.gather(self.fn(y_true, y_pred, **self.settings), sample_weight)

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
        difference = y_pred - same_shape(y_true, y_pred).to(y_pred.dtype)
        self.gather(difference * difference, sample_weight)

    def result(self) -> float:
        return float(_ratio(self._value("total").item(), self._value("count").item()) ** 0.5)


class _Confusion(Metric):
    """Base of what is counted from true and false positives and negatives at thresholds."""

    def __init__(self, name: str, thresholds: Any = None) -> None:
        super().__init__(name)
        several = isinstance(thresholds, (list, tuple))
        self.thresholds = [0.5 if thresholds is None else thresholds] if not several else list(thresholds)
        if not all(0 <= t <= 1 for t in self.thresholds):
            raise ValueError(f"{type(self).__name__}: thresholds are in [0, 1], got {thresholds}")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
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
        super().__init__(name or self.what, thresholds)

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

    def __init__(self, thresholds: Any = None, name: str = "precision") -> None:
        super().__init__(name, thresholds)

    def result(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_positives"), strict=True)
        return self._result([_ratio(t, t + f) for t, f in pairs])


class Recall(_Confusion):
    """True positives of all that are positive."""

    def __init__(self, thresholds: Any = None, name: str = "recall") -> None:
        super().__init__(name, thresholds)

    def result(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_negatives"), strict=True)
        return self._result([_ratio(t, t + f) for t, f in pairs])


class AUC(_Confusion):
    """The area under the curve of true against false positives (`curve="ROC"`) or of precision against recall
    (`"PR"`), from so many thresholds. The trapezoidal rule; precision is interpolated as Davis and Goadrich (2006) do.
    """

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", name: str = "auc", from_logits: bool = False
    ) -> None:
        if num_thresholds < 2 or curve not in ("ROC", "PR"):
            raise ValueError("AUC: takes at least two thresholds, and the curve ROC or PR")
        inner = [(k + 1) / (num_thresholds - 1) for k in range(num_thresholds - 2)]
        super().__init__(name)
        self.thresholds = [-1e-7, *inner, 1 + 1e-7]
        self.curve, self.from_logits, self.num_thresholds = curve, from_logits, num_thresholds

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        super().update_state(y_true, y_pred.sigmoid() if self.from_logits else y_pred, sample_weight)

    def result(self) -> float:
        tp, fp = self.counts("true_positives"), self.counts("false_positives")
        tn, fn = self.counts("true_negatives"), self.counts("false_negatives")
        steps = range(len(tp) - 1)
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
        return {**super().get_config(), **settings}


class F1Score(Metric):
    """2 * precision * recall / (precision + recall) of each class. `average`: None, "micro", "macro" or "weighted".
    Without a threshold the largest prediction counts as positive.
    """

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str = "f1_score") -> None:
        super().__init__(name)
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(f"F1Score: average is None, micro, macro or weighted, not {average!r}")
        self.average, self.threshold = average, threshold

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
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
        scores = [_ratio(2 * t, 2 * t + p + n + 1e-7) for t, p, n in zip(tp, fp, fn, strict=True)]
        if self.average is None:
            return scores
        if self.average != "weighted":
            return sum(scores) / len(scores)
        sizes = [t + n for t, n in zip(tp, fn, strict=True)]
        return _ratio(sum(s * n for s, n in zip(scores, sizes, strict=True)), sum(sizes))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "average": self.average, "threshold": self.threshold}


class R2Score(Metric):
    """The coefficient of determination, 1 - residual / total, averaged over the outputs."""

    def __init__(self, name: str = "r2_score") -> None:
        super().__init__(name)

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
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

    def __init__(self, num_classes: int, name: str = "mean_io_u") -> None:
        super().__init__(name)
        self.num_classes = num_classes

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
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
