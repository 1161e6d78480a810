"""Calls of ops, by subject, that run on torch (make_golden.py) and on pyapp (test_ops.py) alike: `P` is either package.

A case is (name, function(P, *tensors), inputs): an input is a shape of floats, or ("ints", high, shape), ("positive",
shape), ("bools", shape). Names differ between all subjects.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Case = tuple[str, Callable[..., Any], list[Any]]
SUBJECTS = (
    "elementwise", "activation", "reductions", "shapes", "indexing", "linalg", "attention", "normalization", "losses",
    "images", "signals", "in_place",
)  # fmt: skip
LAYOUTS = ("dense", "transposed", "sliced", "expanded")


def cases_of(subject: str) -> list[Case]:
    """The cases of a subject."""
    found: list[Case] = importlib.import_module(f".{subject}", __name__).CASES
    return found


def make_inputs(name: str, specs: list[Any]) -> list[np.ndarray]:
    """The same arrays on every platform, because RandomState's stream is fixed."""
    random = np.random.RandomState(sum(map(ord, name)))
    return [_make(random, spec) for spec in specs]


def _make(random: np.random.RandomState, spec: Any) -> np.ndarray:
    if spec and spec[0] == "ints":
        return random.randint(0, spec[1], spec[2]).astype(np.int64)
    if spec and spec[0] == "bools":
        return random.rand(*spec[1]) > 0.5
    if spec and spec[0] == "positive":
        return np.asarray(random.rand(*spec[1]) + 0.25, dtype=np.float32)
    return np.asarray(random.randn(*spec), dtype=np.float32)


def weights_for(shape: tuple[int, ...]) -> np.ndarray:
    """The factors of an output before its sum is differentiated."""
    return np.asarray(np.random.RandomState(7).randn(*shape), dtype=np.float32)


def F(P: Any) -> Any:
    """The module of a package that has activations and convolutions."""
    return P.nn.functional if P.__name__ == "torch" else P


def L(P: Any) -> Any:
    """The module of a package that has linear algebra."""
    return P.linalg if P.__name__ == "torch" else P


def N(P: Any) -> Any:
    """torch.nn.functional, of either package."""
    return P.nn.functional


def spd(x: Any) -> Any:
    """A symmetric, positive-definite matrix made of x."""
    return x @ x.mT + 2 * x.new_ones(x.shape[-1]).diag()
