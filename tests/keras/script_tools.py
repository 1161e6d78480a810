"""What scripts in Keras' style share: their list, first weights, data and a short training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SCRIPTS: dict[str, Callable[[Any], Any]] = {}


def script(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCRIPTS[function.__name__] = function
    return function


def start(model: Any, seed: int = 0) -> None:
    """Numbers that both begin with; variances stay above zero."""
    random = np.random.RandomState(seed)
    model.set_weights(
        [np.abs(v) if v.ndim == 1 and (v == 1).all() else v for v in (_first(w, random) for w in model.get_weights())]
    )


def _first(weight: Any, random: Any) -> Any:
    if weight.ndim <= 1 and np.all(weight == 1):
        return np.asarray(1 + 0.1 * random.rand(*weight.shape)).astype("float32")
    return np.asarray(random.randn(*weight.shape) * 0.3).astype("float32")


def numbers(count: int, size: Any, classes: int, seed: int = 1) -> tuple[Any, Any]:
    """Inputs (count, *size) and class numbers that depend on them."""
    random = np.random.RandomState(seed)
    x = random.randn(count, *((size,) if isinstance(size, int) else size)).astype("float32")
    flat = x.reshape(count, -1)
    return x, (flat @ random.randn(flat.shape[1], classes)).argmax(1).astype("int64")


def fitted(model: Any, x: Any, y: Any, **settings: Any) -> dict[str, Any]:
    """The numbers of a short training without shuffling, and the predictions after it."""
    settings = {"batch_size": 8, "epochs": 3, "shuffle": False, "verbose": 0, **settings}
    history = model.fit(x, y, **settings).history
    return {"history": history, "predictions": model.predict(x, verbose=0)}
