"""What parameters and values of distributions must be, by torch.distributions.constraints' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "greater_than", "integer_interval", "interval", "nonnegative", "nonnegative_integer",
    "one_hot", "positive", "real", "simplex", "unit_interval",
]  # fmt: skip


class Constraint:
    """A condition on each element of a tensor, or on each vector of its last dim; `text` completes "must be"."""

    def __init__(self, text: str, holds: Callable[[Tensor], Tensor]) -> None:
        self.text, self._holds = text, holds

    def check(self, value: Tensor) -> Tensor:
        """Bools: where it holds."""
        return self._holds(value)

    def __repr__(self) -> str:
        return f"Constraint({self.text!r})"


def _is_whole(x: Tensor) -> Tensor:
    return x.remainder(1).eq(0)


def _adds_up_to_one(x: Tensor) -> Tensor:
    """Whether the numbers of each row add up to 1, but for the rounding of their dtype."""
    return (x.sum(-1) - 1).abs() < (1e-2 if x.dtype.itemsize < 4 else 1e-5)


def interval(low: Any, high: Any) -> Constraint:
    """Numbers from `low` to `high`, both included."""
    return Constraint(f"from {_said(low)} to {_said(high)}", lambda x: (x >= low).logical_and(x <= high))


def integer_interval(low: Any, high: Any) -> Constraint:
    """Whole numbers from `low` to `high`, both included."""
    text = f"whole numbers from {_said(low)} to {_said(high)}"
    return Constraint(text, lambda x: _is_whole(x).logical_and(x >= low).logical_and(x <= high))


def greater_than(low: Any) -> Constraint:
    """Numbers above `low`."""
    return Constraint(f"above {_said(low)}", lambda x: x > low)


def _said(limit: Any) -> str:
    """A limit in a message."""
    if isinstance(limit, Tensor):
        return f"{limit.item():g}" if limit.numel() == 1 else "its own limit"
    return f"{limit:g}"


real = Constraint("numbers, not NaN", lambda x: x == x)
positive = greater_than(0)
nonnegative = Constraint("at least 0", lambda x: x >= 0)
unit_interval = interval(0, 1)
boolean = Constraint("0 or 1", lambda x: (x == 0).logical_or(x == 1))
nonnegative_integer = Constraint("whole numbers from 0", lambda x: _is_whole(x).logical_and(x >= 0))
simplex = Constraint(
    "vectors of numbers from 0 whose sum is 1", lambda x: (x >= 0).all(-1).logical_and(_adds_up_to_one(x))
)
one_hot = Constraint("vectors of zeros and a single 1", lambda x: boolean.check(x).all(-1).logical_and(x.sum(-1) == 1))
