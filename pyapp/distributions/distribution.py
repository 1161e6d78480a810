"""The base of the distributions, and Independent."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any

from ..engine import no_grad
from ..engine.dtype import Default
from ..engine.launch import recorder
from ..engine.operands import at_home
from ..engine.ops import as_tensor, broadcast_tensors, tensor
from ..engine.shape import Size
from ..engine.tensor import Tensor
from .constraints import Constraint, independent, is_dependent
from .transforms import sum_last


def as_tensors(*values: Any) -> list[Tensor]:
    """Parameters as tensors of one shape; numbers get the dtype and the device of the tensors."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    kind = next((v.dtype for v in tensors if v.dtype.is_floating_point), Default.dtype)
    place = tensors[0].device if tensors else None
    every = at_home(tuple(v if isinstance(v, Tensor) else tensor(v, dtype=kind, device=place) for v in values))
    return list(broadcast_tensors(*every))


def inner(path: str) -> Any:
    """A property that is another attribute, such as "base_dist.rate" of the distribution inside."""
    return property(attrgetter(path))


class Distribution:
    """Base of the distributions. `batch_shape`: the shape of the batch of distributions; `event_shape`: the shape of
    one draw of one of them.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}  # of the parameters, by their names
    support: Any = None  # the Constraint of values, or a property that gives it; None: not checked
    _validate_args = True
    _of_no_batch: Collection[str] = ()  # attributes that `expand` leaves as they are

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        """`validate_args`: whether parameters, and values of log_prob and cdf, are checked: ValueError for those that
        the distribution does not have. By default they are (`set_default_validate_args`), but not while a Graph is
        captured, since checks read them.
        """
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        if self._checks():
            for name, constraint in self.arg_constraints.items():
                if name in self._given_names() and not is_dependent(constraint):
                    self._require(name, constraint, getattr(self, name))

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions that are made from now on are checked."""
        Distribution._validate_args = bool(value)

    def _checks(self) -> bool:
        return self._validate_args and recorder() is None

    def _given_names(self) -> Collection[str]:
        """The parameters that the caller gave; others follow from them."""
        return self.arg_constraints

    def _require(self, what: str, constraint: Constraint, value: Any) -> None:
        with no_grad():
            found = as_tensor(value).detach()
            holds = constraint.check(found)
            if not bool(holds.all()):
                if holds.shape != found.shape[: holds.ndim]:  # limits of more dims than the value
                    found = broadcast_tensors(found, holds)[0]
                wrong = found[holds.logical_not()].reshape(-1)[:4].tolist()
                shown = ", ".join(f"{number:g}" for number in wrong)
                raise ValueError(f"{type(self).__name__}: {what} must be {constraint.text}; got {shown}")

    def _validate_sample(self, value: Any) -> None:
        """ValueError for values that the distribution does not give."""
        if self._checks() and (support := self.support) is not None:
            self._require("the value", support, value)

    @property
    def batch_shape(self) -> Size:
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        return Size(self._event_shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its batch expanded to `batch_shape`, as views of its parameters."""
        new, old = tuple(batch_shape), len(self._batch_shape)
        made = self._get_checked_instance(type(self), _instance)
        for name, value in self.__dict__.items():
            if isinstance(value, Distribution):
                value = value.expand((*new, *value.batch_shape[old:]))
            elif (
                name not in self._of_no_batch
                and isinstance(value, Tensor)
                and tuple(value.shape[:old]) == self._batch_shape
            ):
                value = value.expand(*new, *value.shape[old:])
            made.__dict__[name] = value
        made._batch_shape = new
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An object without attributes, for the `expand` of a subclass."""
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Differentiable draws of shape (*sample_shape, *batch_shape, *event_shape)."""
        raise NotImplementedError(f"{type(self).__name__} draws without a gradient: use sample()")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape (*sample_shape, *batch_shape, *event_shape)."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """n draws, as sample((n,)): torch's old name for it, with torch's FutureWarning."""
        warnings.warn("sample_n(n) is an old name: use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """The entropy in nats, in the shape of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def cdf(self, value: Tensor) -> Tensor:
        """The cumulative probability up to `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, in a first dim before the batch's; with dims of 1 for the batch without `expand`."""
        raise NotImplementedError(f"{type(self).__name__} has no list of its values")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """The values of one element, for the batch."""
        values = values.reshape(-1, *(1,) * len(self._batch_shape), *values.shape[1:])
        return values.expand(-1, *self._batch_shape, *self._event_shape) if expand else values

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self._given_names())
        shown = (f"{name}: {x if x.numel() == 1 else repr(x.shape)}" for name, x in given)
        return f"{type(self).__name__}({', '.join(shown)})"


class Independent(Distribution):
    """A batch of distributions with its last dims as part of the event."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = base_distribution.has_enumerate_support and not reinterpreted_batch_ndims
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(f"Independent: {base_distribution} has fewer than {reinterpreted_batch_ndims} batch dims")
        at = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:at], batch[at:] + base_distribution.event_shape, validate_args)

    @property
    def support(self) -> Any:
        base = self.base_dist.support
        return base if base is None else independent(base, self.reinterpreted_batch_ndims)

    mode = inner("base_dist.mode")
    mean = inner("base_dist.mean")
    variance = inner("base_dist.variance")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent: the values of several elements are not listed")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"

    def entropy(self) -> Tensor:
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)
