"""Combine examples to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

from ...engine.lazy import np
from ...engine.ops import as_tensor, stack, tensor
from ...engine.tensor import Tensor
from ...engine.user_errors import describe


def mapped(kind: Mapping[Any, Any], value_of: Callable[[Any], Any]) -> Mapping[Any, Any]:
    """A mapping of the type of `kind`, with its attributes and keys, and value_of(key) for each. A dict where the type
    cannot be made of other values.
    """
    values = {key: value_of(key) for key in kind}
    if type(kind) is dict:
        return values
    try:
        if isinstance(kind, MutableMapping):
            made = copy(kind)
            made.update(values)
            return made
        return type(kind)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """Converts arrays of numbers to tensors, in containers too, and tuples to lists; other objects are unchanged."""
    if isinstance(data, Tensor):
        return data
    if _has_numbers(data):
        return as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return mapped(data, lambda key: default_convert(data[key]))
    if isinstance(data, (list, tuple)):
        values = [default_convert(value) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    return data


_NUMBERS = {bool, int, float}


def _has_numbers(value: Any) -> bool:
    """Whether a value is an array, or a number, of NumPy that a tensor can have."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc"


def _shown(value: Any) -> str:
    return f"{describe(value):.60} ({type(value).__name__})"


def default_collate(batch: Any) -> Any:
    """A list of examples as one: tensors and arrays stacked (N, ...), numbers as a tensor (N,) (floats float64, ints
    int64), texts as a list, mappings (of the first one's type) and sequences part by part. TypeError for anything else,
    RuntimeError for sequences of different lengths and tensors of different shapes.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        shape = first.shape
        for x in batch:
            if not isinstance(x, Tensor) or x.shape != shape:
                raise RuntimeError(
                    "default_collate: stack expects each tensor to be equal size: stacks tensors of one shape, got "
                    f"{', '.join(map(describe, batch))}"
                )
        return stack(list(batch), 0)
    if isinstance(first, (bool, int, float)) and not isinstance(first, np.generic):
        for at, other in enumerate(batch):
            if type(other) not in _NUMBERS and not isinstance(other, (bool, int, float, np.number, np.bool_)):
                raise TypeError(
                    f"default_collate: example 0 is the number {first!r} and example {at} is {_shown(other)}: "
                    "make them of one kind, or give the loader a collate_fn"
                )
        return tensor(list(batch), dtype="float64" if isinstance(first, float) else None)
    if isinstance(first, (str, bytes)):
        return batch
    if _has_numbers(first):
        arrays = [np.asarray(x) for x in batch]
        if any(array.shape != arrays[0].shape for array in arrays):
            raise RuntimeError(
                "default_collate: stack expects each array to be equal size: stacks arrays of one shape, got shapes "
                f"{', '.join(str(array.shape) for array in arrays):.200}"
            )
        return as_tensor(np.stack(arrays))
    if isinstance(first, Mapping):
        return mapped(first, lambda key: default_collate([example[key] for example in batch]))
    if isinstance(first, Sequence):
        if any(len(example) != len(first) for example in batch):
            raise RuntimeError(f"default_collate: the examples' lengths differ: {[len(x) for x in batch]}")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists: makes batches of them and "
        f"of texts, not of {type(first).__name__}; give the loader a collate_fn"
    )
