"""Losses by Keras' names, as functions (a loss for each example) and as classes (their reduction).

Labels and predictions are (B, ...). Probabilities are kept away from 0 and 1 by 1e-7, as Keras does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine import Tensor, ops
from ..nn import functional as F
from ..train.metrics import same_shape
from .lookup import Configured, Lookup
from .masking import mask_of, masked_weights

EPSILON = 1e-7
REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None)


def _pair(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Labels in the shape and dtype of the predictions."""
    return same_shape(y_true, y_pred).to(y_pred.dtype), y_pred


def mean_squared_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    difference = y_true - y_pred
    return (difference * difference).mean(-1)


def mean_absolute_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    return (y_true - y_pred).abs().mean(-1)


def mean_absolute_percentage_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * ((y_true - y_pred) / y_true.abs().clamp(min=EPSILON)).abs().mean(-1)


def mean_squared_logarithmic_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    difference = (y_pred.clamp(min=EPSILON) + 1).log() - (y_true.clamp(min=EPSILON) + 1).log()
    return (difference * difference).mean(-1)


def huber(y_true: Tensor, y_pred: Tensor, delta: float = 1.0) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    distance = (y_pred - y_true).abs()
    return ops.where(distance <= delta, 0.5 * distance * distance, delta * distance - 0.5 * delta * delta).mean(-1)


