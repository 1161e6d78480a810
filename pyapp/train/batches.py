"""Batches for `fit`: (inputs, labels, weights) from arrays, tensors, lists and dicts of them, from generators, and
from datasets and loaders in torch's form.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import Any

from ..engine import Tensor, ops
from ..engine.device import cpu
from ..engine.ops.random import Generator, default_generator
from .floats import floatx

Batch = tuple[Any, Any, Any]  # inputs, labels, weights; labels and weights may be None


def _has_arrays(structure: Any) -> bool:
    """Whether a list holds arrays, or lists and dicts of them, not numbers."""
    first = structure[0] if isinstance(structure, list) and structure else None
    return is_array(first) or isinstance(first, (Mapping, tuple)) or (isinstance(first, list) and _has_arrays(first))


def _leaves(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping):
        return [leaf for value in structure.values() for leaf in _leaves(value)]
    if isinstance(structure, tuple) or _has_arrays(structure):
        return [leaf for value in structure for leaf in _leaves(value)]
    return [structure]


def _mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    if structure is None:
        return None
    if isinstance(structure, Mapping):
        return {key: _mapped(function, value) for key, value in structure.items()}
    if isinstance(structure, tuple) or _has_arrays(structure):
        return type(structure)(_mapped(function, value) for value in structure)
    return function(structure)


def is_array(value: Any) -> bool:
    """Whether a value is a tensor or an array."""
    return isinstance(value, Tensor) or (hasattr(value, "shape") and hasattr(value, "dtype"))


def as_floatx(value: Any) -> Any:
    """An array as a tensor, in the host's memory: each batch is moved to the model. float64 becomes float32, or all
    floats get the dtype of `set_floatx`, as in Keras."""
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()  # a table of pandas
    if not isinstance(value, Tensor):
        if getattr(getattr(value, "dtype", None), "kind", "") in "OUS" and hasattr(value, "dtype"):
            return value  # texts stay as they are
        if isinstance(value, list) and value and isinstance(value[0], str):
            return value
        value = ops.as_tensor(value, device=cpu)
    wanted = floatx()
    if not value.dtype.is_floating_point or (wanted == "float32" and value.dtype.name != "float64"):
        return value
    return value.to(wanted)


class Batches:
    """Base: `len()` batches, or None; iterating gives one pass. `size` is that of a batch, where it is known."""

    size: int | None = None

    def count(self) -> int | None:
        """The number of batches of a pass; None where only the end shows it."""
        return None

    def __iter__(self) -> Iterator[Batch]:
        raise NotImplementedError


class ArrayBatches(Batches):
    """Slices of arrays; in a new random order for each pass, if `shuffle`. ValueError where their lengths differ."""

    def __init__(
        self, x: Any, y: Any = None, sample_weight: Any = None, batch_size: int | None = None, shuffle: bool = False,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.arrays: Batch = _mapped(as_floatx, x), _mapped(as_floatx, y), _mapped(as_floatx, sample_weight)
        leaves = (leaf for part in self.arrays if part is not None for leaf in _leaves(part))
        lengths = {len(leaf) for leaf in leaves if leaf is not None}  # an input of a model that may be missing is None
        if len(lengths) > 1:
            raise ValueError(
                "Data cardinality is ambiguous: the arrays have different numbers of examples: "
                f"{', '.join(map(str, sorted(lengths)))}"
            )
        self.examples = lengths.pop() if lengths else 0
        if not self.examples:
            raise ValueError("there is no data: the arrays have no examples")
        self.size = 32 if batch_size is None else batch_size
        if not isinstance(self.size, int) or self.size < 1:
            raise ValueError(f"batch_size is a positive integer, not {batch_size!r}")
        self.shuffle, self.generator = shuffle, generator or default_generator

    def count(self) -> int:
        assert self.size is not None
        return -(-self.examples // self.size)

    def divide(self, steps: int) -> None:
        """Gives the batches the size that makes one pass of so many steps."""
        self.size = -(-self.examples // steps)

    def split(self, share: float) -> tuple[ArrayBatches, ArrayBatches]:
        """The first part, and the last `share` of the examples. ValueError where one is empty."""
        if not 0 < share < 1:
            raise ValueError(f"validation_split is between 0 and 1, not {share}")
        middle = int(floor(self.examples * (1.0 - share)))
        if not 0 < middle < self.examples:
            raise ValueError(f"validation_split={share} of {self.examples} examples leaves a part without examples")

        def part(which: slice, shuffle: bool) -> ArrayBatches:
            x, y, weights = (_mapped(lambda array: array[which], arrays) for arrays in self.arrays)
            return ArrayBatches(x, y, weights, self.size, shuffle, self.generator)

        return part(slice(None, middle), self.shuffle), part(slice(middle, None), False)

    def __iter__(self) -> Iterator[Batch]:
        assert self.size is not None
        order = None
        if self.shuffle:
            order = ops.randperm(self.examples, generator=self.generator, device=cpu)
        for start in range(0, self.examples, self.size):
            stop = min(start + self.size, self.examples)
            part: Any = slice(start, stop) if order is None else order[start:stop]
            yield tuple(_mapped(lambda a, p=part: _taken(a, p), arrays) for arrays in self.arrays)  # type: ignore[misc]


def _taken(array: Any, part: Any) -> Any:
    if isinstance(array, list) and isinstance(part, Tensor):
        return [array[k] for k in part.tolist()]
    if isinstance(part, Tensor):
        part = part.to(array.device) if isinstance(array, Tensor) else part.numpy()
    return array[part]


class IterableBatches(Batches):
    """Batches that a loader, a generator or any iterable gives: x, (x, y) or (x, y, weights)."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self._once = iter(source) if isinstance(source, Iterator) else None

    def count(self) -> int | None:
        try:
            return len(self.source)  # type: ignore[arg-type]
        except TypeError:
            return None

    def __iter__(self) -> Iterator[Batch]:
        for given in self._once if self._once is not None else iter(self.source):
            yield as_batch(given)


