"""Sequences (lists) and optionals (None where they are empty)."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import array_of, axes_of, ints, like, made_of, scalar
from .control import joined
from .shapes import parts_of, reshaped


def _place(sequence: list[Any], position: Any, last: int) -> int:
    """A position counted from the front. IndexError for one outside."""
    at = int(scalar(position))
    if not -len(sequence) <= at <= last:
        raise IndexError(f"position {at} of a sequence of {len(sequence)}")
    return at + len(sequence) if at < 0 else at


operator("SequenceConstruct")(lambda *inputs: list(inputs))
operator("SequenceLength", reads=(0,))(lambda sequence: made_of(np.array(len(sequence), np.int64)))


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    return []


@operator("SequenceAt", reads=(1,))
def sequence_at(sequence: list[Any], position: Tensor) -> Any:
    return sequence[_place(sequence, position, len(sequence) - 1)]


@operator("SequenceErase", reads=(1,))
def sequence_erase(sequence: list[Any], position: Any = None) -> list[Any]:
    at = len(sequence) - 1 if position is None else _place(sequence, position, len(sequence) - 1)
    return [value for k, value in enumerate(sequence) if k != at]


@operator("SequenceInsert", reads=(2,))
def sequence_insert(sequence: list[Any], value: Any, position: Any = None) -> list[Any]:
    at = len(sequence) if position is None else _place(sequence, position, len(sequence))
    return [*sequence[:at], value, *sequence[at:]]


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    if not sequence:
        raise ValueError("the sequence is empty")
    if new_axis:
        return joined(sequence, axes_of([axis], sequence[0].ndim + 1)[0])
    at = axes_of([axis], sequence[0].ndim)[0]
    if all(isinstance(v, Tensor) for v in sequence):
        return ops.cat(sequence, at)
    return like(sequence[0], np.concatenate([array_of(v) for v in sequence], at))


@operator("SplitToSequence", reads=(1,))
def split_to_sequence(x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[Any]:
    at = axes_of([axis], x.ndim)[0]
    total = x.shape[at]
    if split is None:
        parts = parts_of(x, [1] * total, at)
        return parts if keepdims else [reshaped(p, [n for d, n in enumerate(p.shape) if d != at]) for p in parts]
    sizes = ints(split)
    if split.ndim == 0:
        if sizes[0] < 1:
            raise ValueError(f"parts of {sizes[0]}")
        sizes = [min(sizes[0], total - begin) for begin in range(0, total, sizes[0])]
    return parts_of(x, sizes, at)


@operator("Optional")
def optional(value: Any = None, *, type: Any = None) -> Any:
    return value


@operator("OptionalGetElement")
def optional_get_element(value: Any = None) -> Any:
    if value is None:
        raise ValueError("the optional is empty")
    return value


@operator("OptionalHasElement", reads=(0,))
def optional_has_element(value: Any = None) -> Tensor:
    return made_of(np.array(value is not None))
