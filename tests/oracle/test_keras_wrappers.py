"""keras.wrappers in scikit-learn's pipelines, searches and its own checks of estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyapp import keras

pytest.importorskip("sklearn", minversion="1.6")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

wrappers = keras.wrappers
ONCE = "training draws random weights: twice gives other numbers"
COLUMN = "several targets are taken, so a column is no mistake"
EXPECTED = {
    "check_fit_idempotent": ONCE, "check_classifier_data_not_an_array": ONCE, "check_regressor_data_not_an_array": ONCE,
    "check_regressors_int": ONCE, "check_supervised_y_2d": COLUMN,
    "check_classifiers_classes": "few examples: not every class is predicted",
    "check_classifiers_train": "the outputs of decision_function may be probabilities",
}  # fmt: skip


def made(X: Any, y: Any, loss: str = "mse", width: int = 16) -> Any:
    classifies = loss == "categorical_crossentropy"
    last = keras.layers.Dense(y.shape[1] if y.ndim > 1 else 1, "softmax" if classifies else None)
    model = keras.Sequential([keras.Input((X.shape[1],)), keras.layers.Dense(width, "relu"), last])
    model.compile(keras.optimizers.Adam(0.02), loss)
    return model


def classifier(**more: Any) -> Any:
    settings = {"loss": "categorical_crossentropy"}
    return wrappers.SKLearnClassifier(made, model_kwargs=settings, fit_kwargs={"epochs": 10, "verbose": 0, **more})


@parametrize_with_checks(
    [
        classifier(),
        wrappers.SKLearnRegressor(made, fit_kwargs={"verbose": 0}),
        wrappers.SKLearnTransformer(made, fit_kwargs={"verbose": 0}),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_pipelines_searches_and_warm_starts() -> None:
    x = np.random.default_rng(0).standard_normal((120, 4)).astype("float32")
    y = np.array(["low", "mid", "top"])[np.digitize(x[:, 0] - x[:, 1], [-0.5, 0.5])]
    pipeline = make_pipeline(StandardScaler(), classifier()).fit(x, y)
    assert pipeline.score(x, y) > 0.8 and pipeline[-1].classes_.tolist() == ["low", "mid", "top"]
    assert pipeline.decision_function(x[:2]).shape == (2, 3) and pipeline[-1].epoch_ == 9
    widths = [{"loss": "categorical_crossentropy", "width": width} for width in (2, 8)]
    search = GridSearchCV(classifier(epochs=1), {"model_kwargs": widths}, cv=2).fit(x, y)
    assert search.best_params_["model_kwargs"] in widths and set(search.predict(x)) <= {"low", "mid", "top"}
    model = made(x, x[:, :1])
    regression = wrappers.SKLearnRegressor(model, warm_start=True, fit_kwargs={"verbose": 0})
    assert regression.fit(x, x[:, 0]).model_ is model and regression.fit(x, x[:, 0]).model_ is model
    assert regression.predict(x).shape == (120,) and model.optimizer.iterations == 8
    fresh = clone(regression).set_params(warm_start=False, model=model).fit(x, x[:, 0])
    assert fresh.model_ is not model and model.optimizer.iterations == 8
    with pytest.raises(ValueError, match="compiled with a loss"):
        wrappers.SKLearnRegressor(keras.Sequential([keras.layers.Dense(1)])).fit(x, x[:, 0])
    with pytest.raises(ValueError, match="more than one class"):
        classifier().fit(x, np.zeros(120, int))
