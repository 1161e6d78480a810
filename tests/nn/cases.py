"""Inputs that the golden values and the tests share."""

import numpy as np

SHAPES = ((5, 7), (3,), (9, 23))
STEPS = 6
WARMUP, TOTAL = 5, 40
OPTIMIZERS = {
    "adamw": ("AdamW", {"lr": 1e-2}),
    "adamw decay": ("AdamW", {"lr": 3e-3, "betas": (0.9, 0.95), "eps": 1e-6, "weight_decay": 0.3}),
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "sgd nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
}


def start(i: int) -> np.ndarray:
    return np.random.default_rng(i).standard_normal(SHAPES[i]).astype(np.float32)


def gradient(i: int, step: int) -> np.ndarray:
    """A gradient with elements of all sizes and zeros, because AdamW divides by the root of its square."""
    random = np.random.default_rng(100 * step + i)
    values = random.standard_normal(SHAPES[i]) * 10.0 ** random.integers(-6, 2, SHAPES[i])
    values[random.random(SHAPES[i]) < 0.1] = 0
    return values.astype(np.float32)
