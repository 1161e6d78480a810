"""torch.nn.attention.bias: causal masks of attention whose queries and keys are not equally many."""

from __future__ import annotations

from pyapp.engine import Tensor, bool_, ops


def causal_upper_left(*size: int) -> Tensor:
    """The mask (queries, keys), bool: query i sees keys 0 … i, as `is_causal` has it."""
    return _causal("causal_upper_left", size, 0)


def causal_lower_right(*size: int) -> Tensor:
    """The mask (queries, keys), bool, for queries that are the last ones of the keys' text: the last one sees all keys.
    With more queries than keys the first ones see nothing.
    """
    return _causal("causal_lower_right", size, None)


def _causal(name: str, size: tuple[int, ...], diagonal: int | None) -> Tensor:
    if len(size) != 2:
        raise ValueError(f"{name}: takes the number of queries and that of keys, got {size}")
    queries, keys = size
    return ops.ones(queries, keys, dtype=bool_).tril(keys - queries if diagonal is None else diagonal)
