"""torch's argument `out` of functions: the result is copied into tensors that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .grad_mode import STATE
from .tensor import Tensor

# Numbers in a row, which fill an `out` of any shape that has their count.
_SPACED = frozenset(("arange", "linspace", "logspace", "range"))


def into_out(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function's result, written into `out` of kwargs: a tensor, or one for each result of several. A tensor of
    another shape takes that of the result. RuntimeError for dtypes that a write in place does not convert, and where
    a gradient would be needed.
    """
    out = kwargs["out"]
    found = function(*args, **{name: value for name, value in kwargs.items() if name != "out"})
    if out is None:
        return found
    several = isinstance(found, (tuple, list))
    if several and (not isinstance(out, (tuple, list)) or len(out) != len(found)):
        raise TypeError(f"out takes {len(found)} tensors, in a tuple")
    targets, values = (list(out), list(found)) if several else ([out], [found])
    for target, value in zip(targets, values, strict=True):
        if not isinstance(target, Tensor):
            raise TypeError(f"out takes a tensor where it got a {type(target).__name__}")
        if STATE.enabled and (target.requires_grad or value.requires_grad):
            raise RuntimeError("functions with out have no gradients; use the result, or no_grad()")
        if value.dtype.category > target.dtype.category:
            raise RuntimeError(f"the result is {value.dtype.name}, which out of {target.dtype.name} cannot hold")
    before, STATE.enabled = STATE.enabled, False
    try:
        for target, value in zip(targets, values, strict=True):
            if function.__name__ in _SPACED and target.numel() == value.numel():
                value = value.reshape(target.shape)
            if target.shape != value.shape:
                target.resize_(tuple(value.shape))
            target.copy_(value)
    finally:
        STATE.enabled = before
    if not several:
        return out
    return type(found)(*targets) if hasattr(found, "_fields") else type(found)(targets)
