"""Helpers by Keras' names."""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from ..engine import Tensor, ops
from ..engine.lazy import np
from ..engine.ops.random import manual_seed
from ..train.batches import as_batch
from ..train.progress import ProgressBar
from . import bounding_boxes
from .backend import standardize_dtype
from .config import disable_interactive_logging, enable_interactive_logging, is_interactive_logging_enabled
from .drawings import model_to_dot, plot_model
from .feature_space import FeatureSpace
from .importable import importable
from .models import clone_model
from .picture_files import array_to_img, img_to_array, load_img, save_img
from .registered import (
    deserialize_keras_object,
    deserialize_keras_object_of_keras_2,
    get_registered_name,
    get_registered_object,
    serialize_keras_object,
    serialize_keras_object_of_keras_2,
)
from .saving import CustomObjectScope, custom_object_scope, get_custom_objects, register_keras_serializable
from .settings import clear_session
from .sources import (
    audio_dataset_from_directory,
    image_dataset_from_directory,
    text_dataset_from_directory,
    timeseries_dataset_from_array,
)
from .structures import flatten, map_structure
from .symbolic_tensors import KerasTensor
from .web_files import get_file

__all__ = [
    "Config", "CustomObjectScope", "FeatureSpace", "Progbar", "PyDataset", "Sequence", "array_to_img",
    "audio_dataset_from_directory", "bounding_boxes", "clear_session", "clone_model", "custom_object_scope",
    "deserialize_keras_object", "disable_interactive_logging", "enable_interactive_logging", "get_custom_objects",
    "get_file", "get_registered_name", "get_registered_object", "get_source_inputs", "image_dataset_from_directory",
    "img_to_array", "is_interactive_logging_enabled", "is_keras_tensor", "legacy", "load_img", "model_to_dot",
    "normalize", "pack_x_y_sample_weight", "pad_sequences", "plot_model", "register_keras_serializable", "save_img",
    "serialize_keras_object", "set_random_seed", "split_dataset", "standardize_dtype",
    "text_dataset_from_directory", "timeseries_dataset_from_array", "to_categorical", "unpack_x_y_sample_weight",
]  # fmt: skip


class Config:
    """Named values, as attributes and as entries. `freeze()` refuses changes until `unfreeze()`."""

    def __init__(self, **kwargs: Any) -> None:
        object.__setattr__(self, "_config", kwargs)
        object.__setattr__(self, "_frozen", False)

    @property
    def frozen(self) -> bool:
        """Whether changes are refused."""
        return bool(self.__dict__["_frozen"])

    def freeze(self) -> None:
        """Refuses changes from now on."""
        self.__dict__["_frozen"] = True

    def unfreeze(self) -> None:
        """Allows changes again."""
        self.__dict__["_frozen"] = False

    def _values(self) -> dict[str, Any]:
        """The values, to be changed. ValueError if they are frozen."""
        if self.frozen:
            raise ValueError("Config: it is frozen; call unfreeze() before it is changed")
        found: dict[str, Any] = self.__dict__["_config"]
        return found

    def as_dict(self) -> dict[str, Any]:
        """The values as a new dict."""
        return dict(self.__dict__["_config"])

    def to_json(self) -> str:
        """The values as JSON. TypeError for values that JSON has not."""
        return json.dumps(self.__dict__["_config"])

    def keys(self) -> Any:
        return self.__dict__["_config"].keys()

    def values(self) -> Any:
        return self.__dict__["_config"].values()

    def items(self) -> Any:
        return self.__dict__["_config"].items()

    def pop(self, *args: Any) -> Any:
        """Takes a value out; KeyError, or the second argument, if there is none."""
        return self._values().pop(*args)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets values as `dict.update` does."""
        self._values().update(*args, **kwargs)

    def get(self, keyname: str, value: Any = None) -> Any:
        """A value; `value` if there is none."""
        return self.__dict__["_config"].get(keyname, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:1] == "_" or hasattr(type(self), name):
            raise AttributeError(f"Config: {name!r} is not a name of a value; set it as config[{name!r}]")
        self._values()[name] = value

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__.get("_config", {})  # a copy that is being made has none yet
        if name in held:
            return held[name]
        near = difflib.get_close_matches(name, held, n=1, cutoff=0.7)
        raise AttributeError(f"Config has no value {name!r}" + (f"; there is {near[0]!r}" if near else ""))

    def __setitem__(self, key: str, item: Any) -> None:
        self._values()[key] = item

    def __getitem__(self, key: str) -> Any:
        return self.__dict__["_config"][key]

    def __delitem__(self, key: str) -> None:
        del self._values()[key]

    def __contains__(self, item: object) -> bool:
        return item in self.__dict__["_config"]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.__dict__["_config"]))

    def __len__(self) -> int:
        return len(self.__dict__["_config"])

    def __repr__(self) -> str:
        return f"<Config {self.__dict__['_config']}>"


class PyDataset:
    """Batches by their numbers: a subclass writes `__getitem__(k)`, a whole batch, and `__len__`, their number.
    `on_epoch_begin` is called before each pass, `on_epoch_end` after it. Batches are made in this process.
    """

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10) -> None:
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    @property
    def num_batches(self) -> int | None:
        """The number of batches; None for endless ones, which a class without `__len__` gives. It may be overridden."""
        try:
            return len(self)
        except NotImplementedError:
            return None

    def on_epoch_begin(self) -> None: ...
    def on_epoch_end(self) -> None: ...


Sequence = PyDataset


class Progbar:
    """A line that shows how far a loop of one's own is, and the means of numbers; those of `stateful_metrics` are shown
    as they are. verbose 1: a bar, 2: one line at the end, 0: nothing."""

    def __init__(
        self, target: int | None, width: int = 20, verbose: int = 1, interval: float = 0.05,
        stateful_metrics: Iterable[str] | None = None, unit_name: str = "step",
    ) -> None:  # fmt: skip
        if width != 20 or unit_name != "step":
            raise NotImplementedError("Progbar: the bar is 20 wide and counts steps")
        self.target, self.verbose, self.interval = target, verbose, interval
        self.stateful_metrics = set(stateful_metrics or ())
        self._bar, self._seen = ProgressBar(target, verbose, interval=interval), 0
        self._sums: dict[str, list[float]] = {}

    def update(self, current: int, values: Any = None, finalize: bool | None = None) -> None:
        """Shows that `current` steps are done. `values` are pairs of a name and a mean since the last time."""
        for name, value in values or []:
            if name in self.stateful_metrics:
                self._sums[name] = [float(value), 1.0]
            else:
                steps = max(current - self._seen, 1)
                total = self._sums.setdefault(name, [0.0, 0.0])
                total[0], total[1] = total[0] + float(value) * steps, total[1] + steps
        self._seen = current
        finished = finalize if finalize is not None else self.target is not None and current >= self.target
        self._bar.update(current, {name: total / count for name, (total, count) in self._sums.items()}, finished)

    def add(self, n: int, values: Any = None) -> None:
        """Shows that n more steps are done."""
        self.update(self._seen + n, values)


def get_source_inputs(tensor: Any) -> list[Any]:
    """The inputs that a symbolic tensor is computed from."""
    found: dict[int, Any] = {}
    waiting = [tensor]
    while waiting:
        one = waiting.pop()
        if one.call is None:
            found.setdefault(id(one), one)
        else:
            waiting += reversed(one.call.inputs)
    return list(found.values())


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
    """Class numbers as one-hot rows: float64 in NumPy, as Keras has them; of a tensor, a tensor of float32."""
    if isinstance(x, Tensor):
        return ops.as_tensor(to_categorical(x.numpy(), num_classes).astype("float32")).to(x.device)
    classes = np.asarray(x, dtype="int64")
    if classes.ndim > 1 and classes.shape[-1] == 1:
        classes = classes.reshape(classes.shape[:-1])
    count = int(classes.max()) + 1 if num_classes is None else num_classes
    if classes.size and not 0 <= int(classes.min()) <= int(classes.max()) < count:
        raise ValueError(f"to_categorical: classes are 0 … {count - 1}, got {classes.min()} … {classes.max()}")
    return np.eye(count, dtype="float64")[classes]


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """An array divided by its norm along `axis`."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


