"""Variables that have other values for a while: what Keras calls stateless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor, no_grad, ops
from ..engine.thread_local import ThreadLocal

__all__ = ["SCOPES", "about_to_write", "check_count", "geometry", "holding", "values_of"]


class _Scopes(ThreadLocal):
    current: Any = None  # in which writes are kept from the variables; it has `take(variable)`


SCOPES = _Scopes()


def about_to_write(*variables: Any) -> None:
    """Called before variables are written in place: inside a scope that keeps their values they get other memory."""
    if SCOPES.current is not None:
        for variable in variables:
            SCOPES.current.take(variable)


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
    before = [geometry(variable) for variable in variables]
    try:
        for variable, value in zip(variables, taken, strict=True):
            variable.point_to(*geometry(value))
        yield
    finally:
        for variable, place in zip(variables, before, strict=True):
            variable.point_to(*place)


def values_of(variables: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of what the variables have now, over memory that later writes do not change."""
    with no_grad():
        return [variable.detach().clone() for variable in variables]


def geometry(of: Tensor) -> tuple[Any, ...]:
    """Where a tensor's elements lie: what `point_to` takes."""
    return of._storage, of.shape, of.strides, of.dtype, of.offset
