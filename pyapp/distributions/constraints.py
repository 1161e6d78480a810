"""What parameters and values of distributions must be, by torch.distributions.constraints' names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..engine.ops import stacking
from ..engine.ops.linalg.eigen import eigvalsh
from ..engine.ops.linalg.factor import cholesky_ex
from ..engine.tensor import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
    "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack", "symmetric",
    "unit_interval",
]  # fmt: skip


class Constraint:
    """A condition on each element of a tensor, or on the last `event_dim` dims together; `text` completes "must be".
    `limits` are those of an interval. Subclasses write `check`."""

    event_dim = 0
    is_discrete = False
    text = "among those that the constraint allows"
    name = ""  # in what it prints, where the class's name is another
    limits: tuple[Any, Any] = (None, None)
    base: Constraint | None = None  # of `independent`
    _holds: Callable[[Tensor], Tensor] | None = None

    def __init__(
        self, text: str = "", holds: Callable[[Tensor], Tensor] | None = None, event_dim: int = 0,
        is_discrete: bool = False, limits: tuple[Any, Any] = (None, None), name: str = "",
    ) -> None:  # fmt: skip
        self.text, self._holds, self.limits, self.name = text or self.text, holds, limits, name or self.name
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Bools: where it holds."""
        if self._holds is None:
            raise NotImplementedError(f"{type(self).__name__} has no check: write check(value)")
        return self._holds(value)

    def __repr__(self) -> str:
        names = zip(("lower_bound", "upper_bound"), self.limits, strict=True)
        shown = ", ".join(f"{name}={limit}" for name, limit in names if limit is not None)
        return f"{self.name or type(self).__name__.lstrip('_')}({shown})"


def _is_whole(x: Tensor) -> Tensor:
    return x.remainder(1).eq(0)


def _adds_up_to_one(x: Tensor) -> Tensor:
    """Whether the numbers of each row add up to 1, but for the rounding of their dtype."""
    return (x.sum(-1) - 1).abs() < (1e-2 if x.dtype.itemsize < 4 else 1e-5)


class _Limited(Constraint):
    """Numbers within limits, which are attributes too."""

    def __init__(self, text: str, holds: Callable[[Tensor], Tensor], low: Any, high: Any, whole: bool = False) -> None:
        super().__init__(text, holds, 0, whole, (low, high))
        if low is not None:
            self.lower_bound = low
        if high is not None:
            self.upper_bound = high


class _Interval(_Limited):
    """Numbers from `lower_bound` to `upper_bound`, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        text = f"from {_said(lower_bound)} to {_said(upper_bound)}"
        holds = lambda x: (x >= lower_bound).logical_and(x <= upper_bound)  # noqa: E731
        super().__init__(text, holds, lower_bound, upper_bound)


class _HalfOpenInterval(_Limited):
    """Numbers from `lower_bound` up to `upper_bound`, which is not among them."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        text = f"from {_said(lower_bound)} up to {_said(upper_bound)}"
        holds = lambda x: (x >= lower_bound).logical_and(x < upper_bound)  # noqa: E731
        super().__init__(text, holds, lower_bound, upper_bound)


class _IntegerInterval(_Limited):
    """Whole numbers from `lower_bound` to `upper_bound`, both included."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        text = f"whole numbers from {_said(lower_bound)} to {_said(upper_bound)}"

        def holds(x: Tensor) -> Tensor:
            within = (x >= lower_bound).logical_and(x <= upper_bound)
            return _is_whole(x).logical_and(within) if x.dtype.has_gradient else within

        super().__init__(text, holds, lower_bound, upper_bound, whole=True)


class _IntegerGreaterThan(_Limited):
    """Whole numbers from `lower_bound`."""

    def __init__(self, lower_bound: Any) -> None:
        text = f"whole numbers from {_said(lower_bound)}"
        super().__init__(text, lambda x: _is_whole(x).logical_and(x >= lower_bound), lower_bound, None, whole=True)


class _GreaterThan(_Limited):
    """Numbers above `lower_bound`."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(f"above {_said(lower_bound)}", lambda x: x > lower_bound, lower_bound, None)


class _GreaterThanEq(_Limited):
    """Numbers from `lower_bound`."""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(f"at least {_said(lower_bound)}", lambda x: x >= lower_bound, lower_bound, None)


class _LessThan(_Limited):
    """Numbers below `upper_bound`."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(f"below {_said(upper_bound)}", lambda x: x < upper_bound, None, upper_bound)


class _IndependentConstraint(Constraint):
    """`base_constraint` for all elements of the last dims together."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(
            base_constraint.text, None, base_constraint.event_dim + reinterpreted_batch_ndims,
            base_constraint.is_discrete,
        )  # fmt: skip
        self.base = self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        return found.flatten(found.ndim - count).all(-1) if count else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Multinomial(Constraint):
    """Vectors of whole numbers from 0 whose sum is `upper_bound`."""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(
            f"vectors of whole numbers whose sum is {_said(upper_bound)}",
            lambda x: nonnegative_integer.check(x).all(-1).logical_and(x.sum(-1) == upper_bound), 1, True,
        )  # fmt: skip
        self.upper_bound = upper_bound


