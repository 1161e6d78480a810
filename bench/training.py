"""Figures of training steps on one thread. Natively compiled (`pyapp.compile`) and eager, beside torch, and an epoch of
`fit` on digits beside Keras on torch: in CPU time, which other programs on the machine disturb least. In Chromium
beside TensorFlow.js and NumPy. bench/records.py shows the kernels of a step.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from .report import Figure

SAMPLE_SECONDS = 0.3  # a sample repeats its call for at least this long
ROWS = 1792  # digits that are trained on: 28 batches of 64


def _tensors(P: Any, shape: tuple[int, ...], classes: int) -> tuple[Any, Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape, dtype="float32")
    return P.from_numpy(x), P.from_numpy(generator.integers(0, classes, shape[0]))


Step = tuple[Callable[..., Any], tuple[Any, ...]]  # a step, and its batch


def _classifier(P: Any, model: Any, batch: tuple[Any, Any]) -> Step:
    """Forward, cross entropy, backward, AdamW."""
    optimizer = P.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = P.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, batch


def _mlp(P: Any) -> Step:
    """64-64-10, batches of 32."""
    nn = P.nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return _classifier(P, model, _tensors(P, (32, 64), 10))


def _cnn(P: Any) -> Step:
    """Two convolutions of 3x3 with pools, 16 and 32 channels, batches of 64 images of 16x16."""
    nn = P.nn
    layers = [
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    ]  # fmt: skip
    return _classifier(P, nn.Sequential(*layers), _tensors(P, (64, 1, 16, 16), 10))


def _gan(P: Any) -> Step:
    """A generator and a discriminator of two convolutions of 4x4 each, batches of 32 images of 16x16."""
    nn = P.nn
    generator = nn.Sequential(
        nn.Linear(16, 64 * 16), nn.Unflatten(1, (64, 4, 4)), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32),
        nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(),
        nn.Linear(1024, 1),
    )  # fmt: skip
    of_generator, of_judge = (P.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (generator, judge))
    loss, ones, zeros = nn.BCEWithLogitsLoss(), P.ones(32, 1), P.zeros(32, 1)

    def step(real: Any, noise: Any) -> Any:
        made = generator(noise)
        of_judge.zero_grad()
        of_both = loss(judge(real), ones) + loss(judge(made.detach()), zeros)
        of_both.backward()
        of_judge.step()
        of_generator.zero_grad()
        loss(judge(made), ones).backward()
        of_generator.step()
        return of_both.detach()

    return step, (_tensors(P, (32, 1, 16, 16), 2)[0], _tensors(P, (32, 16), 2)[0])


def _transformer(P: Any) -> Step:
    """Five encoder layers of 198,272 parameters each, over 4 rows of 128 tokens."""
    import numpy as np

    nn, ids = P.nn, np.random.default_rng(0).integers(0, 64, (4, 128))
    layers = [nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True) for _ in range(5)]
    model = nn.Sequential(nn.Embedding(64, 128), *layers, nn.Linear(128, 64), nn.Flatten(0, 1))
    return _classifier(P, model, (P.from_numpy(ids), P.from_numpy(ids[:, ::-1].copy().reshape(-1))))


def _recurrent(P: Any, kind: str, sizes: tuple[int, int], rows: int, steps: int) -> Step:
    """A recurrent layer with these numbers of inputs and units over sequences, whose last output is classified."""
    nn = P.nn

    class Classifier(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = getattr(nn, kind)(*sizes, batch_first=True)
            self.head = nn.Linear(sizes[1], 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    return _classifier(P, Classifier(), _tensors(P, (rows, steps, sizes[0]), 10))


def _resnet(P: Any) -> Step:
    """Three residual blocks with batch norm, 16 to 64 channels, batches of 16 images of 32x32."""
    nn = P.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
            self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

        def forward(self, x: Any) -> Any:
            y = P.relu(self.norms[0](self.first(x)))
            return P.relu(self.norms[1](self.second(y)) + self.short(x))

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2),
        Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return _classifier(P, model, _tensors(P, (16, 3, 32, 32), 10))


def _unrolled(P: Any) -> Step:
    """A GRU cell called for each of 30 steps of 8 sequences, as users write recurrences of their own."""
    nn = P.nn

    class Unrolled(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRUCell(32, 64), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            h = P.zeros(x.shape[0], 64)
            for step in x.unbind(1):
                h = self.cell(step, h)
            return self.head(h)

    return _classifier(P, Unrolled(), _tensors(P, (8, 30, 32), 10))


def _mlp_in_numpy() -> Step:
    """_mlp with its gradients by hand and Adam."""
    import numpy as np

    generator = np.random.default_rng(0)
    w1, w2 = (generator.standard_normal((64, n), dtype="float32") / 8 for n in (64, 10))
    parameters = [w1, np.zeros(64, "float32"), w2, np.zeros(10, "float32")]
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    count = 0

    def step(x: Any, y: Any) -> Any:
        nonlocal count
        count += 1
        w1, b1, w2, b2 = parameters
        hidden = np.maximum(x @ w1 + b1, 0)  # (32, 64)
        logits = hidden @ w2 + b2  # (32, 10)
        shifted = logits - logits.max(1, keepdims=True)
        exponentials = np.exp(shifted)
        totals = exponentials.sum(1, keepdims=True)
        rows = np.arange(len(y))
        loss = (np.log(totals[:, 0]) - shifted[rows, y]).mean()
        grad = exponentials / totals
        grad[rows, y] -= 1
        grad /= np.float32(len(y))
        inner = (grad @ w2.T) * (hidden > 0)  # (32, 64)
        gradients = [x.T @ inner, inner.sum(0), hidden.T @ grad, grad.sum(0)]
        rate, root = 1e-3 / (1 - 0.9**count), (1 - 0.999**count) ** 0.5
        for p, g, mean, square in zip(parameters, gradients, means, squares, strict=True):
            mean *= 0.9
            mean += 0.1 * g
            square *= 0.999
            square += 0.001 * g * g
            p -= rate * mean / (np.sqrt(square) / root + 1e-8)
        return loss

    batch = generator.standard_normal((32, 64), dtype="float32"), generator.integers(0, 10, 32)
    return step, batch


MODELS: dict[str, Callable[[Any], Step]] = {
    "MLP 64-64-10": _mlp, "small CNN": _cnn, "small GAN": _gan, "transformer 1M": _transformer,
    "LSTM 32-64": partial(_recurrent, kind="LSTM", sizes=(32, 64), rows=8, steps=50),
    "ResNet": _resnet, "unrolled GRU": _unrolled,
    "GRU 128-256": partial(_recurrent, kind="GRU", sizes=(128, 256), rows=32, steps=100),
}  # fmt: skip


def training_step(package: str, name: str, compiled: bool = False) -> Step:
    """A step of a model of MODELS in pyapp or torch (the first one also in numpy), and its batch."""
    if package == "numpy":
        return _mlp_in_numpy()
    P = importlib.import_module(package)
    P.manual_seed(0)
    step, batch = MODELS[name](P)
    return P.compile(step) if compiled else step, batch


def step_of(package: str, name: str, compiled: bool) -> Callable[[], Any]:
    """One step, ready to be measured."""
    run, batch = training_step(package, name, compiled)
    for _ in range(3):
        run(*batch)
    if compiled and package == "pyapp" and not run.captured:  # type: ignore[attr-defined]
        raise RuntimeError(f"{name}: {run.reason}")  # type: ignore[attr-defined]
    return lambda: run(*batch)


def sample(call: Callable[[], Any], by_clock: bool = False) -> float:
    """Microseconds of CPU time of a call; `by_clock`: by the clock, as in a browser."""
    count, start, begun = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begun < SAMPLE_SECONDS or not count:
        call()
        count += 1
    return (time.perf_counter() - begun if by_clock else time.process_time() - start) / count * 1e6


IN_TORCH_COMPILE = ("small CNN", "small GAN", "transformer 1M")


def _in_turn(who: dict[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """Samples of each, one after the other."""
    samples: dict[str, list[float]] = {w: [] for w in who}
    for _ in range(runs):
        for w, call in who.items():
            samples[w].append(sample(call))
    return samples


def torch_compile_figures(name: str, runs: int) -> Iterator[Figure]:
    """Beside the step that torch compiles. None where torch is not installed or cannot compile, for which it needs a
    C++ compiler; stderr says why. Its first compilation takes a minute or two."""
    if not importlib.util.find_spec("torch"):
        return
    import torch

    import pyapp

    from .workload import environment

    torch.set_num_threads(1)
    pyapp.set_num_threads(1)
    try:
        theirs = step_of("torch", name, True)
    except (RuntimeError, ImportError, OSError) as error:
        print(f"native/train/{name}/torch.compile is left out: {error!s:.300}", file=sys.stderr)
        return
    who = {"pyapp": step_of("pyapp", name, True), "torch.compile": theirs, "torch": step_of("torch", name, False)}
    yield Figure(
        f"native/train/{name}/torch.compile", "us", _in_turn(who, runs), {**environment(), "torch": torch.__version__}
    )


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
    yield Figure(f"native/train/{name}", "us", _in_turn(who, runs), about)


def _memory_in_status(name: str) -> float:
    """MB, from Linux' /proc: VmRSS, or VmHWM, its peak."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) / 1e3