def log_cosh(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return (x + F.softplus(-2.0 * x) - 0.6931471805599453).mean(-1)


def _signs(y_true: Tensor) -> Tensor:
    """Labels in -1 and 1, from 0 and 1 too."""
    binary = ((y_true == 0) | (y_true == 1)).all()
    return ops.where(binary, 2.0 * y_true - 1.0, y_true)


def hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    return (1.0 - _signs(y_true) * y_pred).clamp(min=0.0).mean(-1)


def squared_hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    margin = (1.0 - _signs(y_true) * y_pred).clamp(min=0.0)
    return (margin * margin).mean(-1)


def categorical_hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    right = (y_true * y_pred).sum(-1)
    wrong = ((1.0 - y_true) * y_pred).max(-1)[0]
    return (wrong - right + 1.0).clamp(min=0.0)


def kl_divergence(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = y_true.clamp(EPSILON, 1.0), y_pred.clamp(EPSILON, 1.0)
    return (y_true * (y_true / y_pred).log()).sum(-1)


def poisson(y_true: Tensor, y_pred: Tensor) -> Tensor:
    y_true, y_pred = _pair(y_true, y_pred)
    return (y_pred - y_true * (y_pred + EPSILON).log()).mean(-1)


def _normalized(x: Tensor, axis: int) -> Tensor:
    return x / (x * x).sum(axis, keepdim=True).clamp(min=1e-12).sqrt()


def cosine_similarity(y_true: Tensor, y_pred: Tensor, axis: int = -1) -> Tensor:
    """The cosine. The loss of this name has the other sign."""
    y_true, y_pred = _pair(y_true, y_pred)
    return (_normalized(y_true, axis) * _normalized(y_pred, axis)).sum(axis)


def _smoothed(y_true: Tensor, label_smoothing: float, classes: int) -> Tensor:
    return y_true * (1.0 - label_smoothing) + label_smoothing / classes if label_smoothing else y_true


def categorical_crossentropy(
    y_true: Tensor, y_pred: Tensor, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Of one-hot labels, or distributions, over the classes along `axis`."""
    y_true, y_pred = _pair(y_true, y_pred)
    if y_true.shape[axis] != y_pred.shape[axis]:
        raise ValueError(
            f"categorical_crossentropy: labels of shape {y_true.shape} and predictions of shape {y_pred.shape} differ "
            "in the number of classes; labels that are class numbers take sparse_categorical_crossentropy"
        )
    y_true = _smoothed(y_true, label_smoothing, y_pred.shape[axis])
    if from_logits:
        return -(y_true * y_pred.log_softmax(axis)).sum(axis)
    y_pred = y_pred / y_pred.sum(axis, keepdim=True)
    return -(y_true * y_pred.clamp(EPSILON, 1.0 - EPSILON).log()).sum(axis)


def sparse_categorical_crossentropy(
    y_true: Tensor, y_pred: Tensor, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1
) -> Tensor:
    """Of class numbers (B, ...) and predictions (B, ..., classes)."""
    classes = y_true.squeeze(-1) if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1 else y_true
    if classes.dtype.is_floating_point or classes.dtype.name == "bool":
        classes = classes.to("int64")
    if axis not in (-1, y_pred.ndim - 1):
        y_pred = y_pred.movedim(axis, -1)
    if classes.shape != y_pred.shape[:-1]:
        raise ValueError(
            f"sparse_categorical_crossentropy: labels of shape {y_true.shape} do not fit predictions of shape "
            f"{y_pred.shape}: a class number for each prediction is wanted"
        )
    scores = y_pred if from_logits else (y_pred / y_pred.sum(-1, keepdim=True)).clamp(EPSILON, 1 - EPSILON).log()
    flat = scores.reshape(-1, scores.shape[-1])
    ignored = -100 if ignore_class is None else ignore_class
    compute = F.cross_entropy if from_logits else F.nll_loss
    try:
        found = compute(flat, classes.reshape(-1), reduction="none", ignore_index=ignored)
    except (IndexError, ValueError) as error:
        raise ValueError(
            f"sparse_categorical_crossentropy: labels are classes 0 … {flat.shape[1] - 1}, got {int(classes.min())} … "
            f"{int(classes.max())}"
        ) from error
    return found.reshape(classes.shape)


def binary_crossentropy(
    y_true: Tensor, y_pred: Tensor, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Of labels in 0 .. 1 and probabilities, or logits."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2)
    if from_logits:
        return F.binary_cross_entropy_with_logits(y_pred, y_true, reduction="none").mean(axis)
    y_pred = y_pred.clamp(EPSILON, 1.0 - EPSILON)
    return -(y_true * y_pred.log() + (1.0 - y_true) * (1.0 - y_pred).log()).mean(axis)


def binary_focal_crossentropy(
    y_true: Tensor, y_pred: Tensor, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0,
    from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
) -> Tensor:  # fmt: skip
    """binary_crossentropy that weighs hard examples more (Lin et al. 2017, arXiv 1708.02002)."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2)
    y_pred = (y_pred.sigmoid() if from_logits else y_pred).clamp(EPSILON, 1.0 - EPSILON)
    entropy = -(y_true * y_pred.log() + (1.0 - y_true) * (1.0 - y_pred).log())
    right = y_true * y_pred + (1.0 - y_true) * (1.0 - y_pred)
    value = (1.0 - right) ** gamma * entropy
    if apply_class_balancing:
        value = value * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return value.mean(axis)


def categorical_focal_crossentropy(
    y_true: Tensor, y_pred: Tensor, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False,
    label_smoothing: float = 0.0, axis: int = -1,
) -> Tensor:  # fmt: skip
    """categorical_crossentropy that weighs hard examples more (Lin et al. 2017, arXiv 1708.02002)."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, y_pred.shape[axis])
    y_pred = y_pred.softmax(axis) if from_logits else y_pred / y_pred.sum(axis, keepdim=True)
    y_pred = y_pred.clamp(EPSILON, 1.0 - EPSILON)
    return (-y_true * y_pred.log() * alpha * (1.0 - y_pred) ** gamma).sum(axis)


def dice(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """1 - the Dice coefficient of everything together."""
    y_true, y_pred = _pair(y_true, y_pred)
    both = (y_true * y_pred).sum()
    return 1 - 2.0 * both / (y_true.sum() + y_pred.sum() + EPSILON)


class Loss(Configured):
    """Base: `call(y_true, y_pred)` gives a loss for each example; calling the object reduces it. `reduction`:
    "sum_over_batch_size" (the mean over all elements), "mean", "sum", "mean_with_sample_weight" or None.
    """

    def __init__(self, name: str | None = None, reduction: str | None = "sum_over_batch_size") -> None:
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction is one of {REDUCTIONS}, not {reduction!r}")
        self.name, self.reduction = name or type(self).__name__, reduction

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        raise NotImplementedError

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        y_pred = ops.as_tensor(y_pred)
        y_true = ops.as_tensor(y_true)
        values = self.call(y_true, y_pred)
        mean = self.reduction in ("mean", "sum_over_batch_size")
        weights = masked_weights(sample_weight, mask_of(y_pred), values.dtype, mean)
        return reduced(values, weights, self.reduction)


def reduced(values: Tensor, sample_weight: Any, reduction: str | None) -> Tensor:
    """Losses (B, ...) weighted and reduced as Keras does: the mean is over the number of elements, not of weights."""
    weights = None
    if sample_weight is not None:
        weights = ops.as_tensor(sample_weight).to(values.dtype).to(values.device)
        if weights.ndim > values.ndim:
            weights = weights.reshape(weights.shape[: values.ndim])
        weights = weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))
        values = values * weights
    if reduction in ("none", None):
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean_with_sample_weight" and weights is not None:
        return values.sum() / (weights.expand(values.shape).sum() + EPSILON)
    return values.mean()


class LossFunctionWrapper(Loss):
    """A function (y_true, y_pred, **settings) as a loss."""

    def __init__(
        self, fn: Callable[..., Tensor], reduction: str | None = "sum_over_batch_size", name: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(name or getattr(fn, "__name__", None), reduction)
        self.fn, self.settings = fn, settings

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self.fn(y_true, y_pred, **self.settings)


def _loss_class(name: str, fn: Callable[..., Tensor], **defaults: Any) -> type[Loss]:
    """The class of a function: its settings are the function's, with these defaults."""

    def __init__(
        self: Any, *args: Any, reduction: Any = "sum_over_batch_size", name: Any = None, **settings: Any
    ) -> None:
        unknown = settings.keys() - defaults.keys()
        if unknown or len(args) > len(defaults):
            raise TypeError(f"{type(self).__name__} takes {', '.join((*defaults, 'reduction', 'name'))}")
        chosen = {**defaults, **dict(zip(defaults, args, strict=False)), **settings}
        LossFunctionWrapper.__init__(self, fn, reduction, name or fn.__name__, **chosen)

    doc = f"{fn.__name__}, reduced."
    return type(name, (LossFunctionWrapper,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


def _negative_cosine(y_true: Tensor, y_pred: Tensor, axis: int = -1) -> Tensor:
    return -cosine_similarity(y_true, y_pred, axis)


MeanSquaredError = _loss_class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _loss_class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _loss_class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _loss_class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
Huber = _loss_class("Huber", huber, delta=1.0)
LogCosh = _loss_class("LogCosh", log_cosh)
Hinge = _loss_class("Hinge", hinge)
SquaredHinge = _loss_class("SquaredHinge", squared_hinge)
CategoricalHinge = _loss_class("CategoricalHinge", categorical_hinge)
KLDivergence = _loss_class("KLDivergence", kl_divergence)
Poisson = _loss_class("Poisson", poisson)
CosineSimilarity = _loss_class("CosineSimilarity", _negative_cosine, axis=-1)
CategoricalCrossentropy = _loss_class(
    "CategoricalCrossentropy", categorical_crossentropy, from_logits=False, label_smoothing=0.0, axis=-1
)
SparseCategoricalCrossentropy = _loss_class(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, from_logits=False, ignore_class=None, axis=-1
)
BinaryCrossentropy = _loss_class(
    "BinaryCrossentropy", binary_crossentropy, from_logits=False, label_smoothing=0.0, axis=-1
)
BinaryFocalCrossentropy = _loss_class(
    "BinaryFocalCrossentropy", binary_focal_crossentropy, apply_class_balancing=False, alpha=0.25, gamma=2.0,
    from_logits=False, label_smoothing=0.0, axis=-1,
)  # fmt: skip
CategoricalFocalCrossentropy = _loss_class(
    "CategoricalFocalCrossentropy", categorical_focal_crossentropy, alpha=0.25, gamma=2.0, from_logits=False,
    label_smoothing=0.0, axis=-1,
)  # fmt: skip
Dice = _loss_class("Dice", dice)

ALIASES = {
    "mse": "mean_squared_error", "MSE": "mean_squared_error", "mae": "mean_absolute_error",
    "MAE": "mean_absolute_error", "mape": "mean_absolute_percentage_error", "MAPE": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error", "MSLE": "mean_squared_logarithmic_error", "bce": "binary_crossentropy",
    "BCE": "binary_crossentropy", "kld": "kl_divergence", "KLD": "kl_divergence", "logcosh": "log_cosh",
}  # fmt: skip
_lookup = Lookup("loss", globals(), Loss, ALIASES)


def get(given: Any) -> Any:
    """The loss of that name: for a function's name the function."""
    if isinstance(given, str):
        function = globals().get(ALIASES.get(given, given))
        if callable(function) and not isinstance(function, type):
            return function
    return _lookup.get(given)


def as_loss(given: Any) -> Loss:
    """A Loss, from a name, a function (y_true, y_pred) or a Loss."""
    found = get(given)
    if isinstance(found, Loss):
        return found
    if found is cosine_similarity:
        found = _negative_cosine
    return LossFunctionWrapper(found)
