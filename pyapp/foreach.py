"""torch's functions of lists of tensors, `_foreach_add`, `_foreach_lerp_` and so on: a method of each tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .engine.tensor import Tensor
from .linalg import vector_norm

Function = Callable[..., Any]

PREFIX = "_foreach_"
_BOUNDS = {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}  # also of a number
_BOUNDS |= {name[:-1]: own[:-1] for name, own in _BOUNDS.items()}
_PER_TENSOR = ("addcdiv", "addcmul")  # their last argument may be a tensor of one number for each


def function_of(name: str) -> Function | None:
    """The function by torch's name, or None. It takes a list of tensors. Other lists give each tensor its own operand;
    numbers and tensors are for all. Names that end in `_` write into the tensors.
    """
    method = name[len(PREFIX) :]
    method = _BOUNDS.get(method, method)
    if method == "powsum" or (method != "norm" and not hasattr(Tensor, method)):
        return None

    def foreach(tensors: Any, *args: Any, **kwargs: Any) -> list[Tensor] | tuple[Tensor, ...]:
        count = _count(name, (tensors, *args, *kwargs.values()))
        found = []
        for i in range(count):
            one, *rest = (_own(value, i, method) for value in (tensors, *args))
            named = {key: _own(value, i, method) for key, value in kwargs.items()}
            if method.rstrip("_") in _PER_TENSOR and len(rest) == 3:
                named["value"] = rest.pop()
            if "scalars" in named:
                named["value"] = named.pop("scalars")
            if method == "norm":
                found.append(vector_norm(one, *rest, **named))
            elif isinstance(one, Tensor):
                found.append(getattr(one, method)(*rest, **named))
            else:  # pow of a number
                found.append(one ** rest[0])
        return found if method[-1] == "_" else tuple(found)

    foreach.__name__ = foreach.__qualname__ = name
    return foreach


def _count(name: str, values: tuple[Any, ...]) -> int:
    """The one length of the lists."""
    counts = {len(value) for value in values if isinstance(value, (list, tuple))}
    if not counts:
        raise TypeError(f"{name}: takes a list of tensors, got {type(values[0]).__name__}")
    if len(counts) > 1:
        raise RuntimeError(f"{name}: the lists have {sorted(counts)} tensors, not one number of them")
    return counts.pop()


def _own(value: Any, i: int, method: str) -> Any:
    if isinstance(value, Tensor) and value.ndim == 1 and method.rstrip("_") in _PER_TENSOR:
        return value[i].item()
    return value[i] if isinstance(value, (list, tuple)) else value