def pad_sequences(
    sequences: Iterable[Any], maxlen: int | None = None, dtype: str = "int32", padding: str = "pre",
    truncating: str = "pre", value: float = 0.0,
) -> Any:  # fmt: skip
    """Lists of numbers, or of arrays of one shape, as one array (N, maxlen, …), padded and cut at the beginning or the
    end."""
    rows = [list(row) for row in sequences]
    if padding not in ("pre", "post") or truncating not in ("pre", "post"):
        raise ValueError("pad_sequences: padding and truncating are 'pre' or 'post'")
    length = max((len(row) for row in rows), default=0) if maxlen is None else maxlen
    inner = next((np.shape(row[0]) for row in rows if row), ())
    found = np.full((len(rows), length, *inner), value, dtype=dtype)
    for k, row in enumerate(rows):
        kept = (row[-length:] if truncating == "pre" else row[:length]) if length else []
        if kept:
            found[k, slice(-len(kept), None) if padding == "pre" else slice(len(kept))] = kept
    return found


def split_dataset(
    dataset: Any, left_size: float | int | None = None, right_size: float | int | None = None, shuffle: bool = False,
    seed: int | None = None, preferred_backend: Any = None,
) -> Any:  # fmt: skip
    """Arrays (one, or a tuple, list or dict of them) in two parts, by shares or numbers of examples."""
    if preferred_backend is not None:
        raise NotImplementedError("split_dataset: the parts are arrays; leave preferred_backend out")
    leaves = flatten(dataset)
    if not leaves or not all(hasattr(leaf, "shape") for leaf in leaves):
        raise TypeError(f"split_dataset: takes arrays, or a tuple, list or dict of them, not {type(dataset).__name__}")
    count = len(leaves[0])
    if any(len(leaf) != count for leaf in leaves):
        raise ValueError(f"split_dataset: the arrays have {', '.join(str(len(leaf)) for leaf in leaves)} examples")
    order = np.random.default_rng(seed).permutation(count) if shuffle else np.arange(count)

    def number(name: str, size: float) -> int:
        found = int(round(size * count)) if isinstance(size, float) else int(size)
        if not 0 < found <= count or (isinstance(size, float) and not 0 < size < 1):
            raise ValueError(f"split_dataset: {name} is a share below 1 or a number up to {count}, not {size!r}")
        return found

    if left_size is None and right_size is None:
        raise ValueError("split_dataset: give left_size or right_size")
    left = None if left_size is None else number("left_size", left_size)
    right = count - (left or 0) if right_size is None else number("right_size", right_size)
    left = count - right if left is None else left
    if left + right > count:
        raise ValueError(f"split_dataset: {left} and {right} examples are more than the {count} there are")
    first, last = order[:left], order[count - right :]
    return map_structure(lambda part: part[first], dataset), map_structure(lambda part: part[last], dataset)


legacy = SimpleNamespace(
    serialize_keras_object=serialize_keras_object_of_keras_2,
    deserialize_keras_object=deserialize_keras_object_of_keras_2,
)
importable(__name__, bounding_boxes=bounding_boxes, legacy=legacy)
