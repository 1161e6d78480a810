"""What parameters and values of distributions must be, by torch.distributions.constraints' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.ops.linalg.factor import cholesky_ex
from ..engine.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "corr_cholesky", "dependent", "greater_than", "greater_than_eq", "half_open_interval",
    "independent", "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer",
    "real", "real_vector", "simplex", "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A condition on each element of a tensor, or on the last `event_dim` dims together; `text` completes "must be".
    `limits` are those of an interval."""

    event_dim = 0
    is_discrete = False
    text = "among those that the constraint allows"
    limits: tuple[Any, Any] = (None, None)
    base: Constraint | None = None  # of `independent`
    _holds: Callable[[Tensor], Tensor] | None = None

    def __init__(
        self, text: str = "", holds: Callable[[Tensor], Tensor] | None = None, event_dim: int = 0,
        is_discrete: bool = False, limits: tuple[Any, Any] = (None, None),
    ) -> None:  # fmt: skip
        self.text, self._holds, self.limits = text or self.text, holds, limits
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Bools: where it holds."""
        if self._holds is None:
            raise NotImplementedError(f"{type(self).__name__} has no check: write check(value)")
        return self._holds(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


def _is_whole(x: Tensor) -> Tensor:
    return x.remainder(1).eq(0)


def _adds_up_to_one(x: Tensor) -> Tensor:
    """Whether the numbers of each row add up to 1, but for the rounding of their dtype."""
    return (x.sum(-1) - 1).abs() < (1e-2 if x.dtype.itemsize < 4 else 1e-5)


def interval(low: Any, high: Any) -> Constraint:
    """Numbers from `low` to `high`, both included."""
    text = f"from {_said(low)} to {_said(high)}"
    return Constraint(text, lambda x: (x >= low).logical_and(x <= high), limits=(low, high))


def half_open_interval(low: Any, high: Any) -> Constraint:
    """Numbers from `low` up to `high`, which is not among them."""
    text = f"from {_said(low)} up to {_said(high)}"
    return Constraint(text, lambda x: (x >= low).logical_and(x < high), limits=(low, high))


def integer_interval(low: Any, high: Any) -> Constraint:
    """Whole numbers from `low` to `high`, both included."""
    text = f"whole numbers from {_said(low)} to {_said(high)}"
    return Constraint(
        text, lambda x: _is_whole(x).logical_and(x >= low).logical_and(x <= high), is_discrete=True, limits=(low, high)
    )


def greater_than(low: Any) -> Constraint:
    """Numbers above `low`."""
    return Constraint(f"above {_said(low)}", lambda x: x > low, limits=(low, None))


def greater_than_eq(low: Any) -> Constraint:
    """Numbers from `low`."""
    return Constraint(f"at least {_said(low)}", lambda x: x >= low, limits=(low, None))


def less_than(high: Any) -> Constraint:
    """Numbers below `high`."""
    return Constraint(f"below {_said(high)}", lambda x: x < high, limits=(None, high))


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """`base` for all elements of the last dims together."""
    if not reinterpreted_batch_ndims:
        return base

    def holds(x: Tensor) -> Tensor:
        found = base.check(x)
        return found.flatten(found.ndim - reinterpreted_batch_ndims).all(-1)

    made = Constraint(base.text, holds, base.event_dim + reinterpreted_batch_ndims, base.is_discrete)
    made.base = base
    return made


def multinomial(count: Any) -> Constraint:
    """Vectors of whole numbers from 0 whose sum is `count`."""
    return Constraint(
        f"vectors of whole numbers whose sum is {_said(count)}",
        lambda x: nonnegative_integer.check(x).all(-1).logical_and(x.sum(-1) == count), 1, True,
    )  # fmt: skip


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint depends on other values."""
    return constraint is dependent


def _said(limit: Any) -> str:
    """A limit in a message."""
    if isinstance(limit, Tensor):
        return f"{limit.item():g}" if limit.numel() == 1 else "its own limit"
    return f"{limit:g}"


def _every(x: Tensor) -> Tensor:
    """Whether all elements of each matrix are True."""
    return x.flatten(-2).all(-1)


def _is_lower_cholesky(x: Tensor) -> Tensor:
    return _every(x.tril() == x).logical_and((x.diagonal(dim1=-2, dim2=-1) > 0).all(-1))


def _is_symmetric(x: Tensor) -> Tensor:
    return _every(x.isclose(x.mT, atol=1e-6))


real = Constraint("numbers, not NaN", lambda x: x == x)
real_vector = independent(real, 1)
positive = greater_than(0)
nonnegative = greater_than_eq(0)
unit_interval = interval(0, 1)
boolean = Constraint("0 or 1", lambda x: (x == 0).logical_or(x == 1), is_discrete=True)
nonnegative_integer = Constraint(
    "whole numbers from 0", lambda x: _is_whole(x).logical_and(x >= 0), is_discrete=True, limits=(0, None)
)
positive_integer = Constraint(
    "whole numbers from 1", lambda x: _is_whole(x).logical_and(x >= 1), is_discrete=True, limits=(1, None)
)
simplex = Constraint(
    "vectors of numbers from 0 whose sum is 1", lambda x: (x >= 0).all(-1).logical_and(_adds_up_to_one(x)), 1
)
one_hot = Constraint(
    "vectors of zeros and a single 1", lambda x: boolean.check(x).all(-1).logical_and(x.sum(-1) == 1), 1, True
)
lower_triangular = Constraint("lower triangular matrices", lambda x: _every(x.tril() == x), 2)
lower_cholesky = Constraint("lower triangular matrices with a diagonal above 0", _is_lower_cholesky, 2)
corr_cholesky = Constraint(
    "lower triangular matrices with rows of length 1 and a diagonal above 0",
    lambda x: _is_lower_cholesky(x).logical_and(((x.square().sum(-1) - 1).abs() < 1e-5).all(-1)), 2,
)  # fmt: skip
square = Constraint("square matrices", lambda x: x.new_full(x.shape[:-2], x.shape[-1] == x.shape[-2]).bool(), 2)
symmetric = Constraint("symmetric matrices", _is_symmetric, 2)
positive_definite = Constraint(
    "symmetric matrices with eigenvalues above 0",
    lambda x: _is_symmetric(x).logical_and(cholesky_ex((x + x.mT) / 2 )[1] == 0), 2,
)  # fmt: skip
dependent = Constraint("what depends on other values", lambda x: x == x)