class SequenceBatches(Batches):
    """Batches by their numbers: an object with `__getitem__` and `__len__` that gives whole batches, as Keras'
    PyDataset; in a new random order for each pass, if `shuffle`. Where `num_batches` is None they have no end."""

    def __init__(self, source: Sequence[Any], shuffle: bool = False, generator: Generator | None = None) -> None:
        self.source, self.shuffle, self.generator = source, shuffle, generator or default_generator

    def count(self) -> int | None:
        return self.source.num_batches if hasattr(self.source, "num_batches") else len(self.source)

    def __iter__(self) -> Iterator[Batch]:
        count = self.count()
        begin = getattr(self.source, "on_epoch_begin", None)
        if begin is not None:
            begin()
        numbers: Iterable[int] = itertools.count() if count is None else range(count)
        if self.shuffle and count is not None:
            numbers = ops.randperm(count, generator=self.generator, device=cpu).tolist()
        for k in numbers:
            yield as_batch(self.source[k])
        end = getattr(self.source, "on_epoch_end", None)
        if end is not None:
            end()


def as_batch(given: Any) -> Batch:
    """(x, y, weights) from what a source of batches gives."""
    parts = tuple(given) if isinstance(given, (tuple, list)) and not is_array(given) else (given,)
    if len(parts) > 3:
        raise ValueError(f"a batch is x, (x, y) or (x, y, sample_weight), not {len(parts)} parts")
    x, y, weights = (_mapped(as_floatx, part) for part in (*parts, *(None,) * (3 - len(parts))))
    return x, y, weights


def batches_of(
    x: Any, y: Any = None, sample_weight: Any = None, batch_size: int | None = None, shuffle: bool = False,
    generator: Generator | None = None,
) -> Batches:  # fmt: skip
    """The batches of anything that `fit` takes. ValueError where labels are given beside a source of batches."""
    if isinstance(x, Batches):
        return x
    arrays = is_array(x) or isinstance(x, (list, tuple, Mapping)) or hasattr(x, "to_numpy")
    if arrays:
        return ArrayBatches(x, y, sample_weight, batch_size, shuffle, generator)
    if y is not None or sample_weight is not None:
        given = "y" if y is not None else "sample_weight"
        raise ValueError(
            f"`{given}` should not be passed: labels and weights belong into the batches of a generator or dataset"
        )
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "__iter__"):
        return SequenceBatches(x, shuffle, generator)
    if isinstance(x, Iterable):
        return IterableBatches(x)
    raise TypeError(f"takes arrays, tensors, a generator or a dataset, not {type(x).__name__}")


def class_weighted(batch: Batch, class_weight: Mapping[int, float]) -> Batch:
    """The batch, each example weighted by its class: class numbers, or one-hot labels."""
    x, y, weights = batch
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            f"class_weight: a dict of classes and weights, such as {{0: 1.0, 1: 3.0}}, not {class_weight!r:.40}"
        )
    if weights is not None:
        raise ValueError(
            "You cannot use `class_weight` and `sample_weight` at the same time: multiply the weights of the examples "
            "by those of their classes"
        )
    if not isinstance(y, Tensor):
        raise ValueError("class_weight: takes models with one output whose labels are classes")
    classes = y.argmax(-1) if y.ndim > 1 and y.shape[-1] > 1 else y.reshape(y.shape[0], -1)[:, 0]
    of_class = ops.tensor([float(class_weight.get(int(k), 1.0)) for k in classes.tolist()])
    return x, y, of_class
