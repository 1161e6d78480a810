"""Helpers by Keras' names."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from ..engine.lazy import np
from ..engine.ops.random import manual_seed
from ..train.batches import as_batch
from .core import KerasTensor, clear_session
from .models import clone_model
from .saving import CustomObjectScope, custom_object_scope, get_custom_objects, register_keras_serializable
from .sources import image_dataset_from_directory, timeseries_dataset_from_array

__all__ = [
    "CustomObjectScope", "PyDataset", "Sequence", "clear_session", "clone_model", "custom_object_scope",
    "get_custom_objects", "image_dataset_from_directory", "is_keras_tensor", "normalize", "pack_x_y_sample_weight",
    "pad_sequences", "register_keras_serializable", "set_random_seed", "split_dataset",
    "timeseries_dataset_from_array", "to_categorical", "unpack_x_y_sample_weight",
]  # fmt: skip


class PyDataset:
    """Batches by their numbers: a subclass writes `__getitem__(k)`, a whole batch, and `__len__`, their number.
    `on_epoch_end` is called after each pass. Batches are made in this process.
    """

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10) -> None:
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def on_epoch_end(self) -> None: ...


Sequence = PyDataset


def is_keras_tensor(x: Any) -> bool:
    """Whether x is a symbolic tensor."""
    return isinstance(x, KerasTensor)


def unpack_x_y_sample_weight(data: Any) -> Any:
    """(x, y, sample_weight) of a batch, with None for what it lacks."""
    return as_batch(data)


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """A batch as `train_step` gets it."""
    if y is None:
        return (x,) if isinstance(x, (list, tuple)) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def set_random_seed(seed: int) -> None:
    """Seeds Python's, NumPy's and pyapp's random numbers."""
    random.seed(seed)
    np.random.seed(seed)
    manual_seed(seed)


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """Class numbers as one-hot float32 rows, in NumPy."""
    classes = np.asarray(x.numpy() if hasattr(x, "numpy") else x, dtype="int64")
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes.reshape(classes.shape[:-1])
    count = int(classes.max()) + 1 if num_classes is None else num_classes
    if classes.size and not 0 <= int(classes.min()) <= int(classes.max()) < count:
        raise ValueError(f"to_categorical: classes are 0 … {count - 1}, got {classes.min()} … {classes.max()}")
    return np.eye(count, dtype="float32")[classes]


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """An array divided by its norm along `axis`."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


def pad_sequences(
    sequences: Iterable[Any], maxlen: int | None = None, dtype: str = "int32", padding: str = "pre",
    truncating: str = "pre", value: float = 0.0,
) -> Any:  # fmt: skip
    """Lists of numbers as one array (N, maxlen), padded and cut at the beginning or the end."""
    rows = [list(row) for row in sequences]
    if padding not in ("pre", "post") or truncating not in ("pre", "post"):
        raise ValueError("pad_sequences: padding and truncating are 'pre' or 'post'")
    length = max((len(row) for row in rows), default=0) if maxlen is None else maxlen
    found = np.full((len(rows), length), value, dtype=dtype)
    for k, row in enumerate(rows):
        kept = (row[-length:] if truncating == "pre" else row[:length]) if length else []
        if kept:
            found[k, slice(-len(kept), None) if padding == "pre" else slice(len(kept))] = kept
    return found


def split_dataset(
    arrays: Any,
    left_size: float | int | None = None,
    right_size: float | int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> Any:
    """Arrays (one, or a tuple of them) in two parts, by shares or numbers of examples."""
    parts = arrays if isinstance(arrays, (tuple, list)) else (arrays,)
    count = len(parts[0])
    order = np.random.default_rng(seed).permutation(count) if shuffle else np.arange(count)

    def number(size: float) -> int:
        return int(round(size * count)) if isinstance(size, float) else int(size)

    if left_size is None and right_size is None:
        raise ValueError("split_dataset: give left_size or right_size")
    left = number(left_size) if left_size is not None else count - number(right_size or 0)
    right = number(right_size) if right_size is not None else count - left
    both = [tuple(part[order[where]] for part in parts) for where in (slice(left), slice(count - right, None))]
    return tuple(both) if isinstance(arrays, (tuple, list)) else tuple(part for (part,) in both)
