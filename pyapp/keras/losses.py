"""Losses by Keras' names, as functions (a loss for each example) and as classes (their reduction).

Labels and predictions are (B, ...). Probabilities are kept away from 0 and 1 by 1e-7, as Keras does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..engine import Tensor, as_dtype, ops
from ..nn import functional as F
from ..train.floats import floatx
from ..train.metrics import of_tensors, same_shape
from ..train.names import unique_name
from .arguments import axes_of
from .lookup import Configured, Lookup, serialize_whole
from .masking import mask_of, masked_weights, set_mask

EPSILON = 1e-7
REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None)


def _pair(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Labels in the shape and dtype of the predictions."""
    return same_shape(y_true, y_pred).to(y_pred.dtype), y_pred


@of_tensors
def mean_squared_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of (y_true - y_pred)² over the last dim: (B, ..., N) → (B, ...)."""
    y_true, y_pred = _pair(y_true, y_pred)
    difference = y_true - y_pred
    return (difference * difference).mean(-1)


@of_tensors
def mean_absolute_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of |y_true - y_pred| over the last dim: (B, ..., N) → (B, ...)."""
    y_true, y_pred = _pair(y_true, y_pred)
    return (y_true - y_pred).abs().mean(-1)


@of_tensors
def mean_absolute_percentage_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of |y_true - y_pred| / |y_true| over the last dim, in percent."""
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * ((y_true - y_pred) / y_true.abs().clamp(min=EPSILON)).abs().mean(-1)


@of_tensors
def mean_squared_logarithmic_error(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean squared error of log(1 + y); labels and predictions below 1e-7 count as that."""
    y_true, y_pred = _pair(y_true, y_pred)
    difference = (y_pred.clamp(min=EPSILON) + 1).log() - (y_true.clamp(min=EPSILON) + 1).log()
    return (difference * difference).mean(-1)


@of_tensors
def huber(y_true: Tensor, y_pred: Tensor, delta: float = 1.0) -> Tensor:
    """The mean of d² / 2 where |d| <= delta, of delta |d| - delta² / 2 elsewhere, over the last dim."""
    y_true, y_pred = _pair(y_true, y_pred)
    distance = (y_pred - y_true).abs()
    return ops.where(distance <= delta, 0.5 * distance * distance, delta * distance - 0.5 * delta * delta).mean(-1)


