"""Figures of training steps on one thread: compiled (`pyapp.compile`) and eager, beside torch; and of an epoch of
`fit` on digits beside Keras on torch. All in CPU time, which other programs on the machine disturb least.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from .report import Figure

SAMPLE_SECONDS = 0.3  # a sample repeats its call for at least this long
ROWS = 1792  # digits that are trained on: 28 batches of 64


def _tensors(P: Any, shape: tuple[int, ...], classes: int) -> tuple[Any, Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape, dtype="float32")
    return P.from_numpy(x), P.from_numpy(generator.integers(0, classes, shape[0]))


def _mlp(P: Any) -> tuple[Any, tuple[Any, Any]]:
    """64-64-10, batches of 32."""
    nn = P.nn
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), _tensors(P, (32, 64), 10)


def _cnn(P: Any) -> tuple[Any, tuple[Any, Any]]:
    """Two convolutions of 3x3 with pools, 16 and 32 channels, batches of 64 images of 16x16."""
    nn = P.nn
    layers = [
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    ]  # fmt: skip
    return nn.Sequential(*layers), _tensors(P, (64, 1, 16, 16), 10)


class _Classifier:
    """Five encoder layers of 198,272 parameters each, over 4 rows of 128 tokens."""

    @staticmethod
    def build(P: Any) -> tuple[Any, tuple[Any, Any]]:
        import numpy as np

        nn, ids = P.nn, np.random.default_rng(0).integers(0, 64, (4, 128))
        layers = [
            nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True) for _ in range(5)
        ]
        model = nn.Sequential(nn.Embedding(64, 128), *layers, nn.Linear(128, 64), nn.Flatten(0, 1))
        return model, (P.from_numpy(ids), P.from_numpy(ids[:, ::-1].copy().reshape(-1)))


MODELS: dict[str, Callable[[Any], tuple[Any, tuple[Any, Any]]]] = {
    "MLP 64-64-10": _mlp, "small CNN": _cnn, "transformer 1M": _Classifier.build,
}  # fmt: skip


def step_of(package: str, name: str, compiled: bool) -> Callable[[], Any]:
    """One step: forward, cross entropy, backward, AdamW."""
    P = importlib.import_module(package)
    P.manual_seed(0)
    model, batch = MODELS[name](P)
    optimizer = P.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = P.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = P.compile(step) if compiled else step
    for _ in range(3):
        run(*batch)
    if compiled and not run.captured:
        raise RuntimeError(f"{name}: {run.reason}")
    return lambda: run(*batch)


def sample(call: Callable[[], Any]) -> float:
    """Microseconds of CPU time of a call."""
    count, start, begun = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begun < SAMPLE_SECONDS or not count:
        call()
        count += 1
    return (time.process_time() - start) / count * 1e6


def step_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    import pyapp

    from .workload import environment

    pyapp.set_num_threads(1)
    about = environment()
    who = {"pyapp": step_of("pyapp", name, True), "pyapp eager": step_of("pyapp", name, False)}
    if with_peers and importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        about["torch"] = torch.__version__
        who["torch"] = step_of("torch", name, False)
    samples: dict[str, list[float]] = {w: [] for w in who}
    for _ in range(runs):
        for w, call in who.items():
            samples[w].append(sample(call))
    yield Figure(f"native/train/{name}", "us", samples, about)


def _digits_model(keras: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((8, 8, 1)), layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(32, 3, padding="same", activation="relu"), layers.MaxPooling2D(2), layers.Flatten(),
        layers.Dense(64, activation="relu"), layers.Dropout(0.2), layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def fit_figures(runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """An epoch of a small CNN on images of 8x8, as scikit-learn's digits are."""
    import numpy as np

    from pyapp import keras as ours

    from .workload import environment

    generator, about = np.random.default_rng(0), environment()
    x = generator.random((ROWS, 8, 8, 1), dtype="float32")
    y = generator.integers(0, 10, ROWS)
    models = {"pyapp": _digits_model(ours)}
    if with_peers and importlib.util.find_spec("keras") and importlib.util.find_spec("torch"):
        os.environ["KERAS_BACKEND"] = "torch"
        import keras
        import torch

        torch.set_num_threads(1)
        about["keras"] = keras.__version__
        models["keras on torch"] = _digits_model(keras)
    samples: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(runs + 1):
        for name, model in models.items():
            start = time.process_time()
            model.fit(x, y, batch_size=64, epochs=1, verbose=0)
            if turn:
                samples[name].append((time.process_time() - start) * 1e3)
    yield Figure("native/train/digits epoch", "ms", samples, about)
