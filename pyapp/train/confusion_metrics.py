"""Metrics that are counted: true and false positives and negatives, at thresholds, and what is computed of them."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from ..engine import Tensor, no_grad, ops
from .metrics import Metric, as_tensors, ratio, same_shape, weights_like

__all__ = [
    "AUC", "F1Score", "FBetaScore", "FalseNegatives", "FalsePositives", "Precision", "PrecisionAtRecall", "Recall",
    "RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity", "TrueNegatives", "TruePositives",
]  # fmt: skip

_NEVER = -1e10  # a prediction below all thresholds
MOST_THRESHOLDS = 1 << 20


class _Confusion(Metric):
    """Base of what is counted from true and false positives and negatives at thresholds."""

    def __init__(
        self, name: str | None, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype)
        self.top_k, self.class_id, self.asked = top_k, class_id, thresholds
        several = isinstance(thresholds, (list, tuple))
        first = 0.5 if top_k is None else _NEVER  # of the largest predictions all are positive
        self.thresholds = [first if thresholds is None else thresholds] if not several else list(thresholds)
        if not all(0 <= t <= 1 or t == _NEVER for t in self.thresholds):
            raise ValueError(f"{type(self).__name__}: thresholds are in [0, 1], got {thresholds}")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            y_pred = y_pred.detach()
            limits = ops.tensor(self.thresholds, device=y_pred.device).reshape(-1, 1)  # (K, 1)
            y_true = same_shape(y_true, y_pred)
            weights = weights_like(y_pred, sample_weight)
            if self.top_k is not None:
                largest, places = y_pred.topk(self.top_k, -1)  # so many, also where others are as large
                y_pred = ops.full_like(y_pred, _NEVER).scatter(-1, places, largest)
            if self.class_id is not None:
                if y_pred.ndim < 2 or not -y_pred.shape[-1] <= self.class_id < y_pred.shape[-1]:
                    raise ValueError(
                        f"{self.name}: class_id {self.class_id} is not a class of predictions {tuple(y_pred.shape)}"
                    )
                y_true, y_pred, weights = (x[..., self.class_id] for x in (y_true, y_pred, weights))
            weights = weights.reshape(1, -1)  # (1, N)
            truth = (y_true.reshape(1, -1).float() > 0).float()  # (1, N)
            positive = (y_pred.reshape(1, -1) > limits).float()  # (K, N)
            self.count(truth, positive, weights)

    def count(self, truth: Tensor, positive: Tensor, weights: Tensor) -> None:
        """Adds the examples, dim 1 of `positive` (K, N, …): 1 where a prediction is above the threshold, else 0.
        `truth` and `weights` are those of the predictions.
        """
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


class _Count(_Confusion):
    """Base of the metrics that are one of the counts."""

    what: str

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, thresholds, dtype=dtype)

    def read(self) -> Any:
        return self._result(self.counts(self.what))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "thresholds": self.asked}


class TruePositives(_Count):
    """The weighted number of positive labels whose prediction is positive, too."""

    what = "true_positives"


class FalsePositives(_Count):
    """The weighted number of negative labels whose prediction is positive."""

    what = "false_positives"


class TrueNegatives(_Count):
    """The weighted number of negative labels whose prediction is negative, too."""

    what = "true_negatives"


class FalseNegatives(_Count):
    """The weighted number of positive labels whose prediction is negative."""

    what = "false_negatives"


class _OfPositives(_Confusion):
    """Base of Precision and Recall."""

    def __init__(
        self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name, thresholds, top_k, class_id, dtype)

    def get_config(self) -> dict[str, Any]:
        settings = {"thresholds": self.asked, "top_k": self.top_k, "class_id": self.class_id}
        return {**super().get_config(), **settings}


class Precision(_OfPositives):
    """True positives of all predicted positives. With `top_k` the largest predictions of an example are positive; with
    `class_id` one class counts alone."""

    def read(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_positives"), strict=True)
        return self._result([ratio(t, t + f) for t, f in pairs])


class Recall(_OfPositives):
    """True positives of all that are positive; `top_k` and `class_id` are those of Precision."""

    def read(self) -> Any:
        pairs = zip(self.counts("true_positives"), self.counts("false_negatives"), strict=True)
        return self._result([ratio(t, t + f) for t, f in pairs])


def _between(num_thresholds: int) -> list[float]:
    """The thresholds between 0 and 1. ValueError for more than a file may ask for."""
    if num_thresholds > MOST_THRESHOLDS:
        raise ValueError(f"num_thresholds is at most {MOST_THRESHOLDS:,}, got {num_thresholds:,}")
    return [(k + 1) / (num_thresholds - 1) for k in range(num_thresholds - 2)]


class AUC(_Confusion):
    """The area under the curve of true against false positives (`curve="ROC"`) or of precision against recall
    (`"PR"`), from so many thresholds, or from those between 0 and 1 that are given. `summation_method`:
    "interpolation", the trapezoidal rule, and for precision that of Davis and Goadrich (2006); "minoring" and
    "majoring" take the lower and the higher end of each step. `curve="PRGAIN"` is that of the gains of precision and
    recall (Flach and Kull 2015). With `multi_label` it is the mean of the labels' areas,
    by `label_weights` if there are any; without, label_weights weigh the predictions.
    """

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
        name: str | None = None, dtype: Any = None, thresholds: Any = None, multi_label: bool = False,
        num_labels: int | None = None, label_weights: Any = None, from_logits: bool = False,
    ) -> None:  # fmt: skip
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(
                f"AUC: summation_method is interpolation, minoring or majoring, not {summation_method!r:.40}"
            )
        self.summation_method = summation_method
        if (thresholds is None and num_thresholds < 2) or curve not in ("ROC", "PR", "PRGAIN"):
            raise ValueError("AUC: takes at least two thresholds, and the curve ROC, PR or PRGAIN")
        if num_labels is not None and not multi_label:
            raise ValueError("AUC: num_labels goes with multi_label=True")
        if thresholds is None:
            inner = _between(num_thresholds)
        else:
            inner = sorted(float(t) for t in thresholds)
        super().__init__(name, inner or None, dtype=dtype)
        self.given = None if thresholds is None else inner
        self.thresholds = [-1e-7, *inner, 1 + 1e-7]
        self.curve, self.from_logits, self.num_thresholds = curve, from_logits, len(self.thresholds)
        self.multi_label, self.num_labels = multi_label, num_labels
        self.label_weights = None if label_weights is None else [float(w) for w in label_weights]

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        y_pred = y_pred.sigmoid() if self.from_logits else y_pred
        labels = y_pred.shape[-1] if y_pred.ndim > 1 else None
        expected = self.num_labels or (None if self.label_weights is None else len(self.label_weights))
        if (self.multi_label or expected is not None) and (labels is None or expected not in (None, labels)):
            raise ValueError(f"{self.name}: takes predictions (B, {expected or 'labels'}), got {tuple(y_pred.shape)}")
        if not self.multi_label:
            if self.label_weights is not None:
                weights = ops.tensor(self.label_weights, device=y_pred.device)
                sample_weight = weights_like(y_pred, sample_weight) * weights
            super().update_state(y_true, y_pred, sample_weight)
            return
        with no_grad():
            y_pred = y_pred.detach()
            limits = ops.tensor(self.thresholds, device=y_pred.device).reshape(-1, 1, 1)  # (K, 1, 1)
            weights = weights_like(y_pred, sample_weight)  # (N, L)
            truth = (same_shape(y_true, y_pred).float() > 0).float()
            positive = (y_pred > limits).float()  # (K, N, L)
            self.count(truth, positive, weights)

    def read(self) -> float:
        names = ("true_positives", "false_positives", "true_negatives", "false_negatives")
        if not self.multi_label or not self._state:
            return self._area(*(self.counts(name) for name in names))
        tables = [self._value(name).T.tolist() for name in names]  # (L, K) each
        areas = [self._area(*of_label) for of_label in zip(*tables, strict=True)]
        weights = self.label_weights or [1.0] * len(areas)
        return ratio(sum(a * w for a, w in zip(areas, weights, strict=True)), sum(weights))

    def _area(self, tp: list[float], fp: list[float], tn: list[float], fn: list[float]) -> float:
        """The area from the counts at each threshold, the lowest first."""
        if self.summation_method == "interpolation" and self.curve == "PR":
            return _interpolated_precision_area(tp, fp, fn)
        if self.curve == "PRGAIN":
            return self._under(*_gains(tp, fp, tn, fn))
        recall = [ratio(t, t + f) for t, f in zip(tp, fn, strict=True)]
        if self.curve == "ROC":
            x, y = [ratio(f, f + t) for f, t in zip(fp, tn, strict=True)], recall
        else:
            x, y = recall, [ratio(t, t + f) for t, f in zip(tp, fp, strict=True)]
        return self._under(x, y)

    def _under(self, x: list[float], y: list[float]) -> float:
        """The area under points from the right to the left."""
        heights: dict[str, Callable[[float, float], float]] = {
            "interpolation": lambda a, b: (a + b) / 2, "minoring": min, "majoring": max,
        }  # fmt: skip
        height = heights[self.summation_method]
        return sum((x[k] - x[k + 1]) * height(y[k], y[k + 1]) for k in range(len(x) - 1))

    def get_config(self) -> dict[str, Any]:
        given = {} if self.given is None else {"thresholds": self.given}
        return {
            **super().get_config(), "num_thresholds": self.num_thresholds, "curve": self.curve,
            "summation_method": self.summation_method, "multi_label": self.multi_label, "num_labels": self.num_labels,
            "label_weights": self.label_weights, "from_logits": self.from_logits, **given,
        }  # fmt: skip


def _gains(
    tp: list[float], fp: list[float], tn: list[float], fn: list[float]
) -> tuple[list[float], list[float]]:  # fmt: skip
    """The gains of recall, at least 0, and of precision at each threshold. Without true positives they are 0 and 1."""
    recall, precision = [], []
    for t, f, rest, missed in zip(tp, fp, tn, fn, strict=True):
        share = ratio(t + missed, rest + f)
        recall.append(max(1 - share * missed / t, 0.0) if t else 0.0)
        precision.append(1 - share * f / t if t else 1.0)
    return recall, precision


def _interpolated_precision_area(tp: list[float], fp: list[float], fn: list[float]) -> float:
    """The area under precision against recall, where the true positives between two thresholds are interpolated (Davis
    and Goadrich 2006).
    """
    area = 0.0
    for k in range(len(tp) - 1):
        found, more = tp[k] - tp[k + 1], tp[k] + fp[k] - tp[k + 1] - fp[k + 1]
        slope = ratio(found, max(more, 0.0))
        start = tp[k + 1] - slope * (tp[k + 1] + fp[k + 1])
        both = tp[k] + fp[k] > 0 and tp[k + 1] + fp[k + 1] > 0
        growth = ratio(tp[k] + fp[k], max(tp[k + 1] + fp[k + 1], 0.0)) if both else 1.0
        area += ratio(slope * (found + start * log(growth)), max(tp[k + 1] + fn[k + 1], 0.0))
    return area


RECALL, PRECISION = ("true_positives", "false_negatives"), ("true_positives", "false_positives")
SPECIFICITY = ("true_negatives", "false_positives")


class _AtLimit(_Confusion):
    """Base: the best of one rate over the thresholds at which another rate is at least `value`. The rates are shares of
    a sum of two counts, whose first one is named first.
    """

    argument: str  # what Keras calls `value`
    sought: tuple[str, str]
    limited: tuple[str, str]

    def _begin(self, value: float, num_thresholds: int, class_id: int | None, name: str | None, dtype: Any) -> None:
        if not 0 <= value <= 1 or num_thresholds < 1:
            raise ValueError(f"{type(self).__name__}: takes a rate from 0 to 1, and at least one threshold")
        _Confusion.__init__(self, name, class_id=class_id, dtype=dtype)
        self.value, self.num_thresholds = value, num_thresholds
        inner = _between(num_thresholds)
        self.thresholds = [0.5] if num_thresholds == 1 else [0.0, *inner, 1.0]

    def _rates(self, part: str, rest: str) -> list[float]:
        return [ratio(a, a + b) for a, b in zip(self.counts(part), self.counts(rest), strict=True)]

    def read(self) -> float:
        pairs = zip(self._rates(*self.sought), self._rates(*self.limited), strict=True)
        return max((rate for rate, limit in pairs if limit >= self.value), default=0.0)

    def get_config(self) -> dict[str, Any]:
        settings = {"num_thresholds": self.num_thresholds, "class_id": self.class_id}
        return {**super().get_config(), self.argument: self.value, **settings}


class SensitivityAtSpecificity(_AtLimit):
    """The best sensitivity where the specificity is at least `specificity`."""

    argument = "specificity"
    sought, limited = RECALL, SPECIFICITY

    def __init__(
        self, specificity: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self._begin(specificity, num_thresholds, class_id, name, dtype)


class SpecificityAtSensitivity(_AtLimit):
    """The best specificity where the sensitivity is at least `sensitivity`."""

    argument = "sensitivity"
    sought, limited = SPECIFICITY, RECALL

    def __init__(
        self, sensitivity: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self._begin(sensitivity, num_thresholds, class_id, name, dtype)


class PrecisionAtRecall(_AtLimit):
    """The best precision where the recall is at least `recall`."""

    argument = "recall"
    sought, limited = PRECISION, RECALL

    def __init__(
        self, recall: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self._begin(recall, num_thresholds, class_id, name, dtype)


class RecallAtPrecision(_AtLimit):
    """The best recall where the precision is at least `precision`."""

    argument = "precision"
    sought, limited = RECALL, PRECISION

    def __init__(
        self, precision: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self._begin(precision, num_thresholds, class_id, name, dtype)


class FBetaScore(Metric):
    """(1 + beta²) * precision * recall / (beta² * precision + recall) of each class. `average`: None, "micro", "macro"
    or "weighted". Without a threshold the largest prediction counts as positive.
    """

    def __init__(
        self, average: str | None = None, beta: float = 1.0, threshold: float | None = None,
        name: str = "fbeta_score", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(name, dtype)
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(f"{type(self).__name__}: average is None, micro, macro or weighted, not {average!r}")
        if not beta > 0:
            raise ValueError(f"{type(self).__name__}: beta is above 0, not {beta!r}")
        if threshold is not None and (isinstance(threshold, bool) or not isinstance(threshold, (int, float))):
            raise ValueError(f"{type(self).__name__}: threshold is a number or None, not {threshold!r:.40}")
        self.average, self.beta, self.threshold = average, beta, threshold

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = as_tensors(y_true, y_pred)
        with no_grad():
            if self.threshold is None:
                found = (y_pred >= y_pred.max(-1, keepdim=True)[0]).float() * (y_pred.abs() > 1e-9).float()
            else:
                found = (y_pred > self.threshold).float()
            truth, weights = y_true.float(), weights_like(found, sample_weight)
            self.add("true_positives", (found * truth * weights).sum(0))
            self.add("false_positives", (found * (1 - truth) * weights).sum(0))
            self.add("false_negatives", ((1 - found) * truth * weights).sum(0))

    def read(self) -> Any:
        tp, fp, fn = (
            self._value(n).reshape(-1).tolist() for n in ("true_positives", "false_positives", "false_negatives")
        )
        if self.average == "micro":
            tp, fp, fn = [sum(tp)], [sum(fp)], [sum(fn)]
        square = self.beta**2
        scores = [
            ratio((1 + square) * t, (1 + square) * t + p + square * n + 1e-7)
            for t, p, n in zip(tp, fp, fn, strict=True)
        ]
        if self.average is None:
            return scores
        if self.average != "weighted":
            return sum(scores) / len(scores)
        sizes = [t + n for t, n in zip(tp, fn, strict=True)]
        return ratio(sum(s * n for s, n in zip(scores, sizes, strict=True)), sum(sizes))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "average": self.average, "beta": self.beta, "threshold": self.threshold}


class F1Score(FBetaScore):
    """2 * precision * recall / (precision + recall) of each class: FBetaScore with beta 1."""

    def __init__(
        self, average: str | None = None, threshold: float | None = None, name: str = "f1_score", dtype: Any = None
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in super().get_config().items() if name != "beta"}
