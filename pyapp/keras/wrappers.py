"""keras.wrappers: models as scikit-learn's estimators, for its pipelines, searches and cross-validation. They need
scikit-learn 1.6 or newer, which is not installed with pyapp.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..engine.lazy import np
from .models import Model, clone_model

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("keras.wrappers needs scikit-learn 1.6 or newer: pip install scikit-learn") from error

__all__ = ["SKLearnClassifier", "SKLearnRegressor", "SKLearnTransformer"]


class _Estimator(BaseEstimator):
    """What the estimators share. `model` is a compiled model, of which each `fit` trains a clone (with `warm_start` the
    model itself, on and on), or a function of X, y and `model_kwargs` that gives one. `fit_kwargs` are arguments of
    `model.fit`; those of the estimator's `fit` come first.

    `model_` is the model that was trained, `history_` its History.
    """

    def __init__(
        self, model: Model | Callable[..., Model], warm_start: bool = False, model_kwargs: dict[str, Any] | None = None,
        fit_kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.warm_start = warm_start
        self.model_kwargs = model_kwargs
        self.fit_kwargs = fit_kwargs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def __sklearn_clone__(self) -> Any:
        """An estimator with the same settings, which is not fitted."""
        model = copy.deepcopy(self.model) if isinstance(self.model, Model) else self.model
        return type(self)(model, self.warm_start, self.model_kwargs, self.fit_kwargs)

    @property
    def epoch_(self) -> int:
        """The last epoch of the last `fit`, counted from 0; 0 before."""
        epochs = self.history_.epoch if hasattr(self, "history_") else []
        return epochs[-1] if epochs else 0

    def _trainee(self, x: Any, y: Any) -> Model:
        """The model that `fit` trains. ValueError unless it is compiled with a loss."""
        if self.warm_start and hasattr(self, "model_"):
            return self.model_
        if isinstance(self.model, Model):
            model = self.model if self.warm_start else clone_model(self.model)
        else:
            model = self.model(X=x, y=y, **(self.model_kwargs or {}))
        if not model.compiled or model.loss is None:
            raise ValueError(f"{type(self).__name__}: the model is to be compiled with a loss before it is fitted")
        return model

    def fit(self, X: Any, y: Any, **kwargs: Any) -> Any:
        """Trains a model on X (n, features) and y (n,) or (n, outputs); keyword arguments are those of `model.fit`."""
        X, y = validate_data(self, X, y, multi_output=True)
        y = self._targets(np.asarray(y))
        self.n_dims_of_targets_ = np.ndim(y)
        model = self._trainee(X, y)
        self.history_ = model.fit(X, y, **{"verbose": "auto", **(self.fit_kwargs or {}), **kwargs})
        self.model_ = model
        return self

    def _targets(self, y: Any) -> Any:
        """The targets as the model takes them."""
        type_of_target(y, raise_unknown=True)
        return y.reshape(-1, 1) if y.ndim == 1 else y

    def _outputs(self, X: Any) -> Any:
        """The model's outputs for X."""
        check_is_fitted(self, "model_")
        return self.model_.predict(validate_data(self, X, reset=False), verbose=0)


class SKLearnClassifier(ClassifierMixin, _Estimator):
    """A classifier of a model whose last layer has an output for each class; the labels go to it as one-hot rows.

    `classes_` are the labels, in order.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _targets(self, y: Any) -> Any:
        kind = type_of_target(y, raise_unknown=True)
        if kind not in ("binary", "multiclass"):
            # The words "Unknown label type" are what scikit-learn's own checks look for.
            raise ValueError(f"Unknown label type: {kind}: {type(self).__name__} takes the class of each example")
        self.classes_ = np.unique(y)
        if len(self.classes_) == 1:
            raise ValueError(f"{type(self).__name__}: needs more than one class, got {self.classes_[0]!r} alone")
        encoder = OneHotEncoder(categories=[self.classes_], sparse_output=False)
        return encoder.fit_transform(y.reshape(-1, 1))

    def predict(self, X: Any) -> Any:
        """The class with the highest output for each row of X: (n,)."""
        found = self._outputs(X)
        return self.classes_[found.argmax(-1)]

    def decision_function(self, X: Any) -> Any:
        """The outputs of the model: (n, classes)."""
        return self._outputs(X)


class SKLearnRegressor(RegressorMixin, _Estimator):
    """A regression by a model."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _targets(self, y: Any) -> Any:
        self.one_target_ = y.ndim == 1
        return super()._targets(y)

    def predict(self, X: Any) -> Any:
        """The outputs of the model: (n,) where there is one target, else (n, outputs)."""
        found = self._outputs(X)
        return found[:, 0] if self.one_target_ and found.ndim == 2 and found.shape[1] == 1 else found


class SKLearnTransformer(TransformerMixin, _Estimator):
    """A transformer: `transform` gives what the model makes of X."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags

    def transform(self, X: Any) -> Any:
        """The outputs of the model for X."""
        return self._outputs(X)
