"""Datasets by Keras' names: `keras.datasets.mnist.load_data()`. More are in `pyapp.datasets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import datasets
from ..datasets import Pictures

__all__ = ["cifar10", "cifar100", "fashion_mnist", "mnist"]

Arrays = tuple[tuple[Any, Any], tuple[Any, Any]]


class _Named:
    """A dataset of Keras. `load_data()` gives ((x, y), (x, y)) of NumPy arrays, for training and for tests."""

    def __init__(self, load: Callable[..., Pictures], colour: bool) -> None:
        self._load, self._colour = load, colour

    def load_data(self, **settings: Any) -> Arrays:
        """uint8 arrays: pictures (N, 28, 28) and labels (N,) of MNIST and Fashion-MNIST, pictures (N, 32, 32, 3) and
        labels (N, 1) of CIFAR. cifar100 takes label_mode="fine" or "coarse"; `folder` has the files, or they are
        downloaded and verified.
        """
        if self is cifar100:
            mode = settings.pop("label_mode", "fine")
            if mode not in ("fine", "coarse"):
                raise ValueError(f"load_data: label_mode is 'fine' or 'coarse', not {mode!r}")
            settings["coarse"] = mode == "coarse"
        train, test = (self._arrays(self._load(part, **settings)) for part in ("train", "test"))
        return train, test

    def _arrays(self, pictures: Pictures) -> tuple[Any, Any]:
        labels = pictures.labels.numpy().astype("uint8")
        if self._colour:
            return pictures.images.permute(0, 2, 3, 1).contiguous().numpy(), labels.reshape(-1, 1)
        return pictures.images[:, 0].contiguous().numpy(), labels


mnist, fashion_mnist = _Named(datasets.mnist, False), _Named(datasets.fashion_mnist, False)
cifar10, cifar100 = _Named(datasets.cifar10, True), _Named(datasets.cifar100, True)
