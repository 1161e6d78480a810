"""Distributions of functions of another distribution's draws, for instance tanh of a normal number."""

from __future__ import annotations

from typing import Any

from ..engine import no_grad
from ..engine.tensor import Tensor
from .constraints import over_dims, positive, real, simplex
from .continuous import Normal
from .distribution import Distribution, Independent, as_tensors, inner
from .transforms import ComposeTransform, ExpTransform, StickBreakingTransform, Transform, sum_last


class TransformedDistribution(Distribution):
    """The distribution of one or several transforms of a distribution's draws. The untransformed values of the last
    draw are kept, so that its log_prob is not affected by rounding in the inverse.
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError(f"TransformedDistribution: takes a Transform or a list of them, got {transforms!r:.200}")
        self._whole = ComposeTransform(self.transforms)
        taken = self._whole.domain.event_dim
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        if len(shape) < taken:
            raise ValueError(f"TransformedDistribution: draws of shape {shape} have too few dims: it takes {taken}")
        made = self._whole.forward_shape(shape)
        wanted = self._whole.inverse_shape(made)
        if wanted != shape:
            base_distribution = base_distribution.expand(wanted[: len(wanted) - len(base_distribution.event_shape)])
        more = taken - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        self.has_rsample = base_distribution.has_rsample
        self._last: tuple[Tensor, Tensor] | None = None
        at = len(made) - self._whole.codomain.event_dim - max(-more, 0)
        super().__init__(made[:at], made[at:], validate_args)

    @property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        return over_dims(found, len(self._event_shape) - found.event_dim)

    def _made_of(self, x: Tensor) -> Tensor:
        y = self._whole(x)
        self._last = y, x
        return y

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._made_of(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._made_of(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        known = self._last is not None and self._last[0] is value
        x = self._last[1] if known and self._last is not None else self._whole._inv_call(value)
        dims = len(self._event_shape) + self._whole.domain.event_dim - self._whole.codomain.event_dim
        steps = sum_last(self._whole.log_abs_det_jacobian(x, value), dims - self._whole.domain.event_dim)
        return sum_last(self.base_dist.log_prob(x), dims - len(self.base_dist.event_shape)) - steps

    def _turned(self, probability: Tensor) -> Any:
        """The probability of less, where the transforms grow, else that of more."""
        sign = self._whole.sign
        return probability if isinstance(sign, (int, float)) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._turned(self.base_dist.cdf(self._whole._inv_call(value)))

    def icdf(self, value: Tensor) -> Tensor:
        return self._whole(self.base_dist.icdf(self._turned(value)))


class LogisticNormal(TransformedDistribution):
    """Probabilities (..., K + 1) of normal numbers (..., K), by breaking sticks."""

    arg_constraints = {"loc": real, "scale": positive}
    support = simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = (x if x.ndim else x.reshape(1) for x in as_tensors(loc, scale))
        base = Normal(loc, scale, validate_args)
        self._normal = base
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc = inner("_normal.loc")
    scale = inner("_normal.scale")


class LogNormal(TransformedDistribution):
    """The distribution of exp(x) for normal x."""

    arg_constraints = {"loc": real, "scale": positive}
    support = positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = inner("base_dist.loc")
    scale = inner("base_dist.scale")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        squared = self.scale.square()
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
