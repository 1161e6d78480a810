"""Variables that have other values for a while: what Keras calls stateless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor, no_grad, ops

__all__ = ["check_count", "holding", "values_of"]


def check_count(what: str, given: Sequence[Any], own: Sequence[Any]) -> None:
    """ValueError unless there is a value for each variable."""
    if len(given) != len(own):
        raise ValueError(f"{what}: takes a value for each of {len(own)} variables, got {len(given)}")


@contextmanager
def holding(variables: Sequence[Tensor], values: Sequence[Any]) -> Iterator[None]:
    """Inside, the variables, which no gradient passes, have copies of these values; afterwards what they had before.
    ValueError for another shape.
    """
    taken = []
    for variable, given in zip(variables, values, strict=True):
        value = ops.as_tensor(given).to(dtype=variable.dtype, device=variable.device)
        if value.shape != variable.shape:
            raise ValueError(f"a variable of shape {variable.shape} cannot have a value of shape {value.shape}")
        taken.append(value.detach().clone())
    before = [_geometry(variable) for variable in variables]
    try:
        for variable, value in zip(variables, taken, strict=True):
            variable.point_to(*_geometry(value))
        yield
    finally:
        for variable, place in zip(variables, before, strict=True):
            variable.point_to(*place)


def values_of(variables: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of what the variables have now, over memory that later writes do not change."""
    with no_grad():
        return [variable.detach().clone() for variable in variables]


def _geometry(of: Tensor) -> tuple[Any, ...]:
    return of.storage, of.shape, of.strides, of.dtype, of.offset