class _Parts(Constraint):
    """The constraints `cseq` of the parts of a tensor along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int, event_dim: int) -> None:
        if not all(isinstance(part, Constraint) for part in cseq):
            raise TypeError(f"{type(self).__name__.lstrip('_').lower()}: the parts are constraints, not {cseq!r:.80}")
        self.cseq, self.dim = list(cseq), dim
        super().__init__(
            "in each part " + ", ".join(part.text for part in self.cseq), None, event_dim,
            any(part.is_discrete for part in self.cseq),
        )  # fmt: skip


class _Cat(_Parts):
    """One constraint for each of the parts of `lengths` along `dim`, each of one by default."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim, max((part.event_dim for part in cseq), default=0))
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.cseq)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"cat: {len(self.cseq)} constraints, {len(self.lengths)} lengths")

    def check(self, value: Tensor) -> Tensor:
        parts = zip(self.cseq, value.split(self.lengths, self.dim), strict=True)
        return stacking.cat([part.check(piece) for part, piece in parts], self.dim)


class _Stack(_Parts):
    """One constraint for each index of `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        most = max((part.event_dim for part in cseq), default=0)
        super().__init__(cseq, dim, most + 1 if dim + most < 0 else most)

    def check(self, value: Tensor) -> Tensor:
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return stacking.stack([part.check(piece) for part, piece in parts], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The constraint of a mixture's components for a value of the mixture, which lacks their dim."""

    def __init__(self, base_constraint: Constraint) -> None:
        super().__init__(base_constraint.text, None, base_constraint.event_dim, base_constraint.is_discrete)
        self.base_constraint = base_constraint

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ValueError(f"MixtureSameFamilyConstraint: the value has {value.ndim} dims, fewer than an event has")
        found = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.ndim - self.event_dim
        return found.flatten(kept).all(-1) if found.ndim > kept else found

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Dependent(Constraint):
    """A constraint that depends on other values. A call gives one with what is known about all of them."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__("what depends on other values", None, event_dim, is_discrete)

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is None else is_discrete,
            event_dim=self.event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("a constraint that depends on other values cannot be checked alone")


interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
independent, multinomial = _IndependentConstraint, _Multinomial
cat, stack = _Cat, _Stack


def over_dims(constraint: Constraint, count: int) -> Constraint:
    """`constraint` for all elements of the last `count` dims together; itself for none."""
    return independent(constraint, count) if count else constraint


class dependent_property(property):
    """A property that gives a constraint which depends on the distribution's parameters: a decorator, alone or with
    what is known about all of them (`is_discrete`, `event_dim`).
    """

    def __init__(
        self, fn: Callable[[Any], Any] | None = None, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other values: also a class's property that gives it."""
    return isinstance(constraint, (_Dependent, property))


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


real = Constraint("numbers, not NaN", lambda x: x == x, name="Real")
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
boolean = Constraint("0 or 1", lambda x: (x == 0).logical_or(x == 1), is_discrete=True, name="Boolean")
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
simplex = Constraint(
    "vectors of numbers from 0 whose sum is 1", lambda x: (x >= 0).all(-1).logical_and(_adds_up_to_one(x)), 1,
    name="Simplex",
)  # fmt: skip
one_hot = Constraint(
    "vectors of zeros and a single 1", lambda x: boolean.check(x).all(-1).logical_and(x.sum(-1) == 1), 1, True,
    name="OneHot",
)  # fmt: skip
lower_triangular = Constraint("lower triangular matrices", lambda x: _every(x.tril() == x), 2, name="LowerTriangular")


def _is_semidefinite(x: Tensor) -> Tensor:
    return _is_symmetric(x).logical_and((eigvalsh(x) >= 0).all(-1))


lower_cholesky = Constraint(
    "lower triangular matrices with a diagonal above 0", _is_lower_cholesky, 2, name="LowerCholesky"
)
corr_cholesky = Constraint(
    "lower triangular matrices with rows of length 1 and a diagonal above 0",
    lambda x: _is_lower_cholesky(x).logical_and(((x.square().sum(-1) - 1).abs() < 1e-5).all(-1)), 2,
    name="CorrCholesky",
)  # fmt: skip
square = Constraint(
    "square matrices", lambda x: x.new_full(x.shape[:-2], x.shape[-1] == x.shape[-2]).bool(), 2, name="Square"
)
symmetric = Constraint("symmetric matrices", _is_symmetric, 2, name="Symmetric")
positive_definite = Constraint(
    "symmetric matrices with eigenvalues above 0",
    lambda x: _is_symmetric(x).logical_and(cholesky_ex((x + x.mT) / 2 )[1] == 0), 2, name="PositiveDefinite",
)  # fmt: skip
positive_semidefinite = Constraint(
    "symmetric matrices with no eigenvalue below 0", _is_semidefinite, 2, name="PositiveSemidefinite"
)
dependent = _Dependent()