def peak_of_steps(package: str, name: str) -> float:
    """MB that a process gains beside the weights in its first five steps, compiled where the package is pyapp: what a
    step keeps and needs, gradients and the optimiser's state included."""
    step, batch = training_step(package, name, compiled=package == "pyapp")
    before = _memory_in_status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    for _ in range(5):
        step(*batch)
    return _memory_in_status("VmHWM") - before


def memory_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """The memory of a step, each time in a new process; on Linux."""
    who = ["pyapp", "torch"] if with_peers and importlib.util.find_spec("torch") else ["pyapp"]
    code = "import sys; from bench.training import peak_of_steps; print(peak_of_steps(*sys.argv[1:]))"
    samples: dict[str, list[float]] = {w: [] for w in who}
    for _ in range(runs):
        for w, values in samples.items():
            done = subprocess.run([sys.executable, "-c", code, w, name], capture_output=True, text=True, check=True)
            values.append(float(done.stdout))
    yield Figure(f"native/train/{name}/memory", "MB", samples)


IN_TFJS = ("MLP 64-64-10", "small CNN")
IN_NUMPY = ("MLP 64-64-10",)


def browser_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """The compiled step in Chromium, beside TensorFlow.js (WebAssembly; `npm ci` in bench/) and NumPy in Pyodide."""
    from .browser import PEERS, call, chromium, open_page

    with chromium() as (server, browser):
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        packages = ["pyapp", "numpy"] if with_peers and name in IN_NUMPY else ["pyapp"]
        about = {**call(page, "loadTraining", packages=packages, name=name), "browser": browser.version}

        def of(package: str) -> Callable[[], float]:
            return lambda: float(call(page, "trainingFigure", package=package))

        who = {package: of(package) for package in packages}
        if with_peers and name in IN_TFJS and (PEERS / "@tensorflow").is_dir():
            peer = open_page(browser, f"{server.url}pages/tfjs.html")
            about |= call(peer, "load", name=name)
            who["tfjs"] = lambda: float(call(peer, "sample", seconds=SAMPLE_SECONDS))
        samples: dict[str, list[float]] = {w: [] for w in who}
        for turn in range(runs + 1):  # the first of each warms up
            for w, take in who.items():
                value = take()
                if turn:
                    samples[w].append(value)
        yield Figure(f"chromium/train/{name}", "us", samples, about)


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