@of_tensors
def log_cosh(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of log(cosh(y_pred - y_true)) over the last dim."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return (x + F.softplus(-2.0 * x) - 0.6931471805599453).mean(-1)


def _same_shapes(name: str, y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """_pair of labels that have the shape of the predictions. ValueError for others."""
    y_true, y_pred = _pair(y_true, y_pred)
    if y_true.shape != y_pred.shape:
        raise ValueError(
            f"{name}: takes labels and predictions of the same shape, got {tuple(y_true.shape)} and "
            f"{tuple(y_pred.shape)}"
        )
    return y_true, y_pred


def _signs(y_true: Tensor) -> Tensor:
    """Labels in -1 and 1, from 0 and 1 too."""
    binary = ((y_true == 0) | (y_true == 1)).all()
    return ops.where(binary, 2.0 * y_true - 1.0, y_true)


@of_tensors
def hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of max(1 - y_true y_pred, 0) over the last dim; labels are -1 and 1, or 0 and 1."""
    y_true, y_pred = _pair(y_true, y_pred)
    return (1.0 - _signs(y_true) * y_pred).clamp(min=0.0).mean(-1)


@of_tensors
def squared_hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of max(1 - y_true y_pred, 0)² over the last dim; labels as for hinge."""
    y_true, y_pred = _pair(y_true, y_pred)
    margin = (1.0 - _signs(y_true) * y_pred).clamp(min=0.0)
    return (margin * margin).mean(-1)


@of_tensors
def categorical_hinge(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """max(the largest prediction for another class - that of the class + 1, 0); labels are one-hot."""
    y_true, y_pred = _pair(y_true, y_pred)
    right = (y_true * y_pred).sum(-1)
    wrong = ((1.0 - y_true) * y_pred).max(-1)[0]
    return (wrong - right + 1.0).clamp(min=0.0)


@of_tensors
def kl_divergence(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The sum of y_true log(y_true / y_pred) over the last dim."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = y_true.clamp(EPSILON, 1.0), y_pred.clamp(EPSILON, 1.0)
    return (y_true * (y_true / y_pred).log()).sum(-1)


@of_tensors
def poisson(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """The mean of y_pred - y_true log(y_pred) over the last dim."""
    y_true, y_pred = _pair(y_true, y_pred)
    return (y_pred - y_true * (y_pred + EPSILON).log()).mean(-1)


def _normalized(x: Tensor, axis: int) -> Tensor:
    return x / (x * x).sum(axis, keepdim=True).clamp(min=1e-12).sqrt()


@of_tensors
def cosine_similarity(y_true: Tensor, y_pred: Tensor, axis: int = -1) -> Tensor:
    """The negative cosine: -1 where the directions are the same. The metric of this name has the other sign."""
    y_true, y_pred = _pair(y_true, y_pred)
    return -(_normalized(y_true, axis) * _normalized(y_pred, axis)).sum(axis)


def _smoothed(y_true: Tensor, label_smoothing: float, classes: int) -> Tensor:
    return y_true * (1.0 - label_smoothing) + label_smoothing / classes if label_smoothing else y_true


@of_tensors
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


@of_tensors
def sparse_categorical_crossentropy(
    y_true: Tensor, y_pred: Tensor, from_logits: bool = False, ignore_class: int | None = None, axis: int = -1
) -> Tensor:
    """Of class numbers (B, ...) and predictions (B, ..., classes). Where the class is `ignore_class` it is 0, and means
    do not count it."""
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
    found = found.reshape(classes.shape)
    return found if ignore_class is None else set_mask(found, classes != ignore_class)


@of_tensors
def binary_crossentropy(
    y_true: Tensor, y_pred: Tensor, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    """Of labels in 0 .. 1 and probabilities, or logits. ValueError where the shapes differ."""
    y_true, y_pred = _same_shapes("binary_crossentropy", y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2)
    if from_logits:
        return F.binary_cross_entropy_with_logits(y_pred, y_true, reduction="none").mean(axis)
    y_pred = y_pred.clamp(EPSILON, 1.0 - EPSILON)
    return -(y_true * y_pred.log() + (1.0 - y_true) * (1.0 - y_pred).log()).mean(axis)


@of_tensors
def binary_focal_crossentropy(
    y_true: Tensor, y_pred: Tensor, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0,
    from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
) -> Tensor:  # fmt: skip
    """binary_crossentropy that weighs hard examples more (Lin et al. 2017, arXiv 1708.02002)."""
    y_true, y_pred = _same_shapes("binary_focal_crossentropy", y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2)
    y_pred = (y_pred.sigmoid() if from_logits else y_pred).clamp(EPSILON, 1.0 - EPSILON)
    entropy = -(y_true * y_pred.log() + (1.0 - y_true) * (1.0 - y_pred).log())
    right = y_true * y_pred + (1.0 - y_true) * (1.0 - y_pred)
    value = (1.0 - right) ** gamma * entropy
    if apply_class_balancing:
        value = value * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return value.mean(axis)


@of_tensors
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


def _sum(x: Tensor, axis: Any) -> Tensor:
    return x.sum(tuple(axes_of(axis, x)))


@of_tensors
def dice(y_true: Tensor, y_pred: Tensor, axis: Any = None) -> Tensor:
    """1 - the Dice coefficient along the axes, or of everything together."""
    y_true, y_pred = _pair(y_true, y_pred)
    return 1 - 2.0 * _sum(y_true * y_pred, axis) / (_sum(y_true, axis) + _sum(y_pred, axis) + EPSILON)


@of_tensors
def tversky(y_true: Tensor, y_pred: Tensor, alpha: float = 0.5, beta: float = 0.5, axis: Any = None) -> Tensor:
    """1 - Tversky's index (Salehi et al. 2017): `alpha` weighs what is missed, `beta` what is wrong."""
    y_true, y_pred = _pair(y_true, y_pred)
    both = _sum(y_true * y_pred, axis)
    wrong = _sum(y_true * (1 - y_pred), axis) * alpha + _sum((1 - y_true) * y_pred, axis) * beta
    return 1 - both / (both + wrong + EPSILON)


@of_tensors
def categorical_generalized_cross_entropy(y_true: Tensor, y_pred: Tensor, q: float = 0.5) -> Tensor:
    """(1 - p^q) / q for the probability p of the class (Zhang and Sabuncu 2018): between the mean absolute error, q =
    1, and cross entropy, q = 0."""
    classes = y_true.to("int64").reshape(y_pred.shape[:-1])
    found = y_pred.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
    return (1 - found**q) / q


def circle(
    y_true: Any, y_pred: Any, ref_labels: Any = None, ref_embeddings: Any = None, remove_diagonal: bool = True,
    gamma: float = 80.0, margin: float = 0.4,
) -> Tensor:  # fmt: skip
    """The circle loss (Sun et al. 2020, arXiv 2002.10857) of normalised vectors (B, F) by their classes (B,): vectors
    of one class come closer, others go away. Vectors without a partner do not count in the mean."""
    vectors, labels = ops.as_tensor(y_pred), ops.as_tensor(y_true).to("int32").reshape(-1, 1)
    others = vectors if ref_embeddings is None else ops.as_tensor(ref_embeddings)
    classes = labels if ref_labels is None else ops.as_tensor(ref_labels).to("int32").reshape(-1, 1)
    distance = (1 - vectors @ others.T).clamp(min=0.0)  # (B, references)
    same = labels == classes.T
    partner = same
    if remove_diagonal:
        partner = same & ~ops.eye(same.shape[0], same.shape[1], dtype="bool", device=same.device)
    near = (margin + distance) * (distance - margin) * gamma
    far = (1 + margin - distance).clamp(min=0.0) * (1 - margin - distance) * gamma
    never = -1e30  # of what is left out
    total = ops.where(partner, near, never).logsumexp(1) + ops.where(same, never, far).logsumexp(1)
    found = F.softplus(total)
    return set_mask(found, found.detach() > 0)


@of_tensors
def ctc(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Connectionist temporal classification of labels (B, N), 0 beyond their ends, under logits (B, T, classes), whose
    class 0 is the blank."""
    if y_true.ndim != 2 or y_pred.ndim != 3:
        raise ValueError(f"ctc: takes labels (B, N) and logits (B, T, classes), got {y_true.shape} and {y_pred.shape}")
    batch, steps = y_pred.shape[:2]
    return F.ctc_loss(
        y_pred.log_softmax(-1).transpose(0, 1), y_true.to("int64"), ops.full((batch,), steps, dtype="int64"),
        (y_true != 0).sum(-1), 0, "none",
    )  # fmt: skip


class Loss(Configured):
    """Base: `call(y_true, y_pred)` gives a loss for each example; calling the object reduces it. `reduction`:
    "sum_over_batch_size" (the mean over all elements), "mean", "sum", "mean_with_sample_weight" or None.
    """

    keras_module = "keras.losses"

    def __init__(
        self, name: str | None = None, reduction: str | None = "sum_over_batch_size", dtype: Any = None
    ) -> None:
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction is one of {REDUCTIONS}, not {reduction!r}")
        self.name, self.reduction = name or unique_name(type(self).__name__), reduction
        # Of the computation; None: float32 for shorter floats, else that of the inputs.
        dtype = getattr(dtype, "compute_dtype", dtype)  # that of a policy
        self.dtype = None if dtype is None and floatx() == "float32" else as_dtype(dtype or floatx()).name

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor; the dtype where one was given."""
        return {key: value for key, value in super().get_config().items() if key != "dtype" or value is not None}

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        raise NotImplementedError

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        y_pred = ops.as_tensor(y_pred)
        y_true = ops.as_tensor(y_true)
        mask = mask_of(y_pred)
        kind = floatx() if self.dtype is None else self.dtype
        y_pred = y_pred.to(kind)
        y_true = y_true.to(kind) if y_true.dtype.is_floating_point else y_true
        values = self.call(y_true, y_pred)
        mean, own = self.reduction in ("mean", "sum_over_batch_size"), mask_of(values)
        if own is not None:
            mask = own if mask is None else ops.as_tensor(mask).to("bool") & own
        weights = masked_weights(sample_weight, mask, values.dtype, mean)
        return reduced(values, weights, self.reduction)


def reduced(values: Tensor, sample_weight: Any, reduction: str | None) -> Tensor:
    """Losses (B, ...) weighted and reduced as Keras does: the mean is over the number of elements, not of weights."""
    weights = None
    if sample_weight is not None:
        weights = ops.as_tensor(sample_weight).to(values.dtype).to(values.device)
        if weights.ndim > values.ndim > 0:
            weights = weights.reshape(weights.shape[: values.ndim])
        if values.ndim > weights.ndim:
            weights = weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))
        values = values * weights  # a loss that is one number is taken for that of every example
    if reduction in ("none", None):
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean_with_sample_weight" and weights is not None:
        return values.sum() / (weights.expand(values.shape).sum() + EPSILON)
    return values.mean()


def _of_same_rank(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Labels and predictions where one has a last dim of 1 more: vectors become (B, 1), others lose the dim."""
    if y_true.ndim == y_pred.ndim + 1 and y_true.shape[-1] == 1:
        return (y_true, y_pred.unsqueeze(-1)) if y_pred.ndim == 1 else (y_true.squeeze(-1), y_pred)
    if y_pred.ndim == y_true.ndim + 1 and y_pred.shape[-1] == 1:
        return (y_true.unsqueeze(-1), y_pred) if y_true.ndim == 1 else (y_true, y_pred.squeeze(-1))
    return y_true, y_pred


class LossFunctionWrapper(Loss):
    """A function (y_true, y_pred, **settings) as a loss."""

    def __init__(
        self, fn: Callable[..., Tensor], reduction: str | None = "sum_over_batch_size", name: str | None = None,
        dtype: Any = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(name or getattr(fn, "__name__", None), reduction, dtype)
        self.fn, self.settings = fn, settings

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return self.fn(*_of_same_rank(y_true, y_pred), **self.settings)


def _loss_class(
    name: str, fn: Callable[..., Tensor], order: str = "", called: str | None = None, **defaults: Any
) -> type[Loss]:
    """The class of a function: its settings are the function's, with these defaults. `order` is that of the arguments
    where they do not come first, `called` the name of its objects where that is not the function's."""

    every = {"reduction": "sum_over_batch_size", "name": called or fn.__name__, "dtype": None}
    places = dict.fromkeys(order.split()) if order else {**defaults, **every}
    every = {key: {**defaults, **every}[key] for key in places}

    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        if settings.keys() - every.keys() or len(args) > len(every):
            raise TypeError(f"{type(self).__name__} takes {', '.join(every)}")
        chosen = {**every, **dict(zip(every, args, strict=False)), **settings}
        LossFunctionWrapper.__init__(self, fn, **chosen)

    kinds = inspect.Parameter
    parameters = [kinds(key, kinds.POSITIONAL_OR_KEYWORD, default=value) for key, value in every.items()]
    own = kinds("self", kinds.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
    doc = f"{fn.__name__}, reduced."
    return type(name, (LossFunctionWrapper,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


MeanSquaredError = _loss_class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _loss_class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _loss_class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _loss_class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
Huber = _loss_class("Huber", huber, called="huber_loss", delta=1.0)
LogCosh = _loss_class("LogCosh", log_cosh)
Hinge = _loss_class("Hinge", hinge)
SquaredHinge = _loss_class("SquaredHinge", squared_hinge)
CategoricalHinge = _loss_class("CategoricalHinge", categorical_hinge)
KLDivergence = _loss_class("KLDivergence", kl_divergence)
Poisson = _loss_class("Poisson", poisson)
CosineSimilarity = _loss_class("CosineSimilarity", cosine_similarity, axis=-1)
CategoricalCrossentropy = _loss_class(
    "CategoricalCrossentropy", categorical_crossentropy, from_logits=False, label_smoothing=0.0, axis=-1
)
SparseCategoricalCrossentropy = _loss_class(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy,
    "from_logits ignore_class reduction axis name dtype", from_logits=False, ignore_class=None, axis=-1,
)  # fmt: skip

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
Dice = _loss_class("Dice", dice, "reduction name axis dtype", axis=None)
Tversky = _loss_class("Tversky", tversky, "alpha beta reduction name axis dtype", alpha=0.5, beta=0.5, axis=None)
CategoricalGeneralizedCrossEntropy = _loss_class(
    "CategoricalGeneralizedCrossEntropy", categorical_generalized_cross_entropy, q=0.5
)
CTC = _loss_class("CTC", ctc)
Circle = _loss_class("Circle", circle, gamma=80.0, margin=0.4, remove_diagonal=True)

ALIASES = {
    "mse": "mean_squared_error", "MSE": "mean_squared_error", "mae": "mean_absolute_error",
    "MAE": "mean_absolute_error", "mape": "mean_absolute_percentage_error", "MAPE": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error", "MSLE": "mean_squared_logarithmic_error", "bce": "binary_crossentropy",
    "BCE": "binary_crossentropy", "kld": "kl_divergence", "KLD": "kl_divergence", "logcosh": "log_cosh",
}  # fmt: skip
_lookup = Lookup("loss", globals(), Loss, ALIASES)


def get(identifier: Any) -> Any:
    """The loss of that name: for a function's name the function."""
    if isinstance(identifier, str):
        function = globals().get(ALIASES.get(identifier, identifier))
        if callable(function) and not isinstance(function, type):
            return function
    return _lookup.get(identifier)


deserialize, serialize = _lookup.deserialize, serialize_whole


def as_loss(given: Any) -> Loss:
    """A Loss, from a name, a function (y_true, y_pred) or a Loss."""
    found = get(given)
    if isinstance(found, Loss):
        return found
    return LossFunctionWrapper(found)
