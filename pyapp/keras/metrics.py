"""Metrics by Keras' names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..engine import Tensor, ops
from ..train.confusion_metrics import *  # noqa: F403
from ..train.floats import floatx
from ..train.metrics import *  # noqa: F403
from ..train.metrics import (
    BinaryAccuracy as BinaryAccuracy,
)
from ..train.metrics import (
    CategoricalAccuracy as CategoricalAccuracy,
)
from ..train.metrics import (
    Mean as Mean,
)
from ..train.metrics import (
    MeanMetricWrapper as MeanMetricWrapper,
)
from ..train.metrics import (
    Metric as Metric,
)
from ..train.metrics import (
    SparseCategoricalAccuracy as SparseCategoricalAccuracy,
)
from ..train.metrics import (
    accuracy as accuracy,
)
from ..train.metrics import (
    binary_accuracy as binary_accuracy,
)
from ..train.metrics import (
    categorical_accuracy as categorical_accuracy,
)
from ..train.metrics import same_shape as _same_shape
from ..train.metrics import (
    sparse_categorical_accuracy as sparse_categorical_accuracy,
)
from ..train.metrics import (
    sparse_top_k_categorical_accuracy as sparse_top_k_categorical_accuracy,
)
from ..train.metrics import (
    top_k_categorical_accuracy as top_k_categorical_accuracy,
)
from ..train.names import snake_case
from ..train.overlap import *  # noqa: F403
from . import losses
from .lookup import BY_MODULE, Lookup, serialize_whole
from .losses import (
    binary_crossentropy as binary_crossentropy,
)
from .losses import (
    binary_focal_crossentropy as binary_focal_crossentropy,
)
from .losses import (
    categorical_crossentropy as categorical_crossentropy,
)
from .losses import (
    categorical_focal_crossentropy as categorical_focal_crossentropy,
)
from .losses import (
    categorical_hinge as categorical_hinge,
)
from .losses import (
    hinge as hinge,
)
from .losses import (
    huber as huber,
)
from .losses import (
    kl_divergence as kl_divergence,
)
from .losses import (
    log_cosh as log_cosh,
)
from .losses import (
    mean_absolute_error as mean_absolute_error,
)
from .losses import (
    mean_absolute_percentage_error as mean_absolute_percentage_error,
)
from .losses import (
    mean_squared_error as mean_squared_error,
)
from .losses import (
    mean_squared_logarithmic_error as mean_squared_logarithmic_error,
)
from .losses import (
    poisson as poisson,
)
from .losses import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from .losses import (
    squared_hinge as squared_hinge,
)
from .masking import mask_of as _mask_of
from .masking import masked_weights as _masked_weights


def _pair(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    found = ops.as_tensor(y_pred)
    found = found if found.dtype.is_floating_point else found.to(floatx())
    return _same_shape(ops.as_tensor(y_true), found).to(found.dtype), found


def pearson_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """The correlation of labels and predictions along an axis."""
    a, b = (x - x.mean(axis, True) for x in _pair(y_true, y_pred))
    a, b = (x / x.square().mean(axis, True).sqrt() for x in (a, b))
    return (a * b).mean(axis)


def concordance_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """How closely predictions are the labels (Lin 1989): 1 if they are equal."""
    a, b = _pair(y_true, y_pred)
    mean_a, mean_b = a.mean(axis, True), b.mean(axis, True)
    spread = (a - mean_a).square().mean(axis, True) + (b - mean_b).square().mean(axis, True)
    both = (a - mean_b) * (b - mean_b)
    return (2 * both / (spread + (mean_a - mean_b).square() + 1e-7)).mean(axis)


class _MeanOfLoss(MeanMetricWrapper):
    """The mean of a loss. Where examples have weights, those that the loss masks (`ignore_class`) weigh nothing."""

    def gather(self, values: Tensor, sample_weight: Any = None) -> None:
        if sample_weight is not None:
            sample_weight = _masked_weights(sample_weight, _mask_of(values), self.dtype, mean=False)
        super().gather(values, sample_weight)


def _of_loss(
    name: str, fn: Callable[..., Tensor], own_name: str | None = None, **defaults: Any
) -> type[MeanMetricWrapper]:
    """The metric of a loss: its mean over the examples."""

    def __init__(self: Any, name: str = own_name or snake_case(name), dtype: Any = None, **settings: Any) -> None:
        unknown = settings.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no argument {', '.join(sorted(unknown))}")
        MeanMetricWrapper.__init__(self, fn, name, dtype, **{**defaults, **settings})

    return type(
        name,
        (_MeanOfLoss,),
        {"__init__": __init__, "__doc__": f"The mean of {fn.__name__}.", "__module__": __name__},
    )


def _cosine(y_true: Tensor, y_pred: Tensor, axis: int = -1) -> Tensor:
    return -losses.cosine_similarity(y_true, y_pred, axis)


MeanSquaredError = _of_loss("MeanSquaredError", losses.mean_squared_error)
MeanAbsoluteError = _of_loss("MeanAbsoluteError", losses.mean_absolute_error)
MeanAbsolutePercentageError = _of_loss("MeanAbsolutePercentageError", losses.mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _of_loss("MeanSquaredLogarithmicError", losses.mean_squared_logarithmic_error)
LogCoshError = _of_loss("LogCoshError", losses.log_cosh, "logcosh")
Hinge = _of_loss("Hinge", losses.hinge)
SquaredHinge = _of_loss("SquaredHinge", losses.squared_hinge)
CategoricalHinge = _of_loss("CategoricalHinge", losses.categorical_hinge)
KLDivergence = _of_loss("KLDivergence", losses.kl_divergence)
Poisson = _of_loss("Poisson", losses.poisson)
CosineSimilarity = _of_loss("CosineSimilarity", _cosine, axis=-1)
PearsonCorrelation = _of_loss("PearsonCorrelation", pearson_correlation, axis=-1)
ConcordanceCorrelation = _of_loss("ConcordanceCorrelation", concordance_correlation, axis=-1)
BinaryCrossentropy = _of_loss("BinaryCrossentropy", losses.binary_crossentropy, from_logits=False, label_smoothing=0.0)
CategoricalCrossentropy = _of_loss(
    "CategoricalCrossentropy", losses.categorical_crossentropy, from_logits=False, label_smoothing=0.0, axis=-1
)
SparseCategoricalCrossentropy = _of_loss(
    "SparseCategoricalCrossentropy",
    losses.sparse_categorical_crossentropy,
    from_logits=False,
    ignore_class=None,
    axis=-1,
)

_ACCURACY = ("accuracy", "acc")
_CROSSENTROPY = ("crossentropy", "ce")
_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "binary_accuracy": binary_accuracy, "categorical_accuracy": categorical_accuracy,
    "sparse_categorical_accuracy": sparse_categorical_accuracy,
    "top_k_categorical_accuracy": top_k_categorical_accuracy,
    "sparse_top_k_categorical_accuracy": sparse_top_k_categorical_accuracy, "cosine_similarity": _cosine,
}  # fmt: skip
_ALIASES = {
    "mse": "MeanSquaredError", "MSE": "MeanSquaredError", "mae": "MeanAbsoluteError", "MAE": "MeanAbsoluteError",
    "mape": "MeanAbsolutePercentageError", "msle": "MeanSquaredLogarithmicError", "AUC": "AUC", "auc": "AUC",
    "rmse": "RootMeanSquaredError", "kl_divergence": "KLDivergence", "MeanIoU": "MeanIoU", "r2_score": "R2Score",
    "f1_score": "F1Score", "logcosh": "LogCoshError",
}  # fmt: skip
_lookup = Lookup("metric", globals(), Metric, _ALIASES)
get, deserialize, serialize = _lookup.get, _lookup.deserialize, serialize_whole


def for_labels(given: Any, y_true: Any, y_pred: Tensor) -> Metric:
    """The metric that `given` means for labels and predictions of these shapes; its name is the one that was given."""
    if isinstance(given, Metric):
        return given
    if isinstance(given, str) and given in (*_ACCURACY, *_CROSSENTROPY):
        exact = given in _ACCURACY
        if y_pred.ndim == 0 or y_pred.shape[-1] == 1:
            kind: Any = BinaryAccuracy if exact else BinaryCrossentropy
        elif y_true.shape == y_pred.shape:
            binary = y_pred.ndim == 1
            kind = (
                (BinaryAccuracy if binary else CategoricalAccuracy)
                if exact
                else (BinaryCrossentropy if binary else CategoricalCrossentropy)
            )
        elif y_pred.ndim == y_true.ndim:
            kind = SparseCategoricalAccuracy if exact else SparseCategoricalCrossentropy
        else:
            kind = SparseCategoricalAccuracy if exact else SparseCategoricalCrossentropy
        return kind(name=given)
    if isinstance(given, str) and given in _FUNCTIONS:
        return MeanMetricWrapper(_FUNCTIONS[given], given)
    if isinstance(given, str) and callable(getattr(losses, losses.ALIASES.get(given, given), None)):
        return MeanMetricWrapper(getattr(losses, losses.ALIASES.get(given, given)), given)
    found = get(given)
    if isinstance(found, losses.Loss):
        return MeanMetricWrapper(lambda t, p: found(t, p), found.name)
    if isinstance(found, Metric):
        if isinstance(given, str):
            found.name = given
        return found
    return MeanMetricWrapper(found, snake_case(re.sub(r"\W", "", getattr(found, "__name__", "metric"))))


__all__ = [
    name for name in dir() if name[0] != "_" and name not in ("annotations", "Any", "Callable", "Lookup", "losses")
]
__all__ += ["Mean", "accuracy"]

for _name, _kind in [(name, kind) for name, kind in globals().items() if isinstance(kind, type)]:
    if issubclass(_kind, Metric) and _kind.__name__ == _name:  # they are no Configured
        BY_MODULE["keras.metrics", _name] = _kind
