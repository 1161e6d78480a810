"""Single ops and a training step: the same calls on pyapp and torch, and on NumPy what it has without a framework.

pages/pyapp.worker.mjs imports this file inside Pyodide. `package` is pyapp, torch or numpy, by name.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

SAMPLE_SECONDS = 0.3  # a sample repeats its call for at least this long
SIZES = (64, 128, 256, 512, 1024, 2048)
NAMES = (
    *(f"matmul {size}" for size in SIZES), "conv2d 64x56x56, 3x3", "depthwise 4x64x56x56, 3x3",
    "transposed 2x64x28x28, 4x4", "layer_norm 1024x768", "softmax 1024x1024",
    "attention 1x8x1024x64", "elementwise chain 1M", "training step 1M",
)  # fmt: skip
IN_NUMPY = tuple(name for name in NAMES if not name.startswith(("depthwise", "transposed", "training")))


def random(package: str, *shape: int) -> Any:
    import numpy as np

    array = np.random.default_rng(len(shape)).standard_normal(shape, dtype="float32")
    return array if package == "numpy" else importlib.import_module(package).from_numpy(array)


def matmul(P: Any, size: int) -> Callable[[], Any]:
    a, b = random(P.__name__, size, size), random(P.__name__, size, size)
    return lambda: a @ b


def convolution(P: Any) -> Callable[[], Any]:
    x, w = random(P.__name__, 1, 64, 56, 56), random(P.__name__, 64, 64, 3, 3)
    if P.__name__ != "numpy":
        return lambda: P.nn.functional.conv2d(x, w, padding=1)

    def by_windows() -> Any:
        padded = P.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        seen = P.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[0]  # (C, H, W, 3, 3)
        columns = seen.transpose(0, 3, 4, 1, 2).reshape(64 * 9, 56 * 56)
        return (w.reshape(64, -1) @ columns).reshape(1, 64, 56, 56)

    return by_windows


def depthwise(P: Any) -> Callable[[], Any]:
    x, w = random(P.__name__, 4, 64, 56, 56), random(P.__name__, 64, 1, 3, 3)
    return lambda: P.nn.functional.conv2d(x, w, padding=1, groups=64)


def transposed(P: Any) -> Callable[[], Any]:
    x, w = random(P.__name__, 2, 64, 28, 28), random(P.__name__, 64, 32, 4, 4)
    return lambda: P.nn.functional.conv_transpose2d(x, w, stride=2, padding=1)


def layer_norm(P: Any) -> Callable[[], Any]:
    x, w, b = random(P.__name__, 1024, 768), random(P.__name__, 768), random(P.__name__, 768)
    if P.__name__ != "numpy":
        return lambda: P.nn.functional.layer_norm(x, (768,), w, b)

    def by_parts() -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / P.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b

    return by_parts


def numpy_softmax(P: Any, x: Any) -> Any:
    e = P.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(P: Any) -> Callable[[], Any]:
    x = random(P.__name__, 1024, 1024)
    return (lambda: numpy_softmax(P, x)) if P.__name__ == "numpy" else lambda: P.softmax(x, -1)


def attention(P: Any) -> Callable[[], Any]:
    q, k, v = (random(P.__name__, 1, 8, 1024, 64) for _ in range(3))
    if P.__name__ == "numpy":
        return lambda: numpy_softmax(P, q @ k.swapaxes(-1, -2) * 0.125) @ v
    return lambda: P.nn.functional.scaled_dot_product_attention(q, k, v)


def chain(P: Any) -> Callable[[], Any]:
    x, y = random(P.__name__, 1024, 1024), random(P.__name__, 1, 1024)
    return lambda: P.tanh(x * 0.5 + y) * x - P.exp(-x * x) / 2


def training_step(P: Any) -> Callable[[], Any]:
    """Five encoder layers of 198,272 parameters each, 4 rows of 128 tokens: forward, backward, AdamW."""
    P.manual_seed(0)
    layers = [
        P.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True) for _ in range(5)
    ]
    model = P.nn.Sequential(*layers)
    optimizer = P.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = random(P.__name__, 4, 128, 128), random(P.__name__, 4, 128, 128)

    def step() -> Any:
        optimizer.zero_grad()
        P.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return step


def build(package: str, name: str) -> Callable[[], Any]:
    P = importlib.import_module(package)
    kind, _, rest = name.partition(" ")
    if kind == "matmul":
        return matmul(P, int(rest))
    makers = {
        "conv2d": convolution, "depthwise": depthwise, "transposed": transposed, "layer_norm": layer_norm,
        "softmax": softmax, "attention": attention, "elementwise": chain, "training": training_step,
    }  # fmt: skip
    return makers[kind](P)


class OpsWorkload:
    """The calls of one package; `figure(name)` takes a sample: milliseconds of one call."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.calls: dict[str, Callable[[], Any]] = {}

    def figure(self, name: str) -> float:
        if name not in self.calls:
            self.calls = {name: build(self.package, name)}  # one at a time: they are large
            self.calls[name]()
        call, count = self.calls[name], 0
        trains = name.startswith("training") or self.package == "numpy"
        with nullcontext() if trains else importlib.import_module(self.package).no_grad():
            start = time.perf_counter()
            while (spent := time.perf_counter() - start) < SAMPLE_SECONDS or not count:
                call()
                count += 1
        return 1000 * spent / count
